//! OpenAI's pagination of lists: `after`, `limit`, `order`.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::super::problem::Problem;

/// Default and maximum entries of a page.
const USUAL: usize = 20;
const MOST: usize = 100;

/// Which part of a list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct Wanted {
    /// The id before the first entry.
    after: Option<String>,
    /// How many entries, 1 to 100.
    limit: Option<usize>,
    /// By time: `asc` or `desc`.
    order: Option<Order>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    Asc,
    Desc,
}

/// A page of `all`, whose entries have ids and are ordered latest first.
pub(super) fn page(mut all: Vec<Value>, wanted: &Wanted) -> Result<Value, Problem> {
    let limit = wanted.limit.unwrap_or(USUAL);
    if !(1..=MOST).contains(&limit) {
        return Err(Problem::bad_request(format!("limit is 1 to {MOST}")));
    }
    if wanted.order == Some(Order::Asc) {
        all.reverse();
    }
    let from = match &wanted.after {
        None => 0,
        Some(after) => {
            let at = all.iter().position(|it| it["id"] == after.as_str());
            at.map(|at| at + 1).ok_or_else(|| {
                Problem::bad_request("`after` is not the id of an entry of this list")
            })?
        }
    };
    let rest = all.split_off(from);
    let has_more = rest.len() > limit;
    let data: Vec<Value> = rest.into_iter().take(limit).collect();
    let id = |entry: Option<&Value>| entry.and_then(|it| it.get("id")).cloned();
    Ok(json!({
        "object": "list",
        "first_id": id(data.first()),
        "last_id": id(data.last()),
        "has_more": has_more,
        "data": data,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(page: &Value) -> Vec<&str> {
        let data = page["data"].as_array().unwrap();
        data.iter().map(|it| it["id"].as_str().unwrap()).collect()
    }

    #[test]
    fn pages_follow_each_other() {
        let all = || ["c", "b", "a"].map(|id| json!({ "id": id })).to_vec();
        let wanted = |after: Option<&str>, limit, order| Wanted {
            after: after.map(str::to_owned),
            limit,
            order,
        };
        let first = page(all(), &wanted(None, Some(2), None)).unwrap();
        assert_eq!(
            (ids(&first), &first["has_more"]),
            (vec!["c", "b"], &json!(true))
        );
        assert_eq!(first["last_id"], "b");
        let second = page(all(), &wanted(Some("b"), Some(2), None)).unwrap();
        assert_eq!(
            (ids(&second), &second["has_more"]),
            (vec!["a"], &json!(false))
        );
        let up = page(all(), &wanted(None, None, Some(Order::Asc))).unwrap();
        assert_eq!(ids(&up), ["a", "b", "c"]);
        let none = page(Vec::new(), &Wanted::default()).unwrap();
        assert_eq!(none["first_id"], Value::Null);
        assert!(page(all(), &wanted(Some("x"), None, None)).is_err());
        assert!(page(all(), &wanted(None, Some(0), None)).is_err());
    }
}
