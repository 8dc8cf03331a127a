//! The first screen of a recording: what holds the program up, worst first, or that nothing does; then what to believe
//! of it.

use holdup_analyze::{AccountState, Doubt, Facts, Kind, Primitive, Problem, Role, Site};
use holdup_trace::Counter;

use super::super::document::{Column, Document, Ink, Table, ink};
use super::super::number;
use super::account;
use super::sentences::{self, Words};
use super::{per_second, share};
use crate::recording::Recording;
use crate::recording::name;
use crate::text;

/// Findings that are told in full; the others take a line each.
const MOST_IN_FULL: usize = 3;

/// Findings with a line of their own; the others are counted.
const MOST_LINES: usize = 6;

/// Columns of the labels beside what a finding says.
pub(super) const LABEL: usize = 6;

/// Pieces of evidence in a finding's line.
const MOST_EVIDENCE: usize = 4;

/// The screen.
pub fn screen(recording: &Recording) -> Document {
    let report = &recording.report;
    let facts = &report.facts;
    let mut screen = Document::default();
    screen.headline(headline(recording));
    screen.paragraph(context(facts));
    if let Some(kept) = kept_because(facts) {
        screen.paragraph(kept);
    }
    screen.append(account::lines(facts));
    if report.findings.is_empty() && !facts.threads.is_empty() {
        match report.doubts.as_slice() {
            [] => {
                if let Some(mostly) = account::mostly(facts) {
                    screen.paragraph(mostly);
                }
                screen.paragraph(looked_at(facts));
            }
            doubts => {
                if account::goroutines_asleep(facts).is_some() {
                    screen.paragraph(account::LOOK_NO_MORE);
                }
                let told = usize::from(!decides_in_spite(facts, &doubts[0]));
                doubts.iter().skip(told).for_each(|doubt| screen.paragraph(format!("Also, {}.", doubted(doubt))));
            }
        }
    }
    findings(&mut screen, recording);
    let about = about(recording);
    if !about.is_empty() {
        screen.heading(ink(Ink::Faint, "About the recording"));
        screen.indented(2, |inner| about.iter().for_each(|sentence| inner.paragraph(sentence)));
    }
    next_steps(&mut screen, recording);
    screen
}

/// The one sentence that matters most.
pub fn headline(recording: &Recording) -> String {
    let facts = &recording.report.facts;
    match recording.report.findings.first() {
        Some(worst) => sentences::of(recording, worst).what,
        None if facts.totals.events == 0 => "Nothing was recorded: there is no event in the file.".to_owned(),
        None if facts.threads.is_empty() => {
            format!("No thread of {} ran while it was recorded.", program(facts))
        }
        None => match (recording.report.doubts.first(), account::goroutines_asleep(facts)) {
            (Some(Doubt::Tasks { looked: true, .. }), Some(asleep)) => {
                format!("No findings, but {asleep} and others mostly wait for each other.")
            }
            (Some(doubt), _) if !decides_in_spite(facts, doubt) => {
                format!("No findings, but that is no all-clear: {}.", doubted(doubt))
            }
            _ => match account::decides(facts) {
                Some(what) => format!("No findings, but {what}."),
                None => format!("Nothing holds {} up: no findings.", program(facts)),
            },
        },
    }
}

/// Whether something decides how long the program takes though tasks of a runtime wait for each other, in another of
/// its processes, say.
fn decides_in_spite(facts: &Facts, doubt: &Doubt) -> bool {
    matches!(doubt, Doubt::Tasks { .. }) && account::decides(facts).is_some()
}

/// Why no findings mean little.
pub(super) fn doubted(doubt: &Doubt) -> String {
    match doubt {
        Doubt::NothingRan => "no thread of the program was seen to run".to_owned(),
        Doubt::TooShort { span_ns } => {
            format!("the recording is only {} long, too short to judge", number::time_ns(*span_ns as f64))
        }
        Doubt::Unknown { share } => {
            format!("what its threads do is not known for {} of their time", number::percent(*share))
        }
        Doubt::Lost { count, of } => {
            format!("{} of {} events were lost", number::count(*count as f64), number::count(*of as f64))
        }
        Doubt::Displaced { share } => format!(
            "other programs had the CPUs for {} of the time that its threads wanted to work, so record on a calmer machine",
            number::percent(*share)
        ),
        Doubt::Switches { recorded, counted } => format!(
            "{} switches were recorded, the kernel counted {}",
            number::count(*recorded as f64),
            number::count(*counted as f64)
        ),
        Doubt::CpuTime { seen_ns, counted_ns } => format!(
            "its threads were seen to run for {}, the kernel counted {} of CPU time",
            number::time_ns(*seen_ns as f64),
            number::time_ns(*counted_ns as f64)
        ),
        Doubt::Unsampled { cpus } => format!(
            "its threads run on {cpus:.1} CPUs, and whether they work, spin or fight over memory meanwhile is not seen \
             by looks ('holdup doctor')"
        ),
        Doubt::Nameless { share } => format!(
            "its threads wait {} of their time in code that nothing names, so that its locks and pools are not told \
             from each other (how a runtime names it: docs/runtimes.md)",
            number::percent(*share)
        ),
        Doubt::Wakers { share } => format!(
            "its threads wait in pipes, semaphores of the kernel or locks of files {} of their time, and who ends such \
             a wait is seen as root alone ('holdup doctor')",
            number::percent(*share)
        ),
        Doubt::Tasks { looked: true, share, .. } => format!(
            "its threads wait for goroutines {} of their time, these mostly wait for each other, and who of them is \
             late shows in no look (the block profile of 'go tool pprof': see docs/runtimes.md)",
            number::percent(*share)
        ),
        Doubt::Tasks { scheduler, share, looked: false } => {
            let (tasks, tool) = match *scheduler {
                "Go" => ("goroutines", "the block and mutex profiles of 'go tool pprof'"),
                "asio" => ("handlers", "BOOST_ASIO_ENABLE_HANDLER_TRACKING"),
                "BEAM" => ("processes of Erlang", "observer, or msacc and lcnt"),
                _ => ("tasks", "tokio-console"),
            };
            format!(
                "its threads wait for {tasks} {} of their time, and what {tasks} wait for shows on no thread ({tool}: see \
                 docs/runtimes.md)",
                number::percent(*share)
            )
        }
    }
}

/// The program's name in a sentence: what the command came to execute, which need not be its first word.
pub fn program(facts: &Facts) -> String {
    let command = facts.header.target.command.first().map(|path| name::module(path));
    let process = match (facts.header.target.pids.is_empty(), facts.processes.as_slice()) {
        (true, [_, _, ..]) => Some(format!("the {} recorded processes", facts.processes.len())),
        (_, processes) => processes.first().map(|process| text::clean(&process.name)),
    };
    let known = command.map(|command| executed(facts).unwrap_or(command)).or(process);
    known.filter(|name| !name.is_empty()).unwrap_or_else(|| "the program".to_owned())
}

/// What a wrapper (`env`, `nice`, `timeout`, `sh -c` ...) runs: its process executed something else in its place, or
/// did next to nothing beside another process whose program is a word of the command.
fn executed(facts: &Facts) -> Option<String> {
    /// Of all CPU time, what a wrapper uses at most.
    const LITTLE: f64 = 0.1;
    let command = &facts.header.target.command;
    let root = facts.processes.iter().find(|process| facts.header.target.pids.first() == Some(&process.pid.0))?;
    // The kernel keeps 15 bytes of a name.
    let is_called = |word: &str, executed: &str| {
        let word = name::module(word);
        word == executed || executed.len() == 15 && word.starts_with(executed)
    };
    let words = || command.iter().skip(1).flat_map(|word| word.split_ascii_whitespace());
    let in_full = |executed: &str| words().find(|word| is_called(word, executed)).map(name::module);
    if let Some(executed) = root.executed.as_deref().filter(|executed| !is_called(&command[0], executed)) {
        return Some(in_full(executed).unwrap_or_else(|| text::clean(executed)));
    }
    let cpu_ns = |pid| facts.threads.iter().filter(|thread| thread.pid == pid).map(|thread| thread.on_cpu_ns).sum();
    let all: u64 = facts.threads.iter().map(|thread| thread.on_cpu_ns).sum();
    let busiest = facts.processes.iter().max_by_key(|process| -> u64 { cpu_ns(process.pid) })?;
    (share(cpu_ns(root.pid), all) < LITTLE).then(|| in_full(busiest.executed.as_deref()?)).flatten()
}

/// How the program ended, if not well: `It ended with status 139 (SIGSEGV).`
fn failure(facts: &Facts) -> Option<String> {
    let status = facts.ending.as_ref()?.status.filter(|status| *status != 0)?;
    let signal = signal(status - 128).map(|name| format!(" ({name})")).unwrap_or_default();
    Some(format!("It ended with status {status}{signal}."))
}

/// The signals that end programs.
fn signal(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL",
        5 => "SIGTRAP",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        13 => "SIGPIPE",
        14 => "SIGALRM",
        15 => "SIGTERM",
        24 => "SIGXCPU",
        25 => "SIGXFSZ",
        31 => "SIGSYS",
        _ => return None,
    })
}

/// Program, time, threads, CPU use; for a healthy program also what was looked at.
pub(crate) fn context(facts: &Facts) -> String {
    let totals = &facts.totals;
    let span_s = facts.span_ns() as f64 / 1e9;
    let attached = match facts.header.target.attached && !facts.header.target.pids.is_empty() {
        true => {
            let noun = if facts.header.target.pids.len() == 1 { "process" } else { "processes" };
            format!(" ({noun} {}, attached)", pids(facts))
        }
        false => String::new(),
    };
    let cpus = match facts.header.machine.cpus as usize {
        0 => String::new(),
        cpus => format!(" on {}", number::counted(cpus, "CPU")),
    };
    let mut parts = vec![
        format!("{}{attached}: {}", program(facts), number::time_ns(facts.span_ns() as f64)),
        format!("{}{cpus}", number::counted(facts.threads.len(), "thread")),
    ];
    if span_s > 0.0 {
        parts.push(format!("{:.2} CPUs busy", totals.on_cpu_ns as f64 / 1e9 / span_s));
        let counted = if facts.header.is_sampled() { counted_switches(facts) } else { Some(totals.switches) };
        parts.extend(counted.map(|all| format!("{} switches/s", number::count(per_second(facts, all).round()))));
    }
    parts
        .push(format!("{} of thread time waiting for locks", number::percent(facts.account.share(AccountState::Lock))));
    if let Some(kernel) = kernel_share(facts) {
        parts.push(format!("{} of CPU time in the kernel", number::percent(kernel)));
    }
    let context = format!("{}.", parts.join(", "));
    [Some(context), failure(facts)].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Why a flight recorder kept this stretch, and where in it that was.
pub(crate) fn kept_because(facts: &Facts) -> Option<String> {
    let trigger = facts.ending.as_ref()?.trigger.as_ref()?;
    let seen = match trigger.seen.as_str() {
        "" => String::new(),
        seen => format!(": {}", text::clean(seen)),
    };
    let at_s = super::since_start_s(facts, trigger.time_ns);
    Some(format!("Kept because of {} at {at_s:.3}s{seen}.", text::clean(&trigger.condition)))
}

/// What a verdict of no findings rests on.
pub(crate) fn looked_at(facts: &Facts) -> String {
    let capabilities = &facts.header.capabilities;
    let seen: Vec<&str> = [
        (facts.header.is_sampled(), "what threads were found in from time to time"),
        (capabilities.switches && !facts.header.is_sampled(), "switches"),
        (capabilities.futexes, "lock waits"),
        (capabilities.wakings || capabilities.foreign_wakings, "wake-ups"),
        (capabilities.samples, "CPU samples"),
        (capabilities.calls, "blocking calls"),
        (capabilities.kernel, "kernel stacks"),
    ]
    .iter()
    .filter(|(seen, _)| *seen)
    .map(|(_, what)| *what)
    .collect();
    match seen.is_empty() {
        true => "Nothing was looked at: the recording has neither switches nor lock waits.".to_owned(),
        false => format!(
            "Looked at: {}. None of the {} kinds of findings (docs/findings.md) reaches its threshold.",
            text::list(&seen),
            Kind::ALL.len()
        ),
    }
}

fn pids(facts: &Facts) -> String {
    let pids: Vec<String> = facts.header.target.pids.iter().map(u32::to_string).collect();
    text::list(&pids)
}

/// The kernel's share of CPU time: by samples, or by what the kernel counted.
fn kernel_share(facts: &Facts) -> Option<f64> {
    let totals = &facts.totals;
    if let Some(kernel) = totals.kernel_samples {
        return (kernel + totals.user_samples > 0).then(|| share(kernel, kernel + totals.user_samples));
    }
    let (user, kernel) = facts.ending.as_ref()?.cpu_ns()?;
    let all = user.saturating_add(kernel);
    (all > 0).then(|| share(kernel, all))
}

/// The worst in full, then a line for each.
fn findings(screen: &mut Document, recording: &Recording) {
    let findings = &recording.report.findings;
    for (index, finding) in findings.iter().enumerate().take(MOST_IN_FULL + MOST_LINES) {
        if index <= MOST_IN_FULL {
            screen.gap();
        }
        let words = sentences::of(recording, finding);
        let title = format!("{}. {}", index + 1, finding.kind.name());
        screen.hanging(3, ink(Ink::Bad, title) + format!(" {}: {}", words.subject, words.cost));
        if index < MOST_IN_FULL {
            screen.indented(3, |inner| {
                // The first one's sentence is the headline.
                if index > 0 {
                    inner.field(LABEL, "what", |value| value.paragraph(&words.what));
                }
                inner.append(fields(&words, Some(MOST_EVIDENCE)));
            });
        }
    }
    let hidden = findings.len().saturating_sub(MOST_IN_FULL + MOST_LINES);
    if hidden > 0 {
        screen.paragraph(format!("{hidden} more: --json has them all"));
    }
}

/// What is known of a finding: the most telling pieces of evidence, or all of them.
pub(crate) fn fields(words: &Words, most_evidence: Option<usize>) -> Document {
    let mut fields = Document::default();
    let evidence = &words.evidence[..most_evidence.unwrap_or(usize::MAX).min(words.evidence.len())];
    for (label, what) in [
        ("where", words.place.clone()),
        ("holder", words.holder.clone()),
        ("seen", Some(evidence.join(", ")).filter(|seen| !seen.is_empty())),
        ("try", Some(words.cure.to_owned())),
    ] {
        if let Some(what) = what {
            fields.field(LABEL, label, |value| value.paragraph(what));
        }
    }
    fields.field(LABEL, words.proof.label(), |value| words.proof.show(value));
    fields
}

/// What the reader must know to believe the figures, or to get better ones.
pub fn about(recording: &Recording) -> Vec<String> {
    let facts = &recording.report.facts;
    let mut sentences: Vec<String> = problems(recording);
    sentences.extend(unseen(facts));
    sentences.extend(short_stacks(facts));
    sentences.extend(observer_effect(facts));
    sentences
}

fn problems(recording: &Recording) -> Vec<String> {
    let facts = &recording.report.facts;
    let mut said: Vec<String> = recording
        .report
        .problems
        .iter()
        .filter(|problem| !is_about_names(problem))
        .map(|one| problem(facts, one))
        .collect();
    said.extend(names_missing(&recording.report.problems));
    if let Some(first) = recording.damage.first() {
        let parts = number::counted(recording.damage.len(), "part");
        said.push(format!(
            "{parts} of the file cannot be read, the first at byte {}: the recording {}.",
            first.at,
            text::clean(&first.why)
        ));
    }
    said
}

fn is_about_names(problem: &Problem) -> bool {
    use Problem::{CostlyLines, NoLines, Replaced, Unreadable};
    matches!(problem, Unreadable { .. } | Replaced { .. } | NoLines { .. } | CostlyLines { .. })
}

/// A problem as a sentence.
pub fn problem(facts: &Facts, problem: &Problem) -> String {
    let at = |ns| format!("{:.3}s", super::since_start_s(facts, ns));
    match problem {
        Problem::Lost { count, places, from_ns, to_ns } => format!(
            "{} events were lost in {} between {} and {}; a larger --buffer or a lower --rate keeps them. Figures of \
             that time are too low.",
            number::count(*count as f64),
            number::counted(usize::try_from(*places).unwrap_or(usize::MAX), "place"),
            at(*from_ns),
            at(*to_ns)
        ),
        Problem::CutOff => "The recording was cut off: its end is missing; what came before is shown.".to_owned(),
        Problem::ClockSkew { count, max_ns } => format!(
            "Time ran backwards {}, by {} at most.",
            number::counted(usize::try_from(*count).unwrap_or(usize::MAX), "time"),
            number::time_ns(*max_ns as f64)
        ),
        Problem::SwitchesDiffer { tid, recorded, counted } => format!(
            "The kernel counted {} switches of {}, {} were recorded.",
            number::count(*counted as f64),
            if tid.0 == 0 { "all threads".to_owned() } else { name::thread(facts, *tid) },
            number::count(*recorded as f64)
        ),
        Problem::Displaced { displaced_ns, working_ns } => format!(
            "Other programs{} had the CPUs for {} of the time that the threads wanted to work; what they waited then is \
             not held against the program.",
            if facts.counters.contains_key(&Counter::QuotaNs) { " or the limit of its control group" } else { "" },
            number::percent(*displaced_ns as f64 / (*working_ns).max(1) as f64),
        ),
        Problem::Unreadable { path, hits } => format!(
            "{} could not be read: its functions have no names ({} stacks).",
            text::clean(path),
            number::count(*hits as f64)
        ),
        Problem::Replaced { path } => format!(
            "{} is not the file that ran: it was replaced since, its functions have no names. Record again.",
            text::clean(path)
        ),
        Problem::NoLines { path, hits } => {
            format!("{} has no line numbers ({} stacks).", text::clean(path), number::count(*hits as f64))
        }
        Problem::CostlyLines { path, hits } => format!(
            "The line numbers of {} were not all read ({} stacks): its debug information is damaged, or needs too much memory \
             or time. 'objcopy --decompress-debug-sections' makes it need less, where it is compressed.",
            text::clean(path),
            number::count(*hits as f64)
        ),
        Problem::NoCodeMap { refused: Some(why), .. } => {
            format!("Generated code has no names: {}.", text::clean(why))
        }
        Problem::NoCodeMap { switch, .. } if switch.starts_with("node ") && names_scripts(facts) => format!(
            "Of JavaScript's functions, those have names that ran as holdup looked; for all of them {} (docs/runtimes.md).",
            ways_to_a_map(Some(switch))
        ),
        Problem::NoCodeMap { switch, .. } => {
            format!("Generated code has no names: {} (docs/runtimes.md).", ways_to_a_map(Some(switch)))
        }
        Problem::PartialCodeMap { path, hits, named, switch } => format!(
            "{} names the generated code of {} of {} stacks ({}); the rest was made after it was written, or it is another \
             process's. For a better one, {} (docs/runtimes.md).",
            text::clean(path),
            number::count(*named as f64),
            number::count(*hits as f64),
            number::percent(*named as f64 / (*hits).max(1) as f64),
            ways_to_a_map(*switch)
        ),
        Problem::Unknown { what } => {
            format!("Not understood: {}. A newer holdup may know it.", text::clean(what))
        }
    }
}

/// Whether looks at Node's memory named functions of scripts.
fn names_scripts(facts: &Facts) -> bool {
    let is_script = |module: &str| [".js", ".mjs", ".cjs", ".ts"].iter().any(|end| module.ends_with(end));
    facts.symbols.iter().any(|code| is_script(&code.frame.module))
}

/// How a runtime is made to write a map; one that is not known must know it by itself.
fn ways_to_a_map(switch: Option<&str>) -> String {
    match switch {
        Some(switch) => format!("record with --runtime-help, or run it as '{switch} ...'"),
        None => "have its runtime write one up to the end".to_owned(),
    }
}

/// Missing names, in one sentence for each reason, with what helps.
fn names_missing(problems: &[Problem]) -> Vec<String> {
    let mut nameless: Vec<(&str, u64)> = Vec::new();
    let mut lineless: Vec<(&str, u64)> = Vec::new();
    let mut costly: Vec<(&str, u64)> = Vec::new();
    let mut replaced: Vec<&str> = Vec::new();
    for problem in problems {
        match problem {
            Problem::Unreadable { path, hits } => nameless.push((path, *hits)),
            Problem::NoLines { path, hits } => lineless.push((path, *hits)),
            Problem::CostlyLines { path, hits } => costly.push((path, *hits)),
            Problem::Replaced { path } => replaced.push(path),
            _ => {}
        }
    }
    let listed = |mut modules: Vec<(&str, u64)>| {
        modules.sort_by_key(|(_, hits)| std::cmp::Reverse(*hits));
        let names: Vec<String> = modules.iter().take(3).map(|(path, _)| name::module(path)).collect();
        match modules.len().saturating_sub(3) {
            0 => text::list(&names),
            more => format!("{} and {more} more", names.join(", ")),
        }
    };
    let mut said = Vec::new();
    if !replaced.is_empty() {
        let list = listed(replaced.into_iter().map(|path| (path, 0)).collect());
        said.push(format!("Replaced since the recording, so without names: {list}. Record again."));
    }
    if !nameless.is_empty() {
        said.push(format!("No names for {}: the files are not here or cannot be read.", listed(nameless)));
    }
    if !lineless.is_empty() {
        said.push(format!(
            "No line numbers for {}: build with -g, or install the debug symbols (Debian: libc6-dbg or NAME-dbgsym; \
             Fedora: debuginfo-install NAME).",
            listed(lineless)
        ));
    }
    if !costly.is_empty() {
        said.push(format!(
            "Not all line numbers of {} were read: their debug information is damaged, or needs too much memory or time. \
             'objcopy --decompress-debug-sections' makes it need less, where it is compressed.",
            listed(costly)
        ));
    }
    said
}

/// What this recording could not see, so that its absence is not taken for a fact.
fn unseen(facts: &Facts) -> Option<String> {
    let capabilities = &facts.header.capabilities;
    if facts.header.is_sampled() {
        return Some(
            "Sampled: threads were looked at from outside, 20 to 1,000 times a second. Shares of time can be believed; \
             numbers of waits and switches, and how long single waits below 50 ms were, cannot. Not seen: who wakes whom, \
             where CPU time goes, the kernel's part of stacks. 'holdup doctor' says what would show it."
                .to_owned(),
        );
    }
    let missing: Vec<&str> = [
        (capabilities.switches, "switches"),
        (capabilities.futexes, "lock waits"),
        (capabilities.samples, "CPU samples"),
        (capabilities.switch_reasons, "the reason of every switch"),
        (capabilities.wakings || capabilities.foreign_wakings, "who wakes whom other than by futex"),
        (capabilities.kernel, "the kernel's part of stacks"),
    ]
    .iter()
    .filter(|(seen, _)| !seen)
    .map(|(_, what)| *what)
    .collect();
    (!missing.is_empty()).then(|| {
        format!(
            "Not seen with the rights of this recording: {}. 'holdup doctor' says what would show it.",
            text::list(&missing)
        )
    })
}

/// Waits whose call path ends before it comes to the program: too little of the stack was looked at.
fn short_stacks(facts: &Facts) -> Option<String> {
    const MOST_STACK_BYTES: u32 = 4096;
    let ends_early =
        |site: &Site| !site.call_path.is_empty() && site.call_path.iter().all(|frame| frame.role == Role::Lock);
    let mutual = facts.locks.iter().filter(|lock| !matches!(lock.primitive, Primitive::Join | Primitive::GoRuntime));
    let sites = || mutual.clone().flat_map(|lock| &lock.wait_sites);
    let all: u64 = sites().map(|site| site.count).sum();
    let early: u64 = sites().filter(|site| ends_early(site)).map(|site| site.count).sum();
    let bytes = facts.header.stack_bytes;
    (early >= 20 && early * 5 >= all && (1..MOST_STACK_BYTES).contains(&bytes)).then(|| {
        format!(
            "The call paths of {} of the waits end within the locks' own code; record with --stack-bytes {} to see \
             who calls it.",
            number::percent(early as f64 / all.max(1) as f64),
            (bytes * 2).min(MOST_STACK_BYTES)
        )
    })
}

/// How far the recording itself may have changed the program.
fn observer_effect(facts: &Facts) -> Option<String> {
    let ending = facts.ending.as_ref()?;
    let mut parts = Vec::new();
    if ending.status == Some(0) {
        parts.push("the program ended with status 0".to_owned());
    }
    let recorded = facts.totals.switches;
    let counted = counted_switches(facts);
    parts.extend((!facts.header.is_sampled()).then(|| match counted {
        Some(counted) if counted >= recorded => {
            let recorded = number::count(facts.recorded_of(counted) as f64);
            format!("{recorded} of {} switches were recorded", number::count(counted as f64))
        }
        // Of threads that ran already the kernel is asked only after the first of their switches were recorded.
        _ => format!("{} switches were recorded", number::count(recorded as f64)),
    }));
    let start = facts.header.start_cpu_ns.min(ending.recorder_cpu_ns);
    let cpu = ending.recorder_cpu_ns - start;
    let of_program = match facts.totals.on_cpu_ns {
        0 => String::new(),
        busy => format!(" ({} of the program's)", number::percent(share(cpu, busy))),
    };
    if cpu > 0 {
        // Of a short recording, most is what comes before it: that slows nothing down.
        let before = match start * 4 >= ending.recorder_cpu_ns {
            true if start > 0 => format!(", and {} before it began", number::time_ns(start as f64)),
            _ => String::new(),
        };
        parts.push(format!("the recorder used {} of CPU time{of_program}{before}", number::time_ns(cpu as f64)));
    }
    parts.push(match ending.lost {
        0 => "no event was lost".to_owned(),
        lost => format!("{} events were lost", number::count(lost as f64)),
    });
    Some(capital(&format!("{}.", parts.join(", "))))
}

/// Context switches by the kernel's own count: of the command and its children, or of the threads while they were
/// watched.
pub fn counted_switches(facts: &Facts) -> Option<u64> {
    let ending = facts.ending.as_ref();
    if let Some((voluntary, involuntary)) = ending.and_then(|end| end.voluntary.zip(end.involuntary)) {
        return Some(voluntary.saturating_add(involuntary));
    }
    let counted: Vec<u64> = facts
        .threads
        .iter()
        .filter_map(|thread| thread.usage.as_ref())
        .map(|(first, last)| {
            let switches = |usage: &holdup_trace::ThreadUsage| usage.voluntary.saturating_add(usage.involuntary);
            switches(last).saturating_sub(switches(first))
        })
        .collect();
    // Without a reading of every thread the sum would be compared with more than it counts.
    let sum = || counted.iter().copied().fold(0, u64::saturating_add);
    (!counted.is_empty() && counted.len() == facts.threads.len()).then(sum)
}

fn capital(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

fn next_steps(screen: &mut Document, recording: &Recording) {
    let file = sentences::quoted(&recording.path.to_string_lossy());
    screen.heading(ink(Ink::Faint, format!("More: holdup report {file} ...")));
    let mut steps = Table::new([Column::left(""), Column::left("").wrapped()]);
    if !recording.report.findings.is_empty() {
        steps.row(["--finding 1", "all evidence and call paths of the first finding"]);
    }
    steps.row(["--threads", "where each thread's time goes"]);
    steps.row(["--locks", "what threads wait for, and where"]);
    if recording.report.findings.is_empty() && !recording.report.facts.symbols.is_empty() {
        steps.row(["--symbols", "which functions use the CPUs"]);
    }
    screen.indented(2, |inner| inner.table(steps));
}
