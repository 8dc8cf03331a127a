//! What to watch and how, from a file in TOML or from options.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use holdup_bench::work::parse_ns;
use holdup_record::{Backend, Children};
use toml::de::DeTable;

use super::whom::{Life, Whom};
use crate::live::condition::{Condition, Wanted};
use crate::tables::{FileError, Source, Table, Value};

/// Where figures are served.
pub const LISTEN: &str = "127.0.0.1:9765";
/// How long each recording is, and how much later the next one of the target begins.
pub const LENGTH: &str = "5s";
/// How long it is from one to the next.
pub const EVERY: &str = "300s";
/// The share of one CPU.
pub const BUDGET: &str = "0.5%";
/// CPU samples per second.
pub const RATE: u32 = 100;
/// Locks of a target that have a name among the figures.
pub const LOCKS: u32 = 10;
/// Recordings that are kept, and their bytes.
pub const FILES: u32 = 20;
const MIB: u32 = 200;

/// More targets are a mistake.
const MOST_TARGETS: usize = 1000;
/// Letters of a name.
const MOST_LETTERS: usize = 100;

/// What to watch, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Where figures are served.
    pub listen: SocketAddr,
    /// How long it is from one recording of a target to its next.
    pub every: Duration,
    /// How long a recording is.
    pub length: Duration,
    /// The share of one CPU that all may cost.
    pub budget: f64,
    /// CPU samples per second and CPU.
    pub rate: u32,
    /// By what to capture.
    pub capture: Backend,
    /// Locks of a target that have a name among the figures.
    pub locks: usize,
    /// The folder of tables that facts are added to.
    pub parquet: Option<PathBuf>,
    /// What the host is called there.
    pub host: Option<String>,
    /// Which recordings are kept.
    pub keep: Option<Keep>,
    /// Whom.
    pub targets: Vec<Target>,
}

/// Which recordings are kept, and where.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Keep {
    /// The folder.
    pub folder: PathBuf,
    /// Conditions on findings, of which one must hold.
    pub when: Vec<String>,
    /// The oldest go where there are more.
    pub files: usize,
    /// The oldest go where they have more bytes.
    pub bytes: u64,
}

/// One target.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// What it is called, in figures and paths.
    pub name: String,
    /// Whose processes.
    pub whom: Whom,
    /// Which of what they have started.
    pub children: Children,
    /// Threads of these names only.
    pub threads: Vec<String>,
    /// What it is called in the tables.
    pub service: Option<String>,
    /// Its version.
    pub build: Option<String>,
}

impl Settings {
    /// The defaults, with nobody to watch.
    ///
    /// # Errors
    /// Never: what is read are the defaults.
    pub fn new() -> Result<Settings, String> {
        Ok(Settings {
            listen: address(LISTEN)?,
            every: every(EVERY)?,
            length: length(LENGTH)?,
            budget: budget(BUDGET)?,
            rate: RATE,
            capture: Backend::Auto,
            locks: LOCKS as usize,
            parquet: None,
            host: None,
            keep: None,
            targets: Vec::new(),
        })
    }

    /// What cannot be so, whoever said it.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn check(&self) -> Result<(), String> {
        if self.every < self.length {
            let (every, length) = (self.every, self.length);
            return Err(format!(
                "'every' ({every:?}) is less than 'for' ({length:?}); give more for 'every', or less for 'for'"
            ));
        }
        Ok(())
    }
}

/// An address and a port.
///
/// # Errors
/// It is none: what is expected.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| format!("'{text}' is not an address with a port; write for example {LISTEN} or [::1]:9765"))
}

/// How long a recording is.
///
/// # Errors
/// It is no such span of time: what is expected.
pub fn length(text: &str) -> Result<Duration, String> {
    span(text, 0.1, 60.0)
}

/// How long it is from one recording to the next.
///
/// # Errors
/// It is no such span of time: what is expected.
pub fn every(text: &str) -> Result<Duration, String> {
    span(text, 0.1, 86_400.0)
}

fn span(text: &str, least_s: f64, most_s: f64) -> Result<Duration, String> {
    let seconds = parse_ns(text).map_err(|why| format!("{why}, 60s or 300s"))? / 1e9;
    if !(least_s..=most_s).contains(&seconds) {
        return Err(format!("'{text}' is not between {least_s}s and {most_s}s"));
    }
    Ok(Duration::from_secs_f64(seconds))
}

/// A share of one CPU.
///
/// # Errors
/// It is none: what is expected.
pub fn budget(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.01..=100.0).contains(percent));
    percent
        .map(|percent| percent / 100.0)
        .ok_or_else(|| format!("'{text}' is not a share of one CPU between 0.01% and 100%; write for example 0.5%"))
}

/// By what to capture.
///
/// # Errors
/// It is nothing of the kind: what is expected.
pub fn capture(text: &str) -> Result<Backend, String> {
    match text {
        "auto" => Ok(Backend::Auto),
        "bpf" => Ok(Backend::Bpf),
        "perf" => Ok(Backend::Perf),
        "sampler" => Ok(Backend::Sampler),
        _ => Err(format!(
            "'{text}' is not 'auto', 'bpf', 'perf' or 'sampler'; 'holdup doctor' says what can be had here"
        )),
    }
}

/// A condition on findings.
///
/// # Errors
/// It is none: what is expected.
pub fn condition(text: &str) -> Result<String, String> {
    let condition = Condition::parse(text)?;
    match condition.wanted() {
        Wanted::Finding { .. } => Ok(condition.to_string()),
        _ => Err(format!("'{text}' is not a condition on findings; write for example 'finding hot-lock >= 20%'")),
    }
}

/// A name for figures and paths.
///
/// # Errors
/// It is none: what is expected.
pub fn name(text: &str) -> Result<String, String> {
    let fits = !text.is_empty() && text.chars().count() <= MOST_LETTERS && !text.chars().any(char::is_control);
    if fits {
        Ok(text.to_owned())
    } else {
        Err(format!("a name has 1 to {MOST_LETTERS} letters, and no control characters"))
    }
}

/// Reads a file of settings.
///
/// # Errors
/// The first mistake, with its place.
pub fn parse(path: &str, text: &str) -> Result<Settings, FileError> {
    let source = Source { path, text };
    let tree = DeTable::parse(text).map_err(|error| source.error(error.span(), error.message()))?;
    let root = Table { source, what: "this file".to_owned(), span: 0..0, table: tree.get_ref() };
    root.only(&["listen", "every", "for", "budget", "rate", "capture", "locks", "parquet", "host", "keep", "target"])?;
    let mut settings = Settings::new().map_err(|why| root.error(why))?;
    set(&root, "listen", address, &mut settings.listen)?;
    set(&root, "every", every, &mut settings.every)?;
    set(&root, "for", length, &mut settings.length)?;
    set(&root, "budget", budget, &mut settings.budget)?;
    settings.rate = root.whole("rate", 0, 20_000)?.unwrap_or(settings.rate);
    set(&root, "capture", capture, &mut settings.capture)?;
    settings.locks = root.whole("locks", 0, 1000)?.map_or(settings.locks, |locks| locks as usize);
    settings.parquet = root.text("parquet")?.map(|(folder, _)| folder.into());
    settings.host = optional(&root, "host")?;
    settings.keep = keep(&root)?;
    let mut names = BTreeSet::new();
    for table in root.tables("target")? {
        let target = target(&table)?;
        if !names.insert(target.name.clone()) {
            return Err(table.error(format!("there are two targets '{}'; give each a 'name' of its own", target.name)));
        }
        settings.targets.push(target);
    }
    match settings.targets.len() {
        0 => {
            Err(root
                .error("this file names no target; write [[target]] and below it for example unit = \"nginx.service\""))
        }
        1..=MOST_TARGETS => {
            let at = root.get("every").or_else(|| root.get("for"));
            let error = |why: String| at.map_or_else(|| root.error(why.clone()), |at| root.error_at(at, why.clone()));
            settings.check().map_err(error)?;
            Ok(settings)
        }
        many => Err(root.error(format!("{many} targets are more than {MOST_TARGETS}"))),
    }
}

/// Takes the value of a key that is there.
fn set<T>(table: &Table<'_>, key: &str, read: impl Fn(&str) -> Result<T, String>, to: &mut T) -> Result<(), FileError> {
    if let Some((text, value)) = table.text(key)? {
        *to = read(&text).map_err(|why| wrong(table, key, value, &why))?;
    }
    Ok(())
}

fn wrong(table: &Table<'_>, key: &str, value: &Value<'_>, why: &str) -> FileError {
    table.error_at(value, format!("'{key}': {why}"))
}

fn optional(table: &Table<'_>, key: &str) -> Result<Option<String>, FileError> {
    let Some((text, value)) = table.text(key)? else { return Ok(None) };
    name(&text).map(Some).map_err(|why| wrong(table, key, value, &why))
}

fn keep(root: &Table<'_>) -> Result<Option<Keep>, FileError> {
    let Some(table) = root.table("keep", "[keep]".to_owned())? else { return Ok(None) };
    table.only(&["folder", "when", "files", "mib"])?;
    let mut when = Vec::new();
    for (text, value) in table.texts("when")? {
        when.push(condition(&text).map_err(|why| wrong(&table, "when", value, &why))?);
    }
    if when.is_empty() {
        return Err(table.error("[keep] lacks 'when = \"finding hot-lock >= 20%\"'"));
    }
    Ok(Some(Keep {
        folder: table.required("folder")?.0.into(),
        when,
        files: table.whole("files", 1, 10_000)?.unwrap_or(FILES) as usize,
        bytes: u64::from(table.whole("mib", 1, 1 << 20)?.unwrap_or(MIB)) << 20,
    }))
}

/// What is kept where only a folder and conditions are given.
pub fn kept(folder: PathBuf, when: Vec<String>) -> Keep {
    Keep { folder, when, files: FILES as usize, bytes: u64::from(MIB) << 20 }
}

fn target(table: &Table<'_>) -> Result<Target, FileError> {
    table.only(&[
        "name",
        "pid",
        "cgroup",
        "container",
        "unit",
        "command",
        "children",
        "threads",
        "service",
        "build",
    ])?;
    let whom = whom(table)?;
    let children = match table.text("children")? {
        None => Children::default(),
        Some((text, value)) => match text.as_str() {
            "same-program" => Children::SameProgram,
            "all" => Children::All,
            "none" => Children::None,
            _ => {
                return Err(wrong(
                    table,
                    "children",
                    value,
                    &format!("'{text}' is not 'same-program', 'all' or 'none'"),
                ));
            }
        },
    };
    Ok(Target {
        name: optional(table, "name")?.unwrap_or_else(|| whom.name()),
        whom,
        children,
        threads: table.texts("threads")?.into_iter().map(|(text, _)| text).collect(),
        service: optional(table, "service")?,
        build: optional(table, "build")?,
    })
}

fn whom(table: &Table<'_>) -> Result<Whom, FileError> {
    const KEYS: [&str; 5] = ["pid", "cgroup", "container", "unit", "command"];
    let given: Vec<&str> = KEYS.into_iter().filter(|key| table.get(key).is_some()).collect();
    let [key] = given.as_slice() else {
        let given = if given.is_empty() { "none is given".to_owned() } else { format!("{} are", given.join(" and ")) };
        return Err(table.error(format!("a target has one of {}; {given}", KEYS.join(", "))));
    };
    if *key == "pid" {
        let pid = table.whole("pid", 1, i32::MAX as u32)?.unwrap_or_default();
        return Ok(Whom::Processes(vec![Life::now(pid)]));
    }
    let (text, value) = table.required(key)?;
    let text = name(&text).map_err(|why| wrong(table, key, value, &why))?;
    Ok(match *key {
        "cgroup" => Whom::Cgroup(text.into()),
        "container" => Whom::Container(text),
        "unit" => Whom::Unit(text),
        _ => Whom::Command(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "listen = '[::1]:99'\nevery = '60s'\nfor = '2s'\nbudget = '1%'\nrate = 0\ncapture = 'perf'\nlocks = 5\n\
                       parquet = 'fleet'\nhost = 'web-1'\n[keep]\nfolder = 'kept'\nwhen = ['finding hot-lock >= 20%']\n\
                       files = 3\nmib = 1\n[[target]]\nunit = 'nginx.service'\nthreads = ['io-*']\nchildren = 'all'\n\
                       service = 'shop'\nbuild = '1.2'\n[[target]]\nname = 'b'\ncommand = 'mailer'\n";

    #[test]
    fn every_key_is_taken() {
        let settings = parse("watch.toml", ALL).unwrap();
        assert_eq!(settings.listen.port(), 99);
        assert_eq!((settings.every.as_secs(), settings.length.as_secs(), settings.budget), (60, 2, 0.01));
        assert_eq!((settings.rate, settings.locks, settings.host.as_deref()), (0, 5, Some("web-1")));
        assert_eq!(settings.capture, Backend::Perf);
        let keep = settings.keep.unwrap();
        assert_eq!((keep.files, keep.bytes, keep.when.len()), (3, 1 << 20, 1));
        let [a, b] = settings.targets.as_slice() else { panic!("{:?}", settings.targets) };
        assert_eq!((a.name.as_str(), &a.whom), ("nginx", &Whom::Unit("nginx.service".to_owned())));
        assert_eq!((a.children, a.threads.len(), a.build.as_deref()), (Children::All, 1, Some("1.2")));
        assert_eq!((b.name.as_str(), &b.whom), ("b", &Whom::Command("mailer".to_owned())));
    }

    #[test]
    fn a_mistake_is_told_with_its_line_its_key_and_what_is_expected() {
        let target = "[[target]]\npid = 1\n";
        for (text, line, words) in [
            ("evry = '5s'\n", 1, ["'evry'", "did you mean 'every'"]),
            ("every = 5\n", 1, ["'every'", "text in quotes"]),
            ("\nevery = '5 minutes'\n", 2, ["'every'", "300s"]),
            ("for = '10ms'\n", 1, ["'for'", "between 0.1s and 60s"]),
            ("every = '1s'\n", 1, ["'every'", "'for'"]),
            ("budget = '0'\n", 1, ["'budget'", "0.5%"]),
            ("listen = 'here'\n", 1, ["'listen'", "127.0.0.1:9765"]),
            ("rate = -1\n", 1, ["'rate'", "between 0 and 20000"]),
            ("capture = 'ebpf'\n", 1, ["'capture': 'ebpf'", "'auto', 'bpf', 'perf' or 'sampler'"]),
            ("[keep]\nfolder = 'x'\n", 1, ["[keep]", "'when"]),
            ("[keep]\nfolder = 'x'\nwhen = 'exit'\n", 3, ["'when'", "finding hot-lock >= 20%"]),
            ("[keep]\nfolder = 'x'\nwhen = 'finding cold-lock >= 20%'\n", 3, ["cold-lock", "hot-lock"]),
        ] {
            let why = parse("w.toml", &format!("{text}{target}")).unwrap_err().to_string();
            assert!(why.starts_with(&format!("w.toml:{line}:")), "{text}: {why}");
            words.iter().for_each(|word| assert!(why.contains(word), "{text}: {why}"));
        }
        for (text, line, word) in [
            ("[[target]]\nname = 'x'\n", 1, "one of pid, cgroup"),
            ("[[target]]\npid = 1\nunit = 'x'\n", 1, "pid and unit are"),
            ("[[target]]\npid = 0\n", 2, "'pid'"),
            ("[[target]]\npid = 1\nchildren = 'some'\n", 3, "'same-program'"),
            ("[[target]]\nunit = 'a'\n[[target]]\nunit = 'a.service'\n", 3, "two targets 'a'"),
            ("[[target]]\nunit = ''\n", 2, "1 to 100 letters"),
            ("", 1, "[[target]]"),
            ("= 1", 1, ""),
        ] {
            let why = parse("w.toml", text).unwrap_err().to_string();
            assert!(why.starts_with(&format!("w.toml:{line}:")) && why.contains(word), "{text}: {why}");
        }
    }
}
