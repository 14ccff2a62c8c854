//! What stands on a terminal after all that a program wrote to it: a terminal emulator that breaks lines anew when it is
//! resized, as kitty and those on VTE do, and knows kitty's pictures.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use vt100::{Cell, Color, Parser};

use crate::terminal::Screen;

/// Rows of the emulator: so many that nothing leaves it.
const ROWS: u16 = 3000;

/// A terminal with all that was written to it.
pub(crate) struct Drawn {
    screen: Parser,
    columns: u16,
}

/// Rows of a terminal: their text, and the same with its colours written out.
pub(crate) struct Row {
    pub(crate) text: String,
    pub(crate) styled: String,
    /// It goes on in the next one.
    pub(crate) is_wrapped: bool,
}

impl Drawn {
    /// What `screen` showed.
    pub(crate) fn of(screen: &Screen) -> Self {
        let all: Vec<char> = screen.all.chars().collect();
        let mut sizes = screen.resized.iter().copied();
        let first = sizes.next().map_or(80, |(_, columns)| columns);
        let mut drawn = Self::new(first);
        let mut from = 0;
        for (at, columns) in sizes {
            drawn.write(&all[from..at]);
            drawn.resize(columns);
            from = at;
        }
        drawn.write(&all[from..]);
        drawn
    }

    fn new(columns: u16) -> Self {
        let screen = Parser::new(ROWS.try_into().unwrap(), columns.try_into().unwrap(), 0);
        Self { screen, columns }
    }

    fn write(&mut self, text: &[char]) {
        let text: String = text.iter().collect();
        self.screen.process(named_pictures(&text).as_bytes());
    }

    /// Breaks lines anew.
    fn resize(&mut self, columns: u16) {
        let before = std::mem::replace(self, Self::new(columns));
        let screen = before.screen.screen();
        let (last, column) = screen.cursor_position();
        let rows = screen.rows_formatted(0, before.columns);
        for (at, row) in (0..=last).zip(rows) {
            self.screen.process(row.as_bytes());
            if at < last && !screen.row_wrapped(at) {
                self.screen.process(b"\r\n");
            }
        }
        if column == 0 {
            self.screen.process(b"\r");
        }
    }

    /// Its rows up to the last one that is not empty.
    pub(crate) fn rows(&self) -> Vec<Row> {
        let screen = self.screen.screen();
        let mut rows: Vec<Row> = screen
            .rows(0, self.columns)
            .zip(0..)
            .map(|(text, at)| Row {
                text: text.trim_end().to_owned(),
                styled: self.styled(at),
                is_wrapped: screen.row_wrapped(at),
            })
            .collect();
        let last = rows.iter().rposition(|row| !row.text.is_empty());
        rows.truncate(last.map_or(0, |last| last + 1));
        rows
    }

    /// What was written as one line, also where the terminal has broken it.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = vec![String::new()];
        for row in self.rows() {
            let line = lines.last_mut().unwrap();
            line.push_str(&row.text);
            if !row.is_wrapped {
                lines.push(String::new());
            }
        }
        lines
    }

    fn cells(&self, row: u16) -> impl Iterator<Item = &Cell> {
        let screen = self.screen.screen();
        (0..self.columns).filter_map(move |column| screen.cell(row, column))
    }

    /// A row in which `‹31›` stands where the style becomes that, and `‹›` where it ends.
    fn styled(&self, row: u16) -> String {
        let (mut text, mut last) = (String::new(), String::new());
        for cell in self.cells(row).filter(|cell| !cell.is_wide_continuation()) {
            let style = style(cell);
            // What is blank has no colour that a person sees.
            if cell.has_contents() && style != last {
                let _ = write!(text, "‹{style}›");
                last = style;
            }
            text.push_str(if cell.has_contents() {
                cell.contents()
            } else {
                " "
            });
        }
        let mut text = text.trim_end().to_owned();
        if !last.is_empty() {
            text.push_str("‹›");
        }
        text
    }

    /// All pairs of text and background, without those of pictures in half blocks.
    pub(crate) fn colours(&self) -> Vec<(Color, Color, String)> {
        let mut all: Vec<(Color, Color, String)> = Vec::new();
        for row in 0..ROWS {
            for cell in self.cells(row) {
                let text = cell.contents();
                let pair = (cell.fgcolor(), cell.bgcolor());
                if !text.trim().is_empty()
                    && text != "▀"
                    && !all.iter().any(|(fg, bg, _)| (*fg, *bg) == pair)
                {
                    let line = self.styled(row);
                    all.push((pair.0, pair.1, line));
                }
            }
        }
        all
    }
}

fn style(cell: &Cell) -> String {
    let mut parts = Vec::new();
    for (is_so, name) in [
        (cell.bold(), "bold"),
        (cell.dim(), "dim"),
        (cell.italic(), "italic"),
        (cell.underline(), "underline"),
        (cell.inverse(), "inverse"),
    ] {
        if is_so {
            parts.push(name.to_owned());
        }
    }
    let colour = |colour: Color| match colour {
        Color::Default => None,
        Color::Idx(number) => Some(number.to_string()),
        Color::Rgb(r, g, b) => Some(format!("#{r:02x}{g:02x}{b:02x}")),
    };
    parts.extend(colour(cell.fgcolor()));
    parts.extend(colour(cell.bgcolor()).map(|it| format!("on {it}")));
    parts.join(" ")
}

/// Kitty's pictures by their sizes in the place of their data.
fn named_pictures(text: &str) -> String {
    let mut named = String::new();
    let mut rest = text;
    let mut data = String::new();
    let mut held = String::new();
    while let Some((before, after)) = rest.split_once("\u{1b}_G") {
        assert!(
            data.is_empty() || before.is_empty(),
            "a picture is in one piece"
        );
        named.push_str(before);
        let (command, after) = after.split_once("\u{1b}\\").expect("a picture has an end");
        let (control, piece) = command.split_once(';').unwrap();
        assert!(piece.len() <= 4096);
        if data.is_empty() {
            let keys = control.split(',');
            let sizes = keys.filter(|key| key.starts_with("c=") || key.starts_with("r="));
            held = sizes.flat_map(|key| [", ", key]).collect();
        }
        data.push_str(piece);
        if control.ends_with("m=0") {
            let png = STANDARD.decode(std::mem::take(&mut data)).unwrap();
            let picture = image::load_from_memory(&png).unwrap();
            let _ = write!(
                named,
                "[kitty: a picture of {}x{}{held}]",
                picture.width(),
                picture.height()
            );
        }
        rest = after;
    }
    named.push_str(rest);
    named
}

/// Two colours as they look.
type Rgb = (u8, u8, u8);

/// The colours of a terminal's theme.
pub(crate) struct Palette {
    pub(crate) name: &'static str,
    text: Rgb,
    background: Rgb,
    first: [u32; 16],
}

/// Those of VS Code's terminal, Dark+ and Light+.
pub(crate) const PALETTES: [Palette; 2] = [
    Palette {
        name: "dark",
        text: (0xcc, 0xcc, 0xcc),
        background: (0x1e, 0x1e, 0x1e),
        first: [
            0x00_00_00, 0xcd_31_31, 0x0d_bc_79, 0xe5_e5_10, 0x24_72_c8, 0xbc_3f_bc, 0x11_a8_cd,
            0xe5_e5_e5, 0x66_66_66, 0xf1_4c_4c, 0x23_d1_8b, 0xf5_f5_43, 0x3b_8e_ea, 0xd6_70_d6,
            0x29_b8_db, 0xe5_e5_e5,
        ],
    },
    Palette {
        name: "light",
        text: (0x33, 0x33, 0x33),
        background: (0xff, 0xff, 0xff),
        first: [
            0x00_00_00, 0xcd_31_31, 0x10_7c_10, 0x94_98_00, 0x04_51_a5, 0xbc_05_bc, 0x05_98_bc,
            0x55_55_55, 0x66_66_66, 0xcd_31_31, 0x14_ce_14, 0xb5_ba_00, 0x04_51_a5, 0xbc_05_bc,
            0x05_98_bc, 0xa5_a5_a5,
        ],
    },
];

impl Palette {
    /// How much a text stands out from its background, by WCAG 2: from 1, not at all, to 21.
    pub(crate) fn contrast(&self, text: Color, background: Color) -> f64 {
        let text = luminance(self.looks(text, self.text));
        let background = luminance(self.looks(background, self.background));
        let (dark, light) = (text.min(background), text.max(background));
        (light + 0.05) / (dark + 0.05)
    }

    fn looks(&self, colour: Color, default: Rgb) -> Rgb {
        match colour {
            Color::Default => default,
            Color::Rgb(r, g, b) => (r, g, b),
            Color::Idx(number @ 0..16) => {
                let [_, r, g, b] = self.first[usize::from(number)].to_be_bytes();
                (r, g, b)
            }
            Color::Idx(number @ 16..232) => {
                let level = |of: u8| [0, 95, 135, 175, 215, 255][usize::from(of % 6)];
                let cube = number - 16;
                (level(cube / 36), level(cube / 6), level(cube))
            }
            Color::Idx(number) => {
                let grey = 8 + 10 * (number - 232);
                (grey, grey, grey)
            }
        }
    }
}

fn luminance((r, g, b): Rgb) -> f64 {
    let linear = |value: u8| {
        let value = f64::from(value) / 255.0;
        if value <= 0.040_45 {
            value / 12.92
        } else {
            ((value + 0.055) / 1.055).powf(2.4)
        }
    };
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}
