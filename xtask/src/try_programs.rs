//! `holdup try` on programs that nobody here wrote: what it says of each, and whether ten separate runs of it as it is
//! and under the remedy, in turns, say the same. And programs that run for a fixed time: none may be judged by that.

use std::fmt::Write as _;
use std::fs::File;
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use regex_lite::Regex;
use serde_json::Value;

use crate::recording::{Bench, interval, is_root, median};
use crate::run::{machine, root};
use crate::setup;

const USAGE: &str = "usage: cargo xtask try-programs [fixed] [--only NAME,...] [--note TEXT] [--write MACHINE]";
/// Runs as it is, and as many under the remedy.
const PAIRS: usize = 10;
/// A server that takes longer to start or to end does not.
const SERVES_WITHIN: Duration = Duration::from_secs(40);

/// A program, and what keeps it busy for a second or so.
struct Case {
    name: &'static str,
    packages: &'static [&'static str],
    /// Shell, run before in the folder; `$ROOT` is the repository.
    prepare: &'static str,
    /// Of `holdup try`.
    options: &'static str,
    runs: Runs,
}

enum Runs {
    /// It ends when its work is done.
    Program(&'static str),
    /// A server, and the load whose time or number tells how fast it is; `{port}` is a free port.
    Server { server: &'static str, load: &'static str },
}

/// Remedies of programs, and the fewer of servers, which take long to start and to end.
const FOR_PROGRAMS: &str = "--budget 60s --locks spin-park,spin-learn,ttas --gates 1,2 --cpus all,1";
const FOR_SERVERS: &str = "--budget 75s --locks spin-park --gates 2 --cpus all,1";

/// A database of its own with sysbench's tables, made once and copied for another user.
const DATABASE: &str = "[ -d data ] || { mariadb-install-db --no-defaults --user=root \
                        --auth-root-authentication-method=normal --skip-test-db --datadir=$PWD/data > install.log 2>&1; \
                        mariadbd --no-defaults --user=root --skip-networking --socket=$PWD/socket --datadir=$PWD/data & \
                        until mariadb --no-defaults -uroot --socket=$PWD/socket -e 'CREATE DATABASE IF NOT EXISTS h; CREATE \
                        USER loader@\"%\"; GRANT ALL ON h.* TO loader@\"%\"'; do [ $((tries += 1)) -lt 100 ] || exit 1; sleep 0.2; done; \
                        sysbench oltp_read_only --db-driver=mysql --mysql-user=root --mysql-db=h --tables=2 \
                        --table-size=5000 --mysql-socket=$PWD/socket prepare > /dev/null; kill $!; wait $!; \
                        cp -a data data-nobody; chown -R nobody data-nobody; }";
const OLTP: &str = "sysbench oltp_read_only --db-driver=mysql --mysql-host=127.0.0.1 --mysql-port={port} --mysql-user=loader \
                    --mysql-db=h --tables=2 --table-size=5000 --threads=8 --events=800 --time=0 run";
const MEMCACHED_LOAD: &str =
    "memcslap --servers=127.0.0.1:{port} --concurrency=8 --execute-number=6000 --initial-load=2000 --test=get";

const CASES: &[Case] = &[
    Case {
        name: "kccachetest wicked",
        packages: &["kyotocabinet-utils"],
        prepare: "true",
        options: FOR_PROGRAMS,
        runs: Runs::Program("kccachetest wicked -th 4 -it 1 -capcnt 10000 100000"),
    },
    Case {
        name: "std::async and a mutex",
        packages: &["g++"],
        prepare: "g++ -O2 -pthread -std=c++20 -o async_cache $ROOT/fixtures/truth/cpp_async_cache.cc",
        options: FOR_PROGRAMS,
        runs: Runs::Program("./async_cache"),
    },
    Case {
        name: "OpenMP critical",
        packages: &["g++"],
        prepare: "g++ -O2 -fopenmp -std=c++20 -o omp_critical $ROOT/fixtures/truth/omp_critical.cc",
        options: FOR_PROGRAMS,
        runs: Runs::Program("./omp_critical"),
    },
    Case {
        name: "db_bench readrandom",
        packages: &["rocksdb-tools"],
        prepare: "[ -d rocks ] || db_bench --benchmarks=fillseq --num=200000 --db=rocks --compression_type=none",
        options: FOR_PROGRAMS,
        runs: Runs::Program(
            "db_bench --benchmarks=readrandom --use_existing_db=1 --threads=8 --num=200000 --reads=25000 --db=rocks \
             --compression_type=none",
        ),
    },
    Case {
        name: "sysbench mutex",
        packages: &["sysbench"],
        prepare: "true",
        options: FOR_PROGRAMS,
        runs: Runs::Program("sysbench mutex --threads=8 --mutex-num=1 --mutex-locks=40000 --mutex-loops=100 run"),
    },
    Case {
        name: "memcached",
        packages: &["memcached", "libmemcached-tools"],
        prepare: "true",
        options: FOR_SERVERS,
        runs: Runs::Server { server: "memcached -u root -t 4 -l 127.0.0.1 -p {port}", load: MEMCACHED_LOAD },
    },
    Case {
        name: "memcached -u nobody",
        packages: &["memcached", "libmemcached-tools"],
        prepare: "true",
        options: FOR_SERVERS,
        runs: Runs::Server { server: "memcached -u nobody -t 4 -l 127.0.0.1 -p {port}", load: MEMCACHED_LOAD },
    },
    Case {
        name: "mariadb",
        packages: &["mariadb-server", "sysbench"],
        prepare: DATABASE,
        options: FOR_SERVERS,
        runs: Runs::Server {
            server: "mariadbd --no-defaults --user=root --bind-address=127.0.0.1 --port={port} --skip-name-resolve \
                     --innodb-buffer-pool-size=64M --socket={port}.socket --datadir=DATA",
            load: OLTP,
        },
    },
    Case {
        name: "mariadb --user=nobody",
        packages: &["mariadb-server", "sysbench"],
        prepare: DATABASE,
        options: FOR_SERVERS,
        runs: Runs::Server {
            server: "mariadbd --no-defaults --user=nobody --bind-address=127.0.0.1 --port={port} --skip-name-resolve \
                     --innodb-buffer-pool-size=64M --socket={port}.socket --datadir=DATA-nobody",
            load: OLTP,
        },
    },
];

/// Programs that run for a fixed time.
const FIXED: &[Case] = &[
    fixed("sysbench cpu", &["sysbench"], "sysbench cpu --threads=2 --time=1 run"),
    fixed("sysbench memory", &["sysbench"], "sysbench memory --threads=2 --time=1 --memory-total-size=1000G run"),
    fixed("sysbench threads", &["sysbench"], "sysbench threads --threads=8 --time=1 run"),
    fixed("stress-ng --mutex", &["stress-ng"], "stress-ng --mutex 1 --timeout 1 --metrics"),
    fixed("stress-ng --switch", &["stress-ng"], "stress-ng --switch 2 --timeout 1 --metrics"),
    fixed("stress-ng --futex, without its figures", &["stress-ng"], "stress-ng --futex 2 --timeout 1"),
    fixed("openssl speed", &["openssl"], "openssl speed -seconds 1 -bytes 1024 -multi 2 sha256"),
    fixed("perf bench futex hash", &["linux-perf"], "perf bench futex hash -r 1 -t 4"),
    fixed("our own, with a rate", &["gcc"], "./try_fixed 8 700 prints"),
    fixed("our own, silent", &["gcc"], "./try_fixed 8 700"),
    Case {
        name: "wrk against nginx",
        packages: &["nginx-light", "wrk"],
        prepare: "mkdir -p logs; printf 'error_log stderr; events {}\\nhttp { access_log off; server { listen \
                  127.0.0.1:18474; location / { return 200 hello; } } }\\n' > nginx.conf",
        options: "--budget 25s --cpus all,1 --locks spin-park",
        runs: Runs::Server {
            server: "nginx -p . -c nginx.conf -e stderr -g 'daemon off; master_process off; pid nginx.pid;'",
            load: "wrk -t1 -c8 -d1s http://127.0.0.1:18474/",
        },
    },
];

const fn fixed(name: &'static str, packages: &'static [&'static str], program: &'static str) -> Case {
    let prepare = "[ -f try_fixed ] || cc -O2 -pthread -o try_fixed $ROOT/fixtures/interposer/try_fixed.c";
    let options = "--budget 45s --locks spin-park,ttas --cpus all,1";
    Case { name, packages, prepare, options, runs: Runs::Program(program) }
}

/// Tries the programs and prints what came of it; an error if a verdict is contradicted.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut only, mut note, mut name, mut is_fixed) = (Vec::new(), String::new(), None, false);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value; {USAGE}"));
        match word.as_str() {
            "fixed" => is_fixed = true,
            "--only" => only.extend(value()?.split(',').map(str::to_owned)),
            "--note" => note.clone_from(value()?),
            "--write" => name = Some(machine(&[value()?.clone()], "try-programs --write")?.to_owned()),
            _ => return Err(format!("'{word}' is no option; {USAGE}")),
        }
    }
    let wanted = |case: &&Case| only.is_empty() || only.iter().any(|part| case.name.contains(part.as_str()));
    let cases: Vec<&Case> = if is_fixed { FIXED } else { CASES }.iter().filter(wanted).collect();
    if is_root() {
        let packages: Vec<&str> = cases.iter().flat_map(|case| case.packages).copied().collect();
        setup::install_packages(&packages)?;
    }
    let bench = Bench::new("try-programs")?;
    let head = if is_fixed { HEAD_FIXED } else { HEAD };
    println!("{head}");
    let (mut table, mut wrong) = (format!("{head}\n"), Vec::new());
    for case in cases {
        let place = Place { bench: &bench, case };
        let row = if is_fixed { place.fixed() } else { place.checked() };
        let row = row.unwrap_or_else(|why| Row { cells: vec![format!("not tried: {why}")], is_wrong: true });
        let row_text = format!("| {} | {} |", case.name, row.cells.join(" | ").replace('\n', " "));
        println!("{row_text}");
        let _ = writeln!(table, "{row_text}");
        if row.is_wrong {
            wrong.push(case.name);
        }
    }
    if let Some(name) = &name {
        let part = if is_fixed { "fixed" } else { "programs" };
        let path = root().join(format!("docs/benchmarks/try-{part}-{name}.md"));
        let about = if is_fixed { ABOUT_FIXED } else { ABOUT };
        let mode = if is_fixed { "fixed " } else { "" };
        let note = if note.is_empty() { String::new() } else { format!(" {note}") };
        let page = format!(
            "# {about}\n\nWritten by `cargo xtask try-programs {mode}--write {name}`.{note}\n\n{}\n\n{table}",
            if is_fixed { EXPLAINED_FIXED } else { EXPLAINED }
        );
        std::fs::write(&path, page).map_err(|why| format!("{}: {why}", path.display()))?;
        println!("wrote {}", path.display());
    }
    if wrong.is_empty() { Ok(()) } else { Err(format!("wrong or not tried: {}", wrong.join(", "))) }
}

const HEAD: &str = "| program | `try` says | ratio, interval | compared | acquisitions served | checked | ten pairs of separate runs | |\n\
                    |---|---|---|---|---|---|---|---|";
const HEAD_FIXED: &str = "| program | `try` says | judged by |\n|---|---|---|";
const ABOUT: &str = "Programs that nobody here wrote: what `try` says, and separate runs";
const ABOUT_FIXED: &str = "Programs that run for a fixed time: what `try` judges them by";
const EXPLAINED: &str = "Each verdict is held against ten runs of the program as it is and ten under the line that `try` printed, in \
                         turns: the median of the ten ratios with its 95% interval (bootstrap). Where nothing helps or nothing is \
                         decided, the remedy with the best ratio is checked. *confirmed*: the interval says the same; \
                         *contradicted*: it says the opposite; *open*: neither.";
const EXPLAINED_FIXED: &str =
    "None of them may be judged by its elapsed time: `try` finds the number that tells what was done, or asks for it.";

struct Row {
    cells: Vec<String>,
    is_wrong: bool,
}

/// A case in the folder where it runs.
struct Place<'a> {
    bench: &'a Bench,
    case: &'a Case,
}

impl Place<'_> {
    /// A shell in the folder, where `holdup` is the one to be tested.
    fn shell(&self, text: &str) -> Command {
        let path = format!("{}:{}:/usr/sbin", self.bench.folder.display(), std::env::var("PATH").unwrap_or_default());
        let mut shell = Command::new("sh");
        shell.args(["-c", text]).current_dir(&self.bench.folder).env("PATH", path).env("ROOT", root());
        // Trials are kept here, not among those of whoever runs this.
        shell.env("XDG_DATA_HOME", &self.bench.folder);
        shell.stdin(Stdio::null());
        shell
    }

    fn prepare(&self) -> Result<(), String> {
        let log = File::create(self.file("prepare.log")).map_err(|why| why.to_string())?;
        let mut shell = self.shell(self.case.prepare);
        shell.stdout(log.try_clone().map_err(|why| why.to_string())?).stderr(log);
        let status = shell.status().map_err(|why| why.to_string())?;
        if status.success() { Ok(()) } else { Err(format!("its preparation ends with {status}, see prepare.log")) }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.bench.folder.join(name)
    }

    /// A command line with the folder's own files in it.
    fn line(&self, text: &str) -> String {
        text.replace("DATA", &self.file("data").to_string_lossy())
    }

    /// `holdup try` with these options: its status, its JSON and what it said besides.
    fn try_(&self) -> Result<(i32, Value, String), String> {
        self.prepare()?;
        let (server, program) = match &self.case.runs {
            Runs::Program(program) => (String::new(), *program),
            Runs::Server { server, load } => {
                let ready = if server.contains("{port}") { "tcp:{port}" } else { "tcp:18474" };
                (format!("--server \"{}\" --ready {ready}", self.line(server)), *load)
            }
        };
        let text = format!("holdup try --json {} {server} -- {program}", self.case.options);
        let output = self.shell(&text).output().map_err(|why| format!("{text}: {why}"))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let json = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        Ok((output.status.code().unwrap_or(-1), json, said))
    }

    /// What it says of a program that runs for a fixed time.
    fn fixed(&self) -> Result<Row, String> {
        let (status, trial, said) = self.try_()?;
        if status == 2 && said.contains("--metric") {
            let asks = said.split_whitespace().collect::<Vec<_>>().join(" ");
            return Ok(Row { cells: vec!["asks".to_owned(), cell(&asks)], is_wrong: false });
        }
        if status != 0 {
            return Err(said);
        }
        let label = trial["metric"]["label"].as_str().map_or(String::new(), |label| format!(": '{}'", cell(label)));
        let figure = trial["figure"].as_str().unwrap_or("?");
        let cells = vec![verdict(&trial), format!("{figure}{label}")];
        Ok(Row { cells, is_wrong: figure == "elapsed" || !trial["fixed_s"].is_number() })
    }

    /// What it says, beside separate runs.
    fn checked(&self) -> Result<Row, String> {
        let (status, trial, said) = self.try_()?;
        if status != 0 {
            return Err(said);
        }
        let served = trial["coverage"]["acquisitions"].as_u64().map_or("–".to_owned(), |served| served.to_string());
        let compared = trial["metric"]["label"].as_str().or(trial["figure"].as_str()).unwrap_or("?");
        let mut cells = vec![verdict(&trial)];
        let Some(remedy) = to_check(&trial) else {
            cells.extend(["–".to_owned(), cell(compared), served, "–".to_owned(), "–".to_owned(), String::new()]);
            return Ok(Row { cells, is_wrong: false });
        };
        let name = remedy["name"].as_str().unwrap_or("?");
        let figure = Figure::of(&trial)?;
        let keep = remedy["keep"].as_str().ok_or("the trial has no line that keeps it")?;
        let (speed, cpu) = self.pairs(&figure, keep)?;
        let (low, high) = interval(&speed, 1);
        let judged = judge(&trial, remedy, (low, high), cpu);
        let cpu = cpu.map_or(String::new(), |cpu| format!(", {cpu:.2} of the CPU time"));
        cells.extend([
            ratio(&remedy["ratio"]),
            cell(compared),
            served,
            name.to_owned(),
            format!("{:.2} [{low:.2}, {high:.2}]{cpu}", median(&speed)),
            judged.to_owned(),
        ]);
        Ok(Row { cells, is_wrong: judged == CONTRADICTED })
    }

    /// Runs as it is and under this line, by turns: how many times as good, and the CPU time of a program by that of
    /// itself as it is.
    fn pairs(&self, figure: &Figure, keep: &str) -> Result<(Vec<f64>, Option<f64>), String> {
        let as_it_is = match &self.case.runs {
            Runs::Program(program) => (*program).to_owned(),
            Runs::Server { server, .. } => self.line(server).replace("{port}", "PORT"),
        };
        let (mut speed, mut cpu) = (Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            let (plain, kept) = match pair % 2 {
                0 => (self.one(figure, &as_it_is)?, self.one(figure, keep)?),
                _ => {
                    let kept = self.one(figure, keep)?;
                    (self.one(figure, &as_it_is)?, kept)
                }
            };
            speed.push(kept.merit / plain.merit);
            cpu.extend(kept.cpu_s.zip(plain.cpu_s).map(|(kept, plain)| kept / plain));
        }
        Ok((speed, Some(median(&cpu)).filter(|cpu| cpu.is_finite())))
    }

    fn one(&self, figure: &Figure, line: &str) -> Result<Run, String> {
        match &self.case.runs {
            Runs::Program(_) => {
                let (took_s, text) = self.timed(&format!("{line}\ncode=$?; times > cpu; exit $code"))?;
                let cpu = std::fs::read_to_string(self.file("cpu")).unwrap_or_default();
                Ok(Run { merit: figure.merit(took_s, &text)?, cpu_s: children_s(&cpu) })
            }
            Runs::Server { load, .. } => {
                let port = free_port()?.to_string();
                let listens = if line.contains("PORT") { &port } else { "18474" };
                let server = Server::start(self, &line.replace("PORT", &port), listens)?;
                let (took_s, text) = self.timed(&load.replace("{port}", &port))?;
                server.stop()?;
                Ok(Run { merit: figure.merit(took_s, &text)?, cpu_s: None })
            }
        }
    }

    /// How long it takes, and all that it prints.
    fn timed(&self, text: &str) -> Result<(f64, String), String> {
        let began = Instant::now();
        let output = self.shell(text).output().map_err(|why| format!("{text}: {why}"))?;
        let took_s = began.elapsed().as_secs_f64();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        match output.status.success() {
            true => Ok((took_s, printed)),
            false => Err(format!("{text} ended with {}: {printed}", output.status)),
        }
    }
}

/// What one run yields: more of the merit is better.
struct Run {
    merit: f64,
    cpu_s: Option<f64>,
}

/// What is compared.
enum Figure {
    Elapsed,
    Printed { expression: Regex, more_is_better: bool },
}

impl Figure {
    fn of(trial: &Value) -> Result<Figure, String> {
        match (trial["figure"].as_str(), trial["metric"]["expression"].as_str()) {
            (_, Some(expression)) => Ok(Figure::Printed {
                expression: Regex::new(expression).map_err(|why| why.to_string())?,
                more_is_better: trial["metric"]["higher_is_better"] == true,
            }),
            (Some("elapsed"), _) => Ok(Figure::Elapsed),
            (figure, _) => Err(format!("{figure:?} is no figure of a run without holdup")),
        }
    }

    fn merit(&self, took_s: f64, printed: &str) -> Result<f64, String> {
        let Figure::Printed { expression, more_is_better } = self else { return Ok(1.0 / took_s) };
        let number = |found: regex_lite::Captures<'_>| found.get(1)?.as_str().replace(',', "").parse::<f64>().ok();
        let value = expression.captures_iter(printed).filter_map(number).last();
        let value = value.ok_or_else(|| format!("it does not print '{expression}'"))?;
        Ok(if *more_is_better { value } else { 1.0 / value })
    }
}

/// A server that listens; it ends when this is dropped.
struct Server(Option<Child>);

impl Server {
    fn start(place: &Place<'_>, line: &str, port: &str) -> Result<Server, String> {
        let log = File::create(place.file("server.log")).map_err(|why| why.to_string())?;
        let mut shell = place.shell(&format!("exec {line}"));
        shell.stdout(log.try_clone().map_err(|why| why.to_string())?).stderr(log);
        let mut server = Server(Some(shell.spawn().map_err(|why| format!("{line}: {why}"))?));
        let began = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{port}")).is_err() {
            let ended = server.0.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            if ended || began.elapsed() > SERVES_WITHIN {
                return Err(format!("{line} does not serve, see server.log"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }

    fn stop(mut self) -> Result<(), String> {
        let Some(mut child) = self.0.take() else { return Ok(()) };
        let _ = Command::new("kill").arg(child.id().to_string()).status();
        let began = Instant::now();
        while began.elapsed() < SERVES_WITHIN {
            if child.try_wait().map_err(|why| why.to_string())?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        self.0 = Some(child);
        Err("the server does not end".to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

const CONFIRMED: &str = "confirmed";
const CONTRADICTED: &str = "contradicted";
const OPEN: &str = "open";

/// What separate runs say of the verdict.
fn judge(trial: &Value, remedy: &Value, (low, high): (f64, f64), cpu: Option<f64>) -> &'static str {
    match trial["verdict"].as_str().unwrap_or_default() {
        "helps" if low > 1.0 => CONFIRMED,
        "helps" if high < 1.0 => CONTRADICTED,
        "saves" if cpu.is_some_and(|cpu| cpu < 1.0) && high >= 0.93 => CONFIRMED,
        "saves" if cpu.is_some_and(|cpu| cpu > 1.0) || high < 0.93 => CONTRADICTED,
        // It may gain as much as the trial could not exclude.
        "nothing" if low > remedy["ratio"]["high"].as_f64().unwrap_or(1.0).max(1.03) => CONTRADICTED,
        "nothing" if low <= 1.03 => CONFIRMED,
        _ => OPEN,
    }
}

/// The winner, or what came next to winning.
fn to_check(trial: &Value) -> Option<&Value> {
    let remedies = || trial["remedies"].as_array().into_iter().flatten();
    let of = |remedy: &Value| remedy["ratio"]["ratio"].as_f64();
    match trial["winner"].as_str() {
        Some(winner) => remedies().find(|remedy| remedy["name"] == winner),
        None => remedies()
            .filter(|remedy| remedy["standing"] != "failed" && of(remedy).is_some())
            .max_by(|a, b| of(a).unwrap_or(0.0).total_cmp(&of(b).unwrap_or(0.0))),
    }
}

fn verdict(trial: &Value) -> String {
    let verdict = trial["verdict"].as_str().unwrap_or("?");
    match trial["winner"].as_str() {
        Some(winner) => format!("{winner} {verdict}"),
        None => verdict.to_owned(),
    }
}

fn ratio(value: &Value) -> String {
    let number = |key: &str| value[key].as_f64().unwrap_or(f64::NAN);
    format!("{:.2} [{:.2}, {:.2}]", number("ratio"), number("low"), number("high"))
}

/// Text that breaks no table.
fn cell(text: &str) -> String {
    text.replace('|', "/")
}

/// CPU time of the children of a shell, by what its `times` prints: two lines of user and system time.
fn children_s(text: &str) -> Option<f64> {
    let seconds = |word: &str| {
        let (minutes, seconds) = word.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let [user, system] = text.lines().nth(1)?.split_whitespace().collect::<Vec<_>>().try_into().ok()?;
    Some(seconds(user)? + seconds(system)?)
}

/// A port that is free now.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|why| why.to_string())?;
    listener.local_addr().map(|address| address.port()).map_err(|why| why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(verdict: &str, winner: Option<&str>) -> Value {
        serde_json::json!({
            "verdict": verdict, "winner": winner, "figure": "elapsed",
            "remedies": [
                { "name": "ttas", "standing": "failed", "ratio": { "ratio": 3.0, "low": 2.0, "high": 4.0 } },
                { "name": "1 CPU", "standing": "live", "ratio": { "ratio": 1.02, "low": 0.9, "high": 1.1 } },
                { "name": "throttle:1", "standing": "dropped", "ratio": { "ratio": 0.8, "low": 0.7, "high": 0.9 } }
            ]
        })
    }

    #[test]
    fn the_winner_is_checked_or_the_best_of_those_that_work() {
        assert_eq!(to_check(&trial("helps", Some("throttle:1"))).unwrap()["name"], "throttle:1");
        assert_eq!(to_check(&trial("nothing", None)).unwrap()["name"], "1 CPU");
    }

    #[test]
    fn separate_runs_confirm_or_contradict() {
        let of = |said: &str, low, high| {
            let trial = trial(said, None);
            judge(&trial, to_check(&trial).unwrap(), (low, high), Some(0.5))
        };
        assert_eq!(of("helps", 1.1, 1.4), CONFIRMED);
        assert_eq!(of("helps", 0.8, 0.9), CONTRADICTED);
        assert_eq!(of("helps", 0.9, 1.3), OPEN);
        assert_eq!(of("nothing", 0.9, 1.2), CONFIRMED);
        assert_eq!(of("nothing", 1.06, 1.2), OPEN, "the trial could not exclude that");
        assert_eq!(of("nothing", 1.2, 1.4), CONTRADICTED);
        assert_eq!(of("saves", 0.95, 1.0), CONFIRMED);
        assert_eq!(of("noisy", 1.2, 1.4), OPEN);
    }

    #[test]
    fn times_of_a_shell_are_read() {
        assert_eq!(children_s("0m0.00s 0m0.01s\n1m2.50s 0m0.25s\n"), Some(62.75));
        assert_eq!(children_s("0m0.00s 0m0.01s\n"), None);
    }

    #[test]
    fn a_figure_is_a_time_or_a_number_that_is_printed() {
        let printed = serde_json::json!({
            "figure": "printed", "metric": { "expression": "ops: ([0-9,]+)", "higher_is_better": true }
        });
        let figure = Figure::of(&printed).unwrap();
        assert_eq!(figure.merit(9.0, "ops: 1\nops: 1,200\n"), Ok(1200.0));
        assert!(figure.merit(9.0, "nothing").is_err());
        assert_eq!(Figure::of(&trial("helps", None)).unwrap().merit(0.5, ""), Ok(2.0));
    }
}
