//! What a session on disk costs: `scripts/bench --only save` runs this and reads the line of JSON that it prints.
//!
//! usage: session CELLS MEGABYTES RUNS: makes a session of CELLS cells with MEGABYTES of pictures in a directory of its
//! own, then adds RUNS cells and saves after each, opens it as `sponde resume` does, and lists it as `sponde sessions`
//! does.

use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Map, json};
use sponde::agent::sessions;
use sponde::agent::store::{Mended, Opened, Outcome, Store};
use sponde::jupyter::content::Stream;
use sponde::jupyter::mime::MimeBundle;
use sponde::kernel::{OutputEvent, Verdict};
use sponde::session::journal::{Begin, KernelChoice, VERSION};
use sponde::session::transcript::Author;
use sponde::session::{CodeStatus, Edit, OutputLimits, Transcript};

const NOW: &str = "2026-11-22T00:00:00Z";

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<usize> = std::env::args()
        .skip(1)
        .filter_map(|argument| argument.parse().ok())
        .collect();
    // `cargo bench` and `cargo test` start it with arguments of their own.
    let [cells, megabytes, runs] = arguments[..] else {
        return Ok(());
    };
    let dir = std::env::temp_dir().join(format!("sponde-bench-session-{}", std::process::id()));
    std::fs::create_dir_all(&dir)?;
    let measured = measure(&dir, cells, megabytes << 20, runs);
    std::fs::remove_dir_all(&dir)?;
    writeln!(std::io::stdout(), "{}", measured?)?;
    Ok(())
}

fn measure(
    dir: &Path,
    cells: usize,
    bytes: usize,
    runs: usize,
) -> Result<serde_json::Value, Box<dyn Error>> {
    let limits = OutputLimits {
        session: 1 << 40,
        ..OutputLimits::default()
    };
    let begin = Begin {
        version: VERSION,
        id: "s".to_owned(),
        at: NOW.to_owned(),
        cwd: dir.to_owned(),
        notebook: dir.join("s.ipynb"),
        kernel: KernelChoice::default(),
        forked_from: None,
        sandbox: None,
        databases: Vec::new(),
    };
    let Opened {
        mut store,
        mut transcript,
        ..
    } = Opened::new(dir, begin, limits);
    // Base64 makes four bytes of three.
    let picture = vec![0x5a; bytes / cells / 4 * 3];
    for number in 0..cells {
        add(&mut store, &mut transcript, number, &picture)?;
    }
    save(&mut store, &mut transcript)?;
    let mut saves = Vec::new();
    for number in cells..cells + runs {
        let clock = Instant::now();
        add(&mut store, &mut transcript, number, b"")?;
        save(&mut store, &mut transcript)?;
        saves.push(milliseconds(clock.elapsed()));
    }
    store.close(NOW.to_owned());
    drop(store);
    let clock = Instant::now();
    let opened = Opened::open(dir, "s", limits, NOW)?;
    let open = milliseconds(clock.elapsed());
    if opened.transcript != transcript || opened.mended != Mended::default() {
        return Err("another session came back".into());
    }
    drop(opened);
    let clock = Instant::now();
    let found = sessions::list(dir);
    let list = milliseconds(clock.elapsed());
    let bytes: u64 = found.iter().map(|found| found.bytes).sum();
    Ok(json!({ "saves": saves, "open": open, "list": list, "bytes": bytes }))
}

/// A cell that printed a line, and showed `picture` unless that is empty.
fn add(
    store: &mut Store,
    transcript: &mut Transcript,
    number: usize,
    picture: &[u8],
) -> Result<(), Box<dyn Error>> {
    let cell = format!("c{number}");
    let emit = |output| Edit::Emit {
        cell: cell.clone(),
        output,
    };
    let mut edits = vec![
        Edit::Propose {
            cell: cell.clone(),
            author: Author::Person,
            language: None,
            source: "print(1)".to_owned(),
        },
        emit(OutputEvent::Stream(Stream {
            name: "stdout".to_owned(),
            text: "1\n".to_owned(),
        })),
    ];
    if !picture.is_empty() {
        edits.push(emit(OutputEvent::Display {
            data: MimeBundle::png(picture),
            metadata: Map::new(),
            display_id: None,
        }));
    }
    edits.push(Edit::Finish {
        cell: cell.clone(),
        status: CodeStatus::Finished(Verdict::Ok),
        at: NOW.to_owned(),
    });
    for edit in edits {
        store.log(&edit);
        transcript.apply(edit)?;
    }
    Ok(())
}

fn save(store: &mut Store, transcript: &mut Transcript) -> Result<(), Box<dyn Error>> {
    let change = store.change(transcript, false, false);
    match store.save(&change) {
        Outcome::Saved(None) => {
            transcript.settle();
            Ok(())
        }
        other => Err(format!("{other:?}").into()),
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
