//! Hints for a turn that could not begin.

/// The hint when there is no kernel.
pub(super) const KERNEL_HINT: &str = "`sponde doctor` checks the kernel";

/// The hint when the model could not be asked; `key_variable` holds a key that was refused.
pub(super) fn model_hint(key_variable: Option<&str>) -> String {
    match key_variable {
        Some(variable) => format!("check the key in `{variable}`"),
        None => "`sponde models` shows what can be reached; -v says more".to_owned(),
    }
}
