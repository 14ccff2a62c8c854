//! The text of `/help`.

/// The whole text, in groups.
pub(in crate::cli) const HELP: &str = "\
Ask in plain words; @FILE names a file, and Tab after @ finds it. A line that
ends in \\ goes on in the next. Lines that are pasted are one question.

Code of your own
  !CODE             run it in the kernel; Tab completes it
  $ COMMAND         run a command of the shell there
  %%LANGUAGE CODE   run it in the kernel of another language
  /run N            run cell N again; /run CODE is !CODE
  /edit [N]         change cell N, or the latest, in $EDITOR, and run that
Look
  /show [N]         cell N, or the latest, with all of its output
  /vars             the variables that live in the kernel
  /table NAME ..    a table page by page: page N, sort COLUMN [desc], filter
                    TEXT, profile COLUMN, save FILE.csv; alone: the next page
  /open [N]         open what cell N has put out, or the latest, elsewhere:
                    its plot, or a page with its tables and text
  /files            the files that this session has changed
  /status, /cost    model, context, cost, kernel, approval, sandbox, notebook
  /next [N]         ask the model what could be asked next; ask number N
Go back
  /undo [N]         take back the last turn, or N: cells, variables and files
  /undo #N          go back to a checkpoint of the list
  /checkpoints      list what can be gone back to
  /fork [N]         another session that begins as this one, up to cell N
Settings
  /model [NAME]     which model answers; let this one answer from now on
  /kernel [NAME]    which kernels there are; send !CODE to this one from now on
  /interrupt        stop what is going on, as Ctrl-C does
  /restart          a new kernel: all variables are lost
  /approve [WHEN]   when you are asked before code runs: always, on-risk, never
  /sandbox [LEVEL] [NETWORK]
                    what code may do; let it do more or less from now on, with
                    the kernel started again (docs/sandbox.md)
  /profile [NAME]   which profiles there are; go on with this one
Session
  /plan QUESTION    a plan in words first, which you approve or change
  /save FILE        write the session to FILE: .ipynb, .html, .md or .py
                    (/export is the same)
  /compact          make the conversation shorter for the model
  /resume [ID]      go on with an earlier session instead
  /clear            begin a new session
  /help             this
  /exit, /quit      end (or Ctrl-D); the session is kept
Ctrl-C stops what is going on; twice restarts the kernel. Up and Ctrl-R bring
earlier questions back, Tab completes commands and files.
";

/// The commands, as [`HELP`] names them.
pub(in crate::cli) fn commands() -> Vec<&'static str> {
    let is_part = |c: char| c == '/' || c.is_ascii_alphabetic();
    let words = HELP.split(|c| !is_part(c));
    let mut names: Vec<&str> = words.filter(|word| word.starts_with('/')).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_fits_a_terminal_and_names_the_commands() {
        for line in HELP.lines() {
            assert!(line.chars().count() < 80, "{line}");
        }
        let names = commands();
        assert_eq!(names.len(), 29, "{names:?}");
        assert!(
            names.contains(&"/export") && !names.contains(&"/sandbox/md"),
            "{names:?}"
        );
    }
}
