//! No circle of imports inside a crate, nor in the pages' script: a reader can take the files one after another.
//!
//! A file depends on the files that define what its paths name: paths that begin with `crate`, `self` or `super`, with
//! a child module, or with a module that the file has imported. A name that a module only re-exports is its definer's,
//! so a `mod.rs` that declares and re-exports its children depends on none of them, until it uses one itself. Code for
//! tests does not count, and a path inside a macro counts in the file that defines the macro.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type ModulePath = Vec<String>;

/// One file of a crate.
struct Module {
    file: PathBuf,
    /// Without comments, strings, and code for tests.
    tokens: Vec<String>,
    children: BTreeSet<String>,
    /// What its `use` declarations bring in: the name, the whole path, and whether it is a re-export.
    uses: Vec<(String, ModulePath, bool)>,
}

type Modules = BTreeMap<ModulePath, Module>;

/// Words and signs; a sign is one character, but for `::`.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = |mark: &str| rest.find(mark).map_or(rest.len(), |at| at + mark.len());
        let word = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let hashes = rest[1.min(rest.len())..].bytes().take_while(|byte| *byte == b'#').count();
        let len = if rest.starts_with("//") {
            after("\n")
        } else if rest.starts_with("/*") {
            after("*/")
        } else if first == 'r' && rest[1 + hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = 2 + hashes;
            rest[begin..].find(&end).map_or(rest.len(), |at| begin + at + end.len())
        } else if first == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c| {
                let ends = c == '"' && !escaped;
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |at| at + 2)
        } else if first == '\'' {
            // A character, or a lifetime, which has no second quote near.
            let second = rest[1..].char_indices().nth(1).map(|(at, _)| at + 1);
            match second {
                Some(at) if rest[at..].starts_with('\'') => at + 1,
                _ if rest[1..].starts_with('\\') => 3 + rest[3..].find('\'').map_or(0, |at| at + 1),
                _ => 1,
            }
        } else if word > 0 {
            tokens.push(rest[..word].to_owned());
            word
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[len..];
    }
    tokens
}

/// Where the item or block that begins at `at` ends: after its `;` or its braces.
fn item_end(tokens: &[String], at: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            ";" if depth == 0 => return index + 1,
            _ => {}
        }
        if depth == 0 && token == "}" {
            return index + 1;
        }
    }
    tokens.len()
}

/// Without items under `#[cfg(test)]`, and without other attributes.
fn without_tests(tokens: &[String]) -> Vec<String> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        let is_attribute = tokens[at] == "#" && tokens.get(at + 1).is_some_and(|next| next == "[" || next == "!");
        if !is_attribute {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let begin = at + 1 + usize::from(tokens[at + 1] == "!");
        let mut end = begin;
        let mut depth = 0;
        loop {
            depth += i32::from(tokens[end] == "[") - i32::from(tokens[end] == "]");
            end += 1;
            if depth == 0 {
                break;
            }
        }
        let attribute = &tokens[begin + 1..end - 1];
        let for_tests = attribute[0] == "cfg"
            && attribute.iter().any(|word| word == "test")
            && !attribute.iter().any(|word| word == "not");
        at = if for_tests && begin == at + 1 { item_end(tokens, end) } else { end };
    }
    kept
}

/// All paths of a `use` tree or an expression that begins at `at`, and where it ends. `*` ends a path as a word; `as`
/// names it anew.
fn tree(tokens: &[String], at: usize, prefix: &[String], paths: &mut Vec<(String, ModulePath)>) -> usize {
    let mut path = prefix.to_vec();
    let began = at;
    let mut at = at;
    loop {
        match tokens.get(at).map(String::as_str) {
            Some("{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    // A comma, or a macro's own signs, which name nothing.
                    at = tree(tokens, at, &path, paths).max(at + 1);
                }
                return at + 1;
            }
            Some(word) if word == "*" || word.starts_with(|c: char| c.is_alphanumeric() || c == '_') => {
                path.push(word.to_owned());
                at += 1;
            }
            _ => break,
        }
        if tokens.get(at).is_some_and(|token| token == "::") {
            at += 1;
        } else {
            break;
        }
    }
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    let mut name = path.last().cloned().unwrap_or_default();
    if tokens.get(at).is_some_and(|token| token == "as") {
        name = tokens[at + 1].clone();
        at += 2;
    }
    if at > began {
        paths.push((name, path));
    }
    at
}

/// The whole path that a path in the module `here` means, if it begins in this crate.
fn whole(here: &[String], module: &Module, path: &[String]) -> Option<ModulePath> {
    let first = path.first()?;
    let mut from = match first.as_str() {
        "crate" => Vec::new(),
        "self" | "super" => here.to_vec(),
        _ if module.children.contains(first) => {
            return Some([here, path].concat());
        }
        _ => return None,
    };
    let mut rest = path;
    while let Some((word, tail)) = rest.split_first() {
        match word.as_str() {
            "super" => drop(from.pop()),
            "self" | "crate" => {}
            _ => break,
        }
        rest = tail;
    }
    from.extend_from_slice(rest);
    Some(from)
}

/// A module inside a file is a part of the file: its paths, without the `super` that leads out of it.
fn flattened(tokens: Vec<String>) -> Vec<String> {
    let mut flat: Vec<String> = Vec::new();
    let (mut depth, mut inner) = (0, Vec::new());
    let mut at = 0;
    while at < tokens.len() {
        match tokens[at].as_str() {
            "{" => {
                if flat.len() >= 2 && flat[flat.len() - 2] == "mod" {
                    inner.push(depth);
                }
                depth += 1;
            }
            "}" => {
                depth -= 1;
                if inner.last() == Some(&depth) {
                    inner.pop();
                }
            }
            "super" if !inner.is_empty() && flat.last().is_none_or(|last| last != "::") => {
                at += 2;
                continue;
            }
            _ => {}
        }
        flat.push(tokens[at].clone());
        at += 1;
    }
    flat
}

/// Reads a file and the files of its children.
fn read(path: &[String], file: &Path, folder: &Path, modules: &mut Modules) {
    let text = std::fs::read_to_string(file).unwrap_or_else(|why| panic!("{}: {why}", file.display()));
    let tokens = flattened(without_tests(&tokens(&text)));
    let mut children = BTreeSet::new();
    for at in 0..tokens.len().saturating_sub(2) {
        if tokens[at] == "mod" && tokens[at + 2] == ";" {
            children.insert(tokens[at + 1].clone());
        }
    }
    let mut module = Module { file: file.to_owned(), tokens, children, uses: Vec::new() };
    let mut at = 0;
    while at < module.tokens.len() {
        if module.tokens[at] != "use" {
            at += 1;
            continue;
        }
        let before = at.checked_sub(1).map(|at| module.tokens[at].as_str());
        let mut paths = Vec::new();
        let end = tree(&module.tokens, at + 1, &[], &mut paths);
        for (name, of) in paths {
            if let Some(whole) = whole(path, &module, &of) {
                module.uses.push((name, whole, matches!(before, Some("pub" | ")"))));
            }
        }
        // What is left is code that uses names.
        module.tokens.drain(at..end);
    }
    for child in module.children.clone() {
        let child_path = [path, std::slice::from_ref(&child)].concat();
        let inner = folder.join(&child);
        // One that is elsewhere (`#[path]`) belongs to another folder.
        let file = [inner.with_extension("rs"), inner.join("mod.rs")].into_iter().find(|file| file.exists());
        let Some(file) = file else { continue };
        read(&child_path, &file, &inner, modules);
    }
    modules.insert(path.to_vec(), module);
}

/// The modules that define what a whole path names.
fn definers(modules: &Modules, path: &[String], depth: usize) -> BTreeSet<ModulePath> {
    let known = (0..=path.len()).rev().find(|len| modules.contains_key(&path[..*len])).unwrap_or(0);
    let (at, rest) = path.split_at(known);
    let Some(name) = rest.first() else { return BTreeSet::from([at.to_vec()]) };
    let module = &modules[at];
    let mut found = BTreeSet::new();
    // More than one, where each system has its own.
    for (exported, whole, public) in &module.uses {
        let further: Option<ModulePath> = match exported.as_str() {
            exported if exported == name => Some([whole, &rest[1..]].concat()),
            "*" if *public => Some([&whole[..whole.len() - 1], rest].concat()),
            _ => None,
        };
        if let Some(further) = further.filter(|_| depth < 8) {
            let more = definers(modules, &further, depth + 1);
            found.extend(more.into_iter().filter(|definer| exported != "*" || defines(&modules[definer], name)));
        }
    }
    if found.is_empty() { BTreeSet::from([at.to_vec()]) } else { found }
}

/// Whether a module itself has an item of this name.
fn defines(module: &Module, name: &str) -> bool {
    const KEYWORDS: [&str; 9] = ["fn", "struct", "enum", "trait", "type", "const", "static", "union", "mod"];
    module.tokens.windows(2).any(|pair| pair[1] == name && KEYWORDS.contains(&pair[0].as_str()))
        || module.tokens.windows(3).any(|three| three[2] == name && three[0] == "macro_rules")
}

/// Whether code mentions an item by its bare name: a type or constant, or a call of a function.
fn mentions(tokens: &[String], name: &str) -> bool {
    let is_type = name.starts_with(|c: char| c.is_uppercase());
    tokens.iter().enumerate().any(|(at, token)| {
        let before = at.checked_sub(1).map_or("", |at| tokens[at].as_str());
        let is_call = tokens.get(at + 1).is_some_and(|next| next == "(") && !matches!(before, "." | "fn");
        token == name && before != "::" && (is_type || is_call)
    })
}

/// Whom each module needs.
fn edges(modules: &Modules) -> BTreeMap<ModulePath, BTreeSet<ModulePath>> {
    let mut edges = BTreeMap::new();
    for (here, module) in modules {
        let mut paths: Vec<ModulePath> = Vec::new();
        for (name, whole, public) in &module.uses {
            if !public || mentions(&module.tokens, name) {
                paths.push(whole.clone());
            }
        }
        let words = &module.tokens;
        for at in 0..words.len() {
            let begins = words.get(at + 1).is_some_and(|next| next == "::") && (at == 0 || words[at - 1] != "::");
            if !begins {
                continue;
            }
            let mut one = Vec::new();
            tree(words, at, &[], &mut one);
            for (_, path) in one {
                let imported = module.uses.iter().find(|(name, ..)| *name == path[0]);
                let through_import = imported.map(|(_, whole, _)| [whole, &path[1..]].concat());
                paths.extend(through_import.or_else(|| whole(here, module, &path)));
            }
        }
        let mut needed = BTreeSet::new();
        for path in paths {
            needed.extend(match path.split_last() {
                Some((last, of)) if last == "*" => BTreeSet::from([of.to_vec()]),
                _ => definers(modules, &path, 0),
            });
        }
        needed.retain(|other| other != here && modules.contains_key(other));
        edges.insert(here.clone(), needed);
    }
    edges
}

/// The shortest circle through this node.
fn circle<N: Ord + Clone>(edges: &BTreeMap<N, BTreeSet<N>>, from: &N) -> Option<Vec<N>> {
    let mut came_from: BTreeMap<&N, &N> = BTreeMap::new();
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(at) = queue.pop_front() {
        for next in &edges[at] {
            if next == from {
                let mut path = vec![at.clone()];
                let mut back = at;
                while let Some(before) = came_from.get(back) {
                    path.push((*before).clone());
                    back = before;
                }
                path.reverse();
                return Some(path);
            }
            if !came_from.contains_key(next) {
                came_from.insert(next, at);
                queue.push_back(next);
            }
        }
    }
    None
}

/// Every circle once, each as the names of its files.
fn circles<N: Ord + Clone>(edges: &BTreeMap<N, BTreeSet<N>>, name: impl Fn(&N) -> String) -> BTreeSet<Vec<String>> {
    let found = edges.keys().filter_map(|node| circle(edges, node));
    found
        .map(|circle| {
            let mut names: Vec<String> = circle.iter().map(&name).collect();
            let first = (0..names.len()).min_by_key(|at| &names[*at]).unwrap_or(0);
            names.rotate_left(first);
            names
        })
        .collect()
}

fn report(circles: &BTreeSet<Vec<String>>) -> String {
    let line = |circle: &Vec<String>| format!("{} -> {}\n", circle.join(" -> "), circle[0]);
    circles.iter().map(line).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn no_file_of_a_crate_imports_itself_through_others() {
    let mut folders: Vec<PathBuf> =
        std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.push(root().join("xtask"));
    let mut all = BTreeSet::new();
    for folder in folders {
        let roots = [folder.join("src/lib.rs"), folder.join("src/main.rs")];
        let Some(file) = roots.iter().find(|file| file.exists()) else { continue };
        let mut modules = Modules::new();
        read(&[], file, &folder.join("src"), &mut modules);
        let name = |path: &ModulePath| {
            let file = modules[path].file.strip_prefix(root()).unwrap();
            file.display().to_string()
        };
        all.extend(circles(&edges(&modules), name));
    }
    assert!(all.is_empty(), "circles of imports:\n{}", report(&all));
}

#[test]
fn no_file_of_the_pages_script_imports_itself_through_others() {
    let folder = root().join("crates/holdup/viewer/src");
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "ts") {
            let text = std::fs::read_to_string(&path).unwrap();
            let imported = text.split("from \"./").skip(1).filter_map(|rest| rest.split('"').next());
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            edges.insert(name, imported.map(str::to_owned).collect());
        }
    }
    assert!(edges.len() > 10, "the walk misses the sources");
    let circles = circles(&edges, |name| format!("viewer/src/{name}.ts"));
    assert!(circles.is_empty(), "circles of imports:\n{}", report(&circles));
}
