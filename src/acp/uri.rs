//! Files as `file:` URIs.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The URI of a file; `path` is absolute.
pub(super) fn of_file(path: &Path) -> String {
    let mut uri = String::from("file://");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(*byte));
            }
            other => {
                let _ = write!(uri, "%{other:02X}");
            }
        }
    }
    uri
}

/// The local file of a URI.
pub(super) fn to_file(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").unwrap_or(rest);
    // A fragment names lines of the file.
    let path = path.split(['#', '?']).next()?;
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let hex = [rest.next()?, rest.next()?];
            let hex = std::str::from_utf8(&hex).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    let path = String::from_utf8(bytes).ok()?;
    (!path.contains('\0')).then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_an_address_and_an_address_a_file() {
        let path = Path::new("/home/ada/it's 100%/räin #1.csv");
        let uri = of_file(path);
        assert_eq!(uri, "file:///home/ada/it%27s%20100%25/r%C3%A4in%20%231.csv");
        assert_eq!(to_file(&uri).as_deref(), Some(path));
        let found = |uri: &str| to_file(uri).map(|path| path.display().to_string());
        assert_eq!(found("file:///a/b.py#L3:7"), Some("/a/b.py".to_owned()));
        assert_eq!(found("file://localhost/a"), Some("/a".to_owned()));
        for none in [
            "https://a/b",
            "file://host/a",
            "file:///a%0",
            "file:///a%zz",
            "file:///%00",
            "a",
        ] {
            assert_eq!(found(none), None, "{none}");
        }
    }
}
