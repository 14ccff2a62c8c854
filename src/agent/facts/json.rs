//! JSON and JSON lines: what their records have in common.
//!
//! Read as a stream into one [`Node`], never into a tree of values: what it takes in memory is bounded by the keys that are
//! kept, whatever the text is.

mod node;

use std::fmt::Write as _;

use super::input::{Extent, Packing, Text};
use super::names::{python_string, shown, shown_name, shown_path};
use super::sketch::Part;
use super::target::Source;
use super::{COLUMNS, is_secret, size};
use node::{Keys, Node, Reading};

/// Lines of JSON that are looked at.
const LINES: usize = 200_000;

/// What was read of a text.
struct Read {
    root: Node,
    /// Where reading ended before the text's end, in words.
    broken: Option<String>,
}

/// Describes a document.
pub(super) fn document(source: &Source<'_>, text: &Text) -> Vec<Part> {
    let trimmed = text.head.trim_start_matches('\u{feff}');
    let read = parse(trimmed);
    // Many tools call lines of JSON so.
    if read.broken.is_some() && has_lines(trimmed) {
        return vec![lines(source, text)];
    }
    let is_whole = text.extent == Extent::Whole;
    let state = match (&read.broken, is_whole) {
        (None, true) => String::new(),
        (_, false) => ", of which the beginning was read".to_owned(),
        (Some(broken), true) => format!(", broken {broken}"),
    };
    let root = &read.root;
    let what = |words: &str| {
        let shown = shown_path(source.target.inner);
        let packed = if source.packing == Packing::Gzip {
            " in gzip"
        } else {
            ""
        };
        format!(
            "File {shown}: {}{packed}, JSON{state}, {words}",
            size(source.bytes)
        )
    };
    let among = if read.broken.is_some() || !is_whole {
        " (first ones)"
    } else {
        ""
    };
    if let Some(records) = root.list.as_deref().filter(|it| it.keys.is_some()) {
        let count = records.objects;
        let flat = records.is_flat();
        let words = what(&format!(
            "a list of {count} records. {}",
            recipe(source, text, records, flat, &[])
        ));
        return vec![table(words, records, among)];
    }
    let Some(keys) = &root.keys else {
        let kind = root.in_words("", "");
        return vec![Part::line(what(&format!(
            "{kind}. {}",
            whole(source, text)
        )))];
    };
    if keys.get("type").is_some()
        && let Some(part) = geo(source, text, keys, &what, among)
    {
        return vec![part];
    }
    // Records below a key.
    let inner = keys.iter().find_map(|(name, node)| {
        let records = node.list.as_deref()?;
        (records.objects > 1).then_some((name, records))
    });
    if let Some((name, records)) = inner {
        let words = what(&format!(
            "an object; its key {} has {} records. {}",
            shown_name(name),
            records.objects,
            recipe(source, text, records, false, &[name])
        ));
        return vec![table(words, records, among), others(keys, name, among)];
    }
    let words = what(&format!("an object. {}", whole(source, text)));
    let mut part = table(words, root, among);
    part.noun = "keys";
    vec![part]
}

/// Describes JSON lines.
pub(super) fn lines(source: &Source<'_>, text: &Text) -> Part {
    let mut reading = Reading::new();
    let mut root = Node::default();
    let (mut rows, mut broken, mut read) = (0_u64, 0_u64, 0_u64);
    let trimmed = text.head.trim_start_matches('\u{feff}');
    let mut all = trimmed
        .lines()
        .filter(|line| !line.trim().is_empty())
        .peekable();
    while let Some(line) = all.next() {
        rows += 1;
        if rows > LINES as u64 {
            continue;
        }
        let is_cut = text.extent != Extent::Whole && all.peek().is_none();
        if is_cut {
            rows -= 1;
        } else if reading.read(&mut root, line).is_err() {
            broken += 1;
        } else {
            read += 1;
        }
    }
    let count = match text.extent {
        Extent::Whole => format!("{rows} rows"),
        Extent::First { rest: Some(rest) } => format!("about {} rows", rows + rest),
        Extent::First { rest: None } => format!("more than {rows} rows"),
    };
    let all = text.extent == Extent::Whole && read + broken == rows;
    let (count, among) = if all {
        (count, "")
    } else {
        (
            format!("{count}, here described by the first {read}"),
            " (first rows)",
        )
    };
    let shown = shown_path(source.target.inner);
    let mut words = format!("File {shown}: JSON lines, {count}. ");
    if broken > 0 {
        let _ = write!(words, "Lines that are no JSON: {broken}. ");
    }
    let python = |path: &str| {
        let path = source.open.as_deref().unwrap_or(path);
        let mut arguments = vec![path.to_owned(), "lines=True".to_owned()];
        arguments.extend(arguments_of(source, text));
        format!(
            "df = pd.read_json({}){}",
            arguments.join(", "),
            dates(&root)
        )
    };
    words.push_str(&source.target.language.recipe(
        source.target.inner,
        python,
        "df <- jsonlite::stream_in(file({}))",
    ));
    table(words, &root, among)
}

fn parse(text: &str) -> Read {
    let mut root = Node::default();
    let ended = Reading::new().read(&mut root, text);
    // The message of an error may quote the text.
    let broken = ended.err().map(|error| match error.classify() {
        serde_json::error::Category::Eof => "off before its end".to_owned(),
        _ => format!("at line {} column {}", error.line(), error.column()),
    });
    Read { root, broken }
}

fn has_lines(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let is_object = |line: Option<&str>| {
        line.is_some_and(|line| serde_json::from_str::<serde::de::IgnoredAny>(line).is_ok())
    };
    is_object(lines.next()) && is_object(lines.next())
}

/// The records of a node as a table.
fn table(head: String, node: &Node, among: &str) -> Part {
    let (mut lines, mut key, mut total) = (Vec::new(), String::new(), 0);
    for (name, child) in node.keys.iter().flat_map(Keys::iter) {
        total += 1;
        if lines.len() < COLUMNS {
            let absent = node.objects.saturating_sub(child.seen);
            let mut child_words = if is_secret(name) && child.keys.is_none() {
                child.column.describe(true, among)
            } else {
                child.in_words(among, name)
            };
            if absent > 0 {
                let _ = write!(child_words, "; {absent} without it");
            }
            lines.push(format!("- {}: {child_words}", shown_name(name)));
        }
        let _ = write!(key, "{name}\0{:?}\0", child.column.kind());
    }
    let more = node.keys.as_ref().map_or(0, |keys| keys.uncounted);
    Part {
        head,
        lines,
        total: total + more,
        noun: "columns",
        key,
        ..Part::default()
    }
}

/// What stands beside the records.
fn others(keys: &Keys, records: &str, among: &str) -> Part {
    let mut words = "Beside it: ".to_owned();
    let mut others: Vec<String> = keys
        .iter()
        .filter(|(name, _)| *name != records)
        .take(10)
        .map(|(name, node)| {
            let shown = shown_name(name);
            if is_secret(name) {
                format!("{shown} (not shown)")
            } else {
                format!("{shown} ({})", node.in_words(among, name))
            }
        })
        .collect();
    if others.is_empty() {
        others.push("nothing".to_owned());
    }
    words.push_str(&others.join(", "));
    Part::line(words)
}

/// A map's features (RFC 7946).
fn geo(
    source: &Source<'_>,
    text: &Text,
    keys: &Keys,
    what: &impl Fn(&str) -> String,
    among: &str,
) -> Option<Part> {
    let features = keys.get("features")?.list.as_deref()?;
    let feature = features.keys.as_ref()?;
    let kind = feature.get("geometry")?.keys.as_ref()?.get("type")?;
    let kinds = kind.in_words(among, "type");
    let python = recipe(source, text, features, false, &["features"]);
    let words = what(&format!(
        "GeoJSON with {} features; geometry {kinds}. geopandas reads it as a map. {python}",
        features.objects
    ));
    let properties = feature.get("properties")?;
    Some(table(words, properties, among))
}

/// How the records are loaded that stand under `keys`.
fn recipe(source: &Source<'_>, text: &Text, records: &Node, flat: bool, keys: &[&str]) -> String {
    let python = |path: &str| {
        if flat {
            let path = source.open.as_deref().unwrap_or(path);
            let mut arguments = vec![path.to_owned()];
            arguments.extend(arguments_of(source, text));
            return format!(
                "df = pd.read_json({}){}",
                arguments.join(", "),
                dates(records)
            );
        }
        let keys = keys.iter().fold(String::new(), |all, key| {
            all + "[" + &python_string(key) + "]"
        });
        format!(
            "import json; df = pd.json_normalize(json.load({}){keys})",
            opened(source, text, path)
        )
    };
    let r = match keys {
        [] => "df <- jsonlite::fromJSON({}, flatten=TRUE)".to_owned(),
        [key, ..] => format!(
            "df <- jsonlite::fromJSON({{}}, flatten=TRUE)[[{}]]",
            python_string(key)
        ),
    };
    (source.target.language).recipe(source.target.inner, python, &r)
}

fn whole(source: &Source<'_>, text: &Text) -> String {
    let python = |path: &str| {
        format!(
            "import json; data = json.load({})",
            opened(source, text, path)
        )
    };
    (source.target.language).recipe(
        source.target.inner,
        python,
        "data <- jsonlite::fromJSON({})",
    )
}

/// Python that opens a text.
fn opened(source: &Source<'_>, text: &Text, path: &str) -> String {
    let encoding = match text.encoding {
        "" => "utf-8",
        encoding => encoding,
    };
    match (&source.open, source.packing) {
        (Some(open), _) => open.clone(),
        (None, Packing::Gzip) => {
            format!("__import__('gzip').open({path}, 'rt', encoding='{encoding}')")
        }
        (None, Packing::Plain) => format!("open({path}, encoding='{encoding}')"),
    }
}

/// What `read_json` must be told: it would make numbers of digits in quotes.
fn arguments_of(source: &Source<'_>, text: &Text) -> Vec<String> {
    let mut arguments = text.arguments();
    arguments.extend(
        source
            .packed
            .map(|packed| format!("compression='{packed}'")),
    );
    arguments.push("dtype=False".to_owned());
    arguments
}

/// The line that makes dates of texts.
fn dates(records: &Node) -> String {
    let mut room = 1_200_usize;
    let dates: Vec<String> = (records.keys.iter().flat_map(Keys::iter))
        .filter(|(name, node)| node.is_date() && !is_secret(name))
        .map(|(name, _)| python_string(name))
        .take_while(|name| {
            let fits = name.len() <= room;
            room = room.saturating_sub(name.len() + 2);
            fits
        })
        .collect();
    match dates.as_slice() {
        [] => String::new(),
        [date] => format!("; df[{date}] = pd.to_datetime(df[{date}])"),
        dates => {
            let dates = dates.join(", ");
            format!("; df[[{dates}]] = df[[{dates}]].apply(pd.to_datetime)")
        }
    }
}

/// A text from the file, short and on one line.
fn short(text: &str) -> String {
    shown(&text.chars().take(40).collect::<String>())
}
