//! What a model is told about files of many kinds, made by the programs that write them: facts are held against what is true,
//! and the line that loads a file runs in a kernel. Hostile files end nowhere but in words.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::json;
use sponde::agent::facts::{self, Language, inside};
use sponde::kernel::{ExecuteOptions, Kernel, OutputEvent, Verdict};

use crate::aimock::Aimock;
use crate::support::{Sponde, ipykernel, launch_options, python_prefix};

/// A case of `data_files.py`.
#[derive(Deserialize)]
struct Case {
    name: String,
    facts: Vec<String>,
    then: Option<String>,
    value: Option<String>,
    /// Which of the lines that load something.
    at: usize,
    /// What the kernel says about it.
    inside: Vec<String>,
}

/// pandas, without its warnings of the days to come, and values without NumPy's types.
const BEFORE: &str = r"
import warnings
import pandas as pd
warnings.simplefilter('ignore')
def plain(value):
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    return value.item() if hasattr(value, 'item') else value
";

fn made(dir: &Path) -> Vec<Case> {
    let output = Command::new(python_prefix().join("bin/python"))
        .arg(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/tests/fixtures/data_files.py"
        ))
        .arg(dir)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn told(dir: &Path, name: &str) -> String {
    facts::files(&[&dir.join(name)], dir, Language::Python).unwrap()
}

async fn run(kernel: &Kernel, code: &str) -> (Verdict, String) {
    let execution = kernel.execute(ExecuteOptions::cell(code)).await.unwrap();
    let (outputs, outcome) = execution.collect().await;
    let printed = outputs.iter().filter_map(|output| match output {
        OutputEvent::Stream(stream) => Some(stream.text.clone()),
        OutputEvent::Error(error) => Some(format!("{}: {}", error.ename, error.evalue)),
        _ => None,
    });
    (outcome.verdict, printed.collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_many_kinds_are_told_and_load() {
    let dir = tempfile::tempdir().unwrap();
    let cases = tokio::task::block_in_place(|| made(dir.path()));
    assert!(cases.len() > 100, "{}", cases.len());
    let loaded = cases.iter().filter(|case| case.then.is_some());
    let kinds: BTreeSet<&str> = loaded
        .filter_map(|case| Some(case.name.rsplit_once('.')?.1))
        .collect();
    assert!(kinds.len() > 35, "{kinds:?}");
    let mut options = launch_options(ipykernel(), dir.path());
    options.cwd = dir.path().to_owned();
    let kernel = Kernel::launch(options).await.unwrap();
    let (verdict, printed) = run(&kernel, BEFORE).await;
    assert_eq!(verdict, Verdict::Ok, "{printed}");
    let mut wrong = String::new();
    for case in &cases {
        let words = told(dir.path(), &case.name);
        let path = dir.path().join(&case.name);
        let unread = inside::unread(&[&path], dir.path());
        let inside = if unread.is_empty() {
            String::new()
        } else {
            inside::ask(&kernel, &unread).await
        };
        assert!(inside.len() < 8_000, "{}: {}", case.name, inside.len());
        for fact in &case.inside {
            if !inside.contains(fact) {
                let _ = writeln!(wrong, "{}: not told: {fact}\n{inside}\n", case.name);
            }
        }
        // Nothing of a file stands at the beginning of a line but what we write there.
        for line in words.lines().chain(inside.lines()) {
            let starts = [
                "File ",
                "- ",
                "Sheet ",
                "Table ",
                "View ",
                "Group ",
                "Directory ",
                "In it ",
                "Other ",
                "Beside it: ",
                "(the first of ",
            ];
            assert!(
                starts.iter().any(|it| line.starts_with(it)),
                "{}: {line}",
                case.name
            );
        }
        assert!(words.len() < 8_000, "{}: {} bytes", case.name, words.len());
        assert!(!words.contains("hunter2"), "{words}");
        assert!(!inside.contains("hunter2"), "{inside}");
        for fact in &case.facts {
            if !words.contains(fact) {
                let _ = writeln!(wrong, "{}: not told: {fact}\n{words}\n", case.name);
            }
        }
        let (Some(then), Some(value)) = (&case.then, &case.value) else {
            continue;
        };
        let recipes: Vec<&str> = words
            .lines()
            .filter_map(|line| Some(line.split_once("Load with ")?.1))
            .collect();
        let Some(recipe) = recipes.get(case.at) else {
            let _ = writeln!(wrong, "{}: no line that loads it\n{words}\n", case.name);
            continue;
        };
        let code = format!("df = None\n{recipe}\nprint(repr(plain({then})))");
        let (verdict, printed) = run(&kernel, &code).await;
        if verdict != Verdict::Ok || printed.trim_end() != value {
            let _ = write!(
                wrong,
                "{}: {verdict:?}\n{recipe}\n{printed}\nexpected {value}\n{words}\n\n",
                case.name
            );
        }
    }
    kernel.shutdown().await;
    assert!(wrong.is_empty(), "\n{wrong}");
}

/// Each file cut at every tenth of its length, and with bytes changed: no panic, no endless reading, bounded words.
#[test]
fn damaged_files_are_told_too() {
    let dir = tempfile::tempdir().unwrap();
    let cases = made(dir.path());
    let mut names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    names.dedup();
    let broken = tempfile::tempdir().unwrap();
    let mut state = 7_u64;
    for name in names {
        let path = dir.path().join(name);
        let Ok(whole) = std::fs::read(&path) else {
            continue;
        };
        // Large ones cost more than they show.
        if whole.len() > 40_000 {
            continue;
        }
        let file = broken.path().join(name);
        for tenth in 0..10 {
            std::fs::write(&file, &whole[..whole.len() * tenth / 10]).unwrap();
            assert!(told(broken.path(), name).len() < 8_000, "{name}");
        }
        // The heads and the ends hold what leads elsewhere.
        for round in 0..24 {
            let mut bytes = whole.clone();
            for _ in 0..=round % 8 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let within = bytes.len().clamp(1, 600);
                let at = usize::try_from(state >> 33).unwrap() % within;
                let at = if round % 2 == 0 {
                    at
                } else {
                    bytes.len().saturating_sub(1 + at)
                };
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [0, 0xff, 0x80, u8::try_from(state >> 56).unwrap()][round % 4];
                }
            }
            std::fs::write(&file, &bytes).unwrap();
            assert!(told(broken.path(), name).len() < 8_000, "{name}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}

/// What this thread has read of files, which says more of a cost than the time of a busy machine.
fn bytes_read() -> u64 {
    let io = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: "));
    line.unwrap().parse().unwrap()
}

/// 20 GB on paper: only beginnings are read.
#[test]
fn what_a_file_holds_is_not_what_it_costs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("large.csv");
    let mut text = "n,word\n".to_owned();
    for n in 0..100_000 {
        let _ = writeln!(text, "{n},w{}", n % 5);
    }
    std::fs::write(&path, &text).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(20_000_000_000).unwrap();
    let words = told(dir.path(), "large.csv");
    assert!(words.starts_with("File large.csv: "), "{words}");
    // 2,000 tokens are 8,000 letters.
    assert!(words.len() < 8_000, "{}", words.len());
    // Real rows as far as they are read, and nothing is read behind that.
    while text.len() < 33 << 20 {
        text.push_str(&"7,word\n".repeat(100_000));
    }
    std::fs::write(&path, &text).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(20_000_000_000).unwrap();
    let before = bytes_read();
    let words = told(dir.path(), "large.csv");
    let cost = bytes_read() - before;
    assert!(cost < 170 << 20, "{cost}");
    assert!(
        words.contains(" rows, here described by the first ") && words.contains("(first rows)"),
        "{words}"
    );
    let names: Vec<String> = (0..5_000).map(|at| format!("column_{at}")).collect();
    let numbers: Vec<String> = (0..5_000).map(|at| at.to_string()).collect();
    let table = format!("{}\n{}\n", names.join(","), numbers.join(","));
    std::fs::write(dir.path().join("wide.csv"), table).unwrap();
    let words = told(dir.path(), "wide.csv");
    assert!(
        words.len() < 8_000 && words.contains(" more"),
        "{}: {words}",
        words.len()
    );
    // A file of one line, and one of no line at all.
    for (name, byte) in [("line.csv", b','), ("line.json", b'['), ("line.txt", b'x')] {
        std::fs::write(dir.path().join(name), vec![byte; 34 << 20]).unwrap();
        let words = told(dir.path(), name);
        assert!(words.len() < 8_000, "{name}: {}", words.len());
    }
}

#[test]
fn many_files_share_their_room() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..100)
        .map(|n| {
            let path = dir.path().join(format!("part-{n:03}.csv"));
            std::fs::write(&path, format!("a,b\n{n},x\n")).unwrap();
            path
        })
        .collect();
    let paths: Vec<&Path> = paths.iter().map(std::path::PathBuf::as_path).collect();
    let words = facts::files(&paths, dir.path(), Language::Python).unwrap();
    assert!(words.len() < 12_000, "{}", words.len());
    assert!(words.contains("- a: int, 0 to 0"), "{words}");
    assert!(
        words.contains("- the same columns as part-000.csv"),
        "{words}"
    );
    assert!(words.contains("File part-050.csv: 9 bytes"), "{words}");
    assert!(words.ends_with("And 30 more files"), "{words}");
}

#[test]
fn other_languages_have_their_own_lines() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.csv");
    std::fs::write(&path, "d;x\n2020-01-02;1,5\n").unwrap();
    let line = |language| {
        let words = facts::files(&[&path], dir.path(), language).unwrap();
        words.lines().next().unwrap().to_owned()
    };
    assert_eq!(
        line(Language::R),
        "File a.csv: 1 rows. Load with df <- read.csv('a.csv', sep=';', dec=',', check.names=FALSE, colClasses=c('d'='Date'))"
    );
    assert_eq!(
        line(Language::Other),
        "File a.csv: 1 rows. Columns are parted by \";\", numbers are written 1234,5."
    );
}

/// What only a library can read is asked of the confined kernel before the model is: of a file that is named with `-f`, and of
/// one in a question.
#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_is_asked_about_what_only_a_library_reads() {
    let mock = Aimock::start(&json!([{"match": {}, "response": {"content": "Done."}}])).await;
    let sponde = Sponde::new().with_model(&mock);
    let make = "import duckdb, h5py, sys\n\
                dir = sys.stdin.read()\n\
                with duckdb.connect(dir + '/shop.duckdb') as c:\n    \
                c.execute(\"CREATE TABLE orders AS SELECT i AS id, 'x' || i AS city FROM range(70) t(i)\")\n\
                with h5py.File(dir + '/run.h5', 'w') as f: f['volts'] = [1.5, 2.5]\n";
    crate::sql::python(make, &sponde.path("").display().to_string()).unwrap();
    let ended = tokio::task::block_in_place(|| {
        let arguments = [
            "ask",
            "what is in @run.h5?",
            "--model",
            "gpt-4o",
            "--yes",
            "-f",
            "shop.duckdb",
        ];
        sponde.run(&arguments)
    });
    let prompts = json!(mock.journal().await).to_string();
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{ended}");
    for words in [
        "File shop.duckdb: ",
        "File shop.duckdb, as its library reads it: 1 tables",
        "Table orders: 70 rows",
        "- id: BIGINT, 0 to 69",
        "File run.h5, as its library reads it: 1 datasets",
        "- volts: float64 2, 1.5 to 2.5",
    ] {
        assert!(prompts.contains(words), "{words}: {prompts}");
    }
}

/// Files that do something where Python loads them are told about, and do nothing.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_in_a_file_runs() {
    let mock = Aimock::start(&json!([{"match": {}, "response": {"content": "Done."}}])).await;
    let sponde = Sponde::new().with_model(&mock);
    let make = "import os, pickle, sys, numpy, pandas, openpyxl\n\
                dir = sys.stdin.read()\n\
                class Evil:\n    \
                def __reduce__(self): return open, (os.path.join(dir, 'pwned'), 'w')\n\
                pickle.dump(Evil(), open(dir + '/evil.pkl', 'wb'))\n\
                numpy.save(dir + '/evil.npy', numpy.array([Evil()], dtype=object), allow_pickle=True)\n\
                book = openpyxl.Workbook()\n\
                book.active.append(['a', 'b'])\n\
                book.active.append([1, '=HYPERLINK(\"file://' + dir + '/pwned\")'])\n\
                book.active.append([2, \"=cmd|'/c touch \" + dir + \"/pwned'!A1\"])\n\
                book.save(dir + '/evil.xlsx')\n\
                os.path.exists(dir + '/pwned') and os.remove(dir + '/pwned')\n";
    crate::sql::python(make, &sponde.path("").display().to_string()).unwrap();
    let ended = tokio::task::block_in_place(|| {
        let arguments = [
            "ask",
            "what is in @evil.npy?",
            "--model",
            "gpt-4o",
            "--yes",
            "-f",
            "evil.pkl",
            "-f",
            "evil.xlsx",
        ];
        sponde.run(&arguments)
    });
    let prompts = json!(mock.journal().await).to_string();
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{ended}");
    for name in ["evil.pkl", "evil.npy", "evil.xlsx"] {
        assert!(
            prompts.contains(&format!("File {name}")),
            "{name}: {prompts}"
        );
    }
    assert!(!sponde.path("pwned").exists(), "{ended}");
}

/// A server of one table, which it gives in parts if it is asked so.
fn serve(table: &'static str) -> u16 {
    use std::io::{BufRead as _, BufReader, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let head: Vec<String> = lines
                .map_while(Result::ok)
                .take_while(|line| !line.is_empty())
                .collect();
            let is_part = head
                .iter()
                .any(|line| line.to_lowercase().starts_with("range: bytes=0-"));
            let length = table.len();
            let status = if is_part {
                format!("206 Part\r\nContent-Range: bytes 0-{}/{length}", length - 1)
            } else {
                "200 OK".to_owned()
            };
            let _ = write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{table}"
            );
        }
    });
    port
}

/// What is at an address is fetched by the kernel, if its sandbox has a network; and loads by the line that is told.
#[tokio::test(flavor = "multi_thread")]
async fn a_file_at_an_address_is_told_where_the_network_allows() {
    let port = serve("day;rain\n2024-01-01;1,5\n2024-01-02;2,5\n2024-01-03;\n");
    let address = format!("http://127.0.0.1:{port}/rain.csv");
    let line = format!("df = pd.read_csv('{address}', sep=';', decimal=',', parse_dates=['day'])");
    let code = format!("import pandas as pd; {line}; print('shape', df.shape, df['rain'].sum())");
    let mock = crate::sql::model(&[(&code, None)]).await;
    let sponde = Sponde::new().with_model(&mock);
    let ask = |network: &str| {
        let arguments = [
            "ask",
            "how much?",
            "--model",
            "gpt-4o",
            "--yes",
            "--network",
            network,
            "-f",
            &address,
        ];
        tokio::task::block_in_place(|| sponde.run(&arguments))
    };
    let off = ask("off");
    assert_eq!(off.code, Some(2), "{off}");
    assert!(
        off.stderr.contains("code in this session has no network"),
        "{off}"
    );
    let ended = ask("on");
    let prompts = json!(mock.journal().await).to_string();
    mock.stop().await;
    assert_eq!(ended.code, Some(0), "{ended}");
    assert!(ended.stderr.contains("shape (3, 2) 4.0"), "{ended}");
    for words in [
        &format!("File {address}: 3 rows. Load with {line}"),
        "- day: date, 2024-01-01 to 2024-01-03",
        "- rain: float, 1.5 to 2.5; 1 missing",
    ] {
        assert!(prompts.contains(words), "{words}: {prompts}");
    }
}

/// A picture that is named is shown to a model that sees, scaled; another one is told what it is.
#[tokio::test(flavor = "multi_thread")]
async fn a_picture_is_shown_to_a_model_that_sees() {
    let replies = json!([{"match": {"turnIndex": 0}, "response": {"content": "A grey square."}}]);
    let mock = Aimock::start(&replies).await;
    let sponde = Sponde::new().with_model(&mock);
    let square = image::GrayImage::from_pixel(2_400, 1_800, image::Luma([90]));
    square.save(sponde.path("big.png")).unwrap();
    square.save(sponde.path("other one.jpg")).unwrap();
    sponde.write("broken.png", b"\x89PNG\r\n\x1a\n and then nothing");
    let ask = |model: &'static str, more: &'static [&'static str], question: &'static str| {
        let arguments = [
            &["ask", question, "--model", model, "-k", "misbehave"],
            more,
        ]
        .concat();
        let ended = tokio::task::block_in_place(|| sponde.run(&arguments));
        assert_eq!(ended.code, Some(0), "{ended}");
        ended
    };
    ask("gpt-4o", &["-f", "big.png"], "what is this?");
    ask("gpt-4o", &[], "and @\"other one.jpg\" and @broken.png?");
    ask("gpt-3.5-turbo", &["-f", "big.png"], "what is this?");
    let requests = mock.journal().await;
    mock.stop().await;
    let pictures = |request: &serde_json::Value| -> Vec<(u32, u32)> {
        let messages = request["body"]["messages"].as_array().unwrap();
        let parts = messages.iter().filter_map(|it| it["content"].as_array());
        let urls = parts
            .flatten()
            .filter_map(|part| part["image_url"]["url"].as_str());
        urls.map(|url| {
            let (_, data) = url.split_once(";base64,").unwrap();
            let bytes = STANDARD.decode(data).unwrap();
            let picture = image::load_from_memory(&bytes).unwrap();
            (picture.width(), picture.height())
        })
        .collect()
    };
    assert_eq!(requests.len(), 3);
    let [big, other, blind] = &requests[..] else {
        panic!("{}", requests.len())
    };
    for (request, name) in [(big, "big.png"), (other, "other one.jpg")] {
        let shown = pictures(request);
        let [(width, height)] = shown[..] else {
            panic!("{name}: {shown:?}")
        };
        // In the same shape, and no larger than the rules for the provider say.
        assert!(
            width <= 1_536 && width * 3 == height * 4,
            "{name}: {width} x {height}"
        );
        let told = request.to_string();
        let words = format!("[Pictures of the user, in this order: {name}]");
        assert!(told.contains(&words), "{told}");
    }
    assert_eq!(pictures(blind), []);
    let told = blind.to_string();
    assert!(
        told.contains("a PNG picture of 2400 x 1800 pixels"),
        "{told}"
    );
    assert!(!told.contains("Pictures of the user"), "{told}");
}
