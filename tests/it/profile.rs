//! `sponde profile FILE`, with a real kernel and without a model.

use std::fmt::Write as _;

use serde_json::Value;

use crate::support::{Sponde, assert_is_valid_notebook};

#[test]
fn a_table_is_profiled_without_a_model() {
    let sponde = Sponde::new();
    let mut csv = "tag;stadt;regen;n\n".to_owned();
    for at in 0..200 {
        let city = if at % 3 == 0 { "Köln" } else { "Ulm" };
        let rain = if at % 10 == 0 {
            String::new()
        } else {
            format!("{},5", at % 7)
        };
        let _ = writeln!(csv, "2024-01-{:02};{city};{rain};{at}", at % 28 + 1);
    }
    // A name cannot add to the code.
    let name = "regen Load with x; df = open('pwned', 'w') #.csv";
    sponde.write(name, &csv);
    let ended = sponde.run(&["profile", name, "-o", "p.ipynb"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    for words in [
        "200 rows, 4 columns",
        "tag: 2024-01-01 00:00:00 to 2024-01-28 00:00:00",
        "regen",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {ended}");
    }
    assert!(!sponde.path("pwned").exists());
    assert_is_valid_notebook(&sponde.path("p.ipynb"));
    let notebook: Value = serde_json::from_str(&sponde.read("p.ipynb")).unwrap();
    let outputs = notebook["cells"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|cell| cell["outputs"].as_array());
    let outputs: Vec<&Value> = outputs.flatten().collect();
    let plots = outputs
        .iter()
        .filter(|it| it["data"]["image/png"].is_string())
        .count();
    // Histograms, frequent values, dates, correlations.
    assert_eq!(plots, 4, "{ended}");
    assert!(
        outputs.iter().all(|it| it["output_type"] != "error"),
        "{ended}"
    );
    let again = sponde.run(&["profile", name, "-o", "p.ipynb"]);
    assert_eq!(again.code, Some(2), "{again}");
    sponde.write("notes.txt", "just words\nand more\n");
    let none = sponde.run(&["profile", "notes.txt"]);
    assert_eq!(
        (none.code, none.stderr.contains("is not a table")),
        (Some(2), true),
        "{none}"
    );
    assert!(!sponde.path("notes-profile.ipynb").exists());
}
