//! Samples of the CPU: by function, module, instruction and thread.

use std::sync::Arc;

use holdup_trace::{FutexOp, Tid};
use rustc_hash::{FxHashMap, FxHashSet};

use super::golang;
use super::ids::ThreadId;
use super::lines;
use super::lock::Place;
use super::lock_samples;
use super::lookup::{Lookup, SITES, function_name};
use crate::facts::{Code, Facts, Hotspot, HotspotClass, LockSamples, Primitive, Regions, Site, Task};
use crate::names::{Frame, Role, Suspect, caller, callers};
use crate::spinning;

/// Where threads run, by CPU samples.
pub(super) fn count(lookup: &mut Lookup, facts: &mut Facts) {
    let kernel = facts.header.capabilities.kernel;
    let mut by_place: FxHashMap<Place, Vec<(ThreadId, u64)>> = FxHashMap::default();
    for ((place, thread), hits) in &lookup.engine.samples {
        by_place.entry(*place).or_default().push((*thread, *hits));
    }
    by_place.retain(|place, _| !lookup.is_of_recording(*place));
    let mut places: Vec<(Place, Vec<(ThreadId, u64)>)> = by_place.into_iter().collect();
    places.sort_unstable();
    let has_regions = places.iter().any(|(place, _)| lookup.call_path(*place).iter().any(Frame::is_of_openmp));
    let (mut counts, mut loops) = (Codes::default(), Loops { has_regions, ..Loops::default() });
    let mut samples: FxHashMap<Tid, (u64, u64)> = FxHashMap::default();
    let mut in_kernel = 0;
    let (mut kernel_sites, mut futex_sites) = (Callers::default(), Callers::default());
    let mut hot_sites: FxHashMap<Tid, Callers> = FxHashMap::default();
    let mut tasks: FxHashMap<String, Tasks> = FxHashMap::default();
    let mut lock_samples: FxHashMap<Tid, LockSamples> = FxHashMap::default();
    let mut alone_of: FxHashMap<Tid, u64> = FxHashMap::default();
    let (mut alone_sites, mut parallel_sites) = (Callers::default(), Callers::default());
    for (place, threads) in places {
        let hits: u64 = threads.iter().map(|(_, hits)| hits).sum();
        let call_path = lookup.call_path(place);
        let top = call_path.first().map_or(Role::Program, |frame| frame.role);
        let kernel_hit = matches!(top, Role::Kernel | Role::Scheduler);
        for (thread, hits) in &threads {
            let counts = samples.entry(lookup.tid(*thread)).or_default();
            *(if kernel_hit { &mut counts.1 } else { &mut counts.0 }) += hits;
        }
        let own = without_kernel(&call_path);
        let suspect = suspect(lookup, place);
        match kernel_hit {
            true => {
                in_kernel += hits;
                kernel_sites.add(own, hits);
                if call_path.iter().any(is_futex_code) {
                    futex_sites.add(own, hits);
                }
            }
            false => {
                facts.totals.user_samples += hits;
                loops.add(lookup, &call_path, suspect.as_ref(), &threads);
                loops.add_displaced(&call_path, suspect.as_ref(), beside_displaced(lookup, place));
            }
        }
        for (thread, hits) in &threads {
            lock_samples::add(lock_samples.entry(lookup.tid(*thread)).or_default(), &call_path, *hits);
            hot_sites.entry(lookup.tid(*thread)).or_default().add(own, *hits);
        }
        let mut alone = 0;
        for (thread, _) in &threads {
            let hits = lookup.engine.alone.get(&(place, *thread)).copied().unwrap_or(0);
            *alone_of.entry(lookup.tid(*thread)).or_default() += hits;
            alone += hits;
        }
        alone_sites.add(own, alone);
        parallel_sites.add(own, hits - alone);
        if let Some(function) = golang::began_with(own) {
            tasks.entry(function.to_owned()).or_default().add(own, hits, alone);
        }
        counts.add(&call_path, hits);
        if let Some(suspect) = suspect {
            let threads = threads.iter().map(|(ti, hits)| (lookup.tid(*ti), *hits));
            counts.suspect(suspect, hits, threads, &call_path);
        }
    }
    facts.lines = lines::fought_over(lookup, facts.header.sample_period_ns);
    let mut fault_sites = Callers::default();
    let mut faults: Vec<(Place, u64)> = lookup.engine.faults.iter().map(|(place, hits)| (*place, *hits)).collect();
    faults.sort_unstable();
    for (place, hits) in faults {
        fault_sites.add(&lookup.call_path(place), hits);
    }
    facts.fault_sites = fault_sites.into_sites(0);
    let period_ns = facts.header.sample_period_ns;
    facts.kernel_sites = kernel_sites.into_sites(period_ns);
    facts.futex_sites = futex_sites.into_sites(period_ns);
    facts.alone_sites = alone_sites.into_sites(period_ns);
    facts.parallel_sites = parallel_sites.into_sites(period_ns);
    facts.totals.kernel_samples = kernel.then_some(in_kernel);
    for thread in &mut facts.threads {
        let (user, kernel) = samples.get(&thread.tid).copied().unwrap_or_default();
        (thread.user_samples, thread.kernel_samples) = (user, kernel);
        thread.lock_samples = lock_samples.get(&thread.tid).copied().unwrap_or_default();
        thread.alone_samples = alone_of.get(&thread.tid).copied().unwrap_or(0);
        let sites = hot_sites.remove(&thread.tid).unwrap_or_default();
        thread.hot_sites = sites.into_sites(period_ns);
    }
    facts.tasks = tasks.into_iter().filter_map(|(function, task)| task.into_fact(function, period_ns)).collect();
    facts.tasks.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.function.cmp(&b.function)));
    counts.into_facts(facts);
    loops.into_facts(facts);
}

/// Samples of a place that were taken while another thread waited for a CPU that other programs had.
fn beside_displaced(lookup: &Lookup, place: Place) -> u64 {
    lookup.engine.beside_displaced.get(&place).copied().unwrap_or(0)
}

fn is_of_loop(suspect: &Suspect) -> bool {
    suspect.class != HotspotClass::Atomic
}

fn suspect(lookup: &mut Lookup, place: Place) -> Option<Suspect> {
    lookup.naming.suspect(place.space, lookup.engine.interpreted.native(place.stack)?.into())
}

/// Samples of tasks that began with one function.
#[derive(Default)]
struct Tasks {
    samples: u64,
    alone: u64,
    callers: Callers,
}

impl Tasks {
    fn add(&mut self, call_path: &[Frame], hits: u64, alone: u64) {
        self.samples += hits;
        self.alone += alone;
        self.callers.add(call_path, hits);
    }

    fn into_fact(self, function: String, period_ns: u64) -> Option<Task> {
        let site = self.callers.into_sites(period_ns).into_iter().next()?;
        Some(Task { function, samples: self.samples, alone: self.alone, site })
    }
}

/// Samples of threads that only wait, in loops, and where threads of OpenMP run.
#[derive(Default)]
struct Loops {
    /// By function and thread: all samples, those right behind an instruction of a loop that waits, and of those the
    /// ones in which it waits for others to come as far.
    functions: FxHashMap<(String, Tid), [u64; 3]>,
    /// By function: all samples, and those right behind an instruction of a loop that waits, that were taken while
    /// another thread waited for a CPU that other programs had.
    displaced: FxHashMap<String, [u64; 2]>,
    /// Whether the program has any regions.
    has_regions: bool,
    regions: FxHashMap<Tid, (u64, Callers)>,
}

impl Loops {
    fn add(
        &mut self,
        lookup: &mut Lookup,
        call_path: &[Frame],
        suspect: Option<&Suspect>,
        threads: &[(ThreadId, u64)],
    ) {
        let Some(top) = call_path.first() else { return };
        let is_loop = suspect.is_some_and(is_of_loop);
        let together = is_loop && lookup.naming.primitive(FutexOp(0), call_path) == Primitive::Barrier;
        let tells_of_regions = self.has_regions && !top.is_of_openmp();
        let in_region = tells_of_regions && call_path.iter().any(Frame::is_of_openmp);
        let key = spinning::key(top);
        for (thread, hits) in threads {
            let tid = lookup.tid(*thread);
            let counts = self.functions.entry((key.clone(), tid)).or_default();
            let parts = [true, is_loop, together];
            counts.iter_mut().zip(parts).for_each(|(count, is)| *count += if is { *hits } else { 0 });
            if !tells_of_regions {
                continue;
            }
            let regions = self.regions.entry(tid).or_default();
            match in_region {
                true => regions.0 += hits,
                false => regions.1.add(call_path, *hits),
            }
        }
    }

    fn add_displaced(&mut self, call_path: &[Frame], suspect: Option<&Suspect>, hits: u64) {
        let Some(top) = call_path.first().filter(|_| hits > 0) else { return };
        let counts = self.displaced.entry(spinning::key(top)).or_default();
        counts[0] += hits;
        counts[1] += if suspect.is_some_and(is_of_loop) { hits } else { 0 };
    }

    fn into_facts(mut self, facts: &mut Facts) {
        let throughout: FxHashSet<String> = {
            let symbols = facts.symbols.iter().map(|code| &code.frame).filter(|frame| spinning::is_spinner(frame));
            let hotspots = facts.hotspots.iter().filter(|hotspot| spinning::spins_throughout(hotspot));
            symbols.chain(hotspots.map(|hotspot| &hotspot.frame)).map(spinning::key).collect()
        };
        let of_loops =
            |function: &String, [all, in_loop]: [u64; 2]| if throughout.contains(function) { all } else { in_loop };
        facts.spun_beside_displaced = self.displaced.iter().map(|(function, counts)| of_loops(function, *counts)).sum();
        let mut spun: FxHashMap<Tid, (u64, u64)> = FxHashMap::default();
        for ((function, tid), [all, in_loop, together]) in self.functions {
            let spun = spun.entry(tid).or_default();
            let hits = of_loops(&function, [all, in_loop]);
            (spun.0, spun.1) = (spun.0 + hits, spun.1 + hits * together / in_loop.max(1));
        }
        let period_ns = facts.header.sample_period_ns;
        for thread in &mut facts.threads {
            let (hits, together) = spun.get(&thread.tid).copied().unwrap_or_default();
            thread.spun_ns = (hits * period_ns).min(thread.on_cpu_ns);
            thread.spun_together_ns = (together * period_ns).min(thread.spun_ns);
            if let Some((inside, between)) = self.regions.remove(&thread.tid).filter(|(inside, _)| *inside > 0) {
                let between = between.into_sites(period_ns);
                let sum = between.iter().map(|site| site.count).sum();
                thread.regions = Regions { inside, between: sum, site: between.into_iter().next() };
            }
        }
    }
}

/// Samples by function, module and instruction.
#[derive(Default)]
struct Codes {
    symbols: FxHashMap<(Arc<str>, String), Code>,
    modules: FxHashMap<Arc<str>, Code>,
    hotspots: FxHashMap<(Arc<str>, u64), (Hotspot, Callers)>,
}

/// Samples by function of the program: of all call paths of one, that with most samples stands for it.
#[derive(Default)]
struct Callers {
    by_function: FxHashMap<(Arc<str>, String), Heaviest>,
}

#[derive(Default)]
struct Heaviest {
    call_path: Vec<Frame>,
    most: u64,
    hits: u64,
}

impl Callers {
    fn add(&mut self, call_path: &[Frame], hits: u64) {
        if hits == 0 {
            return;
        }
        let Some(caller) = caller(call_path) else { return };
        let key = (caller.module.clone(), function_name(caller));
        let known = self.by_function.entry(key).or_default();
        known.hits += hits;
        if hits > known.most {
            known.most = hits;
            known.call_path = call_path.to_vec();
        }
    }

    fn into_sites(self, period_ns: u64) -> Vec<Site> {
        let mut list: Vec<_> = self.by_function.into_iter().collect();
        list.sort_by(|(a, left), (b, right)| right.hits.cmp(&left.hits).then_with(|| a.cmp(b)));
        list.truncate(SITES);
        let site = |at: Heaviest| Site { call_path: at.call_path, count: at.hits, ns: at.hits * period_ns };
        list.into_iter().map(|(_, heaviest)| site(heaviest)).collect()
    }
}

/// The frame that a sample is of. A timer that is no NMI fires only when interrupts are on again, right after a switch:
/// what is found in `finish_task_switch` is the time of whoever called the scheduler.
fn sampled(call_path: &[Frame]) -> usize {
    let name = |frame: &Frame| frame.function.as_deref().unwrap_or_default().trim_start_matches('_').to_owned();
    if !call_path.first().is_some_and(|frame| name(frame).starts_with("finish_task_switch")) {
        return 0;
    }
    let switches = ["finish_task_switch", "schedule", "preempt_schedule", "io_schedule", "raw_spin_unlock_irq"];
    let caller = call_path.iter().position(|frame| !switches.iter().any(|switch| name(frame).starts_with(switch)));
    caller.unwrap_or(0)
}

impl Codes {
    fn add(&mut self, call_path: &[Frame], hits: u64) {
        let mut seen: Vec<(&Arc<str>, String)> = Vec::new();
        let mut seen_modules: Vec<&Arc<str>> = Vec::new();
        let sampled = sampled(call_path);
        for (depth, frame) in call_path.iter().enumerate() {
            let own = if depth == sampled { hits } else { 0 };
            let key = (&frame.module, function_name(frame));
            if !seen.contains(&key) {
                let code = Code { frame: frame.clone(), hits: 0, inclusive: 0 };
                let code = self.symbols.entry((frame.module.clone(), key.1.clone())).or_insert(code);
                code.hits += own;
                code.inclusive += hits;
                seen.push(key);
            }
            if !seen_modules.contains(&&frame.module) {
                let of_module = Frame { function: None, file: None, line: None, inlined: false, ..frame.clone() };
                let code = Code { frame: of_module, hits: 0, inclusive: 0 };
                let code = self.modules.entry(frame.module.clone()).or_insert(code);
                code.hits += own;
                code.inclusive += hits;
                seen_modules.push(&frame.module);
            }
        }
    }

    fn suspect(&mut self, suspect: Suspect, hits: u64, threads: impl Iterator<Item = (Tid, u64)>, call_path: &[Frame]) {
        // The sample is right behind the instruction, perhaps on another line, or in another function that was inlined.
        let mut path = vec![suspect.frame.clone()];
        path.extend(suspect.inlined_into.iter().chain(callers(call_path)).cloned());
        let key = (suspect.frame.module.clone(), suspect.frame.offset);
        let (hotspot, callers) = self.hotspots.entry(key).or_insert_with(|| {
            let hotspot = Hotspot {
                frame: suspect.frame,
                instruction: suspect.instruction,
                class: suspect.class,
                variable: suspect.variable,
                hits: 0,
                function_hits: 0,
                threads: Vec::new(),
                sites: Vec::new(),
            };
            (hotspot, Callers::default())
        });
        callers.add(&path, hits);
        hotspot.hits += hits;
        for (tid, hits) in threads {
            match hotspot.threads.iter_mut().find(|(known, _)| *known == tid) {
                Some((_, count)) => *count += hits,
                None => hotspot.threads.push((tid, hits)),
            }
        }
    }

    fn into_facts(self, facts: &mut Facts) {
        let period_ns = facts.header.sample_period_ns;
        let named =
            |(hotspot, callers): (Hotspot, Callers)| Hotspot { sites: callers.into_sites(period_ns), ..hotspot };
        let mut hotspots: Vec<Hotspot> = self.hotspots.into_values().map(named).collect();
        for hotspot in &mut hotspots {
            let key = (hotspot.frame.module.clone(), function_name(&hotspot.frame));
            hotspot.function_hits = self.symbols.get(&key).map_or(hotspot.hits, |code| code.hits.max(hotspot.hits));
            hotspot.threads.sort_by_key(|(tid, hits)| (std::cmp::Reverse(*hits), *tid));
        }
        hotspots.sort_by_key(|hotspot| {
            (std::cmp::Reverse(hotspot.hits), hotspot.frame.module.clone(), hotspot.frame.offset)
        });
        facts.hotspots = hotspots;
        facts.symbols = ordered(self.symbols.into_values());
        facts.modules = ordered(self.modules.into_values());
    }
}

fn ordered(codes: impl Iterator<Item = Code>) -> Vec<Code> {
    let mut codes: Vec<Code> = codes.collect();
    codes.sort_by(|a, b| {
        let weight = |code: &Code| std::cmp::Reverse((code.hits, code.inclusive));
        let name = |code: &Code| (code.frame.module.clone(), code.frame.offset);
        weight(a).cmp(&weight(b)).then_with(|| name(a).cmp(&name(b)))
    });
    codes
}

/// The call path in user code alone.
fn without_kernel(call_path: &[Frame]) -> &[Frame] {
    let own = call_path.iter().position(|frame| !matches!(frame.role, Role::Kernel | Role::Scheduler));
    own.map_or(&[], |at| &call_path[at..])
}

/// Whether this is where the kernel handles futex calls.
fn is_futex_code(frame: &Frame) -> bool {
    frame.role == Role::Kernel && frame.function.as_ref().is_some_and(|function| function.contains("futex"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_after_a_switch_is_the_callers() {
        let path = |names: &[&str]| names.iter().map(|name| Frame::named(name, Role::Kernel)).collect::<Vec<_>>();
        assert_eq!(sampled(&path(&["finish_task_switch.isra.0", "__schedule", "schedule", "futex_wait_queue"])), 3);
        assert_eq!(sampled(&path(&["finish_task_switch", "__schedule"])), 0, "nobody else is known");
        assert_eq!(sampled(&path(&["copy_page", "finish_task_switch"])), 0);
        assert_eq!(sampled(&[]), 0);
    }
}
