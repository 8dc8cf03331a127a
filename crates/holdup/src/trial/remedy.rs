//! What can be tried under a program: one row of [`KINDS`] for each kind of remedy.

use std::ffi::OsString;

use holdup_control::{Policy, RwPolicy};
use holdup_run::Conditions;

use super::allocator::Allocator;
use super::program::Program;
use super::tunable;
use crate::interposer::{Settings, policy};

/// One remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remedy {
    /// As tables show it: `throttle:1`, `rw prefer-writer`, `1 CPU`, `slice 20ms`, `N=4`.
    pub name: String,
    /// What it changes.
    pub change: Change,
}

/// What a remedy changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// How threads wait for pthread mutexes.
    Lock(Policy),
    /// How threads wait for reader-writer locks.
    Rw(RwPolicy),
    /// The CPUs that it may use.
    Cpus(Vec<u32>),
    /// The time slice of its threads.
    SliceNs(u64),
    /// The scheduler's batch policy.
    Batch,
    /// How it allocates memory.
    Malloc(Allocator),
    /// A setting of the C library, by its full name.
    Tunable(String, String),
    /// Slots of the table of its futexes; none for the one that all processes share.
    FutexHash(Option<u32>),
    /// A variable of its environment.
    Environment(String, String),
    /// What stands for a `{NAME}` among its arguments.
    Argument(String, String),
}

/// What the user asked for, list by list as given; the first value of some lists is how the program is.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// `--locks`.
    pub locks: Option<String>,
    /// `--gates`.
    pub gates: Option<String>,
    /// `--rw`.
    pub rw: Option<String>,
    /// `--cpus`.
    pub cpus: Option<String>,
    /// `--slices`.
    pub slices: Option<String>,
    /// `--batch`.
    pub batch: bool,
    /// `--arenas`.
    pub arenas: Option<String>,
    /// `--malloc`.
    pub malloc: Option<String>,
    /// `--tunables`.
    pub tunables: Option<String>,
    /// `--futex-hash`.
    pub futex_hash: Option<String>,
    /// `--env NAME=a,b`, any number of times.
    pub environment: Vec<String>,
    /// `--vary NAME=a,b`, any number of times.
    pub vary: Vec<String>,
    /// What the program's runtime heeds; tried when nothing was asked for in particular.
    pub switches: Vec<Remedy>,
}

impl Asked {
    /// Whether nothing was asked for in particular.
    pub fn is_empty(&self) -> bool {
        // By name, so that the compiler asks for a new list here.
        let Asked {
            locks,
            gates,
            rw,
            cpus,
            slices,
            batch,
            arenas,
            malloc,
            tunables,
            futex_hash,
            environment,
            vary,
            switches: _,
        } = self;
        let lists = [locks, gates, rw, cpus, slices, arenas, malloc, tunables, futex_hash];
        lists.iter().all(|list| list.is_none()) && !batch && environment.is_empty() && vary.is_empty()
    }

    /// What a command line of `holdup try` asks for, as findings name it: pairs of an option and its list.
    pub fn parse(words: &[String]) -> Asked {
        let mut asked = Asked::default();
        for pair in words.windows(2) {
            let list = Some(pair[1].clone());
            match pair[0].as_str() {
                "--locks" => asked.locks = list,
                "--gates" => asked.gates = list,
                "--rw" => asked.rw = list,
                "--cpus" => asked.cpus = list,
                "--slices" => asked.slices = list,
                "--arenas" => asked.arenas = list,
                "--malloc" => asked.malloc = list,
                "--tunables" => asked.tunables = list,
                "--futex-hash" => asked.futex_hash = list,
                "--env" => asked.environment.extend(list),
                _ => {}
            }
        }
        asked
    }

    /// What is tried when nothing was asked for in particular.
    fn usual(cpus: usize) -> Asked {
        let gates = if cpus > 2 { format!("1,2,{cpus}") } else { "1,2".to_owned() };
        Asked {
            locks: Some("spin-park:100,spin-learn,ttas,capped:1".to_owned()),
            gates: Some(gates),
            rw: Some("prefer-writer,spin-park:100".to_owned()),
            cpus: (cpus > 1).then(|| "1".to_owned()),
            malloc: Some(Allocator::here().join(",")),
            ..Asked::default()
        }
    }
}

/// A kind of remedies: how its list is read.
struct Kind {
    read: fn(&Asked, &[u32]) -> Result<Vec<Remedy>, String>,
}

/// All kinds, in the order of tables. Adding one: its change, a row here, an option of `holdup try`.
const KINDS: &[Kind] = &[
    Kind { read: locks },
    Kind { read: gates },
    Kind { read: rw },
    Kind { read: cpus },
    Kind { read: slices },
    Kind { read: batch },
    Kind { read: arenas },
    Kind { read: malloc },
    Kind { read: tunables },
    Kind { read: futex_hash },
    Kind { read: environment },
    Kind { read: vary },
];

/// What findings name, the worst finding first, and then what is tried anyway.
///
/// # Errors
/// None that a finding or the usual lists have.
pub fn named_first(named: &[Asked], asked: &Asked, allowed: &[u32]) -> Result<Vec<Remedy>, String> {
    let mut all: Vec<Remedy> = Vec::new();
    for asked in named.iter().filter(|named| !named.is_empty()).chain([asked]) {
        for remedy in remedies(asked, allowed)? {
            if !all.contains(&remedy) {
                all.push(remedy);
            }
        }
    }
    Ok(all)
}

/// The remedies that were asked for, where the program may use these CPUs.
///
/// # Errors
/// A list makes no sense; the text says which, and what can be given.
pub fn remedies(asked: &Asked, allowed: &[u32]) -> Result<Vec<Remedy>, String> {
    let usual = Asked::usual(allowed.len());
    let (asked, switches) = if asked.is_empty() { (&usual, &asked.switches[..]) } else { (asked, &[][..]) };
    let mut remedies: Vec<Remedy> = Vec::new();
    let mut add = |remedy: Remedy| {
        if !remedies.contains(&remedy) {
            remedies.push(remedy);
        }
    };
    for kind in KINDS {
        (kind.read)(asked, allowed)?.into_iter().for_each(&mut add);
    }
    switches.iter().cloned().for_each(add);
    Ok(remedies)
}

/// The values of the arguments that vary, as the program is: the first of each list.
///
/// # Errors
/// A list makes no sense.
pub fn first_values(asked: &Asked) -> Result<Vec<(String, String)>, String> {
    let first = |text: &String| {
        let (name, values) = named_list("--vary", text, "N=1,2,4")?;
        Ok((name, values.into_iter().next().unwrap_or_default()))
    };
    asked.vary.iter().map(first).collect()
}

impl Remedy {
    pub(super) fn new(name: impl Into<String>, change: Change) -> Remedy {
        Remedy { name: name.into(), change }
    }

    /// The lock policy that it is, if it is one.
    pub fn policy(&self) -> Option<Policy> {
        match self.change {
            Change::Lock(policy) => Some(policy),
            _ => None,
        }
    }

    /// Whether it is about reader-writer locks.
    pub fn is_rw(&self) -> bool {
        matches!(self.change, Change::Rw(_))
    }

    /// What the interposer is told, if it is needed.
    pub fn settings(&self) -> Option<Settings> {
        match self.change {
            Change::Lock(policy) => Some(Settings { policy, ..Settings::default() }),
            Change::Rw(rw) => Some(Settings { rw, ..Settings::default() }),
            Change::FutexHash(slots) => {
                let futex_hash = slots.unwrap_or(holdup_control::FUTEX_HASH_SHARED);
                Some(Settings { futex_hash, ..Settings::default() })
            }
            _ => None,
        }
    }

    /// Under what conditions the program is started.
    pub fn conditions(&self) -> Conditions {
        match &self.change {
            Change::Cpus(cpus) => Conditions { cpus: Some(cpus.clone()), ..Conditions::default() },
            Change::SliceNs(ns) => Conditions { slice_ns: Some(*ns), ..Conditions::default() },
            Change::Batch => Conditions { batch: true, ..Conditions::default() },
            Change::FutexHash(_) => Conditions { futex_hash: true, ..Conditions::default() },
            _ => Conditions::default(),
        }
    }

    /// What it adds to the environment.
    pub fn variables(&self) -> Vec<(OsString, OsString)> {
        match &self.change {
            Change::Environment(name, value) => vec![(name.into(), value.into())],
            Change::Malloc(allocator) => {
                let (name, value) = allocator.variable();
                let value = match std::env::var(name) {
                    Ok(present) if name == tunable::VARIABLE => tunable::added(Some(&present), &value),
                    Ok(present) if !present.is_empty() => format!("{value}:{present}"),
                    _ => value,
                };
                vec![(name.into(), value.into())]
            }
            Change::Tunable(name, value) => {
                let present = std::env::var(tunable::VARIABLE).ok();
                let value = tunable::added(present.as_deref(), &format!("{name}={value}"));
                vec![(tunable::VARIABLE.into(), value.into())]
            }
            _ => Vec::new(),
        }
    }

    /// The program as this remedy runs it.
    pub fn program(&self, program: &Program) -> Program {
        match &self.change {
            Change::Argument(name, value) => program.with(name, value),
            _ => program.clone(),
        }
    }
}

fn locks(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    list(asked.locks.as_deref()).map(|word| lock("--locks", word)).collect()
}

fn gates(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    let words = list(asked.gates.as_deref()).filter(|word| *word != "none");
    words.map(|word| lock("--gates", &format!("throttle:{word}"))).collect()
}

fn rw(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    let words = list(asked.rw.as_deref());
    words
        .map(|word| {
            let policy = policy::parse_rw(word).map_err(|why| format!("--rw: {why}"))?;
            Ok(Remedy::new(format!("rw {policy}"), Change::Rw(policy)))
        })
        .collect()
}

fn lock(option: &str, word: &str) -> Result<Remedy, String> {
    let policy = policy::parse(word).map_err(|why| format!("{option}: {why}"))?;
    Ok(Remedy::new(policy.to_string(), Change::Lock(policy)))
}

fn cpus(asked: &Asked, allowed: &[u32]) -> Result<Vec<Remedy>, String> {
    let words = list(asked.cpus.as_deref()).filter(|word| *word != "all");
    words
        .map(|word| {
            let count = word.parse().ok().filter(|count| (1..=allowed.len()).contains(count)).ok_or_else(|| {
                format!(
                    "--cpus: '{word}': give numbers from 1 to {}, which this machine allows, or 'all'",
                    allowed.len()
                )
            })?;
            let name = if count == 1 { "1 CPU".to_owned() } else { format!("{count} CPUs") };
            Ok(Remedy::new(name, Change::Cpus(allowed[..count].to_vec())))
        })
        .collect()
}

fn slices(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    let words = list(asked.slices.as_deref()).filter(|word| *word != "default");
    words
        .map(|word| {
            let ns = holdup_bench::work::parse_ns(word).map_err(|why| format!("--slices: {why}"))?;
            if !(1e5..=1e8).contains(&ns) {
                return Err(format!("--slices: '{word}': the kernel takes slices from 100us to 100ms"));
            }
            Ok(Remedy::new(format!("slice {word}"), Change::SliceNs(ns as u64)))
        })
        .collect()
}

fn batch(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    Ok(asked.batch.then(|| Remedy::new("batch", Change::Batch)).into_iter().collect())
}

fn arenas(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    let words = list(asked.arenas.as_deref()).filter(|word| *word != "default");
    words
        .map(|word| {
            let count: u32 = word
                .parse()
                .ok()
                .filter(|count| *count > 0)
                .ok_or_else(|| format!("--arenas: '{word}': give numbers of at least 1, or 'default'"))?;
            let change = Change::Environment("MALLOC_ARENA_MAX".to_owned(), count.to_string());
            Ok(Remedy::new(format!("arenas {count}"), change))
        })
        .collect()
}

fn malloc(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    let words = list(asked.malloc.as_deref()).filter(|word| *word != "default");
    words
        .map(|word| {
            let allocator = Allocator::named(word).map_err(|why| format!("--malloc: {why}"))?;
            Ok(Remedy::new(format!("malloc {word}"), Change::Malloc(allocator)))
        })
        .collect()
}

fn tunables(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    let words = list(asked.tunables.as_deref()).filter(|word| *word != "default");
    words
        .map(|word| {
            let (name, value) = tunable::parse(word).map_err(|why| format!("--tunables: {why}"))?;
            let short = name.trim_start_matches("glibc.");
            Ok(Remedy::new(format!("{short}={value}"), Change::Tunable(name.clone(), value)))
        })
        .collect()
}

fn futex_hash(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    let words = list(asked.futex_hash.as_deref()).filter(|word| *word != "default");
    words
        .map(|word| {
            let slots = futex_slots(word).map_err(|why| format!("--futex-hash: {why}"))?;
            Ok(Remedy::new(format!("futex-hash:{word}"), Change::FutexHash(slots)))
        })
        .collect()
}

/// Slots of a futex table, as a command line gives them; none for the table that all processes share.
///
/// # Errors
/// The kernel takes no such number.
pub fn futex_slots(word: &str) -> Result<Option<u32>, String> {
    if word == "shared" {
        return Ok(None);
    }
    let slots = word.parse().ok().filter(|slots: &u32| slots.is_power_of_two() && (2..=1 << 20).contains(slots));
    slots.map(Some).ok_or_else(|| {
        format!("'{word}': give powers of two from 2 to 1048576, or 'shared' for the table of all processes")
    })
}

fn environment(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    let mut remedies = Vec::new();
    for text in &asked.environment {
        let (name, values) = named_list("--env", text, "OMP_WAIT_POLICY=active,passive")?;
        remedies.extend(
            values
                .into_iter()
                .map(|value| Remedy::new(format!("{name}={value}"), Change::Environment(name.clone(), value))),
        );
    }
    Ok(remedies)
}

/// All values but the first, which is how the program is.
fn vary(asked: &Asked, _: &[u32]) -> Result<Vec<Remedy>, String> {
    let mut remedies = Vec::new();
    for text in &asked.vary {
        let (name, values) = named_list("--vary", text, "N=1,2,4")?;
        if values.len() < 2 {
            return Err(format!("--vary: '{text}': give at least two values; the first is how the program is"));
        }
        remedies.extend(
            values
                .into_iter()
                .skip(1)
                .map(|value| Remedy::new(format!("{name}={value}"), Change::Argument(name.clone(), value))),
        );
    }
    Ok(remedies)
}

/// `NAME=a,b` as a name and its values.
fn named_list(option: &str, text: &str, example: &str) -> Result<(String, Vec<String>), String> {
    let (name, values) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty() && !name.contains(['{', '}']))
        .ok_or_else(|| format!("{option}: '{text}': give a name and values, as in {option} {example}"))?;
    Ok((name.to_owned(), values.split(',').map(str::to_owned).collect()))
}

fn list(text: Option<&str>) -> impl Iterator<Item = &str> {
    text.unwrap_or_default().split(',').map(str::trim).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(asked: &Asked) -> Vec<String> {
        remedies(asked, &[0, 1, 4]).unwrap().into_iter().map(|remedy| remedy.name).collect()
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn go_on_one_cpu() -> Remedy {
        Remedy::new("GOMAXPROCS=1", Change::Environment("GOMAXPROCS".to_owned(), "1".to_owned()))
    }

    /// Something of every list.
    fn everything() -> Asked {
        Asked {
            locks: some("adaptive,ttas"),
            gates: some("none,1,2"),
            rw: some("prefer-writer,spin-park"),
            cpus: some("all,1,2"),
            slices: some("default,20ms"),
            batch: true,
            arenas: some("default,1"),
            malloc: some("default,keep"),
            tunables: some("default,tcache_count=0"),
            futex_hash: some("default,64,shared"),
            environment: vec!["A=x,y".to_owned()],
            vary: vec!["N=4,8".to_owned()],
            switches: vec![go_on_one_cpu()],
        }
    }

    #[test]
    fn lists_become_remedies_and_what_the_program_is_anyway_is_none() {
        let asked = everything();
        let expected = [
            "spin-learn",
            "ttas",
            "throttle:1",
            "throttle:2",
            "rw prefer-writer",
            "rw spin-park:100",
            "1 CPU",
            "2 CPUs",
            "slice 20ms",
            "batch",
            "arenas 1",
            "malloc keep",
            "malloc.tcache_count=0",
            "futex-hash:64",
            "futex-hash:shared",
            "A=x",
            "A=y",
            "N=8",
        ];
        assert_eq!(names(&asked), expected);
        assert_eq!(first_values(&asked).unwrap(), [("N".to_owned(), "4".to_owned())]);
        let two = remedies(&Asked { cpus: some("2"), ..Asked::default() }, &[0, 1, 4]).unwrap();
        assert_eq!(two[0].conditions().cpus, Some(vec![0, 1]), "the first of those that are allowed");
    }

    #[test]
    fn every_remedy_changes_something() {
        let program = Program::with_values(vec!["prog".into(), "{N}".into()], first_values(&everything()).unwrap());
        for remedy in remedies(&everything(), &[0, 1, 4]).unwrap() {
            let changes = remedy.settings().is_some()
                || remedy.conditions() != Conditions::default()
                || !remedy.variables().is_empty()
                || remedy.program(&program) != program;
            assert!(changes, "{} leaves the program as it is", remedy.name);
        }
    }

    #[test]
    fn without_a_wish_locks_gates_fewer_cpus_and_allocators_are_tried() {
        let expected = [
            "spin-park:100",
            "spin-learn",
            "ttas",
            "capped:1",
            "throttle:1",
            "throttle:2",
            "throttle:3",
            "rw prefer-writer",
            "rw spin-park:100",
            "1 CPU",
            "malloc keep",
        ];
        assert_eq!(names(&Asked::default())[..expected.len()], expected, "and the allocators that are installed");
        let of_go = Asked { switches: vec![go_on_one_cpu()], ..Asked::default() };
        assert_eq!(names(&of_go).last().map(String::as_str), Some("GOMAXPROCS=1"));
        let one_cpu = remedies(&Asked::default(), &[0]).unwrap();
        assert!(one_cpu.iter().all(|remedy| remedy.name != "1 CPU"), "that is how it is anyway");
    }

    #[test]
    fn what_findings_name_is_tried_first() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let named = [
            Asked::parse(&words("try --arenas 1,2")),
            Asked::parse(&words("bench --lock ttas")),
            Asked::parse(&words("try --cpus all,1 --slices default,20ms")),
        ];
        let all = named_first(&named, &Asked::default(), &[0, 1]).unwrap();
        let names: Vec<&str> = all.iter().map(|remedy| remedy.name.as_str()).collect();
        assert_eq!(names[..5], ["arenas 1", "arenas 2", "1 CPU", "slice 20ms", "spin-park:100"]);
        assert_eq!(names.iter().filter(|name| **name == "1 CPU").count(), 1);
    }

    #[test]
    fn what_makes_no_sense_is_named_with_what_can_be_given() {
        let why = |asked: Asked| remedies(&asked, &[0, 1]).unwrap_err();
        for (asked, says) in [
            (Asked { locks: some("adaptiv"), ..Asked::default() }, "did you mean 'spin-learn'"),
            (Asked { gates: some("0"), ..Asked::default() }, "--gates"),
            (Asked { rw: some("prefer-write"), ..Asked::default() }, "--rw: there is no policy"),
            (Asked { cpus: some("3"), ..Asked::default() }, "from 1 to 2"),
            (Asked { slices: some("1s"), ..Asked::default() }, "100us to 100ms"),
            (Asked { slices: some("soon"), ..Asked::default() }, "--slices"),
            (Asked { arenas: some("0"), ..Asked::default() }, "at least 1"),
            (Asked { tunables: some("spin=1"), ..Asked::default() }, "mutex_spin_count"),
            (Asked { futex_hash: some("100"), ..Asked::default() }, "powers of two"),
            (Asked { malloc: some("hoard"), ..Asked::default() }, "keep, jemalloc"),
            (Asked { vary: vec!["N".to_owned()], ..Asked::default() }, "--vary N=1,2,4"),
            (Asked { vary: vec!["N=1".to_owned()], ..Asked::default() }, "at least two values"),
            (Asked { environment: vec!["=1".to_owned()], ..Asked::default() }, "--env"),
        ] {
            let text = why(asked);
            assert!(text.contains(says), "{text}");
        }
    }
}
