//! The page of `run_code` in a client: a host that does what SEP-1865 asks of hosts, in a real browser, in front of the real
//! server and kernel.

use std::fmt::Write as _;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::{Pipes, mcp::modern};
use crate::browser::{Browser, Page};
use crate::support::Sponde;

/// What a host allows a page that names no domains, word for word.
const POLICY: &str = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
    media-src 'self' data:; connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'";

const HOST: &str = r#"<!doctype html><title>host</title><iframe id="app" sandbox="allow-scripts" style="width:800px;height:900px"></iframe><script>
const app = document.getElementById("app"), seen = [], asked = [];
const tell = (message) => app.contentWindow.postMessage({ jsonrpc: "2.0", ...message }, "*");
addEventListener("message", ({ source, data }) => {
  if (source !== app.contentWindow) return;
  seen.push(data);
  if (data.method === "ui/initialize") {
    tell({ id: data.id, result: { protocolVersion: data.params.protocolVersion, hostInfo: { name: "test", version: "1" },
      hostCapabilities: { serverTools: {}, serverResources: {} }, hostContext: { theme: "dark", displayMode: "inline" } } });
  } else if (data.id !== undefined && data.method) {
    asked.push(data);
  }
});
const start = (html) => { app.srcdoc = html; };
</script>"#;

/// Serves the host's page to anyone who asks.
async fn host() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request).await;
            let mut answer = "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n".to_owned();
            let _ = write!(
                answer,
                "content-length: {}\r\nconnection: close\r\n\r\n{HOST}",
                HOST.len()
            );
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

/// What the page inside of the frame asks the host for goes to the server, and the answer back.
async fn serve(page: &mut Page, pipes: &mut Pipes, id: &mut u32) {
    page.until("asked.length > 0").await;
    let asked = page.eval("asked.shift()").await;
    *id += 1;
    let method = asked["method"].as_str().unwrap();
    let answer = pipes.asked(&modern(*id, method, asked["params"].clone()));
    let reply = json!({"id": asked["id"], "result": answer["result"]});
    page.eval(&format!("tell({reply}), 1")).await;
}

/// A click on the button with these words.
async fn press(frame: &mut Page, words: &str) {
    let words = Value::from(words);
    frame
        .until(&format!(
            "(() => {{ const it = [...document.querySelectorAll('button')].find((it) => it.checkVisibility() && !it.disabled && it.textContent === {words}); it?.click(); return Boolean(it); }})()"
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_a_run_shows_outputs_and_tables() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = Sponde::new();
    let mut pipes = Pipes::start(&sponde, &["mcp", "--root", "."]);
    let tools = pipes.asked(&modern(1, "tools/list", json!({})));
    let tool = |name: &str| {
        let all = tools["result"]["tools"].as_array().unwrap();
        all.iter().find(|it| it["name"] == name).unwrap().clone()
    };
    let uri = tool("run_code")["_meta"]["ui"]["resourceUri"].clone();
    assert_eq!(uri, "ui://sponde/outputs");
    assert_eq!(tool("undo").get("_meta"), None);
    let listed = pipes.asked(&modern(2, "resources/list", json!({})));
    assert_eq!(listed["result"]["resources"][0]["uri"], uri);
    let read = pipes.asked(&modern(3, "resources/read", json!({"uri": uri})));
    let contents = &read["result"]["contents"][0];
    assert_eq!(contents["mimeType"], "text/html;profile=mcp-app");
    let html = contents["text"].as_str().unwrap();

    let code = "import pandas as pd, matplotlib.pyplot as plt\n\
        df = pd.DataFrame({'<b>n</b>': range(120), 'text': ['<img src=x onerror=parent.hit=1>'] * 120})\n\
        print('<script>parent.hit = 1</script>', len(df))\nplt.plot([1, 2]); plt.show()";
    let arguments = json!({"code": code});
    let ran = pipes.asked(&modern(
        4,
        "tools/call",
        json!({"name": "run_code", "arguments": arguments}),
    ));

    let mut page = browser.open(&host().await).await;
    let policy = format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">");
    let framed = html.replacen("<head>", &format!("<head>{policy}"), 1);
    page.eval(&format!("start({}), 1", Value::from(framed)))
        .await;
    page.until("seen.some((it) => it.method === 'ui/notifications/initialized')")
        .await;
    let input =
        json!({"method": "ui/notifications/tool-input", "params": {"arguments": arguments}});
    let result = json!({"method": "ui/notifications/tool-result", "params": ran["result"]});
    page.eval(&format!("tell({input}), tell({result}), 1"))
        .await;
    let mut frame = browser.frame().await;
    frame.sees("<script>parent.hit = 1</script> 120").await;
    frame
        .until("document.querySelector('img')?.naturalWidth > 100")
        .await;
    assert_eq!(
        frame
            .eval("document.querySelector('#code pre').textContent")
            .await,
        code
    );
    assert_eq!(
        frame
            .eval("document.documentElement.style.colorScheme")
            .await,
        "dark"
    );
    // The size is told, so that the host can make room.
    page.until("seen.some((it) => it.method === 'ui/notifications/size-changed' && it.params.height > 300)")
        .await;
    // Variables, then rows of the table, in order and further on.
    let mut id = 10;
    press(&mut frame, "Variables").await;
    serve(&mut page, &mut pipes, &mut id).await;
    press(&mut frame, "df").await;
    serve(&mut page, &mut pipes, &mut id).await;
    frame.sees("rows 1 to 50 of 120").await;
    press(&mut frame, "<b>n</b>").await;
    serve(&mut page, &mut pipes, &mut id).await;
    press(&mut frame, "<b>n</b> ↑").await;
    serve(&mut page, &mut pipes, &mut id).await;
    frame
        .until("document.querySelector('tr:nth-child(2) td').textContent === '119'")
        .await;
    press(&mut frame, "On").await;
    serve(&mut page, &mut pipes, &mut id).await;
    frame.sees("rows 51 to 100 of 120").await;
    press(&mut frame, "Full size").await;
    serve(&mut page, &mut pipes, &mut id).await;
    frame
        .until("![...document.querySelectorAll('button')].some((it) => it.textContent === 'Full size')")
        .await;
    // What is wrong is said where it was asked for.
    press(&mut frame, "Variables").await;
    page.until("asked.length > 0").await;
    page.eval(
        "tell({id: asked.shift().id, error: {code: -32000, message: 'the host says no'}}), 1",
    )
    .await;
    frame.sees("the host says no").await;
    assert_eq!(page.eval("window.hit ?? null").await, Value::Null);
    assert_eq!(page.complaints(), Vec::<String>::new());
    pipes.end();
}
