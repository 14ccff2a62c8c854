//! Documents of frames, for outputs that scripts draw: notebook HTML, JavaScript, charts.
//!
//! The document is hostile. Its frame is sandboxed without an origin, by both the page's attribute and this policy, so
//! it can reach no cookie, storage or parent. It loads only the page's own libraries, and cannot connect anywhere.

use serde_json::Value;

use super::assets::{ASSETS, COMPRESSED};
use super::bokeh::Bokeh;
use crate::jupyter::mime::{self, MimeBundle};

/// What a frame may do. `host` is the address at which the browser reaches us: an opaque origin has no `'self'`.
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

/// The document of an output; `None` if no script draws it. A Bokeh script needs `bokeh`.
pub(super) fn of(data: &MimeBundle, bokeh: Option<&Bokeh>) -> Option<String> {
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
        return Some(page(&with_own_libraries(&html)));
    }
    let script = data.text_of(mime::APPLICATION_JAVASCRIPT)?;
    if let Some(Bokeh { library, element }) = bokeh {
        return Some(page(&format!("{element}{}{}", run(library), run(&script))));
    }
    Some(page(&format!("<div id=\"output\"></div>{}", run(&script))))
}

/// An element that runs a script like Jupyter: it draws into `element`.
fn run(script: &str) -> String {
    let text = script_json(&Value::from(script));
    format!("<script>new Function('element',{text})(document.getElementById('output'))</script>")
}

/// URLs in the HTML of Altair and Plotly, and the page's own files that replace them.
const ELSEWHERE: [(&str, &str); 4] = [
    ("https://cdn.jsdelivr.net/npm/vega@", "vega."),
    ("https://cdn.jsdelivr.net/npm/vega-lite@", "vega-lite"),
    ("https://cdn.jsdelivr.net/npm/vega-embed@", "vega-embed"),
    ("https://cdn.plot.ly/plotly-", "plotly"),
];

/// The attribute after a quoted URL that states the expected hash.
const INTEGRITY: &str = "\" integrity=\"";
/// The attribute after that, up to the quote: a frame without origin cannot make such a request.
const ANONYMOUS: &str = " crossorigin=\"anonymous";

/// Replaces these library URLs with ours: the frame cannot reach another host.
fn with_own_libraries(html: &str) -> String {
    let mut html = html.to_owned();
    for (address, file) in ELSEWHERE {
        let Some(file) = asset(file) else { continue };
        while let Some(at) = html.find(address) {
            let rest = html.get(at..).unwrap_or_default();
            let is_in_url = |c: char| c.is_ascii_alphanumeric() || "-._~:/?#@%&=+".contains(c);
            let end = rest.find(|c| !is_in_url(c)).unwrap_or(rest.len());
            // Plotly states the hash that it expects: our file is another version.
            let after = rest.get(end..).unwrap_or_default();
            let kept = after
                .strip_prefix(INTEGRITY)
                .and_then(|it| it.split_once('"'));
            let kept = kept.and_then(|(_, it)| it.strip_prefix(ANONYMOUS));
            let end = kept.map_or(end, |kept| rest.len() - kept.len());
            html.replace_range(at..at + end, &format!("/assets/{file}"));
        }
    }
    html
}

/// The value of the first type with this prefix.
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

/// JSON for use in a script: nothing in it can end the script.
fn script_json(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

/// Runs before any script of the output. WebRTC reaches the network regardless of the policy, even from a nested
/// frame, so both are removed.
/// there is neither.
const CLOSED: &str = "<script>(()=>{for(const name of['RTCPeerConnection','webkitRTCPeerConnection'])Object.defineProperty(window,name,{value:undefined});\
    const inner='iframe,frame,object,embed';\
    const close=(all)=>{for(const{addedNodes}of all)for(const it of addedNodes)if(it.nodeType===1){if(it.matches(inner))it.remove();for(const one of it.querySelectorAll(inner))one.remove()}};\
    const watch=(root)=>new MutationObserver(close).observe(root,{childList:true,subtree:true});watch(document);\
    const attach=Element.prototype.attachShadow;Element.prototype.attachShadow=function(how){const root=attach.call(this,how);watch(root);return root}})()</script>";

/// A document that reports its height to the page.
fn page(body: &str) -> String {
    format!(
        "<!doctype html><html><head><meta charset=\"utf-8\">{CLOSED}<style>body{{margin:0;font-family:sans-serif}}</style>\
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
            of(&html, None)
                .unwrap()
                .contains("<script>draw()</script></body>")
        );
        let script = MimeBundle::new().with("application/javascript", "x='</script><b>'");
        let document = of(&script, None).unwrap();
        assert!(
            document.contains(r"x='\u003c/script>\u003cb>'"),
            "{document}"
        );
        let bokeh = Bokeh {
            library: "load()".to_owned(),
            element: "<div id=chart></div>".to_owned(),
        };
        let document = of(&script, Some(&bokeh)).unwrap();
        let parts = ["<div id=chart></div>", "\"load()\"", "\"x="];
        let at = parts.map(|part| document.find(part));
        assert!(at.is_sorted() && at[0].is_some(), "{document}");
        assert_eq!(of(&MimeBundle::text("x"), None), None);
        assert_eq!(script_json(&json!("\u{2028}<")), "\"\\u2028\\u003c\"");
    }

    #[test]
    fn libraries_of_charts_are_ours() {
        let html = "a: \"https://cdn.jsdelivr.net/npm/vega-lite@6.4.1?noext\", b: 'https://cdn.jsdelivr.net/npm/vega@6', \
            <script src=\"https://cdn.plot.ly/plotly-3.0.1.min.js\" integrity=\"sha256-x=\" crossorigin=\"anonymous\"></script> \
            https://cdn.jsdelivr.net/npm/other@1";
        assert_eq!(
            with_own_libraries(html),
            "a: \"/assets/vendor/vega-lite.min.js\", b: '/assets/vendor/vega.min.js', \
             <script src=\"/assets/vendor/plotly-cartesian.min.js\"></script> \
             https://cdn.jsdelivr.net/npm/other@1"
        );
    }
}
