//! Estimates how many tokens a prompt has, and how many fit.
//!
//! No tokenizer is available: each model has its own. Text is weighed by rules that approximate what tokenizers do with
//! prose, code and tables, and a [`Meter`] learns from the provider's counts how to convert weight to this model's
//! tokens. Pure.

use super::types::{Message, Part, Prompt};

/// Weight of a picture: about what a plot of 1024 pixels costs at the usual providers, which count by area or tiles.
const PICTURE: u64 = 1_100;
/// Weight of a message's wire overhead.
const ENVELOPE: u64 = 4;
/// Weight of a call's wire overhead.
const CALL: u64 = 12;
/// Bytes per token of a native reply: reasoning is text, signatures and ids count little.
const KEPT: u64 = 8;

/// The assumed window of an unknown model, in tokens: most have at least this. A server with a smaller one reports it
/// ([`window_in`]).
pub const ASSUMED_WINDOW: u64 = 128_000;

/// The weight of a prompt, roughly its tokens.
pub fn weigh(prompt: &Prompt) -> u64 {
    weigh_fixed(prompt) + weigh_messages(&prompt.messages)
}

/// The weight of the system prompt and the tools.
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

/// Character classes as tokenizers treat them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Letter,
    Digit,
    Space,
    Mark,
    /// Letters of other scripts that are written with spaces.
    Foreign,
    /// Scripts with one character per word, and pictographs.
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

/// The weight of a text. A run of one character class is one or a few tokens: about six letters per token, three digits
/// per token, and a space before a word is free.
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

/// Learns how a model counts: tokens as a linear function of our weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Meter {
    /// Tokens per thousand units of weight.
    slope: i64,
    /// Tokens independent of the prompt: a server's own template, examples.
    offset: i64,
    /// Weight and tokens of an earlier prompt, far enough from the next to compute a slope.
    anchor: Option<(i64, i64)>,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            // Initially a slight overestimate.
            slope: 1150,
            offset: 0,
            anchor: None,
        }
    }
}

impl Meter {
    /// Weights closer than this are too noisy for a slope.
    const FAR: i64 = 400;

    /// Records that the provider counted `tokens` for a prompt of this weight. Implausible numbers (no usage, or only
    /// the uncached part) are ignored.
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

    /// Estimated tokens of a prompt of this weight.
    pub fn tokens(&self, weight: u64) -> u64 {
        let weight = i64::try_from(weight).unwrap_or(i64::MAX / 4000);
        let tokens = weight
            .saturating_mul(self.slope)
            .saturating_div(1000)
            .saturating_add(self.offset);
        u64::try_from(tokens).unwrap_or_default()
    }
}

/// Maximum prompt tokens that leave room for the reply in a window.
pub fn limit_of(window: u64) -> u64 {
    const LEAST: u64 = 512;
    const MOST: u64 = 24_000;
    window - (window / 5).clamp(LEAST, MOST).min(window / 2)
}

/// The window named in a server's refusal of a prompt that is too long.
pub fn window_in(message: &str) -> Option<u64> {
    /// Text before the number: OpenAI and vLLM, LM Studio, Gemini, llama-server, xAI, vLLM, Anthropic.
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

/// The number at the start of a text, with or without separators.
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
        // A model that counts a third more, with a template of 900 tokens.
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
