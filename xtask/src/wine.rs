//! The Windows build, and its tests under Wine.
//!
//! Everything runs in a Wine prefix of its own under the target folder. Nothing here looks at a time: Wine's are
//! Wine's.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::run::{Step, cargo, target_folder};
use crate::setup;

const TARGET: &str = "x86_64-pc-windows-gnu";

/// Packages whose sources mean something on Windows: holdup-record imports and says that it cannot record;
/// holdup-preload is Linux's.
const PACKAGES: &[&str] = &[
    "holdup-locks",
    "holdup-bench",
    "holdup-run",
    "holdup-control",
    "holdup-trace",
    "holdup-analyze",
    "holdup-record",
    "holdup",
];

/// `cargo xtask wine`, or one of its parts: `lints`, `locks`, `program`.
pub fn run(parts: &[String]) -> Result<(), String> {
    if !setup::can_link_for_windows() || setup::wine().is_none() {
        return Err("this needs MinGW-w64 and Wine: 'cargo xtask setup' installs them on Debian".to_owned());
    }
    check(parts)
}

/// As a part of CI, without the lints that Linux's builds have had already: skipped, with a word, where there is no
/// Wine and nobody said that this is CI.
pub fn ci() -> Result<(), String> {
    match run(&["locks", "program"].map(str::to_owned)) {
        Err(why) if setup::wine().is_none() && std::env::var_os("CI").is_none() => {
            println!("skipped: the Windows build and its tests ({why})");
            Ok(())
        }
        done => done,
    }
}

fn check(parts: &[String]) -> Result<(), String> {
    let wine = Wine::new()?;
    Step::new("rustup", &["target", "add", TARGET]).run()?;
    let chosen = |part: &str| parts.is_empty() || parts.iter().any(|word| word == part);
    if chosen("lints") {
        lints()?;
    }
    wine.prepare()?;
    let locks = if chosen("locks") { locks(&wine) } else { Ok(()) };
    let checked = locks.and_then(|()| if chosen("program") { program(&wine) } else { Ok(()) });
    wine.end();
    checked?;
    if chosen("locks") && chosen("program") {
        println!("Windows: locks conform under Wine; all commands measured or said what they need");
    }
    Ok(())
}

/// A cargo for Windows, where warnings are errors. Without debug information it links in a third of the time.
fn windows(args: &[&str]) -> Step {
    cargo(args).args(&["--target", TARGET]).env("CARGO_PROFILE_DEV_DEBUG", "0").env("RUSTFLAGS", "-D warnings")
}

fn lints() -> Result<(), String> {
    let packages: Vec<&str> = PACKAGES.iter().flat_map(|name| ["--package", name]).collect();
    windows(&["clippy", "--quiet", "--no-deps", "--all-targets"]).args(&packages).args(&["--", "-D", "warnings"]).run()
}

fn locks(wine: &Wine) -> Result<(), String> {
    let tests =
        ["test", "--package", "holdup-locks", "--lib", "--test", "conformance", "--test", "rw", "--test", "techniques"];
    wine.around(windows(&tests)).run()?;
    wine.around(windows(&["test", "--package", "holdup-bench", "--lib"])).run()
}

/// The commands that measure, each over something small; then those that need Linux.
fn program(wine: &Wine) -> Result<(), String> {
    windows(&["build", "--package", "holdup", "--bin", "holdup", "--message-format", "short"]).run()?;
    let place = Place::new(wine)?;
    let locks = place.locks()?;
    place.sweep(&locks)?;
    place.time_mutex()?;
    place.reproduce()?;
    place.others()?;
    place.refusals()
}

/// Wine with a prefix of its own.
struct Wine {
    loader: PathBuf,
    prefix: PathBuf,
}

impl Wine {
    fn new() -> Result<Wine, String> {
        let loader = setup::wine().ok_or("there is no Wine here")?;
        Ok(Wine { loader, prefix: target_folder().join("wine-prefix") })
    }

    /// What every process of Wine's gets: its prefix, no chatter, and no question about packages that it could install.
    fn environment(&self) -> [(&'static str, String); 4] {
        [
            ("WINEPREFIX", self.prefix.display().to_string()),
            ("WINEDEBUG", "-all".to_owned()),
            ("WINEDLLOVERRIDES", "mscoree,mshtml,winemenubuilder.exe=".to_owned()),
            ("DISPLAY", String::new()),
        ]
    }

    fn around(&self, step: Step) -> Step {
        let step = step.env("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", &self.loader.display().to_string());
        self.environment().iter().fold(step, |step, (name, value)| step.env(name, value))
    }

    /// Makes the prefix, and the library that Rust programs want and older Wines do not have.
    fn prepare(&self) -> Result<(), String> {
        std::fs::create_dir_all(&self.prefix).map_err(|why| format!("{}: {why}", self.prefix.display()))?;
        let loader = self.loader.display().to_string();
        self.around(Step::new(&loader, &["wineboot.exe", "--init"])).run()?;
        let library = self.prefix.join("drive_c/windows/system32/bcryptprimitives.dll");
        if library.exists() {
            return Ok(());
        }
        let library = library.display().to_string();
        let compiler = "x86_64-w64-mingw32-gcc";
        Step::new(compiler, &["-O1", "-shared", "-o", &library, "fixtures/wine/bcryptprimitives.c", "-ladvapi32"]).run()
    }

    /// Ends the processes of this prefix, and of no other.
    fn end(&self) {
        for server in ["wineserver", "/usr/lib/wine/wineserver"] {
            let mut command = Command::new(server);
            command.arg("--kill").envs(self.environment());
            // It is not there, or has nothing to end: as good.
            if command.status().is_ok() {
                return;
            }
        }
    }
}

/// A folder in which the Windows program runs, with a store of its own.
struct Place<'a> {
    wine: &'a Wine,
    folder: PathBuf,
    exe: PathBuf,
}

/// What a command gave.
struct Ran {
    command: String,
    code: Option<i32>,
    /// Both streams.
    text: String,
    stdout: String,
}

impl Ran {
    fn ends_with(self, code: i32) -> Result<Ran, String> {
        match self.code == Some(code) {
            true => Ok(self),
            false => Err(format!("'{}' ended with {:?}, not {code}:\n{}", self.command, self.code, self.text)),
        }
    }

    fn says(self, words: &[&str]) -> Result<Ran, String> {
        // Lines are broken anywhere.
        let text = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        match words.iter().find(|words| !text.contains(**words)) {
            None => Ok(self),
            Some(words) => Err(format!("'{}' does not say '{words}':\n{}", self.command, self.text)),
        }
    }
}

impl Place<'_> {
    fn new(wine: &Wine) -> Result<Place<'_>, String> {
        let folder = target_folder().join("wine-place");
        // A store from before would shift the numbers of runs.
        if folder.exists() {
            std::fs::remove_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        }
        std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        Ok(Place { wine, folder, exe: target_folder().join(TARGET).join("debug/holdup.exe") })
    }

    fn holdup(&self, words: &str) -> Result<Ran, String> {
        eprintln!("$ wine64 holdup.exe {words}");
        let output = Command::new(&self.wine.loader)
            .arg(&self.exe)
            .args(words.split_whitespace())
            .current_dir(&self.folder)
            .envs(self.wine.environment())
            .output()
            .map_err(|why| format!("{}: {why}", self.wine.loader.display()))?;
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        let text = format!("{stdout}{}", String::from_utf8_lossy(&output.stderr));
        Ok(Ran { command: format!("holdup {words}"), code: output.status.code(), text, stdout })
    }

    /// Every lock but the maps and the one whose place must be chosen.
    fn locks(&self) -> Result<Vec<String>, String> {
        let listed = self.holdup("list locks")?.ends_with(0)?;
        let mut family = "";
        let mut locks = Vec::new();
        for line in listed.stdout.lines() {
            match line.strip_prefix("  ") {
                None => family = line.trim(),
                Some(row) if family != "map" => {
                    locks.extend(row.split_whitespace().next().map(str::to_owned));
                }
                Some(_) => {}
            }
        }
        for own in
            ["critical-section", "srwlock", "wait-on-address", "win-mutex", "win-event", "win-semaphore", "win-rwlock"]
        {
            if !locks.iter().any(|lock| lock == own) {
                return Err(format!("'holdup list locks' lacks {own}: {locks:?}"));
            }
        }
        match locks.iter().find(|lock| ["pthread", "eventfd", "futex-pi"].contains(&lock.as_str())) {
            Some(linux) => Err(format!("'holdup list locks' has {linux}, which Windows has not")),
            None => Ok(locks),
        }
    }

    /// Every lock, once; the exit status says that all cells are fine, and the export says it again.
    fn sweep(&self, locks: &[String]) -> Result<(), String> {
        let list = locks.join(",");
        let run = self.holdup(&format!(
            "bench --lock {list} --threads 2 --duration 10ms --repeat 1 --seed 1 --html page.html {STORE}"
        ))?;
        run.ends_with(0)?.says(&["translated: measured under Wine", "critical-section", "these times are Wine's"])?;
        let page = std::fs::read_to_string(self.folder.join("page.html")).map_err(|why| format!("page.html: {why}"))?;
        if !page.contains("measured under Wine") {
            return Err("the page does not say that Wine's times are Wine's".to_owned());
        }
        let json = self.holdup(&format!("export 1 --json {STORE}"))?.ends_with(0)?;
        cells_are_fine(&json.stdout, locks)?;
        let csv = self.holdup(&format!("export 1 --csv {STORE}"))?.ends_with(0)?;
        let rows = csv.stdout.lines().count();
        match csv.stdout.starts_with("run,") && rows > locks.len() {
            true => Ok(()),
            false => Err(format!("the CSV has {rows} lines for {} locks", locks.len())),
        }
    }

    /// The objects of 1998 themselves.
    fn time_mutex(&self) -> Result<(), String> {
        for (which, object) in
            [(1, "critical-section"), (2, "critical-section"), (3, "win-mutex"), (4, "win-event"), (5, "win-semaphore")]
        {
            let ran = self.holdup(&format!("timemutex {which} 1 1 4 --iterations 500"))?;
            ran.ends_with(0)?.says(&[&format!("({object})"), "switches n/a", "these times are Wine's"])?;
        }
        // Depth is the objects' own recursion.
        for which in [1, 2, 3] {
            self.holdup(&format!("timemutex {which} 5 0 2 3 1 --iterations 200"))?.ends_with(0)?;
        }
        self.holdup("timemutex 9")?.ends_with(2)?.says(&["WHICH"]).map(drop)
    }

    fn reproduce(&self) -> Result<(), String> {
        let ran = self.holdup(&format!("reproduce switching --quick --html claims.html {STORE}"))?;
        ran.ends_with(0)?.says(&["S1", "Wine"])?;
        let page = std::fs::read_to_string(self.folder.join("claims.html"));
        match page.map_err(|why| format!("claims.html: {why}"))?.contains("Wine") {
            true => Ok(()),
            false => Err("the page of claims does not name Wine".to_owned()),
        }
    }

    fn others(&self) -> Result<(), String> {
        self.holdup(&format!(
            "bench --lock srwlock --threads 2 --background --duration 10ms --repeat 1 --seed 2 {STORE}"
        ))?
        .ends_with(0)?;
        self.holdup(&format!(
            "bench --lock adaptive,critical-section --spin 100 --threads 2 --duration 10ms --repeat 1 {STORE}"
        ))?
        .ends_with(0)?;
        // Readers share it, and its writers lose nothing: the workload checks both.
        self.holdup(&format!(
            "bench --workload rw --lock win-rwlock,rw-adaptive,std-rwlock --threads 3 --read-share 50..95 --duration 10ms --repeat 1 \
             {STORE}"
        ))?
        .ends_with(0)?
        .says(&["reads/s"])?;
        self.holdup(&format!("compare 1 1 {STORE}"))?.ends_with(0)?;
        self.holdup(&format!("history {STORE}"))?.ends_with(0)?.says(&["bench --lock srwlock"])?;
        for what in ["workloads", "factors", "experiments", "claims"] {
            self.holdup(&format!("list {what}"))?.ends_with(0)?;
        }
        let timed = self.holdup("time -- cmd /c exit 3")?.ends_with(3)?;
        timed.says(&["real", "switches n/a", "these times are Wine's"])?;
        self.holdup("time -- no-such-command")?.ends_with(127).map(drop)
    }

    fn refusals(&self) -> Result<(), String> {
        for words in
            ["record -- cmd", "try -- cmd", "with --lock spin-learn -- cmd", "selftest", "doctor", "demo", "run peers"]
        {
            self.holdup(words)?.ends_with(2)?.says(&["inux"])?;
        }
        Ok(())
    }
}

const STORE: &str = "--store store.db";

/// Every lock has its cell, and no run of any failed.
fn cells_are_fine(json: &str, locks: &[String]) -> Result<(), String> {
    let run: Value = serde_json::from_str(json).map_err(|why| format!("the JSON cannot be read: {why}"))?;
    let cells = run["cells"].as_array().ok_or("the JSON has no cells")?;
    if cells.len() != locks.len() {
        return Err(format!("{} cells for {} locks", cells.len(), locks.len()));
    }
    for cell in cells {
        let samples = cell["samples"].as_array().ok_or_else(|| format!("a cell without samples: {cell}"))?;
        let good = |sample: &Value| {
            let measured = &sample["sample"];
            measured["elapsed_ns"].as_u64().is_some_and(|ns| ns > 0) && measured["voluntary_switches"].is_null()
        };
        if samples.is_empty() || !samples.iter().all(good) {
            let failures: Vec<&Value> = samples.iter().map(|sample| &sample["failure"]).collect();
            return Err(format!("the cell of {} is not fine: {failures:?}", cell["factors"]["lock"]));
        }
    }
    Ok(())
}
