//! `package`: every crate as a registry gets it, and holdup installed from them into a home that has nothing.
//!
//! cargo makes and builds the packages in their order. Then they lie in one folder with all that they depend on, as a
//! distribution vendors them; a cargo that knows no other source installs holdup from there, and what it installed must
//! put other locks under a program.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::files::{cannot, fresh, put, remove, size};
use crate::run::{Step, cargo, root, target_folder};

/// What must lie in every package beside its sources.
const FILES: &[&str] = &["Cargo.toml", "Cargo.lock", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Makes them, installs from them, and uses what was installed.
pub fn check(args: &[String]) -> Result<(), String> {
    let keeps = match args {
        [] => false,
        [option] if option == "--keep" => true,
        [other, ..] => return Err(format!("'{other}' is no option of package; --keep keeps what it built")),
    };
    let packages = make()?;
    let place = Place::new(target_folder().join("package-check"))?;
    place.vendor(&packages)?;
    place.install()?;
    place.try_it()?;
    if !keeps {
        remove(&place.folder)?;
    }
    println!("{} crates can be published; holdup from their packages puts locks under a program:", packages.len());
    for package in &packages {
        println!("  {:<16} {:>5} KB", package.name, size(&package.file)?.div_ceil(1000));
    }
    Ok(())
}

/// One crate's package.
struct Package {
    name: String,
    version: String,
    file: PathBuf,
}

/// Has cargo make and build every package, each from those before it.
fn make() -> Result<Vec<Package>, String> {
    let about = cargo(&["metadata", "--no-deps", "--format-version", "1", "--locked"]).output()?;
    let about: Value =
        serde_json::from_str(&about).map_err(|why| format!("what cargo says of the workspace: {why}"))?;
    let packages: Vec<Package> = about["packages"].as_array().into_iter().flatten().filter_map(package).collect();
    for package in packages.iter().filter(|package| package.file.exists()) {
        fs::remove_file(&package.file).map_err(|why| cannot("remove", &package.file, &why))?;
    }
    cargo(&["package", "--workspace", "--exclude", "xtask", "--locked", "--allow-dirty"]).run()?;
    packages.iter().try_for_each(Package::look)?;
    Ok(packages)
}

/// A crate that is for a registry, from its entry in cargo's metadata.
fn package(about: &Value) -> Option<Package> {
    // An empty list of registries is what `publish = false` means.
    if about["publish"].as_array().is_some_and(Vec::is_empty) {
        return None;
    }
    let (name, version) = (about["name"].as_str()?.to_owned(), about["version"].as_str()?.to_owned());
    let file = target_folder().join("package").join(format!("{name}-{version}.crate"));
    Some(Package { name, version, file })
}

impl Package {
    /// Whether it has what every package must have.
    fn look(&self) -> Result<(), String> {
        let list = Step::new("tar", &["--list", "--gzip", "--file", &self.file.display().to_string()]).output()?;
        let missing: Vec<&str> = FILES.iter().copied().filter(|file| !self.has(&list, file)).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("{} has no {}", self.name, missing.join(", "))) }
    }

    fn has(&self, list: &str, file: &str) -> bool {
        let path = format!("{}-{}/{file}", self.name, self.version);
        list.lines().any(|line| line == path)
    }

    /// Unpacks it as a vendored package.
    fn unpack(&self, into: &Path) -> Result<(), String> {
        let (file, folder) = (self.file.display().to_string(), into.display().to_string());
        Step::new("tar", &["--extract", "--gzip", "--file", &file, "--directory", &folder]).run()?;
        let unpacked = into.join(format!("{}-{}", self.name, self.version));
        let sum = Step::new("sha256sum", &[&file]).output()?;
        let sum = sum.split_whitespace().next().unwrap_or_default();
        let text = serde_json::json!({ "files": {}, "package": sum }).to_string();
        let named = into.join(&self.name);
        put(&unpacked.join(".cargo-checksum.json"), text.as_bytes())?;
        fs::rename(&unpacked, &named).map_err(|why| cannot("move", &unpacked, &why))
    }
}

/// Where holdup is installed and used: a home with nothing but the name of a folder of packages.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn new(folder: PathBuf) -> Result<Place, String> {
        for name in ["", "home/.cargo", "work"] {
            fresh(&folder.join(name))?;
        }
        Ok(Place { folder })
    }

    fn path(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// All packages in one folder, ours and others', and a cargo that looks nowhere else.
    fn vendor(&self, packages: &[Package]) -> Result<(), String> {
        let vendored = self.folder.join("vendor");
        cargo(&["vendor", "--quiet", "--locked", &self.path("vendor")]).output()?;
        packages.iter().try_for_each(|package| package.unpack(&vendored))?;
        let text = format!(
            "[source.crates-io]\nreplace-with = \"vendored\"\n\n[source.vendored]\ndirectory = {:?}\n",
            vendored.display().to_string()
        );
        put(&self.folder.join("home/.cargo/config.toml"), text.as_bytes())
    }

    /// A step in the empty home. The compiler stays where it is installed.
    fn at_home(&self, step: Step) -> Step {
        let home = std::env::var("HOME").unwrap_or_default();
        let compilers = std::env::var("RUSTUP_HOME").unwrap_or_else(|_| format!("{home}/.rustup"));
        step.env("HOME", &self.path("home")).env("CARGO_HOME", &self.path("home/.cargo")).env("RUSTUP_HOME", &compilers)
    }

    fn install(&self) -> Result<(), String> {
        // In a debug build: half the time, of the same packages.
        let install =
            cargo(&["install", "--debug", "--locked", "--offline", "--root", &self.path("home/.cargo"), "holdup"]);
        self.at_home(install).env("CARGO_TARGET_DIR", &self.path("build")).run()
    }

    /// The installed program searches a fix for a program that has a lock, and its interposer must be in the runs.
    fn try_it(&self) -> Result<(), String> {
        let program = self.path("work/page_cache");
        let source = root().join("examples/page_cache.c").display().to_string();
        Step::new("cc", &["-O2", "-g", "-pthread", "-o", &program, &source]).run()?;
        let holdup = self.path("home/.cargo/bin/holdup");
        let tried = ["try", "--json", "--locks", "spin-learn", "--budget", "20s", "--", &program, "400"];
        let report = self.at_home(Step::new(&holdup, &tried)).output()?;
        let report: Value = serde_json::from_str(&report).map_err(|why| format!("the report of holdup try: {why}"))?;
        let remedies = report["remedies"].as_array().cloned().unwrap_or_default();
        let Some(policy) = remedies.iter().find(|remedy| remedy["name"] == "spin-learn") else {
            return Err(format!("the installed holdup tries no lock policy: {remedies:?}"));
        };
        if !policy["failure"].is_null() || policy["runs"].as_u64().unwrap_or(0) == 0 {
            return Err(format!("the installed holdup's interposer does not serve: {policy}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_for_a_registry_is_left_out() {
        let named = |publish: Value| {
            let about = serde_json::json!({ "name": "holdup-x", "version": "1.2.3", "publish": publish });
            package(&about).map(|package| package.file.file_name().map(|name| name.to_string_lossy().into_owned()))
        };
        assert_eq!(named(serde_json::json!([])), None);
        assert_eq!(named(Value::Null), Some(Some("holdup-x-1.2.3.crate".to_owned())));
    }

    #[test]
    fn what_a_package_lacks_is_named() {
        let package = Package { name: "a".to_owned(), version: "1.0.0".to_owned(), file: PathBuf::new() };
        let list = "a-1.0.0/Cargo.toml\na-1.0.0/src/README.md\n";
        assert!(package.has(list, "Cargo.toml") && !package.has(list, "README.md"));
    }
}
