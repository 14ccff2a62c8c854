//! A kernel that does on command what kernels must not do: each time the right outcome, bounded memory, and a next cell
//! that is fine. Its commands are in `tests/fixtures/kernels/misbehave.py`.

use std::time::Duration;

use serde_json::{Value, json};
use sponde::jupyter::content::Stream;
use sponde::kernel::{
    ExecuteOptions, ExitReason, Kernel, Late, Outcome, OutputEvent, Oversize, Verdict, late_outputs,
};

use crate::support::{Sponde, ipykernel, launch_options, misbehaving, start};

/// What the program may have of memory, unoptimised, for a notebook of large outputs.
const MEMORY: u64 = 200 << 20;
/// The same for what is made to take much memory: several copies of the largest message, and the notebook that is saved
/// while it runs, above what is kept.
const BOMBS: u64 = 480 << 20;

fn stdout(text: &str) -> OutputEvent {
    OutputEvent::Stream(Stream {
        name: "stdout".to_owned(),
        text: text.to_owned(),
    })
}

async fn run(kernel: &Kernel, code: &str) -> (Vec<OutputEvent>, Outcome) {
    let cell = ExecuteOptions::cell(code);
    kernel.execute(cell).await.unwrap().collect().await
}

/// The cell that follows has its own output and nothing else.
async fn assert_the_next_cell_is_fine(kernel: &Kernel, after: &str) {
    let (outputs, outcome) = run(kernel, "echo fine").await;
    assert_eq!(
        (outputs, outcome.verdict),
        (vec![stdout("fine\n")], Verdict::Ok),
        "after {after}"
    );
}

fn printed(outputs: &[OutputEvent]) -> String {
    let text = |output: &OutputEvent| match output {
        OutputEvent::Stream(stream) => Some(stream.text.clone()),
        _ => None,
    };
    outputs.iter().filter_map(text).collect()
}

fn losses(outputs: &[OutputEvent]) -> usize {
    let is_lost = |output: &&OutputEvent| matches!(output, OutputEvent::Lost(_));
    outputs.iter().filter(is_lost).count()
}

#[tokio::test]
async fn every_misdeed_ends_well_and_the_next_cell_is_fine() {
    let kernel = start(misbehaving(&[])).await;
    // Code, what was printed, losses that were told.
    for (code, expected, lost) in [
        ("echo a\nlate-idle 200", "a\n", 0),
        ("echo a\nno-idle", "a\n", 1),
        ("echo a\nno-reply", "a\n", 0),
        ("echo a\nlate-reply 200", "a\n", 0),
        ("echo a\nduplicate-idle", "a\n", 0),
        ("echo a\nduplicate-reply", "a\n", 0),
        ("echo a\nduplicate-reply\nlate-idle 100", "a\n", 0),
        ("foreign-parent\necho a", "a\n", 0),
        ("no-parent\necho a", "a\n", 0),
        ("wrong-signature\necho a", "a\n", 1),
        ("wrong-signature shell\necho a", "a\n", 1),
        ("short-frames\necho a", "a\n", 4),
        ("short-frames shell\necho a", "a\n", 4),
        ("bad-json\necho a", "a\n", 1),
        ("bad-json shell\necho a", "a\n", 1),
        ("bad-utf8\necho a", "a\n", 1),
        ("bad-header\necho a", "a\n", 1),
        ("png 50000000\necho a", "a\n", 1),
        ("values 5000000\necho a", "a\n", 1),
        ("deep 1000\necho a", "a\n", 1),
        ("forgeries 10000\necho a", "a\n", 100),
        ("inputs 10000\necho a", "a\n", 0),
    ] {
        let (outputs, outcome) = run(&kernel, code).await;
        assert_eq!(
            (
                printed(&outputs).as_str(),
                losses(&outputs),
                outcome.verdict
            ),
            (expected, lost, Verdict::Ok),
            "{code}"
        );
        assert_the_next_cell_is_fine(&kernel, code).await;
    }
    let (outputs, outcome) = run(&kernel, "flood 20000000").await;
    assert_eq!(
        (printed(&outputs).len(), outcome.verdict),
        (20_000_000, Verdict::Ok)
    );
    assert_the_next_cell_is_fine(&kernel, "flood").await;
}

#[tokio::test]
async fn a_kernel_that_hangs_or_dies_works_again_after_a_restart() {
    let kernel = start(misbehaving(&[])).await;
    let cell = ExecuteOptions {
        timeout: Some(Duration::from_millis(200)),
        ..ExecuteOptions::cell("echo a\nhang")
    };
    let (outputs, outcome) = kernel.execute(cell).await.unwrap().collect().await;
    assert_eq!(
        (outputs, outcome.verdict),
        (
            vec![stdout("a\n")],
            Verdict::KernelDied(ExitReason::KilledAfterTimeout)
        )
    );
    kernel.restart().await.unwrap();
    assert_the_next_cell_is_fine(&kernel, "hang").await;
    let (outputs, outcome) = run(&kernel, "echo a\ndie 3").await;
    assert_eq!(
        (outputs, outcome.verdict),
        (
            vec![stdout("a\n")],
            Verdict::KernelDied(ExitReason::Exited(3))
        )
    );
    kernel.restart().await.unwrap();
    assert_the_next_cell_is_fine(&kernel, "die").await;
    // More frames than a message may have: too many to be honest.
    let (_, outcome) = run(&kernel, "buffers 100000 10\nhang").await;
    assert!(matches!(
        outcome.verdict,
        Verdict::KernelDied(ExitReason::Hostile(_))
    ));
    kernel.restart().await.unwrap();
    assert_the_next_cell_is_fine(&kernel, "buffers").await;
}

#[tokio::test]
async fn what_is_too_large_to_pass_is_in_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = launch_options(misbehaving(&[]), dir.path());
    let place = dir.path().join("a.outputs");
    options.oversize = Some(Oversize::new(place.clone(), 1 << 30));
    let kernel = Kernel::launch(options).await.unwrap();
    for (number, code) in ["html 50000000", "values 5000000"].into_iter().enumerate() {
        let (outputs, outcome) = run(&kernel, code).await;
        assert_eq!(outcome.verdict, Verdict::Ok);
        let name = format!("large-{}.json", number + 1);
        let [OutputEvent::Lost(words)] = &outputs[..] else {
            panic!("{code}: {} outputs", outputs.len());
        };
        assert!(
            words.contains(&format!("it is in `a.outputs/{name}`")),
            "{words}"
        );
        let content: Value =
            serde_json::from_slice(&std::fs::read(place.join(name)).unwrap()).unwrap();
        let data = &content["data"];
        assert_eq!(
            (
                data["text/html"].as_str().map(str::len),
                data["application/json"].as_array().map(Vec::len)
            ),
            [(Some(50_000_000), None), (None, Some(5_000_000))][number]
        );
        assert_the_next_cell_is_fine(&kernel, code).await;
    }
    kernel.shutdown().await;
}

#[tokio::test]
async fn outputs_after_the_end_reach_their_own_cell() {
    let kernel = start(misbehaving(&[])).await;
    let (to, mut late) = late_outputs();
    kernel.send_late(&to).await.unwrap();
    let first = kernel
        .execute(ExecuteOptions::cell("echo a\noutput-after-idle 2 100"))
        .await
        .unwrap();
    let id = first.id.clone();
    assert_eq!(first.collect().await.0, [stdout("a\n")]);
    for n in 0..2 {
        let Late {
            execution, output, ..
        } = late.recv().await.unwrap();
        assert_eq!(
            (execution, output),
            (id.clone(), stdout(&format!("late {n}\n")))
        );
    }
    // While another cell runs.
    let second = kernel
        .execute(ExecuteOptions::cell("echo b"))
        .await
        .unwrap();
    let id = second.id.clone();
    second.collect().await;
    let (outputs, _) = run(&kernel, "echo c\noutput-of-last mine").await;
    assert_eq!(outputs, [stdout("c\n")]);
    let Late {
        execution, output, ..
    } = late.recv().await.unwrap();
    assert_eq!((execution, output), (id, stdout("mine\n")));
}

#[test]
fn a_notebook_has_late_outputs_where_they_belong() {
    let sponde = Sponde::new();
    let cells = [("", "echo a"), ("", "echo b\noutput-of-last mine")];
    let notebook = sponde.write_notebook("in.ipynb", "misbehave", &cells);
    let ended = sponde.run(&["run", notebook.to_str().unwrap(), "-o", "out.ipynb"]);
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(0), 3));
    let notebook: Value = serde_json::from_str(&sponde.read("out.ipynb")).unwrap();
    let text = |n: usize| notebook["cells"][n]["outputs"][0]["text"].clone();
    assert_eq!(
        (text(0), text(1)),
        (json!(["a\n", "mine\n"]), json!(["b\n"]))
    );
}

/// Runs the cells and gives the outputs of each; the memory of the program is bounded.
fn outputs_within(limit: u64, sponde: &Sponde, cells: &[&str]) -> Vec<Value> {
    let cells: Vec<_> = cells
        .iter()
        .map(|cell| ("raises-exception", *cell))
        .collect();
    let notebook = sponde.write_notebook("in.ipynb", "misbehave", &cells);
    let (ended, memory) = sponde
        .start(&["run", notebook.to_str().unwrap(), "-o", "out.ipynb"])
        .end_measured();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(memory < limit, "{cells:?}: {} MB", memory >> 20);
    let notebook: Value = serde_json::from_str(&sponde.read("out.ipynb")).unwrap();
    let cells = notebook["cells"].as_array().unwrap();
    cells.iter().map(|cell| cell["outputs"].clone()).collect()
}

#[test]
fn bombs_of_every_kind_stay_small() {
    let sponde = Sponde::new();
    let outputs = outputs_within(
        BOMBS,
        &sponde,
        &[
            "metadata 200000",
            "types 200000",
            "traceback 300000",
            "names 20000",
            "displays 20000",
            "updates 30 3000000",
            "values 1000000",
            "deep 100",
            "html 39000000",
            "buffers 1000 10000",
            "echo fine",
        ],
    );
    let last = json!([{"name": "stdout", "output_type": "stream", "text": ["fine\n"]}]);
    assert_eq!(outputs.last(), Some(&last));
    // Tracebacks keep their end, very many displays their first and last.
    assert_eq!(
        outputs[2].as_array().unwrap().last().unwrap()["ename"],
        "Deep"
    );
    let displays = outputs[4].as_array().unwrap();
    assert!(displays.len() <= 10_001, "{}", displays.len());
    assert_eq!(displays[0]["data"]["text/plain"], json!(["display 0"]));
    assert_eq!(
        displays.last().unwrap()["data"]["text/plain"],
        json!(["display 19999"])
    );
    let updated = outputs[5][0]["data"]["text/plain"][0].as_str().unwrap();
    assert!(updated.starts_with("update 30 x"), "{}", &updated[..20]);
}

#[test]
fn a_whole_notebook_of_large_outputs_stays_small_and_nothing_is_lost() {
    let sponde = Sponde::new();
    let outputs = outputs_within(MEMORY, &sponde, &["html 8000000"; 24]);
    let has_html = |outputs: &Value| outputs.to_string().len() > 1_000_000;
    let kept = outputs.iter().filter(|outputs| has_html(outputs)).count();
    assert_eq!(kept, 8);
    // Of the rest the text stays, and all of it is in files.
    assert_eq!(
        outputs[23],
        json!([
            {"name": "stderr", "output_type": "stream", "text":
                ["[sponde: 8000000 bytes not kept here; all of it is in `out.outputs/cell-23/`]\n"]},
            {"data": {"text/plain": ["<html>"]}, "metadata": {}, "output_type": "display_data"},
        ])
    );
    assert_eq!(
        sponde.read("out.outputs/cell-23/1.html"),
        "x".repeat(8_000_000)
    );
    assert_eq!(sponde.read("out.outputs/cell-23/1.txt"), "<html>");
    assert!(!sponde.path("out.outputs/cell-0").exists());
    let outputs = outputs_within(MEMORY, &sponde, &["flood 9000000"; 12]);
    for (n, outputs) in outputs.iter().enumerate() {
        let all = sponde.read(&format!("out.outputs/cell-{n}/stdout.txt"));
        assert_eq!(all, ("x".repeat(63) + "\n").repeat(9_000_000 / 64));
        let size = outputs.to_string().len();
        assert!((3_000_000..6_000_000).contains(&size), "{size}");
    }
}

#[tokio::test]
async fn what_ipykernel_says_of_its_threads_is_what_we_rely_on() {
    let kernel = start(ipykernel()).await;
    let (to, mut late) = late_outputs();
    kernel.send_late(&to).await.unwrap();
    let code =
        "import threading, time\nthreading.Timer(0.3, lambda: print('tick', flush=True)).start()";
    let cell = kernel.execute(ExecuteOptions::cell(code)).await.unwrap();
    let id = cell.id.clone();
    assert_eq!(cell.collect().await.1.verdict, Verdict::Ok);
    let Late {
        execution, output, ..
    } = late.recv().await.unwrap();
    assert_eq!((execution, output), (id, stdout("tick\n")));
}
