//! HTML -> compact text, for outputs without another representation: styled tables, model summaries, reports.
//!
//! Not a browser: tags are removed, scripts and styles with their content; blocks start a new line, and a table row is
//! one line with `|` between its cells. Any input gives text; broken HTML is not an error.

/// Maximum bytes of HTML read.
const MOST: usize = 1 << 20;
/// Maximum cells that one `colspan` or `rowspan` covers.
const SPAN: usize = 64;
/// Columns up to which spans are tracked.
const COLUMNS: usize = 1024;

/// The text of a piece of HTML; empty if there is none, for example if a script draws it.
pub(super) fn text(html: &str) -> String {
    let end = crate::session::outputs::floor_boundary(html, MOST);
    let mut rest = html.get(..end).unwrap_or_default();
    let mut page = Page::default();
    while let Some(open) = rest.find('<') {
        let (before, tag) = rest.split_at(open);
        page.text(before);
        rest = page.tag(tag);
    }
    page.text(rest);
    page.finish()
}

/// The text written so far.
#[derive(Debug, Default)]
struct Page {
    text: String,
    /// One per open table.
    tables: Vec<Table>,
    preformatted: usize,
    /// No `>` follows: searching for it after every `<` would be quadratic.
    no_more_tags: bool,
}

#[derive(Debug, Default)]
struct Table {
    row: Vec<String>,
    in_cell: bool,
    /// Cells of earlier rows that reach down: column and remaining rows.
    down: Vec<(usize, usize)>,
    /// The cell's rowspan and colspan.
    spans: (usize, usize),
}

impl Page {
    /// Processes the tag at the start of `rest` and returns what follows it.
    fn tag<'a>(&mut self, rest: &'a str) -> &'a str {
        if let Some(comment) = rest.strip_prefix("<!--") {
            return comment.split_once("-->").map_or("", |(_, after)| after);
        }
        let inside = rest.get(1..).unwrap_or_default();
        let is_tag = !self.no_more_tags
            && inside
                .starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?'));
        let end = if is_tag { end_of_tag(inside) } else { None };
        self.no_more_tags |= is_tag && end.is_none();
        let Some(end) = end else {
            // A literal `<`.
            self.text("<");
            return inside;
        };
        let (tag, after) = inside.split_at(end);
        let after = after.get(1..).unwrap_or_default();
        let closing = tag.starts_with('/');
        let name: String = tag
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect::<String>()
            .to_ascii_lowercase();
        match name.as_str() {
            "script" | "style" | "head" | "svg" | "metadata" | "template" | "noscript"
                if !closing =>
            {
                return skip(after, &name);
            }
            "td" | "th" => self.cell(closing, tag),
            "tr" => self.end_row(),
            "table" => self.table(closing),
            "pre" => {
                self.preformatted = if closing {
                    self.preformatted.saturating_sub(1)
                } else {
                    self.preformatted + 1
                };
                self.break_line();
            }
            "li" if !closing => {
                self.break_line();
                self.text("- ");
            }
            "br" | "p" | "div" | "li" | "ul" | "ol" | "dl" | "dt" | "dd" | "h1" | "h2" | "h3"
            | "h4" | "h5" | "h6" | "hr" | "thead" | "tbody" | "tfoot" | "caption" | "section"
            | "article" | "details" | "summary" | "blockquote" => self.break_line(),
            _ => {}
        }
        after
    }

    fn table(&mut self, closing: bool) {
        if closing {
            self.end_row();
            self.tables.pop();
            self.break_line();
        } else if self.tables.len() < SPAN {
            self.break_line();
            self.tables.push(Table::default());
        }
    }

    fn cell(&mut self, closing: bool, tag: &str) {
        let Some(table) = self.tables.last_mut() else {
            return;
        };
        if table.in_cell {
            table.end_cell();
        }
        if !closing {
            table.fill();
            table.spans = (span(tag, "rowspan"), span(tag, "colspan"));
            table.row.push(String::new());
            table.in_cell = true;
        }
    }

    fn end_row(&mut self) {
        let Some(table) = self.tables.last_mut() else {
            return;
        };
        if table.in_cell {
            table.end_cell();
        }
        // `<tr>` starts a row; only a row with cells is ended first.
        if table.row.is_empty() {
            return;
        }
        table.fill();
        let row = std::mem::take(&mut table.row);
        for (_, rows) in &mut table.down {
            *rows = rows.saturating_sub(1);
        }
        table.down.retain(|(_, rows)| *rows > 0);
        if row.iter().any(|cell| !cell.trim().is_empty()) {
            let cells: Vec<String> = row.iter().map(|cell| squeezed(cell)).collect();
            let line = cells.join(" | ");
            self.line(&format!("{}\n", line.trim_end()));
        }
    }

    /// Ends a line. The row of a nested table becomes part of the enclosing cell.
    fn line(&mut self, line: &str) {
        let outer = self.tables.len().checked_sub(2);
        let outer = outer
            .and_then(|outer| self.tables.get_mut(outer))
            .filter(|table| table.in_cell);
        if let Some(table) = outer {
            if let Some(cell) = table.row.last_mut() {
                cell.push_str(line.trim_end());
                cell.push_str("; ");
            }
        } else {
            if !self.text.is_empty() && !self.text.ends_with('\n') {
                self.text.push('\n');
            }
            self.text.push_str(line);
        }
    }

    fn break_line(&mut self) {
        match self.tables.last_mut() {
            Some(table) if table.in_cell => {
                if let Some(cell) = table.row.last_mut() {
                    cell.push(' ');
                }
            }
            Some(_) => {}
            None => {
                if !self.text.is_empty() && !self.text.ends_with('\n') {
                    self.text.push('\n');
                }
            }
        }
    }

    fn text(&mut self, raw: &str) {
        if raw.is_empty() {
            return;
        }
        let text = unescaped(raw);
        match self.tables.last_mut() {
            Some(table) if table.in_cell => {
                if let Some(cell) = table.row.last_mut() {
                    cell.push_str(&text);
                }
            }
            // White space between rows is dropped.
            Some(_) => {}
            None if self.preformatted > 0 => self.text.push_str(&text),
            None => {
                for c in text.chars() {
                    if !c.is_whitespace() {
                        self.text.push(c);
                    } else if !self.text.is_empty() && !self.text.ends_with([' ', '\n']) {
                        self.text.push(' ');
                    }
                }
            }
        }
    }

    fn finish(mut self) -> String {
        while !self.tables.is_empty() {
            self.table(true);
        }
        let lines: Vec<&str> = self.text.lines().map(str::trim_end).collect();
        let mut text = String::new();
        for line in lines {
            if !(line.is_empty() && (text.is_empty() || text.ends_with("\n\n"))) {
                text.push_str(line);
                text.push('\n');
            }
        }
        text.trim_end().to_owned()
    }
}

impl Table {
    fn end_cell(&mut self) {
        self.in_cell = false;
        let (rows, columns) = self.spans;
        let at = self.row.len().saturating_sub(1);
        for column in at..at + columns {
            if column >= COLUMNS {
                break;
            }
            if column > at {
                self.row.push(String::new());
            }
            if rows > 1 && self.down.len() < COLUMNS {
                self.down.push((column, rows));
            }
        }
    }

    /// Adds empty cells where a cell of an earlier row reaches down.
    fn fill(&mut self) {
        while self.row.len() < COLUMNS
            && self
                .down
                .iter()
                .any(|(column, _)| *column == self.row.len())
        {
            self.row.push(String::new());
        }
    }
}

/// The position of the closing `>`, ignoring quoted ones.
fn end_of_tag(inside: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in inside.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
    }
    // The quote is never closed.
    inside.find('>')
}

/// Skips an element whose content is not text; returns what follows it.
fn skip<'a>(after: &'a str, name: &str) -> &'a str {
    let mut rest = after;
    while let Some(at) = rest.find("</") {
        let inside = rest.get(at + 2..).unwrap_or_default();
        let is_it = inside
            .get(..name.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(name));
        if is_it {
            return inside.split_once('>').map_or("", |(_, after)| after);
        }
        rest = inside;
    }
    ""
}

fn span(tag: &str, attribute: &str) -> usize {
    let lower = tag.to_ascii_lowercase();
    lower
        .split_once(attribute)
        .and_then(|(_, after)| after.trim_start().strip_prefix('='))
        .map(|value| value.trim_start().trim_start_matches(['"', '\'']))
        .and_then(|value| {
            let digits: String = value.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<usize>().ok()
        })
        .unwrap_or(1)
        .clamp(1, SPAN)
}

fn squeezed(cell: &str) -> String {
    cell.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Replaces common entities.
fn unescaped(raw: &str) -> String {
    const NAMED: [(&str, &str); 17] = [
        ("amp", "&"),
        ("lt", "<"),
        ("gt", ">"),
        ("quot", "\""),
        ("apos", "'"),
        ("nbsp", " "),
        ("ndash", "–"),
        ("mdash", "—"),
        ("hellip", "…"),
        ("times", "×"),
        ("minus", "−"),
        ("plusmn", "±"),
        ("deg", "°"),
        ("micro", "µ"),
        ("euro", "€"),
        ("pound", "£"),
        ("middot", "·"),
    ];
    let mut text = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('&') {
        let (before, entity) = rest.split_at(at);
        text.push_str(before);
        let end = entity.bytes().take(12).position(|byte| byte == b';');
        let name = end.and_then(|end| entity.get(1..end)).unwrap_or_default();
        let number =
            name.strip_prefix('#')
                .and_then(|number| match number.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16).ok(),
                    None => number.parse().ok(),
                });
        let named = NAMED.iter().find(|(known, _)| *known == name);
        match (named, number.and_then(char::from_u32)) {
            (Some((_, meaning)), _) => text.push_str(meaning),
            (None, Some(c)) => text.push(c),
            (None, None) => {
                text.push('&');
                rest = entity.get(1..).unwrap_or_default();
                continue;
            }
        }
        rest = end
            .and_then(|end| entity.get(end + 1..))
            .unwrap_or_default();
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_rows_of_cells() {
        let styled = r#"<style type="text/css">#T_1 td { color: red; }</style>
            <table id="T_1"><thead><tr><th class="blank level0">&nbsp;</th><th>price &euro;</th><th>n</th></tr></thead>
            <tbody><tr><th id="T_1_level0" title="a > b">tea</th><td>1.50</td><td>3</td></tr>
            <tr><th>r&amp;b &#233;&#x1F600;</th><td></td><td>4</td></tr></tbody></table>"#;
        assert_eq!(
            text(styled),
            " | price € | n\ntea | 1.50 | 3\nr&b é😀 |  | 4"
        );
    }

    #[test]
    fn cells_that_reach_over_others_keep_the_columns() {
        let html = "<table><tr><th colspan=2>year</th><th>n</th></tr><tr><td rowspan='2'>2023</td><td>May<td>1</tr>\
                    <tr><td>June</td><td>2</td></tr></table>";
        assert_eq!(text(html), "year |  | n\n2023 | May | 1\n | June | 2");
    }

    #[test]
    fn words_are_lines_and_scripts_are_nothing() {
        for (html, expected) in [
            (
                "<h1>Report</h1><p>All is <b>well</b>,\n  really.</p><ul><li>one<li>two</ul>",
                "Report\nAll is well, really.\n- one\n- two",
            ),
            (
                "<div id=x></div><script>if (a<b) { document.write('<b>x</b>') }</script>",
                "",
            ),
            ("a < b <!-- <p>hidden</p> --> c", "a < b c"),
            ("<pre>  1\n  2</pre>", "  1\n  2"),
            (
                "<table><tr><td>a<table><tr><td>1</td><td>2</td></tr></table></td><td>b</td></tr></table>",
                "a 1 | 2; | b",
            ),
            ("<p title=\"never", "<p title=\"never"),
            ("&unknown; &#xZZ; &", "&unknown; &#xZZ; &"),
            ("<td>no table</td>", "no table"),
        ] {
            assert_eq!(text(html), expected, "{html}");
        }
    }

    #[test]
    fn hostile_html_ends() {
        for html in [
            "<table>".repeat(50_000),
            "<td rowspan=99999999 colspan=99999999>x".repeat(2_000),
            format!("<table><tr>{}", "<td rowspan=64 colspan=64>x".repeat(5_000)),
            "&".repeat(200_000),
            "<".repeat(200_000),
            "<a\"".repeat(200_000),
            "<a '>".repeat(100_000),
        ] {
            assert!(text(&html).len() < 2_000_000);
        }
    }
}
