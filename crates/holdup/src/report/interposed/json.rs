//! A run under other locks as JSON, schema `holdup-profile-1`: docs/profile-json.md describes every key.

use holdup_analyze::Frame;
use holdup_control::{Profile, STATE_LAYOUT, STATE_OTHER, STATE_RIVAL, STATE_SERVES};
use serde_json::{Value, json};

use super::{Coverage, Run, lock};
use crate::interposer::figures::Durations;
use crate::interposer::naming::{Named, NamedLock};

/// Everything; `named` has the locks of each process with figures, where there are any.
pub fn json(run: &Run<'_>, named: &[Option<Named>]) -> Value {
    let coverage = Coverage::of(run.figures.iter().map(|figures| &figures.process), Some(run.finished));
    let used = &run.finished.process;
    json!({
        "schema": "holdup-profile-1",
        "policy": run.policy.to_string(),
        "profile": profile_name(run.settings.profile as u32),
        "watchdog_ms": run.settings.watchdog_ms,
        "exit_status": run.finished.code,
        "elapsed_ns": used.elapsed_ns,
        "user_ns": used.user_ns,
        "kernel_ns": used.kernel_ns,
        "voluntary_switches": used.voluntary_switches,
        "involuntary_switches": used.involuntary_switches,
        "coverage": {
            "sentence": coverage.sentence(),
            "warnings": coverage.warnings(),
            "acquisitions_share": coverage.share(),
            "sleeps_share": coverage.sleep_share(),
        },
        "processes": run.figures.iter().zip(named).map(|(figures, named)| process(figures, named.as_ref())).collect::<Value>(),
    })
}

fn process(figures: &crate::interposer::Figures, named: Option<&Named>) -> Value {
    let process = &figures.process;
    let [shared, robust, inherit, protect, elided, unknown, read_write, spin] = process.fallbacks;
    json!({
        "pid": process.pid,
        "program": process.program.to_string_lossy(),
        "state": match process.state {
            STATE_SERVES => "served",
            STATE_LAYOUT => "unknown-layout",
            STATE_OTHER => "other-program",
            STATE_RIVAL => "other-interposer",
            _ => "unknown",
        },
        "acquisitions": process.acquisitions,
        "contended": process.contended,
        "slept": process.slept,
        "futex_waits": process.futex_waits,
        "watchdog_trips": process.watchdog_trips,
        "threads_at_once": figures.threads,
        "acquisitions_left": {
            "process_shared": shared,
            "robust": robust,
            "priority_inheriting": inherit,
            "priority_ceiling": protect,
            "elided": elided,
            "unknown": unknown,
            "read_write": read_write,
            "spin": spin,
        },
        "locks_beyond": figures.locks_beyond,
        "locks": named.map(|named| named.locks.iter().map(one).collect::<Value>()).unwrap_or_else(|| json!([])),
    })
}

fn one(named: &NamedLock) -> Value {
    let figures = &named.figures;
    let sites = named.sites.iter().zip(&figures.sites);
    json!({
        "name": lock::name_of(named),
        "address": format!("{:#x}", figures.addr),
        "kind": lock::kind(named),
        "policy": figures.policy.map(|policy| policy.to_string()),
        "tripped": figures.tripped,
        "made_in": named.made.as_ref().map(frame),
        "first_taken_in": named.first.as_ref().map(frame),
        "acquisitions": figures.acquisitions,
        "contended": figures.contended,
        "slept": figures.slept,
        "threads": figures.threads,
        "wait": durations(&figures.wait),
        "hold": durations(&figures.hold),
        "sites": sites.map(|(place, site)| json!({
            "place": place.as_ref().map(frame),
            "contended": site.contended,
            "wait_ns": site.wait_ns,
        })).collect::<Value>(),
    })
}

fn durations(of: &Durations) -> Value {
    json!({
        "measured": of.count,
        "of": of.of,
        "estimated": of.is_estimate(),
        "total_ns": of.total_ns(),
        "p50_ns": of.quantile_ns(0.5),
        "p99_ns": of.quantile_ns(0.99),
        "max_ns": of.max_ns,
    })
}

fn frame(frame: &Frame) -> Value {
    json!({
        "function": frame.function.as_deref(),
        "file": frame.file.as_deref(),
        "line": frame.line,
        "module": &*frame.module,
        "module_offset": frame.offset,
    })
}

fn profile_name(profile: u32) -> &'static str {
    match profile {
        profile if profile == Profile::Count as u32 => "count",
        profile if profile == Profile::Sampled as u32 => "sampled",
        profile if profile == Profile::Full as u32 => "full",
        _ => "off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interposer::figures::{Figures, Lock, Site};
    use crate::interposer::{Settings, naming};
    use holdup_control::Policy;
    use holdup_run::Finished;
    use holdup_run::ProcessUse;
    use std::collections::BTreeSet;

    fn keys(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(map) => map.iter().for_each(|(key, value)| {
                found.insert(key.clone());
                keys(value, found);
            }),
            Value::Array(items) => items.iter().for_each(|item| keys(item, found)),
            _ => {}
        }
    }

    #[test]
    fn every_key_is_described_and_every_described_key_is_written() {
        let lock =
            Lock { addr: 1, init_site: 1, sites: vec![Site { addr: 1, contended: 1, wait_ns: 1 }], ..Lock::default() };
        let figures = [Figures { locks: vec![lock], ..Figures::default() }];
        let named: Vec<Option<Named>> = figures.iter().map(|one| Some(naming::named(one))).collect();
        let finished = Finished { code: 0, process: ProcessUse::default() };
        let settings = Settings::default();
        let run =
            Run { policy: Policy::Glibc, settings: &settings, figures: &figures, uncounted: 0, finished: &finished };
        let mut written = BTreeSet::new();
        keys(&json(&run, &named), &mut written);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/profile-json.md");
        let page = std::fs::read_to_string(path).unwrap();
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
        let described: BTreeSet<String> = rows.map(str::to_owned).collect();
        assert_eq!(written, described);
    }
}
