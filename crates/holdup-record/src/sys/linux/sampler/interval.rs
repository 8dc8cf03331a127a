//! What a thread did between two looks at it: what each found, and how the kernel's counters moved meanwhile.
//!
//! The kernel counts exactly how long a thread ran, how long it waited for a CPU, and how often it got one. A thread
//! that never got one is still in the wait that it was found in. Of one that did, the time that is left over was spent
//! blocked, one half of it in what the first look found and the other in what the second found: over many looks, each
//! wait gets the share of time that it has, though no single one its length.
//!
//! Of a thread that both looks find running, what is left over it was blocked for in short waits, or waits for a CPU at
//! the moment, which is not counted before it gets one. The next look tells: so that time is told of one look later,
//! as a wait for what the thread was last found blocked in.

use holdup_trace::{Blocked, OffCpu, StackId, What};

/// What the kernel has counted for a thread (/proc/TID/schedstat).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Time on CPUs. Of a thread that runs, it lags by up to a tick.
    pub cpu_ns: u64,
    /// Time that it waited for a CPU; what it waits at the moment is not in it.
    pub delay_ns: u64,
    /// How often it got a CPU.
    pub runs: u64,
}

/// How a look finds a thread.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// On a CPU, or able to be.
    Running,
    /// Waiting for a CPU.
    Ready,
    /// In a call, or stopped outside of any.
    Blocked(Wait),
}

/// What a thread is blocked in.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    /// The event of the call, if it has one.
    pub call: Option<What>,
    /// How it sleeps.
    pub off: OffCpu,
    /// Where, if the call does not say.
    pub stack: Option<StackId>,
    /// What else is known.
    pub more: Option<Blocked>,
}

/// A thread as it is followed.
#[derive(Clone, Debug)]
pub struct Course {
    time_ns: u64,
    times: Times,
    found: Found,
    /// Time on CPUs and for them that was told of already, and so is not to be told of again when it is counted.
    ahead_ns: u64,
    delay_ahead_ns: u64,
    /// When its time on CPUs was last seen to grow.
    grew_ns: u64,
    /// What it was last found blocked in.
    usual: Option<Wait>,
    /// A stretch in which it was blocked or waited for a CPU: the next look tells which.
    gap: Option<(u64, u64)>,
}

/// A thread that can run and whose time on CPUs has not grown for longer than any tick does not run.
const TICK_NS: u64 = 11_000_000;
/// The time on CPUs of a thread that runs lags by so much at the usual length of a tick.
const LAG_NS: u64 = 4_000_000;
/// Shorter waits for a CPU are left out.
const LEAST_NS: u64 = 50_000;

impl Course {
    /// The first look.
    pub fn new(time_ns: u64, times: Times, found: Found, mut tell: impl FnMut(u64, What)) -> Course {
        match &found {
            Found::Running | Found::Ready => tell(time_ns, What::SwitchIn),
            Found::Blocked(wait) => wait.begin(time_ns, &mut tell),
        }
        let usual = found.wait();
        Course { time_ns, times, found, ahead_ns: 0, delay_ahead_ns: 0, grew_ns: time_ns, usual, gap: None }
    }

    /// Whether a look that finds these counters finds the thread as it was.
    pub fn is_unmoved(&self, times: Times) -> bool {
        !matches!(self.found, Found::Running) && self.times.runs == times.runs
    }

    /// Whether the last look found it blocked.
    pub fn is_blocked(&self) -> bool {
        matches!(self.found, Found::Blocked(_))
    }

    /// What is told of it from now on lies behind this: when it was looked at last, or the beginning of what the next
    /// look has to explain.
    pub fn time_ns(&self) -> u64 {
        self.gap.map_or(self.time_ns, |(from_ns, _)| from_ns)
    }

    /// How often it had got a CPU.
    pub fn runs(&self) -> u64 {
        self.times.runs
    }

    /// The thread is as it was.
    pub fn stays(&mut self, time_ns: u64) {
        if self.found == Found::Ready {
            self.delay_ahead_ns += time_ns.saturating_sub(self.time_ns);
        }
        self.time_ns = time_ns;
    }

    /// The next look, of a thread that has moved. What it finds able to run is [`Found::Running`].
    pub fn advance(&mut self, time_ns: u64, times: Times, found: Found, mut tell: impl FnMut(u64, What)) {
        let span_ns = time_ns.saturating_sub(self.time_ns);
        self.explain(times.delay_ns.saturating_sub(self.times.delay_ns), &mut tell);
        if times.cpu_ns > self.times.cpu_ns || times.runs > self.times.runs {
            self.grew_ns = time_ns;
        }
        if self.found == Found::Running && found == Found::Running && times.runs == self.times.runs {
            return self.runs_on(time_ns, span_ns, times, tell);
        }
        let delay_ns = take(times.delay_ns.saturating_sub(self.times.delay_ns), &mut self.delay_ahead_ns);
        // It waited for a CPU before the last look already, which was taken for running.
        self.ahead_ns = self.ahead_ns.saturating_sub(delay_ns.saturating_sub(span_ns));
        let cpu_ns = take(times.cpu_ns.saturating_sub(self.times.cpu_ns), &mut self.ahead_ns).min(span_ns);
        let delay_ns = delay_ns.min(span_ns - cpu_ns);
        let blocked_ns = span_ns - cpu_ns - delay_ns;
        let delay_ns = if delay_ns < LEAST_NS { 0 } else { delay_ns };
        let mut at = self.time_ns;
        match (&self.found, &found) {
            (Found::Blocked(_), Found::Blocked(_)) => at += blocked_ns / 2,
            (Found::Blocked(_), _) => at += blocked_ns,
            _ => {}
        }
        if self.found != Found::Running {
            tell(at, What::SwitchIn);
        }
        if delay_ns > 0 {
            tell(at, What::SwitchOut { off: OffCpu::Runnable, stack: None });
            at += delay_ns;
            tell(at, What::SwitchIn);
        }
        match &found {
            Found::Blocked(wait) => wait.begin((at + cpu_ns).min(time_ns), &mut tell),
            // It runs longer than is counted so far; but what no tick explains, it has waited for a CPU, and may still.
            _ => {
                let rest_ns = time_ns.saturating_sub(at + cpu_ns);
                let running_ns = rest_ns.min(LAG_NS.saturating_sub(self.ahead_ns));
                self.ahead_ns += running_ns;
                if rest_ns > running_ns {
                    self.gap = Some((at + cpu_ns + running_ns, time_ns));
                }
            }
        }
        self.usual = found.wait().or(self.usual.take());
        (self.time_ns, self.times, self.found) = (time_ns, times, found);
    }

    /// The thread is not looked at again: tells what no look explained.
    pub fn end(&mut self, mut tell: impl FnMut(u64, What)) {
        self.explain(0, &mut tell);
    }

    /// The thread has ended. One that was found blocked has run since, and nobody knows for how long: half of the time
    /// lies before the end of its wait, as everywhere between two looks.
    pub fn exit(&mut self, time_ns: u64, mut tell: impl FnMut(u64, What)) {
        self.explain(0, &mut tell);
        if matches!(self.found, Found::Blocked(_)) {
            tell(self.time_ns + time_ns.saturating_sub(self.time_ns) / 2, What::SwitchIn);
        }
    }

    /// Tells of the stretch that was left to explain, given how long the thread has waited for CPUs by what was counted
    /// since. The rest of it, it was blocked.
    fn explain(&mut self, delay_ns: u64, tell: &mut impl FnMut(u64, What)) {
        let Some((from_ns, to_ns)) = self.gap.take() else { return };
        let usual = self.usual.as_ref().filter(|_| to_ns - from_ns >= delay_ns.saturating_add(LEAST_NS));
        let blocked_ns = if usual.is_some() { to_ns - from_ns - delay_ns } else { 0 };
        if let Some(wait) = usual {
            wait.begin(from_ns, tell);
            tell(from_ns + blocked_ns, What::SwitchIn);
        }
        let ready_ns = to_ns - from_ns - blocked_ns;
        if ready_ns > 0 {
            tell(from_ns + blocked_ns, What::SwitchOut { off: OffCpu::Runnable, stack: None });
            tell(to_ns, What::SwitchIn);
            self.delay_ahead_ns += ready_ns;
        }
    }

    /// It has had its CPU, or wanted one, since the last look.
    fn runs_on(&mut self, time_ns: u64, span_ns: u64, times: Times, mut tell: impl FnMut(u64, What)) {
        let counted_ns = times.cpu_ns.saturating_sub(self.times.cpu_ns);
        self.ahead_ns = (self.ahead_ns + span_ns).saturating_sub(counted_ns);
        if time_ns.saturating_sub(self.grew_ns) > TICK_NS {
            tell(time_ns, What::SwitchOut { off: OffCpu::Runnable, stack: None });
            self.found = Found::Ready;
        }
        (self.time_ns, self.times) = (time_ns, times);
    }
}

/// What of a counted time was not told of before.
fn take(counted_ns: u64, ahead_ns: &mut u64) -> u64 {
    let told_ns = counted_ns.min(*ahead_ns);
    *ahead_ns -= told_ns;
    counted_ns - told_ns
}

impl Found {
    fn wait(&self) -> Option<Wait> {
        match self {
            Found::Blocked(wait) => Some(wait.clone()),
            Found::Running | Found::Ready => None,
        }
    }
}

impl Wait {
    fn begin(&self, time_ns: u64, tell: &mut impl FnMut(u64, What)) {
        if let Some(call) = &self.call {
            tell(time_ns, call.clone());
        }
        tell(time_ns, What::SwitchOut { off: self.off, stack: self.stack });
        if let Some(more) = &self.more {
            tell(time_ns, What::Blocked(Box::new(more.clone())));
        }
    }
}

#[cfg(test)]
mod tests {
    use holdup_trace::CallNumber;

    use super::*;

    fn wait(nr: u16) -> Found {
        let call = Some(What::Call { nr: CallNumber(nr), stack: None });
        Found::Blocked(Wait { call, off: OffCpu::Sleeping, stack: None, more: None })
    }

    fn times(cpu_ns: u64, delay_ns: u64, runs: u64) -> Times {
        Times { cpu_ns, delay_ns, runs }
    }

    /// One letter per event, with its time in microseconds: `c` a call, `o` out, `p` preempted, `i` in.
    fn told(first: Found, looks: &[(u64, Times, Found)]) -> String {
        let mut text = String::new();
        let mut tell = |time_ns: u64, what: What| {
            let letter = match what {
                What::Call { .. } => "c",
                What::SwitchIn => "i",
                What::SwitchOut { off: OffCpu::Runnable, .. } => "p",
                What::SwitchOut { .. } => "o",
                other => panic!("{other:?}"),
            };
            text.push_str(&format!("{letter}{} ", time_ns / 1000));
        };
        let mut course = Course::new(0, times(0, 0, 1), first, &mut tell);
        for (time_us, times, found) in looks {
            match course.is_unmoved(*times) {
                true => course.stays(time_us * 1000),
                false => course.advance(time_us * 1000, *times, found.clone(), &mut tell),
            }
        }
        course.end(&mut tell);
        text.trim_end().to_owned()
    }

    #[test]
    fn a_thread_that_never_got_a_cpu_is_still_in_its_wait() {
        let same = |at| (at, times(0, 0, 1), wait(7));
        assert_eq!(told(wait(7), &[same(5_000), same(10_000)]), "c0 o0");
    }

    #[test]
    fn time_that_is_left_over_belongs_to_both_waits_in_halves() {
        let looks = [(10_000, times(2_000_000, 0, 2), wait(8))];
        assert_eq!(told(wait(7), &looks), "c0 o0 i4000 c6000 o6000");
        let looks = [(10_000, times(2_000_000, 4_000_000, 2), wait(8))];
        assert_eq!(told(wait(7), &looks), "c0 o0 i2000 p2000 i6000 c8000 o8000");
    }

    #[test]
    fn a_thread_that_begins_or_ends_a_wait_has_run_for_as_long_as_is_counted() {
        assert_eq!(told(wait(7), &[(10_000, times(3_000_000, 0, 2), Found::Running)]), "c0 o0 i7000");
        assert_eq!(told(Found::Running, &[(10_000, times(3_000_000, 0, 2), wait(7))]), "i0 c3000 o3000");
    }

    #[test]
    fn what_a_tick_has_not_counted_yet_is_not_told_of_twice() {
        let looks = [
            (4_000, times(1_000_000, 0, 1), Found::Running),
            (8_000, times(8_000_000, 0, 1), Found::Running),
            (12_000, times(9_000_000, 0, 2), wait(7)),
        ];
        assert_eq!(told(Found::Running, &looks), "i0 c9000 o9000");
    }

    #[test]
    fn one_whose_time_does_not_grow_for_longer_than_a_tick_waits_for_a_cpu() {
        let looks = [
            (4_000, times(4_000_000, 0, 1), Found::Running),
            (12_000, times(4_000_000, 0, 1), Found::Running),
            (16_000, times(4_000_000, 0, 1), Found::Running),
            (20_000, times(4_000_000, 0, 1), Found::Running),
            (24_000, times(6_000_000, 18_000_000, 2), Found::Running),
        ];
        assert!(told(Found::Running, &looks).starts_with("i0 p16000 i20000 "), "{}", told(Found::Running, &looks));
    }

    #[test]
    fn one_that_ends_has_ended_its_wait_before() {
        let mut course = Course::new(0, times(0, 0, 1), wait(7), |_, _| {});
        course.stays(10_000);
        let mut told = Vec::new();
        course.exit(20_000, |time_ns, what| told.push((time_ns, what)));
        assert_eq!(told, [(15_000, What::SwitchIn)]);
    }

    #[test]
    fn one_that_looks_always_find_running_was_blocked_for_what_is_left_over() {
        // 3 of 10 ms on a CPU, 1 ms waiting for one: found blocked at first, and running ever after.
        let looks: Vec<_> =
            (1..=40).map(|n| (n * 10_000, times(n * 3_000_000, n * 1_000_000, n * 50), Found::Running)).collect();
        let (mut state, mut since_us, mut sums) = (0, 0.0, [0.0; 3]);
        for event in told(wait(7), &looks).split(' ') {
            let (letter, at) = event.split_at(1);
            let (next, at_us) = (["i", "o", "p"].iter().position(|known| *known == letter), at.parse::<f64>().unwrap());
            sums[state] += at_us - since_us;
            (state, since_us) = (next.unwrap_or(state), at_us);
        }
        let shares = sums.map(|us| us / 400_000.0);
        assert!((0.25..0.35).contains(&shares[0]), "running {shares:?}");
        assert!((0.5..0.65).contains(&shares[1]), "blocked {shares:?}");
        assert!((0.05..0.2).contains(&shares[2]), "waiting for a CPU {shares:?}");
    }

    #[test]
    fn all_time_is_told_of_whatever_the_counters_say() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let (mut at, mut last) = (0, 0);
            let mut count = Times::default();
            let pick = |random: &mut fastrand::Rng| if random.bool() { Found::Running } else { wait(7) };
            let mut seen = |time_ns: u64, _: What| {
                assert!(time_ns >= last, "{time_ns} after {last}");
                last = time_ns;
            };
            let mut course = Course::new(0, count, pick(&mut random), &mut seen);
            for _ in 0..20 {
                let from = course.time_ns();
                at += random.u64(1..20_000_000);
                count.cpu_ns += random.u64(0..20_000_000);
                count.delay_ns += random.u64(0..20_000_000);
                count.runs += random.u64(0..2);
                let mut within = |time_ns: u64, what: What| {
                    assert!((from..=at).contains(&time_ns), "{time_ns} not in {from}..={at}");
                    seen(time_ns, what);
                };
                match course.is_unmoved(count) {
                    true => course.stays(at),
                    false => course.advance(at, count, pick(&mut random), &mut within),
                }
            }
        }
    }
}
