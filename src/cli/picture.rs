//! Shows plots in the terminal: with the kitty or iTerm2 protocol, otherwise as half blocks.

use std::fmt::Write as _;
use std::io::Cursor;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use image::imageops::FilterType;
use image::{DynamicImage, GenericImageView as _, ImageFormat};

use super::style;
use super::terminal_kind::{Graphics, TerminalKind};
pub(super) use crate::agent::pictures::PictureFiles;
use crate::session::summarize::decoded;

/// How a terminal shows pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Protocol {
    /// kitty graphics (kitty, Ghostty, Konsole).
    Kitty,
    /// iTerm2 inline images (iTerm2, WezTerm, mintty).
    Iterm2,
    /// Two pixels per character, 24-bit colour.
    HalfBlocks,
    /// No pictures.
    None,
}

/// Maximum width of a half-block picture, in columns.
const COLUMNS: u32 = 120;

/// The space that a picture may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PictureSpace {
    pub columns: u32,
    pub rows: u32,
    /// Width and height of a character in pixels.
    pub character: (u32, u32),
}

impl PictureSpace {
    /// Two thirds of the terminal's height, so that text stays visible.
    pub(super) fn of_terminal() -> Self {
        Self {
            columns: style::columns(),
            rows: (style::rows() * 2 / 3).max(4),
            character: style::character(),
        }
    }

    /// The limit in columns or rows for a picture of this size in pixels; `None` if it fits.
    fn held_to(self, (width, height): (u32, u32)) -> Option<Held> {
        let (columns, rows) = (
            width.div_ceil(self.character.0.max(1)),
            height.div_ceil(self.character.1.max(1)),
        );
        if columns <= self.columns && rows <= self.rows {
            return None;
        }
        let is_wider =
            u64::from(columns) * u64::from(self.rows) > u64::from(rows) * u64::from(self.columns);
        Some(if is_wider {
            Held::Columns(self.columns)
        } else {
            Held::Rows(self.rows)
        })
    }
}

/// The side to which an oversized picture is scaled; the other one follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Held {
    Columns(u32),
    Rows(u32),
}

impl Protocol {
    /// Detects the terminal's protocol from its environment; `terminal`: there is one.
    pub(super) fn detect(terminal: bool, env: &dyn Fn(&str) -> Option<String>) -> Self {
        let is = |name: &str, value: &str| env(name).is_some_and(|v| v == value);
        if !terminal || is("TERM", "dumb") || env("NO_COLOR").is_some_and(|v| !v.is_empty()) {
            return Self::None;
        }
        match TerminalKind::of(env).graphics {
            Graphics::Kitty => return Self::Kitty,
            Graphics::Iterm2 => return Self::Iterm2,
            Graphics::None => {}
        }
        let colours = ["truecolor", "24bit"].iter().any(|v| is("COLORTERM", v))
            || env("TERM").is_some_and(|term| term.contains("256color") || term.contains("direct"));
        if colours {
            Self::HalfBlocks
        } else {
            Self::None
        }
    }

    /// The text that shows `encoded` (a PNG, JPEG, GIF or WebP file) within `room`; empty if it cannot be shown.
    pub(super) fn render(self, encoded: &[u8], room: PictureSpace) -> String {
        let Some((picture, _)) = decoded(encoded) else {
            return String::new();
        };
        match self {
            Self::None => String::new(),
            Self::Kitty => {
                let held = match room.held_to(picture.dimensions()) {
                    Some(Held::Columns(columns)) => format!("c={columns},"),
                    Some(Held::Rows(rows)) => format!("r={rows},"),
                    None => String::new(),
                };
                png(&picture)
                    .map(|png| kitty(&png, &held))
                    .unwrap_or_default()
            }
            Self::Iterm2 => {
                let held = match room.held_to(picture.dimensions()) {
                    Some(Held::Columns(columns)) => format!("width={columns}"),
                    Some(Held::Rows(rows)) => format!("height={rows}"),
                    None => "width=auto".to_owned(),
                };
                format!(
                    "\u{1b}]1337;File=inline=1;size={};{held};preserveAspectRatio=1:{}\u{7}\n",
                    encoded.len(),
                    STANDARD.encode(encoded)
                )
            }
            Self::HalfBlocks => half_blocks(&picture, room.columns.min(COLUMNS), room.rows),
        }
    }
}

fn png(picture: &DynamicImage) -> Option<Vec<u8>> {
    let mut png = Vec::new();
    picture
        .write_to(&mut Cursor::new(&mut png), ImageFormat::Png)
        .ok()?;
    Some(png)
}

/// Kitty graphics protocol: transmit and display (`a=T`), PNG (`f=100`), in chunks of at most 4096 bytes. `held`
/// limits the columns (`c=`) or rows (`r=`).
fn kitty(png: &[u8], held: &str) -> String {
    let data = STANDARD.encode(png);
    let mut text = String::with_capacity(data.len() + 256);
    let mut rest = data.as_str();
    let mut first = true;
    while !rest.is_empty() {
        let (chunk, later) = rest.split_at(rest.len().min(4096));
        let more = u8::from(!later.is_empty());
        let (control, held) = if first {
            ("a=T,f=100,q=2,", held)
        } else {
            ("", "")
        };
        let _ = write!(text, "\u{1b}_G{control}{held}m={more};{chunk}\u{1b}\\");
        rest = later;
        first = false;
    }
    text.push('\n');
    text
}

/// Upper half blocks: the upper pixel is the foreground, the lower one the background.
fn half_blocks(picture: &DynamicImage, columns: u32, rows: u32) -> String {
    let (width, height) = picture.dimensions();
    let pixels = u64::from(rows.max(1)) * 2;
    let widest = (pixels * u64::from(width) / u64::from(height.max(1))).max(1);
    let columns = columns
        .min(width)
        .min(u32::try_from(widest).unwrap_or(u32::MAX))
        .max(1);
    let rows = (u64::from(columns) * u64::from(height) / u64::from(width.max(1))).clamp(2, pixels);
    let small = picture
        .resize_exact(
            columns,
            u32::try_from(rows).unwrap_or(2),
            FilterType::Triangle,
        )
        .to_rgba8();
    let pixel = |x, y| {
        // On a white background, because plots with a transparent background are drawn in black.
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

    const ROOM: PictureSpace = PictureSpace {
        columns: 80,
        rows: 16,
        character: (10, 20),
    };

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
            Protocol::HalfBlocks.render(&encoded, ROOM),
            "\u{1b}[38;2;255;0;0m\u{1b}[48;2;255;255;255m▀\u{1b}[38;2;255;255;255m\u{1b}[48;2;0;0;255m▀\u{1b}[0m\n"
        );
        assert_eq!(Protocol::HalfBlocks.render(b"no picture", ROOM), "");
        let kitty = Protocol::Kitty.render(&encoded, ROOM);
        assert!(
            kitty.starts_with("\u{1b}_Ga=T,f=100,q=2,m=0;") && kitty.ends_with("\u{1b}\\\n"),
            "{kitty:?}"
        );
    }

    #[test]
    fn a_picture_leaves_room_for_text() {
        for (width, height, rows, held) in [
            (640, 480, 16, "r=16,"),
            (2000, 200, 4, "c=80,"),
            (100, 2000, 10, "r=16,"),
            (300, 200, 16, ""),
        ] {
            let encoded = png(&DynamicImage::new_rgb8(width, height)).unwrap();
            let blocks = Protocol::HalfBlocks.render(&encoded, ROOM);
            assert_eq!(blocks.lines().count(), rows, "{width}x{height}");
            let kitty = Protocol::Kitty.render(&encoded, ROOM);
            let control = format!("\u{1b}_Ga=T,f=100,q=2,{held}m=");
            assert!(kitty.starts_with(&control), "{width}x{height}");
        }
    }
}
