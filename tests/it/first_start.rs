//! A machine on which nothing is installed yet, and questions of which nothing comes.

use serde_json::json;

use crate::aimock::Aimock;
use crate::support::{NOBODY, Sponde};
use crate::terminal::play;

/// No kernel, no model, and no Python to make an environment with.
fn bare() -> Sponde {
    Sponde::new()
        .with("VIRTUAL_ENV", "/nowhere")
        .with("PATH", "/nowhere")
}

#[test]
fn all_that_is_missing_is_one_error() {
    let ended = bare().run(&["ask", "why?"]);
    insta::assert_snapshot!(ended, @"
    exit: 4
    --- stderr
    error: there is no kernel to run code and no model to ask

    hint: `sponde kernels install python3` makes a kernel with pandas and matplotlib; for a model, set OPENAI_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY, start Ollama or another local server, or get a small model for this machine with `sponde models pull`
    ");
    // Nothing was begun.
    assert!(ended.stdout.is_empty());
}

/// A person is offered what is missing; both installations begin when they say so.
#[test]
fn a_person_is_offered_what_is_missing() {
    let sponde = bare();
    let question = "Install [b]oth now, only the [k]ernel, or [n]othing?";
    let declined = play(
        &sponde,
        &[],
        &json!([
            ["wait", "a kernel, which runs the code"],
            ["wait", "a model, which writes it"],
            ["wait", question],
            ["type", "what?\n"],
            ["wait", question],
            ["type", "n\n"],
            ["wait", "there is no kernel to run code and no model to ask"],
        ]),
    );
    assert_eq!(declined.code, 4, "{}", declined.all);
    let left = play(
        &sponde,
        &[],
        &json!([["wait", question], ["type", "\u{3}"]]),
    );
    assert_eq!((left.code, left.as_always), (130, true), "{}", left.all);
    let wanted = play(
        &sponde,
        &[],
        &json!([
            ["wait", question],
            ["type", "both\n"],
            ["wait", "there is no Python 3.10 or newer with venv and pip"],
        ]),
    );
    assert_eq!(wanted.code, 1, "{}", wanted.all);
    // With a kernel of another name, only the model is missing.
    let model = play(
        &sponde,
        &["-k", "misbehave"],
        &json!([
            ["wait", "Install that small model now? [y]es, [n]o:"],
            ["type", "y\n"],
            ["wait", "there is no Python 3.10 or newer"],
        ]),
    );
    assert!(!model.all.contains("a kernel, which"), "{}", model.all);
}

#[test]
fn a_question_that_reached_no_model_leaves_no_session() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    for arguments in [
        &["ask", "why?", "--model", "m", "-k", "misbehave"][..],
        &["ask", "why?", "--model", "m", "-k", "misbehave", "--json"],
    ] {
        let ended = sponde.run(arguments);
        assert_eq!(ended.code, Some(5), "{ended}");
        assert!(!ended.stderr.contains("notebook:"), "{ended}");
    }
    let left: Vec<_> = std::fs::read_dir(sponde.sessions()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_reply_is_no_answer() {
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"content": ""}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let ask = ["ask", "why?", "--model", "gpt-4o", "-k", "misbehave"];
    let ended = tokio::task::block_in_place(|| sponde.run(&ask));
    mock.stop().await;
    assert_eq!(ended.code, Some(5), "{ended}");
    let words = "error: the model's reply was empty";
    assert!(ended.stderr.contains(words), "{ended}");
}

/// What is piped in is a file of the session, of which the model knows the columns.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_piped_in_is_a_file_that_the_model_knows() {
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"content": "It is 6."}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let ask = ["ask", "sum it", "--model", "gpt-4o", "-k", "misbehave"];
    let ended =
        tokio::task::block_in_place(|| sponde.run_with_stdin(&ask, "width,height\n1,2\n2,1\n"));
    let asked = mock.journal().await;
    // Nothing piped in, and nothing said about it.
    let empty = tokio::task::block_in_place(|| sponde.run_with_stdin(&ask, ""));
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.stderr.contains("stdin: 21 bytes in "), "{ended}");
    let told = asked[0].to_string();
    assert!(
        told.contains("stdin.csv") && told.contains("width"),
        "{told}"
    );
    assert_eq!(empty.code, Some(0), "{empty}");
    assert!(!empty.stderr.contains("stdin"), "{empty}");
    let kept: Vec<String> = std::fs::read_dir(sponde.sessions())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|dir| std::fs::read_to_string(dir.join("stdin.csv")).unwrap())
        .collect();
    assert_eq!(kept, ["width,height\n1,2\n2,1\n"]);
    // It goes with its session.
    let removed = sponde.run(&["sessions", "gc", "--max-size", "0"]);
    assert_eq!(removed.code, Some(0), "{removed}");
    assert_eq!(std::fs::read_dir(sponde.sessions()).unwrap().count(), 0);
}

#[test]
fn an_export_to_a_missing_directory_says_how_to_make_it() {
    let sponde = Sponde::new();
    sponde.write_notebook("nb.ipynb", "python3", &[("", "1")]);
    let ended = sponde.run(&["export", "nb.ipynb", "-o", "no/such/page.html"]);
    assert_eq!(ended.code, Some(1), "{ended}");
    let hint = "hint: there is no directory `no/such`: make it with `mkdir -p no/such`";
    assert!(ended.stderr.contains(hint), "{ended}");
}
