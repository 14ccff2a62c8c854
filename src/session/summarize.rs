//! Outputs -> what the model reads: short text, and pictures for models with vision (docs/limits.md).
//!
//! Long text keeps its head and tail; a note names the hidden lines and, if the model has the tool, how to read them.
//! Colours are removed. A traceback keeps the person's own frames, the last frame and the message, because that is
//! where the cause is. A data frame is sent as its plain text, never HTML; a chart as a description, never its data.

mod chart;
mod html;
mod picture;
mod shape;
mod text;
mod traceback;

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::limits::OutputFolderPath;
use super::sent::SentResults;
use super::transcript::{CodeCell, CodeStatus};
use super::visual::Visual;
use crate::jupyter::mime::{Audience, IMAGE_SVG, MimeBundle, TEXT_HTML, TEXT_PLAIN, joined};
use crate::jupyter::nbformat::Output;
use crate::kernel::Verdict;
use crate::llm::types::Part;
pub use picture::{ImagePreparer, Seen, decoded, forget};
use text::Sheet;
pub use text::{Lines, Wanted, head_and_tail, lines, plain, read};

/// Maximum bytes of the description of a picture that is not sent.
const ALT: usize = 1000;

/// How much output a model gets, and what it can do.
#[derive(Debug, Clone, Copy)]
pub struct Budget<'a> {
    /// Bytes of text for one cell's outputs.
    pub text: usize,
    /// Prepares pictures for a model with vision.
    pub preparer: Option<&'a ImagePreparer>,
    /// For small models: no stderr, and of an error only its line and its message.
    pub brief: bool,
    /// Whether the model has the tool to read hidden output.
    pub reads: bool,
    /// Results that were sent before.
    pub said: Option<&'a SentResults>,
}

/// The tool result for `cell`, whose id is `id`, and whether it is an error.
pub fn result(id: &str, cell: &CodeCell, budget: Budget<'_>) -> (Vec<Part>, bool) {
    let outputs = |cell: &CodeCell| {
        let all = cell.outputs.to_notebook();
        Summary::of(&all, &cell.pictures, budget).parts(id, budget)
    };
    let (mut parts, failed) = match &cell.status {
        CodeStatus::Finished(verdict) => (
            outputs(cell),
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
        CodeStatus::Running => (outputs(cell), Some("The code still runs.".to_owned())),
    };
    let is_error = failed.is_some();
    let files = cell.outputs.whole().for_model();
    parts.extend(files.map(|line| {
        Part::Text(if budget.reads {
            format!("{line}\n[read_output with cell \"{id}\" reads them, stdout.txt unless another file is named]")
        } else {
            line
        })
    }));
    parts.extend(failed.filter(|note| !note.is_empty()).map(Part::Text));
    if parts.is_empty() && !budget.brief {
        parts.push(Part::Text(
            "The code ran and printed nothing. Use print() to see values.".to_owned(),
        ));
    }
    if let Some(files) = cell.files.as_ref().filter(|_| !budget.brief) {
        parts.push(Part::Text(files.for_model()));
    }
    parts.extend(cell.hint.clone().map(Part::Text));
    (parts, is_error)
}

/// Summarises outputs without their cell.
pub fn outputs(outputs: &[Output], budget: Budget<'_>) -> Vec<Part> {
    let budget = Budget {
        reads: false,
        ..budget
    };
    Summary::of(outputs, &[], budget).parts("", budget)
}

/// All text of a cell's outputs with whole tracebacks, numbered as [`result`] counts lines.
pub fn whole_text(cell: &CodeCell) -> String {
    let budget = Budget {
        text: usize::MAX,
        preparer: None,
        brief: false,
        reads: true,
        said: None,
    };
    let all = cell.outputs.to_notebook();
    Summary::of(&all, &cell.pictures, budget)
        .sheet
        .whole()
        .to_owned()
}

/// `None` if the code succeeded; the text may be empty when the outputs already explain the failure.
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

/// Outputs as text and pictures.
#[derive(Debug, Default)]
struct Summary {
    sheet: Sheet,
    /// Encoded pictures in order, for a model with vision.
    pictures: Vec<Vec<u8>>,
    /// Pictures so far, sent or not.
    count: usize,
    /// Outputs so far that are kept as files: pictures, charts, HTML.
    files: usize,
}

impl Summary {
    fn of(outputs: &[Output], places: &[Option<OutputFolderPath>], budget: Budget<'_>) -> Self {
        let mut summary = Self::default();
        for output in outputs {
            match output {
                Output::Stream { name, .. } if budget.brief && name == "stderr" => {}
                Output::Stream { text, .. } => summary.sheet.push(&plain(text)),
                Output::Error {
                    ename,
                    evalue,
                    traceback,
                    ..
                } if budget.brief => {
                    summary.sheet.push(&brief_error(ename, evalue, traceback));
                }
                Output::Error {
                    ename,
                    evalue,
                    traceback,
                    ..
                } => summary.error(ename, evalue, traceback),
                Output::DisplayData { data, metadata, .. }
                | Output::ExecuteResult { data, metadata, .. } => {
                    summary.display((data, metadata), places, budget);
                }
                Output::Other(_) => summary.sheet.push("[output of an unknown type]"),
            }
        }
        summary
    }

    /// One text part, then the pictures.
    fn parts(self, id: &str, budget: Budget<'_>) -> Vec<Part> {
        let text = self.sheet.shown(budget.text, budget.reads.then_some(id));
        let mut parts = Vec::new();
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        let Some(preparer) = budget.preparer else {
            return parts;
        };
        if self.pictures.len() <= picture::SINGLE.min(preparer.rules().most) {
            parts.extend(
                self.pictures
                    .iter()
                    .filter_map(|one| preparer.see(one))
                    .map(Part::from),
            );
            return parts;
        }
        let most = preparer.rules().most;
        for (index, sheet) in self.pictures.chunks(picture::SHEET).enumerate() {
            let (first, last) = (
                index * picture::SHEET + 1,
                index * picture::SHEET + sheet.len(),
            );
            if index >= most {
                let last = self.pictures.len();
                parts.push(Part::Text(format!(
                    "[plots {first} to {last} are not sent: there are too many]"
                )));
                break;
            }
            let sheet: Vec<&[u8]> = sheet.iter().map(Vec::as_slice).collect();
            if let Some(seen) = preparer.sheet(&sheet) {
                parts.push(Part::Text(format!(
                    "[plots {first} to {last} of this cell, made smaller, in rows from left to right:]"
                )));
                parts.push(seen.into());
            }
        }
        parts
    }

    fn error(&mut self, ename: &str, evalue: &str, traceback: &[String]) {
        let whole = plain(&traceback.join("\n"));
        let mut whole = whole.trim_end().to_owned();
        let evalue = plain(evalue);
        if whole.is_empty() || !whole.contains(evalue.trim()) {
            if !whole.is_empty() {
                whole.push('\n');
            }
            whole.push_str(format!("{ename}: {evalue}").trim_start_matches(": "));
        }
        let left_out = traceback::left_out(&whole);
        self.sheet
            .push_folded(&whole, &left_out, "parts of the traceback");
    }

    fn display(
        &mut self,
        (data, metadata): (&MimeBundle, &Map<String, Value>),
        places: &[Option<OutputFolderPath>],
        budget: Budget<'_>,
    ) {
        let chart = chart::of_bundle(data);
        let visual = Visual::of(data);
        let place = places.get(self.files).and_then(Option::as_ref);
        self.files += usize::from(visual.is_some());
        if let Some(Visual::Raster(mime)) = visual {
            let bytes = data.bytes(mime).and_then(Result::ok).unwrap_or_default();
            let alt = metadata.get(mime).and_then(|it| it.get("alt")?.as_str());
            self.picture(bytes, (data, alt), place, budget);
            if let Some(chart) = chart {
                self.sheet.push(&chart);
            }
            return;
        }
        let words = chart.or_else(|| visual.and_then(|it| words_of(it, data)));
        match (words, visual) {
            (Some(words), Some(visual)) => {
                self.sheet.push(&truly_shown(&words, visual, place));
            }
            (Some(words), None) => self.sheet.push(&words.replacen(SHOWN, "", 1)),
            (None, _) => self.text(data),
        }
    }

    fn picture(
        &mut self,
        bytes: Vec<u8>,
        (data, alt): (&MimeBundle, Option<&str>),
        place: Option<&OutputFolderPath>,
        budget: Budget<'_>,
    ) {
        self.count += 1;
        if budget.brief && budget.preparer.is_none() {
            self.sheet.push("[plot shown to the person]");
            return;
        }
        let size = imagesize(&bytes).map_or_else(String::new, |(width, height)| {
            format!(", {width}x{height} pixels")
        });
        let seen = budget
            .preparer
            .is_some_and(|preparer| preparer.see(&bytes).is_some());
        let mut note = format!("[plot {} shown to the user{size}", self.count);
        // The library's own description: `Figure size 640x480 with 2 Axes`.
        let words = data.text_of(TEXT_PLAIN).unwrap_or_default();
        let words = words.trim().trim_matches(['<', '>']);
        if !seen && words.contains(" with ") && words.len() < 100 && !words.contains('\n') {
            let _ = write!(note, ", {words}");
        }
        if let Some(place) = place {
            let _ = write!(note, ", file {}", place.for_code);
        }
        if !seen {
            note.push_str("; you cannot see it");
            // A library's alternative text has no length limit.
            if let Some(alt) = alt {
                let _ = write!(
                    note,
                    "; it shows {}",
                    plain(alt.get(..alt.floor_char_boundary(ALT)).unwrap_or(alt))
                );
            }
        }
        note.push(']');
        self.sheet.push(&note);
        if seen {
            self.pictures.push(bytes);
        }
    }

    fn text(&mut self, data: &MimeBundle) {
        match data.richest_for(Audience::Model) {
            // HTML that only loads scripts.
            Some(("text/html", html)) => {
                self.sheet
                    .push(&html::text(&joined(html).unwrap_or_default()));
            }
            Some((mime, Value::String(_) | Value::Array(_))) if mime.starts_with("text/") => {
                let shown = data.get(mime).and_then(joined).unwrap_or_default();
                if !names_an_object(&shown) {
                    self.sheet.push(&plain(&shown));
                }
            }
            Some((mime, value)) => self.sheet.push(&shape::json(mime, value)),
            None => {}
        }
    }
}

/// Describes a chart, a vector graphic or HTML for a person; `None` for a picture.
pub fn visual(visual: Visual<'_>, data: &MimeBundle) -> Option<String> {
    let words = chart::of_bundle(data).or_else(|| words_of(visual, data))?;
    Some(words.replacen(SHOWN, "", 1).replacen(NOT_DRAWN, "", 1))
}

/// Tells the model that the user sees the output.
const SHOWN: &str = " shown to the user";
/// Tells the model that it does not get to see a graphic.
const NOT_DRAWN: &str = "; it is not drawn for you";

fn words_of(visual: Visual<'_>, data: &MimeBundle) -> Option<String> {
    match visual {
        Visual::Svg => Some(shape::svg(&data.text_of(IMAGE_SVG)?)),
        Visual::Html => {
            let words = html::text(&data.text_of(TEXT_HTML)?);
            Some(if words.is_empty() {
                format!("[HTML{SHOWN}]")
            } else {
                words
            })
        }
        Visual::Raster(_) | Visual::Chart(..) => None,
    }
}

/// Corrects the description for a terminal, which does not draw the output: the person has a file.
fn truly_shown(words: &str, visual: Visual<'_>, place: Option<&OutputFolderPath>) -> String {
    let Some(place) = place else {
        return words.replacen(SHOWN, "", 1);
    };
    let shown = format!(" in a file that the user can open, {}", place.for_code);
    if visual == Visual::Html && !words.contains(SHOWN) {
        return format!("{words}\n[as HTML{shown}]");
    }
    words.replacen(SHOWN, &shown, 1)
}

/// Width and height in pixels, from the header alone.
fn imagesize(encoded: &[u8]) -> Option<(u32, u32)> {
    image::ImageReader::new(std::io::Cursor::new(encoded))
        .with_guessed_format()
        .ok()?
        .into_dimensions()
        .ok()
}

/// Whether the text is only the repr of what a plotting call returned: `[<matplotlib.lines.Line2D object at 0x...>]`,
/// `Text(0.5, 1.0, ..)`.
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

/// The failing line of the cell, and the message.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::types::PictureRules;
    use serde_json::{Map, json};

    const RULES: PictureRules = PictureRules {
        longest_side: 1024,
        bytes: 1 << 20,
        most: 8,
        tile: None,
    };

    const BLIND: Budget<'static> = Budget {
        text: 200,
        preparer: None,
        brief: false,
        reads: false,
        said: None,
    };

    fn png(width: u32, height: u32) -> Vec<u8> {
        let mut data = Vec::new();
        image::DynamicImage::new_rgb8(width, height)
            .write_to(
                &mut std::io::Cursor::new(&mut data),
                image::ImageFormat::Png,
            )
            .unwrap();
        data
    }

    fn texts(outputs: &[Output], budget: Budget<'_>) -> Vec<Part> {
        Summary::of(outputs, &[], budget).parts("ab12", budget)
    }

    fn said(outputs: &[Output]) -> String {
        let budget = Budget {
            text: 10_000,
            ..BLIND
        };
        match &texts(outputs, budget)[..] {
            [Part::Text(text)] => text.clone(),
            other => panic!("not one text: {other:?}"),
        }
    }

    fn display(data: MimeBundle) -> Output {
        Output::display(data, Map::new())
    }

    #[test]
    fn tables_are_text_and_never_html() {
        let html = "<table><tr><th></th><th>a</th></tr><tr><th>0</th><td>1</td></tr></table>";
        let both = MimeBundle::text("   a\n0  1").with("text/html", html);
        assert_eq!(
            texts(&[Output::result(Some(1), both, Map::new())], BLIND),
            [Part::Text("   a\n0  1".to_owned())]
        );
        let styled =
            MimeBundle::text("<pandas.io.formats.style.Styler at 0x7f>").with("text/html", html);
        assert_eq!(said(&[display(styled)]), " | a\n0 | 1");
        let drawn = MimeBundle::text("<IPython.core.display.HTML object>")
            .with("text/html", "<div id=x></div><script>draw()</script>");
        assert_eq!(said(&[display(drawn)]), "[HTML]");
    }

    #[test]
    fn a_chart_is_what_is_drawn_in_it() {
        let figure = json!({"data": [{"type": "bar", "y": [1, 2]}], "layout": {}});
        let chart = MimeBundle::text("Figure({'data': [{'type': 'bar', 'y': [1, 2]}]})")
            .with("text/html", "<div>x</div>")
            .with("application/vnd.plotly.v1+json", figure);
        assert_eq!(
            said(&[display(chart)]),
            "[Plotly figure; bar, y: 2 from 1 to 2]"
        );
    }

    #[test]
    fn plots_are_sent_only_to_models_that_see() {
        let data =
            MimeBundle::png(&png(40, 30)).with("text/plain", "<Figure size 40x30 with 2 Axes>");
        let output = [Output::stream("stdout", "done"), display(data)];
        assert_eq!(
            texts(&output, BLIND),
            [Part::Text(
                "done\n[plot 1 shown to the user, 40x30 pixels, Figure size 40x30 with 2 Axes; you cannot see it]"
                    .to_owned()
            )]
        );
        let preparer = ImagePreparer::new(RULES);
        let seeing = Budget {
            preparer: Some(&preparer),
            ..BLIND
        };
        let place = OutputFolderPath {
            beside_notebook: "s_files/plot-1.png".to_owned(),
            for_code: "out/s_files/plot-1.png".to_owned(),
        };
        assert_eq!(
            Summary::of(&output, &[Some(place)], seeing).parts("ab12", seeing),
            [
                Part::Text(
                    "done\n[plot 1 shown to the user, 40x30 pixels, file out/s_files/plot-1.png]"
                        .to_owned()
                ),
                Part::Image {
                    media_type: "image/png",
                    data: png(40, 30).into()
                }
            ]
        );
    }

    #[test]
    fn all_plots_of_a_cell_are_sent() {
        let preparer = ImagePreparer::new(RULES);
        let seeing = Budget {
            text: 10_000,
            preparer: Some(&preparer),
            ..BLIND
        };
        let kinds = |count: usize| -> Vec<String> {
            let outputs = vec![display(MimeBundle::png(&png(400, 300))); count];
            texts(&outputs, seeing)
                .into_iter()
                .map(|part| match part {
                    Part::Text(text) => text.lines().last().unwrap_or_default().to_owned(),
                    Part::Image { data, .. } => {
                        let image = image::load_from_memory(&data).unwrap();
                        format!("{}x{}", image.width(), image.height())
                    }
                })
                .collect()
        };
        let single = kinds(6);
        assert_eq!(single[0], "[plot 6 shown to the user, 400x300 pixels]");
        assert_eq!(single[1..], ["400x300"; 6]);
        assert_eq!(
            kinds(20)[1..],
            [
                "[plots 1 to 9 of this cell, made smaller, in rows from left to right:]",
                "1024x772",
                "[plots 10 to 18 of this cell, made smaller, in rows from left to right:]",
                "1024x772",
                "[plots 19 to 20 of this cell, made smaller, in rows from left to right:]",
                "680x252",
            ]
        );
        let many = kinds(8 * 9 + 1);
        assert_eq!(many.len(), 1 + 2 * 8 + 1);
        assert_eq!(
            many[17],
            "[plots 73 to 73 are not sent: there are too many]"
        );
    }

    #[test]
    fn a_traceback_keeps_its_end() {
        let traceback: Vec<String> = (0..40)
            .map(|n| format!("\u{1b}[31mframe {n}\u{1b}[0m"))
            .collect();
        let error = [Output::error("KeyError", "'x'", traceback.clone())];
        let text = said(&error);
        assert!(
            text.starts_with("[21 lines hidden: parts of the traceback]\nframe 21\n"),
            "{text}"
        );
        assert!(text.ends_with("frame 39\nKeyError: 'x'"), "{text}");
        let reads = Budget {
            text: 10_000,
            reads: true,
            ..BLIND
        };
        let [Part::Text(text)] = &texts(&error, reads)[..] else {
            panic!("not one text");
        };
        assert!(
            text.starts_with("[21 lines of 41 are hidden here, parts of the traceback, "),
            "{text}"
        );
        // The error is reported however much was printed before it.
        let flood = "x\n".repeat(100_000);
        let outputs = [Output::stream("stdout", flood), error[0].clone()];
        for budget in [
            BLIND,
            Budget {
                reads: true,
                ..BLIND
            },
        ] {
            let [Part::Text(text)] = &texts(&outputs, budget)[..] else {
                panic!("not one text");
            };
            assert!(text.ends_with("frame 39\nKeyError: 'x'"), "{text}");
            assert!(text.len() < 700, "{text}");
        }
        assert_eq!(said(&[Output::error("", "1", vec![])]), "1");
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
}
