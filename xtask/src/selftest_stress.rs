//! Everything that programs do with locks at once, for minutes, while the policy under them changes every 5 ms.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use crate::recording::Bench;
use crate::run::{Step, root};

/// So long native runs, and runs under an interposer that is wrong, may take.
const SHORT_S: u64 = 33;

/// Stresses for so many minutes, ten if none are given; then a seed may be given.
pub fn run(args: &[String]) -> Result<(), String> {
    let minutes = args.first().map_or(Ok(10.0), |word| {
        let minutes = word.parse::<f64>().ok().filter(|minutes| *minutes > 0.0 && *minutes <= 10_000.0);
        minutes.ok_or_else(|| format!("'{word}' is not a number of minutes"))
    })?;
    let seed = args.get(1).map_or("1", String::as_str);
    let seconds = ((minutes * 60.0) as u64).max(1);
    let bench = Bench::new("selftest-stress")?;
    let stress = Stress::new(&bench, seed)?;
    println!("again: cargo xtask selftest-stress {minutes} {seed}");
    stress.notices_what_is_wrong(&bench)?;
    println!("{}", stress.must_hold(&mut stress.command(3), "natively")?);
    let mut under = Command::new(&bench.holdup);
    under.args(["selftest", "--flip", "5ms", "--seed", seed, "--"]).arg(&stress.program);
    let text = stress.must_hold(stress.arguments(&mut under, seconds), "while the policy flips every 5ms")?;
    println!("{text}");
    let jemalloc = Path::new("/usr/lib/x86_64-linux-gnu/libjemalloc.so.2");
    if !jemalloc.exists() {
        println!("not run with another allocator: apt-get install libjemalloc2");
        return Ok(());
    }
    let mut under = Command::new(&bench.holdup);
    under.env("LD_PRELOAD", jemalloc).args(["selftest", "--flip", "5ms", "--"]).arg(&stress.program);
    let text = stress.must_hold(stress.arguments(&mut under, (seconds / 5).clamp(5, 60)), "with jemalloc")?;
    println!("{text}");
    Ok(())
}

/// The compiled program and its plugin.
struct Stress {
    program: PathBuf,
    plugin: PathBuf,
    seed: String,
}

impl Stress {
    fn new(bench: &Bench, seed: &str) -> Result<Stress, String> {
        let plugin = library(bench, "plugin", &[])?;
        Ok(Stress { program: bench.compile("interposer/stress.c")?, plugin, seed: seed.to_owned() })
    }

    fn command(&self, seconds: u64) -> Command {
        let mut command = Command::new("timeout");
        self.arguments(command.args(["-k", "9", &(seconds + 60).to_string()]).arg(&self.program), seconds);
        command
    }

    fn arguments<'c>(&self, command: &'c mut Command, seconds: u64) -> &'c mut Command {
        command.args([&seconds.to_string(), &self.seed]).arg(&self.plugin)
    }

    /// What it says of interposers that are wrong on purpose: a stress that never fails shows nothing.
    fn notices_what_is_wrong(&self, bench: &Bench) -> Result<(), String> {
        for wrong in ["side", "trylock", "cond_cancel", "fork_waiters"] {
            let library = library(bench, "broken", &["-DWRONG", &format!("-DWRONG_{wrong}")])?;
            let output = output(self.command(SHORT_S).env("LD_PRELOAD", &library))?;
            if output.status.success() {
                return Err(format!("the stress did not notice the interposer that is wrong about {wrong}"));
            }
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            println!("wrong about {wrong:<14} {}", text.lines().last().unwrap_or("ended by a signal"));
        }
        Ok(())
    }

    /// What it printed; an error if it did not end well.
    fn must_hold(&self, command: &mut Command, how: &str) -> Result<String, String> {
        let began = Instant::now();
        let output = output(command)?;
        let text = format!(
            "{how}, {:.0} s:\n{}{}",
            began.elapsed().as_secs_f64(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        // A process that was ended early with status 0 has not said so.
        match output.status.success() && text.contains("no violation in") {
            true => Ok(text),
            false => Err(format!("{text}\nit ended with {}", output.status)),
        }
    }
}

fn library(bench: &Bench, name: &str, words: &[&str]) -> Result<PathBuf, String> {
    let source = root().join("fixtures/interposer").join(format!("{name}.c"));
    let library = bench.fresh(&format!("{name}.so"));
    let step = Step::new("cc", &["-shared", "-fPIC", "-O2", "-o", &library.to_string_lossy()]);
    step.args(&[&source.to_string_lossy()]).args(words).run()?;
    Ok(library)
}

/// The program watches itself; this only waits, and longer for each second it was given.
fn output(command: &mut Command) -> Result<Output, String> {
    let text = format!("{command:?}");
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.map_err(|why| format!("{text}: {why}"))?;
    child.wait_with_output().map_err(|why| format!("{text}: {why}"))
}
