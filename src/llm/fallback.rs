//! Falls back to another way of asking when a server refuses tools.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::StreamExt as _;

use super::native::refuses_tools;
use super::types::{BoxStream, Delta, ModelInfo, Prompt, Provider, ProviderError};

/// Asks a model the first way until its server refuses tools, and the second way from then on.
#[derive(Clone)]
pub struct Fallback {
    first: Arc<dyn Provider>,
    second: Arc<dyn Provider>,
    refused: Arc<AtomicBool>,
    observer: Arc<dyn Fn(&ProviderError) + Send + Sync>,
}

impl Fallback {
    /// Calls `observer` once, on fallback.
    pub fn new(
        first: Arc<dyn Provider>,
        second: Arc<dyn Provider>,
        observer: impl Fn(&ProviderError) + Send + Sync + 'static,
    ) -> Self {
        Self {
            first,
            second,
            refused: Arc::default(),
            observer: Arc::new(observer),
        }
    }
}

impl Provider for Fallback {
    fn info(&self) -> &ModelInfo {
        if self.refused.load(Ordering::Relaxed) {
            self.second.info()
        } else {
            self.first.info()
        }
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Delta, ProviderError>> {
        if self.refused.load(Ordering::Relaxed) {
            return self.second.stream(prompt);
        }
        let mut reply = self.first.stream(prompt.clone());
        let this = self.clone();
        Box::pin(async_stream(async move {
            let first = reply.next().await;
            match first {
                // Only if nothing was yielded yet.
                Some(Err(error)) if refuses_tools(&error) => {
                    if !this.refused.swap(true, Ordering::Relaxed) {
                        (this.observer)(&error);
                    }
                    (None, this.second.stream(prompt))
                }
                first => (first, reply),
            }
        }))
    }
}

type Item = Result<Delta, ProviderError>;

/// Continues with the stream that `begin` chose, after the item it consumed to choose.
fn async_stream(
    begin: impl Future<Output = (Option<Item>, BoxStream<'static, Item>)> + Send + 'static,
) -> impl futures_util::Stream<Item = Item> + Send + 'static {
    futures_util::stream::once(begin)
        .flat_map(|(first, rest)| futures_util::stream::iter(first).chain(rest))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::llm::scripted::{Reply, ScriptedProvider};
    use crate::llm::types::{Message, Part, ToolChoice, ToolSpec};

    fn model(replies: Vec<Reply>) -> ScriptedProvider {
        let info = ModelInfo {
            name: "scripted/one".to_owned(),
            ..ModelInfo::default()
        };
        ScriptedProvider::new(info, replies)
    }

    fn prompt() -> Prompt {
        Prompt {
            system: String::new(),
            messages: vec![Message::User(vec![Part::Text("q".to_owned())])],
            tools: vec![ToolSpec {
                name: "run_code".to_owned(),
                description: String::new(),
                parameters: serde_json::json!({}),
            }],
            tool_choice: ToolChoice::Auto,
            max_output_tokens: None,
            temperature: None,
            reply_schema: None,
        }
    }

    fn rejected(message: &str) -> ProviderError {
        ProviderError::Rejected {
            endpoint: "http://x".to_owned(),
            status: 400,
            message: message.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_server_without_tools_is_asked_the_other_way_from_then_on() {
        let first = model(vec![Reply::error(rejected("x does not support tools"))]);
        let second = model(vec![Reply::text("one"), Reply::text("two")]);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&seen);
        let both = Fallback::new(
            Arc::new(first.clone()),
            Arc::new(second.clone()),
            move |error| {
                told.lock().unwrap().push(error.to_string());
            },
        );
        for _ in 0..2 {
            let items: Vec<_> = both.stream(prompt()).collect().await;
            assert!(items.iter().all(Result::is_ok), "{items:?}");
        }
        assert_eq!((first.prompts().len(), second.prompts().len()), (1, 2));
        assert_eq!(seen.lock().unwrap().len(), 1);
    }

    #[tokio::test]
    async fn other_errors_change_nothing() {
        let first = model(vec![
            Reply::error(rejected("no such model")),
            Reply::text("one"),
        ]);
        let second = model(vec![]);
        let both = Fallback::new(Arc::new(first), Arc::new(second.clone()), |_| ());
        let items: Vec<_> = both.stream(prompt()).collect().await;
        assert_eq!(items, [Err(rejected("no such model"))]);
        assert!(
            both.stream(prompt())
                .all(|item| async move { item.is_ok() })
                .await
        );
        assert!(second.prompts().is_empty());
    }
}
