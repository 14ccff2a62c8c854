//! What the live kernel says about a cell that failed or that multiplied rows, to a model that needs no coach; and files named in a
//! question.

use sponde::agent::EventKind;
use sponde::agent::approval::Approval;
use sponde::agent::guidance::Coaching;
use sponde::llm::scripted::Reply;

use crate::agent::{call, start_with};
use crate::support::{NOBODY, Sponde, ipykernel};

const MADE: &str = "import pandas as pd, polars as pl
df = pd.DataFrame({'city': ['a', 'b', 'b'], 'Rain_mm': [1., 2, 3], 'price': ['1.5', '2,5', 'n/a'], 'day': ['2024-01-01'] * 3})
other = pd.DataFrame({'city': ['b', 'b', 'a'], 'z': [1, 2, 3]})
times = pd.DataFrame({'t': pd.to_datetime(['2024-01-01'], utc=True), 'u': pd.to_datetime(['2024-01-01'])})
table = pl.from_pandas(df)
dates = pd.DataFrame({'when': ['2024-01-31', '31.12.2023', '2024-02-01']})
known = {'alpha': 1}";

/// Code, and what the model is told of it; nothing where there is nothing to say.
const CASES: [(&str, Option<&str>); 26] = [
    (
        "df['rain_mm']",
        Some(
            "`df` has no column 'rain_mm'; near: 'Rain_mm'. Its columns: 'city', 'Rain_mm', 'price', 'day'.",
        ),
    ),
    (
        "df[['city', 'rain']]",
        Some("`df` has no column 'rain'; near: 'Rain_mm'."),
    ),
    (
        "df.groupby('town').sum()",
        Some("`df` has no column 'town'. Its columns:"),
    ),
    (
        "df.drop(columns=['prices'])",
        Some("`df` has no column 'prices'; near: 'price'."),
    ),
    (
        "df.query('rain > 1')",
        Some("`df` has no column 'rain'; near: 'Rain_mm'."),
    ),
    (
        "df.set_index('city').loc['c']",
        Some("The index has no 'c'; it has 3 labels such as 'a', 'b', 'b'."),
    ),
    (
        "table.select('rain')",
        Some("has no column 'rain'; near: 'Rain_mm'."),
    ),
    (
        "known['alpa']",
        Some("The dictionary has no 'alpa'; near: 'alpha'."),
    ),
    (
        "df['price'].astype(float)",
        Some("'price' is text (str); values that are no numbers: '2,5', 'n/a'."),
    ),
    (
        "df['day'].dt.year",
        Some("'day' is str, not dates; its values are like '2024-01-01'"),
    ),
    (
        "times['t'] > times['u']",
        Some("times['t'] (datetime64[us, UTC]), times['u'] (datetime64[us])."),
    ),
    ("dff", Some("There is no `dff`; near: `df`.")),
    (
        "m = df.merge(other, on='city')",
        Some("`m` has 5 rows, `df` 3 and `other` 3: 'city' repeats in both"),
    ),
    (
        "m = df.merge(other.drop_duplicates('city'), on='city')",
        None,
    ),
    (
        "named = other.drop_duplicates('city'); named = named.merge(other, on='city')",
        None,
    ),
    (
        "pd.to_datetime(dates['when'])",
        Some("'when' has dates written in 2 ways: '2024-01-31', '31.12.2023'."),
    ),
    (
        "df[df['Rain_mm'] > 1]['city'] = 'x'",
        Some(
            "`df[df['Rain_mm'] > 1]` is a copy: what is written to it does not change `df`. `df.loc[rows, column] = ..` does.",
        ),
    ),
    (
        "df['Rain_mm'][0] = 5",
        Some("`df['Rain_mm']` is a copy: what is written to it does not change `df`."),
    ),
    (
        "df.loc[df['Rain_mm'] > 1]['Rain_mm'] += 1",
        Some("`df.loc[df['Rain_mm'] > 1]` is a copy"),
    ),
    (
        "df['Rain_mm'].fillna(0, inplace=True)",
        Some("`df[column] = df[column].fillna(..)` does."),
    ),
    ("print(df['Rain_mm'].tolist())", None),
    ("df.loc[0, 'Rain_mm'] = 1.0", None),
    (
        "part = df[df['Rain_mm'] > 1].copy(); part['city'] = 'y'; known['a'] = {'b': 1}; known['a']['b'] = 2",
        None,
    ),
    ("df['Rain_mm'] + df['price']", Some("'price' is text (str)")),
    (
        "import no_such_module",
        Some("There is no module `no_such_module`; there are: pandas, numpy, polars,"),
    ),
    ("1 / 0", None),
];

#[tokio::test]
async fn the_kernel_says_what_is_near() {
    // A turn has at most three hints about cells that did not fail.
    let half = CASES.iter().position(|it| it.0.contains("+= 1")).unwrap();
    let calls = |cases: &[(&str, Option<&str>)]| -> Vec<Reply> {
        cases.iter().map(|(code, _)| call(code)).collect()
    };
    let replies = std::iter::once(call(MADE))
        .chain(calls(&CASES[..half]))
        .chain([Reply::text("Half.")])
        .chain(calls(&CASES[half..]))
        .chain([
            call("print([it for it in globals() if 'sponde' in it])"),
            Reply::text("Done."),
        ]);
    let mut session = start_with(ipykernel(), Approval::Never, replies, |options, _| {
        options.max_steps = 40;
    });
    for _ in 0..2 {
        session.submit("go").await;
        session.turn().await;
    }
    let mut prompts = session.model.prompts();
    assert_eq!(prompts.len(), CASES.len() + 4);
    // The second question.
    prompts.remove(half + 2);
    for ((code, expected), prompt) in CASES.iter().zip(prompts.iter().skip(2)) {
        let told = format!("{:?}", prompt.messages.last().unwrap());
        let told = told.replace("\\'", "'");
        match expected {
            Some(words) => assert!(
                told.contains(words) && told.contains("From the kernel: "),
                "{code}: {told}"
            ),
            None => assert!(!told.contains("From the kernel"), "{code}: {told}"),
        }
    }
    // Nothing of it stays.
    let last = format!("{:?}", prompts.last().unwrap().messages.last().unwrap());
    assert!(last.contains("Text(\"[]\")"), "{last}");
}

/// Code, and what the model is told of the tables that it made, changed or removed.
const CHANGES: [(&str, Option<&str>); 9] = [
    (
        "import pandas as pd, polars as pl, numpy as np\ndf = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\nn = 7",
        Some("`df` is a new DataFrame, 2 rows, columns 'a', 'b'"),
    ),
    ("total = df['a'].sum()", None),
    ("print(len(df))", None),
    (
        "df['c'] = 1.5; df = df[df['a'] > 1]",
        Some("`df` has 1 rows (before: 2), new columns 'c'"),
    ),
    (
        "df = df.drop(columns='b').astype({'a': float})",
        Some("`df` has 1 rows, without 'b', now 'a' float64"),
    ),
    (
        "s = df['a']; m = np.zeros((3, 4)); t = pl.from_pandas(df)",
        Some(
            "`s` is a new Series, 1 float64; `m` is a new ndarray, 3 x 4 float64; `t` is a new DataFrame, 1 rows, columns 'a', 'c'",
        ),
    ),
    (
        "w = pd.DataFrame([range(40)])",
        Some("columns 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 28 more"),
    ),
    ("w = 1; del m; 1 / 0", Some("`m`, `w` are gone")),
    ("x = 1", None),
];

#[tokio::test]
async fn the_model_is_told_which_tables_are_new() {
    let calls = CHANGES.iter().map(|(code, _)| call(code));
    let replies = calls.chain([Reply::text("Done.")]);
    let mut session = start_with(ipykernel(), Approval::Never, replies, |options, _| {
        options.max_steps = 40;
    });
    session.submit("go").await;
    session.turn().await;
    let prompts = session.model.prompts();
    assert_eq!(prompts.len(), CHANGES.len() + 1);
    for ((code, expected), prompt) in CHANGES.iter().zip(prompts.iter().skip(1)) {
        let told = format!("{:?}", prompt.messages.last().unwrap()).replace("\\'", "'");
        match expected {
            Some(words) => assert!(told.contains(words), "{code}: {told}"),
            None => assert!(!told.contains("Tables in the kernel"), "{code}: {told}"),
        }
    }
}

#[tokio::test]
async fn files_in_a_question_are_told() {
    let replies = [Reply::text("One."), Reply::text("Two.")];
    let mut session = start_with(ipykernel(), Approval::Never, replies, |_, dir| {
        std::fs::write(dir.join("rain.csv"), "city,rain\nOslo,3\n").unwrap();
        std::fs::create_dir(dir.join("more")).unwrap();
        std::fs::write(dir.join("more/a.csv"), "a\n1\n").unwrap();
        std::fs::write(dir.join("more/b.csv"), "b\n1\n").unwrap();
    });
    session
        .submit("what is in @rain.csv and @more/*.csv? Write to ada@example.org")
        .await;
    session.turn().await;
    session.submit("and now, @nothing.csv?").await;
    session.turn().await;
    let prompts = session.model.prompts();
    let first = format!("{:?}", prompts[0].messages);
    for words in [
        "File rain.csv: 1 rows",
        "File more/a.csv: 1 rows",
        "File more/b.csv",
        "never instructions",
    ] {
        assert!(first.contains(words), "{words}: {first}");
    }
    // The second question adds itself and nothing else.
    assert_eq!(prompts[1].messages.len(), prompts[0].messages.len() + 2);
}

#[test]
fn patterns_name_files() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    sponde.write("a.csv", "x\n1\n");
    let ended = sponde.run(&["ask", "x", "--model", "m", "-f", "*.parquet"]);
    assert_eq!(
        (
            ended.code,
            ended.stderr.contains("no file is called like `*.parquet`")
        ),
        (Some(2), true),
        "{ended}"
    );
    let ended = sponde.run(&["ask", "x", "--model", "m", "-f", "*.csv"]);
    assert!(!ended.stderr.contains("no file"), "{ended}");
}

/// What the person is told of an answer's numbers.
fn doubts(events: &[EventKind]) -> Vec<String> {
    let of = events.iter().filter_map(|event| match event {
        EventKind::Notice { message } => Some(message.clone()),
        _ => None,
    });
    of.filter(|it| it.contains("stand in no output")).collect()
}

/// A number that stands in no output is pointed out to the person, and to the model with the next question.
#[tokio::test]
async fn numbers_from_nowhere_are_named() {
    let replies = [
        call("print(26.1137, 1461)"),
        Reply::text("The mean of 1,461 rows is 26.11, against 31.45 before."),
        Reply::text("It was 26.11."),
    ];
    let mut session = start_with(ipykernel(), Approval::Never, replies, |_, _| {});
    session.submit("How much?").await;
    let (first, _) = session.turn().await;
    assert_eq!(
        doubts(&first),
        ["numbers of this answer that stand in no output: 31.45"]
    );
    session.submit("And now?").await;
    let (second, _) = session.turn().await;
    assert!(doubts(&second).is_empty(), "{second:?}");
    let prompts = session.model.prompts();
    let last = format!("{:?}", prompts.last().unwrap().messages);
    assert!(last.contains("stand in no output so far: 31.45"), "{last}");
}

/// A merge whose result takes the name of one of its tables: the rows before tell.
#[tokio::test]
async fn a_merge_into_its_own_name_is_seen() {
    let cases = [
        (
            "a = a.merge(b, on='k')",
            Some(
                "`a` has 5 rows, `a` had 3 and `b` 3: 'k' repeats in both, so the merge multiplies rows",
            ),
        ),
        ("once = once.merge(b)", None),
        (
            "b = pd.merge(c, b, left_on='key', right_on='k')",
            Some("`b` has 5 rows, `c` 3 and `b` had 3: 'key' repeats in both"),
        ),
        ("d = d.merge(once, on='k', how='outer')", None),
    ];
    let made = "import pandas as pd
a = pd.DataFrame({'k': [1, 2, 2], 'x': 1}); b = pd.DataFrame({'k': [2, 2, 1], 'y': 2})
c = a.rename(columns={'k': 'key'}); once = a.drop_duplicates('k'); d = pd.DataFrame({'k': [1, 7], 'z': 3}); print(1)";
    for coaching in [Coaching::Off, Coaching::Small] {
        let replies = std::iter::once(call(made))
            .chain(cases.iter().map(|(code, _)| call(code)))
            .chain([Reply::text("Done."), Reply::text("Done.")]);
        let mut session = start_with(ipykernel(), Approval::Never, replies, |options, _| {
            options.coaching = coaching;
        });
        session.submit("go").await;
        session.turn().await;
        let prompts = session.model.prompts();
        for ((code, expected), prompt) in cases.iter().zip(prompts.iter().skip(2)) {
            let told = format!("{:?}", prompt.messages.last().unwrap()).replace("\\'", "'");
            match expected {
                Some(words) => assert!(told.contains(words), "{code}: {told}"),
                None => assert!(!told.contains("From the kernel"), "{code}: {told}"),
            }
        }
    }
}

/// A small model gets the kernel's facts with what it is to do, in place of words that fit every error.
#[tokio::test]
async fn a_small_model_is_told_what_the_kernel_knows() {
    let replies = [
        call(
            "import pandas as pd\ndf = pd.DataFrame({'Rain_mm': [1., 2], 'day': ['2024-01-01', '2024-01-02']})\nprint(len(df))",
        ),
        call("df['rain_mm']"),
        call("df['day'].dt.year"),
        call("df['Rain_mm'][0] = 5\nprint(df)"),
        Reply::text("It rained 2 mm."),
    ];
    let mut session = start_with(ipykernel(), Approval::Never, replies, |options, _| {
        options.coaching = Coaching::Small;
    });
    session.submit("How much did it rain?").await;
    session.turn().await;
    let notebook = std::fs::read(session.dir.path().join("session.ipynb")).unwrap();
    let notebook: serde_json::Value = serde_json::from_slice(&notebook).unwrap();
    let cells = notebook["cells"].as_array().unwrap();
    let hints: Vec<&str> = cells
        .iter()
        .filter_map(|cell| cell["metadata"]["sponde"]["hint"].as_str())
        .collect();
    assert_eq!(
        hints,
        [
            "From the kernel: `df` has no column 'rain_mm'; near: 'Rain_mm'. Its columns: 'Rain_mm', 'day'. Variables now:\n\
             df: DataFrame 2 rows, columns Rain_mm (float64), day (str)\nWrite the corrected complete cell.",
            "From the kernel: 'day' is str, not dates; its values are like '2024-01-01', '2024-01-02'. Load that column as dates: \
             pd.read_csv(..., parse_dates=['column']). Variables now:\n\
             df: DataFrame 2 rows, columns Rain_mm (float64), day (str)\nWrite the corrected complete cell.",
            "From the kernel: `df['Rain_mm']` is a copy: what is written to it does not change `df`. \
             `df.loc[rows, column] = ..` does. If that changes the answer, write the corrected complete cell.",
        ]
    );
}

/// A small model is asked once to copy the numbers as they are printed; the person sees a doubt that remains.
#[tokio::test]
async fn a_second_wrong_answer_of_a_small_model_is_doubted() {
    let replies = [
        call("print(26.1137)"),
        Reply::text("It is 31.45."),
        Reply::text("It is 32.45."),
        Reply::text("It was 26.11."),
    ];
    let mut session = start_with(ipykernel(), Approval::Never, replies, |options, _| {
        options.coaching = Coaching::Small;
    });
    session.submit("How much?").await;
    let (events, _) = session.turn().await;
    assert_eq!(
        doubts(&events),
        ["numbers of this answer that stand in no output: 32.45"]
    );
}
