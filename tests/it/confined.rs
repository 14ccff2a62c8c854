//! What people do with Sponde goes on in the sandbox, and nobody is asked more for it: the sessions in `notebooks/`, the
//! quick start, the 25 questions of `scripts/eval`.

use std::path::Path;

use serde_json::{Value, json};
use sponde::agent::approval::Approval;
use sponde::agent::{EventKind, TurnEnd};
use sponde::kernel::sandbox::limits::Limits;
use sponde::llm::scripted::Reply;

use crate::agent::{call, start_with};
use crate::aimock::Aimock;
use crate::sandbox::{bubblewrap, confined};
use crate::support::{Sponde, ipykernel};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text_of(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

const NOTEBOOKS: [&str; 3] = ["foggy-days", "usual-highs", "wet-months"];

#[test]
fn the_sessions_of_notebooks_give_the_same_outputs_confined() {
    let sponde = Sponde::new();
    let paths = NOTEBOOKS.map(|name| format!("{}/notebooks/{name}.ipynb", root().display()));
    let mut arguments = vec![
        "run",
        "--sandbox",
        "workspace",
        "--check",
        "--tolerance",
        "1e-9",
    ];
    arguments.extend(paths.iter().map(String::as_str));
    let ended = sponde.run(&arguments);
    assert_eq!(ended.code, Some(0), "{ended}");
}

/// The code that the models of the notebooks wrote.
fn of_notebooks() -> Vec<String> {
    let cells = NOTEBOOKS.iter().flat_map(|name| {
        let notebook = text_of(&format!("notebooks/{name}.ipynb"));
        let notebook: Value = serde_json::from_str(&notebook).unwrap();
        notebook["cells"].as_array().unwrap().clone()
    });
    let code = cells.filter(|cell| cell["cell_type"] == "code");
    let joined = |cell: Value| match &cell["source"] {
        Value::Array(lines) => lines.iter().filter_map(Value::as_str).collect::<String>(),
        source => source.as_str().unwrap().to_owned(),
    };
    code.map(joined).collect()
}

/// The code that computes the known answers, a cell for each table: what a good model writes.
fn of_questions() -> Vec<String> {
    let text = text_of("tests/eval/answers.py");
    let (_, body) = text.split_once("def answers():\n").unwrap();
    let (body, _) = body.split_once("\ndef followups():").unwrap();
    let helpers = "import pandas as pd\n\
        def table(name, **options): return pd.read_csv(name, **options)\n\
        def number(value, *rest): return float(value)\n\
        def words(*all): return all[0]\n\
        def date(day): return f'{day:%Y-%m-%d}'\n\
        month = date\n";
    let cells = body.split("\n\n").map(|block| {
        let lines = block.lines().map(|line| {
            let line = line.strip_prefix("    ").unwrap_or(line);
            match line.strip_prefix("yield ") {
                Some(answer) => format!("print({answer})\n"),
                None => format!("{line}\n"),
            }
        });
        lines.collect::<String>()
    });
    std::iter::once(helpers.to_owned())
        .chain(cells.filter(|cell| !cell.trim().is_empty()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_asked_about_the_notebooks_and_the_questions() {
    let cells: Vec<String> = of_notebooks().into_iter().chain(of_questions()).collect();
    let replies = cells.iter().map(|code| call(code));
    let replies = replies.chain([Reply::text("Done.")]);
    let mut session = start_with(ipykernel(), Approval::OnRisk, replies, |options, dir| {
        std::fs::create_dir(dir.join("data")).unwrap();
        for from in ["notebooks/data", "tests/eval/data"] {
            for entry in std::fs::read_dir(root().join(from)).unwrap().flatten() {
                // The notebooks look in `data`, the code of the questions in the directory itself.
                for to in [dir.join("data"), dir.to_owned()] {
                    std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
                }
            }
        }
        let home = Path::new("/home/nobody");
        options.kernel.sandbox = confined(bubblewrap(), home, Limits::default());
        options.max_steps = 100;
    });
    session.submit("go").await;
    let (events, end) = session.turn().await;
    assert_eq!(end, TurnEnd::Done, "{events:?}");
    let asked = |event: &&EventKind| matches!(event, EventKind::ApprovalRequested { .. });
    assert_eq!(events.iter().find(asked), None);
    let failed = |event: &&EventKind| match event {
        EventKind::CodeFinished { status, .. } => *status != sponde::session::CellStatus::Ok,
        _ => false,
    };
    let failed: Vec<_> = events.iter().filter(failed).collect();
    let told = format!("{:?}", session.answers());
    // One cell of a notebook failed when its model wrote it as well.
    assert_eq!(failed.len(), 1, "{told}");
    let questions: Value = serde_json::from_str(&text_of("tests/eval/questions.json")).unwrap();
    for question in questions.as_array().unwrap() {
        let id = question["id"].as_str().unwrap();
        assert!(told.contains(id), "{id} was not answered: {told}");
    }
}

/// As `scripts/quickstart` asks it, but without `--yes`: in a pipe, where a question to a person would end the turn.
#[tokio::test(flavor = "multi_thread")]
async fn the_quick_start_asks_nobody() {
    let script = text_of("scripts/quickstart");
    let question = script
        .lines()
        .find_map(|line| line.strip_prefix("default_question='"))
        .unwrap()
        .trim_end_matches('\'');
    let code = "import pandas as pd\nimport matplotlib.pyplot as plt\n\
        df = pd.read_csv('weather.csv', parse_dates=['date'])\n\
        total = df.groupby('city')['precipitation'].sum()\nprint(total)\n\
        total.plot.bar()\nplt.title('Precipitation')\nplt.show()";
    let arguments = json!({ "code": code }).to_string();
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": [
            {"type": "toolCall", "name": "run_code", "arguments": arguments}]}},
        {"match": {"turnIndex": 1}, "response": {"content": "New York gets more rain."}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.write("weather.csv", text_of("notebooks/data/weather.csv"));
    let ended = sponde.run(&[
        "ask",
        question,
        "-f",
        "weather.csv",
        "--model",
        "gpt-4o",
        "--notebook",
        "answer.ipynb",
    ]);
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.stdout.contains("New York gets more rain."), "{ended}");
    assert!(ended.stderr.contains("New York"), "{ended}");
    let files = std::fs::read_dir(sponde.path("answer_files")).unwrap();
    let mut files: Vec<_> = files.map(|it| it.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["plot-1.csv", "plot-1.png", "plot-1.svg"], "{ended}");
    // It was confined.
    let show = sponde.run(&["audit", "show"]).stdout;
    assert!(
        show.contains("approval on-risk; sandbox workspace (bubblewrap), network off"),
        "{show}"
    );
}
