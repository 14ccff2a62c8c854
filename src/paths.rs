//! Where things are on disk. The only module that reads the environment for directories; everything below gets paths
//! as values.

use std::collections::BTreeSet;
use std::path::PathBuf;

use etcetera::{BaseStrategy as _, base_strategy::Xdg};

use crate::kernel::{SearchPath, SearchPaths};

/// Directory of the configuration file; default `$XDG_CONFIG_HOME/sponde`.
pub const CONFIG_DIR: &str = "SPONDE_CONFIG_DIR";
/// Directory of sessions, models and the private Python environment; default `$XDG_DATA_HOME/sponde`.
pub const DATA_DIR: &str = "SPONDE_DATA_DIR";

/// The directories of this person on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paths {
    /// `config.toml` is here.
    pub config: PathBuf,
    /// Sessions, models, the private Python environment.
    pub data: PathBuf,
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
}

/// There is no home directory.
#[derive(Debug, thiserror::Error)]
#[error("there is no home directory: set HOME")]
pub struct NoHome;

impl Paths {
    /// Reads the environment.
    ///
    /// # Errors
    /// [`NoHome`].
    pub fn from_env() -> Result<Self, NoHome> {
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
            data,
            jupyter_data,
            jupyter_runtime,
            sockets,
        })
    }

    /// Where sessions are kept.
    pub fn sessions(&self) -> PathBuf {
        self.data.join("sessions")
    }

    /// Where models are kept.
    pub fn models(&self) -> PathBuf {
        self.data.join("models")
    }

    /// The private Python environment.
    pub fn python_env(&self) -> PathBuf {
        self.data.join("python")
    }

    /// The private prefix for npm packages.
    pub fn node_env(&self) -> PathBuf {
        self.data.join("node")
    }

    /// The private prefix for crates with programs.
    pub fn cargo_env(&self) -> PathBuf {
        self.data.join("cargo")
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
        let mut dirs: Vec<SearchPath> = std::env::var_os("JUPYTER_PATH")
            .iter()
            .flat_map(std::env::split_paths)
            .map(|dir| plain("JUPYTER_PATH", dir))
            .collect();
        for (origin, name) in [
            ("virtual environment", "VIRTUAL_ENV"),
            ("conda environment", "CONDA_PREFIX"),
        ] {
            dirs.extend(var(name).map(|prefix| of(origin, prefix)));
        }
        dirs.push(of("sponde", self.python_env()));
        dirs.push(plain("user", self.jupyter_data.clone()));
        for prefix in ["/usr/local", "/usr"] {
            dirs.push(of("system", PathBuf::from(prefix)));
        }
        let mut elsewhere: Vec<SearchPath> = std::env::current_dir()
            .ok()
            .map(|here| of("virtual environment here", here.join(".venv")))
            .into_iter()
            .collect();
        elsewhere.extend(
            conda_environments()
                .into_iter()
                .map(|prefix| of("conda environment", prefix)),
        );
        let mut seen = BTreeSet::new();
        dirs.retain(|path| seen.insert(path.data_dir.clone()));
        elsewhere.retain(|path| seen.insert(path.data_dir.clone()));
        SearchPaths {
            dirs,
            elsewhere,
            programs: std::env::var_os("PATH")
                .iter()
                .flat_map(std::env::split_paths)
                .collect(),
        }
    }
}

/// All that conda made for this person: it keeps a list.
fn conda_environments() -> Vec<PathBuf> {
    let Some(home) = var("HOME") else {
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

fn var(name: &str) -> Option<PathBuf> {
    std::env::var_os(name)
        .filter(|value| !value.is_empty())
        .map(PathBuf::from)
}
