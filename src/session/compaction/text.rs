//! Assembles the text of a compaction.

use std::fmt::Write as _;

use super::super::summarize::head_and_tail;
use super::super::transcript::{Author, Cell, CellKind, CodeStatus};
use crate::kernel::Variable;

/// The parts of a summary. Empty ones are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts<'a> {
    /// What the model was told before the first question.
    pub workspace: &'a str,
    /// What the person said ([`person_words`]).
    pub words: &'a PersonWords,
    /// What was done.
    pub work: &'a str,
    /// Files that the code wrote.
    pub files: &'a [String],
    /// What the kernels hold.
    pub inventory: &'a str,
}

/// A summary as the model reads it.
pub fn summary(parts: &Parts<'_>) -> String {
    let mut text = String::from(
        "[The earlier conversation was compacted to fit your context window. The user still sees all of it; you see \
         this summary, and below it the latest messages as they were. The kernel was not restarted: variables, imports \
         and files are all there. Use them; do not load or compute again what is there.]",
    );
    let files: Vec<String> = parts.files.iter().map(|file| format!("- {file}")).collect();
    for (title, body) in [
        ("About the workspace", parts.workspace),
        (parts.words.title(), &parts.words.text),
        ("What was done so far", parts.work),
        ("Files that the code wrote", &files.join("\n")),
        ("Variables in the kernel now", parts.inventory),
    ] {
        let body = body.trim();
        if !body.is_empty() {
            let _ = write!(text, "\n\n# {title}\n{body}");
        }
    }
    text
}

/// What the model reads in place of outputs that became notes.
pub fn outputs_note(inventory: &str) -> String {
    let mut text = String::from(
        "[To save room, outputs and pictures of earlier cells are left out above. The user still sees them, and the \
         variables behind them are still in the kernel.]",
    );
    if !inventory.trim().is_empty() {
        let _ = write!(
            text,
            "\n\n# Variables in the kernel now\n{}",
            inventory.trim()
        );
    }
    text
}

/// What the person said, as much as fits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PersonWords {
    /// A numbered list, oldest first.
    pub text: String,
    /// Number of pieces in the list.
    pub pieces: usize,
    /// How many of them were shortened.
    pub shortened: usize,
}

impl PersonWords {
    /// The heading, which tells the model how complete the list is.
    fn title(&self) -> &'static str {
        if self.shortened == 0 {
            "What the user said, in the user's own words, oldest first"
        } else {
            "What the user said, oldest first; the longest of it is shortened in its middle, the rest is word for word"
        }
    }
}

/// Everything the person typed in `cells`: questions, reasons for a refusal, code. Beyond `limit` bytes the longest
/// pieces are cut in the middle, never the short ones.
pub fn person_words(cells: &[Cell], limit: usize) -> PersonWords {
    // Cells that the notebook came with were not said in this conversation; later additions were.
    let ours = cells.iter().position(|cell| !cell.is_foreign());
    let said = ours
        .and_then(|first| cells.get(first..))
        .unwrap_or_default();
    let pieces: Vec<(&str, &str)> = said.iter().filter_map(typed).collect();
    let longest = fair_share(pieces.iter().map(|(_, words)| words.len()), limit);
    let mut text = String::new();
    let mut shortened = 0;
    for (number, (what, words)) in pieces.iter().enumerate() {
        shortened += usize::from(words.len() > longest);
        let words = head_and_tail(words, longest);
        let _ = writeln!(text, "{}. {what}{}", number + 1, words.trim_end());
    }
    PersonWords {
        text,
        pieces: pieces.len(),
        shortened,
    }
}

/// What the person typed into this cell, and what kind of text it is.
fn typed(cell: &Cell) -> Option<(&'static str, &str)> {
    match &cell.kind {
        CellKind::User => Some(("", &cell.source)),
        CellKind::Code(code) => match (&code.author, &code.status) {
            (Author::Person, _) => Some(("(ran code) ", &cell.source)),
            (Author::Model { .. }, CodeStatus::Declined(Some(words))) => {
                Some(("(declined code) ", words))
            }
            (Author::Model { .. }, _) if code.original.is_some() => {
                Some(("(changed the code, to) ", &cell.source))
            }
            (Author::Model { .. }, _) => None,
        },
        CellKind::Note
        | CellKind::Cut
        | CellKind::Assistant { .. }
        | CellKind::Compaction(_)
        | CellKind::Reading(_) => None,
    }
}

/// The length to which pieces are cut so that their total stays within `limit`.
fn fair_share(lengths: impl Iterator<Item = usize>, limit: usize) -> usize {
    let mut lengths: Vec<usize> = lengths.collect();
    lengths.sort_unstable();
    let mut left = limit;
    for (at, &length) in lengths.iter().enumerate() {
        let share = left / (lengths.len() - at);
        if length > share {
            return share;
        }
        left -= length;
    }
    usize::MAX
}

/// The variables of one kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inventory {
    /// The kernel's language.
    pub language: String,
    /// Its variables, if it could be asked.
    pub variables: Variables,
}

/// A kernel's answer about its variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Variables {
    /// The kernel listed them.
    Listed(Vec<Variable>),
    /// The kernel is not running, so it has no variables.
    None,
    /// The kernel cannot be asked, for this reason; variables may exist.
    Unknown(String),
}

impl Inventory {
    /// Number of known variables.
    pub fn len(&self) -> usize {
        match &self.variables {
            Variables::Listed(all) => all.len(),
            Variables::None | Variables::Unknown(_) => 0,
        }
    }

    /// Whether no variables are known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One line per variable: name, type, shape and the beginning of its value, in at most about `limit` bytes. Names
    /// are the last to be dropped.
    pub fn lines(&self, limit: usize) -> String {
        /// Bytes shown of a value.
        const HEAD: usize = 100;
        let all = match &self.variables {
            Variables::Listed(all) if all.is_empty() => return "(none)\n".to_owned(),
            Variables::Listed(all) => all,
            Variables::None => return "(none: the kernel is not running)\n".to_owned(),
            Variables::Unknown(why) => return format!("(not listed: {why})\n"),
        };
        let mut text = String::new();
        let mut rest = Vec::new();
        for variable in all {
            let Variable {
                name,
                kind,
                shape,
                head,
                bytes: _,
            } = variable;
            let mut line = format!("{name}: {kind}");
            if !shape.is_empty() {
                let _ = write!(line, ", {shape}");
            }
            let head = head.split_whitespace().collect::<Vec<_>>().join(" ");
            let shown = head
                .get(..head.floor_char_boundary(HEAD))
                .unwrap_or_default();
            if !shown.is_empty() {
                let more = if shown.len() < head.len() { "…" } else { "" };
                let _ = write!(line, " = {shown}{more}");
            }
            if text.len() + line.len() <= limit {
                text.push_str(&line);
                text.push('\n');
            } else {
                rest.push(name.as_str());
            }
        }
        if !rest.is_empty() {
            let names = head_and_tail(&rest.join(", "), (limit / 4).max(200));
            let _ = writeln!(text, "and {}: {names}", rest.len());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variable(name: &str, kind: &str, shape: &str, head: &str) -> Variable {
        Variable {
            name: name.to_owned(),
            kind: kind.to_owned(),
            shape: shape.to_owned(),
            head: head.to_owned(),
            bytes: None,
        }
    }

    fn cell(id: &str, words: &str) -> Cell {
        Cell {
            id: id.to_owned(),
            kind: CellKind::User,
            source: words.to_owned(),
            carried: None,
        }
    }

    #[test]
    fn short_words_are_never_cut() {
        let (short, long) = ("what is the mean?", "row,".repeat(1000));
        let cells = [
            cell("a", short),
            cell("b", &long),
            cell("c", "why?\nreally?"),
        ];
        let all = person_words(&cells, usize::MAX);
        let text = format!("1. {short}\n2. {long}\n3. why?\nreally?\n");
        assert_eq!(
            (all.text.as_str(), all.pieces, all.shortened),
            (&*text, 3, 0)
        );
        let title = |words: &PersonWords| {
            let parts = Parts {
                workspace: "",
                words,
                work: "",
                files: &[],
                inventory: "",
            };
            let text = summary(&parts);
            text.lines().nth(2).unwrap_or_default().to_owned()
        };
        assert!(title(&all).contains("in the user's own words"));
        let words = person_words(&cells, 500);
        // A piece that was cut counts as shortened.
        assert_eq!(words.shortened, 1);
        assert!(title(&words).contains("the longest of it is shortened in its middle"));
        let cut = words.text;
        assert!(
            cut.starts_with("1. what is the mean?\n2. row,row,"),
            "{cut}"
        );
        assert!(cut.ends_with("3. why?\nreally?\n"), "{cut}");
        assert!(cut.len() < 700, "{}", cut.len());
    }

    #[test]
    fn shares_are_fair() {
        for (lengths, limit, share) in [
            (vec![10, 10], 20, usize::MAX),
            (vec![10, 100], 50, 40),
            (vec![100, 100], 50, 25),
            (vec![], 5, usize::MAX),
        ] {
            assert_eq!(
                fair_share(lengths.iter().copied(), limit),
                share,
                "{lengths:?}"
            );
        }
    }

    #[test]
    fn variables_beyond_the_limit_are_named() {
        let inventory = Inventory {
            language: "python".to_owned(),
            variables: Variables::Listed(vec![
                variable("df", "pandas.DataFrame", "3 x 2", "city, rain"),
                variable("n", "int", "", "7"),
                variable("text", "str", "10000", &"x".repeat(500)),
                variable("last", "int", "", "1"),
            ]),
        };
        assert_eq!(
            inventory.lines(60),
            "df: pandas.DataFrame, 3 x 2 = city, rain\nn: int = 7\nand 2: text, last\n"
        );
        let all = inventory.lines(10_000);
        assert!(
            all.contains(&format!(
                "text: str, 10000 = {}…\nlast: int = 1\n",
                "x".repeat(100)
            )),
            "{all}"
        );
    }

    #[test]
    fn empty_parts_of_a_summary_are_left_out() {
        let parts = Parts {
            workspace: "",
            words: &PersonWords {
                text: "1. hi\n".to_owned(),
                pieces: 1,
                shortened: 0,
            },
            work: "",
            files: &["a.csv".to_owned()],
            inventory: "n: int = 1\n",
        };
        let text = summary(&parts);
        let (_, body) = text.split_once("]\n\n").unwrap();
        assert_eq!(
            body,
            "# What the user said, in the user's own words, oldest first\n1. hi\n\n\
             # Files that the code wrote\n- a.csv\n\n\
             # Variables in the kernel now\nn: int = 1"
        );
    }
}
