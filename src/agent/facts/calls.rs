//! The line of code that loads a file, in the language of the kernel.
//!
//! It holds all that was found out, so that code which is copied as it stands loads what the facts describe.

use std::fmt::Write as _;
use std::path::Path;

use super::column::{Column, ColumnKind, DateForm, Numerals};
use super::input::Text;
use super::layout::{Extra, Layout};
use super::names::{python_path, python_string, r_path, r_string};
use super::{COLUMNS, is_secret};

/// Bytes of arguments that name columns: with more of them a line is not copied, but read.
const NAMED: usize = 1_200;

/// The language that files are loaded in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// With pandas.
    Python,
    /// With base R where that can.
    R,
    /// Another; it is told what is special about the file.
    Other,
}

impl Language {
    /// That of a kernel, by the name its kernelspec gives it.
    pub fn of(name: &str) -> Self {
        match name.to_ascii_lowercase().as_str() {
            "python" => Self::Python,
            "r" => Self::R,
            _ => Self::Other,
        }
    }

    /// The sentence that says how to load; nothing for other languages.
    pub(super) fn recipe(self, path: &Path, python: impl Fn(&str) -> String, r: &str) -> String {
        let call = match self {
            Self::Python => python(&python_path(path)),
            Self::R => r.replace("{}", &r_path(path)),
            Self::Other => String::new(),
        };
        if call.is_empty() {
            call
        } else {
            format!("Load with {call}")
        }
    }
}

/// What a line that loads a table of text is made of.
pub(super) struct Load<'a> {
    pub(super) path: &'a Path,
    /// Python that opens it, if that is not the path.
    pub(super) source: Option<&'a str>,
    pub(super) text: &'a Text,
    pub(super) packed: Option<&'static str>,
    pub(super) layout: &'a Layout,
    pub(super) names: &'a [String],
    pub(super) columns: &'a [Column],
    pub(super) too_long: u64,
}

/// How to load a table of text.
pub(super) fn load(language: Language, load: &Load<'_>) -> String {
    match language {
        Language::Python => format!("Load with df = pd.read_csv({})", python(load).join(", ")),
        Language::R if load.source.is_none() => {
            format!("Load with df <- read.csv({})", r(load).join(", "))
        }
        Language::R | Language::Other => words(load),
    }
}

/// What `read_csv` must be told to read this table.
fn python(load: &Load<'_>) -> Vec<String> {
    let layout = load.layout;
    let path = || python_path(load.path);
    let mut arguments = vec![load.source.map_or_else(path, str::to_owned)];
    arguments.extend(load.text.arguments());
    let mut say = |argument: String| arguments.push(argument);
    if let Some(packed) = load.packed {
        say(format!("compression='{packed}'"));
    }
    if layout.delimiter != b',' {
        let delimiter = char::from(layout.delimiter).to_string();
        say(format!("sep={}", python_string(&delimiter)));
    }
    if layout.skipped > 0 {
        say(format!("skiprows={}", layout.skipped));
    }
    if layout.no_header {
        say("header=None".to_owned());
    }
    if let Some(mark) = layout.comment {
        say(format!("comment='{mark}'"));
    }
    if layout.blanks {
        say("skipinitialspace=True".to_owned());
    }
    if layout.extra == Extra::Last {
        say("index_col=False".to_owned());
    }
    if load.too_long > 0 {
        say("on_bad_lines='skip'".to_owned());
    }
    for argument in layout.numerals.arguments() {
        say((*argument).to_owned());
    }
    let key = |at: usize, name: &str| {
        if layout.no_header {
            at.to_string()
        } else {
            python_string(name)
        }
    };
    let all = || {
        let columns = load.names.iter().zip(load.columns);
        columns.take(COLUMNS).enumerate()
    };
    let texts = within(
        all()
            .filter(|(_, (_, column))| column.needs_text())
            .map(|(at, (name, _))| format!("{}: str", key(at, name))),
    );
    if !texts.is_empty() {
        say(format!("dtype={{{}}}", texts.join(", ")));
    }
    let dates: Vec<(String, Option<&str>)> = all()
        .filter(|(_, (name, column))| {
            matches!(column.kind(), ColumnKind::Date(_)) && !is_secret(name)
        })
        .map(|(at, (name, column))| (key(at, name), column.day_first()))
        .collect();
    let names = within(dates.iter().map(|(name, _)| name.clone()));
    if !names.is_empty() {
        let dates = dates.get(..names.len()).unwrap_or_default();
        say(format!("parse_dates=[{}]", names.join(", ")));
        let formats: Vec<String> = (dates.iter())
            .filter_map(|(name, format)| Some(format!("{name}: '{}'", (*format)?)))
            .collect();
        // `dayfirst` would turn the others, even 2020-01-02.
        if formats.len() == dates.len() {
            say("dayfirst=True".to_owned());
        } else if !formats.is_empty() {
            say(format!("date_format={{{}}}", formats.join(", ")));
        }
    }
    arguments
}

/// The first of these that are not too long together.
fn within(all: impl Iterator<Item = String>) -> Vec<String> {
    let mut left = NAMED;
    all.take_while(|it| {
        let fits = it.len() <= left;
        left = left.saturating_sub(it.len() + 2);
        fits
    })
    .collect()
}

/// What `read.csv` must be told; `file` decompresses by itself.
fn r(load: &Load<'_>) -> Vec<String> {
    let layout = load.layout;
    let mut arguments = vec![r_path(load.path)];
    let mut say = |argument: String| arguments.push(argument);
    match load.text.encoding {
        "" => {}
        "utf-8-sig" => say("fileEncoding='UTF-8-BOM'".to_owned()),
        "latin-1" => say("fileEncoding='latin1'".to_owned()),
        encoding => say(format!("fileEncoding='{}'", encoding.replace('_', "-"))),
    }
    if layout.delimiter != b',' {
        let delimiter = char::from(layout.delimiter).to_string();
        say(format!("sep={}", r_string(&delimiter)));
    }
    if layout.skipped > 0 {
        say(format!("skip={}", layout.skipped));
    }
    if layout.no_header {
        say("header=FALSE".to_owned());
    }
    if let Some(mark) = layout.comment {
        say(format!("comment.char='{mark}'"));
    }
    if layout.blanks {
        say("strip.white=TRUE".to_owned());
    }
    if matches!(layout.numerals, Numerals::Comma | Numerals::PointThousands) {
        say("dec=','".to_owned());
    }
    if !layout.no_header {
        say("check.names=FALSE".to_owned());
    }
    let classes = within(
        (load.names.iter().zip(load.columns))
            .take(COLUMNS)
            .enumerate()
            .filter_map(|(at, (name, column))| {
                let class = match column.kind() {
                    ColumnKind::Date(DateForm::Iso(10)) => "Date",
                    _ if column.needs_text() => "character",
                    _ => return None,
                };
                let name = if layout.no_header {
                    r_string(&format!("V{}", at + 1))
                } else {
                    r_string(name)
                };
                Some(format!("{name}='{class}'"))
            }),
    );
    if !classes.is_empty() {
        say(format!("colClasses=c({})", classes.join(", ")));
    }
    arguments
}

/// What is special about a table, for languages that we have no line for.
fn words(load: &Load<'_>) -> String {
    let layout = load.layout;
    let mut words = format!(
        "Columns are parted by {:?}",
        char::from(layout.delimiter).to_string()
    );
    let mut say = |more: String| {
        let _ = write!(words, ", {more}");
    };
    if !load.text.encoding.is_empty() {
        say(format!("the encoding is {}", load.text.encoding));
    }
    if layout.skipped > 0 {
        say(format!("lines before the header: {}", layout.skipped));
    }
    if layout.no_header {
        say("there is no header".to_owned());
    }
    if let Some(mark) = layout.comment {
        say(format!("lines that begin with {mark} are comments"));
    }
    match layout.numerals {
        Numerals::Point => {}
        Numerals::CommaThousands => say("numbers are written 1,234.5".to_owned()),
        Numerals::Comma => say("numbers are written 1234,5".to_owned()),
        Numerals::PointThousands => say("numbers are written 1.234,5".to_owned()),
    }
    words + "."
}
