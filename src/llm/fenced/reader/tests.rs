//! Replies as models write them, cut into fragments of any size.

use super::*;

/// Text and code of a reply: cells as `[language]code`, a cut one with `…`, calls as `{name}arguments`.
fn read(text: &str, size: usize, accept: Accept, cut: bool) -> (String, Vec<String>) {
    let chars: Vec<char> = text.chars().collect();
    let mut reader = Reader::new(accept);
    let mut pieces: Vec<Piece> = chars
        .chunks(size)
        .flat_map(|chunk| reader.read(&chunk.iter().collect::<String>()))
        .collect();
    pieces.extend(reader.finish(cut));
    let (mut words, mut cells, mut open) = (String::new(), Vec::new(), None);
    for piece in pieces {
        match piece {
            Piece::Text(text) => words.push_str(&text),
            Piece::Begin(language) => open = Some(format!("[{}]", language.unwrap_or_default())),
            Piece::Code(code) => open.as_mut().unwrap().push_str(&code),
            Piece::End => cells.extend(open.take()),
            Piece::Call(name, arguments) => {
                cells.push(format!("{{{}}}{arguments}", name.unwrap_or_default()));
            }
            Piece::Arguments(more) => panic!("{more}"),
            Piece::Stop => words.push_str(" STOP"),
        }
    }
    cells.extend(open.map(|cell| cell + "…"));
    (words, cells)
}

/// Checks that the result is the same for any fragmentation.
fn check(text: &str, words: &str, cells: &[&str]) {
    for size in [1, 2, 3, 7, 1000] {
        let (said, ran) = read(text, size, Accept::Blocks, false);
        assert_eq!(
            (said.as_str(), ran),
            (words, cells.iter().map(|&c| c.to_owned()).collect()),
            "{text:?}, {size}"
        );
    }
}

#[test]
fn every_block_of_code_runs_in_order() {
    check(
        "I load it.\n\n```python\nx = 1\n```\n",
        "I load it.",
        &["[python]x = 1"],
    );
    check(
        "First:\n```python\nx = 1\n```\nThen:\n~~~~ py\ny = 2\n\nz\n~~~~\nDone.",
        "First:\n\nThen:\n\nDone.",
        &["[python]x = 1", "[python]y = 2\n\nz"],
    );
    check(
        "```python\nx\n```\n```bash\nls | wc -l\n```\n",
        "",
        &["[python]x", "[bash]ls | wc -l"],
    );
    // Byte for byte: backticks in a string, the language's name, a longer fence, trailing blanks.
    check(
        "```python\na = ['python', '--version']\ns = '```'\n```",
        "",
        &["[python]a = ['python', '--version']\ns = '```'"],
    );
    check(
        "````python\ns = '''\n```\nx\n```\n'''  \n\n````\n",
        "",
        &["[python]s = '''\n```\nx\n```\n'''  \n"],
    );
    // A fence in a string belongs to the string, however short the block's fence is.
    check(
        "So:\n```python\ns = \"\"\"\n```\nx\n```\n\"\"\"\nprint(s)\n```\nDone.\n```python\ny\n```",
        "So:\n\nDone.",
        &[
            "[python]s = \"\"\"\n```\nx\n```\n\"\"\"\nprint(s)",
            "[python]y",
        ],
    );
    check(
        "```python\ns = \"\"\"torn\n```\nDone.",
        "Done.",
        &["[python]s = \"\"\"torn"],
    );
    check(
        "```r\nprinter <- function(r) r\n```\n",
        "",
        &["[r]printer <- function(r) r"],
    );
    // Unclosed at the end.
    check(
        "```python\nx = 1\nprint(x)",
        "",
        &["[python]x = 1\nprint(x)"],
    );
    check("```python", "", &[]);
}

#[test]
fn blocks_in_lists_are_blocks() {
    check(
        "1. Load:\n   ```python\n   if x:\n       y\n   ```\n2. Then.\n",
        "1. Load:\n\n2. Then.",
        &["[python]if x:\n    y"],
    );
    check("- ```python\n  x\n  ```\n", "-", &["[python]x"]);
    // Code that is indented less than its fence.
    check(
        "1. Load:\n    ```python\nx = 1\n\ny\n    ```\n2. Then:\n    ```python\nz\n    ```\n",
        "1. Load:\n\n2. Then:",
        &["[python]x = 1\n\ny", "[python]z"],
    );
    check("> ```python\n> x\n> ```\n", ">", &["[python]x"]);
}

#[test]
fn what_is_only_shown_is_not_run() {
    check(
        "The table:\n```text\na b\n```\nas seen.",
        "The table:\n```text\na b\n```\nas seen.",
        &[],
    );
    check(
        "```json\n{\"name\": \"Ada\", \"age\": 36}\n```",
        "```json\n{\"name\": \"Ada\", \"age\": 36}\n```",
        &[],
    );
    check("```console\n$ ls\na\n```", "```console\n$ ls\na\n```", &[]);
    check("```bash\n$ ls\na\n```", "```bash\n$ ls\na\n```", &[]);
    check(
        "```\n   a  b\n0  1  2\n```",
        "```\n   a  b\n0  1  2\n```",
        &[],
    );
    check(
        "Expected output:\n```\nx = 1\n```",
        "Expected output:\n```\nx = 1\n```",
        &[],
    );
    check("```\nprint(1)\n```", "", &["[]print(1)"]);
    check(
        "Use `x` or ```y``` there.",
        "Use `x` or ```y``` there.",
        &[],
    );
    check(
        "    import x\n    ```python\n",
        "    import x\n    ```python",
        &[],
    );
}

#[test]
fn an_output_that_the_model_makes_up_ends_the_reply() {
    check(
        "```python\nprint(1)\n```\n```output\n1\n```\nIt is 1.",
        " STOP",
        &["[python]print(1)"],
    );
    check(
        "```python\nprint(1)\n```\n\nOutput:\n```\n1\n```\nIt is 1.",
        " STOP",
        &["[python]print(1)"],
    );
    check(
        "```python\nprint(1)\n```\nThis will print:\n```\n1\n```\nIt is 1.",
        "This will print: STOP",
        &["[python]print(1)"],
    );
    check(
        "```python\nprint(1)\n```\n**Output:** 1\n\nIt is 1.",
        " STOP",
        &["[python]print(1)"],
    );
    check(
        "```python\nprint(1)\n```\n<tool_response>\n1\n</tool_response>\n",
        " STOP",
        &["[python]print(1)"],
    );
    check("The output: it is 1.", "The output: it is 1.", &[]);
}

#[test]
fn calls_written_as_text_are_calls() {
    let call = r#"{run_code}{"code":"print(1)"}"#;
    let json = r#"{"name": "run_code", "arguments": {"code": "print(1)"}}"#;
    check(
        &format!("Let me.\n```json\n{json}\n```\n"),
        "Let me.",
        &[call],
    );
    check(&format!("<tool_call>\n{json}\n</tool_call>"), "", &[call]);
    check(&format!("<tool_call>{json}</tool_call>\n"), "", &[call]);
    check(&format!("<tool_call>\n{json}"), "", &[call]);
    check(&format!("<|python_tag|>{json}<|eom_id|>"), "", &[call]);
    check(
        "<|python_tag|>print(1)\nprint(2)<|eot_id|>",
        "",
        &["[python]print(1)\nprint(2)"],
    );
    check(
        "<tool_call>\n<function=run_code>\n<parameter=code>\nprint(1)\n</parameter>\n</function>\n</tool_call>",
        "",
        &[call],
    );
    check(
        "functions.execute({\"code\": \"print(1)\"})",
        "",
        &[r#"{}{"code": "print(1)"}"#],
    );
    check(
        "<execute>\nprint(1)\n</execute>\nthen",
        "then",
        &["[]print(1)"],
    );
    check("```tool_code\nprint(1)\n```", "", &["[]print(1)"]);
    check("`python\nprint(1)\n`", "", &["[python]print(1)"]);
    // Broken calls are passed on unchanged, so that the model learns of it.
    check(
        "<tool_call>\n{\"name\": \n</tool_call>",
        "",
        &["{}{\"name\":"],
    );
    // Tags inside code are code.
    check(
        "```python\ns = '''\n<tool_call>\n</tool_call>\n'''\n```",
        "",
        &["[python]s = '''\n<tool_call>\n</tool_call>\n'''"],
    );

    // A model that can call tools writes blocks for display.
    let text = format!("```json\n{json}\n```\n```python\nx\n```\n");
    let (words, cells) = read(&text, 3, Accept::Calls, false);
    assert_eq!(
        (words.as_str(), cells),
        ("```python\nx\n```", vec![call.to_owned()])
    );
    let (words, cells) = read(&text, 3, Accept::Words, false);
    assert_eq!((words, cells), (text.trim_end().to_owned(), vec![]));
}

#[test]
fn imports_outside_of_the_fence_belong_to_it() {
    check(
        "import pandas as pd\n```python\nx = pd.a\n```",
        "",
        &["[python]import pandas as pd\nx = pd.a"],
    );
    check(
        "So:\n\nimport os\nfrom a import b\n\n```\nx = b()\n```\n",
        "So:",
        &["[]import os\nfrom a import b\nx = b()"],
    );
    check(
        "I compute it.\n\nimport os\n\nx = os.a\nprint(x)\n\nThis prints the value of a.\n",
        "I compute it.\n\nThis prints the value of a.",
        &["[]import os\n\nx = os.a\nprint(x)"],
    );
    check(
        "Imports rose.\nimport taxes fell, too.\n",
        "Imports rose.\nimport taxes fell, too.",
        &[],
    );
    check(
        "import os\nas you see\n```r\nx\n```",
        "import os\nas you see",
        &["[r]x"],
    );
}

#[test]
fn a_block_cut_at_the_limit_has_no_end() {
    let (words, cells) = read("So:\n```python\nx = 1\nprint(", 4, Accept::Blocks, true);
    assert_eq!(
        (words.as_str(), cells),
        ("So:", vec!["[python]x = 1\nprint(…".to_owned()])
    );
    let (_, cells) = read("```python\nx = 1\n```\nand", 4, Accept::Blocks, true);
    assert_eq!(cells, vec!["[python]x = 1".to_owned()]);
}

#[test]
fn words_and_code_are_told_while_they_are_written() {
    let mut reader = Reader::new(Accept::Blocks);
    let told: Vec<Vec<Piece>> = [
        "The mean",
        " is",
        ":\n```py",
        "thon\nx = ",
        "1\nprint(x)\n",
        "``",
        "`\n",
        "Now",
    ]
    .into_iter()
    .map(|fragment| reader.read(fragment))
    .collect();
    let text = |text: &str| Piece::Text(text.to_owned());
    let code = |text: &str| Piece::Code(text.to_owned());
    assert_eq!(
        told,
        vec![
            vec![text("The mean")],
            vec![text(" is")],
            vec![text(":")],
            vec![],
            vec![
                Piece::Begin(Some("python".to_owned())),
                code("x = 1\nprint(x)")
            ],
            vec![],
            vec![Piece::End],
            vec![],
        ]
    );
    assert_eq!(reader.finish(false), vec![text("\n\nNow")]);
}

#[test]
fn a_huge_reply_takes_no_quadratic_time() {
    let line = "x = '< ` [' # a line of code\n";
    let text = format!("```python\n{}```\n", line.repeat(20_000));
    let (words, cells) = read(&text, 1000, Accept::Blocks, false);
    assert_eq!((words.as_str(), cells.len()), ("", 1));
    assert_eq!(cells[0].len(), "[python]".len() + line.len() * 20_000 - 1);
}
