//! A person's choices for a session: the model, and when to ask about code. They are sent as session config options;
//! the latter also as session modes, for clients that only support those.

use serde_json::{Value, json};

use crate::agent::approval::Approval;
use crate::agent::query::SessionStatus;
use crate::app::model::ListedModel;

/// Ids of the options.
pub(super) const MODE: &str = "mode";
pub(super) const MODEL: &str = "model";
/// Means no model.
const NONE: &str = "none";
/// Maximum models offered.
const MOST: usize = 200;

const MODES: [(Approval, &str, &str); 3] = [
    (
        Approval::OnRisk,
        "Ask about risk",
        "Ask before code runs that might do what the sandbox does not stop",
    ),
    (
        Approval::Always,
        "Always ask",
        "Ask before each cell of the model",
    ),
    (
        Approval::Never,
        "Never ask",
        "Run the model's code without asking; `forbid` rules still hold",
    ),
];

/// The modes, for `session/new` and `session/load`.
pub(super) fn modes(status: &SessionStatus) -> Value {
    let offered = MODES.iter();
    let offered: Vec<Value> = offered
        .map(|(approval, name, description)| json!({ "id": approval.name(), "name": name, "description": description }))
        .collect();
    json!({ "currentModeId": status.approval.name(), "availableModes": offered })
}

/// All options with their values.
pub(super) fn options(status: &SessionStatus, models: &[ListedModel]) -> Value {
    let offered = MODES.iter();
    let offered: Vec<Value> = offered
        .map(|(approval, name, description)| json!({ "value": approval.name(), "name": name, "description": description }))
        .collect();
    let current = status.model.as_deref().unwrap_or(NONE);
    let mut names: Vec<&str> = vec![current];
    for model in models {
        if !names.contains(&model.name.as_str()) {
            names.push(&model.name);
        }
    }
    let name_of = |name: &str| {
        if name == NONE {
            "No model".to_owned()
        } else {
            name.to_owned()
        }
    };
    let names: Vec<Value> = names
        .into_iter()
        .take(MOST)
        .map(|name| json!({ "value": name, "name": name_of(name) }))
        .collect();
    json!([
        {
            "id": MODE,
            "name": "Approval",
            "description": "When you are asked before code of the model runs",
            "category": "mode",
            "type": "select",
            "currentValue": status.approval.name(),
            "options": offered,
        },
        {
            "id": MODEL,
            "name": "Model",
            "description": "Who answers",
            "category": "model",
            "type": "select",
            "currentValue": current,
            "options": names,
        },
    ])
}

/// The approval policy that a client names.
pub(super) fn approval(id: &str) -> Option<Approval> {
    let mut modes = MODES.iter();
    modes
        .find(|(approval, ..)| approval.name() == id)
        .map(|(approval, ..)| *approval)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::Totals;
    use crate::agent::query::ContextUse;

    #[test]
    fn the_current_model_is_among_the_options() {
        let listed = |name: &str| ListedModel {
            name: name.to_owned(),
            source: "key",
        };
        let mut status = SessionStatus {
            model: Some("mine/small".to_owned()),
            context: ContextUse::default(),
            spent: Totals::default(),
            approval: Approval::Always,
            sandbox: String::new(),
            directory: String::new(),
            notebook: String::new(),
        };
        let names = |status: &SessionStatus| {
            let options = options(status, &[listed("openai/x"), listed("mine/small")]);
            let values = options[1]["options"].as_array().unwrap().iter();
            let values: Vec<String> = values
                .map(|it| it["value"].as_str().unwrap().to_owned())
                .collect();
            (options[1]["currentValue"].clone(), values.join(" "))
        };
        assert_eq!(
            names(&status),
            (json!("mine/small"), "mine/small openai/x".to_owned())
        );
        status.model = None;
        assert_eq!(
            names(&status),
            (json!("none"), "none openai/x mine/small".to_owned())
        );
        assert_eq!(modes(&status)["currentModeId"], "always");
        assert_eq!(approval("never"), Some(Approval::Never));
        assert_eq!(approval("ask"), None);
    }
}
