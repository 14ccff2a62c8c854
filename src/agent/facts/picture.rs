//! A picture: its size in pixels, read off its header.

use std::fs::File;
use std::io::{BufReader, Seek as _};

use image::{ImageDecoder as _, ImageReader};

use super::input::Broken;
use super::names::shown_path;
use super::size;
use super::sketch::Part;
use super::target::{Found, Target};

/// Describes a picture.
pub(super) fn describe(target: &Target<'_>, mut file: File, bytes: u64, first: &[u8]) -> Found {
    file.rewind()?;
    let reader = ImageReader::new(BufReader::new(file)).with_guessed_format()?;
    let format = reader.format();
    // No pixels are decoded.
    let decoder = (reader.into_decoder()).map_err(|_| Broken::from("its header cannot be read"))?;
    let (width, height) = decoder.dimensions();
    let colours = match decoder.color_type() {
        image::ColorType::L8 | image::ColorType::L16 => "grey",
        image::ColorType::La8 | image::ColorType::La16 => "grey with transparency",
        image::ColorType::Rgb8 | image::ColorType::Rgb16 | image::ColorType::Rgb32F => "colour",
        _ => "colour with transparency",
    };
    let kind = match format {
        Some(image::ImageFormat::Png) => "PNG",
        Some(image::ImageFormat::Jpeg) => "JPEG",
        Some(image::ImageFormat::WebP) => "WebP",
        _ if first.starts_with(b"GIF8") => "GIF",
        _ => "picture",
    };
    let recipe = target.language.recipe(
        target.inner,
        |path| {
            // What a cell ends with is an output, which models that see are shown.
            format!(
                "from PIL import Image; img = Image.open({path}); img.convert('RGB').reduce(max(1, max(img.size) // 1000))"
            )
        },
        "",
    );
    let recipe = if recipe.is_empty() {
        recipe
    } else {
        format!(". {recipe}")
    };
    Ok(vec![Part::line(format!(
        "File {}: {}, a {kind} picture of {width} x {height} pixels, {colours}{recipe}",
        shown_path(target.inner),
        size(bytes)
    ))])
}
