//! Variables that the asker chooses reach a kernel and a command as they are, and mean nothing to what confines them.

use std::path::Path;
use std::process::Command;

use sponde::kernel::sandbox::probe::Tier;
use sponde::kernel::{CommandInput, Kernel, command_beside};

use crate::sandbox::{Host, bubblewrap, printed, python};
use crate::support::not_tested;

/// Writes to a file outside of the sandbox, and into one inside how the process is confined that loads it.
const HOSTILE: &str = r#"
#include <stdio.h>
#include <string.h>
__attribute__((constructor)) static void begin(void) {
    FILE *outside = fopen(OUTSIDE, "a");
    if (outside) { fputs("reached\n", outside); fclose(outside); }
    FILE *status = fopen("/proc/self/status", "r"), *inside = fopen(INSIDE, "a");
    char line[256];
    while (status && inside && fgets(line, sizeof line, status))
        if (!strncmp(line, "Seccomp:", 8)) fputs(line, inside);
    if (status) fclose(status);
    if (inside) fclose(inside);
}
unsigned int la_version(unsigned int version) { return version; }
"#;

/// The library, built for a machine where these files are.
fn hostile(dir: &Path, outside: &Path) -> Option<String> {
    let (source, library) = (dir.join("hostile.c"), dir.join("hostile.so"));
    std::fs::write(&source, HOSTILE).unwrap();
    let define = |name: &str, path: &Path| format!("-D{name}=\"{}\"", path.display());
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg(define("OUTSIDE", outside))
        .arg(define("INSIDE", &dir.join("loaded")))
        .status();
    match built {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            not_tested(&format!("a library for the loader: `cc`: {error}"));
            return None;
        }
    }
    Some(library.display().to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_loader_of_what_confines_a_kernel_or_a_command_loads_nothing_of_theirs() {
    for tier in [bubblewrap(), Tier::Landlock] {
        let host = Host::new();
        let (project, outside) = (host.project(), host.home.path().join("outside"));
        let Some(library) = hostile(&project, &outside) else {
            return;
        };
        let preload = ("LD_PRELOAD".to_owned(), library.clone());
        let mut options = host.options(python(), tier);
        let (sandbox, base) = (options.sandbox.clone(), options.env.clone());
        // A person's own LD_PRELOAD is not for kernels; this does the same.
        options.env.push(("LD_AUDIT".to_owned(), library.clone()));
        let kernel = Kernel::launch(options).await.unwrap();
        let own = printed(&kernel, "import os; print(os.environ['LD_AUDIT'])").await;
        assert_eq!(own, library);
        kernel.shutdown().await;

        let argv = ["/bin/sh", "-c", "echo \"$LD_PRELOAD\""].map(str::to_owned);
        let more = [preload, ("A=B".to_owned(), "c".to_owned())];
        let mut command = command_beside(
            &python(),
            &sandbox,
            &argv,
            (&base, &more),
            (&project, CommandInput::Pipes),
        )
        .unwrap();
        let output = command.output().await.unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!(printed.trim(), library, "{output:?}");

        assert_eq!(std::fs::read(&outside).unwrap(), b"secret");
        let loaded = std::fs::read_to_string(project.join("loaded")).unwrap();
        assert!(loaded.lines().count() > 1, "{loaded}");
        // 2: a filter of system calls is in force.
        assert!(loaded.lines().all(|it| it.ends_with("\t2")), "{loaded}");
    }
}
