//! Finds out what a first start needs that this machine does not have.

use super::{Context, SessionSettings, model};
use crate::error::{Failure, FailureKind};
use crate::kernel::discover::DiscoverError;

/// How to install a kernel, for errors.
const KERNEL_HOW: &str =
    "`sponde kernels install python3` makes a kernel with pandas and matplotlib";

/// A question to the person: may the missing part be installed?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    /// A kernel, which runs code.
    Kernel,
    /// A model, which writes it.
    Model,
    /// Both are missing.
    Both,
}

/// What a new session that starts its kernel here needs and this machine does not have.
pub async fn look(settings: &SessionSettings, context: &Context) -> Option<Missing> {
    let starts_here = settings.gateway.is_none()
        && context.config.gateway.is_none()
        && settings.existing.is_none();
    let goes_on = settings.notebook.as_ref().is_some_and(|it| it.exists());
    if !starts_here || goes_on {
        return None;
    }
    let kernel = settings.kernels.first().or(context.config.kernel.as_ref());
    let model = settings.model.as_ref().or(context.config.model.as_ref());
    // A wrong name is a different error.
    let no_kernel = matches!(kernel.map(String::as_str), None | Some("python3"))
        && matches!(
            context.paths.kernels().find("python3"),
            Err(DiscoverError::Unknown { .. })
        );
    let no_model = model.is_none() && !model::is_any(context).await;
    match (no_kernel, no_model) {
        (true, true) => Some(Missing::Both),
        (true, false) => Some(Missing::Kernel),
        (false, true) => Some(Missing::Model),
        (false, false) => None,
    }
}

/// The failure when both are missing and nobody wants them installed.
pub fn nothing_here() -> Failure {
    Failure::new(
        FailureKind::Kernel,
        "there is no kernel to run code and no model to ask",
    )
    .hint(format!("{KERNEL_HOW}; for a model, {}", model::HOW))
}
