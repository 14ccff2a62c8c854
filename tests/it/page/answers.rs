//! What a person answers and chooses in the page, beyond a plain yes.

use serde_json::{Value, json};

use super::{Server, assert_is_clean, begin, call, ended, port_zero, run, sponde};
use crate::aimock::Aimock;
use crate::browser::{Browser, Page};
use crate::support::{Sponde, misbehaving};

const OUTPUTS: &str = "[...document.querySelectorAll('.stdout')].map((it) => it.innerText.trim())";

async fn ask(page: &mut Page, text: &str) {
    page.click(".composer textarea").await;
    page.write(text).await;
    page.key("Enter").await;
}

/// Waits until the question is about the cell of this number.
async fn asked(page: &mut Page, cell: usize) {
    page.until(&format!(
        "document.querySelectorAll('article.code').length === {cell} && document.querySelectorAll('.ask').length === 1 \
         && document.querySelectorAll('article.code')[{cell} - 1].querySelector('.ask')"
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_edited_refused_with_words_and_always_allowed() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let answers = [
        call("", "print('as proposed')"),
        call("", "print('refused')"),
        call("", "import os\nprint('third', os.system('true'))"),
        call("", "print('fourth', os.system('true') + 4)"),
        json!({"content": "That is all."}),
    ];
    let by_turn = answers.iter().enumerate();
    let by_turn: Vec<Value> = by_turn
        .map(|(turn, answer)| json!({"match": {"turnIndex": turn}, "response": answer}))
        .collect();
    let mock = Aimock::start(&json!(by_turn)).await;
    let sponde = Sponde::new().with_model(&mock);
    let server = Server::start(&sponde, &port_zero());
    let mut page = browser.open(&server.url).await;
    page.sees("What would you like to find out?").await;
    ask(&mut page, "Try it").await;
    // Another source.
    asked(&mut page, 1).await;
    page.press("Edit").await;
    page.until("document.activeElement.matches('.editor')")
        .await;
    page.eval("document.activeElement.select(); 1").await;
    page.write("print('edited', 6 * 7)").await;
    page.press("Run edited").await;
    page.sees("edited 42").await;
    page.until("[...document.querySelectorAll('article.code .badge')].some((it) => it.innerText === 'edited')")
        .await;
    // No, with words.
    asked(&mut page, 2).await;
    page.press("No…").await;
    page.until("document.activeElement.matches('.ask input')")
        .await;
    page.write("run the true program instead").await;
    page.press("Decline").await;
    page.until("document.querySelectorAll('article.code')[1].dataset.status === 'declined'")
        .await;
    // Always: code that does the same is not asked about.
    asked(&mut page, 3).await;
    page.until("document.querySelector('.findings')").await;
    page.press("Always").await;
    page.sees("fourth 4").await;
    page.sees("That is all.").await;
    assert_eq!(
        page.eval(OUTPUTS).await,
        json!(["edited 42", "third 0", "fourth 4"])
    );
    let journal = json!(mock.journal().await).to_string();
    assert!(
        journal.contains("run the true program instead"),
        "{journal}"
    );
    assert!(journal.contains("edited 42"), "{journal}");
    assert_is_clean(&mut page, &server).await;
    mock.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_kernel_is_restarted_and_a_checkpoint_gone_back_to() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let mut page = begin(&browser, &server, "x = 1").await;
    ended(&mut page, 1).await;
    run(&mut page, "x = 2").await;
    ended(&mut page, 2).await;
    run(&mut page, "x = 3").await;
    ended(&mut page, 3).await;
    page.press("More").await;
    page.press("Go back to…").await;
    let before = "[...document.querySelectorAll('.panel .row .name')].map((it) => it.innerText)";
    page.until(&format!("({before}).includes('Before: x = 2')"))
        .await;
    page.until("(() => { const row = [...document.querySelectorAll('.panel .row')].find((it) => it.innerText.includes('x = 2')); const go = row.querySelector('button'); if (go.disabled) return false; go.setAttribute('data-go', ''); return true; })()").await;
    page.click("[data-go]").await;
    page.until("document.querySelectorAll('article.code').length === 1")
        .await;
    page.press("Close panel").await;
    run(&mut page, "print('x is', x)").await;
    page.sees("x is 1").await;
    ended(&mut page, 2).await;
    // A question comes first, and its answer may be no.
    for (answer, gone) in [("Cancel", "x is still 1"), ("Restart", "NameError")] {
        page.press("More").await;
        page.press("Restart kernel").await;
        page.sees("All its variables are lost.").await;
        page.press(answer).await;
        page.until("!document.querySelector('dialog')").await;
        run(&mut page, "print('x is still', x)").await;
        page.sees(gone).await;
        page.until("!document.querySelector('.stop')").await;
    }
    assert_is_clean(&mut page, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn model_and_kernel_are_chosen_in_the_page() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let mock = Aimock::start(&json!([{"match": {}, "response": {"content": "Here I am."}}])).await;
    let sponde = Sponde::new().with_model(&mock);
    sponde.add_kernel("misbehave", &misbehaving(&[]).spec.argv);
    let server = Server::start(&sponde, &port_zero());
    let mut page = browser.open(&server.url).await;
    page.until("[...document.querySelectorAll('select[aria-label=Kernel] option')].some((it) => it.value === 'misbehave')")
        .await;
    page.eval("(() => { const it = document.querySelector('select[aria-label=Kernel]'); it.value = 'misbehave'; it.dispatchEvent(new Event('change', {bubbles: true})); })()")
        .await;
    page.press("Code").await;
    page.click(".composer textarea").await;
    page.write("echo from this kernel").await;
    page.key("shift+Enter").await;
    page.sees("from this kernel").await;
    ended(&mut page, 1).await;
    page.press("Variables, files, kernels, cost").await;
    page.press("Kernels").await;
    page.until("document.querySelector('.panel .name')?.innerText === 'misbehave'")
        .await;
    page.press("Model").await;
    page.press("Another model…").await;
    page.until("document.activeElement.matches('dialog input')")
        .await;
    page.write("gpt-4.1").await;
    page.key("Enter").await;
    page.until("document.querySelector('.model-name').innerText === 'gpt-4.1'")
        .await;
    page.press("Ask").await;
    ask(&mut page, "Are you there?").await;
    page.sees("Here I am.").await;
    let journal = json!(mock.journal().await).to_string();
    assert!(journal.contains("\"model\":\"gpt-4.1\""), "{journal}");
    mock.stop().await;
}
