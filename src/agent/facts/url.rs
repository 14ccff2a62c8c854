//! Files at an address (`https://..`, `s3://BUCKET/KEY` of a public bucket). The kernel fetches their beginning, within its sandbox
//! and the network that this has; what came is described as a file is.

use std::path::Path;

use super::calls::Language;
use super::content::of_text;
use super::input::{self, Extent, Packing};
use super::kind::{self, FileKind};
use super::names::{python_string, shown};
use super::size;
use super::sketch::Part;
use super::target::{Source, Target};

/// The address that `name` is, if it is one: what is in a bucket has one of HTTPS.
pub fn of(name: &Path) -> Option<String> {
    let text = name.to_str()?;
    if text.starts_with("https://") || text.starts_with("http://") {
        return Some(text.to_owned());
    }
    let (bucket, key) = text.strip_prefix("s3://")?.split_once('/')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
    let is_right = !bucket.is_empty() && bucket.chars().all(is_name) && !key.is_empty();
    is_right.then(|| format!("https://{bucket}.s3.amazonaws.com/{key}"))
}

/// What is said of an address before anything of it was fetched.
pub fn named(address: &str) -> String {
    format!(
        "File {}: at an address; code in the kernel fetches it",
        shown(address)
    )
}

/// Describes what is at `address`, which has `bytes` bytes if that is known, by its beginning.
pub(super) fn describe(address: &str, head: &[u8], bytes: Option<u64>) -> Vec<Part> {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let name = path.rsplit('/').next().unwrap_or_default();
    let kind = kind::of(
        head.get(..head.len().min(8 << 10)).unwrap_or_default(),
        name,
    );
    let is_whole = bytes.is_some_and(|bytes| bytes <= head.len() as u64);
    let is_text = matches!(
        kind,
        FileKind::Table(_)
            | FileKind::Json
            | FileKind::JsonLines
            | FileKind::Notebook
            | FileKind::Text
    );
    let target = Target {
        path: Path::new(address),
        inner: Path::new(address),
        language: Language::Python,
    };
    if is_text && !head.is_empty() {
        // A line that is cut short does not count.
        let end = head
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(head.len(), |at| at + 1);
        let end = if is_whole { head.len() } else { end };
        let mut seen = head.get(..end).unwrap_or_default();
        let length = seen.len() as u64;
        if let Ok(mut text) = input::from(&mut seen, Some(length), 0) {
            if !is_whole {
                let all = bytes.map(|bytes| {
                    let lines = u128::from(text.lines) * u128::from(bytes);
                    u64::try_from(lines / u128::from(length.max(1))).unwrap_or(u64::MAX)
                });
                let rest = all.map(|all| all.saturating_sub(text.lines));
                text.lines = all.unwrap_or(text.lines);
                text.extent = Extent::First { rest };
            }
            let source = Source {
                target,
                bytes: bytes.unwrap_or(length),
                packing: Packing::Plain,
                packed: None,
                open: None,
            };
            let mut parts = of_text(&source, kind, &text);
            // What `open` takes is no address.
            for part in &mut parts {
                if let Some(at) = part.head.find("Load with ")
                    && !part.head.contains("Load with df = pd.read_")
                {
                    part.head.truncate(at);
                    part.head.push_str(&fetching(address, name));
                }
            }
            return parts;
        }
    }
    let extent = bytes.map_or_else(|| "of unknown size".to_owned(), size);
    let quoted = python_string(address);
    let recipe = match kind {
        FileKind::Parquet => format!("Load with df = pd.read_parquet({quoted})"),
        FileKind::Stata => format!("Load with df = pd.read_stata({quoted})"),
        FileKind::Gzip if name.to_ascii_lowercase().contains(".csv") => {
            format!("Load with df = pd.read_csv({quoted}, compression='gzip')")
        }
        FileKind::Zip | FileKind::OldExcel if name.to_ascii_lowercase().contains(".xls") => {
            format!("Load with df = pd.read_excel({quoted})")
        }
        _ => fetching(address, name),
    };
    vec![Part::line(format!(
        "File {}: {extent}, {}. {recipe}",
        shown(address),
        kind.what()
    ))]
}

/// A line that makes a file of it.
fn fetching(address: &str, name: &str) -> String {
    let plain: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'))
        .collect();
    let file = match plain.trim_start_matches('.') {
        "" => "download",
        name => name,
    };
    format!(
        "Load with import urllib.request; path, _ = urllib.request.urlretrieve({}, '{file}')",
        python_string(address)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_buckets() {
        for (name, address) in [
            (
                "https://a.example/x.csv?y=1",
                Some("https://a.example/x.csv?y=1"),
            ),
            (
                "s3://my-bucket/a/b.csv",
                Some("https://my-bucket.s3.amazonaws.com/a/b.csv"),
            ),
            ("s3://evil@host/x", None),
            ("s3://bucket", None),
            ("https.csv", None),
            ("file:///etc/passwd", None),
        ] {
            assert_eq!(of(Path::new(name)).as_deref(), address, "{name}");
        }
    }

    #[test]
    fn the_beginning_describes_it() {
        let words = |address: &str, head: &[u8], bytes| {
            super::super::sketch::write(&describe(address, head, bytes), 6_000)
        };
        assert_eq!(
            words(
                "https://a.example/r.csv?v=2",
                b"d;x\n2020-01-02;1,5\n2020-01-03;2,5\n2020",
                Some(3_500)
            ),
            "File https://a.example/r.csv?v=2: about 307 rows, here described by the first 1. Load with df = \
             pd.read_csv('https://a.example/r.csv?v=2', sep=';', decimal=',', parse_dates=['d'])\n\
             - d: date, 2020-01-02 to 2020-01-02 (first rows)\n- x: float, 1.5 to 1.5 (first rows)\n"
        );
        assert_eq!(
            words("https://a.example/o'b\n.json", b"{\"a\": 1}", Some(8))
                .lines()
                .next()
                .unwrap(),
            "File \"https://a.example/o'b\\n.json\": 8 bytes, JSON, an object. Load with import urllib.request; path, _ = \
             urllib.request.urlretrieve(\"https://a.example/o'b\\n.json\", 'ob.json')"
        );
        assert_eq!(
            words("https://a.example/t.parquet", b"PAR1....", None),
            "File https://a.example/t.parquet: of unknown size, Parquet. Load with df = pd.read_parquet('https://a.example/t.parquet')\n"
        );
    }
}
