//! Runs one piece of code in a context, as a stream of events. Dropping the stream interrupts the code.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use super::context::{CodeContext, ContextError, Taught, aside};
use super::language::check_variables;
use crate::jupyter::mime::MimeBundle;
use crate::kernel::{
    ExecuteOptions, Execution, ExecutionEvent, Kernel, KernelError, KernelState, OutputEvent,
    Verdict, plain_traceback,
};
use crate::session::chart;
use crate::task;

/// E2B's name for a chart.
const CHART: &str = "e2b/chart";
/// How many events may wait to be read: each may be large.
const EVENTS: usize = 4;
/// How often abandoned code is interrupted, and how long it may take to end before its kernel is restarted.
const AGAIN: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_secs(15);
/// How long it may take until a kernel's death is noticed.
const SETTLED: Duration = Duration::from_secs(1);

/// An event of running code.
#[derive(Debug, Clone, PartialEq)]
pub enum RunEvent {
    /// The code was accepted; its execution count.
    Count(i64),
    /// Text on stdout.
    Stdout(String),
    /// Text on stderr.
    Stderr(String),
    /// An output to display; `true` if it is the value of the last expression.
    Result(MimeBundle, bool),
    /// It raised an exception, or could not run.
    Error {
        /// The exception.
        name: String,
        /// Its message.
        value: String,
        /// The traceback without colours.
        traceback: String,
    },
}

/// Running code.
pub struct CodeRun {
    events: mpsc::Receiver<RunEvent>,
}

impl CodeContext {
    /// Runs code after the code that is already waiting. Dropping the result interrupts it.
    ///
    /// # Errors
    /// A variable has a name that no language accepts.
    pub fn run(
        self: &Arc<Self>,
        code: String,
        variables: Vec<(String, String)>,
    ) -> Result<CodeRun, ContextError> {
        check_variables(&variables).map_err(ContextError::Invalid)?;
        Ok(CodeRun::begin(Arc::clone(self), code, variables))
    }
}

impl CodeRun {
    fn begin(context: Arc<CodeContext>, code: String, variables: Vec<(String, String)>) -> Self {
        let (sender, events) = mpsc::channel(EVENTS);
        task::spawn("code of a program", async move {
            let mut telling = Telling {
                events: sender,
                errors: 0,
            };
            run(&context, code, &variables, &mut telling).await;
        })
        .detach();
        Self { events }
    }

    /// The next event; `None` at the end. Cancel-safe.
    pub async fn next(&mut self) -> Option<RunEvent> {
        self.events.recv().await
    }
}

/// Sends events to the listener.
struct Telling {
    events: mpsc::Sender<RunEvent>,
    errors: usize,
}

impl Telling {
    async fn tell(&mut self, event: RunEvent) {
        if matches!(event, RunEvent::Error { .. }) {
            self.errors += 1;
            // A second error would repeat the first.
            if self.errors > 1 {
                return;
            }
        }
        // A missing listener is detected elsewhere.
        let _ = self.events.send(event).await;
    }

    async fn fail(&mut self, name: &str, value: impl Into<String>) {
        self.tell(RunEvent::Error {
            name: name.to_owned(),
            value: value.into(),
            traceback: String::new(),
        })
        .await;
    }
}

async fn run(
    context: &CodeContext,
    code: String,
    variables: &[(String, String)],
    telling: &mut Telling,
) {
    let mut turn = tokio::select! {
        turn = context.turn() => turn,
        () = telling.events.closed() => return,
    };
    let kernel = match context.ready(&mut turn).await {
        Ok(kernel) => kernel,
        Err(error) => return telling.fail("ContextError", error.to_string()).await,
    };
    let language = context.language();
    let own = (!variables.is_empty())
        .then(|| language.set(variables, true))
        .flatten();
    if let Some(code) = own {
        let what = "environment variables could not be set";
        if let Err(error) = aside(&kernel, code, what).await {
            return telling.fail("ContextError", error.to_string()).await;
        }
    }
    let lives = match kernel.execute(ExecuteOptions::cell(code)).await {
        Ok(execution) => follow(&kernel, execution, telling).await,
        Err(error) => {
            telling.fail("ContextError", error.to_string()).await;
            !matches!(error, KernelError::Dead { .. } | KernelError::Closed)
        }
    };
    if !lives {
        *turn = Taught::Nothing;
        return;
    }
    if !variables.is_empty()
        && let Some(code) = language.restore(variables)
        && let Err(error) = aside(
            &kernel,
            code,
            "environment variables could not be set again",
        )
        .await
    {
        tracing::warn!(%error, "a context keeps variables of one execution");
    }
}

/// Follows the execution to its end. Returns `false` if its kernel has been replaced since.
async fn follow(kernel: &Kernel, mut execution: Execution, telling: &mut Telling) -> bool {
    loop {
        let event = tokio::select! {
            event = execution.next() => event,
            () = telling.events.closed() => return abandon(kernel, execution).await,
        };
        match event {
            Some(ExecutionEvent::Started { count: Some(count) }) => {
                telling.tell(RunEvent::Count(count)).await;
            }
            Some(ExecutionEvent::Output(output)) => {
                if let Some(event) = event_of(output) {
                    telling.tell(event).await;
                }
            }
            Some(ExecutionEvent::Finished(outcome)) => {
                let lives = ended(outcome.verdict, telling).await;
                if !lives {
                    settled(kernel).await;
                }
                return lives;
            }
            Some(
                ExecutionEvent::Started { count: None }
                | ExecutionEvent::Comm(_)
                | ExecutionEvent::InputRequested(_)
                | ExecutionEvent::StillRunning { .. },
            ) => {}
            None => return true,
        }
    }
}

/// A kernel is reported dead a moment after its code ended. A kernel that was restarted is not dead.
async fn settled(kernel: &Kernel) {
    if !matches!(kernel.state(), KernelState::Starting) {
        let _ = timeout(SETTLED, kernel.ended()).await;
    }
}

/// Reports how it ended. Returns `false` if the kernel must be set up again.
async fn ended(verdict: Verdict, telling: &mut Telling) -> bool {
    match verdict {
        Verdict::Ok => {}
        Verdict::Error { ename, evalue } => telling.fail(&ename, evalue).await,
        // Python has already reported it.
        Verdict::Interrupted => {
            telling
                .fail("Interrupted", "the code was interrupted")
                .await;
        }
        Verdict::TimedOut => telling.fail("TimeoutError", "the code's time was up").await,
        Verdict::Aborted => {
            telling
                .fail("ExecutionAborted", "Execution was aborted")
                .await;
        }
        Verdict::KernelDied(reason) => {
            tracing::info!(%reason, "the kernel of a context died");
            telling
                .fail("ContextRestarting", "Context was restarted")
                .await;
            return false;
        }
    }
    true
}

/// The listener is gone: stops the code.
async fn abandon(kernel: &Kernel, mut execution: Execution) -> bool {
    let until = Instant::now() + GRACE;
    while Instant::now() < until {
        if kernel.interrupt().await.is_err() {
            return false;
        }
        let ending = async {
            loop {
                match execution.next().await {
                    Some(ExecutionEvent::Finished(outcome)) => return Some(outcome.verdict),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        if let Ok(verdict) = timeout(AGAIN, ending).await {
            return !matches!(verdict, Some(Verdict::KernelDied(_)));
        }
        tracing::info!("abandoned code still runs and is interrupted again");
    }
    if let Err(error) = kernel.restart().await {
        tracing::warn!(%error, "a kernel with abandoned code could not be restarted");
    }
    false
}

/// Adds the chart data of a figure that is drawn in a page; for matplotlib, the kernel does so.
fn with_chart(mut data: MimeBundle) -> MimeBundle {
    if !data.contains(CHART)
        && let Some(chart) = chart::of(&data)
    {
        data.insert(CHART, chart);
    }
    data
}

fn event_of(output: OutputEvent) -> Option<RunEvent> {
    Some(match output {
        OutputEvent::Stream(stream) if stream.name == "stderr" => RunEvent::Stderr(stream.text),
        OutputEvent::Stream(stream) => RunEvent::Stdout(stream.text),
        OutputEvent::Display { data, .. } => RunEvent::Result(with_chart(data), false),
        OutputEvent::Result { data, .. } => RunEvent::Result(with_chart(data), true),
        OutputEvent::Error(error) => RunEvent::Error {
            traceback: plain_traceback(&error),
            name: error.ename,
            value: error.evalue,
        },
        OutputEvent::Lost(words) => RunEvent::Stderr(format!("{words}\n")),
        // E2B's clients do not know updatable outputs.
        OutputEvent::Update { .. } | OutputEvent::Clear { .. } => return None,
    })
}
