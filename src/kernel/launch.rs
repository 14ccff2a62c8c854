//! From a kernelspec to a process: connection file, socket directory, environment, command.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::KernelError;
use super::files::KernelFiles;
use super::gateway::GatewayOptions;
use super::host::{EndOf, Host, Kept, Process};
use super::oversize::Oversize;
use super::quirks;
use super::sandbox::{self, Sandbox};
use super::secrets::is_secret;
use super::source::{KernelSource, command, ipykernel_at};
use crate::jupyter::kernelspec::KernelSpec;

/// Tells a kernel its parent's process id.
const PARENT: &str = "JPY_PARENT_PID";

/// Variables about our own parents, which would mislead a kernel: ipykernel exits when the kernel that we were started
/// from does, and under pytest it does not capture the output of subprocesses and cannot be copied.
const OF_OTHERS: [&str; 2] = [PARENT, "PYTEST_CURRENT_TEST"];

/// Variables that choose a program's character encoding (POSIX, section 8.2).
const LOCALE: [&str; 3] = ["LC_ALL", "LC_CTYPE", "LANG"];

/// How to run a kernel. Directories and environment are passed in: this module reads neither.
#[derive(Clone, PartialEq)]
pub struct LaunchOptions {
    /// Which kernel.
    pub kernel: KernelSource,
    /// Working directory of the kernel.
    pub cwd: PathBuf,
    /// The environment to start from; secrets are removed from it here.
    pub env: Vec<(String, String)>,
    /// The Jupyter runtime directory: the connection file goes here, mode 0600.
    pub runtime_dir: PathBuf,
    /// Where short-lived socket directories go (`$XDG_RUNTIME_DIR` or `/tmp`).
    pub socket_root: PathBuf,
    /// User name for message headers.
    pub username: String,
    /// How long the kernel may take to answer.
    pub ready_timeout: Duration,
    /// Where outputs go that are too large to pass through us; without it they are lost.
    pub oversize: Option<Oversize>,
    /// The Jupyter server that starts the kernel instead of us. Then `kernel.spec` is the server's, and the directories
    /// are unused.
    pub gateway: Option<GatewayOptions>,
    /// The connection file of a running kernel: it is used instead, and left running.
    pub existing: Option<PathBuf>,
    /// Whether the kernel keeps running when its last handle is dropped or this process exits; then only
    /// [`super::Kernel::shutdown`] ends it.
    pub keep: bool,
    /// A kernel that an earlier process kept: it is used again if it still runs.
    pub adopt: Option<KeptKernelChoice>,
    /// How the kernel is confined. Has no effect on one that runs already or that a gateway starts.
    pub sandbox: Sandbox,
}

/// A kernel that an earlier process has kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptKernelChoice {
    /// Its connection file.
    pub connection_file: PathBuf,
    /// How long it may still be busy with earlier code.
    pub patience: Duration,
}

/// Omits the values of the environment and the kernelspec's variables: logs must not contain secrets.
impl fmt::Debug for LaunchOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("LaunchOptions")
            .field("kernel", &self.kernel.name)
            .field("argv", &self.kernel.spec.argv)
            .field("cwd", &self.cwd)
            .field("env", &variables)
            .field("gateway", &self.gateway)
            .field("existing", &self.existing)
            .field("keep", &self.keep)
            .field("adopt", &self.adopt)
            .finish_non_exhaustive()
    }
}

/// Makes the files and starts the process.
///
/// # Errors
/// [`KernelError::Prepare`] or [`KernelError::Spawn`], with the files removed again.
pub(super) async fn launch(options: &LaunchOptions) -> Result<(KernelFiles, Host), KernelError> {
    let kernel = &options.kernel;
    let mut files = KernelFiles::make(
        &kernel.name,
        quirks::transport(&kernel.spec),
        &options.runtime_dir,
        &options.socket_root,
    )
    .map_err(|error| error.of(&kernel.name))?;
    if let Sandbox::Confined(confinement) = &options.sandbox {
        let bridged = confinement.hides_ports();
        files
            .confine(bridged)
            .map_err(|error| error.of(&kernel.name))?;
        files
            .open_gate(confinement)
            .await
            .map_err(|error| error.of(&kernel.name))?;
    }
    let command = command(kernel, files.kernel_file());
    let mut env = environment(&options.env, kernel);
    let end = if options.keep {
        files.keep(true);
        // Otherwise ipykernel would exit with us.
        env.retain(|(name, _)| name != PARENT);
        EndOf::Itself { log: files.log() }
    } else {
        EndOf::Parent
    };
    let program = command.first().cloned().unwrap_or_default();
    let process = match &options.sandbox {
        Sandbox::Full => Process::spawn(&command, &env, &options.cwd, &[], end),
        Sandbox::Confined(confinement) => {
            let confined = sandbox::open(
                confinement,
                kernel,
                &command,
                env,
                &options.cwd,
                &files,
                options.keep,
            )
            .map_err(|reason| KernelError::Prepare {
                kernel: kernel.name.clone(),
                reason,
            })?;
            Process::spawn_confined(&confined, &options.cwd, end).await
        }
    };
    let process = process.map_err(|error| KernelError::Spawn {
        kernel: kernel.name.clone(),
        command: program,
        reason: if options.cwd.is_dir() {
            error.to_string()
        } else {
            format!("its directory `{}`: {error}", options.cwd.display())
        },
    })?;
    Ok((files, Host::Local(Box::new(process))))
}

/// Whether a kernel that we start can copy itself (`checkpoint`): only ipykernel as a native Linux process can.
pub(super) fn can_be_copied(spec: &KernelSpec, sandbox: &Sandbox) -> bool {
    let is_process = match sandbox {
        Sandbox::Full => true,
        Sandbox::Confined(confinement) => confinement.runs_processes(),
    };
    cfg!(target_os = "linux") && is_process && ipykernel_at(&spec.argv).is_some()
}

/// Takes over the kernel that an earlier process kept, if it still runs.
pub(super) async fn adopt(
    connection_file: &Path,
    options: &LaunchOptions,
) -> Option<(KernelFiles, Host)> {
    match KernelFiles::adopt(connection_file, &options.socket_root) {
        Ok((mut files, process, around)) => {
            files.keep(true);
            if let Sandbox::Confined(confinement) = &options.sandbox
                && let Err(error) = files.open_gate(confinement).await
            {
                let error = error.of(&options.kernel.name);
                tracing::warn!(%error, "a kernel that was taken over has no network");
            }
            Some((files, Host::Kept(Kept::new(process, around))))
        }
        Err(reason) => {
            tracing::info!(file = %connection_file.display(), reason, "no kernel to take over");
            None
        }
    }
}

/// The user's environment without secrets, then the spec's variables (`${NAME}` refers to the user's).
pub(super) fn environment(
    base: &[(String, String)],
    kernel: &KernelSource,
) -> Vec<(String, String)> {
    let mut env: Vec<(String, String)> = base
        .iter()
        .filter(|(name, value)| !is_secret(name, value) && !OF_OTHERS.contains(&name.as_str()))
        .cloned()
        .collect();
    // Without a locale, as in most containers, R and others write only ASCII letters.
    if !env
        .iter()
        .any(|(name, value)| LOCALE.contains(&name.as_str()) && !value.is_empty())
    {
        env.push(("LANG".to_owned(), "C.UTF-8".to_owned()));
    }
    // ipykernel exits when this process does, and does not print its start-up note.
    env.push((PARENT.to_owned(), std::process::id().to_string()));
    for (name, value) in &kernel.spec.env {
        let value = base.iter().fold(value.clone(), |value, (name, own)| {
            if value.contains("${") && !is_secret(name, own) {
                value.replace(&format!("${{{name}}}"), own)
            } else {
                value
            }
        });
        env.retain(|(existing, _)| existing != name);
        env.push((name.clone(), value));
    }
    if !kernel.spec.env.contains_key("PATH")
        && let Some(prefix) = &kernel.prefix
    {
        put_first(&mut env, &prefix.join("bin"));
    }
    env
}

/// Puts an environment's own programs first, as activating it would: `!pip` is its pip.
fn put_first(env: &mut Vec<(String, String)>, bin: &Path) {
    let Some(bin) = bin.to_str() else {
        return;
    };
    match env.iter_mut().find(|(name, _)| name == "PATH") {
        Some((_, path)) if path.split(':').any(|dir| dir == bin) => {}
        Some((_, path)) => *path = format!("{bin}:{path}"),
        None => env.push(("PATH".to_owned(), format!("{bin}:/usr/bin:/bin"))),
    }
}

/// Variables for a gateway's kernel: the user's `KERNEL_*` without secrets, and always their name.
pub(super) fn gateway_environment(options: &LaunchOptions) -> Vec<(String, String)> {
    const NAME: &str = "KERNEL_USERNAME";
    let mut env: Vec<(String, String)> = options
        .env
        .iter()
        .filter(|(name, value)| name.starts_with("KERNEL_") && !is_secret(name, value))
        .cloned()
        .collect();
    if !env.iter().any(|(name, _)| name == NAME) {
        env.push((NAME.to_owned(), options.username.clone()));
    }
    env
}

#[cfg(test)]
mod tests {
    use super::super::source::{IPYKERNEL_START, PYTHON_START};
    use super::*;

    fn source(argv: &[&str], prefix: Option<&str>) -> KernelSource {
        let spec = serde_json::json!({
            "argv": argv, "display_name": "x", "language": "x",
            "env": {"PATH": "/own:${PATH}", "X": "${OPENAI_API_KEY}"}
        });
        KernelSource {
            name: "x".to_owned(),
            spec: KernelSpec::parse(spec.to_string().as_bytes()).unwrap(),
            resource_dir: "/r".into(),
            prefix: prefix.map(PathBuf::from),
        }
    }

    #[test]
    fn secrets_stay_outside() {
        let base: Vec<_> = [
            ("PATH", "/bin"),
            ("OPENAI_API_KEY", "sk"),
            ("GITHUB_TOKEN", "t"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
            ("DB_PASSWORD", "p"),
            ("PGPASSWORD", "p"),
            ("MYSQL_PWD", "p"),
            ("SSH_AUTH_SOCK", "/run/agent"),
            ("SPONDE_GATEWAY", "http://h/?token=t"),
            ("SPONDE_GATEWAY_TOKEN", "t"),
            ("JUPYTER_GATEWAY_AUTH_TOKEN", "t"),
            ("PWD", "/here"),
            ("TOKENIZERS_PARALLELISM", "true"),
            ("JPY_PARENT_PID", "1"),
            ("PYTEST_CURRENT_TEST", "test.py::test (call)"),
            ("KEYBOARD", "us"),
            ("MONKEY_HOME", "m"),
            ("DATABASE_URL", "postgres://u:pw@h"),
            ("HTTPS_PROXY", "http://u:pw@proxy:3128"),
            ("HTTP_PROXY", "http://proxy:3128"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let env = environment(&base, &source(&["x", "{connection_file}"], None));
        let pid = std::process::id().to_string();
        assert_eq!(
            env.iter()
                .map(|(n, v)| (n.as_str(), v.as_str()))
                .collect::<Vec<_>>(),
            [
                ("PWD", "/here"),
                ("TOKENIZERS_PARALLELISM", "true"),
                ("KEYBOARD", "us"),
                ("MONKEY_HOME", "m"),
                ("HTTP_PROXY", "http://proxy:3128"),
                ("LANG", "C.UTF-8"),
                ("JPY_PARENT_PID", pid.as_str()),
                ("PATH", "/own:/bin"),
                ("X", "${OPENAI_API_KEY}"),
            ]
        );
    }

    #[test]
    fn no_value_of_the_environment_is_in_debug_output() {
        let mut kernel = source(&["x", "{connection_file}"], None);
        kernel.spec.env.insert("Y".to_owned(), "hidden".to_owned());
        let options = LaunchOptions {
            kernel,
            cwd: "/w".into(),
            env: vec![("PLAIN".to_owned(), "hidden".to_owned())],
            runtime_dir: "/r".into(),
            socket_root: "/s".into(),
            username: "me".to_owned(),
            ready_timeout: Duration::from_secs(1),
            oversize: None,
            gateway: None,
            existing: None,
            keep: false,
            adopt: None,
            sandbox: Sandbox::Full,
        };
        let debug = format!("{options:?}");
        assert!(debug.contains("PLAIN"), "{debug}");
        assert!(!debug.contains("hidden"), "{debug}");
    }

    #[test]
    fn a_bare_python_is_that_of_the_environment() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::fs::write(dir.path().join("bin/python3"), "").unwrap();
        let prefix = dir.path().to_str();
        let program = |argv0: &str, prefix| {
            command(
                &source(&[argv0, "{connection_file}"], prefix),
                Path::new("/c"),
            )
            .remove(0)
        };
        let own = dir
            .path()
            .join("bin/python3")
            .to_string_lossy()
            .into_owned();
        assert_eq!(program("python3", prefix), own);
        assert_eq!(program("python", prefix), "python");
        assert_eq!(program("/usr/bin/python3", prefix), "/usr/bin/python3");
        assert_eq!(program("python3", None), "python3");
    }

    #[test]
    fn ipykernel_is_started_our_way_with_its_own_arguments() {
        let argv = [
            "python3",
            "-Xfrozen_modules=off",
            "-m",
            "ipykernel_launcher",
            "-f",
            "{connection_file}",
            "--x",
        ];
        assert_eq!(
            command(&source(&argv, None), Path::new("/c")),
            [
                "python3",
                "-Xfrozen_modules=off",
                "-c",
                IPYKERNEL_START,
                "-f",
                "/c",
                "--x"
            ]
        );
        let argv = ["python3", "-m", "bash_kernel", "-f", "{connection_file}"];
        assert_eq!(
            command(&source(&argv, None), Path::new("/c"))[1..4],
            ["-c", PYTHON_START, "bash_kernel"]
        );
    }
}
