//! Classifies a fenced block by its info string: code in some language, a call written as text, or something to
//! display.

/// How to treat a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BlockUse {
    /// Code in this language; `None` is the main kernel's.
    Code(Option<String>),
    /// Code, if its content looks like it.
    Perhaps(Option<String>),
    /// A call as JSON, if its content is one.
    Call,
    /// A call: the info string says so.
    MarkedCall,
    /// An invented output of a cell.
    Output,
    /// For display only.
    Show,
}

/// Info string of a block that is always a call.
pub(super) const MARKED_CALL: &str = "tool_call";

/// Info strings of outputs.
const OUTPUT: [&str; 13] = [
    "output",
    "out",
    "outputs",
    "result",
    "results",
    "stdout",
    "stderr",
    "console-output",
    "execution",
    "traceback",
    "pytb",
    "error",
    "observation",
];

/// Languages that no kernel runs, and formats that are pasted for display.
const SHOWN: [&str; 44] = [
    "text",
    "txt",
    "plain",
    "plaintext",
    "none",
    "ascii",
    "log",
    "csv",
    "tsv",
    "table",
    "yaml",
    "yml",
    "toml",
    "ini",
    "cfg",
    "conf",
    "env",
    "xml",
    "html",
    "css",
    "svg",
    "md",
    "markdown",
    "mdx",
    "rst",
    "tex",
    "latex",
    "math",
    "mermaid",
    "dot",
    "graphviz",
    "diff",
    "patch",
    "http",
    "dockerfile",
    "makefile",
    "gitignore",
    "console",
    "shell-session",
    "shellsession",
    "terminal",
    "pycon",
    "python-repl",
    "doctest",
];

/// Shells: such a block is often a transcript rather than a script.
const SHELLS: [&str; 5] = ["bash", "sh", "shell", "zsh", "ksh"];

/// Classifies a block by its info string.
pub(super) fn kind(info: &str) -> BlockUse {
    let word = word(info);
    match word.as_str() {
        "" => BlockUse::Perhaps(None),
        "json" | "json5" | "jsonc" | "tool" | "tool_calls" | "function" | "function_call" => {
            BlockUse::Call
        }
        MARKED_CALL => BlockUse::MarkedCall,
        // Gemini's name for code to run.
        "tool_code" | "code" => BlockUse::Code(None),
        "ipython" | "ipython3" | "py" | "py3" | "python3" | "jupyter-python" => {
            BlockUse::Code(Some("python".to_owned()))
        }
        word if OUTPUT.contains(&word) => BlockUse::Output,
        word if SHOWN.contains(&word) => BlockUse::Show,
        word if SHELLS.contains(&word) => BlockUse::Perhaps(Some(word.to_owned())),
        word => BlockUse::Code(Some(word.to_owned())),
    }
}

/// The first word of forms like `{python, echo=FALSE}`, `{.python}`, `python:main.py`, `{code-cell} ipython3`, `Python
/// 3`.
pub(super) fn word(info: &str) -> String {
    let is_end =
        |c: char| c.is_whitespace() || matches!(c, ',' | '}' | ':' | ';' | '(' | '{' | '=');
    let info = info.trim_start_matches(|c: char| c.is_whitespace() || matches!(c, '{' | '.'));
    let end = info.find(is_end).unwrap_or(info.len());
    let (first, rest) = info.split_at(end);
    if first.eq_ignore_ascii_case("code-cell") {
        return word(rest.trim_start_matches(is_end));
    }
    first.trim_end_matches('.').to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_info_string_says_what_a_block_is() {
        let code = |language: &str| BlockUse::Code(Some(language.to_owned()));
        let cases = [
            ("python", code("python")),
            ("Python 3", code("python")),
            ("python3", code("python")),
            ("py", code("python")),
            ("{python}", code("python")),
            ("{.python .numberLines}", code("python")),
            ("{python, echo=FALSE}", code("python")),
            ("python:main.py", code("python")),
            ("python title=\"a.py\"", code("python")),
            ("{code-cell} ipython3", code("python")),
            ("{r}", code("r")),
            ("R", code("r")),
            ("c++", code("c++")),
            ("julia", code("julia")),
            ("tool_code", BlockUse::Code(None)),
            ("", BlockUse::Perhaps(None)),
            ("bash", BlockUse::Perhaps(Some("bash".to_owned()))),
            ("json", BlockUse::Call),
            ("tool_call", BlockUse::MarkedCall),
            ("output", BlockUse::Output),
            ("text", BlockUse::Show),
            ("console", BlockUse::Show),
            ("pycon", BlockUse::Show),
        ];
        for (info, expected) in cases {
            assert_eq!(kind(info), expected, "{info:?}");
        }
    }
}
