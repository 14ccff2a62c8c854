//! For Python kernels that cannot be copied: saves their variables to a file as far as possible, and loads them into
//! the same process (`save.py`).
//!
//! This is less than a checkpoint: a variable that cannot be saved keeps its current value when the others go back, and
//! so does everything that is not a variable, such as module settings.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::json;

use crate::kernel::{ExecuteOptions, Kernel, KernelError, Verdict, stdout_of};

/// The Python code that saves and loads.
const SAVE: &str = include_str!("save.py");
/// How long saving or loading may take.
const WITHIN: Duration = Duration::from_secs(20);

/// Variables that were saved to a file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct SavedVariables {
    /// The library used: `dill`, `cloudpickle` or `pickle`.
    pub by: String,
    /// Number of variables.
    pub names: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Variables that could not be saved, and why.
    pub cannot: BTreeMap<String, String>,
}

/// Why variables were not saved or loaded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unsaved(String);

impl From<KernelError> for Unsaved {
    fn from(error: KernelError) -> Self {
        Self(error.to_string())
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer<T> {
    Failed { reason: String },
    Done(T),
}

impl Kernel {
    /// Saves the variables of an idle Python kernel to `path`, which must not exist, unless they take more than `limit`
    /// bytes.
    ///
    /// # Errors
    /// [`Unsaved`].
    pub async fn save_variables(&self, path: &Path, limit: u64) -> Result<SavedVariables, Unsaved> {
        let inside = self.inside(path).await?;
        if inside != path {
            // Left by an earlier save.
            let _ = std::fs::remove_file(&inside);
        }
        self.call("save", &json!([inside, limit])).await
    }

    /// Loads the variables into the same process; variables added since are deleted.
    ///
    /// # Errors
    /// [`Unsaved`]; the variables are then as before.
    pub async fn load_variables(&self, path: &Path) -> Result<(), Unsaved> {
        #[derive(Deserialize)]
        struct Loaded {
            #[serde(rename = "names")]
            _names: u64,
        }
        let inside = self.inside(path).await?;
        let _: Loaded = self.call("load", &json!([inside])).await?;
        Ok(())
    }

    /// The path for the kernel: a confined one cannot see our directories and has the file in its own.
    async fn inside(&self, path: &Path) -> Result<PathBuf, KernelError> {
        let confined = self.about().await?.confined;
        Ok(match (confined, path.file_name()) {
            (Some(confined), Some(name)) => confined.dir.shared().join(name),
            (Some(_) | None, _) => path.to_owned(),
        })
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        function: &str,
        arguments: &serde_json::Value,
    ) -> Result<T, Unsaved> {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        // A JSON string is also a Python string. Only a module is left behind in the session.
        let code = format!(
            "import sys as _sponde_sys\n\
             if 'sponde_save' not in _sponde_sys.modules:\n    \
                 _sponde_module = type(_sponde_sys)('sponde_save')\n    \
                 exec({}, vars(_sponde_module))\n    \
                 _sponde_sys.modules['sponde_save'] = _sponde_module\n    \
                 del _sponde_module\n\
             del _sponde_sys\n\
             __import__('sponde_save').{function}(get_ipython(), *__import__('json').loads({}))",
            quoted(SAVE),
            quoted(&arguments.to_string()),
        );
        let execution = self.execute(ExecuteOptions::aside(code, WITHIN)).await?;
        let (outputs, outcome) = execution.collect().await;
        let text = stdout_of(outputs);
        // Anything before it was printed by other code.
        let answer = text.lines().rev().find(|line| line.starts_with('{'));
        match answer.and_then(|line| serde_json::from_str(line).ok()) {
            Some(Answer::Done(done)) => Ok(done),
            Some(Answer::Failed { reason }) => Err(Unsaved(reason)),
            None => Err(Unsaved(match outcome.verdict {
                Verdict::TimedOut | Verdict::Interrupted => format!(
                    "its variables could not be saved within {} s",
                    WITHIN.as_secs()
                ),
                Verdict::Ok | Verdict::Error { .. } | Verdict::Aborted => {
                    "its variables could not be saved".to_owned()
                }
                Verdict::KernelDied(reason) => format!("it ended: {reason}"),
            })),
        }
    }
}
