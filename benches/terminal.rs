//! How fast text goes through the terminal's renderer: `scripts/bench --only terminal` runs this and reads the line of JSON that
//! it prints.
//!
//! usage: terminal LINES: megabytes a second of its own processor time, of LINES lines of a model's words, of the same in small
//! pieces, of code in them, and of what a cell prints; and of a whole session's events, which go to /dev/null.

use std::error::Error;
use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use sponde::agent::{EventKind, OutputChange};
use sponde::cli::measure;
use sponde::jupyter::nbformat::Output;

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
    let mut arguments = std::env::args().skip(1);
    // `cargo bench` and `cargo test` start it with arguments of their own.
    let Some(lines) = arguments.next().and_then(|it| it.parse::<usize>().ok()) else {
        return Ok(());
    };
    let texts = Texts::of(lines)?;
    if let Some(file) = arguments.next() {
        // The other process, whose output goes nowhere.
        std::fs::write(file, texts.sessions().to_string())?;
        return Ok(());
    }
    let mut figures = texts.parts();
    let file = tempfile::NamedTempFile::new()?;
    let ended = Command::new(std::env::current_exe()?)
        .arg(lines.to_string())
        .arg(file.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !ended.success() {
        return Err(format!("the process that shows events ended with {ended}").into());
    }
    figures["session"] = serde_json::from_slice(&std::fs::read(file.path())?)?;
    std::io::Write::write_all(&mut std::io::stdout(), format!("{figures}\n").as_bytes())?;
    Ok(())
}

/// What goes through the renderer.
struct Texts {
    words: String,
    code: String,
    printed: String,
}

impl Texts {
    fn of(lines: usize) -> Result<Self, std::fmt::Error> {
        let mut printed = String::new();
        for n in 0..lines {
            writeln!(
                printed,
                "{n:>8} 2026-11-23 17:30:00 INFO step {n} of {lines}, loss 0.0123"
            )?;
        }
        Ok(Self {
            words: WORDS.iter().copied().cycle().take(lines).collect(),
            code: CODE.iter().copied().cycle().take(lines).collect(),
            printed,
        })
    }

    /// Each part of the renderer by itself, which prints nothing.
    fn parts(&self) -> Value {
        let lines = || self.words.split_inclusive('\n');
        let fenced = || {
            ["```python\n"]
                .into_iter()
                .chain(self.code.split_inclusive('\n'))
        };
        let (words, code, printed) = (self.words.len(), self.code.len(), self.printed.len());
        json!({
            "words": speed(words, || measure::words(lines(), COLUMNS)),
            "tokens": speed(words, || measure::words(pieces(&self.words, PIECE), COLUMNS)),
            "code": speed(code, || measure::words(fenced(), COLUMNS)),
            "output": speed(printed, || measure::output(pieces(&self.printed, CHUNK).map(str::to_owned))),
        })
    }

    /// Events of a session, as they come.
    fn sessions(&self) -> Value {
        let cell = || "a".to_owned();
        let words = pieces(&self.words, PIECE).map(|text| EventKind::Text {
            cell: cell(),
            text: text.to_owned(),
        });
        let code = pieces(&self.code, PIECE).map(|text| EventKind::CodeDelta {
            cell: cell(),
            text: text.to_owned(),
            language: Some("python".to_owned()),
        });
        let printed = pieces(&self.printed, CHUNK).map(|text| EventKind::Output {
            cell: cell(),
            change: OutputChange::Append {
                output: Output::stream("stdout", text),
                display_id: None,
            },
        });
        json!({
            "words": speed(self.words.len(), || measure::session(words.clone())),
            "code": speed(self.code.len(), || measure::session(code.clone())),
            "output": speed(self.printed.len(), || measure::session(printed.clone())),
        })
    }
}

/// Megabytes a second of processor time.
fn speed<T>(bytes: usize, work: impl Fn() -> T) -> f64 {
    let clock = Clock::start();
    std::hint::black_box(work());
    #[expect(clippy::cast_precision_loss, reason = "three digits are looked at")]
    let bytes = bytes as f64;
    bytes / 1e6 / clock.seconds()
}

/// Time on a processor, where the system tells it; else time that passes.
struct Clock {
    processor: Option<u64>,
    begun: Instant,
}

impl Clock {
    fn start() -> Self {
        Self {
            processor: processor_time(),
            begun: Instant::now(),
        }
    }

    fn seconds(&self) -> f64 {
        let passed = self.begun.elapsed().as_secs_f64();
        let spent = processor_time().zip(self.processor);
        #[expect(clippy::cast_precision_loss, reason = "three digits are looked at")]
        spent.map_or(passed, |(now, before)| (now - before) as f64 / 1e9)
    }
}

/// Nanoseconds that this thread was on a processor.
fn processor_time() -> Option<u64> {
    let told = std::fs::read_to_string("/proc/self/schedstat").ok()?;
    told.split_whitespace().next()?.parse().ok()
}

/// `text`, which is ASCII, in pieces.
fn pieces(text: &str, size: usize) -> impl Iterator<Item = &str> + Clone {
    (0..text.len())
        .step_by(size)
        .filter_map(move |at| text.get(at..text.len().min(at + size)))
}
