//! Combinations of factors that make no sense, each refused with a sentence that says what does.

use super::cpus::cpus;
use super::{Between, Boost, CounterKind, GateKind, Share, Spec, Table, Take, Workload};
use crate::arch;
use crate::lock::catalog as locks;
use crate::workload::gate::PerAcquisition;

/// Whether a cell can be measured, before anything runs: [`check_sense`] and [`check_machine`].
///
/// # Errors
/// One sentence: what is wrong and what works.
pub fn check(spec: &Spec) -> Result<(), String> {
    check_sense(spec)?;
    check_machine(spec)
}

/// Whether the cell's factors fit together, on whatever machine.
///
/// # Errors
/// One sentence: what is wrong and what works.
pub fn check_sense(spec: &Spec) -> Result<(), String> {
    let name = locks::check_name(&spec.lock)?;
    let Some(entry) = locks::named(name) else { return Ok(()) };
    lock_and_workload(spec, entry)?;
    lock_and_options(spec, entry)?;
    sections(spec)?;
    takes(spec, entry)?;
    processes(spec, entry)?;
    gates(spec)?;
    ping_pong(spec)?;
    writers(spec)
}

/// Whether this machine has what the cell needs, as far as that shows without running it.
///
/// # Errors
/// One sentence: what is missing and what works.
pub fn check_machine(spec: &Spec) -> Result<(), String> {
    cpus(spec)?;
    let x86_only =
        spec.lock == "straddle" || (spec.workload == Workload::ParallelFor && spec.counter == CounterKind::CmpXchg8b);
    if x86_only && !arch::HAS_X86 {
        return Err("lock straddle and counter cmpxchg8b need an x86-64 processor; tas and cas-loop work".to_owned());
    }
    Ok(())
}

fn lock_and_workload(spec: &Spec, entry: &locks::LockEntry) -> Result<(), String> {
    match (entry.is_map(), spec.workload == Workload::Map) {
        (true, false) => Err(format!("lock '{}' is a map, which only --workload map takes", spec.lock)),
        (false, true) => Err(format!(
            "--workload map measures maps, and '{}' is none; --lock takes {} there",
            spec.lock,
            names(locks::LockEntry::is_map)
        )),
        _ => Ok(()),
    }?;
    if spec.workload == Workload::Db
        && spec.table == Table::ReaderWriter
        && !entry.is_reader_writer()
        && spec.lock != "none"
    {
        return Err(format!(
            "--table rw needs a reader-writer lock, and '{}' is none; --lock takes {} there",
            spec.lock,
            names(locks::LockEntry::is_reader_writer)
        ));
    }
    Ok(())
}

fn lock_and_options(spec: &Spec, entry: &locks::LockEntry) -> Result<(), String> {
    let given = [
        ("spin", spec.spin.is_some()),
        ("backoff", spec.backoff.is_some()),
        ("spin-on", spec.spin_on.is_some()),
        ("rmw", spec.rmw.is_some()),
    ];
    match given.iter().find(|(factor, given)| *given && !entry.takes(factor)) {
        None => Ok(()),
        Some((factor, _)) => {
            Err(format!("lock '{}' has no --{factor}; it works with {}", spec.lock, names(|entry| entry.takes(factor))))
        }
    }
}

/// Factors of the small workloads' loop, which the others do not have.
fn sections(spec: &Spec) -> Result<(), String> {
    let small = matches!(spec.workload, Workload::Empty | Workload::Counter | Workload::FreeList | Workload::ThreadId);
    let default = Spec::default();
    let given = [
        ("depth", spec.depth > 1),
        ("nest", spec.nest != 1),
        ("yield", spec.pause != default.pause),
        ("gate acquire", spec.active.is_some() && spec.gate == GateKind::Acquire),
        ("boost", spec.boost != Boost::Off),
        ("share neighbour", spec.share == Share::Neighbour),
        ("latency", spec.latency),
        ("take try", spec.take == Take::Try),
        ("between processes", spec.between == Between::Processes),
    ];
    // The waits of readers and of writers are what rw is for.
    let has = |factor: &str| small || factor == "latency" && spec.workload == Workload::Rw;
    if let Some((factor, _)) = given.iter().find(|(factor, given)| *given && !has(factor)) {
        return Err(format!(
            "--workload {} has no --{factor}; it works with empty, counter, free-list and thread-id",
            spec.workload.name()
        ));
    }
    if !spec.hold.is_none() && matches!(spec.workload, Workload::Db | Workload::Map) {
        return Err(match spec.workload {
            Workload::Db => "--hold does nothing in db: --read and --update are the work under the lock".to_owned(),
            _ => "--hold does nothing in map: a map's sections are its own; --gap is the work between them".to_owned(),
        });
    }
    Ok(())
}

fn takes(spec: &Spec, entry: &locks::LockEntry) -> Result<(), String> {
    if spec.take == Take::Wait {
        return Ok(());
    }
    if !entry.can_try() {
        let can = names(locks::LockEntry::can_try);
        return Err(format!("lock '{}' is not tried here; --take try works with {can}", spec.lock));
    }
    let plain = spec.depth == 1
        && spec.nest == 1
        && spec.pause == Spec::default().pause
        && !(spec.boost != Boost::Off
            || spec.latency
            || spec.share == Share::Neighbour
            || spec.gate == GateKind::Acquire);
    if plain {
        return Ok(());
    }
    Err("--take try works with depth 1, nest 1 and without yield, boost, latency, share neighbour and gate acquire"
        .to_owned())
}

fn processes(spec: &Spec, entry: &locks::LockEntry) -> Result<(), String> {
    if spec.between == Between::Threads {
        return Ok(());
    }
    if !entry.serves_processes() {
        return Err(format!(
            "lock '{}' serves the threads of one process; --between processes works with {}",
            spec.lock,
            names(locks::LockEntry::serves_processes)
        ));
    }
    if !matches!(spec.workload, Workload::Empty | Workload::ThreadId) {
        return Err(format!("--between processes works with empty and thread-id, not {}", spec.workload.name()));
    }
    if spec.active.is_some() || spec.background || spec.boost != Boost::Off || spec.slice_ns.is_some() || spec.pin {
        return Err("--between processes has no active, background, boost, slice and pin".to_owned());
    }
    Ok(())
}

fn gates(spec: &Spec) -> Result<(), String> {
    let Some(active) = spec.active else { return Ok(()) };
    if spec.gate == GateKind::Acquire && active.min(spec.threads) > PerAcquisition::MOST {
        let most = PerAcquisition::MOST;
        return Err(format!(
            "--gate acquire admits 1 to {most} active threads, not {active}; --gate thread any number"
        ));
    }
    // More active threads than threads are all of them, as in 1998; fewer would leave one of a pair outside for ever.
    if spec.workload == Workload::PingPong && spec.threads > 1 && active < spec.threads {
        return Err(
            "--active would keep one thread of a pair out while the other waits for it; leave it out for ping-pong"
                .to_owned(),
        );
    }
    Ok(())
}

fn ping_pong(spec: &Spec) -> Result<(), String> {
    if spec.workload == Workload::PingPong && spec.threads > 1 && !spec.threads.is_multiple_of(2) {
        return Err(format!(
            "--workload ping-pong takes 1 thread or pairs, not {} threads; {} or {} work",
            spec.threads,
            spec.threads - 1,
            spec.threads + 1
        ));
    }
    Ok(())
}

fn writers(spec: &Spec) -> Result<(), String> {
    let threads = spec.threads;
    match spec.writers {
        Some(writers) if spec.workload != Workload::Rw => {
            Err(format!("--writers {writers} is for --workload rw; {} has no such threads", spec.workload.name()))
        }
        Some(writers) if writers > threads => {
            Err(format!("--writers {writers} needs as many threads, not {threads}; --writers 0..{threads} works"))
        }
        _ => Ok(()),
    }
}

fn names(which: impl Fn(&locks::LockEntry) -> bool) -> String {
    let names: Vec<&str> = locks::all().iter().filter(|entry| which(entry)).map(|entry| entry.name).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(words: &str) -> String {
        check(&Spec::from_words(words.split(' ')).unwrap()).unwrap_err()
    }

    #[test]
    fn every_refusal_says_what_works() {
        assert!(why("lock=std workload=map").contains("table-map, map-mutex"));
        assert!(why("lock=map-scc").contains("--workload map"));
        assert!(why("lock=std spin=5").contains("'std' has no --spin; it works with futex, adaptive"));
        assert!(why("lock=ticket rmw=xchg").contains("tas, ttas"));
        assert!(why("lock=adaptive workload=db table=rw").contains("std-rwlock, "));
        assert!(why("workload=rw threads=2 writers=3").contains("--writers 0..2 works"));
        assert!(why("workload=counter writers=1").contains("--workload rw"));
        assert!(why("workload=rw depth=2").contains("has no --depth"));
        assert!(why("workload=ping-pong threads=3").contains("2 or 4 work"));
        assert!(why("workload=ping-pong active=1 threads=2").contains("pair"));
        assert!(why("workload=parallel-for latency=on").contains("latency"));
        assert!(why("workload=db hold=1us").contains("--read and --update"));
        assert!(why("lock=std take=try").ends_with(&format!("works with {}", names(locks::LockEntry::can_try))));
        assert!(why("lock=fair take=try depth=2").contains("depth 1"));
        let shared = names(locks::LockEntry::serves_processes);
        let threads_only = why("lock=fair between=processes workload=thread-id");
        assert!(threads_only.ends_with(&format!("works with {shared}")), "{threads_only}");
        assert!(why("lock=ttas between=processes workload=counter").contains("thread-id"));
        assert!(why("gate=acquire active=13 threads=16").contains("1 to 12"));
        assert!(why("cpus=4096").contains("work"));
        assert!(why("cpus=cpu:0+4095").contains("4095"));
    }

    #[test]
    fn usual_cells_pass() {
        for words in [
            "lock=none",
            "lock=adaptive spin=100",
            "lock=tas rmw=cmpxchg backoff=none spin-on=read",
            "lock=std-rwlock workload=db table=rw",
            "lock=none workload=db table=rw",
            "lock=rw-adaptive workload=db table=rw",
            "lock=rw-sharded workload=rw read-share=99.9 latency=on hold=1us",
            "lock=adaptive workload=rw threads=4 writers=4",
            "lock=table-map workload=map",
            "workload=ping-pong threads=1",
            "workload=ping-pong threads=6",
            "threads=2 active=5",
            "threads=2 active=1000 gate=acquire",
            "depth=0 workload=free-list",
            "workload=counter table=256",
        ] {
            assert_eq!(check(&Spec::from_words(words.split(' ')).unwrap()), Ok(()), "{words}");
        }
    }
}
