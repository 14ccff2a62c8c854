//! Modules that a kernel lacks: which package has one, who may install it, and who does.
//!
//! The model chose the name, and a name can be invented, mistyped, or set as a trap in what it has read. So only packages of
//! [`PACKAGES`] are ever installed without a question; everything else a person decides, who is told the package's name and
//! whose environment it goes to.

mod packages;

use std::path::PathBuf;

use futures_util::future::BoxFuture;
use serde::{Deserialize, Serialize};

use crate::kernel::KernelSource;
pub use packages::package_of;

/// When a package is installed that code needs and the kernel's environment lacks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InstallPolicy {
    /// Without a question, if it is one of those that everybody uses, and the environment is Sponde's own. Else as `ask`.
    Allow,
    /// If the person who is there says so.
    #[default]
    Ask,
    /// Never.
    Never,
}

/// What a session does about missing modules.
#[derive(Clone)]
pub struct Installs {
    /// Who installs.
    pub installer: std::sync::Arc<dyn Installer>,
    /// When.
    pub policy: InstallPolicy,
    /// Whether somebody is there who can be asked.
    pub attended: bool,
}

/// A package that can be installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The module that code wants.
    pub module: String,
    /// The package that has it.
    pub package: String,
    /// Whether that is known, and not only of the same name.
    pub is_known: bool,
    /// The interpreter of the environment that it goes to.
    pub python: PathBuf,
    /// The environment in words.
    pub environment: String,
    /// Whether that is Sponde's own.
    pub is_private: bool,
}

/// Installs packages, outside of any sandbox.
pub trait Installer: Send + Sync {
    /// What can be done about a module that `kernel` lacks.
    ///
    /// # Errors
    /// Nothing can, and why: words for the model.
    fn look(
        &self,
        kernel: KernelSource,
        module: String,
    ) -> BoxFuture<'static, Result<Offer, String>>;

    /// Installs what was offered.
    ///
    /// # Errors
    /// That failed, in words.
    fn install(&self, offer: Offer) -> BoxFuture<'static, Result<(), String>>;
}

/// What is done about an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is installed.
    Install,
    /// A person is asked.
    Ask,
    /// Neither.
    Leave,
}

impl InstallPolicy {
    /// What to do about `offer`, where somebody can be asked or not.
    pub fn judge(self, offer: &Offer, attended: bool) -> Verdict {
        match self {
            Self::Allow if offer.is_known && offer.is_private => Verdict::Install,
            Self::Allow | Self::Ask if attended => Verdict::Ask,
            Self::Allow | Self::Ask | Self::Never => Verdict::Leave,
        }
    }
}

/// The module that an error says is not there: `No module named 'cv2'`. One with a dot in its name is missing in a package
/// that is there.
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

/// What the person is asked.
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
            "Sponde does not know it: a package named `{package}` is on the index, but nobody says that it is the one that is meant. "
        )
    };
    format!(
        "The code needs the module `{module}`. {doubt}Install the package `{package}` into {environment}? [y]es, [n]o: "
    )
}

/// Whether a line says yes.
pub fn is_yes(line: &str) -> bool {
    matches!(
        line.trim().to_lowercase().as_str(),
        "y" | "yes" | "ok" | "sure"
    )
}

/// What the model is told of a module that stays missing.
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

/// What is known of a module's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    /// It is in the package of this name.
    Named(&'static str),
    /// It was in Python once, or never is a package: what to use instead.
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
