//! Debian's programs: what is said of them first, beside what is true of them.
//!
//! Truth here is no label that a machine compares: it comes from perf, from the program's own figures or from how it is
//! built, and stands beside what was said for a reader to judge. Servers listen on a socket or port of this machine
//! only, and end by their process id.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::User;
use crate::recording::{Bench, is_root, output};
use crate::run::root;
use crate::setup;

/// A server that takes longer to start does not start.
const START_LIMIT: Duration = Duration::from_secs(40);
const USAGE: &str = "usage: cargo xtask truth-programs [--only NAME,...] [--user] [--write MACHINE]";

/// A real program, and how to keep it busy for a few seconds.
struct Program {
    name: &'static str,
    packages: &'static [&'static str],
    /// Shell, run before in the folder.
    prepare: &'static str,
    runs: Runs,
    truth: &'static str,
}

/// What is recorded.
enum Runs {
    /// A command from its start to its end.
    Command(&'static str),
    /// A server, attached to while a load runs: the server, a shell command that succeeds once it is up, and the load.
    Server { server: &'static str, is_up: &'static str, load: &'static str },
}

const TEXT: &str = "[ -f text ] || seq 1 4000000 | sed 's/7/seven/g' > text";
const LINES: &str = "[ -f lines ] || seq 1 4000000 | awk '{ print ($1 * 7919) % 4000037, $1 }' > lines";
/// A database of its own, made once.
const DATABASE: &str = "[ -d data ] || mariadb-install-db --no-defaults --user=root --auth-root-authentication-method=normal \
                        --skip-test-db --datadir=$PWD/data > install.log 2>&1";
const MARIADB: &str = "exec mariadbd --no-defaults --user=root --skip-networking --innodb-buffer-pool-size=64M \
                       --socket=$PWD/socket --pid-file=$PWD/pid --datadir=$PWD/data";
const MARIADB_UP: &str = "mariadb --no-defaults -uroot --socket=$PWD/socket -e 'CREATE DATABASE IF NOT EXISTS h'";

const PROGRAMS: &[Program] = &[
    Program {
        name: "pbzip2 -p4",
        packages: &["pbzip2"],
        prepare: TEXT,
        runs: Runs::Command("pbzip2 -p4 -k -f text"),
        truth: "healthy: it computes, -p2 is no faster",
    },
    Program {
        name: "lbzip2 -n4",
        packages: &["lbzip2"],
        prepare: TEXT,
        runs: Runs::Command("lbzip2 -n4 -k -f text"),
        truth: "healthy: it computes, -n2 is no faster",
    },
    Program {
        name: "zstd -T2",
        packages: &["zstd"],
        prepare: TEXT,
        runs: Runs::Command("zstd -q -T2 -9 -k -f text"),
        truth: "healthy: it computes",
    },
    Program {
        name: "xz -T2",
        packages: &["xz-utils"],
        prepare: TEXT,
        runs: Runs::Command("xz -T2 -1 -k -f text"),
        truth: "healthy: it computes",
    },
    Program {
        name: "7z -mmt2",
        packages: &["p7zip-full"],
        prepare: "[ -f text ] || seq 1 4000000 | sed 's/7/seven/g' > text; rm -f text.7z",
        runs: Runs::Command("7z a -bd -mmt2 -mx3 text.7z text"),
        truth: "healthy: it computes",
    },
    Program {
        name: "sort --parallel=4",
        packages: &["coreutils"],
        prepare: LINES,
        runs: Runs::Command("sort -n --parallel=4 -S 256M lines -o sorted"),
        truth: "hot locks: each merge holds its node's lock; 2 threads are as fast as 4",
    },
    Program {
        name: "convert -blur (OpenMP)",
        packages: &["imagemagick"],
        prepare: "true",
        runs: Runs::Command("convert -size 1200x1200 xc:gray +noise Random -blur 0x12 blurred.png"),
        truth: "serial: its second thread of OpenMP computes for 2% of the time",
    },
    Program {
        name: "kccachetest wicked",
        packages: &["kyotocabinet-utils"],
        prepare: "true",
        runs: Runs::Command("kccachetest wicked -th 4 -it 2 -capcnt 10000 150000"),
        truth: "hot lock: slot locks taken by spinning with sched_yield",
    },
    Program {
        name: "db_bench --sync=1",
        packages: &["rocksdb-tools"],
        prepare: "rm -rf rocks",
        runs: Runs::Command(
            "db_bench --benchmarks=fillrandom --sync=1 --threads=4 --num=1500 --db=rocks --compression_type=none",
        ),
        truth: "I/O: group commit on fdatasync of the write-ahead log",
    },
    Program {
        name: "mariadb, oltp_update_index",
        packages: &["mariadb-server", "sysbench"],
        prepare: DATABASE,
        runs: Runs::Server { server: MARIADB, is_up: MARIADB_UP, load: "./load oltp_update_index" },
        truth: "I/O: fdatasync of the redo log, group commit",
    },
    Program {
        name: "mariadb, oltp_read_write",
        packages: &["mariadb-server", "sysbench"],
        prepare: DATABASE,
        runs: Runs::Server { server: MARIADB, is_up: MARIADB_UP, load: "./load oltp_read_write" },
        truth: "I/O: fdatasync of the redo log, beside computing",
    },
    Program {
        name: "nginx + wrk",
        packages: &["nginx-light", "wrk"],
        prepare: "mkdir -p logs; printf 'events {}\\nhttp \
            { access_log off; server { listen 127.0.0.1:18473; location / { return 200 hello; } } }\\n' > nginx.conf",
        runs: Runs::Server {
            server: "exec nginx -p $PWD -c $PWD/nginx.conf -e $PWD/error.log -g 'daemon off; master_process off; pid \
                nginx.pid;'",
            is_up: "wrk -t1 -c1 -d1s http://127.0.0.1:18473/",
            load: "wrk -t1 -c16 -d6s http://127.0.0.1:18473/",
        },
        truth: "healthy: one worker that computes and waits for the network",
    },
    Program {
        name: "stress-ng --mutex",
        packages: &["stress-ng"],
        prepare: "true",
        runs: Runs::Command("stress-ng --mutex 1 --mutex-procs 4 --timeout 3"),
        truth: "sleeping holder: it yields with the lock",
    },
    Program {
        name: "stress-ng --switch",
        packages: &["stress-ng"],
        prepare: "true",
        runs: Runs::Command("stress-ng --switch 2 --timeout 3"),
        truth: "ping-pong: processes take turns through a pipe",
    },
    Program {
        name: "stress-ng --futex",
        packages: &["stress-ng"],
        prepare: "true",
        runs: Runs::Command("stress-ng --futex 2 --timeout 3"),
        truth: "ping-pong: two processes wake each other on a futex",
    },
    Program {
        name: "stress-ng --sem",
        packages: &["stress-ng"],
        prepare: "true",
        runs: Runs::Command("stress-ng --sem 2 --timeout 3"),
        truth: "polling: it looks at a semaphore, yields and sleeps, by `strace -c`",
    },
    Program {
        name: "fio, fsync",
        packages: &["fio"],
        prepare: "true",
        runs: Runs::Command(
            "fio --name=f --directory=. --size=4M --bs=4k --rw=randwrite --fsync=1 --thread --numjobs=4 --runtime=4 \
             --time_based",
        ),
        truth: "I/O: fsync after every write",
    },
    Program {
        name: "dd oflag=sync",
        packages: &["coreutils"],
        prepare: "true",
        runs: Runs::Command("dd if=/dev/zero of=zeros bs=4k count=600 oflag=sync"),
        truth: "I/O: every write waits for the disk",
    },
    Program {
        name: "python3, threads",
        packages: &["python3"],
        prepare: "true",
        runs: Runs::Command(
            "/usr/bin/python3 -c \"import threading as t; w = lambda: sum(i * i for i in range(9000000)); l = \
             [t.Thread(target=w) for _ in range(4)]; [x.start() for x in l]; [x.join() for x in l]\"",
        ),
        truth: "interpreter lock: four threads compute in turn",
    },
];

/// sysbench on tables of its own; the first word is the test.
const LOAD: &str = "#!/bin/sh\nset -e\nbase=\"--db-driver=mysql --mysql-user=root --mysql-db=h --tables=2 --table-size=5000 --threads=8\"\n\
                    sysbench $1 $base --mysql-socket=$PWD/socket cleanup || true\n\
                    sysbench $1 $base --mysql-socket=$PWD/socket prepare\ntouch ready\n\
                    sysbench $1 $base --mysql-socket=$PWD/socket --time=8 run\n";

/// Installs what is missing, records each, and prints what is said.
pub fn run(args: &[String]) -> Result<(), String> {
    let (mut only, mut user, mut machine) = (Vec::new(), User::Root, None);
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value; {USAGE}"));
        match word.as_str() {
            "--only" => only.extend(value()?.split(',').map(str::to_owned)),
            "--user" => user = User::Ordinary,
            "--write" => {
                machine = Some(crate::run::machine(&[value()?.clone()], "truth-programs --write")?.to_owned());
            }
            _ => return Err(format!("'{word}' is no option; {USAGE}")),
        }
    }
    let wanted = |program: &&Program| only.is_empty() || only.iter().any(|part| program.name.contains(part.as_str()));
    let programs: Vec<&Program> = PROGRAMS.iter().filter(wanted).collect();
    let packages: Vec<&str> = programs.iter().flat_map(|program| program.packages).copied().collect();
    if is_root() {
        setup::install_packages(&packages)?;
    }
    let bench = Bench::new("truth-programs")?;
    let mut page = format!(
        "# Real programs: what is said first, and what is true\n\nDebian's programs, recorded as {} by `cargo xtask truth-programs` for a few \
         seconds each. What is true comes from perf, from the program's own figures or from how it is built.\n\n",
        user.name()
    );
    let head = "| program | true | said first | share | account |\n|---|---|---|---:|---|";
    println!("{head}");
    page.push_str(&format!("{head}\n"));
    for program in programs {
        let line = match program.record(&bench, user) {
            Ok(report) => format!("| {} | {} | {} |", program.name, program.truth, said(&report)),
            Err(why) => {
                eprintln!("{}: {why}", program.name);
                format!("| {} | {} | not recorded | | |", program.name, program.truth)
            }
        };
        println!("{line}");
        page.push_str(&format!("{line}\n"));
    }
    if let Some(machine) = machine {
        let path = root().join(format!("docs/benchmarks/truth-programs-{machine}.md"));
        page.push_str(&by_hand(&std::fs::read_to_string(&path).unwrap_or_default()));
        std::fs::write(&path, page).map_err(|why| format!("{}: {why}", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(())
}

impl Program {
    fn record(&self, bench: &Bench, user: User) -> Result<Value, String> {
        shell(&bench.folder, self.prepare)?;
        let name: String = self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let file = bench.fresh(&format!("{name}.holdup"));
        let mut record = user.command(Path::new("timeout"));
        record.args(["--kill-after=5", "60"]).arg(&bench.holdup).args(["record", "--no-report", "-o"]).arg(&file);
        record.current_dir(&bench.folder);
        match &self.runs {
            Runs::Command(command) => {
                output(record.args(["--", "sh", "-c", &format!("exec {command}")]))?;
            }
            Runs::Server { server, is_up, load } => {
                std::fs::write(bench.folder.join("load"), LOAD).map_err(|why| why.to_string())?;
                shell(&bench.folder, "chmod +x load; rm -f ready")?;
                // The server is root's, so only root may attach to it.
                let server = Running::start(&bench.folder, server)?;
                server.wait_until(&bench.folder, is_up)?;
                let load = Running::start(&bench.folder, load)?;
                if bench.folder.join("data").is_dir() && self.name.starts_with("mariadb") {
                    load.wait_until(&bench.folder, "[ -f ready ]")?;
                }
                std::thread::sleep(Duration::from_millis(500));
                output(record.args(["--for", "4s", "-p", &server.0.id().to_string()]))?;
            }
        }
        bench.report(&file)
    }
}

/// A child that ends when this does: asked to, and waited for.
struct Running(Child);

impl Running {
    fn start(folder: &Path, command: &str) -> Result<Running, String> {
        let log = File::create(folder.join("log")).map_err(|why| why.to_string())?;
        let errors = log.try_clone().map_err(|why| why.to_string())?;
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(folder).stdin(Stdio::null()).stdout(log).stderr(errors);
        shell.spawn().map(Running).map_err(|why| format!("{command}: {why}"))
    }

    fn wait_until(&self, folder: &Path, condition: &str) -> Result<(), String> {
        let began = Instant::now();
        while shell(folder, condition).is_err() {
            if began.elapsed() > START_LIMIT {
                return Err(format!("'{condition}' fails for {} s", START_LIMIT.as_secs()));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already needs no signal; SIGTERM lets a server close its files.
        if let Ok(None) = self.0.try_wait() {
            let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        }
        let _ = self.0.wait();
    }
}

fn shell(folder: &Path, text: &str) -> Result<(), String> {
    output(Command::new("sh").args(["-c", text]).current_dir(folder)).map(drop)
}

/// What was written by hand below the table: from the first heading of a section on.
fn by_hand(page: &str) -> String {
    page.find("\n## ").map_or(String::new(), |at| page[at..].to_owned())
}

/// The first finding with its subject and share, and the largest parts of the account.
fn said(report: &Value) -> String {
    let first = &report["findings"][0];
    let kind = first["kind"].as_str().unwrap_or("nothing");
    let name = first["subjects"][0]["name"].as_str().unwrap_or("");
    let share = first["share"].as_f64().or_else(|| first["severity_share"].as_f64());
    let share = share.map_or(String::new(), |share| format!("{:.0}%", share * 100.0));
    format!("{kind} {name} | {share} | {}", account(&report["account"]))
}

fn account(value: &Value) -> String {
    let Some(states) = value.as_object() else { return "–".to_owned() };
    let mut shares: Vec<(&str, f64)> =
        states.iter().filter_map(|(state, share)| Some((state.as_str(), share.as_f64()?))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    let parts: Vec<String> = shares
        .iter()
        .take(4)
        .map(|(state, share)| format!("{} {:.0}%", state.replace('_', " "), share * 100.0))
        .collect();
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_by_hand_is_kept() {
        assert_eq!(by_hand("# Page\n\n| a |\n\n## First tries\n\ntext\n"), "\n## First tries\n\ntext\n");
        assert_eq!(by_hand("# Page\n\n| a |\n"), "");
    }
}
