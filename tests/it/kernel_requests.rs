//! What a kernel can be asked besides running cells, and its raw side.

use serde_json::{Value, json};
use sponde::jupyter::content::Content;
use sponde::jupyter::message::{Channel, Message};
use sponde::jupyter::raw::RawMessage;
use sponde::kernel::{
    Completeness, Completions, ExecuteOptions, ExecutionEvent, KernelError, OutputEvent, Variable,
    Verdict,
};

use crate::support::{ipykernel, misbehaving, start};

#[tokio::test]
async fn completion_and_documentation() {
    let kernel = start(ipykernel()).await;
    assert_eq!(
        kernel.complete("import colle", 12).await.unwrap(),
        Completions {
            matches: vec!["collections".to_owned()],
            cursor_start: 7,
            cursor_end: 12,
        }
    );
    let help = kernel.inspect("len", 3, 0).await.unwrap().unwrap();
    let help = help.text_of("text/plain").unwrap().into_owned();
    assert!(help.contains("number of items in a container"), "{help}");
    assert_eq!(kernel.inspect("nothing_here", 3, 0).await.unwrap(), None);
    for (code, expected) in [
        ("x = 1", Completeness::Complete),
        (
            "for x in y:",
            Completeness::Incomplete {
                indent: "    ".to_owned(),
            },
        ),
        ("x = = 1", Completeness::Invalid),
    ] {
        assert_eq!(kernel.is_complete(code).await.unwrap(), expected, "{code}");
    }
}

#[tokio::test]
async fn variables_are_listed_also_while_a_cell_runs() {
    let kernel = start(ipykernel()).await;
    let code = "import pandas as pd, math\nn = 3\n_hidden = 1\ndef f(): pass\ntext = 'a' * 10_000\n\
        frame = pd.DataFrame({'city': ['Ulm', 'Köln'], 'rain': [1.5, 2.0]})";
    let run = |code: &str| kernel.execute(ExecuteOptions::cell(code));
    run(code).await.unwrap().collect().await;
    let expected = |name: &str, kind: &str, shape: &str, head: &str| Variable {
        name: name.to_owned(),
        kind: kind.to_owned(),
        shape: shape.to_owned(),
        head: head.to_owned(),
        bytes: None,
    };
    let text = format!("'{}...{}'", "a".repeat(57), "a".repeat(58));
    let variables = vec![
        expected("n", "int", "", "3"),
        expected("text", "str", "10000", &text),
        expected("frame", "pandas.DataFrame", "2 x 2", "city, rain"),
    ];
    // How much memory they take depends on the version of Python.
    let listed = async || {
        let mut all = kernel.variables().await.unwrap();
        let bytes: Vec<u64> = all.iter_mut().map(|it| it.bytes.take().unwrap()).collect();
        assert!(
            bytes[0] < 100 && (10_000..10_200).contains(&bytes[1]) && bytes[2] > 30,
            "{bytes:?}"
        );
        all
    };
    assert_eq!(listed().await, variables);

    // The loop ends only by the interrupt, so the answer came while it ran.
    let mut busy = run("print('go', flush=True)\nwhile True: pass")
        .await
        .unwrap();
    while !matches!(busy.next().await, Some(ExecutionEvent::Output(_))) {}
    assert_eq!(listed().await, variables);
    assert!(kernel.usage().await.unwrap().memory > Some(10 << 20));
    kernel.interrupt().await.unwrap();
    assert_eq!(busy.collect().await.1.verdict, Verdict::Interrupted);

    // Nothing of this counts as a cell.
    let (_, outcome) = run("n").await.unwrap().collect().await;
    assert_eq!(outcome.count, Some(3));
}

#[tokio::test]
async fn a_kernel_that_knows_no_such_request_does_not_hold_us_up() {
    let kernel = start(misbehaving(&[])).await;
    let busy = kernel.execute(ExecuteOptions::cell("hang-until-interrupt"));
    let busy = busy.await.unwrap();
    assert_eq!(
        kernel.is_complete("echo").await.unwrap(),
        Completeness::Unknown
    );
    kernel.interrupt().await.unwrap();
    assert_eq!(busy.collect().await.1.verdict, Verdict::Interrupted);
    let error = kernel.variables().await.unwrap_err();
    assert!(matches!(error, KernelError::Unsupported { .. }), "{error}");
    let (outputs, _) = kernel
        .execute(ExecuteOptions::cell("echo still here"))
        .await
        .unwrap()
        .collect()
        .await;
    assert!(
        matches!(&outputs[..], [OutputEvent::Stream(stream)] if stream.text == "still here\n"),
        "{outputs:?}"
    );
}

#[tokio::test]
async fn the_raw_side_passes_everything_on_and_disturbs_no_cell() {
    let kernel = start(ipykernel()).await;
    let mut tap = kernel.tap().await.unwrap();
    let content =
        json!({"code": "print('raw'); 6*7", "silent": false, "user_expressions": {"x": "1+1"}});
    let request = Content::Other {
        msg_type: "execute_request".to_owned(),
        content,
    };
    let request = Message::request(request, "foreign-session", "somebody", String::new());
    let id = request.header.msg_id.clone();
    let request = RawMessage::from(&request);
    tap.send(Channel::Shell, request).await.unwrap();
    let own = kernel.execute(ExecuteOptions::cell("print('own')"));
    let (outputs, outcome) = own.await.unwrap().collect().await;
    assert_eq!(outcome.verdict, Verdict::Ok);
    assert!(
        matches!(&outputs[..], [OutputEvent::Stream(stream)] if stream.text == "own\n"),
        "{outputs:?}"
    );

    let mut seen: Vec<(Channel, String, Value)> = Vec::new();
    while seen.len() < 6 {
        let tapped = tap.messages.recv().await.unwrap();
        let parent = tapped.message.parent();
        if parent.is_some_and(|parent| parent.msg_id == id) {
            let kind = tapped.message.header().unwrap().msg_type;
            let content = serde_json::from_slice(&tapped.message.content).unwrap();
            seen.push((tapped.channel, kind, content));
        }
    }
    // The reply comes by another socket, so it has no place in the order of the rest.
    let reply = seen
        .iter()
        .position(|(channel, ..)| *channel == Channel::Shell);
    let (_, kind, reply) = seen.remove(reply.unwrap());
    assert_eq!(
        (kind.as_str(), &reply["status"]),
        ("execute_reply", &json!("ok"))
    );
    assert_eq!(reply["user_expressions"]["x"]["data"]["text/plain"], "2");
    let kinds: Vec<&str> = seen.iter().map(|(_, kind, _)| kind.as_str()).collect();
    assert_eq!(
        kinds,
        [
            "status",
            "execute_input",
            "stream",
            "execute_result",
            "status"
        ]
    );
    assert_eq!(seen[2].2, json!({"name": "stdout", "text": "raw\n"}));
}
