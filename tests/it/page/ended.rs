//! A session that a person ended stays ended, in every page.

use serde_json::json;

use super::{Server, assert_is_clean, begin, ended, port_zero, sponde};
use crate::browser::Browser;

#[tokio::test(flavor = "multi_thread")]
async fn an_ended_session_is_not_brought_back_by_a_page() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let mut one = begin(&browser, &server, "kept = 41").await;
    ended(&mut one, 1).await;
    let address = one.eval("location.href").await;
    let mut two = browser.open(address.as_str().unwrap()).await;
    ended(&mut two, 1).await;
    one.until("document.querySelector(\".lists [aria-label^='End ']\")")
        .await;
    one.eval("document.querySelector(\".lists [aria-label^='End ']\").click(); 1")
        .await;
    for (page, who) in [(&mut one, "You ended it."), (&mut two, "page ")] {
        page.sees("This session is not running.").await;
        page.sees(who).await;
        // What was said and done is still there to be read, and nothing to write in.
        let there = "document.querySelectorAll('article.code').length === 1 && !document.querySelector('.composer')";
        page.until(there).await;
    }
    two.sees("(web) ended it.").await;
    let list = "fetch('api/sessions').then((it) => it.json()).then((it) => [it.live.length, it.stored.length])";
    assert_eq!(two.eval(list).await, json!([0, 1]));
    // A page that is loaded anew asks too.
    two.call("Page.reload", json!({})).await;
    two.sees("This session is not running.").await;
    assert_eq!(one.eval(list).await, json!([0, 1]));
    // Nobody but a person brings it back.
    two.press("Resume").await;
    two.until("document.querySelector('.composer') && document.querySelectorAll('article.code').length === 1")
        .await;
    assert_eq!(one.eval(list).await, json!([1, 0]));
    one.press("Resume").await;
    one.until("document.querySelector('.composer')").await;
    assert_eq!(
        one.complaints().len(),
        one.complaints()
            .iter()
            .filter(|it| it.contains("410"))
            .count()
    );
    two.events.clear();
    assert_is_clean(&mut two, &server).await;
}
