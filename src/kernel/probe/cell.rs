//! Runs one cell of the probe and summarizes it.

use std::time::Duration;

use crate::kernel::{
    ExecuteOptions, Execution, ExecutionEvent, Kernel, KernelError, OutputEvent, Verdict,
};

/// Most printed text that is kept: 20,000 numbers are 109 kB.
const MAX_TEXT: usize = 1 << 20;
/// Most other outputs that are kept.
const MAX_OUTPUTS: usize = 100;

/// What a cell did.
#[derive(Debug, Default)]
pub(super) struct Ran {
    /// How it ended; `None` if it could not be run.
    pub(super) verdict: Option<Verdict>,
    /// The beginning of its stdout.
    pub(super) stdout: String,
    /// The same for stderr.
    pub(super) stderr: String,
    /// Displays, results and errors.
    pub(super) outputs: Vec<OutputEvent>,
    /// Whether a loss of output was reported.
    pub(super) lost: bool,
    /// The prompts of its input requests; `true` if the answer is hidden.
    pub(super) asked: Vec<(String, bool)>,
    /// Why it could not be run.
    pub(super) refused: Option<KernelError>,
}

/// How to answer the cell's input requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer<'a> {
    /// Nobody can answer.
    Nobody,
    /// With this text.
    With(&'a str),
}

/// Runs `code` with the timeout `limit`.
pub(super) async fn run(kernel: &Kernel, code: &str, answer: Answer<'_>, limit: Duration) -> Ran {
    let mut ran = Ran::default();
    match start(kernel, code, answer, Some(limit)).await {
        Ok(mut execution) => ran.follow(kernel, &mut execution, answer).await,
        Err(error) => ran.refused = Some(error),
    }
    ran
}

/// Sends `code`.
pub(super) async fn start(
    kernel: &Kernel,
    code: &str,
    answer: Answer<'_>,
    limit: Option<Duration>,
) -> Result<Execution, KernelError> {
    let cell = ExecuteOptions {
        allow_stdin: answer != Answer::Nobody,
        timeout: limit,
        ..ExecuteOptions::cell(code.trim())
    };
    kernel.execute(cell).await
}

impl Ran {
    /// Processes events until the end.
    pub(super) async fn follow(
        &mut self,
        kernel: &Kernel,
        execution: &mut Execution,
        answer: Answer<'_>,
    ) {
        while let Some(event) = execution.next().await {
            if let ExecutionEvent::InputRequested(request) = &event {
                self.asked.push((request.prompt.clone(), request.password));
                if let Answer::With(text) = answer {
                    // If the kernel is gone, the execution ends.
                    let _ = kernel.reply(&execution.id, text.to_owned()).await;
                }
            }
            self.take(event);
        }
    }

    /// Processes events until `text` was printed; `false` if the cell ended first.
    pub(super) async fn until_printed(&mut self, execution: &mut Execution, text: &str) -> bool {
        while let Some(event) = execution.next().await {
            self.take(event);
            if self.stdout.contains(text) {
                return true;
            }
        }
        false
    }

    fn take(&mut self, event: ExecutionEvent) {
        match event {
            ExecutionEvent::Output(OutputEvent::Stream(stream)) => {
                let text = if stream.name == "stderr" {
                    &mut self.stderr
                } else {
                    &mut self.stdout
                };
                if text.len() < MAX_TEXT {
                    text.push_str(&stream.text);
                }
            }
            ExecutionEvent::Output(OutputEvent::Lost(_)) => self.lost = true,
            ExecutionEvent::Output(output) => {
                if self.outputs.len() < MAX_OUTPUTS {
                    self.outputs.push(output);
                }
            }
            ExecutionEvent::Finished(outcome) => self.verdict = Some(outcome.verdict),
            ExecutionEvent::Started { .. }
            | ExecutionEvent::Comm(_)
            | ExecutionEvent::InputRequested(_)
            | ExecutionEvent::StillRunning { .. } => {}
        }
    }

    /// Whether it ran to its end without an error.
    pub(super) fn is_ok(&self) -> bool {
        self.verdict == Some(Verdict::Ok)
    }

    /// How it ended, as text.
    pub(super) fn end(&self) -> String {
        match (&self.verdict, &self.refused) {
            (Some(verdict), _) => in_words(verdict),
            (None, Some(error)) => error.to_string(),
            (None, None) => "no end".to_owned(),
        }
    }

    /// All text of all outputs that a user would see.
    pub(super) fn text(&self) -> String {
        let mut text = self.stdout.clone();
        for output in &self.outputs {
            if let OutputEvent::Display { data, .. } | OutputEvent::Result { data, .. } = output
                && let Some(plain) = data.text_of("text/plain")
            {
                text.push_str(&plain);
            }
        }
        text
    }
}

/// A verdict as text that is the same in every run.
pub(super) fn in_words(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Ok => "ok".to_owned(),
        Verdict::Error { ename, evalue } if ename.is_empty() => {
            format!("an error without a name, `{}`", first_line(evalue))
        }
        Verdict::Error { ename, evalue } if evalue.is_empty() => format!("`{ename}`"),
        Verdict::Error { ename, evalue } => format!("`{ename}: {}`", first_line(evalue)),
        Verdict::Interrupted => "interrupted".to_owned(),
        Verdict::TimedOut => "stopped when its time was up".to_owned(),
        Verdict::Aborted => "not run".to_owned(),
        Verdict::KernelDied(reason) => format!("the kernel died ({reason})"),
    }
}

fn first_line(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().take(60).collect()
}
