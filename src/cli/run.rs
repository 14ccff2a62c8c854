//! `sponde run`: execute a notebook, a script or a line of code. stdout is what the code printed.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::mpsc;

use super::args::RunArgs;
use super::existing;
use super::gateway::{self, Far};
use super::screen::Screen;
use super::signals::{self, Ask};
use super::style::{self, BAD, WARN, paint};
use super::{Context, eprint, interact, print, session};
use crate::agent::replay::{self, Control, OtherKernels, ReplayOptions, Report};
use crate::agent::{Event, EventKind, Spill, spill, write_atomically_with};
use crate::error::{Exit, Failure};
use crate::jupyter::nbformat::{Cell, Notebook, random_cell_id};
use crate::kernel::{Kernel, KernelError, KernelSource, LaunchOptions, Verdict};
use crate::session::notebook::{Foreign, foreign};

/// Runs it.
pub(super) async fn run(args: RunArgs, context: &Context) -> Result<Exit, Failure> {
    let cwd = session::current_dir()?;
    let (source, workdir) = read(&args, &cwd)?;
    if let Some(output) = &args.output {
        check_output(output)?;
    }
    let far = gateway::open(&args.gateway, context).await?;
    let existing = existing::find(args.existing.as_deref(), args.kernel.as_deref(), context)?;
    let named = existing
        .as_ref()
        .map(|existing| existing.kernel.name.as_str())
        .or(args.kernel.as_deref());
    let (kernel_source, mut notebook) = prepare(source, named, far.as_ref(), context)?;
    let (mut signals, _listening) = signals::listen();
    let name = kernel_source.name.clone();
    let limits = context.config.limits.resolve();
    let spill = match &args.output {
        Some(output) => Spill::beside(output, &workdir, limits.files),
        None => Spill::none(),
    };
    let oversize = args
        .output
        .as_deref()
        .and_then(|output| spill::oversize(output, &limits));
    let options = LaunchOptions {
        oversize: oversize.clone(),
        gateway: far.as_ref().map(Far::options),
        existing: existing.map(|existing| existing.file),
        ..session::launch_options(kernel_source, workdir.clone(), context)
    };
    let kernel = tokio::select! {
        kernel = Kernel::launch(options) => kernel.map_err(|error| kernel_failure(&error))?,
        Some(_) = signals.recv() => return Ok(Exit::Interrupted),
    };
    let interactive = style::is_interactive() && args.path.as_deref() != Some(Path::new("-"));
    let (control_tx, mut control) = mpsc::channel(8);
    let (events_tx, events) = mpsc::channel(16);
    let options = ReplayOptions {
        cell_timeout: args.timeout.map(Duration::from_secs),
        allow_errors: args.allow_errors,
        allow_stdin: interactive && !args.json,
        limits,
    };
    let json = args.json;
    let mut others = OtherKernels::new(|cell| {
        let source = match &far {
            Some(far) => far.for_cell(cell.kernel, cell.language)?,
            None => other_kernel(cell, context)?,
        };
        Ok(LaunchOptions {
            gateway: far.as_ref().map(Far::options),
            oversize: oversize.clone(),
            ..session::launch_options(source, workdir.clone(), context)
        })
    });
    let (result, watched) = tokio::join!(
        replay::replay(
            &mut notebook,
            &kernel,
            &mut others,
            options,
            spill,
            &mut control,
            events_tx
        ),
        show(events, control_tx, &mut signals, json, context, &args),
    );
    // What happened is written in any case; then it is time to say how it went.
    let written = args
        .output
        .as_deref()
        .map(|path| write(&notebook, path))
        .transpose();
    tokio::join!(kernel.shutdown(), others.shutdown());
    written?;
    match result {
        Ok(report) => finish(&report, &notebook, &name, watched, args.output.as_deref()),
        Err(error) => Err(kernel_failure(&error)),
    }
}

/// A notebook, or code for a new one.
enum Source {
    Notebook(Box<Notebook>),
    Code(String),
}

fn read(args: &RunArgs, cwd: &Path) -> Result<(Source, PathBuf), Failure> {
    if let Some(code) = &args.code {
        return Ok((Source::Code(code.clone()), cwd.to_owned()));
    }
    let path = args.path.clone().unwrap_or_default();
    let shown = path.display().to_string();
    let unreadable =
        |error: io::Error| Failure::usage(format!("could not read `{shown}`: {error}"));
    if path.as_os_str() == "-" {
        let mut code = String::new();
        io::stdin().read_to_string(&mut code).map_err(unreadable)?;
        return Ok((Source::Code(code), cwd.to_owned()));
    }
    let bytes = std::fs::read(&path).map_err(unreadable)?;
    // As Jupyter does: a notebook runs where it lies.
    let dir = cwd
        .join(&path)
        .parent()
        .map_or_else(|| cwd.to_owned(), Path::to_owned);
    if path
        .extension()
        .is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
    {
        return Ok((Source::Notebook(Box::new(parse(&bytes, &shown)?)), dir));
    }
    let bytes = bytes
        .strip_prefix(b"\xef\xbb\xbf")
        .unwrap_or(&bytes)
        .to_vec();
    let code = String::from_utf8(bytes).map_err(|_| {
        Failure::usage(format!(
            "`{shown}` is neither a notebook (.ipynb) nor a script in UTF-8"
        ))
    })?;
    Ok((Source::Code(code), dir))
}

/// Reads a notebook; oddities are warned about, never fatal.
pub(super) fn parse(bytes: &[u8], shown: &str) -> Result<Notebook, Failure> {
    let loaded = Notebook::read(bytes, &mut random_cell_id)
        .map_err(|error| Failure::usage(format!("could not read the notebook `{shown}`: {error}"))
            .hint("a notebook is a JSON file of nbformat 2 to 4; `sponde run` takes scripts too, by any other ending"))?;
    for warning in &loaded.warnings {
        eprint(&paint(
            WARN,
            &super::filter::plain(&format!(
                "note: `{shown}`: {warning}
"
            )),
            style::stderr_colours(),
        ));
    }
    Ok(loaded.notebook)
}

/// Before anything runs: can the result be written?
fn check_output(output: &Path) -> Result<(), Failure> {
    let shown = output.display();
    if output.is_dir() {
        return Err(Failure::usage(format!("`{shown}` is a directory")).hint("name a file with -o"));
    }
    let parent = output
        .parent()
        .filter(|dir| !dir.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    if !parent.is_dir() {
        return Err(Failure::usage(format!(
            "`{shown}` cannot be written: its directory is not there"
        )));
    }
    let probe = parent.join(format!(".sponde-{}.tmp", uuid::Uuid::new_v4().simple()));
    let written = std::fs::write(&probe, b"?");
    let _ = std::fs::remove_file(&probe);
    written.map_err(|error| Failure::usage(format!("`{shown}` cannot be written: {error}")))
}

/// The kernel to use, and the notebook to run.
fn prepare(
    source: Source,
    kernel: Option<&str>,
    far: Option<&Far>,
    context: &Context,
) -> Result<(KernelSource, Notebook), Failure> {
    match source {
        Source::Code(code) => {
            let named = kernel.or(context.config.kernel.as_deref());
            let kernel = match far {
                Some(far) => far.find(named, None)?,
                None => session::find_kernel(named, context)?,
            };
            let mut notebook = replay::notebook_for(
                &kernel.name,
                &kernel.spec.display_name,
                &kernel.spec.language,
            );
            notebook.cells.push(Cell::code(random_cell_id(), code));
            Ok((kernel, notebook))
        }
        Source::Notebook(mut notebook) => {
            let kernel = notebook_kernel(&notebook, kernel, far, context)?;
            if kernel.name != "python3" || !notebook.metadata.contains_key("kernelspec") {
                let fresh = replay::notebook_for(
                    &kernel.name,
                    &kernel.spec.display_name,
                    &kernel.spec.language,
                );
                notebook.metadata.extend(fresh.metadata);
            }
            Ok((kernel, *notebook))
        }
    }
}

/// What was asked for, else the notebook's own kernel, else one for its language.
fn notebook_kernel(
    notebook: &Notebook,
    wanted: Option<&str>,
    far: Option<&Far>,
    context: &Context,
) -> Result<KernelSource, Failure> {
    let text = |object: &str, key: &str| {
        notebook
            .metadata
            .get(object)?
            .get(key)?
            .as_str()
            .map(str::to_owned)
    };
    let language = || text("kernelspec", "language").or_else(|| text("language_info", "name"));
    if let Some(far) = far {
        let named = text("kernelspec", "name").or_else(|| context.config.kernel.clone());
        return match wanted {
            Some(wanted) => far.find(Some(wanted), None),
            None => far.find(named.as_deref(), language().as_deref()),
        };
    }
    if let Some(wanted) = wanted {
        return session::find_kernel(Some(wanted), context);
    }
    let Some(named) = text("kernelspec", "name") else {
        return session::find_kernel(context.config.kernel.as_deref(), context);
    };
    session::find_kernel(Some(&named), context).or_else(|failure| {
        let other = language().and_then(|language| context.paths.kernels().for_language(&language));
        match other {
            Some(kernel) => {
                let text = format!(
                    "note: there is no kernel `{named}`; using `{}`\n",
                    kernel.name
                );
                let text = super::filter::plain(&text);
                eprint(&paint(WARN, &text, style::stderr_colours()));
                Ok(kernel)
            }
            None => Err(failure),
        }
    })
}

/// The kernel of a cell that belongs to another one than the notebook's: the one it ran in, else one for its language.
fn other_kernel(cell: &Foreign<'_>, context: &Context) -> Result<KernelSource, KernelError> {
    let kernels = context.paths.kernels();
    let named = cell.kernel.and_then(|name| kernels.find(name).ok());
    named
        .filter(|source| source.spec.language.eq_ignore_ascii_case(cell.language))
        .or_else(|| kernels.for_language(cell.language))
        .ok_or_else(|| KernelError::Prepare {
            kernel: cell.kernel.unwrap_or(cell.language).to_owned(),
            reason: format!(
                "a cell of the notebook needs it, and there is no kernel for {}; see `sponde kernels`",
                cell.language
            ),
        })
}

/// How a run went for whoever watched it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Watched {
    /// To its end.
    Whole,
    /// Until Ctrl-C or a request to end.
    Stopped,
    /// Until stdout took no more, for this reason.
    Unread(Failure),
}

/// Shows events until there are no more.
async fn show(
    mut events: mpsc::Receiver<EventKind>,
    control: mpsc::Sender<Control>,
    signals: &mut mpsc::Receiver<Ask>,
    json: bool,
    context: &Context,
    args: &RunArgs,
) -> Watched {
    let pictures = args
        .output
        .as_deref()
        .map_or_else(|| context.paths.cache.join("plots"), session::pictures_dir);
    let mut screen = Screen::new(pictures);
    let mut typed = BufReader::new(tokio::io::stdin()).lines();
    let mut watched = Watched::Whole;
    let mut sequence = 0;
    loop {
        tokio::select! {
            event = events.recv() => {
                let Some(event) = event else { return watched };
                if matches!(watched, Watched::Unread(_)) {
                    continue;
                }
                sequence += 1;
                let read = if json {
                    json_line(&Event { sequence, kind: event.clone() })
                } else {
                    screen.show(&event)
                };
                if let Err(failure) = read {
                    watched = Watched::Unread(failure);
                    let _ = control.send(Control::End).await;
                } else if let EventKind::InputRequested { prompt, password, .. } = event {
                    let wish = match interact::ask_line(&mut typed, &prompt, password, signals).await {
                        Ok(line) => line.map_or(Control::Interrupt, Control::Reply),
                        Err(ask) => wish(ask),
                    };
                    let _ = control.send(wish).await;
                }
            }
            Some(ask) = signals.recv() => {
                watched = Watched::Stopped;
                let _ = control.send(wish(ask)).await;
            }
        }
    }
}

fn wish(ask: Ask) -> Control {
    match ask {
        Ask::Interrupt => Control::Interrupt,
        Ask::End => Control::End,
    }
}

/// Prints an event.
fn json_line(event: &Event) -> Result<(), Failure> {
    match serde_json::to_string(event) {
        Ok(mut line) => {
            line.push('\n');
            print(&line)
        }
        Err(_) => Ok(()),
    }
}

fn write(notebook: &Notebook, path: &Path) -> Result<(), Failure> {
    write_atomically_with(path, |file| notebook.write_to(file)).map_err(|error| {
        Failure::new(
            Exit::Failed,
            format!("could not write `{}`: {error}", path.display()),
        )
    })
}

fn finish(
    report: &Report,
    notebook: &Notebook,
    kernel: &str,
    watched: Watched,
    output: Option<&Path>,
) -> Result<Exit, Failure> {
    match watched {
        Watched::Whole => {}
        Watched::Stopped => return Ok(Exit::Interrupted),
        Watched::Unread(failure) => return Err(failure),
    }
    let Some((index, verdict)) = &report.failed else {
        return Ok(Exit::Done);
    };
    let cell = notebook.cells.get(*index);
    let own = cell
        .and_then(foreign)
        .map_or(kernel, |cell| cell.kernel.unwrap_or(cell.language));
    let mut failure = match verdict {
        Verdict::Interrupted => return Ok(Exit::Interrupted),
        Verdict::KernelDied(reason) => Failure::new(
            Exit::Kernel,
            format!(
                "kernel `{own}` died while it ran cell {} ({reason})",
                index + 1
            ),
        ),
        Verdict::TimedOut => Failure::new(
            Exit::Failed,
            format!("cell {} ran too long and was stopped", index + 1),
        ),
        Verdict::Error { ename, evalue } => {
            let first = evalue.lines().next().unwrap_or_default();
            let what = if ename.is_empty() {
                first.to_owned()
            } else {
                format!("{ename}: {first}")
            };
            Failure::new(Exit::Failed, format!("cell {} failed: {what}", index + 1))
        }
        Verdict::Aborted | Verdict::Ok => {
            Failure::new(Exit::Failed, format!("cell {} was not run", index + 1))
        }
    };
    let all = notebook.cells.len();
    if matches!(verdict, Verdict::TimedOut) {
        failure = failure.hint("give it more time with --timeout");
    } else if all > 1 {
        let text = match output {
            Some(path) => format!(
                "the cells before it, and what it printed, are in `{}`",
                path.display()
            ),
            None => {
                "write the outputs to a notebook with -o, or go on after errors with --allow-errors"
                    .to_owned()
            }
        };
        failure = failure.hint(text);
    }
    Err(failure)
}

/// A kernel that could not be used, with what its process wrote.
pub(super) fn kernel_failure(error: &KernelError) -> Failure {
    if let KernelError::Gateway { error, .. } = error {
        return gateway::failure(error);
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
    Failure::new(Exit::Kernel, error.to_string())
        .details(log.as_deref())
        .hint(hint)
}

/// Marks a line of a list as bad.
pub(super) fn bad(text: &str) -> String {
    paint(BAD, text, style::stdout_colours())
}
