//! What leaves the page as a file, and what goes: tables, the conversation, files of the workspace; and cells made of cells.

use serde_json::json;

use super::{Server, assert_is_clean, begin, ended, port_zero, saved_as, sponde};
use crate::browser::Browser;

#[tokio::test(flavor = "multi_thread")]
async fn tables_and_the_conversation_are_saved() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let code = "import pandas as pd\nframe = pd.DataFrame({'n': [3, 1, 2], 'name': ['c', 'a', 'b']})\nframe";
    let mut page = begin(&browser, &server, code).await;
    ended(&mut page, 1).await;
    page.click(".explore").await;
    page.sees("3 rows × 2 columns").await;
    for (words, file, start) in [
        ("Parquet", "frame.parquet", &b"PAR1"[..]),
        ("Excel (XLSX)", "frame.xlsx", b"PK\x03\x04"),
    ] {
        page.press("Save as").await;
        page.press(words).await;
        assert!(browser.downloaded(file).await.starts_with(start), "{file}");
    }
    page.key("Escape").await;
    page.until("!document.querySelector('dialog')").await;
    for (words, extension, has) in [
        ("Save notebook (.ipynb)", "ipynb", "\"nbformat\": 4"),
        ("Save page (.html)", "html", "<!doctype html>"),
        ("Save Markdown (.md)", "md", "```python"),
        ("Save script (.py)", "py", "# %%"),
    ] {
        page.press("More").await;
        page.press(words).await;
        let saved = saved_as(&browser, &mut page, extension).await;
        let saved = String::from_utf8(saved).unwrap();
        assert!(saved.contains(has) && saved.contains("frame"), "{saved}");
    }
    assert_is_clean(&mut page, &server).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_deleted_and_a_cell_edited_as_a_copy() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let code = "open('made.txt', 'w').write('x')\nprint('first', 1)";
    let mut page = begin(&browser, &server, code).await;
    ended(&mut page, 1).await;
    page.press("Edit a copy and run it").await;
    page.until(&format!(
        "document.querySelector('.composer textarea').value === {}",
        json!(code)
    ))
    .await;
    page.eval("document.querySelector('.composer textarea').select(); 1")
        .await;
    page.write("print('second', 2)").await;
    page.key("shift+Enter").await;
    ended(&mut page, 2).await;
    let outputs = "[...document.querySelectorAll('.stdout')].map((it) => it.innerText.trim())";
    assert_eq!(page.eval(outputs).await, json!(["first 1", "second 2"]));
    page.press("Variables, files, kernels, cost").await;
    page.press("Files").await;
    for (answer, is_there) in [("Cancel", true), ("Delete", false)] {
        page.press("Delete made.txt").await;
        page.sees("made.txt is removed from the workspace.").await;
        page.press(answer).await;
        page.until("!document.querySelector('dialog')").await;
        page.until(&format!(
            "{is_there} === [...document.querySelectorAll('.panel .name')].some((it) => it.innerText === 'made.txt')"
        ))
        .await;
        assert_eq!(sponde.path("made.txt").exists(), is_there);
    }
    assert_is_clean(&mut page, &server).await;
}

/// Rows are asked of kernels of Python only; the variables of each kernel can be looked at.
#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_another_language_offers_no_grid() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let r = json!({"argv": ["R", "--slave", "-e", "IRkernel::main()", "--args", "{connection_file}"], "display_name": "R", "language": "R"});
    sponde.add_kernelspec("ir", &r.to_string());
    let server = Server::start(
        &sponde,
        &[&port_zero()[..], &["-k", "ir", "-k", "python3"]].concat(),
    );
    let mut page = begin(&browser, &server, "frame <- data.frame(n = 1:3)\nframe").await;
    ended(&mut page, 1).await;
    page.until("document.querySelector('.rich table')").await;
    assert_eq!(
        page.eval("!!document.querySelector('.explore')").await,
        false
    );
    page.press("Variables, files, kernels, cost").await;
    page.until("document.querySelector('.rows code')?.innerText === 'frame'")
        .await;
    assert_eq!(
        page.eval("!!document.querySelector('button.row')").await,
        false
    );
    let kernels = page
        .eval("[...document.querySelectorAll('.panel select option')].map((it) => [it.value, it.innerText])")
        .await;
    assert_eq!(kernels, json!([["R", "ir"], ["python", "python3"]]));
    page.eval("(() => { const it = document.querySelector('.panel select'); it.value = 'python'; it.dispatchEvent(new Event('change', {bubbles: true})); })()")
        .await;
    page.sees("does not run (yet)").await;
}
