//! The distribution's own programs under every policy: started, given a small load, checked for right results, stopped
//! cleanly.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::recording::Bench;
use crate::run::root;

/// A program, and how to see that it works.
struct Program {
    name: &'static str,
    /// What must be installed for it, and the packages that have it.
    needs: &'static [&'static str],
    packages: &'static str,
    check: fn(&Place) -> Result<(), String>,
}

const PROGRAMS: &[Program] = &[
    Program { name: "pigz", needs: &["pigz", "gzip"], packages: "pigz gzip", check: pigz },
    Program { name: "python3", needs: &["python3"], packages: "python3", check: python },
    Program { name: "git", needs: &["git"], packages: "git", check: git },
    Program { name: "sysbench", needs: &["sysbench"], packages: "sysbench", check: sysbench },
    Program { name: "memcached", needs: &["memcached"], packages: "memcached", check: memcached },
    Program { name: "redis", needs: &["redis-server"], packages: "redis-server", check: redis },
    Program {
        name: "mariadb",
        needs: &["mariadbd", "mariadb", "mariadb-admin", "mariadb-install-db", "sysbench"],
        packages: "mariadb-server sysbench",
        check: mariadb,
    },
];

/// What is put under a program.
#[derive(Clone, Copy)]
enum Under {
    Policy(&'static str),
    Flip,
    WithJemalloc(&'static str),
}

const UNDER: &[Under] = &[
    Under::Policy("glibc"),
    Under::Policy("spin-park:100"),
    Under::Policy("spin-learn"),
    Under::Policy("ttas"),
    Under::Policy("capped:1"),
    Under::Policy("throttle:1"),
    Under::Policy("throttle:2"),
    Under::Flip,
    Under::WithJemalloc("glibc"),
    Under::WithJemalloc("throttle:1"),
];

const JEMALLOC: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Tries all programs, or those that are named.
pub fn run(args: &[String]) -> Result<(), String> {
    let bench = Bench::new("selftest-programs")?;
    let known = |name: &String| PROGRAMS.iter().any(|one| one.name == name);
    if let Some(unknown) = args.iter().find(|name| !known(name)) {
        let names: Vec<&str> = PROGRAMS.iter().map(|one| one.name).collect();
        return Err(format!("there is no program '{unknown}'; there are {}", names.join(", ")));
    }
    let mut failures = Vec::new();
    for program in PROGRAMS.iter().filter(|one| args.is_empty() || args.iter().any(|name| name == one.name)) {
        if let Some(missing) = program.needs.iter().find(|name| find(name).is_none()) {
            println!("{:<10} not tried: there is no {missing} (apt-get install {})", program.name, program.packages);
            continue;
        }
        for under in UNDER {
            if matches!(under, Under::WithJemalloc(_)) && !Path::new(JEMALLOC).exists() {
                println!("{:<10} not tried {}: apt-get install libjemalloc2", program.name, under.phrase());
                continue;
            }
            let place = Place::new(&bench, program.name, *under)?;
            let began = Instant::now();
            let result = (program.check)(&place).and_then(|()| place.acquisitions());
            let seconds = began.elapsed().as_secs_f64();
            let phrase = under.phrase();
            match result {
                Ok(Some(served)) => {
                    println!("{:<10} {phrase:<28} ok   {seconds:5.1} s {served:>9} acquisitions", program.name)
                }
                Ok(None) => println!("{:<10} {phrase:<28} ok   {seconds:5.1} s", program.name),
                Err(why) => {
                    println!("{:<10} {phrase:<28} FAIL {seconds:5.1} s: {why}", program.name);
                    failures.push(format!("{} {phrase}", program.name));
                }
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(format!("did not work: {}", failures.join(", "))) }
}

impl Under {
    fn phrase(self) -> String {
        match self {
            Under::Policy(policy) => policy.to_owned(),
            Under::Flip => "flipping every 5 ms".to_owned(),
            Under::WithJemalloc(policy) => format!("{policy} with jemalloc"),
        }
    }
}

/// A file of $PATH.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    // The distribution's python, not that of a version manager.
    ["/usr/bin".into()].into_iter().chain(folders).map(|folder: PathBuf| folder.join(name)).find(|file| file.is_file())
}

/// Where one program runs under one thing.
struct Place {
    holdup: PathBuf,
    /// For what lasts: databases.
    home: PathBuf,
    /// Empty at first.
    folder: PathBuf,
    under: Under,
    commands: AtomicU32,
}

impl Place {
    fn new(bench: &Bench, name: &str, under: Under) -> Result<Place, String> {
        let home = bench.folder.join(name);
        let folder = home.join("run");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        Ok(Place { holdup: bench.holdup.clone(), home, folder, under, commands: AtomicU32::new(0) })
    }

    /// The program, with what is to be under it.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.holdup);
        match self.under {
            Under::Policy(policy) | Under::WithJemalloc(policy) => {
                let number = self.commands.fetch_add(1, Ordering::Relaxed);
                // Without a watchdog: a lock that stands still must be seen.
                command.args(["with", "--watchdog", "0", "--lock", policy, "--json"]);
                command.arg(self.folder.join(format!("figures-{number}.json"))).arg("--");
            }
            Under::Flip => drop(command.args(["selftest", "--flip", "5ms", "--"])),
        }
        if let Under::WithJemalloc(_) = self.under {
            command.env("LD_PRELOAD", JEMALLOC);
        }
        command
            .arg(find(program).unwrap_or_else(|| program.into()))
            .current_dir(&self.folder)
            .env("HOME", &self.folder);
        command
    }

    /// A program with nothing under it.
    fn native(&self, program: &str) -> Command {
        let mut command = Command::new(find(program).unwrap_or_else(|| program.into()));
        command.current_dir(&self.folder).env("HOME", &self.folder);
        command
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// How many acquisitions were served; there must be some. Not known while the policy flips.
    fn acquisitions(&self) -> Result<Option<u64>, String> {
        if let Under::Flip = self.under {
            return Ok(None);
        }
        let mut served = 0;
        for number in 0..self.commands.load(Ordering::Relaxed) {
            let path = self.file(&format!("figures-{number}.json"));
            let text = std::fs::read(&path).map_err(|why| format!("{}: {why}", path.display()))?;
            let json: Value = serde_json::from_slice(&text).map_err(|why| format!("{}: {why}", path.display()))?;
            let processes = json["processes"].as_array().into_iter().flatten();
            served += processes.filter_map(|one| one["acquisitions"].as_u64()).sum::<u64>();
        }
        if served == 0 { Err("no acquisition was served".to_owned()) } else { Ok(Some(served)) }
    }
}

/// Runs a command that must end well and in time.
fn done(command: &mut Command) -> Result<Output, String> {
    let text = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|why| format!("{text}: {why}"))?;
    let guard = Running { child: Some(child), text };
    guard.output(LIMIT)
}

/// What is ended if nobody waits for it.
struct Running {
    child: Option<Child>,
    text: String,
}

impl Running {
    /// Waits; what takes too long is ended, with all that it has started.
    fn output(mut self, limit: Duration) -> Result<Output, String> {
        let mut child = self.child.take().ok_or("it has ended already")?;
        let pid = child.id();
        let streams = [child.stdout.take().map(reader), child.stderr.take().map(reader)];
        let end = Instant::now() + limit;
        let status = loop {
            match child.try_wait().map_err(|why| why.to_string())? {
                Some(status) => break status,
                None if Instant::now() > end => {
                    end_all(pid);
                    let _ = child.wait();
                    return Err(format!("no end within {limit:?}: {}", self.text));
                }
                None => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        let [stdout, stderr] = streams.map(|stream| stream.and_then(|thread| thread.join().ok()).unwrap_or_default());
        let output = Output { status, stdout, stderr };
        if status.success() {
            return Ok(output);
        }
        let err = String::from_utf8_lossy(&output.stderr);
        Err(format!("{status}: {}\n{}", self.text, err.lines().rev().take(4).collect::<Vec<_>>().join("\n")))
    }

    /// Asks it to end, as an administrator does.
    fn stop(self) -> Result<(), String> {
        let pid = self.child.as_ref().map(Child::id).ok_or("it has ended already")?;
        let _ = Command::new("kill").arg(pid.to_string()).status();
        self.output(LIMIT).map(drop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            end_all(child.id());
            let _ = child.wait();
        }
    }
}

fn reader(mut stream: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}

/// Ends a process that we started, its children first, so that none is left behind.
fn end_all(pid: u32) {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().filter_map(|child| child.parse().ok()).for_each(end_all);
    let _ = Command::new("kill").args(["-9", &pid.to_string()]).stderr(Stdio::null()).status();
}

fn start(command: &mut Command) -> Result<Running, String> {
    let text = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().map_err(|why| format!("{text}: {why}"))?;
    Ok(Running { child: Some(child), text })
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, is: T, expected: T) -> Result<(), String> {
    if is == expected { Ok(()) } else { Err(format!("{what} is {is:?}, not {expected:?}")) }
}

fn io<T>(result: std::io::Result<T>) -> Result<T, String> {
    result.map_err(|why| why.to_string())
}

/// Compressed with four threads; gzip, with nothing under it, must give back the same bytes.
fn pigz(place: &Place) -> Result<(), String> {
    let text: Vec<u8> =
        (0..600_000_u32).flat_map(|n| format!("{} ", n.wrapping_mul(2_654_435_761) >> 7).into_bytes()).collect();
    io(std::fs::write(place.file("text"), &text))?;
    done(place.command("pigz").args(["-k", "-p", "4", "-b", "128", "text"]))?;
    let back = done(place.native("gzip").args(["-dc", "text.gz"]))?;
    same("the decompressed file's length", back.stdout.len(), text.len())?;
    if back.stdout == text { Ok(()) } else { Err("the decompressed file is another".to_owned()) }
}

/// The same output as without anything under it.
fn python(place: &Place) -> Result<(), String> {
    let script = root().join("fixtures/interposer/threads.py");
    let words = [script.as_os_str(), place.folder.as_os_str()];
    let expected = done(place.native("python3").args(words))?;
    let output = done(place.command("python3").args(words))?;
    same("its output", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&expected.stdout))
}

/// A repository is filled, searched, packed with threads, cloned; fsck finds nothing.
fn git(place: &Place) -> Result<(), String> {
    let repository = place.file("repository");
    io(std::fs::create_dir_all(&repository))?;
    let identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"];
    let git = |words: &[&str]| done(place.command("git").args(identity).args(words).current_dir(&repository));
    git(&["init", "-q"])?;
    for n in 0..300 {
        io(std::fs::write(repository.join(format!("file-{n}")), format!("line {n}\n").repeat(n + 1)))?;
    }
    git(&["add", "."])?;
    git(&["commit", "-q", "-m", "all"])?;
    let found = git(&["grep", "--threads=4", "-l", "line 29"])?;
    same("files found", String::from_utf8_lossy(&found.stdout).lines().count(), 11)?;
    git(&["-c", "pack.threads=4", "repack", "-adfq"])?;
    git(&["fsck", "--full", "--strict"])?;
    git(&["clone", "-q", "--no-local", ".", "../clone"])?;
    let ours = done(place.native("git").args(["rev-parse", "HEAD^{tree}"]).current_dir(&repository))?;
    let theirs = done(place.native("git").args(["rev-parse", "HEAD^{tree}"]).current_dir(place.file("clone")))?;
    same("the clone's tree", theirs.stdout, ours.stdout)
}

/// Its two tests of locks; each thread of the mutex test is one event.
fn sysbench(place: &Place) -> Result<(), String> {
    let events = |output: &Output| {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("total number of events:"));
        line.and_then(|count| count.trim().parse::<u64>().ok()).ok_or("it tells no number of events")
    };
    let mutex = ["mutex", "--threads=8", "--mutex-num=2", "--mutex-locks=20000", "--mutex-loops=50", "run"];
    same("events of the mutex test", events(&done(place.command("sysbench").args(mutex))?)?, 8)?;
    let threads =
        ["threads", "--threads=8", "--thread-locks=2", "--thread-yields=20", "--events=3000", "--time=50", "run"];
    same("events of the threads test", events(&done(place.command("sysbench").args(threads))?)?, 3000)
}

/// A port that is free now.
fn free_port() -> Result<u16, String> {
    let listener = io(TcpListener::bind(("127.0.0.1", 0)))?;
    Ok(io(listener.local_addr())?.port())
}

/// One connection to a server that answers in lines.
struct Line(BufReader<TcpStream>);

impl Line {
    fn connect(port: u16) -> Result<Line, String> {
        let end = Instant::now() + LIMIT;
        loop {
            match TcpStream::connect(("127.0.0.1", port)) {
                Ok(stream) => {
                    io(stream.set_read_timeout(Some(LIMIT)))?;
                    io(stream.set_nodelay(true))?;
                    return Ok(Line(BufReader::new(stream)));
                }
                Err(why) if Instant::now() > end => return Err(format!("the server does not listen: {why}")),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    fn read(&mut self) -> Result<String, String> {
        let mut line = String::new();
        io(self.0.read_line(&mut line))?;
        Ok(line.trim_end().to_owned())
    }

    fn ask(&mut self, text: &str) -> Result<String, String> {
        io(self.0.get_mut().write_all(text.as_bytes()))?;
        self.read()
    }
}

/// So many connections at once do the same.
fn clients(count: u32, act: impl Fn(u32) -> Result<(), String> + Sync) -> Result<(), String> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|index| {
                scope.spawn({
                    let act = &act;
                    move || act(index)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a client panicked".to_owned())?)
    })
}

const CLIENTS: u32 = 6;
const TIMES: u32 = 400;

/// Keys come back as they were set, and a counter that all connections raise has their sum.
fn memcached(place: &Place) -> Result<(), String> {
    let port = free_port()?;
    let port_text = port.to_string();
    let words = ["-u", "root", "-l", "127.0.0.1", "-U", "0", "-t", "4", "-m", "64", "-p", &port_text];
    let server = start(place.command("memcached").args(words))?;
    same("the answer to set", Line::connect(port)?.ask("set n 0 0 1\r\n0\r\n")?, "STORED".to_owned())?;
    clients(CLIENTS, |index| {
        let mut line = Line::connect(port)?;
        for n in 0..TIMES {
            let value = format!("{index}-{n}-{}", "x".repeat((n % 500) as usize));
            let set = format!("set key-{index}-{n} 0 0 {}\r\n{value}\r\n", value.len());
            same("the answer to set", line.ask(&set)?, "STORED".to_owned())?;
            let head = line.ask(&format!("get key-{index}-{n}\r\n"))?;
            same("the answer to get", head, format!("VALUE key-{index}-{n} 0 {}", value.len()))?;
            same("a value", line.read()?, value)?;
            same("the end of a value", line.read()?, "END".to_owned())?;
            line.ask("incr n 1\r\n")?;
        }
        Ok(())
    })?;
    let mut line = Line::connect(port)?;
    line.ask("get n\r\n")?;
    same("the counter", line.read()?, (CLIENTS * TIMES).to_string())?;
    drop(line);
    server.stop()
}

/// The same with threads for input and output, and with snapshots, which are forks.
fn redis(place: &Place) -> Result<(), String> {
    let port = free_port()?;
    let port_text = port.to_string();
    let words = [
        "--bind",
        "127.0.0.1",
        "--port",
        &port_text,
        "--save",
        "",
        "--io-threads",
        "4",
        "--io-threads-do-reads",
        "yes",
    ];
    let server = start(place.command("redis-server").args(words).arg("--dir").arg(&place.folder))?;
    Line::connect(port)?.ask("PING\r\n")?;
    clients(CLIENTS, |index| {
        let mut line = Line::connect(port)?;
        for n in 0..TIMES {
            same("the answer to SET", line.ask(&format!("SET key-{index}-{n} {n}\r\n"))?, "+OK".to_owned())?;
            line.ask(&format!("GET key-{index}-{n}\r\n"))?;
            same("a value", line.read()?, n.to_string())?;
            line.ask("INCR n\r\n")?;
            if n == TIMES / 2 && index == 0 {
                same("the answer to BGSAVE", line.ask("BGSAVE\r\n")?, "+Background saving started".to_owned())?;
            }
        }
        Ok(())
    })?;
    let mut line = Line::connect(port)?;
    line.ask("GET n\r\n")?;
    same("the counter", line.read()?, (CLIENTS * TIMES).to_string())?;
    // Lazy freeing and closing of files are done by threads of its own.
    same("the answer to FLUSHALL ASYNC", line.ask("FLUSHALL ASYNC\r\n")?, "+OK".to_owned())?;
    drop(line);
    server.stop()
}

/// A database: a counter that several clients raise in transactions, and sysbench's own load with eight threads.
fn mariadb(place: &Place) -> Result<(), String> {
    let data = place.home.join("data");
    let user = "--user=root";
    if !data.join("mysql").is_dir() {
        let mut install = place.native("mariadb-install-db");
        let words = [user, "--auth-root-authentication-method=normal", "--skip-test-db"];
        done(install.args(words).arg(format!("--datadir={}", data.display())))?;
    }
    let socket = format!("--socket={}", place.file("socket").display());
    let mut command = place.command("mariadbd");
    command.args(["--no-defaults", user, "--skip-networking", "--innodb-buffer-pool-size=32M", &socket]);
    command.arg("--innodb-flush-log-at-trx-commit=0").arg(format!("--datadir={}", data.display()));
    let server = start(command.arg(format!("--pid-file={}", place.file("pid").display())))?;
    let end = Instant::now() + LIMIT;
    while done(place.native("mariadb-admin").args(["--no-defaults", "-uroot", &socket, "ping"])).is_err() {
        if Instant::now() > end {
            return Err("the server does not answer".to_owned());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let sql = |text: &str| {
        let words =
            ["--no-defaults", "-uroot", "--batch", "--skip-column-names", "--delimiter=//", &socket, "-e", text];
        done(place.native("mariadb").args(words))
            .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    sql(
        "DROP DATABASE IF EXISTS h // CREATE DATABASE h // CREATE TABLE h.c (n INT) ENGINE=InnoDB // INSERT INTO h.c \
         VALUES (0)",
    )?;
    let raise = format!(
        "BEGIN NOT ATOMIC DECLARE i INT DEFAULT 0; WHILE i < {TIMES} DO UPDATE h.c SET n = n + 1; SET i = i + 1; END \
         WHILE; END"
    );
    clients(4, |_| sql(&raise).map(drop))?;
    same("the counter", sql("SELECT n FROM h.c")?, (4 * TIMES).to_string())?;
    let bench = |what: &str| {
        let name = place.file("socket");
        let mut command = place.native("sysbench");
        command.args(["oltp_read_write", "--db-driver=mysql", "--mysql-user=root", "--mysql-db=h", "--tables=2"]);
        command.args(["--table-size=1000", "--threads=8", "--time=2", what]);
        done(command.arg(format!("--mysql-socket={}", name.display())))
    };
    bench("prepare")?;
    bench("run")?;
    same("the check of the tables", sql("CHECK TABLE h.sbtest1, h.sbtest2, h.c EXTENDED")?.matches("\tOK").count(), 3)?;
    server.stop()
}
