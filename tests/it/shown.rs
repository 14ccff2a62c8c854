//! What a person sees of a cell: on a terminal of 80 columns and 24 rows, on one without a cursor, and in a pipe.

use std::time::Duration;

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::drawn::Drawn;
use crate::support::{Ended, Sponde};
use crate::terminal::{Screen, model_that_runs, play_on};

const ASK: [&str; 5] = ["ask", "--yes", "--model", "gpt-4o", "go"];
const XTERM: &str = "xterm-256color";

/// Asks a model that wants to run `code`, in a pipe.
async fn piped(code: &str) -> Ended {
    let mock = model_that_runs(code).await;
    let sponde = Sponde::new().with_model(&mock);
    let run = tokio::task::block_in_place(|| sponde.run(&ASK));
    mock.stop().await;
    run
}

/// The same on a terminal; `steps` come after the first words of the program.
async fn on_terminal(term: &str, code: &str, steps: &[Value]) -> Screen {
    let mock = model_that_runs(code).await;
    let sponde = Sponde::new().with_model(&mock);
    let all = [&[json!(["size", "24x80"])], steps].concat();
    let screen = tokio::task::block_in_place(|| play_on(term, &sponde, &ASK, &json!(all)));
    mock.stop().await;
    assert_eq!(screen.code, 0, "{}", screen.all);
    screen
}

/// The rows that a terminal of 80 columns has, with those that scrolled out of it, after it got `text`.
pub(crate) fn rows(text: &str) -> Vec<String> {
    const WIDE: usize = 80;
    const HIGH: usize = 24;
    let mut rows: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0usize, 0usize);
    let mut saved = (0, 0);
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\n' | '\u{b}' => row += 1,
            '\u{1b}' => {
                match rest.next() {
                    Some('[') => {}
                    Some('7') => {
                        saved = (row, column);
                        continue;
                    }
                    Some('8') => {
                        (row, column) = saved;
                        continue;
                    }
                    other => panic!("an unknown sequence: {other:?}"),
                }
                let mut codes = String::new();
                let end = loop {
                    match rest.next().unwrap() {
                        c @ ('0'..='9' | ';' | '?') => codes.push(c),
                        end => break end,
                    }
                };
                match end {
                    'A' => {
                        let top = rows.len().saturating_sub(HIGH);
                        row = row.saturating_sub(codes.parse().unwrap_or(1)).max(top);
                    }
                    'B' => row += codes.parse().unwrap_or(1),
                    'K' => rows[row].truncate(column),
                    'J' => {
                        rows[row].truncate(column);
                        for below in &mut rows[row + 1..] {
                            below.clear();
                        }
                    }
                    'm' | 'h' | 'l' => {}
                    other => panic!("an unknown sequence: {codes}{other}"),
                }
            }
            c => {
                if column == WIDE {
                    (row, column) = (row + 1, 0);
                }
                if row == rows.len() {
                    rows.push(Vec::new());
                }
                let line = &mut rows[row];
                if line.len() <= column {
                    line.resize(column + 1, ' ');
                }
                line[column] = c;
                column += 1;
            }
        }
        while rows.len() <= row {
            rows.push(Vec::new());
        }
    }
    let text = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
    rows.iter().map(text).collect()
}

/// What stands below the rule of the output, up to the model's answer.
fn output(rows: &[String]) -> Vec<&str> {
    let begin = rows.iter().rposition(|row| row.starts_with("── output "));
    let rows = rows[begin.unwrap_or_else(|| panic!("no output in {rows:#?}")) + 1..].iter();
    // How long it took is different each time.
    let is_time = |row: &str| row.starts_with('(') && row.ends_with(" s)");
    let goes_on =
        |row: &&String| *row != "That was it." && !row.contains(" tokens in") && !is_time(row);
    let mut rows: Vec<&str> = rows.take_while(goes_on).map(String::as_str).collect();
    while rows.last() == Some(&"") {
        rows.pop();
    }
    rows
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_much_output_is_shown_everywhere() {
    let code = "for i in range(100): print('line', i)\n1/0";
    let pipe = piped(code).await;
    let dumb = on_terminal("dumb", code, &[]).await;
    let xterm = on_terminal(XTERM, code, &[]).await;
    for rows in [lines(&pipe.stderr), rows(&dumb.all), rows(&xterm.all)] {
        let shown = output(&rows);
        let numbers: Vec<String> = (0..100).map(|n| format!("line {n}")).collect();
        assert_eq!(shown[..40], numbers[..40]);
        assert_eq!(shown[40], "… 40 more lines, in the notebook");
        assert_eq!(shown[41..61], numbers[80..]);
        let error = "ZeroDivisionError: division by zero";
        assert_eq!(shown.last(), Some(&error), "{shown:?}");
    }
    // A terminal that cannot move its cursor gets nothing but text.
    assert!(!dumb.all.contains('\u{1b}'), "{:?}", dumb.all);
}

/// The last line of a hundred is on the screen while the cell still runs, and the rule above it, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_cell_shows_its_end() {
    let code = "import os, time\nfor i in range(100): print('line', i)\n\
                while not os.path.exists('on'): time.sleep(.05)\nprint('over'); 6 * 7";
    let mock = model_that_runs(code).await;
    let sponde = Sponde::new().with_model(&mock);
    let screen = tokio::task::block_in_place(|| {
        let steps = json!([["size", "24x80"], ["wait", "line 99"], ["touch", "on"]]);
        play_on(XTERM, &sponde, &ASK, &steps)
    });
    mock.stop().await;
    let before = rows(&screen.waited[0]);
    let shown = output(&before);
    assert_eq!(shown[0], "… 80 lines above");
    assert_eq!(
        (shown[1], shown[20], shown.len()),
        ("line 80", "line 99", 21)
    );
    let after = rows(&screen.all);
    let shown = output(&after);
    assert_eq!(
        (shown[0], shown[40], &shown[60..]),
        (
            "line 0",
            "… 41 more lines, in the notebook",
            &["over", "42", "files: + on (0 B)"][..]
        )
    );
    assert_eq!(screen.code, 0);
}

/// What changes in place is one thing on a terminal, and its last state in a pipe.
#[tokio::test(flavor = "multi_thread")]
async fn progress_is_drawn_in_place() {
    let pause = Duration::from_millis(15).as_secs_f64();
    let code = format!(
        "import time\nfrom tqdm import tqdm\nfrom IPython.display import clear_output, display\n\
         for i in range(40):\n    clear_output(wait=True); print('cleared', i); time.sleep({pause})\n\
         for i in tqdm(range(200)): time.sleep({pause})\nprint('done')\n\
         shown = display('state', display_id=True)\n\
         for i in range(20): shown.update(f'state {{i}}'); time.sleep({pause})"
    );
    let pipe = piped(&code).await;
    let xterm = on_terminal(XTERM, &code, &[]).await;
    for rows in [lines(&pipe.stderr), rows(&xterm.all)] {
        let shown = output(&rows);
        assert_eq!(shown.len(), 4, "{shown:?}");
        assert_eq!(shown[0], "cleared 39");
        assert!(shown[1].starts_with("100%|") && shown[1].contains("| 200/200 ["));
        assert_eq!(shown[2..], ["done", "'state 19'"]);
    }
    // They moved before they were over.
    assert!(xterm.all.contains("cleared 20") || xterm.all.contains("cleared 21"));
    // What stands still is printed while the cell runs, where nothing can be drawn over.
    let slow = "print('begun')\nwhile True: pass";
    let steps = [json!(["wait", "begun\r\n"]), json!(["signal", "TERM"])];
    let mock = model_that_runs(slow).await;
    let sponde = Sponde::new().with_model(&mock);
    tokio::task::block_in_place(|| play_on("dumb", &sponde, &ASK, &json!(steps)));
    mock.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plot_leaves_room_on_the_screen() {
    let code = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2]); plt.show()";
    let screen = on_terminal(XTERM, code, &[]).await;
    let rows = rows(&screen.all);
    let plot = output(&rows).iter().filter(|row| row.contains('▀')).count();
    assert_eq!(plot, 16, "{}", screen.all);
}

/// What a terminal cannot draw is a file, the person is told where, and the model that it is one.
#[tokio::test(flavor = "multi_thread")]
async fn charts_graphics_and_html_are_files() {
    let code = "from IPython.display import SVG, HTML, display\n\
        display(SVG('<svg width=\"30\" height=\"20\"><text>hello</text></svg>'))\n\
        display(HTML('<b>bold</b>'))\n\
        figure = {'data': [{'type': 'bar', 'y': [1, 2]}], 'layout': {}}\n\
        display({'application/vnd.plotly.v1+json': figure, 'text/plain': 'Figure({})'}, raw=True)";
    let mock = model_that_runs(code).await;
    let sponde = Sponde::new().with_model(&mock);
    let arguments = [&ASK[..], &["--notebook", "out.ipynb"]].concat();
    let run = tokio::task::block_in_place(|| sponde.run(&arguments));
    let requests = mock.journal().await;
    mock.stop().await;
    assert_eq!(run.code, Some(0), "{run}");
    let rows = lines(&run.stderr);
    let file = |name: &str| sponde.path("out_files").join(name).display().to_string();
    assert_eq!(
        output(&rows),
        [
            "[vector graphic, 30 x 20, 0 shapes; words in it: hello]",
            "bold",
            "[Plotly figure; bar, y: 2 from 1 to 2]",
            &format!("plot: {}", file("plot-1.svg")),
            &format!("page: {}", file("plot-2.html")),
            &format!("page: {} (and .csv)", file("plot-3.html")),
        ]
    );
    assert!(sponde.read("out_files/plot-1.svg").contains("<svg width="));
    assert!(sponde.read("out_files/plot-2.html").contains("<b>bold</b>"));
    let chart = sponde.read("out_files/plot-3.html");
    assert!(
        chart.contains(r#""y":[1,2]"#) && chart.contains("plotly"),
        "{chart}"
    );
    let told = requests.last().unwrap().to_string();
    for words in [
        "[vector graphic in a file that the user can open, out_files/plot-1.svg, 30 x 20",
        "bold\\\\n[as HTML in a file that the user can open, out_files/plot-2.html]",
        "[Plotly figure in a file that the user can open, out_files/plot-3.html; bar",
    ] {
        let words = words.replace("\\\\n", "\\n");
        assert!(told.contains(&words), "{words}: {told}");
    }
    // A script's are files, too.
    let run = sponde.run(&["run", "-c", code]);
    for end in ["plot-1.svg", "plot-2.html", "plot-3.html"] {
        assert!(run.stderr.contains(end), "{run}");
    }
}

/// A call without code shows no empty cell, and what the model is to do about it is said to the model alone.
#[tokio::test(flavor = "multi_thread")]
async fn a_broken_call_is_told_in_words_for_a_person() {
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": {"blocks": [
            {"type": "toolCall", "name": "run_code", "arguments": "{\"cod\": \"1\"}"}]}},
        {"match": {"turnIndex": 1}, "response": {"content": "You see\r\nme.\rNo\u{8}w."}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let run = tokio::task::block_in_place(|| sponde.run(&ASK));
    mock.stop().await;
    assert!(
        run.stderr.contains("the model's call was not run: "),
        "{run}"
    );
    for absent in ["──", "Call `run_code` again"] {
        assert!(!run.stderr.contains(absent), "{absent} in {run}");
    }
    // Its words cannot go back over what is there.
    assert_eq!(run.stdout, "You see\nme.\nNow.\n");
}

/// A person may think about code for as long as they like.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_person_takes_no_time_of_the_turn() {
    let mock = model_that_runs("print('ran')").await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.configure("approval = \"always\"\n");
    let begun = std::time::Instant::now();
    let screen = tokio::task::block_in_place(|| {
        let steps = json!([
            ["wait", "or say what to do instead:"],
            ["pause", "6"],
            ["type", "y\n"],
            ["wait", "That was it."],
        ]);
        play_on("dumb", &sponde, &["ask", "--model", "gpt-4o", "go"], &steps)
    });
    let took = begun.elapsed().as_secs_f64();
    mock.stop().await;
    let line = screen.all.lines().find(|line| line.contains(" out, "));
    let (_, seconds) = line.unwrap().rsplit_once(", ").unwrap();
    let seconds: f64 = seconds.trim().trim_end_matches(" s").parse().unwrap();
    assert!(seconds <= took - 6.0, "{seconds} of {took}");
}

/// A kernel knows how wide the terminal is: pandas breaks no table that fits.
#[tokio::test(flavor = "multi_thread")]
async fn printed_tables_are_as_wide_as_the_terminal() {
    let code = "import pandas as pd\nprint(pd.DataFrame({f'column_{n}': [n] for n in range(12)}))";
    for (columns, blocks) in [(160, 1), (60, 3)] {
        let mock = model_that_runs(code).await;
        let sponde = Sponde::new().with_model(&mock);
        let steps = json!([["size", format!("24x{columns}")]]);
        let screen = tokio::task::block_in_place(|| play_on("dumb", &sponde, &ASK, &steps));
        mock.stop().await;
        let shown = lines(&screen.all);
        let shown: Vec<&str> = output(&shown);
        let heads = shown.iter().filter(|line| line.contains("column_"));
        assert_eq!(heads.count(), blocks, "{shown:#?}");
    }
}

/// A frame as a result is a table as wide as the terminal, which names the columns that have no room.
#[tokio::test(flavor = "multi_thread")]
async fn a_wide_result_fits_the_terminal() {
    let code =
        "import pandas as pd\npd.DataFrame({f'column_{n}': [n * 1000, n] for n in range(14)})";
    let names = |range: std::ops::Range<usize>| {
        let names: Vec<String> = range.map(|n| format!("column_{n}")).collect();
        names
    };
    for columns in [60, 200] {
        let mock = model_that_runs(code).await;
        let sponde = Sponde::new().with_model(&mock);
        let steps = json!([["size", format!("24x{columns}")]]);
        let screen = tokio::task::block_in_place(|| play_on(XTERM, &sponde, &ASK, &steps));
        mock.stop().await;
        assert_eq!(screen.code, 0, "{}", screen.all);
        let drawn: Vec<String> = Drawn::of(&screen)
            .rows()
            .into_iter()
            .map(|row| row.text)
            .collect();
        let shown = output(&drawn);
        assert!(
            shown.iter().all(|line| line.chars().count() <= columns),
            "{shown:#?}"
        );
        let head: Vec<&str> = shown[0].split_whitespace().collect();
        assert_eq!(head, names(0..head.len()), "{shown:#?}");
        let rest = names(head.len()..14);
        if columns == 200 {
            assert!(rest.is_empty(), "{shown:#?}");
        } else {
            let more = format!("and {} more columns: {}", rest.len(), rest.join(", "));
            let told = shown[3..].join(" ");
            assert!(
                told.starts_with(more.get(..50).unwrap()),
                "{more}: {shown:#?}"
            );
        }
        assert!(
            shown[1].starts_with('0') && shown[2].starts_with('1'),
            "{shown:#?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn formulas_are_shown_as_text() {
    let code = "from IPython.display import Latex, Math, display\n\
                display(Latex('$E = mc^2$'))\ndisplay(Math(r'\\frac{1}{2}'))\n\
                display({'text/latex': '$a_1$', 'text/plain': 'a1'}, raw=True)";
    let screen = on_terminal(XTERM, code, &[]).await;
    let rows = rows(&screen.all);
    assert_eq!(
        output(&rows),
        ["$E = mc^2$", "$\\displaystyle \\frac{1}{2}$", "a1"]
    );
}
