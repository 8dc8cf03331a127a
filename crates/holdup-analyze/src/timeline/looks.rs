//! Looks at interpreters: one tells of the wait that it finds a thread in, from beginning to end, and of the samples of
//! a thread that runs, for the time until the next look.

use std::sync::Arc;

use holdup_trace::{Interpreted, NO_CPU};
use rustc_hash::FxHashMap;

use super::doing::Doing;
use super::engine::Engine;
use super::ids::{CodeId, LockId, StackKey, ThreadId, WaitSiteId};
use super::lock::{Block, Place};
use super::lookup::{Lookup, SITES, part};
use super::tally::Tally;
use super::thread::State;
use crate::facts::Site;
use crate::names::interpreted::{self, RubyWait};
use crate::names::{Frame, GENERATED, JAVA, Names, Role};

/// How long a thread that runs is believed to execute what it was found executing: two looks at their usual pace.
const BELIEVED_NS: u64 = 20_000_000;

impl Engine {
    /// A look found a thread's interpreter executing this; with a CPU, at the sample that comes next.
    pub(super) fn found_interpreted(&mut self, ti: ThreadId, now: u64, cpu: u16, found: &Interpreted, names: &Names) {
        if found.frames.is_empty() {
            return;
        }
        let code = self.interpreted.code(&found.frames);
        let at_sample = cpu != NO_CPU;
        // Of a thread that runs, looks at Java and Node tell nothing but at a sample itself.
        if at_sample || !self.interpreted.is_compiled(code) {
            self.threads[ti].code = Some((now, code));
        }
        if at_sample {
            return;
        }
        if found.holds {
            self.count_holder(ti, code);
        }
        let thread = &self.threads[ti];
        let State::Off(doing) = thread.state else { return };
        if now < thread.since || thread.woken.is_some_and(|(_, at)| at <= now) {
            return;
        }
        let space = self.space(ti, names);
        let native = self.interpreted.native(self.threads[ti].stack);
        let stack = self.interpreted.stack(native, code);
        self.threads[ti].stack = Some(stack);
        let other = match doing {
            Doing::Futex(wait_site) => Doing::Futex(self.interpreted_wait_site(wait_site, code)),
            Doing::Block(block) => {
                let Block { place, deep, found } = self.blocks[block];
                let stack = self.interpreted.stack(self.interpreted.native(place.stack), code);
                Doing::Block(self.block(Block { place: Place { space, stack: Some(stack) }, deep, found }))
            }
            doing => doing,
        };
        let place = self.place_of(other).unwrap_or(Place { space, stack: Some(stack) });
        let native = Place { stack: self.interpreted.native(place.stack), ..place };
        *self.interpreted.waits.entry(native).or_default().at(place.stack) += 1;
        self.threads[ti].state = State::Off(other);
        self.remark(ti, doing, other);
    }

    /// Where a sample was taken, with the code that the thread was found executing shortly before.
    pub(super) fn interpreted_place(&mut self, ti: ThreadId, now: u64, place: Place) -> Place {
        match self.threads[ti].code {
            Some((at, code)) if now.saturating_sub(at) <= BELIEVED_NS => {
                Place { stack: Some(self.interpreted.stack(place.stack, code)), ..place }
            }
            _ => place,
        }
    }

    fn place_of(&self, doing: Doing) -> Option<Place> {
        match doing {
            Doing::Futex(wait_site) => Some(self.wait_sites[wait_site].place),
            Doing::Block(block) => Some(self.blocks[block].place),
            _ => None,
        }
    }

    fn interpreted_wait_site(&mut self, wait_site: WaitSiteId, code: CodeId) -> WaitSiteId {
        let old = &self.wait_sites[wait_site];
        let (lock, op, place, place_group) = (old.lock, old.op, old.place, old.place_group);
        let stack = self.interpreted.stack(self.interpreted.native(place.stack), code);
        let other = self.wait_site(lock, op, Place { stack: Some(stack), ..place });
        self.wait_sites[other].place_group = place_group;
        other
    }

    fn count_holder(&mut self, ti: ThreadId, code: CodeId) {
        let pid = self.threads[ti].pid;
        let mut wanted: Vec<LockId> = Vec::new();
        for (index, thread) in self.threads.each() {
            if let State::Off(Doing::Futex(wait_site)) = thread.state
                && (thread.pid, index != ti) == (pid, true)
            {
                wanted.push(self.wait_sites[wait_site].lock);
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        for lock in wanted {
            *self.interpreted.holding.entry(lock).or_default().at(code) += 1;
        }
    }
}

impl Lookup<'_> {
    /// A place of the recording whose waits were mostly found in one code is taken for that; others stay.
    pub(super) fn interpreted(&self, place: Place) -> Place {
        let known = self.engine.interpreted.waits.get(&place).filter(|_| place.stack.is_some());
        let Some(looks) = known else { return place };
        let all: u64 = looks.iter().map(|(_, count)| count).sum();
        match looks.iter().max_by_key(|(_, count)| *count) {
            Some((stack, count)) if count * 3 >= all * 2 => Place { stack: *stack, ..place },
            _ => place,
        }
    }

    /// What threads of Ruby wait for at a place, if they were looked at there.
    pub(super) fn ruby_wait(&mut self, place: Place) -> Option<RubyWait> {
        let found = &self.engine.interpreted;
        let code = found.parts(place.stack).1?;
        let may_tell = interpreted::is_in_ruby(&found.codes[code]);
        if may_tell { interpreted::ruby_wait(&self.call_path(place)) } else { None }
    }

    /// The functions of Ruby by which a thread came to wait at a place, as one number: who waits by the same ones waits
    /// for the same kind of thing. `None` where it leads through none.
    pub(super) fn ruby_functions(&mut self, place: Place) -> Option<u64> {
        let native = self.engine.interpreted.native(place.stack)?;
        let call_path = self.naming.call_path(place.space, native.into());
        interpreted::ruby_functions(&call_path)
    }

    /// The call path with the interpreted code of a place, given that of its stack.
    pub(super) fn with_code(&self, stack: Option<StackKey>, native: Arc<[Frame]>) -> Arc<[Frame]> {
        match self.engine.interpreted.parts(stack) {
            (_, Some(code)) => {
                let found = &self.engine.interpreted.codes[code];
                let splice = match () {
                    () if interpreted::is_of_java(found) => interpreted::splice_java,
                    () if interpreted::is_of_node(found) => interpreted::splice_node,
                    () => interpreted::splice,
                };
                splice(&native, interpreted::frames(found))
            }
            _ => native,
        }
    }

    /// The call path by which locks without addresses are told apart. What Java's machine executes is known only of
    /// waits that were looked at and of code that was compiled, what Ruby and Node execute of waits that were looked
    /// at: all waits of one native call path belong together.
    pub(super) fn lock_path(&mut self, place: Place) -> Arc<[Frame]> {
        let found = &self.engine.interpreted;
        let call_path = match found.parts(self.interpreted(place).stack) {
            (Some(native), Some(code)) => {
                let is_compiled = found.is_compiled(code);
                let call_path = self.naming.call_path(place.space, native.into());
                let by_native = is_compiled || call_path.iter().any(interpreted::is_of_ruby);
                if by_native { call_path } else { self.call_path(place) }
            }
            _ => self.call_path(place),
        };
        if !call_path.iter().any(|frame| frame.module.ends_with("/libjvm.so")) {
            return interpreted::up_to_scripts(&call_path).unwrap_or(call_path);
        }
        let made = |frame: &Frame| *frame.module == *JAVA || frame.is_nameless_code();
        let nameless = |frame: &Frame| Frame {
            function: None,
            module: GENERATED.into(),
            start: 0,
            role: Role::Program,
            ..frame.clone()
        };
        call_path.iter().map(|frame| if made(frame) { nameless(frame) } else { frame.clone() }).collect()
    }

    /// Waits that were too short to be looked at are shared out among those of the same stack that were.
    pub(super) fn share_out(&self, list: &mut Vec<(Place, u64, u64)>) {
        let found = &self.engine.interpreted;
        let mut seen: FxHashMap<Place, (u64, u64, Vec<usize>)> = FxHashMap::default();
        for (index, (place, count, ns)) in list.iter().enumerate() {
            if let (native, Some(_)) = found.parts(place.stack) {
                let sum = seen.entry(Place { stack: native, ..*place }).or_default();
                (sum.0, sum.1) = (sum.0 + count, sum.1 + ns);
                sum.2.push(index);
            }
        }
        let unseen: Vec<(Place, u64, u64)> = list.iter().filter(|one| seen.contains_key(&one.0)).copied().collect();
        for (native, count, ns) in unseen {
            let (all_count, all_ns, indices) = &seen[&native];
            for index in indices {
                let (_, own_count, own_ns) = &mut list[*index];
                let (one, all) = if *all_ns > 0 { (*own_ns, *all_ns) } else { (*own_count, *all_count) };
                if all > 0 {
                    (*own_count, *own_ns) = (*own_count + part(count, one, all), *own_ns + part(ns, one, all));
                }
            }
        }
        list.retain(|(place, ..)| !seen.contains_key(place));
    }

    /// Where the holder of the interpreter's lock was found while others waited for it; `ns` is shared out.
    pub(super) fn hold_sites(&self, locks: &[LockId], ns: u64) -> Vec<Site> {
        let found = &self.engine.interpreted;
        let mut looks: Tally<CodeId, u64> = Tally::default();
        for (code, count) in locks.iter().filter_map(|lock| found.holding.get(lock)).flat_map(Tally::iter) {
            *looks.at(*code) += count;
        }
        let all: u64 = looks.iter().map(|(_, count)| count).sum::<u64>().max(1);
        let mut sites: Vec<Site> = looks
            .iter()
            .map(|(code, count)| Site {
                call_path: interpreted::frames(&found.codes[*code]),
                count: *count,
                ns: part(ns, *count, all),
            })
            .collect();
        sites.sort_by_key(|site| std::cmp::Reverse(site.count));
        sites.truncate(SITES);
        sites
    }
}

#[cfg(test)]
mod tests {
    use holdup_trace::{Event, FutexOp, Header, InterpretedFrame, OffCpu, Pid, Stack, StackId, Stacks, Tid, What};

    use super::super::ids::Id as _;
    use super::*;
    use crate::{Analysis, NoModules, Options, Report};

    const LOCK: u64 = 0x5000;

    /// Thread 2 waits from time 10 to 90 and from 100 to 110, thread 3 has the lock and executes `hold`. Thread 2 is
    /// looked at where `looks` says, and found in these functions.
    fn report(looks: &[(u64, &str)]) -> Report {
        let looks: Vec<_> = looks.iter().map(|(at, function)| (*at, vec![(*function, "/srv/app.py")])).collect();
        report_of(&looks)
    }

    /// The same with functions and files.
    fn report_of(looks: &[(u64, Vec<(&str, &str)>)]) -> Report {
        let mut stacks = Stacks::new();
        let stack = Some(stacks.intern(&Stack { kernel: vec![0xffff_ffff_8100_0000], ..Stack::default() }));
        let wait = || What::FutexWait { op: FutexOp(FutexOp::WAIT), addr: LOCK, value: 2, stack };
        let out = || What::SwitchOut { off: OffCpu::Sleeping, stack: None };
        let started = || What::Started { pid: Pid(1), parent: None };
        let look = |places: &[(&str, &str)], holds| {
            let frame = |(function, file): &(&str, &str)| InterpretedFrame {
                function: (*function).into(),
                file: (*file).into(),
                line: 7,
            };
            What::Interpreted(Box::new(Interpreted { holds, frames: places.iter().map(frame).collect() }))
        };
        let mut events = vec![
            (0, 2, started()),
            (0, 3, started()),
            (1, 2, What::SwitchIn),
            (1, 3, What::SwitchIn),
            (10, 2, wait()),
            (10, 2, out()),
            (20, 3, look(&[("hold", "/srv/app.py")], true)),
            (90, 2, What::SwitchIn),
            (100, 2, wait()),
            (100, 2, out()),
            (110, 2, What::SwitchIn),
            (120, 2, What::Sample { stack: StackId(0) }),
        ];
        events.extend(looks.iter().map(|(at, places)| (*at, 2, look(places, false))));
        events.sort_by_key(|(at, ..)| *at);
        let mut analysis = Analysis::new(&Header::default(), Options::default());
        for (at, tid, what) in events {
            // Its own unit, so that nothing is out of order.
            analysis.feed(&Event { time_ns: 1_000_000 + at * 1_000, tid: Tid(tid), cpu: NO_CPU, what });
        }
        analysis.finish(None, &stacks, &NoModules)
    }

    fn told(sites: &[Site]) -> Vec<(String, u64, u64)> {
        let caller = |site: &Site| site.caller().and_then(|frame| frame.function.clone()).unwrap_or_default();
        sites.iter().map(|site| (caller(site).to_string(), site.count, site.ns / 1_000)).collect()
    }

    #[test]
    fn a_look_tells_where_the_wait_is_that_it_finds_and_short_ones_are_shared_out() {
        let site = |name: &str, count, us| (name.to_owned(), count, us);
        let lock = |looks: &[(u64, &str)]| told(&report(looks).facts.locks[0].wait_sites);
        assert_eq!(lock(&[]), [site("", 2, 90)]);
        // Looks at a thread that runs say nothing of its waits.
        assert_eq!(lock(&[(5, "run"), (95, "run")]), [site("", 2, 90)]);
        assert_eq!(lock(&[(30, "update"), (60, "update")]), [site("update", 2, 90)]);
        assert_eq!(lock(&[(30, "update"), (105, "read")]), [site("update", 1, 80), site("read", 1, 10)]);
    }

    #[test]
    fn what_ruby_waits_for_is_told_by_the_method_in_c_that_it_was_found_in() {
        use crate::facts::{Primitive, Reason};
        let reasons = |method: &str| {
            let found = report_of(&[(30, vec![(method, "<internal:c>"), ("fetch", "/srv/shop.rb")])]);
            let thread = found.facts.thread(Tid(2)).unwrap();
            let mut reasons: Vec<(Reason, u64)> =
                thread.off.iter().map(|(why, time)| (*why, time.ns / 1_000)).collect();
            reasons.retain(|(_, us)| *us >= 80);
            reasons.first().map(|(why, _)| *why)
        };
        assert_eq!(reasons("sleep"), Some(Reason::Sleep));
        assert_eq!(reasons("synchronize"), Some(Reason::Futex(Primitive::OtherLock)));
        assert_eq!(reasons("gvl_acquire"), Some(Reason::Futex(Primitive::InterpreterLock)));
        assert_eq!(reasons("pop"), Some(Reason::Futex(Primitive::Condvar)));
        assert_eq!(reasons("join"), Some(Reason::Futex(Primitive::Join)));
    }

    /// Of a thread that runs compiled code, only a look at the sample itself, which bears its CPU, tells where it is.
    #[test]
    fn samples_of_compiled_code_are_of_what_was_found_at_a_sample() {
        let functions = |cpu| {
            let mut stacks = Stacks::new();
            let stack = stacks.intern(&Stack { kernel: vec![0xffff_ffff_8100_0000], ..Stack::default() });
            let rank = InterpretedFrame { function: "rank".into(), file: "/srv/shop.js".into(), line: 2 };
            let found = What::Interpreted(Box::new(Interpreted { holds: false, frames: [rank].into() }));
            let mut analysis = Analysis::new(&Header::default(), Options::default());
            let started = What::Started { pid: Pid(1), parent: None };
            let events = [(0, started), (1, What::SwitchIn), (9, found), (9, What::Sample { stack })];
            for (at, what) in events {
                let cpu = if matches!(what, What::Interpreted(_)) { cpu } else { NO_CPU };
                analysis.feed(&Event { time_ns: 1_000_000 + at * 1_000, tid: Tid(2), cpu, what });
            }
            let report = analysis.finish(None, &stacks, &NoModules);
            told(&report.facts.thread(Tid(2)).unwrap().hot_sites).pop().map(|(name, ..)| name)
        };
        assert_eq!(functions(0).as_deref(), Some("rank"));
        assert_eq!(functions(NO_CPU), None);
    }

    #[test]
    fn samples_are_of_what_the_thread_was_found_executing_last() {
        let hot = |looks: &[(u64, &str)]| told(&report(looks).facts.thread(Tid(2)).unwrap().hot_sites);
        assert_eq!(hot(&[(30, "wait"), (115, "parse")])[0].0, "parse");
    }

    #[test]
    fn holders_are_told_of_while_others_wait() {
        let header = Header::default();
        let mut engine = Engine::new(&header, Options::default());
        let names = Names::new();
        let frame =
            |function: &str| InterpretedFrame { function: function.into(), file: "/srv/app.py".into(), line: 7 };
        let mut feed = |time_ns, tid, what| engine.feed(&Event { time_ns, tid: Tid(tid), cpu: NO_CPU, what }, &names);
        let look =
            |function, holds| What::Interpreted(Box::new(Interpreted { holds, frames: [frame(function)].into() }));
        for tid in [2, 3] {
            feed(1, tid, What::Started { pid: Pid(1), parent: None });
            feed(2, tid, What::SwitchIn);
        }
        feed(3, 3, look("alone", true));
        feed(4, 2, What::FutexWait { op: FutexOp(FutexOp::WAIT), addr: LOCK, value: 2, stack: None });
        feed(5, 2, What::SwitchOut { off: OffCpu::Sleeping, stack: None });
        feed(6, 3, look("parse", true));
        feed(7, 3, look("parse", true));
        feed(8, 3, look("shift", true));
        feed(9, 3, look("free", false));
        let stacks = Stacks::new();
        let mut naming = crate::names::Resolver::new(Names::new(), &stacks, &NoModules);
        let lookup = Lookup { engine: &engine, naming: &mut naming };
        assert_eq!(
            told(&lookup.hold_sites(&[LockId::of(0)], 3_000)),
            [("parse".to_owned(), 2, 2), ("shift".to_owned(), 1, 1)]
        );
    }
}
