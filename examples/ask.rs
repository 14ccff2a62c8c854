//! A front end in one file: it asks a question, shows what happens, and answers what the session asks. It needs nothing
//! from `cli` (docs/front-ends.md).
//!
//! ```console
//! $ cargo run --example ask -- 'What is 2 to the power of 100?' --yes
//! ```
#![allow(clippy::print_stdout, reason = "it is a program")]

use std::io::Write as _;

use sponde::agent::approval::Approval;
use sponde::agent::stream::View;
use sponde::agent::{Command, Decision, EventKind, OutputChange};
use sponde::app::{Context, Lifetime, Notice, Notify, SessionSettings, sandbox, session};
use sponde::config::Config;
use sponde::jupyter::nbformat::Output;
use sponde::paths::{Environment, Paths};

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // The first process of a sandbox is the program that started it.
    if let Some(confined) = sandbox::answer(std::env::args_os().skip(1), std::env::vars_os()) {
        confined?;
        return Ok(());
    }
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let run_unasked = arguments.iter().any(|it| it == "--yes");
    arguments.retain(|it| it != "--yes");

    // What the program was started with, once.
    let paths = Paths::of(Environment::of_process())?;
    let context = Context {
        config: Config::load(&paths.config, None)?,
        redactor: paths.environment.redactor(),
        paths,
        notify: Notify::new(|notice| {
            if let Notice::Info(text) | Notice::Warning(text) = notice {
                println!("[{text}]");
            }
        }),
        may_ask: true,
    };
    // Settings as plain values in, a running session out.
    let settings = SessionSettings {
        approval: run_unasked.then_some(Approval::Never),
        attended: !run_unasked,
        lifetime: Lifetime::OneQuestion,
        ..SessionSettings::default()
    };
    let session = session::start(&settings, None, &context).await?;

    // Any number of clients, each with its own name.
    let mut view = View::new(session.agent.client("example"));
    let text = arguments.join(" ");
    view.send(Command::Submit { text }).await?;
    while let Some(event) = view.recv().await {
        match event.kind {
            EventKind::Text { text, .. } => print!("{text}"),
            EventKind::CodeProposed { source, .. } => println!("\n--- code\n{source}\n---"),
            EventKind::Output { change, .. } => show(&change),
            EventKind::ApprovalRequested { cell, findings, .. } => {
                for finding in findings {
                    println!("{}", finding.words());
                }
                let decision = match answer("run it? [y/n] ")?.as_str() {
                    "y" => Decision::Run,
                    words => Decision::Decline {
                        reason: (words != "n").then(|| words.to_owned()),
                    },
                };
                view.send(Command::Decide { cell, decision }).await?;
            }
            EventKind::InputRequested { cell, prompt, .. } => {
                let value = answer(&prompt)?;
                view.send(Command::Reply { cell, value }).await?;
            }
            EventKind::ContinueRequested { .. } => {
                view.send(Command::Continue {
                    go_on: false,
                    words: None,
                })
                .await?;
            }
            EventKind::TurnFinished { end, .. } => {
                println!(
                    "\n[{end:?}; the notebook is {}]",
                    session.notebook.display()
                );
                break;
            }
            _ => {}
        }
    }
    session.end().await;
    Ok(())
}

fn show(change: &OutputChange) {
    let OutputChange::Append { output, .. } = change else {
        return;
    };
    match output {
        Output::Stream { text, .. } => print!("{text}"),
        Output::Error { ename, evalue, .. } => println!("{ename}: {evalue}"),
        Output::DisplayData { data, .. } | Output::ExecuteResult { data, .. } => {
            println!("{}", data.text_of("text/plain").unwrap_or_default());
        }
        Output::Other(_) => {}
    }
}

fn answer(question: &str) -> std::io::Result<String> {
    print!("{question}");
    std::io::stdout().flush()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(line.trim().to_owned())
}
