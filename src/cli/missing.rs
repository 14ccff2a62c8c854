//! A first start where nothing is installed: all that is missing is said at once, and a person is offered to have it
//! installed.

use std::fmt::Write as _;
use std::io::BufRead as _;
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use super::kernels::install_python;
use super::models::pull;
use super::style::{HINT, paint, stderr_colours};
use super::{Context, eprint, human};
use crate::app::SessionSettings;
use crate::app::install::lock::{lacks_more, wants_more};
use crate::app::missing::{Missing, look, nothing_here};
use crate::error::Failure;
use crate::llm::local::{DEFAULT_MODEL, KnownModel};

/// What a new session needs and this machine does not have. Somebody at the terminal is asked whether to install it; what
/// they do not want is an error later.
///
/// # Errors
/// Both are missing and nobody wants them installed, or that failed.
pub(super) async fn provide(settings: &SessionSettings, context: &Context) -> Result<(), Failure> {
    let Some(missing) = look(settings, context).await else {
        if settings.attended && lacks_more(context) {
            install_rest(context);
        }
        return Ok(());
    };
    let wanted = if settings.attended {
        ask(missing).await
    } else {
        (false, false)
    };
    if wanted.0 {
        install_python(context).await?;
        wants_more(context);
        install_rest(context);
    }
    if wanted.1 {
        pull(DEFAULT_MODEL, context).await?;
    }
    if missing == Missing::Both && wanted == (false, false) {
        return Err(nothing_here());
    }
    Ok(())
}

/// Installs the libraries that the kernel does not need to start, in a process of its own: it goes on when the session ends,
/// and one that is ended too early is begun again at the next start.
fn install_rest(context: &Context) {
    let log = context.paths.data.join("kernels.log");
    let begun = std::env::current_exe().and_then(|program| {
        let out = std::fs::File::create(&log)?;
        std::process::Command::new(program)
            .args(["kernels", "install", "python3"])
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            // A Ctrl-C in the terminal is not meant for it.
            .process_group(0)
            .spawn()
    });
    let words = match begun {
        Ok(_) => format!(
            "more libraries (numpy to statsmodels) are being installed in the background; {} has the log",
            log.display()
        ),
        Err(error) => format!(
            "more libraries could not be installed ({error}); `sponde kernels install python3` does it"
        ),
    };
    eprint(&format!("{words}\n"));
}

/// Asks what to install: a kernel, a model.
async fn ask(missing: Missing) -> (bool, bool) {
    let mut text = "What Sponde needs and this machine does not have yet:\n".to_owned();
    if missing != Missing::Model {
        text.push_str(
            "  a kernel, which runs the code: a Python environment of its own, with pandas and matplotlib\n",
        );
    }
    if missing != Missing::Kernel {
        let size = KnownModel::by_name(DEFAULT_MODEL).map_or(0, |model| model.bytes);
        let _ = writeln!(
            text,
            "  a model, which writes it: set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, or\n  \
             start Ollama; or {DEFAULT_MODEL} ({}), which is small, but free",
            human::bytes(size)
        );
    }
    let question = match missing {
        Missing::Kernel => "Install the kernel now? [y]es, [n]o:",
        Missing::Model => "Install that small model now? [y]es, [n]o:",
        Missing::Both => "Install [b]oth now, only the [k]ernel, or [n]othing?",
    };
    loop {
        eprint(&format!(
            "{text}{} ",
            paint(HINT, question, stderr_colours())
        ));
        text.clear();
        let line = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            let read = std::io::stdin().lock().read_line(&mut line);
            read.is_ok_and(|bytes| bytes > 0).then_some(line)
        });
        let Ok(Some(line)) = line.await else {
            return (false, false);
        };
        let yes = (missing != Missing::Model, missing != Missing::Kernel);
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" | "b" | "both" | "ok" | "sure" => return yes,
            "k" | "kernel" if missing == Missing::Both => return (true, false),
            "n" | "no" | "nothing" => return (false, false),
            _ => {}
        }
    }
}
