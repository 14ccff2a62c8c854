//! Missing modules: which package provides one, who decides about installing it, and who installs it.
//!
//! The model chose the name, and a name can be invented, mistyped, or planted in text that the model read. So only
//! packages in [`PACKAGES`] are ever installed without asking; for everything else a person decides, and is told the
//! package's name and the environment it goes to.

mod packages;

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::kernel::KernelSource;
pub use packages::package_of;

/// When to install a package that code needs and the kernel's environment lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstallPolicy {
    /// Without asking, if it is a well-known package and the environment is Sponde's own. Otherwise like `ask`.
    Allow,
    /// If the person present agrees.
    #[default]
    Ask,
    /// Never.
    Never,
}

/// How a session handles missing modules.
#[derive(Clone)]
pub struct Installs {
    /// Who installs.
    pub installer: std::sync::Arc<dyn Installer>,
    /// When to install.
    pub policy: InstallPolicy,
    /// Whether a person is present.
    pub attended: bool,
}

/// A package that can be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The missing module.
    pub module: String,
    /// The package that provides it.
    pub package: String,
    /// Whether the package is known to provide it, rather than merely having the same name.
    pub is_known: bool,
    /// The interpreter of the target environment.
    pub python: PathBuf,
    /// A description of the environment.
    pub environment: String,
    /// Whether the environment is Sponde's own.
    pub is_private: bool,
    /// Whether an installation that is running now brings it.
    pub is_coming: bool,
}

/// Installs packages, outside of any sandbox.
pub trait Installer: Send + Sync {
    /// How to provide a module that `kernel` lacks.
    ///
    /// # Errors
    /// A message for the model, if the module cannot be installed.
    fn look(
        &self,
        kernel: KernelSource,
        module: String,
    ) -> BoxFuture<'static, Result<Offer, String>>;

    /// Installs the offered package.
    ///
    /// # Errors
    /// A message, if the installation failed.
    fn install(&self, offer: Offer) -> BoxFuture<'static, Result<(), String>>;

    /// Waits for the installation that brings the offered package.
    ///
    /// # Errors
    /// A message, if the package is not there at its end, or the end does not come.
    fn wait(&self, offer: Offer) -> BoxFuture<'static, Result<(), String>>;
}

/// The decision about an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Install it.
    Install,
    /// Ask a person.
    Ask,
    /// Do not install it.
    Leave,
}

impl InstallPolicy {
    /// Decides about `offer`; `attended` says whether a person is present.
    pub fn judge(self, offer: &Offer, attended: bool) -> Verdict {
        match self {
            Self::Allow if offer.is_known && offer.is_private => Verdict::Install,
            Self::Allow | Self::Ask if attended => Verdict::Ask,
            Self::Allow | Self::Ask | Self::Never => Verdict::Leave,
        }
    }
}

/// The module named in the error `No module named 'cv2'`. `None` for a dotted name: then the package is installed, but
/// lacks the submodule.
pub fn missing_module<'a>(ename: &str, evalue: &'a str) -> Option<&'a str> {
    if ename != "ModuleNotFoundError" {
        return None;
    }
    let rest = evalue.trim().strip_prefix("No module named ")?;
    let name = rest.strip_prefix('\'')?.strip_suffix('\'')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_plain = !name.is_empty() && name.len() <= 60 && name.chars().all(is_name);
    (is_plain && !name.starts_with(|c: char| c.is_ascii_digit())).then_some(name)
}

/// The question for the person.
pub fn question(offer: &Offer) -> String {
    let Offer {
        module,
        package,
        environment,
        ..
    } = offer;
    let doubt = if offer.is_known {
        String::new()
    } else {
        format!(
            "Sponde does not know it: a package named `{package}` is on the index, but it may not be the intended one. "
        )
    };
    format!(
        "The code needs the module `{module}`. {doubt}Install the package `{package}` into {environment}? [y]es, [n]o: "
    )
}

/// What the person is told about an offer that is not taken.
pub fn left(offer: &Offer) -> String {
    let Offer {
        module,
        package,
        environment,
        ..
    } = offer;
    if offer.is_known {
        format!(
            "`{module}` is in the package `{package}`, which {environment} does not have; it is not installed without being asked for \
             (--install allow, or in a chat)"
        )
    } else {
        format!(
            "`{module}` is not installed: Sponde does not know which package has it. The package `{package}` on the index may \
             not be the intended one"
        )
    }
}

/// Whether the answer is yes.
pub fn is_yes(line: &str) -> bool {
    matches!(
        line.trim().to_lowercase().as_str(),
        "y" | "yes" | "ok" | "sure"
    )
}

/// What to tell the model about a module that stays missing.
pub fn hint(module: &str) -> String {
    match package_of(module) {
        Some(Package::Named(package)) => format!(
            "The module `{module}` is in the package `{package}`, which is not installed here. Do it with what is installed, or say that \
             the package is needed."
        ),
        Some(Package::Standard(instead)) => {
            format!("There is no module `{module}` in this Python: {instead}.")
        }
        None => format!(
            "There is no module `{module}` here. Do it with what is installed; do not guess names of packages."
        ),
    }
}

/// What is known about a module's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    /// The package with this name provides it.
    Named(&'static str),
    /// Formerly part of Python, or never a package: what to use instead.
    Standard(&'static str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_modules_are_missing() {
        for (evalue, expected) in [
            ("No module named 'cv2'", Some("cv2")),
            ("No module named 'pandas.nope'", None),
            ("No module named 'x'; 'y' is not a package", None),
            ("No module named '--index-url=x'", None),
            ("No module named 'a b'", None),
            ("No module named ''", None),
            ("No module named '9'", None),
            ("cannot import name 'x'", None),
        ] {
            assert_eq!(
                missing_module("ModuleNotFoundError", evalue),
                expected,
                "{evalue}"
            );
        }
        assert_eq!(missing_module("ImportError", "No module named 'cv2'"), None);
    }

    #[test]
    fn only_known_packages_come_without_a_question() {
        let offer = |is_known, is_private| Offer {
            module: "m".to_owned(),
            package: "p".to_owned(),
            is_known,
            python: PathBuf::new(),
            environment: "somewhere".to_owned(),
            is_private,
            is_coming: false,
        };
        for (policy, known, private, attended, expected) in [
            (InstallPolicy::Allow, true, true, false, Verdict::Install),
            (InstallPolicy::Allow, false, true, true, Verdict::Ask),
            (InstallPolicy::Allow, false, true, false, Verdict::Leave),
            (InstallPolicy::Allow, true, false, true, Verdict::Ask),
            (InstallPolicy::Allow, true, false, false, Verdict::Leave),
            (InstallPolicy::Ask, true, true, true, Verdict::Ask),
            (InstallPolicy::Ask, true, true, false, Verdict::Leave),
            (InstallPolicy::Never, true, true, true, Verdict::Leave),
        ] {
            let judged = policy.judge(&offer(known, private), attended);
            assert_eq!(judged, expected, "{policy:?} {known} {private} {attended}");
        }
    }
}
