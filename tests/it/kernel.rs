//! Conversations with kernels: the real ipykernel, and one that misbehaves on command.

use std::time::Duration;

use sponde::jupyter::content::{InputRequest, Stream};
use sponde::kernel::{
    ExecuteOptions, ExecutionEvent, ExitReason, Kernel, KernelState, Outcome, OutputEvent, Verdict,
};

use crate::support::{ipykernel, misbehaving, start};

fn stdout(text: &str) -> OutputEvent {
    OutputEvent::Stream(Stream {
        name: "stdout".to_owned(),
        text: text.to_owned(),
    })
}

fn ok(count: i64) -> Outcome {
    Outcome {
        verdict: Verdict::Ok,
        count: Some(count),
    }
}

async fn run(kernel: &Kernel, code: &str) -> (Vec<OutputEvent>, Outcome) {
    kernel
        .execute(ExecuteOptions::cell(code))
        .await
        .unwrap()
        .collect()
        .await
}

/// All text on stdout, whatever the number of messages it came in.
fn printed(outputs: &[OutputEvent]) -> String {
    outputs
        .iter()
        .filter_map(|output| match output {
            OutputEvent::Stream(stream) if stream.name == "stdout" => Some(stream.text.as_str()),
            _ => None,
        })
        .collect()
}

#[tokio::test]
async fn variables_live_on_between_cells() {
    let kernel = start(ipykernel()).await;
    assert_eq!(run(&kernel, "x = 20").await, (vec![], ok(1)));
    assert_eq!(
        run(&kernel, "print(x + 3)").await,
        (vec![stdout("23\n")], ok(2))
    );
    let (outputs, outcome) = run(&kernel, "x + 1").await;
    assert_eq!(outcome, ok(3));
    assert!(
        matches!(&outputs[..], [OutputEvent::Result { data, count: Some(3), .. }]
            if data.text_of("text/plain").as_deref() == Some("21")),
        "{outputs:?}"
    );
    kernel.shutdown().await;
    assert_eq!(kernel.state(), KernelState::Dead(ExitReason::Requested));
    assert!(
        std::fs::read_dir(kernel.dir.path().join("runtime"))
            .unwrap()
            .next()
            .is_none()
    );
}

#[tokio::test]
async fn an_exception_is_an_output_and_the_kernel_goes_on() {
    let kernel = start(ipykernel()).await;
    let (outputs, outcome) = run(&kernel, "1/0").await;
    assert_eq!(
        outcome.verdict,
        Verdict::Error {
            ename: "ZeroDivisionError".to_owned(),
            evalue: "division by zero".to_owned()
        }
    );
    assert!(
        matches!(&outputs[..], [OutputEvent::Error(_)]),
        "{outputs:?}"
    );
    assert_eq!(run(&kernel, "print(1)").await.0, [stdout("1\n")]);
}

#[tokio::test]
async fn a_killed_kernel_is_noticed_with_its_last_words_and_restarts() {
    let kernel = start(ipykernel()).await;
    let code = "import os, sys; x = 1; print('last words', flush=True); import time; time.sleep(0.3); os._exit(7)";
    let (outputs, outcome) = run(&kernel, code).await;
    assert_eq!(printed(&outputs), "last words\n");
    assert_eq!(outcome.verdict, Verdict::KernelDied(ExitReason::Exited(7)));
    let refused = kernel.execute(ExecuteOptions::cell("1")).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "kernel `python3` is not running (exit status 7)"
    );
    kernel.restart().await.unwrap();
    let (_, outcome) = run(&kernel, "x").await;
    assert!(matches!(outcome.verdict, Verdict::Error { ename, .. } if ename == "NameError"));
}

#[tokio::test]
async fn an_infinite_loop_is_interrupted_and_state_is_kept() {
    let kernel = start(ipykernel()).await;
    run(&kernel, "kept = 1").await;
    let mut execution = kernel
        .execute(ExecuteOptions::cell(
            "print('go', flush=True)\nwhile True: pass",
        ))
        .await
        .unwrap();
    assert_eq!(
        execution.next().await,
        Some(ExecutionEvent::Started { count: Some(2) })
    );
    assert_eq!(
        execution.next().await,
        Some(ExecutionEvent::Output(stdout("go\n")))
    );
    kernel.interrupt().await.unwrap();
    let (outputs, outcome) = execution.collect().await;
    assert_eq!(outcome.verdict, Verdict::Interrupted);
    assert!(
        matches!(&outputs[..], [OutputEvent::Error(error)] if error.ename == "KeyboardInterrupt")
    );
    assert_eq!(printed(&run(&kernel, "print(kept)").await.0), "1\n");
}

#[tokio::test]
async fn an_interrupt_before_the_code_begins_is_not_lost() {
    let kernel = start(ipykernel()).await;
    run(&kernel, "kept = 1").await;
    // Where it strikes is chance: before the kernel has the message, while it prepares the cell, in the code.
    for microseconds in (0..5000).step_by(500) {
        let forever = ExecuteOptions::cell("import time\nwhile True: time.sleep(1)");
        let execution = kernel.execute(forever).await.unwrap();
        tokio::time::sleep(Duration::from_micros(microseconds)).await;
        kernel.interrupt().await.unwrap();
        let (_, outcome) = execution.collect().await;
        assert_eq!(outcome.verdict, Verdict::Interrupted, "{microseconds}");
    }
    assert_eq!(printed(&run(&kernel, "print(kept)").await.0), "1\n");
}

#[tokio::test]
async fn a_cell_over_its_time_is_stopped() {
    let kernel = start(ipykernel()).await;
    let options = |code: &str| ExecuteOptions {
        timeout: Some(Duration::from_millis(300)),
        ..ExecuteOptions::cell(code)
    };
    let cell = kernel
        .execute(options("import time; time.sleep(60)"))
        .await
        .unwrap();
    assert_eq!(cell.collect().await.1.verdict, Verdict::TimedOut);
    assert_eq!(printed(&run(&kernel, "print('alive')").await.0), "alive\n");
    // One that swallows interrupts costs the kernel its life.
    let stubborn =
        "import time\nwhile True:\n  try:\n    time.sleep(60)\n  except KeyboardInterrupt: pass";
    let patient = ExecuteOptions {
        timeout: Some(Duration::from_secs(2)),
        ..ExecuteOptions::cell(stubborn)
    };
    let cell = kernel.execute(patient).await.unwrap();
    assert_eq!(
        cell.collect().await.1.verdict,
        Verdict::KernelDied(ExitReason::KilledAfterTimeout)
    );
}

#[tokio::test]
async fn input_is_asked_for_or_refused_at_once() {
    let kernel = start(ipykernel()).await;
    // Output and question come over two sockets, and are told in the order of the code.
    for count in 1..=10 {
        let options = ExecuteOptions {
            allow_stdin: true,
            ..ExecuteOptions::cell("print('before'); print(input('name? '))")
        };
        let mut execution = kernel.execute(options).await.unwrap();
        let id = execution.id.clone();
        let count = Some(count);
        let started = execution.next().await;
        assert_eq!(started, Some(ExecutionEvent::Started { count }));
        let mut before = Vec::new();
        let request = loop {
            match execution.next().await {
                // ipykernel may send a line in pieces.
                Some(ExecutionEvent::Output(output)) => before.push(output),
                other => break other,
            }
        };
        assert_eq!(printed(&before), "before\n");
        let prompt = "name? ".to_owned();
        let expected = ExecutionEvent::InputRequested(InputRequest {
            prompt,
            password: false,
        });
        assert_eq!(request, Some(expected));
        kernel.reply(&id, "Ada".to_owned()).await.unwrap();
        let verdict = Verdict::Ok;
        let end = Outcome { verdict, count };
        let (after, outcome) = execution.collect().await;
        assert_eq!((printed(&after).as_str(), outcome), ("Ada\n", end));
    }
    let (_, outcome) = run(&kernel, "input('name? ')").await;
    assert!(
        matches!(&outcome.verdict, Verdict::Error { ename, .. } if ename == "StdinNotImplementedError"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_kernel_that_cannot_start_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let start = |argv: &[&str]| {
        let mut kernel = ipykernel();
        kernel.spec.argv = argv.iter().map(|&argument| argument.to_owned()).collect();
        Kernel::launch(crate::support::launch_options(kernel, dir.path()))
    };
    let error = start(&["/nonexistent/kernel", "{connection_file}"])
        .await
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("could not start kernel `python3` (`/nonexistent/kernel`"),
        "{error}"
    );
    let error = start(&[
        "sh",
        "-c",
        "echo no module >&2; exit 3",
        "{connection_file}",
    ])
    .await
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "kernel `python3` exited before it was ready (exit status 3)"
    );
    assert_eq!(error.log(), Some("no module"));
}

#[tokio::test]
async fn forged_frames_end_the_kernel_and_not_us() {
    let kernel = start(ipykernel()).await;
    // Facts B4: nine bytes that make a naive zeromq 0.7 client abort.
    let code = "import os, struct, stat\nfor fd in range(3, 300):\n  try:\n    if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, b'\\x02' + struct.pack('>Q', 2**45) + b'x')\n  except OSError: pass";
    let (_, outcome) = run(&kernel, code).await;
    assert!(
        matches!(
            &outcome.verdict,
            Verdict::KernelDied(ExitReason::Hostile(_))
        ),
        "{outcome:?}"
    );
    kernel.restart().await.unwrap();
    assert_eq!(printed(&run(&kernel, "print('again')").await.0), "again\n");
}

/// Outputs whose loss was announced, and those that came.
fn losses(outputs: &[OutputEvent]) -> usize {
    outputs
        .iter()
        .filter(|output| matches!(output, OutputEvent::Lost(_)))
        .count()
}

#[tokio::test]
async fn odd_kernels_are_understood() {
    let kernel = start(misbehaving(&[])).await;
    let error = |ename: &str, evalue: &str| Verdict::Error {
        ename: ename.to_owned(),
        evalue: evalue.to_owned(),
    };
    // Code, what was printed, the verdict, losses announced.
    let table: &[(&str, &str, Verdict, usize)] = &[
        ("echo a\nlate-idle 100", "a\n", Verdict::Ok, 0),
        ("echo a\nlate-reply 100", "a\n", Verdict::Ok, 0),
        ("echo a\nduplicate-idle", "a\n", Verdict::Ok, 0),
        ("echo a\nno-idle", "a\n", Verdict::Ok, 1),
        ("foreign-parent\necho mine", "mine\n", Verdict::Ok, 0),
        ("no-parent\necho mine", "mine\n", Verdict::Ok, 0),
        ("unknown-message-type\necho a", "a\n", Verdict::Ok, 0),
        ("stdin-forge\necho a", "a\n", Verdict::Ok, 0),
        ("extra-identities", "extra\n", Verdict::Ok, 0),
        ("wrong-signature\necho a", "a\n", Verdict::Ok, 1),
        ("wrong-signature shell\necho a", "a\n", Verdict::Ok, 1),
        ("bad-json\necho a", "a\n", Verdict::Ok, 1),
        ("bad-header shell\necho a", "a\n", Verdict::Ok, 1),
        ("abort-status", "", Verdict::Aborted, 0),
        ("no-status\necho a", "a\n", Verdict::Ok, 0),
        ("silent-error", "", error("SilentError", ""), 0),
        ("error KeyError 'x'", "", error("KeyError", "'x'"), 0),
    ];
    for (code, expected, verdict, lost) in table {
        let (outputs, outcome) = run(&kernel, code).await;
        let found = (printed(&outputs), losses(&outputs));
        if *code == "extra-identities" || *code == "silent-error" {
            // What these print is the fixture's own business.
            assert_eq!(found.1, *lost, "{code}");
            assert_eq!(
                std::mem::discriminant(&outcome.verdict),
                std::mem::discriminant(verdict),
                "{code}"
            );
        } else {
            assert_eq!(
                (found, &outcome.verdict),
                (((*expected).to_owned(), *lost), verdict),
                "{code}"
            );
        }
    }
}

#[tokio::test]
async fn a_kernel_that_never_answers_is_left_in_the_end() {
    let kernel = start(misbehaving(&[])).await;
    let (outputs, outcome) = run(&kernel, "echo a\nno-reply").await;
    assert_eq!(
        (printed(&outputs).as_str(), outcome.verdict),
        ("a\n", Verdict::Ok)
    );
    let timed = |code: &str| ExecuteOptions {
        timeout: Some(Duration::from_millis(200)),
        ..ExecuteOptions::cell(code)
    };
    let cell = kernel.execute(timed("hang-until-interrupt")).await.unwrap();
    assert_eq!(cell.collect().await.1.verdict, Verdict::TimedOut);
    for code in ["hang", "freeze"] {
        let cell = kernel.execute(timed(code)).await.unwrap();
        assert_eq!(
            cell.collect().await.1.verdict,
            Verdict::KernelDied(ExitReason::KilledAfterTimeout),
            "{code}"
        );
        kernel.restart().await.unwrap();
    }
    for (code, reason) in [
        ("close shell", ExitReason::Disconnected),
        ("close iopub", ExitReason::Disconnected),
        ("die 5", ExitReason::Exited(5)),
        ("die-by-signal 11", ExitReason::Signalled(11)),
    ] {
        let (_, outcome) = run(&kernel, &format!("{code}\nhang")).await;
        assert_eq!(outcome.verdict, Verdict::KernelDied(reason), "{code}");
        kernel.restart().await.unwrap();
    }
    let cell = kernel
        .execute(ExecuteOptions::cell("forge-frame 62\nhang"))
        .await
        .unwrap();
    assert!(matches!(
        cell.collect().await.1.verdict,
        Verdict::KernelDied(ExitReason::Hostile(_))
    ));
}

#[tokio::test]
async fn output_that_is_too_large_is_named_and_the_kernel_lives() {
    let kernel = start(ipykernel()).await;
    let (outputs, outcome) = run(
        &kernel,
        "x = 1; display({'text/plain': 'x' * 100_000_000}, raw=True)",
    )
    .await;
    assert_eq!(outcome.verdict, Verdict::Ok);
    assert!(
        outputs.iter().any(|output| matches!(output, OutputEvent::Lost(what) if what.contains("100 MB was too large"))),
        "{:?}",
        outputs.len()
    );
    assert_eq!(printed(&run(&kernel, "print(x)").await.0), "1\n");
    // Printed text comes in pieces and is whole, in one print or in many.
    for code in [
        "print('y' * 100_000_000)",
        "for _ in range(1000): print('y' * 99_999)",
    ] {
        let (outputs, outcome) = run(&kernel, code).await;
        assert_eq!(outcome.verdict, Verdict::Ok, "{code}");
        assert!(printed(&outputs).len() >= 100_000_000, "{code}");
        assert_eq!(losses(&outputs), 0, "{code}");
    }
}

#[tokio::test]
async fn kernels_that_cannot_start_are_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let launch = |arguments: &[&str], seconds| {
        let mut options = crate::support::launch_options(misbehaving(arguments), dir.path());
        options.ready_timeout = Duration::from_secs(seconds);
        Kernel::launch(options)
    };
    let error = launch(&["--stderr", "no luck", "--die-before-ready"], 60)
        .await
        .unwrap_err();
    assert!(
        matches!(error, sponde::kernel::KernelError::DiedAtStart { .. }),
        "{error:?}"
    );
    assert_eq!(error.log(), Some("no luck"));
    for option in ["--never-bind", "--mute"] {
        let error = launch(&[option], 2).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            "kernel `misbehave` was not ready after 2 s",
            "{option}"
        );
    }
    let kernel = launch(
        &[
            "--ignore-shutdown",
            "--no-iopub-welcome",
            "--slow-start",
            "300",
        ],
        60,
    )
    .await
    .unwrap();
    assert_eq!(printed(&run(&kernel, "echo ready").await.0), "ready\n");
    kernel.restart().await.unwrap();
    assert_eq!(printed(&run(&kernel, "echo again").await.0), "again\n");
}
