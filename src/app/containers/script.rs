//! Runs code like a script: with arguments, to its end, and returns its printed text and exit code.

use std::time::Duration;

use super::{ContainerError, Containers};
use crate::app::executor::{ProgramSession, ShownOutput, TurnOutcome, Unattended, shown};
use crate::kernel::Verdict;
use crate::session::{CodeCell, CodeStatus};

/// Maximum returned bytes of stdout and of stderr.
const TEXT: usize = 1 << 20;
/// The message for code that asks for input.
const NO_INPUT: &str = "nobody can be asked for input over this API: write the value into the code";
/// Exit codes as in shells: timed out, could not run, not found.
const TIMED_OUT: i32 = 124;
const NOT_RUN: i32 = 126;
const NOT_FOUND: i32 = 127;
const INTERRUPTED: i32 = 130;
const KILLED: i32 = 137;

/// The script to run.
#[derive(Debug, Clone)]
pub struct Script {
    /// The code.
    pub code: String,
    /// Its language: a name, or a file suffix.
    pub language: String,
    /// Arguments, for Python and bash.
    pub arguments: Vec<String>,
    /// How long it may run.
    pub limit: Duration,
}

/// The result of a script.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScriptOutcome {
    /// Printed text, and values at the end of the code.
    pub stdout: String,
    /// Text on stderr, including exceptions.
    pub stderr: String,
    /// The exit code; 0 is success.
    pub code: i32,
    /// Whether it was stopped at its time limit.
    pub timed_out: bool,
    /// How long it took.
    pub took: Duration,
    /// Displayed pictures: their types and bytes.
    pub pictures: Vec<(String, Vec<u8>)>,
}

impl Containers {
    /// Runs `script` in container `id`, on behalf of the client `by`. Dropping the future interrupts it.
    ///
    /// # Errors
    /// [`ContainerError`].
    pub async fn run_script(
        &self,
        id: &str,
        by: &str,
        script: Script,
    ) -> Result<ScriptOutcome, ContainerError> {
        let session = self.session(id).await?;
        let Some(cell) = cell_of(&script, &session) else {
            return Ok(no_kernel(&script.language, &session));
        };
        let limit = Some(script.limit);
        let mut turn = session.run(by, cell.code, cell.language, limit).await?;
        let unattended = Unattended { no_input: NO_INPUT };
        while unattended.next(&mut turn).await.is_some() {}
        let outcome = turn.outcome();
        let ran = match outcome.cells.last() {
            Some(id) => session.cell(id).await,
            None => None,
        };
        let is_shell = cell.is_shell;
        let told = tokio::task::spawn_blocking(move || ran.map(|ran| told(&ran, is_shell)));
        let told = told.await.ok().flatten();
        Ok(finished(told, outcome, script.limit))
    }
}

/// A script as a cell.
#[derive(Debug, PartialEq, Eq)]
struct Cell {
    code: String,
    /// `None` if it is the main kernel's.
    language: Option<String>,
    /// Whether a shell runs it in a Python kernel.
    is_shell: bool,
}

fn cell_of(script: &Script, session: &ProgramSession) -> Option<Cell> {
    let kernels = &session.live.kernels;
    let spoken: Vec<&str> = kernels.iter().map(|it| it.language.as_str()).collect();
    cell_among(script, session.language(), &spoken)
}

/// The cell for a session whose kernels have the languages `spoken`; the main one has `main`.
fn cell_among(script: &Script, main: &str, spoken: &[&str]) -> Option<Cell> {
    let Script {
        code, arguments, ..
    } = script;
    let wanted = script.language.to_ascii_lowercase();
    let is_shell = matches!(wanted.as_str(), "bash" | "sh" | "shell");
    if is_shell && main.eq_ignore_ascii_case("python") {
        return Some(Cell {
            code: shell_cell(code, arguments),
            language: None,
            is_shell,
        });
    }
    let among: &[&str] = match wanted.as_str() {
        "py" | "python" | "python3" => &["python"],
        "js" | "javascript" | "nodejs" => &["javascript", "typescript"],
        "ts" => &["typescript"],
        "sh" | "shell" => &["bash"],
        "rs" => &["rust"],
        "cpp" => &["c++"],
        "f90" => &["fortran"],
        other => &[other],
    };
    let found = among.iter().find_map(|name| {
        let is_it = |language: &&&str| language.eq_ignore_ascii_case(name);
        spoken.iter().find(is_it).map(|it| (*it).to_owned())
    })?;
    let is_python = found.eq_ignore_ascii_case("python");
    Some(Cell {
        code: if is_python && !arguments.is_empty() {
            let arguments = serde_json::to_string(arguments).unwrap_or_default();
            format!("import sys; sys.argv[1:] = {arguments}\n{code}")
        } else {
            code.clone()
        },
        language: (!found.eq_ignore_ascii_case(main)).then_some(found),
        is_shell: false,
    })
}

/// The shell reads a whole group before it runs it, so no command in the group reads the rest of the script.
fn shell_cell(code: &str, arguments: &[String]) -> String {
    let quoted = |it: &String| format!(" '{}'", it.replace('\'', "'\\''"));
    let set = if arguments.is_empty() {
        String::new()
    } else {
        let arguments: String = arguments.iter().map(quoted).collect();
        format!("set --{arguments}\n")
    };
    format!("%%bash\n{{ {set}\n{code}\n}} </dev/null\n")
}

fn no_kernel(language: &str, session: &ProgramSession) -> ScriptOutcome {
    let kernels = session.live.kernels.iter();
    let mut spoken: Vec<&str> = kernels.map(|it| it.language.as_str()).collect();
    if session.language().eq_ignore_ascii_case("python") && !spoken.contains(&"bash") {
        spoken.push("bash");
    }
    let language: String = language.chars().take(40).collect();
    ScriptOutcome {
        stderr: format!(
            "this server has no kernel for `{language}`; it has {}. `sponde kernels install` adds others.\n",
            spoken.join(", ")
        ),
        code: NOT_FOUND,
        ..ScriptOutcome::default()
    }
}

/// The output of a cell in the form of a program's output.
fn told(cell: &CodeCell, is_shell: bool) -> ScriptOutcome {
    let (code, is_exit) = exit_of(&cell.status, is_shell);
    let mut outcome = ScriptOutcome {
        code,
        ..ScriptOutcome::default()
    };
    for output in shown(cell) {
        match output {
            ShownOutput::Stdout(text) => outcome.stdout.push_str(&text),
            ShownOutput::Stderr(text) => outcome.stderr.push_str(&text),
            ShownOutput::Value(text) => line(&mut outcome.stdout, &text),
            // Ending with an exit code is no exception.
            ShownOutput::Error(_) if is_exit => {}
            ShownOutput::Error(text) => line(&mut outcome.stderr, &text),
            ShownOutput::Picture(mime, bytes) => outcome.pictures.push((mime, bytes)),
        }
    }
    if is_exit {
        outcome.stderr = without_exit_warning(outcome.stderr);
    }
    outcome
}

/// Removes IPython's warning about `sys.exit()`, which is normal in a script.
fn without_exit_warning(text: String) -> String {
    let Some(at) = text.find("UserWarning: To exit: use ") else {
        return text;
    };
    let begin = text.get(..at).and_then(|before| before.rfind('\n'));
    let begin = begin.map_or(0, |end| end + 1);
    // Includes the line of IPython that warns.
    let mut ends = text.match_indices('\n').map(|(end, _)| end + 1);
    let end = ends.find(|end| *end > at).and_then(|_| ends.next());
    let kept = text.get(..begin).unwrap_or_default().to_owned();
    kept + end.and_then(|end| text.get(end..)).unwrap_or_default()
}

fn line(to: &mut String, text: &str) {
    if !to.is_empty() && !to.ends_with('\n') {
        to.push('\n');
    }
    to.push_str(text);
    to.push('\n');
}

/// The exit code, and whether the code itself chose it.
fn exit_of(status: &CodeStatus, is_shell: bool) -> (i32, bool) {
    match status {
        CodeStatus::Finished(Verdict::Ok) => (0, false),
        CodeStatus::Finished(Verdict::Error { ename, evalue }) => match ename.as_str() {
            "SystemExit" => match evalue.as_str() {
                "" | "None" => (0, true),
                evalue => evalue.parse().map_or((1, false), |code| (code, true)),
            },
            "CalledProcessError" if is_shell => {
                let code = evalue.rsplit_once("exit status ").map(|(_, code)| code);
                let code = code.and_then(|code| code.trim_end_matches('.').parse().ok());
                (code.unwrap_or(KILLED), true)
            }
            _ => (1, false),
        },
        CodeStatus::Finished(Verdict::KernelDied(_)) => (KILLED, false),
        CodeStatus::Finished(_) => (INTERRUPTED, false),
        CodeStatus::Proposed
        | CodeStatus::Running
        | CodeStatus::Declined(_)
        | CodeStatus::NotRun(_) => (NOT_RUN, false),
    }
}

fn finished(told: Option<ScriptOutcome>, turn: &TurnOutcome, limit: Duration) -> ScriptOutcome {
    let mut outcome = told.unwrap_or_else(|| ScriptOutcome {
        code: NOT_RUN,
        ..ScriptOutcome::default()
    });
    outcome.took = turn.took();
    outcome.timed_out = turn.timed_out;
    if turn.timed_out {
        outcome.code = TIMED_OUT;
        let words = format!(
            "the code was stopped: it ran longer than {} s",
            limit.as_secs()
        );
        line(&mut outcome.stderr, &words);
    }
    if turn.status.as_deref() == Some("forbidden") {
        let words = "the code did not run: a rule of this server forbids it";
        line(&mut outcome.stderr, words);
    }
    if outcome.code != 0 {
        for notice in &turn.notices {
            line(&mut outcome.stderr, notice);
        }
    }
    outcome.stdout = cut(outcome.stdout);
    outcome.stderr = cut(outcome.stderr);
    outcome
}

/// Keeps the beginning and the end of a text that is too long.
fn cut(text: String) -> String {
    if text.len() <= TEXT {
        return text;
    }
    let begin = text.get(..text.floor_char_boundary(TEXT / 2));
    let end = text.get(text.ceil_char_boundary(text.len() - TEXT / 2)..);
    let hidden = text.len() - TEXT;
    format!(
        "{}\n[{hidden} bytes are not shown]\n{}",
        begin.unwrap_or_default(),
        end.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(language: &str, arguments: &[&str], main: &str, spoken: &[&str]) -> Option<Cell> {
        let script = Script {
            code: "code".to_owned(),
            language: language.to_owned(),
            arguments: arguments.iter().map(|it| (*it).to_owned()).collect(),
            limit: Duration::from_secs(1),
        };
        cell_among(&script, main, spoken)
    }

    #[test]
    fn the_kernel_is_the_best_that_speaks_the_language() {
        let of = |code: &str, language: Option<&str>, is_shell| {
            Some(Cell {
                code: code.to_owned(),
                language: language.map(str::to_owned),
                is_shell,
            })
        };
        let all = ["python", "R", "typescript", "bash"];
        assert_eq!(cell("py", &[], "python", &all), of("code", None, false));
        let argued = "import sys; sys.argv[1:] = [\"a\",\"\\\"b\"]\ncode";
        assert_eq!(
            cell("python", &["a", "\"b"], "python", &all),
            of(argued, None, false)
        );
        assert_eq!(cell("r", &[], "python", &all), of("code", Some("R"), false));
        assert_eq!(
            cell("js", &[], "python", &all),
            of("code", Some("typescript"), false)
        );
        assert_eq!(cell("go", &[], "python", &all), None);
        assert_eq!(cell("py", &[], "R", &["R"]), None);
        assert_eq!(
            cell("bash", &[], "R", &["R", "bash"]),
            of("code", Some("bash"), false)
        );
        let shell = "%%bash\n{ set -- 'it'\\''s'\n\ncode\n} </dev/null\n";
        assert_eq!(
            cell("bash", &["it's"], "python", &["python"]),
            of(shell, None, true)
        );
    }

    #[test]
    fn exceptions_that_are_exits_have_their_code() {
        let error = |ename: &str, evalue: &str, is_shell| {
            let (ename, evalue) = (ename.to_owned(), evalue.to_owned());
            exit_of(
                &CodeStatus::Finished(Verdict::Error { ename, evalue }),
                is_shell,
            )
        };
        assert_eq!(error("SystemExit", "0", false), (0, true));
        assert_eq!(error("SystemExit", "3", false), (3, true));
        assert_eq!(error("SystemExit", "words", false), (1, false));
        let failed = "Command 'b'x'' returned non-zero exit status 7.";
        assert_eq!(error("CalledProcessError", failed, true), (7, true));
        assert_eq!(error("CalledProcessError", failed, false), (1, false));
        let killed = "Command 'b'x'' died with <Signals.SIGKILL: 9>.";
        assert_eq!(error("CalledProcessError", killed, true), (KILLED, true));
    }

    #[test]
    fn a_warning_of_ipython_is_left_out() {
        let warning = "/x/interactiveshell.py:1: UserWarning: To exit: use 'exit', 'quit', or Ctrl-D.\n  warn(\"..\")\n";
        for (before, after) in [("", ""), ("a\n", "b\n"), ("", "b")] {
            let text = format!("{before}{warning}{after}");
            assert_eq!(without_exit_warning(text), format!("{before}{after}"));
        }
        assert_eq!(without_exit_warning("other".to_owned()), "other");
    }

    #[test]
    fn of_long_text_beginning_and_end_stay() {
        let text = format!("a{}z", "é".repeat(TEXT));
        let short = cut(text);
        assert!(short.len() < TEXT + 100 && short.starts_with("aé") && short.ends_with("éz"));
    }
}
