//! Pictures for a model: decoded within limits, scaled to its rules, encoded again.
//!
//! Decoding is expensive and a picture is sent with every request of a session, so an [`ImagePreparer`] caches results.
//! Pictures come from code that nobody has read, so sides and memory are bounded before allocating; data that is
//! invalid or too large is rejected.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Cursor;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use image::imageops::{self, FilterType};
use image::{DynamicImage, GenericImageView as _, ImageFormat, ImageReader, Limits, Rgb, RgbImage};

use crate::llm::types::{Message, Part, PictureRules};

/// Maximum side of a picture in pixels.
const SIDE: u32 = 20_000;
/// Maximum bytes that decoding may allocate.
const ALLOCATION: u64 = 256 << 20;
/// Bytes of cached pictures.
const REMEMBERED: usize = 64 << 20;
/// Up to this many pictures of a cell are sent one by one; more are combined, [`SHEET`] at a time.
pub(super) const SINGLE: usize = 6;
/// Pictures per sheet, in rows of [`COLUMNS`].
pub(super) const SHEET: usize = 9;
const COLUMNS: u32 = 3;
/// Pixels between the pictures of a sheet.
const GAP: u32 = 8;

/// A picture that is ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// `image/png` or `image/jpeg`.
    pub media_type: &'static str,
    /// The encoded file.
    pub data: Bytes,
    /// Width of the original in pixels.
    pub width: u32,
    /// Height of the original in pixels.
    pub height: u32,
}

impl From<Seen> for Part {
    fn from(seen: Seen) -> Self {
        Self::Image {
            media_type: seen.media_type,
            data: seen.data,
        }
    }
}

/// Prepares pictures for a model, with a cache.
#[derive(Debug)]
pub struct ImagePreparer {
    rules: PictureRules,
    seen: Mutex<HashMap<u64, Option<Seen>>>,
}

impl ImagePreparer {
    /// A preparer for a model with these rules.
    pub fn new(rules: PictureRules) -> Self {
        Self {
            rules,
            seen: Mutex::default(),
        }
    }

    /// The model's picture rules.
    pub fn rules(&self) -> PictureRules {
        self.rules
    }

    /// Prepares one picture; `None` if it cannot be decoded.
    pub fn see(&self, encoded: &[u8]) -> Option<Seen> {
        self.remembered(&[encoded], || scaled(encoded, self.rules))
    }

    /// Combines several pictures into one, in rows; `None` if none can be decoded.
    pub fn sheet(&self, encoded: &[&[u8]]) -> Option<Seen> {
        self.remembered(encoded, || sheet(encoded, self.rules))
    }

    fn remembered(&self, of: &[&[u8]], decode: impl FnOnce() -> Option<Seen>) -> Option<Seen> {
        let mut hasher = DefaultHasher::new();
        of.hash(&mut hasher);
        let key = hasher.finish();
        let lock = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = lock().get(&key) {
            return seen.clone();
        }
        let made = decode();
        let mut all = lock();
        let size = |seen: &Option<Seen>| seen.as_ref().map_or(64, |seen| seen.data.len());
        if all.values().map(size).sum::<usize>() + size(&made) > REMEMBERED {
            all.clear();
        }
        all.insert(key, made.clone());
        made
    }
}

/// Removes the oldest pictures from a conversation that exceeds the request's maximum. Several at a time, because each
/// removal invalidates the provider's cache.
pub fn forget<'a>(messages: impl Iterator<Item = &'a mut Message>, most: usize) {
    let parts = messages.flat_map(|message| match message {
        Message::User(parts) | Message::ToolResult { parts, .. } => parts.as_mut_slice(),
        Message::Assistant { .. } => &mut [],
    });
    let mut pictures: Vec<&mut Part> = parts
        .filter(|part| matches!(part, Part::Image { .. }))
        .collect();
    let over = pictures.len().saturating_sub(most);
    let step = (most / 2).max(1);
    for part in pictures.iter_mut().take(over.div_ceil(step) * step) {
        **part =
            Part::Text("[a picture that is no longer sent; its file is named above]".to_owned());
    }
}

/// Decodes a picture from code that nobody has read: sides and memory are bounded before allocating.
pub fn decoded(encoded: &[u8]) -> Option<(DynamicImage, ImageFormat)> {
    let mut reader = ImageReader::new(Cursor::new(encoded))
        .with_guessed_format()
        .ok()?;
    let format = reader.format()?;
    let mut limits = Limits::default();
    limits.max_image_width = Some(SIDE);
    limits.max_image_height = Some(SIDE);
    limits.max_alloc = Some(ALLOCATION);
    reader.limits(limits);
    Some((reader.decode().ok()?, format))
}

fn scaled(encoded: &[u8], rules: PictureRules) -> Option<Seen> {
    let (mut picture, format) = decoded(encoded)?;
    let (width, height) = picture.dimensions();
    let media_type = match format {
        ImageFormat::Png => Some("image/png"),
        ImageFormat::Jpeg => Some("image/jpeg"),
        _ => None,
    };
    let smaller = rules
        .tile
        .and_then(|tile| within_tiles((width, height), tile));
    if let Some((width, height)) = smaller {
        picture = picture.resize_exact(width, height, FilterType::CatmullRom);
    }
    let (media_type, data) = match media_type.filter(|_| smaller.is_none()) {
        Some(media_type)
            if width.max(height) <= rules.longest_side && encoded.len() <= rules.bytes =>
        {
            (media_type, Bytes::copy_from_slice(encoded))
        }
        _ => fitted(picture, rules)?,
    };
    Some(Seen {
        media_type,
        data,
        width,
        height,
    })
}

/// A size that needs fewer tiles, if the picture exceeds them by at most an eighth of a tile.
fn within_tiles((width, height): (u32, u32), tile: u32) -> Option<(u32, u32)> {
    let too_much = |side: u32| {
        let over = side % tile;
        (side > tile && over > 0 && over <= tile / 8).then_some((side - over, side))
    };
    let ratios = [width, height].into_iter().filter_map(too_much);
    // Picks the smaller ratio: a / b < c / d.
    let (to, from) =
        ratios.min_by_key(|&(to, from)| u64::from(to) * 1_000_000 / u64::from(from))?;
    let scaled = |side: u32| u32::try_from(u64::from(side) * u64::from(to) / u64::from(from));
    Some((scaled(width).ok()?.max(1), scaled(height).ok()?.max(1)))
}

/// Encodes a picture within the rules: as PNG, else as JPEG, else smaller.
fn fitted(picture: DynamicImage, rules: PictureRules) -> Option<(&'static str, Bytes)> {
    let mut side = rules.longest_side;
    let mut picture = picture;
    for _ in 0..4 {
        let (width, height) = picture.dimensions();
        if width.max(height) > side {
            picture = picture.resize(side, side, FilterType::Triangle);
        }
        let png = encoded(&picture, ImageFormat::Png)?;
        if png.len() <= rules.bytes {
            return Some(("image/png", png.into()));
        }
        let opaque = DynamicImage::ImageRgb8(on_white(&picture));
        let jpeg = encoded(&opaque, ImageFormat::Jpeg)?;
        if jpeg.len() <= rules.bytes {
            return Some(("image/jpeg", jpeg.into()));
        }
        side /= 2;
    }
    None
}

fn encoded(picture: &DynamicImage, format: ImageFormat) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    picture.write_to(&mut Cursor::new(&mut data), format).ok()?;
    Some(data)
}

/// Replaces transparency with white, which is what plots expect behind them.
fn on_white(picture: &DynamicImage) -> RgbImage {
    let rgba = picture.to_rgba8();
    RgbImage::from_fn(rgba.width(), rgba.height(), |x, y| {
        let [r, g, b, a] = rgba.get_pixel(x, y).0.map(u32::from);
        Rgb([r, g, b].map(|c| u8::try_from((c * a + 255 * (255 - a)) / 255).unwrap_or(255)))
    })
}

/// Pictures in rows, each as large as fits. An invalid picture leaves an empty place, so that positions are preserved.
fn sheet(encoded: &[&[u8]], rules: PictureRules) -> Option<Seen> {
    let side = (rules.longest_side - GAP * (COLUMNS - 1)) / COLUMNS;
    let small: Vec<Option<RgbImage>> = encoded
        .iter()
        .take(SHEET)
        .map(|one| {
            let (picture, _) = decoded(one)?;
            let (width, height) = picture.dimensions();
            let small = if width.max(height) > side {
                picture.resize(side, side, FilterType::Triangle)
            } else {
                picture
            };
            Some(on_white(&small))
        })
        .collect();
    let sizes = || small.iter().flatten().map(RgbImage::dimensions);
    let widest = sizes().map(|(width, _)| width).max()?;
    let highest = sizes().map(|(_, height)| height).max()?;
    let count = u32::try_from(small.len()).unwrap_or(COLUMNS);
    let columns = count.min(COLUMNS);
    let rows = count.div_ceil(COLUMNS);
    let mut all = RgbImage::from_pixel(
        columns * (widest + GAP) - GAP,
        rows * (highest + GAP) - GAP,
        Rgb([255; 3]),
    );
    for (index, picture) in (0..).zip(&small) {
        if let Some(picture) = picture {
            let x = i64::from((index % COLUMNS) * (widest + GAP));
            let y = i64::from((index / COLUMNS) * (highest + GAP));
            imageops::replace(&mut all, picture, x, y);
        }
    }
    let (width, height) = all.dimensions();
    let (media_type, data) = fitted(DynamicImage::ImageRgb8(all), rules)?;
    Some(Seen {
        media_type,
        data,
        width,
        height,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: PictureRules = PictureRules {
        longest_side: 1024,
        bytes: 1 << 20,
        most: 4,
        tile: None,
    };

    fn png(width: u32, height: u32) -> Vec<u8> {
        encoded(&DynamicImage::new_rgb8(width, height), ImageFormat::Png).unwrap()
    }

    /// Random pixels, which do not compress.
    fn noise(side: u32) -> DynamicImage {
        let mut state = 1u32;
        DynamicImage::ImageRgb8(RgbImage::from_fn(side, side, |_, _| {
            Rgb([(); 3].map(|()| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state.to_be_bytes()[0]
            }))
        }))
    }

    #[test]
    fn pictures_are_scaled_and_small_ones_left_alone() {
        let preparer = ImagePreparer::new(RULES);
        let small = png(40, 30);
        let seen = preparer.see(&small).unwrap();
        assert_eq!((&seen.data[..], seen.media_type), (&small[..], "image/png"));
        let seen = preparer.see(&png(3000, 1500)).unwrap();
        assert_eq!((seen.width, seen.height), (3000, 1500));
        assert_eq!(
            image::load_from_memory(&seen.data).unwrap().dimensions(),
            (1024, 512)
        );
        let jpeg = encoded(&DynamicImage::new_rgb8(40, 30), ImageFormat::Jpeg).unwrap();
        let seen = preparer.see(&jpeg).unwrap();
        assert_eq!((&seen.data[..], seen.media_type), (&jpeg[..], "image/jpeg"));
        for format in [ImageFormat::Gif, ImageFormat::WebP] {
            let other = encoded(&DynamicImage::new_rgb8(40, 30), format).unwrap();
            assert_eq!(
                preparer.see(&other).unwrap().media_type,
                "image/png",
                "{format:?}"
            );
        }
        assert_eq!(preparer.see(b"no picture"), None);
    }

    #[test]
    fn what_does_not_fit_as_png_is_jpeg_and_then_smaller() {
        let noise = encoded(&noise(700), ImageFormat::Png).unwrap();
        let seen = ImagePreparer::new(RULES).see(&noise).unwrap();
        assert_eq!((seen.media_type, seen.width), ("image/jpeg", 700));
        let rules = PictureRules {
            bytes: 50 << 10,
            ..RULES
        };
        let seen = ImagePreparer::new(rules).see(&noise).unwrap();
        assert!(seen.data.len() <= rules.bytes, "{}", seen.data.len());
    }

    #[test]
    fn a_bomb_is_no_picture() {
        // Headers that declare 60000 x 60000 pixels, and pixels of a gigabyte, both with hardly any data.
        for (width, height) in [(60_000u32, 60_000u32), (19_000, 19_000)] {
            let mut bomb = png(1, 1);
            bomb[16..20].copy_from_slice(&width.to_be_bytes());
            bomb[20..24].copy_from_slice(&height.to_be_bytes());
            let crc = crc32(&bomb[12..29]);
            bomb[29..33].copy_from_slice(&crc.to_be_bytes());
            assert_eq!(ImagePreparer::new(RULES).see(&bomb), None);
        }
    }

    fn crc32(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0, |crc, &byte| {
            (0..8).fold(crc ^ u32::from(byte), |crc, _| {
                if crc & 1 == 1 {
                    (crc >> 1) ^ 0xedb8_8320
                } else {
                    crc >> 1
                }
            })
        })
    }

    #[test]
    fn many_pictures_share_a_sheet() {
        let one = png(600, 300);
        let broken = b"no picture".to_vec();
        let mut all: Vec<&[u8]> = vec![&one; 7];
        all[1] = &broken;
        let seen = ImagePreparer::new(RULES).sheet(&all).unwrap();
        // Three in a row of 336 pixels, three rows of 168.
        assert_eq!((seen.width, seen.height), (3 * 344 - 8, 3 * 176 - 8));
        let sheet = image::load_from_memory(&seen.data).unwrap().to_rgb8();
        let at = |column: u32, row: u32| sheet.get_pixel(column * 344 + 5, row * 176 + 5).0;
        assert_eq!(
            (at(0, 0), at(1, 0), at(2, 0), at(0, 2), at(1, 2)),
            ([0; 3], [255; 3], [0; 3], [0; 3], [255; 3])
        );
        assert_eq!(ImagePreparer::new(RULES).sheet(&[&broken]), None);
    }

    #[test]
    fn old_pictures_go_several_at_a_time() {
        let picture = |n: u8| Part::Image {
            media_type: "image/png",
            data: vec![n].into(),
        };
        let left = |count: u8| {
            let mut messages: Vec<Message> = (0..count)
                .map(|n| Message::User(vec![Part::Text("plot".to_owned()), picture(n)]))
                .collect();
            forget(messages.iter_mut(), 4);
            messages
                .iter()
                .filter(|message| matches!(message, Message::User(parts) if matches!(parts[1], Part::Image { .. })))
                .count()
        };
        let counts: Vec<usize> = (0..12).map(left).collect();
        assert_eq!(counts, [0, 1, 2, 3, 4, 3, 4, 3, 4, 3, 4, 3]);
    }

    #[test]
    fn plots_fit_into_tiles() {
        for (size, expected) in [
            ((558, 418), Some((512, 383))),
            ((512, 512), None),
            ((640, 480), None),
            ((1030, 540), Some((976, 512))),
            ((100, 560), Some((91, 512))),
        ] {
            assert_eq!(within_tiles(size, 512), expected, "{size:?}");
        }
        let tiled = PictureRules {
            tile: Some(512),
            ..RULES
        };
        let seen = scaled(&png(558, 418), tiled).unwrap();
        assert_eq!((seen.width, seen.height), (558, 418));
        let (picture, _) = decoded(&seen.data).unwrap();
        assert_eq!(picture.dimensions(), (512, 383));
    }
}
