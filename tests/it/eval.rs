//! The evaluation: its known answers are what pandas computes, no prompt knows its questions, and `scripts/eval` judges
//! and goes on where it was stopped. No real model has been scored yet.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::support::{Sponde, python_prefix};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn json_of(path: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(root().join(path)).unwrap()).unwrap()
}

#[test]
fn the_known_answers_are_what_pandas_computes() {
    let output = Command::new(python_prefix().join("bin/python"))
        .arg(root().join("tests/eval/answers.py"))
        .arg("--check")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(
        json_of("tests/eval/questions.json")
            .as_array()
            .unwrap()
            .len(),
        25
    );
}

/// A model must not be helped with what it is asked: no question, no answer, no table and no column of it in what the
/// program may say to a model.
#[test]
fn no_question_is_named_in_a_prompt() {
    let mut said = String::new();
    let mut dirs = vec![root().join("src")];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
            } else {
                said += &std::fs::read_to_string(&path)
                    .unwrap_or_default()
                    .to_lowercase();
            }
        }
    }
    let words = |text: &str| -> Vec<String> {
        text.to_lowercase()
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let said_words = words(&said).join(" ");
    let mut forbidden = Vec::new();
    for question in json_of("tests/eval/questions.json").as_array().unwrap() {
        let all = words(question["question"].as_str().unwrap());
        // Five words in a row are no accident.
        forbidden.extend(all.windows(5).map(|five| five.join(" ")));
        let file = question["files"][0].as_str().unwrap();
        forbidden.push(words(file).join(" "));
        let table = [
            root().join("tests/eval/data").join(file),
            root().join("notebooks/data").join(file),
        ]
        .into_iter()
        .find(|path| path.exists())
        .unwrap();
        let text = std::fs::read_to_string(table).unwrap();
        let columns = text.lines().next().unwrap().split(',');
        // Of columns those that are a name of their own.
        forbidden.extend(
            columns
                .filter(|name| name.contains('_'))
                .map(|name| words(name).join(" ")),
        );
    }
    forbidden.sort();
    forbidden.dedup();
    let found: Vec<&String> = forbidden
        .iter()
        .filter(|part| format!(" {said_words} ").contains(&format!(" {part} ")))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

fn eval(sponde: &Sponde, results: &Path, arguments: &[&str]) -> Output {
    let program = sponde.command(&[]);
    Command::new(python_prefix().join("bin/python"))
        .arg(root().join("scripts/eval"))
        .args(["--model", "demo", "--sponde"])
        .arg(program.get_program())
        .arg("--json")
        .arg(results)
        .args(arguments)
        .env_clear()
        .envs(
            program
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .output()
        .unwrap()
}

fn call(code: &str) -> Value {
    let arguments = json!({ "code": code }).to_string();
    json!({"blocks": [{"type": "toolCall", "name": "run_code", "arguments": arguments}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_judged_and_kept() {
    let of = |question: &str, turn: u64, response: Value| json!({"match": {"userMessage": question, "turnIndex": turn}, "response": response});
    let mock = Aimock::start(&json!([
        of(
            "precipitation fell",
            0,
            call("import pandas as pd\nd = pd.read_csv('weather.csv')\nprint(len(d))")
        ),
        of(
            "precipitation fell",
            1,
            json!({"content": "There were 1,232.8 mm."})
        ),
        of(
            "highest temperature",
            0,
            json!({"content": "On July 18, 2013, with 37.8 degrees."})
        ),
        of("had snow", 0, call("print(1)")),
        of(
            "had snow",
            1,
            json!({"content": "Seattle had 26 and New York 94."})
        ),
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let results: PathBuf = sponde.path("results/out.jsonl");
    let run = |arguments: &[&str]| {
        let output = tokio::task::block_in_place(|| eval(&sponde, &results, arguments));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{stderr}");
        (String::from_utf8(output.stdout).unwrap(), stderr)
    };
    let (first, _) = run(&["--only", "1-2"]);
    assert!(
        first.starts_with("**openai-compatible/demo: 1 of 2 right**, 3 steps, "),
        "{first}"
    );
    // A result that was being written when it was stopped is asked again.
    let kept = std::fs::read_to_string(&results).unwrap();
    std::fs::write(&results, kept.clone() + "{\"id\": \"snow").unwrap();
    std::fs::write(&results, std::fs::read_to_string(&results).unwrap() + "\n").unwrap();
    let (table, told) = run(&["--only", "1-2", "snow-days"]);
    let rows: Vec<&str> = table
        .lines()
        .filter_map(|line| line.strip_prefix("| "))
        .map(|line| {
            line.split(" |")
                .take(2)
                .collect::<Vec<_>>()
                .join(":")
                .leak() as &str
        })
        .collect();
    assert_eq!(
        rows,
        [
            "question: result",
            "rain-total: **right**",
            "hottest-day: no code was run",
            "snow-days: wrong: lacks 93.0"
        ]
    );
    assert!(
        told.contains("[3/25]") && !told.contains("[1/25]"),
        "{told}"
    );
    assert!(told.contains("22 questions were not asked yet"), "{told}");
    mock.stop().await;
    sponde.assert_nothing_is_left();
}
