//! What is done once and not twice, and in the right order: a prompt is built once a step, a large output is not held
//! many times, a saved notebook outlives a loss of power.

use std::path::Path;
use std::process::Command;

use crate::support::Sponde;
use crate::terminal::model_that_runs;

const ASK: [&str; 5] = ["ask", "--yes", "--model", "gpt-4o", "go"];

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_is_built_once_a_step() {
    let mock = model_that_runs("6 * 7").await;
    let sponde = Sponde::new()
        .with_model(&mock)
        .with("SPONDE_LOG", "sponde::agent=debug");
    let run = tokio::task::block_in_place(|| sponde.run(&ASK));
    let requests = mock.journal().await;
    mock.stop().await;
    assert_eq!(run.code, Some(0), "{run}");
    let built = run.stderr.matches("the prompt is built").count();
    assert_eq!((built, requests.len()), (2, 2), "{run}");
}

/// Six or seven times at once: the frame, the message, the edit that clients share, the transcript, the line of the journal,
/// and what the terminal shows.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_output_is_not_held_many_times() {
    const CHART: u64 = 24 << 20;
    let mut peaks = Vec::new();
    for bytes in [1, CHART] {
        let code = format!(
            "display({{'text/html': '<p>' + 'x' * {bytes}, 'text/plain': 'chart'}}, raw=True)"
        );
        let mock = model_that_runs(&code).await;
        let sponde = Sponde::new().with_model(&mock);
        let (ended, peak) = tokio::task::block_in_place(|| sponde.start(&ASK).end_measured());
        mock.stop().await;
        assert_eq!(ended.code, Some(0), "{ended}");
        peaks.push(peak);
    }
    let held = (peaks[1] - peaks[0]) / CHART;
    assert!(held < 8, "{held} times: {peaks:?}");
}

/// The content first, then the name, then the directory that has the name.
#[test]
fn a_saved_notebook_outlives_a_loss_of_power() {
    let sponde = Sponde::new();
    let library = sponde.path("order.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/order.c");
    let compiled = Command::new("cc")
        .args(["-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .args(["-ldl"])
        .status();
    assert!(compiled.unwrap().success());
    let log = sponde.path("order.log");
    let run = sponde
        .with("LD_PRELOAD", &library.to_string_lossy())
        .with("ORDER_LOG", &log.to_string_lossy());
    let ended = run.run(&["run", "-c", "6 * 7", "--output", "out.ipynb"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    let notebook = run.path("out.ipynb");
    let directory = notebook.parent().unwrap().canonicalize().unwrap();
    let order = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = order.lines().collect();
    let renamed: Vec<usize> = (0..lines.len())
        .filter(|&at| lines[at].starts_with("rename") && lines[at].ends_with("/out.ipynb"))
        .collect();
    assert!(!renamed.is_empty(), "{order}");
    for at in renamed {
        let content = lines[at - 1];
        assert!(
            content.starts_with("sync ") && content.contains("/.sponde-"),
            "{order}"
        );
        assert_eq!(
            lines[at + 1],
            format!("sync {}", directory.display()),
            "{order}"
        );
    }
}
