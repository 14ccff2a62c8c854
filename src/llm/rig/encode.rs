//! A [`Prompt`] as the library's request.

use std::collections::HashMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rig_core::completion::{
    CacheRetention, CompletionRequest, GenerationOptions, OnUnsupported, ToolDefinition,
};
use rig_core::message::{
    AssistantContent, AssistantMessage, CallId, DocumentSourceKind, EmptyToolName, Image,
    ImageMediaType, Message as RigMessage, Text, ToolCall as RigCall, ToolFunction, ToolName,
    ToolResult, ToolResultContent, UserContent,
};
use rig_core::schemars::Schema;
use serde_json::{Map, Value, json};

use super::super::types::{Message, ModelInfo, Part, Prompt, ToolCall, ToolSpec};
use super::native;
use super::wires::Wire;

/// Replaces a picture that the model cannot see.
const UNSEEN: &str = "(a picture, which you cannot see)";

/// Replaces a missing tool name: in a result without its call, or a call without a name.
const UNNAMED: &str = "unknown";

/// The request for `prompt`, or why it cannot be made.
pub(super) fn request(
    prompt: &Prompt,
    wire: Wire,
    info: &ModelInfo,
    extra: &Map<String, Value>,
) -> Result<CompletionRequest, String> {
    let mut history = history(&prompt.messages, info.vision).map_err(|error| error.to_string())?;
    let last = history.pop().ok_or("the conversation is empty")?;
    let tools = prompt.tools.iter().map(tool).collect::<Result<_, _>>();
    let has_tools = !prompt.tools.is_empty();

    let mut request = CompletionRequest::new(last)
        .messages(history)
        .options(options(wire, has_tools))
        .tools(tools.map_err(|error| error.to_string())?)
        .temperature(prompt.temperature)
        .max_tokens(prompt.max_output_tokens)
        // We judge unknown reasons ourselves, see `decode`.
        .accept_unknown_finish_reasons(true);
    if !prompt.system.is_empty() {
        request = request.preamble(prompt.system.as_str());
    }
    let schema = prompt.reply_schema.as_ref();
    if let Some(schema) = schema
        && !matches!(wire, Wire::Chat { .. })
    {
        let schema = Schema::try_from(schema.clone()).map_err(|error| error.to_string())?;
        request = request.output_schema(schema);
    }
    let body = body_fields(wire, has_tools, info, schema, extra);
    if !body.is_empty() {
        request = request.additional_params(Value::Object(body));
    }
    Ok(request)
}

/// Options for hosted models, whose abilities the library knows; options a model refuses are left out.
fn options(wire: Wire, has_tools: bool) -> GenerationOptions {
    let mut options = match wire {
        // Any option here would make the library second-guess servers it does not know.
        Wire::Chat { .. } | Wire::Gemini | Wire::Ollama => return GenerationOptions::new(),
        Wire::Responses => GenerationOptions::new(),
        Wire::Anthropic => GenerationOptions::new().cache(CacheRetention::Short),
    };
    options.on_unsupported = Some(OnUnsupported::Ignore);
    if has_tools {
        // One kernel runs one cell at a time.
        options = options.parallel_tool_calls(false);
    }
    options
}

/// Fields that the library does not support.
fn body_fields(
    wire: Wire,
    has_tools: bool,
    info: &ModelInfo,
    schema: Option<&Value>,
    extra: &Map<String, Value>,
) -> Map<String, Value> {
    let mut body = Map::new();
    match wire {
        Wire::Chat { serial_calls } => {
            if serial_calls && has_tools {
                body.insert("parallel_tool_calls".to_owned(), Value::Bool(false));
            }
            // Not through the library's own field: it rewrites schemas to OpenAI's strict subset, which does not allow
            // `anyOf` at the root.
            if let Some(schema) = schema {
                let format = json!({
                    "type": "json_schema",
                    "json_schema": {"name": "reply", "strict": true, "schema": schema},
                });
                body.insert("response_format".to_owned(), format);
            }
            body.extend(extra.clone());
        }
        // The provider should not store conversations.
        Wire::Responses => {
            body.insert("store".to_owned(), Value::Bool(false));
        }
        // Otherwise the daemon silently truncates long prompts at its small default.
        Wire::Ollama => {
            if let Some(window) = info.context_window {
                body.insert("options".to_owned(), json!({ "num_ctx": window }));
            }
        }
        Wire::Anthropic | Wire::Gemini => {}
    }
    body
}

fn tool(spec: &ToolSpec) -> Result<ToolDefinition, EmptyToolName> {
    let name = tool_name(&spec.name)?;
    let description = spec.description.as_str();
    Ok(ToolDefinition::new(
        name,
        description,
        spec.parameters.clone(),
    ))
}

/// Converts the conversation. Consecutive results become one message, because some wires require it. Empty messages are
/// left out, because some wires refuse them.
fn history(messages: &[Message], vision: bool) -> Result<Vec<RigMessage>, EmptyToolName> {
    let mut known: HashMap<&str, (CallId, ToolName)> = HashMap::new();
    let mut history = Vec::with_capacity(messages.len());
    let mut results: Vec<UserContent> = Vec::new();
    for message in messages {
        if let Message::ToolResult {
            call_id,
            parts,
            is_error,
        } = message
        {
            let (call, name) = match known.get(call_id.as_str()) {
                Some(known) => known.clone(),
                None => (CallId::from_wire(call_id.as_str()), tool_name("")?),
            };
            results.push(UserContent::ToolResult(ToolResult {
                call,
                name,
                content: result_content(parts, vision),
                is_error: *is_error,
            }));
            continue;
        }
        push(&mut history, &mut results);
        match message {
            Message::ToolResult { .. } => {}
            Message::User(parts) => {
                let mut content = parts
                    .iter()
                    .map(|part| user_content(part, vision))
                    .collect();
                push(&mut history, &mut content);
            }
            Message::Assistant {
                text,
                calls,
                native,
            } => {
                let turn = native
                    .as_ref()
                    .and_then(|native| native::turn(native, text, calls));
                let turn = match turn {
                    Some(turn) => turn,
                    None => AssistantMessage::new(assistant_content(text, calls)?),
                };
                // Results must name the call as the reply does; a native reply has the provider's ids instead of ours.
                known.extend(calls.iter().zip(turn.tool_calls()).map(|(ours, theirs)| {
                    let name = theirs.function.name.clone();
                    (ours.id.as_str(), (theirs.id.clone(), name))
                }));
                if !turn.content.is_empty() {
                    history.push(RigMessage::Assistant(turn));
                }
            }
        }
    }
    push(&mut history, &mut results);
    Ok(history)
}

fn push(history: &mut Vec<RigMessage>, content: &mut Vec<UserContent>) {
    if !content.is_empty() {
        history.push(RigMessage::User {
            content: std::mem::take(content),
        });
    }
}

fn assistant_content(
    text: &str,
    calls: &[ToolCall],
) -> Result<Vec<AssistantContent>, EmptyToolName> {
    let mut content = Vec::with_capacity(calls.len() + 1);
    if !text.is_empty() {
        content.push(AssistantContent::Text(Text::new(text)));
    }
    for call in calls {
        // Wires require an object here, so malformed arguments are repaired when they are sent back; the tool result
        // that follows says what was wrong.
        let function = ToolFunction::parse(tool_name(&call.name)?, &call.arguments);
        let call = RigCall::from_wire(call.id.as_str(), function);
        content.push(AssistantContent::ToolCall(call));
    }
    Ok(content)
}

fn user_content(part: &Part, vision: bool) -> UserContent {
    match part {
        Part::Text(text) => UserContent::Text(Text::new(text)),
        Part::Image { media_type, data } if vision => UserContent::Image(image(media_type, data)),
        Part::Image { .. } => UserContent::Text(Text::new(UNSEEN)),
    }
}

fn result_content(parts: &[Part], vision: bool) -> Vec<ToolResultContent> {
    let mut content: Vec<ToolResultContent> = parts
        .iter()
        .map(|part| match part {
            Part::Text(text) => ToolResultContent::Text(Text::new(text)),
            Part::Image { media_type, data } if vision => {
                ToolResultContent::Image(image(media_type, data))
            }
            Part::Image { .. } => ToolResultContent::Text(Text::new(UNSEEN)),
        })
        .collect();
    if content.is_empty() {
        content.push(ToolResultContent::Text(Text::new("")));
    }
    content
}

fn image(media_type: &str, data: &[u8]) -> Image {
    Image {
        data: DocumentSourceKind::Base64(BASE64_STANDARD.encode(data)),
        media_type: Some(match media_type {
            "image/jpeg" => ImageMediaType::JPEG,
            _ => ImageMediaType::PNG,
        }),
        ..Image::default()
    }
}

fn tool_name(name: &str) -> Result<ToolName, EmptyToolName> {
    ToolName::new(if name.is_empty() { UNNAMED } else { name })
}
