//! What a page of five million switches costs: its size, how long it takes to open, how many frames a second it pans
//! and zooms with.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use serde_json::Value;

use crate::recording::{Bench, has, median, output};
use crate::run::{machine, root};

#[path = "../../crates/holdup/tests/viewer/browser.rs"]
#[allow(dead_code, reason = "the tests use all of it")]
pub mod browser;

use browser::Browser;

/// Turns of the two players: each is a switch, and some are two.
const TURNS: &str = "5200000";

/// Turns of 48 threads at 4 locks: some switch more than once, so that there are about five million switches too.
const MANY_EVENTS: &str = "--events=1300000";

/// How often each page is opened; the median counts.
const OPENINGS: usize = 5;

const READY: &str = "window.holdup && window.holdup.ready && !document.querySelector('.loading')";

/// Zooms in for 120 frames, pans for 120, zooms out for 120, and gives back the time between frames.
const FRAMES: &str = "new Promise((done) => {
  const lane = document.querySelector('.lane'), box = lane.getBoundingClientRect(), times = [];
  holdup.timeline.fit();
  const place = { clientX: box.left + box.width / 2, clientY: box.top + 30, bubbles: true, cancelable: true };
  let count = 0, last = 0;
  const step = (now) => {
    if (last) times.push(now - last);
    last = now;
    if (++count > 360) return done(times);
    const move = count <= 120 ? { deltaY: -18 } : count <= 240 ? { deltaX: 45 } : { deltaY: 18 };
    lane.dispatchEvent(new WheelEvent('wheel', { ...place, ...move }));
    requestAnimationFrame(step);
  };
  requestAnimationFrame(step);
})";

struct Figures {
    what: &'static str,
    recorded_bytes: u64,
    switches: u64,
    seconds: f64,
    written_s: f64,
    page_bytes: u64,
    shown_ms: f64,
    ready_ms: f64,
    frames: Vec<f64>,
}

/// Records, writes pages, opens them, and writes `docs/benchmarks/viewer-NAME.md`: the first argument is the machine's
/// name, the second a recording to use for the large page instead of a new one. Where sysbench is, many threads are
/// recorded as well.
pub fn write(arguments: &[String]) -> Result<(), String> {
    let machine = machine(arguments, "viewer-cost")?;
    let bench = Bench::new("viewer-cost")?;
    let program = browser::find().ok_or("there is no Chromium; HOLDUP_CHROMIUM names one")?;
    let large = match arguments.get(1) {
        Some(file) => PathBuf::from(file),
        None => record(&bench, "large", &[&bench.compile("recorder/pp.c")?.to_string_lossy(), TURNS, "20"])?,
    };
    let small = record(&bench, "small", &["sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done"])?;
    let mut files = vec![("ping-pong of two threads", large), ("a shell that sleeps 10 times", small)];
    if has("sysbench") {
        let words = [
            "sysbench",
            "threads",
            "--threads=48",
            "--thread-locks=4",
            "--thread-yields=2",
            MANY_EVENTS,
            "--time=0",
            "run",
        ];
        files.push(("sysbench threads, 48 of them", record(&bench, "many", &words)?));
    }
    let figures = files
        .into_iter()
        .map(|(what, file)| measure(&bench, &program, what, &file))
        .collect::<Result<Vec<_>, String>>()?;
    let text = page(&figures, &program)?;
    let file = root().join("docs/benchmarks").join(format!("viewer-{machine}.md"));
    std::fs::write(&file, &text).map_err(|why| format!("{}: {why}", file.display()))?;
    print!("{text}");
    Ok(())
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn record(bench: &Bench, name: &str, words: &[&str]) -> Result<PathBuf, String> {
    let file = bench.fresh(&format!("{name}.holdup"));
    output(Command::new(&bench.holdup).args(["record", "--buffer", "65536", "-o"]).arg(&file).arg("--").args(words))?;
    Ok(file)
}

fn size(path: &Path) -> Result<u64, String> {
    std::fs::metadata(path).map(|about| about.len()).map_err(|why| format!("{}: {why}", path.display()))
}

fn measure(bench: &Bench, program: &str, what: &'static str, file: &Path) -> Result<Figures, String> {
    let report = bench.report(file)?;
    let html = bench.fresh("page.html");
    let began = Instant::now();
    output(Command::new(&bench.holdup).arg("report").arg(file).arg("--html").arg(&html))?;
    let written_s = began.elapsed().as_secs_f64();
    let (mut shown, mut ready, mut frames) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..OPENINGS {
        let mut browser = Browser::start(program, &bench.folder.join("profile"))?;
        browser.look(1600, 1000, false)?;
        browser.open(&html, READY)?;
        let number = |value: Value| value.as_f64().ok_or("the page gives no figure");
        shown.push(number(browser.eval("holdup.openedMs")?)?);
        ready.push(number(browser.eval("holdup.readyMs")?)?);
        let times = browser.eval(FRAMES)?;
        frames.extend(times.as_array().into_iter().flatten().filter_map(Value::as_f64));
    }
    Ok(Figures {
        what,
        recorded_bytes: size(file)?,
        switches: report["totals"]["switches"].as_u64().unwrap_or(0),
        seconds: (report["end_ns"].as_f64().unwrap_or(0.0) - report["start_ns"].as_f64().unwrap_or(0.0)) / 1e9,
        written_s,
        page_bytes: size(&html)?,
        shown_ms: median(&shown),
        ready_ms: median(&ready),
        frames,
    })
}

fn page(figures: &[Figures], program: &str) -> Result<String, String> {
    let version = output(Command::new(program).arg("--version"))?;
    let mut out = format!(
        "# What pages of recordings cost\n\n`cargo xtask viewer-cost` measured this on {} CPUs with {}, headless, without a GPU, \
         in a window of 1600 x 1000. Frames: the page's own counter of `requestAnimationFrame`, while wheel events zoom in for 120 \
         frames, pan for 120 and zoom out for 120, one event a frame; {OPENINGS} openings, each in a fresh browser. The \
         browser makes at most 60 frames a second.\n\n",
        cpus(),
        String::from_utf8_lossy(&version.stdout).trim()
    );
    out.push_str(
        "| recording | length | switches | file | page | written in | first picture | all events read | frames/s, median | slowest 1% of frames |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mib = |bytes: u64| format!("{:.2} MB", bytes as f64 / 1e6);
    for one in figures {
        let mut sorted = one.frames.clone();
        sorted.sort_by(f64::total_cmp);
        let slow = sorted.get(sorted.len() * 99 / 100).copied().unwrap_or(f64::NAN);
        let _ = writeln!(
            out,
            "| {} | {:.1} s | {} | {} | {} | {:.1} s | {:.2} s | {:.2} s | {:.1} | {slow:.0} ms |",
            one.what,
            one.seconds,
            one.switches,
            mib(one.recorded_bytes),
            mib(one.page_bytes),
            one.written_s,
            one.shown_ms / 1e3,
            one.ready_ms / 1e3,
            1e3 / median(&one.frames)
        );
    }
    out.push_str(
        "\n\"First picture\" is the time from the beginning of navigation to the timeline's first picture, from summaries; it can be \
         used from then on, and becomes exact row by row. Goals: at most 60 MB, 3 s, and at least 50 frames/s for 5 million switches; \
         at most 2 MB for 10 s of a small program.\n",
    );
    Ok(out)
}
