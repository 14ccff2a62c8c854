//! How fast text goes through the terminal's renderer: `scripts/bench --only terminal` runs this and reads the line of JSON that
//! it prints.
//!
//! usage: terminal LINES: megabytes a second of LINES lines of a model's words, of the same in small pieces, of code in them, and
//! of what a cell prints.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Instant;

use serde_json::json;
use sponde::cli::measure;

/// Columns of the terminal.
const COLUMNS: usize = 100;
/// Bytes of a piece of a model's words, about a few tokens.
const PIECE: usize = 16;
/// Bytes of a piece of a cell's output, as a kernel sends it.
const CHUNK: usize = 8 << 10;

/// What models write.
const WORDS: [&str; 10] = [
    "## What the table says\n",
    "\n",
    "Seattle had **4426.0 mm** of rain in these four years, and New York `4178.6`, although many people believe otherwise.\n",
    "The difference is about 6 %, which is less than the difference between two years in one and the same city.\n",
    "- the wettest month is *November*, with 189.2 mm in the mean of all years that the file `weather.csv` has\n",
    "- the driest one is July\n",
    "1. Read the file, with dates as dates; the column `date` has no time and no zone, so nothing is shifted.\n",
    "2. Group by city and sum, as in [the documentation](https://pandas.pydata.org/docs/reference/groupby.html).\n",
    "Values that are missing (12 of 2,922) are left out and not taken for zero, which would make the sums too small.\n",
    "> Rain is what reaches the ground; snow was melted before it was measured, as the notes of the file say.\n",
];

const CODE: [&str; 6] = [
    "import pandas as pd  # the usual name\n",
    "def totals(path: str, column: str = \"precipitation\") -> pd.Series:\n",
    "    \"\"\"Sums by city.\"\"\"\n",
    "    df = pd.read_csv(path, parse_dates=['date'])\n",
    "    return df.groupby('city')[column].sum().sort_values(ascending=False).round(2)\n",
    "print(totals('weather.csv').head(10), 3.14 * 2 if True else None)\n",
];

fn main() -> Result<(), Box<dyn Error>> {
    let lines = std::env::args().nth(1);
    // `cargo bench` and `cargo test` start it with arguments of their own.
    let Some(lines) = lines.and_then(|it| it.parse::<usize>().ok()) else {
        return Ok(());
    };
    let words: Vec<&str> = WORDS.iter().copied().cycle().take(lines).collect();
    let text = words.concat();
    let code = ["```python\n"]
        .into_iter()
        .chain(CODE.iter().copied().cycle().take(lines))
        .collect::<Vec<_>>();
    let mut printed = String::new();
    for n in 0..lines {
        writeln!(
            printed,
            "{n:>8} 2026-11-23 17:30:00 INFO step {n} of {lines}, loss 0.0123"
        )?;
    }
    let figures = json!({
        "words": speed(text.len(), || measure::words(words.iter().copied(), COLUMNS)),
        "tokens": speed(text.len(), || measure::words(pieces(&text, PIECE), COLUMNS)),
        "code": speed(code.iter().map(|line| line.len()).sum(), || measure::words(code.iter().copied(), COLUMNS)),
        "output": speed(printed.len(), || measure::output(pieces(&printed, CHUNK).map(str::to_owned))),
    });
    std::io::Write::write_all(&mut std::io::stdout(), format!("{figures}\n").as_bytes())?;
    Ok(())
}

/// Megabytes a second.
fn speed(bytes: usize, work: impl Fn() -> usize) -> f64 {
    let clock = Instant::now();
    std::hint::black_box(work());
    #[expect(clippy::cast_precision_loss, reason = "three digits are looked at")]
    let bytes = bytes as f64;
    bytes / 1e6 / clock.elapsed().as_secs_f64()
}

/// `text`, which is ASCII, in pieces.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> {
    (0..text.len())
        .step_by(size)
        .filter_map(move |at| text.get(at..text.len().min(at + size)))
}
