//! Every stretch that a thread spent off the CPU, in little room: what the account, the blame and the path are told
//! from.
//!
//! Between two stretches the thread ran. A stretch whose beginning or end is not known is one of unknown reason.

use super::doing::{Doing, Plain, Waker};
use super::ids::{Id, StackKey, ThreadId};

/// A stretch off the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stay {
    pub from: u64,
    /// When it ran again.
    pub to: u64,
    doing: u32,
    /// Where it left the CPU, if that is known.
    pub stack: Option<StackKey>,
    waker: u32,
    /// How long before `to` it was woken; the highest bit says that other programs had its CPU meanwhile.
    delay: u32,
}

const BY_OTHERS: u32 = 1 << 31;

/// Where the index of the thread would be that woke it: none is known, or there was none.
const NOBODY: u32 = u32::MAX;
const OUTSIDE: u32 = u32::MAX - 1;
const TIMEOUT: u32 = u32::MAX - 2;

fn packed_waker(waker: Option<Waker>) -> u32 {
    match waker {
        Some(Waker::Thread(thread)) => thread.index() as u32,
        Some(Waker::Timeout) => TIMEOUT,
        Some(Waker::Outside) => OUTSIDE,
        None => NOBODY,
    }
}

const TAG: u32 = 30;
const INDEX: u32 = (1 << TAG) - 1;
const FUTEX: u32 = 1;
const BLOCK: u32 = 2;

fn packed(doing: Doing) -> u32 {
    match doing {
        Doing::Plain(plain) => plain as u32,
        Doing::Running(_) | Doing::Ready => Plain::Unknown as u32,
        Doing::Futex(wait_site) => FUTEX << TAG | wait_site.index() as u32 & INDEX,
        Doing::Block(block) => BLOCK << TAG | block.index() as u32 & INDEX,
    }
}

impl Stay {
    pub(super) fn new(from: u64, to: u64, doing: Doing, stack: Option<StackKey>, woken: Option<(Waker, u64)>) -> Stay {
        let mut stay = Stay { from, to, doing: packed(doing), stack, waker: NOBODY, delay: 0 };
        if let Some(woken) = woken {
            stay.set_waker(woken);
        }
        stay
    }

    /// Who ended it, if that is known.
    pub(super) fn waker(&self) -> Option<Waker> {
        match self.waker {
            NOBODY => None,
            OUTSIDE => Some(Waker::Outside),
            TIMEOUT => Some(Waker::Timeout),
            thread => Some(Waker::Thread(ThreadId::of(thread as usize))),
        }
    }

    /// The thread that ended it, if one did.
    pub(super) fn waking_thread(&self) -> Option<ThreadId> {
        self.waker()?.thread()
    }

    pub(super) fn doing(&self) -> Doing {
        let index = (self.doing & INDEX) as usize;
        match self.doing >> TAG {
            FUTEX => Doing::Futex(Id::of(index)),
            BLOCK => Doing::Block(Id::of(index)),
            _ => Doing::Plain(Plain::ALL.get(index).copied().unwrap_or(Plain::Unknown)),
        }
    }

    /// When it was woken; the end, if that is not known.
    pub(super) fn woken(&self) -> u64 {
        self.to.saturating_sub((self.delay & !BY_OTHERS).into()).max(self.from)
    }

    /// Whether other programs had its CPU from the wake on.
    pub(super) fn is_displaced(&self) -> bool {
        self.delay & BY_OTHERS != 0
    }

    fn set_waker(&mut self, (waker, at): (Waker, u64)) {
        self.waker = packed_waker(Some(waker));
        let delay = self.to.saturating_sub(at).min((BY_OTHERS - 1).into()) as u32;
        self.delay = delay | self.delay & BY_OTHERS;
    }
}

// There is one for each time that a thread left the CPU.
const _: () = assert!(size_of::<Stay>() == 32);

/// The stretches of one thread, in order of time, without overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    stays: Vec<Stay>,
}

impl Log {
    pub(super) fn push(
        &mut self,
        from: u64,
        to: u64,
        doing: Doing,
        stack: Option<StackKey>,
        woken: Option<(Waker, u64)>,
    ) {
        if to > from {
            self.stays.push(Stay::new(from, to, doing, stack, woken));
        }
    }

    /// After the last wake, other programs had the CPU.
    pub(super) fn displaced(&mut self) {
        self.stays.iter_mut().last().into_iter().for_each(|stay| stay.delay |= BY_OTHERS);
    }

    /// The one that began then was ended by this thread.
    pub(super) fn set_waker(&mut self, from: u64, waker: (Waker, u64)) {
        let lately = self.stays.iter_mut().rev().take_while(|stay| stay.from >= from);
        if let Some(stay) = lately.last().filter(|stay| stay.from == from) {
            stay.set_waker(waker);
        }
    }

    /// Those that began at these moments, in order, were ended by these threads.
    pub(super) fn set_wakers(&mut self, wakers: &[(u64, (Waker, u64))]) {
        let mut wakers = wakers.iter().peekable();
        for stay in &mut self.stays {
            if let Some((_, waker)) = wakers.next_if(|(from, _)| *from == stay.from) {
                stay.set_waker(*waker);
            }
        }
    }

    /// What was taken for the one is the other, in this stack.
    pub(super) fn replace(&mut self, one: Doing, other: Doing, stack: Option<StackKey>) {
        let (one, other) = (packed(one), packed(other));
        let stays = self.stays.iter_mut().filter(|stay| stay.doing == one);
        stays.for_each(|stay| (stay.doing, stay.stack) = (other, stack));
    }

    pub(super) fn stays(&self) -> &[Stay] {
        &self.stays
    }

    /// The stretches that end after `from` and begin before `to`.
    pub(super) fn within(&self, from: u64, to: u64) -> &[Stay] {
        let first = self.stays.partition_point(|stay| stay.to <= from);
        let rest = &self.stays[first..];
        // Most windows hold few.
        let len = match rest.get(16) {
            Some(stay) if stay.from < to => rest.partition_point(|stay| stay.from < to),
            _ => rest.iter().take_while(|stay| stay.from < to).count(),
        };
        &rest[..len]
    }

    /// The last stretch that begins before this moment.
    pub(super) fn before(&self, at: u64) -> Option<(usize, &Stay)> {
        let after = self.stays.partition_point(|stay| stay.from < at);
        after.checked_sub(1).map(|index| (index, &self.stays[index]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out() {
        let mut log = Log::default();
        let doings = [
            Doing::Futex(Id::of(7)),
            Doing::Block(Id::of(3)),
            Doing::Plain(Plain::Sleep),
            Doing::Plain(Plain::Unknown),
        ];
        for (at, doing) in (0..).zip(doings) {
            log.push(at * 100, at * 100 + 50, doing, None, None);
        }
        log.push(500, 500, Doing::Ready, None, None);
        assert_eq!(log.stays().iter().map(Stay::doing).collect::<Vec<_>>(), doings);
        for waker in [Waker::Outside, Waker::Timeout, Waker::Thread(ThreadId::of(2))] {
            log.set_waker(100, (waker, 130));
            log.set_waker(101, (Waker::Outside, 140));
            assert_eq!((log.stays()[1].waker(), log.stays()[1].woken()), (Some(waker), 130));
        }
        assert_eq!((log.stays()[0].waker(), log.stays()[0].woken()), (None, 50));
        assert_eq!(log.within(120, 210).len(), 2);
        assert_eq!(log.within(150, 200).len(), 0);
        assert_eq!(log.before(201).map(|(at, _)| at), Some(2));
        assert_eq!(log.before(0), None);
    }
}
