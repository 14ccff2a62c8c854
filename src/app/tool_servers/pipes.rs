//! A server that is a program: JSON-RPC over its stdin and stdout, one message per line. Its stderr is read for its
//! last words.

use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader};
use tokio::process::{ChildStdout, Command};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::messages::{LONGEST, NoResult, asked_back};
use crate::app::Context;
use crate::child::{Lifetime, Supervised};
use crate::kernel::Redactor;
use crate::rpc::{self, Incoming, Line, Questions, Unanswered, notification};
use crate::task::{self, Task};

/// How many messages may wait for the server to read.
const OUTBOX: usize = 64;
/// How many bytes of its latest stderr are kept.
const SAID: usize = 4 << 10;
/// How many characters of these are shown.
const SHOWN: usize = 300;
/// How long to wait for its last words: its child processes may hold the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Variables that every server gets.
pub(super) const USUAL: [&str; 12] = [
    "HOME",
    "LANG",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// The program and its pipes.
pub(super) struct Pipes {
    outlet: mpsc::Sender<Value>,
    questions: Arc<Questions>,
    over: CancellationToken,
    /// Why it has ended.
    reason: Arc<Mutex<String>>,
    _tasks: [Task; 3],
    _process: Supervised,
}

impl Pipes {
    /// Starts a program. An error completes a sentence about the server.
    pub(super) fn start(
        program: &str,
        args: &[String],
        variables: &[(String, String)],
        context: &Context,
    ) -> Result<Self, String> {
        let mut command = Command::new(program);
        let environment = &context.paths.environment;
        let usual = USUAL.iter();
        command
            .args(args)
            .env_clear()
            .envs(usual.filter_map(|name| Some((*name, environment.get(name)?))))
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(cwd) = environment.cwd() {
            command.current_dir(cwd);
        }
        let mut process = Supervised::spawn(command, Lifetime::Parent)
            .map_err(|error| format!("is the program `{program}`, which did not start: {error}"))?;
        let child = &mut process.child;
        let (Some(stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            return Err("has no pipes".to_owned());
        };
        let (outlet, messages) = mpsc::channel(OUTBOX);
        let questions: Arc<Questions> = Arc::default();
        let (over, quiet) = (CancellationToken::new(), CancellationToken::new());
        let said: Arc<Mutex<Vec<u8>>> = Arc::default();
        let reason: Arc<Mutex<String>> = Arc::default();
        let listening = {
            let (said, quiet) = (Arc::clone(&said), quiet.clone());
            task::spawn("mcp server words", async move {
                keep_last(stderr, &said).await;
                quiet.cancel();
            })
        };
        let writing = task::spawn("mcp server input", rpc::write(messages, stdin));
        let reading = {
            let (answers, asked) = (outlet.clone(), Arc::clone(&questions));
            let (ends, why) = (over.clone(), Arc::clone(&reason));
            let redactor = context.redactor.clone();
            task::spawn("mcp server output", async move {
                let ended = read(stdout, &answers, &asked).await;
                if ended.is_none() {
                    let _ = tokio::time::timeout(LAST_WORDS, quiet.cancelled()).await;
                }
                let words = ended.unwrap_or_else(|| last_words(&lock(&said), &redactor));
                *lock(&why) = words;
                ends.cancel();
                asked.close();
            })
        };
        Ok(Self {
            outlet,
            questions,
            over,
            reason,
            _tasks: [listening, writing, reading],
            _process: process,
        })
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_cancelled()
    }

    pub(super) async fn ask(
        &self,
        method: &str,
        params: &Value,
        limit: Duration,
    ) -> Result<Value, NoResult> {
        let why = || lock(&self.reason).clone();
        if self.is_over() {
            return Err(NoResult::Gone(why()));
        }
        let failed = |unanswered| NoResult::of(unanswered, limit, why);
        let asked = self.questions.ask(&self.outlet, method, params);
        // A server that does not read counts as late, too.
        let asked = tokio::time::timeout(limit, asked).await;
        let mut question = asked.map_err(|_| NoResult::Late(limit))?.map_err(failed)?;
        let mut giving_up = GivingUp {
            outlet: &self.outlet,
            id: Some(question.id()),
        };
        let answered = question.answered(limit).await;
        if answered != Err(Unanswered::Late) {
            giving_up.id = None;
        }
        answered.map_err(failed)
    }

    pub(super) async fn tell(&self, method: &str, params: &Value) -> Result<(), NoResult> {
        let sent = self.outlet.send(notification(method, params)).await;
        sent.map_err(|_| NoResult::Gone(lock(&self.reason).clone()))
    }
}

/// When dropped, tells the server that nobody waits for its answer any more.
struct GivingUp<'a> {
    outlet: &'a mpsc::Sender<Value>,
    /// The request, until it has an answer.
    id: Option<String>,
}

impl Drop for GivingUp<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            let params = json!({ "requestId": id, "reason": "nobody waits any more" });
            // Does not wait for a server that reads nothing.
            let told = notification("notifications/cancelled", &params);
            let _ = self.outlet.try_send(told);
        }
    }
}

/// Reads a server's messages until it ends, or until it must be ended for the returned reason.
async fn read(
    stdout: ChildStdout,
    answers: &mpsc::Sender<Value>,
    questions: &Questions,
) -> Option<String> {
    let mut stdout = BufReader::with_capacity(64 << 10, stdout);
    let mut line = Vec::new();
    loop {
        match rpc::next_line(&mut stdout, &mut line, LONGEST).await {
            Ok(Line::Whole) => {}
            Ok(Line::TooLong) => {
                return Some(format!(
                    "a message of it had more than {} MiB",
                    LONGEST >> 20
                ));
            }
            Ok(Line::End) | Err(_) => return None,
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        // We do not answer a line that is no message.
        match rpc::parse(&line) {
            Ok(Incoming::Response { id, outcome }) => questions.answer(&id, outcome),
            Ok(Incoming::Request(request)) => {
                // A server that asks more than it reads gets no answer.
                let _ = answers.try_send(rpc::answer(&request.id, asked_back(&request.method)));
            }
            Ok(Incoming::Notification { .. }) | Err(_) => {}
        }
    }
}

/// Reads to the end and keeps the last bytes.
async fn keep_last(mut stderr: impl AsyncRead + Unpin, said: &Mutex<Vec<u8>>) {
    let mut piece = [0; 1024];
    while let Ok(read @ 1..) = stderr.read(&mut piece).await {
        let mut said = lock(said);
        said.extend_from_slice(piece.get(..read).unwrap_or_default());
        let over = said.len().saturating_sub(SAID);
        said.drain(..over);
    }
}

/// The last non-empty line, without secrets and control characters.
fn last_words(said: &[u8], redactor: &Redactor) -> String {
    let text = String::from_utf8_lossy(said);
    let text = redactor.all(&text);
    let line = text.lines().rev().find(|line| !line.trim().is_empty());
    let line = line.unwrap_or_default().trim();
    line.chars()
        .filter(|c| !c.is_control())
        .take(SHOWN)
        .collect()
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
