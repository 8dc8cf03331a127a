//! A binary's own words about itself: segments, functions and variables, from the bytes of an ELF file and its debug
//! file.

use std::cell::OnceCell;
use std::rc::Rc;

use object::read::{File, Object, ObjectSection, ObjectSegment, ObjectSymbol, ObjectSymbolTable};
use object::{Architecture, RelocationTarget, SectionIndex, SegmentFlags, SymbolKind};
use rustc_hash::FxHashMap;

use super::allowance::{Allowance, TooMuch};
use super::lines::{Lines, Sections, sections};
use super::members::Members;
use super::spaces::{MappedFile, Region};
use super::{Modules, golang, jit_dump};

/// The kernel maps whole pages; the largest that its machines use.
const LARGEST_PAGE: u64 = 0x1_0000;

/// A binary that could be read.
pub(super) struct Binary<'a> {
    pub(super) file: File<'a>,
    debug: Option<File<'a>>,
    segments: Vec<Segment>,
    functions: OnceCell<Vec<Symbol<'a>>>,
    variables: OnceCell<Vec<Symbol<'a>>>,
    imports: OnceCell<FxHashMap<u64, &'a str>>,
    /// Slots that the loader fills with an address of the file itself.
    own_slots: OnceCell<FxHashMap<u64, u64>>,
    members: OnceCell<Option<Members<'a>>>,
    sections: OnceCell<Result<Option<Sections<'a>>, TooMuch>>,
    lines: OnceCell<Option<Lines<'a>>>,
    starts: OnceCell<Vec<u64>>,
    allowance: Rc<Allowance>,
}

/// What became of a file.
pub(super) enum Loaded<'a> {
    Ready(Box<Binary<'a>>),
    /// It is no file (`[vdso]`, memory of a compiler at run time): nothing to be had, nothing wrong.
    NoFile,
    /// It is not there, or is no ELF file.
    Unreadable,
    /// It is another one than ran.
    Replaced,
}

/// What a binary's instructions are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Machine {
    X86_64,
    Aarch64,
    /// Names and chains only: nothing is decoded or unwound.
    Other,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    offset: u64,
    file_size: u64,
    address: u64,
    size: u64,
    executable: bool,
}

/// A function or variable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Symbol<'a> {
    pub address: u64,
    /// 0 where the file does not say.
    pub size: u64,
    pub name: &'a str,
    /// End of the section that it is in.
    section_end: u64,
    /// Smaller is the better name among those of one address.
    rank: u8,
}

impl<'a> Binary<'a> {
    /// Reads what a mapping names.
    pub(super) fn load(mapped: &MappedFile, modules: &'a dyn Modules, allowance: &Rc<Allowance>) -> Loaded<'a> {
        if is_no_file(&mapped.path) {
            return Loaded::NoFile;
        }
        let build_id = mapped.build_id.as_deref();
        let Some(bytes) = bytes_of(&mapped.path, build_id, modules) else { return Loaded::Unreadable };
        let Ok(file) = File::parse(bytes) else { return Loaded::Unreadable };
        if build_id.is_some_and(|ran| !same_id(ran, file.build_id().ok().flatten())) {
            return Loaded::Replaced;
        }
        allowance.read(bytes.len());
        let debug = debug_file(&mapped.path, &file, modules, allowance);
        let segments = file.segments().map(|segment| Segment::of(&segment)).collect();
        Loaded::Ready(Box::new(Binary {
            file,
            debug,
            segments,
            functions: OnceCell::new(),
            variables: OnceCell::new(),
            imports: OnceCell::new(),
            own_slots: OnceCell::new(),
            members: OnceCell::new(),
            sections: OnceCell::new(),
            lines: OnceCell::new(),
            starts: OnceCell::new(),
            allowance: allowance.clone(),
        }))
    }

    pub(super) fn machine(&self) -> Machine {
        match self.file.architecture() {
            Architecture::X86_64 => Machine::X86_64,
            Architecture::Aarch64 => Machine::Aarch64,
            _ => Machine::Other,
        }
    }

    /// What to add to an address of the file to get one of the process. The mapping is matched with the segment that
    /// holds code: the pages at the seams belong to two segments, so its offset alone would be ambiguous.
    pub(super) fn bias(&self, region: Region) -> Option<u64> {
        let covers = |segment: &&Segment| {
            region.offset < segment.offset.saturating_add(segment.file_size)
                && region.offset.saturating_add(region.end - region.start) > segment.offset
        };
        let mut code = self.segments.iter().filter(|segment| segment.executable && segment.file_size > 0);
        let segment = code
            .clone()
            .find(covers)
            .or_else(|| code.find(|segment| segment.offset.abs_diff(region.offset) < LARGEST_PAGE));
        let segment = segment?;
        let address = segment.address.wrapping_add(region.offset).wrapping_sub(segment.offset);
        Some(region.start.wrapping_sub(address))
    }

    /// Lowest address of the file that is mapped.
    pub(super) fn base(&self) -> u64 {
        self.segments.iter().map(|segment| segment.address).min().unwrap_or(0)
    }

    /// Whether an address of the file is in memory that it maps.
    pub(super) fn maps(&self, address: u64) -> bool {
        self.segments.iter().any(|segment| address >= segment.address && address - segment.address < segment.size)
    }

    /// At most `len` bytes of the file at an address, as loaded.
    pub(super) fn bytes_at(&self, address: u64, len: u64) -> Option<&'a [u8]> {
        self.file.segments().find_map(|segment| {
            let into = address.checked_sub(segment.address()).filter(|into| *into < segment.size())?;
            let data = segment.data().ok()?;
            let from = usize::try_from(into).ok()?;
            let to = from.saturating_add(usize::try_from(len).ok()?).min(data.len());
            data.get(from..to)
        })
    }

    /// The function that an address of the file is in.
    pub(super) fn function(&self, address: u64) -> Option<Symbol<'a>> {
        find(self.functions(), address)
    }

    /// Where the function begins that an address of the file is in, by the unwinding tables, which stripping leaves.
    pub(super) fn function_start(&self, address: u64) -> Option<u64> {
        let starts = self.starts.get_or_init(|| self.read_starts().unwrap_or_default());
        starts[..starts.partition_point(|start| *start <= address)].last().copied()
    }

    fn read_starts(&self) -> Option<Vec<u64>> {
        let header = self.file.section_by_name(".eh_frame_hdr")?;
        let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(header.address());
        let endian =
            if self.file.is_little_endian() { gimli::RunTimeEndian::Little } else { gimli::RunTimeEndian::Big };
        let parsed = gimli::EhFrameHdr::new(header.data().ok()?, endian).parse(&bases, 8).ok()?;
        let table = parsed.table()?;
        let mut rows = table.iter(&bases);
        let mut starts = Vec::new();
        while let Ok(Some((gimli::Pointer::Direct(start), _))) = rows.next() {
            starts.push(start);
        }
        starts.sort_unstable();
        Some(starts)
    }

    /// All functions, in order of addresses.
    pub(super) fn functions(&self) -> &[Symbol<'a>] {
        self.functions.get_or_init(|| self.read_functions())
    }

    /// The variable that an address of the file is in.
    pub(super) fn variable(&self, address: u64) -> Option<Symbol<'a>> {
        find(self.variables(), address).filter(|symbol| symbol.size > 0)
    }

    /// All variables, in order of addresses.
    pub(super) fn variables(&self) -> &[Symbol<'a>] {
        self.variables.get_or_init(|| {
            let named = self.symbols().filter_map(|(file, symbol)| variable_symbol(file, &symbol));
            sorted(named.take_while(|symbol| self.affords(symbol)).collect())
        })
    }

    /// The address in the file itself that the loader puts into a slot.
    pub(super) fn own_slot(&self, slot: u64) -> Option<u64> {
        self.own_slots.get_or_init(|| self.read_own_slots()).get(&slot).copied()
    }

    /// The function of another file whose address the loader puts at an address of this one.
    pub(super) fn import(&self, slot: u64) -> Option<&'a str> {
        self.imports.get_or_init(|| self.read_imports()).get(&slot).copied()
    }

    /// Line information, if there is any.
    pub(super) fn lines(&self) -> Option<&Lines<'a>> {
        let read = || self.sections().and_then(Lines::read).or_else(|| Lines::of_go(&self.file));
        self.lines.get_or_init(read).as_ref()
    }

    /// Whether there is line information that would cost too much to read.
    pub(super) fn has_costly_lines(&self) -> bool {
        let costs = |sections: &Sections<'_>| sections.has_refused();
        self.sections.get().is_some_and(|read| read.as_ref().map_or(true, |read| read.as_ref().is_some_and(costs)))
    }

    /// What the file or its debug file tells of lines and types.
    fn sections(&self) -> Option<&Sections<'a>> {
        let read = || match (sections(&self.file, &self.allowance)?, &self.debug) {
            (None, Some(debug)) => sections(debug, &self.allowance),
            (own, _) => Ok(own),
        };
        self.sections.get_or_init(read).as_ref().ok()?.as_ref()
    }

    /// Where the code begins, and how long it is.
    #[cfg(test)]
    pub(super) fn text_start(&self) -> u64 {
        self.file.section_by_name(".text").map_or(0, |section| section.address())
    }

    #[cfg(test)]
    pub(super) fn text_len(&self) -> u64 {
        self.file.section_by_name(".text").map_or(0, |section| section.size())
    }

    fn read_functions(&self) -> Vec<Symbol<'a>> {
        let code = CodeSections::of(&self.file);
        let named = self.symbols().filter_map(|(_, symbol)| function_symbol(&code, &symbol));
        let mut functions = sorted(named.take_while(|symbol| self.affords(symbol)).collect());
        if functions.is_empty() || self.file.symbol_table().is_none() {
            functions.extend(golang::functions(&self.file).into_iter().map(|(address, size, name)| Symbol {
                address,
                size,
                name,
                section_end: address.saturating_add(size),
                rank: 0,
            }));
            functions = sorted(functions);
        }
        functions
    }

    /// Names can be long, and share their ends: looking through all of them can take for ever.
    fn affords(&self, symbol: &Symbol<'a>) -> bool {
        self.allowance.text(symbol.name.len()).is_ok()
    }

    /// The way from a variable to what is at an offset in it, and what of the offset is left there: see [`Members`].
    pub(super) fn member(&self, variable: Symbol<'a>, offset: u64) -> Option<(String, u64)> {
        let read = || Members::read(self.sections()?);
        self.members.get_or_init(read).as_ref()?.path(variable.address, offset)
    }

    fn read_own_slots(&self) -> FxHashMap<u64, u64> {
        let Some(relocations) = self.file.dynamic_relocations() else { return FxHashMap::default() };
        let own = relocations.filter_map(|(slot, relocation)| {
            let is_own = relocation.target() == RelocationTarget::Absolute && !relocation.has_implicit_addend();
            Some((slot, u64::try_from(relocation.addend()).ok().filter(|_| is_own)?))
        });
        own.collect()
    }

    fn read_imports(&self) -> FxHashMap<u64, &'a str> {
        let (Some(relocations), Some(symbols)) = (self.file.dynamic_relocations(), self.file.dynamic_symbol_table())
        else {
            return FxHashMap::default();
        };
        let named = relocations.filter_map(|(slot, relocation)| {
            let RelocationTarget::Symbol(index) = relocation.target() else { return None };
            let name = symbols.symbol_by_index(index).ok()?.name().ok()?;
            Some((slot, name)).filter(|_| !name.is_empty())
        });
        named.take_while(|(_, name)| self.allowance.text(name.len()).is_ok()).collect()
    }

    /// All symbols of the file and its debug file.
    fn symbols(&self) -> impl Iterator<Item = (&File<'a>, object::read::Symbol<'a, '_>)> {
        let files = std::iter::once(&self.file).chain(&self.debug);
        files.flat_map(|file| file.symbols().chain(file.dynamic_symbols()).map(move |symbol| (file, symbol)))
    }
}

impl Segment {
    fn of<'a>(segment: &impl ObjectSegment<'a>) -> Segment {
        let (offset, file_size) = segment.file_range();
        let executable = match segment.flags() {
            SegmentFlags::Elf { p_flags, .. } => p_flags.0 & 1 != 0,
            _ => true,
        };
        Segment { offset, file_size, address: segment.address(), size: segment.size(), executable }
    }
}

/// The sections that hold code, as (first address, end).
struct CodeSections(Vec<(SectionIndex, u64, u64)>);

impl CodeSections {
    fn of(file: &File<'_>) -> CodeSections {
        let code = file.sections().filter(|section| section.kind() == object::SectionKind::Text);
        CodeSections(code.map(|s| (s.index(), s.address(), s.address().saturating_add(s.size()))).collect())
    }

    fn end(&self, address: u64) -> Option<u64> {
        self.0.iter().find(|(_, start, end)| (*start..*end).contains(&address)).map(|(.., end)| *end)
    }
}

fn function_symbol<'a>(code: &CodeSections, symbol: &object::read::Symbol<'a, '_>) -> Option<Symbol<'a>> {
    let assembly = match symbol.kind() {
        SymbolKind::Text => false,
        // Assembly often leaves the type out.
        SymbolKind::Unknown | SymbolKind::Label => true,
        _ => return None,
    };
    if symbol.is_undefined() || (assembly && symbol.section_index().is_none()) {
        return None;
    }
    let name = symbol.name().ok().filter(|name| !name.is_empty() && !name.starts_with('$'))?;
    let address = symbol.address();
    let section_end = code.end(address)?;
    let rank = rank(name, symbol.is_global()) + if assembly { 100 } else { 0 };
    Some(Symbol { address, size: symbol.size(), name, section_end, rank })
}

fn variable_symbol<'a>(file: &File<'a>, symbol: &object::read::Symbol<'a, '_>) -> Option<Symbol<'a>> {
    if symbol.kind() != SymbolKind::Data || symbol.is_undefined() || symbol.size() == 0 {
        return None;
    }
    let name = symbol.name().ok().filter(|name| !name.is_empty())?;
    let address = symbol.address();
    let rank = rank(name, symbol.is_global());
    // A debug file keeps the headers of sections that it has no bytes of, so the index means the same in both.
    file.section_by_index(symbol.section_index()?).ok()?;
    Some(Symbol { address, size: symbol.size(), name, section_end: address.saturating_add(symbol.size()), rank })
}

/// Of the names of one address, the exported one with the fewest underscores in front is what people know it by.
fn rank(name: &str, global: bool) -> u8 {
    let underscores = name.bytes().take(20).take_while(|byte| *byte == b'_').count() as u8;
    let mangled = name.starts_with("_Z") || name.starts_with("_R");
    let versioned = u8::from(name.contains('@'));
    (if mangled { 0 } else { 2 * underscores }) + versioned + if global { 0 } else { 40 }
}

/// In order of addresses, one symbol each, without labels in the middle of functions.
fn sorted(mut symbols: Vec<Symbol<'_>>) -> Vec<Symbol<'_>> {
    symbols.sort_by(|a, b| (a.address, a.rank, a.name).cmp(&(b.address, b.rank, b.name)));
    symbols.dedup_by(|later, first| {
        let same = later.address == first.address;
        if same && first.size == 0 {
            first.size = later.size;
        }
        same
    });
    let mut covered = 0;
    symbols.retain(|symbol| {
        let label = symbol.rank >= 100 && symbol.address < covered;
        if !label {
            covered = covered.max(symbol.address.saturating_add(symbol.size));
        }
        !label
    });
    symbols
}

/// The symbol whose extent an address is in. Where the file gives no size (assembly), it extends to the next symbol or
/// the section's end. Nothing is named after a neighbour: in a stripped library that would be a wrong name for most of
/// its code.
fn find<'a>(symbols: &[Symbol<'a>], address: u64) -> Option<Symbol<'a>> {
    let behind = symbols.partition_point(|symbol| symbol.address <= address);
    // An alias or a smaller symbol may lie within a larger one.
    let near = symbols[..behind].iter().rev().take(4);
    near.copied().enumerate().find_map(|(back, symbol)| {
        let within = match symbol.size {
            0 => back == 0 && address < symbol.section_end,
            size => address - symbol.address < size,
        };
        within.then_some(symbol)
    })
}

/// Names in brackets, memory without a file, and what only looks like one.
fn is_no_file(path: &str) -> bool {
    const MEMORY: [&str; 6] = ["//", "/memfd:", "/dev/", "/SYSV", "/anon_hugepage", "/[aio]"];
    // Files can lie in memory too: holdup's interposer does.
    let in_memory = MEMORY.iter().any(|beginning| path.starts_with(beginning));
    !path.starts_with('/') || (in_memory && !path.starts_with("/dev/shm/")) || jit_dump::is_dump(path)
}

fn bytes_of<'a>(path: &str, build_id: Option<&[u8]>, modules: &'a dyn Modules) -> Option<&'a [u8]> {
    let there = modules.file(path, build_id);
    // What was deleted since may be there again; only a build id can tell whether it is the same.
    there.or_else(|| modules.file(path.strip_suffix(" (deleted)").filter(|_| build_id.is_some())?, build_id))
}

/// The file with symbols and lines that were taken out of this one.
fn debug_file<'a>(path: &str, file: &File<'a>, modules: &'a dyn Modules, allowance: &Allowance) -> Option<File<'a>> {
    if file.section_by_name(".debug_info").is_some() {
        return None;
    }
    let build_id = file.build_id().ok().flatten();
    let link = file.gnu_debuglink().ok().flatten().map(|(name, _)| name);
    if build_id.is_none() && link.is_none() {
        return None;
    }
    let bytes = modules.debug_file(path, build_id, link)?;
    let debug = File::parse(bytes).ok()?;
    allowance.read(bytes.len());
    let fits = build_id.is_none_or(|id| debug.build_id().ok().flatten().is_none_or(|other| same_id(id, Some(other))));
    fits.then_some(debug)
}

/// Kernels pad build ids with zeros to twenty bytes.
fn same_id(ran: &[u8], found: Option<&[u8]>) -> bool {
    let Some(found) = found else { return ran.iter().all(|byte| *byte == 0) };
    let (short, long) = if ran.len() <= found.len() { (ran, found) } else { (found, ran) };
    long.starts_with(short) && long[short.len()..].iter().all(|byte| *byte == 0)
}
