//! papermill's metadata about a run, on the notebook and on each cell, for tools that read it (scrapbook, dashboards).
//!
//! Written only to notebooks with `metadata.papermill`, such as those with injected parameters.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::jupyter::nbformat::{Cell, Notebook};

const KEY: &str = "papermill";

/// The run begins.
pub(super) fn begin(notebook: &mut Notebook) {
    let Some(run) = of_notebook(notebook) else {
        return;
    };
    for (key, value) in [
        ("start_time", now()),
        ("end_time", Value::Null),
        ("duration", Value::Null),
        ("exception", Value::Null),
        (
            "version",
            json!(concat!("sponde ", env!("CARGO_PKG_VERSION"))),
        ),
    ] {
        run.insert(key.to_owned(), value);
    }
    for cell in &mut notebook.cells {
        let pending = json!({"duration": null, "end_time": null, "exception": null, "start_time": null, "status": "pending"});
        cell.metadata.insert(KEY.to_owned(), pending);
        cell.metadata.entry("tags").or_insert_with(|| json!([]));
    }
}

/// A cell begins.
pub(super) fn cell_begins(cell: &mut Cell) {
    if let Some(Value::Object(run)) = cell.metadata.get_mut(KEY) {
        run.insert("start_time".to_owned(), now());
        run.insert("exception".to_owned(), json!(false));
        run.insert("status".to_owned(), json!("running"));
    }
}

/// A cell is over.
pub(super) fn cell_ends(cell: &mut Cell, failed: bool) {
    if let Some(Value::Object(run)) = cell.metadata.get_mut(KEY) {
        ends(run);
        run.insert("exception".to_owned(), json!(failed));
        let status = if failed { "failed" } else { "completed" };
        run.insert("status".to_owned(), json!(status));
    }
}

/// The run has ended; it has passed this many cells.
pub(super) fn end(notebook: &mut Notebook, passed: usize, failed: bool) {
    let Some(run) = of_notebook(notebook) else {
        return;
    };
    ends(run);
    if failed {
        run.insert("exception".to_owned(), json!(true));
    }
    // Text and skipped cells are complete once the run has passed them.
    for cell in notebook.cells.iter_mut().take(passed) {
        if let Some(Value::Object(run)) = cell.metadata.get_mut(KEY)
            && run.get("status").is_some_and(|status| status == "pending")
        {
            run.insert("status".to_owned(), json!("completed"));
        }
    }
}

fn of_notebook(notebook: &mut Notebook) -> Option<&mut Map<String, Value>> {
    notebook.metadata.get_mut(KEY)?.as_object_mut()
}

/// Sets `end_time`, and `duration` since `start_time`.
fn ends(run: &mut Map<String, Value>) {
    let begun = run
        .get("start_time")
        .and_then(Value::as_str)
        .and_then(|text| text.parse::<Timestamp>().ok());
    if let Some(begun) = begun {
        let seconds = Timestamp::now().duration_since(begun).as_secs_f64();
        run.insert("duration".to_owned(), json!(seconds));
    }
    run.insert("end_time".to_owned(), now());
}

/// Now, as Python's `isoformat` writes it.
fn now() -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S.%6f+00:00");
    json!(now.to_string())
}
