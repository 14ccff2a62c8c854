//! `/openapi.json` says of every route what it answers, and real answers are that, as Python's `jsonschema` judges.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};

use super::{LIMIT, Server, with_model};
use crate::support::python_prefix;

/// Judges each answer by the schema of its operation; one whose fields have other names must be refused.
const JUDGE: &str = "
import json, sys
from jsonschema import Draft202012Validator
document, answers = (json.load(open(name)) for name in sys.argv[1:3])
def part(text):
    return text.replace('~', '~0').replace('/', '~1')
for answer in answers:
    at = '/'.join(['#', 'paths', part(answer['path']), answer['method'], 'responses', '2XX', 'content', part(answer['type']), 'schema'])
    judge = Draft202012Validator({'$ref': at, **{key: document[key] for key in ('paths', 'components')}})
    judge.check_schema(document['components']['schemas']['Answers'])
    error = next(judge.iter_errors(answer['body']), None)
    assert error is None, (answer['method'], answer['path'], error.message, list(error.absolute_path), answer['body'])
    body = answer['body']
    if answer['is_free']:
        broken = [body]
    elif isinstance(body, list):
        broken = [{f'{key}_': value for key, value in body[0].items()}]
    else:
        broken = {f'{key}_': value for key, value in body.items()}
    assert not judge.is_valid(broken), (answer['method'], answer['path'], 'takes everything')
print(len(answers))
";

/// Answers by operation.
struct Asker<'a> {
    server: &'a Server<'a>,
    answers: Vec<Value>,
    seen: BTreeSet<(String, String)>,
}

impl Asker<'_> {
    /// Asks; `route` is the path as the document has it.
    async fn ask(&mut self, method: &str, route: &str, path: &str, body: &Value) -> Value {
        let request = self.request(method, path);
        let request = if body.is_null() {
            request
        } else {
            request.json(body)
        };
        self.send(method, route, request).await
    }

    fn request(&self, method: &str, path: &str) -> RequestBuilder {
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        self.server.request(method, path)
    }

    async fn send(&mut self, method: &str, route: &str, request: RequestBuilder) -> Value {
        let response = request.timeout(LIMIT).send().await.unwrap();
        let status = response.status();
        let text = response.text().await.unwrap();
        assert!(status.is_success(), "{method} {route}: {status} {text}");
        let body: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{method} {route}: {text}"));
        self.take(method, route, "application/json", &body);
        body
    }

    fn take(&mut self, method: &str, route: &str, kind: &str, body: &Value) {
        self.seen.insert((method.to_owned(), route.to_owned()));
        let is_free = body
            .as_object()
            .is_some_and(|it| route.contains("/config/") || it.contains_key("openapi"));
        // Of an empty list nothing can be said.
        assert!(*body != json!([]), "{method} {route}: nothing to judge");
        self.answers.push(json!({
            "method": method, "path": route, "type": kind, "body": body, "is_free": is_free,
        }));
    }
}

/// Operations whose answer is JSON by the document.
fn promised(document: &Value) -> BTreeMap<(String, String), String> {
    let mut promised = BTreeMap::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let content = operation["responses"]["2XX"]["content"].as_object();
            for (kind, content) in content.into_iter().flatten() {
                if content.get("schema").is_some() {
                    promised.insert((method.clone(), path.clone()), kind.clone());
                }
            }
        }
    }
    promised
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_what_the_document_says() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let mut asker = Asker {
        server: &server,
        answers: Vec::new(),
        seen: BTreeSet::new(),
    };
    let none = Value::Null;
    let document = asker
        .ask("get", "/openapi.json", "/openapi.json", &none)
        .await;
    asker.ask("get", "/health", "/health", &none).await;
    asker.ask("get", "/api/about", "/api/about", &none).await;
    asker.ask("get", "/api/models", "/api/models", &none).await;
    asker
        .ask("get", "/api/kernels", "/api/kernels", &none)
        .await;
    let texts = json!({"texts": ["# a", "b"]});
    asker
        .ask("post", "/api/markdown", "/api/markdown", &texts)
        .await;
    let text = json!({"text": "*a*"});
    asker
        .ask("post", "/api/markdown", "/api/markdown", &text)
        .await;
    let code = json!({"code": "x = 1", "language": "python"});
    asker
        .ask("post", "/api/highlight", "/api/highlight", &code)
        .await;
    of_a_session(&mut asker).await;
    of_jupyter(&mut asker).await;
    let promised = promised(&document);
    let missing: Vec<_> = promised
        .keys()
        .filter(|it| !asker.seen.contains(*it))
        .collect();
    assert!(missing.is_empty(), "not asked: {missing:?}");
    let unpromised: Vec<_> = asker
        .seen
        .iter()
        .filter(|it| !promised.contains_key(*it))
        .collect();
    assert!(unpromised.is_empty(), "not in the document: {unpromised:?}");
    assert!(promised.len() > 40, "{}", promised.len());
    let count = asker.answers.len();
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, value: &Value| {
        let path = dir.path().join(name);
        std::fs::write(&path, value.to_string()).unwrap();
        path
    };
    let judged = Command::new(python_prefix().join("bin/python"))
        .args(["-c", JUDGE])
        .arg(file("document.json", &document))
        .arg(file("answers.json", &Value::Array(asker.answers)))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&judged.stderr);
    assert!(judged.status.success(), "{said}");
    assert_eq!(
        String::from_utf8_lossy(&judged.stdout).trim(),
        count.to_string()
    );
    server.end();
}

const MADE: &str = "import pandas as pd, matplotlib.pyplot as plt\n\
    df = pd.DataFrame({'n': range(300), 'c': ['x', 'y', None] * 100})\nprint('made')\n\
    display({'text/html': '<b>bold</b>'}, raw=True)\n\
    display({'text/html': '<script>1</script>'}, raw=True)\nplt.plot([1, 2]); plt.show()";

async fn of_a_session(asker: &mut Asker<'_>) {
    let none = Value::Null;
    let sessions = "/api/sessions";
    let made = asker.ask("post", sessions, sessions, &json!({})).await;
    let path = format!("{sessions}/{}", made["id"].as_str().unwrap());
    let cell = asker.server.run(&path, MADE).await;
    let mut events = asker.server.events(&path, "").await;
    let run = json!({"command": "run", "code": "1 / 0", "key": "k"});
    let commands = "/api/sessions/{id}/commands";
    asker
        .ask("post", commands, &format!("{path}/commands"), &run)
        .await;
    for item in events.until(|item| item["event"] == "turn_finished").await {
        asker.take(
            "get",
            "/api/sessions/{id}/events",
            "text/event-stream",
            &item,
        );
    }
    asker.ask("get", "/api/sessions/{id}", &path, &none).await;
    let of = |rest: &str| format!("/api/sessions/{{id}}/{rest}");
    for (route, rest) in [
        (of("variables"), "variables".to_owned()),
        (of("complete"), "complete?code=df.he".to_owned()),
        (of("inspect"), "inspect?code=print".to_owned()),
        (of("inspect"), "inspect?code=not_there".to_owned()),
        (of("frames/{name}"), "frames/df?limit=3".to_owned()),
        (
            of("frames/{name}/columns/{column}"),
            "frames/df/columns/n".to_owned(),
        ),
        (
            of("frames/{name}/columns/{column}"),
            "frames/df/columns/c".to_owned(),
        ),
        (
            of("cells/{cell}/text"),
            format!("cells/{cell}/text?search=made"),
        ),
        (
            of("cells/{cell}/outputs/{n}"),
            format!("cells/{cell}/outputs/0"),
        ),
        (
            of("cells/{cell}/outputs/{n}"),
            format!("cells/{cell}/outputs/3"),
        ),
        (
            of("cells/{cell}/outputs/{n}/{mime}"),
            format!("cells/{cell}/outputs/1/html"),
        ),
        (
            of("cells/{cell}/outputs/{n}/{mime}"),
            format!("cells/{cell}/outputs/2/html"),
        ),
    ] {
        asker
            .ask("get", &route, &format!("{path}/{rest}"), &none)
            .await;
    }
    let form = "--edge\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\r\na\r\n--edge--\r\n";
    let request = asker.request("post", &format!("{path}/files")).body(form);
    let request = request.header("content-type", "multipart/form-data; boundary=edge");
    asker.send("post", &of("files"), request).await;
    let request = asker
        .request("put", &format!("{path}/files/sub/b.txt"))
        .body("b");
    asker.send("put", &of("files/{path}"), request).await;
    asker
        .ask("get", &of("files"), &format!("{path}/files"), &none)
        .await;
    asker
        .ask("post", &of("fork"), &format!("{path}/fork"), &json!({}))
        .await;
    asker.ask("get", sessions, sessions, &none).await;
}

async fn of_jupyter(asker: &mut Asker<'_>) {
    let none = Value::Null;
    let at = |rest: &str| format!("/jupyter/api{rest}");
    for (route, rest) in [
        ("", ""),
        ("/status", "/status"),
        ("/me", "/me"),
        ("/kernelspecs", "/kernelspecs"),
        ("/kernelspecs/{name}", "/kernelspecs/python3"),
        ("/contents", "/contents"),
        ("/contents/{path}", "/contents/a.txt"),
        ("/contents/{path}", "/contents/sub"),
    ] {
        asker.ask("get", &at(route), &at(rest), &none).await;
    }
    let settings = json!({"a": {"b": 1}});
    asker
        .ask(
            "patch",
            &at("/config/{section}"),
            &at("/config/notebook"),
            &settings,
        )
        .await;
    asker
        .ask(
            "get",
            &at("/config/{section}"),
            &at("/config/notebook"),
            &none,
        )
        .await;
    let made = asker
        .ask(
            "post",
            &at("/contents"),
            &at("/contents"),
            &json!({"type": "notebook"}),
        )
        .await;
    let path = at(&format!("/contents/{}", made["path"].as_str().unwrap()));
    let contents = at("/contents/{path}");
    asker
        .ask(
            "post",
            &contents,
            &at("/contents/sub"),
            &json!({"type": "file", "ext": ".py"}),
        )
        .await;
    let notebook = asker.ask("get", &contents, &path, &none).await;
    let saved = json!({"type": "notebook", "format": "json", "content": notebook["content"]});
    asker.ask("put", &contents, &path, &saved).await;
    asker
        .ask("post", &contents, &format!("{path}/checkpoints"), &none)
        .await;
    asker
        .ask("get", &contents, &format!("{path}/checkpoints"), &none)
        .await;
    asker
        .ask("patch", &contents, &path, &json!({"path": "renamed.ipynb"}))
        .await;
    of_jupyters_kernels(asker).await;
}

async fn of_jupyters_kernels(asker: &mut Asker<'_>) {
    let none = Value::Null;
    let at = |rest: &str| format!("/jupyter/api{rest}");
    let kernel = asker
        .ask(
            "post",
            &at("/kernels"),
            &at("/kernels"),
            &json!({"name": "python3"}),
        )
        .await;
    let id = kernel["id"].as_str().unwrap();
    asker
        .ask("get", &at("/kernels"), &at("/kernels"), &none)
        .await;
    asker
        .ask(
            "get",
            &at("/kernels/{id}"),
            &at(&format!("/kernels/{id}")),
            &none,
        )
        .await;
    asker
        .ask(
            "post",
            &at("/kernels/{id}/restart"),
            &at(&format!("/kernels/{id}/restart")),
            &none,
        )
        .await;
    let wanted =
        json!({"path": "renamed.ipynb", "name": "", "type": "notebook", "kernel": {"id": id}});
    let session = asker
        .ask("post", &at("/sessions"), &at("/sessions"), &wanted)
        .await;
    let place = at(&format!("/sessions/{}", session["id"].as_str().unwrap()));
    asker
        .ask("get", &at("/sessions"), &at("/sessions"), &none)
        .await;
    asker.ask("get", &at("/sessions/{id}"), &place, &none).await;
    asker
        .ask(
            "patch",
            &at("/sessions/{id}"),
            &place,
            &json!({"name": "n"}),
        )
        .await;
}
