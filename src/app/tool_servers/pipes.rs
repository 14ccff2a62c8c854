//! A server that is a program: JSON-RPC over its stdin and stdout, a message a line. Its stderr is read for the words with which
//! it ended.

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

/// Messages that wait for it to read.
const OUTBOX: usize = 64;
/// Bytes of what it said last on stderr.
const SAID: usize = 4 << 10;
/// Characters of these that are shown.
const SHOWN: usize = 300;
/// How long its last words are waited for: what it started may hold the pipe.
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
    /// Why it is over.
    reason: Arc<Mutex<String>>,
    _tasks: [Task; 3],
    _process: Supervised,
}

impl Pipes {
    /// Starts a program. An error is the rest of a sentence about the server.
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
        // One that does not read is late too.
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

/// Tells a server that nobody waits for its answer any more, when this is dropped.
struct GivingUp<'a> {
    outlet: &'a mpsc::Sender<Value>,
    /// The request, as long as it has no answer.
    id: Option<String>,
}

impl Drop for GivingUp<'_> {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            let params = json!({ "requestId": id, "reason": "nobody waits any more" });
            // One that reads nothing is not waited for.
            let told = notification("notifications/cancelled", &params);
            let _ = self.outlet.try_send(told);
        }
    }
}

/// Reads what a server says until it ends by itself, or has to be ended for this reason.
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
        // What is no message is not ours to answer.
        match rpc::parse(&line) {
            Ok(Incoming::Response { id, outcome }) => questions.answer(&id, outcome),
            Ok(Incoming::Request(request)) => {
                // One that asks more than it reads gets no answer.
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

/// The last line with words, without secrets and control characters.
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
