//! Sends bytes: ranges, names, and MIME types that no browser executes.

use std::fs::File;
use std::io::{self, Read as _};
use std::ops::Range;

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, RANGE,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

/// Bytes of a file that is read before it is sent.
const SMALL: u64 = 1 << 20;
/// The policy of a picture: it is shown where it is embedded, but an SVG opened by itself is a document.
const PICTURE_POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; sandbox";

/// The requested part of `length` bytes: all, or one range. A request for several ranges gets everything (RFC 9110,
/// 14.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    Part(Range<u64>),
    /// The range is after the end.
    Nothing,
}

impl Wanted {
    pub(super) fn of(headers: &HeaderMap, length: u64) -> Self {
        let range = headers.get(RANGE).and_then(|it| it.to_str().ok());
        let range = range.and_then(|it| it.trim().strip_prefix("bytes="));
        let Some((first, last)) = range.and_then(|it| it.split_once('-')) else {
            return Self::All;
        };
        let part =
            match (first.trim(), last.trim()) {
                ("", last) => last.parse().ok().map(|last: u64| match last {
                    0 => length..length,
                    last => length.saturating_sub(last)..length,
                }),
                (first, "") => first.parse().ok().map(|first| first..length),
                (first, last) => first.parse().ok().zip(last.parse().ok()).and_then(
                    |(first, last): (u64, u64)| {
                        (first <= last).then(|| first..last.saturating_add(1).min(length))
                    },
                ),
            };
        match part {
            None => Self::All,
            Some(part) if part.start >= part.end => Self::Nothing,
            Some(part) => Self::Part(part),
        }
    }

    /// The byte range and the status of the answer; the error answer if the range is empty.
    pub(super) fn answer(self, length: u64) -> Result<(Range<u64>, StatusCode), Box<Response>> {
        match self {
            Self::All => Ok((0..length, StatusCode::OK)),
            Self::Part(part) => Ok((part, StatusCode::PARTIAL_CONTENT)),
            Self::Nothing => {
                let range = [(CONTENT_RANGE, format!("bytes */{length}"))];
                Err(Box::new(
                    (StatusCode::RANGE_NOT_SATISFIABLE, range).into_response(),
                ))
            }
        }
    }
}

/// All of a file of `length` bytes, if it is small. The answer then has the length that was read: the file may be written
/// at this moment.
pub(super) fn small(file: &File, length: u64) -> io::Result<Option<Vec<u8>>> {
    if length > SMALL {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    file.take(SMALL).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Sends `bytes`, or the requested range of them.
pub(super) fn bytes(bytes: Vec<u8>, mime: &str, name: &str, headers: &HeaderMap) -> Response {
    let length = bytes.len() as u64;
    match Wanted::of(headers, length).answer(length) {
        Err(response) => *response,
        Ok((part, status)) => {
            let (start, end) = (to_usize(part.start), to_usize(part.end));
            let body = Body::from(Bytes::from(bytes).slice(start..end));
            of(body, part, length, status, mime, name)
        }
    }
}

/// An answer whose `body` is the part `part` of `length` bytes.
pub(super) fn of(
    body: Body,
    part: Range<u64>,
    length: u64,
    status: StatusCode,
    mime: &str,
    name: &str,
) -> Response {
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.extend(head(mime, name));
    let mut add = |header, value: String| {
        if let Ok(value) = value.parse() {
            headers.insert(header, value);
        }
    };
    add(ACCEPT_RANGES, "bytes".to_owned());
    add(CONTENT_LENGTH, (part.end - part.start).to_string());
    if status == StatusCode::PARTIAL_CONTENT {
        let (first, last) = (part.start, part.end - 1);
        add(CONTENT_RANGE, format!("bytes {first}-{last}/{length}"));
    }
    response
}

/// The headers for type and name. Anything but a picture is saved, never opened.
pub(super) fn head(mime: &str, name: &str) -> HeaderMap {
    let is_picture = is_picture(mime);
    let mut headers = HeaderMap::new();
    let mut add = |header, value: &str| {
        if let Ok(value) = value.parse() {
            headers.insert(header, value);
        }
    };
    let mime = if is_mime(mime) {
        mime
    } else {
        "application/octet-stream"
    };
    add(CONTENT_TYPE, mime);
    let how = if is_picture { "inline" } else { "attachment" };
    let name = percent_encoded(name);
    add(
        CONTENT_DISPOSITION,
        &format!("{how}; filename*=UTF-8''{name}"),
    );
    if is_picture {
        add(CONTENT_SECURITY_POLICY, PICTURE_POLICY);
    }
    headers
}

fn is_picture(mime: &str) -> bool {
    matches!(
        mime,
        "image/png" | "image/jpeg" | "image/gif" | "image/webp" | "image/svg+xml"
    )
}

/// Whether it is valid as a type in a header.
fn is_mime(mime: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "!#$&-^_.+/ ;=".contains(c);
    mime.len() <= 128 && mime.matches('/').count() == 1 && mime.chars().all(is_plain)
}

/// The MIME type for a file name, for the types that pages request.
pub(super) fn mime_of(name: &str) -> &'static str {
    let ending = name
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref() {
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("gif") => "image/gif",
        Some("webp") => "image/webp",
        Some("svg") => "image/svg+xml",
        Some("csv") => "text/csv; charset=utf-8",
        Some("json" | "ipynb") => "application/json",
        Some("pdf") => "application/pdf",
        Some("txt" | "md" | "py" | "r" | "js" | "log" | "tsv") => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn percent_encoded(name: &str) -> String {
    use std::fmt::Write as _;
    name.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

fn to_usize(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_as_the_standard_has_them() {
        for (header, expected) in [
            ("", Wanted::All),
            ("bytes=0-", Wanted::Part(0..10)),
            ("bytes=2-4", Wanted::Part(2..5)),
            ("bytes=2-400", Wanted::Part(2..10)),
            ("bytes=-3", Wanted::Part(7..10)),
            ("bytes=-30", Wanted::Part(0..10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=10-12", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=4-2", Wanted::All),
            ("bytes=0-1,3-4", Wanted::All),
            ("lines=0-1", Wanted::All),
            ("bytes=x-y", Wanted::All),
            ("bytes=0-18446744073709551615", Wanted::Part(0..10)),
        ] {
            let mut headers = HeaderMap::new();
            if !header.is_empty() {
                headers.insert(RANGE, header.parse().unwrap());
            }
            assert_eq!(Wanted::of(&headers, 10), expected, "{header}");
        }
    }

    #[test]
    fn only_pictures_are_opened_in_place() {
        let head = |mime: &str| {
            let head = head(mime, "a \"ü\".x");
            let text = |name| {
                head.get(name)
                    .map(|it: &axum::http::HeaderValue| it.to_str().unwrap().to_owned())
            };
            (
                text(CONTENT_TYPE).unwrap(),
                text(CONTENT_DISPOSITION).unwrap(),
            )
        };
        let name = "filename*=UTF-8''a%20%22%C3%BC%22.x";
        assert_eq!(
            head("image/png"),
            ("image/png".to_owned(), format!("inline; {name}"))
        );
        assert_eq!(
            head("text/html"),
            ("text/html".to_owned(), format!("attachment; {name}"))
        );
        let unknown = "application/octet-stream".to_owned();
        assert_eq!(
            head("text/html\r\nx: y"),
            (unknown, format!("attachment; {name}"))
        );
    }
}
