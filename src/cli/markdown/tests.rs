//! Markdown gives the same screen text, whatever pieces it arrives in.

use super::table::without_colours;
use super::*;

/// What a terminal of `width` columns receives, with colours as letters.
fn shown(text: &str, width: usize, size: usize) -> String {
    let mut markdown = Markdown::new(true);
    markdown.set_width(width);
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::new();
    for piece in chars.chunks(size) {
        out.push_str(&markdown.push(&piece.iter().collect::<String>()));
    }
    out.push_str(&markdown.finish());
    out
}

/// Our own colours in a readable form.
fn named(text: &str) -> String {
    let mut text = text.replace("\u{1b}[0m", "}");
    for (code, name) in [
        ("1", "b"),
        ("2", "dim"),
        ("3", "i"),
        ("4", "u"),
        ("32", "green"),
        ("35", "magenta"),
        ("36", "cyan"),
    ] {
        text = text.replace(&format!("\u{1b}[{code}m"), &format!("{{{name}:"));
    }
    text
}

const TEXT: &str = "\
# Rain in *two* cities
There are **2922 rows**: 1461 days for each of `Seattle` and New York, from [NOAA](https://noaa.gov).


1. The first item is long enough that it takes two lines
   - nested
10) ten
* * *
> quoted words, a few of them, that go on and on

| City | Rain (mm) |
|:--|--:|
| **Seattle** | 4426.0 |
| New York | 4178.6 |
```python
for x in y:  # loop
    print(\"é\", 1)
```
Done: $x_1 * y_2$.
";

#[test]
fn an_answer_as_it_is_shown() {
    insta::assert_snapshot!(named(&shown(TEXT, 40, TEXT.len())), @r#"
    {b:{u:Rain} {b:{u:in} {b:{i:{u:two} {b:{u:cities}
    There are {b:2922} {b:rows}: 1461 days for each
    of {cyan:Seattle} and New York, from NOAA
    ({u:https://noaa.gov}).

    1. The first item is long enough that it
       takes two lines
       • nested
    10) ten
    {dim:────────────────────────────────────────}
    │ quoted words, a few of them, that go
    │ on and on

    {b:City}      {b:Rain} {b:(mm)}
    ────────  ─────────
    {b:Seattle}      4426.0
    New York     4178.6

    {magenta:for} x {magenta:in} y:  {dim:# loop}
        print({green:"é"}, {cyan:1})

    Done: $x_1 * y_2$.
    "#);
}

#[test]
fn pieces_of_any_size_are_shown_alike() {
    for width in [20, 40, 100] {
        let whole = shown(TEXT, width, TEXT.len());
        for size in [1, 2, 3, 7, 50] {
            let pieces = without_colours(&shown(TEXT, width, size));
            assert_eq!(
                pieces,
                without_colours(&whole),
                "{width} columns, by {size}"
            );
        }
    }
}

#[test]
fn words_go_out_before_their_line_ends() {
    let mut markdown = Markdown::new(true);
    markdown.set_width(40);
    assert_eq!(markdown.push("- It is **ve"), "• It is");
    assert_eq!(
        markdown.push("ry** warm to"),
        " \u{1b}[1mvery\u{1b}[0m warm"
    );
    assert_eq!(markdown.push("day."), "");
    assert_eq!(markdown.finish(), " today.\n");
    let mut markdown = Markdown::new(true);
    assert_eq!(markdown.push("```py\nx = "), "x = ");
    assert_eq!(markdown.push("len"), "");
    assert_eq!(markdown.push("(1"), "len(");
}

#[test]
fn wide_characters_have_two_columns() {
    insta::assert_snapshot!(named(&shown("今日は雨が降っています。明日は晴れるでしょう。 and *more*", 20, 3)), @r#"
    今日は雨が降っていま
    す。明日は晴れるでし
    ょう。 and {i:more}
    "#);
    insta::assert_snapshot!(named(&shown("| a | 数 |\n|-|-|\n| 東京 | 1 |\n| x | 日本 |", 40, 4)), @r#"
    {b:a}     {b:数}
    ────  ────
    東京  1
    x     日本
    "#);
}

#[test]
fn a_table_fits_the_terminal() {
    let table = "| name | what it is |\n|---|---|\n| `df` | a table with all the rows of the file, and more |\n| x | y |\n";
    let text = shown(table, 30, 5);
    insta::assert_snapshot!(named(&text), @r#"
    {b:name}  {b:what} {b:it} {b:is}
    ────  ────────────────────────
    {cyan:df}    a table with all the
          rows of the file, and
          more
    x     y
    "#);
    for line in text.lines() {
        assert!(
            line.chars().filter(|c| !c.is_control()).count() <= 40,
            "{line}"
        );
    }
    assert_eq!(
        shown("| no table\nat | all |\n", 30, 3),
        "| no table\nat | all |\n"
    );
}

#[test]
fn without_colours_the_marks_stay() {
    let mut markdown = Markdown::new(false);
    markdown.set_width(30);
    let mut out = markdown.push("## A *b*\n- `c` and\n```py\nd = 1\n```\n");
    out.push_str(&markdown.finish());
    assert_eq!(out, "## A *b*\n• `c` and\n\n```py\nd = 1\n```\n");
}

/// Every control character, and every escape sequence cut at every position.
#[test]
fn nothing_that_a_terminal_obeys_comes_out() {
    let hostile = [
        "\u{1b}]52;c;aGk=\u{7}",
        "\u{1b}[2J",
        "\u{1b}[31m",
        "\u{9b}1A",
        "\u{90}q\u{9c}",
        "\u{1b}P1$r\u{1b}\\",
        "\u{8}\u{8}",
        "\r",
        "\u{1b}c",
        "\u{202e}",
        "\u{7}",
        "\u{0}",
    ];
    for around in [
        "x{}y",
        "# {}",
        "- {}",
        "**{}**",
        "`{}`",
        "| {} | b |\n|-|-|\n",
        "```py\n\"{}\n```\n",
        "[a{}](http://{}b)",
        "> {}",
    ] {
        for bad in hostile {
            let text = around.replace("{}", bad);
            for size in 1..=text.chars().count() {
                let out = shown(&text, 40, size);
                let mut rest = out.as_str();
                while let Some(at) =
                    rest.find(|c: char| c.is_control() && c != '\n' || c == '\u{202e}')
                {
                    let after = &rest[at..];
                    let code = after
                        .strip_prefix("\u{1b}[")
                        .and_then(|it| it.split_once('m'));
                    let (code, left) =
                        code.unwrap_or_else(|| panic!("{text:?} by {size}: {out:?}"));
                    assert!(
                        code.chars().all(|c| c.is_ascii_digit() || c == ';'),
                        "{text:?}: {out:?}"
                    );
                    rest = left;
                }
            }
        }
    }
}
