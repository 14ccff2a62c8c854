//! A PDF document: how many pages it has, and its title where that stands in plain bytes.
//!
//! Nothing of it is rendered, and no text is extracted: only the objects that tell of pages are looked for, in what was
//! packed too (ISO 32000-1, 7.5.7 "Object streams").

use std::fs::File;
use std::io::{Read as _, Seek as _};

use super::names::{shown, shown_path};
use super::size;
use super::sketch::Part;
use super::target::{Found, Target};

/// Bytes of a document that are looked at.
const READ: u64 = 32 << 20;
/// Bytes that are unpacked, of one stream and of all.
const STREAM: u64 = 4 << 20;
const STREAMS: u64 = 32 << 20;
/// Characters of a title.
const TITLE: usize = 100;

/// Describes a document.
pub(super) fn describe(target: &Target<'_>, file: &mut File, bytes: u64) -> Found {
    file.rewind()?;
    let mut data = Vec::new();
    file.take(READ).read_to_end(&mut data)?;
    let is_whole = data.len() as u64 == bytes;
    let is_encrypted = find(&data, b"/Encrypt", 0).is_some();
    let mut pages = count(&data);
    let mut title = title_in(&data);
    let (mut at, mut left) = (0, STREAMS);
    while let Some(start) = find(&data, b"/ObjStm", at) {
        at = start + 1;
        let Some(stream) = find(&data, b"stream", start) else {
            break;
        };
        let body = data.get(stream + 6..).unwrap_or_default();
        let body = body
            .strip_prefix(b"\r\n")
            .or_else(|| body.strip_prefix(b"\n"))
            .unwrap_or(body);
        let mut unpacked = Vec::new();
        // What comes before an error counts.
        let _ = flate2::read::ZlibDecoder::new(body)
            .take(STREAM.min(left))
            .read_to_end(&mut unpacked);
        left = left.saturating_sub(unpacked.len() as u64);
        let more = count(&unpacked);
        pages = Pages {
            leaves: pages.leaves + more.leaves,
            told: pages.told.max(more.told),
        };
        title = title.or_else(|| title_in(&unpacked));
        if left == 0 {
            break;
        }
    }
    let shown_pages = match (pages.told, pages.leaves) {
        (Some(told), _) if told > 0 => format!("{told} pages as it says"),
        (_, 0) => "pages not counted".to_owned(),
        (_, leaves) if is_whole && left > 0 => format!("{leaves} pages"),
        (_, leaves) => format!("at least {leaves} pages"),
    };
    let title = match title {
        Some(title) if !is_encrypted => format!(", title {}", shown(&title)),
        _ => String::new(),
    };
    let locked = if is_encrypted { ", encrypted" } else { "" };
    let recipe = target.language.recipe(
        target.inner,
        |path| {
            format!("from pypdf import PdfReader; pages = [page.extract_text() for page in PdfReader({path}).pages]")
        },
        "pages <- pdftools::pdf_text({})",
    );
    let recipe = if recipe.is_empty() {
        recipe
    } else {
        format!(". {recipe}")
    };
    Ok(vec![Part::line(format!(
        "File {}: {}, PDF, {shown_pages}{title}{locked}{recipe}",
        shown_path(target.inner),
        size(bytes)
    ))])
}

#[derive(Debug, Default, PartialEq)]
struct Pages {
    /// Objects of pages.
    leaves: u64,
    /// The number that the tree of pages tells.
    told: Option<u64>,
}

fn count(data: &[u8]) -> Pages {
    let mut pages = Pages::default();
    let mut at = 0;
    while let Some(start) = find(data, b"/Type", at) {
        at = start + 5;
        let rest = skip_blanks(data.get(at..).unwrap_or_default());
        let Some(after) = rest.strip_prefix(b"/Page") else {
            continue;
        };
        if after.first() != Some(&b's') {
            pages.leaves += u64::from(!after.first().is_some_and(u8::is_ascii_alphabetic));
            continue;
        }
        // In the same dictionary, before or behind.
        let from = data.get(..start).unwrap_or_default();
        let from = (from.windows(2).rposition(|it| it == b"<<")).unwrap_or(start);
        let to = find(data, b">>", start).unwrap_or(data.len());
        let dictionary = data.get(from..to).unwrap_or_default();
        if let Some(count) = find(dictionary, b"/Count", 0) {
            let digits = skip_blanks(dictionary.get(count + 6..).unwrap_or_default());
            let digits: String = (digits.iter())
                .take_while(|byte| byte.is_ascii_digit())
                .map(|&byte| char::from(byte))
                .collect();
            pages.told = pages.told.max(digits.parse().ok());
        }
    }
    pages
}

/// The title, if it is a plain text in brackets.
fn title_in(data: &[u8]) -> Option<String> {
    let at = find(data, b"/Title", 0)?;
    let rest = skip_blanks(data.get(at + 6..)?).strip_prefix(b"(")?;
    let end = rest.iter().take(4 * TITLE).position(|&byte| byte == b')')?;
    let bytes = rest.get(..end)?;
    let title = match bytes.strip_prefix(b"\xfe\xff") {
        Some(wide) => encoding_rs::UTF_16BE.decode(wide).0,
        None => encoding_rs::WINDOWS_1252.decode(bytes).0,
    };
    let title: String = title.trim().chars().take(TITLE).collect();
    (!title.is_empty()).then_some(title)
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace())
        .count();
    bytes.get(blanks..).unwrap_or_default()
}

fn find(data: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    let rest = data.get(from..)?;
    let first = *wanted.first()?;
    let mut at = 0;
    loop {
        at += rest.get(at..)?.iter().position(|&byte| byte == first)?;
        if rest.get(at..)?.starts_with(wanted) {
            return Some(from + at);
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_counted_by_their_tree() {
        for (text, leaves, told) in [
            (
                &b"<< /Type /Pages /Kids [1 0 R] /Count 12 >> << /Type/Page >>"[..],
                1,
                Some(12),
            ),
            (b"<< /Count 3 /Type /Pages >>", 0, Some(3)),
            (
                b"<< /Type /Page /Parent 2 0 R >> << /Type /PageLabel >>",
                1,
                None,
            ),
            (b"", 0, None),
        ] {
            assert_eq!(count(text), Pages { leaves, told });
        }
        assert_eq!(title_in(b"/Title (A (b) c)").as_deref(), Some("A (b"));
        assert_eq!(title_in(b"/Title (unfinished").as_deref(), None);
    }
}
