//! `/vars`, `/table` and `/open` in a chat, with a real kernel.

use std::fmt::Write as _;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{NOBODY, Sponde};

#[test]
fn variables_tables_and_outputs_are_looked_at_in_a_chat() {
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    let mut lines = String::new();
    for line in [
        "!import pandas as pd; df = pd.DataFrame({'n': range(100_000), 'city': ['Oslo', 'Rome'] * 50_000, 'x y': [1.5, None] * 50_000})",
        "!text = 'a'; import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()",
        "/vars",
        "/table df",
        "/table",
        "/table df sort n desc filter rome page 2",
        "/table df profile city",
        "/table df profile \"x y\"",
        "/table df sort nothing",
        "/table nothing",
        "/table text",
        "!print('still', len(df), df.index[0])",
    ] {
        let _ = writeln!(lines, "{line}");
    }
    let ended = sponde.run_with_stdin(&["--model", "m"], &lines);
    let shown = &ended.stderr;
    for words in [
        "name  type                   shape    size  value\n",
        "df    pandas.DataFrame  100000 x 3",
        " n  city  x y\n 0  Oslo  1.5\n 1  Rome    -\n",
        "rows 1 to 18 of 100000, 3 columns, page 1 of 5556; /table for the next one",
        "rows 19 to 36 of 100000, 3 columns, page 2 of 5556",
        "99963  Rome    -\n",
        "rows 19 to 36 of 50000, 3 columns, page 2 of 2778",
        "count 100000, missing 0, distinct 2",
        "Oslo   50000  ██████████████████████████████\n",
        "count 100000, missing 50000, distinct 1, min 1.5, max 1.5, mean 1.5",
        "there is no column `nothing`",
        "there is no variable `nothing`",
        "still 100000 0",
    ] {
        assert!(
            shown.contains(words) || ended.stdout.contains(words),
            "{words}: {ended}"
        );
    }
}

/// What the desktop was asked to open, in order.
fn opened(sponde: &Sponde, many: usize) -> Vec<String> {
    let until = Instant::now() + Duration::from_mins(1);
    loop {
        let list = std::fs::read_to_string(sponde.path("opened")).unwrap_or_default();
        if list.lines().count() >= many {
            return list.lines().map(str::to_owned).collect();
        }
        assert!(Instant::now() < until, "{list}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The number in the header is that of the output that opens: its picture, else a page with all of it.
#[test]
fn any_output_opens_by_the_number_in_its_header() {
    let path = std::env::var("PATH").unwrap();
    let sponde = Sponde::new().with("OPENAI_BASE_URL", NOBODY);
    std::fs::create_dir(sponde.path("bin")).unwrap();
    sponde.write("bin/xdg-open", "#!/bin/sh\necho \"$1\" >> opened\n");
    let opener = sponde.path("bin/xdg-open");
    std::fs::set_permissions(&opener, Permissions::from_mode(0o755)).unwrap();
    let bin = opener.parent().unwrap().display().to_string();
    let sponde = sponde.with("PATH", &format!("{bin}:{path}"));
    let mut lines = String::new();
    for line in [
        "/open",
        "!import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()",
        "/open 2",
        "!import pandas as pd; pd.DataFrame({'city': ['Oslo'], 'n': [7]})",
        "/open 3",
        "!from IPython.display import HTML, display; display(HTML('<b>bold</b>'))",
        "/open #4",
        "!print('x' * 3 + '<y>')",
        "/open",
        "!for _ in range(2): plt.plot([1, 2]); plt.show()",
        "/open 6",
        "/open 1",
        "/open 9",
    ] {
        let _ = writeln!(lines, "{line}");
    }
    let arguments = ["--model", "m", "--notebook", "out.ipynb"];
    let ended = sponde.run_with_stdin(&arguments, &lines);
    let shown = &ended.stderr;
    for words in [
        "no code has run yet",
        "── output 3 · python ──",
        "cell 1 is words, and no code",
        "there is no cell 9: the session has 6",
    ] {
        assert!(shown.contains(words), "{words}: {ended}");
    }
    let files: Vec<String> = opened(&sponde, 5)
        .iter()
        .map(|path| {
            let folder = sponde.path("out_files");
            let name = Path::new(path).strip_prefix(folder).unwrap();
            name.display().to_string()
        })
        .collect();
    assert_eq!(
        files,
        [
            "plot-1.png",
            "cell-3.html",
            "plot-2.html",
            "cell-5.html",
            "cell-6.html"
        ]
    );
    for (name, words, many) in [
        ("cell-3.html", "<td>Oslo</td>", 1),
        ("cell-5.html", "xxx&lt;y&gt;", 1),
        ("cell-6.html", "<img", 2),
    ] {
        let page = sponde.read(&format!("out_files/{name}"));
        assert_eq!(page.matches(words).count(), many, "{name}: {page}");
    }
}
