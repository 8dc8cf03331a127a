//! Documents against their schemas, and committed schemas against the definitions that they are generated from; the
//! columns of CSV against docs/export.md.

use std::collections::BTreeSet;
use std::path::PathBuf;

use holdup_bench::spec::FACTORS;
use jsonschema::Validator;
use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde::Serialize;
use serde_json::Value;

use super::recording::tables::Origin;
use super::run_tables::RunTables;
use super::tests::matches_file;
use super::trial_tables::{Read, TrialTables};
use super::{csv, json, specimen};
use crate::export::parquet::Sheet;

fn document(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The schema of a document from its definition: what serde writes, described by the comments.
fn schema<T: JsonSchema>() -> Value {
    // A format only names Rust's type; what a reader fills in for an absent key is of no use to who never leaves one
    // out.
    let plain = RecursiveTransform(|schema: &mut Schema| {
        schema.remove("format");
        schema.remove("default");
    });
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(plain);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// The definition gives the committed schema of this name; the documents fit it, and together have every key.
pub(super) fn assert_defines<T: JsonSchema + Serialize>(name: &str, documents: &[T]) {
    let schema = assert_describes::<T>(name);
    let values: Vec<Value> = documents.iter().map(|one| serde_json::to_value(one).unwrap()).collect();
    assert_covered(&schema, &values);
}

/// The definition gives the committed schema of this name, which describes every key.
fn assert_describes<T: JsonSchema>(name: &str) -> Value {
    let schema = schema::<T>();
    for place in named(&schema) {
        let (parent, key) = place.rsplit_once('/').unwrap();
        let parent = schema.pointer(parent).unwrap();
        // The one key of a variant with content has the variant's description.
        let described = [&parent["properties"][key], parent].map(|one| one["description"].is_string());
        let is_variant = place.contains("/oneOf/");
        assert!(described[0] || (is_variant && described[1]), "{name}: {place} is not described");
    }
    let path = PathBuf::from(format!("../../docs/{name}.schema.json"));
    matches_file(&path, &one_definition_per_line(&schema));
    schema
}

/// Short, and a change of one definition is a change of one line.
fn one_definition_per_line(schema: &Value) -> String {
    let lines = |object: &Value| -> Vec<String> {
        let entries = object.as_object().into_iter().flatten();
        entries.map(|(key, value)| format!("{}:{value}", Value::from(key.as_str()))).collect()
    };
    let mut root = schema.clone();
    let definitions = lines(&root["$defs"].take()).join(",\n");
    root.as_object_mut().unwrap().remove("$defs");
    format!("{{\n{},\n\"$defs\":{{\n{definitions}\n}}}}\n", lines(&root).join(",\n"))
}

/// The schema with other keys than it names forbidden or allowed everywhere: documents may get new keys, but not
/// unnoticed.
fn with_other_keys(schema: &Value, allowed: bool) -> Value {
    let mut changed = schema.clone();
    let mut left = vec![&mut changed];
    while let Some(value) = left.pop() {
        match value {
            Value::Object(object) => {
                if object.contains_key("properties") {
                    object.remove("additionalProperties");
                    if !allowed {
                        object.insert("additionalProperties".to_owned(), false.into());
                    }
                }
                left.extend(object.values_mut());
            }
            Value::Array(items) => left.extend(items),
            _ => {}
        }
    }
    changed
}

/// Checks documents, and remembers which properties they had.
struct Checker {
    open: Validator,
    closed: Validator,
    met: BTreeSet<String>,
}

impl Checker {
    fn new(schema: &Value) -> Checker {
        let validator = |open| jsonschema::validator_for(&with_other_keys(schema, open)).unwrap();
        Checker { open: validator(true), closed: validator(false), met: BTreeSet::new() }
    }

    fn check(&mut self, value: &Value) -> Result<(), String> {
        self.closed.validate(value).map_err(|wrong| format!("{}: {wrong}", wrong.instance_path()))?;
        // The open one tells of every object which of the keys that the schema names it has.
        for entry in self.open.evaluate(value).iter_annotations() {
            let Some(parent) = entry.schema_location.strip_suffix("/properties") else { continue };
            let keys = entry.annotations.value().as_array().into_iter().flatten();
            self.met.extend(keys.map(|key| format!("{parent}/{}", key.as_str().unwrap())));
        }
        Ok(())
    }
}

/// Every property that the schema names, as the checker notes them: below where in the schema.
fn named(schema: &Value) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    let mut left = vec![(String::new(), schema)];
    while let Some((at, value)) = left.pop() {
        let keys = value.get("properties").and_then(Value::as_object).into_iter().flatten();
        named.extend(keys.map(|(key, _)| format!("{at}/{key}")));
        left.extend(value.as_object().into_iter().flatten().map(|(key, inner)| (format!("{at}/{key}"), inner)));
        left.extend(
            value.as_array().into_iter().flatten().enumerate().map(|(index, inner)| (format!("{at}/{index}"), inner)),
        );
    }
    named
}

/// Every document fits the schema, and together they have every key that it names.
fn assert_covered(schema: &Value, values: &[Value]) {
    let mut checker = Checker::new(schema);
    for value in values {
        let read: Value = serde_json::from_str(&value.to_string()).unwrap();
        checker.check(&read).unwrap_or_else(|why| panic!("{why}"));
    }
    let left: Vec<String> = named(schema).difference(&checker.met).cloned().collect();
    assert!(left.is_empty(), "in the schema, but never written: {left:?}");
}

#[test]
fn every_exported_key_is_in_the_schema_and_every_key_of_the_schema_is_exported() {
    let runs = [specimen::full(), specimen::deep(), specimen::single(), specimen::hostile()];
    assert_defines("holdup-run-1", &runs.each_ref().map(json::Run::new));
}

/// The tables of a run, and of no run at all.
#[test]
fn every_column_of_the_tables_of_runs_is_in_the_schema_and_every_column_of_the_schema_is_written() {
    let runs = [specimen::full(), specimen::deep(), specimen::single(), specimen::hostile()];
    let tables = runs.each_ref().map(|run| RunTables::new(run, "a title", &Origin::default()));
    assert_defines("holdup-fleet-runs-1", &tables);
    every_key_is_a_column(&tables[0], &tables[0].sheets());
}

/// A trial as 'holdup try' writes it.
#[test]
fn every_column_of_the_tables_of_trials_is_in_the_schema_and_every_column_of_the_schema_is_written() {
    let text = document("../fixtures/fleet/trial.json");
    let tables = TrialTables::new(&Read::parse(text.as_bytes()).unwrap(), &Origin::default());
    assert_defines("holdup-fleet-trials-1", std::slice::from_ref(&tables));
    every_key_is_a_column(&tables, &tables.sheets());
    let rows = [tables.trial.len(), tables.remedy.len(), tables.trial_run.len()];
    assert_eq!(rows, [1, 2, 4], "{tables:#?}");
    assert_eq!(tables.trial_run[2].remedy.as_deref(), Some("lock spin-park"));
}

/// A field whose type no column has would be left out.
pub(super) fn every_key_is_a_column(tables: &impl Serialize, sheets: &[Sheet]) {
    let json = serde_json::to_value(tables).unwrap();
    for sheet in sheets {
        let mut header = sheet.header();
        header.sort_unstable();
        let keys: Vec<&String> = json[sheet.name][0].as_object().unwrap().keys().collect();
        assert_eq!(header, keys, "{}", sheet.name);
    }
}

/// What is no trial is told as what it is, and what makes one.
#[test]
fn what_is_no_trial_is_told() {
    let trial = document("../fixtures/fleet/trial.json");
    for (text, words) in [
        ("{", "no trial; 'holdup try --json"),
        ("{\"schema\": \"holdup-run-1\"}", "JSON of form 'holdup-run-1', which is no trial"),
        (&trial.replace("\"verdict\"", "\"verdikt\""), "a damaged trial (missing field `verdict`"),
        (&trial[..trial.len() / 2], "no trial; 'holdup try --json"),
    ] {
        let why = Read::parse(text.as_bytes()).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

/// What 'holdup try' writes is checked against it where trials are made.
#[test]
fn the_schema_of_a_trial_is_that_of_its_definition() {
    assert_describes::<super::trial_json::Document<'_>>("holdup-trial-1");
}

#[test]
fn the_schema_of_a_gate_is_that_of_its_definition() {
    assert_describes::<super::gate::Json<'_>>("holdup-gate-1");
}

#[test]
fn the_checker_finds_what_is_wrong() {
    let schema = schema::<json::Run<'_>>();
    let good = serde_json::to_value(json::Run::new(&specimen::single())).unwrap();
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        Checker::new(&schema).check(&value).is_err()
    };
    assert!(!wrong(&|_| ()));
    assert!(wrong(&|value| value["surprise"] = 1.into()));
    assert!(wrong(&|value| value["seed"] = 7.into()));
    assert!(wrong(&|value| value["schema"] = "holdup-run-2".into()));
    assert!(wrong(&|value| value["cells"][0]["samples"][0]["sample"]["elapsed_ns"] = "1".into()));
    assert!(wrong(&|value| drop(value.as_object_mut().unwrap().remove("complete"))));
}

#[test]
fn the_document_names_every_column() {
    let text = document("export.md");
    let columns = csv::header(&specimen::deep());
    let own = columns.iter().filter(|column| !FACTORS.iter().any(|factor| factor.name == *column));
    let mut from = text.find("## CSV").unwrap();
    for column in own.filter(|column| !column.starts_with("extra_")) {
        let place = text[from..].find(&format!("`{column}`"));
        from += place.unwrap_or_else(|| panic!("{column} is not in its place in docs/export.md"));
    }
}

/// A schema as a type of TypeScript.
fn typescript(schema: &Value) -> String {
    let union = |any: &[Value]| any.iter().map(typescript).collect::<Vec<_>>().join(" | ");
    if let Some(name) = schema["$ref"].as_str() {
        return name.trim_start_matches("#/$defs/").to_owned();
    }
    if let Some(any) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        return union(any);
    }
    if let Some(literals) = schema["enum"].as_array() {
        return literals.iter().map(Value::to_string).collect::<Vec<_>>().join(" | ");
    }
    match (&schema["const"], &schema["type"]) {
        (Value::Null, Value::Array(types)) => {
            union(&types.iter().map(|one| serde_json::json!({ "type": one })).collect::<Vec<_>>())
        }
        (Value::Null, kind) => match kind.as_str().unwrap() {
            "integer" => "number".to_owned(),
            "array" => format!("{}[]", typescript(&schema["items"])),
            "object" => match schema["properties"].as_object() {
                Some(properties) => {
                    let fields = properties.iter().map(|(key, one)| format!("{key}: {}", typescript(one)));
                    format!("{{ {} }}", fields.collect::<Vec<_>>().join("; "))
                }
                None => format!("Record<string, {}>", typescript(&schema["additionalProperties"])),
            },
            simple => simple.to_owned(),
        },
        (literal, _) => literal.to_string(),
    }
}

#[test]
fn the_types_of_the_page_are_those_of_its_data() {
    let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    generator.subschema_for::<super::recording::json::Report<'_>>();
    generator.subschema_for::<super::page::View>();
    let types =
        generator.definitions().iter().map(|(name, one)| format!("export type {name} = {};\n", typescript(one)));
    let text =
        "// What a recording's page carries. Generated from the program's own types by a test, with HOLDUP_BLESS=1.\n\n"
            .to_owned() + &types.collect::<String>();
    matches_file(&PathBuf::from("viewer/report.ts"), &text);
}
