//! The evaluation: its known answers are what pandas computes, no prompt knows its questions, and `scripts/eval` judges
//! and goes on where it was stopped, with other harnesses and with benchmarks in their own form.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

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
    let chains = json_of("tests/eval/followups.json");
    let steps = chains.as_array().unwrap().iter();
    let steps = steps.flat_map(|chain| chain["steps"].as_array().unwrap());
    assert_eq!(steps.count(), 20);
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
    let mut asked = json_of("tests/eval/questions.json")
        .as_array()
        .unwrap()
        .clone();
    for chain in json_of("tests/eval/followups.json").as_array().unwrap() {
        for step in chain["steps"].as_array().unwrap() {
            let mut step = step.clone();
            step["files"] = chain["files"].clone();
            asked.push(step);
        }
    }
    for question in &asked {
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
        first.starts_with("**openai-compatible/demo, sponde: 1 of 2 right** (50 %, 95 % interval 9 to 91), 3 steps, "),
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

/// One session is asked a chain: what the first question made is there for the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_chain_is_asked_in_one_session() {
    let of = |question: &str, turn: u64, response: Value| json!({"match": {"userMessage": question, "turnIndex": turn}, "response": response});
    let mock = Aimock::start(&json!([
        of("table called seattle", 0, call("import pandas as pd\nd = pd.read_csv('weather.csv')\nseattle = d[d.city == 'Seattle'].copy()\nprint(len(seattle))")),
        of("table called seattle", 1, json!({"content": "It has 1461 rows."})),
        of("column spread", 2, call("seattle['spread'] = seattle.temp_max - seattle.temp_min\nprint(seattle.spread.max())")),
        of("column spread", 3, json!({"content": "The largest spread is 18.9."})),
        of("which date", 4, json!({"content": "On September 7, 2012."})),
        of("above 10", 5, json!({"content": "411 days."})),
        of("altogether", 6, json!({"content": "It was 3 mm."})),
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let results: PathBuf = sponde.path("results/out.jsonl");
    let arguments = ["--suite", "followups", "--only", "rain-1"];
    let output = tokio::task::block_in_place(|| eval(&sponde, &results, &arguments));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success() && table.contains("sponde: 4 of 5 right** (80 %"),
        "{table}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(table.contains("| rain-5 | wrong: lacks 92.2 |"), "{table}");
    mock.stop().await;
    sponde.assert_nothing_is_left();
}

/// The same model by a shell without a memory, and by nothing but its words.
#[tokio::test(flavor = "multi_thread")]
async fn other_harnesses_are_judged_alike() {
    let of = |question: &str, turn: u64, response: Value| json!({"match": {"userMessage": question, "turnIndex": turn}, "response": response});
    let count = "```bash\npython3 - <<'EOF'\nimport pandas as pd\nprint(pd.read_csv('weather.csv').query(\"weather == 'snow'\").groupby('city').size())\nEOF\n```";
    let mock = Aimock::start(&json!([
        of("had snow", 0, json!({ "content": count })),
        of(
            "Seattle     26",
            1,
            json!({"content": "New York had 93 such days, Seattle 26."})
        ),
        of(
            "2012-01-01,Seattle,0.0",
            0,
            json!({"content": "Seattle 26, New York 90."})
        ),
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let url = format!("{}/v1", mock.url);
    let python = python_prefix().join("bin/python");
    for (harness, expected) in [
        ("bash", "demo, bash: 1 of 1 right** (100 %"),
        ("notools", "demo, notools: 0 of 1 right** (0 %"),
    ] {
        let results = sponde.path(harness);
        let arguments = [
            "--harness",
            harness,
            "--only",
            "snow-days",
            "--base-url",
            &url,
            "--python",
        ];
        let arguments: Vec<&str> = arguments.into_iter().chain(python.to_str()).collect();
        let output = tokio::task::block_in_place(|| eval(&sponde, &results, &arguments));
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && table.contains(expected),
            "{table}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    mock.stop().await;
}

/// Benchmarks are read in the form in which they are published.
#[tokio::test(flavor = "multi_thread")]
async fn benchmarks_are_read_in_their_own_form() {
    let of = |question: &str, turn: u64, response: Value| json!({"match": {"userMessage": question, "turnIndex": turn}, "response": response});
    let mock = Aimock::start(&json!([
        of(
            "mean fare",
            0,
            call("import pandas as pd\nprint(pd.read_csv('fares.csv').fare.mean())")
        ),
        of(
            "mean fare",
            1,
            json!({"content": "It is 20.\n@mean_fare[20.00]"})
        ),
        of("highest fare", 0, call("print(max([10, 30]))")),
        of("highest fare", 1, json!({"content": "ANSWER: 31"})),
        of(
            "lawsuits",
            0,
            // Files keep their folders.
            call("print(len(open('old/fares.csv').readlines() + open('fares.csv').readlines()))")
        ),
        of("lawsuits", 1, json!({"content": "ANSWER: Ohio, Iowa"})),
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let folder = sponde.path("benchmarks");
    let put = |path: &str, text: &str| {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("da-dev-tables/fares.csv", "fare\n10\n30\n");
    put(
        "da-dev-questions.jsonl",
        "{\"id\": 7, \"question\": \"Calculate the mean fare.\", \"constraints\": \"Round to two decimals.\", \"format\": \"@mean_fare[mean]\", \"file_name\": \"fares.csv\", \"level\": \"easy\"}\n",
    );
    put(
        "da-dev-labels.jsonl",
        "{\"id\": 7, \"common_answers\": [[\"mean_fare\", \"20.0\"]]}\n",
    );
    put("data/legal/input/fares.csv", "fare\n10\n30\n");
    put("data/legal/input/old/fares.csv", "fare\n1\n");
    put(
        "workload/legal-tiny.json",
        "[{\"id\": \"tiny\", \"query\": \"?\", \"answer\": 1, \"answer_type\": \"numeric_exact\", \"data_sources\": [\"fares.csv\"]}]",
    );
    put(
        "workload/legal.json",
        "[{\"id\": \"legal-1\", \"query\": \"What is the highest fare?\", \"answer\": 30, \"answer_type\": \"numeric_approximate\", \"data_sources\": [\"fares.csv\"]}, {\"id\": \"legal-2\", \"query\": \"Where are lawsuits?\", \"answer\": [\"Iowa\", \"Ohio\"], \"answer_type\": \"list_exact\", \"data_sources\": [\"fares.csv\", \"old/*\"]}, {\"id\": \"legal-3\", \"query\": \"And?\", \"answer\": 1, \"answer_type\": \"numeric_exact\", \"data_sources\": [\"gone.csv\"]}]",
    );
    let data = folder.to_str().unwrap();
    for (suite, expected) in [
        ("dabench", vec!["1 of 1 right", "| dabench-7 | **right** |"]),
        (
            "krama",
            vec![
                "2 of 2 right",
                // 30 for 31 is 1 / (1 + 1/30).
                "Score as the benchmark counts: 98.4 ",
                "| legal-1 | **right** |",
                "| legal-2 | **right** |",
            ],
        ),
    ] {
        let results = sponde.path(suite);
        let arguments = ["--suite", suite, "--data", data];
        let output = tokio::task::block_in_place(|| eval(&sponde, &results, &arguments));
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && expected.iter().all(|it| table.contains(it)),
            "{table}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    mock.stop().await;
    sponde.assert_nothing_is_left();
}

/// Numbers and lists as people write them, judged by the rules that docs/eval.md names.
#[test]
fn krama_answers_are_judged_by_their_size() {
    let program = "import json, sys; sys.path.insert(0, sys.argv[1]); sys.dont_write_bytecode = True; import suites
print(json.dumps([[suites.of_answers([answer], kind)(f'ANSWER: {given}') == '', round(suites.scored([answer], kind)(f'ANSWER: {given}'), 3)]
    for given, answer, kind in json.load(sys.stdin)]))";
    let cases = [
        ("7.95e-13", json!(7.95e-13), "numeric_exact", true, 1.0),
        ("0", json!(7.95e-13), "numeric_exact", false, 0.0),
        (
            "7.951e-13 kg/m3",
            json!(7.95e-13),
            "numeric_exact",
            false,
            0.0,
        ),
        (
            "7.95 \u{d7} 10^-13",
            json!(7.95e-13),
            "numeric_exact",
            true,
            1.0,
        ),
        (
            "7.95\u{b7}10\u{207b}\u{b9}\u{b3}",
            json!(7.95e-13),
            "numeric_exact",
            true,
            1.0,
        ),
        (".5", json!(0.5), "numeric_exact", true, 1.0),
        ("-.5", json!(-0.5), "numeric_exact", true, 1.0),
        ("1,234,567.0", json!(1_234_567), "numeric_exact", true, 1.0),
        ("1234568", json!(1_234_567), "numeric_exact", true, 1.0),
        ("1234570", json!(1_234_567), "numeric_exact", false, 0.0),
        ("45%", json!(0.45), "numeric_exact", true, 1.0),
        ("104", json!(100), "numeric_approximate", true, 0.962),
        ("200", json!(100), "numeric_approximate", false, 0.5),
        ("unknown", json!(100), "numeric_approximate", false, 0.0),
        ("['b', 'A']", json!(["a", "b"]), "list_exact", true, 1.0),
        ("a, c", json!(["a", "b"]), "list_exact", false, 0.5),
        ("[1.005, 2]", json!([1, 2]), "list_approximate", true, 1.0),
        ("[1.05, 2]", json!([1, 2]), "list_approximate", false, 0.5),
        ("Iowa", json!("iowa"), "string_exact", true, 1.0),
        ("the state Iowa", json!("Iowa"), "string_exact", false, 0.0),
        (
            "the state Iowa",
            json!("Iowa"),
            "string_approximate",
            true,
            1.0,
        ),
    ];
    let order: Vec<Value> = cases.iter().map(|it| json!([it.0, it.1, it.2])).collect();
    let mut process = Command::new(python_prefix().join("bin/python"))
        .args(["-c", program])
        .arg(root().join("tests/eval"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(
        &mut process.stdin.take().unwrap(),
        Value::from(order).to_string().as_bytes(),
    )
    .unwrap();
    let output = process.wait_with_output().unwrap();
    let judged: Vec<(bool, f64)> = serde_json::from_slice(&output.stdout).unwrap();
    for ((given, answer, kind, right, score), found) in cases.iter().zip(judged) {
        assert_eq!(found, (*right, *score), "{given} for {answer} ({kind})");
    }
}

/// Repeats differ: all but the first have a temperature and a seed of their own; and they are no questions of their own.
#[tokio::test(flavor = "multi_thread")]
async fn repeats_are_sampled_anew() {
    let of = |question: &str, turn: u64, response: Value| json!({"match": {"userMessage": question, "turnIndex": turn}, "response": response});
    let mock = Aimock::start(&json!([
        of("had snow", 0, call("print(1)")),
        of(
            "had snow",
            1,
            json!({"content": "New York had 93, Seattle 26."})
        ),
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let results = sponde.path("out.jsonl");
    let arguments = ["--seeds", "3", "--only", "snow-days"];
    let output = tokio::task::block_in_place(|| eval(&sponde, &results, &arguments));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.starts_with("**openai-compatible/demo, sponde: 3 of 3 right** (100 %, 95 % interval 21 to 100), 6 steps"),
        "{table}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let asked = mock.journal().await;
    let sampling: Vec<(Value, Value)> = asked
        .iter()
        .filter(|it| it["body"]["messages"].is_array())
        .map(|it| {
            (
                it["body"]["temperature"].clone(),
                it["body"]["seed"].clone(),
            )
        })
        .collect();
    let of = |seed: u64| (json!(0.7), json!(seed));
    let usual = (Value::Null, Value::Null);
    assert_eq!(sampling, [usual.clone(), usual, of(1), of(1), of(2), of(2)]);
    mock.stop().await;
    sponde.assert_nothing_is_left();
}

/// smolagents' own CodeAgent, over the same endpoint.
#[tokio::test(flavor = "multi_thread")]
async fn smolagents_is_asked() {
    let code = "Thought: count.\n<code>\nimport pandas as pd\nd = pd.read_csv('weather.csv')\nn = (d[d.weather == 'snow']).groupby('city').size()\nfinal_answer(f'New York {n[\"New York\"]}, Seattle {n[\"Seattle\"]}')\n</code>";
    let mock = Aimock::start(&json!([
        {"match": {"userMessage": "had snow"}, "response": {"content": code}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let results = sponde.path("out.jsonl");
    let url = format!("{}/v1", mock.url);
    let python = crate::support::tools().join("program-clients/bin/python");
    let arguments = [
        "--harness",
        "smolagents",
        "--only",
        "snow-days",
        "--base-url",
        &url,
        "--python",
        python.to_str().unwrap(),
    ];
    let output = tokio::task::block_in_place(|| eval(&sponde, &results, &arguments));
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.starts_with(
            "**demo, smolagents: 1 of 1 right** (100 %, 95 % interval 21 to 100), 1 steps"
        ),
        "{table}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    mock.stop().await;
}
