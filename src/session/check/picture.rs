//! Perceptual distance between two pictures.
//!
//! Both are put on white, scaled down and compared window by window with structural similarity (Wang et al. 2004), in
//! brightness and in colour. Only windows with something drawn count, because a plot is mostly blank, and of these only
//! the worst, because a title or one bar is a small part of a picture. A window may be shifted by a pixel, as it is
//! with other fonts.

use image::imageops::FilterType;
use image::{DynamicImage, RgbaImage};

use crate::session::summarize::decoded;

/// Both pictures are scaled to this longer side.
const SIDE: u32 = 320;
/// Side of a window, and the step between windows.
const WINDOW: usize = 8;
const STEP: usize = 4;
/// A window is blank if its spread of grey values and the difference of the pictures' means are below this.
const PAPER: f64 = 2.0;
/// Maximum shift of a window in pixels.
const ASIDE: isize = 1;
/// Only the worst 1/n of the windows counts.
const WORST: usize = 25;
/// Aspect ratios may differ by this factor: a label that is a pixel wider makes a tight figure wider.
const ASPECT: f64 = 1.05;

/// The difference in the worst part: 0 for equal pictures, 1 for nothing in common, different shapes, or data that is
/// not a picture.
pub fn distance(a: &[u8], b: &[u8]) -> f64 {
    if a == b {
        return 0.0;
    }
    let (Some(a), Some(b)) = (decode(a), decode(b)) else {
        return 1.0;
    };
    if (stretch(a.width(), b.width()) / stretch(a.height(), b.height()))
        .ln()
        .abs()
        > ASPECT.ln()
    {
        return 1.0;
    }
    let longest = a.width().max(a.height()).max(1);
    let scaled = |length: u32| (u64::from(length) * u64::from(SIDE) / u64::from(longest)).max(1);
    let size = |length| u32::try_from(scaled(length)).unwrap_or(SIDE);
    let (width, height) = (size(a.width()), size(a.height()));
    let channels: Vec<f64> = Grey::of(&a, width, height)
        .into_iter()
        .zip(Grey::of(&b, width, height))
        .map(|(a, b)| differing(&a, &b))
        .collect();
    channels.into_iter().fold(0.0, f64::max)
}

fn stretch(a: u32, b: u32) -> f64 {
    f64::from(a.max(1)) / f64::from(b.max(1))
}

/// Decodes a picture; `None` if it is invalid or too large.
fn decode(bytes: &[u8]) -> Option<RgbaImage> {
    decoded(bytes).map(|(image, _)| image.to_rgba8())
}

/// One channel of a scaled-down picture.
struct Grey {
    width: usize,
    values: Vec<f64>,
}

impl Grey {
    /// Brightness and two colour differences: a line that turned from blue to red at equal brightness has changed.
    fn of(image: &RgbaImage, width: u32, height: u32) -> [Self; 3] {
        let small = DynamicImage::ImageRgba8(image.clone())
            .resize_exact(width, height, FilterType::Triangle)
            .to_rgba8();
        let mut channels = [(); 3].map(|()| Self {
            width: small.width() as usize,
            values: Vec::new(),
        });
        for pixel in small.pixels() {
            let [red, green, blue, alpha] = pixel.0.map(f64::from);
            let on_white = |value: f64| 255.0 + (value - 255.0) * alpha / 255.0;
            let (red, green, blue) = (on_white(red), on_white(green), on_white(blue));
            let light = 0.299 * red + 0.587 * green + 0.114 * blue;
            for (channel, value) in
                channels
                    .iter_mut()
                    .zip([light, (red - light) / 2.0, (blue - light) / 2.0])
            {
                channel.values.push(value);
            }
        }
        channels
    }

    /// The values of the window at `(x, y)`; fewer at the right and lower edges.
    fn window(&self, x: usize, y: usize) -> impl Iterator<Item = f64> + Clone {
        let rows = self.values.chunks(self.width).skip(y).take(WINDOW);
        rows.flat_map(move |row| row.iter().skip(x).take(WINDOW).copied())
    }

    fn height(&self) -> usize {
        self.values.len() / self.width.max(1)
    }
}

/// Mean dissimilarity of the worst non-blank windows.
fn differing(a: &Grey, b: &Grey) -> f64 {
    let last = |length: usize| length.saturating_sub(WINDOW);
    let mut drawn = Vec::new();
    for y in (0..=last(a.height())).step_by(STEP) {
        for x in (0..=last(a.width)).step_by(STEP) {
            let (one, other) = (Moments::of(a.window(x, y)), Moments::of(b.window(x, y)));
            let spread = one.variance.max(other.variance).sqrt();
            if spread.max((one.mean - other.mean).abs()) >= PAPER {
                drawn.push(nearest(a, b, x, y, &one));
            }
        }
    }
    drawn.sort_by(|a, b| b.total_cmp(a));
    drawn.truncate((drawn.len() / WORST).max(1));
    let worst = drawn.len().max(1);
    drawn.iter().sum::<f64>() / f64::from(u32::try_from(worst).unwrap_or(u32::MAX))
}

/// Distance of a window of `a` from the most similar one near the same place in `b`.
fn nearest(a: &Grey, b: &Grey, x: usize, y: usize, one: &Moments) -> f64 {
    let mut best = -1.0_f64;
    for aside_y in -ASIDE..=ASIDE {
        for aside_x in -ASIDE..=ASIDE {
            let (Some(at_x), Some(at_y)) =
                (x.checked_add_signed(aside_x), y.checked_add_signed(aside_y))
            else {
                continue;
            };
            if at_x + WINDOW > b.width || at_y + WINDOW > b.height() {
                continue;
            }
            let other = Moments::of(b.window(at_x, at_y));
            let together = covariance(a.window(x, y).zip(b.window(at_x, at_y)), one, &other);
            best = best.max(similarity(one, &other, together));
        }
    }
    (1.0 - best).clamp(0.0, 1.0)
}

struct Moments {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Moments {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
        for value in values {
            count += 1.0;
            sum += value;
            squares += value * value;
        }
        let mean = if count == 0.0 { 0.0 } else { sum / count };
        let variance = if count == 0.0 {
            0.0
        } else {
            (squares / count - mean * mean).max(0.0)
        };
        Self {
            count,
            mean,
            variance,
        }
    }
}

fn covariance(pairs: impl Iterator<Item = (f64, f64)>, a: &Moments, b: &Moments) -> f64 {
    let sum: f64 = pairs.map(|(x, y)| (x - a.mean) * (y - b.mean)).sum();
    if a.count == 0.0 { 0.0 } else { sum / a.count }
}

/// Structural similarity of two windows, from -1 to 1.
fn similarity(a: &Moments, b: &Moments, covariance: f64) -> f64 {
    // The constants from the paper, for values up to 255.
    let (c1, c2) = ((0.01_f64 * 255.0).powi(2), (0.03_f64 * 255.0).powi(2));
    let light = (2.0 * a.mean * b.mean + c1) / (a.mean.powi(2) + b.mean.powi(2) + c1);
    let structure = (2.0 * covariance + c2) / (a.variance + b.variance + c2);
    light * structure
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;
    use image::{ImageFormat, Rgba};

    /// A minimal plot: a frame, and bars of these heights and this colour.
    fn bars(heights: &[u32], colour: [u8; 3], nudge: u32) -> Vec<u8> {
        let [red, green, blue] = colour;
        let mut image = RgbaImage::from_pixel(640, 480, Rgba([255, 255, 255, 255]));
        for x in 50..600 {
            image.put_pixel(x, 430, Rgba([0, 0, 0, 255]));
        }
        for y in 40..430 {
            image.put_pixel(50 + nudge, y, Rgba([0, 0, 0, 255]));
        }
        for (n, height) in (0_u32..).zip(heights) {
            for x in 0..60 {
                for y in 0..*height {
                    image.put_pixel(80 + n * 100 + x, 429 - y, Rgba([red, green, blue, 255]));
                }
            }
        }
        let mut bytes = Vec::new();
        image
            .write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)
            .unwrap();
        bytes
    }

    #[test]
    fn what_a_person_would_call_the_same_is_near_and_what_not_is_far() {
        const BLUE: [u8; 3] = [31, 119, 180];
        let plot = bars(&[100, 200, 300, 150, 50], BLUE, 0);
        let limit = crate::session::check::PICTURE_DISTANCE;
        assert!(distance(&plot, &plot) < 1e-9);
        let nudged = distance(&plot, &bars(&[100, 200, 300, 150, 50], BLUE, 1));
        assert!(nudged < limit, "an axis one pixel to the right: {nudged}");
        for (heights, colour, what) in [
            ([100, 200, 300, 150, 80], BLUE, "a bar of another height"),
            ([100, 200, 300, 150, 50], [255, 127, 14], "another colour"),
            ([300, 200, 100, 150, 50], BLUE, "other data"),
        ] {
            let distance = distance(&plot, &bars(&heights, colour, 0));
            assert!(distance > limit, "{what}: {distance}");
        }
        assert!(distance(&plot, b"no picture") > 0.99);
    }
}
