//! Rules of the house that a reader cannot see at a glance: who imports whom, where lints and system-specific code are.

use std::path::{Path, PathBuf};

use super::files;

/// Which of our crates each crate imports, no more and no fewer. An edge that is not here needs a decision first.
const EDGES: &[(&str, &[&str])] = &[
    ("holdup-trace", &[]),
    ("holdup-locks", &[]),
    ("holdup-control", &[]),
    ("holdup-capi", &["holdup-locks"]),
    ("holdup-preload", &["holdup-control", "holdup-locks"]),
    ("holdup-bench", &["holdup-locks"]),
    ("holdup-run", &[]),
    ("holdup-record", &["holdup-trace"]),
    ("holdup-analyze", &["holdup-trace"]),
    (
        "holdup",
        &[
            "holdup-analyze",
            "holdup-bench",
            "holdup-control",
            "holdup-locks",
            "holdup-record",
            "holdup-run",
            "holdup-trace",
        ],
    ),
    ("xtask", &[]),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Folder and parsed manifest of every crate.
fn crates() -> Vec<(PathBuf, toml::Table)> {
    let folders = files(&root().join("crates")).into_iter().map(|name| root().join("crates").join(name));
    folders
        .chain([root().join("xtask")])
        .filter(|folder| folder.join("Cargo.toml").exists())
        .map(|folder| {
            let text = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            (folder, text.parse().unwrap())
        })
        .collect()
}

fn name(manifest: &toml::Table) -> &str {
    manifest["package"]["name"].as_str().unwrap()
}

/// Every table of dependencies that the shipped crate has, those for single systems too.
fn dependencies(manifest: &toml::Table) -> Vec<String> {
    let mut tables: Vec<&toml::Value> = manifest.get("dependencies").into_iter().collect();
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(|target| target.get("dependencies")));
    }
    tables.into_iter().filter_map(toml::Value::as_table).flat_map(|table| table.keys().cloned()).collect()
}

/// Those of them that are ours, sorted.
fn ours(manifest: &toml::Table) -> Vec<String> {
    let mut ours = dependencies(manifest);
    ours.retain(|name| name.starts_with("holdup-"));
    ours.sort();
    ours
}

/// Every source file of every crate.
fn sources() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = crates().into_iter().map(|(folder, _)| folder).collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }
    assert!(sources.len() > 30, "the walk misses the sources");
    sources
}

#[test]
fn crates_import_whom_the_table_says() {
    for (_, manifest) in crates() {
        let name = name(&manifest);
        let (_, allowed) =
            EDGES.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("{name} is not in the table of edges"));
        assert_eq!(ours(&manifest), *allowed, "who {name} imports: its manifest, then the table of edges");
    }
}

#[test]
fn the_interposer_is_built_anew_when_any_crate_in_it_changes() {
    let mut inside = vec!["holdup-preload".to_owned()];
    let crates = crates();
    let mut at = 0;
    while at < inside.len() {
        let (_, manifest) = crates.iter().find(|(_, manifest)| name(manifest) == inside[at]).unwrap();
        let more: Vec<String> = ours(manifest).into_iter().filter(|name| !inside.contains(name)).collect();
        inside.extend(more);
        at += 1;
    }
    let script = std::fs::read_to_string(root().join("crates/holdup/build.rs")).unwrap();
    let named: Vec<&str> = script.split('"').filter(|word| word.starts_with("holdup-")).collect();
    assert_eq!(named, inside, "PACKAGE and OTHERS in build.rs, then what the library is made of");
}

/// Every crate but xtask.
fn published() -> Vec<(PathBuf, toml::Table)> {
    let mut crates = crates();
    crates.retain(|(_, manifest)| name(manifest) != "xtask");
    crates
}

#[test]
fn every_crate_says_what_a_registry_shows() {
    for (folder, manifest) in published() {
        let package = manifest["package"].as_table().unwrap();
        let text = |key: &str| package.get(key).and_then(toml::Value::as_str).unwrap_or_default().to_owned();
        let name = name(&manifest);
        assert!(!text("description").is_empty(), "{name} has no description");
        assert_eq!(text("documentation"), format!("https://docs.rs/{name}"));
        assert!(folder.join(text("readme")).is_file(), "{name} has no readme");
        for (key, most) in [("keywords", 5), ("categories", 5)] {
            let given = package.get(key).and_then(toml::Value::as_array).map_or(0, Vec::len);
            assert!((1..=most).contains(&given), "{name} has {given} {key}");
        }
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let whole = std::fs::read_to_string(root().join(licence)).unwrap();
            let carried = std::fs::read_to_string(folder.join(licence)).unwrap_or_default();
            assert_eq!(carried, whole, "{name}/{licence}; it is a link to ../../{licence}");
        }
    }
}

/// What a package includes in its sources must be in the package: a path that leaves it compiles here alone.
#[test]
fn no_crate_includes_files_of_others() {
    for (folder, manifest) in published() {
        let shipped = sources().into_iter().filter(|path| path.starts_with(folder.join("src")) && !is_test(path));
        for path in shipped {
            let text = std::fs::read_to_string(&path).unwrap();
            for file in text.split("include_").skip(1).filter_map(|rest| rest.split('"').nth(1)) {
                let ups = file.split('/').take_while(|part| *part == "..").count();
                let depth = path.strip_prefix(&folder).unwrap().components().count() - 1;
                assert!(ups <= depth, "{}: {file} is no file of {}", path.display(), name(&manifest));
            }
        }
    }
}

/// Whether a source is compiled for tests alone.
fn is_test(source: &Path) -> bool {
    let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    stem.ends_with("tests") || source.components().any(|part| part.as_os_str() == "tests")
}

#[test]
fn crates_of_one_release_ask_for_each_other() {
    let workspace: toml::Table = std::fs::read_to_string(root().join("Cargo.toml")).unwrap().parse().unwrap();
    let version = workspace["workspace"]["package"]["version"].as_str().unwrap();
    let dependencies = workspace["workspace"]["dependencies"].as_table().unwrap();
    for (name, about) in dependencies.iter().filter(|(name, _)| name.starts_with("holdup")) {
        let asked = about.get("version").and_then(toml::Value::as_str);
        assert_eq!(asked, Some(&*format!("={version}")), "[workspace.dependencies] {name}");
    }
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    for (_, manifest) in crates() {
        let inherits = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        assert_eq!(inherits.and_then(toml::Value::as_bool), Some(true), "{}", name(&manifest));
    }
}

#[test]
fn every_source_file_says_what_it_is_for() {
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} does not begin with a //! line", path.display());
    }
}

/// Whether cargo finds the file by itself: a crate's root, a test, an example, a build script.
fn is_root(source: &Path) -> bool {
    let Some(folder) = source.parent() else { return true };
    let beside_manifest = |folder: &Path| folder.join("Cargo.toml").exists();
    ["lib.rs", "main.rs"].iter().any(|name| source.ends_with(name))
        || folder.ends_with("bin")
        || beside_manifest(folder)
        || (!folder.ends_with("src") && folder.parent().is_some_and(beside_manifest))
}

/// What no `mod` declares is never compiled, and the compiler does not say so.
#[test]
fn every_source_file_is_a_module_of_its_crate() {
    let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
    let sources = sources();
    let elsewhere: String = sources
        .iter()
        .flat_map(|source| {
            read(source).lines().filter(|line| line.contains("#[path")).map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    for source in sources.iter().filter(|source| !is_root(source)) {
        let module = if source.ends_with("mod.rs") { source.parent().unwrap() } else { source };
        let (folder, name) = (module.parent().unwrap(), module.file_stem().unwrap().to_string_lossy());
        let parents = ["mod.rs", "lib.rs", "main.rs"].map(|file| folder.join(file));
        let declared = parents
            .iter()
            .chain([&folder.with_extension("rs")])
            .any(|parent| read(parent).lines().any(|line| line.ends_with(&format!("mod {name};"))));
        assert!(
            declared || elsewhere.contains(&format!("{name}.rs\"")),
            "{} is no module of its crate: its folder's mod.rs wants 'mod {name};'",
            source.display()
        );
    }
}

#[test]
fn only_sys_folders_know_the_operating_system() {
    // Put together here so that this file does not find itself.
    let marks = ["target_", "uni", "windo"].into_iter().zip(["os", "x)", "ws)"]).map(|(a, b)| format!("{a}{b}"));
    let marks: Vec<String> = marks.collect();
    for path in sources() {
        let in_sys = path.components().any(|part| part.as_os_str() == "sys");
        let is_sys = path.file_stem().is_some_and(|stem| stem == "sys");
        let is_test = path.components().any(|part| ["tests", "benches"].iter().any(|name| part.as_os_str() == *name));
        if in_sys || is_sys || is_test {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for (number, line) in text.lines().enumerate() {
            let configured = line.contains("cfg") && marks.iter().any(|mark| line.contains(mark));
            assert!(!configured, "{}:{}: {line}", path.display(), number + 1);
        }
    }
}

/// rustfmt holds code within its width, but not comments. Tables, drawings and generated lines may be wider.
#[test]
fn comments_end_within_the_width() {
    const WIDTH: usize = 120;
    for path in sources() {
        let text = std::fs::read_to_string(&path).unwrap();
        let mut in_block = false;
        for (number, line) in text.lines().enumerate() {
            let comment = line.trim_start().strip_prefix("//").map(|rest| rest.trim_start_matches(['/', '!']));
            let Some(comment) = comment.map(str::trim_start) else { continue };
            in_block ^= comment.starts_with("```");
            let drawn = comment.contains("  ") || comment.starts_with(['|', '`', '{']);
            let prose = !in_block && !drawn && !comment.starts_with("Measured: ");
            let fits = line.chars().count() <= WIDTH;
            assert!(fits || !prose, "{}:{}: wider than {WIDTH} columns", path.display(), number + 1);
        }
    }
}
