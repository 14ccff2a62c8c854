//! How a life begins: the kernel is started, or one that is there is taken, and answers.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use crate::jupyter::content::KernelInfo;
use crate::jupyter::kernelspec::InterruptMode;
use crate::kernel::KernelError;
use crate::kernel::attach::{self, AttachOptions};
use crate::kernel::files::KernelFiles;
use crate::kernel::guard::GuardLimits;
use crate::kernel::host::Host;
use crate::kernel::launch::{LaunchOptions, launch};
use crate::kernel::link::{self, Link};
use crate::kernel::oversize::Oversize;
use crate::kernel::quirks::Quirks;
use crate::kernel::ready::{set_up, wait_ready};

/// How long a process may take to end by itself when the connection to it failed.
const LAST_BREATH: Duration = Duration::from_millis(500);

/// Which kernel, and where it comes from.
pub(in crate::kernel) enum Target {
    /// A process of ours, and how much it may send at once.
    Launch(Box<LaunchOptions>, GuardLimits),
    /// A kernel that somebody else started.
    Attach(AttachOptions),
}

impl Target {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Launch(options, _) => &options.kernel.name,
            Self::Attach(options) => &options.name,
        }
    }

    pub(super) fn username(&self) -> &str {
        match self {
            Self::Launch(options, _) => &options.username,
            Self::Attach(options) => &options.username,
        }
    }

    fn ready_timeout(&self) -> Duration {
        match self {
            Self::Launch(options, _) => options.ready_timeout,
            Self::Attach(options) => options.ready_timeout,
        }
    }

    fn oversize(&self) -> Option<Oversize> {
        match self {
            Self::Launch(options, _) => options.oversize.clone(),
            Self::Attach(_) => None,
        }
    }

    /// `connect` is how long the kernel may take to open its sockets.
    fn limits(&self, connect: Duration) -> GuardLimits {
        let limits = match self {
            Self::Launch(_, limits) => *limits,
            Self::Attach(_) => GuardLimits::default(),
        };
        GuardLimits { connect, ..limits }
    }

    fn interrupt_mode(&self) -> InterruptMode {
        match self {
            Self::Launch(options, _) => options.kernel.spec.interrupt_mode,
            // We do not know its process.
            Self::Attach(_) => InterruptMode::Message,
        }
    }
}

/// A kernel that answers.
pub(super) struct Opened {
    pub(super) session: String,
    pub(super) info: KernelInfo,
    pub(super) quirks: Quirks,
    pub(super) interrupt_mode: InterruptMode,
    pub(super) link: Link,
    pub(super) host: Host,
    pub(super) files: KernelFiles,
}

/// Starts or finds the kernel and waits until it answers.
pub(super) async fn open(target: &Target) -> Result<Opened, KernelError> {
    let (files, mut host) = match target {
        Target::Launch(options, _) => launch(options)?,
        Target::Attach(options) => attach::attach(options)?,
    };
    files.started(host.pid());
    let kernel = target.name().to_owned();
    let patience = target.ready_timeout();
    let session = uuid::Uuid::new_v4().to_string();
    let deadline = Instant::now() + patience;
    let ready = async {
        // Longer than the deadline: who waits shall be told that, and not how our own sockets gave up.
        let limits = target.limits(patience + Duration::from_secs(5));
        let guard_dir = files.guard_dir();
        let oversize = target.oversize();
        let mut link = link::connect(&files.info, &session, &guard_dir, limits, oversize).await?;
        let info = wait_ready(&mut link, &session, target.username()).await?;
        let quirks = Quirks::of(&info.implementation);
        if let Some(code) = quirks.set_up {
            set_up(&mut link, &session, target.username(), code).await?;
        }
        Ok::<_, String>((link, info, quirks))
    };
    let failed = tokio::select! {
        biased;
        ready = ready => match ready {
            Ok((link, info, quirks)) => {
                let interrupt_mode = quirks.interrupt.unwrap_or_else(|| target.interrupt_mode());
                return Ok(Opened { session, info, quirks, interrupt_mode, link, host, files });
            }
            Err(reason) => Some(reason),
        },
        reason = host.wait() => {
            let log = host.log().await;
            return Err(KernelError::DiedAtStart { kernel, reason, log });
        }
        () = sleep_until(deadline) => None,
    };
    // A kernel that dies while we shake hands breaks the connection first: its own words are better.
    if let Ok(reason) = timeout(LAST_BREATH, host.wait()).await {
        let log = host.log().await;
        return Err(KernelError::DiedAtStart {
            kernel,
            reason,
            log,
        });
    }
    host.kill().await;
    let log = host.log().await;
    Err(match failed {
        Some(reason) => KernelError::Prepare { kernel, reason },
        None => KernelError::NotReady {
            kernel,
            after: patience,
            log,
        },
    })
}
