//! Limits of confined kernels: each is come to by real code, named in the outcome, and the session goes on.

use std::process::{Child, Command};
use std::time::Duration;

use sponde::agent::approval::Approval;
use sponde::kernel::sandbox::limits::Limits;
use sponde::kernel::sandbox::probe::Tier;
use sponde::kernel::sandbox::together;
use sponde::kernel::{
    ExecuteOptions, ExitReason, Kernel, LaunchOptions, OutputEvent, Sandbox, Verdict,
};
use sponde::llm::scripted::Reply;

use crate::agent::{call, start_with};
use crate::audit::audited;
use crate::sandbox::{Host, bubblewrap, printed, python, run};

/// Memory that is not private data of a process: only a control group counts it.
const SHARED_MEMORY: &str = "import mmap\n\
    m = mmap.mmap(-1, 1 << 30)\n\
    for at in range(0, 1 << 30, 4096): m[at] = 1";

fn options(host: &Host, tier: Tier, limits: Limits) -> LaunchOptions {
    let mut options = host.options(python(), tier);
    if let Sandbox::Confined(confinement) = &mut options.sandbox {
        confinement.limits = limits;
    }
    options
}

fn small() -> Limits {
    Limits {
        memory: 600 << 20,
        temporary: 64 << 20,
        ..Limits::default()
    }
}

/// Whether control groups can be made; a test that needs them says loudly why it cannot run.
fn grouped(test: &str) -> bool {
    match together() {
        Ok(()) => true,
        Err(reason) => {
            crate::support::not_tested(&format!("{test}: {reason}"));
            false
        }
    }
}

fn notes(outputs: &[OutputEvent]) -> Vec<&str> {
    let notes = outputs.iter().filter_map(|output| match output {
        OutputEvent::Lost(words) => Some(words.as_str()),
        _ => None,
    });
    notes.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_takes_too_much_memory_ends_and_says_so() {
    if !grouped("memory of a control group") {
        return;
    }
    for tier in [bubblewrap(), Tier::Landlock] {
        let host = Host::new();
        let kernel = Kernel::launch(options(&host, tier, small())).await.unwrap();
        assert_eq!(printed(&kernel, "print(6 * 7)").await, "42");
        let (_, outcome) = run(&kernel, SHARED_MEMORY).await;
        let Verdict::KernelDied(reason) = &outcome.verdict else {
            panic!("{outcome:?}");
        };
        assert_eq!(
            *reason,
            ExitReason::Limit("it used more than 600 MB of memory".to_owned())
        );
        assert_eq!(reason.to_string(), "it used more than 600 MB of memory");
        kernel.restart().await.unwrap();
        assert_eq!(printed(&kernel, "print(6 * 7)").await, "42");
        kernel.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_for_memory_is_told_in_its_cell() {
    if !grouped("memory of a control group") {
        return;
    }
    let host = Host::new();
    let kernel = Kernel::launch(options(&host, bubblewrap(), small()))
        .await
        .unwrap();
    let code = format!(
        "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', {SHARED_MEMORY:?}]).returncode)"
    );
    let (outputs, outcome) = run(&kernel, &code).await;
    assert_eq!(outcome.verdict, Verdict::Ok, "{outputs:?}");
    assert_eq!(
        notes(&outputs),
        ["limit of this kernel: it used more than 600 MB of memory"]
    );
    // What was told is not told again.
    let (outputs, _) = run(&kernel, "1").await;
    assert!(notes(&outputs).is_empty(), "{outputs:?}");
    kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_are_limited_together_for_root_as_well() {
    if !grouped("processes of a control group") {
        return;
    }
    let host = Host::new();
    let limits = Limits {
        processes: 120,
        ..Limits::default()
    };
    let kernel = Kernel::launch(options(&host, bubblewrap(), limits))
        .await
        .unwrap();
    let code = "import os, signal, time\nchildren = []\n\
        try:\n    for _ in range(400):\n        pid = os.fork()\n        if not pid: time.sleep(60); os._exit(0)\n        children.append(pid)\n\
        finally:\n    for pid in children: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)\n    print(len(children) < 120)";
    let (outputs, outcome) = run(&kernel, code).await;
    assert!(
        matches!(outcome.verdict, Verdict::Error { .. }),
        "{outcome:?}"
    );
    let told = notes(&outputs);
    assert!(
        told.contains(&"limit of this kernel: it made more than 120 processes and threads"),
        "{told:?}"
    );
    assert_eq!(printed(&kernel, "print(6 * 7)").await, "42");
    kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn processor_time_is_limited_and_named() {
    let host = Host::new();
    let limits = Limits {
        cpu: Some(5),
        ..Limits::default()
    };
    let kernel = Kernel::launch(options(&host, bubblewrap(), limits))
        .await
        .unwrap();
    let (_, outcome) = run(&kernel, "while True: pass").await;
    let expected = ExitReason::Limit("it used more than 5 s of processor time".to_owned());
    assert_eq!(outcome.verdict, Verdict::KernelDied(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exception_names_the_limit_that_may_be_behind_it() {
    let host = Host::new();
    let limits = Limits {
        file: 1 << 20,
        open_files: 100,
        ..small()
    };
    let kernel = Kernel::launch(options(&host, bubblewrap(), limits))
        .await
        .unwrap();
    for (code, words) in [
        ("x = bytearray(1 << 30)", "600 MB of memory (`memory` in"),
        (
            "open('large', 'wb').truncate(2 << 20)",
            "files of 1 MB (`file` in",
        ),
        (
            "many = [open('/dev/null') for _ in range(200)]",
            "100 open files (`open-files` in",
        ),
        (
            "open('/tmp/x', 'wb').truncate(0); import os\nf = open('/dev/shm/x', 'wb')\nfor _ in range(100): f.write(bytes(1 << 20))",
            "files of 1 MB",
        ),
    ] {
        let (outputs, outcome) = run(&kernel, code).await;
        assert!(
            matches!(outcome.verdict, Verdict::Error { .. }),
            "{code}: {outcome:?}"
        );
        let told = notes(&outputs);
        assert!(
            told.iter().any(|told| told.contains(words)),
            "{code}: {told:?}"
        );
        run(&kernel, "many = f = x = None").await;
    }
    let (outputs, _) = run(&kernel, "1 / 0").await;
    assert!(notes(&outputs).is_empty(), "{outputs:?}");
    kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_fills_the_disk_is_interrupted_and_the_next_one_can_tidy_up() {
    for tier in [bubblewrap(), Tier::Landlock] {
        fills_the_disk(tier).await;
    }
}

async fn fills_the_disk(tier: Tier) {
    let host = Host::new();
    let limits = Limits {
        disk: Some(64 << 20),
        ..Limits::default()
    };
    let kernel = Kernel::launch(options(&host, tier, limits)).await.unwrap();
    // At most 6 GB, in case that somebody else makes room at the same time.
    let code = "import os, time\nfor n in range(600):\n    open(f'f{n}', 'wb').write(os.urandom(10 << 20)); time.sleep(0.05)";
    let (outputs, outcome) = run(&kernel, code).await;
    assert_ne!(outcome.verdict, Verdict::Ok, "{outputs:?}");
    let expected =
        "limit of this kernel: it took more than 64 MB of the disk, so it was interrupted";
    assert!(notes(&outputs).contains(&expected), "{:?}", notes(&outputs));
    let tidy = "import glob\nfor f in glob.glob('f*'): os.remove(f)\nprint('tidy')";
    assert_eq!(printed(&kernel, tidy).await, "tidy");
    kernel.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_with_nothing_to_do_ends_and_one_that_works_does_not() {
    let host = Host::new();
    let limits = Limits {
        idle: Some(Duration::from_secs(2)),
        ..Limits::default()
    };
    let kernel = Kernel::launch(options(&host, bubblewrap(), limits))
        .await
        .unwrap();
    let cell = "import time; time.sleep(4); print('done')";
    assert_eq!(printed(&kernel, cell).await, "done");
    let ended = tokio::time::timeout(Duration::from_mins(1), kernel.ended()).await;
    let expected = ExitReason::Limit("it was idle for 2 s".to_owned());
    assert_eq!(ended, Ok(expected));
}

/// Processes that end with the test.
struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Somebody's browser has more threads than a kernel may: what runs already must not count against it. (Run by an
/// ordinary user; root's processes are not counted.)
#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_starts_although_its_user_runs_many_processes() {
    let sleepers = (0..120).map(|_| Command::new("sleep").arg("600").spawn().unwrap());
    let _sleepers = Sleepers(sleepers.collect());
    let limits = Limits {
        processes: 100,
        ..Limits::default()
    };
    for tier in [bubblewrap(), Tier::Landlock] {
        let host = Host::new();
        let kernel = Kernel::launch(options(&host, tier, limits.clone()))
            .await
            .unwrap();
        let code = "import subprocess; print(subprocess.check_output(['echo', 'hello'], text=True).strip())";
        assert_eq!(printed(&kernel, code).await, "hello");
        kernel.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_a_control_group_stays() {
    if !grouped("what is left of control groups") {
        return;
    }
    let host = Host::new();
    let kernel = Kernel::launch(options(&host, bubblewrap(), small()))
        .await
        .unwrap();
    let pid = kernel.pid().await.unwrap();
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let ours = format!("/sponde-{}-", std::process::id());
    assert!(groups.contains(&ours), "{groups}");
    let name = groups.split(&ours).nth(1).unwrap().lines().next().unwrap();
    let name = format!("{}{name}", &ours[1..]);
    let mut execution = kernel.execute(ExecuteOptions::cell("1")).await.unwrap();
    while execution.next().await.is_some() {}
    kernel.shutdown().await;
    drop(kernel);
    let find = || {
        let found = Command::new("find")
            .args(["/sys/fs/cgroup", "-name", &name])
            .output()
            .unwrap();
        String::from_utf8(found.stdout).unwrap()
    };
    crate::support::eventually(|| find().is_empty());
}

/// Each limit stands in the result that the model reads, and in the audit log.
#[tokio::test(flavor = "multi_thread")]
async fn limits_that_were_hit_are_told_to_the_model_and_written_down() {
    if !grouped("limits of a control group, as a model reads them") {
        return;
    }
    let child = format!(
        "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', {SHARED_MEMORY:?}]).returncode)"
    );
    let forks = "import os, signal, time\nchildren = []\n\
        try:\n    for _ in range(400):\n        pid = os.fork()\n        if not pid: time.sleep(60); os._exit(0)\n        children.append(pid)\n\
        finally:\n    for pid in children: os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)";
    // Code, what the model reads, and what is written down.
    let hits: [(&str, &str, &str); 6] = [
        (
            &child,
            "it used more than 600 MB of memory",
            "it used more than 600 MB of memory",
        ),
        (
            forks,
            "it made more than 120 processes",
            "it made more than 120 processes and threads",
        ),
        (
            "open('large', 'wb').truncate(2 << 20)",
            "files of 1 MB (`file`",
            "perhaps files of 1 MB",
        ),
        (
            "many = [open('/dev/null') for _ in range(200)]",
            "100 open files",
            "perhaps 100 open files",
        ),
        (
            "x = bytearray(1 << 30)",
            "600 MB of memory (`memory`",
            "perhaps 600 MB of memory",
        ),
        (
            "while True: pass",
            "it used more than 10 s of processor time",
            "it used more than 10 s of processor time",
        ),
    ];
    let limits = Limits {
        processes: 120,
        file: 1 << 20,
        open_files: 100,
        cpu: Some(10),
        ..small()
    };
    hit(limits, &hits).await;
    // By itself: what others write to the disk counts as well.
    let fills = "import os, time\nfor n in range(600):\n    open(f'f{n}', 'wb').write(os.urandom(10 << 20)); time.sleep(0.05)";
    let words = "it took more than 64 MB of the disk, so it was interrupted";
    let limits = Limits {
        disk: Some(64 << 20),
        ..Limits::default()
    };
    hit(limits, &[(fills, words, words)]).await;
}

/// A model runs code under these limits: what it reads of each, and what is written down.
async fn hit(limits: Limits, hits: &[(&str, &str, &str)]) {
    let host = Host::new();
    let replies = hits.iter().map(|(code, ..)| call(code));
    let replies = replies.chain([Reply::text("Done.")]);
    let mut session = start_with(python(), Approval::Never, replies, |agent, dir| {
        agent.kernel = options(&host, bubblewrap(), limits);
        agent.max_steps = 20;
        audited(agent, dir);
    });
    session.submit("go").await;
    let (events, _) = session.turn().await;
    let told = session.answers();
    assert_eq!(told.len(), hits.len(), "{events:?}");
    for ((code, words, _), (told, _)) in hits.iter().zip(&told) {
        assert!(told.contains(words), "{code}: {told}");
    }
    let log = session.dir.path().join("sessions/s.audit");
    session.agent.shutdown().await;
    let log = std::fs::read_to_string(log).unwrap();
    let records = log.lines().map(|line| serde_json::from_str(line).unwrap());
    let kept: Vec<String> = records
        .filter_map(|record: serde_json::Value| match record["kind"].as_str()? {
            "limit" => Some(record["limit"].to_string()),
            "kernel_died" => Some(record["reason"].to_string()),
            _ => None,
        })
        .collect();
    for (code, _, words) in hits {
        assert!(kept.iter().any(|it| it.contains(words)), "{code}: {kept:?}");
    }
}
