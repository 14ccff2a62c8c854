//! Finds kernels in Jupyter's own search order (jupyter_core docs, "Jupyter's directories").
//!
//! The order: `JUPYTER_PATH`, the active virtual and conda environments, Sponde's private environment, the user's data
//! directory, the system. The first of a name wins; the others, and unusable ones, are kept with the reason, for
//! `sponde kernels`. A kernel can also be named by language, or by path: a folder with a kernel.json, an environment,
//! or a Python interpreter.
//!
//! Environments that are not active (`.venv` in this directory, conda's others) are listed but only used if named by
//! path: a directory must not choose what runs in it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::source::KernelSource;

mod environment;

use crate::jupyter::kernelspec::KernelSpec;

/// One `share/jupyter` directory to search, and where it comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchPath {
    /// Its origin, as text for people.
    pub origin: &'static str,
    /// The directory that has `kernels/` in it.
    pub data_dir: PathBuf,
    /// The environment it belongs to, if it is one.
    pub prefix: Option<PathBuf>,
}

/// Where to search for kernels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchPaths {
    /// Directories whose kernels can be named, best first.
    pub dirs: Vec<SearchPath>,
    /// Environments that are only listed: their kernels must be named by path.
    pub elsewhere: Vec<SearchPath>,
    /// The directories of `PATH`, to check a kernel's bare program name; empty to skip the check.
    pub programs: Vec<PathBuf>,
}

impl From<Vec<SearchPath>> for SearchPaths {
    fn from(dirs: Vec<SearchPath>) -> Self {
        Self {
            dirs,
            ..Self::default()
        }
    }
}

/// A kernelspec that was found, usable or not.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundKernel {
    /// Its name: its folder in lower case, or a path if it must be named by path.
    pub name: String,
    /// The folder.
    pub resource_dir: PathBuf,
    /// Its origin, as text for people.
    pub origin: &'static str,
    /// The kernel, or why it cannot be used.
    pub source: Result<KernelSource, String>,
}

/// Why no kernel matches a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DiscoverError {
    /// No usable kernelspec of that name.
    #[error("there is no kernel `{name}`")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// It exists but cannot be used.
    #[error("kernel `{name}` in `{}` cannot be used: {reason}", .dir.display())]
    Unusable {
        /// The requested name.
        name: String,
        /// Its directory.
        dir: PathBuf,
        /// Why not.
        reason: String,
    },
}

impl SearchPaths {
    /// All kernelspecs, best first. A name can occur more than once; only the first usable one counts.
    pub fn list(&self) -> Vec<FoundKernel> {
        let elsewhere = self.elsewhere.iter().flat_map(|path| {
            self.list_dir(path).into_iter().map(|mut kernel| {
                kernel.name = match &path.prefix {
                    Some(prefix) if kernel.name == "python3" => prefix.display().to_string(),
                    _ => kernel.resource_dir.display().to_string(),
                };
                kernel
            })
        });
        self.named().chain(elsewhere).collect()
    }

    /// Kernelspecs that can be named.
    fn named(&self) -> impl Iterator<Item = FoundKernel> {
        self.dirs.iter().flat_map(|path| self.list_dir(path))
    }

    /// Python environments without ipykernel.
    pub fn without_ipykernel(&self) -> Vec<&Path> {
        self.dirs
            .iter()
            .chain(&self.elsewhere)
            .filter_map(|path| path.prefix.as_deref())
            .filter(|prefix| environment::lacks_ipykernel(prefix))
            .collect()
    }

    /// The kernel that `name` means.
    ///
    /// # Errors
    /// [`DiscoverError`].
    pub fn find(&self, name: &str) -> Result<KernelSource, DiscoverError> {
        if name.contains('/') {
            return by_path(Path::new(name));
        }
        let found: Vec<FoundKernel> = self.named().collect();
        let mut unusable = None;
        for kernel in &found {
            if kernel.name.eq_ignore_ascii_case(name) {
                match &kernel.source {
                    Ok(source) => return Ok(source.clone()),
                    Err(reason) => {
                        unusable.get_or_insert_with(|| DiscoverError::Unusable {
                            name: name.to_owned(),
                            dir: kernel.resource_dir.clone(),
                            reason: reason.clone(),
                        });
                    }
                }
            }
        }
        if unusable.is_none()
            && let Some(source) = self.for_language(name)
        {
            return Ok(source);
        }
        Err(unusable.unwrap_or_else(|| {
            let mut known: Vec<String> = found
                .into_iter()
                .filter(|kernel| kernel.source.is_ok())
                .map(|kernel| kernel.name)
                .collect();
            known.sort();
            known.dedup();
            DiscoverError::Unknown {
                name: name.to_owned(),
                known,
            }
        }))
    }

    /// The kernel for a language (as in a notebook's `language_info.name`), if any.
    pub fn for_language(&self, language: &str) -> Option<KernelSource> {
        self.named()
            .filter_map(|kernel| kernel.source.ok())
            .find(|source| source.spec.language.eq_ignore_ascii_case(language))
    }

    fn list_dir(&self, path: &SearchPath) -> Vec<FoundKernel> {
        let mut found = list_dir(path);
        for kernel in &mut found {
            if let Ok(source) = &kernel.source
                && let Some(reason) = self.unusable(source)
            {
                kernel.source = Err(reason);
            }
        }
        found
    }

    /// Why a kernel with a valid kernel.json still cannot run.
    fn unusable(&self, source: &KernelSource) -> Option<String> {
        // The kernel sets its own PATH, which we do not evaluate.
        let programs = if source.spec.env.contains_key("PATH") {
            &[]
        } else {
            &self.programs[..]
        };
        let program = source.program();
        environment::missing_program(&program, programs).or_else(|| {
            let prefix = source.prefix.as_deref()?;
            let ipykernel = source
                .spec
                .argv
                .iter()
                .any(|arg| arg == "ipykernel_launcher");
            (ipykernel
                && Path::new(&program).starts_with(prefix)
                && environment::lacks_ipykernel(prefix))
            .then(|| environment::offer(prefix))
        })
    }
}

fn list_dir(path: &SearchPath) -> Vec<FoundKernel> {
    // A directory that is missing or unreadable has no kernels.
    let Ok(entries) = std::fs::read_dir(path.data_dir.join("kernels")) else {
        return Vec::new();
    };
    let mut dirs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|dir| dir.join("kernel.json").exists())
        .collect();
    // Byte order whatever the locale, so that the order is the same on all machines.
    dirs.sort();
    dirs.into_iter()
        .filter_map(|dir| {
            let name = dir.file_name()?.to_str()?.to_lowercase();
            let source = if is_valid_name(&name) {
                load(&name, &dir, path.prefix.as_deref())
            } else {
                Err(
                    "its folder's name has characters other than letters, digits, `-`, `_` and `.`"
                        .to_owned(),
                )
            };
            Some(FoundKernel {
                name,
                resource_dir: dir,
                origin: path.origin,
                source,
            })
        })
        .collect()
}

/// jupyter_client's rule for kernelspec names.
fn is_valid_name(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn load(name: &str, dir: &Path, prefix: Option<&Path>) -> Result<KernelSource, String> {
    let text = std::fs::read(dir.join("kernel.json")).map_err(|error| error.to_string())?;
    let spec = KernelSpec::parse(&text).map_err(|error| error.to_string())?;
    Ok(KernelSource {
        name: name.to_owned(),
        spec,
        resource_dir: dir.to_owned(),
        prefix: prefix
            .or_else(|| environment::around(dir))
            .map(Path::to_owned),
    })
}

/// A folder with a kernel.json, an environment, or a Python interpreter.
fn by_path(path: &Path) -> Result<KernelSource, DiscoverError> {
    let unusable = |reason: String| DiscoverError::Unusable {
        name: path.display().to_string(),
        dir: path.to_owned(),
        reason,
    };
    let name = path.file_name().map_or_else(
        || "kernel".to_owned(),
        |name| name.to_string_lossy().to_lowercase(),
    );
    if path.join("kernel.json").exists() {
        return load(&name, path, None).map_err(unusable);
    }
    if environment::lacks_ipykernel(path) {
        return Err(unusable(environment::offer(path)));
    }
    let python = if path.is_dir() {
        ["bin/python", "bin/python3"]
            .iter()
            .map(|program| path.join(program))
            .find(|program| program.exists())
            .ok_or_else(|| unusable("it has neither kernel.json nor bin/python".to_owned()))?
    } else if path.exists() {
        path.to_owned()
    } else {
        return Err(unusable("there is nothing".to_owned()));
    };
    let python = std::path::absolute(&python).unwrap_or(python);
    Ok(python_kernel(&python))
}

/// The ipykernel of a Python interpreter, without a kernelspec.
fn python_kernel(python: &Path) -> KernelSource {
    let argv = [
        &*python.to_string_lossy(),
        "-m",
        "ipykernel_launcher",
        "-f",
        "{connection_file}",
    ];
    let prefix = python.parent().and_then(Path::parent).map(Path::to_owned);
    KernelSource {
        name: "python3".to_owned(),
        spec: KernelSpec {
            argv: argv.map(str::to_owned).into(),
            // No path: it would be saved in notebooks that are shared.
            display_name: "Python 3 (ipykernel)".to_owned(),
            language: "python".to_owned(),
            interrupt_mode: crate::jupyter::kernelspec::InterruptMode::Signal,
            env: std::collections::BTreeMap::new(),
            metadata: serde_json::Map::new(),
        },
        resource_dir: prefix.clone().unwrap_or_default(),
        prefix,
    }
}

impl fmt::Display for SearchPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.data_dir.display(), self.origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn install(root: &Path, name: &str, text: &str) {
        let dir = root.join("kernels").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("kernel.json"), text).unwrap();
    }

    fn spec(language: &str) -> String {
        serde_json::json!({"argv": ["run", "{connection_file}"], "display_name": language, "language": language})
            .to_string()
    }

    #[test]
    fn the_first_usable_of_a_name_wins() {
        let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        install(first.path(), "Py", "{");
        install(first.path(), "r", &spec("R"));
        install(first.path(), "b ad", &spec("bad"));
        install(second.path(), "py", &spec("python"));
        install(second.path(), "r", &spec("other"));
        let paths = SearchPaths::from(
            [&first, &second]
                .map(|dir| SearchPath {
                    origin: "test",
                    data_dir: dir.path().to_owned(),
                    prefix: None,
                })
                .to_vec(),
        );
        assert_eq!(paths.find("PY").unwrap().spec.language, "python");
        assert_eq!(paths.find("r").unwrap().spec.language, "R");
        assert_eq!(
            paths.for_language("r").unwrap().resource_dir,
            first.path().join("kernels/r")
        );
        assert_eq!(
            paths.find("julia"),
            Err(DiscoverError::Unknown {
                name: "julia".to_owned(),
                known: vec!["py".to_owned(), "r".to_owned()],
            })
        );
        let usable: Vec<_> = paths
            .list()
            .into_iter()
            .map(|k| (k.name, k.source.is_ok()))
            .collect();
        assert_eq!(
            usable,
            [
                ("py", false),
                ("b ad", false),
                ("r", true),
                ("py", true),
                ("r", true)
            ]
            .map(|(name, ok)| (name.to_owned(), ok))
        );
    }

    #[test]
    fn a_kernel_can_be_named_by_path() {
        let env = tempfile::tempdir().unwrap();
        let path = |p: &Path| p.to_string_lossy().into_owned();
        let paths = SearchPaths::default();
        assert!(matches!(
            paths.find(&path(env.path())),
            Err(DiscoverError::Unusable { .. })
        ));
        std::fs::create_dir(env.path().join("bin")).unwrap();
        let python = env.path().join("bin/python");
        std::fs::write(&python, "").unwrap();
        for name in [path(env.path()), path(&python)] {
            let kernel = paths.find(&name).unwrap();
            assert_eq!(kernel.spec.argv[0], path(&python));
            assert_eq!(kernel.prefix.as_deref(), Some(env.path()));
        }
    }
}
