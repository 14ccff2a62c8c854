//! The part of JSON Schema (draft 2020-12) that answers need: types, objects, arrays, numbers, strings, alternatives,
//! and `$ref` within the schema. A schema with an unsupported keyword is rejected when it is read; no keyword is
//! ignored.

use std::cell::Cell;
use std::collections::HashMap;

use regex::Regex;
use serde_json::{Map, Value};

/// Maximum violations reported for one answer.
const TOLD: usize = 5;
/// How deep references may nest without descending into the value.
const DEPTH: usize = 64;
/// Maximum checks for one value: nested alternatives multiply.
const STEPS: usize = 200_000;

/// Keywords that do not restrict the valid values.
const ANNOTATIONS: [&str; 15] = [
    "$schema",
    "$id",
    "$comment",
    "$anchor",
    "title",
    "description",
    "default",
    "examples",
    "example",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "contentEncoding",
    "contentMediaType",
];

/// A supported schema.
pub(super) struct JsonSchema {
    root: Value,
    patterns: HashMap<String, Regex>,
}

/// The state while one value is checked.
struct Check<'a> {
    schema: &'a JsonSchema,
    steps: Cell<usize>,
}

impl JsonSchema {
    /// Takes a schema.
    ///
    /// # Errors
    /// Why it cannot be checked.
    pub(super) fn new(root: Value) -> Result<Self, String> {
        let mut patterns = HashMap::new();
        understand(&root, &root, &mut patterns, "#", 0)?;
        Ok(Self { root, patterns })
    }

    /// The schema as JSON.
    pub(super) fn source(&self) -> &Value {
        &self.root
    }

    /// Why `value` is not valid: at most [`TOLD`] violations, empty if it is valid.
    pub(super) fn violations(&self, value: &Value) -> Vec<String> {
        let check = Check {
            schema: self,
            steps: Cell::new(0),
        };
        let mut wrong = Vec::new();
        check.value(&self.root, value, "", 0, &mut wrong);
        if check.steps.get() > STEPS {
            wrong.insert(
                0,
                "the schema needs too many checks of this value".to_owned(),
            );
        }
        wrong.truncate(TOLD);
        wrong
    }
}

/// Checks that every keyword in `schema` is supported.
fn understand(
    schema: &Value,
    root: &Value,
    patterns: &mut HashMap<String, Regex>,
    at: &str,
    depth: usize,
) -> Result<(), String> {
    let keywords = match schema {
        Value::Bool(_) => return Ok(()),
        Value::Object(keywords) if depth < DEPTH => keywords,
        Value::Object(_) => return Err(format!("{at} is nested too deep")),
        _ => return Err(format!("{at} is neither an object nor true or false")),
    };
    for (keyword, value) in keywords {
        let inside = format!("{at}/{keyword}");
        let wrong = |expected: &str| Err(format!("{inside} is not {expected}"));
        let mut below =
            |schema: &Value, at: &str| understand(schema, root, patterns, at, depth + 1);
        match keyword.as_str() {
            name if ANNOTATIONS.contains(&name) => {}
            "type" => {
                let is_type =
                    |value: &Value| value.as_str().is_some_and(|name| TYPES.contains(&name));
                let all = value.as_array().is_some_and(|all| all.iter().all(is_type));
                if !all && !is_type(value) {
                    return wrong("a type");
                }
            }
            "properties" | "$defs" | "definitions" => {
                let Some(schemas) = value.as_object() else {
                    return wrong("an object");
                };
                for (name, schema) in schemas {
                    below(schema, &format!("{inside}/{name}"))?;
                }
            }
            "items" | "additionalProperties" | "not" => below(value, &inside)?,
            "prefixItems" | "anyOf" | "oneOf" | "allOf" => {
                let Some(schemas) = value.as_array() else {
                    return wrong("an array");
                };
                for (number, schema) in schemas.iter().enumerate() {
                    below(schema, &format!("{inside}/{number}"))?;
                }
            }
            "required" => {
                let names = value.as_array();
                if !names.is_some_and(|names| names.iter().all(Value::is_string)) {
                    return wrong("an array of names");
                }
            }
            "enum" if value.is_array() => {}
            "const" => {}
            "uniqueItems" if value.is_boolean() => {}
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
                if value.is_number() => {}
            "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties"
            | "maxProperties"
                if value.is_u64() => {}
            "pattern" => {
                let Some(pattern) = value.as_str() else {
                    return wrong("a pattern");
                };
                let compiled = Regex::new(pattern)
                    .map_err(|error| format!("{inside} cannot be used: {error}"))?;
                patterns.insert(pattern.to_owned(), compiled);
            }
            "$ref" => {
                let target = value.as_str().and_then(|target| referred(root, target));
                if target.is_none() {
                    return wrong("a reference to a part of this schema, such as #/$defs/NAME");
                }
            }
            _ => return Err(format!("{inside} is not supported")),
        }
    }
    Ok(())
}

const TYPES: [&str; 7] = [
    "null", "boolean", "object", "array", "number", "integer", "string",
];

/// The part of `root` that a `#/...` reference points to.
fn referred<'a>(root: &'a Value, target: &str) -> Option<&'a Value> {
    root.pointer(target.strip_prefix('#')?)
}

impl Check<'_> {
    /// Adds to `wrong` why `value`, at the path `at`, does not match `schema`.
    fn value(
        &self,
        schema: &Value,
        value: &Value,
        at: &str,
        depth: usize,
        wrong: &mut Vec<String>,
    ) {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > STEPS || wrong.len() >= TOLD {
            return;
        }
        let keywords = match schema {
            Value::Bool(false) => return wrong.push(format!("{} must not be there", named(at))),
            Value::Object(keywords) => keywords,
            _ => return,
        };
        if depth >= DEPTH {
            return wrong.push(format!("the schema refers to itself at {}", named(at)));
        }
        if let Some(expected) = keywords.get("type")
            && !is_of(expected, value)
        {
            let (expected, found) = (type_words(expected), article(type_of(value)));
            return wrong.push(format!("{} is {found}, and must be {expected}", named(at)));
        }
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str)
            && let Some(target) = referred(&self.schema.root, target)
        {
            self.value(target, value, at, depth + 1, wrong);
        }
        choices(keywords, value, at, wrong);
        self.combined(keywords, value, at, depth, wrong);
        match value {
            Value::Object(fields) => self.object(keywords, fields, at, wrong),
            Value::Array(items) => self.array(keywords, items, at, wrong),
            Value::String(text) => self.string(keywords, text, at, wrong),
            Value::Number(_) => number(keywords, value.as_f64(), at, wrong),
            Value::Null | Value::Bool(_) => {}
        }
    }

    fn is_valid(&self, schema: &Value, value: &Value, at: &str, depth: usize) -> bool {
        let mut wrong = Vec::new();
        self.value(schema, value, at, depth + 1, &mut wrong);
        wrong.is_empty()
    }

    fn combined(
        &self,
        keywords: &Map<String, Value>,
        value: &Value,
        at: &str,
        depth: usize,
        wrong: &mut Vec<String>,
    ) {
        let list = |keyword: &str| keywords.get(keyword).and_then(Value::as_array);
        for schema in list("allOf").into_iter().flatten() {
            self.value(schema, value, at, depth + 1, wrong);
        }
        let valid = |schemas: &Vec<Value>| {
            let valid = |schema: &&Value| self.is_valid(schema, value, at, depth);
            schemas.iter().filter(valid).count()
        };
        if let Some(schemas) = list("anyOf")
            && valid(schemas) == 0
        {
            wrong.push(format!("{} fits none of the choices", named(at)));
        }
        if let Some(schemas) = list("oneOf") {
            match valid(schemas) {
                1 => {}
                0 => wrong.push(format!("{} fits none of the choices", named(at))),
                _ => wrong.push(format!("{} fits more than one of the choices", named(at))),
            }
        }
        if let Some(schema) = keywords.get("not")
            && self.is_valid(schema, value, at, depth)
        {
            wrong.push(format!("{} is what it must not be", named(at)));
        }
    }

    fn object(
        &self,
        keywords: &Map<String, Value>,
        fields: &Map<String, Value>,
        at: &str,
        wrong: &mut Vec<String>,
    ) {
        let properties = keywords.get("properties").and_then(Value::as_object);
        let required = keywords.get("required").and_then(Value::as_array);
        for name in required.into_iter().flatten().filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                wrong.push(format!("{} is missing", named(&format!("{at}.{name}"))));
            }
        }
        count(keywords, "Properties", fields.len(), "fields", at, wrong);
        for (name, value) in fields {
            let inside = format!("{at}.{name}");
            match properties.and_then(|properties| properties.get(name)) {
                Some(schema) => self.value(schema, value, &inside, 0, wrong),
                None => {
                    if let Some(schema) = keywords.get("additionalProperties") {
                        self.value(schema, value, &inside, 0, wrong);
                    }
                }
            }
        }
    }

    fn array(
        &self,
        keywords: &Map<String, Value>,
        items: &[Value],
        at: &str,
        wrong: &mut Vec<String>,
    ) {
        count(keywords, "Items", items.len(), "items", at, wrong);
        let first = keywords.get("prefixItems").and_then(Value::as_array);
        for (number, item) in items.iter().enumerate() {
            let own = first.and_then(|first| first.get(number));
            if let Some(schema) = own.or_else(|| keywords.get("items")) {
                self.value(schema, item, &format!("{at}[{number}]"), 0, wrong);
            }
        }
        let is_unique = || {
            let mut seen = std::collections::HashSet::new();
            items.iter().all(|item| seen.insert(item.to_string()))
        };
        if keywords.get("uniqueItems") == Some(&Value::Bool(true)) && !is_unique() {
            wrong.push(format!("{} has an item twice", named(at)));
        }
    }

    fn string(&self, keywords: &Map<String, Value>, text: &str, at: &str, wrong: &mut Vec<String>) {
        let length = text.chars().count();
        count(keywords, "Length", length, "characters", at, wrong);
        if let Some(pattern) = keywords.get("pattern").and_then(Value::as_str)
            && let Some(compiled) = self.schema.patterns.get(pattern)
            && !compiled.is_match(text)
        {
            wrong.push(format!(
                "{} does not match the pattern {pattern}",
                named(at)
            ));
        }
    }
}

fn choices(keywords: &Map<String, Value>, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let one_of = |all: &[Value]| {
        let all: Vec<String> = all.iter().map(Value::to_string).collect();
        all.join(", ")
    };
    if let Some(Value::Array(all)) = keywords.get("enum")
        && !all.iter().any(|it| is_same(it, value))
    {
        wrong.push(format!("{} must be one of {}", named(at), one_of(all)));
    }
    if let Some(only) = keywords.get("const")
        && !is_same(only, value)
    {
        wrong.push(format!("{} must be {only}", named(at)));
    }
}

/// `1` and `1.0` are the same number.
fn is_same(a: &Value, b: &Value) -> bool {
    a == b || a.is_number() && b.is_number() && a.as_f64() == b.as_f64()
}

fn number(keywords: &Map<String, Value>, value: Option<f64>, at: &str, wrong: &mut Vec<String>) {
    let Some(value) = value else { return };
    let limit = |keyword: &str| keywords.get(keyword).and_then(Value::as_f64);
    let mut must = |is_wrong: bool, words: String| {
        if is_wrong {
            wrong.push(format!("{} must be {words}", named(at)));
        }
    };
    if let Some(least) = limit("minimum") {
        must(value < least, format!("at least {least}"));
    }
    if let Some(most) = limit("maximum") {
        must(value > most, format!("at most {most}"));
    }
    if let Some(least) = limit("exclusiveMinimum") {
        must(value <= least, format!("more than {least}"));
    }
    if let Some(most) = limit("exclusiveMaximum") {
        must(value >= most, format!("less than {most}"));
    }
    if let Some(unit) = limit("multipleOf").filter(|unit| *unit > 0.0) {
        let rest = value / unit - (value / unit).round();
        must(rest.abs() > 1e-9, format!("a multiple of {unit}"));
    }
}

/// Checks `min..` and `max..` of a count.
fn count(
    keywords: &Map<String, Value>,
    what: &str,
    found: usize,
    unit: &str,
    at: &str,
    wrong: &mut Vec<String>,
) {
    let limit = |end: &str| {
        let limit = keywords.get(&format!("{end}{what}"))?.as_u64()?;
        usize::try_from(limit).ok()
    };
    if let Some(least) = limit("min").filter(|least| found < *least) {
        wrong.push(format!(
            "{} has {found} {unit}, at least {least} are needed",
            named(at)
        ));
    }
    if let Some(most) = limit("max").filter(|most| found > *most) {
        wrong.push(format!(
            "{} has {found} {unit}, at most {most} are allowed",
            named(at)
        ));
    }
}

fn is_of(expected: &Value, value: &Value) -> bool {
    let is = |name: &str| match name {
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        name => type_of(value) == name,
    };
    match expected {
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        _ => true,
    }
}

fn type_words(expected: &Value) -> String {
    let names = match expected {
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        other => other.as_str().into_iter().collect::<Vec<_>>(),
    };
    let names: Vec<String> = names.into_iter().map(article).collect();
    names.join(" or ")
}

fn article(name: &str) -> String {
    match name {
        "null" => "null".to_owned(),
        "array" | "object" | "integer" => format!("an {name}"),
        other => format!("a {other}"),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The path of a value, for a message.
fn named(at: &str) -> String {
    match at.strip_prefix('.').unwrap_or(at) {
        "" => "the answer".to_owned(),
        path => format!("`{path}`"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrong(schema: Value, value: &Value) -> String {
        let schema = JsonSchema::new(schema).unwrap();
        schema.violations(value).join("; ")
    }

    #[test]
    fn values_are_checked() {
        let city = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "pattern": "^[A-Z]"},
                "people": {"type": ["integer", "null"], "minimum": 0},
                "kind": {"enum": ["town", "city"]},
                "rain": {"type": "array", "items": {"$ref": "#/$defs/month"}, "maxItems": 12},
            },
            "required": ["name"],
            "additionalProperties": false,
            "$defs": {"month": {"type": "number", "exclusiveMaximum": 1000}},
        });
        for (value, expected) in [
            (
                json!({"name": "Ulm", "people": 1.0, "kind": "city", "rain": [1, 2.5]}),
                "",
            ),
            (json!({"name": "Ulm", "people": null}), ""),
            (json!([]), "the answer is an array, and must be an object"),
            (json!({"people": 1}), "`name` is missing"),
            (
                json!({"name": 1}),
                "`name` is a number, and must be a string",
            ),
            (
                json!({"name": ""}),
                "`name` has 0 characters, at least 1 are needed; `name` does not match the pattern ^[A-Z]",
            ),
            (
                json!({"name": "Ulm", "people": 1.5}),
                "`people` is a number, and must be an integer or null",
            ),
            (
                json!({"name": "Ulm", "people": -1}),
                "`people` must be at least 0",
            ),
            (
                json!({"name": "Ulm", "kind": "x"}),
                "`kind` must be one of \"town\", \"city\"",
            ),
            (
                json!({"name": "Ulm", "rain": [1, 1000]}),
                "`rain[1]` must be less than 1000",
            ),
            (
                json!({"name": "Ulm", "else": 1}),
                "`else` must not be there",
            ),
        ] {
            assert_eq!(wrong(city.clone(), &value), expected, "{value}");
        }
    }

    #[test]
    fn choices_are_checked() {
        let schema = json!({"oneOf": [{"type": "integer"}, {"type": "number", "minimum": 5}]});
        assert_eq!(wrong(schema.clone(), &json!(1)), "");
        assert_eq!(wrong(schema.clone(), &json!(5.5)), "");
        assert_eq!(
            wrong(schema.clone(), &json!(7)),
            "the answer fits more than one of the choices"
        );
        assert_eq!(
            wrong(schema, &json!("x")),
            "the answer fits none of the choices"
        );
        let schema =
            json!({"allOf": [{"minItems": 1}, {"uniqueItems": true}], "not": {"const": [1]}});
        assert_eq!(wrong(schema.clone(), &json!([2, 3])), "");
        assert_eq!(
            wrong(schema.clone(), &json!([2, 2])),
            "the answer has an item twice"
        );
        assert_eq!(
            wrong(schema, &json!([1])),
            "the answer is what it must not be"
        );
    }

    #[test]
    fn what_cannot_be_checked_is_refused() {
        for (schema, expected) in [
            (json!({"if": {}}), "#/if is not supported"),
            (
                json!({"properties": {"a": {"patternProperties": {}}}}),
                "#/properties/a/patternProperties is not supported",
            ),
            (json!({"type": "text"}), "#/type is not a type"),
            (
                json!({"$ref": "https://example.org/x"}),
                "#/$ref is not a reference",
            ),
            (json!({"pattern": "("}), "#/pattern cannot be used"),
            (json!([]), "# is neither an object"),
        ] {
            let told = JsonSchema::new(schema).err().unwrap_or_default();
            assert!(told.starts_with(expected), "{told}");
        }
    }

    /// A schema file may come from anyone.
    #[test]
    fn a_schema_that_goes_in_circles_ends() {
        assert_eq!(
            wrong(json!({"$ref": "#"}), &json!(1)),
            "the schema refers to itself at the answer"
        );
        let twice = json!({"anyOf": [{"$ref": "#"}, {"$ref": "#"}]});
        assert!(!wrong(twice, &json!(1)).is_empty());
        let tree = json!({"type": "object", "additionalProperties": {"$ref": "#"}});
        assert_eq!(wrong(tree, &json!({"a": {"b": {}}})), "");
    }
}
