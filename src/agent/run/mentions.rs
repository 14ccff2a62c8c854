//! Files that a question names with an at sign, `@rain.csv` or `@data/*.csv`, or by an absolute path, which terminals
//! insert when a file is dropped on them. The model is told about them as for `-f`.

use std::path::{Path, PathBuf};

use super::{Edit, Session, random_cell_id};
use crate::agent::facts::{self, Language, glob, picture};
use crate::kernel::Sandbox;

/// Maximum files of one question.
const MOST: usize = 70;

impl Session {
    /// Tells the model about the files in the question `text`, and the person about those that code cannot read.
    pub(super) fn tell_of_files(&mut self, text: &str) {
        // Files here say nothing about a kernel elsewhere.
        if self.options.kernel.gateway.is_some() || self.options.kernel.existing.is_some() {
            return;
        }
        let cwd = self.options.kernel.cwd.clone();
        let (mut seen, mut unseen) = (Vec::new(), Vec::new());
        let dropped = dropped(text).into_iter();
        let dropped = dropped.filter(|path| cwd.join(path).is_file());
        for named in named(text).into_iter().chain(dropped) {
            let path = PathBuf::from(&named);
            let all = if cwd.join(&path).exists() {
                vec![path]
            } else if glob::is_pattern(&path) {
                glob::expand(&path, &cwd)
            } else {
                Vec::new()
            };
            for path in all {
                let list = if self.is_seen(&cwd.join(&path)) {
                    &mut seen
                } else {
                    &mut unseen
                };
                list.push(path);
            }
        }
        seen.truncate(MOST);
        for path in unseen.iter().take(1) {
            self.notice(&format!(
                "code in this session cannot read `{}`: name it with --file when the session begins",
                path.display()
            ));
        }
        let files: Vec<PathBuf> = seen.iter().map(|path| cwd.join(path)).collect();
        let files: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
        let language = Language::of(&self.language());
        let Ok(facts) = facts::files(&files, &cwd, language) else {
            return;
        };
        if !facts.is_empty() {
            self.edit(Edit::Note {
                cell: random_cell_id(),
                text: facts::framed(&facts),
            });
        }
        self.note_unread(&files);
        self.options.pictures.extend(picture::given(&files, &cwd));
    }

    /// Whether code can read a file.
    fn is_seen(&self, path: &Path) -> bool {
        let Sandbox::Confined(confinement) = &self.options.kernel.sandbox else {
            return true;
        };
        // A link that code created must not name a file outside.
        let Ok(real) = path.canonicalize() else {
            return false;
        };
        let dirs = std::iter::once(&self.options.kernel.cwd).chain(&confinement.add_dirs);
        let mut places = dirs.chain(&confinement.reads);
        places.any(|place| {
            place
                .canonicalize()
                .is_ok_and(|place| real.starts_with(place))
        })
    }
}

/// The names after at signs that begin a word.
fn named(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        let begins = c == '@' && (before.is_whitespace() || before == '(');
        before = c;
        let Some(rest) = text.get(at + 1..).filter(|_| begins) else {
            continue;
        };
        let name = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').map_or("", |it| it.0),
            None => rest
                .split(|c: char| {
                    c.is_whitespace() || matches!(c, ',' | ';' | ')' | ':' | '?' | '!')
                })
                .next()
                .unwrap_or_default()
                .trim_end_matches('.'),
        };
        // A question mark more often ends a question than it is a wildcard.
        if !name.is_empty() && !found.iter().any(|it| it == name) {
            found.push(name.to_owned());
        }
    }
    found
}

/// Absolute paths: in quotes, or with a backslash before each blank.
fn dropped(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let word = rest.trim_start();
        let quote = word.chars().next().filter(|c| matches!(c, '\'' | '"'));
        let mut path = String::new();
        let mut end = word.len();
        let mut is_escaped = false;
        for (at, c) in word.char_indices().skip(usize::from(quote.is_some())) {
            let ends = match quote {
                Some(quote) => c == quote,
                None => c.is_whitespace() && !is_escaped,
            };
            if ends {
                end = at + c.len_utf8();
                break;
            }
            is_escaped = quote.is_none() && c == '\\' && !is_escaped;
            if !is_escaped {
                path.push(c);
            }
        }
        rest = word.get(end..).unwrap_or_default();
        let path = match quote {
            Some(_) => path.as_str(),
            None => path.trim_end_matches(['.', ',', ';', ':', '?', '!', ')']),
        };
        if path.starts_with('/') && !found.iter().any(|it| it == path) {
            found.push(path.to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_file_is_a_whole_path() {
        for (text, paths) in [
            ("what is in /data/rain.csv?", vec!["/data/rain.csv"]),
            (
                "'/home/ada/my file.csv' and /tmp/other\\ one.csv: which is larger",
                vec!["/home/ada/my file.csv", "/tmp/other one.csv"],
            ),
            ("it's 3/4 of a/b", vec![]),
            ("\"/a.csv\" /a.csv.", vec!["/a.csv"]),
        ] {
            assert_eq!(dropped(text), paths, "{text}");
        }
    }

    #[test]
    fn files_in_a_question() {
        for (text, names) in [
            ("how many rows has @rain.csv?", vec!["rain.csv"]),
            (
                "compare @a.csv, @data/*.csv and (@\"my file.xlsx\").",
                vec!["a.csv", "data/*.csv", "my file.xlsx"],
            ),
            ("write to ada@example.org at @", vec![]),
            ("@a.csv @a.csv.", vec!["a.csv"]),
        ] {
            assert_eq!(named(text), names, "{text}");
        }
    }
}
