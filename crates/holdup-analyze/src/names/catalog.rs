//! From names to places: where in a file a variable, a member of one, a function or a line of source is.

use std::rc::Rc;

use addr2line::Context;
use gimli::Reader;
use object::read::{File, Object, ObjectSegment};

use super::Modules;
use super::demangle::demangle;
use super::lines::Lines;
use super::spaces::MappedFile;
use super::symbols::{Binary, Loaded, Symbol};

/// What files are laid out by: their first byte is at a multiple of it.
const PAGE: u64 = 4096;

/// Members are looked for at multiples of this, up to this many bytes into a variable.
const ALIGNMENT: u64 = 4;
const MOST_MEMBER_BYTES: u64 = 1 << 22;

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meaning {
    /// A variable or a member of one.
    Variable,
    /// A function, or a line of source: code.
    Code,
}

/// A stretch of a file that a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// What it is.
    pub meaning: Meaning,
    /// Where it begins, from where the file's first byte is loaded.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// The names of one file.
pub struct Catalog<'a> {
    binary: Box<Binary<'a>>,
    first: u64,
}

impl<'a> Catalog<'a> {
    /// Of the file at a path; `None` if it cannot be read.
    pub fn of(path: &str, modules: &'a dyn Modules) -> Option<Catalog<'a>> {
        let mapped = MappedFile { path: path.into(), build_id: None };
        let Loaded::Ready(binary) = Binary::load(&mapped, modules, &Rc::default()) else { return None };
        let first = first_byte(&binary.file);
        Some(Catalog { binary, first })
    }

    /// What a name stands for: a variable (`g_lock`, `cache::g_lock`), a member (`g_cache.lock`, `s_buckets[5].lock`),
    /// a function, or a line (`cache.c:42`). All functions and variables of that name, variables alone if there are
    /// any.
    pub fn find(&self, name: &str) -> Vec<Stretch> {
        let variables = self.binary.variables().iter().filter(|symbol| is_called(symbol, name));
        let mut found: Vec<Stretch> =
            variables.map(|symbol| self.stretch(Meaning::Variable, symbol.address, symbol.size)).collect();
        if found.is_empty() {
            found.extend(self.member(name));
        }
        if found.is_empty() {
            let functions = self.binary.functions().iter().filter(|symbol| is_called(symbol, name));
            found.extend(functions.map(|symbol| self.stretch(Meaning::Code, symbol.address, symbol.size)));
        }
        if found.is_empty() {
            found.extend(self.line(name));
        }
        found
    }

    /// The names of all variables, then of all functions.
    pub fn names(&self) -> Vec<String> {
        let symbols = self.binary.variables().iter().chain(self.binary.functions());
        symbols.map(|symbol| demangle(symbol.name)).collect()
    }

    /// Whether a line of source can be found.
    pub fn has_lines(&self) -> bool {
        self.binary.lines().is_some_and(|lines| !matches!(lines, Lines::Go(_)))
    }

    fn stretch(&self, meaning: Meaning, address: u64, len: u64) -> Stretch {
        Stretch { meaning, offset: address.wrapping_sub(self.first), len }
    }

    /// `variable.member`, by trying every place in the variable that a lock can be at.
    fn member(&self, name: &str) -> Option<Stretch> {
        let at = name.find(['.', '['])?;
        let (variable, path) = name.split_at(at);
        let symbol = *self.binary.variables().iter().find(|symbol| is_called(symbol, variable))?;
        let is_at =
            |offset: u64| self.binary.member(symbol, offset).is_some_and(|(found, left)| found == path && left == 0);
        let within = |offset: &u64| *offset < symbol.size.min(MOST_MEMBER_BYTES);
        let mut places = (0..).step_by(ALIGNMENT as usize).take_while(within);
        let start = places.find(|offset| is_at(*offset))?;
        let inside = |offset: &u64| self.binary.member(symbol, *offset).is_some_and(|(found, _)| found == path);
        let end = places.take_while(inside).last().unwrap_or(start) + ALIGNMENT;
        Some(self.stretch(Meaning::Variable, symbol.address + start, end - start))
    }

    /// The code of `file:line`, also where it was inlined.
    fn line(&self, name: &str) -> Vec<Stretch> {
        let Some((file, line)) = name.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?))) else {
            return Vec::new();
        };
        let wanted = Wanted { file, line };
        let ranges = match self.binary.lines() {
            Some(Lines::Plain(table)) => table.whole().map(|context| wanted.ranges(context)).unwrap_or_default(),
            Some(Lines::Unpacked(table)) => table.whole().map(|context| wanted.ranges(context)).unwrap_or_default(),
            // Which code is of a line is only told the other way round there.
            Some(Lines::Go(_)) | None => Vec::new(),
        };
        ranges.into_iter().map(|(start, len)| self.stretch(Meaning::Code, start, len)).collect()
    }
}

impl std::fmt::Debug for Catalog<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("first", &self.first).finish_non_exhaustive()
    }
}

/// The address of a file's first byte, as the file itself counts.
pub(super) fn first_byte(file: &File<'_>) -> u64 {
    let lowest = file.segments().filter(|segment| segment.size() > 0).map(|segment| segment.address()).min();
    lowest.unwrap_or(0) / PAGE * PAGE
}

/// Whether people call it so: as compiled, as written, or as written without the spaces around it.
fn is_called(symbol: &Symbol<'_>, name: &str) -> bool {
    // Most names differ in their first bytes already: nothing is demangled for those.
    symbol.name == name || (symbol.name.contains(last_part(name)) && is_written(&demangle(symbol.name), name))
}

fn is_written(written: &str, name: &str) -> bool {
    written == name || written.strip_suffix(name).is_some_and(|before| before.ends_with("::"))
}

/// The last part of a path of names: the only one that every mangling writes out.
fn last_part(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or(name)
}

/// A line of source.
struct Wanted<'n> {
    file: &'n str,
    line: u32,
}

impl Wanted<'_> {
    /// First address and length of each stretch of code that comes from the line. What the line calls may be inlined
    /// there, so that its rows are of another file and line: rows near those of the file are looked at more closely.
    fn ranges<R: Reader>(&self, context: &Context<R>) -> Vec<(u64, u64)> {
        let Ok(rows) = context.find_location_range(0, u64::MAX) else { return Vec::new() };
        let rows: Vec<(u64, u64, Option<u32>)> = rows
            .map(|(start, len, location)| (start, len, location.line.filter(|_| self.is_file(location.file))))
            .collect();
        let of_file: Vec<usize> = (0..rows.len()).filter(|row| rows[*row].2.is_some()).collect();
        let is_near = |row: usize| {
            let behind = of_file.partition_point(|other| *other < row);
            let near = |other: &usize| row.abs_diff(*other) <= NEIGHBOURS;
            of_file[..behind].last().is_some_and(near) || of_file.get(behind).is_some_and(near)
        };
        let here = |(index, row): &(usize, &(u64, u64, Option<u32>))| {
            row.2 == Some(self.line) || (is_near(*index) && self.is_inlined(context, row.0))
        };
        rows.iter().enumerate().filter(here).map(|(_, (start, len, _))| (*start, *len)).collect()
    }

    fn is_inlined<R: Reader>(&self, context: &Context<R>, address: u64) -> bool {
        let Ok(mut frames) = context.find_frames(address).skip_all_loads() else { return false };
        while let Ok(Some(frame)) = frames.next() {
            let here =
                |location: &addr2line::Location<'_>| location.line == Some(self.line) && self.is_file(location.file);
            if frame.location.as_ref().is_some_and(here) {
                return true;
            }
        }
        false
    }

    /// Whether the path of a source ends so.
    fn is_file(&self, path: Option<&str>) -> bool {
        let ends =
            |path: &str| path.strip_suffix(self.file).is_some_and(|before| before.is_empty() || before.ends_with('/'));
        path.is_some_and(ends)
    }
}

/// How many rows away from its own the code that a line inlines is looked for.
const NEIGHBOURS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_may_leave_out_what_is_around_them() {
        assert!(is_written("cache::g_lock", "g_lock"));
        assert!(is_written("a::cache::g_lock", "cache::g_lock"));
        assert!(!is_written("cache::big_lock", "g_lock"));
        assert_eq!(last_part("a::b"), "b");
    }

    #[test]
    fn a_line_belongs_to_a_file_by_its_last_part() {
        let wanted = Wanted { file: "cache.c", line: 7 };
        assert!(wanted.is_file(Some("/src/cache.c")));
        assert!(wanted.is_file(Some("cache.c")));
        assert!(!wanted.is_file(Some("/src/mycache.c")));
        assert!(!wanted.is_file(None));
    }
}
