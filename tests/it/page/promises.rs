//! What the page says of safety is what the server does.

use serde_json::{Value, json};

use super::{Server, begin, ended, port_zero, sponde};
use crate::browser::{Browser, Page};
use crate::gateway::server::{Kind, Server as Gateway, TOKEN};
use crate::support::Sponde;

/// The facts on the page where a session begins: each with whether it is a warning.
async fn facts(page: &mut Page) -> Value {
    page.until("document.querySelectorAll('.facts li').length === 2")
        .await;
    page.eval("[...document.querySelectorAll('.facts li')].map((it) => [it.className, it.innerText.trim()])")
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_promises_what_the_server_keeps() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let asked = "You are asked before code of the model that might do harm.";
    let sponde = sponde();
    let confined = Server::serve(&sponde, &port_zero());
    let mut page = browser.open(&confined.url).await;
    let told = facts(&mut page).await;
    let sandbox = told[0][1].as_str().unwrap();
    let begins =
        "Code runs in a sandbox: workspace, code writes only in this directory, no network (";
    assert!(sandbox.starts_with(begins), "{sandbox}");
    assert_eq!((&told[0][0], &told[1]), (&json!(""), &json!(["", asked])));
    drop((page, confined));

    let full = "Code is not confined: it can do all that the server's user can.";
    for (arguments, expected) in [
        (
            &["--sandbox", "full"][..],
            json!([
                ["warn", full],
                ["", "You are asked before any code of the model runs."]
            ]),
        ),
        (
            &["--sandbox", "full", "--yes"],
            json!([
                ["warn", full],
                ["warn", "Code of the model runs without asking you."]
            ]),
        ),
    ] {
        let server = Server::serve(&sponde, &[&port_zero(), arguments].concat());
        let mut page = browser.open(&server.url).await;
        assert_eq!(facts(&mut page).await, expected);
        assert!(
            page.eval("!/sandbox/i.test(document.querySelector('.home').innerText)")
                .await
                == true
        );
    }
    // The session says the same.
    let server = Server::start(
        &sponde,
        &[&port_zero()[..], &["--sandbox", "full"]].concat(),
    );
    let mut page = begin(&browser, &server, "1").await;
    ended(&mut page, 1).await;
    page.press("Variables, files, kernels, cost").await;
    page.press("Kernels").await;
    page.sees("Permissions").await;
    page.sees("full, code can do all that you can").await;
}

/// Code that runs at a gateway is in no sandbox of ours.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_says_that_code_runs_at_a_gateway() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let gateway = Gateway::start(Kind::JupyterServer).await;
    let sponde = Sponde::new().with("SPONDE_GATEWAY_TOKEN", TOKEN);
    let url = gateway.url();
    let server = Server::serve(&sponde, &[&port_zero()[..], &["--gateway", &url]].concat());
    let mut page = browser.open(&server.url).await;
    assert_eq!(
        facts(&mut page).await,
        json!([
            [
                "warn",
                "Code runs at a gateway, outside this machine's sandbox."
            ],
            ["", "You are asked before any code of the model runs."],
        ])
    );
}
