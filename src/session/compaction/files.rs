//! Files that code wrote, found from its source: string arguments of calls known to write.

use super::super::transcript::{Cell, CodeStatus};
use crate::kernel::Verdict;

/// Calls whose first string is the file they write: pandas, polars, matplotlib, Plotly, NumPy, R.
const WRITERS: [&str; 22] = [
    "to_csv(",
    "to_excel(",
    "to_feather(",
    "to_hdf(",
    "to_html(",
    "to_json(",
    "to_latex(",
    "to_markdown(",
    "to_parquet(",
    "to_pickle(",
    "write_csv(",
    "write_excel(",
    "write_html(",
    "write_image(",
    "write_json(",
    "write_parquet(",
    "savefig(",
    "np.save(",
    "np.savez(",
    "write.csv(",
    "saveRDS(",
    "ggsave(",
];

/// Files that the cells' code wrote, in order of first writing. Code that failed counts, because it may have written
/// too.
pub fn written(cells: &[Cell]) -> Vec<String> {
    let mut files = Vec::new();
    for cell in cells {
        let Some(code) = cell.code() else {
            continue;
        };
        let ran = match &code.status {
            CodeStatus::Finished(Verdict::Aborted)
            | CodeStatus::Proposed
            | CodeStatus::Declined(_)
            | CodeStatus::NotRun(_) => false,
            CodeStatus::Finished(_) | CodeStatus::Running => true,
        };
        if ran {
            for file in in_source(&cell.source) {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
    }
    files
}

fn in_source(source: &str) -> Vec<String> {
    let mut found: Vec<(usize, String)> = Vec::new();
    for writer in WRITERS {
        for (at, _) in source.match_indices(writer) {
            let call = source.get(at + writer.len()..).unwrap_or_default();
            found.extend(first_string(call).map(|(name, _)| (at, name.to_owned())));
        }
    }
    for (at, _) in source.match_indices("open(") {
        let call = source.get(at + "open(".len()..).unwrap_or_default();
        if let Some((name, after)) = first_string(call)
            && let Some((mode, _)) = first_string(after)
            && mode.len() <= 3
            && mode.contains(['w', 'a', 'x'])
        {
            found.push((at, name.to_owned()));
        }
    }
    for (at, line) in source.match_indices("%%writefile ") {
        let name = source.get(at + line.len()..).unwrap_or_default();
        let name = name.lines().next().unwrap_or_default().trim();
        found.push((at, name.trim_start_matches("-a ").to_owned()));
    }
    // In `Path('x').write_text(..)` the string precedes the call.
    for writer in ["write_text(", "write_bytes("] {
        for (at, _) in source.match_indices(writer) {
            let before = source.get(..at).unwrap_or_default();
            let line = before.lines().next_back().unwrap_or_default();
            found.extend(first_string(line).map(|(name, _)| (at, name.to_owned())));
        }
    }
    found.sort();
    found.into_iter().map(|(_, name)| name).collect()
}

/// The first string literal before the end of the line or call, and the text after it.
fn first_string(text: &str) -> Option<(&str, &str)> {
    let line = text.lines().next()?;
    let start = line.find(['\'', '"'])?;
    if line.get(..start)?.contains(')') {
        return None;
    }
    let quote = line.get(start..=start)?;
    let (name, after) = line.get(start + 1..)?.split_once(quote)?;
    (!name.is_empty()).then_some((name, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_calls_that_write() {
        for (source, files) in [
            ("df.to_csv('out.csv', index=False)", vec!["out.csv"]),
            (
                "plt.savefig(\"a.png\")\nwith open('b.txt', 'w') as f: pass",
                vec!["a.png", "b.txt"],
            ),
            (
                "pd.read_csv('in.csv')\nopen('in.txt')\nopen('x', 'rb')",
                vec![],
            ),
            ("Path('notes.md').write_text(text)", vec!["notes.md"]),
            ("%%writefile tool.py\nprint('x')", vec!["tool.py"]),
            ("df.to_json()\nprint('no')", vec![]),
            ("saveRDS(model, 'model.rds')", vec!["model.rds"]),
            ("df.to_csv(name)", vec![]),
        ] {
            assert_eq!(in_source(source), files, "{source}");
        }
    }
}
