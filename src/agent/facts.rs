//! What the model is told about the files it may need: names, sizes, and the columns of tables.
//!
//! Read here, without a kernel, so that it costs milliseconds and no variables. Bounded: of a large table the first
//! rows are read and the facts say so.

mod libraries;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::kernel::KernelSource;

/// Bytes of a table that are looked at.
const TABLE_BYTES: u64 = 32 << 20;
/// Columns that are described.
const COLUMNS: usize = 60;
/// Files of a directory that are listed.
const LISTED: usize = 50;
/// Values that decide a column's type.
const TYPED: usize = 200;
/// Distinct texts of a column that are named.
const NAMED: usize = 12;

/// What tables call a missing value.
const EMPTY: [&str; 7] = ["", "NA", "N/A", "NaN", "nan", "null", "None"];

/// Facts about `files`, as seen from the kernel's directory `cwd`.
///
/// # Errors
/// With the path: a file that was named and cannot be read.
pub fn files(files: &[&Path], cwd: &Path) -> Result<String, (String, io::Error)> {
    let mut facts = String::new();
    for file in files {
        let shown = file.strip_prefix(cwd).unwrap_or(file).display().to_string();
        let described = describe(file, &shown).map_err(|error| (shown, error))?;
        facts.push_str(&described);
    }
    Ok(facts.trim_end().to_owned())
}

/// Where the work is done and with what: the directory, as seen from `home`, and the kernels, the main one first, with
/// the libraries of its environment. No absolute path of the person's home is in it.
pub fn workspace(cwd: &Path, home: Option<&Path>, kernels: &[&KernelSource]) -> String {
    let shown = match home.and_then(|home| cwd.strip_prefix(home).ok()) {
        Some(inner) if inner.as_os_str().is_empty() => "~".to_owned(),
        Some(inner) => format!("~/{}", inner.display()),
        None => cwd.display().to_string(),
    };
    let mut text = format!("Working directory: {shown}");
    for (at, kernel) in kernels.iter().enumerate() {
        let name = if kernel.spec.display_name.is_empty() {
            &kernel.name
        } else {
            &kernel.spec.display_name
        };
        let heading = if at == 0 { "Kernel" } else { "Also" };
        let _ = write!(text, "\n{heading}: {name}");
        // A kernel may be called like its language.
        if !name.eq_ignore_ascii_case(&kernel.spec.language) {
            let _ = write!(text, ", {}", kernel.spec.language);
        }
        let libraries = libraries::of(kernel);
        if !libraries.is_empty() {
            let _ = write!(text, ", with {libraries}");
        }
    }
    text
}

/// Tables in a directory that are few enough to be described although nobody named them; for models on this machine
/// only, for it tells values.
pub fn tables(cwd: &Path) -> Vec<PathBuf> {
    const FEW: usize = 3;
    let mut tables: Vec<PathBuf> = std::fs::read_dir(cwd)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let extension = path
                .extension()
                .and_then(|e| e.to_str())
                .unwrap_or_default();
            matches!(extension, "csv" | "tsv") && path.is_file()
        })
        .collect();
    tables.sort();
    if tables.len() > FEW {
        tables.clear();
    }
    tables
}

/// The names and sizes of what is in `cwd`; `None` if there is nothing to tell.
pub fn directory(cwd: &Path) -> Option<String> {
    let mut names: Vec<(String, u64)> = std::fs::read_dir(cwd)
        .ok()?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let metadata = entry.metadata().ok()?;
            let name = entry.file_name().into_string().ok()?;
            (metadata.is_file() && !name.starts_with('.')).then_some((name, metadata.len()))
        })
        .collect();
    if names.is_empty() {
        return None;
    }
    names.sort();
    let more = names.len().saturating_sub(LISTED);
    names.truncate(LISTED);
    let mut text = "Files in the working directory:\n".to_owned();
    for (name, bytes) in names {
        let _ = writeln!(text, "- {name} ({})", size(bytes));
    }
    if more > 0 {
        let _ = writeln!(text, "- and {more} more");
    }
    Some(text.trim_end().to_owned())
}

fn describe(path: &Path, shown: &str) -> io::Result<String> {
    let metadata = std::fs::metadata(path)?;
    if metadata.is_dir() {
        return Ok(format!("Directory {shown}\n"));
    }
    if !metadata.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ));
    }
    let extension = path
        .extension()
        .and_then(|e| e.to_str())
        .unwrap_or_default();
    let delimiter = match extension.to_ascii_lowercase().as_str() {
        "csv" => b',',
        "tsv" | "tab" => b'\t',
        _ => {
            // Opened, so that a file which cannot be read is an error now and not in the model's first cell.
            std::fs::File::open(path)?;
            return Ok(format!("File {shown}: {}\n", size(metadata.len())));
        }
    };
    let mut bytes = Vec::new();
    std::fs::File::open(path)?
        .take(TABLE_BYTES)
        .read_to_end(&mut bytes)?;
    let whole = metadata.len() <= TABLE_BYTES;
    let text = String::from_utf8_lossy(&bytes);
    Ok(table(&text, shown, delimiter, whole).unwrap_or_else(|| {
        format!(
            "File {shown}: {}, not a table with a header\n",
            size(metadata.len())
        )
    }))
}

/// Describes a table with a header, or `None` if it is none.
fn table(text: &str, shown: &str, delimiter: u8, whole: bool) -> Option<String> {
    // A semicolon is what spreadsheets write where the comma is the decimal mark.
    let first_line = text.lines().next()?;
    let delimiter =
        if delimiter == b',' && first_line.matches(';').count() > first_line.matches(',').count() {
            b';'
        } else {
            delimiter
        };
    let mut reader = csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .flexible(true)
        .from_reader(text.as_bytes());
    let header: Vec<String> = reader.headers().ok()?.iter().map(str::to_owned).collect();
    if header.len() < 2 && header.first().is_none_or(|name| name.trim().is_empty()) {
        return None;
    }
    let mut columns: Vec<Column> = header.iter().map(|_| Column::default()).collect();
    let mut rows = 0_usize;
    for record in reader.records() {
        // A row that cannot be read is the kernel's to report.
        let Ok(record) = record else { continue };
        rows += 1;
        for (column, value) in columns.iter_mut().zip(record.iter()) {
            column.take(value);
        }
    }
    let mut described = Vec::new();
    let mut dates = Vec::new();
    for (name, column) in header.iter().zip(&columns).take(COLUMNS) {
        let (kind, words) = column.describe(is_secret(name));
        if kind == Kind::Date {
            dates.push(python_string(name));
        }
        described.push(format!("- {name}: {words}"));
    }
    let mut arguments = python_string(shown);
    if delimiter != b',' {
        let _ = write!(
            arguments,
            ", sep={}",
            python_string(&char::from(delimiter).to_string())
        );
    }
    if !dates.is_empty() {
        let _ = write!(arguments, ", parse_dates=[{}]", dates.join(", "));
    }
    let rows = if whole {
        format!("{rows} rows")
    } else {
        format!("more than {rows} rows")
    };
    let mut text = format!("File {shown}: {rows}. Load with df = pd.read_csv({arguments})\n");
    for line in described {
        let _ = writeln!(text, "{line}");
    }
    if header.len() > COLUMNS {
        let _ = writeln!(text, "- and {} more columns", header.len() - COLUMNS);
    }
    Some(text)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Empty,
    Integer,
    Float,
    Date,
    Text,
}

#[derive(Debug, Default)]
struct Column {
    kind: Option<Kind>,
    seen: usize,
    missing: usize,
    range: Option<(f64, f64)>,
    first: String,
    least: String,
    greatest: String,
    distinct: BTreeSet<String>,
    many: bool,
}

impl Column {
    fn take(&mut self, value: &str) {
        let value = value.trim();
        if EMPTY.contains(&value) {
            self.missing += 1;
            return;
        }
        self.seen += 1;
        let kind = if self.seen <= TYPED || self.kind != Some(Kind::Text) {
            kind_of(value)
        } else {
            Kind::Text
        };
        self.kind = Some(match (self.kind, kind) {
            (None, kind) => kind,
            (Some(Kind::Integer), Kind::Float) | (Some(Kind::Float), Kind::Integer) => Kind::Float,
            (Some(before), kind) if before == kind => kind,
            _ => Kind::Text,
        });
        if let Ok(number) = value.parse::<f64>() {
            let (low, high) = self.range.unwrap_or((number, number));
            self.range = Some((low.min(number), high.max(number)));
        }
        if self.first.is_empty() {
            value.clone_into(&mut self.first);
            value.clone_into(&mut self.least);
        }
        if value < self.least.as_str() {
            value.clone_into(&mut self.least);
        }
        if value > self.greatest.as_str() {
            value.clone_into(&mut self.greatest);
        }
        if self.distinct.len() < 1000 {
            self.distinct.insert(value.to_owned());
        } else {
            self.many = true;
        }
    }

    /// Without values if they are `secret`.
    fn describe(&self, secret: bool) -> (Kind, String) {
        let kind = self.kind.unwrap_or(Kind::Empty);
        if secret && kind != Kind::Empty {
            return (
                Kind::Text,
                format!("{} values, not shown", self.distinct.len()),
            );
        }
        let mut words = match (kind, self.range) {
            (Kind::Integer, Some((low, high))) => format!("int, {low} to {high}"),
            (Kind::Float, Some((low, high))) => format!("float, {low} to {high}"),
            (Kind::Date, _) if is_iso_date(&self.least) => {
                format!("date, {} to {}", self.least, self.greatest)
            }
            (Kind::Date, _) => format!("date, e.g. {}", self.first),
            (Kind::Empty, _) => "empty".to_owned(),
            (Kind::Text | Kind::Integer | Kind::Float, _) => self.describe_text(),
        };
        if self.missing > 0 && kind != Kind::Empty {
            let _ = write!(words, "; {} missing", self.missing);
        }
        (kind, words)
    }

    fn describe_text(&self) -> String {
        let short = self.distinct.iter().map(String::len).sum::<usize>() < 160;
        if self.distinct.len() <= NAMED && short {
            let values: Vec<&str> = self.distinct.iter().map(String::as_str).collect();
            return format!("text, {} values: {}", values.len(), values.join(", "));
        }
        let first: String = self.first.chars().take(40).collect();
        let more = if self.many { "more than " } else { "" };
        format!("text, {more}{} values, e.g. {first:?}", self.distinct.len())
    }
}

/// Whether the name of a column or a variable says that its values are not for others.
pub(super) fn is_secret(name: &str) -> bool {
    const WORDS: [&str; 11] = [
        "password",
        "passwd",
        "passphrase",
        "pw",
        "pwd",
        "secret",
        "token",
        "apikey",
        "credential",
        "credentials",
        "pin",
    ];
    let name = name.to_ascii_lowercase();
    name.contains("api_key")
        || name.contains("private_key")
        || name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| WORDS.contains(&word))
}

/// In single quotes: a small model that writes JSON forgets to escape double ones.
fn python_string(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\t', "\\t");
    if escaped.contains('\'') {
        format!("\"{}\"", escaped.replace('"', "\\\""))
    } else {
        format!("'{escaped}'")
    }
}

fn kind_of(value: &str) -> Kind {
    if value.parse::<i64>().is_ok() {
        Kind::Integer
    } else if value.parse::<f64>().is_ok() {
        Kind::Float
    } else if is_iso_date(value) || is_written_date(value) {
        Kind::Date
    } else {
        Kind::Text
    }
}

/// `YYYY-MM-DD`, with a time or without: what sorts as text and parses without a format.
fn is_iso_date(value: &str) -> bool {
    let digits = |range: std::ops::Range<usize>| {
        value
            .get(range)
            .is_some_and(|part| part.bytes().all(|b| b.is_ascii_digit()))
    };
    let separators = [4, 7].map(|at| value.as_bytes().get(at).copied());
    digits(0..4)
        && digits(5..7)
        && digits(8..10)
        && (separators == [Some(b'-'); 2] || separators == [Some(b'/'); 2])
        && value
            .as_bytes()
            .get(10)
            .is_none_or(|b| matches!(b, b'T' | b' '))
}

/// `D/D/YYYY`, `Mon D YYYY`, `D Mon YYYY`, with English months, short or long.
fn is_written_date(value: &str) -> bool {
    const MONTHS: [&str; 12] = [
        "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
    ];
    let day =
        |part: &str| part.len() <= 2 && part.parse::<u8>().is_ok_and(|n| (1..=31).contains(&n));
    let year = |part: &str| part.len() == 4 && part.parse::<u16>().is_ok();
    let month = |part: &str| {
        part.get(..3)
            .is_some_and(|start| MONTHS.contains(&start.to_lowercase().as_str()))
    };
    let parts: Vec<&str> = value
        .split(['/', ' '])
        .filter(|part| !part.is_empty())
        .collect();
    match parts[..] {
        [a, b, c] if value.contains('/') => day(a) && day(b) && year(c),
        [a, b, c] => {
            year(c) && ((month(a) && day(b.trim_end_matches(','))) || (day(a) && month(b)))
        }
        _ => false,
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{} GB", bytes / 1_000_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_described_by_its_columns() {
        let text = "day,city,rain,n,code\n2020-01-02,Oslo,0.5,1,a-1\n2020-01-01,\"Rome, IT\",2,7,b-2\n2021-05-01,Oslo,NA,3,c-3\n";
        assert_eq!(
            table(text, "w.csv", b',', true).unwrap(),
            "File w.csv: 3 rows. Load with df = pd.read_csv('w.csv', parse_dates=['day'])\n\
             - day: date, 2020-01-01 to 2021-05-01\n\
             - city: text, 2 values: Oslo, Rome, IT\n\
             - rain: float, 0.5 to 2; 1 missing\n\
             - n: int, 1 to 7\n\
             - code: text, 3 values: a-1, b-2, c-3\n"
        );
    }

    #[test]
    fn semicolons_and_odd_rows_are_understood() {
        let text = "a;b\n1;x\n2\n3;y;z\n";
        assert_eq!(
            table(text, "s.csv", b',', false).unwrap(),
            "File s.csv: more than 3 rows. Load with df = pd.read_csv('s.csv', sep=';')\n\
             - a: int, 1 to 3\n- b: text, 2 values: x, y\n"
        );
        assert_eq!(table("", "e.csv", b',', true), None);
    }

    #[test]
    fn dates_are_known_by_their_form() {
        for (value, kind) in [
            ("2020-01-02", Kind::Date),
            ("2020-01-02T03:04:05Z", Kind::Date),
            ("1/31/2020", Kind::Date),
            ("Jan 5, 2020", Kind::Date),
            ("5 March 2020", Kind::Date),
            ("2020", Kind::Integer),
            ("1.5e3", Kind::Float),
            ("May be", Kind::Text),
            ("1/2", Kind::Text),
        ] {
            assert_eq!(kind_of(value), kind, "{value}");
        }
        assert_eq!(python_string("a'b"), "\"a'b\"");
    }

    #[test]
    fn values_that_are_secrets_are_not_told() {
        let text = "user,api_key,token,tokens\nada,sk-hunter2,abc,7\n";
        assert_eq!(
            table(text, "u.csv", b',', true).unwrap(),
            "File u.csv: 1 rows. Load with df = pd.read_csv('u.csv')\n\
             - user: text, 1 values: ada\n\
             - api_key: 1 values, not shown\n\
             - token: 1 values, not shown\n\
             - tokens: int, 7 to 7\n"
        );
    }

    #[test]
    fn a_workspace_is_a_place_and_its_kernels() {
        let spec = |language: &str| {
            let text = format!(
                r#"{{"argv": ["/nowhere/bin/x", "{{connection_file}}"], "display_name": "The {language}", "language": "{language}"}}"#
            );
            KernelSource {
                name: language.to_owned(),
                spec: serde_json::from_str(&text).unwrap(),
                resource_dir: PathBuf::new(),
                prefix: None,
            }
        };
        let mut named_like_it = spec("R");
        "R".clone_into(&mut named_like_it.spec.display_name);
        let words = workspace(Path::new("/"), None, &[&named_like_it]);
        assert!(words.contains("Kernel: R"), "{words}");
        assert!(!words.contains("R, R"), "{words}");
        let home = Path::new("/home/ada");
        assert_eq!(
            workspace(
                Path::new("/home/ada/weather"),
                Some(home),
                &[&spec("python"), &spec("bash")]
            ),
            "Working directory: ~/weather\nKernel: The python, python\nAlso: The bash, bash"
        );
        assert_eq!(workspace(home, Some(home), &[]), "Working directory: ~");
        assert_eq!(
            workspace(Path::new("/data"), Some(home), &[]),
            "Working directory: /data"
        );
    }

    #[test]
    fn a_few_tables_are_found() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["b.csv", "a.tsv", "c.txt"] {
            std::fs::write(dir.path().join(name), "x,y\n").unwrap();
        }
        assert_eq!(
            tables(dir.path()),
            [dir.path().join("a.tsv"), dir.path().join("b.csv")]
        );
        for name in ["d.csv", "e.csv"] {
            std::fs::write(dir.path().join(name), "x,y\n").unwrap();
        }
        assert_eq!(tables(dir.path()), Vec::<PathBuf>::new());
    }

    #[test]
    fn a_directory_lists_its_files() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(directory(dir.path()), None);
        std::fs::write(dir.path().join("b.csv"), "x,y\n1,2\n").unwrap();
        std::fs::write(dir.path().join("a.bin"), vec![0; 2500]).unwrap();
        std::fs::write(dir.path().join(".hidden"), "").unwrap();
        assert_eq!(
            directory(dir.path()).unwrap(),
            "Files in the working directory:\n- a.bin (2 kB)\n- b.csv (8 bytes)"
        );
        let missing = dir.path().join("none.csv");
        assert_eq!(files(&[&missing], dir.path()).unwrap_err().0, "none.csv");
    }
}
