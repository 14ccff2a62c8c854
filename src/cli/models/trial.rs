//! `sponde models test`: checks whether a model works. Asks it four small questions, times each, and describes each
//! result in plain words.
//!
//! The tool call is a real one, made by the model over its wire. Its result is a number that nobody could guess, and
//! the answer must contain it. No kernel runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt as _;
use image::{ImageFormat, Rgb, RgbImage};
use serde_json::{Value, json};

use super::super::args::ModelTestArgs;
use super::super::style::{BAD, DIM, GOOD, NAME, WARN, paint, stderr_colours, stdout_colours};
use super::super::{Context, eprint, filter, print};
use crate::agent::{KernelOffer, tools};
use crate::app::model::{self, Target};
use crate::cli::exit::Exit;
use crate::error::{Failure, FailureKind};
use crate::llm::types::{
    Delta, Message, ModelInfo, Native, Part, Prompt, Provider, ProviderError, ToolCall, ToolChoice,
    Usage,
};

/// The finding about one ability.
struct Finding {
    what: &'static str,
    grade: Grade,
    words: String,
    took: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Grade {
    Good,
    Bad,
    NotTried,
}

/// A reply, joined from its pieces.
#[derive(Default)]
struct Reply {
    text: String,
    calls: Vec<ToolCall>,
    native: Option<Native>,
    usage: Usage,
    /// How many pieces of text or arguments arrived.
    pieces: usize,
    /// Time until the first of them.
    first: Option<Duration>,
    took: Duration,
}

/// Runs it.
pub(super) async fn test(args: &ModelTestArgs, context: &Context) -> Result<Exit, Failure> {
    let target = model::open(&args.model, context).await?;
    let outcome = examine(&target, args.json).await;
    if let Some(own) = target.own {
        own.stop().await;
    }
    outcome
}

async fn examine(target: &Target, as_json: bool) -> Result<Exit, Failure> {
    let info = target.provider.info().clone();
    let colours = stdout_colours();
    if !as_json {
        // Filtered before it is coloured: afterwards our own colours would be escaped too.
        let name = paint(NAME, &filter::code(&info.name), colours);
        let place = filter::code(&format!("at {}", target.base_url));
        print(&format!("{name} {}\n", paint(DIM, &place, colours)))?;
    }
    let mut findings = Vec::new();
    let mut usage = Usage::default();
    let show = |finding: &Finding| {
        if as_json {
            return Ok(());
        }
        print(&line(finding, colours))
    };
    for check in [Check::Streaming, Check::ToolCall, Check::Vision] {
        let finding = match check {
            Check::Streaming => streaming(&target.provider, &mut usage).await?,
            Check::ToolCall => tool_call(&target.provider, &mut usage).await?,
            Check::Vision => vision(target, &info, &mut usage).await,
        };
        show(&finding)?;
        findings.push(finding);
    }
    let counted = counting(&info, &usage);
    show(&counted)?;
    findings.push(counted);
    if as_json {
        let text = serde_json::to_string_pretty(&report(&info, target, &findings));
        print(&format!("{}\n", text.unwrap_or_default()))?;
    }
    let works = |what: &str| {
        let mut good = findings.iter().filter(|it| it.grade == Grade::Good);
        good.any(|finding| finding.what == what)
    };
    if works(TOOL_CALL) {
        Ok(Exit::Done)
    } else {
        Ok(Exit::Failed)
    }
}

#[derive(Clone, Copy)]
enum Check {
    Streaming,
    ToolCall,
    Vision,
}

const TOOL_CALL: &str = "tool call";

async fn streaming(provider: &Arc<dyn Provider>, usage: &mut Usage) -> Result<Finding, Failure> {
    let question =
        "Write the numbers from one to twenty in words, separated by commas, and nothing else.";
    let prompt = Prompt {
        tools: Vec::new(),
        ..prompt(vec![user(vec![Part::Text(question.to_owned())])])
    };
    let reply = ask(provider, prompt).await.map_err(failed)?;
    *usage += reply.usage;
    let whole = reply.text.to_lowercase().contains("twenty");
    let (grade, words) = match reply.pieces {
        0 => (Grade::Bad, "no words came".to_owned()),
        1 => (Grade::Bad, "the answer came in one piece".to_owned()),
        pieces => {
            let first = seconds(reply.first.unwrap_or_default());
            let odd = if whole {
                ""
            } else {
                ", but not what was asked for"
            };
            (
                Grade::Good,
                format!("{pieces} pieces, the first after {first}{odd}"),
            )
        }
    };
    Ok(Finding {
        what: "streaming",
        grade,
        words,
        took: Some(reply.took),
    })
}

async fn tool_call(provider: &Arc<dyn Provider>, usage: &mut Usage) -> Result<Finding, Failure> {
    let finding = |grade, words: String, took| Finding {
        what: TOOL_CALL,
        grade,
        words,
        took: Some(took),
    };
    let question = "Run the Python code print(measure()) with the tool (measure is defined already), then tell me the number that it printed.";
    let mut messages = vec![user(vec![Part::Text(question.to_owned())])];
    let reply = ask(provider, prompt(messages.clone()))
        .await
        .map_err(failed)?;
    *usage += reply.usage;
    let Some(call) = reply.calls.first() else {
        let said = excerpt(&reply.text);
        let words = format!("it made no call, but said: {said}");
        return Ok(finding(Grade::Bad, words, reply.took));
    };
    let code = match tools::parse(&call.name, &call.arguments, &[offer()]) {
        Ok(parsed) => parsed.code,
        Err(problem) => return Ok(finding(Grade::Bad, problem, reply.took)),
    };
    // The model cannot know it without reading the result.
    let number = (uuid::Uuid::new_v4().as_u128() % 900_000 + 100_000).to_string();
    let results = reply.calls.iter().map(|call| Message::ToolResult {
        call_id: call.id.clone(),
        parts: vec![Part::Text(format!("{number}\n"))],
        is_error: false,
    });
    let results: Vec<Message> = results.collect();
    messages.push(Message::Assistant {
        text: reply.text.clone(),
        calls: reply.calls.clone(),
        native: reply.native.clone(),
    });
    messages.extend(results);
    let answer = ask(provider, prompt(messages)).await.map_err(failed)?;
    *usage += answer.usage;
    let took = reply.took + answer.took;
    let digits: String = answer.text.chars().filter(char::is_ascii_digit).collect();
    Ok(if digits.contains(&number) {
        let code = excerpt(&code);
        let words = format!("it called {} with {code}, and read the result", call.name);
        finding(Grade::Good, words, took)
    } else {
        let said = excerpt(&answer.text);
        let words = format!("it made a call, but did not read the result {number}: {said}");
        finding(Grade::Bad, words, took)
    })
}

async fn vision(target: &Target, info: &ModelInfo, usage: &mut Usage) -> Finding {
    let finding = |grade, words: String, took| Finding {
        what: "vision",
        grade,
        words,
        took,
    };
    if !info.vision && info.known {
        let words = "as far as known it reads no pictures; plots go to it as words";
        return finding(Grade::NotTried, words.to_owned(), None);
    }
    let Some(seeing) = &target.seeing else {
        return finding(
            Grade::NotTried,
            "local models read no pictures".to_owned(),
            None,
        );
    };
    let Some(data) = red_square() else {
        return finding(Grade::NotTried, "no picture could be made".to_owned(), None);
    };
    let picture = Part::Image {
        media_type: "image/png",
        data,
    };
    let question = "Which colour fills this picture? Answer with one word.";
    let prompt = Prompt {
        tools: Vec::new(),
        ..prompt(vec![user(vec![Part::Text(question.to_owned()), picture])])
    };
    match ask(seeing, prompt).await {
        Ok(reply) => {
            *usage += reply.usage;
            let said = excerpt(&reply.text);
            if reply.text.to_lowercase().contains("red") {
                finding(
                    Grade::Good,
                    format!("a red square is: {said}"),
                    Some(reply.took),
                )
            } else {
                let words = format!("a red square is, for it: {said}");
                finding(Grade::Bad, words, Some(reply.took))
            }
        }
        Err(error) => finding(Grade::Bad, error.to_string(), None),
    }
}

fn counting(info: &ModelInfo, usage: &Usage) -> Finding {
    let (grade, words) = if usage.input == 0 && usage.output == 0 {
        (
            Grade::Bad,
            "the server counts no tokens, so no budget can be kept".to_owned(),
        )
    } else {
        let cost = info.price.map_or_else(
            || "at a price that is not known".to_owned(),
            |price| format!("${:.4}", price.cost(usage)),
        );
        let words = format!("{} tokens in, {} out, {cost}", usage.input, usage.output);
        (Grade::Good, words)
    };
    Finding {
        what: "usage",
        grade,
        words,
        took: None,
    }
}

/// A PNG of 64 by 64 red pixels.
fn red_square() -> Option<Bytes> {
    let square = RgbImage::from_pixel(64, 64, Rgb([220, 20, 20]));
    let mut png = std::io::Cursor::new(Vec::new());
    square.write_to(&mut png, ImageFormat::Png).ok()?;
    Some(png.into_inner().into())
}

fn offer() -> KernelOffer {
    KernelOffer {
        kernel: "python3".to_owned(),
        language: "python".to_owned(),
    }
}

fn user(parts: Vec<Part>) -> Message {
    Message::User(parts)
}

fn prompt(messages: Vec<Message>) -> Prompt {
    Prompt {
        system: "You are being tested. Be brief.".to_owned(),
        messages,
        tools: vec![tools::run_code(&[offer()], tools::SqlOffer::None)],
        tool_choice: ToolChoice::Auto,
        max_output_tokens: None,
        temperature: None,
        reply_schema: None,
    }
}

async fn ask(provider: &Arc<dyn Provider>, prompt: Prompt) -> Result<Reply, ProviderError> {
    let begun = Instant::now();
    let mut reply = Reply::default();
    let mut deltas = provider.stream(prompt);
    while let Some(delta) = deltas.next().await {
        match delta? {
            Delta::Text(text) => {
                reply.first.get_or_insert_with(|| begun.elapsed());
                reply.pieces += 1;
                reply.text.push_str(&text);
            }
            Delta::CallStart { id, name, .. } => reply.calls.push(ToolCall {
                after: 0,
                id,
                name,
                arguments: String::new(),
            }),
            Delta::CallArguments { index, fragment } => {
                reply.first.get_or_insert_with(|| begun.elapsed());
                reply.pieces += 1;
                if let Some(call) = reply.calls.get_mut(index) {
                    call.arguments.push_str(&fragment);
                }
            }
            Delta::Reasoning(_) => {}
            Delta::Native(native) => reply.native = Some(native),
            Delta::Retrying(again) => {
                reply = Reply::default();
                let words = format!(
                    "note: {}; trying again in {} s, {} of {}\n",
                    again.error,
                    again.wait.as_secs().max(1),
                    again.attempt,
                    again.of
                );
                eprint(&paint(WARN, &filter::plain(&words), stderr_colours()));
            }
            Delta::Finished { usage, .. } => reply.usage = usage,
        }
    }
    reply.took = begun.elapsed();
    Ok(reply)
}

fn failed(error: ProviderError) -> Failure {
    let failure = Failure::new(FailureKind::Provider, error.to_string());
    match error {
        ProviderError::Unauthorized {
            variable: Some(variable),
            ..
        } => failure.hint(format!("check the key in `{variable}`")),
        _ => failure,
    }
}

fn line(finding: &Finding, colours: bool) -> String {
    let (mark, style) = match finding.grade {
        Grade::Good => ("ok", GOOD),
        Grade::Bad => ("no", BAD),
        Grade::NotTried => ("-", DIM),
    };
    let took = finding
        .took
        .map(|took| format!(" ({})", seconds(took)))
        .unwrap_or_default();
    let mark = paint(style, &format!("{mark:<3}"), colours);
    let words = filter::code(&finding.words);
    format!("{mark} {:<10} {words}{took}\n", finding.what)
}

fn report(info: &ModelInfo, target: &Target, findings: &[Finding]) -> Value {
    let checks: Vec<Value> = findings
        .iter()
        .map(|finding| {
            json!({
                "check": finding.what,
                "works": match finding.grade {
                    Grade::Good => json!(true),
                    Grade::Bad => json!(false),
                    Grade::NotTried => Value::Null,
                },
                "words": finding.words,
                "seconds": finding.took.map(|took| took.as_secs_f64()),
            })
        })
        .collect();
    json!({"model": info.name, "base_url": target.base_url, "checks": checks})
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// The start of the text, on one line and in quotes.
fn excerpt(text: &str) -> String {
    const LONG: usize = 60;
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().take(LONG).collect();
    let more = if short.len() < line.len() { "…" } else { "" };
    format!("`{short}{more}`")
}
