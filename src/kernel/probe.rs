//! The behaviour probe: finds out what a kernel really does by running cells in it.
//!
//! It uses only the public [`Kernel`], so it sees what a session would see. Each check has a timeout; a kernel left
//! dead or busy by a check is restarted for the next one. The code is data ([`Snippets`]); an unknown language gets
//! only the checks that need no code.

mod cell;
mod checks;
mod snippets;

use std::time::Duration;

use serde::Serialize;
use tokio::time::{Instant, timeout};

pub use snippets::Snippets;

use super::{Kernel, KernelError, KernelState, LaunchOptions};

/// Timeout of a whole check.
const LIMIT: Duration = Duration::from_mins(3);

/// The findings about a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The kernelspec's name.
    pub kernel: String,
    /// Its own name and version.
    pub implementation: String,
    /// Its language.
    pub language: String,
    /// The protocol version that it claims.
    pub protocol: String,
    /// Time until it was ready.
    pub ready_ms: u64,
    /// One row per check, in the order of [`Check::ALL`].
    pub rows: Vec<Row>,
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Which.
    pub check: Check,
    /// What was seen.
    #[serde(flatten)]
    pub finding: Finding,
    /// How long it took.
    pub took_ms: u64,
}

/// The outcome of a check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How good it is.
    pub grade: Grade,
    /// A description, the same in every run.
    pub observed: String,
    /// What varies: numbers, the kernel's own text.
    pub detail: Option<String>,
}

/// How good an outcome is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// As the protocol specifies.
    Good,
    /// The kernel cannot do it, and reports that correctly.
    Limited,
    /// Something is lost, wrong or hangs, and nothing reports it.
    Bad,
    /// There is no code for it in this language.
    Skipped,
}

/// A check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// Variables persist between cells.
    State,
    /// The value of an expression is shown.
    Result,
    /// A failure is an error with a name.
    Error,
    /// A picture arrives.
    Png,
    /// 20,000 lines arrive, or a loss is reported.
    Lines,
    /// An infinite loop is stopped.
    Interrupt,
    /// An input request reaches the user.
    Input,
    /// An input request does not hang if nobody can answer.
    Nobody,
    /// Text from all Unicode planes arrives unchanged.
    Unicode,
    /// An empty cell does nothing.
    Empty,
    /// Code that ends its own process.
    Exit,
    /// A kernel that was killed is noticed.
    Kill,
    /// A restart on request.
    Restart,
}

impl Check {
    /// All checks in the order in which they run; those that end the kernel come last.
    pub const ALL: [Self; 13] = [
        Self::State,
        Self::Result,
        Self::Error,
        Self::Png,
        Self::Unicode,
        Self::Empty,
        Self::Input,
        Self::Nobody,
        Self::Lines,
        Self::Interrupt,
        Self::Exit,
        Self::Kill,
        Self::Restart,
    ];

    /// Its title for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::State => "variables between cells",
            Self::Result => "result of an expression",
            Self::Error => "error",
            Self::Png => "PNG",
            Self::Lines => "20,000 printed lines",
            Self::Interrupt => "infinite loop, interrupted",
            Self::Input => "question to the person",
            Self::Nobody => "question, nobody there",
            Self::Unicode => "Unicode",
            Self::Empty => "empty cell",
            Self::Exit => "code ends its process",
            Self::Kill => "kernel killed",
            Self::Restart => "restart",
        }
    }

    async fn run(self, kernel: &Kernel, code: &Snippets) -> Option<Finding> {
        match self {
            Self::State => checks::state(kernel, code).await,
            Self::Result => checks::result(kernel, code).await,
            Self::Error => checks::error(kernel, code).await,
            Self::Png => checks::png(kernel, code).await,
            Self::Lines => checks::lines(kernel, code).await,
            Self::Interrupt => checks::interrupt(kernel, code).await,
            Self::Input => checks::input(kernel, code).await,
            Self::Nobody => checks::nobody(kernel, code).await,
            Self::Unicode => checks::unicode(kernel, code).await,
            Self::Empty => checks::empty(kernel, code).await,
            Self::Exit => checks::exit(kernel, code).await,
            Self::Kill => checks::kill(kernel, code).await,
            Self::Restart => checks::restart(kernel, code).await,
        }
    }
}

/// Starts a new kernel and runs all checks on it. `progress` is called before each.
///
/// # Errors
/// If the kernel could not be started at all.
pub async fn probe(
    options: LaunchOptions,
    mut progress: impl FnMut(Check) + Send,
) -> Result<Report, KernelError> {
    let name = options.kernel.name.clone();
    let language = options.kernel.spec.language.clone();
    let begin = Instant::now();
    let kernel = Kernel::launch(options).await?;
    let ready_ms = millis(begin);
    let info = kernel.info().await?;
    let language = info
        .language_info
        .get("name")
        .and_then(|name| name.as_str())
        .map_or(language, str::to_owned);
    let code = Snippets::of(&language);
    let mut rows = Vec::new();
    for check in Check::ALL {
        progress(check);
        let begin = Instant::now();
        let finding = match timeout(LIMIT, check.run(&kernel, &code)).await {
            Ok(Some(finding)) => finding,
            Ok(None) => Finding {
                grade: Grade::Skipped,
                observed: "not checked: no code for this language".to_owned(),
                detail: None,
            },
            Err(_) => Finding {
                grade: Grade::Bad,
                observed: format!("no end within {} s", LIMIT.as_secs()),
                detail: None,
            },
        };
        let went_wrong = finding.grade == Grade::Bad;
        rows.push(Row {
            check,
            finding,
            took_ms: millis(begin),
        });
        // Do not let this check affect the next. If the kernel does not restart, the next check reports it.
        if went_wrong || kernel.state() != KernelState::Idle {
            let _ = kernel.restart().await;
        }
    }
    kernel.shutdown().await;
    Ok(Report {
        kernel: name,
        implementation: format!("{} {}", info.implementation, info.implementation_version)
            .trim()
            .to_owned(),
        language,
        protocol: info.protocol_version,
        ready_ms,
        rows,
    })
}

fn millis(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX)
}
