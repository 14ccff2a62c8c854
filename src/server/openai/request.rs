//! Parses a request for a response, and rejects what this server does not support.

use serde_json::{Map, Value, json};

use super::super::problem::Problem;
use super::containers::reach_of;
use super::ids::random;
use super::input::Input;
use super::{Refused, unsupported};
use crate::app::containers::Reach;

/// A parsed request.
pub(super) struct Wanted {
    pub(super) id: String,
    pub(super) model: Option<String>,
    pub(super) input: Input,
    pub(super) input_items: Vec<Value>,
    pub(super) streams: bool,
    pub(super) stores: bool,
    pub(super) previous: Option<String>,
    pub(super) place: Place,
    pub(super) shows_outputs: bool,
    /// Fields of the response that repeat the request.
    pub(super) head: Map<String, Value>,
}

/// The container for code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Place {
    /// The previous one, or a new one with this network access.
    Auto(Reach),
    /// This container.
    Container(String),
}

impl Wanted {
    /// Parses a request.
    pub(super) fn of(body: &Value) -> Result<Self, Refused> {
        let Value::Object(fields) = body else {
            return Err(Problem::bad_request("the body is not an object").into());
        };
        let field = |name: &str| fields.get(name).filter(|it| !it.is_null());
        let text = |name: &str| field(name).and_then(Value::as_str).map(str::to_owned);
        let is = |name: &str| field(name).and_then(Value::as_bool);
        refuse(fields)?;
        let empty = Value::from("");
        let input = field("input").unwrap_or(&empty);
        let mut read = Input::of(input)?;
        let place = place_of(field("tools"), &mut read)?;
        if let Some(instructions) = text("instructions") {
            read.instructions = [instructions, read.instructions]
                .into_iter()
                .filter(|it| !it.is_empty())
                .collect::<Vec<_>>()
                .join("\n\n");
        }
        let include = field("include").and_then(Value::as_array);
        let shows_outputs =
            include.is_some_and(|it| it.contains(&Value::from("code_interpreter_call.outputs")));
        let id = format!("resp_{}", random());
        let or = |name: &str, usual: Value| field(name).cloned().unwrap_or(usual);
        let stores = is("store").unwrap_or(true);
        let head = json!({
            "id": id,
            "object": "response",
            "created_at": jiff::Timestamp::now().as_second(),
            "background": false,
            "instructions": or("instructions", Value::Null),
            "max_output_tokens": or("max_output_tokens", Value::Null),
            "metadata": or("metadata", json!({})),
            "model": or("model", super::models::OWN.into()),
            "parallel_tool_calls": or("parallel_tool_calls", true.into()),
            "previous_response_id": or("previous_response_id", Value::Null),
            "reasoning": or("reasoning", json!({ "effort": null, "summary": null })),
            "store": stores,
            "temperature": or("temperature", json!(1.0)),
            "text": or("text", json!({ "format": { "type": "text" } })),
            "tool_choice": or("tool_choice", "auto".into()),
            "tools": or("tools", json!([])),
            "top_p": or("top_p", json!(1.0)),
            "truncation": or("truncation", "disabled".into()),
            "user": or("user", Value::Null),
        });
        let Value::Object(head) = head else {
            return Err(Problem::internal("the response has no fields").into());
        };
        Ok(Self {
            id,
            model: text("model"),
            input_items: items_of(input),
            input: read,
            streams: is("stream").unwrap_or(false),
            stores,
            previous: text("previous_response_id"),
            place,
            shows_outputs,
            head,
        })
    }
}

/// Rejects options that would be answered differently than the program expects.
fn refuse(fields: &Map<String, Value>) -> Result<(), Refused> {
    let field = |name: &str| fields.get(name).filter(|it| !it.is_null());
    if field("background").and_then(Value::as_bool) == Some(true) {
        return Err(unsupported("`background: true`"));
    }
    for name in ["conversation", "prompt", "context_management"] {
        if field(name).is_some() {
            return Err(unsupported(&format!("`{name}`")));
        }
    }
    let format = field("text").and_then(|it| it.get("format")?.get("type")?.as_str());
    if format.is_some_and(|it| it != "text") {
        return Err(unsupported("a `text.format` other than text"));
    }
    let choice = field("tool_choice").and_then(Value::as_str);
    if choice == Some("none") {
        return Err(unsupported("`tool_choice: none`"));
    }
    Ok(())
}

/// The container that the tools ask for.
fn place_of(tools: Option<&Value>, input: &mut Input) -> Result<Place, Refused> {
    let mut place = Place::Auto(Reach::Permitted);
    for tool in tools.and_then(Value::as_array).into_iter().flatten() {
        let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind != "code_interpreter" {
            return Err(unsupported(&format!("the tool `{kind}`")));
        }
        match tool.get("container") {
            None | Some(Value::Null) => {}
            Some(Value::String(id)) => place = Place::Container(id.clone()),
            Some(auto) => {
                if auto.get("type").and_then(Value::as_str) != Some("auto") {
                    let message = "the container of a tool is an id, or an object of type `auto`";
                    return Err(Problem::bad_request(message).into());
                }
                let ids = auto.get("file_ids").and_then(Value::as_array);
                let ids = ids.into_iter().flatten().filter_map(Value::as_str);
                input.file_ids.extend(ids.map(str::to_owned));
                place = Place::Auto(reach_of(auto.get("network_policy"))?);
            }
        }
    }
    Ok(place)
}

/// The input as items with ids.
fn items_of(input: &Value) -> Vec<Value> {
    let with_id = |mut item: Value| {
        if let Value::Object(fields) = &mut item {
            fields
                .entry("id")
                .or_insert_with(|| format!("msg_{}", random()).into());
            fields.entry("type").or_insert_with(|| "message".into());
            let text = fields.get("content").and_then(Value::as_str);
            if let Some(text) = text.map(str::to_owned) {
                fields.insert(
                    "content".to_owned(),
                    json!([{ "type": "input_text", "text": text }]),
                );
            }
        }
        item
    };
    match input {
        Value::Array(items) => items.iter().cloned().map(with_id).collect(),
        text => vec![with_id(json!({ "role": "user", "content": text }))],
    }
}
