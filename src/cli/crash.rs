//! Handles a bug of ours that panics: restores the terminal, and tells the person where their session and the log are.

use std::fmt::Write as _;
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, TryLockError};

use super::log_file::LogFile;
use super::{eprint, filter, line_source};
#[cfg(debug_assertions)]
use crate::agent::EventKind;
use crate::kernel::Redactor;

/// The session of this terminal: its id and its notebook.
static SESSION: Mutex<Option<(String, PathBuf)>> = Mutex::new(None);

/// Records that a session runs in this terminal from now on.
pub(super) fn session_began(id: &str, notebook: &Path) {
    let mut session = SESSION.lock().unwrap_or_else(PoisonError::into_inner);
    *session = Some((id.to_owned(), notebook.to_owned()));
}

/// Installs the hook that explains a panic to the person. `state` is the directory of the log.
pub(super) fn watch(redactor: &Redactor, state: Option<&Path>) {
    let redactor = redactor.clone();
    let log = state.map(LogFile::path);
    std::panic::set_hook(Box::new(move |info| {
        line_source::restore_now();
        let words = redactor.all(&words(info)).into_owned();
        tracing::error!(target: "sponde", "{words}");
        let session = match SESSION.try_lock() {
            Ok(session) => session.clone(),
            Err(TryLockError::Poisoned(session)) => session.into_inner().clone(),
            Err(TryLockError::WouldBlock) => None,
        };
        eprint(&told(&words, session.as_ref(), log.as_deref()));
    }));
}

/// Panics at this event if the variable says so: for a test of what the person still has then.
#[cfg(debug_assertions)]
pub(super) fn fail_at(event: &EventKind) {
    /// `finished`: when a cell has ended.
    const FAILS: &str = "SPONDE_TEST_FAILS_AT";
    let is_finished = matches!(event, EventKind::CodeFinished { .. });
    let is_wanted = std::env::var(FAILS).is_ok_and(|at| at == "finished");
    assert!(!(is_wanted && is_finished), "as {FAILS} says");
}

fn words(info: &PanicHookInfo<'_>) -> String {
    let what = info.payload_as_str().unwrap_or("no message");
    let place = info.location().map(ToString::to_string).unwrap_or_default();
    format!("internal error in Sponde at {place}: {what}")
}

fn told(words: &str, session: Option<&(String, PathBuf)>, log: Option<&Path>) -> String {
    let mut text = format!("\nerror: {words}\n");
    if let Some((id, notebook)) = session {
        // Only the journal is certain to be complete: the notebook follows at the end of a turn.
        let notebook = notebook.display();
        let _ = writeln!(
            text,
            "  what was done is kept; {notebook} has it once the session continues\n"
        );
        let _ = writeln!(text, "hint: continue with `sponde resume {id}`");
    }
    if let Some(log) = log {
        let log = log.display();
        let _ = writeln!(text, "hint: please report this with the end of {log}");
    }
    filter::plain(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With this variable set, the test below runs as its own program on a terminal.
    const CRASHES: &str = "SPONDE_TEST_CRASHES";

    /// On a real terminal that was reading keys. The guard that would restore it during unwinding is gone, as in a
    /// program that aborts on panic.
    #[test]
    fn a_panic_restores_the_terminal_and_says_where_the_session_is() {
        if std::env::var_os(CRASHES).is_some() {
            let redactor = Redactor::of([("MY_KEY", "hunter2-hunter3")]);
            let state = std::env::temp_dir().join("sponde-crash-state");
            watch(&redactor, Some(&state));
            session_began("20260101-abcd", Path::new("/home/me/\u{1b}[2Jn.ipynb"));
            std::mem::forget(line_source::raw_for_test());
            eprint("READY\n");
            panic!("lost hunter2-hunter3");
        }
        let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-tools");
        let tools = std::env::var_os("SPONDE_TEST_TOOLS").map_or(own, PathBuf::from);
        let play = std::process::Command::new(tools.join("python/bin/python"))
            .arg(concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/tests/fixtures/terminal.py"
            ))
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("cli::crash::tests::a_panic_restores_the_terminal_and_says_where_the_session_is")
            .env(CRASHES, "1")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let mut play = play.unwrap();
        let mut stdin = play.stdin.take().unwrap();
        std::io::Write::write_all(&mut stdin, b"[[\"wait\", \"READY\"]]").unwrap();
        drop(stdin);
        let played = play.wait_with_output().unwrap();
        let screen: serde_json::Value = serde_json::from_slice(&played.stdout).unwrap();
        let shown = screen["screen"].as_str().unwrap();
        assert_eq!(screen["as_always"], true, "{shown}");
        for words in [
            "error: internal error in Sponde at src/cli/crash.rs:",
            ": lost [redacted]",
            "what was done is kept; /home/me/n.ipynb has it once the session continues",
            "hint: continue with `sponde resume 20260101-abcd`",
            "/logs/sponde.log",
        ] {
            assert!(shown.contains(words), "{words} in {shown}");
        }
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
