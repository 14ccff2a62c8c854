//! Converts notebooks between the file format, which stores text as lines, and Jupyter's clients, which use whole
//! strings.

use serde_json::{Map, Value};

use super::super::problem::Problem;
use crate::jupyter::nbformat::{Notebook, random_cell_id};

/// A notebook for a client.
pub(in crate::server) fn for_client(bytes: &[u8]) -> Result<Value, Problem> {
    let unreadable = |why: String| {
        Problem::bad_request(format!("this notebook cannot be read: {why}"))
            .hint("it can be opened as text")
    };
    let loaded = Notebook::read(bytes, &mut random_cell_id);
    let loaded = loaded.map_err(|error| unreadable(error.to_string()))?;
    let mut notebook: Value = serde_json::from_str(&loaded.notebook.to_json())
        .map_err(|error| unreadable(error.to_string()))?;
    each_cell(&mut notebook, |cell| {
        whole(cell.get_mut("source"));
        for output in items(cell.get_mut("outputs")) {
            whole(output.get_mut("text"));
            output.get_mut("data").into_iter().for_each(each_type);
        }
        for attached in members(cell.get_mut("attachments")) {
            each_type(attached);
        }
    });
    Ok(notebook)
}

/// The file for a client's notebook.
pub(super) fn for_file(mut notebook: Value) -> Result<Vec<u8>, Problem> {
    let unreadable = |why: String| Problem::bad_request(format!("this is no notebook: {why}"));
    each_cell(&mut notebook, |cell| {
        // Trust in outputs is not stored in a file that others can write.
        if let Some(Value::Object(metadata)) = cell.get_mut("metadata") {
            metadata.remove("trusted");
        }
    });
    let bytes = serde_json::to_vec(&notebook).map_err(|error| unreadable(error.to_string()))?;
    let loaded = Notebook::read(&bytes, &mut random_cell_id);
    let loaded = loaded.map_err(|error| unreadable(error.to_string()))?;
    Ok(loaded.notebook.to_json().into_bytes())
}

fn each_cell(notebook: &mut Value, mut change: impl FnMut(&mut Map<String, Value>)) {
    for cell in items(notebook.get_mut("cells")) {
        if let Value::Object(cell) = cell {
            change(cell);
        }
    }
}

/// JSON stays unchanged; other types are text.
fn each_type(bundle: &mut Value) {
    if let Value::Object(bundle) = bundle {
        for (mime, data) in bundle {
            if !(mime == "application/json" || mime.ends_with("+json")) {
                whole(Some(data));
            }
        }
    }
}

/// Joins lines into one text.
fn whole(text: Option<&mut Value>) {
    if let Some(text) = text
        && let Value::Array(lines) = &*text
        && let Some(lines) = lines.iter().map(Value::as_str).collect::<Option<Vec<_>>>()
    {
        *text = Value::from(lines.concat());
    }
}

fn items(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_array_mut).into_iter().flatten()
}

fn members(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    let object = value.and_then(Value::as_object_mut);
    object.into_iter().flat_map(|it| it.values_mut())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_notebook_survives_the_way_to_a_client_and_back() {
        let file = json!({
            "cells": [
                {
                    "attachments": {"a.txt": {"text/plain": ["x\n", "y"]}},
                    "cell_type": "markdown",
                    "id": "m",
                    "metadata": {},
                    "source": ["# one\n", "two"],
                },
                {
                    "cell_type": "code",
                    "execution_count": 1,
                    "id": "c",
                    "metadata": {"tags": ["t"]},
                    "outputs": [
                        {"name": "stdout", "output_type": "stream", "text": ["a\n", "b"]},
                        {
                            "data": {"application/json": ["kept", "so"], "text/html": ["<p>\n", "</p>"]},
                            "metadata": {},
                            "output_type": "display_data",
                        },
                    ],
                    "source": ["print()"],
                },
            ],
            "metadata": {"kernelspec": {"display_name": "P", "language": "python", "name": "python3"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        });
        let bytes = serde_json::to_vec(&file).unwrap();
        let mut client = for_client(&bytes).unwrap();
        assert_eq!(client["cells"][0]["source"], "# one\ntwo");
        assert_eq!(
            client["cells"][0]["attachments"]["a.txt"]["text/plain"],
            "x\ny"
        );
        assert_eq!(client["cells"][1]["outputs"][0]["text"], "a\nb");
        let data = &client["cells"][1]["outputs"][1]["data"];
        assert_eq!(
            data,
            &json!({"application/json": ["kept", "so"], "text/html": "<p>\n</p>"})
        );
        client["cells"][1]["metadata"]["trusted"] = json!(true);
        let back: Value = serde_json::from_slice(&for_file(client).unwrap()).unwrap();
        assert_eq!(back, file);
        assert!(for_client(b"{\"nbformat\": 9}").is_err());
        assert!(for_file(json!("no")).is_err());
    }
}
