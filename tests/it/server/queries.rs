//! What a second process asks of a session over its unix socket, as `sponde attach --json` and a terminal that attached use
//! it: the real program twice, a real kernel.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use super::{Server, with_model};
use crate::support::{LIMIT, Sponde};
use crate::terminal::play_on;

/// `sponde attach ID --json`, with its lines.
struct Attached {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// All lines that came.
    seen: String,
    id: u64,
}

impl Attached {
    fn start(sponde: &Sponde, session: &str) -> Self {
        let id = session.rsplit('/').next().unwrap();
        let mut child = sponde
            .command(&["attach", id, "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut attached = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            seen: String::new(),
            id: 0,
        };
        assert_eq!(attached.line()["type"], "snapshot");
        attached
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended");
        self.seen.push_str(&line);
        serde_json::from_str(&line).unwrap()
    }

    /// The next line that is no item.
    fn answer(&mut self) -> Value {
        loop {
            let line = self.line();
            if line.get("type").is_none() {
                return line;
            }
        }
    }

    fn write(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    fn send(&mut self, query: &Value) -> u64 {
        self.id += 1;
        self.write(&json!({"query": {"id": self.id, "query": query}}).to_string());
        self.id
    }

    /// The answer to a query; of one that has none, `reason`.
    fn ask(&mut self, query: &Value) -> Value {
        let id = self.send(query);
        let mut answer = self.answer();
        if let Some(reason) = answer["refused"].get("reason") {
            assert_eq!(answer["refused"]["id"], id, "{answer}");
            return reason.clone();
        }
        let mut body = answer["answer"].take();
        assert_eq!(body["id"], id, "{body}");
        body.as_object_mut().unwrap().remove("id");
        body
    }

    /// Closes its stdin, and waits until the session has ended.
    fn end(self) -> String {
        let Self {
            mut child,
            input,
            mut output,
            mut seen,
            ..
        } = self;
        drop(input);
        std::io::Read::read_to_string(&mut output, &mut seen).unwrap();
        assert!(child.wait().unwrap().success());
        seen
    }
}

const MADE: &str = "import pandas as pd\n\
    df = pd.DataFrame({'n': range(3), 'city': ['Oslo', 'Rome', 'Oslo']})\n\
    def area(r):\n    'The area of a circle.'\n    return r\n\
    for number in range(1, 700_001): print('row', number)";

#[tokio::test(flavor = "multi_thread")]
async fn a_second_process_asks_a_kernel_and_its_workspace() {
    let (_model, sponde) = with_model([]).await;
    std::fs::create_dir(sponde.path("data")).unwrap();
    sponde.write("data/rain.csv", "a,b\n1,2\n");
    std::os::unix::fs::symlink("/etc", sponde.path("out")).unwrap();
    let server = Server::start(&sponde, &[]);
    let session = server.session(json!({})).await;
    let cell = server.run(&session, MADE).await;
    let (_, before) = server.get(&session).await;
    let seen = tokio::task::block_in_place(|| {
        let mut attached = Attached::start(&sponde, &session);
        let ask = |query| attached.ask(&query);
        answers_of_a_kernel(ask);
        let mut ask = |query| attached.ask(&query);
        let found = ask(json!({"query": "files"}));
        let names: Vec<&Value> = found["entries"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| &it["name"])
            .collect();
        assert!(
            names.contains(&&json!("data")) && names.contains(&&json!("out")),
            "{found}"
        );
        let found = ask(json!({"query": "files", "path": "data"}));
        assert_eq!(
            (
                &found["entries"][0]["name"],
                &found["entries"][0]["kind"],
                &found["entries"][0]["bytes"]
            ),
            (&json!("rain.csv"), &json!("file"), &json!(8))
        );
        for (path, reason) in [
            ("..", "forbidden"),
            ("data/../..", "forbidden"),
            ("out", "forbidden"),
            ("out/ssl", "forbidden"),
            ("none", "not_found"),
            ("data/rain.csv", "not_found"),
        ] {
            assert_eq!(
                ask(json!({"query": "files", "path": path})),
                reason,
                "{path}"
            );
        }
        // The notebook keeps beginning and end of it.
        let page = ask(json!({"query": "output", "cell": cell, "start": 350_000, "lines": 2}));
        assert_eq!(
            (&page["lines"], &page["total"], &page["file"]),
            (
                &json!([{"number": 350_000, "text": "row 350000"}, {"number": 350_001, "text": "row 350001"}]),
                &json!(700_000),
                &json!("stdout.txt")
            )
        );
        let page = ask(json!({"query": "output", "cell": cell, "search": "ROW 69999", "lines": 3}));
        assert_eq!(
            (&page["matches"], &page["lines"][0]["text"]),
            (&json!(11), &json!("row 69999"))
        );
        assert_eq!(ask(json!({"query": "output", "cell": "none"})), "not_found");
        assert_eq!(
            ask(json!({"query": "output", "cell": cell, "file": "../../etc/passwd"})),
            "bad_request"
        );
        attached
    });
    let (_, after) = server.get(&session).await;
    // Nobody else sees a query, and nothing changes.
    assert_eq!(before["snapshot"]["at"], after["snapshot"]["at"]);
    // The same over HTTP.
    let (_, page) = server
        .get(&format!("{session}/cells/{cell}/text?start=-1"))
        .await;
    assert_eq!(
        page["lines"],
        json!([{"number": 700_000, "text": "row 700000"}])
    );
    let (_, told) = server.get(&format!("{session}/inspect?code=area")).await;
    assert!(
        told["data"]["text/plain"]
            .as_str()
            .unwrap()
            .contains("The area of a circle.")
    );
    server.end();
    let seen = tokio::task::block_in_place(|| seen.end());
    let (items, answers): (Vec<&str>, Vec<&str>) = seen
        .lines()
        .partition(|line| line.starts_with("{\"type\":") || line.starts_with("{\"id\":"));
    let lines = |all: Vec<&str>| all.join("\n");
    crate::schema::assert_valid(&lines(items), &["Item", "SnapshotLine"]);
    crate::schema::assert_valid(&lines(answers), &["FromServer"]);
}

fn answers_of_a_kernel(mut ask: impl FnMut(Value) -> Value) {
    let found = ask(json!({"query": "complete", "code": "x = df.hea"}));
    assert_eq!(
        found,
        json!({"answer": "completions", "matches": [".head"], "start": 6, "end": 10})
    );
    let found = ask(json!({"query": "is_complete", "code": "for x in y:"}));
    assert_eq!(
        found,
        json!({"answer": "completeness", "status": "incomplete", "indent": "    "})
    );
    let found = ask(json!({"query": "inspect", "code": "area(3)", "cursor": 2}));
    let text = found["data"]["text/plain"].as_str().unwrap();
    assert!(text.contains("The area of a circle."), "{text}");
    assert_eq!(
        ask(json!({"query": "inspect", "code": "nothing_of_this_name"})),
        json!({"answer": "documentation", "data": null})
    );
    let found = ask(json!({"query": "variables"}));
    let frame = found["variables"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["name"] == "df");
    assert_eq!(frame.unwrap()["shape"], "3 x 2");
    let found =
        ask(json!({"query": "frame", "name": "df", "limit": 1, "sort": "n", "descending": true}));
    assert_eq!(
        found,
        json!({"answer": "frame", "columns": [{"name": "n", "type": "int64"}, {"name": "city", "type": "str"}],
            "rows": [[2, "Oslo"]], "total": 3, "offset": 0})
    );
    let found = ask(json!({"query": "profile", "name": "df", "column": "city"}));
    assert_eq!(
        (&found["count"], &found["top"][0]),
        (&json!(3), &json!({"value": "Oslo", "count": 2}))
    );
    assert_eq!(
        ask(json!({"query": "frame", "name": "none"})),
        "no_variable"
    );
    assert_eq!(
        ask(json!({"query": "variables", "language": "cobol"})),
        "no_kernel"
    );
}

/// A cell that runs is not disturbed: what cannot be answered beside it is `busy`, and the rest is answered.
#[tokio::test(flavor = "multi_thread")]
async fn while_a_cell_runs_the_answer_is_busy_or_right() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let session = server.session(json!({})).await;
    let cell = server
        .run(
            &session,
            "import pandas as pd; df = pd.DataFrame({'n': [1]}); print('made')",
        )
        .await;
    tokio::task::block_in_place(|| {
        let mut attached = Attached::start(&sponde, &session);
        let code = "import time\nprint('begun', flush=True)\ntime.sleep(600)";
        attached.write(
            &json!({"command": {"id": 900, "command": {"command": "run", "code": code}}})
                .to_string(),
        );
        let mut accepted = false;
        loop {
            let line = attached.line();
            accepted |= line["accepted"]["id"] == 900;
            if line.to_string().contains("begun\\n") && line["edit"]["emit"].is_object() {
                break;
            }
        }
        assert!(accepted);
        for query in [
            json!({"query": "complete", "code": "d"}),
            json!({"query": "inspect", "code": "df"}),
            json!({"query": "frame", "name": "df"}),
            json!({"query": "profile", "name": "df", "column": "n"}),
        ] {
            assert_eq!(attached.ask(&query), "busy", "{query}");
        }
        let state = attached.ask(&json!({"query": "is_complete", "code": "1"}));
        assert_eq!(state["status"], "unknown");
        // ipykernel answers this beside the cell.
        let variables = attached.ask(&json!({"query": "variables"}));
        assert!(
            variables.to_string().contains("pandas.DataFrame"),
            "{variables}"
        );
        let page = attached.ask(&json!({"query": "output", "cell": cell}));
        assert_eq!(page["lines"], json!([{"number": 1, "text": "made"}]));
        attached.write(
            &json!({"command": {"id": 901, "command": {"command": "interrupt"}}}).to_string(),
        );
        loop {
            let line = attached.line();
            if line["event"] == "turn_finished" {
                break;
            }
        }
        let found = attached.ask(&json!({"query": "frame", "name": "df"}));
        assert_eq!(found["rows"], json!([[1]]));
        assert!(attached.seen.contains("KeyboardInterrupt"));
        drop(attached.input);
        attached.child.kill().unwrap();
        attached.child.wait().unwrap();
    });
    server.end();
}

/// What a hostile client or kernel sends is refused with a reason, costs nobody else anything, and the session goes on.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_queries_are_refused_and_stop_nothing() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let session = server.session(json!({})).await;
    let code = "class Odd:\n    def __repr__(self): raise SystemExit\n    def __len__(self): return 1 << 80\n\
        odd, long = Odd(), 'x' * 30_000_000\n\
        import pandas as pd\nwide = pd.DataFrame({f'c{n}': ['y' * 3000] * 500 for n in range(60)})";
    server.run(&session, code).await;
    tokio::task::block_in_place(|| {
        let mut attached = Attached::start(&sponde, &session);
        for line in [
            "{",
            "[]",
            "null",
            "{\"query\":{\"id\":1}}",
            "{\"query\":{\"id\":1,\"query\":{\"query\":\"run\",\"code\":\"1\"}}}",
            "{\"query\":{\"id\":-1,\"query\":{\"query\":\"variables\"}}}",
            "\u{1b}[2J",
        ] {
            attached.write(line);
            assert!(
                attached.answer()["unreadable"]["message"].is_string(),
                "{line}"
            );
        }
        for (query, reason) in [
            (
                json!({"query": "complete", "code": "x".repeat(2 << 20)}),
                "bad_request",
            ),
            (
                json!({"query": "frame", "name": "__import__('os').system('id')"}),
                "bad_request",
            ),
            (json!({"query": "frame", "name": "df.T"}), "bad_request"),
            (
                json!({"query": "variables", "language": "x".repeat(1 << 20)}),
                "no_kernel",
            ),
            (
                json!({"query": "profile", "name": "wide", "column": "c\u{0}"}),
                "no_column",
            ),
            // 90 MB of text.
            (
                json!({"query": "frame", "name": "wide", "limit": 500}),
                "too_large",
            ),
            (json!({"query": "files", "path": "\u{0}"}), "forbidden"),
        ] {
            assert_eq!(attached.ask(&query), reason);
        }
        let found = attached.ask(&json!({"query": "variables"}));
        assert!(found.to_string().len() < 20_000);
        let all = attached
            .ask(&json!({"query": "frame", "name": "wide", "offset": u64::MAX, "limit": u64::MAX}));
        assert_eq!((&all["rows"], &all["total"]), (&json!([]), &json!(500)));
        let query = json!({"query": "complete", "code": "lo", "cursor": 4_000_000_000_u64});
        let begun = Instant::now();
        let past = loop {
            let past = attached.ask(&query);
            // A kernel on a busy machine takes its time.
            if past != "timeout" || begun.elapsed() > LIMIT {
                break past;
            }
        };
        assert!(past["matches"].as_array().unwrap().contains(&json!("long")));
        many_at_once(&mut attached);
        too_long_a_line(&sponde, &session);
        // The first client notices nothing.
        let found = attached.ask(&json!({"query": "is_complete", "code": "1"}));
        assert_eq!(found["status"], "complete");
        drop(attached.input);
        attached.child.kill().unwrap();
        attached.child.wait().unwrap();
    });
    server.run(&session, "print('still', len(wide))").await;
    server.end();
}

/// Each query is answered once, some of them that there are too many.
fn many_at_once(attached: &mut Attached) {
    let asked: Vec<u64> = (0..60)
        .map(|_| attached.send(&json!({"query": "frame", "name": "wide", "limit": 1})))
        .collect();
    let (mut answered, mut refused) = (Vec::new(), 0);
    while answered.len() < asked.len() {
        let answer = attached.answer();
        let is_refused = answer["refused"]["reason"] == "too_many";
        refused += usize::from(is_refused);
        let body = if is_refused {
            &answer["refused"]
        } else {
            &answer["answer"]
        };
        answered.push(body["id"].as_u64().unwrap_or_else(|| panic!("{answer}")));
    }
    answered.sort_unstable();
    assert_eq!(answered, asked);
    assert!(refused < asked.len(), "none was answered");
}

/// A line without an end is not kept: the connection is cut.
fn too_long_a_line(sponde: &Sponde, session: &str) {
    let id = session.rsplit('/').next().unwrap();
    let dir = sponde
        .sockets()
        .join(format!("sponde.{}", rustix::process::geteuid().as_raw()));
    let token = std::fs::read_to_string(dir.join(format!("{id}.token"))).unwrap();
    let mut socket = UnixStream::connect(dir.join(format!("{id}.sock"))).unwrap();
    let hello = json!({"hello": {"version": 1, "name": "long", "token": token}});
    writeln!(socket, "{hello}").unwrap();
    let mut read = BufReader::new(socket.try_clone().unwrap());
    let mut line = String::new();
    read.read_line(&mut line).unwrap();
    assert!(line.contains("welcome"), "{line}");
    let piece = vec![b'x'; 1 << 20];
    let cut = (0..20).find_map(|_| socket.write_all(&piece).err());
    assert!(cut.is_some(), "20 MiB were taken");
}

/// Completion, variables and tables in a terminal that attached.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminal_that_attached_completes_and_looks() {
    let (_model, sponde) = with_model([]).await;
    let server = Server::start(&sponde, &[]);
    let session = server.session(json!({})).await;
    server
        .run(&session, "import pandas as pd\nweather = pd.DataFrame({'n': range(100), 'city': ['Oslo', 'Rome'] * 50})")
        .await;
    // The first completion of a kernel can take longer than a server or a terminal waits.
    let begun = Instant::now();
    while let (status, answer) = server.get(&format!("{session}/complete?code=weat")).await
        && status != 200
    {
        assert!(status == 504 && begun.elapsed() < LIMIT, "{answer}");
    }
    let id = session.rsplit('/').next().unwrap();
    let prompt = ">\u{1b}[0m ";
    let steps = json!([
        ["wait", "attached to"],
        ["wait", prompt],
        ["type", "/vars\r"],
        ["wait", "pandas.DataFrame"],
        ["wait", prompt],
        ["type", "/table weather filter rome\r"],
        ["wait", "of 50, 2 columns, page 1 of"],
        ["wait", prompt],
        ["type", "/table nothing\r"],
        ["wait", "there is no variable `nothing`"],
        ["wait", prompt],
        ["type", "!print('len', weat\t"],
        ["wait", "weather"],
        // The kernel says that it is not whole.
        ["type", ".shape,\r"],
        ["type", "'end')\r"],
        ["wait", "len (100, 2) end"],
        ["wait", prompt],
        ["type", "\u{4}"],
    ]);
    let screen =
        tokio::task::block_in_place(|| play_on("xterm-256color", &sponde, &["attach", id], &steps));
    assert_eq!((screen.code, screen.as_always), (0, true), "{}", screen.all);
    server.end();
}
