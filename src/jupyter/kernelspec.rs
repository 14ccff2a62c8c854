//! `kernel.json` (jupyter_client docs, "Making kernels for Jupyter", "Kernel specs").

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A kernel.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KernelSpec {
    /// The command, with template variables.
    pub argv: Vec<String>,
    /// Name for people.
    pub display_name: String,
    /// The language's name.
    pub language: String,
    /// How to stop a running cell.
    #[serde(default)]
    pub interrupt_mode: InterruptMode,
    /// Variables for the kernel's process.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Anything else.
    #[serde(default)]
    pub metadata: Map<String, Value>,
}

/// How to interrupt a kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InterruptMode {
    /// SIGINT to its process group.
    #[default]
    Signal,
    /// `interrupt_request` on control.
    Message,
}

/// Why a kernel.json cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KernelSpecError {
    /// Not JSON, or fields are missing.
    #[error("not a kernelspec: {0}")]
    Unreadable(#[from] serde_json::Error),
    /// Nothing to run.
    #[error("its `argv` is empty")]
    NoCommand,
    /// No argument passes the connection file.
    #[error("its `argv` has no {{connection_file}}")]
    NoConnectionFile,
}

impl KernelSpec {
    /// Parses and checks a kernel.json.
    ///
    /// # Errors
    /// [`KernelSpecError`].
    pub fn parse(text: &[u8]) -> Result<Self, KernelSpecError> {
        let spec: Self = serde_json::from_slice(text)?;
        if spec.argv.is_empty() {
            return Err(KernelSpecError::NoCommand);
        }
        if !spec
            .argv
            .iter()
            .any(|arg| arg.contains("{connection_file}"))
        {
            return Err(KernelSpecError::NoConnectionFile);
        }
        Ok(spec)
    }

    /// The command to run, with `{connection_file}`, `{resource_dir}` and `{prefix}` filled in; other braces stay as
    /// they are.
    pub fn command(
        &self,
        connection_file: &Path,
        resource_dir: &Path,
        prefix: &Path,
    ) -> Vec<String> {
        let values = [
            ("{connection_file}", connection_file),
            ("{resource_dir}", resource_dir),
            ("{prefix}", prefix),
        ];
        let fill = |arg: &String| {
            values.iter().fold(arg.clone(), |arg, (name, path)| {
                if arg.contains(name) {
                    arg.replace(name, &path.to_string_lossy())
                } else {
                    arg
                }
            })
        };
        self.argv.iter().map(fill).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_filled_in() {
        let spec = KernelSpec::parse(
            br#"{"argv": ["java", "-jar", "{resource_dir}/k.jar", "{connection_file}", "{x}", "{prefix}/lib"],
                 "display_name": "Java", "language": "java", "interrupt_mode": "message"}"#,
        )
        .unwrap();
        assert_eq!(spec.interrupt_mode, InterruptMode::Message);
        assert_eq!(
            spec.command(Path::new("/c.json"), Path::new("/res"), Path::new("/usr")),
            ["java", "-jar", "/res/k.jar", "/c.json", "{x}", "/usr/lib"]
        );
    }

    #[test]
    fn unusable_specs_say_why() {
        let error = |text: &[u8]| KernelSpec::parse(text).unwrap_err().to_string();
        assert_eq!(
            error(br#"{"argv": [], "display_name": "", "language": ""}"#),
            "its `argv` is empty"
        );
        assert_eq!(
            error(br#"{"argv": ["x"], "display_name": "", "language": ""}"#),
            "its `argv` has no {connection_file}"
        );
        assert!(error(b"{").starts_with("not a kernelspec: "));
    }
}
