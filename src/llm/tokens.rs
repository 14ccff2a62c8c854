//! How many tokens a prompt has, before anybody counted it; and how many fit.
//!
//! No tokenizer is at hand: each model has its own. Text is weighed by rules that come near what tokenizers do with
//! prose, code and tables, and a [`Meter`] learns from what the provider counted how much the weight is in this
//! model's tokens. Pure.

use super::types::{Message, Part, Prompt};

/// Weight of a picture: about what a plot of 1024 pixels costs at the usual providers, which count by area or tiles.
const PICTURE: u64 = 1_100;
/// Weight of what wires put around a message.
const ENVELOPE: u64 = 4;
/// Weight of what they put around a call.
const CALL: u64 = 12;
/// Bytes to a token of what a provider wants back of a reply: reasoning is text, signatures and ids count for little.
const KEPT: u64 = 8;

/// The window of a model that nobody knows, in tokens: what most have at least. One that has less says so
/// ([`window_in`]).
pub const ASSUMED_WINDOW: u64 = 128_000;

/// The weight of a prompt, about its tokens.
pub fn weigh(prompt: &Prompt) -> u64 {
    weigh_fixed(prompt) + weigh_messages(&prompt.messages)
}

/// The weight of what is no message: system prompt and tools.
pub fn weigh_fixed(prompt: &Prompt) -> u64 {
    let tools: u64 = prompt
        .tools
        .iter()
        .map(|tool| {
            CALL + weigh_text(&tool.name)
                + weigh_text(&tool.description)
                + weigh_text(&tool.parameters.to_string())
        })
        .sum();
    ENVELOPE + weigh_text(&prompt.system) + tools
}

/// The weight of messages.
pub fn weigh_messages(messages: &[Message]) -> u64 {
    let parts = |parts: &[Part]| -> u64 {
        parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => weigh_text(text),
                Part::Image { .. } => PICTURE,
            })
            .sum()
    };
    messages
        .iter()
        .map(|message| {
            ENVELOPE
                + match message {
                    Message::User(all) => parts(all),
                    Message::ToolResult { parts: all, .. } => CALL + parts(all),
                    Message::Assistant {
                        text,
                        calls,
                        native,
                    } => {
                        let calls = calls.iter();
                        let native = native.as_ref();
                        let kept = native.map_or(0, |kept| kept.value().to_string().len() as u64);
                        weigh_text(text)
                            + kept / KEPT
                            + calls
                                .map(|call| CALL + weigh_text(&call.arguments))
                                .sum::<u64>()
                    }
                }
        })
        .sum()
}

/// What a character is to a tokenizer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    Space,
    Mark,
    /// Letters of other scripts that are written with spaces.
    Foreign,
    /// Scripts with a character a word, and pictures.
    Dense,
}

fn class(c: char) -> Class {
    match c {
        'a'..='z' | 'A'..='Z' => Class::Letter,
        '0'..='9' => Class::Digit,
        _ if c.is_whitespace() => Class::Space,
        _ if c.is_ascii() => Class::Mark,
        _ if c < '\u{1100}' => Class::Foreign,
        _ => Class::Dense,
    }
}

/// The weight of a text. Runs of one kind of character are tokens or a few: words have about six letters to a token,
/// numbers three digits, and a space before a word costs nothing.
pub fn weigh_text(text: &str) -> u64 {
    let mut weight = 0;
    let mut run: Option<(Class, char, u64)> = None;
    for c in text.chars() {
        let class = class(c);
        match &mut run {
            Some((last, _, length)) if *last == class => *length += 1,
            _ => {
                weight += run.map_or(0, of_run);
                run = Some((class, c, 1));
            }
        }
    }
    weight + run.map_or(0, of_run)
}

fn of_run((class, first, length): (Class, char, u64)) -> u64 {
    match class {
        Class::Letter => length.div_ceil(6),
        Class::Space if first == ' ' && length == 1 => 0,
        Class::Space => length.div_ceil(16),
        Class::Digit | Class::Mark | Class::Foreign => length.div_ceil(3),
        Class::Dense => length,
    }
}

/// Learns how a model counts: its tokens as a straight line of our weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    /// Tokens for a thousand units of weight.
    slope: i64,
    /// Tokens that are there whatever the prompt is: a server's own template, examples.
    offset: i64,
    /// Weight and tokens of an earlier prompt, far enough from the next to take a slope from.
    anchor: Option<(i64, i64)>,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            // Until something is known, rather too many.
            slope: 1150,
            offset: 0,
            anchor: None,
        }
    }
}

impl Meter {
    /// Weights closer than this say nothing about a slope.
    const FAR: i64 = 400;

    /// The provider counted `tokens` for a prompt of this weight. Numbers that cannot be (no usage, or only the part
    /// that was not cached) are ignored.
    pub fn observe(&mut self, weight: u64, tokens: u64) {
        let (Ok(weight), Ok(tokens)) = (i64::try_from(weight), i64::try_from(tokens)) else {
            return;
        };
        if weight <= 0 || tokens.saturating_mul(10) < weight.saturating_mul(4) {
            return;
        }
        match self.anchor {
            None => {
                self.slope = (tokens * 1000 / weight).clamp(700, 1500);
                self.anchor = Some((weight, tokens));
            }
            Some((before, counted)) if (weight - before).abs() >= Self::FAR => {
                let slope = ((tokens - counted) * 1000 / (weight - before)).clamp(600, 2500);
                self.slope = i64::midpoint(self.slope, slope);
                self.anchor = Some((weight, tokens));
            }
            Some(_) => {}
        }
        self.offset = tokens - weight.saturating_mul(self.slope) / 1000;
    }

    /// Tokens of a prompt of this weight, as far as can be told.
    pub fn tokens(&self, weight: u64) -> u64 {
        let weight = i64::try_from(weight).unwrap_or(i64::MAX / 4000);
        let tokens = weight
            .saturating_mul(self.slope)
            .saturating_div(1000)
            .saturating_add(self.offset);
        u64::try_from(tokens).unwrap_or_default()
    }
}

/// Tokens of a prompt beyond which a window has too little room for the reply.
pub fn limit_of(window: u64) -> u64 {
    const LEAST: u64 = 512;
    const MOST: u64 = 24_000;
    window - (window / 5).clamp(LEAST, MOST).min(window / 2)
}

/// The window that a server names when it refuses a prompt as too long.
pub fn window_in(message: &str) -> Option<u64> {
    /// What stands before the number: OpenAI and vLLM, LM Studio, Gemini, llama-server, xAI, vLLM, Anthropic.
    const BEFORE: [&str; 9] = [
        "maximum context length is ",
        "context length of only ",
        "tokens allowed (",
        "available context size (",
        "maximum prompt length is ",
        "maximum model length of ",
        "context length of ",
        "context window of ",
        " > ",
    ];
    let text = message.to_ascii_lowercase();
    let named = BEFORE.iter().find_map(|start| {
        let (_, after) = text.split_once(start)?;
        number(after)
    });
    // Mistral: "too large for model with 32768 maximum context length".
    named
        .or_else(|| {
            let (_, after) = text.split_once("too large for model with ")?;
            number(after)
        })
        .filter(|window| *window > 0)
}

/// The number that a text begins with, with or without separators.
fn number(text: &str) -> Option<u64> {
    let digits: String = text
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '_'))
        .filter(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_texts() {
        for (text, weight) in [
            ("", 0),
            ("the mean is", 3),
            ("internationalisation", 4),
            ("3.14159", 4),
            ("x = df['rain'].mean()", 8),
            ("        return 1\n", 4),
            ("----------------", 6),
            ("Überraschung", 3),
            ("日本語", 3),
        ] {
            assert_eq!(weigh_text(text), weight, "{text:?}");
        }
    }

    #[test]
    fn a_meter_learns_slope_and_offset() {
        let mut meter = Meter::default();
        assert_eq!(meter.tokens(1000), 1150);
        // A model that needs a third more, and a template of 900 tokens.
        let real = |weight: u64| 900 + weight * 4 / 3;
        for weight in (1000..12_000).step_by(450) {
            meter.observe(weight, real(weight));
        }
        for weight in [2000, 12_000, 16_000] {
            let (told, is) = (meter.tokens(weight), real(weight));
            assert!(
                told.abs_diff(is) * 50 <= is,
                "{weight}: {told} and not {is}"
            );
        }
    }

    #[test]
    fn numbers_that_cannot_be_are_ignored() {
        let mut meter = Meter::default();
        for (weight, tokens) in [(1000, 0), (1000, 10), (0, 1000), (5000, 1500)] {
            meter.observe(weight, tokens);
        }
        assert_eq!(meter, Meter::default());
    }

    #[test]
    fn a_reply_has_room() {
        for (window, limit) in [
            (0, 0),
            (600, 300),
            (2048, 1536),
            (4096, 3277),
            (16_384, 13_108),
            (200_000, 176_000),
            (1_000_000, 976_000),
        ] {
            assert_eq!(limit_of(window), limit, "{window}");
        }
    }

    #[test]
    fn servers_name_their_window() {
        for (message, window) in [
            (
                "This model's maximum context length is 128000 tokens. However, you requested 130000 tokens (126000 in the messages, 4000 in the completion).",
                Some(128_000),
            ),
            (
                "prompt is too long: 208310 tokens > 200000 maximum",
                Some(200_000),
            ),
            (
                "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
                Some(200_000),
            ),
            (
                "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            (
                "request (9021 tokens) exceeds the available context size (8192 tokens), try increasing it",
                Some(8192),
            ),
            (
                "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32,768 maximum context length",
                Some(32_768),
            ),
            ("context_length_exceeded", None),
            ("Input is too long for requested model.", None),
        ] {
            assert_eq!(window_in(message), window, "{message}");
        }
    }
}
