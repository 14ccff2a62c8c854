//! Parses a program's input: the messages of both APIs with their text, pictures and files.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::super::problem::Problem;

/// Maximum messages of a request.
const MESSAGES: usize = 2000;
/// Maximum pictures and files of a question.
const ATTACHED: usize = 20;

/// A request's messages in the form for a session.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Input {
    /// Messages of the system and the developer.
    pub(super) instructions: String,
    /// The earlier messages.
    pub(super) history: Vec<Said>,
    /// The question.
    pub(super) question: String,
    /// Its attachments.
    pub(super) attached: Vec<Attached>,
    /// Its files from `/v1/files`.
    pub(super) file_ids: Vec<String>,
    /// The container in which code ran before.
    pub(super) container: Option<String>,
}

/// An earlier message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) by: Role,
    pub(super) text: String,
}

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    System,
    User,
    Assistant,
}

/// A picture or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Attached {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) is_picture: bool,
}

impl Input {
    /// `input` of a response, or `messages` of a chat.
    pub(super) fn of(input: &Value) -> Result<Self, Problem> {
        let items = match input {
            Value::String(text) => {
                let question = text.clone();
                return Self {
                    question,
                    ..Self::default()
                }
                .checked();
            }
            Value::Array(items) => items,
            _ => {
                return Err(Problem::bad_request(
                    "the input is neither text nor a list of messages",
                ));
            }
        };
        if items.len() > MESSAGES {
            return Err(Problem::bad_request(format!(
                "{MESSAGES} messages are the most"
            )));
        }
        let mut read = Self::default();
        let mut asked = Vec::new();
        for item in items {
            match item
                .get("type")
                .and_then(Value::as_str)
                .unwrap_or("message")
            {
                "message" => read.message(item, &mut asked)?,
                "code_interpreter_call" => {
                    let text = |name| item.get(name).and_then(Value::as_str).unwrap_or_default();
                    read.container = Some(text("container_id").to_owned());
                    read.answered(&mut asked, format!("(ran this code)\n{}", text("code")));
                }
                // Reasoning of another model is no part of the conversation.
                "reasoning" => {}
                other => {
                    let message = format!("input items of type `{other}` are not supported");
                    return Err(Problem::bad_request(message));
                }
            }
        }
        read.question = asked.join("\n\n");
        read.checked()
    }

    fn checked(self) -> Result<Self, Problem> {
        if self.question.trim().is_empty() && self.attached.is_empty() {
            return Err(Problem::bad_request(
                "there is no question: the last message must be the user's",
            ));
        }
        Ok(self)
    }

    /// Records that the user's messages so far were answered.
    fn answered(&mut self, asked: &mut Vec<String>, text: String) {
        let said = |by, text| Said { by, text };
        self.history
            .extend(asked.drain(..).map(|text| said(Role::User, text)));
        self.history.push(said(Role::Assistant, text));
        // Earlier pictures are not shown again.
        self.attached.clear();
    }

    fn message(&mut self, item: &Value, asked: &mut Vec<String>) -> Result<(), Problem> {
        let role = match item.get("role").and_then(Value::as_str) {
            Some("user") => Role::User,
            Some("assistant") => Role::Assistant,
            Some("system" | "developer") => Role::System,
            Some(other) => {
                let message = format!("messages of role `{other}` are not supported");
                return Err(Problem::bad_request(message));
            }
            None => return Err(Problem::bad_request("a message has no role")),
        };
        let text = match item.get("content") {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Array(parts)) => {
                let mut texts = Vec::new();
                for part in parts {
                    texts.extend(self.part(part)?);
                }
                texts.join("\n")
            }
            None | Some(Value::Null) => String::new(),
            Some(_) => {
                return Err(Problem::bad_request(
                    "the content of a message is neither text nor a list",
                ));
            }
        };
        match role {
            Role::System => {
                if !self.instructions.is_empty() {
                    self.instructions.push_str("\n\n");
                }
                self.instructions.push_str(&text);
            }
            Role::User => asked.push(text),
            Role::Assistant => self.answered(asked, text),
        }
        Ok(())
    }

    /// The text of a part, if it has any.
    fn part(&mut self, part: &Value) -> Result<Option<String>, Problem> {
        let field = |name| part.get(name).and_then(Value::as_str);
        match field("type") {
            Some("text" | "input_text" | "output_text") => {
                Ok(Some(field("text").unwrap_or_default().to_owned()))
            }
            Some("refusal") => Ok(field("refusal").map(str::to_owned)),
            Some("input_image" | "image_url") => {
                let url = part.get("image_url");
                let url = url.and_then(|it| it.as_str().or_else(|| it.get("url")?.as_str()));
                let (mime, bytes) = url.and_then(of_data_url).ok_or_else(|| {
                    Problem::bad_request("a picture is not a data URL")
                        .hint("send it as `data:image/png;base64,..`; addresses are not fetched")
                })?;
                let ending = match mime.as_str() {
                    "image/png" => "png",
                    "image/jpeg" | "image/jpg" => "jpg",
                    "image/gif" => "gif",
                    "image/webp" => "webp",
                    other => {
                        let message = format!("pictures of type `{other}` are not supported");
                        return Err(Problem::bad_request(message));
                    }
                };
                let name = format!("image-{}.{ending}", super::ids::random());
                self.attach(name, bytes, true)?;
                Ok(None)
            }
            Some("input_file" | "file") => {
                let file = part.get("file").unwrap_or(part);
                let field = |name| file.get(name).and_then(Value::as_str);
                if let Some(id) = field("file_id") {
                    self.file_ids.push(id.to_owned());
                    return Ok(None);
                }
                let data = field("file_data").ok_or_else(|| {
                    Problem::bad_request("a file has no `file_data`")
                        .hint("send its bytes in base64, or upload it into the container")
                })?;
                let bytes = of_data_url(data).map(|(_, bytes)| bytes);
                let bytes = bytes.or_else(|| STANDARD.decode(data).ok());
                let bytes = bytes
                    .ok_or_else(|| Problem::bad_request("`file_data` of a file is not base64"))?;
                let name = field("filename").unwrap_or("file").to_owned();
                self.attach(name, bytes, false)?;
                Ok(None)
            }
            other => {
                let other = other.unwrap_or_default();
                let message = format!("content of type `{other}` is not supported");
                Err(Problem::bad_request(message))
            }
        }
    }

    fn attach(&mut self, name: String, bytes: Vec<u8>, is_picture: bool) -> Result<(), Problem> {
        if self.attached.len() >= ATTACHED {
            let message = format!("{ATTACHED} pictures and files are the most for one question");
            return Err(Problem::bad_request(message));
        }
        self.attached.push(Attached {
            name,
            bytes,
            is_picture,
        });
        Ok(())
    }

    /// The text of the question, for a session that knows the history or not.
    pub(super) fn words(&self, knows_history: bool) -> String {
        let mut parts = Vec::new();
        if !self.instructions.trim().is_empty() {
            parts.push(format!("# Instructions\n{}", self.instructions.trim()));
        }
        if !knows_history && !self.history.is_empty() {
            let line = |said: &Said| {
                let who = match said.by {
                    Role::System => "System",
                    Role::User => "User",
                    Role::Assistant => "You",
                };
                format!("{who}: {}", said.text.trim())
            };
            let lines: Vec<String> = self.history.iter().map(line).collect();
            parts.push(format!("# The conversation so far\n{}", lines.join("\n\n")));
        }
        if parts.is_empty() {
            return self.question.clone();
        }
        parts.push(format!("# The question\n{}", self.question));
        parts.join("\n\n")
    }
}

/// MIME type and bytes of `data:TYPE;base64,..`.
fn of_data_url(url: &str) -> Option<(String, Vec<u8>)> {
    let (head, data) = url.strip_prefix("data:")?.split_once(',')?;
    let mime = head.strip_suffix(";base64")?;
    let mime = mime.split(';').next().unwrap_or(mime);
    Some((mime.to_ascii_lowercase(), STANDARD.decode(data).ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_last_messages_of_the_user_are_the_question() {
        let input = Input::of(&json!([
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "x = 1"},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "code_interpreter_call", "code": "x = 1", "container_id": "cntr_1"},
            {"role": "assistant", "content": [{"type": "output_text", "text": "Done."}]},
            {"role": "user", "content": [
                {"type": "input_text", "text": "And this?"},
                {"type": "input_image", "image_url": "data:image/png;base64,AAEC"},
                {"type": "input_file", "filename": "a.csv", "file_data": "YSxi"},
            ]},
        ]))
        .unwrap();
        assert_eq!(input.container.as_deref(), Some("cntr_1"));
        assert_eq!(input.attached[0].bytes, [0, 1, 2]);
        assert_eq!(input.attached[1].bytes, b"a,b");
        assert_eq!(
            input.words(false),
            "# Instructions\nBe brief.\n\n# The conversation so far\nUser: x = 1\n\nYou: (ran this code)\nx = 1\n\n\
             You: Done.\n\n# The question\nAnd this?"
        );
        assert_eq!(
            input.words(true),
            "# Instructions\nBe brief.\n\n# The question\nAnd this?"
        );
        assert_eq!(Input::of(&json!("hi")).unwrap().words(false), "hi");
        for wrong in [
            json!(""),
            json!(7),
            json!([]),
            json!([{"role": "assistant", "content": "hi"}]),
            json!([{"role": "tool", "content": "hi"}]),
            json!([{"role": "user", "content": [{"type": "input_audio"}]}]),
            json!([{"role": "user", "content": [{"type": "input_image", "image_url": "http://127.0.0.1/x.png"}]}]),
            json!([{"type": "function_call", "name": "f"}]),
        ] {
            assert!(Input::of(&wrong).is_err(), "{wrong}");
        }
    }
}
