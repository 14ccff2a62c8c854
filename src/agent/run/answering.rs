//! Answers input requests of running code: asks the person, the model, or nobody. The answer is stored with the cell's
//! outputs, as other front ends show it; a password is not.

use super::{Edit, EventKind, Instant, OutputEvent, Running, Session};
use crate::agent::event::Command;
use crate::agent::stdin::{self, AnsweredBy, StdinPolicy};
use crate::jupyter::content::{InputRequest, Stream};
use crate::llm::types::{BoxStream, Delta, Message, Part, ProviderError, ToolChoice};

/// How long a model may take to answer.
const ANSWER_WITHIN: std::time::Duration = std::time::Duration::from_mins(2);
/// How many bytes of its reply are used.
const REPLY_KEPT: usize = 4096;

/// A model's answer that is being generated.
pub(super) struct Answering {
    stream: BoxStream<'static, Result<Delta, ProviderError>>,
    text: String,
    until: Instant,
}

impl Answering {
    /// The answer in `stream`, within the time limit.
    pub(super) fn new(
        stream: BoxStream<'static, Result<Delta, ProviderError>>,
        within: std::time::Duration,
    ) -> Self {
        Self {
            stream,
            text: String::new(),
            until: Instant::now() + within,
        }
    }

    /// Adds a piece of the reply; anything beyond the limit is dropped.
    pub(super) fn take(&mut self, text: &str) {
        if self.text.len() < REPLY_KEPT {
            self.text.push_str(text);
        }
    }

    /// The reply starts over.
    pub(super) fn forget(&mut self) {
        self.text.clear();
    }

    /// The reply so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// The next piece or the end of an answer.
pub(super) enum Answer {
    /// A part of the reply.
    Delta(Delta),
    /// There will be no answer, for this reason.
    None(String),
}

/// The next piece of an answer.
pub(super) async fn next_answer(answering: Option<&mut Answering>) -> Answer {
    let Some(answering) = answering else {
        return std::future::pending().await;
    };
    let next = futures_util::StreamExt::next(&mut answering.stream);
    match tokio::time::timeout_at(answering.until, next).await {
        Ok(Some(Ok(delta))) => Answer::Delta(delta),
        Ok(Some(Err(error))) => Answer::None(error.to_string()),
        Ok(None) => Answer::None("its reply ended without an end".to_owned()),
        Err(_) => Answer::None("it took too long".to_owned()),
    }
}

impl Session {
    /// The running cell requests input.
    pub(super) async fn input_requested(&mut self, request: InputRequest) {
        let Some(running) = &mut self.cells.running else {
            return;
        };
        let cell = running.cell.clone();
        running.input = Some(request.clone());
        let InputRequest { prompt, password } = request;
        match self.options.stdin {
            StdinPolicy::Ask => {
                let kind = EventKind::InputRequested {
                    cell,
                    prompt,
                    password,
                };
                self.publish(kind);
            }
            // The kernel was told that input is not allowed, so it has already rejected the request.
            StdinPolicy::Refuse => {}
            StdinPolicy::Model if password => {
                self.refuse("passwords are never asked of the model").await;
            }
            StdinPolicy::Model if running.answers >= stdin::ANSWERS => {
                let why = format!("the model has answered {} times for it", stdin::ANSWERS);
                self.refuse(&why).await;
            }
            StdinPolicy::Model => {
                running.answers += 1;
                self.ask_model(&prompt).await;
            }
        }
    }

    async fn ask_model(&mut self, line: &str) {
        let Some(provider) = self.options.provider.clone() else {
            return self.refuse("there is no model to answer").await;
        };
        let mut prompt = self.prompt();
        prompt.tool_choice = ToolChoice::None;
        let words = Part::Text(stdin::question(line));
        match prompt.messages.last_mut() {
            Some(Message::User(parts)) => parts.push(words),
            _ => prompt.messages.push(Message::User(vec![words])),
        }
        if let Some(why) = self.too_dear_aside(&prompt) {
            return self.refuse(&format!("the model is not asked: {why}")).await;
        }
        self.tell_asked("input");
        self.cells.answering = Some(Answering::new(provider.stream(prompt), ANSWER_WITHIN));
    }

    /// Handles a piece of the model's answer for the waiting code.
    pub(super) async fn answered(&mut self, answer: Answer) {
        match answer {
            Answer::Delta(Delta::Text(text)) => {
                if let Some(answering) = &mut self.cells.answering {
                    answering.take(&text);
                }
            }
            Answer::Delta(Delta::Finished { usage, .. }) => {
                self.spend_aside(usage);
                if let Some(answering) = self.cells.answering.take() {
                    let line = stdin::line_of(answering.text());
                    self.give(line, AnsweredBy::Model).await;
                }
            }
            Answer::Delta(Delta::Retrying(_)) => {
                if let Some(answering) = &mut self.cells.answering {
                    answering.forget();
                }
            }
            // The model may not call a tool now. Its reasoning is not shown, because it is about the line of input.
            Answer::Delta(
                Delta::Reasoning(_)
                | Delta::CallStart { .. }
                | Delta::CallArguments { .. }
                | Delta::Native(_),
            ) => {}
            Answer::None(why) => {
                self.cells.answering = None;
                self.refuse(&format!("the model could not be asked: {why}"))
                    .await;
            }
        }
    }

    /// Sends the person's line to `cell`; a late one has no effect.
    pub(super) async fn reply(&mut self, cell: &str, value: String) {
        if self.answered_install(cell, &value).await {
            return;
        }
        let waits = |running: &Running| running.cell == cell && running.input.is_some();
        if self.cells.running.as_ref().is_some_and(waits) {
            self.cells.answering = None;
            self.give(value, AnsweredBy::Person).await;
        }
    }

    /// A front end reports that nobody will answer.
    pub(super) async fn not_answered(&mut self, cell: &str, reason: &str) {
        if self.answered_install(cell, "no").await {
            return;
        }
        let waits = |running: &Running| running.cell == cell && running.input.is_some();
        if self.cells.running.as_ref().is_some_and(waits) {
            self.subscribers.resolved_by(cell);
            self.refuse(reason).await;
        }
    }

    async fn give(&mut self, line: String, by: AnsweredBy) {
        let Some(Running {
            cell,
            execution: Some(_),
            input,
            ..
        }) = &mut self.cells.running
        else {
            return;
        };
        let Some(InputRequest { prompt, password }) = input.take() else {
            return;
        };
        let cell = cell.clone();
        let shown = self.options.redactor.values(&line);
        let shown = if password {
            "········"
        } else {
            &*shown
        };
        let output = OutputEvent::Stream(Stream {
            name: "stdout".to_owned(),
            text: format!("{prompt}{shown}\n"),
        });
        self.edit_by(Edit::Emit {
            cell: cell.clone(),
            output,
        });
        if password {
            self.cells.passwords.keep(&line);
        }
        let value = (!password).then(|| line.clone());
        let client = (by == AnsweredBy::Person).then(|| self.subscribers.resolved_by(&cell));
        self.publish(EventKind::InputAnswered {
            cell: cell.clone(),
            value,
            by,
            client,
        });
        if let Some(run) = self.cells.execution() {
            run.command(Command::Reply { cell, value: line }).await;
        }
    }

    /// Makes the request fail in the code, because nobody answers.
    async fn refuse(&mut self, why: &str) {
        if let Some(Running {
            cell,
            execution: Some(run),
            input,
            ..
        }) = &mut self.cells.running
        {
            *input = None;
            let (cell, reason) = (cell.clone(), why.to_owned());
            run.command(Command::RefuseInput { cell, reason }).await;
        }
    }
}
