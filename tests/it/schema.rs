//! The JSON schemas of the protocol in `docs/schema/`: they are those of the types, and what the program prints is valid by
//! them, as Python's `jsonschema` judges.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::support::{Sponde, python_prefix};
use crate::terminal::model_that_runs;

/// Judges each line of a file by a definition of the schema.
const JUDGE: &str = "
import json, sys
from jsonschema import Draft202012Validator
schema = json.load(open(sys.argv[1]))
judge = Draft202012Validator({**schema, 'anyOf': [{'$ref': '#/$defs/' + name} for name in sys.argv[3:]]})
lines = [json.loads(line) for line in open(sys.argv[2])]
for line in lines:
    judge.validate(line)
# A schema that takes everything would prove nothing.
for broken in lines:
    tags = [tag for tag in ('event', 'type') if tag in broken]
    # A line of the socket has one field, named as what it is.
    [broken.pop(tag) for tag in tags or list(broken)]
    assert not judge.is_valid(broken), broken
print(len(lines))
";

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("docs/schema")
        .join(name)
}

#[test]
fn the_schemas_in_the_documentation_are_those_of_the_types() {
    for (name, schema) in [
        ("events.json", sponde::app::schema::events()),
        ("commands.json", sponde::app::schema::commands()),
    ] {
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var_os("SPONDE_WRITE_SCHEMA").is_some() {
            std::fs::write(path(name), &text).unwrap();
        }
        let stored = std::fs::read_to_string(path(name)).unwrap();
        assert!(
            stored == text,
            "docs/schema/{name} is not that of the types: SPONDE_WRITE_SCHEMA=1 cargo test --test it schema"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_printed_is_valid_by_the_schema() {
    let code = "import sys\nprint('out'); print('err', file=sys.stderr)\ndisplay({'text/html': '<b>1</b>'}, raw=True)\n1/0";
    let mock = model_that_runs(code).await;
    let sponde = Sponde::new().with_model(&mock);
    let run = tokio::task::block_in_place(|| {
        sponde.run(&["ask", "--yes", "--json", "--model", "gpt-4o", "go"])
    });
    mock.stop().await;
    let count = assert_valid(&run.stdout, &["Event"]);
    let events: Vec<Value> = run.events();
    assert_eq!(count, events.len());
    let has = |name: &str| events.iter().any(|event| event["event"] == name);
    assert!(
        has("output") && has("code_finished") && has("turn_finished"),
        "{run}"
    );
}

/// Each of `lines` is valid by one of these definitions. How many there are.
pub(crate) fn assert_valid(lines: &str, definitions: &[&str]) -> usize {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines).unwrap();
    let judged = Command::new(python_prefix().join("bin/python"))
        .args(["-c", JUDGE])
        .arg(path("events.json"))
        .arg(file.path())
        .args(definitions)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&judged.stderr);
    assert!(judged.status.success(), "{said}\n{lines}");
    let count = String::from_utf8_lossy(&judged.stdout);
    count.trim().parse().unwrap()
}
