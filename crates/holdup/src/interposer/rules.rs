//! `--lock-for 'NAME=POLICY'`: from the name of a lock in a program's sources to the place where the interposer meets
//! it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use holdup_analyze::{Catalog, Meaning, Stretch};
use holdup_control::{Policy, RULE_INIT, RULE_OBJECT, RULE_SITE, RULES, RwPolicy};
use holdup_trace::Header;

use super::program::Program;
use holdup_bench::suggest::nearest;

use super::{Rule, policy};
use crate::recording::binaries::Binaries;

/// What the user asked for one lock, or a few of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// A variable, a function or a line of source.
    pub name: String,
    /// Its policy, if it is a mutex.
    pub policy: Option<Policy>,
    /// Its policy, if it is a reader-writer lock.
    pub rw: Option<RwPolicy>,
}

/// Reads `NAME=POLICY`.
///
/// # Errors
/// There is no `=`, no name, or no such policy.
pub fn parse(text: &str) -> Result<Wish, String> {
    let expected =
        "give NAME=POLICY, as in 'g_cache_lock=throttle:2', 'cache.c:42=spin-park' or 'g_routes=prefer-writer'";
    let (name, policy) = text.rsplit_once('=').ok_or_else(|| format!("'{text}' names no policy; {expected}"))?;
    if name.trim().is_empty() {
        return Err(format!("'{text}' names no lock; {expected}"));
    }
    let (policy, rw) = policy::parse_any(policy.trim())?;
    Ok(Wish { name: name.trim().to_owned(), policy, rw })
}

/// The rules for all wishes.
///
/// # Errors
/// A name is not known in the program or its libraries, or there are more places than room for rules.
pub fn resolve(wishes: &[Wish], program: &Program) -> Result<Vec<Rule>, String> {
    if wishes.is_empty() {
        return Ok(Vec::new());
    }
    let binaries = Binaries::of(&Header::default(), None);
    let modules = Module::all(program, &binaries);
    let mut rules = Vec::new();
    for wish in wishes {
        rules.extend(rules_of(wish, &modules).ok_or_else(|| unknown(&wish.name, program, &modules))?);
    }
    if rules.len() > RULES {
        return Err(format!(
            "--lock-for: there is room for {RULES} rules, and the names stand for {} places; name fewer locks, or variables \
             in place of lines and functions",
            rules.len()
        ));
    }
    Ok(rules)
}

/// A file of the program.
struct Module<'a> {
    /// `None` for the program itself.
    path: Option<PathBuf>,
    file: PathBuf,
    catalog: Catalog<'a>,
}

impl<'a> Module<'a> {
    /// The program, then its libraries in the order in which the loader searches them for symbols.
    fn all(program: &Program, binaries: &'a Binaries) -> Vec<Module<'a>> {
        let own = std::iter::once((None, program.binary.canonicalize().unwrap_or_else(|_| program.binary.clone())));
        let libraries = libraries(program).into_iter().map(|path| (Some(path.clone()), path));
        let read = |(path, file): (Option<PathBuf>, PathBuf)| {
            Some(Module { catalog: Catalog::of(file.to_str()?, binaries)?, path, file })
        };
        own.chain(libraries).filter_map(read).collect()
    }

    /// Whether it came with the system: its locks are seldom meant.
    fn is_system(&self) -> bool {
        self.path.is_some()
            && ["/lib", "/usr/lib"]
                .iter()
                .any(|folder| self.file.starts_with(folder) || self.file.starts_with(format!("{folder}64")))
    }
}

/// What the loader would load with the program: asked of the loader itself, which runs nothing of the program to tell.
fn libraries(program: &Program) -> Vec<PathBuf> {
    let Some(loader) = &program.loader else { return Vec::new() };
    let asked = Command::new(loader).arg("--list").arg(&program.binary).stdin(Stdio::null()).output();
    asked.map(|listed| paths(&String::from_utf8_lossy(&listed.stdout))).unwrap_or_default()
}

/// The paths in lines such as `libc.so.6 => /lib/libc.so.6 (0x7f..)`.
fn paths(list: &str) -> Vec<PathBuf> {
    let path = |line: &str| {
        let (before, _) = line.trim().rsplit_once(" (0x")?;
        let path = before.split_once(" => ").map_or(before, |(_, path)| path);
        path.starts_with('/').then(|| PathBuf::from(path))
    };
    list.lines().filter_map(path).collect()
}

/// The rules of the first file that knows the name.
fn rules_of(wish: &Wish, modules: &[Module<'_>]) -> Option<Vec<Rule>> {
    modules.iter().find_map(|module| {
        let found = module.catalog.find(&wish.name);
        let rules: Vec<Rule> =
            found.iter().flat_map(|stretch| rules_at(stretch, wish, module.path.as_deref())).collect();
        (!rules.is_empty()).then_some(rules)
    })
}

/// A variable is where the lock lies. Code is where it is initialised, or first taken: known by return addresses, which
/// lie behind their calls.
fn rules_at(stretch: &Stretch, wish: &Wish, module: Option<&Path>) -> Vec<Rule> {
    let (policy, rw, len) = (wish.policy, wish.rw, stretch.len);
    let rule = |kind: u32, start: u64| Rule { kind, policy, rw, module: module.map(Path::to_owned), start, len };
    match stretch.meaning {
        Meaning::Variable => vec![rule(RULE_OBJECT, stretch.offset)],
        Meaning::Code => {
            let behind = stretch.offset + 1;
            vec![rule(RULE_INIT, behind), rule(RULE_SITE, behind)]
        }
    }
}

fn unknown(name: &str, program: &Program, modules: &[Module<'_>]) -> String {
    let Some(own) = modules.first() else {
        return format!("--lock-for '{name}': the program's file cannot be read, so that no name of it is known");
    };
    let names: Vec<String> =
        modules.iter().filter(|module| !module.is_system()).flat_map(|module| module.catalog.names()).collect();
    let hint = match nearest(name, names.iter().map(String::as_str)) {
        Some(nearest) => format!("did you mean '{nearest}'?"),
        None if program.path != program.binary => {
            format!("{} is a script, run by that; name the program that it starts", program.path.display())
        }
        None if names.is_empty() => "the program has no symbols: use one that is not stripped, or install its debug \
            symbols"
            .to_owned(),
        None if is_line(name) && !modules.iter().any(|module| module.catalog.has_lines()) => {
            "the program has no debug information, so that only names of variables and functions are known (compile \
             with -g)"
                .to_owned()
        }
        None => "'holdup with --profile' shows the names of its locks".to_owned(),
    };
    let libraries = if modules.len() > 1 { " and its libraries" } else { "" };
    format!(
        "--lock-for '{name}': {}{libraries} have no variable, function or line of this name; {hint}",
        own.file.display()
    )
}

fn is_line(name: &str) -> bool {
    name.rsplit_once(':').is_some_and(|(file, line)| !file.ends_with(':') && line.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wish_is_a_name_and_a_policy() {
        let wish = |name: &str, policy, rw| Ok(Wish { name: name.to_owned(), policy, rw });
        assert_eq!(parse("g_lock=throttle:2"), wish("g_lock", Some(Policy::Throttle(2)), None));
        assert_eq!(parse("Pool::operator== = ttas"), wish("Pool::operator==", Some(Policy::Ttas), None));
        assert_eq!(parse("cache.c:42=glibc"), wish("cache.c:42", Some(Policy::Glibc), Some(RwPolicy::Glibc)));
        assert_eq!(parse("g_routes=prefer-writer"), wish("g_routes", None, Some(RwPolicy::PreferWriter)));
        for (text, says) in [("g_lock", "NAME=POLICY"), ("=ttas", "names no lock"), ("a=tas", "'ttas'")] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(says), "{text}: {why}");
        }
    }

    #[test]
    fn the_loaders_list_is_read() {
        let list = "\tlinux-vdso.so.1 (0x7fff)\n\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x7f00)\n\
                    \tliba.so => /opt/my libs/liba.so (0x7f01)\n\tlibgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x7f02)\n";
        let expected = ["/lib/x86_64-linux-gnu/libc.so.6", "/opt/my libs/liba.so", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(paths(list), expected.map(PathBuf::from));
    }

    #[test]
    fn code_is_met_behind_its_calls() {
        let stretch = Stretch { meaning: Meaning::Code, offset: 0x100, len: 0x20 };
        let wish = Wish { name: "log_line".to_owned(), policy: Some(Policy::Ttas), rw: None };
        let rules = rules_at(&stretch, &wish, None);
        let kinds: Vec<(u32, u64, u64)> = rules.iter().map(|rule| (rule.kind, rule.start, rule.len)).collect();
        assert_eq!(kinds, [(RULE_INIT, 0x101, 0x20), (RULE_SITE, 0x101, 0x20)]);
    }

    #[test]
    fn a_line_is_told_from_a_path_of_names() {
        assert!(is_line("cache.c:42") && !is_line("a::b") && !is_line("g_lock"));
    }
}
