//! What a fenced block is, by the words behind its fence: code of some language, a call written out, or something to
//! look at.

/// What is to be done with a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BlockUse {
    /// Code in this language; `None` is the main one.
    Code(Option<String>),
    /// Perhaps code; its content decides.
    Perhaps(Option<String>),
    /// Perhaps a call as JSON; its content decides.
    Call,
    /// A call, for it was marked as one.
    MarkedCall,
    /// What a cell would have given, in the model's imagination.
    Output,
    /// For the eyes only.
    Show,
}

/// Marks that stand for a call whatever is in the block.
pub(super) const MARKED_CALL: &str = "tool_call";

/// Outputs.
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

/// What no kernel runs, and what people paste to show.
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

/// Shells: a block is often a transcript of one rather than a script.
const SHELLS: [&str; 5] = ["bash", "sh", "shell", "zsh", "ksh"];

/// What a block with this info string is.
pub(super) fn kind(info: &str) -> BlockUse {
    let word = word(info);
    match word.as_str() {
        "" => BlockUse::Perhaps(None),
        "json" | "json5" | "jsonc" | "tool" | "tool_calls" | "function" | "function_call" => {
            BlockUse::Call
        }
        MARKED_CALL => BlockUse::MarkedCall,
        // Gemini's own name for code to be run.
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

/// The first word: `{python, echo=FALSE}`, `{.python}`, `python:main.py`, `{code-cell} ipython3`, `Python 3`.
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
