//! What several tests need: the tools that `scripts/test` installs, and kernels.

use std::path::{Path, PathBuf};
use std::time::Duration;

use sponde::kernel::{Kernel, KernelSource, LaunchOptions, SearchPath, SearchPaths};

/// The directory that `scripts/test` fills.
pub fn tools() -> PathBuf {
    std::env::var_os("SPONDE_TEST_TOOLS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target/test-tools"),
        PathBuf::from,
    )
}

/// The Python environment of the tests: ipykernel, pandas, matplotlib, nbclient, papermill.
pub fn python_prefix() -> PathBuf {
    let prefix = tools().join("python");
    assert!(
        prefix.join("bin/python").exists(),
        "`{}` has no Python environment: run scripts/test once, it installs what the tests need",
        prefix.display()
    );
    prefix
}

/// The real ipykernel of the test environment.
pub fn ipykernel() -> KernelSource {
    let prefix = python_prefix();
    SearchPaths(vec![SearchPath {
        origin: "tests",
        data_dir: prefix.join("share/jupyter"),
        prefix: Some(prefix),
    }])
    .find("python3")
    .unwrap()
}

/// The kernel that misbehaves on command, `tests/fixtures/kernels/misbehave.py`.
pub fn misbehaving(arguments: &[&str]) -> KernelSource {
    let mut kernel = ipykernel();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kernels/misbehave.py");
    kernel.name = "misbehave".to_owned();
    kernel.spec.argv = vec![
        python_prefix().join("bin/python").to_string_lossy().into_owned(),
        script.to_string_lossy().into_owned(),
        "-f".to_owned(),
        "{connection_file}".to_owned(),
    ];
    kernel.spec.argv.extend(arguments.iter().map(|&argument| argument.to_owned()));
    kernel
}

/// A kernel in a directory of its own, which goes with it.
pub struct TestKernel {
    pub kernel: Kernel,
    pub dir: tempfile::TempDir,
}

impl std::ops::Deref for TestKernel {
    type Target = Kernel;

    fn deref(&self) -> &Kernel {
        &self.kernel
    }
}

pub fn launch_options(kernel: KernelSource, dir: &Path) -> LaunchOptions {
    LaunchOptions {
        kernel,
        cwd: dir.to_owned(),
        env: std::env::vars().collect(),
        runtime_dir: dir.join("runtime"),
        socket_root: std::env::temp_dir(),
        username: "test".to_owned(),
        ready_timeout: Duration::from_secs(60),
    }
}

pub async fn start(kernel: KernelSource) -> TestKernel {
    let dir = tempfile::tempdir().unwrap();
    let kernel = Kernel::launch(launch_options(kernel, dir.path())).await.unwrap();
    TestKernel { kernel, dir }
}
