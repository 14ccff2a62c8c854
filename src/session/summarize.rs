//! Outputs -> what a model gets to read: short text, and pictures for models that see.
//!
//! Text is capped at head and tail with a line that says how much is hidden. Colours are taken out. Of a traceback the
//! last frames and the message stay, because that is where the cause is. A data frame is its plain text, never HTML.

use std::fmt::Write as _;
use std::io::Cursor;

use bytes::Bytes;
use image::{GenericImageView as _, ImageFormat, ImageReader, Limits};
use serde_json::Value;

use super::outputs::floor_boundary;
use super::transcript::{CodeCell, CodeStatus};
use crate::jupyter::mime::{Audience, MimeBundle, RASTER_IMAGES, joined};
use crate::jupyter::nbformat::Output;
use crate::kernel::Verdict;
use crate::llm::types::Part;

/// How much a model gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of text of one cell's outputs.
    pub text: usize,
    /// Whether pictures are sent.
    pub vision: bool,
    /// For small models: no stderr, of an error only its line and its message.
    pub brief: bool,
}

/// Longest side of a picture that is sent, in pixels: beyond it the providers scale down themselves.
const LONGEST_SIDE: u32 = 1024;
/// Encoded bytes beyond which a picture is sent as JPEG.
const PICTURE_BYTES: usize = 1 << 20;
/// Pictures of one cell that are sent.
const PICTURES: usize = 4;
/// Lines of a traceback that are kept, counted from its end.
const TRACEBACK_LINES: usize = 15;

/// The answer to the call that wrote `cell`, and whether it failed.
pub fn result(cell: &CodeCell, budget: Budget) -> (Vec<Part>, bool) {
    let (mut parts, failed) = match &cell.status {
        CodeStatus::Finished(verdict) => (
            outputs(&cell.outputs.to_notebook(), budget),
            verdict_note(verdict, cell.language.as_deref()),
        ),
        CodeStatus::Declined(None) => (
            vec![],
            Some("The user declined to run this code.".to_owned()),
        ),
        CodeStatus::Declined(Some(words)) => (
            vec![],
            Some(format!(
                "The user declined to run this code and said: {words}"
            )),
        ),
        CodeStatus::NotRun(reason) => (vec![], Some(format!("Not run: {reason}"))),
        CodeStatus::Proposed => (vec![], Some("Not run yet.".to_owned())),
        CodeStatus::Running => (
            outputs(&cell.outputs.to_notebook(), budget),
            Some("The code still runs.".to_owned()),
        ),
    };
    let is_error = failed.is_some();
    parts.extend(cell.outputs.whole().for_model().map(Part::Text));
    parts.extend(failed.filter(|note| !note.is_empty()).map(Part::Text));
    if parts.is_empty() && !budget.brief {
        parts.push(Part::Text(
            "The code ran and printed nothing. Use print() to see values.".to_owned(),
        ));
    }
    parts.extend(cell.hint.clone().map(Part::Text));
    (parts, is_error)
}

/// `None` if all went well; the words may be empty when the outputs say it all.
fn verdict_note(verdict: &Verdict, language: Option<&str>) -> Option<String> {
    Some(match verdict {
        Verdict::Ok => return None,
        Verdict::Error { .. } => String::new(),
        Verdict::Interrupted => "The user interrupted the code. Variables are kept.".to_owned(),
        Verdict::TimedOut => {
            "The code ran too long and was interrupted. Variables are kept.".to_owned()
        }
        Verdict::Aborted => "Not run: the code before it failed.".to_owned(),
        Verdict::KernelDied(reason) => format!(
            "The {}kernel died ({reason}). It was restarted: all variables and imports are lost, files are kept.",
            language
                .map(|language| format!("{language} "))
                .unwrap_or_default()
        ),
    })
}

/// Outputs as parts: one text, then pictures.
pub fn outputs(outputs: &[Output], budget: Budget) -> Vec<Part> {
    let mut text = String::new();
    let mut pictures = Vec::new();
    for output in outputs {
        match output {
            Output::Stream { name, .. } if budget.brief && name == "stderr" => {}
            Output::Stream { text: more, .. } => push(&mut text, &plain(more)),
            Output::Error {
                ename,
                evalue,
                traceback,
                ..
            } if budget.brief => {
                push(&mut text, &brief_error(ename, evalue, traceback));
            }
            Output::Error {
                ename,
                evalue,
                traceback,
                ..
            } => {
                push(&mut text, &error_text(ename, evalue, traceback));
            }
            Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
                display(data, budget, &mut text, &mut pictures);
            }
            Output::Other(_) => push(&mut text, "[output of an unknown type]"),
        }
    }
    let text = text.trim_end();
    let mut parts = Vec::new();
    if !text.is_empty() {
        parts.push(Part::Text(head_and_tail(text, budget.text)));
    }
    parts.append(&mut pictures);
    parts
}

fn push(text: &mut String, more: &str) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(more);
}

fn display(data: &MimeBundle, budget: Budget, text: &mut String, pictures: &mut Vec<Part>) {
    if let Some(mime) = RASTER_IMAGES.into_iter().find(|mime| data.contains(mime)) {
        let picture = data
            .bytes(mime)
            .and_then(Result::ok)
            .and_then(|bytes| scale(&bytes));
        let size = picture
            .as_ref()
            .map_or_else(String::new, |(_, width, height)| {
                format!(", {width}x{height} pixels")
            });
        match picture {
            Some((part, ..)) if budget.vision && pictures.len() < PICTURES => {
                push(text, &format!("[plot shown to the user{size}]"));
                pictures.push(part);
            }
            _ if budget.brief => push(text, "[plot shown to the person]"),
            _ => push(
                text,
                &format!("[plot shown to the user{size}; you cannot see it]"),
            ),
        }
        return;
    }
    match data.richest_for(Audience::Model) {
        Some((mime, _)) if mime == "text/html" || mime == "image/svg+xml" => {
            push(text, &format!("[{mime} shown to the user]"));
        }
        Some((mime, Value::String(_) | Value::Array(_))) if mime.starts_with("text/") => {
            let shown = data.get(mime).and_then(joined).unwrap_or_default();
            if !names_an_object(&shown) {
                push(text, &plain(&shown));
            }
        }
        Some((mime, value)) => push(text, &json_note(mime, value)),
        None => {}
    }
}

/// What plotting calls return and nobody asked for: `[<matplotlib.lines.Line2D object at 0x...>]`, `Text(0.5, 1.0, ..)`.
fn names_an_object(text: &str) -> bool {
    let text = text.trim_start();
    [
        "[<matplotlib",
        "<matplotlib",
        "<Axes",
        "[<Axes",
        "<Figure",
        "Text(",
        "Axes(",
        "<BarContainer",
        "(array([",
        "array([<",
    ]
    .iter()
    .any(|start| text.starts_with(start))
}

/// The line of the cell that failed and the message.
fn brief_error(ename: &str, evalue: &str, traceback: &[String]) -> String {
    const MESSAGE: usize = 200;
    let whole = plain(&traceback.join("\n"));
    let in_cell = whole
        .split_once("Cell In[")
        .map(|(_, after)| after.split("\nFile ").next().unwrap_or(after));
    let line = in_cell.and_then(|frame| {
        let marked = frame.lines().find_map(|line| {
            line.strip_prefix('-')?
                .trim_start_matches('-')
                .strip_prefix("> ")
        })?;
        Some(
            marked
                .trim_start()
                .trim_start_matches(|c: char| c.is_ascii_digit())
                .trim()
                .to_owned(),
        )
    });
    let message = head_and_tail(plain(evalue).trim(), MESSAGE);
    let message = format!("{ename}: {message}");
    match line {
        Some(line) if !line.is_empty() => format!("line: {line}\n{message}"),
        _ => message,
    }
}

/// A chart or a JSON value in a line: its type, and its size rather than its data.
fn json_note(mime: &str, value: &Value) -> String {
    const SHORT: usize = 500;
    let json = value.to_string();
    if json.len() <= SHORT {
        format!("[{mime}] {json}")
    } else {
        format!("[{mime} of {} bytes shown to the user]", json.len())
    }
}

fn error_text(ename: &str, evalue: &str, traceback: &[String]) -> String {
    let whole = plain(&traceback.join("\n"));
    let lines: Vec<&str> = whole.lines().collect();
    let hidden = lines.len().saturating_sub(TRACEBACK_LINES);
    let mut text = String::new();
    if hidden > 0 {
        let _ = writeln!(text, "[{hidden} lines of the traceback hidden]");
    }
    text.push_str(
        lines
            .get(hidden..)
            .unwrap_or_default()
            .join("\n")
            .trim_end(),
    );
    let message = format!("{ename}: {evalue}");
    if !text.contains(evalue) || lines.is_empty() {
        push(&mut text, message.trim_start_matches(": "));
    }
    text
}

/// Text without ANSI sequences and other control characters.
pub fn plain(text: &str) -> String {
    let stripped = anstream::adapter::strip_str(text).to_string();
    stripped
        .chars()
        .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
        .collect()
}

/// `text` if it fits, else its head and its tail, cut at lines where there are any.
pub fn head_and_tail(text: &str, limit: usize) -> String {
    if text.len() <= limit {
        return text.to_owned();
    }
    let half = limit / 2;
    let head_end = floor_boundary(text, half);
    let head = text.get(..head_end).unwrap_or_default();
    let head = head
        .rfind('\n')
        .filter(|&at| at > half / 2)
        .map_or(head, |at| &head[..at]);
    let tail_start = floor_boundary(text, text.len() - half);
    let tail = text.get(tail_start..).unwrap_or_default();
    let tail = tail
        .find('\n')
        .filter(|&at| at < half / 2)
        .map_or(tail, |at| &tail[at + 1..]);
    let hidden = text
        .get(head.len()..text.len() - tail.len())
        .unwrap_or_default();
    format!(
        "{head}\n[{} bytes, {} lines hidden here; print less, or a part, to see them]\n{tail}",
        hidden.len(),
        hidden.lines().count()
    )
}

/// Decodes a picture within limits and scales it to what providers take. `None` if it is no picture.
fn scale(bytes: &[u8]) -> Option<(Part, u32, u32)> {
    let mut reader = ImageReader::new(Cursor::new(bytes))
        .with_guessed_format()
        .ok()?;
    let format = reader.format()?;
    // Against decompression bombs: pixels are bounded before anything is allocated.
    let mut limits = Limits::default();
    limits.max_image_width = Some(20_000);
    limits.max_image_height = Some(20_000);
    limits.max_alloc = Some(256 << 20);
    reader.limits(limits);
    let decoded = reader.decode().ok()?;
    let (width, height) = decoded.dimensions();
    let small = width.max(height) <= LONGEST_SIDE;
    if small && format == ImageFormat::Png && bytes.len() <= PICTURE_BYTES {
        let part = Part::Image {
            media_type: "image/png",
            data: Bytes::copy_from_slice(bytes),
        };
        return Some((part, width, height));
    }
    let scaled = if small {
        decoded
    } else {
        decoded.resize(
            LONGEST_SIDE,
            LONGEST_SIDE,
            image::imageops::FilterType::Triangle,
        )
    };
    let encode = |image: &image::DynamicImage, format| {
        let mut data = Vec::new();
        image
            .write_to(&mut Cursor::new(&mut data), format)
            .ok()
            .map(|()| data)
    };
    let png = encode(&scaled, ImageFormat::Png)?;
    let (media_type, data) = if png.len() <= PICTURE_BYTES {
        ("image/png", png)
    } else {
        // JPEG has no transparency.
        let opaque = image::DynamicImage::ImageRgb8(scaled.to_rgb8());
        ("image/jpeg", encode(&opaque, ImageFormat::Jpeg)?)
    };
    Some((
        Part::Image {
            media_type,
            data: data.into(),
        },
        width,
        height,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    const BLIND: Budget = Budget {
        text: 200,
        vision: false,
        brief: false,
    };
    const SEEING: Budget = Budget {
        text: 200,
        vision: true,
        brief: false,
    };

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut data = Vec::new();
        image::DynamicImage::new_rgb8(width, height)
            .write_to(&mut Cursor::new(&mut data), ImageFormat::Png)
            .unwrap();
        data
    }

    fn texts(outputs_: &[Output], budget: Budget) -> Vec<Part> {
        outputs(outputs_, budget)
    }

    #[test]
    fn tables_are_text_and_never_html() {
        let data = MimeBundle::text("   a\n0  1").with("text/html", "<table>..</table>");
        assert_eq!(
            texts(&[Output::result(Some(1), data, Map::new())], BLIND),
            [Part::Text("   a\n0  1".to_owned())]
        );
    }

    #[test]
    fn plots_are_sent_only_to_models_that_see() {
        let data = MimeBundle::png(&png(40, 30)).with("text/plain", "<Figure size 40x30>");
        let output = [
            Output::stream("stdout", "done"),
            Output::display(data, Map::new()),
        ];
        assert_eq!(
            texts(&output, BLIND),
            [Part::Text(
                "done\n[plot shown to the user, 40x30 pixels; you cannot see it]".to_owned()
            )]
        );
        assert_eq!(
            texts(&output, SEEING),
            [
                Part::Text("done\n[plot shown to the user, 40x30 pixels]".to_owned()),
                Part::Image {
                    media_type: "image/png",
                    data: png(40, 30).into()
                }
            ]
        );
    }

    #[test]
    fn large_pictures_are_scaled_down() {
        let (Part::Image { data, .. }, width, height) = scale(&png(3000, 1500)).unwrap() else {
            panic!("no picture");
        };
        assert_eq!((width, height), (3000, 1500));
        assert_eq!(
            image::load_from_memory(&data).unwrap().dimensions(),
            (1024, 512)
        );
        assert_eq!(scale(b"no picture"), None);
    }

    #[test]
    fn a_traceback_keeps_its_end() {
        let traceback: Vec<String> = (0..40)
            .map(|n| format!("\u{1b}[31mframe {n}\u{1b}[0m"))
            .collect();
        let text = error_text("KeyError", "'x'", &traceback);
        assert!(
            text.starts_with("[25 lines of the traceback hidden]\nframe 25\n"),
            "{text}"
        );
        assert!(text.ends_with("frame 39\nKeyError: 'x'"), "{text}");
        assert_eq!(error_text("", "1", &[]), "1");
    }

    #[test]
    fn a_small_model_gets_the_failing_line_and_the_message() {
        let traceback = [
            "\u{1b}[31m-----\u{1b}[0m",
            "KeyError      Traceback (most recent call last)",
            "File index.pyx:167, in get_loc\n----> 9 inner",
            "Cell In[2], line 5\n      4 df = 1\n----> \u{1b}[32m5\u{1b}[39m df['x'].mean()\n      6",
            "File frame.py:1, in f\n---> 7 other",
            "KeyError: 'x'",
        ]
        .map(str::to_owned);
        assert_eq!(
            brief_error("KeyError", "'x'", &traceback),
            "line: df['x'].mean()\nKeyError: 'x'"
        );
        assert_eq!(brief_error("E", "v", &[]), "E: v");
    }

    #[test]
    fn long_text_keeps_head_and_tail() {
        let text: String = (0..1000).fold(String::new(), |mut text, n| {
            let _ = writeln!(text, "line {n}");
            text
        });
        let short = head_and_tail(text.trim_end(), 200);
        assert!(
            short.starts_with("line 0\n") && short.ends_with("line 999"),
            "{short}"
        );
        assert!(short.contains(" lines hidden here"), "{short}");
        assert!(short.len() < 300);
        assert_eq!(
            head_and_tail("é".repeat(300).as_str(), 101)
                .matches('é')
                .count(),
            50
        );
    }

    #[test]
    fn charts_are_named_not_quoted() {
        let chart = json!({"data": "x".repeat(1000)});
        let data = MimeBundle::new().with("application/vnd.plotly.v1+json", chart);
        let [Part::Text(text)] = &texts(&[Output::display(data, Map::new())], BLIND)[..] else {
            panic!("not one text");
        };
        assert_eq!(
            text,
            "[application/vnd.plotly.v1+json of 1011 bytes shown to the user]"
        );
    }
}
