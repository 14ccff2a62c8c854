//! How parameters are typed, written as code and placed.

use std::fmt::Write as _;

use super::*;

fn parameters(values: &[(&str, ParamValue)]) -> Parameters {
    let mut parameters = Parameters::default();
    for (name, value) in values {
        parameters.set((*name).to_owned(), value.clone());
    }
    parameters
}

fn text(text: &str) -> ParamValue {
    ParamValue::Text(text.to_owned())
}

fn int(digits: &str) -> ParamValue {
    ParamValue::Int(digits.to_owned())
}

#[test]
fn typed_as_papermill_does() {
    for (word, value) in [
        ("True", ParamValue::Bool(true)),
        ("true", text("true")),
        ("None", ParamValue::Null),
        ("null", text("null")),
        ("42", int("42")),
        (" 007 ", int("7")),
        ("-0", int("0")),
        ("1_000", int("1000")),
        ("1__000", text("1__000")),
        ("_1", text("_1")),
        (
            "123456789012345678901234567890",
            int("123456789012345678901234567890"),
        ),
        ("1e-3", ParamValue::Float(0.001)),
        ("inf", ParamValue::Float(f64::INFINITY)),
        ("0x10", text("0x10")),
        ("2012-01-01", text("2012-01-01")),
        ("", text("")),
    ] {
        assert_eq!(ParamValue::typed(word), value, "{word:?}");
    }
    assert!(matches!(ParamValue::typed("NaN"), ParamValue::Float(value) if value.is_nan()));
}

#[test]
fn floats_as_python_prints_them() {
    for (value, shown) in [
        (0.0, "0.0"),
        (-1.5, "-1.5"),
        (0.001, "0.001"),
        (0.000_01, "1e-05"),
        (1e15, "1000000000000000.0"),
        (1e16, "1e+16"),
        (1.25e-7, "1.25e-07"),
        (1e100, "1e+100"),
        (f64::NEG_INFINITY, "-inf"),
    ] {
        assert_eq!(python_float(value), shown);
    }
}

#[test]
fn yaml_as_pyyaml_types_it() {
    let yaml = "\
a: 1
b: yes
c: ~
d: [1.5, x, '1', 2012-01-01, 12:30, 1e-3]
e: &base {x: 0777, y: 0x1F, z: -3}
f:
  <<: *base
  z: 4
'07': |
  two
  lines
nan: .nan
";
    let Ok(ParamValue::Map(fields)) = parse_yaml(yaml) else {
        panic!("no map");
    };
    let shown: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{name}: {}", value.to_json()))
        .collect();
    assert_eq!(
        shown,
        [
            "a: 1",
            "b: true",
            "c: null",
            r#"d: [1.5,"x","1","2012-01-01","12:30",0.001]"#,
            r#"e: {"x":511,"y":31,"z":-3}"#,
            r#"f: {"z":4,"x":511,"y":31}"#,
            r#"07: "two\nlines\n""#,
            r#"nan: "nan""#,
        ]
    );
    assert_eq!(parse_yaml("").unwrap(), ParamValue::Null);
    assert!(matches!(parse_yaml("a: ["), Err(YamlError::Syntax(_))));
    assert!(matches!(parse_yaml("[a]: 1"), Err(YamlError::Key)));
}

#[test]
fn a_yaml_bomb_is_refused() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for n in 1..12 {
        let before = format!("*a{}, ", n - 1).repeat(10);
        let _ = writeln!(bomb, "a{n}: &a{n} [{before}]");
    }
    assert!(matches!(parse_yaml(&bomb), Err(YamlError::TooLarge)));
    assert!(parse_yaml(&"[".repeat(1000)).is_err());
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    assert!(parse_yaml(&deep).is_err());
}

#[test]
fn code_of_each_language() {
    let all = parameters(&[
        ("n", int("5")),
        ("big", int("5000000000")),
        ("x", ParamValue::Float(0.5)),
        ("yes", ParamValue::Bool(true)),
        ("text", text("a \"b\" é\n$c \\")),
        ("list", ParamValue::List(vec![int("1"), text("two")])),
        (
            "map",
            ParamValue::Map(vec![("k".to_owned(), ParamValue::Bool(false))]),
        ),
    ]);
    for (language, code) in [
        (
            "python",
            "# Parameters\nn = 5\nbig = 5000000000\nx = 0.5\nyes = True\ntext = \"a \\\"b\\\" \\xe9\\n$c \\\\\"\n\
             list = [1, \"two\"]\nmap = {\"k\": False}\n",
        ),
        (
            "R",
            "# Parameters\nn = 5\nbig = 5000000000\nx = 0.5\nyes = TRUE\ntext = \"a \\\"b\\\" é\\n$c \\\\\"\n\
             list = list(1, \"two\")\nmap = list(\"k\" = FALSE)\n",
        ),
        (
            "julia",
            "# Parameters\nn = 5\nbig = 5000000000\nx = 0.5\nyes = true\ntext = \"a \\\"b\\\" é\\n\\$c \\\\\"\n\
             list = [1, \"two\"]\nmap = Dict(\"k\" => false)\n",
        ),
        (
            "scala",
            "// Parameters\nval n = 5\nval big = 5000000000L\nval x = 0.5\nval yes = true\n\
             val text = \"a \\\"b\\\" é\\n$c \\\\\"\nval list = Seq(1, \"two\")\nval map = Map(\"k\" -> false)\n",
        ),
        (
            "bash",
            "# Parameters\nn=5\nbig=5000000000\nx=0.5\nyes=true\ntext='a \"b\" é\n$c \\'\nlist=(1 two)\n\
             declare -A map=([k]=false)\n",
        ),
        (
            "javascript",
            "// Parameters\nvar n = 5;\nvar big = 5000000000;\nvar x = 0.5;\nvar yes = true;\n\
             var text = \"a \\\"b\\\" é\\n$c \\\\\";\nvar list = [1, \"two\"];\nvar map = {\"k\": false};\n",
        ),
    ] {
        assert_eq!(
            assignments("any", language, &all).unwrap(),
            code,
            "{language}"
        );
    }
}

#[test]
fn what_cannot_be_code() {
    let refused = |language: &str, name: &str, value: ParamValue| {
        assignments("any", language, &parameters(&[(name, value)]))
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        refused("cobol", "a", ParamValue::Null),
        "how to assign a variable in cobol is not known"
    );
    assert_eq!(
        refused("bash", "a", ParamValue::Float(f64::NAN)),
        "bash has no way to write the value of `a`: it has whole numbers only"
    );
    for name in ["", "1a", "a b", "a;import os", "a.b"] {
        assert_eq!(
            refused("python", name, ParamValue::Null),
            format!("`{name}` cannot be a variable's name")
        );
    }
}

fn tagged(tags: &[&str]) -> Notebook {
    let mut notebook = Notebook::new();
    for (index, tag) in tags.iter().enumerate() {
        let mut cell = Cell::code(format!("c{index}"), "");
        if !tag.is_empty() {
            cell.metadata.insert("tags".to_owned(), json!([tag]));
        }
        notebook.cells.push(cell);
    }
    notebook
}

#[test]
fn where_the_cell_goes() {
    for (tags, place, found) in [
        (&["", "parameters", ""][..], 2, true),
        (&["parameters", "injected-parameters", ""], 1, true),
        (&["injected-parameters", "parameters"], 0, true),
        (&["", ""], 0, false),
    ] {
        let mut notebook = tagged(tags);
        let all = parameters(&[("a", int("1"))]);
        assert_eq!(
            inject(&mut notebook, "a = 1".to_owned(), "new".to_owned(), &all),
            found
        );
        let ids: Vec<&str> = notebook.cells.iter().map(|cell| cell.id.as_str()).collect();
        assert_eq!(
            ids.iter().position(|id| *id == "new"),
            Some(place),
            "{tags:?}"
        );
        assert_eq!(
            notebook.metadata["papermill"]["parameters"],
            json!({"a": 1})
        );
    }
}

#[test]
fn names_of_files() {
    let all = parameters(&[("region", text("north")), ("n", int("3"))]);
    assert_eq!(
        all.fill("out/{region}-{n}-{other}.ipynb"),
        "out/north-3-{other}.ipynb"
    );
    assert_eq!(
        all.missing("{other}/{region}-{_x.y}-{other}-{}-{a b}-{2}-{"),
        ["other", "_x.y"]
    );
}

#[test]
fn defaults_that_are_plain_values() {
    let literal = |default: &str| {
        let declared = Declared {
            name: "x".to_owned(),
            annotation: None,
            default: default.to_owned(),
            help: String::new(),
        };
        declared.literal()
    };
    for (default, value) in [
        ("'south'", Some(text("south"))),
        ("\"a b\"", Some(text("a b"))),
        ("2024", Some(int("2024"))),
        ("0.5", Some(ParamValue::Float(0.5))),
        ("True", Some(ParamValue::Bool(true))),
        ("true", Some(text("true"))),
        ("f'{x}'", None),
        ("'a' + 'b'", None),
        ("\"$HOME\"", None),
        ("today()", None),
        ("[1]", None),
    ] {
        assert_eq!(literal(default), value, "{default}");
    }
}

#[test]
fn what_a_notebook_declares() {
    let mut notebook = tagged(&["parameters"]);
    notebook.cells[0].source = "\
# comment
a = 1  # how many
b: 'List[int]' = [1,
    2, # two
    3]
c = None # type: str a name
if x == 1: pass
"
    .to_owned();
    let found: Vec<(String, Option<String>, String, String)> = declared(&notebook)
        .unwrap()
        .into_iter()
        .map(|found| (found.name, found.annotation, found.default, found.help))
        .collect();
    let entry = |name: &str, annotation: Option<&str>, default: &str, help: &str| {
        (
            name.to_owned(),
            annotation.map(str::to_owned),
            default.to_owned(),
            help.to_owned(),
        )
    };
    assert_eq!(
        found,
        [
            entry("a", None, "1", "how many"),
            entry("b", Some("List[int]"), "[1,2,3]", ""),
            entry("c", Some("str"), "None", "a name"),
        ]
    );
    assert_eq!(declared(&Notebook::new()), None);
}
