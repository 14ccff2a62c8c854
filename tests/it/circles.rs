//! No circle of imports over the files of `src`: who reads one file needs only what lies below it. A parent and its children
//! may use each other, because Rust's modules are made so.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path as FilePath;

use super::rust_source::{Path, Source};
use super::tidy::{root, rust_files};

/// Modules by name, each with what it names.
struct House {
    modules: BTreeMap<Vec<String>, Vec<Path>>,
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let house = House::read();
    let uses: BTreeMap<_, BTreeSet<_>> = house
        .modules
        .iter()
        .map(|(module, paths)| {
            let used = paths.iter().filter_map(|path| house.file_of(module, path));
            let beside =
                |other: &Vec<String>| !other.starts_with(module) && !module.starts_with(other);
            (module, used.filter(beside).collect())
        })
        .collect();
    let mut circles = String::new();
    for circle in circles_of(&uses) {
        circles += "\na circle:\n";
        for module in &circle {
            for other in uses[module].iter().filter(|other| circle.contains(other)) {
                let _ = writeln!(circles, "  {} uses {}", module.join("::"), other.join("::"));
            }
        }
    }
    assert_eq!(circles, "");
}

impl House {
    fn read() -> Self {
        let src = root().join("src");
        let modules = rust_files("src")
            .iter()
            .map(|file| {
                let text = std::fs::read_to_string(file).unwrap();
                let source =
                    Source::parse(&text, file.strip_prefix(&src).unwrap_or(FilePath::new("")));
                (source.module().to_vec(), source.paths())
            })
            .collect();
        Self { modules }
    }

    /// The module whose file defines what `path` means in `module`; none for what is not ours.
    fn file_of(&self, module: &[String], path: &Path) -> Option<Vec<String>> {
        self.follow(module, &path.segments, 0)
    }

    fn follow(&self, module: &[String], segments: &[String], depth: usize) -> Option<Vec<String>> {
        let full = if segments[0] == "crate" {
            segments.to_vec()
        } else {
            [module, segments].concat()
        };
        let length = (2..=full.len())
            .rev()
            .find(|length| self.modules.contains_key(&full[..*length]))?;
        let (found, rest) = full.split_at(length);
        if segments[0] != "crate" && length <= module.len() {
            return None;
        }
        // A name that this module took from another one.
        let taken = rest.first().filter(|_| depth < 9).and_then(|name| {
            self.modules[found]
                .iter()
                .filter(|path| path.segments.len() > 1 && path.segments.last() == Some(name))
                .find_map(|path| self.follow(found, &path.segments, depth + 1))
        });
        Some(taken.unwrap_or_else(|| found.to_vec()))
    }
}

/// The sets of modules that reach each other.
fn circles_of<'a>(
    uses: &BTreeMap<&'a Vec<String>, BTreeSet<Vec<String>>>,
) -> BTreeSet<BTreeSet<&'a Vec<String>>> {
    let reached: BTreeMap<_, BTreeSet<&Vec<String>>> = uses
        .keys()
        .map(|&start| {
            let mut reached = BTreeSet::new();
            let mut open = vec![start];
            while let Some(module) = open.pop() {
                for next in &uses[module] {
                    if let Some((&next, _)) = uses.get_key_value(next)
                        && reached.insert(next)
                    {
                        open.push(next);
                    }
                }
            }
            (start, reached)
        })
        .collect();
    uses.keys()
        .filter(|module| reached[*module].contains(*module))
        .map(|&module| {
            let both = |other: &&&Vec<String>| reached[**other].contains(module);
            uses.keys()
                .filter(|other| reached[module].contains(**other))
                .filter(both)
                .copied()
                .collect()
        })
        .collect()
}
