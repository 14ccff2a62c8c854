//! The text that a person sees for an output that is not a picture.

use std::borrow::Cow;

use super::summarize;
use super::visual::Visual;
use crate::jupyter::mime::{self, Audience, MimeBundle, joined};

/// The text for a display that is not a picture.
pub fn shown_text(data: &MimeBundle) -> String {
    if let Some(words) = Visual::of(data).and_then(|visual| summarize::visual(visual, data)) {
        return words;
    }
    match data.richest_for(Audience::Terminal) {
        Some(("text/plain" | "text/markdown" | "text/latex", value)) => {
            joined(value).unwrap_or_default().into_owned()
        }
        Some((mime, _)) => data
            .text_of(mime::TEXT_PLAIN)
            .map_or_else(|| format!("[{mime}]"), Cow::into_owned),
        None => String::new(),
    }
}
