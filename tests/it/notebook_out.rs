//! What leaves the house: exports of a real session, and of everybody's notebooks.

use std::path::Path;
use std::process::Command;

use insta::assert_snapshot;
use serde_json::{Value, json};
use sponde::agent::approval::Approval;
use sponde::agent::{Decision, EventKind};
use sponde::export::{self, Options};
use sponde::jupyter::nbformat::{Notebook, random_cell_id};
use sponde::llm::scripted::Reply;

use crate::agent::{Session, start};
use crate::support::{Sponde, ipykernel, python_prefix, tools};

/// A session with a table, a plot, a failure, code that was changed and code that was declined.
async fn session() -> Session {
    let call = |text: &str, code: &str| {
        Reply::call(text, "id", "run_code", &json!({ "code": code }).to_string())
    };
    let mut session = start(
        ipykernel(),
        Approval::Always,
        [
            call(
                "Let me see.",
                "import pandas as pd\ndf = pd.DataFrame({'city': ['Rome', 'Oslo'], 'rain': [1.5, 2.5]})\ndf",
            ),
            call("", "df.plot()"),
            call("", "df['snow'].sum()"),
            call("", "import shutil\nshutil.rmtree('/')"),
            call(
                "",
                "import matplotlib.pyplot as plt\nplt.bar(df.city, df.rain)\nplt.show()",
            ),
            Reply::text("**Oslo**, with `2.5`.\n\n| a | b |\n|---|---|\n| 1 | 2 |"),
        ],
    );
    session.submit("Where does it rain more?").await;
    let decisions = [
        Decision::Run,
        Decision::Change {
            source: "print('no plot')".to_owned(),
        },
        Decision::Run,
        Decision::Decline {
            reason: Some("never".to_owned()),
        },
        Decision::Run,
    ];
    for decision in decisions {
        let events = session
            .until(|event| matches!(event, EventKind::ApprovalRequested { .. }))
            .await;
        let Some(EventKind::ApprovalRequested { cell, .. }) = events.last().cloned() else {
            unreachable!()
        };
        session
            .send(sponde::agent::Command::Decide { cell, decision })
            .await;
    }
    session.turn().await;
    session
}

/// Runs Python, with a file as its argument, and gives what it printed.
fn python(code: &str, argument: &Path) -> String {
    let output = Command::new(python_prefix().join("bin/python"))
        .args(["-W", "ignore", "-c", code])
        .arg(argument)
        .env("JUPYTER_PLATFORM_DIRS", "1")
        .current_dir(std::env::temp_dir())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// What official tools say of a notebook: valid to the letter, runs again, becomes HTML.
const OFFICIAL: &str = "
import json, sys, nbformat
from nbformat import validator
from nbclient import NotebookClient
from nbconvert import HTMLExporter
path = sys.argv[1]
raw = json.load(open(path))
errors = list(validator.iter_validate(raw, version=4, version_minor=raw['nbformat_minor'], relax_add_props=False))
assert not errors, errors
nb = nbformat.read(path, as_version=nbformat.NO_CONVERT)
nbformat.validate(nb)
assert nbformat.writes(nb) + '\\n' == open(path).read(), 'another normal form'
html, _ = HTMLExporter().from_notebook_node(nb)
assert '<html' in html
NotebookClient(nb, timeout=120, kernel_name='python3', allow_errors=True).execute()
print(json.dumps([[o['output_type'] for o in c.get('outputs', [])] for c in nb.cells if c.cell_type == 'code']))
";

#[tokio::test(flavor = "multi_thread")]
#[expect(
    clippy::too_many_lines,
    reason = "one session, and all that it becomes"
)]
async fn exports_of_a_session() {
    let session = session().await;
    let sponde = Sponde::new();
    std::fs::copy(
        session.dir.path().join("session.ipynb"),
        sponde.path("rain.ipynb"),
    )
    .unwrap();
    let outputs = [
        ["page.html", ""],
        ["clean.html", "--clean"],
        ["text.md", ""],
        ["clean.md", "--clean"],
        ["code.py", ""],
        ["clean.py", "--clean"],
        ["same.ipynb", ""],
        ["clean.ipynb", "--clean"],
    ];
    for [output, clean] in outputs {
        let mut arguments = vec!["export", "rain.ipynb", "-o", output];
        arguments.extend((!clean.is_empty()).then_some(clean));
        let ended = sponde.run(&arguments);
        assert_eq!(
            (ended.code, &*ended.stdout, &*ended.stderr),
            (Some(0), "", ""),
            "{output}"
        );
    }
    assert_eq!(sponde.read("same.ipynb"), sponde.read("rain.ipynb"));
    let ran = python(OFFICIAL, &sponde.path("rain.ipynb"));
    assert_eq!(
        serde_json::from_str::<Value>(&ran).unwrap(),
        json!([
            ["execute_result"],
            ["stream"],
            ["error"],
            [],
            ["display_data"]
        ])
    );
    let ran = python(OFFICIAL, &sponde.path("clean.ipynb"));
    assert_eq!(
        serde_json::from_str::<Value>(&ran).unwrap(),
        json!([["execute_result"], ["stream"], ["display_data"]])
    );
    assert!(!sponde.read("clean.ipynb").contains("sponde"));
    assert_snapshot!(sponde.read("code.py"), @"
    # %% [markdown]
    # Where does it rain more?

    # %% [markdown]
    # Let me see.

    # %%
    import pandas as pd
    df = pd.DataFrame({'city': ['Rome', 'Oslo'], 'rain': [1.5, 2.5]})
    df

    # %%
    print('no plot')

    # %%
    df['snow'].sum()

    # %% declined, not run
    # import shutil
    # shutil.rmtree('/')

    # %%
    import matplotlib.pyplot as plt
    plt.bar(df.city, df.rain)
    plt.show()

    # %% [markdown]
    # **Oslo**, with `2.5`.
    #
    # | a | b |
    # |---|---|
    # | 1 | 2 |
    ");
    assert_snapshot!(sponde.read("clean.py"), @"
    # %% [markdown]
    # Let me see.

    # %%
    import pandas as pd
    df = pd.DataFrame({'city': ['Rome', 'Oslo'], 'rain': [1.5, 2.5]})
    df

    # %%
    print('no plot')

    # %%
    import matplotlib.pyplot as plt
    plt.bar(df.city, df.rain)
    plt.show()

    # %% [markdown]
    # **Oslo**, with `2.5`.
    #
    # | a | b |
    # |---|---|
    # | 1 | 2 |
    ");
    let ran = python(
        "import runpy, sys; runpy.run_path(sys.argv[1])",
        &sponde.path("clean.py"),
    );
    assert_eq!(ran, "no plot\n");
    let text = sponde.read("text.md");
    for part in [
        "> Where does it rain more?",
        "*Edited before it ran:*\n\n```python\nprint('no plot')\n```",
        "KeyError: 'snow'",
        "*Declined, not run, never:*",
        "![plot](<text_files/plot-1.png>)",
        "**Oslo**, with `2.5`.",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(sponde.path("text_files/plot-1.png").is_file());
    let clean = sponde.read("clean.md");
    for part in ["rain more?", "snow", "rmtree", "Edited"] {
        assert!(!clean.contains(part), "{part} in {clean}");
    }
    let page = sponde.read("page.html");
    for part in [
        "<title>Where does it rain more?</title>",
        "<table class=\"dataframe\">",
        "<strong>Oslo</strong>",
        "edited by you",
        "declined, not run",
        "What the model had written",
        "<img src=\"data:image/png;base64,",
        "<span class=\"a-f1\">",
        "prefers-color-scheme: dark",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert_page_is_harmless(&page, &sponde.path("page.html"));
    let clean = sponde.read("clean.html");
    for part in [
        "rain more?",
        "snow",
        "rmtree",
        "edited by you",
        "class=\"facts\">Model",
    ] {
        assert!(!clean.contains(part), "{part}");
    }
}

/// What a browser would run, load or send of a page, in Python's parser: all of it is listed.
const HARM: &str = "
import sys
from html.parser import HTMLParser
harm = []
class Page(HTMLParser):
    def handle_starttag(self, tag, attrs):
        if tag in ('script', 'iframe', 'object', 'embed', 'form', 'input', 'button', 'base', 'svg', 'math', 'link', 'video', 'audio', 'frame'):
            harm.append(tag)
        for name, value in attrs:
            value = (value or '').strip().lower()
            if name.startswith('on') or name in ('srcset', 'srcdoc', 'action', 'formaction', 'ping', 'background', 'poster', 'data'):
                harm.append(f'{tag} {name}={value[:60]}')
            if name == 'src' and not value.startswith('data:image/'):
                harm.append(f'{tag} src={value[:60]}')
            if name == 'href' and value.split(':')[0] in ('javascript', 'vbscript', 'data'):
                harm.append(f'{tag} href={value[:60]}')
            if name == 'style' and ('url' in value or 'expression' in value or 'position' in value):
                harm.append(f'{tag} style={value[:60]}')
            if name == 'http-equiv' and value != 'content-security-policy':
                harm.append(f'{tag} {value}')
for path in sys.argv[1:]:
    import pathlib
    for file in [pathlib.Path(path)] if pathlib.Path(path).is_file() else sorted(pathlib.Path(path).glob('*.html')):
        harm.clear()
        text = file.read_text()
        Page().feed(text)
        style = text.split('<style>')[1].split('</style>')[0]
        assert 'url(' not in style and '@import' not in style
        if harm: print(file.name, harm)
";

fn assert_page_is_harmless(page: &str, path: &Path) {
    assert_eq!(python(HARM, path), "");
    assert_eq!(page.matches("<style").count(), 1);
}

/// Every notebook of the corpora becomes a page that does nothing, Markdown, and a script.
#[test]
fn everybodys_notebooks_become_pages() {
    let dir = tempfile::tempdir().unwrap();
    let mut pages = 0;
    for path in crate::nbformat_corpora::notebooks_below(&tools().join("notebooks")) {
        let Ok(loaded) = Notebook::read(&std::fs::read(&path).unwrap(), &mut random_cell_id) else {
            continue;
        };
        let page = export::html(&loaded.notebook, "notebook", Options::default(), &|_| None);
        std::fs::write(dir.path().join(format!("{pages}.html")), page).unwrap();
        pages += 1;
        for clean in [false, true] {
            let options = Options { clean };
            assert!(!export::markdown(&loaded.notebook, options, None).is_empty());
            export::script(&loaded.notebook, options);
        }
    }
    assert_eq!(pages, 284);
    assert_eq!(python(HARM, dir.path()), "");
}

#[test]
fn an_export_overwrites_no_notebook() {
    let sponde = Sponde::new();
    sponde.write_notebook("in.ipynb", "misbehave", &[("", "echo hi")]);
    sponde.write_notebook("other.ipynb", "misbehave", &[]);
    assert_snapshot!(sponde.run(&["export", "in.ipynb", "-o", "./in.ipynb"]), @"
    exit: 2
    --- stderr
    error: `./in.ipynb` is the notebook itself

    hint: name another file with -o
    ");
    assert_snapshot!(sponde.run(&["export", "in.ipynb", "-o", "other.ipynb"]), @"
    exit: 2
    --- stderr
    error: `other.ipynb` is already there

    hint: name another file with -o: a notebook is never overwritten
    ");
    assert_snapshot!(sponde.run(&["export", "in.ipynb", "-o", "page.xyz"]), @"
    exit: 2
    --- stderr
    error: what should `page.xyz` be?

    hint: name the format with --to: ipynb, html, md or script
    ");
    assert_snapshot!(sponde.run(&["export", "in.ipynb", "-o", "-"]), @"
    exit: 0
    --- stdout
    # %%
    echo hi
    ");
}
