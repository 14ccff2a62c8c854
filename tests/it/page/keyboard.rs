//! The page by keyboard alone: Tab, Enter, arrows and Escape reach everything, the focus is seen and comes back.

use serde_json::json;

use super::{COLOURS, Server, assert_is_clean, call, port_zero};
use crate::aimock::Aimock;
use crate::browser::{Browser, Page};
use crate::support::Sponde;

/// How far the ring round what has the focus stands out from what is round it; that of the field is its frame.
const RING: &str = r"(() => {
  $COLOURS
  const it = document.activeElement, box = it.closest('.composer') && it.matches('textarea') ? it.closest('.composer') : it;
  const style = getComputedStyle(box);
  const [colour, width] = box === it ? [style.outlineColor, style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth)] : [style.borderColor, parseFloat(style.borderWidth)];
  return [ratio(rgba(colour), ground(box.parentElement)) >= 3, width >= (box === it ? 2 : 1), it.outerHTML.slice(0, 90)];
})()";

/// Tab until what has the focus is as wanted. Whatever has it on the way is seen to have it.
async fn tab_to(page: &mut Page, is_wanted: &str) {
    let ring = RING.replace("$COLOURS", COLOURS);
    for _ in 0..80 {
        page.key("Tab").await;
        if page.eval("document.activeElement === document.body").await == true {
            continue;
        }
        let seen = page.eval(&ring).await;
        assert_eq!((&seen[0], &seen[1]), (&json!(true), &json!(true)), "{seen}");
        if page
            .eval(&format!(
                "((it) => !!({is_wanted}))(document.activeElement)"
            ))
            .await
            == true
        {
            return;
        }
    }
    panic!("Tab does not lead to {is_wanted}");
}

async fn has_focus(page: &mut Page, selector: &str) {
    page.until(&format!(
        "document.activeElement.matches({})",
        json!(selector)
    ))
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_done_by_keyboard_alone() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let code = "import pandas as pd\nframe = pd.DataFrame({'n': range(500)})\nframe";
    let mock = Aimock::start(&json!([
        {"match": {"turnIndex": 0}, "response": call("", code)},
        {"match": {"turnIndex": 1}, "response": {"content": "There it is."}},
    ]))
    .await;
    let sponde = Sponde::new().with_model(&mock);
    let server = Server::start(&sponde, &port_zero());
    let mut page = browser.open(&server.url).await;
    page.call(
        "Emulation.setFocusEmulationEnabled",
        json!({"enabled": true}),
    )
    .await;
    page.sees("What would you like to find out?").await;
    for scheme in ["light", "dark"] {
        page.resize(1280, 860, scheme).await;
        tab_to(&mut page, "it.matches('.examples button')").await;
        tab_to(&mut page, "it.matches('.composer textarea')").await;
    }
    page.write("Show me a table").await;
    page.key("Enter").await;
    // The question has the focus; its other answers are one Tab away each.
    page.until("document.activeElement.innerText === 'Run'")
        .await;
    tab_to(&mut page, "it.innerText === 'No…'").await;
    page.key("Enter").await;
    has_focus(&mut page, ".ask input").await;
    page.key("Escape").await;
    page.until("!document.querySelector('.ask input')").await;
    tab_to(&mut page, "it.innerText === 'Run'").await;
    page.key("Enter").await;
    page.sees("There it is.").await;
    // A table: opened, gone through, closed.
    page.until("document.querySelector('.explore')").await;
    tab_to(&mut page, "it.matches('.explore')").await;
    page.key("Enter").await;
    page.sees("500 rows").await;
    tab_to(&mut page, "it.matches('.grid')").await;
    let first = "document.querySelector('.grid-row').innerText.replace(/\\s+/g, ' ').trim()";
    page.until(&format!("{first} === '0 0 0' || {first} === '0 0'"))
        .await;
    page.key("ArrowDown").await;
    page.until(&format!("{first}.startsWith('1 ')")).await;
    page.key("End").await;
    page.until(
        "[...document.querySelectorAll('.grid-row')].some((it) => it.innerText.startsWith('499'))",
    )
    .await;
    page.key("Escape").await;
    page.until("!document.querySelector('dialog')").await;
    has_focus(&mut page, ".explore").await;
    // A menu, and a dialog from it.
    tab_to(&mut page, "it.getAttribute('aria-label') === 'More'").await;
    page.key("Enter").await;
    page.until("document.activeElement.getAttribute('role') === 'menuitem'")
        .await;
    for _ in 0..4 {
        page.key("ArrowDown").await;
    }
    page.until("document.activeElement.innerText === 'Restart kernel'")
        .await;
    page.key("Escape").await;
    has_focus(&mut page, "[aria-label=More]").await;
    page.key("Enter").await;
    page.until("document.activeElement.getAttribute('role') === 'menuitem'")
        .await;
    for _ in 0..4 {
        page.key("ArrowDown").await;
    }
    page.key("Enter").await;
    page.sees("All its variables are lost.").await;
    page.until("document.activeElement.innerText === 'Restart'")
        .await;
    page.key("Escape").await;
    page.until("!document.querySelector('dialog')").await;
    has_focus(&mut page, "[aria-label=More]").await;
    // The panel's tabs.
    tab_to(
        &mut page,
        "it.getAttribute('aria-label') === 'Variables, files, kernels, cost'",
    )
    .await;
    page.key("Enter").await;
    tab_to(&mut page, "it.matches('[role=tab]')").await;
    page.key("ArrowRight").await;
    page.until("document.activeElement.innerText === 'Files'")
        .await;
    page.sees("Workspace").await;
    assert_is_clean(&mut page, &server).await;
    mock.stop().await;
}
