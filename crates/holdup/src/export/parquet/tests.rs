//! Files read back by the crate that wrote them; other engines read them in `cargo xtask fleet-test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::basic::Type as Physical;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::schema::types::Type;
use schemars::JsonSchema;
use serde::Serialize;

use super::{Folder, Group, Partition, Sheet, check, id};

#[derive(Default, Serialize, JsonSchema)]
struct Row {
    word: String,
    zero: u64,
    share: f64,
    perhaps: Option<String>,
    number: Option<i64>,
    flag: bool,
}

const HOSTILE: &str = "a'; DROP TABLE x; --\"\u{0}\n\u{202e}</script>";

fn sheet() -> Sheet {
    sheet_named("recording")
}

fn sheet_named(name: &'static str) -> Sheet {
    let first = Row { word: HOSTILE.to_owned(), zero: u64::MAX, share: 0.5, number: Some(-3), ..Row::default() };
    let second = Row { perhaps: Some("é".to_owned()), flag: true, ..Row::default() };
    Sheet::of(name, &[first, second])
}

/// The rows of a file, each a list of names and values.
fn rows(path: &Path) -> Vec<Vec<(String, Field)>> {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| row.unwrap().into_columns()).collect()
}

fn partition(service: &str) -> Partition {
    Partition { day: "2026-11-21".to_owned(), service: service.to_owned(), host: "web-1".to_owned() }
}

/// Every file below a folder, in order.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(files(&path)) } else { all.push(path) }
    }
    all.sort();
    all
}

#[test]
fn rows_come_back_as_they_were_with_empty_cells_and_hostile_text() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("x");
    fs::write(&path, sheet().to_parquet().unwrap()).unwrap();
    let text = |text: &str| Field::Str(text.to_owned());
    let expected = [
        [text(HOSTILE), Field::Long(i64::MAX), Field::Double(0.5), Field::Null, Field::Long(-3), Field::Bool(false)],
        [text(""), Field::Long(0), Field::Double(0.0), text("é"), Field::Null, Field::Bool(true)],
    ];
    let names = ["word", "zero", "share", "perhaps", "number", "flag"];
    assert_eq!(sheet().header(), names);
    for (row, expected) in rows(&path).into_iter().zip(expected) {
        let expected: Vec<_> = names.iter().map(|name| (*name).to_owned()).zip(expected).collect();
        assert_eq!(row, expected);
    }
}

#[test]
fn a_table_without_rows_is_a_file_with_columns() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("x");
    fs::write(&path, Sheet::of::<Row>("recording", &[]).to_parquet().unwrap()).unwrap();
    assert!(rows(&path).is_empty());
    let reader = SerializedFileReader::new(fs::File::open(&path).unwrap()).unwrap();
    assert_eq!(reader.metadata().file_metadata().schema().get_fields().len(), 6);
}

#[test]
fn what_is_added_is_there_under_its_partition_and_known_from_then_on() {
    let place = tempfile::tempdir().unwrap();
    let mut folder = Folder::open(place.path()).unwrap();
    let id = id(b"one");
    assert!(!folder.has("recording", "2026-11-21", &id).unwrap());
    folder.add(&partition("a b/=é"), &id, &[sheet()]).unwrap();
    assert!(folder.has("recording", "2026-11-21", &id).unwrap());
    let mut again = Folder::open(place.path()).unwrap();
    assert!(again.has("recording", "2026-11-21", &id).unwrap(), "also by who opens the folder later");
    assert!(!again.has("recording", "2026-11-22", &id).unwrap());
    let path = format!("v1/recording/day=2026-11-21/service=a%20b%2F%3D%C3%A9/host=web-1/holdup-{id}.parquet");
    assert_eq!(files(place.path()), [place.path().join(path)]);
}

#[test]
fn names_that_are_long_or_odd_are_folders_of_their_own() {
    let place = tempfile::tempdir().unwrap();
    let mut folder = Folder::open(place.path()).unwrap();
    let long = ["é".repeat(300), "é".repeat(301)];
    for (number, service) in ["", ".", "..", &long[0], &long[1], "\u{0}", "%"].iter().enumerate() {
        folder.add(&partition(service), &id(&[number as u8]), &[sheet()]).unwrap();
    }
    let all = files(place.path());
    let folders: std::collections::BTreeSet<_> = all.iter().map(|path| path.parent().unwrap()).collect();
    assert_eq!((all.len(), folders.len()), (7, 7), "{all:#?}");
    assert!(all.iter().all(|path| path.components().all(|part| part.as_os_str().len() <= 255)));
}

/// A file of Parquet with one column and these marks.
fn parquet_of(marks: &[(&str, &str)]) -> Vec<u8> {
    let column = Type::primitive_type_builder("x", Physical::INT64).build().unwrap();
    let schema = Type::group_type_builder("x").with_fields(vec![Arc::new(column)]).build().unwrap();
    let marks = marks.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), (*value).to_owned())).collect();
    let properties = WriterProperties::builder().set_key_value_metadata(Some(marks)).build();
    SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties)).unwrap().into_inner().unwrap()
}

#[test]
fn what_does_not_belong_into_a_folder_is_told_and_the_rest_counts() {
    let place = tempfile::tempdir().unwrap();
    let mut folder = Folder::open(place.path()).unwrap();
    let other = sheet_named("account");
    for one in [b"a", b"b", b"c", b"d"] {
        folder.add(&partition("s"), &id(one), &[sheet(), other.clone()]).unwrap();
    }
    let at = |table: &str, id: &str| {
        place.path().join(format!("v1/{table}/day=2026-11-21/service=s/host=web-1/holdup-{id}.parquet"))
    };
    // Cut off; without its main table; a file of another table; a foreign file; another version; another folder;
    // Parquet that somebody else wrote, and a file by a holdup of tomorrow, both under a name of ours.
    let whole = fs::read(at("account", &id(b"a"))).unwrap();
    fs::write(at("account", &id(b"a")), &whole[..whole.len() / 2]).unwrap();
    fs::remove_file(at("recording", &id(b"b"))).unwrap();
    fs::copy(at("recording", &id(b"c")), at("account", &id(b"c"))).unwrap();
    fs::write(place.path().join("v1/recording/notes.txt"), "x").unwrap();
    for other in ["v2/recording", "v1/stranger"] {
        fs::create_dir_all(place.path().join(other)).unwrap();
    }
    fs::write(at("account", &"e".repeat(32)), parquet_of(&[])).unwrap();
    fs::write(at("account", &"f".repeat(32)), parquet_of(&[("holdup.table", "account"), ("holdup.version", "2")]))
        .unwrap();
    let groups = [Group { of: "recording", tables: vec!["recording", "account"] }];
    let checked = check(place.path(), &groups).unwrap();
    let why = |part: &str| checked.wrong.iter().filter(|(_, why)| why.contains(part)).count();
    assert_eq!(checked.whole, [("recording", 1)].into(), "{checked:#?}");
    for (part, times) in [
        ("no whole Parquet file", 1),
        (&format!("recording {} lacks recording", id(b"b")), 1),
        ("a file of the table recording, not of account", 1),
        ("Parquet, but not written by holdup", 1),
        ("version 2 of the table, not 1", 1),
        ("not written by holdup", 2),
        ("tables of another version", 1),
        ("no table of holdup", 1),
    ] {
        assert_eq!(why(part), times, "{part}: {checked:#?}");
    }
}
