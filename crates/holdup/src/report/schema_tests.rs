//! The exported JSON against its schema file, both against docs/export.md. The checker knows as much of JSON Schema as the
//! file uses, and refuses what it does not know.

use std::collections::BTreeSet;
use std::path::PathBuf;

use holdup_bench::spec::FACTORS;
use serde_json::Value;

use super::{csv, json, specimen};

pub(super) fn document(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Walks a value along its schema and remembers which properties it has met.
pub(super) struct Checker<'a> {
    pub(super) root: &'a Value,
    pub(super) met: BTreeSet<String>,
}

impl Checker<'_> {
    pub(super) fn check(&mut self, value: &Value, schema: &Value, at: &str) -> Result<(), String> {
        if let Some(reference) = schema.get("$ref") {
            let pointer = reference.as_str().unwrap().trim_start_matches('#');
            let target = self.root.pointer(pointer).ok_or_else(|| format!("{at}: no {pointer}"))?.clone();
            return self.check(value, &target, pointer);
        }
        if let Some(choices) = schema.get("anyOf") {
            let tries: Vec<Result<(), String>> =
                choices.as_array().unwrap().iter().map(|choice| self.check(value, choice, at)).collect();
            return if tries.iter().any(Result::is_ok) { Ok(()) } else { tries.into_iter().collect() };
        }
        for (rule, wanted) in schema.as_object().unwrap() {
            let fine = match rule.as_str() {
                "type" => has_type(value, wanted),
                "const" => value == wanted,
                "enum" => wanted.as_array().unwrap().contains(value),
                "minimum" => value.as_f64().is_none_or(|number| number >= wanted.as_f64().unwrap()),
                "required" => {
                    wanted.as_array().unwrap().iter().all(|key| value.get(key.as_str().unwrap()).is_some())
                }
                "properties" | "additionalProperties" | "items" => true,
                "description" | "title" | "$schema" | "$defs" => true,
                unknown => return Err(format!("{at}: the checker does not know '{unknown}'")),
            };
            if !fine {
                return Err(format!("{at}: {value} against {rule} {wanted}"));
            }
        }
        for item in value.as_array().into_iter().flatten() {
            self.check(item, schema.get("items").ok_or_else(|| format!("{at}: no items"))?, at)?;
        }
        for (key, item) in value.as_object().into_iter().flatten() {
            let place = format!("{at}/{key}");
            match schema.get("properties").and_then(|known| known.get(key)) {
                Some(known) => {
                    self.met.insert(place.clone());
                    self.check(item, known, &place)?;
                }
                None => match schema.get("additionalProperties") {
                    Some(others @ Value::Object(_)) => self.check(item, others, &place)?,
                    _ => return Err(format!("{place} is not in the schema")),
                },
            }
        }
        Ok(())
    }
}

fn has_type(value: &Value, wanted: &Value) -> bool {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => false,
    };
    match wanted {
        Value::Array(names) => names.iter().any(|name| is(name.as_str().unwrap())),
        name => is(name.as_str().unwrap()),
    }
}

/// Every property that the schema names, as the checker notes them.
pub(super) fn properties(schema: &Value, at: &str, found: &mut BTreeSet<String>) {
    let Some(object) = schema.as_object() else { return };
    for (key, inner) in object.get("properties").and_then(Value::as_object).into_iter().flatten() {
        found.insert(format!("{at}/{key}"));
        properties(inner, &format!("{at}/{key}"), found);
    }
    if let Some(items) = object.get("items") {
        properties(items, at, found);
    }
}

#[test]
fn every_exported_key_is_in_the_schema_and_every_key_of_the_schema_is_exported() {
    let schema: Value = serde_json::from_str(&document("holdup-run-1.schema.json")).unwrap();
    let mut checker = Checker { root: &schema, met: BTreeSet::new() };
    for run in [specimen::full(), specimen::deep(), specimen::single(), specimen::hostile()] {
        let text = json::run(&run).to_string();
        let value: Value = serde_json::from_str(&text).unwrap();
        checker.check(&value, &schema, "").unwrap_or_else(|why| panic!("{why}"));
    }
    let mut named = BTreeSet::new();
    properties(&schema, "", &mut named);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        properties(definition, &format!("/$defs/{name}"), &mut named);
    }
    assert_eq!(checker.met, named);
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let schema: Value = serde_json::from_str(&document("holdup-run-1.schema.json")).unwrap();
    let good = json::run(&specimen::single());
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        Checker { root: &schema, met: BTreeSet::new() }.check(&value, &schema, "").is_err()
    };
    assert!(!wrong(&|_| ()));
    assert!(wrong(&|value| value["surprise"] = 1.into()));
    assert!(wrong(&|value| value["seed"] = 7.into()));
    assert!(wrong(&|value| value["schema"] = "holdup-run-2".into()));
    assert!(wrong(&|value| value["cells"][0]["samples"][0]["sample"]["elapsed_ns"] = "1".into()));
    assert!(wrong(&|value| drop(value.as_object_mut().unwrap().remove("complete"))));
}

#[test]
fn the_document_names_every_key_and_every_column() {
    let text = document("export.md");
    let schema: Value = serde_json::from_str(&document("holdup-run-1.schema.json")).unwrap();
    let mut named = BTreeSet::new();
    properties(&schema, "", &mut named);
    for definition in schema["$defs"].as_object().unwrap().values() {
        properties(definition, "", &mut named);
    }
    for place in named {
        let key = place.rsplit('/').next().unwrap();
        assert!(text.contains(&format!("`{key}`")), "{key} is not in docs/export.md");
    }
    let columns = csv::header(&specimen::deep());
    let own = columns.iter().filter(|column| !FACTORS.iter().any(|factor| factor.name == *column));
    let mut from = text.find("## CSV").unwrap();
    for column in own.filter(|column| !column.starts_with("extra_")) {
        let place = text[from..].find(&format!("`{column}`"));
        from += place.unwrap_or_else(|| panic!("{column} is not in its place in docs/export.md"));
    }
}

#[test]
fn estimates_are_those_of_the_run() {
    let run = specimen::full();
    let (all, short) = (json::run(&run), json::estimates(&run));
    assert_eq!(short["schema"], "holdup-estimates-1");
    for (long, short) in all["cells"].as_array().unwrap().iter().zip(short["cells"].as_array().unwrap()) {
        let mut long = long.clone();
        long.as_object_mut().unwrap().remove("samples");
        assert_eq!(&long, short);
    }
}
