//! `sponde serve --gateway`: the kernels of all sessions, and those of Jupyter's clients, are another server's.

use reqwest::Method;
use serde_json::{Value, json};
use sponde::kernel::Dialect;

use super::super::{Server, answer, client, with_model};
use super::short;
use crate::gateway::server::{Kind, Server as Gateway, TOKEN};

/// The kernels that run at the gateway.
async fn kernels(gateway: &Gateway) -> usize {
    let url = format!("{}api/kernels", gateway.url());
    let request = client()
        .get(url)
        .header("authorization", format!("token {TOKEN}"));
    let (status, kernels) = answer(request).await;
    assert_eq!(status, 200, "{kernels}");
    kernels.as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernels_of_a_server_are_a_gateways() {
    let gateway = Gateway::start(Kind::JupyterServer).await;
    let (_model, sponde) = with_model([]).await;
    let sponde = sponde.with("SPONDE_GATEWAY_TOKEN", TOKEN);
    let server = Server::start_with(&sponde, &["--gateway", &gateway.url()]);
    let session = server.session(json!({})).await;
    let cell = server
        .run(
            &session,
            "import os\nx = 20\nprint(x + 3, os.getppid() > 1)",
        )
        .await;
    let (status, text) = server
        .get(&format!("{session}/cells/{cell}/outputs/0/text%2Fplain"))
        .await;
    assert_eq!((status, &text), (200, &json!("23 True\n")));
    assert_eq!(kernels(&gateway).await, 1);
    // A client of Jupyter's uses the same kernel, and one of its own.
    let kernel = server.kernel_of_session().await;
    let mut lab = server.connect(&kernel, "lab", Dialect::V1).await;
    let id = lab.execute("x").await;
    let seen = short(&lab.about(&id).await);
    assert!(
        seen.contains(&"iopub execute_result 20".to_owned()),
        "{seen:?}"
    );
    let own = server.kernel().await;
    let mut client = server.connect(&own, "own", Dialect::Json).await;
    let id = client
        .execute("print('on', flush=True)\nwhile True: pass")
        .await;
    client.until_of(&id, "stream").await;
    let path = format!("/jupyter/api/kernels/{own}");
    assert_eq!(
        server
            .post(&format!("{path}/interrupt"), &json!({}))
            .await
            .0,
        204
    );
    let seen = short(&client.about(&id).await);
    assert!(
        seen.contains(&"iopub error KeyboardInterrupt".to_owned()),
        "{seen:?}"
    );
    assert_eq!(kernels(&gateway).await, 2);
    assert_eq!(answer(server.request(Method::DELETE, &path)).await.0, 204);
    assert_eq!(kernels(&gateway).await, 1);
    // An endless cell is stopped; the notebook and its outputs stay here.
    let mut events = server.events(&session, "").await;
    let run = json!({"command": "run", "code": "while True: pass"});
    assert_eq!(server.command(&session, &run).await.0, 202);
    let is_start = |item: &Value| item["edit"]["start"].is_object();
    events.until(is_start).await;
    lab.until("execute_input").await;
    assert_eq!(
        server
            .command(&session, &json!({"command": "interrupt"}))
            .await
            .0,
        202
    );
    events
        .until(|item| item["event"] == "turn_finished" && item["end"] == "interrupted")
        .await;
    let (_, notebook) = server.get(&format!("{session}/notebook.ipynb")).await;
    assert_eq!(notebook["metadata"]["kernelspec"]["name"], "python3");
    let (_, sessions) = server.get("/api/sessions").await;
    let sandbox = sessions["live"][0]["sandbox"].as_str().unwrap();
    assert!(sandbox.contains("gateway"), "{sandbox}");
    assert_eq!(server.end().code, Some(0));
    assert_eq!(kernels(&gateway).await, 0, "nothing is left at the gateway");
}
