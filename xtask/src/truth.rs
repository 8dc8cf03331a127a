//! Is the first finding right on programs whose fault is known by construction, and is there none where nothing is at
//! fault?
//!
//! `fixtures/truth/` holds the programs; each says its truth in its header ([`header`]). Each is built ([`build`]),
//! recorded, and what the report says first is compared with the truth ([`judge`]); the tables are made in [`page`].

mod build;
mod header;
mod judge;
mod matrix;
mod page;
pub mod programs;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::recording::{Bench, is_root, median, output};
use crate::run::root;
use build::Built;
use header::Program;
use judge::Row;
use matrix::{Capture, User, Variant, name_of};

/// A recorder or a program that takes longer hangs.
const LIMIT_S: &str = "60";
/// The programs by which a way to capture is judged that sees less than others: the first finding is about a mutex of
/// glibc, which says who has it.
const LOCKS: [&str; 10] = [
    "cpp_async_cache",
    "cpp_log_flush",
    "cpp_recursive",
    "fork_shared_mutex",
    "holder_reads_file",
    "journal_fdatasync",
    "mutex_ledger",
    "mutex_stages",
    "mutex_tiny",
    "sleeper_long_hold",
];
/// So often a program runs with its cure, and without.
const CURE_RUNS: usize = 3;

const USAGE: &str = "usage: cargo xtask truth [--quick] [--only NAME,...] [--root] [--user] [--captures auto,bpf,perf,sampler,refused] [--locks] [--variants plain,stripped,neutral,musl] \
                     [--cures] [--list] [--write MACHINE]";

/// What the command line asks for.
struct Options {
    is_quick: bool,
    only: Vec<String>,
    is_locks: bool,
    users: Vec<User>,
    captures: Vec<Capture>,
    variants: Vec<Variant>,
    with_cures: bool,
    is_list: bool,
    write: Option<String>,
}

/// Records the corpus, prints the tables, and fails if a goal is missed.
pub fn run(args: &[String]) -> Result<(), String> {
    let options = Options::parse(args)?;
    let mut programs = header::all(&root().join("fixtures/truth"))?;
    programs.retain(|program| options.wants(program));
    if options.is_list {
        programs.iter().for_each(|program| println!("{:<28} {}", program.name, program.truth));
        return Ok(());
    }
    let bench = Bench::new("truth")?;
    let mut rows = Vec::new();
    let mut skipped = Vec::new();
    println!("{}", page::HEAD);
    for program in &programs {
        let gain = if options.with_cures { gain(program) } else { None };
        for variant in options.variants.iter().filter(|variant| program.has(**variant)) {
            let built = match build::build(program, *variant) {
                Ok(built) => built,
                Err(why) => {
                    eprintln!("skipped: {} {}: {why}", program.name, variant.name());
                    skipped.push(format!("{} {}: {why}", program.name, variant.name()));
                    continue;
                }
            };
            for user in &options.users {
                for capture in &options.captures {
                    let said = record(&bench, program, &built, *variant, (*user, *capture));
                    let row = Row::new(program, *variant, (*user, *capture), gain, said);
                    println!("{}", page::line(&row));
                    rows.push(row);
                }
            }
        }
    }
    println!("\n{}", page::totals(&rows, &skipped));
    if let Some(machine) = &options.write {
        let path = root().join(format!("docs/benchmarks/truth-{machine}.md"));
        std::fs::write(&path, page::document(&rows, &skipped)).map_err(|why| format!("{}: {why}", path.display()))?;
        println!("wrote {}", path.display());
    }
    match options.is_locks {
        true => judge::locks(&rows),
        false => judge::goals(&rows),
    }
}

impl Options {
    fn parse(args: &[String]) -> Result<Options, String> {
        let everybody = if is_root() { vec![User::Root, User::Ordinary] } else { vec![User::Ordinary] };
        let mut options = Options {
            is_quick: false,
            only: Vec::new(),
            is_locks: false,
            users: Vec::new(),
            captures: vec![Capture::Auto],
            variants: vec![Variant::Plain],
            with_cures: false,
            is_list: false,
            write: None,
        };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} needs a value; {USAGE}"));
            match word.as_str() {
                "--quick" => options.is_quick = true,
                "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
                "--locks" => options.is_locks = true,
                "--root" => options.users.push(User::Root),
                "--user" => options.users.push(User::Ordinary),
                "--variants" => {
                    options.variants = value()?.split(',').map(Variant::parse).collect::<Result<_, _>>()?;
                }
                "--captures" => {
                    options.captures = value()?.split(',').map(Capture::parse).collect::<Result<_, _>>()?;
                }
                "--cures" => options.with_cures = true,
                "--list" => options.is_list = true,
                "--write" => {
                    options.write = Some(crate::run::machine(&[value()?.clone()], "truth --write")?.to_owned());
                }
                _ => return Err(format!("'{word}' is no option; {USAGE}")),
            }
        }
        if options.users.contains(&User::Root) && !is_root() {
            return Err("recording as root needs root".to_owned());
        }
        if options.users.is_empty() {
            options.users = if options.is_quick { everybody[..1].to_vec() } else { everybody };
        }
        Ok(options)
    }

    fn wants(&self, program: &Program) -> bool {
        if self.is_locks && !LOCKS.contains(&program.name.as_str()) {
            return false;
        }
        let named = self.only.is_empty() || self.only.iter().any(|part| program.name.contains(part.as_str()));
        named && (!self.is_quick || program.is_quick)
    }
}

/// Records one run and reads its report.
fn record(
    bench: &Bench,
    program: &Program,
    built: &Built,
    variant: Variant,
    (user, capture): (User, Capture),
) -> Result<Value, String> {
    let file = bench.fresh(&format!("{}-{}-{}.holdup", program.name, variant.name(), name_of(user, capture)));
    let mut command = user.command(Path::new("timeout"));
    command.args(["--kill-after=5", LIMIT_S]);
    if capture == Capture::Refused {
        command.arg(bench.compile("recorder/no_events.c")?);
    }
    command.arg(&bench.holdup).args(["record", "--capture", capture.option(), "-o"]).arg(&file).arg("--");
    command.args(&built.words).current_dir(&bench.folder).env_remove("CURE").envs(built.environment.iter().copied());
    output(&mut command)?;
    // Root reads what anybody recorded, but for the names that another user's process wrote.
    let reader = if built.environment.is_empty() { User::Root } else { user };
    Bench::report_with(reader.command(&bench.holdup), &file)
}

/// How much faster the program is with its cure: the ratio of the medians of what it prints. `None` if it has no cure.
fn gain(program: &Program) -> Option<f64> {
    program.has_cure.then_some(())?;
    let built = build::build(program, Variant::Plain).ok()?;
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..CURE_RUNS {
        for (cure, rates) in rates.iter_mut().enumerate() {
            rates.extend(rate(&built.words, cure == 1));
        }
    }
    let [plain, cured] = rates.map(|rates| median(&rates));
    Some(cured / plain).filter(|gain| gain.is_finite())
}

/// What a program prints as `rate NUMBER THINGS/s`.
fn rate(words: &[PathBuf], is_cured: bool) -> Option<f64> {
    let (program, rest) = words.split_first()?;
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", LIMIT_S]).arg(program).args(rest).env_remove("CURE");
    if is_cured {
        command.env("CURE", "1");
    }
    let output = output(&mut command).ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("rate "))?;
    line.split_whitespace().next()?.parse().ok()
}
