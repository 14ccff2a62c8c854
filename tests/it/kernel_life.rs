//! How kernels begin and end: attached, spare, left over.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

use sponde::kernel::attach::find_connection_file;
use sponde::kernel::reap::reap;
use sponde::kernel::{
    AttachOptions, ExecuteOptions, ExecutionEvent, ExitReason, Kernel, KernelError, KernelState,
    OutputEvent, Pool, Verdict,
};

use crate::support::{LIMIT, Sponde, eventually, ipykernel, launch_options, python_prefix};

impl Sponde {
    /// A run in the middle of its cell.
    fn start_a_long_cell(&self) -> Child {
        let code = "import time; print('up', flush=True); time.sleep(600)";
        let mut child = self
            .command(&["run", "-c", code])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "up\n");
        child
    }

    /// A run that is killed.
    fn leave_something(&self) {
        let mut child = self.start_a_long_cell();
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// A process that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn run(kernel: &Kernel, code: &str) -> (Vec<OutputEvent>, Verdict) {
    let execution = kernel.execute(ExecuteOptions::cell(code)).await.unwrap();
    let (outputs, outcome) = execution.collect().await;
    (outputs, outcome.verdict)
}

async fn value(kernel: &Kernel, code: &str) -> String {
    let (outputs, verdict) = run(kernel, code).await;
    assert_eq!(verdict, Verdict::Ok, "{outputs:?}");
    match &outputs[..] {
        [OutputEvent::Result { data, .. }] => data.text_of("text/plain").unwrap().into_owned(),
        _ => panic!("{outputs:?}"),
    }
}

/// A kernel that jupyter_client has started, over tcp as it does.
#[tokio::test]
async fn a_kernel_that_runs_is_used_and_left_running() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("kernel-4711.json");
    let process = Command::new(python_prefix().join("bin/python"))
        .args(["-m", "ipykernel_launcher", "-f"])
        .arg(&file)
        .current_dir(dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut process = Killed(process);
    // The kernel writes the file itself, with free ports, and not in one piece.
    eventually(|| {
        std::fs::read(&file)
            .is_ok_and(|text| sponde::jupyter::connection::ConnectionInfo::parse(&text).is_ok())
    });
    let found = find_connection_file(Some("4711"), dir.path()).unwrap();
    assert_eq!(found, file);
    assert_eq!(find_connection_file(None, dir.path()).unwrap(), file);
    let options = AttachOptions {
        name: "existing".to_owned(),
        connection_file: found,
        socket_root: std::env::temp_dir(),
        username: "test".to_owned(),
        ready_timeout: LIMIT,
    };

    let sponde = Sponde::new();
    let existing = format!("--existing={}", file.display());
    let ended = sponde.run(&["run", &existing, "-c", "x = 20; x"]);
    assert_eq!(
        (ended.code, ended.stdout.as_str()),
        (Some(0), "20\n"),
        "{}",
        ended.stderr
    );

    let first = Kernel::attach(options.clone()).await.unwrap();
    let refused = first.restart().await.unwrap_err();
    assert!(matches!(refused, KernelError::NotOurs { .. }), "{refused}");
    let endless = ExecuteOptions::cell("print('go', flush=True)\nwhile True: pass");
    let mut busy = first.execute(endless).await.unwrap();
    // An interrupt that comes before the cell stops nothing.
    while !matches!(busy.next().await, Some(ExecutionEvent::Output(_))) {}
    first.interrupt().await.unwrap();
    assert_eq!(busy.collect().await.1.verdict, Verdict::Interrupted);
    first.shutdown().await;

    let second = Kernel::attach(options.clone()).await.unwrap();
    assert_eq!(value(&second, "x + 1").await, "21");
    assert!(process.0.try_wait().unwrap().is_none());
    assert!(file.exists());

    let (_, verdict) = run(&second, "import os; os._exit(1)").await;
    assert_eq!(verdict, Verdict::KernelDied(ExitReason::Disconnected));
    process.0.wait().unwrap();
    assert!(
        Kernel::attach(AttachOptions {
            ready_timeout: std::time::Duration::from_millis(200),
            ..options
        })
        .await
        .is_err()
    );
}

#[tokio::test]
async fn a_spare_kernel_is_warm_fresh_and_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let options = launch_options(ipykernel(), dir.path());
    let pool = Pool::new();
    pool.prepare(options.clone());
    let first = pool.take(options.clone()).await.unwrap();
    let code = "import sys; ('pandas' in sys.modules, [n for n in globals() if 'sponde' in n])";
    assert_eq!(value(&first, code).await, "(True, [])");
    run(&first, "x = 1").await;
    let pid = value(&first, "import os; os.getpid()").await;

    // The next one is another process, without the first one's variables.
    let second = pool.take(options.clone()).await.unwrap();
    assert_ne!(value(&second, "import os; os.getpid()").await, pid);
    assert_eq!(value(&second, "'x' in globals()").await, "False");

    // A spare that has died is not handed out.
    pool.prepare(options.clone());
    drop(first);
    second.shutdown().await;
    assert_eq!(second.state(), KernelState::Dead(ExitReason::Requested));
    let third = pool.take(options).await.unwrap();
    assert_eq!(value(&third, "1 + 1").await, "2");
}

#[tokio::test]
async fn what_a_killed_sponde_leaves_is_reaped() {
    let sponde = Sponde::new();
    let sockets = sponde.sockets();
    let left = || std::fs::read_dir(&sockets).unwrap().count();
    let mut child = sponde.start_a_long_cell();
    assert_eq!(left(), 1);
    // Nothing of one that lives is touched, nor what is not ours.
    assert_eq!(reap(&sockets), sponde::kernel::reap::Reaped::default());
    std::fs::create_dir(sockets.join("sponde-of-nobody")).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let reaped = reap(&sockets);
    assert_eq!(reaped.removed.len(), 2, "{reaped:?}");
    assert_eq!(left(), 1);

    std::fs::remove_dir(sockets.join("sponde-of-nobody")).unwrap();

    // The next start does the same by itself, and a command does it when asked.
    sponde.leave_something();
    let ended = sponde.run(&["run", "-c", "1"]);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), "1\n"));
    sponde.leave_something();
    let ended = sponde.run(&["kernels", "reap"]);
    assert_eq!(ended.code, Some(0));
    assert!(ended.stdout.contains("removed"), "{}", ended.stdout);
    let ended = sponde.run(&["kernels", "reap"]);
    assert_eq!(ended.stdout, "nothing is left over\n");
}

#[tokio::test]
async fn an_interrupt_passes_a_full_queue_of_code() {
    use rustix::process::{Pid, Signal, kill_process};
    use tokio::time::timeout;

    let kernel = crate::support::start(ipykernel()).await;
    let pid = Pid::from_raw(kernel.pid().await.unwrap().cast_signed()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    // More than the sockets and the queue in front of them hold.
    let code = format!("x = 1 # {}", "x".repeat(8 << 10));
    let soon = std::time::Duration::from_secs(10);
    let mut executions = Vec::new();
    for _ in 0..1200 {
        let sent = kernel.execute(ExecuteOptions::cell(&*code));
        let execution = timeout(soon, sent).await.expect("nobody waits for it");
        executions.push(execution.unwrap());
    }
    let interrupted = timeout(soon, kernel.interrupt()).await;
    interrupted.expect("it is not behind the code").unwrap();
    timeout(soon, kernel.shutdown()).await.expect("nor is this");
    let last = executions.pop().unwrap();
    let (_, outcome) = timeout(soon, last.collect()).await.unwrap();
    assert_eq!(outcome.verdict, Verdict::KernelDied(ExitReason::Requested));
}
