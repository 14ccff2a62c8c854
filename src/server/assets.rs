//! The page's files, embedded in the program: every file below `web/`, by the path that a browser requests.

/// Embeds files of `web/`.
macro_rules! embed {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("web/", $name)).as_slice())),*]
    };
}

/// The suffix of files that are stored compressed.
pub(super) const COMPRESSED: &str = ".gz";

/// Names below `/assets/`, with the content. Sorted.
pub(super) const ASSETS: &[(&str, &[u8])] = embed![
    "ansi.js",
    "api.js",
    "cells.js",
    "composer.js",
    "grid.js",
    "icon.svg",
    "index.html",
    "live.js",
    "main.js",
    "outputs.js",
    "panels.js",
    "session.js",
    "sessions.js",
    "store.js",
    "style.css",
    "ui.js",
    "vendor/LICENSE-htm",
    "vendor/LICENSE-plotly",
    "vendor/LICENSE-preact",
    "vendor/LICENSE-vega",
    "vendor/LICENSE-vega-embed",
    "vendor/LICENSE-vega-lite",
    "vendor/hooks.js",
    "vendor/htm.js",
    "vendor/plotly-cartesian.min.js.gz",
    "vendor/preact.js",
    "vendor/vega-embed.min.js.gz",
    "vendor/vega-lite.min.js.gz",
    "vendor/vega.min.js.gz",
    "vendor/vendor.toml",
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::ASSETS;

    /// A file that is missing here would be missing only in the built program.
    #[test]
    fn every_file_of_the_page_is_embedded() {
        fn walk(dir: &Path, root: &Path, names: &mut Vec<String>) {
            for entry in std::fs::read_dir(dir).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, root, names);
                } else {
                    let name = path.strip_prefix(root).unwrap();
                    names.push(name.to_str().unwrap().to_owned());
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/server/web");
        let mut there = Vec::new();
        walk(&root, &root, &mut there);
        there.sort();
        let embedded: Vec<&str> = ASSETS.iter().map(|(name, _)| *name).collect();
        assert_eq!(embedded, there, "src/server/assets.rs lists other files");
    }
}
