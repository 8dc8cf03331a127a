//! What recording costs the recorded, beside other recorders, and how fast a recording is analysed: a page per machine.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::recording::{Bench, has, interval, is_root, median, output};
use crate::run::{machine, root};

/// A program to record; it prints the seconds that its inner part took, and its switches.
struct Workload {
    name: &'static str,
    source: &'static str,
    words: &'static [&'static str],
    about: &'static str,
    /// Turns, where each is a switch.
    switches: Option<f64>,
}

const WORKLOADS: &[Workload] = &[
    Workload {
        name: "pp20k",
        source: "recorder/pp.c",
        words: &["12000", "48000"],
        about: "two threads on one CPU hand a turn over by futex, some 48 us of work each: 20,000 switches a second",
        switches: Some(12_000.0),
    },
    Workload {
        name: "mutex4",
        source: "recorder/mutex4.c",
        words: &["250000"],
        about: "four threads, one pthread mutex, 250,000 short sections each",
        switches: None,
    },
    Workload {
        name: "pp700k",
        source: "recorder/pp.c",
        words: &["300000", "0"],
        about: "as pp20k without work: the most switches that one CPU makes",
        switches: Some(300_000.0),
    },
];

/// A recorder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    OursByBpf,
    OursByPerf,
    OursAsNobody,
    OursOfUserDetail,
    OursByLooks,
    PerfSched,
    PerfChains,
    OffCpuTime,
}

const TOOLS: &[Tool] = &[
    Tool::OursByBpf,
    Tool::OursByPerf,
    Tool::OursAsNobody,
    Tool::OursOfUserDetail,
    Tool::OursByLooks,
    Tool::PerfSched,
    Tool::PerfChains,
    Tool::OffCpuTime,
];

/// libbpf-tools' offcputime, which takes a process that runs already: so the program waits for it. Its sums of stacks
/// go into the file. Arguments: the file, the program and its words.
const OFF_CPU_TIME: &str = r#"
file=$1; shift
sh -c 'kill -STOP $$; exec "$@"' sh "$@" & pid=$!
offcputime -p $pid > "$file" 2> /dev/null & tool=$!
sleep 2; kill -CONT $pid; wait $pid; status=$?; kill -INT $tool; wait $tool; exit $status"#;

impl Tool {
    fn name(self) -> &'static str {
        match self {
            Tool::OursByBpf => "holdup record --capture bpf, as root",
            Tool::OursByPerf => "holdup record --capture perf, as root",
            Tool::OursAsNobody => "holdup record, ordinary user",
            Tool::OursOfUserDetail => "holdup record --detail user, as root",
            Tool::OursByLooks => "holdup record --capture sampler, as root",
            Tool::PerfSched => "perf sched record (no stacks)",
            Tool::PerfChains => "perf record switch+wakeup, call chains",
            Tool::OffCpuTime => "offcputime of libbpf-tools (sums, no events)",
        }
    }

    fn can_run(self) -> bool {
        match self {
            Tool::OursByPerf | Tool::OursOfUserDetail | Tool::OursByLooks => true,
            Tool::OursByBpf => is_root() && Path::new("/sys/kernel/btf/vmlinux").exists(),
            Tool::OursAsNobody => is_root() && has("setpriv"),
            Tool::PerfSched | Tool::PerfChains => is_root() && has("perf"),
            Tool::OffCpuTime => is_root() && has("offcputime"),
        }
    }

    /// The command before the program's own words.
    fn command(self, bench: &Bench, file: &Path) -> Command {
        let mut command = match self {
            Tool::OursAsNobody => {
                let mut setpriv = Command::new("setpriv");
                setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&bench.holdup);
                setpriv.env("HOME", &bench.folder).env("XDG_CACHE_HOME", &bench.folder);
                setpriv
            }
            Tool::OursByBpf | Tool::OursByPerf | Tool::OursOfUserDetail | Tool::OursByLooks => {
                Command::new(&bench.holdup)
            }
            Tool::OffCpuTime => Command::new("sh"),
            Tool::PerfSched | Tool::PerfChains => Command::new("perf"),
        };
        match self {
            Tool::OursByBpf => command.args(["record", "--no-report", "--capture", "bpf", "-o"]),
            Tool::OursByPerf => command.args(["record", "--no-report", "--capture", "perf", "-o"]),
            Tool::OursAsNobody => command.args(["record", "--no-report", "-o"]),
            Tool::OursOfUserDetail => command.args(["record", "--no-report", "--detail", "user", "-o"]),
            Tool::OursByLooks => command.args(["record", "--no-report", "--capture", "sampler", "-o"]),
            Tool::PerfSched => command.args(["sched", "record", "-o"]),
            Tool::PerfChains => {
                command.args(["record", "-e", "sched:sched_switch,sched:sched_wakeup", "--call-graph", "fp", "-o"])
            }
            Tool::OffCpuTime => command.args(["-c", OFF_CPU_TIME, "sh"]),
        };
        command.arg(file).current_dir(&bench.folder);
        if self != Tool::OffCpuTime {
            command.arg("--");
        }
        command
    }

    fn is_ours(self) -> bool {
        !matches!(self, Tool::PerfSched | Tool::PerfChains | Tool::OffCpuTime)
    }
}

/// Closing tracepoints goes on for so long after a recorder has ended, and slows down whatever runs meanwhile.
const SETTLING: Duration = Duration::from_secs(3);

/// What one tool did to one workload.
struct Cost {
    ratios: Vec<f64>,
    /// Switches with the recorder, of those without.
    switches: Vec<f64>,
    ns_per_switch: Vec<f64>,
    bytes_per_switch: Vec<f64>,
    /// Recorded and lost events, and the switches that the kernel counted with the recorder at work.
    lost: u64,
}

/// Measures and writes `docs/benchmarks/recorder-NAME.md`: the first argument is the machine's name, the second the
/// pairs (9).
pub fn write(args: &[String]) -> Result<(), String> {
    let machine = machine(args, "record-cost")?;
    let pairs: usize = match args.get(1) {
        None => 9,
        Some(word) => word.parse().map_err(|_| format!("'{word}' is not a number of pairs"))?,
    };
    let bench = Bench::new("record-cost")?;
    let tools: Vec<Tool> = TOOLS.iter().copied().filter(|tool| tool.can_run()).collect();
    let mut page = head(machine, pairs);
    for workload in WORKLOADS {
        let program = bench.compile(workload.source)?;
        let costs = measure(&bench, workload, &program, &tools, pairs)?;
        table(&mut page, workload, &tools, &costs);
    }
    page.push_str(&analysis(&bench)?);
    let path = root().join(format!("docs/benchmarks/recorder-{machine}.md"));
    std::fs::write(&path, page).map_err(|why| format!("{}: {why}", path.display()))?;
    eprintln!("wrote {}", path.display());
    Ok(())
}

fn head(machine: &str, pairs: usize) -> String {
    format!(
        "# What recording costs: {machine}\n\n\
         Written by `cargo xtask record-cost {machine} {pairs}`. A program's own inner time is taken, so that the start of a recorder\n\
         and what it does at the end do not count. Runs alternate, without and with each recorder in turn; a ratio is that of one run\n\
         to the mean of its two neighbours without a recorder; median and 95% interval by bootstrap of {pairs} ratios. After a recording\n\
         follow {} s for the kernel to close its tracepoints. Switches are those of the process with the recorder, as the kernel counts\n\
         them, to those without: what recording changes in what it records.\n\
         Load during the session: {}.\n\n",
        SETTLING.as_secs(),
        std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim()
    )
}

fn measure(
    bench: &Bench,
    workload: &Workload,
    program: &Path,
    tools: &[Tool],
    pairs: usize,
) -> Result<Vec<Cost>, String> {
    let none = || Cost { ratios: vec![], switches: vec![], ns_per_switch: vec![], bytes_per_switch: vec![], lost: 0 };
    let mut costs: Vec<Cost> = tools.iter().map(|_| none()).collect();
    let plain = || inner(Command::new(program).args(workload.words));
    for pair in 0..pairs {
        eprintln!("{} {}/{pairs}", workload.name, pair + 1);
        let mut before = plain()?;
        for (tool, cost) in tools.iter().zip(&mut costs) {
            let file = bench.fresh("cost.recording");
            let with = inner(tool.command(bench, &file).arg(program).args(workload.words))?;
            std::thread::sleep(SETTLING);
            let after = plain()?;
            let without = (before.0 + after.0) / 2.0;
            cost.ratios.push(with.0 / without);
            cost.switches.push(with.1 / ((before.1 + after.1) / 2.0));
            cost.add(bench, *tool, workload, &file, with.0 - without)?;
            before = after;
        }
    }
    Ok(costs)
}

impl Cost {
    fn add(
        &mut self,
        bench: &Bench,
        tool: Tool,
        workload: &Workload,
        file: &PathBuf,
        more_s: f64,
    ) -> Result<(), String> {
        let bytes = std::fs::metadata(file).map_err(|why| format!("{}: {why}", file.display()))?.len() as f64;
        let mut switches = workload.switches;
        if tool.is_ours() {
            let report = bench.report(file)?;
            self.lost += report["totals"]["lost"].as_u64().unwrap_or(0);
            switches = switches.or(report["totals"]["switches"].as_f64());
        }
        // Looks and sums do not write by the switch.
        if let Some(switches) = switches.filter(|_| !matches!(tool, Tool::OursByLooks | Tool::OffCpuTime)) {
            self.bytes_per_switch.push(bytes / switches);
        }
        if let Some(switches) = workload.switches {
            self.ns_per_switch.push(more_s * 1e9 / switches);
        }
        Ok(())
    }
}

/// Seconds and switches that the program printed.
fn inner(command: &mut Command) -> Result<(f64, f64), String> {
    let out = output(command)?.stdout;
    let text = String::from_utf8_lossy(&out);
    let mut numbers = text.lines().filter_map(|line| line.trim().parse().ok());
    let both = numbers.next().zip(numbers.next());
    both.ok_or_else(|| format!("{command:?} printed no seconds and switches: {text}"))
}

fn table(page: &mut String, workload: &Workload, tools: &[Tool], costs: &[Cost]) {
    let _ = writeln!(page, "## {}\n\n`{}`: {}.\n", workload.name, workload.words.join(" "), workload.about);
    page.push_str(
        "| recorder | slow-down | 95% interval | n | switches | ns per switch | bytes per switch | lost events |\n",
    );
    page.push_str("|---|---|---|---|---|---|---|---|\n");
    let number = |values: &[f64]| {
        if values.is_empty() { "–".to_owned() } else { format!("{:.0}", median(values)) }
    };
    for (tool, cost) in tools.iter().zip(costs) {
        let (low, high) = interval(&cost.ratios, 1);
        let lost = if tool.is_ours() { cost.lost.to_string() } else { "–".to_owned() };
        let _ = writeln!(
            page,
            "| {} | {:.2} | {low:.2} to {high:.2} | {} | {:.2} | {} | {} | {lost} |",
            tool.name(),
            median(&cost.ratios),
            cost.ratios.len(),
            median(&cost.switches),
            number(&cost.ns_per_switch),
            number(&cost.bytes_per_switch),
        );
    }
    page.push('\n');
}

/// How long a report takes, by size of the recording.
fn analysis(bench: &Bench) -> Result<String, String> {
    let program = bench.compile("recorder/pp.c")?;
    let mut page = "## Analysis\n\n`holdup report FILE` of recordings of pp without work, best of three.\n\n\
                    | events | file | seconds | events per second | peak memory |\n|---|---|---|---|---|\n"
        .to_owned();
    for turns in ["1500000", "3000000"] {
        let file = bench.fresh("large.holdup");
        output(Tool::OursByPerf.command(bench, &file).arg(&program).args([turns, "0"]))?;
        let report = bench.report(&file)?;
        let events = report["totals"]["events"].as_f64().unwrap_or(0.0);
        let bytes = std::fs::metadata(&file).map_or(0, |meta| meta.len());
        let tries: Result<Vec<(f64, u64)>, String> = (0..3).map(|_| timed_report(bench, &file)).collect();
        let (seconds, memory) =
            tries?.into_iter().fold((f64::INFINITY, 0), |best, one| (best.0.min(one.0), best.1.max(one.1)));
        let _ = writeln!(
            page,
            "| {:.1} M | {:.1} MB | {seconds:.2} | {:.1} M | {} MB |",
            events / 1e6,
            bytes as f64 / 1e6,
            events / seconds / 1e6,
            memory / 1024,
        );
    }
    Ok(page)
}

/// Seconds of a report, and its peak memory in KiB as GNU time tells it (0 without it).
fn timed_report(bench: &Bench, file: &Path) -> Result<(f64, u64), String> {
    let mut command = if Path::new("/usr/bin/time").exists() {
        let mut time = Command::new("/usr/bin/time");
        time.args(["-f", "%M"]).arg(&bench.holdup);
        time
    } else {
        Command::new(&bench.holdup)
    };
    let start = Instant::now();
    let output = output(command.arg("report").arg(file))?;
    let seconds = start.elapsed().as_secs_f64();
    let said = String::from_utf8_lossy(&output.stderr);
    let memory = said.lines().last().and_then(|line| line.trim().parse().ok()).unwrap_or(0);
    Ok((seconds, memory))
}
