//! Formats that are known by name, and how they are loaded; and files of which nothing is known.

use std::fmt::Write as _;

use super::names::{shown, shown_path};
use super::size;
use super::sketch::Part;
use super::target::Target;

/// A format that we do not look into.
#[derive(Debug, PartialEq)]
pub(super) struct Format {
    /// With its article.
    pub(super) name: &'static str,
    /// How it begins, after so many bytes; nothing if only its name tells.
    magic: &'static [&'static [u8]],
    offset: usize,
    extensions: &'static [&'static str],
    /// How Python loads it; `{}` is the path.
    python: &'static str,
    /// The same in R.
    r: &'static str,
    /// How the script calls it that reads it in the kernel's environment ([`super::inside`]); empty if nothing does.
    pub(super) inside: &'static str,
}

const NONE: Format = Format {
    name: "",
    magic: &[],
    offset: 0,
    extensions: &[],
    python: "",
    r: "",
    inside: "",
};

/// Those with a beginning of their own first.
const FORMATS: &[Format] = &[
    Format {
        name: "a NumPy array",
        magic: &[b"\x93NUMPY"],
        python: "import numpy as np; a = np.load({}, allow_pickle=False)",
        ..NONE
    },
    Format {
        name: "a DuckDB database",
        inside: "duckdb",
        magic: &[b"DUCK"],
        offset: 8,
        python: "import duckdb; con = duckdb.connect({}, read_only=True); con.sql('SHOW ALL TABLES')",
        r: "con <- DBI::dbConnect(duckdb::duckdb(), {}, read_only=TRUE)",
        ..NONE
    },
    Format {
        name: "SAS data",
        inside: "sas7bdat",
        magic: &[b"\xc2\xea\x81\x60\xb3\x14\x11\xcf\xbd\x92\x08\x00\x09\xc7\x31\x8c"],
        offset: 12,
        python: "df = pd.read_sas({}, format='sas7bdat', encoding='infer')",
        r: "df <- haven::read_sas({})",
        ..NONE
    },
    Format {
        name: "SAS transport data",
        inside: "xport",
        magic: &[b"HEADER RECORD*******LIBRARY HEADER"],
        python: "df = pd.read_sas({}, format='xport', encoding='latin-1')",
        r: "df <- haven::read_xpt({})",
        ..NONE
    },
    Format {
        name: "ORC",
        inside: "orc",
        magic: &[b"ORC"],
        python: "df = pd.read_orc({})",
        r: "df <- arrow::read_orc({})",
        ..NONE
    },
    Format {
        name: "Avro",
        inside: "avro",
        magic: &[b"Obj\x01"],
        python: "import polars as pl; df = pl.read_avro({}).to_pandas()",
        ..NONE
    },
    Format {
        name: "Feather of the first version",
        magic: &[b"FEA1"],
        python: "df = pd.read_feather({})",
        r: "df <- arrow::read_feather({})",
        ..NONE
    },
    Format {
        name: "NetCDF (HDF5)",
        inside: "hdf5",
        magic: &[b"\x89HDF\r\n\x1a\n"],
        extensions: &["nc", "nc4"],
        python: "import h5netcdf, xarray as xr; ds = xr.open_dataset({}, engine='h5netcdf')",
        r: "nc <- ncdf4::nc_open({})",
        ..NONE
    },
    Format {
        name: "HDF5",
        inside: "hdf5",
        magic: &[b"\x89HDF\r\n\x1a\n"],
        python: "import h5py; f = h5py.File({}, 'r'); list(f)",
        r: "rhdf5::h5ls({})",
        ..NONE
    },
    Format {
        name: "a TIFF picture",
        magic: &[b"II*\0", b"MM\0*"],
        python: "from PIL import Image; img = Image.open({})",
        ..NONE
    },
    Format {
        name: "a BMP picture",
        magic: &[b"BM"],
        extensions: &["bmp", "dib"],
        python: "from PIL import Image; img = Image.open({})",
        ..NONE
    },
    Format {
        name: "bzip2",
        inside: "packed",
        magic: &[b"BZh"],
        python: "df = pd.read_csv({}, compression='bz2')  # a table; else with bz2.open",
        r: "f <- bzfile({})",
        ..NONE
    },
    Format {
        name: "xz",
        inside: "packed",
        magic: &[b"\xfd7zXZ\0"],
        python: "df = pd.read_csv({}, compression='xz')  # a table; else with lzma.open",
        r: "f <- xzfile({})",
        ..NONE
    },
    Format {
        name: "Zstandard",
        inside: "packed",
        magic: &[b"\x28\xb5\x2f\xfd"],
        python: "import zstandard; df = pd.read_csv({}, compression='zstd')",
        ..NONE
    },
    Format {
        name: "a pickle",
        magic: &[b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05"],
        extensions: &["pkl", "pickle", "p"],
        python: "df = pd.read_pickle({}), which runs code that is in it: ask the user first",
        ..NONE
    },
    Format {
        name: "data of R",
        magic: &[b"RDX2", b"RDX3", b"X\n\0\0", b"A\n"],
        extensions: &["rdata", "rda", "rds"],
        r: "df <- readRDS({})",
        ..NONE
    },
    Format {
        name: "a program",
        magic: &[b"\x7fELF"],
        ..NONE
    },
    Format {
        name: "an archive (tar)",
        magic: &[b"ustar"],
        offset: 257,
        python: "import tarfile; t = tarfile.open({}); t.getnames()",
        ..NONE
    },
    Format {
        name: "Stata data",
        magic: &[b"\x71", b"\x72", b"\x73"],
        extensions: &["dta"],
        python: "df = pd.read_stata({})",
        r: "df <- haven::read_dta({})",
        ..NONE
    },
];

/// The format of a file that begins with `first` and whose name ends in `extension`.
pub(super) fn find(first: &[u8], extension: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| {
        let from = first.get(format.offset..).unwrap_or_default();
        format.magic.iter().any(|magic| from.starts_with(magic))
            && (format.extensions.is_empty() || format.extensions.contains(&extension))
    })
}

/// A file of a known format.
pub(super) fn describe(target: &Target<'_>, format: &Format, bytes: u64, first: &[u8]) -> Part {
    let mut words = format!(
        "File {}: {}, {}",
        shown_path(target.inner),
        size(bytes),
        format.name
    );
    if let Some(header) = numpy(first) {
        let _ = write!(words, ", {header}");
    }
    let recipe = target.language.recipe(
        target.inner,
        |path| format.python.replace("{}", path),
        format.r,
    );
    if !recipe.is_empty() {
        let _ = write!(words, ". {recipe}");
    }
    Part::line(words)
}

/// Shape and type of a NumPy array, as its header says them (NEP 1).
fn numpy(first: &[u8]) -> Option<String> {
    let rest = first.strip_prefix(b"\x93NUMPY")?;
    let (length, start): (usize, usize) = match rest.first()? {
        1 => (
            usize::from(u16::from_le_bytes(rest.get(2..4)?.try_into().ok()?)),
            4,
        ),
        _ => (
            usize::try_from(u32::from_le_bytes(rest.get(2..6)?.try_into().ok()?)).ok()?,
            6,
        ),
    };
    let header = rest.get(start..start.checked_add(length)?)?;
    let header: String = String::from_utf8_lossy(header)
        .trim()
        .chars()
        .take(200)
        .collect();
    Some(format!("header {}", shown(&header)))
}

/// A file of which only its first bytes can be told.
pub(super) fn unknown(target: &Target<'_>, bytes: u64, first: &[u8]) -> Part {
    let mut hex = String::new();
    for byte in first.iter().take(8) {
        let _ = write!(hex, " {byte:02x}");
    }
    Part::line(format!(
        "File {}: {}, of an unknown kind: it begins with the bytes{hex}",
        shown_path(target.inner),
        size(bytes)
    ))
}
