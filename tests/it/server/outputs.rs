//! What cells put out, as a page gets it.

use reqwest::Method;
use serde_json::json;

use super::{Server, answer, with_model};

#[expect(clippy::too_many_lines, reason = "one kernel is asked many things")]
#[tokio::test(flavor = "multi_thread")]
async fn outputs_by_type_with_ranges_and_as_safe_html() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let session = server.session(json!({})).await;
    let code = "from IPython.display import display, HTML, SVG\nprint('plain')\n\
        display({'text/html': '<b onclick=\"evil()\">bold</b><a href=\"javascript:evil()\">x</a>', 'text/plain': 'bold'}, raw=True)\n\
        display({'text/html': '<div id=a></div><script>parent.document.title</script>', 'text/plain': 'drawn'}, raw=True)\n\
        display({'image/svg+xml': '<svg xmlns=\"http://www.w3.org/2000/svg\"><script>evil()</script></svg>'}, raw=True)\n\
        display({'image/png': 'iVBORw0KGgo=', 'application/json': {'a': list(range(30000))}}, raw=True)\n\
        1/0";
    let mut events = server.events(&session, "").await;
    let cell = server.run(&session, code).await;
    let items = events.until(|item| item["event"] == "turn_finished").await;
    let large = items
        .iter()
        .find_map(|item| item["edit"]["emit"]["output"]["display"]["data"].get("application/json"));
    let bytes = json!({ "a": (0..30000).collect::<Vec<_>>() })
        .to_string()
        .len();
    assert_eq!(large, Some(&json!({ "large": bytes })));

    let outputs = format!("{session}/cells/{cell}/outputs");
    let (_, types) = server.get(&format!("{outputs}/4")).await;
    let expected = json!({"types": [{"mime": "image/png", "bytes": 8},
        {"mime": "application/json", "bytes": bytes}]});
    assert_eq!(types, expected);
    let ask = &server;
    let fetch = |path: String| async move {
        let response = ask.request(Method::GET, &path).send().await.unwrap();
        let head = |name: &str| {
            let value = response.headers().get(name);
            value.map_or(String::new(), |it| it.to_str().unwrap().to_owned())
        };
        let heads = [
            head("content-type"),
            head("content-disposition"),
            head("content-security-policy"),
        ];
        assert_eq!(head("x-content-type-options"), "nosniff");
        (
            response.status().as_u16(),
            heads,
            response.bytes().await.unwrap(),
        )
    };
    let (status, heads, png) = fetch(format!("{outputs}/4/image%2Fpng")).await;
    assert_eq!((status, &*png), (200, b"\x89PNG\r\n\x1a\n".as_slice()));
    assert!(
        heads[0] == "image/png" && heads[1].starts_with("inline;"),
        "{heads:?}"
    );
    // What is no picture is saved, and nothing of it runs in our origin.
    let (_, heads, html) = fetch(format!("{outputs}/2/text%2Fhtml")).await;
    assert!(
        heads[1].starts_with("attachment;") && heads[2].contains("sandbox"),
        "{heads:?}"
    );
    assert!(!heads[2].contains("allow") && html.starts_with(b"<div id=a>"));
    let (_, heads, _) = fetch(format!("{outputs}/3/image%2Fsvg%2Bxml")).await;
    assert!(
        heads[2].contains("default-src 'none'") && heads[2].ends_with("sandbox"),
        "{heads:?}"
    );
    let part = server.request(Method::GET, &format!("{outputs}/0/text%2Fplain"));
    let part = part.header("range", "bytes=1-3").send().await.unwrap();
    assert_eq!(part.status(), 206);
    assert_eq!(part.headers()["content-range"], "bytes 1-3/6");
    assert_eq!(part.text().await.unwrap(), "lai");
    let (_, _, error) = fetch(format!("{outputs}/5/text%2Fplain")).await;
    assert!(String::from_utf8_lossy(&error).contains("ZeroDivisionError"));
    for missing in ["9", "x", "4/text%2Fplain", "0/image%2Fpng"] {
        let (status, _, _) = fetch(format!("{outputs}/{missing}")).await;
        assert_eq!(status, 404, "{missing}");
    }

    let (_, html) = server.get(&format!("{outputs}/1/html")).await;
    assert_eq!(
        html["html"].as_str().unwrap(),
        "<div class=\"rich\" tabindex=\"0\" role=\"region\" aria-label=\"Output\"><b>bold</b><a rel=\"noopener noreferrer\">x</a></div>\n"
    );
    let (_, svg) = server.get(&format!("{outputs}/3/html")).await;
    assert!(
        svg["html"]
            .as_str()
            .unwrap()
            .starts_with("<img src=\"data:image/svg+xml;base64,")
    );
    // What a script draws gets a frame without an origin, under a ticket.
    let (_, frame) = server.get(&format!("{outputs}/2/html")).await;
    let frame = frame["frame"].as_str().unwrap().to_owned();
    let document = server.bare(Method::GET, &frame).send().await.unwrap();
    let policy = document.headers()["content-security-policy"]
        .to_str()
        .unwrap()
        .to_owned();
    assert!(policy.starts_with("sandbox allow-scripts ") && !policy.contains("allow-same-origin"));
    assert!(policy.contains("connect-src 'none'") && policy.contains("default-src 'none'"));
    assert!(
        document
            .text()
            .await
            .unwrap()
            .contains("<script>parent.document.title</script>")
    );
    let other = frame.replace("/2", "/1");
    for bad in [
        other,
        frame.replace("/out/", "/out/x"),
        format!("/out/x/{cell}/2"),
    ] {
        assert_eq!(answer(server.bare(Method::GET, &bad)).await.0, 403, "{bad}");
    }

    let text = json!({ "texts": ["*a* <script>b</script>", "![x](http://e.example/x.png)"] });
    let (_, rendered) = server.post("/api/markdown", &text).await;
    assert_eq!(
        rendered,
        json!({"htmls": ["<p><em>a</em> </p>\n",
            "<p><a href=\"http://e.example/x.png\" rel=\"noopener noreferrer\">x</a></p>\n"]})
    );
    let code = json!({ "code": "x = '<'", "language": "python" });
    let (_, rendered) = server.post("/api/highlight", &code).await;
    assert_eq!(
        rendered,
        json!({"html": "x = <span class=\"h-s\">&#39;&lt;&#39;</span>"})
    );

    for (ending, begins) in [
        ("ipynb", "{"),
        ("html", "<!doctype html>"),
        ("md", ""),
        ("py", "#"),
    ] {
        let (status, heads, text) = fetch(format!("{session}/notebook.{ending}")).await;
        assert_eq!(status, 200);
        assert!(
            heads[1].starts_with("attachment;") && heads[1].ends_with(ending),
            "{heads:?}"
        );
        let text = String::from_utf8(text.to_vec()).unwrap();
        assert!(
            text.starts_with(begins) && text.contains("IPython.display"),
            "{text}"
        );
    }
    assert_eq!(server.get(&format!("{session}/notebook.exe")).await.0, 404);
    server.end();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plot_is_a_vector_graphic_and_data_too() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let session = server.session(json!({})).await;
    let code =
        "import matplotlib.pyplot as plt\nprint('drawn')\nplt.plot([1, 2], [3, 5])\nplt.show()";
    let mut events = server.events(&session, "").await;
    let cell = server.run(&session, code).await;
    events.until(|item| item["event"] == "turn_finished").await;
    let outputs = format!("{session}/cells/{cell}/outputs");
    let types = |answer: &serde_json::Value| {
        let types = answer["types"].as_array().unwrap().iter();
        let names = types.map(|it| it["mime"].as_str().unwrap().to_owned());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let plot = async || types(&server.get(&format!("{outputs}/1")).await.1);
    assert_eq!(
        plot().await,
        [
            "application/vnd.sponde.chart+json",
            "image/png",
            "image/svg+xml",
            "text/csv",
            "text/plain"
        ]
    );
    assert_eq!(
        types(&server.get(&format!("{outputs}/0")).await.1),
        ["text/plain"]
    );
    let fetch = async |mime: &str| {
        let path = format!("{outputs}/1/{}", mime.replace('/', "%2F"));
        let response = server.request(Method::GET, &path).send().await.unwrap();
        let status = response.status().as_u16();
        let policy = response.headers().get("content-security-policy").cloned();
        (status, policy, response.text().await.unwrap())
    };
    let (status, policy, graphic) = fetch("image/svg+xml").await;
    assert_eq!(status, 200);
    assert!(policy.unwrap().to_str().unwrap().contains("sandbox"));
    assert!(graphic.contains("<svg"), "{graphic}");
    let (status, _, data) = fetch("text/csv").await;
    assert_eq!(status, 200);
    assert!(data.lines().last().unwrap().ends_with(",2,5"), "{data}");
    // Code that puts a link in its place gets nothing out.
    let (_, sessions) = server.get("/api/sessions").await;
    let notebook = sessions["live"][0]["notebook"].as_str().unwrap();
    let notebook = std::path::PathBuf::from(notebook);
    let stem = notebook.file_stem().unwrap().to_str().unwrap().to_owned();
    let folder = notebook.with_file_name(format!("{stem}_files"));
    let secret = sponde.write("secret", "hunter2");
    let graphic = folder.join("plot-1.svg");
    std::fs::remove_file(&graphic).unwrap();
    std::os::unix::fs::symlink(secret, graphic).unwrap();
    assert_eq!(
        plot().await,
        [
            "application/vnd.sponde.chart+json",
            "image/png",
            "text/csv",
            "text/plain"
        ]
    );
    assert_eq!(fetch("image/svg+xml").await.0, 404);
    assert_eq!(server.end().code, Some(0));
}

/// What is stored compressed is sent so to clients that take it, and the file itself to others.
#[tokio::test(flavor = "multi_thread")]
async fn large_files_of_the_page_are_sent_compressed() {
    use std::io::Read as _;

    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let fetch = async |accepted: &str| {
        let request = server.bare(Method::GET, "/assets/vendor/vega.min.js");
        let request = request.header("accept-encoding", accepted);
        let response = request.send().await.unwrap();
        assert_eq!(
            response.headers()["content-type"],
            "text/javascript; charset=utf-8"
        );
        let coding = response.headers().get("content-encoding").cloned();
        let coding = coding.map(|it| it.to_str().unwrap().to_owned());
        (coding, response.bytes().await.unwrap())
    };
    let (coding, compressed) = fetch("br, gzip;q=0.8").await;
    assert_eq!(coding.as_deref(), Some("gzip"));
    let (coding, plain) = fetch("gzip;q=0, br").await;
    assert_eq!(coding, None);
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(&*compressed)
        .read_to_end(&mut text)
        .unwrap();
    assert_eq!(text, plain);
    assert!(plain.len() > 500_000 && compressed.len() * 2 < plain.len());
    assert_eq!(server.end().code, Some(0));
}
