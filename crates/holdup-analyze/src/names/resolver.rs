//! Answers about addresses, once all events are known, and keeps every answer.

use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::Arc;

use holdup_trace::{FutexOp, Pointers, Stack, StackId, Stacks, Word};
use rustc_hash::{FxHashMap, FxHashSet};

use super::allowance::Allowance;
use super::code_map::CodeMap;
use super::demangle::demangle;
use super::generated::{self, Runtime};
use super::instruction::{self, Found, Suspect};
use super::jit_dump::{self, JitDump};
use super::looking::Between;
use super::operand::{self, Operand};
use super::place::Place;
use super::spaces::{FileId, MappedFile, Names, Region, SpaceId};
use super::symbols::{Binary, Loaded, Machine};
use super::unwind::{self, SpaceUnwinder};
use super::{Frame, GENERATED, JAVA, Modules, Role, interpreted, looking, looking_script, primitive, roles, stubs};
use crate::Problem;
use crate::facts::{HotspotClass, LockName, Primitive};

/// No function of the kernel is longer (the longest that was seen has 20 KiB): an address this far behind the last one
/// known lies in code that has no name, as a BPF program.
const KERNEL_FUNCTION_BYTES: u64 = 64 << 10;

/// A script that is larger is data.
const MOST_TEXT: usize = 4 << 20;

/// How far behind its start code still belongs to a function whose end nothing tells.
const NAMELESS_FUNCTION_BYTES: u64 = 4 << 10;

/// Answers, once all events are known. Caches; hence `&mut self` throughout.
pub(crate) struct Resolver<'s, 'a> {
    names: Names,
    stacks: &'s Stacks,
    modules: &'a dyn Modules,
    allowance: Rc<Allowance>,
    /// Whether the frame pointers of stacks are guesses.
    has_guesses: bool,
    /// By [`FileId`].
    files: Vec<FileState<'a>>,
    unwinders: FxHashMap<SpaceId, SpaceUnwinder<'a>>,
    call_paths: FxHashMap<(SpaceId, StackId), Arc<[Frame]>>,
    /// Functions and lines by (file, address in it); the frames' own addresses are those of whoever asked first.
    frames: FxHashMap<(FileId, u64), Arc<[Frame]>>,
    strings: FxHashSet<Arc<str>>,
    /// What was found at sampled instructions, by (file, address in it).
    inspected: FxHashMap<(FileId, u64), Option<Found>>,
    /// By the call that sleeps: its process, its file, and where in that, or the line of a script.
    between_sleeps: FxHashMap<(SpaceId, Arc<str>, u64), Option<Between>>,
    /// Operands of the instructions around sampled addresses, with how far their binary has moved.
    operands: FxHashMap<(SpaceId, u64), Placed>,
    generated: FxHashMap<SpaceId, Generated>,
    /// When the stack was seen that is asked about now.
    seen_ns: Option<u64>,
}

/// Binaries that were taken apart for one report, for the next one of the same program: reading their debug information
/// is most of what a report of few seconds costs.
#[derive(Default)]
pub struct Parsed<'a> {
    files: FxHashMap<MappedFile, Loaded<'a>>,
}

impl std::fmt::Debug for Parsed<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parsed").field("files", &self.files.len()).finish()
    }
}

/// Operands, and how far their binary has moved.
type Placed = (Arc<[Operand]>, u64);

/// What an instruction does to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// The address that it works on.
    pub addr: u64,
    /// Otherwise a number that is not known is added to the address: one of the object's there.
    pub is_exact: bool,
    /// Whether it writes there.
    pub writes: bool,
    /// Where the instruction is.
    pub at: u64,
    /// Whether it is an atomic one.
    pub is_atomic: bool,
}

/// What is known of the code that a space's program made as it ran.
#[derive(Default)]
struct Generated {
    runtime: Runtime,
    /// What its dumps say, with their paths.
    dumps: Vec<(JitDump, String)>,
    /// What its map says, with the map's path.
    map: Option<(CodeMap, String)>,
    /// Whether looks at its machine tell what code is; there, the map only completes that.
    is_looked_at: bool,
    /// Stacks that lead through it, and of these, those with a frame that nothing names.
    hits: u64,
    nameless: u64,
    last_hit: usize,
    last_nameless: usize,
}

impl Generated {
    /// Reads what the space's process wrote of the code that it made.
    fn read(names: &Names, modules: &dyn Modules, stacks: &Stacks, space: SpaceId) -> Generated {
        let paths = || names.regions(space).iter().map(|region| &*names.file(region.file).path);
        let about = || nameless_addresses(names, stacks, space);
        let dump_of = |pid, mapped: &str| {
            let mut dump = None;
            let path = modules
                .jit_dump(pid, mapped, &mut |part| dump.get_or_insert_with(|| JitDump::about(about())).read(part))?;
            Some((dump.unwrap_or_default().end(), path))
        };
        let map_of = |pid| {
            let mut map = None;
            let path =
                modules.code_map(pid, &mut |part| map.get_or_insert_with(|| CodeMap::about(about())).read(part))?;
            Some((map.unwrap_or_default().end(), path))
        };
        let owner = names.owner(space);
        let mut mapped: Vec<&str> = paths().filter(|path| jit_dump::is_dump(path)).collect();
        mapped.dedup();
        Generated {
            runtime: Runtime::of(paths()),
            dumps: owner.map(|pid| mapped.iter().filter_map(|path| dump_of(pid, path)).collect()).unwrap_or_default(),
            map: owner.and_then(map_of),
            is_looked_at: names.has_codes(space),
            ..Generated::default()
        }
    }

    /// What was at an address at that time, or at last.
    fn function(&self, address: u64, time_ns: Option<u64>) -> Option<generated::Function> {
        if let Some(found) = self.dumps.iter().find_map(|(dump, _)| dump.found(address, time_ns)) {
            let function = generated::function(self.runtime, &found.name);
            // What is told by the name is told by the runtime itself.
            return Some(match found.place.filter(|_| function.file.is_none()) {
                Some((file, line)) => generated::Function { file: Some(file), line: Some(line), ..function },
                None => function,
            });
        }
        let name = self.map.as_ref()?.0.name(address)?;
        Some(generated::function(self.runtime, &name))
    }

    /// Where it is written.
    fn path(&self) -> Option<&str> {
        let dump = self.dumps.first().map(|(_, path)| path);
        dump.or(self.map.as_ref().map(|(_, path)| path)).map(String::as_str)
    }
}

/// A file of the recording, as far as it was looked at.
#[derive(Default)]
struct FileState<'a> {
    loaded: Option<Loaded<'a>>,
    /// Stacks that lead through it.
    hits: u64,
    /// Of these, stacks with a frame of the program itself that has no line.
    without_line: u64,
    /// Whether some frame of it has a line: then it was built with them, and nothing is to be mended.
    has_lines: bool,
    /// The last stacks that were counted above.
    last_hit: usize,
    last_without_line: usize,
}

impl<'s, 'a> Resolver<'s, 'a> {
    pub(crate) fn new(names: Names, stacks: &'s Stacks, modules: &'a dyn Modules) -> Self {
        let files = (0..names.files()).map(|_| FileState::default()).collect();
        Resolver {
            names,
            stacks,
            modules,
            allowance: Rc::default(),
            has_guesses: false,
            files,
            unwinders: FxHashMap::default(),
            call_paths: FxHashMap::default(),
            frames: FxHashMap::default(),
            strings: FxHashSet::default(),
            inspected: FxHashMap::default(),
            between_sleeps: FxHashMap::default(),
            operands: FxHashMap::default(),
            generated: FxHashMap::default(),
            seen_ns: None,
        }
    }

    /// Where threads were only looked at, the frame pointers of their stacks are guesses.
    pub(crate) fn with_guesses(self, has_guesses: bool) -> Self {
        Resolver { has_guesses, ..self }
    }

    /// Files that were read for the last report are not read again.
    pub(crate) fn with_files(mut self, parsed: &mut Parsed<'a>) -> Self {
        for (index, state) in self.files.iter_mut().enumerate() {
            state.loaded = parsed.files.remove(self.names.file(FileId(index as u32)));
        }
        self
    }

    /// The files that were read, for the next report.
    pub(crate) fn into_files(self) -> Parsed<'a> {
        let Resolver { names, files, .. } = self;
        let loaded = files
            .into_iter()
            .enumerate()
            .filter_map(|(index, state)| Some((names.file(FileId(index as u32)).clone(), state.loaded?)));
        Parsed { files: loaded.collect() }
    }

    /// The call path of a stack: kernel part, then user part unwound from the words and spliced on the chain, innermost
    /// first, with inlined frames. Cached by (space, stack).
    pub(crate) fn call_path(&mut self, space: SpaceId, stack: StackId) -> Arc<[Frame]> {
        if let Some(call_path) = self.call_paths.get(&(space, stack)) {
            return call_path.clone();
        }
        let mut frames = Vec::new();
        if let Some(found) = self.stacks.get(stack) {
            frames.extend(found.kernel.iter().enumerate().map(|(at, ip)| self.kernel_frame(*ip, at > 0)));
            frames.drain(..of_recorder(&frames));
            self.seen_ns = self.names.first_seen(space, stack);
            for (at, address) in self.user_path(space, stack).into_iter().enumerate() {
                if at > 0 {
                    self.name_callee(space, address, frames.last_mut());
                    let left = self.left_by_jump(space, address, frames.last());
                    frames.extend(left);
                }
                let address = if at == 0 { address } else { address.wrapping_sub(1) };
                self.add_user_frames(space, address, &mut frames);
            }
        }
        self.seen_ns = None;
        let call_path: Arc<[Frame]> = frames.into();
        self.call_paths.insert((space, stack), call_path.clone());
        call_path
    }

    /// Whether a sample of this stack hit what the kernel does for the recording.
    pub(crate) fn is_of_recording(&mut self, stack: StackId) -> bool {
        let kernel = self.stacks.get(stack).map_or(&[][..], |stack| &stack.kernel);
        kernel.iter().any(|ip| self.kernel_function(*ip).is_some_and(records))
    }

    /// The frames of one address, innermost first.
    pub(crate) fn frames_at(&mut self, space: SpaceId, address: u64) -> Vec<Frame> {
        let mut frames = Vec::new();
        self.add_user_frames(space, address, &mut frames);
        frames
    }

    /// The variable that an address is in.
    pub(crate) fn variable(&mut self, space: SpaceId, addr: u64) -> Option<LockName> {
        for region in self.names.regions(space).to_vec() {
            // Only code is recorded as mapped; a binary's data moved by as much as its code did.
            let Some((binary, bias)) = self.placed(region) else { continue };
            let address = addr.wrapping_sub(bias);
            if binary.maps(address) {
                let symbol = binary.variable(address)?;
                let within = address - symbol.address;
                let (path, offset) = binary.member(symbol, within).unwrap_or((String::new(), within));
                return Some(LockName::Symbol { name: demangle(symbol.name) + &path, offset });
            }
        }
        None
    }

    /// What a futex is, from who waits on it how.
    pub(crate) fn primitive(&mut self, op: FutexOp, call_path: &[Frame]) -> Primitive {
        primitive::classify(op, call_path)
    }

    /// Whether the sample was taken right behind an atomic instruction or a pause.
    pub(crate) fn suspect(&mut self, space: SpaceId, stack: StackId) -> Option<Suspect> {
        let stack = self.stacks.get(stack)?;
        if !stack.kernel.is_empty() {
            return None;
        }
        let ip = stack.registers.map(|registers| registers.ip).or(stack.user.first().copied())?;
        if self.names.code(space, ip).is_some_and(|code| code.behind_pause == Some(ip)) {
            let (frame, inlined_into) = (self.generated_frame(space, ip, None), Vec::new());
            let (instruction, class) = ("pause".into(), HotspotClass::Pause);
            return Some(Suspect { frame, inlined_into, instruction, class, variable: None });
        }
        let (found, bias) = self.inspected(space, ip)?;
        let found = found?;
        let mut frames = self.frames_at(space, found.address.wrapping_add(bias)).into_iter();
        let (frame, inlined_into) = (frames.next()?, frames.collect());
        let variable = found.operand.and_then(|operand| self.variable(space, operand.wrapping_add(bias)));
        Some(Suspect { frame, inlined_into, instruction: found.text, class: found.class, variable })
    }

    /// What was found at an instruction, and how far its binary has moved.
    fn inspected(&mut self, space: SpaceId, ip: u64) -> Option<(Option<Found>, u64)> {
        let region = self.names.region(space, ip)?;
        let (_, bias) = self.placed(region)?;
        let key = (region.file, ip.wrapping_sub(bias));
        if let Some(known) = self.inspected.get(&key) {
            return Some((known.clone(), bias));
        }
        let found = instruction::inspect(self.binary(region.file)?, key.1);
        self.inspected.insert(key, found.clone());
        Some((found, bias))
    }

    /// What the program's own function of a call path does in a loop between two calls of what is below it, where its
    /// code tells.
    pub(crate) fn between_sleeps(&mut self, space: SpaceId, call_path: &[Frame]) -> Option<Between> {
        let own = call_path.iter().position(|frame| frame.role == Role::Program).filter(|at| *at > 0);
        let frame = own.map(|at| &call_path[at])?;
        // Many threads sleep in the same place.
        let line = frame.line.filter(|_| interpreted::is_script(frame));
        let key = (space, frame.module.clone(), line.map_or(frame.offset, u64::from));
        if let Some(known) = self.between_sleeps.get(&key) {
            return *known;
        }
        let found = self.inspect_between_sleeps(space, frame);
        self.between_sleeps.insert(key, found);
        found
    }

    fn inspect_between_sleeps(&mut self, space: SpaceId, frame: &Frame) -> Option<Between> {
        if interpreted::is_script(frame) {
            let text = self.modules.file(&frame.module, None).filter(|text| text.len() <= MOST_TEXT)?;
            let text = std::str::from_utf8(text).ok()?;
            return looking_script::only_looks(&frame.module, text, frame.line?).then_some(Between::Looks);
        }
        let in_file = |region: &&Region| self.names.file(region.file).path == frame.module;
        let region = self.names.regions(space).iter().find(in_file).copied()?;
        let returns_to = frame.offset + 1;
        self.placed(region).and_then(|(binary, _)| looking::between_sleeps(binary, returns_to))
    }

    /// The instruction that a sample in user mode was taken at.
    pub(crate) fn sampled_at(&self, stack: StackId) -> Option<u64> {
        let stack = self.stacks.get(stack).filter(|stack| stack.kernel.is_empty())?;
        stack.registers.map(|registers| registers.ip).or(stack.user.first().copied())
    }

    /// What the instructions around a sample did to memory, as far as its registers tell.
    pub(crate) fn accesses(&mut self, space: SpaceId, pointers: &Pointers) -> Vec<Access> {
        let (operands, bias) = self.operands(space, pointers.ip);
        let access = |operand: &Operand| {
            let (addr, is_exact) = operand.address(pointers, bias)?;
            let Operand { at, writes, is_atomic, .. } = *operand;
            Some(Access { addr, is_exact, writes, is_atomic, at: at.wrapping_add(bias) })
        };
        operands.iter().filter_map(access).collect()
    }

    fn operands(&mut self, space: SpaceId, ip: u64) -> Placed {
        if let Some(known) = self.operands.get(&(space, ip)) {
            return known.clone();
        }
        let found: Placed = self.read_operands(space, ip).unwrap_or_default();
        self.operands.insert((space, ip), found.clone());
        found
    }

    fn read_operands(&mut self, space: SpaceId, ip: u64) -> Option<Placed> {
        let (found, bias) = self.inspected(space, ip)?;
        let region = self.names.region(space, ip)?;
        let operands = operand::operands(self.binary(region.file)?, ip.wrapping_sub(bias), found.as_ref());
        Some((operands.into(), bias))
    }

    /// Problems met on the way.
    pub(crate) fn problems(&mut self) -> Vec<Problem> {
        let mut problems: Vec<Problem> = Vec::new();
        for (index, state) in self.files.iter().enumerate() {
            let path = || self.names.file(FileId(index as u32)).path.to_string();
            let problem = match &state.loaded {
                Some(Loaded::Unreadable) if state.hits > 0 => Problem::Unreadable { path: path(), hits: state.hits },
                Some(Loaded::Replaced) if state.hits > 0 => Problem::Replaced { path: path() },
                Some(Loaded::Ready(binary)) if state.without_line > 0 && binary.has_costly_lines() => {
                    Problem::CostlyLines { path: path(), hits: state.without_line }
                }
                Some(Loaded::Ready(_)) if state.without_line > 0 && !state.has_lines => {
                    Problem::NoLines { path: path(), hits: state.without_line }
                }
                _ => continue,
            };
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        problems.extend(self.maps_missing());
        problems
    }

    fn maps_missing(&self) -> Vec<Problem> {
        /// Fewer nameless stacks are no matter, unless nothing has a name; nor is a smaller part of them.
        const MATTERS: u64 = 10;
        let mut problems = Vec::new();
        for runtime in [Runtime::Java, Runtime::Node, Runtime::Python, Runtime::DotNet] {
            let of_runtime = || self.generated.values().filter(|known| known.runtime == runtime);
            let hits: u64 = of_runtime().map(|known| known.nameless).sum();
            let is_named = of_runtime().any(|known| known.path().is_some() || known.is_looked_at);
            if let Some(switch) = runtime.switch().filter(|_| hits > 0 && !is_named) {
                problems.push(Problem::NoCodeMap { switch, hits, refused: None });
            }
        }
        for known in self.generated.values() {
            let Generated { runtime, hits, nameless, .. } = *known;
            let Some(path) = known.path().filter(|_| nameless > 0) else { continue };
            if nameless == hits || (nameless >= MATTERS && nameless * MATTERS > hits) {
                let (path, switch) = (path.to_owned(), runtime.switch());
                problems.push(Problem::PartialCodeMap { path, hits, named: hits - nameless, switch });
            }
        }
        problems.sort_by_key(|problem| match problem {
            Problem::PartialCodeMap { hits, named, .. } => Reverse(hits - named),
            _ => Reverse(u64::MAX),
        });
        problems
    }

    /// The user part: instruction pointer, then return addresses.
    fn user_path(&mut self, space: SpaceId, stack: StackId) -> Vec<u64> {
        let Some(stack) = self.stacks.get(stack) else { return Vec::new() };
        self.prepare_unwinder(space);
        let mut unwound = Vec::new();
        if let (Some(registers), Some(unwinder)) = (stack.registers, self.unwinders.get_mut(&space)) {
            unwound = unwinder.unwind(stack, registers);
        }
        let nothing_known = self.names.regions(space).is_empty();
        let executable = |address: u64| nothing_known || self.names.region(space, address).is_some();
        let mut path = unwind::splice(&unwound, &stack.user, executable, |address| self.follows_call(space, address));
        if let Some(registers) = stack.registers
            && let Some(mut unwinder) = self.unwinders.remove(&space)
        {
            let returns = |address| self.is_return(space, address);
            if self.has_guesses {
                let enters = |address, inside| self.enters(space, address, inside);
                unwinder.mend(stack, registers, &mut path, returns, enters);
            }
            unwinder.scan(stack, registers, &mut path, returns, |address, inside| self.enters(space, address, inside));
            self.unwinders.insert(space, unwinder);
        }
        path
    }

    /// Reads every binary of a space.
    fn prepare_unwinder(&mut self, space: SpaceId) {
        if self.unwinders.contains_key(&space) {
            return;
        }
        let regions = self.names.regions(space).to_vec();
        let machine = regions.iter().find_map(|region| self.binary(region.file).map(Binary::machine));
        let mut unwinder = SpaceUnwinder::new(machine.unwrap_or(Machine::Other));
        for region in regions {
            if let Some(binary) = self.binary(region.file) {
                unwinder.add(region, binary);
            }
        }
        self.unwinders.insert(space, unwinder);
    }

    /// Whether an address is right behind a call, in code that can be read.
    fn is_return(&self, space: SpaceId, address: u64) -> bool {
        let code = self.code_at(space, address.wrapping_sub(1));
        code.is_some_and(|(_, binary, bias)| instruction::follows_call(binary, address.wrapping_sub(bias)))
    }

    /// Whether an address can be where a call returns to; `true` where the code cannot be read.
    fn follows_call(&self, space: SpaceId, address: u64) -> bool {
        let Some((_, binary, bias)) = self.code_at(space, address.wrapping_sub(1)) else { return true };
        instruction::follows_call(binary, address.wrapping_sub(bias))
            || ends_goroutine(binary, address.wrapping_sub(bias))
    }

    /// Whether the call before an address led into the function around another one: it called its start, or that of a
    /// function that jumps there.
    fn enters(&self, space: SpaceId, return_address: u64, inside: u64) -> bool {
        let Some((region, binary, bias)) = self.code_at(space, return_address.wrapping_sub(1)) else { return false };
        if self.names.region(space, inside).is_none_or(|other| other.file != region.file) {
            return false;
        }
        let inside = inside.wrapping_sub(bias);
        let Some(entry) = instruction::callee(binary, return_address.wrapping_sub(bias)) else { return false };
        let start = binary.function(inside).map(|symbol| symbol.address).or_else(|| binary.function_start(inside));
        let is_of = |entry: u64| match start {
            Some(start) => entry == start,
            None => inside.checked_sub(entry).is_some_and(|into| into < NAMELESS_FUNCTION_BYTES),
        };
        is_of(entry) || instruction::jumps(binary, entry).into_iter().any(is_of)
    }

    /// The code around an address, if it can be read, with what to subtract from an address there to get one of the
    /// binary.
    fn code_at(&self, space: SpaceId, address: u64) -> Option<(Region, &Binary<'a>, u64)> {
        let region = self.names.region(space, address)?;
        let Some(Loaded::Ready(binary)) = &self.files[region.file.0 as usize].loaded else { return None };
        Some((region, binary, binary.bias(region)?))
    }

    fn kernel_frame(&mut self, ip: u64, caller: bool) -> Frame {
        let address = if caller { ip.wrapping_sub(1) } else { ip };
        let name = self.kernel_function(address);
        Frame {
            address,
            function: name.map(|name| intern(&mut self.strings, name)),
            module: intern(&mut self.strings, "[kernel]"),
            offset: address,
            start: address,
            file: None,
            line: None,
            inlined: false,
            role: name.map_or(Role::Kernel, roles::of_kernel),
        }
    }

    fn kernel_function(&self, address: u64) -> Option<&'a str> {
        let symbols = self.modules.kernel_symbols();
        let behind = symbols.partition_point(|(start, _)| *start <= address);
        let found = symbols[..behind].last().filter(|(start, _)| address - start < KERNEL_FUNCTION_BYTES);
        found.map(|(_, name)| &**name)
    }

    /// Adds the frames of one address, those that were inlined there first.
    fn add_user_frames(&mut self, space: SpaceId, address: u64, frames: &mut Vec<Frame>) {
        let region = match self.names.region(space, address) {
            Some(region) if !is_generated(&self.names.file(region.file).path) => region,
            region => {
                let start = region.map(|region| region.start);
                frames.push(self.generated_frame(space, address, start));
                return;
            }
        };
        // Each stack counts once.
        let this = self.call_paths.len() + 1;
        let state = &mut self.files[region.file.0 as usize];
        if std::mem::replace(&mut state.last_hit, this) != this {
            state.hits += 1;
        }
        let offset = match self.placed(region) {
            Some((_, bias)) => address.wrapping_sub(bias),
            None => (address - region.start).wrapping_add(region.offset),
        };
        let named = self.named(region.file, offset);
        self.files[region.file.0 as usize].has_lines |= named.iter().any(|frame| frame.line.is_some());
        let own = named.iter().any(|frame| frame.role == Role::Program && frame.line.is_none());
        let path = &self.names.file(region.file).path;
        if own && !roles::is_system(path) && !interpreted::is_interpreter(path) {
            let state = &mut self.files[region.file.0 as usize];
            if std::mem::replace(&mut state.last_without_line, this) != this {
                state.without_line += 1;
            }
        }
        frames.extend(named.iter().map(|frame| Frame { address, ..frame.clone() }));
    }

    /// The frame of an address in memory of no file: named by the map of the process, else by the region that it is
    /// in.
    fn generated_frame(&mut self, space: SpaceId, address: u64, region: Option<u64>) -> Frame {
        let this = self.call_paths.len() + 1;
        let of_java = self.names.code(space, address).map(|code| generated::method(&code.name));
        let seen_ns = self.seen_ns;
        let known = self.generated(space);
        // Looks knew the code while it was there. Where they tell what waits are of, all made code is alike.
        let function = of_java.or_else(|| known.function(address, seen_ns));
        let module = if function.is_some() && known.is_looked_at { JAVA } else { GENERATED };
        if region.is_none() && function.is_none() {
            let module = intern(&mut self.strings, "[unknown]");
            return bare_frame(address, module, address, Role::Program);
        }
        if std::mem::replace(&mut known.last_hit, this) != this {
            known.hits += 1;
        }
        if function.is_none() && std::mem::replace(&mut known.last_nameless, this) != this {
            known.nameless += 1;
        }
        let module = intern(&mut self.strings, module);
        let Some(function) = function else {
            return bare_frame(address, module, region.unwrap_or(address), Role::Program);
        };
        let name = intern(&mut self.strings, &function.name);
        let bare = bare_frame(address, module, address, function.role);
        Frame { function: Some(name), file: function.file, line: function.line, ..bare }
    }

    fn generated(&mut self, space: SpaceId) -> &mut Generated {
        let (names, modules, stacks) = (&self.names, self.modules, self.stacks);
        self.generated.entry(space).or_insert_with(|| Generated::read(names, modules, stacks, space))
    }

    /// Names a nameless function of another file after the function that its caller imports: the functions that wait in
    /// a stripped libc often have taken the place of the one that the program called (`sem_wait`, `pthread_join`).
    fn name_callee(&mut self, space: SpaceId, return_address: u64, callee: Option<&mut Frame>) {
        let Some(callee) = callee.filter(|frame| frame.function.is_none()) else { return };
        let Some(region) = self.names.region(space, return_address.wrapping_sub(1)) else { return };
        if self.names.file(region.file).path == callee.module {
            return;
        }
        let Some((binary, bias)) = self.placed(region) else { return };
        if let Some(name) = stubs::imported_callee(binary, return_address.wrapping_sub(bias)) {
            callee.role = roles::of(Some(&demangle(name)), &callee.module, None);
            callee.function = Some(intern(&mut self.strings, &demangle(name)));
        }
    }

    /// The function that was called, where its last act was to jump into another one, whose frame is found in its
    /// place.
    fn left_by_jump(&mut self, space: SpaceId, return_address: u64, found: Option<&Frame>) -> Option<Frame> {
        let found = found.filter(|frame| !matches!(frame.role, Role::Kernel | Role::Scheduler))?;
        let region = self.names.region(space, return_address.wrapping_sub(1))?;
        let is_of_file = self.names.file(region.file).path == found.module;
        let (binary, bias) = self.placed(region)?;
        let entry = instruction::callee(binary, return_address.wrapping_sub(bias))?;
        let called = binary.function(entry).filter(|symbol| symbol.address == entry)?;
        let is_found = is_of_file && binary.function(found.offset).is_none_or(|symbol| symbol.address == entry);
        // Compilers cut what is seldom run off a function, and name both parts alike.
        let is_part = found.function.as_deref().is_none_or(|name| name.starts_with(&*demangle(called.name)));
        if is_found || is_part {
            return None;
        }
        let named = self.named(region.file, entry);
        named.last().map(|frame| Frame { address: entry.wrapping_add(bias), inlined: false, ..frame.clone() })
    }

    /// The frames of an address of a file.
    fn named(&mut self, file: FileId, offset: u64) -> Arc<[Frame]> {
        if let Some(frames) = self.frames.get(&(file, offset)) {
            return frames.clone();
        }
        let path = self.names.file(file).path.clone();
        let mut frames = Vec::new();
        let symbol_and_places = self.binary(file).map(|binary| {
            let symbol = binary.function(offset).map(|symbol| symbol.name);
            let start = symbol.is_none().then(|| binary.function_start(offset)).flatten();
            (symbol, start, binary.lines().map(|lines| lines.places(offset)).unwrap_or_default())
        });
        let (symbol, start, mut places) = symbol_and_places.unwrap_or_default();
        if places.is_empty() {
            places.push(Place::default());
        }
        let last = places.len() - 1;
        for (at, place) in places.into_iter().enumerate() {
            // The symbol's name says more than the debug information's, and is the one that other tools print.
            let raw = if at == last { symbol.or(place.function.as_deref()) } else { place.function.as_deref() };
            let function = raw.map(|raw| intern(&mut self.strings, &demangle(raw)));
            let role = roles::of(function.as_deref(), &path, place.file.as_deref());
            frames.push(Frame {
                function,
                file: place.file.map(|file| intern(&mut self.strings, &file)),
                line: place.line,
                inlined: at < last,
                start: start.unwrap_or(offset),
                ..bare_frame(0, path.clone(), offset, role)
            });
        }
        let frames: Arc<[Frame]> = frames.into();
        self.frames.insert((file, offset), frames.clone());
        frames
    }

    /// The binary of a region, and what to subtract from an address there to get one of the binary.
    fn placed(&mut self, region: Region) -> Option<(&Binary<'a>, u64)> {
        let binary = self.binary(region.file)?;
        Some((binary, binary.bias(region)?))
    }

    fn binary(&mut self, file: FileId) -> Option<&Binary<'a>> {
        let state = self.files.get_mut(file.0 as usize)?;
        let (names, modules, allowance) = (&self.names, self.modules, &self.allowance);
        match state.loaded.get_or_insert_with(|| Binary::load(names.file(file), modules, allowance)) {
            Loaded::Ready(binary) => Some(binary),
            _ => None,
        }
    }
}

/// Addresses of the recording's stacks that no file of a space has code for, and those before them, where calls were
/// that return there.
fn nameless_addresses(names: &Names, stacks: &Stacks, space: SpaceId) -> Vec<u64> {
    let of_stack = |stack: &Stack, found: &mut FxHashSet<u64>| {
        found.extend(stack.user.iter().copied());
        found.extend(stack.registers.iter().flat_map(|registers| [registers.ip, registers.lr]));
        found.extend(stack.words.iter().filter_map(|(_, word)| match word {
            Word::Code(address) => Some(*address),
            Word::Stack(_) => None,
        }));
    };
    let mut all = FxHashSet::default();
    stacks.iter().for_each(|(_, stack)| of_stack(stack, &mut all));
    let is_in_file = |address: u64| {
        let region = names.region(space, address);
        region.is_some_and(|region| !is_generated(&names.file(region.file).path))
    };
    let with_call = all.into_iter().flat_map(|address| [address, address.wrapping_sub(1)]);
    with_call.filter(|address| !is_in_file(*address)).collect()
}

/// Whether a region's memory came from no file, or from one that stands for none, so that its code is made as the
/// program runs.
fn is_generated(path: &str) -> bool {
    const STARTS: [&str; 6] = ["//anon", "/memfd:", "/dev/zero", "/SYSV", "[anon", "[heap]"];
    path.is_empty() || STARTS.iter().any(|start| path.starts_with(start))
}

fn bare_frame(address: u64, module: Arc<str>, offset: u64, role: Role) -> Frame {
    Frame { address, function: None, module, offset, start: offset, file: None, line: None, inlined: false, role }
}

/// One allocation per text, however many frames have it.
fn intern(strings: &mut FxHashSet<Arc<str>>, text: &str) -> Arc<str> {
    if let Some(known) = strings.get(text) {
        return known.clone();
    }
    let fresh: Arc<str> = Arc::from(text);
    strings.insert(fresh.clone());
    fresh
}

/// Whether an address is where goroutines return to at their end: no call leads there, Go's runtime puts it below the
/// first function.
fn ends_goroutine(binary: &Binary<'_>, address: u64) -> bool {
    binary.function(address.wrapping_sub(1)).is_some_and(|symbol| symbol.name.starts_with("runtime.goexit"))
}

/// Whether a function of the kernel's records for us.
fn records(function: &str) -> bool {
    let name = function.trim_start_matches('_');
    ["bpf_", "perf_", "trace_event_", "traceiter_"].iter().any(|beginning| name.starts_with(beginning))
}

/// How many frames on top of a kernel's stack are the recorder's own program in it, which has no name, and how the
/// kernel calls that.
fn of_recorder(frames: &[Frame]) -> usize {
    let calls = |frame: &Frame| frame.function.as_deref().is_some_and(|name| name.starts_with("bpf_trace_run"));
    frames.iter().take(3).position(calls).map_or(0, |at| at + 1)
}
