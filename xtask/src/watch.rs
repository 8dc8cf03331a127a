//! `holdup watch` beside what reads it: Prometheus' own check of its figures, a Prometheus that scrapes it, the files
//! of `deploy/`; and what it costs with fifty services.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::recording::{Bench, median, output};
use crate::run::root;

/// Whatever is waited for comes much sooner.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A process that ends with this.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The service that watches, and where it serves.
pub struct Watch {
    pub process: Running,
    at: String,
    said: Arc<Mutex<String>>,
}

impl Watch {
    pub fn start(bench: &Bench, words: &[&str]) -> Result<Watch, String> {
        Watch::start_with(bench, words, &[])
    }

    /// The same with these variables in its environment.
    pub fn start_with(bench: &Bench, words: &[&str], environment: &[(&str, &str)]) -> Result<Watch, String> {
        let mut command = Command::new(&bench.holdup);
        command.arg("watch").args(words).current_dir(&bench.folder).envs(environment.iter().copied());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|why| format!("{}: {why}", bench.holdup.display()))?;
        let mut said = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        let process = Running(child);
        let mut line = String::new();
        said.read_line(&mut line).map_err(|why| why.to_string())?;
        let at = line.trim().split("http://").nth(1).ok_or_else(|| format!("holdup watch says: {line}"))?;
        let at = at.trim_end_matches("/metrics").to_owned();
        // What it says further is kept, and does not stop it.
        let all = Arc::new(Mutex::new(String::new()));
        let told = all.clone();
        std::thread::spawn(move || {
            for line in said.lines().map_while(Result::ok) {
                let mut told = told.lock().unwrap_or_else(PoisonError::into_inner);
                told.push_str(&line);
                told.push('\n');
            }
        });
        Ok(Watch { process, at, said: all })
    }

    /// All that it has said since it serves.
    pub fn said(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until it has said this.
    pub fn hears(&self, words: &str) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while !self.said().contains(words) {
            if Instant::now() > until {
                return Err(format!("'{words}' is not said:\n{}", self.said()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// The figures in Prometheus' text format.
    pub fn figures(&self) -> Result<String, String> {
        let told = |why: std::io::Error| format!("{}: {why}", self.at);
        let mut stream = TcpStream::connect(&self.at).map_err(told)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").map_err(told)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(told)?;
        answer
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned())
            .ok_or_else(|| "an answer without a head".to_owned())
    }

    /// The sum of a family's samples.
    pub fn sum(&self, family: &str) -> Result<f64, String> {
        let text = self.figures()?;
        let of_family =
            text.lines().filter(|line| line.strip_prefix(family).is_some_and(|rest| rest.starts_with(['{', ' '])));
        Ok(of_family.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    pub fn until(&self, family: &str, least: f64) -> Result<(), String> {
        let until = Instant::now() + PATIENCE;
        while self.sum(family)? < least {
            if Instant::now() > until {
                return Err(format!("{family} does not become {least}:\n{}", self.figures()?));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

/// Whether a program is there.
pub fn has(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// A service of the soak: a program that runs for an hour.
pub fn service(program: &Path) -> Result<Running, String> {
    let child = Command::new(program).arg("3600000").stdout(Stdio::null()).spawn();
    child.map(Running).map_err(|why| format!("{}: {why}", program.display()))
}

/// Prometheus takes the figures, the scrape configuration and the rules that are shipped.
pub fn prometheus(bench: &Bench) -> Result<(), String> {
    let shop = bench.folder.join("shopd");
    std::fs::copy(bench.compile("recorder/long_wait.c")?, &shop).map_err(|why| why.to_string())?;
    let _shop = service(&shop)?;
    let words = "--command shopd --every 2s --for 2s --budget 100% --listen 127.0.0.1:0";
    let watch = Watch::start(bench, &words.split(' ').collect::<Vec<_>>())?;
    watch.until("holdup_lock_waits_total", 1.0)?;
    let mut check = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .spawn()
        .map_err(|why| why.to_string())?;
    let text = watch.figures()?;
    check.stdin.take().map_or(Ok(()), |mut input| input.write_all(text.as_bytes())).map_err(|why| why.to_string())?;
    if !check.wait().map_err(|why| why.to_string())?.success() {
        return Err(format!("promtool refuses the figures:\n{text}"));
    }
    let deploy = root().join("deploy/prometheus");
    output(Command::new("promtool").args(["check", "config"]).arg(deploy.join("prometheus.yml")))?;
    output(Command::new("promtool").args(["check", "rules"]).arg(deploy.join("rules.yml")))?;
    println!("promtool takes the figures, the configuration and the rules of deploy/prometheus");
    Ok(())
}

/// Services of the soak.
const SERVICES: usize = 50;

/// `cargo xtask watch-soak [MINUTES]`: fifty small services, watched with the defaults but for the interval.
pub fn soak(args: &[String]) -> Result<(), String> {
    let minutes: u64 = match args {
        [] => 60,
        [minutes] => minutes.parse().map_err(|_| format!("'{minutes}': give a number of minutes"))?,
        _ => return Err("usage: cargo xtask watch-soak [MINUTES]".to_owned()),
    };
    let bench = Bench::new("watch-soak")?;
    let program = bench.compile("recorder/long_wait.c")?;
    let mut settings = "listen = '127.0.0.1:0'\nparquet = 'fleet'\n".to_owned();
    let mut services = Vec::new();
    for number in 0..SERVICES {
        let path = bench.folder.join(format!("service-{number}"));
        std::fs::copy(&program, &path).map_err(|why| format!("{}: {why}", path.display()))?;
        services.push(service(&path)?);
        let _ = write!(settings, "[[target]]\ncommand = 'service-{number}'\n");
    }
    let config = bench.folder.join("watch.toml");
    std::fs::write(&config, settings).map_err(|why| format!("{}: {why}", config.display()))?;
    let watch = Watch::start(&bench, &["--config", "watch.toml"])?;
    let (began, mut scrapes, mut most_kib, mut most_turn_kib) = (Instant::now(), Vec::new(), 0, 0);
    let mut restarted = 0;
    while began.elapsed() < Duration::from_secs(minutes * 60) {
        let before = Instant::now();
        watch.figures()?;
        scrapes.push(before.elapsed().as_secs_f64() * 1e3);
        most_kib = most_kib.max(resident_kib(watch.process.0.id()));
        most_turn_kib = most_turn_kib.max(children(watch.process.0.id()).into_iter().map(resident_kib).sum());
        // Each second one of them is started again.
        let at = restarted % SERVICES;
        services[at] = service(&bench.folder.join(format!("service-{at}")))?;
        restarted += 1;
        std::thread::sleep(Duration::from_secs(1));
    }
    let seconds = began.elapsed().as_secs_f64();
    let cpu_s = watch.sum("holdup_watch_cpu_seconds_total")?;
    let text = watch.figures()?;
    let samples = text.lines().filter(|line| !line.starts_with('#')).count();
    println!("{SERVICES} services for {seconds:.0} s, {restarted} restarts:");
    println!("recordings         {}", watch.sum("holdup_recordings_total")?);
    println!("failures           {}", watch.sum("holdup_failures_total")?);
    println!("CPU time           {cpu_s:.2} s, {:.2}% of one CPU", 100.0 * cpu_s / seconds);
    println!(
        "memory             {:.1} MB, and {:.1} MB while it records",
        f64::from(most_kib) / 1e3,
        f64::from(most_turn_kib) / 1e3
    );
    let longest = scrapes.iter().copied().fold(0.0, f64::max);
    println!("scrape             median {:.2} ms, longest {longest:.2} ms of {}", median(&scrapes), scrapes.len());
    println!("samples            {samples}, {} bytes", text.len());
    Ok(())
}

/// The most memory that a process has had.
fn resident_kib(pid: u32) -> u32 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}

/// What a process has started and not waited for.
pub fn children(pid: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("children")).ok());
    lists.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<_>>()).collect()
}
