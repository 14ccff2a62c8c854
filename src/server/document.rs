//! Documents of frames, for outputs that scripts draw: notebook HTML, JavaScript, charts.
//!
//! The document is hostile. Its frame is sandboxed without an origin, by the page's attribute and by this policy both, so
//! that there is no cookie, no storage and no parent to reach; it loads nothing but the page's own libraries, and connects
//! nowhere.

use serde_json::Value;

use super::assets::{ASSETS, COMPRESSED};
use crate::jupyter::mime::{self, MimeBundle};

/// What a frame may do. `host` is how the browser reaches us: an origin that is none has no `'self'`.
pub(super) fn policy(host: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".-:[]".contains(c);
    let own = if !host.is_empty() && host.chars().all(is_plain) {
        format!(" http://{host}/assets/ https://{host}/assets/")
    } else {
        String::new()
    };
    format!(
        "sandbox allow-scripts allow-downloads allow-forms allow-pointer-lock; default-src 'none'; \
         script-src 'unsafe-inline' 'unsafe-eval' blob:{own}; style-src 'unsafe-inline'{own}; img-src data: blob:; \
         font-src data:{own}; media-src data: blob:; worker-src blob:; connect-src 'none'; form-action 'none'; \
         base-uri 'none'; frame-src 'none'; frame-ancestors 'self'; webrtc 'block'"
    )
}

/// The document of an output; `None` if no script draws it.
pub(super) fn of(data: &MimeBundle) -> Option<String> {
    if let Some(value) = starting(data, mime::PLOTLY_PREFIX)
        && let Some(library) = asset("plotly")
    {
        let body = format!(
            "<div id=\"chart\"></div><script src=\"/assets/{library}\"></script><script>const f={};\
             Plotly.newPlot('chart',f.data,f.layout||{{}},Object.assign({{responsive:true}},f.config||{{}}))</script>",
            script_json(value)
        );
        return Some(page(&body));
    }
    let vega = starting(data, mime::VEGALITE_PREFIX).or_else(|| starting(data, mime::VEGA_PREFIX));
    if let Some(value) = vega
        && let (Some(vega), Some(lite), Some(embed)) =
            (asset("vega."), asset("vega-lite"), asset("vega-embed"))
    {
        let body = format!(
            "<div id=\"chart\"></div><script src=\"/assets/{vega}\"></script><script src=\"/assets/{lite}\"></script>\
             <script src=\"/assets/{embed}\"></script><script>vegaEmbed('#chart',{},{{actions:false}})</script>",
            script_json(value)
        );
        return Some(page(&body));
    }
    if let Some(html) = data.text_of(mime::TEXT_HTML) {
        return Some(page(&html));
    }
    let script = data.text_of(mime::APPLICATION_JAVASCRIPT)?;
    // As Jupyter runs it: `element` is where it draws.
    let text = script_json(&Value::from(script.as_ref()));
    Some(page(&format!(
        "<div id=\"output\"></div><script>const element=document.getElementById('output');\
         new Function('element',{text})(element)</script>"
    )))
}

/// The value of the first type that begins so.
fn starting<'a>(data: &'a MimeBundle, prefix: &str) -> Option<&'a Value> {
    data.iter()
        .find(|(mime, _)| mime.starts_with(prefix))
        .map(|(_, value)| value)
}

/// The library of that name among the page's files.
fn asset(name: &str) -> Option<&'static str> {
    let paths = ASSETS
        .iter()
        .map(|(path, _)| path.strip_suffix(COMPRESSED).unwrap_or(path));
    paths.into_iter().find(|path| {
        let file = path.rsplit('/').next().unwrap_or(path);
        file.starts_with(name) && file.rsplit('.').next() == Some("js")
    })
}

/// JSON that stands in a script: nothing in it ends the script.
fn script_json(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// A document that tells the page how high it is.
fn page(body: &str) -> String {
    format!(
        "<!doctype html><html><head><meta charset=\"utf-8\"><style>body{{margin:0;font-family:sans-serif}}</style>\
         <script>(()=>{{const tell=()=>parent.postMessage({{sponde:'height',height:document.body.scrollHeight}},'*');\
         addEventListener('load',tell);addEventListener('DOMContentLoaded',()=>new ResizeObserver(tell).observe(document.body))}})()</script></head>\
         <body>{body}</body></html>"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_frame_has_no_origin_and_no_network() {
        let policy = policy("127.0.0.1:8800");
        assert!(policy.starts_with("sandbox allow-scripts "), "{policy}");
        assert!(!policy.contains("allow-same-origin") && !policy.contains("allow-popups"));
        assert!(
            policy.contains("connect-src 'none'")
                && policy.contains("http://127.0.0.1:8800/assets/")
        );
        assert!(!super::policy("x; script-src *").contains('*'));
    }

    #[test]
    fn what_scripts_draw_has_a_document() {
        let html = MimeBundle::new().with("text/html", "<script>draw()</script>");
        assert!(
            of(&html)
                .unwrap()
                .contains("<script>draw()</script></body>")
        );
        let script = MimeBundle::new().with("application/javascript", "x='</script><b>'");
        let document = of(&script).unwrap();
        assert!(
            document.contains(r"x='\u003c/script>\u003cb>'"),
            "{document}"
        );
        assert_eq!(of(&MimeBundle::text("x")), None);
        assert_eq!(script_json(&json!("\u{2028}<")), "\"\\u2028\\u003c\"");
    }
}
