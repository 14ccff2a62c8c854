//! Renders a data frame from pandas' HTML as a table that fits the terminal: in its text form, pandas breaks frames
//! wider than 80 columns into blocks, and hides columns without naming them.
//! blocks, and hides columns without naming them.

use super::grid::{GridColumn, grid};

/// Maximum rows and columns of HTML to read.
const ROWS: usize = 200;
const COLUMNS: usize = 500;

/// The table in `html` in `width` columns, if it comes from pandas and has one header row.
pub(super) fn fitted(html: &str, width: usize) -> Option<String> {
    let (_, table) = html.split_once("class=\"dataframe\"")?;
    let (head, body) = table.split_once("<tbody>")?;
    let (body, after) = body.split_once("</tbody>")?;
    // Index names and multi-level headers are left to pandas.
    let [names] = <[Vec<String>; 1]>::try_from(rows(head)).ok()?;
    if html.contains("colspan") || html.contains("rowspan") {
        return None;
    }
    let mut rows = rows(body);
    rows.truncate(ROWS);
    let columns: Vec<GridColumn> = names
        .into_iter()
        .take(COLUMNS)
        .enumerate()
        .map(|(at, name)| {
            let cells: Vec<String> = rows
                .iter()
                .map(|row| row.get(at).cloned().unwrap_or_default())
                .collect();
            let is_number = cells
                .iter()
                .all(|cell| cell == "..." || cell.parse::<f64>().is_ok());
            GridColumn {
                name,
                is_number: is_number && !cells.is_empty(),
                cells,
            }
        })
        .collect();
    let mut text = grid(&columns, width);
    if let Some((size, _)) = after
        .split_once("<p>")
        .and_then(|(_, size)| size.split_once("</p>"))
    {
        text.push_str(&plain(size));
    }
    Some(text)
}

/// The cells of each row: the text in `td` and `th`, whatever their attributes.
fn rows(html: &str) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut cell: Option<String> = None;
    for piece in html.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
        match tag.split_ascii_whitespace().next().unwrap_or_default() {
            "tr" => rows.push(Vec::new()),
            "td" | "th" => cell = Some(text.to_owned()),
            "/td" | "/th" => {
                if let (Some(row), Some(text)) = (rows.last_mut(), cell.take()) {
                    row.push(plain(&text));
                }
            }
            _ => {
                if let Some(cell) = &mut cell {
                    cell.push_str(text);
                }
            }
        }
    }
    rows
}

/// Decodes entities, joins lines, and removes control characters.
fn plain(text: &str) -> String {
    let text = text
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&quot;", "\"")
        .replace("&#x27;", "'");
    let text = text.replace("&nbsp;", " ").replace("&amp;", "&");
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect::<String>()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HTML: &str = "<div><style scoped>x</style><table border=\"1\" class=\"dataframe\">\n<thead>\n<tr style=\"text-align: right;\">\n\
        <th></th>\n<th>city</th>\n<th>n &lt; 3</th>\n<th>note</th>\n</tr>\n</thead>\n<tbody>\n\
        <tr>\n<th>0</th>\n<td>Oslo</td>\n<td>1.5</td>\n<td>a\u{1b}[2Jb</td>\n</tr>\n\
        <tr>\n<th scope=\"row\">1</th>\n<td class=\"a b\"><a href=\"x\">Ro</a>me</td>\n<td>NaN</td>\n<td>x</td>\n</tr>\n</tbody>\n</table>\n<p>2 rows × 3 columns</p></div>";

    #[test]
    fn a_frame_fits_the_terminal() {
        assert_eq!(
            fitted(HTML, 80).unwrap(),
            "   city  n < 3  note\n0  Oslo    1.5  a [2Jb\n1  Rome    NaN  x\n2 rows × 3 columns"
        );
        assert_eq!(
            fitted(HTML, 16).unwrap(),
            "   city  n < 3\n0  Oslo    1.5\n1  Rome    NaN\nand 1 more columns: note\n2 rows × 3 columns"
        );
        for other in [
            "<table><tr><td>1</td></tr></table>",
            &HTML.replace("<th></th>", "<th colspan=\"2\"></th>"),
            "",
        ] {
            assert_eq!(fitted(other, 80), None, "{other}");
        }
    }
}
