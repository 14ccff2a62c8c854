//! Questions that could follow, and what lies beside a plot: its vector graphic and its data.

use serde_json::json;
use sponde::agent::approval::Approval;
use sponde::agent::{Command, EventKind};
use sponde::llm::scripted::{Reply, Step};

use crate::agent::{call, start_with};
use crate::aimock::Aimock;
use crate::support::{Sponde, ipykernel};
use crate::terminal::{model_that_runs, play};

fn suggested(events: &[EventKind]) -> Vec<String> {
    let of = events.iter().filter_map(|event| match event {
        EventKind::FollowUps { questions } => Some(questions.clone()),
        _ => None,
    });
    of.flatten().collect()
}

#[tokio::test]
async fn the_model_is_asked_for_questions_where_they_are_wanted() {
    let three = "1. Which city?\n2. \"How much?\"\n- When?\n4. Why?";
    let replies = [
        Reply::text("Rome."),
        Reply::text(three),
        call("print(1)"),
        Reply::text("One."),
        Reply::text("Here are three:"),
        Reply::text("Only when asked?"),
    ];
    let mut session = start_with(ipykernel(), Approval::Never, replies, |options, _| {
        options.follow_ups = true;
    });
    session.submit("where?").await;
    let (events, _) = session.turn().await;
    assert_eq!(suggested(&events), ["Which city?", "How much?", "When?"]);
    assert!(matches!(
        events.last(),
        Some(EventKind::TurnFinished { .. })
    ));
    session.submit("and how often?").await;
    let (events, _) = session.turn().await;
    assert_eq!(suggested(&events), Vec::<String>::new());
    session.send(Command::Suggest).await;
    let (events, _) = session.turn().await;
    assert_eq!(suggested(&events), ["Only when asked?"]);
    let prompts = session.model.prompts();
    assert_eq!(prompts.len(), 6);
    // It is asked beside the conversation, which begins as before and does not have it.
    assert_eq!(prompts[1].messages.len(), prompts[0].messages.len() + 2);
    let said = format!("{:?}", prompts[2].messages);
    assert!(
        !said.contains("Suggest three") && !said.contains("Which city?"),
        "{said}"
    );
    // A cell of the person's own is no answer.
    session
        .send(Command::Run {
            code: "2".to_owned(),
            language: None,
        })
        .await;
    let (events, _) = session.turn().await;
    assert_eq!(suggested(&events), Vec::<String>::new());
}

#[tokio::test]
async fn an_interrupt_ends_the_wait_for_questions() {
    let replies = [
        Reply::text("Rome."),
        Reply::new([Step::Hang]),
        Reply::text("Again."),
    ];
    let mut session = start_with(ipykernel(), Approval::Never, replies, |options, _| {
        options.follow_ups = true;
    });
    session.submit("where?").await;
    while session.model.prompts().len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    session.send(Command::Interrupt).await;
    let (events, _) = session.turn().await;
    assert_eq!(suggested(&events), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_shows_questions_and_asks_one_by_its_number() {
    let mock = Aimock::start(&json!([
        {"match": {"sequenceIndex": 0}, "response": {"content": "Much."}},
        {"match": {"sequenceIndex": 1}, "response": {"content": "Which city is wettest?\nWhich month?\nWhat about snow?"}},
        {"match": {"sequenceIndex": 2}, "response": {"content": "It was May."}},
        {"match": {"sequenceIndex": 3}, "response": {"content": "Which year?"}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure("follow-ups = true\n");
    let screen = tokio::task::block_in_place(|| {
        play(
            &sponde,
            &["--model", "gpt-4o"],
            &json!([
                ["wait", "> "],
                ["type", "/next 1\n"],
                ["wait", "nothing is suggested yet"],
                ["type", "how much rain?\n"],
                ["wait", "/next 3  What about snow?"],
                ["type", "/next 7\n"],
                ["wait", "there are suggestions 1 to 3"],
                ["type", "/next 2\n"],
                ["wait", "It was May."],
                ["type", "/exit\n"],
            ]),
        )
    });
    mock.stop().await;
    assert!(screen.all.contains("> Which month?"), "{}", screen.all);
}

const PLOTS: &str = "import matplotlib.pyplot as plt, pandas as pd
df = pd.DataFrame({'city': ['Oslo', 'Rome'], 'rain': [1.5, 2.0]})
fig, (a, b) = plt.subplots(1, 2)
a.bar(df['city'], df['rain'], label='rain'); a.set_title('Rain'); a.set_ylabel('mm')
b.plot(pd.to_datetime(['2024-01-01', '2024-01-02']), [3, 4], label='line'); b.scatter([1.0], [2.0])
plt.show()
df.plot.bar(x='city', y='rain'); plt.show()
import numpy as np
plt.plot(np.zeros(30_000)); plt.show()";

/// Beside each picture lie the same as vectors and what was drawn; the notebook and the model have the picture alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_plot_keeps_its_graphic_and_its_data() {
    let mock = model_that_runs(PLOTS).await;
    let sponde = Sponde::new().with_model(&mock);
    let ended = tokio::task::block_in_place(|| {
        sponde.run(&[
            "ask",
            "go",
            "--yes",
            "--model",
            "gpt-4o",
            "--notebook",
            "out.ipynb",
        ])
    });
    let prompts = json!(mock.journal().await).to_string();
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(
        ended.stderr.contains("plot-1.png (and .svg, .csv)"),
        "{ended}"
    );
    let svg = sponde.read("out_files/plot-1.svg");
    assert!(svg.contains("<svg"), "{svg}");
    assert_eq!(
        sponde.read("out_files/plot-1.csv"),
        "axes,title,kind,series,x_label,y_label,x,y\n\
         1,Rain,bar,rain,,mm,Oslo,1.5\n\
         1,Rain,bar,rain,,mm,Rome,2\n\
         2,,line,line,,,2024-01-01T00:00:00,3\n\
         2,,line,line,,,2024-01-02T00:00:00,4\n\
         2,,scatter,,,,1970-01-02T00:00:00+00:00,2\n"
    );
    let second = sponde.read("out_files/plot-2.csv");
    assert!(second.contains("1,,bar,rain,city,,Oslo,1.5"), "{second}");
    // Thirty thousand points are too many for vectors.
    assert!(sponde.path("out_files/plot-3.png").exists());
    assert!(!sponde.path("out_files/plot-3.svg").exists());
    let notebook = sponde.read("out.ipynb");
    for text in [&notebook, &prompts] {
        assert!(!text.contains("vnd.sponde.plot") && !text.contains("<svg"));
    }
}

/// The same code as the page's downloads; a file that is there stays.
#[test]
fn a_table_is_saved_from_the_terminal() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", crate::support::NOBODY);
    let lines = "!import pandas as pd; df = pd.DataFrame({'city': ['Oslo', 'Rome', 'Oslo'], 'rain': [1.5, 2.0, 0.5]})\n\
                 /table df sort rain filter oslo save rain.csv\n\
                 /table df save rain.xlsx\n\
                 /table df save rain.parquet\n\
                 /table df save rain.csv\n\
                 /table df save rain.docx\n\
                 /table nothing save x.csv\n\
                 !print('read', len(pd.read_excel('rain.xlsx')), len(pd.read_parquet('rain.parquet')))\n";
    let mut command = assert_cmd::Command::from_std(sponde.command(&["--model", "m"]));
    let output = command
        .timeout(std::time::Duration::from_mins(2))
        .write_stdin(lines)
        .output()
        .unwrap();
    let shown = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        sponde.read("rain.csv"),
        "city,rain\nOslo,0.5\nOslo,1.5\n",
        "{shown}"
    );
    for words in [
        "saved rain.csv (",
        "read 3 3",
        "could not save `rain.csv`: it is there already",
        "end it in .csv, .parquet or .xlsx",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    assert!(!sponde.path("x.csv").exists(), "{shown}");
}
