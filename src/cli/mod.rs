//! Floor 5, the terminal: arguments in, a scrolling transcript out. Holds no logic that another front end would need.

mod acp;
mod again;
mod allocator;
pub mod args;
mod ask;
mod attach;
mod attention;
mod audit;
mod chat;
mod coming;
mod compaction;
mod completers;
mod completions;
mod config;
mod confine;
mod crash;
mod doctor;
mod exit;
mod export;
mod filter;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzz;
mod hints;
mod human;
mod interact;
mod kernels;
mod keys;
mod line;
mod line_source;
mod link;
mod log_file;
mod logging;
mod look;
mod markdown;
mod mcp;
mod missing;
mod models;
mod notices;
mod pager;
mod pick;
mod picture;
mod piped;
mod profile;
mod profiles;
mod project;
mod protocol_config;
mod proxy;
mod reap;
mod render;
mod restored;
mod resume;
mod run;
mod screen;
mod serve;
mod sessions;
mod signals;
mod stop;
mod style;
mod terminal_kind;
mod tint;
mod totals;

use std::io::Write as _;

use clap::error::ErrorKind;

pub(crate) use crate::app::Context;
use crate::app::Notify;
use crate::cli::exit::Exit;
use crate::config::Config;
use crate::error::{Failure, FailureKind};
use crate::kernel::Redactor;
use crate::paths::{Environment, NoHome, Paths};
use args::{Cli, Command};
pub use render::measure;

/// Maximum threads for many sessions.
const MANY: usize = 8;
/// How long tasks may take to clean up when the program ends.
const CLEAN_UP: std::time::Duration = std::time::Duration::from_millis(300);

/// Runs the command line and returns how the program ends. The only place that prints errors.
pub fn main() -> Exit {
    if let Some(exit) = confine::answer() {
        return exit;
    }
    completions::answer();
    let cli = match <Cli as clap::Parser>::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let exit = match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Done,
                _ => Exit::Usage,
            };
            return match error.print().map_err(|error| unread(&error)) {
                Err(failure) if !failure.message.is_empty() => {
                    report(&failure);
                    failure.kind.into()
                }
                Ok(()) | Err(_) => exit,
            };
        }
    };
    let environment = Environment::of_process();
    // The output of a running notebook must not depend on whether anyone watches.
    let is_looked_at = matches!(
        cli.command,
        None | Some(Command::Ask(_) | Command::Resume(_))
    );
    let environment = if is_looked_at {
        told_of_terminal(environment)
    } else {
        environment
    };
    let redactor = environment.redactor();
    let paths = Paths::of(environment);
    let state = paths.as_ref().ok().map(|paths| paths.state.as_path());
    logging::start(cli.verbose, &redactor, state);
    crash::watch(&redactor, state);
    hide_memory();
    let outcome = context(
        cli.profile.as_deref(),
        paths,
        redactor,
        notices::to_terminal(),
    )
    .and_then(|context| dispatch(cli, &context));
    match outcome {
        Ok(exit) => exit,
        Err(failure) => {
            if !failure.message.is_empty() {
                report(&failure);
            }
            failure.kind.into()
        }
    }
}

/// Passes the terminal's width to the code's environment: shells do not export it.
fn told_of_terminal(environment: Environment) -> Environment {
    match style::terminal_width() {
        Some(columns) => {
            environment.with_variables(vec![("COLUMNS".to_owned(), columns.to_string())])
        }
        None => environment,
    }
}

fn context(
    profile: Option<&str>,
    paths: Result<Paths, NoHome>,
    redactor: Redactor,
    notify: Notify,
) -> Result<Context, Failure> {
    let paths = paths.map_err(|error| Failure::usage(error.to_string()))?;
    let config = Config::load(&paths.config, profile).map_err(|error| profiles::failure(&error))?;
    Ok(Context {
        paths,
        config,
        notify,
        redactor,
        may_ask: true,
    })
}

fn dispatch(cli: Cli, context: &Context) -> Result<Exit, Failure> {
    match cli.command {
        None => asked_or_chat(cli.question, cli.session, context),
        Some(Command::Ask(args)) => block_on(ask::ask(args, context)),
        Some(Command::Run(args)) => block_on(run::run(args, context)),
        Some(Command::Profile(args)) => block_on(profile::profile(args, context)),
        Some(Command::Keys(args)) => keys::keys(args),
        Some(Command::Kernels(args)) => kernels::kernels(args, context),
        Some(Command::Models(args)) => block_on(models::models(args, context)),
        Some(Command::Profiles) => profiles::profiles(context),
        Some(Command::Config(args)) => config::config(&args, context),
        Some(Command::Sessions(args)) => sessions::sessions(args, context),
        Some(Command::Resume(args)) => block_on(resume::resume(*args, context)),
        Some(Command::Attach(args)) => block_on(attach::attach(args, context)),
        Some(Command::Fork(args)) => sessions::fork(&args, context),
        Some(Command::Completions(args)) => completions::completions(&args),
        Some(Command::Audit(args)) => audit::audit(args, context),
        Some(Command::Export(args)) => export::export(&args, context),
        Some(Command::KernelProxy(args)) => block_on(proxy::proxy(args, context)),
        Some(Command::Serve(args)) => block_on_many(serve::serve(*args, context)),
        Some(Command::Mcp(args)) => block_on_many(mcp::mcp(*args, context)),
        Some(Command::Acp(args)) => block_on_many(acp::acp(*args, context)),
        Some(Command::Doctor(args)) => block_on(doctor::doctor(&args, context)),
    }
}

/// A chat, or an answer to one question if nobody is at the terminal.
fn asked_or_chat(
    question: Option<String>,
    session: args::SessionArgs,
    context: &Context,
) -> Result<Exit, Failure> {
    let question = question.map(args::question).transpose()?;
    match question {
        Some(question) if !style::is_interactive() => {
            let args = args::AskArgs {
                question,
                session,
                json: false,
                answer: args::AnswerArgs::default(),
            };
            block_on(ask::ask(args, context))
        }
        first => block_on(chat::chat(session, first, context)),
    }
}

/// Runs a future for one session.
fn block_on(future: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    // Kernel traffic has its own thread, so a screen that accepts no more text cannot stop it. More threads would only
    // hand messages around: a second one costs a fifth more processor time per cell (`scripts/bench --only cpu`).
    block_on_workers(1, future)
}

/// Runs a future for many sessions, which must not block each other.
fn block_on_many(future: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    allocator::for_many_threads();
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    block_on_workers(workers.clamp(2, MANY), future)
}

fn block_on_workers(
    workers: usize,
    future: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(workers)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(FailureKind::Failed, format!("could not start: {error}")))?;
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = future => outcome,
            () = signals::at_once() => Ok(Exit::Interrupted),
        }
    });
    // Remaining tasks clean up when they are dropped. A thread that waits for a line from the terminal must not keep
    // the program alive.
    runtime.shutdown_timeout(CLEAN_UP);
    line_source::restore();
    outcome
}

/// The model's code runs as the same user: it must not read the keys from our environment or memory through /proc.
fn hide_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) =
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        tracing::warn!(%error, "the environment of this process can be read by the kernel's code");
    }
}

fn report(failure: &Failure) {
    let details = failure.details.as_deref();
    tracing::info!(kind = ?failure.kind, details, "ended with an error: {}", failure.message);
    let colours = style::stderr_colours();
    let titled = |title: &str, style, words: &str| {
        let words = format!("{title} {}\n", filter::plain(words));
        let words = style::wrapped_for_stderr(&words);
        let rest = words.strip_prefix(title).unwrap_or_default();
        format!("{}{rest}", style::paint(style, title, colours))
    };
    let mut text = titled("error:", style::BAD, &failure.message);
    for line in failure.details.iter().flat_map(|details| details.lines()) {
        text.push_str("  ");
        text.push_str(&filter::plain(line));
        text.push('\n');
    }
    if let Some(hint) = &failure.hint {
        text.push('\n');
        text.push_str(&titled("hint:", style::HINT, hint));
    }
    // If stderr is closed, there is nowhere left to report it.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Prints to stdout.
///
/// # Errors
/// [`unread`].
fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|error| unread(&error))
}

/// The failure when stdout accepts no more output. A closed pipe is not reported: its reader has seen enough, and the
/// program ends quietly.
fn unread(error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::BrokenPipe => Failure::new(FailureKind::OutputClosed, ""),
        _ => Failure::new(
            FailureKind::Failed,
            format!("could not write to stdout: {error}"),
        ),
    }
}

/// Prints to stderr.
fn eprint(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}
