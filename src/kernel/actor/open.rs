//! How a life begins: start a kernel here or through a gateway, or take over a running one, and wait until it answers.

use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout};

use crate::jupyter::connection::Transport;
use crate::jupyter::content::KernelInfo;
use crate::jupyter::kernelspec::InterruptMode;
use crate::kernel::KernelError;
use crate::kernel::attach::{self, AttachOptions};
use crate::kernel::checkpoint::{CheckpointId, Checkpoints, PROBE, PROBE_WITHIN, WAKE_WITHIN};
use crate::kernel::files::KernelFiles;
use crate::kernel::gateway::{Gateway, GatewayOptions, Remote};
use crate::kernel::guard::GuardLimits;
use crate::kernel::host::Host;
use crate::kernel::launch::{LaunchOptions, adopt, can_be_copied, gateway_environment, launch};
use crate::kernel::link::{self, Link};
use crate::kernel::oversize::Oversize;
use crate::kernel::quirks::Quirks;
use crate::kernel::ready::{PROBE_EVERY, set_up, wait_ready};

/// How long a process may take to exit by itself after its connection failed.
const LAST_BREATH: Duration = Duration::from_millis(500);

/// A woken kernel has nothing to import: it answers as soon as it is connected.
const WOKEN_PROBE_EVERY: Duration = Duration::from_millis(20);

/// How long a gateway may take to end a kernel that nobody wants any more.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Which kernel to run, and where it comes from.
pub(in crate::kernel) enum Target {
    /// A process that we start, and how much it may send at once.
    Launch(Box<LaunchOptions>, GuardLimits),
    /// A kernel that a gateway starts for us.
    Gateway {
        gateway: GatewayOptions,
        options: Box<LaunchOptions>,
        ///  The gateway's id of the kernel in its last life.
        id: Option<String>,
    },
    /// A kernel that was started by somebody else.
    Attach(AttachOptions),
}

impl Target {
    /// A kernel to be started, here or by a gateway.
    pub(in crate::kernel) fn launch(mut options: LaunchOptions, limits: GuardLimits) -> Self {
        if let Some(connection_file) = options.existing {
            return Self::Attach(AttachOptions {
                name: options.kernel.name,
                connection_file,
                socket_root: options.socket_root,
                username: options.username,
                ready_timeout: options.ready_timeout,
            });
        }
        match options.gateway.take() {
            Some(gateway) => Self::Gateway {
                gateway,
                options: Box::new(options),
                id: None,
            },
            None => Self::Launch(Box::new(options), limits),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::Launch(options, _) | Self::Gateway { options, .. } => &options.kernel.name,
            Self::Attach(options) => &options.name,
        }
    }

    pub(super) fn username(&self) -> &str {
        match self {
            Self::Launch(options, _) | Self::Gateway { options, .. } => &options.username,
            Self::Attach(options) => &options.username,
        }
    }

    /// Whether its kernel can make copies of itself.
    pub(super) fn can_be_copied(&self) -> bool {
        match self {
            Self::Launch(options, _) => can_be_copied(&options.kernel.spec, &options.sandbox),
            Self::Gateway { .. } | Self::Attach(_) => false,
        }
    }

    fn ready_timeout(&self) -> Duration {
        match self {
            Self::Launch(options, _) | Self::Gateway { options, .. } => options.ready_timeout,
            Self::Attach(options) => options.ready_timeout,
        }
    }

    fn oversize(&self) -> Option<Oversize> {
        match self {
            Self::Launch(options, _) | Self::Gateway { options, .. } => options.oversize.clone(),
            Self::Attach(_) => None,
        }
    }

    /// `connect` is how long the kernel may take to open its sockets.
    fn limits(&self, connect: Duration) -> GuardLimits {
        let limits = match self {
            Self::Launch(_, limits) => *limits,
            Self::Gateway { .. } | Self::Attach(_) => GuardLimits::default(),
        };
        GuardLimits { connect, ..limits }
    }

    fn interrupt_mode(&self) -> InterruptMode {
        match self {
            Self::Launch(options, _) => options.kernel.spec.interrupt_mode,
            // Sent as a request to the gateway, which knows the kernelspec.
            Self::Gateway { .. } => InterruptMode::Signal,
            // We do not know its process.
            Self::Attach(_) => InterruptMode::Message,
        }
    }

    /// Ends the kernel at its gateway, where it may have been restarted after it died for us.
    pub(super) async fn give_up(self) {
        if let Self::Gateway {
            gateway,
            id: Some(id),
            ..
        } = self
            && let Ok(gateway) = Gateway::new(gateway)
            && !matches!(timeout(GIVE_UP, gateway.delete(&id)).await, Ok(Ok(())))
        {
            tracing::warn!(url = gateway.url(), "the kernel may still run");
        }
    }
}

/// A kernel that has answered.
pub(super) struct Opened {
    pub(super) session: String,
    pub(super) info: KernelInfo,
    pub(super) quirks: Quirks,
    pub(super) interrupt_mode: InterruptMode,
    pub(super) link: Link,
    pub(super) host: Host,
    /// Whether it was running before we came.
    pub(super) adopted: bool,
    /// Only for a kernel on this machine.
    pub(super) files: Option<KernelFiles>,
}

/// Starts or finds the kernel and waits until it answers.
pub(super) async fn open(target: &mut Target) -> Result<Opened, KernelError> {
    let mut adopted = false;
    let mut patience = target.ready_timeout();
    let (files, host) = match target {
        Target::Launch(options, _) => {
            // Only the first life can adopt a running kernel.
            let kept = options.adopt.take();
            let found = kept.as_ref();
            let found = match found {
                Some(kept) => adopt(&kept.connection_file, options).await,
                None => None,
            };
            if let (Some(found), Some(kept)) = (found, kept) {
                adopted = true;
                patience = kept.patience;
                found
            } else {
                launch(options).await?
            }
        }
        Target::Attach(options) => {
            adopted = true;
            attach::attach(options)?
        }
        Target::Gateway {
            gateway,
            options,
            id,
        } => return open_remote(gateway, options, id).await,
    };
    answer(target, files, host, adopted, patience, PROBE_EVERY).await
}

/// Turns the process of a checkpoint into a kernel, and probes for what is known to hang in forked processes.
///
/// # Errors
/// [`KernelError::NotRestored`], with the process already gone.
pub(super) async fn wake(
    target: &Target,
    checkpoints: &Checkpoints,
    id: CheckpointId,
) -> Result<Opened, KernelError> {
    let kernel = target.name();
    let failed = |reason: String| KernelError::NotRestored {
        kernel: kernel.to_owned(),
        reason,
    };
    let Target::Launch(options, _) = target else {
        return Err(failed("it is not a process of ours".to_owned()));
    };
    let begun = Instant::now();
    let files = match checkpoints.shared_dir(id) {
        Some(dir) => KernelFiles::within(&dir, kernel, &options.runtime_dir),
        None => KernelFiles::make(
            kernel,
            Transport::Ipc,
            &options.runtime_dir,
            &options.socket_root,
        ),
    }
    .map_err(|error| failed(error.of(kernel).to_string()))?;
    let process = checkpoints
        .wake(id, files.kernel_file())
        .await
        .map_err(failed)?;
    let woken = begun.elapsed();
    let host = Host::Local(Box::new(process));
    let mut opened = answer(target, files, host, false, WAKE_WITHIN, WOKEN_PROBE_EVERY)
        .await
        .map_err(|error| match error.log() {
            Some(log) => failed(format!("{error}: {log}")),
            None => failed(error.to_string()),
        })?;
    let answered = begun.elapsed();
    let probe = set_up(&mut opened.link, &opened.session, target.username(), PROBE);
    let reason = match timeout(PROBE_WITHIN, probe).await {
        Ok(Ok(())) => {
            let probed = begun.elapsed();
            tracing::debug!(kernel, ?woken, ?answered, ?probed, "a checkpoint has woken");
            return Ok(opened);
        }
        Ok(Err(reason)) => reason,
        Err(_) => "the copy hangs".to_owned(),
    };
    opened.host.kill().await;
    Err(failed(reason))
}

/// Waits until the kernel of `host` answers; `adopted` says that it was running before.
async fn answer(
    target: &Target,
    mut files: KernelFiles,
    mut host: Host,
    adopted: bool,
    patience: Duration,
    probe_every: Duration,
) -> Result<Opened, KernelError> {
    files.started(host.pid(), host.around());
    let kernel = target.name().to_owned();
    let session = uuid::Uuid::new_v4().to_string();
    let deadline = Instant::now() + patience;
    let ready = async {
        // Longer than the deadline, so that the caller sees its own timeout and not one of our sockets.
        let limits = target.limits(patience + Duration::from_secs(5));
        let guard_dir = files.guard_dir();
        let oversize = target.oversize();
        let mut link = link::connect(&files.info, &session, &guard_dir, limits, oversize).await?;
        let (info, quirks) = greet(&mut link, &session, target.username(), probe_every).await?;
        Ok::<_, String>((link, info, quirks))
    };
    let failed = tokio::select! {
        biased;
        ready = ready => match ready {
            Ok((link, info, quirks)) => {
                let interrupt_mode = quirks.interrupt.unwrap_or_else(|| target.interrupt_mode());
                return Ok(Opened { session, info, quirks, interrupt_mode, link, host, adopted, files: Some(files) });
            }
            Err(reason) => Some(reason),
        },
        reason = host.wait() => {
            let log = host.log().await;
            files.keep(false);
            return Err(KernelError::DiedAtStart { kernel, reason, log });
        }
        () = sleep_until(deadline) => None,
    };
    // A kernel that dies during the handshake breaks the connection first; its own stderr explains more.
    if let Ok(reason) = timeout(LAST_BREATH, host.wait()).await {
        let log = host.log().await;
        files.keep(false);
        return Err(KernelError::DiedAtStart {
            kernel,
            reason,
            log,
        });
    }
    if host.is_kept() && adopted {
        // It is busy with earlier code; do not discard its state.
        return Err(match failed {
            Some(reason) => KernelError::Prepare { kernel, reason },
            None => KernelError::StillBusy {
                kernel,
                after: patience,
            },
        });
    }
    files.keep(false);
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

/// Waits until the kernel answers, and prepares it for the first cell.
async fn greet(
    link: &mut Link,
    session: &str,
    username: &str,
    probe_every: Duration,
) -> Result<(KernelInfo, Quirks), String> {
    let info = wait_ready(link, session, username, probe_every).await?;
    let quirks = Quirks::of(&info.implementation);
    if let Some(code) = quirks.set_up {
        set_up(link, session, username, code).await?;
    }
    Ok((info, quirks))
}

/// The same through a gateway. `id` is the kernel id of the last life, and is set to that of this one.
async fn open_remote(
    gateway: &GatewayOptions,
    options: &LaunchOptions,
    id: &mut Option<String>,
) -> Result<Opened, KernelError> {
    let kernel = &options.kernel.name;
    let failed = |error| KernelError::Gateway {
        kernel: kernel.clone(),
        error,
    };
    let patience = options.ready_timeout;
    let deadline = Instant::now() + patience;
    let gateway = Gateway::new(gateway.clone()).map_err(failed)?;
    let env = gateway_environment(options);
    let mut remote = Remote::start(gateway, kernel, &env, id.as_deref(), patience)
        .await
        .map_err(failed)?;
    *id = Some(remote.id().to_owned());
    let session = uuid::Uuid::new_v4().to_string();
    let connecting = remote.connect(&session);
    let ready = async {
        let mut link = connecting.await.map_err(failed)?;
        match greet(&mut link, &session, &options.username, PROBE_EVERY).await {
            Ok((info, quirks)) => Ok((link, info, quirks)),
            Err(reason) => Err(KernelError::Prepare {
                kernel: kernel.clone(),
                reason,
            }),
        }
    };
    let ready = tokio::select! {
        ready = ready => ready,
        reason = remote.wait() => Err(KernelError::DiedAtStart {
            kernel: kernel.clone(),
            reason,
            log: String::new(),
        }),
        () = sleep_until(deadline) => Err(KernelError::NotReady {
            kernel: kernel.clone(),
            after: patience,
            log: String::new(),
        }),
    };
    match ready {
        Ok((link, info, quirks)) => Ok(Opened {
            session,
            info,
            quirks,
            interrupt_mode: quirks.interrupt.unwrap_or(InterruptMode::Signal),
            link,
            host: Host::Gateway(Box::new(remote)),
            adopted: false,
            files: None,
        }),
        Err(error) => {
            remote.end().await;
            *id = None;
            Err(error)
        }
    }
}
