//! Charts draw themselves from their data, with libraries of the page or of the kernel, and without a network.

use super::{Server, assert_is_clean, begin, ended, port_zero, run, sponde};
use crate::browser::{Browser, Page};

/// Every request of a frame that was seen, and what its scripts complained of.
async fn assert_is_quiet(frame: &mut Page, server: &Server) {
    frame.eval("1").await;
    let origin = server.origin();
    let foreign: Vec<String> = frame.requested();
    let foreign: Vec<_> = foreign
        .iter()
        .filter(|url| {
            !url.starts_with(origin) && !url.starts_with("data:") && !url.starts_with("blob:")
        })
        .collect();
    assert_eq!(foreign, Vec::<&String>::new());
}

/// What Plotly and Altair themselves show, and their HTML, which loads libraries from elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn charts_are_live() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let plotly = "import plotly.express as px\npx.line(x=[1, 2, 3], y=[3, 1, 2], height=444)";
    let mut page = begin(&browser, &server, plotly).await;
    ended(&mut page, 1).await;
    let mut frame = browser.frame_with(".js-plotly-plot").await;
    frame
        .until(
            "document.querySelectorAll('.js-plotly-plot .scatterlayer path.js-line').length === 1",
        )
        .await;
    assert_is_quiet(&mut frame, &server).await;
    // A frame tells how high it is once something is drawn in it.
    page.until("(() => { const it = document.querySelector('iframe'); return it.clientHeight >= 444 && it.clientHeight < 600; })()")
        .await;
    let altair = "import altair as alt, pandas as pd\n\
        alt.Chart(pd.DataFrame({'a': ['x', 'y'], 'b': [3, 5]}), height=333).mark_bar().encode(x='a', y='b')";
    run(&mut page, altair).await;
    ended(&mut page, 2).await;
    let mut frame = browser
        .frame_with(".vega-embed canvas, .vega-embed svg")
        .await;
    assert_is_quiet(&mut frame, &server).await;
    page.until("(() => { const it = document.querySelectorAll('iframe')[1]; return it.clientHeight > 333 && it.clientHeight < 600; })()")
        .await;
    let bundle = "from IPython.display import display, HTML\n\
        display(alt.Chart(pd.DataFrame({'a': [1], 'b': [2]})).mark_point().encode(x='a', y='b').to_dict() and \
        {'application/vnd.vegalite.v5+json': alt.Chart(pd.DataFrame({'a': [1]})).mark_tick().encode(x='a').to_dict(), 'text/plain': 'chart'}, raw=True)\n\
        HTML(px.bar(x=['p', 'q'], y=[1, 2]).to_html(include_plotlyjs='cdn'))";
    run(&mut page, bundle).await;
    ended(&mut page, 3).await;
    let mut frame = browser.frame_with("#chart.vega-embed").await;
    assert_is_quiet(&mut frame, &server).await;
    let mut frame = browser.frame_with(".js-plotly-plot .barlayer path").await;
    assert_is_quiet(&mut frame, &server).await;
    assert_is_clean(&mut page, &server).await;
}

/// The library is in one cell, the chart in another, and each frame has both.
#[tokio::test(flavor = "multi_thread")]
async fn charts_of_bokeh_are_live() {
    let Some(browser) = Browser::start().await else {
        return;
    };
    let sponde = sponde();
    let server = Server::start(&sponde, &port_zero());
    let load = "from bokeh.io import output_notebook\nfrom bokeh.plotting import figure, show\noutput_notebook()\nprint('loaded')";
    let mut page = begin(&browser, &server, load).await;
    ended(&mut page, 1).await;
    page.sees("loaded").await;
    assert!(page.eval("!document.querySelector('iframe') && !document.body.innerText.includes('Loading BokehJS')").await == true);
    run(
        &mut page,
        "p = figure(width=400, height=300)\np.line([1, 2, 3], [3, 1, 2])\nshow(p)",
    )
    .await;
    ended(&mut page, 2).await;
    let drawn = "[...document.querySelectorAll('*')].some((it) => it.shadowRoot && (function deep(root) { return !!root.querySelector('canvas') || [...root.querySelectorAll('*')].some((it) => it.shadowRoot && deep(it.shadowRoot)); })(it.shadowRoot))";
    let mut frame = browser.frame_with("[data-root-id]").await;
    frame.until(drawn).await;
    assert_is_quiet(&mut frame, &server).await;
    page.until("document.querySelectorAll('iframe').length === 1 && document.querySelector('iframe').clientHeight >= 300")
        .await;
    // As one page with its library.
    run(
        &mut page,
        "from bokeh.embed import file_html\nfrom bokeh.resources import INLINE\nfrom IPython.display import HTML\n\
         q = figure(width=420, height=310)\nq.scatter([1, 2], [1, 2])\nHTML(file_html(q, INLINE, 'own page'))",
    )
    .await;
    ended(&mut page, 3).await;
    page.eval("[...document.querySelectorAll('iframe')].at(-1).scrollIntoView(); 1")
        .await;
    let mut frame = browser
        .frame_with("body > div > [data-root-id], body > [data-root-id] ~ script")
        .await;
    frame.until(drawn).await;
    assert_is_quiet(&mut frame, &server).await;
    assert_is_clean(&mut page, &server).await;
}
