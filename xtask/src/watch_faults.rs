//! What may befall a service that runs always: `holdup watch` and its recordings are killed at random moments, its disk
//! is full for a while, its clock is set. No half file is ever there to be read, nothing twice, nothing that was kept
//! is lost, and it goes on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::chance::Chance;
use crate::recording::Bench;
use crate::run::{Step, root};
use crate::watch::{PATIENCE, Watch, children, service};

/// How often the shop is recorded: as often as can be.
const EVERY_S: f64 = 0.2;

/// `cargo xtask watch-faults [TIMES [SEED]]`
pub fn run(args: &[String]) -> Result<(), String> {
    let (times, mut chance) = Chance::of_command("watch-faults", args, 40)?;
    let bench = Bench::new("watch-faults")?;
    let shop = bench.folder.join("shopd");
    std::fs::copy(bench.compile("programs/sleeping_holder.c")?, &shop).map_err(|why| why.to_string())?;
    let _shop = service(&shop)?;
    killed(&bench, times, &mut chance)?;
    full_disk(&bench)?;
    clock_steps(&bench)
}

/// Settings whose tables and kept recordings go into this folder.
fn settings(bench: &Bench, name: &str, folder: &str, files: usize) -> Result<(), String> {
    let text = format!(
        "listen = '127.0.0.1:0'\nevery = '{EVERY_S}s'\nfor = '{EVERY_S}s'\nbudget = '100%'\nparquet = '{folder}/fleet'\n\
         [keep]\nfolder = '{folder}/kept'\nwhen = 'finding >= 0%'\nfiles = {files}\n[[target]]\ncommand = 'shopd'\n"
    );
    let path = bench.folder.join(name);
    std::fs::write(&path, text).map_err(|why| format!("{}: {why}", path.display()))
}

/// Every file of a folder and those within, with its bytes; what goes while it is looked at is not there.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut left = vec![folder.to_owned()];
    while let Some(folder) = left.pop() {
        for path in std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            match path.is_dir() {
                true => left.push(path),
                false => drop(std::fs::read(&path).map(|bytes| all.insert(path, bytes))),
            }
        }
    }
    all
}

/// What engines and people would read: tables and kept recordings, but nothing that is being written.
fn readable(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = files(&folder.join("fleet/v1"));
    all.extend(files(&folder.join("kept")).into_iter().filter(|(path, _)| path.extension() != Some("tmp".as_ref())));
    all
}

/// Reads all files again and again, as an engine might at any moment.
struct Reader {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<usize, String>>,
}

impl Reader {
    fn begin(folder: &Path) -> Reader {
        let stop = Arc::new(AtomicBool::new(false));
        let (asked, folder) = (stop.clone(), folder.to_owned());
        let read = move || {
            let mut seen: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
            while !asked.load(Ordering::Relaxed) {
                for (path, bytes) in readable(&folder) {
                    let at = path.display();
                    let is_table = path.extension() == Some("parquet".as_ref());
                    if is_table && !(bytes.len() > 8 && bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1")) {
                        return Err(format!("{at} is half a file"));
                    }
                    if seen.get(&path).is_some_and(|before| *before != bytes) {
                        return Err(format!("{at} was changed"));
                    }
                    seen.insert(path, bytes);
                }
                std::thread::sleep(Duration::from_millis(3));
            }
            Ok(seen.len())
        };
        Reader { stop, thread: std::thread::spawn(read) }
    }

    /// How many files it has read.
    fn end(self) -> Result<usize, String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|_| Err("the reader panicked".to_owned()))
    }
}

/// Kills the service, or the process that records for it, in turns.
fn killed(bench: &Bench, times: u64, chance: &mut Chance) -> Result<(), String> {
    settings(bench, "killed.toml", "killed", 5)?;
    let folder = bench.folder.join("killed");
    std::fs::create_dir_all(&folder).map_err(|why| why.to_string())?;
    let reader = Reader::begin(&folder);
    let (mut services, mut turns) = (0, 0);
    for _ in 0..times {
        let bits = chance.bits();
        let watch = Watch::start(bench, &["--config", "killed.toml"])?;
        std::thread::sleep(Duration::from_millis((bits >> 33) % 2_500));
        let pid = watch.process.0.id();
        let recording = children(pid);
        if bits >> 63 == 1 {
            services += 1;
            drop(watch);
            // What it had begun ends by itself.
            let until = Instant::now() + PATIENCE;
            while recording.iter().any(|pid| Path::new(&format!("/proc/{pid}/stat")).exists()) {
                if Instant::now() > until {
                    return Err(format!("a recording goes on although its service was killed: {recording:?}"));
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        } else if let Some(turn) = recording.first() {
            turns += 1;
            // It may have ended by itself.
            let _ = Command::new("kill").args(["-9", &turn.to_string()]).stderr(Stdio::null()).status();
            let before = watch.sum("holdup_recordings_total")?;
            watch.until("holdup_recordings_total", before + 1.0)?;
        }
    }
    let read = reader.end()?;
    let stored = checked(bench, "killed/fleet")?;
    let kept = opens(bench, &folder.join("kept"))?;
    if stored == 0 || kept == 0 || kept > 5 {
        return Err(format!("{stored} recordings are in the tables, and {kept} kept of 5"));
    }
    println!(
        "watch killed {services} times, and {turns} times what records for it: {read} files read at any moment, none of them half, \
         none changed; {stored} recordings in the tables, none twice, and {kept} kept that open"
    );
    Ok(())
}

/// How many whole recordings are in the tables; an error for anything wrong with them but that an export was ended in
/// the middle, which questions leave out.
fn checked(bench: &Bench, fleet: &str) -> Result<usize, String> {
    let mut command = Command::new(&bench.holdup);
    command.current_dir(&bench.folder).args(["export", "--check", "--parquet", fleet]);
    let told = command.output().map_err(|why| why.to_string())?;
    let wrong = String::from_utf8_lossy(&told.stderr).into_owned();
    let is_known =
        |line: &str| line.contains("its export was ended in the middle") || line.contains(" wrong, as above");
    if let Some(line) = wrong.lines().find(|line| !is_known(line)) {
        return Err(format!("export --check: {line}"));
    }
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    let count = text.split(' ').next().and_then(|word| word.parse().ok());
    count.ok_or_else(|| format!("export --check says: {text}"))
}

/// How many recordings are kept; an error if one of them has no end.
fn opens(bench: &Bench, folder: &Path) -> Result<usize, String> {
    let kept: Vec<PathBuf> =
        files(folder).into_keys().filter(|path| path.extension() == Some("holdup".as_ref())).collect();
    for path in &kept {
        let report = bench.report(path)?;
        if report["problems"].as_array().into_iter().flatten().any(|one| one["code"] == "cut-off") {
            return Err(format!("{} was kept, and is cut off", path.display()));
        }
    }
    Ok(kept.len())
}

/// A file system in memory that goes with this.
struct Small(PathBuf);

impl Small {
    fn mount(at: PathBuf, kib: u32) -> Result<Small, String> {
        std::fs::create_dir_all(&at).map_err(|why| why.to_string())?;
        let size = format!("size={kib}k,mode=755");
        let mount = Step::new("mount", &["-t", "tmpfs", "-o", &size, "holdup-small", &at.to_string_lossy()]).run();
        mount.map_err(|why| format!("a small disk needs root: {why}"))?;
        Ok(Small(at))
    }

    /// Fills it to the last byte.
    fn fill(&self) -> Result<PathBuf, String> {
        let path = self.0.join("filler");
        let mut file = std::fs::File::create(&path).map_err(|why| why.to_string())?;
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
        Ok(path)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// A disk that is full for a while costs what would have been written meanwhile.
fn full_disk(bench: &Bench) -> Result<(), String> {
    settings(bench, "small.toml", "small", 3)?;
    let small = Small::mount(bench.folder.join("small"), 8 << 10)?;
    let watch = Watch::start(bench, &["--config", "small.toml"])?;
    watch.until("holdup_kept_recordings_total", 3.0)?;
    let filler = small.fill()?;
    watch.hears("facts are not written: ")?;
    watch.hears("the recording is not kept: ")?;
    watch.hears("No space left on device")?;
    let there = readable(&small.0);
    let before = watch.sum("holdup_recordings_total")?;
    watch.until("holdup_recordings_total", before + 5.0)?;
    let failures = watch.sum("holdup_watch_export_failures_total")?.min(watch.sum("holdup_watch_keep_failures_total")?);
    if failures < 5.0 || !watch.said().contains("No space left on device") {
        return Err(format!("{failures} failures are counted:\n{}", watch.said()));
    }
    let times = watch.said().matches("facts are not written").count();
    if times > 3 {
        return Err(format!("it is said {times} times:\n{}", watch.said()));
    }
    if there.is_empty() || there != readable(&small.0) {
        return Err("what was there is not what it was before the disk was full".to_owned());
    }
    std::fs::remove_file(&filler).map_err(|why| why.to_string())?;
    watch.hears("shopd: recorded again")?;
    let (kept, before) = (watch.sum("holdup_kept_recordings_total")?, checked(bench, "small/fleet")?);
    watch.until("holdup_kept_recordings_total", kept + 2.0)?;
    drop(watch);
    let (stored, kept) = (checked(bench, "small/fleet")?, opens(bench, &small.0.join("kept"))?);
    if stored <= before || kept != 3 {
        return Err(format!("{stored} recordings in the tables where {before} were, {kept} kept of 3"));
    }
    println!(
        "a full disk: said {times} times, {failures} recordings without facts, {} files that stayed as they were",
        there.len()
    );
    Ok(())
}

/// The clock of the day goes an hour forth and two back: recordings go on, no faster and no slower.
fn clock_steps(bench: &Bench) -> Result<(), String> {
    let library = bench.folder.join("stepped_clock.so");
    let source = root().join("fixtures/fleet/stepped_clock.c");
    let words = ["-O2", "-shared", "-fPIC", "-o"];
    Step::new("cc", &words).args(&[&library.to_string_lossy(), &source.to_string_lossy(), "-ldl"]).run()?;
    settings(bench, "clock.toml", "clock", 1000)?;
    let step = bench.folder.join("step");
    let set = |seconds: i64| std::fs::write(&step, seconds.to_string()).map_err(|why| why.to_string());
    set(0)?;
    let environment =
        [("LD_PRELOAD", &library), ("CLOCK_STEP", &step)].map(|(name, path)| (name, path.to_string_lossy()));
    let environment = environment.each_ref().map(|(name, path)| (*name, &**path));
    let watch = Watch::start_with(bench, &["--config", "clock.toml"], &environment)?;
    let count = || watch.sum("holdup_recordings_total");
    watch.until("holdup_recordings_total", 3.0)?;
    for seconds in [3_600, -3_600, 0] {
        set(seconds)?;
        let (since, before) = (Instant::now(), count()?);
        watch.until("holdup_recordings_total", before + 8.0)?;
        // The newest recording tells that the step was seen.
        let told = watch.sum("holdup_last_recording_timestamp_seconds")?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64());
        if (told - now - seconds as f64).abs() > 600.0 {
            return Err(format!("the clock was set by {seconds} s, and the last recording tells {:.0} s", told - now));
        }
        let (made, most) = (count()? - before, since.elapsed().as_secs_f64() / EVERY_S + 2.0);
        if made > most {
            return Err(format!("{made} recordings after a step of {seconds} s, where {most:.0} are due"));
        }
        println!("the clock set by {seconds} s: {made} recordings in {:.1} s", since.elapsed().as_secs_f64());
    }
    let (kept, made) = (watch.sum("holdup_kept_recordings_total")?, count()?);
    drop(watch);
    let there = opens(bench, &bench.folder.join("clock/kept"))? as f64;
    let stored = checked(bench, "clock/fleet")? as f64;
    if there < kept || stored < made {
        return Err(format!("{there} kept of {kept}, {stored} in the tables of {made}: some took the place of others"));
    }
    Ok(())
}
