//! A notebook as a single HTML file: styles and pictures are embedded; nothing is loaded or run.
//!
//! The page's content security policy allows only inline styles and `data:` pictures, so that anything sanitising might
//! miss has no effect. Light and dark follow the reader's system. No script: folding uses `<details>`.

use std::fmt::Write as _;

use super::Options;
use super::cells::{self, Fate, Part, part};
use super::escape::escape;
use super::highlight::highlight;
use super::markdown::{self, Pictures};
use super::outputs::{self, thousands};
use crate::jupyter::nbformat::{Cell, Notebook};

const STYLE: &str = include_str!("page.css");
/// Lines of code shown before folding.
const LINES: usize = 80;

/// Renders the page; `name` is the notebook's name.
pub(super) fn page(
    notebook: &Notebook,
    name: &str,
    options: Options,
    pictures: &Pictures<'_>,
) -> String {
    let language = cells::language(notebook);
    let mut body = String::new();
    let mut plots = 0;
    for cell in &notebook.cells {
        one(cell, &language, options, &mut plots, pictures, &mut body);
    }
    let title = title(notebook, name);
    // A document with its own heading needs no other.
    let heading = if body.contains("<h1>") {
        format!("<p class=\"name\">{}</p>", escape(name))
    } else {
        format!("<h1 class=\"name\">{}</h1>", escape(name))
    };
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"Sponde {}\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
         <header>\n{heading}\n{}</header>\n<main>\n{body}</main>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        escape(&title),
        facts(notebook)
    )
}

/// The first heading, else the first question, else the name.
fn title(notebook: &Notebook, name: &str) -> String {
    let heading = notebook
        .cells
        .iter()
        .filter(|cell| part(cell) == Part::Text)
        .flat_map(|cell| cell.source.lines())
        .find_map(|line| line.strip_prefix("# "));
    let question = || {
        let first = notebook
            .cells
            .iter()
            .find(|cell| part(cell) == Part::Question)?;
        first.source.lines().next()
    };
    let title = heading.or_else(question).unwrap_or(name).trim();
    match title.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", title.get(..end).unwrap_or(title)),
        None => title.to_owned(),
    }
}

/// Model, kernel and tokens, in one line.
fn facts(notebook: &Notebook) -> String {
    let text = |object: &str, key: &str| {
        let value = notebook.metadata.get(object)?.get(key)?.as_str()?;
        Some(escape(value)).filter(|text| !text.is_empty())
    };
    let count = |key: &str| {
        let usage = notebook.metadata.get("sponde")?.get("usage")?;
        usize::try_from(usage.get(key)?.as_u64()?)
            .ok()
            .filter(|count| *count > 0)
    };
    let mut facts = Vec::new();
    facts.extend(text("sponde", "model").map(|model| format!("Model <b>{model}</b>")));
    let kernel = text("kernelspec", "display_name").or_else(|| text("kernelspec", "name"));
    facts.extend(kernel.map(|kernel| format!("Kernel <b>{kernel}</b>")));
    if let (Some(read), Some(written)) = (count("input_tokens"), count("output_tokens")) {
        facts.push(format!(
            "{} tokens read, {} written",
            thousands(read),
            thousands(written)
        ));
    }
    if facts.is_empty() {
        return String::new();
    }
    format!("<p class=\"facts\">{}</p>\n", facts.join(" · "))
}

fn one(
    cell: &Cell,
    language: &str,
    options: Options,
    plots: &mut usize,
    pictures: &Pictures<'_>,
    html: &mut String,
) {
    let text = || markdown::html(&cell.source, cell.attachments.as_ref(), pictures);
    match part(cell) {
        Part::Question => {
            let _ = writeln!(
                html,
                "<article class=\"say you\" aria-label=\"Question\">\n<p class=\"who\">You</p>\n<div class=\"text\">{}</div>\n</article>",
                text()
            );
        }
        Part::Answer => {
            let _ = writeln!(
                html,
                "<article class=\"say model\" aria-label=\"Answer\">\n<p class=\"who\">Model</p>\n<div class=\"text\">{}</div>\n</article>",
                text()
            );
        }
        Part::Text | Part::Raw if cell.source.trim().is_empty() => {}
        Part::Text => {
            let _ = writeln!(html, "<section class=\"text\">{}</section>", text());
        }
        Part::CutOff => {
            let _ = writeln!(
                html,
                "<article class=\"say model\" aria-label=\"Cut off\">\n<p class=\"who\">Model, cut off</p>\n<div class=\"text\">{}</div>\n</article>",
                text()
            );
        }
        Part::Note => folded(cells::note_title(cell), cells::note_text(cell), html),
        Part::Broken => folded(
            "A call of the model that could not be read",
            &cell.source,
            html,
        ),
        Part::Raw => {
            let _ = writeln!(html, "<pre class=\"raw\">\n{}</pre>", escape(&cell.source));
        }
        Part::Code(fate) => code(cell, fate, language, options, plots, pictures, html),
    }
}

fn folded(title: &str, text: &str, html: &mut String) {
    let _ = writeln!(
        html,
        "<details class=\"note\"><summary>{title}</summary>\n<pre>\n{}</pre></details>",
        escape(text)
    );
}

fn code(
    cell: &Cell,
    fate: Fate,
    language: &str,
    options: Options,
    plots: &mut usize,
    pictures: &Pictures<'_>,
    html: &mut String,
) {
    if cell.source.trim().is_empty() && cell.outputs().is_empty() {
        return;
    }
    let language = cells::language_of(cell, language);
    let (class, badge) = match fate {
        Fate::Ran => ("code", None),
        Fate::Failed => ("code failed", cells::text(cell, "status")),
        Fate::Declined => ("code left-out", Some("declined, not run")),
        Fate::NotRun => ("code left-out", Some("not run")),
    };
    let lines = cell.source.lines().count();
    let open = if lines <= LINES { " open" } else { "" };
    let long = match open {
        "" => format!(" <span class=\"quiet\">{} lines</span>", thousands(lines)),
        _ => String::new(),
    };
    let badge = badge.map_or_else(String::new, |badge| {
        format!(" <span class=\"badge\">{}</span>", escape(badge))
    });
    let edited = cells::text(cell, "original_source");
    let changed = match (edited, cells::text(cell, "role")) {
        (Some(_), _) => " <span class=\"badge plain\">edited by you</span>",
        (None, Some("user")) => " <span class=\"badge plain\">yours</span>",
        _ => "",
    };
    let time = time(cell).map_or_else(String::new, |time| {
        format!(" <span class=\"quiet\">{time}</span>")
    });
    let shown = escape(&capitalised(language));
    let _ = writeln!(
        html,
        "<article class=\"{class}\" aria-label=\"Code\">\n<details{open}><summary><span class=\"language\">{shown}</span>{badge}{changed}{long}{time}</summary>\n\
         <pre tabindex=\"0\" role=\"region\" aria-label=\"Code\">\n<code>{}</code></pre></details>",
        highlight(&cell.source, language)
    );
    if let Some(reason) = cells::text(cell, "reason") {
        let _ = writeln!(html, "<p class=\"remark\">{}</p>", escape(reason));
    }
    if let Some(original) = edited.filter(|_| !options.clean) {
        folded("What the model had written", original, html);
    }
    let outputs = outputs::html(cell.outputs(), plots, pictures);
    if !outputs.is_empty() {
        let _ = writeln!(html, "<div class=\"outputs\">\n{outputs}</div>");
    }
    html.push_str("</article>\n");
}

/// The language's usual capitalisation.
fn capitalised(language: &str) -> String {
    match language {
        "javascript" => return "JavaScript".to_owned(),
        "typescript" => return "TypeScript".to_owned(),
        "sql" => return "SQL".to_owned(),
        _ => {}
    }
    let mut chars = language.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_uppercase().collect::<String>() + chars.as_str()
    })
}

/// How long the code ran.
fn time(cell: &Cell) -> Option<String> {
    let at = |key: &str| {
        let text = cell.metadata.get("execution")?.get(key)?.as_str()?;
        text.parse::<jiff::Timestamp>().ok()
    };
    let start = at("iopub.execute_input").or_else(|| at("iopub.status.busy"))?;
    let end = at("shell.execute_reply").or_else(|| at("iopub.status.idle"))?;
    let millis = end.as_millisecond() - start.as_millisecond();
    Some(match millis {
        ..0 => return None,
        0..10_000 => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        10_000..60_000 => format!("{} s", millis / 1000),
        _ => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
    })
}
