//! Checkpoints of real kernels: what comes back, what cannot, and that no copy is left over.

use sponde::kernel::checkpoint::{Checkpoints, NoCheckpoint};
use sponde::kernel::{ExecuteOptions, ExitReason, Kernel, KernelError, OutputEvent, Verdict};

use crate::support::{eventually, ipykernel, misbehaving, start};

async fn run(kernel: &Kernel, code: &str) -> (Vec<OutputEvent>, Verdict) {
    let execution = kernel.execute(ExecuteOptions::cell(code)).await.unwrap();
    let (outputs, outcome) = execution.collect().await;
    (outputs, outcome.verdict)
}

/// What a cell printed.
async fn printed(kernel: &Kernel, code: &str) -> String {
    let (outputs, verdict) = run(kernel, code).await;
    assert_eq!(verdict, Verdict::Ok, "{outputs:?}");
    outputs
        .iter()
        .map(|output| match output {
            OutputEvent::Stream(stream) => stream.text.as_str(),
            _ => "",
        })
        .collect()
}

fn has_png(outputs: &[OutputEvent]) -> bool {
    outputs.iter().any(
        |output| matches!(output, OutputEvent::Display { data, .. } if data.contains("image/png")),
    )
}

fn is_running(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat
            .rsplit_once(')')
            .and_then(|(_, rest)| rest.trim().chars().next());
        !matches!(state, Some('Z' | 'X') | None)
    })
}

#[tokio::test]
async fn all_that_was_in_memory_comes_back_again_and_again() {
    let kernel = start(ipykernel()).await;
    let checkpoints = Checkpoints::new(&std::env::temp_dir());
    run(
        &kernel,
        "import random, matplotlib.pyplot as plt, numpy as np, pandas as pd\n\
         df = pd.DataFrame({'a': range(1000)})\n\
         names = ['x']\n\
         numbers = iter(range(10)); next(numbers)\n\
         random.seed(7); np.random.seed(7)\n\
         class Point: pass\n\
         p = Point(); p.x = 1\n\
         fig, ax = plt.subplots(); ax.plot([1, 2]); plt.close(fig)",
    )
    .await;
    let checkpoint = kernel.checkpoint(&checkpoints).await.unwrap();
    assert_eq!(checkpoint.notes, Vec::<String>::new());
    let first = kernel.pid().await.unwrap();
    let state = "print(df.a.sum(), names, next(numbers), p.x, random.random(), np.random.rand(), 'json' in globals(), len(In))";
    let then = printed(&kernel, state).await;
    let change = "df.loc[:, 'a'] = 0; names.append('y'); p.x = 2; import json; del np";
    for _ in 0..3 {
        run(&kernel, change).await;
        kernel.restore(&checkpoints, checkpoint.id).await.unwrap();
        assert_eq!(printed(&kernel, state).await, then);
        assert_ne!(kernel.pid().await.unwrap(), first);
    }
    assert!(!is_running(first));

    // It is a kernel as any other.
    let (outputs, verdict) = run(&kernel, "plt.plot([1, 2]); plt.show()").await;
    assert_eq!(verdict, Verdict::Ok);
    assert!(has_png(&outputs));
    let (outputs, _) = run(&kernel, "ax.plot([3]); display(fig)").await;
    assert!(has_png(&outputs));
    let large = "print('x' * 20_000_000, end='')";
    assert_eq!(printed(&kernel, large).await.len(), 20_000_000);
    let below = "import os, subprocess; os.system('echo one'); subprocess.run(['echo', 'two']); print('three')";
    let text = printed(&kernel, below).await;
    for word in ["one", "two", "three"] {
        assert!(text.contains(word), "{text}");
    }
    assert!(printed(&kernel, "%%bash\necho four").await.contains("four"));
    let (_, verdict) = run(&kernel, "1 / 0").await;
    assert!(matches!(verdict, Verdict::Error { .. }));

    let endless = ExecuteOptions::cell("print('go', flush=True)\nwhile True: pass");
    let mut busy = kernel.execute(endless).await.unwrap();
    while !matches!(
        busy.next().await,
        Some(sponde::kernel::ExecutionEvent::Output(_))
    ) {}
    kernel.interrupt().await.unwrap();
    assert_eq!(busy.collect().await.1.verdict, Verdict::Interrupted);

    let mut asking = kernel
        .execute(ExecuteOptions {
            allow_stdin: true,
            ..ExecuteOptions::cell("print(input('? ') * 2)")
        })
        .await
        .unwrap();
    let id = asking.id.clone();
    while !matches!(
        asking.next().await,
        Some(sponde::kernel::ExecutionEvent::InputRequested(_))
    ) {}
    kernel.reply(&id, "ab".to_owned()).await.unwrap();
    let (outputs, _) = asking.collect().await;
    assert!(matches!(&outputs[..], [OutputEvent::Stream(stream)] if stream.text == "abab\n"));

    // A checkpoint of a kernel that came from one, and back to the first.
    run(&kernel, "generation = 2").await;
    let second = kernel.checkpoint(&checkpoints).await.unwrap();
    run(&kernel, "generation = 3").await;
    kernel.restore(&checkpoints, second.id).await.unwrap();
    assert_eq!(printed(&kernel, "print(generation)").await, "2\n");
    kernel.restore(&checkpoints, checkpoint.id).await.unwrap();
    assert_eq!(
        printed(&kernel, "print('generation' in globals())").await,
        "False\n"
    );
    assert_eq!(checkpoints.list(), [checkpoint.id, second.id]);
    checkpoints.forget(checkpoint.id);
    let gone = kernel
        .restore(&checkpoints, checkpoint.id)
        .await
        .unwrap_err();
    assert!(matches!(gone, KernelError::NotRestored { .. }), "{gone}");
    assert_eq!(printed(&kernel, "print(names)").await, "['x']\n");
}

#[tokio::test]
async fn a_kernel_that_has_died_goes_on_from_a_checkpoint() {
    let kernel = start(ipykernel()).await;
    let checkpoints = Checkpoints::new(&std::env::temp_dir());
    run(&kernel, "x = 1").await;
    let checkpoint = kernel.checkpoint(&checkpoints).await.unwrap();
    let (_, verdict) = run(&kernel, "import os; os._exit(3)").await;
    assert_eq!(verdict, Verdict::KernelDied(ExitReason::Exited(3)));
    kernel.restore(&checkpoints, checkpoint.id).await.unwrap();
    assert_eq!(printed(&kernel, "print(x)").await, "1\n");
    // How a woken one ends is known as well.
    let (_, verdict) = run(&kernel, "import os; os.kill(os.getpid(), 9)").await;
    assert_eq!(verdict, Verdict::KernelDied(ExitReason::Signalled(9)));
    kernel.restart().await.unwrap();
    assert_eq!(printed(&kernel, "print('x' in globals())").await, "False\n");
    // And into a kernel that never was the one that was copied.
    kernel.restore(&checkpoints, checkpoint.id).await.unwrap();
    assert_eq!(printed(&kernel, "print(x)").await, "1\n");
}

#[tokio::test]
async fn what_would_hang_is_refused_with_the_reason() {
    let kernel = start(ipykernel()).await;
    let checkpoints = Checkpoints::new(&std::env::temp_dir());
    let why = async |code: &str| {
        run(&kernel, code).await;
        match kernel.checkpoint(&checkpoints).await {
            Err(NoCheckpoint::Unsafe { why }) => why,
            other => panic!("{other:?}"),
        }
    };
    let thread = "import threading\nstop = threading.Event()\n\
        t = threading.Thread(target=stop.wait, name='mine'); t.start()";
    assert_eq!(why(thread).await, ["a thread is running: mine"]);
    run(&kernel, "stop.set(); t.join()").await;
    assert_eq!(
        why("from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1, 'pool'); pool.submit(int).result()").await,
        ["a thread is running: pool_0"]
    );
    run(&kernel, "pool.shutdown()").await;
    assert!(kernel.checkpoint(&checkpoints).await.is_ok());
    let polars = why("import polars; polars.DataFrame({'a': [1, 2]}).sum()").await;
    assert!(
        polars.contains(&"polars has started its threads".to_owned()),
        "{polars:?}"
    );
    // It goes on as if nothing had been asked.
    assert_eq!(printed(&kernel, "print(1)").await, "1\n");

    let other = start(misbehaving(&[])).await;
    let unsupported = other.checkpoint(&checkpoints).await.unwrap_err();
    assert!(
        matches!(unsupported, NoCheckpoint::Unsupported),
        "{unsupported}"
    );
}

#[tokio::test]
async fn what_a_copy_does_not_have_is_said() {
    let kernel = start(ipykernel()).await;
    let checkpoints = Checkpoints::new(&std::env::temp_dir());
    run(
        &kernel,
        "import asyncio, sqlite3, subprocess\n\
         log = open('log.txt', 'w')\n\
         db = sqlite3.connect('x.db'); db.execute('create table t (a)')\n\
         child = subprocess.Popen(['sleep', '1000'])\n\
         task = asyncio.get_event_loop().create_task(asyncio.sleep(1000))",
    )
    .await;
    let checkpoint = kernel.checkpoint(&checkpoints).await.unwrap();
    assert_eq!(
        checkpoint.notes,
        [
            "asyncio tasks in the background end",
            "programs that the code started and that still run end",
            "open databases may have to be opened again: x.db",
            "open files keep the position that they have now: log.txt",
        ]
    );
}

#[tokio::test]
async fn a_copy_that_hangs_leaves_the_kernel_alone() {
    let kernel = start(ipykernel()).await;
    let checkpoints = Checkpoints::new(&std::env::temp_dir());
    // What no rule of ours knows: the first thing that is tried in the copy waits for ever.
    run(
        &kernel,
        "import os, threading, time\nhere = os.getpid()\nclass Stuck(threading.Thread):\n    def start(self):\n        while os.getpid() != here: time.sleep(1)\n        super().start()\nthreading.Thread = Stuck\nx = 1",
    )
    .await;
    let checkpoint = kernel.checkpoint(&checkpoints).await.unwrap();
    run(&kernel, "x = 2").await;
    let error = kernel
        .restore(&checkpoints, checkpoint.id)
        .await
        .unwrap_err();
    assert!(matches!(error, KernelError::NotRestored { .. }), "{error}");
    assert_eq!(printed(&kernel, "print(x)").await, "2\n");
}

#[tokio::test]
async fn variables_go_to_a_file_and_come_back() {
    let kernel = start(ipykernel()).await;
    let file = kernel.dir.path().join("variables");
    run(
        &kernel,
        "import pandas as pd\n\
         class Point:\n    def __init__(self, x): self.x = x\n\
         def double(): return 2 * x\n\
         df = pd.DataFrame({'a': [1, 2]}); view = df\n\
         x, p, numbers = 1, Point(1), (n for n in range(3))",
    )
    .await;
    let saved = kernel.save_variables(&file, 1 << 20).await.unwrap();
    let cannot: Vec<&str> = saved.cannot.keys().map(String::as_str).collect();
    assert_eq!(cannot, ["numbers"], "{saved:?}");
    let state = "print(df.a.tolist(), view is df, x, double(), p.x, type(p) is Point, 'new' in globals(), next(numbers))";
    run(
        &kernel,
        "next(numbers); df.loc[:, 'a'] = 0; x = 5; p.x = 9; new = 1\nclass Point: pass",
    )
    .await;
    kernel.load_variables(&file).await.unwrap();
    assert_eq!(
        printed(&kernel, state).await,
        "[1, 2] True 1 2 1 True False 1\n"
    );

    let error = kernel.save_variables(&file.with_extension("2"), 10).await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "its variables take more than 0 MiB"
    );
    kernel.restart().await.unwrap();
    let error = kernel.load_variables(&file).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the kernel was started again since they were saved"
    );
}

#[tokio::test]
async fn copies_end_with_their_owner_and_cost_what_was_changed() {
    let kernel = start(ipykernel()).await;
    let root = tempfile::tempdir().unwrap();
    let checkpoints = Checkpoints::new(root.path());
    run(&kernel, "x = bytearray(40_000_000)").await;
    let first = kernel.checkpoint(&checkpoints).await.unwrap();
    let before = checkpoints.memory(kernel.pid().await);
    run(&kernel, "for i in range(0, len(x), 4096): x[i] = 1").await;
    let after = checkpoints.memory(kernel.pid().await);
    assert!(after.live > 40_000_000, "{after:?}");
    assert!(
        after.held > before.held + 30_000_000,
        "{before:?} {after:?}"
    );
    assert!(after.private[0].1 > 30_000_000, "{after:?}");

    // Where they are found when we are gone.
    let dir = std::fs::read_dir(root.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let copies = || {
        let owner = std::fs::read(dir.path().join("owner")).unwrap();
        let owner: serde_json::Value = serde_json::from_slice(&owner).unwrap();
        let pid = |copy: &serde_json::Value| u32::try_from(copy["pid"].as_u64().unwrap()).unwrap();
        let copies = owner["copies"].as_array().unwrap();
        copies.iter().map(pid).collect::<Vec<_>>()
    };
    let second = kernel.checkpoint(&checkpoints).await.unwrap();
    assert_eq!(checkpoints.list(), [first.id, second.id]);
    let pids = copies();
    assert!(pids.len() == 2 && pids.iter().all(|pid| is_running(*pid)));
    checkpoints.forget(first.id);
    assert_eq!(copies(), pids[1..]);
    eventually(|| !is_running(pids[0]));
    let clone = checkpoints.clone();
    drop(checkpoints);
    assert_eq!(clone.list(), [second.id]);
    drop(clone);
    eventually(|| !is_running(pids[1]));
    assert!(!dir.path().exists());
    assert_eq!(printed(&kernel, "print(len(x))").await, "40000000\n");
}

/// A copy is a fork: it has the command line of its kernel.
async fn copies_of(kernel: &Kernel) -> Vec<rustix::process::Pid> {
    let live = kernel.pid().await.unwrap();
    let command = |pid: u32| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let ours = command(live);
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != live && command(*pid) == ours)
        .filter_map(|pid| rustix::process::Pid::from_raw(pid.cast_signed()))
        .collect()
}

#[tokio::test]
async fn a_copy_that_does_not_wake_can_be_interrupted() {
    use rustix::process::{Signal, kill_process};
    use tokio::time::timeout;

    let soon = std::time::Duration::from_secs(4);
    let kernel = start(ipykernel()).await;
    let checkpoints = Checkpoints::new(&std::env::temp_dir());
    run(&kernel, "x = 1").await;
    let checkpoint = kernel.checkpoint(&checkpoints).await.unwrap();
    run(&kernel, "x = 2").await;
    let copies = copies_of(&kernel).await;
    assert_eq!(copies.len(), 1);
    kill_process(copies[0], Signal::STOP).unwrap();
    let mut restoring = Box::pin(kernel.restore(&checkpoints, checkpoint.id));
    // The command is on its way.
    assert!(futures_util::poll!(&mut restoring).is_pending());
    timeout(soon, kernel.interrupt()).await.unwrap().unwrap();
    let error = timeout(soon, restoring).await.unwrap().unwrap_err();
    assert!(
        matches!(&error, KernelError::NotRestored { reason, .. } if reason == "it was interrupted"),
        "{error}"
    );
    assert_eq!(printed(&kernel, "print(x)").await, "2\n");

    let mut restoring = Box::pin(kernel.restore(&checkpoints, checkpoint.id));
    assert!(futures_util::poll!(&mut restoring).is_pending());
    timeout(soon, kernel.shutdown()).await.unwrap();
    assert!(timeout(soon, restoring).await.unwrap().is_err());
    kill_process(copies[0], Signal::CONT).unwrap();
}
