//! Retries requests that failed for a temporary reason.
//!
//! An incomplete reply that breaks off is also requested again: nothing of a reply runs before its end.
//! [`Delta::Retrying`], sent before every wait, voids what was yielded of it, so that a front end can mark what it
//! showed and say what it waits for. The prompt is sent again byte for byte: half a reply never gets into it. A delay
//! that the server names is used, within bounds.
//!
//! Never retried: refused requests (4xx), and a reply that is invalid from its beginning, which means a wrong address.

use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};

use super::native::refuses_tools;
use super::types::{BoxStream, Delta, ModelInfo, Prompt, Provider, ProviderError, Retrying};

/// A provider that retries.
#[derive(Clone)]
pub struct Retry {
    inner: Arc<dyn Provider>,
    options: RetryOptions,
}

/// When to retry and when to give up.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryOptions {
    /// Maximum requests, including the first.
    pub tries: u32,
    /// Wait before the second request; doubled for each one after.
    pub first_wait: Duration,
    /// Maximum wait. If a server asks for a longer one, there is no further request.
    pub longest_wait: Duration,
    /// No request starts later than this after the first.
    pub give_up_after: Duration,
}

impl Default for RetryOptions {
    fn default() -> Self {
        Self {
            tries: 5,
            first_wait: Duration::from_secs(1),
            longest_wait: Duration::from_mins(1),
            give_up_after: Duration::from_mins(10),
        }
    }
}

impl Retry {
    /// Wraps `inner` with retries by `options`.
    pub fn new(inner: Arc<dyn Provider>, options: RetryOptions) -> Self {
        Self { inner, options }
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
            state: State::Reading(self.inner.stream(prompt.clone())),
            retry: self.clone(),
            prompt,
            tried: 1,
            began: Instant::now(),
        };
        Box::pin(stream::unfold(asking, |mut asking| async move {
            let item = asking.next().await?;
            Some((item, asking))
        }))
    }
}

/// A prompt whose reply is being requested.
struct Asking {
    state: State,
    retry: Retry,
    prompt: Prompt,
    tried: u32,
    began: Instant,
}

enum State {
    Reading(BoxStream<'static, Result<Delta, ProviderError>>),
    /// Waiting for the next request.
    Waiting(Duration),
    Over,
}

impl Asking {
    async fn next(&mut self) -> Option<Result<Delta, ProviderError>> {
        loop {
            let item = match &mut self.state {
                State::Reading(reply) => reply.next().await,
                State::Waiting(wait) => {
                    tokio::time::sleep(*wait).await;
                    self.tried += 1;
                    let reply = self.retry.inner.stream(self.prompt.clone());
                    self.state = State::Reading(reply);
                    continue;
                }
                State::Over => return None,
            };
            let error = match item {
                Some(Ok(delta)) => {
                    if matches!(delta, Delta::Finished { .. }) {
                        self.state = State::Over;
                    }
                    return Some(Ok(delta));
                }
                Some(Err(error)) => error,
                None => {
                    self.state = State::Over;
                    return None;
                }
            };
            let options = &self.retry.options;
            let elapsed = self.began.elapsed();
            // The broken stream is dropped here, and its connection with it.
            let Some(wait) = wait(&error, self.tried, elapsed, options) else {
                self.state = State::Over;
                return Some(Err(error));
            };
            tracing::warn!(tried = self.tried, %error, ?wait, "asking the model again");
            self.state = State::Waiting(wait);
            return Some(Ok(Delta::Retrying(Retrying {
                of: tries(&error, options),
                error,
                wait,
                attempt: self.tried + 1,
            })));
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
    // This failure is permanent, whatever its status.
    if refuses_tools(error) || !error.is_retryable() || tried >= tries(error, options) {
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

/// Maximum requests for a failure of this kind.
fn tries(error: &ProviderError, options: &RetryOptions) -> u32 {
    match error {
        // An absent server, or one that speaks another protocol, is rarely temporary.
        ProviderError::Unreachable { .. } | ProviderError::Garbled { .. } => options.tries.min(3),
        // The long silence was wait enough.
        ProviderError::Stalled { .. } => options.tries.min(2),
        ProviderError::Busy { .. }
        | ProviderError::Truncated { .. }
        | ProviderError::Unauthorized { .. }
        | ProviderError::ContextTooLong { .. }
        | ProviderError::Unsendable { .. }
        | ProviderError::UnknownModel { .. }
        | ProviderError::Rejected { .. }
        | ProviderError::Malformed { .. } => options.tries,
    }
}

/// Random factor for waits, so that many clients do not return at once.
const JITTER: (f64, f64) = (0.8, 1.2);

fn jitter() -> f64 {
    // The standard library seeds every `RandomState` differently, which is random enough here.
    let random = RandomState::new().hash_one(());
    let fraction = f64::from(u32::try_from(random >> 32).unwrap_or_default()) / f64::from(u32::MAX);
    JITTER.0 + fraction * (JITTER.1 - JITTER.0)
}

#[cfg(test)]
mod tests {
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

    fn cut() -> ProviderError {
        ProviderError::Truncated {
            endpoint: "http://x/v1".to_owned(),
            message: "cut".to_owned(),
        }
    }

    fn garbled() -> ProviderError {
        ProviderError::Garbled {
            endpoint: "http://x/v1".to_owned(),
            message: "no JSON".to_owned(),
        }
    }

    fn malformed() -> ProviderError {
        ProviderError::Malformed {
            endpoint: "http://x/v1".to_owned(),
            message: "no JSON".to_owned(),
        }
    }

    fn options() -> RetryOptions {
        RetryOptions {
            first_wait: Duration::from_millis(1),
            longest_wait: Duration::from_millis(8),
            ..RetryOptions::default()
        }
    }

    fn prompt() -> Prompt {
        Prompt {
            system: String::new(),
            messages: vec![Message::User(vec![Part::Text("hi".to_owned())])],
            tools: Vec::new(),
            max_output_tokens: None,
            temperature: None,
            reply_schema: None,
            tool_choice: crate::llm::types::ToolChoice::Auto,
        }
    }

    /// The deltas yielded, and the prompts sent.
    async fn ask(replies: Vec<Reply>) -> (Vec<Result<Delta, ProviderError>>, Vec<Prompt>) {
        let model = ScriptedProvider::new(ModelInfo::default(), replies);
        let retry = Retry::new(Arc::new(model.clone()), options());
        let items = retry.stream(prompt()).collect().await;
        (items, model.prompts())
    }

    fn words(text: &str) -> Delta {
        Delta::Text(text.to_owned())
    }

    fn retrying(error: ProviderError, wait: Duration, attempt: u32) -> Delta {
        Delta::Retrying(Retrying {
            error,
            wait,
            attempt,
            of: 5,
        })
    }

    #[tokio::test]
    async fn a_busy_server_is_asked_again_after_the_time_it_named() {
        let patience = Duration::from_millis(3);
        let (items, requests) = ask(vec![
            Reply::error(busy(Some(patience))),
            Reply::error(busy(Some(patience))),
            Reply::text("hello"),
        ])
        .await;

        assert_eq!(
            items.get(..3),
            Some(
                &[
                    Ok(retrying(busy(Some(patience)), patience, 2)),
                    Ok(retrying(busy(Some(patience)), patience, 3)),
                    Ok(words("hello")),
                ][..]
            )
        );
        assert_eq!(items.len(), 4);
        assert_eq!(requests, vec![prompt(); 3]);
    }

    #[tokio::test]
    async fn it_gives_up() {
        let refused = ProviderError::Rejected {
            endpoint: "http://x/v1".to_owned(),
            status: 404,
            message: "not here".to_owned(),
        };
        let cases = [
            (busy(None), 5),
            (cut(), 5),
            (unreachable(), 3),
            (garbled(), 3),
            (busy(Some(Duration::from_hours(1))), 1),
            (refused, 1),
            (malformed(), 1),
        ];
        for (error, expected) in cases {
            let (items, requests) = ask(vec![Reply::error(error.clone()); 6]).await;
            assert_eq!(
                (items.last(), requests.len()),
                (Some(&Err(error)), expected)
            );
            assert_eq!(items.len(), expected);
        }
    }

    #[tokio::test]
    async fn a_reply_that_breaks_off_is_void_and_asked_for_again() {
        for (error, of) in [(cut(), 5), (garbled(), 3), (busy(None), 5)] {
            let broken = [Step::Delta(words("The mean")), Step::Error(error.clone())];
            let (items, requests) = ask(vec![Reply::new(broken), Reply::text("It is 4.")]).await;

            assert_eq!(items.first(), Some(&Ok(words("The mean"))));
            let Some(Ok(Delta::Retrying(again))) = items.get(1) else {
                panic!("{items:?}");
            };
            assert_eq!((&again.error, again.attempt, again.of), (&error, 2, of));
            assert_eq!(items.get(2), Some(&Ok(words("It "))));
            assert!(matches!(items.last(), Some(Ok(Delta::Finished { .. }))));
            // No request contains the partial reply.
            assert_eq!(requests, vec![prompt(); 2]);
        }
    }

    #[tokio::test]
    async fn nothing_is_asked_again_once_a_reply_is_complete() {
        let mut steps: Vec<Step> = Vec::new();
        let whole = ScriptedProvider::new(ModelInfo::default(), [Reply::text("Yes.")]);
        let mut reply = whole.stream(prompt());
        while let Some(Ok(delta)) = reply.next().await {
            steps.push(Step::Delta(delta));
        }
        steps.push(Step::Error(cut()));
        let (items, requests) = ask(vec![Reply::new(steps), Reply::text("never")]).await;

        assert!(matches!(items.last(), Some(Ok(Delta::Finished { .. }))));
        assert_eq!((items.len(), requests.len()), (2, 1));
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
        let refused = ProviderError::Busy {
            endpoint: "http://127.0.0.1:8080/v1".to_owned(),
            status: 500,
            message: "tools param requires --jinja flag".to_owned(),
            retry_after: None,
        };
        assert_eq!(wait(&refused, 1, Duration::ZERO, &options), None);
    }
}
