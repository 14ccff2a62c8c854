//! Our side of `scripts/bench kernels`: does on a real kernel what a line on stdin says, and answers with a line.
//!
//! It measures times itself; processor time and memory are read from outside, as those of the peer are, which is
//! `scripts/bench-peer`. Lines: `cold`, `spare`, `open`, `trip N`, `run PATH`, `many KERNELS TRIPS MS` (a trip of each kernel every MS),
//! `undo MB` (a checkpoint with a frame of that size, a cell, and back).
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a measurement that fails is no measurement"
)]

use std::io::{BufRead as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sponde::kernel::{
    Checkpoints, ExecuteOptions, ExecutionEvent, Kernel, KernelSource, LaunchOptions, OutputEvent,
    Pool, SearchPath, SearchPaths, Verdict,
};

/// What a person who plots does first.
const FIRST_CELL: &str = "import pandas, matplotlib.pyplot; 1 + 1";

fn main() {
    // `cargo bench` and `cargo test` pass arguments of their own.
    let Some(prefix) = std::env::args()
        .nth(1)
        .filter(|first| !first.starts_with('-'))
    else {
        return;
    };
    // As the program itself.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(serve(PathBuf::from(prefix)));
}

fn options(kernel: KernelSource, dir: &Path) -> LaunchOptions {
    LaunchOptions {
        kernel,
        cwd: dir.to_owned(),
        env: std::env::vars().collect(),
        runtime_dir: dir.join("runtime"),
        socket_root: std::env::temp_dir(),
        username: "bench".to_owned(),
        ready_timeout: Duration::from_mins(2),
        oversize: None,
        gateway: None,
        existing: None,
        keep: false,
        adopt: None,
        sandbox: sponde::kernel::Sandbox::Full,
    }
}

async fn serve(prefix: PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let kernel = SearchPaths::from(vec![SearchPath {
        origin: "bench",
        data_dir: prefix.join("share/jupyter"),
        prefix: Some(prefix),
    }])
    .find("python3")
    .unwrap();
    let options = options(kernel, dir.path());
    let mut open: Option<Kernel> = None;
    let mut many: Vec<Kernel> = Vec::new();
    loop {
        let line = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map(|_| line)
        });
        let line = line.await.unwrap().unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let answer = match words[..] {
            ["cold"] => {
                let begin = Instant::now();
                let kernel = Kernel::launch(options.clone()).await.unwrap();
                let started = execute(&kernel, "1 + 1").await;
                let first = begin.elapsed();
                execute(&kernel, FIRST_CELL).await;
                let with_imports = begin.elapsed();
                kernel.shutdown().await;
                json!({"outputs": started, "ms": ms(first), "with_imports": ms(with_imports)})
            }
            ["spare"] => {
                let pool = Pool::new();
                pool.prepare(options.clone());
                // The first of two is there when the second is: what is measured is a spare that had its time.
                let warm = pool.take(options.clone()).await.unwrap();
                warm.shutdown().await;
                pool.prepare(options.clone());
                tokio::time::sleep(Duration::from_secs(6)).await;
                let begin = Instant::now();
                let kernel = pool.take(options.clone()).await.unwrap();
                execute(&kernel, FIRST_CELL).await;
                let took = begin.elapsed();
                kernel.shutdown().await;
                json!({"ms": ms(took)})
            }
            ["open"] => {
                open = Some(Kernel::launch(options.clone()).await.unwrap());
                json!({})
            }
            ["trip", count] => {
                let kernel = open.as_ref().unwrap();
                let mut trips = Vec::new();
                for _ in 0..count.parse().unwrap() {
                    let begin = Instant::now();
                    execute(kernel, "1 + 1").await;
                    trips.push(ms(begin.elapsed()));
                }
                json!({"trips": trips})
            }
            ["run", path] => {
                let code = std::fs::read_to_string(path).unwrap();
                let begin = Instant::now();
                let outputs = execute(open.as_ref().unwrap(), &code).await;
                json!({"ms": ms(begin.elapsed()), "outputs": outputs})
            }
            ["undo", megabytes] => undo(&options, megabytes.parse().unwrap()).await,
            ["many", kernels, trips, every] => {
                if many.is_empty() {
                    for _ in 0..kernels.parse().unwrap() {
                        many.push(Kernel::launch(options.clone()).await.unwrap());
                    }
                }
                let every = Duration::from_millis(every.parse().unwrap());
                json!({"trips": at_once(&many, trips.parse().unwrap(), every).await})
            }
            [] => {
                for kernel in many.iter().chain(&open) {
                    kernel.shutdown().await;
                }
                return;
            }
            _ => panic!("{line}"),
        };
        let mut stdout = std::io::stdout().lock();
        writeln!(stdout, "{answer}").unwrap();
        stdout.flush().unwrap();
    }
}

/// How long a checkpoint takes, the cell after it, and the way back, with a frame of `megabytes`.
async fn undo(options: &LaunchOptions, megabytes: u32) -> Value {
    let kernel = Kernel::launch(options.clone()).await.unwrap();
    let checkpoints = Checkpoints::new(&options.socket_root);
    let load = format!(
        "import numpy, pandas\ndf = pandas.DataFrame({{c: numpy.ones({megabytes} * 12500) for c in 'abcdefghij'}})"
    );
    execute(&kernel, &load).await;
    let begin = Instant::now();
    let checkpoint = kernel.checkpoint(&checkpoints).await.unwrap();
    let taken = begin.elapsed();
    let begin = Instant::now();
    execute(&kernel, "df['a'] = 0.0; print(df.a.sum())").await;
    let cell = begin.elapsed();
    let begin = Instant::now();
    kernel.restore(&checkpoints, checkpoint.id).await.unwrap();
    let back = begin.elapsed();
    execute(
        &kernel,
        &format!("assert df.a.sum() == {megabytes} * 12500"),
    )
    .await;
    kernel.shutdown().await;
    json!({"checkpoint": ms(taken), "cell": ms(cell), "back": ms(back)})
}

/// Each kernel gets a cell every so often, the kernels evenly spread over that time; a trip begins when it was due.
async fn at_once(kernels: &[Kernel], trips: u32, every: Duration) -> Vec<f64> {
    let count = u32::try_from(kernels.len()).unwrap();
    let start = Instant::now() + every;
    let tasks: Vec<_> = kernels
        .iter()
        .cloned()
        .zip(0..)
        .map(|(kernel, number)| {
            tokio::spawn(async move {
                let mut took = Vec::new();
                for trip in 0..trips {
                    let due = start + every * trip + every * number / count;
                    tokio::time::sleep_until(due.into()).await;
                    execute(&kernel, "1 + 1").await;
                    took.push(ms(due.elapsed()));
                }
                took
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    all
}

/// Bytes of text and images that came; everything is looked at, as a front end would.
async fn execute(kernel: &Kernel, code: &str) -> Value {
    let mut execution = kernel.execute(ExecuteOptions::cell(code)).await.unwrap();
    let (mut text, mut images, mut displays) = (0, 0, 0);
    while let Some(event) = execution.next().await {
        match event {
            ExecutionEvent::Output(OutputEvent::Stream(stream)) => text += stream.text.len(),
            ExecutionEvent::Output(
                OutputEvent::Display { data, .. } | OutputEvent::Result { data, .. },
            ) => {
                displays += 1;
                images += data.text_of("image/png").map_or(0, |png| png.len());
            }
            ExecutionEvent::Output(other) => panic!("{other:?}"),
            ExecutionEvent::Finished(outcome) => assert_eq!(outcome.verdict, Verdict::Ok),
            _ => {}
        }
    }
    json!({"text": text, "images": images, "displays": displays})
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
