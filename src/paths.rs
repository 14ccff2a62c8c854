//! Where things are on disk, and the environment that says so. The process's environment and working directory are read
//! here, once, and are values from then on: a process with many sessions has one for each.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use etcetera::{BaseStrategy as _, base_strategy::Xdg};

use crate::kernel::{Redactor, SearchPath, SearchPaths};

/// Directory of the configuration file; default `$XDG_CONFIG_HOME/sponde`.
pub const CONFIG_DIR: &str = "SPONDE_CONFIG_DIR";
/// Directory of sessions, models and the private Python environment; default `$XDG_DATA_HOME/sponde`.
pub const DATA_DIR: &str = "SPONDE_DATA_DIR";

/// What a process was started with. Clones share it; `Debug` shows no value.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    inner: Arc<Inner>,
}

#[derive(PartialEq, Eq)]
struct Inner {
    variables: Vec<(String, String)>,
    cwd: Option<PathBuf>,
}

impl Environment {
    /// Reads that of this process. Variables that are no Unicode are left out.
    pub fn of_process() -> Self {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::new(
            std::env::vars_os().filter_map(text).collect(),
            std::env::current_dir().ok(),
        )
    }

    /// One of these variables, in this working directory.
    pub fn new(variables: Vec<(String, String)>, cwd: Option<PathBuf>) -> Self {
        Self {
            inner: Arc::new(Inner { variables, cwd }),
        }
    }

    /// The same in another directory.
    #[must_use]
    pub fn in_directory(&self, cwd: PathBuf) -> Self {
        Self::new(self.inner.variables.clone(), Some(cwd))
    }

    /// The same with these variables, which go before those there are.
    #[must_use]
    pub fn with_variables(&self, more: Vec<(String, String)>) -> Self {
        let mut variables = self.inner.variables.clone();
        variables.retain(|(name, _)| !more.iter().any(|(new, _)| new == name));
        variables.extend(more);
        Self::new(variables, self.inner.cwd.clone())
    }

    /// A variable; an empty one counts as none.
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut variables = self.inner.variables.iter();
        let (_, value) = variables.find(|(own, value)| own == name && !value.is_empty())?;
        Some(value)
    }

    /// What takes the secrets among the variables out of text.
    pub fn redactor(&self) -> Redactor {
        let variables = self.inner.variables.iter();
        Redactor::of(variables.map(|(name, value)| (name.as_str(), value.as_str())))
    }

    /// All variables.
    pub fn variables(&self) -> &[(String, String)] {
        &self.inner.variables
    }

    /// The working directory; `None` if it was not to be had.
    pub fn cwd(&self) -> Option<&Path> {
        self.inner.cwd.as_deref()
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// The directories in a variable such as `PATH`.
    fn split(&self, name: &str) -> Vec<PathBuf> {
        let value = self.get(name).unwrap_or_default();
        std::env::split_paths(value)
            .filter(|path| !path.as_os_str().is_empty())
            .collect()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Environment({} variables)", self.inner.variables.len())
    }
}

/// The directories of this person on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// `config.toml` is here.
    pub config: PathBuf,
    /// Sessions, and what is decided of them.
    pub data: PathBuf,
    /// Models, the private Python environment: what sessions read. The same as `data`, but of a server's tenants.
    pub installed: PathBuf,
    /// What can be made again.
    pub cache: PathBuf,
    /// What was decided on this machine: which projects are trusted.
    pub state: PathBuf,
    /// Jupyter's own data directory of this person.
    pub jupyter_data: PathBuf,
    /// Jupyter's runtime directory: connection files.
    pub jupyter_runtime: PathBuf,
    /// For sockets: short, private, on this machine.
    pub sockets: PathBuf,
    /// What the process was started with.
    pub environment: Environment,
}

/// There is no home directory.
#[derive(Debug, thiserror::Error)]
#[error("there is no home directory: set HOME")]
pub struct NoHome;

impl Paths {
    /// Directories that Sponde alone writes to: other sessions, models, logs.
    pub fn own_dirs(&self) -> Vec<PathBuf> {
        [
            &self.data,
            &self.installed,
            &self.cache,
            &self.state,
            &self.jupyter_runtime,
        ]
        .map(Clone::clone)
        .into()
    }

    /// Those that `environment` says.
    ///
    /// # Errors
    /// [`NoHome`].
    pub fn of(environment: Environment) -> Result<Self, NoHome> {
        let var = |name: &str| environment.path(name);
        let xdg = Xdg::new().map_err(|_| NoHome)?;
        let data = var(DATA_DIR).unwrap_or_else(|| xdg.data_dir().join("sponde"));
        let jupyter_data =
            var("JUPYTER_DATA_DIR").unwrap_or_else(|| xdg.data_dir().join("jupyter"));
        let jupyter_runtime =
            var("JUPYTER_RUNTIME_DIR").unwrap_or_else(|| jupyter_data.join("runtime"));
        let sockets = xdg
            .runtime_dir()
            // Unix socket paths are short; a deep runtime directory would not leave room.
            .filter(|dir| dir.is_dir() && dir.as_os_str().len() < 60)
            .unwrap_or_else(std::env::temp_dir);
        Ok(Self {
            config: var(CONFIG_DIR).unwrap_or_else(|| xdg.config_dir().join("sponde")),
            cache: xdg.cache_dir().join("sponde"),
            // XDG has one; where a system has none it is with the data.
            state: xdg
                .state_dir()
                .unwrap_or_else(|| xdg.data_dir())
                .join("sponde"),
            installed: data.clone(),
            data,
            jupyter_data,
            jupyter_runtime,
            sockets,
            environment,
        })
    }

    /// Where sessions are kept.
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// Where models are kept.
    pub fn models(&self) -> PathBuf {
        self.installed.join("models")
    }

    /// The private Python environment.
    pub fn python_env(&self) -> PathBuf {
        self.installed.join("python")
    }

    /// The private prefix for npm packages.
    pub fn node_env(&self) -> PathBuf {
        self.installed.join("node")
    }

    /// The private prefix for crates with programs.
    pub fn cargo_env(&self) -> PathBuf {
        self.installed.join("cargo")
    }

    /// The interpreter of the private Python environment, if it is there.
    pub fn python(&self) -> Option<PathBuf> {
        Some(self.python_env().join("bin/python")).filter(|python| python.exists())
    }

    /// Where kernels are looked for, best first; see [`crate::kernel::discover`].
    pub fn kernels(&self) -> SearchPaths {
        let of = |origin, prefix: PathBuf| SearchPath {
            origin,
            data_dir: prefix.join("share/jupyter"),
            prefix: Some(prefix),
        };
        let plain = |origin, data_dir| SearchPath {
            origin,
            data_dir,
            prefix: None,
        };
        let environment = &self.environment;
        let mut dirs: Vec<SearchPath> = environment
            .split("JUPYTER_PATH")
            .into_iter()
            .map(|dir| plain("JUPYTER_PATH", dir))
            .collect();
        for (origin, name) in [
            ("virtual environment", "VIRTUAL_ENV"),
            ("conda environment", "CONDA_PREFIX"),
        ] {
            dirs.extend(environment.path(name).map(|prefix| of(origin, prefix)));
        }
        dirs.push(of("sponde", self.python_env()));
        dirs.push(plain("user", self.jupyter_data.clone()));
        for prefix in ["/usr/local", "/usr"] {
            dirs.push(of("system", PathBuf::from(prefix)));
        }
        let mut elsewhere: Vec<SearchPath> = environment
            .cwd()
            .map(|here| of("virtual environment here", here.join(".venv")))
            .into_iter()
            .collect();
        elsewhere.extend(
            conda_environments(environment.path("HOME"))
                .into_iter()
                .map(|prefix| of("conda environment", prefix)),
        );
        let mut seen = BTreeSet::new();
        dirs.retain(|path| seen.insert(path.data_dir.clone()));
        elsewhere.retain(|path| seen.insert(path.data_dir.clone()));
        SearchPaths {
            dirs,
            elsewhere,
            programs: environment.split("PATH"),
        }
    }
}

/// All that conda made for this person: it keeps a list.
fn conda_environments(home: Option<PathBuf>) -> Vec<PathBuf> {
    let Some(home) = home else {
        return Vec::new();
    };
    std::fs::read_to_string(home.join(".conda/environments.txt"))
        .unwrap_or_default()
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with('/'))
        .map(PathBuf::from)
        .collect()
}
