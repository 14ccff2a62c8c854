//! Text with terminal colours -> HTML (ECMA-48, "SGR"). Keeps colours, bold, italic and underline; drops every other
//! control sequence.

use std::fmt::Write as _;

use super::escape::escape_into;
use crate::ansi::{Parser, Piece};

/// Turns text into HTML; the style at the end of one piece carries over to the next.
#[derive(Debug, Default)]
pub(super) struct Ansi {
    parser: Parser,
    style: Style,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own in the terminal"
)]
struct Style {
    foreground: Option<Colour>,
    background: Option<Colour>,
    bold: bool,
    italic: bool,
    underlined: bool,
    reversed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Colour {
    /// One of a theme's sixteen colours.
    Named(u8),
    Rgb(u8, u8, u8),
}

impl Ansi {
    /// Renders text as HTML.
    pub(super) fn html(&mut self, text: &str) -> String {
        let mut html = String::with_capacity(text.len() + text.len() / 4);
        let style = &mut self.style;
        self.parser.parse(text, |piece| match piece {
            Piece::Text(text) => style.push(text, &mut html),
            Piece::Colour(codes) => style.apply(codes),
        });
        html
    }
}

impl Style {
    fn push(self, text: &str, html: &mut String) {
        if text.is_empty() {
            return;
        }
        let (classes, style) = self.attributes();
        if classes.is_empty() && style.is_empty() {
            return escape_into(text, html);
        }
        html.push_str("<span");
        if !classes.is_empty() {
            let _ = write!(html, " class=\"{}\"", classes.join(" "));
        }
        if !style.is_empty() {
            let _ = write!(html, " style=\"{style}\"");
        }
        html.push('>');
        escape_into(text, html);
        html.push_str("</span>");
    }
}

impl Style {
    fn apply(&mut self, codes: &str) {
        let mut codes = codes
            .split([';', ':'])
            .map(|code| code.parse::<u16>().unwrap_or(0));
        while let Some(code) = codes.next() {
            let low = |from: u16| u8::try_from(code - from).unwrap_or(0);
            match code {
                0 => *self = Self::default(),
                1 => self.bold = true,
                3 => self.italic = true,
                4 => self.underlined = true,
                7 => self.reversed = true,
                22 => self.bold = false,
                23 => self.italic = false,
                24 => self.underlined = false,
                27 => self.reversed = false,
                30..=37 => self.foreground = Some(Colour::Named(low(30))),
                40..=47 => self.background = Some(Colour::Named(low(40))),
                90..=97 => self.foreground = Some(Colour::Named(low(82))),
                100..=107 => self.background = Some(Colour::Named(low(92))),
                38 => self.foreground = extended(&mut codes).or(self.foreground),
                48 => self.background = extended(&mut codes).or(self.background),
                39 => self.foreground = None,
                49 => self.background = None,
                _ => {}
            }
        }
    }

    fn attributes(self) -> (Vec<String>, String) {
        let mut classes = Vec::new();
        let mut style = String::new();
        let (mut foreground, mut background) = (self.foreground, self.background);
        if self.reversed {
            std::mem::swap(&mut foreground, &mut background);
            if foreground.is_none() && background.is_none() {
                classes.push("a-rev".to_owned());
            }
        }
        for (name, property, colour) in [
            ("f", "color", foreground),
            ("b", "background-color", background),
        ] {
            match colour {
                Some(Colour::Named(index)) => classes.push(format!("a-{name}{index}")),
                Some(colour @ Colour::Rgb(..)) if name == "f" && background.is_none() => {
                    let (light, dark) = (colour.on(Page::Light), colour.on(Page::Dark));
                    // The second declaration is for browsers that support it.
                    let _ = write!(style, "color:{light};");
                    if light != dark {
                        let _ = write!(style, "color:light-dark({light},{dark});");
                    }
                }
                Some(Colour::Rgb(r, g, b)) => {
                    let _ = write!(style, "{property}:#{r:02x}{g:02x}{b:02x};");
                }
                None => {}
            }
        }
        for (is_on, class) in [
            (self.bold, "a-bold"),
            (self.italic, "a-italic"),
            (self.underlined, "a-under"),
        ] {
            if is_on {
                classes.push(class.to_owned());
            }
        }
        (classes, style)
    }
}

/// The background behind text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Page {
    Light,
    Dark,
}

impl Colour {
    /// The colour, lightened or darkened until it is readable.
    fn on(self, page: Page) -> String {
        let Self::Rgb(r, g, b) = self else {
            return String::new();
        };
        let mut rgb = [r, g, b].map(u32::from);
        for _ in 0..16 {
            let [r, g, b] = rgb;
            let brightness = (299 * r + 587 * g + 114 * b) / 1000;
            rgb = match page {
                Page::Light if brightness > 115 => rgb.map(|c| c * 7 / 8),
                Page::Dark if brightness < 150 => rgb.map(|c| c + (255 - c).div_ceil(8)),
                Page::Light | Page::Dark => break,
            };
        }
        let [r, g, b] = rgb;
        format!("#{r:02x}{g:02x}{b:02x}")
    }
}

/// `5;N` from the 256 colours, or `2;R;G;B`.
fn extended(codes: &mut impl Iterator<Item = u16>) -> Option<Colour> {
    let byte = |code: u16| u8::try_from(code).unwrap_or(u8::MAX);
    match codes.next()? {
        5 => {
            let index = byte(codes.next()?);
            Some(match index {
                0..=15 => Colour::Named(index),
                16..=231 => {
                    let level = |step: u8| if step == 0 { 0 } else { 55 + step * 40 };
                    let cube = index - 16;
                    Colour::Rgb(level(cube / 36), level(cube / 6 % 6), level(cube % 6))
                }
                232..=255 => {
                    let grey = 8 + (index - 232) * 10;
                    Colour::Rgb(grey, grey, grey)
                }
            })
        }
        2 => Some(Colour::Rgb(
            byte(codes.next()?),
            byte(codes.next()?),
            byte(codes.next()?),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::Ansi;

    #[test]
    fn colours_stay_and_the_rest_goes() {
        for (text, html) in [
            ("a<b", "a&lt;b"),
            (
                "\u{1b}[31mred\u{1b}[0m.",
                "<span class=\"a-f1\">red</span>.",
            ),
            (
                "\u{1b}[1;92mx\u{1b}[22my",
                "<span class=\"a-f10 a-bold\">x</span><span class=\"a-f10\">y</span>",
            ),
            (
                "\u{1b}[38;5;241mx",
                "<span style=\"color:#626262;color:light-dark(#626262,#979797);\">x</span>",
            ),
            (
                "\u{1b}[48;2;1;2;300mx",
                "<span style=\"background-color:#0102ff;\">x</span>",
            ),
            (
                "\u{1b}[38;5;9mx\u{1b}[39my",
                "<span class=\"a-f9\">x</span>y",
            ),
            ("\u{1b}[7mx", "<span class=\"a-rev\">x</span>"),
            (
                "\u{1b}[2Ja\u{1b}[?25lb\u{1b}]0;title\u{7}c\u{1b}]8;;http://x\u{1b}\\d\u{1b}(Be",
                "abcde",
            ),
            ("\u{1b}", ""),
            ("\u{1b}[", ""),
            ("\u{1b}[3é", "é"),
            ("\u{1b}[31\nm", "\nm"),
        ] {
            assert_eq!(Ansi::default().html(text), html, "{text:?}");
        }
    }

    #[test]
    fn a_colour_goes_on_in_the_next_piece() {
        let mut ansi = Ansi::default();
        ansi.html("\u{1b}[31ma");
        assert_eq!(ansi.html("b"), "<span class=\"a-f1\">b</span>");
    }
}
