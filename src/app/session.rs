//! Turns settings into a running session: origin, kernels, model, workspace, agent.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::Context;
use super::attach::{self, Listener};
use super::audit;
use super::databases::{self, Databases};
use super::existing;
use super::install::modules;
use super::kernels::{self, launch_options};
use super::model::{HOW, OUTPUT_BUDGET, Switchboard};
use super::notebook::Old;
use super::origin::Origin;
use super::place::current_dir;
use super::project;
use super::remote_kernels::{self, RemoteKernels};
use super::sandbox::{self, SandboxLine};
use super::settings::{Lifetime, ModelAt, SessionSettings};
use super::tool_servers::{self, ToolServers};
use super::workspace::{self, KernelAt, Workspace};
use crate::agent::approval::Approval;
use crate::agent::asides::Asides;
use crate::agent::facts::{glob, url};
use crate::agent::guidance::Coaching;
use crate::agent::store::Opened;
use crate::agent::undo::UndoOptions;
use crate::agent::{
    Agent, AgentOptions, AtLimit, Budgets, Cap, KernelOffer, ModelSetup, Models, StdinPolicy,
    output_folder,
};
use crate::error::Failure;
use crate::kernel::{KernelSource, LaunchOptions, Level, Sandbox};
use crate::llm::types::ModelInfo;

/// Default limit of model requests per turn.
pub(super) const MAX_STEPS: u32 = 20;
/// Default time limit of the model's cells.
pub(super) const CELL_TIMEOUT: Duration = Duration::from_mins(10);

/// A running session and its resources.
pub struct Session {
    /// The agent.
    pub agent: Agent,
    /// Its id.
    pub id: String,
    /// The path of its notebook.
    pub notebook: PathBuf,
    /// The directory of its kernels.
    pub directory: PathBuf,
    /// What the model's code may do.
    pub sandbox: SandboxLine,
    /// When a person is asked before code runs.
    pub approval: Approval,
    /// Its kernels, the main one first.
    pub kernels: Vec<KernelOffer>,
    /// Opens other models, and owns the server of a local one; ends with the session.
    models: Arc<Switchboard>,
    /// Whether it continues a notebook whose code may run again first: the session waits for the decision.
    pub may_replay: bool,
    /// Lets other terminals of this person attach; removed with the session.
    listener: Option<Listener>,
    /// Closed with the session.
    _databases: Option<Databases>,
    /// Ended with the session.
    _tools: Option<ToolServers>,
}

/// Starts a session with `settings` and the configuration: a new one, or `resumed`, which continues with its previous
/// settings unless `settings` override them.
///
/// # Errors
/// Something is not available: a kernel, a model, a file.
#[expect(clippy::too_many_lines, reason = "one step after the other")]
pub async fn start(
    settings: &SessionSettings,
    resumed: Option<Opened>,
    context: &Context,
) -> Result<Session, Failure> {
    let stdin = stdin_policy(settings.stdin, context.config.stdin, settings.attended)?;
    let limits = context.config.limits.resolve();
    let origin = Origin::of(resumed, settings, context)?;
    let file = origin.place(settings, limits, context)?;
    let (notebook, old) = (file.path, file.old);
    let remote = remote_kernels::open(settings.gateway.as_deref(), context).await?;
    let named = settings.kernels.first().map(String::as_str);
    let existing = existing::find(settings.existing.as_deref(), named, context)?;
    let (kernel, others) = match &existing {
        // A single kernel was requested.
        Some(existing) => (existing.kernel.clone(), Vec::new()),
        None => kernels_for(settings, old.as_ref(), &origin, remote.as_ref(), context)?,
    };
    let here = current_dir(context)?;
    if let Some(old) = &old {
        old.check_language(&kernel)?;
    }
    let cwd = workdir(old.as_ref(), &origin, &notebook, &here);
    let files = files(settings, &notebook, context)?;
    let named_files = workspace::described(&files, &here, &cwd, &kernel)?;
    let addresses = addresses(settings);
    let named_files = workspace::with_addresses(named_files, &addresses);
    let unread = workspace::unread(&files, &addresses, &here, &cwd, &kernel);
    let pictures = workspace::pictures(&files, &here, &cwd);
    let instructions = project::instructions(&here, settings, context);
    let added = instructions.iter().map(|it| it.source.clone()).collect();
    let models = Switchboard::new(
        context,
        settings.code_mode,
        &kernel.spec.language,
        instructions,
    );
    let goes_on = settings.lifetime == Lifetime::Conversation;
    let is_wanted = existing.is_none() && (settings.replay || settings.attended && goes_on);
    let may_replay = is_wanted && old.as_ref().is_some_and(|old| old.has_run);
    let setup = match settings.model_at {
        ModelAt::Start => Some(models.first(model_name(settings, &origin, context)).await?),
        ModelAt::IfAny => if_any(&models, model_name(settings, &origin, context), context).await?,
        ModelAt::Wish => None,
    };
    let coaching = setup.as_ref().map_or(Coaching::Off, |it| it.coaching);
    let info = setup.as_ref().map(|it| it.provider.info());
    let budgets = budgets(settings, info, context)?;
    let at = KernelAt::of(remote.is_some(), existing.is_some());
    let workspace = workspace_in(&cwd, at, coaching, models.has_own(), context);
    let kernels: Vec<&KernelSource> = std::iter::once(&kernel).chain(&others).collect();
    let words = old.as_ref();
    let words = words.map(|old| old.words(existing.is_some(), may_replay));
    let databases = if at == KernelAt::Here {
        Box::pin(databases::open(&origin.databases, &kernels, context)).await?
    } else {
        None
    };
    let tools = match at {
        KernelAt::Here => tool_servers::open(settings, &kernels, context)?,
        KernelAt::Running | KernelAt::Remote => None,
    };
    let known = databases.as_ref().map_or("", |it| &it.facts);
    let known = tool_servers::told(known, tools.as_ref());
    let facts = workspace.facts(named_files, &known, &kernels);
    let offers = kernels.iter().copied().map(offer).collect();
    let wanted = settings.sandbox.or_as_before(origin.sandbox.as_ref());
    let (sandbox, sandbox_line) = sandbox::session(&wanted, at, &cwd, &files, context).await?;
    if let Some(address) = addresses.first() {
        workspace::reaches(address, &sandbox)?;
    }
    let sandbox = databases::visible(databases.as_ref(), sandbox);
    let sandbox = tool_servers::visible(tools.as_ref(), sandbox);
    let sql = databases::sql(databases.as_ref(), &kernels, &sandbox, context);
    let main = LaunchOptions {
        sandbox,
        oversize: output_folder::oversize(&notebook, &limits),
        gateway: remote.as_ref().map(RemoteKernels::options),
        existing: existing.map(|existing| existing.file),
        ..launch_options(kernel, cwd, context)
    };
    let main = databases::unseen(databases.as_ref(), main);
    let main = tool_servers::importable(tools.as_ref(), main);
    let directory = main.cwd.clone();
    let main = origin.adopting(main, settings.attended, context);
    let approval = approval(
        settings,
        matches!(main.sandbox, Sandbox::Confined(_)),
        context,
    );
    // Only a conversation gains from a spare: a single question ends soon, and memory on a remote machine is not ours
    // to use.
    let can_have_spare = remote.is_none() && main.existing.is_none() && !origin.keeps_kernels();
    let others = others_like(&main, others, &origin, context);
    let installs = modules::installs(settings, at, &main, context);
    let id = origin.id().to_owned();
    let opened = origin.open(&main, &notebook, old, may_replay, limits, context);
    let output_budget = setup.as_ref().map_or(OUTPUT_BUDGET, |it| it.output_budget);
    let has_model = setup.is_some();
    let model = setup.as_ref().map(|it| it.provider.info().name.clone());
    tracing::info!(id, model, kernel = %main.kernel.name, "a session begins");
    let (provider, system) = setup.map(|it| (it.provider, it.system)).unzip();
    let agent = Agent::start(AgentOptions {
        provider,
        models: Some(Arc::new(Arc::clone(&models)) as Arc<dyn Models>),
        system: system.unwrap_or_default(),
        instructions: added,
        facts,
        unread: if at == KernelAt::Here {
            unread
        } else {
            Vec::new()
        },
        pictures,
        before: words,
        coaching,
        others,
        redactor: context.redactor.clone(),
        audit: Some(audit::options(&id, &main, approval, context)),
        tool_calls: tools.as_ref().map(ToolServers::calls),
        kernel: main,
        notebook: notebook.clone(),
        own_dirs: context.paths.own_dirs(),
        transcript: None,
        opened: Some(opened),
        confinement: sandbox_line.words().to_owned(),
        approval,
        rules: context.config.approval.rules.clone(),
        judges_clients: settings.judges_clients,
        max_steps: max_steps(settings, context),
        follow_ups: settings.follow_ups || context.config.follow_ups.unwrap_or_default(),
        budgets,
        at_limit: AtLimit::with_person(settings.attended),
        cell_timeout: Some(cell_timeout(settings, context)),
        stdin,
        sql,
        installs,
        output_budget,
        limits,
        temperature: context.config.temperature,
        undo: goes_on.then(|| undo_options(context)),
        spare: has_model && settings.attended && can_have_spare,
    });
    let listener = goes_on.then(|| listen(&agent, &id, context)).flatten();
    Ok(Session {
        agent,
        id,
        notebook,
        directory,
        sandbox: sandbox_line,
        approval,
        kernels: offers,
        models,
        may_replay,
        listener,
        _databases: databases,
        _tools: tools,
    })
}

/// The model, if one is named or configured; otherwise a notice says how to get one.
async fn if_any(
    models: &Switchboard,
    name: Option<&str>,
    context: &Context,
) -> Result<Option<ModelSetup>, Failure> {
    let setup = models.if_any(name).await?;
    if setup.is_none() {
        let words = format!("there is no model to ask, so only your own code runs: {HOW}");
        context.notify.warning(words);
    }
    Ok(setup)
}

/// Facts about its working environment.
fn workspace_in<'a>(
    cwd: &'a Path,
    kernel: KernelAt,
    coaching: Coaching,
    own: bool,
    context: &'a Context,
) -> Workspace<'a> {
    Workspace {
        cwd,
        home: context.paths.environment.get("HOME").map(Path::new),
        kernel,
        coaching,
        own,
    }
}

/// The directory of its kernels.
fn workdir(old: Option<&Old>, origin: &Origin, notebook: &Path, here: &Path) -> PathBuf {
    match old {
        Some(old) => old.workdir(notebook, here),
        None => origin.cwd.clone().unwrap_or_else(|| here.to_owned()),
    }
}

/// The name of the wanted model, if any.
fn model_name<'a>(
    settings: &'a SessionSettings,
    origin: &'a Origin,
    context: &'a Context,
) -> Option<&'a str> {
    let named = settings.model.as_deref().or(origin.model.as_deref());
    named.or(context.config.model.as_deref())
}

/// Lets other terminals attach.
fn listen(agent: &Agent, id: &str, context: &Context) -> Option<Listener> {
    let listening = attach::listen(agent.handle().clone(), id, &context.paths.sockets);
    if let Err(error) = &listening {
        tracing::warn!(%error, "no other terminal can attach to this session");
    }
    listening.ok()
}

/// Launch options of the `others`, based on those of `main`.
fn others_like(
    main: &LaunchOptions,
    others: Vec<KernelSource>,
    origin: &Origin,
    context: &Context,
) -> Vec<LaunchOptions> {
    let other = |kernel| LaunchOptions {
        kernel,
        ..main.clone()
    };
    let others = others.into_iter().map(other);
    others
        .map(|it| origin.adopting(it, false, context))
        .collect()
}

/// The URLs among the named files.
fn addresses(settings: &SessionSettings) -> Vec<String> {
    let files = settings.files.iter();
    files.filter_map(|file| url::of(file)).collect()
}

/// The files that the model is told about: the named ones, and piped input.
fn files(
    settings: &SessionSettings,
    notebook: &Path,
    context: &Context,
) -> Result<Vec<PathBuf>, Failure> {
    let here = current_dir(context)?;
    let mut files = Vec::new();
    for file in settings.files.iter().filter(|it| url::of(it).is_none()) {
        if here.join(file).exists() || !glob::is_pattern(file) {
            files.push(file.clone());
            continue;
        }
        let found = glob::expand(file, &here);
        if found.is_empty() {
            return Err(Failure::usage(format!(
                "no file is called like `{}`",
                file.display()
            )));
        }
        files.extend(found);
    }
    if let Some(piped) = &settings.piped {
        files.push(piped.keep(notebook, &context.notify)?);
    }
    Ok(files)
}

fn offer(kernel: &KernelSource) -> KernelOffer {
    KernelOffer {
        kernel: kernel.name.clone(),
        language: kernel.spec.language.clone(),
    }
}

/// The main kernel and the others that a session starts: those that `args` name, otherwise the one of the continued
/// notebook, otherwise those that the session had or the configuration names.
fn kernels_for(
    settings: &SessionSettings,
    old: Option<&Old>,
    origin: &Origin,
    remote: Option<&RemoteKernels>,
    context: &Context,
) -> Result<(KernelSource, Vec<KernelSource>), Failure> {
    let own = old.filter(|_| settings.kernels.is_empty());
    let own = own.map(|old| old.kernel(remote, context)).transpose()?;
    let usual = origin.kernel.as_deref();
    kernels::find_kernels(own, usual, &settings.kernels, remote, context)
}

/// Checks that a replay has something to run; otherwise the mistake would go unnoticed.
///
/// # Errors
/// What is missing.
pub fn check_replay(settings: &SessionSettings) -> Result<(), Failure> {
    if !settings.replay {
        return Ok(());
    }
    match &settings.notebook {
        None => Err(
            Failure::usage("--replay needs the notebook whose code is to run")
                .hint("name it with --notebook"),
        ),
        Some(path) if !path.exists() => Err(Failure::usage(format!(
            "there is nothing to run again: `{}` is not there",
            path.display()
        ))),
        Some(_) => Ok(()),
    }
}

/// The state that is stored so that turns can be undone.
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

/// The limit of model requests per turn.
fn max_steps(settings: &SessionSettings, context: &Context) -> u32 {
    let named = settings.max_steps.or(context.config.max_steps);
    named.unwrap_or(MAX_STEPS)
}

/// The time limit of the model's cells.
fn cell_timeout(settings: &SessionSettings, context: &Context) -> Duration {
    let seconds = settings.cell_timeout.or(context.config.cell_timeout);
    seconds.map_or(CELL_TIMEOUT, Duration::from_secs)
}

impl Session {
    /// Queries its kernels outside the cells.
    pub fn asides(&self) -> Asides {
        Asides::of(self.agent.handle().clone())
    }

    /// Shuts it and its model's server down cleanly.
    pub async fn end(self) {
        self.agent.shutdown().await;
        drop(self.listener);
        self.models.end().await;
    }
}

/// When a person is asked before code runs: as configured, otherwise for what the sandbox does not block, if there is
/// one.
fn approval(settings: &SessionSettings, is_confined: bool, context: &Context) -> Approval {
    let usual = if is_confined {
        Approval::OnRisk
    } else {
        Approval::Always
    };
    let named = settings.approval.or(context.config.approval.policy);
    named.unwrap_or(usual)
}

/// The approval mode of sessions with these settings, before one exists.
pub fn usual_approval(settings: &SessionSettings, context: &Context) -> Approval {
    let level = settings.sandbox.level.or(context.config.sandbox);
    // Kernels that other programs started are not confined.
    let is_ours = settings.gateway.is_none() && settings.existing.is_none();
    approval(
        settings,
        is_ours && level.map(|choice| choice.level) != Some(Level::Full),
        context,
    )
}

/// The spending limits: arguments override the configuration. Dollars can only be limited if prices are known.
fn budgets(
    settings: &SessionSettings,
    model: Option<&ModelInfo>,
    context: &Context,
) -> Result<Budgets, Failure> {
    let configured = &context.config.budget;
    let budgets = Budgets {
        turn: configured.turn,
        session: Cap {
            cost: settings.max_cost.or(configured.session.cost),
            tokens: settings.max_tokens.or(configured.session.tokens),
        },
    };
    if let Some(model) = model
        && budgets.caps_cost()
        && model.price.is_none()
    {
        return Err(Failure::usage(format!(
            "the price of `{}` is not known, so a limit in dollars cannot be kept",
            model.name
        ))
        .hint("limit its tokens with --max-tokens, or choose a model with a price from `sponde models`"));
    }
    Ok(budgets)
}

/// Who answers input requests: from the command line, otherwise from the configuration if available.
fn stdin_policy(
    named: Option<StdinPolicy>,
    configured: Option<StdinPolicy>,
    attended: bool,
) -> Result<StdinPolicy, Failure> {
    match named {
        Some(StdinPolicy::Ask) if !attended => Err(Failure::usage(
            "--stdin ask needs a person at the terminal",
        )
        .hint("let the model answer with --stdin model, or leave it out: then code that asks gets an error")),
        Some(policy) => Ok(policy),
        None => Ok(match configured {
            Some(StdinPolicy::Ask) | None if attended => StdinPolicy::Ask,
            Some(StdinPolicy::Ask) | None => StdinPolicy::Refuse,
            Some(policy) => policy,
        }),
    }
}
