//! Checks what works on this machine and what is missing, with advice for each: the findings of `sponde doctor`.

use std::time::Instant;

use serde::Serialize;

use super::place::current_dir;
use super::remote_kernels::{self, RemoteKernels};
use super::sandbox::{self, CodeOf, NoGvisor, SandboxSettings};
use super::{Context, kernels, model};
use crate::kernel::{ExecuteOptions, Kernel, LaunchOptions, Level, Network, OutputEvent, Sandbox};
use crate::llm::catalog::Setup;
use crate::llm::detect::{self, ModelSource};
use crate::llm::endpoint::KeySource;
use crate::llm::local;

/// The subject of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// The program itself.
    Sponde,
    /// The directory of sessions.
    Sessions,
    /// The private Python environment.
    Python,
    /// The confinement of code.
    Sandbox,
    /// gVisor, if it is installed or wanted.
    Gvisor,
    /// The common limits of a kernel's processes.
    Limits,
    /// The kernel that a session would use.
    Kernel,
    /// The models that can be asked.
    Models,
}

/// The state of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// It works.
    Ok,
    /// It works less well than it could.
    Note,
    /// It does not work.
    Missing,
}

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The subject.
    pub name: Subject,
    /// Its state.
    pub state: State,
    /// The finding.
    pub words: String,
    /// What to do about it.
    pub hint: Option<String>,
}

impl Check {
    fn ok(name: Subject, words: impl Into<String>) -> Self {
        Self {
            name,
            state: State::Ok,
            words: words.into(),
            hint: None,
        }
    }

    fn note(name: Subject, words: impl Into<String>, hint: &str) -> Self {
        Self {
            state: State::Note,
            hint: Some(hint.to_owned()),
            ..Self::ok(name, words)
        }
    }

    fn missing(name: Subject, words: impl Into<String>, hint: &str) -> Self {
        Self {
            state: State::Missing,
            hint: Some(hint.to_owned()),
            ..Self::ok(name, words)
        }
    }
}

/// Runs all checks: starts the kernel and asks the usual servers for models.
pub async fn checks(context: &Context) -> Vec<Check> {
    let models = models(context).await;
    let kernel = kernel(context).await;
    let (version, data) = (env!("CARGO_PKG_VERSION"), context.paths.data.display());
    let mut checks = vec![
        Check::ok(Subject::Sponde, format!("sponde {version}, data in {data}")),
        writable(context),
        python(context),
        sandboxed(context),
    ];
    checks.extend(gvisor(context));
    checks.extend([limited(context), kernel, models]);
    checks
}

fn writable(context: &Context) -> Check {
    let dir = context.paths.sessions();
    let probe = dir.join(format!(".probe-{}", std::process::id()));
    let written = std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&probe, ""));
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) => Check::ok(
            Subject::Sessions,
            format!("sessions can be written to {}", dir.display()),
        ),
        Err(error) => Check::missing(
            Subject::Sessions,
            format!("sessions cannot be written to {}: {error}", dir.display()),
            "set SPONDE_DATA_DIR to a directory that can be written",
        ),
    }
}

fn python(context: &Context) -> Check {
    match context.paths.python() {
        Some(python) => Check::ok(
            Subject::Python,
            format!("private Python environment: {}", python.display()),
        ),
        None => Check::note(
            Subject::Python,
            "no private Python environment".to_owned(),
            "`sponde kernels install python3` makes one; not needed if another kernel works",
        ),
    }
}

/// What a model's code may do here, and what enforces it.
fn sandboxed(context: &Context) -> Check {
    const OPEN: &str = "set `sandbox = \"workspace\"` in config.toml, or leave it out";
    const NOTHING: &str = "until then sessions need `--sandbox full`";
    let config = &context.config;
    let level = match config.sandbox.map(|choice| choice.level) {
        Some(Level::Full) => {
            return Check::note(
                Subject::Sandbox,
                "sandbox: full, a model's code can do all that you can".to_owned(),
                OPEN,
            );
        }
        Some(Level::ReadOnly) => "read-only",
        Some(Level::Workspace) | None => "workspace",
    };
    let found = current_dir(context).and_then(|here| sandbox::found(&here, context));
    let found = match found {
        Ok(found) => found,
        Err(failure) => return Check::missing(Subject::Sandbox, failure.message, NOTHING),
    };
    let reasons: Vec<&str> = found
        .missing
        .iter()
        .map(|(reason, _)| reason.as_str())
        .collect();
    let hint = found.missing.first().map_or(NOTHING, |(_, hint)| *hint);
    let network = config.network.as_ref().filter(|it| **it != Network::Off);
    let network = network.map_or_else(String::new, |network| {
        sandbox::network_words(network, found.tier.as_ref())
    });
    match found.tier {
        None => Check::missing(
            Subject::Sandbox,
            format!("no sandbox: {}", reasons.join("; ")),
            hint,
        ),
        Some(tier) if tier.gaps().is_empty() => Check::ok(
            Subject::Sandbox,
            format!("sandbox: {level}{network}, by {}", tier.name()),
        ),
        Some(tier) => Check::note(
            Subject::Sandbox,
            format!(
                "sandbox: {level}{network}, by {} only ({}), so {}",
                tier.name(),
                reasons.join("; "),
                sandbox::gaps(&tier, config.network.as_ref()).join("; ")
            ),
            hint,
        ),
    }
}

/// Whether gVisor works, if it is installed or wanted.
fn gvisor(context: &Context) -> Option<Check> {
    let wanted = context.config.sandbox.is_some_and(|choice| choice.gvisor);
    let found = current_dir(context).and_then(|here| sandbox::gvisor(&here, context));
    Some(match found {
        Ok(Ok(_)) => Check::ok(
            Subject::Gvisor,
            "gVisor works, for `--sandbox gvisor`".to_owned(),
        ),
        Ok(Err(missing)) if wanted => {
            Check::missing(Subject::Gvisor, missing.to_string(), missing.hint())
        }
        Ok(Err(NoGvisor::Missing)) => return None,
        Ok(Err(missing)) => Check::note(Subject::Gvisor, missing.to_string(), missing.hint()),
        Err(failure) => Check::missing(
            Subject::Gvisor,
            failure.message,
            "set `sandbox` to another level",
        ),
    })
}

/// Whether the processes of a confined kernel share a limit.
fn limited(context: &Context) -> Check {
    const HINT: &str = "run Sponde as `systemd-run --user --scope sponde`, or in a container with a cgroup of its own; \
        without it memory is limited for each process, and processes are not for root";
    if context.config.sandbox == Some(Level::Full.into()) {
        return Check::ok(
            Subject::Limits,
            "limits: none, for nothing is confined".to_owned(),
        );
    }
    match sandbox::limited_together() {
        Ok(()) => Check::ok(
            Subject::Limits,
            "limits: memory and processes of a kernel together, by a control group".to_owned(),
        ),
        Err(reason) => Check::note(
            Subject::Limits,
            format!("limits: only for each process: {reason}"),
            HINT,
        ),
    }
}

async fn kernel(context: &Context) -> Check {
    const HINT: &str =
        "`sponde kernels install python3` makes one; `sponde kernels` shows what was found";
    const GATEWAY: &str =
        "set SPONDE_GATEWAY and SPONDE_GATEWAY_TOKEN as docs/gateway.md says, or unset them";
    let named = context.config.kernel.as_deref();
    let url = context.paths.environment.get("SPONDE_GATEWAY");
    let far = match remote_kernels::open(url, context).await {
        Ok(far) => far,
        Err(failure) => return Check::missing(Subject::Kernel, failure.message, GATEWAY),
    };
    let (source, hint) = match &far {
        Some(far) => (far.find(named, None), GATEWAY),
        None => (kernels::find_kernel(named, context), HINT),
    };
    let source = match source {
        Ok(source) => source,
        Err(failure) => return Check::missing(Subject::Kernel, failure.message, hint),
    };
    let gateway = far.as_ref().map(RemoteKernels::options);
    let dir = context.paths.sockets.clone();
    let usual = SandboxSettings::default();
    // The sandbox has its own check; this one is about the kernel.
    let sandbox = match &gateway {
        None => {
            let sandbox = sandbox::sandbox(&usual, CodeOf::Model, &dir, &[], context);
            sandbox.await.unwrap_or_default()
        }
        Some(_) => Sandbox::Full,
    };
    let place = gateway
        .as_ref()
        .map_or_else(String::new, |gateway| format!(" of {}", gateway.url));
    let (name, python) = (source.name.clone(), source.spec.language == "python");
    let begin = Instant::now();
    let options = LaunchOptions {
        gateway,
        sandbox,
        ..kernels::launch_options(source, dir, context)
    };
    let kernel = match Kernel::launch(options).await {
        Ok(kernel) => kernel,
        Err(error) => {
            let log = error
                .log()
                .and_then(|log| log.lines().last())
                .unwrap_or_default();
            return Check::missing(Subject::Kernel, format!("{error} {log}"), hint);
        }
    };
    let ready = begin.elapsed().as_millis();
    let libraries = if python {
        libraries(&kernel).await
    } else {
        String::new()
    };
    kernel.shutdown().await;
    Check::ok(
        Subject::Kernel,
        format!("kernel `{name}`{place} answers after {ready} ms{libraries}"),
    )
}

/// Which of the common libraries the kernel has.
async fn libraries(kernel: &Kernel) -> String {
    let code = "import importlib.util as _u\nprint(*[n for n in ('pandas', 'matplotlib', 'numpy', 'scipy', 'sklearn', \
                'seaborn', 'plotly', 'polars') if _u.find_spec(n)])";
    let Ok(execution) = kernel.execute(ExecuteOptions::cell(code)).await else {
        return String::new();
    };
    let (outputs, _) = execution.collect().await;
    let printed: String = outputs
        .iter()
        .filter_map(|output| match output {
            OutputEvent::Stream(stream) => Some(stream.text.as_str()),
            _ => None,
        })
        .collect();
    match printed.split_whitespace().collect::<Vec<_>>().join(", ") {
        names if names.is_empty() => String::new(),
        names => format!(", with {names}"),
    }
}

async fn models(context: &Context) -> Check {
    let environment = model::variables(context);
    let setup = Setup {
        environment: &environment,
        providers: &context.config.providers,
    };
    let mut names: Vec<String> = detect::detect(setup)
        .await
        .into_iter()
        .filter_map(|found| match found {
            ModelSource::Key { model, source } => Some(match source {
                KeySource::Variable(variable) => format!("{model} (key in {variable})"),
                KeySource::Command(_) | KeySource::Ours => {
                    format!("{model} (key by `api-key-command`)")
                }
            }),
            ModelSource::Server(server) => {
                let first = server.models.first()?;
                Some(format!("{} at {}", first.name, server.base_url))
            }
        })
        .collect();
    names.extend(
        local::installed_models(&context.paths.models())
            .iter()
            .map(|model| format!("local/{model}")),
    );
    if names.is_empty() {
        return Check::missing(
            Subject::Models,
            "no model".to_owned(),
            "set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, start Ollama, or `sponde models pull`",
        );
    }
    Check::ok(Subject::Models, format!("models: {}", names.join("; ")))
}
