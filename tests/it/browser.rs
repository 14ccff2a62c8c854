//! A headless Chromium, driven over its DevTools protocol: one websocket for each page, one command at a time.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use base64::Engine as _;
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use sponde::llm::http;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::support::LIMIT;

/// The names under which systems have it.
const NAMES: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "chrome-headless-shell",
];

/// A browser, ended when dropped.
pub(crate) struct Browser {
    _process: Child,
    profile: TempDir,
    port: u16,
}

/// One tab.
pub(crate) struct Page {
    socket: WebSocketStream<TcpStream>,
    number: u64,
    /// What it told without being asked.
    pub(crate) events: Vec<Value>,
}

impl Browser {
    /// `None`, said aloud, where there is no browser; with `CI` set that is a failure.
    pub(crate) async fn start() -> Option<Self> {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let found = std::env::split_paths(&paths)
            .flat_map(|dir| NAMES.map(|name| dir.join(name)))
            .find(|path| path.is_file());
        let Some(program) = found else {
            assert!(
                std::env::var_os("CI").is_none(),
                "no Chromium to test the page with: apt-get install chromium"
            );
            crate::support::not_tested(
                "no Chromium on PATH, so the page is NOT tested: apt-get install chromium",
            );
            return None;
        };
        let profile = tempfile::tempdir().unwrap();
        let process = Command::new(program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
                "--remote-debugging-port=0",
                // Nothing of elsewhere has a name.
                "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
                "--window-size=1280,860",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg("about:blank")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let file = profile.path().join("DevToolsActivePort");
        let begun = Instant::now();
        let port = loop {
            let told = std::fs::read_to_string(&file).unwrap_or_default();
            // It has two lines when it is whole.
            if let Some((port, _)) = told.split_once('\n') {
                break port.parse().unwrap();
            }
            assert!(begun.elapsed() < LIMIT, "Chromium did not start");
            tokio::time::sleep(Duration::from_millis(20)).await;
        };
        Some(Self {
            _process: process,
            profile,
            port,
        })
    }

    /// Where it saves what pages download.
    pub(crate) fn downloads(&self) -> PathBuf {
        self.profile.path().join("downloads")
    }

    /// Waits for a downloaded file.
    pub(crate) async fn downloaded(&self, name: &str) -> Vec<u8> {
        let path = self.downloads().join(name);
        let begun = Instant::now();
        loop {
            // It has another name until it is whole; an empty file keeps its own for it.
            if let Ok(bytes) = std::fs::read(&path)
                && !bytes.is_empty()
            {
                return bytes;
            }
            let there = std::fs::read_dir(self.downloads()).into_iter().flatten();
            let there: Vec<_> = there.flatten().map(|it| it.file_name()).collect();
            assert!(begun.elapsed() < LIMIT, "no `{name}` among {there:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A new tab.
    pub(crate) async fn open(&self, url: &str) -> Page {
        let answer = self.http("PUT", "/json/new?about:blank").await;
        let id = answer["id"].as_str().unwrap();
        let mut page = Page::connect(self.port, &format!("/devtools/page/{id}")).await;
        for domain in ["Page", "Runtime", "Network", "Log"] {
            page.call(&format!("{domain}.enable"), json!({})).await;
        }
        let path = self.downloads();
        let behaviour = json!({"behavior": "allow", "downloadPath": path});
        page.call("Browser.setDownloadBehavior", behaviour).await;
        page.call("Page.navigate", json!({ "url": url })).await;
        page
    }

    /// The document of a frame that is isolated from its page, as those without an origin are.
    pub(crate) async fn frame(&self) -> Page {
        let begun = Instant::now();
        loop {
            let all = self.http("GET", "/json/list").await;
            let mut all = all.as_array().unwrap().iter();
            if let Some(frame) = all.find(|it| it["type"] == "iframe") {
                let id = frame["id"].as_str().unwrap();
                let mut page = Page::connect(self.port, &format!("/devtools/page/{id}")).await;
                for domain in ["Runtime", "Log"] {
                    page.call(&format!("{domain}.enable"), json!({})).await;
                }
                return page;
            }
            assert!(begun.elapsed() < LIMIT, "there is no isolated frame");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// The isolated frame that has an element for `selector`.
    pub(crate) async fn frame_with(&self, selector: &str) -> Page {
        let begun = Instant::now();
        let wanted = format!("!!document.querySelector({})", json!(selector));
        loop {
            let all = self.http("GET", "/json/list").await;
            let all = all.as_array().unwrap().iter();
            let ids = all.filter(|it| it["type"] == "iframe").map(|it| &it["id"]);
            for id in ids.filter_map(Value::as_str) {
                let mut page = Page::connect(self.port, &format!("/devtools/page/{id}")).await;
                if page.try_eval(&wanted).await == Some(Value::Bool(true)) {
                    for domain in ["Runtime", "Log", "Network"] {
                        page.call(&format!("{domain}.enable"), json!({})).await;
                    }
                    return page;
                }
            }
            assert!(begun.elapsed() < LIMIT, "no frame has `{selector}`");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// How many tabs there are.
    pub(crate) async fn tabs(&self) -> usize {
        let all = self.http("GET", "/json/list").await;
        let all = all.as_array().unwrap().iter();
        all.filter(|it| it["type"] == "page").count()
    }

    async fn http(&self, method: &str, path: &str) -> Value {
        let url = format!("http://127.0.0.1:{}{path}", self.port);
        let client = http::client(&url).unwrap();
        let request = if method == "PUT" {
            client.put(url)
        } else {
            client.get(url)
        };
        let text = request.send().await.unwrap().text().await.unwrap();
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method} {path}: {text}"))
    }
}

impl Page {
    async fn connect(port: u16, path: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let config = WebSocketConfig::default()
            .max_message_size(Some(256 << 20))
            .max_frame_size(Some(256 << 20));
        let url = format!("ws://127.0.0.1:{port}{path}");
        let (socket, _) = tokio_tungstenite::client_async_with_config(url, stream, Some(config))
            .await
            .unwrap();
        Self {
            socket,
            number: 0,
            events: Vec::new(),
        }
    }

    /// One command of the protocol.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params).await;
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let command = json!({"id": self.number, "method": method, "params": params});
        self.socket
            .send(Message::text(command.to_string()))
            .await
            .unwrap();
        loop {
            let message = tokio::time::timeout(LIMIT, self.socket.next()).await;
            let message = message.unwrap_or_else(|_| panic!("no answer to {method} {params}"));
            let Message::Text(text) = message.expect("the browser hung up").unwrap() else {
                continue;
            };
            let value: Value = serde_json::from_str(&text).unwrap();
            if value["id"] == self.number {
                return value;
            }
            if value["method"] == "Page.javascriptDialogOpening" {
                self.number += 1;
                let accept = json!({"id": self.number, "method": "Page.handleJavaScriptDialog",
                    "params": {"accept": true}});
                // The answer to the command that is waited for has the number before.
                let waited = self.number - 1;
                self.socket
                    .send(Message::text(accept.to_string()))
                    .await
                    .unwrap();
                self.events.push(value);
                loop {
                    let Message::Text(text) = self.socket.next().await.unwrap().unwrap() else {
                        continue;
                    };
                    let value: Value = serde_json::from_str(&text).unwrap();
                    if value["id"] == waited {
                        return value;
                    }
                    self.events.push(value);
                }
            }
            self.events.push(value);
        }
    }

    /// The value of an expression, or of its promise; `None` if it throws or the page goes away meanwhile.
    pub(crate) async fn try_eval(&mut self, expression: &str) -> Option<Value> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", params).await;
        let result = answer.get("result")?;
        if result.get("exceptionDetails").is_some() {
            return None;
        }
        Some(result["result"]["value"].clone())
    }

    /// The value of an expression, or of its promise.
    pub(crate) async fn eval(&mut self, expression: &str) -> Value {
        let value = self.try_eval(expression).await;
        value.unwrap_or_else(|| panic!("it throws: {expression}"))
    }

    /// Waits until an expression is true (or anything else that is not nothing) and gives its value.
    pub(crate) async fn until(&mut self, expression: &str) -> Value {
        // Checked where it happens: each time the page draws.
        let waiting = format!(
            "new Promise((resolve) => {{ const look = () => {{ let value; \
             try {{ value = ({expression}); }} catch {{ value = null; }} \
             if (value) resolve(value); else setTimeout(look, 15); }}; setTimeout(() => resolve(null), 5000); look(); }})"
        );
        let begun = Instant::now();
        loop {
            match self.try_eval(&waiting).await {
                Some(value) if !value.is_null() => return value,
                // The page was loaded anew, or it takes longer.
                _ => tokio::time::sleep(Duration::from_millis(20)).await,
            }
            if begun.elapsed() > LIMIT {
                let shown = self.try_eval("document.body.innerText").await;
                let shown = shown.unwrap_or_default();
                let complaints = self.complaints();
                panic!(
                    "waited in vain for {expression}\n{complaints:#?}\n{}",
                    shown.as_str().unwrap_or_default()
                );
            }
        }
    }

    /// Waits for words on the page.
    pub(crate) async fn sees(&mut self, words: &str) {
        self.until(&format!(
            "document.body.innerText.includes({})",
            json!(words)
        ))
        .await;
    }

    /// Clicks with the mouse in the middle of the first element of `selector` that can be seen, once it stays where it is.
    pub(crate) async fn click(&mut self, selector: &str) {
        let selector = json!(selector);
        let at = self
            .until(&format!(
                "(async () => {{ const place = () => {{ \
                 const it = [...document.querySelectorAll({selector})].find((it) => it.checkVisibility() && !it.disabled); \
                 if (!it) return null; it.scrollIntoView({{block: 'nearest', behavior: 'instant'}}); const box = it.getBoundingClientRect(); \
                 return [box.x + box.width / 2, box.y + box.height / 2]; }}; \
                 const before = place(); await new Promise((resolve) => setTimeout(resolve, 50)); const now = place(); \
                 return before && String(before) === String(now) ? now : null; }})()"
            ))
            .await;
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            let event = json!({"type": kind, "x": at[0], "y": at[1], "button": if kind == "mouseMoved" { "none" } else { "left" }, "clickCount": 1});
            self.call("Input.dispatchMouseEvent", event).await;
        }
    }

    /// Clicks the button with these words, or this name for who cannot see it.
    pub(crate) async fn press(&mut self, words: &str) {
        let words = json!(words);
        self.until(&format!(
            "(() => {{ const it = [...document.querySelectorAll('button, a, [role=menuitem]')].findLast((it) => it.checkVisibility() && !it.disabled && \
             (it.innerText.trim() === {words} || it.getAttribute('aria-label') === {words})); if (!it) return null; \
             document.querySelector('[data-pressed]')?.removeAttribute('data-pressed'); it.setAttribute('data-pressed', ''); return true; }})()"
        ))
        .await;
        self.click("[data-pressed]").await;
    }

    /// Types where the focus is.
    pub(crate) async fn write(&mut self, text: &str) {
        self.call("Input.insertText", json!({ "text": text })).await;
    }

    /// Presses a key: `Enter`, `Tab`, `shift+Enter`.
    pub(crate) async fn key(&mut self, name: &str) {
        let (modifiers, key) = match name.split_once('+') {
            Some(("shift", key)) => (8, key),
            Some(("ctrl", key)) => (2, key),
            _ => (0, name),
        };
        let code = match key {
            "Enter" => 13,
            "Tab" => 9,
            "Escape" => 27,
            "ArrowDown" => 40,
            "ArrowRight" => 39,
            "End" => 35,
            "Home" => 36,
            " " => 32,
            letter if letter.len() == 1 => u32::from(letter.as_bytes()[0].to_ascii_uppercase()),
            _ => 0,
        };
        for kind in ["keyDown", "keyUp"] {
            let mut event = json!({"type": kind, "key": key, "code": if key == " " { "Space" } else { key },
                "windowsVirtualKeyCode": code, "modifiers": modifiers});
            if kind == "keyDown" && modifiers == 0 {
                match key {
                    "Enter" => event["text"] = "\r".into(),
                    " " => event["text"] = " ".into(),
                    _ => {}
                }
            }
            self.call("Input.dispatchKeyEvent", event).await;
        }
    }

    /// Drops files on the middle of the page.
    pub(crate) async fn drop_files(&mut self, files: &[&Path]) {
        for kind in ["dragEnter", "dragOver", "drop"] {
            let event = json!({"type": kind, "x": 500, "y": 300,
                "data": {"items": [], "files": files, "dragOperationsMask": 1}});
            self.call("Input.dispatchDragEvent", event).await;
        }
    }

    /// As on a screen of this size.
    pub(crate) async fn resize(&mut self, width: u32, height: u32, scheme: &str) {
        let metrics = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", metrics)
            .await;
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"}]});
        self.call("Emulation.setEmulatedMedia", features).await;
    }

    /// What is shown, as PNG.
    pub(crate) async fn picture(&mut self) -> Vec<u8> {
        let shot = self
            .call("Page.captureScreenshot", json!({"format": "png"}))
            .await;
        let data = shot["data"].as_str().unwrap();
        base64::engine::general_purpose::STANDARD
            .decode(data)
            .unwrap()
    }

    /// The addresses that it asked for so far, as told up to the last command.
    pub(crate) fn requested(&self) -> Vec<String> {
        let of = |event: &Value| {
            let url = event["params"]["request"]["url"].as_str()?;
            (event["method"] == "Network.requestWillBeSent").then(|| url.to_owned())
        };
        self.events.iter().filter_map(of).collect()
    }

    /// What its scripts and its security policy complained of.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let of = |event: &Value| match event["method"].as_str()? {
            "Runtime.exceptionThrown" => Some(event["params"]["exceptionDetails"].to_string()),
            "Log.entryAdded" if event["params"]["entry"]["level"] == "error" => {
                Some(event["params"]["entry"]["text"].as_str()?.to_owned())
            }
            _ => None,
        };
        self.events.iter().filter_map(of).collect()
    }
}
