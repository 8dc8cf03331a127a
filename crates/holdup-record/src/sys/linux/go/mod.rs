//! Looks at Go's goroutines, from outside: what each waits for and where, read from the runtime's list of them and
//! from their stacks. The program does not notice.
//!
//! A goroutine that waits stays where it is found, and its stack is walked by frame pointers, which Go keeps. Of one
//! that runs, only that it does is known. What is read is checked (addresses that lead nowhere, goroutines that have
//! gone on meanwhile), and what fits is believed: it was so a moment ago.
//!
//! Reading needs the right to trace the process, which children grant and others may not. Where the runtime has its
//! variables, the program's symbol table tells, and of stripped programs what they hold.

mod channels;
mod layout;
mod stripped;
mod symbols;

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use holdup_trace::{Event, NO_CPU, TaskGroup, TaskState, Tasks, Tid, What};
use rustc_hash::FxHashMap;

use self::channels::{Channel, Channels};
use self::layout::{Layout, MOST_GOROUTINES, MOST_REASONS, ROWS};
use self::stripped::Sections;
use self::symbols::Symbols;
use super::allowance::Allowance;
use super::looks::Seen;
use super::memory::{Memory, pointer_at, u32_at, u64_at};
use super::snapshot::Mapped;
use super::{machine, words};

/// A process that runs Go's scheduler.
#[derive(Debug)]
pub struct Scheduler {
    pid: u32,
    memory: Memory,
    symbols: Symbols,
    /// Of a stripped program, until the table of semaphores is found; and what searching for it may take.
    stripped: Option<(Sections, Allowance)>,
    layout: Layout,
    channels: Channels,
    /// The runtime's words for what a goroutine waits for, by number.
    reasons: Vec<Arc<str>>,
    /// Which goroutine the next look begins with, if they are too many for one.
    turn: u64,
}

/// What goroutines of one group have in common: state, reason, what they wait for with its places, and where they are.
type Alike = (TaskState, u8, u64, Option<u64>, Vec<u64>);

/// The fields of a goroutine that all versions have in the same place.
const STACK_END: usize = 8;
const STACK_POINTER: usize = 56;
const INSTRUCTION: usize = 64;
/// Bytes at the beginning of a goroutine that all these fields lie in.
const GOROUTINE: usize = 208;
/// Bytes of an entry of the table of semaphores that its fields lie in.
const WAITER: usize = 88;
/// What a word of status says beside the state: a collection looks at the stack.
const SCANNED: u32 = 0x1000;
/// So many goroutines are looked at in one round; of more, some, others in the next.
const MOST_LOOKED: u64 = 256;
/// Frames of a stack, entries of the table of semaphores: more were damaged while they were read, or are not worth it.
const MOST_FRAMES: usize = 64;
const MOST_WAITERS: usize = 256;
/// So far from the stack pointer is the first frame looked for, where no register tells.
const SEARCHED: u64 = 1_024;
const LONGEST_REASON: usize = 64;
/// Searches of a stripped program may take a twentieth of a CPU, and the first some more.
const SEARCH_ONE_IN: u64 = 20;
const SEARCH_SAVED: Duration = Duration::from_millis(5);

impl Scheduler {
    /// The scheduler of a process whose /proc/PID/maps this is.
    pub fn find(pid: u32, maps: &str) -> Option<Scheduler> {
        if cfg!(not(target_arch = "x86_64")) {
            return None;
        }
        let path = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let base = loaded(maps, path.to_str()?)?;
        let file = File::open(format!("/proc/{pid}/exe")).ok()?;
        let mut memory = Memory::of(pid);
        let (symbols, version, stripped) = match Symbols::read(&file) {
            Some(symbols) => {
                let symbols = symbols.moved(base);
                let version = text(symbols.version, &mut memory)?;
                (symbols, version, None)
            }
            None => {
                let sections = Sections::read(&file)?.moved(base);
                let version = sections.version.clone();
                minor(&version)?;
                let searches = Allowance::new(SEARCH_ONE_IN, SEARCH_SAVED);
                (sections.symbols(pid, &mut memory)?, version, Some((sections, searches)))
            }
        };
        let minor = minor(&version)?;
        let reasons = reasons(symbols.reasons, &mut memory);
        let first = first(&symbols, &mut memory)?;
        let is_first = |at: u64, memory: &mut Memory| memory.word(first + at) == Some(1);
        let at_160 = is_first(160, &mut memory);
        let at_152 = is_first(152, &mut memory);
        // Both, or none: before it is initialized, or of a version that is built otherwise.
        (at_160 != at_152).then_some(())?;
        Some(Scheduler {
            pid,
            memory,
            symbols,
            stripped,
            layout: Layout::of(minor, at_160),
            channels: Channels::default(),
            reasons,
            turn: 0,
        })
    }

    /// Tells what the goroutines do. `None` if there is no scheduler any more.
    pub fn look(&mut self, see: &mut impl FnMut(Seen)) -> Option<()> {
        let time_ns = machine::now_ns();
        self.memory.refresh();
        let first = first(&self.symbols, &mut self.memory)?;
        (self.memory.word(first + self.layout.number as u64)? == 1).then_some(())?;
        let list = self.memory.pointer(self.symbols.goroutines)?;
        let count = self.memory.word(self.symbols.goroutines + 8)?.min(MOST_GOROUTINES);
        let waited = self.waited();
        let step = count.div_ceil(MOST_LOOKED).max(1);
        self.turn = if self.turn + 1 < step { self.turn + 1 } else { 0 };
        let mut groups: FxHashMap<Alike, (u64, u64)> = FxHashMap::default();
        let mut waiting = Vec::new();
        let (mut asked, mut looked) = (0_u64, 0);
        for index in (self.turn..count).step_by(step as usize) {
            asked += 1;
            let Some(goroutine) = self.memory.pointer(list + index * 8) else { continue };
            let Some((state, reason, number, chain)) = self.look_at(goroutine) else { continue };
            looked += 1;
            if state == TaskState::Waiting && self.stripped.is_some() && self.is_for_semaphore(reason) {
                waiting.push(goroutine);
            }
            let waits = state == TaskState::Waiting;
            let channel = if waits && self.is_for_channel(reason) { self.channel(goroutine) } else { None };
            let semaphore = waited.get(&goroutine).copied().filter(|_| waits).unwrap_or(0);
            // What nobody else waits for makes no group of its own.
            let addr = channel.map_or(semaphore, |channel| if channel.alone { 0 } else { channel.addr });
            let group = groups.entry((state, reason, addr, channel.map(|channel| channel.places), chain));
            let (count, example) = group.or_insert((0, number));
            (*count, *example) = (*count + 1, number.min(*example));
        }
        self.find_semaphores(time_ns, &waiting);
        let all = if step == 1 { looked } else { looked * count / asked.max(1) };
        let mut groups: Vec<_> = groups.into_iter().collect();
        groups.sort_unstable();
        let (mut told, mut chains) = (Vec::with_capacity(groups.len()), Vec::with_capacity(groups.len()));
        for ((state, reason, addr, places, chain), (count, example)) in groups {
            let reason = match state {
                TaskState::Waiting => self.reasons.get(usize::from(reason)).cloned().unwrap_or_default(),
                _ => Arc::default(),
            };
            told.push(TaskGroup { count, state, reason, addr, places, example, stack: None });
            chains.push(chain);
        }
        let what = What::Tasks(Box::new(Tasks { all, looked, groups: told }));
        see(Seen { event: Event { time_ns, tid: Tid(self.pid), cpu: NO_CPU, what }, still: None, chains });
        Some(())
    }

    /// Whether a goroutine that waits for this is in the table of semaphores.
    fn is_for_semaphore(&self, reason: u8) -> bool {
        let reason = self.reasons.get(usize::from(reason)).map_or("", |reason| reason);
        reason.starts_with("sync.") || reason == "semacquire"
    }

    fn is_for_channel(&self, reason: u8) -> bool {
        let reason = self.reasons.get(usize::from(reason)).map_or("", |reason| reason);
        ["chan receive", "chan send", "select"].contains(&reason)
    }

    fn channel(&mut self, goroutine: u64) -> Option<Channel> {
        self.channels.of(&mut self.memory, self.layout, goroutine)
    }

    /// Of a stripped program, the table of semaphores is found once somebody waits for one.
    fn find_semaphores(&mut self, now_ns: u64, waiting: &[u64]) {
        let Some((sections, searches)) = &mut self.stripped else { return };
        searches.earn(now_ns);
        if waiting.is_empty() || !searches.is_left() {
            return;
        }
        let found = searches.spend_on(|| sections.semaphores(self.pid, self.layout, waiting));
        if let Some(found) = found {
            self.symbols.semaphores = found;
            self.stripped = None;
        }
    }

    /// What one does, its number, and where: instruction and return addresses, innermost first. `None` if there is none
    /// there, or if it has gone on meanwhile.
    fn look_at(&mut self, goroutine: u64) -> Option<(TaskState, u8, u64, Vec<u64>)> {
        let layout = self.layout;
        let fields = self.memory.bytes(goroutine, GOROUTINE)?;
        let field = |at: usize| u64_at(&fields, at).unwrap_or(0);
        let state = match u32_at(&fields, layout.status)? & !SCANNED {
            // Those whose stack is just moved are about to wait or to run.
            1 | 9 => TaskState::Runnable,
            2 | 8 => TaskState::Running,
            3 => TaskState::Call,
            4 => TaskState::Waiting,
            _ => return None,
        };
        let end = field(STACK_END);
        let chain = match state {
            TaskState::Running => Vec::new(),
            TaskState::Call => {
                let (sp, pc) = (field(layout.call), field(layout.call + 8));
                let frame = if layout.call_has_frame { field(layout.call + 16) } else { 0 };
                self.chain(pc, sp, frame, end)
            }
            _ => self.chain(field(INSTRUCTION), field(STACK_POINTER), field(layout.frame), end),
        };
        let mut again = [0; GOROUTINE];
        let read = words::read_bytes(self.pid, goroutine, &mut again);
        let same = |from: usize, to: usize| again.get(from..to) == fields.get(from..to);
        let stayed = read == again.len()
            && same(layout.number, layout.number + 8)
            && (state == TaskState::Running || same(STACK_POINTER, layout.call + 16));
        stayed.then_some((state, fields[layout.reason], field(layout.number), chain))
    }

    /// The chain of frame pointers; from the stack pointer on, the first that looks like one, if none is given.
    fn chain(&mut self, pc: u64, sp: u64, frame: u64, end: u64) -> Vec<u64> {
        let (from, to) = self.symbols.text;
        let is_code = |addr: u64| addr > from && addr <= to;
        let mut chain = vec![pc];
        if !is_code(pc) || !sp.is_multiple_of(8) || sp >= end {
            return Vec::new();
        }
        let memory = &mut self.memory;
        let mut pair = |at: u64| {
            let inside = at >= sp && at.is_multiple_of(8) && at.checked_add(16).is_some_and(|top| top <= end);
            let bytes = memory.bytes(at, 16).filter(|_| inside)?;
            let (outer, back) = (u64_at(&bytes, 0)?, u64_at(&bytes, 8)?);
            (is_code(back) && (outer == 0 || outer > at && outer < end)).then_some((outer, back))
        };
        let searched = || (sp..end.min(sp.saturating_add(SEARCHED))).step_by(8);
        let first = if inside(frame, sp, end) { pair(frame) } else { None };
        // Of words that lie side by side by chance, none leads on.
        let mut leads_on = |at| pair(at).filter(|(outer, _)| pair(*outer).is_some());
        let mut next = first.or_else(|| searched().find_map(&mut leads_on));
        while let Some((outer, back)) = next
            && chain.len() < MOST_FRAMES
        {
            chain.push(back);
            next = pair(outer);
        }
        chain
    }

    /// Who waits for which semaphore: goroutine, and the semaphore's address. The table's rows are trees of entries
    /// with one address each, from which the others who wait for it hang.
    fn waited(&mut self) -> FxHashMap<u64, u64> {
        let mut found = FxHashMap::default();
        let (table, size) = self.symbols.semaphores;
        let row = size / ROWS;
        if !(24..=1024).contains(&row) || table == 0 {
            return found;
        }
        let Some(rows) = self.memory.bytes(table, (row * ROWS) as usize) else { return found };
        let roots = rows.chunks_exact(row as usize).filter(|row| u32_at(row, 16).is_some_and(|waiters| waiters > 0));
        // What hangs from an entry with an address has the same one; children in the tree have their own.
        let mut open: Vec<(u64, Option<u64>)> =
            roots.filter_map(|row| pointer_at(row, 8)).map(|root| (root, None)).collect();
        let layout = self.layout;
        for _ in 0..MOST_WAITERS {
            let Some((entry, of)) = open.pop() else { break };
            let Some(fields) = self.memory.bytes(entry, WAITER) else { continue };
            let field = |at: usize| pointer_at(&fields, at);
            let (Some(goroutine), Some(addr)) = (field(0), of.or(field(layout.address))) else { continue };
            if found.insert(goroutine, addr).is_some() {
                continue;
            }
            open.extend(field(layout.next).map(|next| (next, Some(addr))));
            if of.is_none() {
                open.extend([field(8), field(16)].into_iter().flatten().map(|child| (child, None)));
            }
        }
        found
    }
}

impl Symbols {
    /// As they are in a process that has loaded the file here.
    fn moved(self, base: u64) -> Symbols {
        let bias = base.wrapping_sub(self.first);
        let moved = |addr: u64| if addr == 0 { 0 } else { addr.wrapping_add(bias) & (u64::MAX >> 8) };
        Symbols {
            text: (moved(self.text.0), moved(self.text.1)),
            goroutines: moved(self.goroutines),
            semaphores: (moved(self.semaphores.0), self.semaphores.1),
            reasons: (moved(self.reasons.0), self.reasons.1),
            version: moved(self.version),
            first: base,
        }
    }
}

fn inside(frame: u64, sp: u64, end: u64) -> bool {
    (sp..end).contains(&frame)
}

/// The first goroutine, which the program's `main` runs in.
fn first(symbols: &Symbols, memory: &mut Memory) -> Option<u64> {
    let list = memory.pointer(symbols.goroutines)?;
    (memory.word(symbols.goroutines + 8)? > 0).then_some(())?;
    memory.pointer(list)
}

/// Where the program's file is loaded, by the text of /proc/PID/maps.
fn loaded(maps: &str, path: &str) -> Option<u64> {
    maps.lines().filter_map(Mapped::read).find(|mapped| mapped.path.ends_with(path)).map(|mapped| mapped.start)
}

/// `go1.22.5` is 22; one between versions counts as the newest.
fn minor(version: &str) -> Option<u32> {
    let Some(rest) = version.strip_prefix("go1.") else {
        return version.starts_with("devel").then_some(u32::MAX);
    };
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok().filter(|minor| *minor >= OLDEST)
}

/// The oldest version whose goroutines are built as told here.
const OLDEST: u32 = 18;

/// A text: address and length.
fn text(at: u64, memory: &mut Memory) -> Option<String> {
    let (bytes, len) = (memory.pointer(at)?, memory.word(at + 8)?);
    let bytes = memory.bytes(bytes, usize::try_from(len).ok().filter(|len| *len <= LONGEST_REASON)?)?;
    Some(String::from_utf8_lossy(&bytes).replace(char::is_control, "\u{fffd}"))
}

fn reasons((at, size): (u64, u64), memory: &mut Memory) -> Vec<Arc<str>> {
    let all = (0..(size / 16).min(MOST_REASONS)).map(|index| at + index * 16);
    all.map(|at| text(at, memory).unwrap_or_default().into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What reads this process as if it were Go's.
    fn scheduler() -> Scheduler {
        let pid = std::process::id();
        let symbols = Symbols { text: (0x1000, 0x2000), ..Symbols::default() };
        Scheduler {
            pid,
            memory: Memory::of(pid),
            symbols,
            stripped: None,
            layout: Layout::of(19, false),
            channels: Channels::default(),
            reasons: Vec::new(),
            turn: 0,
        }
    }

    #[test]
    fn stacks_are_walked_to_their_end_and_no_further() {
        let mut stack = vec![0_u64; 32];
        let at = |index: usize, stack: &[u64]| stack.as_ptr() as u64 + 8 * index as u64;
        (stack[4], stack[5]) = (at(8, &stack), 0x1100);
        (stack[8], stack[9]) = (0, 0x1200);
        let (sp, end) = (at(0, &stack), at(32, &stack));
        let walk = |frame| scheduler().chain(0x1050, sp, frame, end);
        assert_eq!(walk(at(4, &stack)), [0x1050, 0x1100, 0x1200]);
        assert_eq!(walk(0), [0x1050, 0x1100, 0x1200], "it is searched for");
        assert_eq!(walk(u64::MAX - 7), [0x1050, 0x1100, 0x1200]);
        stack[2] = 0x1300;
        assert_eq!(walk(0), [0x1050, 0x1100, 0x1200], "a zero before an address of code is no frame");
        assert_eq!(scheduler().chain(0x3000, sp, at(4, &stack), end), [0; 0], "no code");
        assert_eq!(scheduler().chain(0x1050, u64::MAX - 7, 0, u64::MAX), [0x1050]);
        // One that leads to itself.
        stack[8] = at(4, &stack);
        assert_eq!(scheduler().chain(0x1050, sp, at(4, &stack), end), [0x1050, 0x1100]);
    }

    #[test]
    fn a_table_of_semaphores_that_leads_around_ends() {
        let mut entries = vec![[0_u64; 11]; 3];
        let at = |index: usize, entries: &[[u64; 11]]| entries[index].as_ptr() as u64;
        let (a, b, c) = (at(0, &entries), at(1, &entries), at(2, &entries));
        // The first is waited for by two, the second is its child in the tree, and leads back.
        (entries[0][0], entries[0][1], entries[0][3], entries[0][8]) = (0x71, b, 0xa0, c);
        (entries[1][0], entries[1][2], entries[1][3]) = (0x72, a, 0xb0);
        (entries[2][0], entries[2][3], entries[2][8]) = (0x73, 0xa0, a);
        let mut table = vec![0_u64; 8 * ROWS as usize];
        (table[8 * 7 + 1], table[8 * 7 + 2]) = (a, 3);
        let mut scheduler = scheduler();
        scheduler.symbols.semaphores = (table.as_ptr() as u64, 64 * ROWS);
        let mut found: Vec<(u64, u64)> = scheduler.waited().into_iter().collect();
        found.sort_unstable();
        assert_eq!(found, [(0x71, 0xa0), (0x72, 0xb0), (0x73, 0xa0)]);
    }

    #[test]
    fn versions_have_their_layouts() {
        assert_eq!(minor("go1.19.8"), Some(19));
        assert_eq!(minor("go1.26rc1"), Some(26));
        assert_eq!(minor("go1.9"), None);
        assert_eq!(minor("devel +6e9925a 2025"), Some(u32::MAX));
        assert_eq!(minor(""), None);
        let of = |minor, at_160| {
            let Layout { frame, call, status, reason, .. } = Layout::of(minor, at_160);
            (frame, call, status, reason)
        };
        assert_eq!(of(19, false), (104, 112, 144, 176));
        assert_eq!(of(23, true), (104, 112, 152, 184));
        assert_eq!(of(26, false), (96, 104, 144, 176));
    }
}
