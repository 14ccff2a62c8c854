//! `sponde profile FILE`, with a real kernel and without a model.

use std::fmt::Write as _;

use serde_json::Value;

use crate::support::{Sponde, assert_is_valid_notebook, python_prefix};

/// The outputs of all cells of a notebook, without those that are errors.
fn outputs(sponde: &Sponde, notebook: &str) -> Vec<Value> {
    assert_is_valid_notebook(&sponde.path(notebook));
    let notebook: Value = serde_json::from_str(&sponde.read(notebook)).unwrap();
    let cells = notebook["cells"].as_array().unwrap().iter();
    let outputs: Vec<Value> = cells
        .filter_map(|cell| cell["outputs"].as_array())
        .flatten()
        .cloned()
        .collect();
    assert!(
        outputs.iter().all(|it| it["output_type"] != "error"),
        "{outputs:?}"
    );
    outputs
}

fn plots(outputs: &[Value]) -> usize {
    let plots = outputs.iter();
    plots
        .filter(|it| it["data"]["image/png"].is_string())
        .count()
}

fn python(sponde: &Sponde, code: &str) {
    let made = std::process::Command::new(python_prefix().join("bin/python"))
        .args(["-c", code])
        .current_dir(sponde.path(""))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "{errors}");
}

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
    // Histograms, frequent values, dates, correlations.
    assert_eq!(plots(&outputs(&sponde, "p.ipynb")), 4, "{ended}");
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

#[test]
fn each_table_of_a_database_is_profiled() {
    let sponde = Sponde::new();
    python(
        &sponde,
        r#"
import sqlite3, duckdb
con = sqlite3.connect('shop.db')
con.execute('CREATE TABLE sales (day DATE, city TEXT, amount REAL)')
con.executemany('INSERT INTO sales VALUES (?, ?, ?)', [(f'2024-01-{n % 28 + 1:02}', 'Ulm' if n % 3 else 'Bonn', n / 2) for n in range(90)])
con.execute('CREATE TABLE "odd ""name""\n# x" (a INTEGER)')
con.execute("CREATE VIEW trap AS SELECT load_extension('nothing')")
con.commit()
duck = duckdb.connect('shop.duckdb')
duck.execute("CREATE TABLE sales AS SELECT DATE '2024-01-01' + n::INT AS day, n / 2 AS amount, ['x'] AS tags FROM range(50) t(n)")
duck.execute("CREATE SCHEMA other; CREATE TABLE other.empty (a INT)")
duck.execute("CREATE VIEW trap AS SELECT * FROM read_csv_auto('/etc/passwd')")
con.close()
duck.close()
"#,
    );
    let ended = sponde.run(&["profile", "shop.db"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    for words in [
        "2 tables",
        "sales: 90 rows, 3 columns",
        "datetime64",
        "0 rows, 1 columns",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {ended}");
    }
    assert_eq!(plots(&outputs(&sponde, "shop-profile.ipynb")), 1, "{ended}");
    let ended = sponde.run(&["profile", "shop.duckdb", "-o", "duck.ipynb"]);
    assert_eq!(ended.code, Some(0), "{ended}");
    for words in [
        "2 tables",
        "sales: 50 rows, 3 columns",
        "other.empty: 0 rows, 1 columns",
    ] {
        assert!(ended.stdout.contains(words), "{words}: {ended}");
    }
    assert_eq!(plots(&outputs(&sponde, "duck.ipynb")), 1, "{ended}");
    assert!(!ended.stdout.contains("root:"), "{ended}");
}

#[test]
fn files_of_one_shape_are_profiled_as_one_table() {
    let sponde = Sponde::new();
    std::fs::create_dir_all(sponde.path("in/none")).unwrap();
    sponde.write("in/a.csv", "city;rain\nUlm;1,5\nBonn;2\n");
    sponde.write("in/b.csv", "rain,city\n7,Graz\n");
    for (named, notebook) in [
        (&["in"][..], "in-profile.ipynb"),
        (&["in/*.csv"][..], "tables-profile.ipynb"),
        (
            &["in/a.csv", "in/b.csv", "-o", "two.ipynb"][..],
            "two.ipynb",
        ),
    ] {
        let ended = sponde.run(&[&["profile"], named].concat());
        assert_eq!(ended.code, Some(0), "{ended}");
        assert!(ended.stdout.contains("3 rows, 2 columns"), "{ended}");
        assert!(!outputs(&sponde, notebook).is_empty());
    }
    python(
        &sponde,
        "import pandas as pd\npd.DataFrame({'y': [1, 2, 2], 'x': [1.5, 2, 3]}).to_parquet('parts', partition_cols=['y'])\n\
         pd.DataFrame({'a': [1, 2]}).to_excel('book.xlsx', index=False)",
    );
    for (named, words) in [
        ("parts", "3 rows, 2 columns"),
        ("book.xlsx", "2 rows, 1 columns"),
    ] {
        let ended = sponde.run(&["profile", named]);
        assert_eq!(ended.code, Some(0), "{ended}");
        assert!(ended.stdout.contains(words), "{ended}");
    }
    sponde.write("in/c.csv", "snow\n1\n");
    sponde.write("in/none/d.txt", "words and more\n");
    for (named, words) in [
        ("in", "do not have the same columns"),
        ("in/*.parquet", "there is no file in"),
        ("in/none", "is not a table"),
        ("nowhere.csv", "could not read"),
    ] {
        let ended = sponde.run(&["profile", named, "-o", "none.ipynb"]);
        assert_eq!(ended.code, Some(2), "{ended}");
        assert!(ended.stderr.contains(words), "{words}: {ended}");
    }
    assert!(!sponde.path("none.ipynb").exists());
}

/// What cannot be loaded is an error, not an empty overview.
#[test]
fn a_table_that_does_not_load_fails() {
    let sponde = Sponde::new();
    sponde.write(
        "b.sqlite",
        [b"SQLite format 3\0".as_slice(), &[0; 200]].concat(),
    );
    let ended = sponde.run(&["profile", "b.sqlite"]);
    assert_eq!(ended.code, Some(1), "{ended}");
    assert!(
        ended.stderr.contains("cell 2 failed: DatabaseError"),
        "{ended}"
    );
}
