//! One analysis on every wire: a question, code, a plot, an error, its fix, an answer; streamed by aimock, run by a real
//! kernel. And where all of it goes: to the server that was named, and nowhere else.

use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::aimock::Aimock;
use crate::recorder::{Recorded, Recorder};
use crate::support::{NOBODY, Sponde, TestKernel, assert_is_valid_notebook, ipykernel, start};

const QUESTION: &str = "How much rain fell, and what was the mean?";
const ANSWER: &str = "6 mm fell in three months, 2 mm in the mean; the chart shows them.";

/// The cells that the model writes.
const CELLS: [&str; 4] = [
    "rain = {'jan': 1, 'feb': 2, 'mar': 3}\nprint('sum', sum(rain.values()))",
    "import matplotlib\nimport matplotlib.pyplot as plt\n%matplotlib inline\nplt.figure(figsize=(2, 1.5), dpi=50)\nplt.bar(list(rain), list(rain.values()))\nplt.show()",
    "print('mean', sum(rain.values()) / len(snow))",
    "print('mean', sum(rain.values()) / len(rain))",
];

/// A way to speak to a model.
struct Wire {
    /// As for `--model`, and the model's name at the server.
    model: &'static str,
    /// The variable that says where the server is, and what follows its address there.
    variable: &'static str,
    path: &'static str,
    /// The variable its key is in.
    key: &'static str,
    /// Where requests go.
    target: &'static str,
    /// The header that carries the key.
    header: &'static str,
    /// Whether code comes in pieces; some send a call whole.
    streams_code: bool,
}

const WIRES: [Wire; 6] = [
    Wire {
        model: "gpt-4o",
        variable: "OPENAI_BASE_URL",
        path: "/v1",
        key: "OPENAI_API_KEY",
        target: "POST /v1/chat/completions",
        header: "authorization: Bearer sk-hunter2",
        streams_code: true,
    },
    Wire {
        model: "openai-responses/gpt-4.1",
        variable: "OPENAI_BASE_URL",
        path: "/v1",
        key: "OPENAI_API_KEY",
        target: "POST /v1/responses",
        header: "authorization: Bearer sk-hunter2",
        streams_code: true,
    },
    Wire {
        model: "anthropic/claude-sonnet-5-5",
        variable: "ANTHROPIC_BASE_URL",
        path: "",
        key: "ANTHROPIC_API_KEY",
        target: "POST /v1/messages",
        header: "x-api-key: sk-hunter2",
        streams_code: true,
    },
    Wire {
        model: "gemini/gemini-2.5-flash",
        variable: "GOOGLE_GEMINI_BASE_URL",
        path: "",
        key: "GEMINI_API_KEY",
        target: "POST /v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
        header: "x-goog-api-key: sk-hunter2",
        streams_code: false,
    },
    Wire {
        model: "ollama/gemma3",
        variable: "OLLAMA_HOST",
        path: "",
        key: "OLLAMA_API_KEY",
        target: "POST /api/chat",
        header: "authorization: Bearer sk-hunter2",
        streams_code: false,
    },
    Wire {
        model: "azure/gpt-4o-mini",
        variable: "AZURE_OPENAI_ENDPOINT",
        path: "",
        key: "AZURE_OPENAI_API_KEY",
        target: "POST /openai/deployments/gpt-4o-mini/chat/completions?api-version=2024-10-21",
        header: "api-key: sk-hunter2",
        streams_code: true,
    },
];

/// The same replies for every model, one after the other.
fn script() -> Value {
    let mut fixtures = Vec::new();
    for wire in &WIRES {
        let model = wire.model.rsplit('/').next().unwrap();
        let calls = CELLS.iter().map(|code| {
            let arguments = json!({ "code": code }).to_string();
            json!({"blocks": [
                {"type": "text", "text": "Let me see."},
                {"type": "toolCall", "name": "run_code", "arguments": arguments},
            ]})
        });
        let replies = calls.chain([json!({ "content": ANSWER })]);
        for (index, reply) in replies.enumerate() {
            let matches = json!({"model": model, "sequenceIndex": index});
            fixtures.push(json!({"match": matches, "response": reply}));
        }
    }
    Value::Array(fixtures)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_analysis_on_every_wire() {
    let mock = Aimock::start(&script()).await;
    let kernel = start(ipykernel()).await;
    for wire in &WIRES {
        let recorder = Recorder::before(&mock.url).await;
        let sponde = Sponde::new()
            .with(wire.variable, &format!("{}{}", recorder.url, wire.path))
            .with(wire.key, "sk-hunter2");
        let notebook = ask(&sponde, wire, &kernel).await;
        let requests = recorder.requests();

        let lines: Vec<&str> = requests.iter().map(|request| &*request.line).collect();
        assert_eq!(lines, [wire.target; 5], "{}", wire.model);
        for request in &requests {
            let headers = &request.headers;
            assert!(headers.lines().any(|it| it == wire.header), "{headers}");
        }
        // What was sent once is sent again.
        let words = |request: &Recorded| request.json().to_string();
        assert!(words(&requests[4]).contains("sum 6"), "{}", wire.model);
        assert!(words(&requests[3]).contains("NameError"), "{}", wire.model);
        assert!(words(&requests[4]).contains("mean 2.0"), "{}", wire.model);

        // The plot, as the kernel drew it, from the step after it on.
        let plot = plot(&notebook);
        let pictures: Vec<usize> = requests.iter().map(|it| it.pictures().len()).collect();
        assert_eq!(pictures, [0, 0, 1, 1, 1], "{}", wire.model);
        for request in &requests[2..] {
            assert!(
                request.pictures()[0] == plot,
                "{}: another picture",
                wire.model
            );
        }
    }
}

/// Asks the question, with all that is seen of it, and returns the notebook.
async fn ask(sponde: &Sponde, wire: &Wire, kernel: &TestKernel) -> Value {
    let model = wire.model;
    let file = kernel.connection_file().await.unwrap();
    let existing = format!("--existing={}", file.display());
    let arguments = [
        "ask",
        QUESTION,
        "--model",
        model,
        &existing,
        "--yes",
        "--json",
        "--notebook",
        "out.ipynb",
    ];
    let ended = tokio::task::block_in_place(|| sponde.run(&arguments));
    assert_eq!(
        (ended.code, ended.stderr.as_str()),
        (Some(0), ""),
        "{model}: {ended}"
    );
    let events = ended.events();
    let all = |name: &str, field: &str| -> Vec<Value> {
        let named = events.iter().filter(|event| event["event"] == name);
        named.map(|event| event[field].clone()).collect()
    };
    assert_eq!(all("code_proposed", "source"), CELLS, "{model}");
    assert_eq!(
        all("code_finished", "status"),
        ["ok", "ok", "error", "ok"],
        "{model}"
    );
    let words: String = all("text", "text")
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect();
    assert_eq!(
        words,
        format!("{}{ANSWER}", "Let me see.".repeat(4)),
        "{model}"
    );
    // It was streamed, words and code.
    assert!(all("text", "text").len() > 8, "{model}");
    assert_eq!(
        all("code_delta", "text").len() > 16,
        wire.streams_code,
        "{model}"
    );
    read(&sponde.path("out.ipynb"))
}

fn read(path: &Path) -> Value {
    assert_is_valid_notebook(path);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// The one picture in a notebook.
fn plot(notebook: &Value) -> Vec<u8> {
    let mut pictures = notebook["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|cell| cell["outputs"].as_array())
        .flatten()
        .filter_map(|output| output["data"]["image/png"].as_str());
    let picture = pictures.next().unwrap();
    assert!(pictures.next().is_none());
    BASE64_STANDARD.decode(picture.trim()).unwrap()
}

/// Not a byte goes anywhere but to the server that was named: no other vendor, no side request, no telemetry. Every
/// connection that is not to this machine would go through the proxy, which writes them all down.
#[tokio::test(flavor = "multi_thread")]
async fn every_byte_goes_to_the_server_that_was_named() {
    let mock = Aimock::start(&json!([
        {"match": {"sequenceIndex": 0}, "response": {"content": "", "toolCalls": [
            {"name": "run_code", "arguments": json!({ "code": "print(6 * 7)" }).to_string()}]}},
        {"match": {"sequenceIndex": 1}, "response": {"content": "It is 42."}},
    ]))
    .await;
    let recorder = Recorder::before(&mock.url).await;
    let mut sponde = Sponde::new()
        .with("OPENAI_BASE_URL", "http://models.example/v1")
        .with("OPENAI_API_KEY", "sk-hunter2");
    // Keys for everybody else lie about, and the proxy sees what is done with them.
    for variable in [
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "OPENROUTER_API_KEY",
        "GROQ_API_KEY",
        "MISTRAL_API_KEY",
        "DEEPSEEK_API_KEY",
        "AWS_BEARER_TOKEN_BEDROCK",
    ] {
        sponde = sponde.with(variable, "sk-another");
    }
    for variable in [
        "http_proxy",
        "https_proxy",
        "all_proxy",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
    ] {
        sponde = sponde.with(variable, &recorder.url);
    }
    let arguments = [
        "ask",
        "What is 6*7?",
        "--model",
        "gpt-4o",
        "--yes",
        "--notebook",
        "out.ipynb",
    ];
    let ended = tokio::task::block_in_place(|| sponde.run(&arguments));

    assert_eq!(
        (ended.code, ended.stdout.trim()),
        (Some(0), "It is 42."),
        "{ended}"
    );
    let requests = recorder.requests();
    let lines: Vec<&str> = requests.iter().map(|request| &*request.line).collect();
    assert_eq!(lines, ["POST http://models.example/v1/chat/completions"; 2]);
    for request in &requests {
        assert!(request.headers.contains("authorization: Bearer sk-hunter2"));
        assert!(
            !request.headers.contains("sk-another"),
            "{}",
            request.headers
        );
        assert!(!String::from_utf8_lossy(&request.body).contains("sk-"));
    }
    // Nor is a key on disk.
    assert!(!sponde.read("out.ipynb").contains("sk-"));
    assert_ne!(recorder.url, NOBODY);
}
