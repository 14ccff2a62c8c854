//! Plots in the terminal: the kitty and iTerm2 protocols, else half blocks.

use std::fmt::Write as _;
use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::imageops::FilterType;
use image::{DynamicImage, GenericImageView as _, ImageFormat, ImageReader, Limits};

pub(super) use crate::agent::pictures::PictureFiles;

/// How a terminal shows pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// kitty graphics (kitty, Ghostty, Konsole).
    Kitty,
    /// iTerm2 inline images (iTerm2, WezTerm, mintty).
    Iterm2,
    /// Two pixels a character, 24-bit colour.
    HalfBlocks,
    /// Not at all.
    None,
}

/// Widest picture in half blocks, in columns.
const COLUMNS: u32 = 120;

impl Protocol {
    /// What the terminal can, told by its environment; `terminal` is whether there is one.
    pub(super) fn detect(terminal: bool, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let is = |name: &str, value: &str| env(name).is_some_and(|v| v == value);
        if !terminal || is("TERM", "dumb") || env("NO_COLOR").is_some_and(|v| !v.is_empty()) {
            return Self::None;
        }
        // Multiplexers do not pass pictures through.
        if env("TMUX").is_none() && env("STY").is_none() {
            if env("KITTY_WINDOW_ID").is_some()
                || is("TERM", "xterm-kitty")
                || is("TERM_PROGRAM", "ghostty")
            {
                return Self::Kitty;
            }
            if is("TERM_PROGRAM", "iTerm.app")
                || is("TERM_PROGRAM", "WezTerm")
                || is("TERM_PROGRAM", "mintty")
            {
                return Self::Iterm2;
            }
        }
        let colours = ["truecolor", "24bit"].iter().any(|v| is("COLORTERM", v))
            || env("TERM").is_some_and(|term| term.contains("256color") || term.contains("direct"));
        if colours {
            Self::HalfBlocks
        } else {
            Self::None
        }
    }

    /// What to print for `encoded` (a PNG, JPEG, GIF or WebP file) in a terminal of `columns`; empty if nothing.
    pub(super) fn render(self, encoded: &[u8], columns: u32) -> String {
        let Some(picture) = decode(encoded) else {
            return String::new();
        };
        match self {
            Self::None => String::new(),
            Self::Kitty => png(&picture).map(|png| kitty(&png)).unwrap_or_default(),
            Self::Iterm2 => format!(
                "\u{1b}]1337;File=inline=1;size={};width=auto;preserveAspectRatio=1:{}\u{7}\n",
                encoded.len(),
                STANDARD.encode(encoded)
            ),
            Self::HalfBlocks => half_blocks(&picture, columns.min(COLUMNS)),
        }
    }
}

/// Bounded before anything is allocated: a picture comes from code that nobody has read.
fn decode(encoded: &[u8]) -> Option<DynamicImage> {
    let mut reader = ImageReader::new(Cursor::new(encoded))
        .with_guessed_format()
        .ok()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(20_000);
    limits.max_image_height = Some(20_000);
    limits.max_alloc = Some(256 << 20);
    reader.limits(limits);
    reader.decode().ok()
}

fn png(picture: &DynamicImage) -> Option<Vec<u8>> {
    let mut png = Vec::new();
    picture
        .write_to(&mut Cursor::new(&mut png), ImageFormat::Png)
        .ok()?;
    Some(png)
}

/// Kitty graphics protocol: transmit and display (`a=T`), PNG (`f=100`), in chunks of at most 4096 bytes.
fn kitty(png: &[u8]) -> String {
    let data = STANDARD.encode(png);
    let mut text = String::with_capacity(data.len() + 256);
    let mut rest = data.as_str();
    let mut first = true;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(rest.len().min(4096));
        let more = u8::from(!later.is_empty());
        let control = if first { "a=T,f=100,q=2," } else { "" };
        let _ = write!(text, "\u{1b}_G{control}m={more};{chunk}\u{1b}\\");
        rest = later;
        first = false;
    }
    text.push('\n');
    text
}

/// Upper half blocks: the upper pixel is the foreground, the lower one the background.
fn half_blocks(picture: &DynamicImage, columns: u32) -> String {
    let (width, height) = picture.dimensions();
    let columns = columns.min(width).max(1);
    let rows = (u64::from(columns) * u64::from(height) / u64::from(width.max(1))).clamp(2, 160);
    let small = picture
        .resize_exact(
            columns,
            u32::try_from(rows).unwrap_or(2),
            FilterType::Triangle,
        )
        .to_rgba8();
    let pixel = |x, y| {
        // On white, because plots with a transparent background are drawn in black.
        small.get_pixel_checked(x, y).map_or([255; 3], |pixel| {
            let [r, g, b, a] = pixel.0.map(u32::from);
            [r, g, b].map(|c| u8::try_from((c * a + 255 * (255 - a)) / 255).unwrap_or(255))
        })
    };
    let mut text = String::new();
    for y in (0..small.height()).step_by(2) {
        for x in 0..small.width() {
            let colour = |[r, g, b]: [u8; 3]| format!("{r};{g};{b}");
            let (upper, lower) = (colour(pixel(x, y)), colour(pixel(x, y + 1)));
            let _ = write!(text, "\u{1b}[38;2;{upper}m\u{1b}[48;2;{lower}m▀");
        }
        text.push_str("\u{1b}[0m\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(terminal: bool, env: &[(&str, &str)]) -> Protocol {
        let env: Vec<(String, String)> = env
            .iter()
            .map(|&(n, v)| (n.to_owned(), v.to_owned()))
            .collect();
        Protocol::detect(terminal, &move |name| {
            env.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
        })
    }

    #[test]
    fn terminals_are_told_by_their_environment() {
        assert_eq!(detect(true, &[("TERM", "xterm-kitty")]), Protocol::Kitty);
        assert_eq!(
            detect(true, &[("TERM_PROGRAM", "WezTerm")]),
            Protocol::Iterm2
        );
        assert_eq!(
            detect(
                true,
                &[
                    ("TERM_PROGRAM", "WezTerm"),
                    ("TMUX", "x"),
                    ("TERM", "tmux-256color")
                ]
            ),
            Protocol::HalfBlocks
        );
        assert_eq!(detect(true, &[("TERM", "xterm")]), Protocol::None);
        assert_eq!(
            detect(true, &[("TERM", "xterm-256color"), ("NO_COLOR", "1")]),
            Protocol::None
        );
        assert_eq!(detect(false, &[("TERM", "xterm-kitty")]), Protocol::None);
    }

    #[test]
    fn a_picture_in_half_blocks() {
        let mut image = image::RgbaImage::new(2, 2);
        image.put_pixel(0, 0, image::Rgba([255, 0, 0, 255]));
        image.put_pixel(1, 1, image::Rgba([0, 0, 255, 255]));
        let encoded = png(&DynamicImage::ImageRgba8(image)).unwrap();
        assert_eq!(
            Protocol::HalfBlocks.render(&encoded, 100),
            "\u{1b}[38;2;255;0;0m\u{1b}[48;2;255;255;255m▀\u{1b}[38;2;255;255;255m\u{1b}[48;2;0;0;255m▀\u{1b}[0m\n"
        );
        assert_eq!(Protocol::HalfBlocks.render(b"no picture", 100), "");
        let kitty = Protocol::Kitty.render(&encoded, 100);
        assert!(
            kitty.starts_with("\u{1b}_Ga=T,f=100,q=2,m=0;") && kitty.ends_with("\u{1b}\\\n"),
            "{kitty:?}"
        );
    }
}
