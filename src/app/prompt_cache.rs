//! Caches the fixed beginning of a small model's prompt (system prompt and examples), so that it is processed only
//! once.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use sha2::{Digest as _, Sha256};

use crate::agent::{KernelOffer, prompt, tools};
use crate::llm::local::{LocalModel, LocalServer};
use crate::llm::mode::CodeMode;
use crate::llm::types::{Message, Part, Prompt, Provider, ToolChoice};

/// How long caching may delay the end of a session.
const KEEP_WITHIN: Duration = Duration::from_secs(5);

/// A prompt prefix that can be cached.
pub(super) struct Beginning {
    dir: PathBuf,
    file: String,
    mode: CodeMode,
    kept: bool,
}

impl Beginning {
    /// The prefix for `model` asked in `mode`, cached in `dir`.
    pub(super) fn of(model: &LocalModel, context: u32, mode: CodeMode, dir: PathBuf) -> Self {
        let mut sum = Sha256::new();
        for part in [
            model.name(),
            context.to_string(),
            mode.to_string(),
            prompt::small_system(mode),
            format!("{:?}", prompt::small_examples()),
        ] {
            sum.update(part.as_bytes());
            sum.update([0]);
        }
        let name = sum
            .finalize()
            .iter()
            .take(8)
            .fold(String::new(), |mut name, byte| {
                let _ = write!(name, "{byte:02x}");
                name
            });
        Self {
            dir,
            file: format!("{name}.bin"),
            mode,
            kept: false,
        }
    }

    /// Loads it into the server if it is cached.
    pub(super) async fn recall(&mut self, server: &LocalServer) {
        self.kept = self.dir.join(&self.file).exists() && server.recall_prompt(&self.file).await;
    }

    /// Caches it, unless it is cached already. The server is asked for the prefix alone, so no part of the
    /// conversation is stored.
    pub(super) async fn keep(&self, server: &LocalServer, provider: &Arc<dyn Provider>) {
        if self.kept {
            return;
        }
        let prompt = Prompt {
            system: prompt::small_system(self.mode),
            messages: vec![Message::User(vec![Part::Text("File".to_owned())])],
            tools: vec![tools::run_code(
                &[KernelOffer {
                    kernel: "python3".to_owned(),
                    language: "python".to_owned(),
                }],
                tools::SqlOffer::None,
            )],
            tool_choice: ToolChoice::Required,
            max_output_tokens: Some(1),
            temperature: None,
            reply_schema: None,
        };
        let kept = tokio::time::timeout(KEEP_WITHIN, async {
            let mut reply = provider.stream(prompt);
            while reply.next().await.is_some() {}
            // One prefix is enough: older ones belong to other versions or models.
            for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
                if entry
                    .path()
                    .extension()
                    .is_some_and(|extension| extension == "bin")
                {
                    let _ = std::fs::remove_file(entry.path());
                }
            }
            server.keep_prompt(&self.file).await
        })
        .await;
        tracing::debug!(kept = kept.unwrap_or(false), "the beginning of the prompt");
    }
}
