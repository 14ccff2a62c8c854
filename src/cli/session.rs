//! From arguments to a running session; shared by `ask` and chat.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::args::{SessionArgs, StdinArg};
use super::before::Before;
use super::confine;
use super::existing;
use super::gateway::{self, Far};
use super::interact::END_WITHIN;
use super::model::Switchboard;
use super::notebook::{Old, Place};
use super::project;
use super::workspace::{self, KernelAt, Workspace};
use crate::agent::approval::Approval;
use crate::agent::store::Opened;
use crate::agent::undo::UndoOptions;
use crate::agent::{Agent, AgentOptions, AtLimit, Budgets, Cap, Models, StdinPolicy, spill};
use crate::error::{Exit, Failure};
use crate::kernel::discover::DiscoverError;
use crate::kernel::reap::{Reaped, reap};
use crate::kernel::{KernelSource, LaunchOptions, Sandbox};

/// How long a kernel may take to start.
const READY: Duration = Duration::from_mins(1);
/// How often a model may be asked in one turn, unless told otherwise.
const MAX_STEPS: u32 = 20;
/// How long a cell of the model may run, unless told otherwise.
const CELL_TIMEOUT: Duration = Duration::from_mins(10);

/// Kernels of other languages that a session may offer.
const OTHERS: usize = 8;

/// A running session and what belongs to it.
pub(super) struct Session {
    /// The agent.
    pub agent: Agent,
    /// Its id.
    pub id: String,
    /// Where its notebook is kept.
    pub notebook: PathBuf,
    /// Opens other models, and has the server of a local one; ends with the session.
    models: Arc<Switchboard>,
    /// Whether a notebook goes on whose code may run again first: the session waits to be told.
    pub may_replay: bool,
}

/// Whether a session remembers what was, so that turns can be taken back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Past {
    /// It does, at some cost.
    Kept,
    /// It is over with its first answer.
    Forgotten,
}

/// Starts a new session as `args` and the configuration say; `interactive` if a person is at the terminal.
pub(super) async fn start(
    args: &SessionArgs,
    interactive: bool,
    past: Past,
    context: &Context,
) -> Result<Session, Failure> {
    start_from(args, None, interactive, past, context).await
}

/// Starts a session, a new one or `resumed`, which goes on where it was and with what it had unless `args` say
/// otherwise.
pub(super) async fn start_from(
    args: &SessionArgs,
    resumed: Option<Opened>,
    interactive: bool,
    past: Past,
    context: &Context,
) -> Result<Session, Failure> {
    let stdin = stdin_policy(args.stdin, context.config.stdin, interactive)?;
    let limits = context.config.limits.resolve();
    let before = Before::of(resumed, args, context)?;
    let Place {
        path: notebook,
        old,
    } = before.place(args, limits, context)?;
    let far = gateway::open(&args.gateway, context).await?;
    let named = args.kernel.first().map(String::as_str);
    let existing = existing::find(args.existing.as_deref(), named, context)?;
    let (kernel, others) = match &existing {
        // One kernel was asked for.
        Some(existing) => (existing.kernel.clone(), Vec::new()),
        None => kernels_for(args, old.as_ref(), &before, far.as_ref(), context)?,
    };
    let here = current_dir()?;
    let cwd = match &old {
        Some(old) => {
            old.check_language(&kernel)?;
            old.workdir(&notebook, &here)
        }
        None => before.cwd.clone().unwrap_or_else(|| here.clone()),
    };
    let named_files = workspace::described(&args.files, &here, &cwd)?;
    let instructions =
        project::instructions(&here, args.trust_project, interactive, context).await?;
    let added = instructions.iter().map(|it| it.source.clone()).collect();
    let models = Switchboard::new(context, args.code_mode, &kernel.spec.language, instructions);
    let wanted = args.replay || interactive && past == Past::Kept;
    let may_replay = wanted && existing.is_none() && old.as_ref().is_some_and(|old| old.has_run);
    let named = args.model.as_deref().or(before.model.as_deref());
    let name = named.or(context.config.model.as_deref());
    let outfit = models.first(name).await?;
    let (provider, coaching) = (outfit.provider, outfit.coaching);
    let info = provider.info();
    let budgets = budgets(args, &info.name, info.price.is_some(), context)?;
    let workspace = Workspace {
        cwd: &cwd,
        kernel: KernelAt::of(far.is_some(), existing.is_some()),
        coaching,
        own: models.has_own(),
    };
    let kernels: Vec<&KernelSource> = std::iter::once(&kernel).chain(&others).collect();
    let words = |old: &Old| old.words(existing.is_some(), may_replay);
    let words = old.as_ref().map(words);
    let facts = workspace.facts(named_files, &kernels);
    let main = before.adopting(LaunchOptions {
        sandbox: confine::session(args, &workspace, past, context)?,
        oversize: spill::oversize(&notebook, &limits),
        gateway: far.as_ref().map(Far::options),
        existing: existing.map(|existing| existing.file),
        ..launch_options(kernel, cwd, context)
    });
    // A conversation goes on; one question is soon over, and far away memory is somebody else's.
    let can_have_spare = far.is_none() && main.existing.is_none() && !before.keeps_kernels();
    let adopting = |kernel| {
        before.adopting(LaunchOptions {
            kernel,
            ..main.clone()
        })
    };
    let others = others.into_iter().map(adopting).collect();
    let id = before.id().to_owned();
    let opened = before.open(&main, &notebook, old, may_replay, limits, context);
    let switchboard: Arc<dyn Models> = Arc::new(Arc::clone(&models));
    let agent = Agent::start(AgentOptions {
        provider: Some(provider),
        models: Some(switchboard),
        system: outfit.system,
        instructions: added,
        facts,
        before: words,
        coaching,
        others,
        kernel: main,
        notebook: notebook.clone(),
        transcript: None,
        opened: Some(opened),
        approval: approval(args, context),
        max_steps: max_steps(args, context),
        budgets,
        at_limit: AtLimit::with_person(interactive),
        cell_timeout: Some(cell_timeout(args, context)),
        stdin,
        output_budget: outfit.output_budget,
        limits,
        temperature: None,
        undo: match past {
            Past::Kept => Some(undo_options(context)),
            Past::Forgotten => None,
        },
        spare: interactive && can_have_spare,
    });
    Ok(Session {
        agent,
        id,
        notebook,
        models,
        may_replay,
    })
}

/// The main kernel and the others that a session starts: those that `args` name, else the one of the notebook that it
/// continues, else what the session had before or the configuration says.
fn kernels_for(
    args: &SessionArgs,
    old: Option<&Old>,
    before: &Before,
    far: Option<&Far>,
    context: &Context,
) -> Result<(KernelSource, Vec<KernelSource>), Failure> {
    let own = old.filter(|_| args.kernel.is_empty());
    let own = own.map(|old| old.kernel(far, context)).transpose()?;
    find_kernels(own, before.kernel.as_deref(), &args.kernel, far, context)
}

/// A replay that has nothing to run is a mistake, and none that can be seen later.
///
/// # Errors
/// What is missing.
pub(super) fn check_replay(args: &SessionArgs) -> Result<(), Failure> {
    if !args.replay {
        return Ok(());
    }
    match &args.notebook {
        None => Err(
            Failure::usage("--replay needs the notebook whose code shall run")
                .hint("name it with --notebook"),
        ),
        Some(path) if !path.exists() => Err(Failure::usage(format!(
            "there is nothing to run again: `{}` is not there",
            path.display()
        ))),
        Some(_) => Ok(()),
    }
}

/// What is remembered so that turns can be taken back.
fn undo_options(context: &Context) -> UndoOptions {
    let config = &context.config.undo;
    let mut options = UndoOptions::below(&context.paths.cache.join("undo"));
    let bytes = |mebibytes: u32| u64::from(mebibytes) << 20;
    if let Some(checkpoints) = config.checkpoints {
        options.checkpoints = checkpoints;
    }
    options.memory = config.memory.map(bytes);
    if let Some(files) = config.files {
        options.files.bytes = bytes(files);
    }
    options
}

/// How often a model may be asked in one turn.
fn max_steps(args: &SessionArgs, context: &Context) -> u32 {
    let named = args.max_steps.or(context.config.max_steps);
    named.unwrap_or(MAX_STEPS)
}

/// How long a cell of the model may run.
fn cell_timeout(args: &SessionArgs, context: &Context) -> Duration {
    let seconds = args.cell_timeout.or(context.config.cell_timeout);
    seconds.map_or(CELL_TIMEOUT, Duration::from_secs)
}

/// Ends a session and its server in good order.
pub(super) async fn end(session: Session) {
    session.agent.shutdown().await;
    session.models.end().await;
}

/// The same, but not for ever, before the program ends with `exit`.
pub(super) async fn end_soon(session: Session, exit: Exit) -> Result<Exit, Failure> {
    let _ = tokio::time::timeout(END_WITHIN, end(session)).await;
    Ok(exit)
}

/// The main kernel and those of other languages: the named ones, or else the main one and whatever else there is.
fn find_kernels(
    of_notebook: Option<KernelSource>,
    usual: Option<&str>,
    named: &[String],
    far: Option<&Far>,
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

/// When a person is asked before code runs.
fn approval(args: &SessionArgs, context: &Context) -> Approval {
    if args.yes {
        Approval::Never
    } else {
        context.config.approval.unwrap_or(Approval::Ask)
    }
}

/// What may be spent: arguments go before the configuration. Dollars can only be counted where prices are known.
fn budgets(
    args: &SessionArgs,
    model: &str,
    is_priced: bool,
    context: &Context,
) -> Result<Budgets, Failure> {
    let configured = &context.config.budget;
    let budgets = Budgets {
        turn: configured.turn,
        session: Cap {
            cost: args.max_cost.or(configured.session.cost),
            tokens: args.max_tokens.or(configured.session.tokens),
        },
    };
    if budgets.caps_cost() && !is_priced {
        return Err(Failure::usage(format!(
            "the price of `{model}` is not known, so a limit in dollars cannot be kept"
        ))
        .hint("limit its tokens with --max-tokens, or choose a model with a price from `sponde models`"));
    }
    Ok(budgets)
}

/// Who answers when code asks for input: as the command line says, else the configuration, where it can be had.
fn stdin_policy(
    named: Option<StdinArg>,
    configured: Option<StdinPolicy>,
    interactive: bool,
) -> Result<StdinPolicy, Failure> {
    match named {
        Some(StdinArg::Ask) if !interactive => Err(Failure::usage(
            "--stdin ask needs a person at the terminal",
        )
        .hint("let the model answer with --stdin model, or leave it out: then code that asks gets an error")),
        Some(StdinArg::Ask) => Ok(StdinPolicy::Ask),
        Some(StdinArg::Model) => Ok(StdinPolicy::Model),
        Some(StdinArg::Refuse) => Ok(StdinPolicy::Refuse),
        None => Ok(match configured {
            Some(StdinPolicy::Ask) | None if interactive => StdinPolicy::Ask,
            Some(StdinPolicy::Ask) | None => StdinPolicy::Refuse,
            Some(policy) => policy,
        }),
    }
}

/// The kernel that `name` means; python3 if nothing is named.
pub(super) fn find_kernel(name: Option<&str>, context: &Context) -> Result<KernelSource, Failure> {
    let wanted = name.unwrap_or("python3");
    context.paths.kernels().find(wanted).map_err(|error| {
        let failure = Failure::new(Exit::Kernel, error.to_string());
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

/// How a kernel is started for this person in `cwd`.
pub(super) fn launch_options(
    kernel: KernelSource,
    cwd: PathBuf,
    context: &Context,
) -> LaunchOptions {
    // What an earlier run left that was killed.
    let reaped = reap(&context.paths.sockets);
    if reaped != Reaped::default() {
        tracing::info!(?reaped, "cleaned up after a run that was killed");
    }
    LaunchOptions {
        kernel,
        cwd,
        env: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        runtime_dir: context.paths.jupyter_runtime.clone(),
        socket_root: context.paths.sockets.clone(),
        username: std::env::var("USER").unwrap_or_else(|_| "sponde".to_owned()),
        ready_timeout: READY,
        oversize: None,
        gateway: None,
        existing: None,
        keep: false,
        adopt: None,
        sandbox: Sandbox::Full,
    }
}

/// The directory the kernel works in.
pub(super) fn current_dir() -> Result<PathBuf, Failure> {
    std::env::current_dir()
        .map_err(|error| Failure::usage(format!("the current directory cannot be used: {error}")))
}

/// The day, as ids of sessions have it.
pub(super) fn today() -> String {
    jiff::Zoned::now().strftime("%Y%m%d").to_string()
}

/// The time, as journals have it.
pub(super) fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Where the plots of a notebook are written as files.
pub(super) fn pictures_dir(notebook: &Path) -> PathBuf {
    let stem = notebook
        .file_stem()
        .map_or_else(|| "notebook".into(), |stem| stem.to_string_lossy());
    notebook.with_file_name(format!("{stem}_files"))
}
