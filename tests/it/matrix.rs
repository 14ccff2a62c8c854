//! What every kernel does in every situation, as the probe (`sponde kernels test`) sees it: whole tables are compared.
//!
//! An entry that is not what the protocol wants is what that kernel can do; the comment says why.

use std::path::PathBuf;

use sponde::kernel::probe::{Grade, probe};
use sponde::kernel::{KernelSource, SearchPath, SearchPaths};

use crate::support::{ipykernel, launch_options, tools};

/// A kernel that `scripts/test` installed with `sponde kernels install`.
fn installed(name: &str) -> KernelSource {
    let prefix = tools().join("kernels/python");
    let paths = SearchPaths {
        dirs: vec![SearchPath {
            origin: "tests",
            data_dir: prefix.join("share/jupyter"),
            prefix: Some(prefix),
        }],
        elsewhere: Vec::new(),
        programs: std::env::var_os("PATH")
            .iter()
            .flat_map(std::env::split_paths)
            .collect::<Vec<PathBuf>>(),
    };
    match paths.find(name) {
        Ok(kernel) => kernel,
        Err(error) => panic!("{error}: run scripts/test once, it installs what the tests need"),
    }
}

/// Probes the kernel; one line a check.
async fn observed(kernel: KernelSource) -> String {
    let dir = tempfile::tempdir().unwrap();
    let report = probe(launch_options(kernel, dir.path()), |_| {})
        .await
        .unwrap();
    let mut text = String::new();
    for row in report.rows {
        let grade = match row.finding.grade {
            Grade::Good => "good",
            Grade::Limited => "limited",
            Grade::Bad => "bad",
            Grade::Skipped => "skipped",
        };
        text.push_str(&format!(
            "{}: {grade}: {}\n",
            row.check.title(),
            row.finding.observed
        ));
        if row.finding.grade == Grade::Bad {
            text.push_str(&format!("    {:?}\n", row.finding.detail));
        }
    }
    text
}
