//! Kernels in gVisor: what the other tiers are tried with, and what is different there. Without `runsc` on this machine
//! nothing of it is tested, which is said.

use std::path::PathBuf;

use sponde::kernel::sandbox::probe::Tier;
use sponde::kernel::sandbox::together;
use sponde::kernel::{Checkpoints, ExitReason, Kernel, LaunchOptions, NoCheckpoint, Verdict};

use crate::sandbox::{
    Host, PRELUDE, as_somebody_else, attack, bridged, day, forged_frames, interrupt, printed,
    python, run, running,
};
use crate::sandbox_net::namespaces;
use crate::support::{Sponde, not_tested};

fn runsc() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("runsc"));
    let found = found.into_iter().find(|runsc| runsc.is_file());
    if found.is_none() {
        not_tested("gVisor: there is no `runsc`");
    }
    found
}

fn gvisor() -> Option<Tier> {
    runsc().map(|program| Tier::Gvisor { program })
}

#[tokio::test(flavor = "multi_thread")]
async fn attempts_in_gvisor_are_stopped_and_the_session_goes_on() {
    let Some(tier) = gvisor() else { return };
    attack(tier).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_in_gvisor_does_what_it_always_did() {
    let Some(tier) = gvisor() else { return };
    day(tier).await;
}

#[test]
fn both_hold_for_an_ordinary_user() {
    if runsc().is_some() {
        as_somebody_else(54324, &["gvisor::attempts_in", "gvisor::a_kernel_in"], 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_of_a_kernel_in_gvisor_are_reached() {
    let Some(tier) = gvisor() else { return };
    bridged(tier).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn allowed_names_are_reached_from_gvisor_and_others_are_not() {
    let Some(tier) = gvisor() else { return };
    namespaces(tier).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_frames_from_gvisor_end_the_kernel_and_not_us() {
    let Some(tier) = gvisor() else { return };
    forged_frames(tier).await;
}

/// It has no limit of a process: only a control group holds it, and at its limit the whole kernel ends.
#[tokio::test(flavor = "multi_thread")]
async fn neither_all_memory_nor_all_processes_are_to_be_had_in_gvisor() {
    let Some(tier) = gvisor() else { return };
    if let Err(reason) = together() {
        return not_tested(&format!("memory of a kernel in gVisor: {reason}"));
    }
    let host = Host::new();
    let kernel = Kernel::launch(host.options(python(), tier)).await.unwrap();
    let (_, outcome) = run(&kernel, "x = bytearray(3 << 30)").await;
    let limit = ExitReason::Limit("it used more than 2 GB of memory".to_owned());
    assert_eq!(outcome.verdict, Verdict::KernelDied(limit));
    kernel.restart().await.unwrap();
    run(&kernel, PRELUDE).await;
    let (outputs, outcome) = run(&kernel, "bomb()").await;
    assert!(
        matches!(outcome.verdict, Verdict::KernelDied(_)),
        "{outputs:?}"
    );
    kernel.restart().await.unwrap();
    assert_eq!(printed(&kernel, "print(6 * 7)").await, "42");
    kernel.shutdown().await;
}

/// What goes by processes of this machine is refused in words, and all ends with the kernel.
#[tokio::test(flavor = "multi_thread")]
async fn what_gvisor_cannot_do_is_said_and_nothing_of_it_outlives_its_kernel() {
    let Some(tier) = gvisor() else { return };
    let host = Host::new();
    let options = host.options(python(), tier);
    let kept = LaunchOptions {
        keep: true,
        ..options.clone()
    };
    let refused = Kernel::launch(kept).await.unwrap_err().to_string();
    assert!(
        refused.contains("a kernel in gVisor cannot be kept"),
        "{refused}"
    );
    let kernel = Kernel::launch(options).await.unwrap();
    let checkpoints = Checkpoints::new(&std::env::temp_dir());
    let refused = kernel.checkpoint(&checkpoints).await;
    assert!(
        matches!(refused, Err(NoCheckpoint::Unsupported)),
        "{refused:?}"
    );
    let file = kernel.connection_file().await.unwrap();
    let text = std::fs::read_to_string(&file).unwrap();
    let ip = serde_json::from_str::<serde_json::Value>(&text).unwrap()["ip"].clone();
    let place = PathBuf::from(ip.as_str().unwrap());
    let place = place.ancestors().nth(2).unwrap().to_owned();
    let name = place.to_string_lossy().into_owned();
    run(
        &kernel,
        "import subprocess; subprocess.Popen(['sleep', '600'], start_new_session=True)",
    )
    .await;
    assert!(!running(&name).is_empty());
    // An interrupt that nobody waits for ends nothing.
    kernel.interrupt().await.unwrap();
    interrupt(&kernel, "import time; time.sleep(60)").await;
    assert_eq!(
        printed(&kernel, "import os; print(os.uname().sysname)").await,
        "Linux"
    );
    kernel.shutdown().await;
    drop(kernel);
    crate::support::eventually(|| running(&name).is_empty() && !place.exists());
}

#[test]
fn gvisor_is_chosen_by_name_and_its_lack_is_said() {
    let without = Sponde::new().with("PATH", "/nowhere");
    let without = without.run(&["run", "--sandbox", "gvisor", "-c", "1"]);
    let said = without.stderr;
    assert!(
        said.contains("code cannot be confined by gVisor: there is no gVisor (`runsc`)"),
        "{said}"
    );
    assert!(said.contains("apt install runsc"), "{said}");
    assert_eq!(without.code, Some(4), "{said}");
    if runsc().is_none() {
        return;
    }
    let sponde = Sponde::new();
    // gVisor says of itself that it is an older Linux.
    let code = "import os; print(os.path.exists('/root/.ssh'), os.access('.', os.W_OK)); print(open('/proc/version').read())";
    for (level, writes) in [("gvisor", "True"), ("gvisor-read-only", "False")] {
        let ended = sponde.run(&["run", "--sandbox", level, "-c", code]);
        let out = ended.stdout.clone();
        assert!(
            out.starts_with(&format!("False {writes}\nLinux version 4.4.0")),
            "{level}: {out}\n{}",
            ended.stderr
        );
    }
    let doctor = sponde.run(&["doctor"]);
    assert!(
        doctor
            .stdout
            .contains("ok       gVisor works, for `--sandbox gvisor`"),
        "{}",
        doctor.stdout
    );
}
