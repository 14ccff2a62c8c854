//! OpenAI's wire: its Python SDK on a server with real kernels in the sandbox. The model runs what a question tells it to.

use std::process::Command;

use serde_json::{Value, json};

use super::{fixture, python, seen};
use crate::model_server::{Answer, ModelServer, Request};
use crate::support::Sponde;

/// What stands between `NAME[[` and `]]`, the last time it does.
fn told(text: &str, name: &str) -> Option<String> {
    let (_, rest) = text.rsplit_once(&format!("{name}[["))?;
    Some(rest.split_once("]]")?.0.to_owned())
}

/// Runs what the last question says, and then says what it says.
fn obey(request: &Request) -> (Answer, u64) {
    if request.body.is_empty() {
        // What is looked for at every address: a list of models.
        return (Answer::Refuse(404, json!({"error": {"message": "no"}})), 0);
    }
    let request = request.json();
    let messages = request["messages"].as_array().unwrap();
    let text = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        parts => {
            let parts = parts.as_array().into_iter().flatten();
            parts.filter_map(|part| part["text"].as_str()).collect()
        }
    };
    let asked = messages
        .iter()
        .rposition(|it| it["role"] == "user" && text(it).contains("SAY[["));
    let asked = asked.expect("a question");
    let question = text(&messages[asked]);
    // What is asked now, not what was asked before and is told again.
    let question = question
        .rsplit_once("# The question\n")
        .map_or(question.as_str(), |(_, last)| last);
    let has_run = messages[asked..].iter().any(|it| it["role"] == "tool");
    let answer = match told(question, "RUN") {
        Some(code) if !has_run => Answer::Call(code),
        _ => Answer::Text(told(question, "SAY").unwrap()),
    };
    (answer, 100)
}

fn expected() -> Value {
    let refused = |name: &str, status: u16| json!([name, status]);
    json!({
        "models": ["sponde", true, "sponde"],
        "no_model": ["NotFoundError", 404, "there is no such model; `GET /v1/models` lists those that there are"],
        "plot": {
            "status": ["completed", "completed", {"topic": "plots"}, true],
            "items": ["code_interpreter_call", "message"],
            "code": true,
            "logs": [["one\n"]],
            "picture": "PNG",
            "text": "Here is chart.png for you.",
            // What was saved, and what was shown.
            "cited": [2, "chart.png", true],
            "content": "PNG",
        },
        "goes_on": [[["42\n"]], true, "It is 42."],
        "no_outputs": null,
        "not_last": refused("ConflictError", 409),
        "retrieved": ["It is 42."],
        "input_items": ["RUN[[print(x + 1)]] SAY[[It is 42.]]"],
        "resent": [[["41\n"]], true],
        "stream": {
            "kinds": ["response.created", "response.in_progress", "response.output_item.added",
                "response.code_interpreter_call.in_progress", "response.code_interpreter_call_code.delta",
                "response.code_interpreter_call_code.done", "response.code_interpreter_call.interpreting",
                "response.code_interpreter_call.completed", "response.output_item.done",
                "response.output_item.added", "response.content_part.added", "response.output_text.delta",
                "response.output_text.done", "response.content_part.done", "response.output_item.done",
                "response.completed"],
            "numbered": true,
            "code": "print('streamed')\n1 / 0",
            "logs": ["streamed"],
            "error": true,
            "status": ["completed", "completed"],
            "text": "It failed.",
        },
        "input": true,
        "container": ["container", "mine", 5, true],
        "files": {
            "sent": ["container.file", 6, "user", true],
            "read": [["['n', '1', '2'] ['numbers.csv', 'other.txt']\n1"]],
            "listed": [["made.txt", "assistant"], ["numbers.csv", "user"], ["other.txt", "user"]],
            "paged": ["made.txt", "numbers.csv", "other.txt"],
            "content": "n\n1\n2\n",
            "retrieved": 6,
        },
        "deleted_file": refused("NotFoundError", 404),
        "for_ever": null,
        "usual": 20,
        "hostile": {
            "peek": "hidden",
            "link": [],
            "other": refused("NotFoundError", 404),
            "ids": [404],
            "files": [404],
            "names": vec![refused("BadRequestError", 400); 4],
            "container": refused("NotFoundError", 404),
            "network": refused("BadRequestError", 400),
            "response": refused("NotFoundError", 404),
            "token": refused("AuthenticationError", 401),
        },
        "deleted": refused("NotFoundError", 404),
        "forgotten": refused("NotFoundError", 404),
        "fresh": [[["False\n"]], true],
        "unsupported": ["`background: true`", "the tool `web_search`", "`conversation`", "a `text.format` other than text",
            "`n` above 1"],
        "file_ids": refused("NotFoundError", 404),
        "stored": {
            "made": ["file", "rain.csv", "user_data", 7, "processed"],
            "listed": [true],
            "retrieved": "rain.csv",
            "content": "mm\n4\n2\n",
            "used": [["6\n"]],
            "attached": [["mm\n\n"]],
            "in_container": ["rain.csv"],
            "deleted": true,
            "gone": refused("NotFoundError", 404),
            "hostile": [404],
            "purpose": refused("BadRequestError", 400),
            "copy_stays": [["True\n"]],
        },
        "network": [[["reached\n"]], [["nothing\n"]], [["nothing\n"]]],
        "at_once": ["one", "two"],
        "no_question": refused("BadRequestError", 400),
        "no_such_model": refused("NotFoundError", 404),
        "cancelled": [["7\n"]],
        "chat": ["set", "stop", true, true, true],
        "chat_stream": ["piece by piece", "stop", true],
        "stateless": ["a picture", true],
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn the_python_sdk_of_openai() {
    let model = ModelServer::start(obey).await;
    let sponde = Sponde::new()
        .with("OPENAI_BASE_URL", &model.url)
        .with("OPENAI_API_KEY", "sk-hunter2");
    let seen = tokio::task::block_in_place(|| {
        let mut server = sponde.start(&["serve", "--model", "gpt-4o", "--network", "on"]);
        let url = server.line();
        let (base, token) = url.trim().split_once("/#token=").expect("a URL");
        let mut client = Command::new(python());
        client
            .arg(fixture("openai_client.py"))
            .args([base, token])
            .env("NO_PROXY", "*");
        let seen = seen(&mut client);
        server.signal(rustix::process::Signal::TERM);
        assert_eq!(server.end().code, Some(0));
        seen
    });
    let expected = expected();
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(seen.get(key), Some(value), "{key}");
    }
    assert_eq!(seen, expected);
    // The model saw the picture of the question.
    let requests = model.requests();
    let asked = requests.iter().rfind(|it| !it.body.is_empty());
    let last = asked.unwrap().json().to_string();
    assert!(last.contains("data:image/png;base64,iVBOR"));
    assert!(last.contains("You are brief.") && last.contains("You: first"));
    sponde.assert_no_process_is_left();
}
