//! Inline markup: emphasis, code, links. Emits styled pieces as soon as later text cannot change them.
//!
//! An opened mark is held until it is closed. A mark that is not closed on its line is an ordinary character, so `2 *
//! 3 * 4`, `**kwargs` and `a_b_c` stay unchanged. Without colours the marks are kept as well.

use anstyle::{AnsiColor, Effects, Style};

/// After this many bytes, an unclosed mark counts as a character.
const HELD: usize = 400;

/// The style of inline code.
pub(super) const CODE: Style = AnsiColor::Cyan.on_default();
const LINK: Style = Style::new().effects(Effects::UNDERLINE);

/// Whether more of a line can follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rest {
    /// The line is complete.
    None,
    Perhaps,
}

/// How to parse and style a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    pub(super) colours: bool,
    /// The style of the line.
    pub(super) style: Style,
}

/// Emits the certain pieces of `text`, and returns how many bytes they took. `before` is the character before it.
pub(super) fn pieces(
    text: &str,
    before: Option<char>,
    rest: Rest,
    look: Look,
    give: &mut dyn FnMut(Style, &str),
) -> usize {
    // `at`: emitted up to here; `from`: searched up to here.
    let (mut at, mut from) = (0, 0);
    let some = |give: &mut dyn FnMut(Style, &str), from: usize, to: usize| {
        if let Some(piece) = text.get(from..to).filter(|piece| !piece.is_empty()) {
            give(look.style, piece);
        }
    };
    while let Some(found) = text.get(from..).and_then(find_mark) {
        let begin = from + found;
        let after = text.get(begin..).unwrap_or_default();
        let last = text.get(..begin).and_then(|it| it.chars().next_back());
        match mark(after, last.or(before), rest) {
            Mark::Undecided => {
                some(give, at, begin);
                return begin;
            }
            Mark::Characters(length) => from = begin + length,
            Mark::Is(length, meaning) => {
                some(give, at, begin);
                let source = after.get(..length).unwrap_or_default();
                show(meaning, source, look, give);
                at = begin + length;
                from = at;
            }
        }
    }
    some(give, at, text.len());
    text.len()
}

/// The position of the first possible mark.
fn find_mark(text: &str) -> Option<usize> {
    let is_mark = |byte: u8| {
        matches!(
            byte,
            b'*' | b'_' | b'`' | b'[' | b'!' | b'~' | b'\\' | b'<' | b'&'
        )
    };
    text.bytes().position(is_mark)
}

/// What a mark character begins.
enum Mark<'a> {
    /// More text is needed to decide.
    Undecided,
    /// This many bytes of literal text.
    Characters(usize),
    /// This many bytes of markup.
    Is(usize, Meaning<'a>),
}

#[derive(Clone, Copy)]
enum Meaning<'a> {
    Code(&'a str),
    Emphasis(Effects, &'a str),
    Link(&'a str, &'a str),
    Picture(&'a str, &'a str),
    Address(&'a str),
    Character(&'a str),
    Break,
}

fn show(meaning: Meaning<'_>, source: &str, look: Look, give: &mut dyn FnMut(Style, &str)) {
    let Look { colours, style } = look;
    match meaning {
        Meaning::Code(text) if colours => {
            give(CODE.effects(CODE.get_effects() | style.get_effects()), text);
        }
        Meaning::Emphasis(effects, inner) if colours => {
            let style = style.effects(style.get_effects() | effects);
            let look = Look { colours, style };
            pieces(inner, None, Rest::None, look, give);
        }
        Meaning::Code(_) | Meaning::Emphasis(..) => give(style, source),
        Meaning::Link(text, address) => {
            let text = text.trim();
            if !text.is_empty() && text != address {
                pieces(text, None, Rest::None, look, give);
                give(style, " ");
                give(style, "(");
            }
            // The address is always shown, never hidden behind the link's text.
            let link = style.effects(style.get_effects() | LINK.get_effects());
            give(if colours { link } else { style }, address);
            if !text.is_empty() && text != address {
                give(style, ")");
            }
        }
        Meaning::Picture(text, address) => {
            give(style, "[picture: ");
            give(style, if text.is_empty() { address } else { text });
            give(style, "]");
        }
        Meaning::Address(address) => {
            let link = style.effects(style.get_effects() | LINK.get_effects());
            give(if colours { link } else { style }, address);
        }
        Meaning::Character(text) => give(style, text),
        Meaning::Break => give(style, "\n"),
    }
}

fn mark(text: &str, before: Option<char>, rest: Rest) -> Mark<'_> {
    let first = text.chars().next().unwrap_or_default();
    match first {
        '`' => code(text, rest),
        '*' | '_' | '~' => emphasis(text, first, before, rest),
        '[' => link(text, 0, rest),
        '!' => match text.chars().nth(1) {
            Some('[') => link(text, 1, rest),
            None if rest == Rest::Perhaps => Mark::Undecided,
            _ => Mark::Characters(1),
        },
        '\\' => match text.get(1..2) {
            // `\(` and `\[` are kept, because they begin formulas.
            Some(next)
                if next
                    .chars()
                    .all(|c| "\\`*_#+-.!|<>~\"'$&:;,=?@/%^".contains(c)) =>
            {
                Mark::Is(2, Meaning::Character(next))
            }
            None if rest == Rest::Perhaps && text.len() == 1 => Mark::Undecided,
            _ => Mark::Characters(1),
        },
        '<' => address(text, rest),
        _ => entity(text, rest),
    }
}

/// Undecided, unless no more text follows or the limit is reached.
fn undecided(text: &str, rest: Rest, characters: usize) -> Mark<'_> {
    if rest == Rest::Perhaps && text.len() < HELD {
        Mark::Undecided
    } else {
        Mark::Characters(characters)
    }
}

/// The part of a line in which an end is searched.
fn window(text: &str) -> &str {
    let mut end = text.len().min(HELD);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

fn run_of(text: &str, mark: char) -> usize {
    text.chars().take_while(|&c| c == mark).count()
}

fn code(text: &str, rest: Rest) -> Mark<'_> {
    let run = run_of(text, '`');
    let inside = window(text).get(run..).unwrap_or_default();
    let mut at = 0;
    while let Some(found) = inside.get(at..).and_then(|after| after.find('`')) {
        let begin = at + found;
        let length = run_of(inside.get(begin..).unwrap_or_default(), '`');
        let is_cut = begin + length == inside.len() && rest == Rest::Perhaps;
        if length == run {
            // One more mark character would make it a different run.
            if is_cut {
                return undecided(text, rest, run);
            }
            return Mark::Is(run + begin + run, Meaning::Code(bare(inside.get(..begin))));
        }
        at = begin + length;
    }
    undecided(text, rest, run)
}

/// Code without the single blank on each side that separates it from its marks.
fn bare(inside: Option<&str>) -> &str {
    let inside = inside.unwrap_or_default();
    match inside.strip_prefix(' ').and_then(|it| it.strip_suffix(' ')) {
        Some(bare) if !bare.trim().is_empty() => bare,
        _ => inside,
    }
}

fn emphasis(text: &str, mark: char, before: Option<char>, rest: Rest) -> Mark<'_> {
    let run = run_of(text, mark);
    let Some(next) = text.get(run..).and_then(|after| after.chars().next()) else {
        return undecided(text, rest, run);
    };
    let is_inside = mark == '_' && before.is_some_and(char::is_alphanumeric);
    let effects = match (mark, run) {
        ('~', 2) => Effects::STRIKETHROUGH,
        ('*' | '_', 1) => Effects::ITALIC,
        ('*' | '_', 2) => Effects::BOLD,
        ('*' | '_', 3) => Effects::BOLD | Effects::ITALIC,
        _ => return Mark::Characters(run),
    };
    if is_inside || next.is_whitespace() {
        return Mark::Characters(run);
    }
    let inside = window(text).get(run..).unwrap_or_default();
    let mut at = 0;
    while let Some(found) = inside.get(at..).and_then(|after| after.find([mark, '`'])) {
        let begin = at + found;
        let here = inside.get(begin..).unwrap_or_default();
        if here.starts_with('`') {
            let length = run_of(here, '`');
            let end = here
                .get(length..)
                .and_then(|after| after.find('`'))
                .map(|end| length + end + 1);
            at = begin + end.unwrap_or(length);
            continue;
        }
        let length = run_of(here, mark);
        let is_cut = begin + length == inside.len() && rest == Rest::Perhaps;
        let last = inside.get(..begin).and_then(|it| it.chars().next_back());
        let after = here.get(length..).and_then(|it| it.chars().next());
        let closes = last.is_some_and(|c| !c.is_whitespace())
            && !(mark == '_' && after.is_some_and(char::is_alphanumeric))
            && (length == run || run == 2 && length > 2);
        if closes && is_cut {
            return undecided(text, rest, run);
        }
        if closes {
            let end = begin + length - run;
            let inner = inside.get(..end).unwrap_or_default();
            return Mark::Is(run + end + run, Meaning::Emphasis(effects, inner));
        }
        at = begin + length;
    }
    undecided(text, rest, run)
}

/// `[text](address)`; `offset` is the bracket's position.
fn link(text: &str, offset: usize, rest: Rest) -> Mark<'_> {
    let inside = window(text).get(offset + 1..).unwrap_or_default();
    let Some(end) = inside.find(']') else {
        return undecided(text, rest, offset + 1);
    };
    let label = inside.get(..end).unwrap_or_default();
    let after = inside.get(end + 1..).unwrap_or_default();
    match after.chars().next() {
        Some('(') => {}
        None => return undecided(text, rest, offset + 1),
        Some(_) => return Mark::Characters(offset + 1),
    }
    let mut depth = 0_usize;
    for (at, c) in after.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 1 => {
                let target = after.get(1..at).unwrap_or_default();
                // Drops the title.
                let address = target.split_whitespace().next().unwrap_or_default();
                let address = address.trim_start_matches('<').trim_end_matches('>');
                let length = offset + 1 + end + 1 + at + 1;
                let meaning = if offset == 1 {
                    Meaning::Picture(label, address)
                } else {
                    Meaning::Link(label, address)
                };
                return Mark::Is(length, meaning);
            }
            ')' => depth -= 1,
            _ => {}
        }
    }
    undecided(text, rest, offset + 1)
}

/// `<https://..>` or a line break.
fn address(text: &str, rest: Rest) -> Mark<'_> {
    const BEGINS: [&str; 6] = [
        "<http://",
        "<https://",
        "<mailto:",
        "<br>",
        "<br/>",
        "<br />",
    ];
    let inside = window(text);
    for known in BEGINS {
        if let Some(after) = inside.strip_prefix(known) {
            if known.ends_with('>') {
                return Mark::Is(known.len(), Meaning::Break);
            }
            return match after.find(['>', ' ']) {
                Some(end) if after.get(end..=end) == Some(">") => {
                    let length = known.len() + end + 1;
                    let address = inside.get(1..length - 1).unwrap_or_default();
                    Mark::Is(length, Meaning::Address(address))
                }
                Some(_) => Mark::Characters(1),
                None => undecided(text, rest, 1),
            };
        }
        if rest == Rest::Perhaps && known.starts_with(inside) {
            return Mark::Undecided;
        }
    }
    Mark::Characters(1)
}

fn entity(text: &str, rest: Rest) -> Mark<'_> {
    const KNOWN: [(&str, &str); 6] = [
        ("&amp;", "&"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&nbsp;", "\u{a0}"),
    ];
    for (name, means) in KNOWN {
        if text.starts_with(name) {
            return Mark::Is(name.len(), Meaning::Character(means));
        }
        if rest == Rest::Perhaps && name.starts_with(text) {
            return Mark::Undecided;
        }
    }
    Mark::Characters(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marked(text: &str, size: usize) -> String {
        let mut shown: Vec<(Style, String)> = Vec::new();
        let mut give = |style: Style, text: &str| match shown.last_mut() {
            Some((last, joined)) if *last == style => joined.push_str(text),
            _ => shown.push((style, text.to_owned())),
        };
        let look = Look {
            colours: true,
            style: Style::new(),
        };
        let (mut held, mut before) = (String::new(), None);
        let chars: Vec<char> = text.chars().collect();
        for piece in chars.chunks(size) {
            held.extend(piece);
            let done = pieces(&held, before, Rest::Perhaps, look, &mut give);
            before = held[..done].chars().next_back().or(before);
            held.drain(..done);
        }
        pieces(&held, before, Rest::None, look, &mut give);
        let name = |style: Style| match style.get_effects() {
            _ if style.get_fg_color().is_some() => "code",
            Effects::BOLD => "b",
            Effects::ITALIC => "i",
            Effects::STRIKETHROUGH => "s",
            Effects::UNDERLINE => "a",
            it if it == Effects::BOLD | Effects::ITALIC => "bi",
            _ => "",
        };
        let piece = |(style, text): (Style, String)| match name(style) {
            "" => text,
            name => format!("<{name}:{text}>"),
        };
        shown.into_iter().map(piece).collect()
    }

    #[test]
    fn marks_mean_something_only_where_they_are_closed() {
        for (text, expected) in [
            ("a **b c** d", "a <b:b c> d"),
            ("*a* _b_ ***c***!", "<i:a> <i:b> <bi:c>!"),
            ("**a *b* c**", "<b:a ><bi:b><b: c>"),
            ("~~no~~ ~5", "<s:no> ~5"),
            ("2 * 3 * 4 ** 5", "2 * 3 * 4 ** 5"),
            ("f(*args, **kwargs)", "f(*args, **kwargs)"),
            (
                "snake_case_name and __init__",
                "snake_case_name and <b:init>",
            ),
            (
                "`a*b*` and `` c`d `` and `open",
                "<code:a*b*> and <code:c`d> and `open",
            ),
            ("**`x` is**", "<code:x><b: is>"),
            (
                "[docs](https://a.b/c_(d)) and [1]",
                "docs (<a:https://a.b/c_(d)>) and [1]",
            ),
            ("[https://a.b](https://a.b)", "<a:https://a.b>"),
            ("![a plot](x.png) wow!", "[picture: a plot] wow!"),
            ("\\*a\\* C:\\Users \\(x^2\\)", "*a* C:\\Users \\(x^2\\)"),
            ("<https://a.b> a<br>b <b>", "<a:https://a.b> a\nb <b>"),
            ("a &lt; b &amp;& c & d", "a < b && c & d"),
            ("é*ü*ß", "é<i:ü>ß"),
        ] {
            assert_eq!(marked(text, text.len()), expected, "{text}");
            for size in 1..4 {
                assert_eq!(marked(text, size), expected, "{text} by {size}");
            }
        }
    }

    #[test]
    fn what_is_never_closed_is_not_held_for_ever() {
        for mark in ["*", "`", "[", "_", "<http://"] {
            let text = format!("{mark}{}", "x".repeat(HELD));
            let look = Look {
                colours: true,
                style: Style::new(),
            };
            let done = pieces(&text, None, Rest::Perhaps, look, &mut |_, _| {});
            assert_eq!(done, text.len(), "{mark}");
        }
    }
}
