//! `/vars`, `/table` and `/open` in a chat, with a real kernel.

use std::fmt::Write as _;

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
        "/open 1",
        "/open 9",
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
        "there is no output 9: there are 1 to 1",
        "still 100000 0",
    ] {
        assert!(
            shown.contains(words) || ended.stdout.contains(words),
            "{words}: {ended}"
        );
    }
    // Nothing opens in a test; the file is named.
    assert!(shown.contains("plot-1.png"), "{ended}");
}
