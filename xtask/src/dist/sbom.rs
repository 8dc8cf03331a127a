//! The software bill of materials: every crate whose code is in the program or in the interposer inside it, the C code
//! that one of them brings, and Rust's own library, as CycloneDX 1.5.
//!
//! Which crates are in a build says `cargo tree`; what they are, `cargo metadata` and Cargo.lock. What only builds or
//! tests is no part of it, nor are macros, whose code runs in the compiler.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::build::{Build, GLIBC, VERSION};
use crate::files::{cannot, put};
use crate::run::{Step, cargo};

/// What is shipped: the program, and the library inside it.
const SHIPPED: [&str; 2] = ["holdup", "holdup-preload"];

/// Name and version.
type Crate = (String, String);

/// Writes it.
pub fn write(build: &Build, folder: &Path) -> Result<(), String> {
    let mut shipped = BTreeSet::new();
    for package in SHIPPED {
        let tree = ["tree", "--locked", "--package", package, "--edges", "normal,no-proc-macro", "--target", GLIBC];
        let tree = cargo(&tree).args(&["--prefix", "none", "--format", "{p}"]).folder(&build.root).output()?;
        shipped.extend(tree.lines().filter_map(crate_of));
    }
    let about = ["metadata", "--locked", "--format-version", "1", "--filter-platform", GLIBC];
    let about = cargo(&about).folder(&build.root).output()?;
    let about: Value = serde_json::from_str(&about).map_err(|why| format!("what cargo says of crates: {why}"))?;
    let lock = build.root.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(|why| cannot("read", &lock, &why))?;
    let rustc = Step::new("rustc", &["--version"]).folder(&build.root).output()?;
    let time = Step::new("date", &["--utc", "--date", &format!("@{}", build.epoch), "+%FT%TZ"]).output()?;
    let document = Bill { shipped, about, sums: sums(&lock)?, rust: rustc, time: time.trim().to_owned() }.document()?;
    let text = format!("{document:#}\n");
    put(&folder.join(format!("holdup-{VERSION}.cdx.json")), text.as_bytes())
}

/// A line of the tree: `serde v1.0.1 (*)`.
fn crate_of(line: &str) -> Option<Crate> {
    let mut words = line.split(' ');
    Some((words.next()?.to_owned(), words.next()?.strip_prefix('v')?.to_owned()))
}

/// The checksums of Cargo.lock.
fn sums(lock: &str) -> Result<BTreeMap<Crate, String>, String> {
    let lock: toml::Table = lock.parse().map_err(|why| format!("Cargo.lock: {why}"))?;
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let text = |package: &toml::Value, key: &str| Some(package.get(key)?.as_str()?.to_owned());
    let sum = |package| Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?));
    Ok(packages.filter_map(sum).collect())
}

/// All that the document is made of.
struct Bill {
    shipped: BTreeSet<Crate>,
    about: Value,
    sums: BTreeMap<Crate, String>,
    rust: String,
    time: String,
}

impl Bill {
    fn document(&self) -> Result<Value, String> {
        let mut components = Vec::new();
        let mut dependencies = Vec::new();
        let ids = self.ids();
        for package in self.packages() {
            let name = (text(package, "name"), text(package, "version"));
            if !self.shipped.contains(&name) {
                continue;
            }
            let mut needs: Vec<String> = self.needs(&text(package, "id"), &ids);
            components.push(self.component(package, &name));
            if let Some(c) = bundled(package)? {
                needs.push(c["bom-ref"].as_str().unwrap_or_default().to_owned());
                components.push(c);
            }
            dependencies.push(json!({ "ref": reference(&name), "dependsOn": needs }));
        }
        components.push(self.rust());
        components.sort_by_key(|component| text(component, "bom-ref"));
        dependencies.sort_by_key(|dependency| text(dependency, "ref"));
        let program = reference(&("holdup".to_owned(), VERSION.to_owned()));
        // What the document is about is no component of itself.
        let (mut whole, components): (Vec<Value>, Vec<Value>) =
            components.into_iter().partition(|component| component["bom-ref"] == program.as_str());
        let mut whole = whole.pop().ok_or("cargo does not know holdup")?;
        whole["type"] = json!("application");
        Ok(json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.5",
            "version": 1,
            "metadata": { "timestamp": self.time, "component": whole },
            "components": components,
            "dependencies": dependencies,
        }))
    }

    fn packages(&self) -> impl Iterator<Item = &Value> {
        self.about["packages"].as_array().into_iter().flatten()
    }

    /// cargo's names of crates, and ours.
    fn ids(&self) -> BTreeMap<String, Crate> {
        self.packages()
            .map(|package| (text(package, "id"), (text(package, "name"), text(package, "version"))))
            .filter(|(_, name)| self.shipped.contains(name))
            .collect()
    }

    /// What a crate needs of those that are shipped.
    fn needs(&self, id: &str, ids: &BTreeMap<String, Crate>) -> Vec<String> {
        let nodes = self.about["resolve"]["nodes"].as_array().into_iter().flatten();
        let dependencies = nodes.filter(|node| node["id"] == id).filter_map(|node| node["dependencies"].as_array());
        let named = dependencies.flatten().filter_map(|id| ids.get(id.as_str()?));
        named.map(reference).collect::<BTreeSet<String>>().into_iter().collect()
    }

    fn component(&self, package: &Value, name: &Crate) -> Value {
        let mut component = json!({
            "type": "library",
            "bom-ref": reference(name),
            "name": name.0,
            "version": name.1,
            "purl": reference(name),
        });
        if let Some(licence) = package["license"].as_str() {
            // What old crates write for "or".
            component["licenses"] = json!([{ "expression": licence.replace('/', " OR ") }]);
        }
        if let Some(description) = package["description"].as_str() {
            component["description"] = json!(description.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        if let Some(sum) = self.sums.get(name) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": sum }]);
        }
        component
    }

    /// Rust's standard library, in every program.
    fn rust(&self) -> Value {
        let version = self.rust.split(' ').nth(1).unwrap_or_default();
        let reference = format!("pkg:generic/rust@{version}");
        json!({
            "type": "library", "bom-ref": reference, "name": "rust", "version": version, "purl": reference,
            "description": "Rust's standard library", "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        })
    }
}

fn reference((name, version): &Crate) -> String {
    format!("pkg:cargo/{name}@{version}")
}

fn text(of: &Value, key: &str) -> String {
    of[key].as_str().unwrap_or_default().to_owned()
}

/// SQLite, whose C sources come with a crate and whose version stands in its header.
fn bundled(package: &Value) -> Result<Option<Value>, String> {
    if package["name"] != "libsqlite3-sys" {
        return Ok(None);
    }
    let manifest = text(package, "manifest_path");
    let header = Path::new(&manifest).with_file_name("sqlite3").join("sqlite3.h");
    let words = fs::read_to_string(&header).map_err(|why| cannot("read", &header, &why))?;
    let line = words.lines().find(|line| line.starts_with("#define SQLITE_VERSION "));
    let Some(version) = line.and_then(|line| line.split('"').nth(1)) else {
        return Err(format!("{} does not say its version", header.display()));
    };
    let reference = format!("pkg:generic/sqlite@{version}");
    Ok(Some(json!({
        "type": "library", "bom-ref": reference, "name": "sqlite", "version": version, "purl": reference,
        "description": "SQLite, built from C", "licenses": [{ "license": { "id": "blessing" } }],
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Crate {
        (name.to_owned(), "1.0.0".to_owned())
    }

    #[test]
    fn lines_of_the_tree_are_crates() {
        assert_eq!(crate_of("serde v1.0.0 (*)"), Some(name("serde")));
        assert_eq!(crate_of("holdup v1.0.0 (/x/y)"), Some(name("holdup")));
        assert_eq!(crate_of(""), None);
    }

    #[test]
    fn the_bill_has_what_is_shipped_and_nothing_else() {
        let package =
            |name: &str, id: &str| json!({ "name": name, "version": "1.0.0", "id": id, "license": "MIT/Zlib" });
        let ours = json!({ "name": "holdup", "version": VERSION, "id": "h" });
        let about = json!({
            "packages": [ours, package("serde", "s"), package("cc", "c")],
            "resolve": { "nodes": [{ "id": "h", "dependencies": ["s", "c"] }] },
        });
        let lock = "[[package]]\nname = \"serde\"\nversion = \"1.0.0\"\nchecksum = \"ab\"\n";
        let shipped = [("holdup".to_owned(), VERSION.to_owned()), name("serde")].into();
        let (rust, time) = ("rustc 1.2.3 (x)".to_owned(), "2026-01-01T00:00:00Z".to_owned());
        let bill = Bill { shipped, about, sums: sums(lock).unwrap(), rust, time }.document().unwrap();
        let names: Vec<&str> =
            bill["components"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
        assert_eq!(names, ["serde", "rust"]);
        assert_eq!(bill["metadata"]["component"]["name"], "holdup");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT OR Zlib");
        assert_eq!(bill["components"][0]["hashes"][0]["content"], "ab");
        let needs: Vec<&Value> = bill["dependencies"].as_array().unwrap().iter().map(|d| &d["dependsOn"]).collect();
        assert_eq!(needs[0], &json!(["pkg:cargo/serde@1.0.0"]));
    }
}
