//! Hides the environment of a kernel or a command from the programs that confine it.
//!
//! Whoever requests code may choose its variables, and a loader obeys `LD_PRELOAD`: bubblewrap, and our own program
//! while it still has its rights, would load that library. So every variable has another name until the last step.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

use super::tier::Tier;

const PREFIX: &str = "SPONDE_INSIDE_";

/// Renames the variables so that they mean nothing to a program. Seatbelt has no step of ours that could restore them;
/// macOS itself removes the loader's variables from its `sandbox-exec`.
pub(in crate::kernel) fn sealed(
    env: impl IntoIterator<Item = (String, String)>,
    tier: &Tier,
) -> Vec<(String, String)> {
    let env = env.into_iter();
    match tier {
        Tier::Seatbelt => env.collect(),
        Tier::Bubblewrap { .. } | Tier::Gvisor { .. } | Tier::Landlock => env
            .map(|(name, value)| (format!("{PREFIX}{name}"), value))
            .collect(),
    }
}

/// Restores the sealed variables under their own names.
pub(super) fn unsealed(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> impl Iterator<Item = (OsString, OsString)> {
    variables.filter_map(|(name, value)| {
        let name = name.as_bytes().strip_prefix(PREFIX.as_bytes())?;
        let name = OsStr::from_bytes(name);
        (!name.is_empty()).then(|| (OsString::from_vec(name.as_bytes().to_vec()), value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variable_comes_back_and_no_other() {
        let env = [("LD_PRELOAD", "x.so"), ("PATH", "/bin"), ("", "nothing")];
        let env = env.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let sealed = sealed(env, &Tier::Landlock);
        assert!(sealed.iter().all(|(name, _)| name.starts_with(PREFIX)));
        let others = [("LD_PRELOAD".to_owned(), "y.so".to_owned())];
        let all = sealed.into_iter().chain(others);
        let back: Vec<_> = unsealed(all.map(|(name, value)| (name.into(), value.into()))).collect();
        let expected = [("LD_PRELOAD", "x.so"), ("PATH", "/bin")];
        assert_eq!(
            back,
            expected.map(|(name, value)| (name.into(), value.into()))
        );
    }
}
