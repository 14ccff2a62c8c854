//! A first start where nothing is installed: all that is missing is said at once, and a person is offered to have it
//! installed.

use std::fmt::Write as _;
use std::io::BufRead as _;

use super::args::SessionArgs;
use super::before::Before;
use super::kernels::install_python;
use super::models::pull;
use super::style::{HINT, paint, stderr_colours};
use super::{Context, eprint, human, model};
use crate::error::{Exit, Failure};
use crate::kernel::discover::DiscoverError;
use crate::llm::local::{DEFAULT_MODEL, KnownModel};

/// How a kernel is installed, for errors.
const KERNEL_HOW: &str =
    "`sponde kernels install python3` makes a kernel with pandas and matplotlib";

/// What is not here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Missing {
    Kernel,
    Model,
    Both,
}

/// What a session that starts its kernel here needs and this machine does not have. Somebody at the terminal is asked
/// whether to install it; what they do not want is an error later.
///
/// # Errors
/// Both are missing and nobody wants them installed, or that failed.
pub(super) async fn provide(
    args: &SessionArgs,
    before: &Before,
    interactive: bool,
    context: &Context,
) -> Result<(), Failure> {
    let kernel = args.kernel.first().or(before.kernel.as_ref());
    let kernel = kernel.or(context.config.kernel.as_ref());
    let model = args.model.as_ref().or(before.model.as_ref());
    let model = model.or(context.config.model.as_ref());
    let (kernel, model) = (kernel.map(String::as_str), model.map(String::as_str));
    let Some(missing) = look(kernel, model, context).await else {
        return Ok(());
    };
    let wanted = if interactive {
        ask(missing).await
    } else {
        (false, false)
    };
    if wanted.0 {
        install_python(context).await?;
    }
    if wanted.1 {
        pull(DEFAULT_MODEL, context).await?;
    }
    if missing == Missing::Both && wanted == (false, false) {
        return Err(Failure::new(
            Exit::Kernel,
            "there is no kernel to run code and no model to ask",
        )
        .hint(format!("{KERNEL_HOW}; for a model, {}", model::HOW)));
    }
    Ok(())
}

async fn look(kernel: Option<&str>, model: Option<&str>, context: &Context) -> Option<Missing> {
    // A name that is wrong is another mistake.
    let no_kernel = matches!(kernel, None | Some("python3"))
        && matches!(
            context.paths.kernels().find("python3"),
            Err(DiscoverError::Unknown { .. })
        );
    let no_model =
        model.is_none() && !model::is_any(&context.paths, &context.config.providers).await;
    match (no_kernel, no_model) {
        (true, true) => Some(Missing::Both),
        (true, false) => Some(Missing::Kernel),
        (false, true) => Some(Missing::Model),
        (false, false) => None,
    }
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
