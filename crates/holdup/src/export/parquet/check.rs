//! What is in a folder of tables: what engines will read, and what does not belong there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::file::reader::{FileReader as _, SerializedFileReader};

use super::folder::{entries, id_of};
use super::{Failure, TABLE_KEY, VERSION, VERSION_KEY};

/// Tables that belong together: those of a recording, of a run, of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they are of: `recording`.
    pub of: &'static str,
    /// The names of the tables, the main one first.
    pub tables: Vec<&'static str>,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// How many recordings, runs and trials are there with all of their tables.
    pub whole: BTreeMap<&'static str, usize>,
    /// Rows by table.
    pub rows: BTreeMap<String, u64>,
    /// What is wrong: the file or folder, and what about it.
    pub wrong: Vec<(PathBuf, String)>,
}

/// Looks at every file of a folder.
///
/// # Errors
/// A folder cannot be read.
pub fn check(root: &Path, groups: &[Group]) -> Result<Checked, Failure> {
    let mut checked = Checked::default();
    let version = root.join(format!("v{VERSION}"));
    for folder in entries(root)?.into_iter().filter(|path| path.is_dir() && is_version(path) && *path != version) {
        checked.wrong.push((folder, format!("tables of another version of holdup; this one reads v{VERSION}")));
    }
    for folder in entries(&version)? {
        let name = name_of(&folder);
        if !groups.iter().any(|group| group.tables.contains(&name.as_str())) {
            checked.wrong.push((folder, "no table of holdup; remove it, or give it another place".to_owned()));
        }
    }
    for group in groups {
        checked.group(&version, group)?;
    }
    Ok(checked)
}

/// `v1`, `v2` and so on.
fn is_version(path: &Path) -> bool {
    name_of(path).strip_prefix('v').is_some_and(|number| number.parse::<u32>().is_ok())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

impl Checked {
    /// Every table of a group; what has not all of them.
    fn group(&mut self, version: &Path, group: &Group) -> Result<(), Failure> {
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for table in &group.tables {
            let is_main = group.tables.first() == Some(table);
            self.table(&version.join(table), table, is_main.then_some(group.of), &mut found)?;
        }
        for (id, has) in &found {
            let missing: Vec<&str> = group.tables.iter().copied().filter(|table| !has.contains(*table)).collect();
            match missing.as_slice() {
                [] => *self.whole.entry(group.of).or_default() += 1,
                missing => self.wrong.push((
                    version.to_owned(),
                    format!(
                        "{} {id} lacks {}: its export was ended in the middle; export it again, or remove the files of that name \
                         if there is nothing to export any more",
                        group.of,
                        missing.join(", ")
                    ),
                )),
            }
        }
        Ok(())
    }

    /// Every file of a table, three folders deep.
    fn table(
        &mut self,
        folder: &Path,
        table: &str,
        main_of: Option<&str>,
        found: &mut BTreeMap<String, BTreeSet<String>>,
    ) -> Result<(), Failure> {
        let mut folders = vec![folder.to_owned()];
        for level in ["day=", "service=", "host="] {
            let mut inner = Vec::new();
            for path in folders.iter().map(|folder| entries(folder)).collect::<Result<Vec<_>, _>>()?.concat() {
                match path.is_dir() && name_of(&path).starts_with(level) {
                    true => inner.push(path),
                    false => self.foreign(path),
                }
            }
            folders = inner;
        }
        for folder in folders {
            for path in entries(&folder)? {
                match id_of(&path) {
                    None => self.foreign(path),
                    Some(id) => match rows(&path, table) {
                        Ok(rows) => {
                            *self.rows.entry(table.to_owned()).or_default() += rows;
                            let is_new = found.entry(id.clone()).or_default().insert(table.to_owned());
                            if let (false, Some(of)) = (is_new, main_of) {
                                let twice = format!("{of} {id} is there twice; remove one of its files everywhere");
                                self.wrong.push((path, twice));
                            }
                        }
                        Err(why) => self.wrong.push((path, why)),
                    },
                }
            }
        }
        Ok(())
    }

    fn foreign(&mut self, path: PathBuf) {
        self.wrong.push((path, "not written by holdup; remove it, or give it another place".to_owned()));
    }
}

/// How many rows a file has; an error if it is no file of this table.
fn rows(path: &Path, table: &str) -> Result<u64, String> {
    let file = File::open(path).map_err(|why| why.to_string())?;
    let again = "remove it, and export it again";
    let reader = SerializedFileReader::new(file).map_err(|why| format!("no whole Parquet file ({why}); {again}"))?;
    let about = reader.metadata().file_metadata();
    let mark = |key: &str| {
        let pairs = about.key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.clone()
    };
    let version = VERSION.to_string();
    match (mark(TABLE_KEY), mark(VERSION_KEY)) {
        (Some(own), Some(of)) if own == table && of == version => Ok(u64::try_from(about.num_rows()).unwrap_or(0)),
        (Some(own), Some(of)) if of == version => {
            Err(format!("a file of the table {own}, not of {table}; move it there"))
        }
        (Some(_), Some(of)) => Err(format!("version {of} of the table, not {version}; {again}")),
        _ => Err("Parquet, but not written by holdup; remove it, or give it another place".to_owned()),
    }
}
