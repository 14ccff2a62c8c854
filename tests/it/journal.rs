//! Sessions that are killed, on disks that are full: what was there is there, and the session goes on.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use sponde::agent::approval::Approval;
use sponde::agent::store::{Opened, Outcome};
use sponde::agent::{EventKind, StdinPolicy, TurnEnd};
use sponde::jupyter::nbformat::{Notebook, random_cell_id, validate};
use sponde::llm::scripted::Reply;
use sponde::session::journal::{Begin, KernelChoice, VERSION};
use sponde::session::{CodeStatus, OutputLimits};

use crate::agent::start_with;
use crate::support::{ipykernel, launch_options, python_prefix, start};

/// Tells the test below to be the session that is killed: its directory, and the connection file of its kernel.
const CHILD: &str = "SPONDE_TEST_KILLED_SESSION";
const NOW: &str = "2026-11-22T00:00:00Z";
/// Sessions at the same time, and how often each is killed.
const SESSIONS: u64 = 2;
const KILLS: u32 = 100;

fn begin(dir: &Path) -> Begin {
    Begin {
        version: VERSION,
        id: "s".to_owned(),
        at: NOW.to_owned(),
        cwd: dir.to_owned(),
        notebook: dir.join("s.ipynb"),
        kernel: KernelChoice::default(),
        forked_from: None,
        sandbox: None,
        databases: Vec::new(),
    }
}

fn open(dir: &Path) -> Opened {
    let limits = OutputLimits::default();
    if dir.join("s.journal").exists() {
        Opened::open(dir, "s", limits, NOW).unwrap()
    } else {
        Opened::new(dir, begin(dir), limits)
    }
}

/// Cells that print, show pictures, fail, and print bit by bit; each puts out its tag at the end.
fn turn(tag: &str) -> Vec<Reply> {
    let codes = [
        format!("print('{tag}-a')"),
        format!(
            "import time\nfor i in range(4):\n    print(i, flush=True)\n    time.sleep(0.01)\nprint('{tag}-b')"
        ),
        format!(
            "from IPython.display import display, HTML\ndisplay(HTML('x' * 50_000))\nh = display('one', display_id=True)\nh.update('two')\nprint('{tag}-c')"
        ),
        format!("print('{tag}-d')\n1 / 0"),
    ];
    let mut replies: Vec<Reply> = codes
        .iter()
        .map(|code| {
            let arguments = json!({ "code": code }).to_string();
            Reply::call("Let me see.", "id", "run_code", &arguments)
        })
        .collect();
    replies.push(Reply::text("These are a few words that end the turn."));
    replies
}

fn session(dir: &Path, opened: Opened, connection_file: &Path) -> crate::agent::Session {
    let replies = (0..100).flat_map(|number| turn(&format!("t{}-{number}", std::process::id())));
    start_with(ipykernel(), Approval::Never, replies, |options, _| {
        options.kernel = launch_options(ipykernel(), dir);
        options.kernel.existing = Some(connection_file.to_owned());
        dir.clone_into(&mut options.kernel.socket_root);
        options.notebook = dir.join("s.ipynb");
        options.opened = Some(opened);
        options.stdin = StdinPolicy::Refuse;
    })
}

/// The session that is killed, when [`CHILD`] says so; else nothing. It says each end of a cell on stdout.
#[tokio::test]
async fn session_that_is_killed() {
    let Ok(paths) = std::env::var(CHILD) else {
        return;
    };
    let (dir, connection_file) = paths.split_once('|').unwrap();
    let dir = Path::new(dir);
    let agent = session(dir, open(dir), Path::new(connection_file)).agent;
    let mut view = sponde::agent::stream::View::new(agent.client("test"));
    let mut code = std::collections::HashMap::new();
    let mut is_ready = false;
    loop {
        let text = "question".to_owned();
        let submit = sponde::agent::Command::Submit { text };
        view.send(submit).await.unwrap();
        loop {
            match view.recv().await.unwrap().kind {
                EventKind::StepStarted { .. } if !is_ready => {
                    is_ready = true;
                    say("ready");
                }
                EventKind::CodeProposed { cell, source, .. } => {
                    code.insert(cell, source);
                }
                EventKind::CodeFinished { cell, status, .. } => {
                    let source = &code[&cell];
                    let start = source.find("print('t").unwrap() + "print('".len();
                    let tag = source[start..].split('\'').next().unwrap();
                    say(&format!("done {cell} {tag} {status}"));
                }
                EventKind::TurnFinished { end, .. } => {
                    assert_eq!(end, TurnEnd::Done);
                    say("turn");
                    break;
                }
                _ => {}
            }
        }
    }
}

/// On a line of its own, whatever the test harness has printed before.
fn say(words: &str) {
    use std::io::Write as _;
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "\n> {words}").unwrap();
    stdout.flush().unwrap();
}

/// Numbers that are the same each time (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) % limit
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn killed_at_any_instant_nothing_that_was_done_is_lost() {
    let checked = tempfile::tempdir().unwrap();
    let mut sessions = Vec::new();
    for number in 1..=SESSIONS {
        let kernel = start(ipykernel()).await;
        let connection_file = kernel.connection_file().await.unwrap();
        let checked = checked.path().join(number.to_string());
        std::fs::create_dir(&checked).unwrap();
        let task = tokio::task::spawn_blocking(move || {
            kill_again_and_again(number, &connection_file, &checked)
        });
        sessions.push((kernel, task));
    }
    let mut finished = 0;
    for (kernel, task) in sessions {
        finished += task.await.unwrap();
        kernel.shutdown().await;
    }
    // Kills that hit nothing but the start would prove nothing.
    assert!(finished > 50, "{finished}");
    let check = "import nbformat, pathlib, sys\nn = 0\nfor path in pathlib.Path(sys.argv[1]).rglob('*.ipynb'):\n    nbformat.validate(nbformat.read(path, as_version=nbformat.NO_CONVERT)); n += 1\nprint(n)";
    let output = Command::new(python_prefix().join("bin/python"))
        .args(["-c", check])
        .arg(checked.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let count: usize = String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(count >= 20, "{count}");
}

/// Returns how many cells came to an end.
fn kill_again_and_again(seed: u64, connection_file: &Path, checked: &Path) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let mut done: Vec<(String, String, String)> = Vec::new();
    for kill in 0..KILLS {
        let (turns, said) = run_and_kill(dir.path(), connection_file, |lines| {
            // Sometimes the end of a turn is what it dies behind.
            if kill % 10 == 9 {
                while lines.recv().is_ok_and(|line| line != "turn") {}
            }
            std::thread::sleep(Duration::from_millis(random.below(120)));
        });
        done.extend(said);
        assert!(kill % 10 != 9 || turns > 0);
        if !dir.path().join("s.journal").exists() {
            continue;
        }
        let Opened {
            mut store,
            transcript,
            mended,
            ..
        } = open(dir.path());
        assert_eq!((mended.damaged, mended.unknown), (0, 0));
        assert!(!mended.notebook_changed, "after kill {kill}");
        for (cell, tag, status) in &done {
            let code = transcript
                .code(cell)
                .unwrap_or_else(|| panic!("{cell} is lost after kill {kill}"));
            assert!(matches!(code.status, CodeStatus::Finished(_)), "{code:?}");
            let text = serde_json::to_string(&code.outputs.to_notebook()).unwrap();
            assert!(
                text.contains(tag),
                "{tag} is lost after kill {kill}: {text}"
            );
            assert_eq!(text.contains("ZeroDivisionError"), status == "error");
        }
        let change = store.change(&transcript, false, false);
        let saved = match store.save(&change) {
            Outcome::WantsAll => {
                let change = store.change(&transcript, true, false);
                store.save(&change)
            }
            saved => saved,
        };
        assert_eq!(saved, Outcome::Saved(None));
        let path = dir.path().join("s.ipynb");
        let bytes = std::fs::read(&path).unwrap();
        let notebook = Notebook::read(&bytes, &mut random_cell_id).unwrap();
        assert_eq!(notebook.notebook.cells.len(), transcript.cells().len());
        assert_eq!(validate(&notebook.notebook), []);
        // Python is the reference, and slow.
        if kill % 10 == 0 {
            std::fs::copy(&path, checked.join(format!("{kill}.ipynb"))).unwrap();
        }
        // It would not know that nothing more came.
        store.close(NOW.to_owned());
    }
    done.len()
}

/// Starts the session, waits as `wait` does, and kills it. Returns how many turns and which cells it said were done.
fn run_and_kill(
    dir: &Path,
    connection_file: &Path,
    wait: impl FnOnce(&mpsc::Receiver<String>),
) -> (usize, Vec<(String, String, String)>) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "journal::session_that_is_killed", "--nocapture"])
        .env(
            CHILD,
            format!("{}|{}", dir.display(), connection_file.display()),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    let (heard, lines) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut stdout = stdout;
        let mut all = Vec::new();
        let mut line = String::new();
        // What has no end was not said.
        while stdout.read_line(&mut line).is_ok_and(|length| length > 0) && line.ends_with('\n') {
            if let Some(words) = line.trim_end().strip_prefix("> ") {
                all.push(words.to_owned());
                let _ = heard.send(words.to_owned());
            }
            line.clear();
        }
        all
    });
    assert_eq!(lines.recv().as_deref(), Ok("ready"));
    wait(&lines);
    child.kill().unwrap();
    child.wait().unwrap();
    let said = reader.join().unwrap();
    let turns = said.iter().filter(|line| *line == "turn").count();
    let done = said
        .iter()
        .filter_map(|line| {
            let mut words = line.strip_prefix("done ")?.split(' ').map(str::to_owned);
            Some((words.next()?, words.next()?, words.next()?))
        })
        .collect();
    (turns, done)
}

/// Runs where files may have 16 kB at most, when the test below says so; else nothing.
#[test]
fn session_without_room() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Ok(dir) = std::env::var("SPONDE_TEST_FULL_DISK") else {
        return;
    };
    let dir = Path::new(&dir);
    let Opened {
        mut store,
        mut transcript,
        ..
    } = open(dir);
    let mut outcomes = Vec::new();
    for number in 0..40 {
        let edit = sponde::session::Edit::Say {
            cell: format!("c{number}"),
            text: "x".repeat(1000),
        };
        store.log(&edit);
        transcript.apply(edit).unwrap();
        if number == 35 {
            // Somebody made room.
            let Rlimit { maximum, .. } = getrlimit(Resource::Fsize);
            setrlimit(
                Resource::Fsize,
                Rlimit {
                    current: maximum,
                    maximum,
                },
            )
            .unwrap();
        }
        let change = store.change(&transcript, false, true);
        let mut outcome = store.save(&change);
        if outcome == Outcome::WantsAll {
            let change = store.change(&transcript, true, true);
            outcome = store.save(&change);
        }
        if matches!(outcome, Outcome::Saved(_)) {
            transcript.settle();
        }
        // Whatever happens, what is there can be read.
        let bytes = std::fs::read(dir.join("s.ipynb")).unwrap();
        let notebook = Notebook::read(&bytes, &mut random_cell_id)
            .unwrap()
            .notebook;
        assert_eq!(validate(&notebook), []);
        let (_, journalled) = Opened::read(dir, "s", OutputLimits::default()).unwrap();
        assert!(journalled.cells().len() <= transcript.cells().len());
        outcomes.push(outcome);
    }
    let words: Vec<&str> = outcomes
        .iter()
        .filter_map(|outcome| match outcome {
            Outcome::Saved(words) | Outcome::Failed(words) => words.as_deref(),
            Outcome::WantsAll => Some("all"),
        })
        .collect();
    let [failed, again] = words.as_slice() else {
        panic!("{words:?}")
    };
    assert!(
        failed.contains("File too large") && failed.contains("continues in memory"),
        "{failed}"
    );
    assert_eq!(*again, "the session is saved again");
    store.close(NOW.to_owned());
    drop(store);
    assert_eq!(open(dir).transcript, transcript);
}

#[test]
fn a_full_disk_is_told_once_and_harms_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    // A signal that is ignored stays so in what is started.
    let script = "trap '' XFSZ; ulimit -S -f 32; exec \"$0\" --exact journal::session_without_room --nocapture";
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(test)
        .env("SPONDE_TEST_FULL_DISK", dir.path())
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && stdout.contains("1 passed"),
        "{stdout}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
async fn where_nothing_can_be_written_the_session_goes_on_in_memory() {
    let nowhere = PathBuf::from("/proc/sponde-has-no-place-here");
    let replies = [crate::agent::call("print(6 * 7)"), Reply::text("42")];
    let mut session = start_with(ipykernel(), Approval::Never, replies, |options, _| {
        let begin = Begin {
            notebook: nowhere.join("s.ipynb"),
            ..begin(&nowhere)
        };
        options.notebook.clone_from(&begin.notebook);
        options.opened = Some(Opened::new(&nowhere, begin, options.limits));
    });
    session.submit("what is it?").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done);
    let notices: Vec<&String> = events
        .iter()
        .filter_map(|event| match event {
            EventKind::Notice { message } => Some(message),
            _ => None,
        })
        .collect();
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].contains("continues in memory"), "{notices:?}");
    assert!(matches!(
        events.last(),
        Some(EventKind::TurnFinished { notebook: None, .. })
    ));
    session.agent.shutdown().await;
}
