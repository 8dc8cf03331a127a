//! What each CPU did for the program, and how well it got on, by hardware counters.

use holdup_analyze::Facts;

use super::super::cores::{self, Core};
use super::super::document::Document;
use super::{more, share};

/// The table: CPUs, sockets where there are several, and all together.
pub fn table(facts: &Facts, limit: usize) -> Document {
    let span_ns = facts.span_ns();
    let mut rows: Vec<Core> = facts
        .cpus
        .iter()
        .enumerate()
        .take(limit)
        .map(|(number, cpu)| Core {
            name: format!("core {number}"),
            busy: Some(share(cpu.busy_ns, span_ns)),
            efficiency: cpu.efficiency,
        })
        .collect();
    let of = |socket: u32| facts.header.machine.sockets.iter().filter(|other| **other == socket).count() as u64;
    rows.extend(facts.sockets.iter().map(|socket| Core {
        name: format!("socket {}", socket.socket),
        busy: Some(share(socket.busy_ns, span_ns.saturating_mul(of(socket.socket).max(1)))),
        efficiency: socket.efficiency,
    }));
    let all = u64::from(facts.header.machine.cpus).max(facts.cpus.len() as u64).max(1);
    let busy_ns: u64 = facts.cpus.iter().map(|cpu| cpu.busy_ns).sum();
    rows.push(Core {
        name: "all".to_owned(),
        busy: Some(share(busy_ns, span_ns.saturating_mul(all))),
        efficiency: facts.efficiency,
    });
    let mut view = cores::view(&rows, facts.header.no_counters.as_deref());
    more(&mut view, facts.cpus.len(), limit, "core");
    view
}
