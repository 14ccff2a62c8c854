//! Chooses the kernels of a session, and how they are started.

use std::path::PathBuf;
use std::time::Duration;

use super::Context;
use super::remote_kernels::RemoteKernels;
use crate::error::{Failure, FailureKind};
use crate::kernel::discover::DiscoverError;
use crate::kernel::reap::{Reaped, reap};
use crate::kernel::{KernelError, KernelSource, LaunchOptions, Sandbox};

/// How long a kernel may take to start.
const READY: Duration = Duration::from_mins(1);

/// Maximum kernels of other languages that a session offers.
const OTHERS: usize = 8;

/// The main kernel and those of other languages: the named ones, otherwise the main one and all others that exist.
pub fn find_kernels(
    of_notebook: Option<KernelSource>,
    usual: Option<&str>,
    named: &[String],
    far: Option<&RemoteKernels>,
    context: &Context,
) -> Result<(KernelSource, Vec<KernelSource>), Failure> {
    let find = |name: Option<&str>| match far {
        Some(far) => far.find(name, None),
        None => find_kernel(name, context),
    };
    let same =
        |a: &KernelSource, b: &KernelSource| a.spec.language.eq_ignore_ascii_case(&b.spec.language);
    let mut others: Vec<KernelSource> = Vec::new();
    let [first, rest @ ..] = named else {
        let main = match of_notebook {
            Some(main) => main,
            None => find(usual.or(context.config.kernel.as_deref()))?,
        };
        let all = if let Some(far) = far {
            far.all()
        } else {
            let found = context.paths.kernels().list();
            found
                .into_iter()
                .filter_map(|found| found.source.ok())
                .collect()
        };
        for source in all {
            let taken = same(&source, &main) || others.iter().any(|other| same(&source, other));
            if !taken && !source.spec.language.is_empty() && others.len() < OTHERS {
                others.push(source);
            }
        }
        return Ok((main, others));
    };
    let main = find(Some(first))?;
    for name in rest {
        let source = find(Some(name))?;
        if let Some(twin) = std::iter::once(&main)
            .chain(&others)
            .find(|other| same(&source, other))
        {
            return Err(Failure::usage(format!(
                "`{}` and `{name}` are both kernels for {}",
                twin.name, source.spec.language
            ))
            .hint("a session has one kernel for each language"));
        }
        others.push(source);
    }
    Ok((main, others))
}

/// The kernel that `name` means; python3 by default.
pub fn find_kernel(name: Option<&str>, context: &Context) -> Result<KernelSource, Failure> {
    let wanted = name.unwrap_or("python3");
    context.paths.kernels().find(wanted).map_err(|error| {
        let failure = Failure::new(FailureKind::Kernel, error.to_string());
        match &error {
            DiscoverError::Unknown { known, .. } if wanted == "python3" || known.is_empty() => failure.hint(
                "install one with `sponde kernels install python3`, or name a virtual environment that has ipykernel with --kernel",
            ),
            DiscoverError::Unknown { known, .. } => {
                failure.hint(format!("there are: {}; see `sponde kernels`", known.join(", ")))
            }
            DiscoverError::Unusable { .. } => failure.hint("see `sponde kernels`"),
        }
    })
}

/// Launch options of a kernel for this person in `cwd`.
pub fn launch_options(kernel: KernelSource, cwd: PathBuf, context: &Context) -> LaunchOptions {
    // Leftovers of an earlier run that was killed.
    let reaped = reap(&context.paths.sockets);
    if reaped != Reaped::default() {
        tracing::info!(?reaped, "cleaned up after a run that was killed");
    }
    let environment = &context.paths.environment;
    LaunchOptions {
        kernel,
        cwd,
        env: environment.variables().to_vec(),
        runtime_dir: context.paths.jupyter_runtime.clone(),
        socket_root: context.paths.sockets.clone(),
        username: environment.get("USER").unwrap_or("sponde").to_owned(),
        ready_timeout: READY,
        oversize: None,
        gateway: None,
        existing: None,
        keep: false,
        adopt: None,
        sandbox: Sandbox::Full,
    }
}

/// The failure of a kernel that could not be used, with its process's output.
pub fn kernel_failure(error: &KernelError) -> Failure {
    if let KernelError::Gateway { error, .. } = error {
        return super::remote_kernels::failure(error);
    }
    let log = error.log().map(str::to_owned);
    let hint = if log
        .as_deref()
        .is_some_and(|log| log.contains("No module named"))
    {
        "install it with `sponde kernels install python3`, or choose another from `sponde kernels`"
    } else {
        "`sponde doctor` checks the kernel"
    };
    let last = log
        .as_deref()
        .map(|log| log.lines().rev().take(12).collect::<Vec<_>>());
    let log = last.map(|lines| lines.into_iter().rev().collect::<Vec<_>>().join("\n"));
    Failure::new(FailureKind::Kernel, error.to_string())
        .details(log.as_deref())
        .hint(hint)
}
