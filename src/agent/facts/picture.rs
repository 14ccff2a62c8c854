//! A picture: its size in pixels, read off its header. A model that sees is shown the picture itself.

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _};
use std::path::{Path, PathBuf};

use image::{ImageDecoder as _, ImageReader};

use super::input::Broken;
use super::kind::{self, FileKind};
use super::names::shown_path;
use super::size;
use super::sketch::Part;
use super::target::{Found, Target};
use crate::kernel::folder::{open_file, resolved};

/// Bytes of a picture that is shown to a model.
const LARGEST: u64 = 24 << 20;

/// A picture that the person named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GivenPicture {
    /// Without links, so that none that code makes later leads elsewhere.
    path: PathBuf,
    /// What it is called, on one line.
    pub name: String,
}

/// The pictures among `files`, as seen from the kernel's directory `cwd`.
pub fn given(files: &[&Path], cwd: &Path) -> Vec<GivenPicture> {
    let is_picture = |file: &Path| kind::of_file(file).is_ok_and(|kind| kind == FileKind::Picture);
    let picture = |file: &Path| GivenPicture {
        path: resolved(file),
        name: shown_path(file.strip_prefix(cwd).unwrap_or(file)),
    };
    let pictures = files.iter().copied().filter(|file| is_picture(file));
    pictures.map(picture).collect()
}

impl GivenPicture {
    /// The encoded picture; `None` if it is gone, or too large to be shown.
    pub fn read(&self) -> Option<Vec<u8>> {
        let file = open_file(&self.path).ok()?;
        let mut bytes = Vec::new();
        let length = file.take(LARGEST + 1).read_to_end(&mut bytes).ok()?;
        (length as u64 <= LARGEST).then_some(bytes)
    }
}

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
