//! Asks again when a model could not answer for a reason that passes.
//!
//! Only while nothing of a reply was seen: what a person has read is never taken back. A server that
//! names its own delay is believed, within bounds.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};

use super::types::{BoxStream, Delta, ModelInfo, Prompt, Provider, ProviderError};

/// A provider that tries again.
#[derive(Clone)]
pub struct Retry {
    inner: Arc<dyn Provider>,
    options: RetryOptions,
    observer: Option<Observer>,
}

/// When to try again, and when to give up.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryOptions {
    /// Requests sent at most, the first included.
    pub tries: u32,
    /// Wait before the second try; doubled for each one after.
    pub first_wait: Duration,
    /// No wait is longer. A server that asks for more gets no further request.
    pub longest_wait: Duration,
    /// No try begins later than this after the first.
    pub give_up_after: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            tries: 4,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_mins(1),
            give_up_after: Duration::from_mins(10),
        }
    }
}

/// A wait about to begin, for the person who is waiting too.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// Which request failed, counted from 1.
    pub tried: u32,
    /// How it failed.
    pub error: ProviderError,
    /// How long until the next.
    pub wait: Duration,
}

/// Called before every wait.
type Observer = Arc<dyn Fn(&Waiting) + Send + Sync>;

impl Retry {
    /// `inner`, asked again as `options` say.
    pub fn new(inner: Arc<dyn Provider>, options: RetryOptions) -> Self {
        Self {
            inner,
            options,
            observer: None,
        }
    }

    /// Calls `observer` before every wait.
    #[must_use]
    pub fn observed_by(mut self, observer: impl Fn(&Waiting) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }
}

impl fmt::Debug for Retry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retry")
            .field("model", self.inner.info())
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Provider for Retry {
    fn info(&self) -> &ModelInfo {
        self.inner.info()
    }

    fn stream(&self, prompt: Prompt) -> BoxStream<'static, Result<Delta, ProviderError>> {
        let asking = Asking {
            reply: self.inner.stream(prompt.clone()),
            again: Some((self.clone(), prompt)),
            tried: 1,
            began: Instant::now(),
        };
        Box::pin(stream::unfold(asking, |mut asking| async move {
            let item = asking.next().await?;
            Some((item, asking))
        }))
    }
}

/// A prompt being asked, perhaps not for the first time.
struct Asking {
    reply: BoxStream<'static, Result<Delta, ProviderError>>,
    /// What it takes to ask again; gone once something was yielded.
    again: Option<(Retry, Prompt)>,
    tried: u32,
    began: Instant,
}

impl Asking {
    async fn next(&mut self) -> Option<Result<Delta, ProviderError>> {
        loop {
            let item = self.reply.next().await?;
            // Taken: once an item has left, nothing may be asked again.
            let Some((retry, prompt)) = self.again.take() else {
                return Some(item);
            };
            let error = match item {
                Ok(delta) => return Some(Ok(delta)),
                Err(error) => error,
            };
            let options = &retry.options;
            let Some(wait) = wait(&error, self.tried, self.began.elapsed(), options) else {
                return Some(Err(error));
            };
            let waiting = Waiting {
                tried: self.tried,
                error,
                wait,
            };
            tracing::warn!(tried = self.tried, error = %waiting.error, ?wait, "asking the model again");
            if let Some(observer) = &retry.observer {
                observer(&waiting);
            }
            tokio::time::sleep(wait).await;
            self.tried += 1;
            self.reply = retry.inner.stream(prompt.clone());
            self.again = Some((retry, prompt));
        }
    }
}

/// How long to wait before asking again, or `None` to give up.
fn wait(
    error: &ProviderError,
    tried: u32,
    elapsed: Duration,
    options: &RetryOptions,
) -> Option<Duration> {
    if !error.is_retryable() || tried >= tries(error, options) {
        return None;
    }
    let wait = if let ProviderError::Busy {
        retry_after: Some(wanted),
        ..
    } = error
    {
        *wanted
    } else {
        let doubled = options
            .first_wait
            .saturating_mul(1 << tried.saturating_sub(1).min(16));
        doubled.min(options.longest_wait).mul_f64(jitter())
    };
    let in_bounds = wait <= options.longest_wait.mul_f64(JITTER.1)
        && elapsed.saturating_add(wait) <= options.give_up_after;
    in_bounds.then_some(wait)
}

/// How often a request that fails like this is sent.
fn tries(error: &ProviderError, options: &RetryOptions) -> u32 {
    match error {
        // Nobody there is rarely a passing trouble, and a long silence was waiting enough.
        ProviderError::Unreachable { .. } | ProviderError::Stalled { .. } => options.tries.min(2),
        ProviderError::Busy { .. }
        | ProviderError::Truncated { .. }
        | ProviderError::Unauthorized { .. }
        | ProviderError::ContextTooLong { .. }
        | ProviderError::Unsendable { .. }
        | ProviderError::Rejected { .. }
        | ProviderError::Malformed { .. } => options.tries,
    }
}

/// The factors between which a wait is spread, so that many clients do not come back at once.
const JITTER: (f64, f64) = (0.8, 1.2);

fn jitter() -> f64 {
    // The standard library seeds every `RandomState` differently: random enough to spread a wait.
    let random = RandomState::new().hash_one(());
    let fraction = f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX);
    JITTER.0 + fraction * (JITTER.1 - JITTER.0)
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::llm::scripted::{Reply, ScriptedProvider, Step};
    use crate::llm::types::{Message, Part};

    fn busy(retry_after: Option<Duration>) -> ProviderError {
        ProviderError::Busy {
            endpoint: "http://x/v1".to_owned(),
            status: 429,
            message: "slow down".to_owned(),
            retry_after,
        }
    }

    fn unreachable() -> ProviderError {
        ProviderError::Unreachable {
            endpoint: "http://x/v1".to_owned(),
            message: "connection refused".to_owned(),
        }
    }

    fn options() -> RetryOptions {
        RetryOptions {
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::from_millis(8),
            ..RetryOptions::default()
        }
    }

    /// What came out, how many requests went in, and the waits in between.
    async fn ask(replies: Vec<Reply>) -> (Vec<Result<Delta, ProviderError>>, usize, Vec<Waiting>) {
        let info = ModelInfo {
            name: "scripted/one".to_owned(),
            context_window: None,
            vision: false,
            small: false,
        };
        let model = ScriptedProvider::new(info, replies);
        let waits = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&waits);
        let retry = Retry::new(Arc::new(model.clone()), options())
            .observed_by(move |waiting| seen.lock().unwrap().push(waiting.clone()));
        let prompt = Prompt {
            system: String::new(),
            messages: vec![Message::User(vec![Part::Text("hi".to_owned())])],
            tools: Vec::new(),
            max_output_tokens: None,
            temperature: None,
            reply_schema: None,
            tool_choice: crate::llm::types::ToolChoice::Auto,
        };
        let items = retry.stream(prompt).collect().await;
        let waits = waits.lock().unwrap().clone();
        (items, model.prompts().len(), waits)
    }

    #[tokio::test]
    async fn a_busy_server_is_asked_again_after_the_time_it_named() {
        let patience = Duration::from_millis(3);
        let (items, requests, waits) = ask(vec![
            Reply::error(busy(Some(patience))),
            Reply::error(busy(Some(patience))),
            Reply::text("hello"),
        ])
        .await;

        assert_eq!(items.len(), 2);
        assert_eq!(items.first(), Some(&Ok(Delta::Text("hello".to_owned()))));
        assert_eq!(requests, 3);
        assert_eq!(
            waits,
            vec![
                Waiting {
                    tried: 1,
                    error: busy(Some(patience)),
                    wait: patience
                },
                Waiting {
                    tried: 2,
                    error: busy(Some(patience)),
                    wait: patience
                },
            ]
        );
    }

    #[tokio::test]
    async fn it_gives_up() {
        let too_long = busy(Some(Duration::from_hours(1)));
        let refused = ProviderError::Rejected {
            endpoint: "http://x/v1".to_owned(),
            status: 404,
            message: "no such model".to_owned(),
        };
        let cases = [
            (busy(None), 4),
            (unreachable(), 2),
            (too_long, 1),
            (refused, 1),
        ];
        for (error, expected) in cases {
            let replies = vec![Reply::error(error.clone()); 6];
            let (items, requests, _) = ask(replies).await;
            assert_eq!((items, requests), (vec![Err(error)], expected));
        }
    }

    #[tokio::test]
    async fn nothing_is_asked_again_once_something_was_seen() {
        let cut = ProviderError::Truncated {
            endpoint: "http://x/v1".to_owned(),
            message: "cut".to_owned(),
        };
        let words = Delta::Text("The mean".to_owned());
        let (items, requests, waits) = ask(vec![
            Reply::new([Step::Delta(words.clone()), Step::Error(cut.clone())]),
            Reply::text("never"),
        ])
        .await;

        assert_eq!(items, vec![Ok(words), Err(cut)]);
        assert_eq!((requests, waits), (1, Vec::new()));
    }

    #[test]
    fn waits_double_within_bounds() {
        let options = RetryOptions::default();
        for (tried, seconds) in [(1, 1.0), (2, 2.0), (3, 4.0)] {
            let wait = wait(&busy(None), tried, Duration::ZERO, &options)
                .unwrap()
                .as_secs_f64();
            assert!((seconds * 0.8..=seconds * 1.2).contains(&wait), "{wait}");
        }
        let late = wait(&busy(None), 1, Duration::from_mins(10), &options);
        assert_eq!(late, None);
    }
}
