//! `sponde doctor`: what works on this machine and what is missing, each with what to do.

use std::fmt::Write as _;
use std::time::Instant;

use super::style::{BAD, GOOD, HINT, WARN, paint, stdout_colours};
use super::{Context, print};
use crate::app::place::current_dir;
use crate::app::remote_kernels::{self, RemoteKernels};
use crate::app::sandbox::{self, CodeOf, NoGvisor, SandboxSettings};
use crate::app::{kernels, model};
use crate::cli::exit::Exit;
use crate::error::Failure;
use crate::kernel::{ExecuteOptions, Kernel, LaunchOptions, Level, Network, OutputEvent, Sandbox};
use crate::llm::catalog::Setup;
use crate::llm::detect::{self, Found};
use crate::llm::endpoint::KeySource;
use crate::llm::local;

/// One finding, and what to do about it.
enum Finding {
    Good(String),
    Poor(String, &'static str),
    Bad(String, &'static str),
}

/// Runs it. Exit code 4 without a kernel, 5 without a model.
pub(super) async fn doctor(context: &Context) -> Result<Exit, Failure> {
    let mut exit = Exit::Done;
    let models = models(context).await;
    if matches!(models, Finding::Bad(..)) {
        exit = Exit::Provider;
    }
    let kernel = kernel(context).await;
    if matches!(kernel, Finding::Bad(..)) {
        exit = Exit::Kernel;
    }
    let mut findings = vec![
        Finding::Good(format!(
            "sponde {}, data in {}",
            env!("CARGO_PKG_VERSION"),
            context.paths.data.display()
        )),
        writable(context),
        python(context),
        sandboxed(context),
    ];
    findings.extend(gvisor(context));
    findings.extend([limited(context), kernel, models]);
    let colours = stdout_colours();
    let mut text = String::new();
    for finding in findings {
        let (mark, words, hint) = match finding {
            Finding::Good(words) => (paint(GOOD, "ok      ", colours), words, None),
            Finding::Poor(words, hint) => (paint(WARN, "note    ", colours), words, Some(hint)),
            Finding::Bad(words, hint) => (paint(BAD, "missing ", colours), words, Some(hint)),
        };
        let _ = writeln!(text, "{mark} {words}");
        if let Some(hint) = hint {
            let hint_mark = paint(HINT, "hint:", colours);
            let _ = writeln!(text, "         {hint_mark} {hint}");
        }
    }
    print(&text)?;
    Ok(exit)
}

fn writable(context: &Context) -> Finding {
    let dir = context.paths.sessions();
    let probe = dir.join(format!(".probe-{}", std::process::id()));
    let written = std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(&probe, ""));
    let _ = std::fs::remove_file(&probe);
    match written {
        Ok(()) => Finding::Good(format!("sessions can be written to {}", dir.display())),
        Err(error) => Finding::Bad(
            format!("sessions cannot be written to {}: {error}", dir.display()),
            "set SPONDE_DATA_DIR to a directory that can be written",
        ),
    }
}

fn python(context: &Context) -> Finding {
    match context.paths.python() {
        Some(python) => Finding::Good(format!("private Python environment: {}", python.display())),
        None => Finding::Poor(
            "no private Python environment".to_owned(),
            "`sponde kernels install python3` makes one; not needed if another kernel works",
        ),
    }
}

/// What a model's code may do here, and what enforces that.
fn sandboxed(context: &Context) -> Finding {
    const OPEN: &str = "set `sandbox = \"workspace\"` in config.toml, or leave it out";
    const NOTHING: &str = "until then sessions need `--sandbox full`";
    let config = &context.config;
    let level = match config.sandbox.map(|choice| choice.level) {
        Some(Level::Full) => {
            return Finding::Poor(
                "sandbox: full, a model's code can do all that you may".to_owned(),
                OPEN,
            );
        }
        Some(Level::ReadOnly) => "read-only",
        Some(Level::Workspace) | None => "workspace",
    };
    let found = current_dir(context).and_then(|here| sandbox::found(&here, context));
    let found = match found {
        Ok(found) => found,
        Err(failure) => return Finding::Bad(failure.message, NOTHING),
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
        None => Finding::Bad(format!("no sandbox: {}", reasons.join("; ")), hint),
        Some(tier) if tier.gaps().is_empty() => {
            Finding::Good(format!("sandbox: {level}{network}, by {}", tier.name()))
        }
        Some(tier) => Finding::Poor(
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

/// Whether gVisor works, where it is there or wanted.
fn gvisor(context: &Context) -> Option<Finding> {
    let wanted = context.config.sandbox.is_some_and(|choice| choice.gvisor);
    let found = current_dir(context).and_then(|here| sandbox::gvisor(&here, context));
    Some(match found {
        Ok(Ok(_)) => Finding::Good("gVisor works, for `--sandbox gvisor`".to_owned()),
        Ok(Err(missing)) if wanted => Finding::Bad(missing.to_string(), missing.hint()),
        Ok(Err(NoGvisor::Missing)) => return None,
        Ok(Err(missing)) => Finding::Poor(missing.to_string(), missing.hint()),
        Err(failure) => Finding::Bad(failure.message, "set `sandbox` to another level"),
    })
}

/// Whether a confined kernel's processes are limited together.
fn limited(context: &Context) -> Finding {
    const HINT: &str = "run Sponde as `systemd-run --user --scope sponde`, or in a container with a cgroup of its own; \
        without it memory is limited for each process, and processes are not for root";
    if context.config.sandbox == Some(Level::Full.into()) {
        return Finding::Good("limits: none, for nothing is confined".to_owned());
    }
    match sandbox::limited_together() {
        Ok(()) => Finding::Good(
            "limits: memory and processes of a kernel together, by a control group".to_owned(),
        ),
        Err(reason) => Finding::Poor(format!("limits: only for each process: {reason}"), HINT),
    }
}

async fn kernel(context: &Context) -> Finding {
    const HINT: &str =
        "`sponde kernels install python3` makes one; `sponde kernels` shows what was found";
    const GATEWAY: &str =
        "set SPONDE_GATEWAY and SPONDE_GATEWAY_TOKEN as docs/gateway.md says, or unset them";
    let named = context.config.kernel.as_deref();
    let url = context.paths.environment.get("SPONDE_GATEWAY");
    let far = match remote_kernels::open(url, context).await {
        Ok(far) => far,
        Err(failure) => return Finding::Bad(failure.message, GATEWAY),
    };
    let (source, hint) = match &far {
        Some(far) => (far.find(named, None), GATEWAY),
        None => (kernels::find_kernel(named, context), HINT),
    };
    let source = match source {
        Ok(source) => source,
        Err(failure) => return Finding::Bad(failure.message, hint),
    };
    let gateway = far.as_ref().map(RemoteKernels::options);
    let dir = context.paths.sockets.clone();
    let usual = SandboxSettings::default();
    // What is wrong with it is said by itself; here it is the kernel that counts.
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
            return Finding::Bad(format!("{error} {log}"), hint);
        }
    };
    let ready = begin.elapsed().as_millis();
    let libraries = if python {
        libraries(&kernel).await
    } else {
        String::new()
    };
    kernel.shutdown().await;
    Finding::Good(format!(
        "kernel `{name}`{place} answers after {ready} ms{libraries}"
    ))
}

/// Which of the usual libraries the kernel has.
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

async fn models(context: &Context) -> Finding {
    let environment = model::variables(context);
    let setup = Setup {
        environment: &environment,
        providers: &context.config.providers,
    };
    let mut names: Vec<String> = detect::detect(setup)
        .await
        .into_iter()
        .filter_map(|found| match found {
            Found::Key { model, source } => Some(match source {
                KeySource::Variable(variable) => format!("{model} (key in {variable})"),
                KeySource::Command(_) | KeySource::Ours => {
                    format!("{model} (key by `api-key-command`)")
                }
            }),
            Found::Server(server) => {
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
        return Finding::Bad(
            "no model".to_owned(),
            "set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, start Ollama, or `sponde models pull`",
        );
    }
    Finding::Good(format!("models: {}", names.join("; ")))
}
