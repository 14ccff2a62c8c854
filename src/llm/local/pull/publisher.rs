//! One HTTP download from the publisher, resumed by byte range as long as it makes progress.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode};
use tokio::time::{sleep, timeout};

use super::super::models::KnownModel;
use super::part::Part;
use super::{FetchError, PullOptions, Report, SourceError};

/// Limit until the headers after the last redirect arrive.
const ANSWER_LIMIT: Duration = Duration::from_secs(15);
/// Limit between two chunks.
const STALL_LIMIT: Duration = Duration::from_secs(30);
/// An attempt that brings fewer bytes than this made no progress.
const PROGRESS: u64 = 1 << 20;
/// Attempts in a row without progress before giving up.
const FRUITLESS_TRIES: u32 = 5;

/// Downloads the rest of the file.
pub(super) async fn fetch(
    model: &KnownModel,
    part: &Part,
    options: &PullOptions,
    report: &Report<'_>,
) -> Result<(), FetchError> {
    let url = model.publisher.ok_or(SourceError::Absent)?;
    part.check_space(0)?;
    let request = Request {
        url,
        host: host_of(url),
        total: model.bytes,
        client: &options.client,
    };
    let begin = part.length();
    let mut fruitless = 0;
    loop {
        let before = part.length();
        let outcome = request.download(part, report).await;
        let error = match outcome {
            Ok(()) => return Ok(()),
            Err(FetchError::Source(error)) => error,
            Err(local @ FetchError::Local(_)) => return Err(local),
        };
        // A source that never sent anything is abandoned at once; one whose transfer broke is retried.
        let came = part.length().saturating_sub(before);
        let gave = part.length() != begin;
        let broke_off = matches!(
            error,
            SourceError::Cut { .. } | SourceError::Unreachable { .. }
        );
        fruitless = if came >= PROGRESS { 0 } else { fruitless + 1 };
        if !(gave && broke_off) || fruitless >= FRUITLESS_TRIES {
            return Err(error.into());
        }
        tracing::debug!(%error, at = part.length(), "download broke off, asking again");
        sleep(options.pause * (1 << fruitless.saturating_sub(1))).await;
    }
}

struct Request<'a> {
    url: &'a str,
    host: String,
    total: u64,
    client: &'a Client,
}

impl Request<'_> {
    /// One connection: from the part file's length to the end, or as far as it gets.
    async fn download(&self, part: &Part, report: &Report<'_>) -> Result<(), FetchError> {
        let start = part.length();
        let response = self.ask(start).await?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT => self.check_range(&response, start)?,
            StatusCode::OK => {
                if let Some(length) = response.content_length() {
                    self.check_size(length)?;
                }
                // The server ignored the range and sends the whole file.
                if start > 0 {
                    part.restart()?;
                }
            }
            status => {
                let (host, status) = (self.host.clone(), status.as_u16());
                return Err(SourceError::Status { host, status }.into());
            }
        }
        self.receive(response, part, report).await?;
        match part.length() {
            length if length == self.total => Ok(()),
            length => Err(self
                .cut(&format!("{length} of {} bytes came", self.total))
                .into()),
        }
    }

    async fn ask(&self, start: u64) -> Result<Response, SourceError> {
        let mut request = self
            .client
            .get(self.url)
            .header(ACCEPT_ENCODING, "identity");
        if start > 0 {
            request = request.header(RANGE, format!("bytes={start}-"));
        }
        let unreachable = |reason| SourceError::Unreachable {
            host: self.host.clone(),
            reason,
        };
        match timeout(ANSWER_LIMIT, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(unreachable(root_cause(&error))),
            Err(_) => Err(unreachable(format!(
                "no answer within {} s",
                ANSWER_LIMIT.as_secs()
            ))),
        }
    }

    async fn receive(
        &self,
        response: Response,
        part: &Part,
        report: &Report<'_>,
    ) -> Result<(), FetchError> {
        let sink = part.sink();
        let mut stream = response.bytes_stream();
        let mut at = part.length();
        let outcome = loop {
            let chunk = match timeout(STALL_LIMIT, stream.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(None) => break Ok(()),
                Ok(Some(Err(error))) => break Err(self.cut(&root_cause(&error))),
                Err(_) => {
                    let reason = format!("nothing came for {} s", STALL_LIMIT.as_secs());
                    break Err(self.cut(&reason));
                }
            };
            at += chunk.len() as u64;
            if at > self.total {
                break self.check_size(at);
            }
            if !sink.send(chunk).await {
                break Ok(());
            }
            report.fetching(at);
        };
        // Bytes received before a failure are kept; a write error takes precedence.
        sink.close()
            .await
            .map_err(|error| part.write_failed(error))?;
        Ok(outcome?)
    }

    /// Checks `Content-Range: bytes START-END/TOTAL`, with `*` for an unknown total.
    fn check_range(&self, response: &Response, start: u64) -> Result<(), SourceError> {
        let range = response
            .headers()
            .get(CONTENT_RANGE)
            .and_then(|value| value.to_str().ok());
        let parsed = range.and_then(|range| {
            let (span, total) = range.strip_prefix("bytes ")?.split_once('/')?;
            let first: u64 = span.split_once('-')?.0.parse().ok()?;
            Some((first, total.parse::<u64>().ok()))
        });
        match parsed {
            Some((first, total)) if first == start => {
                total.map_or(Ok(()), |total| self.check_size(total))
            }
            _ => Err(self.cut(&format!(
                "asked for bytes from {start}, was offered {range:?}"
            ))),
        }
    }

    fn check_size(&self, found: u64) -> Result<(), SourceError> {
        if found == self.total {
            return Ok(());
        }
        let what = format!("the file at {}", self.host);
        Err(SourceError::WrongSize {
            what,
            expected: self.total,
            found,
        })
    }

    fn cut(&self, reason: &str) -> SourceError {
        SourceError::Cut {
            host: self.host.clone(),
            reason: reason.to_owned(),
        }
    }
}

fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest).to_owned()
}

/// The innermost cause: `error sending request` alone does not help.
fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    cause.to_string()
}
