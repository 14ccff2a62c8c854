//! What every kernel does in every situation, as the probe (`sponde kernels test`) sees it: whole tables are compared.
//!
//! An entry that is not what the protocol wants is what that kernel can do; the comment says why.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use sponde::kernel::probe::{Grade, probe};
use sponde::kernel::{
    ExecuteOptions, ExecutionEvent, Kernel, KernelSource, SearchPath, SearchPaths, Verdict,
};
use sponde::llm::types::Part;
use sponde::session::Outputs;
use sponde::session::summarize::{self, Budget};

use crate::sandbox;
use crate::support::{ipykernel, launch_options, misbehaving, tools};

/// A kernel that `scripts/test` installed with `sponde kernels install`.
pub(crate) fn installed(name: &str) -> KernelSource {
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

/// Probes the kernel, one line a check: as it is, and confined, which makes no difference.
async fn observed(kernel: KernelSource) -> String {
    let free = report(kernel.clone(), false).await;
    let confined = report(kernel, true).await;
    assert_eq!(confined, free);
    confined
}

async fn report(kernel: KernelSource, is_confined: bool) -> String {
    // Not in /tmp, which a confined kernel has one of its own of.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut options = launch_options(kernel, dir.path());
    if is_confined {
        options.sandbox = sandbox::workspace(dir.path());
    }
    let report = probe(options, |_| {}).await.unwrap();
    let mut text = String::new();
    for row in report.rows {
        let grade = match row.finding.grade {
            Grade::Good => "good",
            Grade::Limited => "limited",
            Grade::Bad => "bad",
            Grade::Skipped => "skipped",
        };
        let _ = writeln!(
            text,
            "{}: {grade}: {}",
            row.check.title(),
            row.finding.observed
        );
        if row.finding.grade == Grade::Bad {
            let _ = writeln!(text, "    {:?}", row.finding.detail);
        }
    }
    // How many lines a kernel drops depends on the machine; that it is said does not.
    text.replace(
        "some are missing, and reported",
        "complete, but marked as incomplete",
    )
}

#[tokio::test]
async fn python3() {
    let expected = "\
variables between cells: good: kept
result of an expression: good: execute_result: text/plain
error: good: `ZeroDivisionError: division by zero`
PNG: good: display_data
Unicode: good: intact
empty cell: good: nothing happens
question to the person: good: asked and answered; passwords are hidden
question, nobody there: good: fails at once with `StdinNotImplementedError: raw_input was called, but this frontend does not support inp`
20,000 printed lines: good: complete
infinite loop, interrupted: good: interrupted, variables kept
code ends its process: good: the kernel died (exit status 7); starts again
kernel killed: good: noticed; starts again
restart: good: starts again
";
    assert_eq!(observed(ipykernel()).await, expected);
}

/// Bash runs below the kernel, and the kernel reads what it prints: there are no results, an error is an exit status,
/// and nobody can be asked. `exit` ends bash alone; the kernel starts another one and says so.
#[tokio::test]
async fn bash() {
    let expected = "\
variables between cells: good: kept
result of an expression: limited: printed: the kernel has no results
error: good: `exit status: 1`
PNG: good: display_data
Unicode: good: intact
empty cell: good: nothing happens
question to the person: limited: cannot ask: continues without an answer
question, nobody there: limited: continues without an answer
20,000 printed lines: good: complete
infinite loop, interrupted: good: interrupted, variables kept
code ends its process: limited: `exit status: 7`; variables lost, and reported
kernel killed: good: noticed; starts again
restart: good: starts again
";
    assert_eq!(observed(installed("bash")).await, expected);
}

/// The kernel takes an interrupt as the order to start another Node.js for the code, so variables are lost. Its
/// `$$.input` does not look at `allow_stdin`.
#[tokio::test]
async fn javascript() {
    let expected = "\
variables between cells: good: kept
result of an expression: good: execute_result: text/plain
error: good: `TypeError: Cannot read properties of null (reading 'nothing')`
PNG: good: execute_result
Unicode: good: intact
empty cell: good: nothing happens
question to the person: good: asked and answered
question, nobody there: limited: continues without an answer
20,000 printed lines: limited: complete, but marked as incomplete
infinite loop, interrupted: limited: interrupted; variables lost, and reported
code ends its process: good: the kernel died (the process that ran its code ended); starts again
kernel killed: good: noticed; starts again
restart: good: starts again
";
    assert_eq!(observed(installed("javascript")).await, expected);
}

/// Without a person `prompt()` gives null, as in a browser that shows no dialogs.
#[tokio::test]
async fn deno() {
    let expected = "\
variables between cells: good: kept
result of an expression: good: execute_result: text/plain
error: good: `TypeError: Cannot read properties of null (reading 'nothing')`
PNG: good: display_data
Unicode: good: intact
empty cell: good: nothing happens
question to the person: good: asked and answered
question, nobody there: limited: continues without an answer
20,000 printed lines: good: complete
infinite loop, interrupted: good: interrupted, variables kept
code ends its process: good: the kernel died (exit status 7); starts again
kernel killed: good: noticed; starts again
restart: good: starts again
";
    assert_eq!(observed(installed("deno")).await, expected);
}

/// `quit()` only asks the front end to end the kernel, which Sponde does not do on the code's word.
#[tokio::test]
async fn r() {
    let expected = "\
variables between cells: good: kept
result of an expression: good: display_data: text/html, text/markdown, text/latex, text/plain
error: good: `ERROR: Error in eval(expr, envir, enclos): no`
PNG: good: display_data
Unicode: good: intact
empty cell: good: nothing happens
question to the person: good: asked and answered
question, nobody there: good: fails at once with `StdinNotImplementedError: the code asked for input: nobody is there to answer`
20,000 printed lines: good: complete
infinite loop, interrupted: good: interrupted, variables kept
code ends its process: limited: ok; nothing ends, variables kept
kernel killed: good: noticed; starts again
restart: good: starts again
";
    assert_eq!(observed(installed("r")).await, expected);
}

#[tokio::test]
async fn java() {
    let expected = "\
variables between cells: good: kept
result of an expression: good: execute_result: text/plain
error: good: `RuntimeException: java.lang.IllegalStateException, no`
PNG: good: execute_result
Unicode: good: intact
empty cell: good: nothing happens
question to the person: good: asked and answered
question, nobody there: good: fails at once with `RuntimeException: java.util.NoSuchElementException, No line found`
20,000 printed lines: limited: complete, but marked as incomplete
infinite loop, interrupted: good: interrupted, variables kept
code ends its process: good: the kernel died (exit status 7); starts again
kernel killed: good: noticed; starts again
restart: good: starts again
";
    assert_eq!(observed(installed("java")).await, expected);
}

/// A language that we have no code for gets the checks that need none.
#[tokio::test]
async fn an_unknown_language() {
    let expected = "\
variables between cells: skipped: not checked: no code for this language
result of an expression: skipped: not checked: no code for this language
error: skipped: not checked: no code for this language
PNG: skipped: not checked: no code for this language
Unicode: skipped: not checked: no code for this language
empty cell: good: nothing happens
question to the person: skipped: not checked: no code for this language
question, nobody there: skipped: not checked: no code for this language
20,000 printed lines: skipped: not checked: no code for this language
infinite loop, interrupted: skipped: not checked: no code for this language
code ends its process: skipped: not checked: no code for this language
kernel killed: skipped: not checked: no code for this language
restart: good: starts again
";
    assert_eq!(observed(misbehaving(&[])).await, expected);
}

/// What a model reads of each cell, and how it ended.
async fn told(kernel: KernelSource, cells: &[&str]) -> Vec<(String, Verdict, Duration)> {
    let dir = tempfile::tempdir().unwrap();
    let kernel = Kernel::launch(launch_options(kernel, dir.path()))
        .await
        .unwrap();
    let mut told = Vec::new();
    for code in cells {
        let begun = Instant::now();
        let mut execution = kernel.execute(ExecuteOptions::cell(*code)).await.unwrap();
        let mut outputs = Outputs::default();
        let verdict = loop {
            match execution.next().await.unwrap() {
                ExecutionEvent::Output(output) => outputs.apply(&output),
                ExecutionEvent::Finished(outcome) => break outcome.verdict,
                _ => {}
            }
        };
        let budget = Budget {
            text: 4000,
            preparer: None,
            brief: false,
            reads: false,
            said: None,
        };
        let parts = summarize::outputs(&outputs.to_notebook(), budget);
        let text: Vec<String> = parts
            .into_iter()
            .map(|part| match part {
                Part::Text(text) => text,
                Part::Image { .. } => "[picture]".to_owned(),
            })
            .collect();
        told.push((text.join("\n"), verdict, begun.elapsed()));
    }
    kernel.shutdown().await;
    told
}

fn failed(evalue: &str) -> Verdict {
    Verdict::Error {
        ename: "exit status".to_owned(),
        evalue: evalue.to_owned(),
    }
}

#[tokio::test]
async fn bash_tells_how_code_ended_and_refuses_code_that_is_not_whole() {
    let cells = [
        "false",
        "x=7; (exit 5)",
        "echo $x",
        "if true; then",
        "cat <<EOF\nx",
        "echo 'torn",
        "shopt -s extglob; [[ ab == @(ab|c) ]] && echo glob",
        "echo $x; exit 3",
        "echo \"[$x]\"",
        "kill -9 $$",
        "exit 0",
    ];
    let told = told(installed("bash"), &cells).await;
    // It waited five seconds for each that is not whole.
    for torn in &told[3..=5] {
        assert!(torn.2 < Duration::from_secs(4), "{torn:?}");
    }
    let verdicts: Vec<&Verdict> = told.iter().map(|(_, verdict, _)| verdict).collect();
    let (ok, torn) = (&Verdict::Ok, |at: usize| told[at].0.clone());
    assert_eq!(
        [
            verdicts[0],
            verdicts[1],
            verdicts[2],
            verdicts[6],
            verdicts[7],
            verdicts[8],
            verdicts[9],
            verdicts[10]
        ],
        [
            &failed("1"),
            &failed("5"),
            ok,
            ok,
            &failed("3"),
            ok,
            &failed("137"),
            ok
        ],
        "{told:?}"
    );
    assert_eq!(told[0].0, "exit status: 1");
    assert_eq!(told[2].0.trim(), "7");
    assert!(
        torn(3).contains("syntax error: unexpected end of file"),
        "{}",
        torn(3)
    );
    assert!(torn(4).contains("delimited by end-of-file"), "{}", torn(4));
    assert!(
        torn(5).contains("unexpected EOF while looking for"),
        "{}",
        torn(5)
    );
    assert_eq!(told[6].0.trim(), "glob");
    assert!(
        told[7].0.starts_with("7\n") && told[7].0.contains("all variables are lost"),
        "{}",
        told[7].0
    );
    assert_eq!(told[8].0.trim(), "[]");
}

#[tokio::test]
async fn a_model_reads_the_persons_own_frames_of_javascript() {
    let code = "function f() { null.x }\nf()";
    let told = told(installed("javascript"), &[code]).await;
    let text = &told[0].0;
    assert!(
        text.contains(
            "    at f (evalmachine.<anonymous>:1:21)\n    at evalmachine.<anonymous>:2:1"
        ),
        "{text}"
    );
    assert!(
        !text.contains("node:") && !text.contains("[eval]"),
        "{text}"
    );
}

#[tokio::test]
async fn a_data_frame_of_r_is_its_plain_text() {
    let told = told(
        installed("r"),
        &["data.frame(a=1:2, b=c('x','y'))", "c(1, 2)"],
    )
    .await;
    let texts: Vec<&str> = told.iter().map(|(text, ..)| text.trim_end()).collect();
    assert_eq!(texts, ["  a b\n1 1 x\n2 2 y", "[1] 1 2"]);
}

/// What `kernels install` brings beside the kernel.
#[tokio::test(flavor = "multi_thread")]
async fn r_and_javascript_have_their_libraries() {
    let code = "library(dplyr, warn.conflicts = FALSE); library(tidyr); library(readr); library(ggplot2)\n\
        library(data.table, warn.conflicts = FALSE)\n\
        cat(jsonlite::toJSON(as.data.frame(tibble(x = c(1, 2, 3)) %>% filter(x > 1) %>% summarise(mean = mean(x)))))";
    let told_r = told(installed("r"), &[code]).await;
    let text = &told_r[0].0;
    assert!(text.contains(r#"[{"mean":2.5}]"#), "{text}");
    let code = "const aq = require('arquero'), d3 = require('d3-array'), ss = require('simple-statistics')\n\
        const { parse } = require('csv-parse/sync')\n\
        const rows = parse('x\\n1\\n2\\n6\\n', { columns: true, cast: true })\n\
        console.log(aq.from(rows).filter((d) => d.x > 1).numRows(), d3.mean(rows, (d) => d.x), ss.median(rows.map((d) => d.x)))";
    let told_js = told(installed("javascript"), &[code]).await;
    let text = &told_js[0].0;
    assert!(text.contains("2 3 2"), "{text}");
}
