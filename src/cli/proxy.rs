//! `sponde kernel-proxy`: Jupyter starts this program as a kernel, and it starts the real one.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::args::ProxyArgs;
use super::{Context, filter};
use crate::app::kernels::kernel_failure;
use crate::app::remote_kernels::{self, RemoteKernels};
use crate::app::{kernels, place};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};
use crate::jupyter::connection::ConnectionInfo;
use crate::kernel::{LaunchOptions, Proxy, ProxyAsk, ProxyEnd};
use crate::task::{self, Task};

/// The variable with our parent's process id, which jupyter_client sets for every kernel; `1` means: do not watch it.
const PARENT: &str = "JPY_PARENT_PID";
/// How often to check whether the parent still exists, as ipykernel does.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Runs it.
pub(super) async fn proxy(args: ProxyArgs, context: &Context) -> Result<Exit, Failure> {
    let (asks, _listening) = listen();
    let shown = args.connection_file.display();
    let unreadable = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("could not read the connection file `{shown}`: {error}")).hint(
            "Jupyter writes it and puts its path in place of `{connection_file}`, see docs/proxy.md",
        )
    };
    let text = std::fs::read(&args.connection_file).map_err(|error| unreadable(&error))?;
    let connection = ConnectionInfo::parse(&text).map_err(|error| unreadable(&error))?;
    let far = remote_kernels::open(args.gateway.gateway.as_deref(), context).await?;
    let mut kernel = match &far {
        Some(far) => far.find(Some(&args.kernel), None)?,
        None => kernels::find_kernel(Some(&args.kernel), context)?,
    };
    if kernel.spec.argv.iter().any(|word| word == "kernel-proxy") {
        return Err(Failure::usage(format!(
            "kernel `{}` is a proxy itself",
            filter::plain(&args.kernel)
        ))
        .hint("name the real kernel with --kernel"));
    }
    kernel.spec.argv.extend(args.arguments);
    let options = LaunchOptions {
        gateway: far.as_ref().map(RemoteKernels::options),
        ..kernels::launch_options(kernel, place::current_dir(context)?, context)
    };
    let proxy = Proxy::bind(&connection, &options.username)
        .await
        .map_err(|error| Failure::new(FailureKind::Failed, error.to_string()))?;
    let name = options.kernel.name.clone();
    match proxy.serve(options, asks).await {
        Ok(ProxyEnd::Requested) => Ok(Exit::Done),
        Ok(ProxyEnd::Died(reason)) => Err(Failure::new(
            FailureKind::Kernel,
            format!("kernel `{name}` died ({reason})"),
        )),
        Err(error) => Err(kernel_failure(&error)),
    }
}

/// SIGINT is for the kernel, however often it comes; SIGTERM, SIGHUP and the parent's end are for us.
fn listen() -> (mpsc::Receiver<ProxyAsk>, Task) {
    let (sender, asks) = mpsc::channel(8);
    let parent = std::env::var(PARENT)
        .ok()
        .filter(|pid| pid != "1")
        .and_then(|_| rustix::process::getppid());
    let task = task::spawn("proxy signals", async move {
        let (Ok(mut int), Ok(mut term), Ok(mut hup)) = (
            signal(SignalKind::interrupt()),
            signal(SignalKind::terminate()),
            signal(SignalKind::hangup()),
        ) else {
            return;
        };
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            let ask = tokio::select! {
                _ = int.recv() => ProxyAsk::Interrupt,
                _ = term.recv() => ProxyAsk::End,
                _ = hup.recv() => ProxyAsk::End,
                _ = look.tick(), if parent.is_some() => {
                    // An orphan gets a new parent.
                    if rustix::process::getppid() == parent {
                        continue;
                    }
                    ProxyAsk::End
                }
            };
            if sender.send(ask).await.is_err() {
                return;
            }
        }
    });
    (asks, task)
}
