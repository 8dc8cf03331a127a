//! A sweep of 200 cells in eight parts, of which one is killed again and again and started anew: merged, it is the plan
//! of the sweep in one piece, nothing twice, nothing missing. First by processes, then by Slurm, where that is.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::chance::Chance;
use crate::recording::{Bench, output};
use crate::run::root;
use crate::setup;
use crate::watch::{PATIENCE, Running};

/// 100 groups of two locks.
const SWEEP: &str = r#"
[experiment]
name = "parts"
title = "A sweep in parts"

[[sweep]]
name = "alone"
lock = ["none", "pthread"]
baseline = "none"
threads = 1
hold = ["0", "100ns", "200ns", "300ns", "400ns", "500ns", "600ns", "700ns", "800ns", "900ns"]
gap = ["0", "100ns", "200ns", "300ns", "400ns", "500ns", "600ns", "700ns", "800ns", "900ns"]
duration = "20ms"
repeats = 1
"#;
const CELLS: usize = 200;
const SHARDS: usize = 8;

/// `cargo xtask sweep-test [TIMES [SEED]]`
pub fn run(args: &[String]) -> Result<(), String> {
    let (times, mut chance) = Chance::of_command("sweep-test", args, 12)?;
    let sweep = Sweep { bench: Bench::new("sweep-test")? };
    std::fs::write(sweep.bench.folder.join("parts.toml"), SWEEP).map_err(|why| why.to_string())?;
    by_processes(&sweep, times, &mut chance)?;
    match ["munged", "slurmctld", "slurmd", "sbatch"].iter().find(|name| setup::found(&[name]).is_none()) {
        None => by_slurm(&sweep),
        Some(missing) => {
            println!("skipped: Slurm, for there is no {missing}; Debian's slurm-wlm and munge have all of it");
            Ok(())
        }
    }
}

struct Sweep {
    bench: Bench,
}

impl Sweep {
    fn holdup(&self, words: &str) -> Command {
        let mut command = Command::new(&self.bench.holdup);
        command.current_dir(&self.bench.folder).args(words.split(' '));
        command
    }

    /// Every measurement of the newest run of a store, shards together: cell, repetition, block.
    fn measured(&self, store: &str) -> Result<Vec<String>, String> {
        let run: Value =
            serde_json::from_slice(&output(&mut self.holdup(&format!("export last --json --store {store}")))?.stdout)
                .map_err(|why| format!("{store}: {why}"))?;
        if run["complete"] != Value::Bool(true) {
            return Err(format!("{store}: the sweep is not complete"));
        }
        let cells = run["cells"].as_array().map_or(&[][..], Vec::as_slice);
        let mut all = Vec::new();
        for cell in cells {
            for sample in cell["samples"].as_array().into_iter().flatten() {
                all.push(format!("{} {} {} {}", cell["sweep"], cell["factors"], sample["repeat"], sample["block"]));
            }
        }
        Ok(all)
    }

    /// Merges the shards, and compares what they have with the sweep in one piece.
    fn merged_is_whole(&self, shards: &[String], store: &str) -> Result<usize, String> {
        let merge = format!("history merge {} --store {store}", shards.join(" "));
        output(&mut self.holdup(&merge))?;
        let merged = self.measured(store)?;
        let again = output(&mut self.holdup(&merge))?;
        let again = String::from_utf8_lossy(&again.stdout).into_owned();
        if !again.starts_with("0 runs added") || self.measured(store)? != merged {
            return Err(format!("merged again: {again}"));
        }
        let first = format!("export last --json --store {}", shards[0]);
        let run: Value =
            serde_json::from_slice(&output(&mut self.holdup(&first))?.stdout).map_err(|why| why.to_string())?;
        let seed = run["seed"].as_str().ok_or("a run without a seed")?;
        if !self.bench.folder.join("whole.db").exists() {
            output(&mut self.holdup(&format!("run parts.toml --no-reject --seed {seed} --store whole.db")))?;
        }
        let whole = self.measured("whole.db")?;
        let cells: BTreeSet<&str> = whole.iter().map(|one| one.rsplitn(3, ' ').last().unwrap_or_default()).collect();
        if cells.len() != CELLS || merged != whole {
            return Err(format!(
                "{} measurements merged, {} of {} cells in one piece",
                merged.len(),
                whole.len(),
                cells.len()
            ));
        }
        Ok(merged.len())
    }
}

/// Eight processes, one after the other; one of them is killed at random moments.
fn by_processes(sweep: &Sweep, times: u64, chance: &mut Chance) -> Result<(), String> {
    let victim = usize::try_from(chance.below(SHARDS as u64)).unwrap_or(0) + 1;
    let (mut shards, mut killed) = (Vec::new(), 0);
    for number in 1..=SHARDS {
        let store = format!("shard-{number}.db");
        let words = format!("run parts.toml --no-reject --shard {number}/{SHARDS} --store {store}");
        for _ in 0..if number == victim { times } else { 0 } {
            let mut child = sweep
                .holdup(&words)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .map_err(|why| why.to_string())?;
            std::thread::sleep(Duration::from_millis(chance.below(900)));
            // One that has ended is none the worse for it.
            killed += usize::from(child.try_wait().is_ok_and(|ended| ended.is_none()));
            let _ = child.kill();
            child.wait().map_err(|why| why.to_string())?;
        }
        output(&mut sweep.holdup(&words))?;
        let again = output(&mut sweep.holdup(&words))?;
        if !String::from_utf8_lossy(&again.stderr).contains("is measured already") {
            return Err(format!("shard {number} is measured again"));
        }
        shards.push(store);
    }
    let measured = sweep.merged_is_whole(&shards, "all.db")?;
    println!(
        "{SHARDS} processes, shard {victim} killed {killed} times: {measured} measurements of {CELLS} cells, each once, as in one piece"
    );
    Ok(())
}

/// Slurm with one node, its own keys and ports, and nobody else's.
struct Slurm {
    folder: PathBuf,
    daemons: Vec<Running>,
}

impl Slurm {
    fn start() -> Result<Slurm, String> {
        let folder = std::env::temp_dir().join("holdup-slurm");
        let _ = std::fs::remove_dir_all(&folder);
        let told = |why: std::io::Error| format!("{}: {why}", folder.display());
        std::fs::DirBuilder::new().mode(0o755).create(&folder).map_err(told)?;
        for inner in ["state", "spool"] {
            std::fs::create_dir(folder.join(inner)).map_err(told)?;
        }
        let host = String::from_utf8_lossy(&output(Command::new("hostname").arg("-s"))?.stdout).trim().to_owned();
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let (at, ports) = (folder.display(), [free_port()?, free_port()?]);
        let settings = format!(
            "ClusterName=holdup\nSlurmctldHost={host}(127.0.0.1)\nSlurmUser=root\nSlurmdUser=root\nAuthType=auth/munge\n\
             AuthInfo=socket={at}/munge.socket\nSlurmctldPort={}\nSlurmdPort={}\nStateSaveLocation={at}/state\n\
             SlurmdSpoolDir={at}/spool\nSlurmctldPidFile={at}/ctld.pid\nSlurmdPidFile={at}/d.pid\nSlurmctldLogFile={at}/ctld.log\n\
             SlurmdLogFile={at}/d.log\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\n\
             ReturnToService=2\nJobAcctGatherType=jobacct_gather/none\nCommunicationParameters=NoCtldInAddrAny,NoInAddrAny\n\
             SlurmdParameters=config_overrides\nNodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN\n\
             PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n",
            ports[0], ports[1]
        );
        std::fs::write(folder.join("slurm.conf"), settings).map_err(told)?;
        let mut slurm = Slurm { folder, daemons: Vec::new() };
        slurm.begin()?;
        Ok(slurm)
    }

    fn begin(&mut self) -> Result<(), String> {
        let path = |name: &str| self.folder.join(name).display().to_string();
        output(Command::new("mungekey").args(["--create", "--keyfile"]).arg(path("munge.key")))?;
        let munge = [("--key-file", "munge.key"), ("--socket", "munge.socket"), ("--pid-file", "munge.pid")];
        let more = [("--log-file", "munge.log"), ("--seed-file", "munge.seed")];
        let mut munged = Command::new("munged");
        munged.args(["--foreground", "--force"]);
        munged.args(munge.iter().chain(&more).map(|(option, name)| format!("{option}={}", path(name))));
        let settings = path("slurm.conf");
        let mut slurmctld = Command::new("slurmctld");
        slurmctld.args(["-D", "-f", &settings]);
        let mut slurmd = Command::new("slurmd");
        slurmd.args(["-D", "-f", &settings]);
        let socket = self.folder.join("munge.socket");
        for (mut daemon, ready) in [(munged, Some(socket)), (slurmctld, None), (slurmd, None)] {
            daemon.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            self.daemons.push(Running(daemon.spawn().map_err(|why| format!("{daemon:?}: {why}"))?));
            if let Some(file) = ready {
                until("munged listens", || Ok(file.exists()))?;
            }
        }
        until("Slurm's node is idle", || Ok(self.ask("sinfo", &["-h", "-o", "%T"])?.contains("idle")))
            .map_err(|why| format!("{why}; its logs are in {}", self.folder.display()))
    }

    /// What one of Slurm's programs says; nothing while the controller does not answer yet.
    fn ask(&self, program: &str, words: &[&str]) -> Result<String, String> {
        let mut command = Command::new(program);
        command.env("SLURM_CONF", self.folder.join("slurm.conf")).args(words);
        let said = command.output().map_err(|why| format!("{program}: {why}"))?;
        Ok(String::from_utf8_lossy(&said.stdout).into_owned())
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // The controller last of all but one: it tells nobody any more.
        while self.daemons.pop().is_some() {}
    }
}

fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|why| why.to_string())?;
    listener.local_addr().map(|at| at.port()).map_err(|why| why.to_string())
}

fn until(what: &str, mut so: impl FnMut() -> Result<bool, String>) -> Result<(), String> {
    let until = Instant::now() + 3 * PATIENCE;
    while !so()? {
        if Instant::now() > until {
            return Err(format!("not so after {} s: {what}", (3 * PATIENCE).as_secs()));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// An array of eight tasks, one of them requeued while it measures.
fn by_slurm(sweep: &Sweep) -> Result<(), String> {
    let slurm = Slurm::start()?;
    let results = sweep.bench.folder.join("results");
    std::fs::create_dir(&results).map_err(|why| why.to_string())?;
    let mut submit = Command::new("sbatch");
    submit.env("SLURM_CONF", slurm.folder.join("slurm.conf")).env("HOLDUP", &sweep.bench.holdup);
    submit.env("HOLDUP_OPTIONS", "--no-reject").current_dir(&results).arg("--parsable");
    let job = output(submit.arg(root().join("deploy/slurm/sweep.sh")).arg("../parts.toml").arg(&results))?;
    let job = String::from_utf8_lossy(&job.stdout).trim().to_owned();
    let (victim, store) = (format!("{job}_3"), results.join("shard-3.db"));
    until("a part is begun", || begun(sweep, &store))?;
    slurm.ask("scontrol", &["requeue", &victim])?;
    let restarts =
        |text: &str| text.split_whitespace().find_map(|word| word.strip_prefix("Restarts=")?.parse::<u32>().ok());
    let mut times = 0;
    until("every part is measured", || {
        times = times.max(restarts(&slurm.ask("scontrol", &["show", "job", &victim])?).unwrap_or(0));
        // It would begin in two minutes.
        slurm.ask("scontrol", &["update", &format!("JobId={victim}"), "StartTime=now"])?;
        Ok(slurm.ask("squeue", &["-h", "-o", "%i"])?.trim().is_empty())
    })?;
    if times == 0 {
        return Err(format!("task {victim} was not requeued"));
    }
    let shards: Vec<String> = (1..=SHARDS).map(|number| format!("results/shard-{number}.db")).collect();
    let measured = sweep.merged_is_whole(&shards, "slurm.db")?;
    println!(
        "Slurm, an array of {SHARDS} tasks, one killed and requeued: {measured} measurements of {CELLS} cells, each once"
    );
    Ok(())
}

/// Whether a shard has measured something, and not all.
fn begun(sweep: &Sweep, store: &Path) -> Result<bool, String> {
    if !store.exists() {
        return Ok(false);
    }
    let said = sweep
        .holdup(&format!("export last --json --store {}", store.display()))
        .output()
        .map_err(|why| why.to_string())?;
    let run: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
    let samples = run["cells"].as_array().into_iter().flatten().filter(|cell| cell["samples"][0].is_object()).count();
    Ok(samples > 0)
}
