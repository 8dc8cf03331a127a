//! Supplies the analysis with binaries, their debug files and the kernel's symbols, from this machine's files alone.
//!
//! A file is only given if its build id is the recorded one, or none was recorded: names from another build would be
//! wrong names. Without a build id, a file that was written after the recording ended is not the one that ran, nor is
//! one whose name a process that still runs has mapped as deleted. A file that has no name any more, or is another one
//! by now, is read through a process that has it mapped (as root: /proc/PID/map_files). Nothing is fetched from a
//! network; what debuginfod's client has fetched before is found in its cache.

use std::cell::{Cell, OnceCell};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use holdup_analyze::Modules;
use holdup_record::HeldFile;
use holdup_trace::{Ending, Header, Pid};
use object::Object as _;

/// Where distributions install debug files.
const DEBUG_ROOT: &str = "/usr/lib/debug";

/// What /proc/PID/maps appends to the path of a file that is gone.
const DELETED: &str = " (deleted)";

/// Larger files are not read: no memory is spent on what nobody asked to wait for.
const LARGEST_BYTES: u64 = 2 << 30;

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Files that were asked for.
    pub files: usize,
    /// Bytes of those that are there.
    pub bytes: usize,
}

/// The files that a recording's addresses lie in.
#[derive(Debug)]
pub struct Binaries {
    /// Processes that were recorded and may still be there: their view of the file system can differ from ours, as in
    /// a container.
    pids: Vec<u32>,
    /// Files that were kept open since they were mapped.
    held: Vec<HeldFile>,
    machine: Machine,
    /// When the recording ended, in seconds since 1970.
    ended_unix_s: Option<u64>,
    caches: Vec<PathBuf>,
    files: Loaded,
    /// Why a map of generated code is not believed.
    refused_map: OnceCell<String>,
}

/// What tells whether the running kernel is the recorded one.
#[derive(Debug)]
struct Machine {
    kernel: String,
    began_unix_s: u64,
    wanted: bool,
}

impl Binaries {
    /// Of the recording with this header and, if it was written, this ending.
    pub fn of(header: &Header, ending: Option<&Ending>) -> Binaries {
        let machine = Machine {
            kernel: header.machine.kernel.clone(),
            began_unix_s: header.began_unix_s,
            wanted: header.capabilities.kernel,
        };
        let caches = caches(|name| std::env::var_os(name).map(PathBuf::from));
        Binaries {
            pids: header.target.pids.clone(),
            held: Vec::new(),
            machine,
            ended_unix_s: ending
                .map(|ending| header.began_unix_s + ending.ended_ns.saturating_sub(header.began_ns) / 1_000_000_000),
            caches,
            files: Loaded::default(),
            refused_map: OnceCell::new(),
        }
    }

    /// The same, asking these processes as well: those that were seen to map files, such as what a command has started
    /// in a container.
    pub fn seen_by(mut self, mapped: &BTreeSet<Pid>) -> Binaries {
        const MOST: usize = 16;
        let is_there = |pid: &u32| !self.pids.contains(pid) && Path::new(&format!("/proc/{pid}/maps")).exists();
        let others: Vec<u32> = mapped.iter().map(|pid| pid.0).filter(is_there).take(MOST).collect();
        self.pids.extend(others);
        self
    }

    /// The same with files that were kept open.
    pub fn holding(self, held: &[HeldFile]) -> Binaries {
        Binaries { held: held.to_vec(), ..self }
    }

    /// Whether there is a file at this path that is not the one that was recorded.
    pub fn is_replaced(&self, path: &str) -> bool {
        self.files.iter().any(|file| file.replaced.get() && file.asked.path == path)
    }

    /// Why the first map of generated code that was asked for and is there is not believed.
    pub fn refused_map(&self) -> Option<&str> {
        self.refused_map.get().map(String::as_str)
    }

    /// How much was read so far.
    pub fn held(&self) -> Held {
        let bytes = |file: &File| file.bytes.as_ref().map_or(0, Vec::len);
        self.files
            .iter()
            .fold(Held::default(), |held, file| Held { files: held.files + 1, bytes: held.bytes + bytes(file) })
    }

    fn load<I: Iterator<Item = PathBuf>>(&self, asked: Asked, candidates: impl FnOnce() -> I) -> Option<&[u8]> {
        let known = self.files.iter().find(|file| file.asked == asked);
        let file = known.unwrap_or_else(|| {
            let build_id = asked.build_id.as_deref();
            let (bytes, others) = first_match(candidates(), build_id, self.ended_unix_s);
            self.files.push(File { asked, bytes, replaced: Cell::new(others) })
        });
        file.bytes.as_deref()
    }
}

impl Modules for Binaries {
    fn file(&self, path: &str, build_id: Option<&[u8]>) -> Option<&[u8]> {
        if !path.starts_with('/') {
            return None;
        }
        let asked = Asked { kind: Kind::Binary, path: path.to_owned(), build_id: build_id.map(<[u8]>::to_vec) };
        self.load(asked, || {
            let cached = |id| self.caches.iter().map(move |cache| cache.join(hex(id)).join("executable"));
            let is_it = move |held: &&HeldFile| held.path == path && held.build_id.as_deref() == build_id;
            let held = self.held.iter().filter(is_it).map(|held| held.readable.clone());
            // What was kept is what ran; without a build id, another file of that name would be believed.
            let others = binary_paths(path, build_id.is_some(), &self.pids);
            held.chain(others).chain(build_id.into_iter().flat_map(cached))
        })
    }

    fn debug_file(&self, path: &str, build_id: Option<&[u8]>, debug_link: Option<&[u8]>) -> Option<&[u8]> {
        let link = debug_link.and_then(plain_name);
        let asked =
            Asked { kind: Kind::Debug(link.clone()), path: path.to_owned(), build_id: build_id.map(<[u8]>::to_vec) };
        self.load(asked, || debug_paths(path, build_id, link.as_deref(), &self.caches).into_iter())
    }

    fn code_map(&self, pid: Pid, see: &mut dyn FnMut(&[u8])) -> Option<String> {
        let map = holdup_record::code_map(pid.0, self.machine.began_unix_s).unwrap_or_else(|why| {
            let _ = self.refused_map.set(why);
            None
        })?;
        in_parts(map.file, see);
        Some(map.path.to_string_lossy().into_owned())
    }

    fn jit_dump(&self, pid: Pid, path: &str, see: &mut dyn FnMut(&[u8])) -> Option<String> {
        let dump = holdup_record::jit_dump(pid.0, path, self.machine.began_unix_s).unwrap_or_else(|why| {
            let _ = self.refused_map.set(why);
            None
        })?;
        in_parts(dump.file, see);
        Some(dump.path.to_string_lossy().into_owned())
    }

    fn kernel_symbols(&self) -> &[(u64, Box<str>)] {
        // The same for every recording of this kernel: who exports a thousand reads them once.
        static OF_THIS_KERNEL: OnceLock<Vec<(u64, Box<str>)>> = OnceLock::new();
        if self.machine.runs_now() { OF_THIS_KERNEL.get_or_init(kernel_symbols) } else { &[] }
    }
}

/// Shows a text in parts that end with a line's end, but the last. What cannot be read is not there.
fn in_parts(mut text: impl Read, see: &mut dyn FnMut(&[u8])) {
    const PART: usize = 1 << 20;
    let mut buffer = Vec::with_capacity(PART);
    loop {
        let room = (PART - buffer.len()) as u64;
        let read = text.by_ref().take(room).read_to_end(&mut buffer);
        if !read.is_ok_and(|len| len > 0) {
            return see(&buffer);
        }
        // A line that fills all the room is none of a map: what is left of it then makes no sense either.
        let whole = buffer.iter().rposition(|byte| *byte == b'\n').map_or(buffer.len(), |at| at + 1);
        if whole < buffer.len() || buffer.ends_with(b"\n") || buffer.len() == PART {
            see(&buffer[..whole]);
            buffer.drain(..whole);
        }
    }
}

impl Machine {
    /// Whether addresses of the recording's kernel mean today what they meant then: same release, and no boot in
    /// between, as each boot places the kernel anew.
    fn runs_now(&self) -> bool {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let booted = std::fs::read_to_string("/proc/stat").ok().as_deref().and_then(boot_time);
        self.wanted && release.trim() == self.kernel && booted.is_some_and(|booted| booted <= self.began_unix_s)
    }
}

/// Seconds since 1970 of the last boot, as /proc/stat has it.
fn boot_time(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// The first of the candidates that is the right file; whether others were there that are not.
fn first_match(
    candidates: impl Iterator<Item = PathBuf>,
    build_id: Option<&[u8]>,
    ended_unix_s: Option<u64>,
) -> (Option<Vec<u8>>, bool) {
    let mut others = false;
    for path in candidates {
        let Some(bytes) = read(&path) else { continue };
        let right = match build_id {
            Some(id) => has_build_id(&bytes, id),
            None => !was_written_after(&path, ended_unix_s),
        };
        if right {
            return (Some(bytes), false);
        }
        others = true;
    }
    (None, others)
}

/// The bytes of a regular file; devices and pipes in a recording's paths are left alone.
fn read(path: &Path) -> Option<Vec<u8>> {
    let about = std::fs::metadata(path).ok()?;
    if !about.is_file() || about.len() > LARGEST_BYTES {
        return None;
    }
    std::fs::read(path).ok()
}

/// Whether the file's content is younger than the recording; seconds are as exact as its beginning is known.
fn was_written_after(path: &Path, ended_unix_s: Option<u64>) -> bool {
    let modified = std::fs::metadata(path).and_then(|about| about.modified()).ok();
    let modified = modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    modified.zip(ended_unix_s).is_some_and(|(modified, ended)| modified.as_secs() > ended + 1)
}

fn has_build_id(bytes: &[u8], wanted: &[u8]) -> bool {
    let file = object::File::parse(bytes).ok();
    let found = file.as_ref().and_then(|file| file.build_id().ok().flatten());
    // The kernel tells build ids in 20 bytes, shorter ones with zeros behind.
    found.is_some_and(|found| wanted.starts_with(found) && wanted[found.len()..].iter().all(|byte| *byte == 0))
}

/// Where a mapped binary may be: at its path, at its path as its process sees it, or where its name is gone, with a
/// process that has it mapped.
fn binary_paths<'p>(path: &'p str, has_build_id: bool, pids: &'p [u32]) -> impl Iterator<Item = PathBuf> + 'p {
    let plain = path.strip_suffix(DELETED).unwrap_or(path);
    let mapped = move || pids.iter().map(move |pid| (*pid, files_mapped_as(*pid, plain)));
    // No more than the build id tells that the file of that name is the one that was mapped.
    let is_another =
        !has_build_id && (path != plain || mapped().any(|(_, files)| files.iter().any(|file| file.is_gone)));
    // A number may be another process's by now: one that has such a file mapped is believed.
    let seen_by = move || {
        let has_it = mapped().filter(|(_, files)| !files.is_empty());
        has_it.map(move |(pid, _)| PathBuf::from(format!("/proc/{pid}/root{plain}")))
    };
    let seen_by = std::iter::once_with(seen_by).flatten();
    let by_name = std::iter::once(PathBuf::from(plain)).chain(seen_by).filter(move |_| !is_another);
    // Links that lead to the file itself.
    let by_link = pids.iter().map(|pid| PathBuf::from(format!("/proc/{pid}/exe"))).filter(move |exe| {
        let target = std::fs::read_link(exe).unwrap_or_default();
        target.to_string_lossy().trim_end_matches(DELETED) == plain
    });
    let by_range = std::iter::once_with(mapped).flatten().flat_map(move |(pid, files)| {
        // Of two files that had the same name, only the build id tells which is meant.
        let is_known = has_build_id || files.len() == 1;
        let path = move |file: MappedAs| PathBuf::from(format!("/proc/{pid}/map_files/{}", file.range));
        files.into_iter().filter(move |_| is_known).map(path)
    });
    by_name.chain(by_link).chain(by_range)
}

/// A file that a process has mapped.
#[derive(Debug)]
struct MappedAs {
    inode: String,
    /// Its name is gone, or another file's by now.
    is_gone: bool,
    /// Where it is mapped, as the name of a link.
    range: String,
}

/// The files that a process has mapped under this path, each once.
fn files_mapped_as(pid: u32, path: &str) -> Vec<MappedAs> {
    let text = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    mapped_as(&String::from_utf8_lossy(&text), path)
}

/// The same by the text of /proc/PID/maps: range, rights, offset, device, inode, path.
fn mapped_as(maps: &str, path: &str) -> Vec<MappedAs> {
    let mut files: Vec<MappedAs> = Vec::new();
    for line in maps.lines() {
        let mut fields = line.splitn(6, ' ');
        let (range, inode, name) = (fields.next(), fields.nth(3), fields.next());
        let (Some(range), Some(inode), Some(name)) = (range, inode, name) else { continue };
        // The kernel writes a line end in a path as `\012`.
        let name = name.trim_start_matches(' ').replace("\\012", "\n");
        let is_gone = name.strip_suffix(DELETED) == Some(path);
        if (is_gone || name == path) && !files.iter().any(|file| file.inode == inode) {
            files.push(MappedAs { inode: inode.to_owned(), is_gone, range: trimmed(range) });
        }
    }
    files
}

/// A range as the links in /proc/PID/map_files have it, without zeros ahead.
fn trimmed(range: &str) -> String {
    let trim = |number: &str| number.trim_start_matches('0').to_owned();
    range.split('-').map(trim).collect::<Vec<_>>().join("-")
}

/// Where a binary's debug file may be, in the order of gdb: by build id, then by debug link.
fn debug_paths(path: &str, build_id: Option<&[u8]>, link: Option<&str>, caches: &[PathBuf]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if let Some(id) = build_id.map(hex).filter(|id| id.len() > 2) {
        let (first, rest) = id.split_at(2);
        paths.push(Path::new(DEBUG_ROOT).join(".build-id").join(first).join(format!("{rest}.debug")));
        paths.extend(caches.iter().map(|cache| cache.join(&id).join("debuginfo")));
    }
    let plain = path.strip_suffix(DELETED).unwrap_or(path);
    if let (Some(link), Some(folder)) = (link, Path::new(plain).parent()) {
        paths.push(folder.join(link));
        paths.push(folder.join(".debug").join(link));
        let under_root = folder.strip_prefix("/").unwrap_or(folder);
        paths.push(Path::new(DEBUG_ROOT).join(under_root).join(link));
    }
    // A debug link may bear the binary's own name, which is not its debug file.
    paths.retain(|candidate| candidate != Path::new(plain));
    paths
}

/// A debug link's file name: up to its terminating zero, and no path.
fn plain_name(link: &[u8]) -> Option<String> {
    let name = link.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = std::str::from_utf8(name).ok()?;
    (!name.is_empty() && !name.contains('/') && name != "..").then(|| name.to_owned())
}

/// The folders that debuginfod's client keeps files in (debuginfod_find_debuginfo(3), "CACHE").
fn caches(variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<PathBuf> {
    let set = |name| variable(name).filter(|path| path.is_absolute());
    let own = set("DEBUGINFOD_CACHE_PATH");
    let xdg = set("XDG_CACHE_HOME").map(|cache| cache.join("debuginfod_client"));
    let home = set("HOME").into_iter();
    let under_home =
        home.flat_map(|home| [home.join(".cache/debuginfod_client"), home.join(".debuginfod_client_cache")]);
    own.into_iter().chain(xdg).chain(under_home).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The functions of /proc/kallsyms, ascending; none where the kernel hides its addresses (it shows zeros then). BPF
/// programs and trampolines are left out: those of now need not be those of the recording, which lay at the same
/// addresses.
fn kernel_symbols() -> Vec<(u64, Box<str>)> {
    // The file is larger than a page of zeros by far: look at its first address before reading all of it.
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    parse_kernel_symbols(&text)
}

fn parse_kernel_symbols(text: &str) -> Vec<(u64, Box<str>)> {
    let mut symbols: Vec<(u64, Box<str>)> = text
        .lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?;
            let comes_and_goes = words.next().is_some_and(|of| of == "[bpf]" || of.starts_with("[__builtin__"));
            (is_code && address != 0 && !comes_and_goes).then(|| (address, name.into()))
        })
        .collect();
    symbols.sort_by_key(|(address, _)| *address);
    symbols
}

/// A file as the analysis asked for it.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    kind: Kind,
    path: String,
    build_id: Option<Vec<u8>>,
}

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Binary,
    Debug(Option<String>),
}

/// A file as it was found.
#[derive(Debug)]
struct File {
    asked: Asked,
    bytes: Option<Vec<u8>>,
    replaced: Cell<bool>,
}

/// A list that grows at its end while its entries are lent out: a file that was given once stays where it is.
#[derive(Debug, Default)]
struct Loaded {
    first: OnceCell<Box<Node>>,
}

#[derive(Debug)]
struct Node {
    file: File,
    next: OnceCell<Box<Node>>,
}

impl Loaded {
    fn iter(&self) -> impl Iterator<Item = &File> {
        std::iter::successors(self.first.get(), |node| node.next.get()).map(|node| &node.file)
    }

    fn push(&self, file: File) -> &File {
        let mut end = &self.first;
        while let Some(node) = end.get() {
            end = &node.next;
        }
        &end.get_or_init(|| Box::new(Node { file, next: OnceCell::new() })).file
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_files_are_looked_for_where_gdb_looks() {
        let caches = [PathBuf::from("/cache")];
        let paths = debug_paths("/usr/bin/server", Some(&[0xab, 0xcd, 0xef]), Some("server.debug"), &caches);
        let expected = [
            "/usr/lib/debug/.build-id/ab/cdef.debug",
            "/cache/abcdef/debuginfo",
            "/usr/bin/server.debug",
            "/usr/bin/.debug/server.debug",
            "/usr/lib/debug/usr/bin/server.debug",
        ];
        assert_eq!(paths, expected.map(PathBuf::from));
        assert_eq!(debug_paths("/usr/bin/server", None, Some("server"), &[]).len(), 2, "not the binary itself");
        assert!(debug_paths("/usr/bin/server", None, None, &caches).is_empty());
    }

    #[test]
    fn a_debug_link_leads_into_no_other_folder() {
        assert_eq!(plain_name(b"a.debug\0\0\x12\x34"), Some("a.debug".to_owned()));
        for bad in [&b"../../etc/passwd\0"[..], b"..", b"", b"\0", b"\xff\xfe"] {
            assert_eq!(plain_name(bad), None);
        }
    }

    #[test]
    fn files_are_told_apart_by_what_a_process_has_mapped() {
        let maps = "00400000-00401000 r--p 00000000 fe:00 7      /srv/app (deleted)\n\
                    00401000-00402000 r-xp 00001000 fe:00 7      /srv/app (deleted)\n\
                    7f0000000000-7f0000001000 r-xp 00000000 fe:00 8 /srv/app\n\
                    7f0000002000-7f0000003000 r-xp 00000000 fe:00 9  /srv/a  b\\012c\n\
                    7f0000004000-7f0000005000 rw-p 00000000 00:00 0 \nnonsense\n";
        let found = |path| mapped_as(maps, path).into_iter().map(|file| (file.range, file.is_gone)).collect::<Vec<_>>();
        let both = [("400000-401000".to_owned(), true), ("7f0000000000-7f0000001000".to_owned(), false)];
        assert_eq!(found("/srv/app"), both);
        assert_eq!(found("/srv/a  b\nc"), [("7f0000002000-7f0000003000".to_owned(), false)]);
        assert_eq!(found("/srv"), []);
    }

    #[test]
    fn a_file_whose_name_is_gone_is_read_where_it_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("app");
        std::fs::copy("/bin/sleep", &path).unwrap();
        // A child of another test may still have the copy open for writing.
        let start = |_| match std::process::Command::new(&path).arg("60").spawn() {
            Err(why) if why.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(std::time::Duration::from_millis(20));
                None
            }
            started => Some(started.unwrap()),
        };
        let mut runs = (0..500).find_map(start).unwrap();
        let (pid, name) = (runs.id(), path.to_str().unwrap());
        let paths = |path: &str, id| binary_paths(path, id, &[pid]).collect::<Vec<_>>();
        // The kernel closes what its parent waits for before it maps the program.
        let mapped = |_| {
            let found = paths(name, false);
            if found.len() < 4 {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            Some(found).filter(|found| found.len() >= 4)
        };
        let whole = (0..500).find_map(mapped).unwrap();
        let exe = PathBuf::from(format!("/proc/{pid}/exe"));
        assert_eq!((&whole[0], &whole[2]), (&path, &exe), "{whole:?}");
        let range = whole[3].clone();
        assert!(range.starts_with(format!("/proc/{pid}/map_files/")), "{range:?}");
        std::fs::write(folder.path().join("new"), "another").unwrap();
        std::fs::rename(folder.path().join("new"), &path).unwrap();
        let deleted = format!("{name}{DELETED}");
        let by_link = [exe, range.clone()];
        assert_eq!((paths(name, false), paths(&deleted, false)), (by_link.to_vec(), by_link.to_vec()));
        assert_eq!(paths(&deleted, true)[0], path, "the build id will tell");
        // Only root may read it there.
        let there = std::fs::read(&range).ok();
        assert!(there.is_none_or(|bytes| bytes == std::fs::read("/bin/sleep").unwrap()));
        runs.kill().unwrap();
        runs.wait().unwrap();
    }

    #[test]
    fn kernel_symbols_are_functions_with_addresses() {
        let text = "ffffffff81000000 T _text\nffffffff81000100 d data\n0000000000000000 T hidden\n\
                    ffffffff80000000 t first\t[module]\nnonsense\nffffffffc0001000 t bpf_prog_1_on_switch\t[bpf]\n\
                    ffffffffc0201000 t ftrace_trampoline\t[__builtin__ftrace]\n";
        let symbols = parse_kernel_symbols(text);
        let names: Vec<&str> = symbols.iter().map(|(_, name)| &**name).collect();
        assert_eq!(names, ["first", "_text"]);
        assert_eq!(boot_time("cpu 1 2\nbtime 1700000000\n"), Some(1_700_000_000));
    }

    #[test]
    fn a_map_is_shown_in_whole_lines_however_it_arrives() {
        /// Gives a few bytes at a time.
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                let len = 7.min(into.len()).min(self.0.len());
                let (now, later) = self.0.split_at(len);
                into[..len].copy_from_slice(now);
                self.0 = later;
                Ok(len)
            }
        }
        let text: String = (0..200_000).map(|n| format!("{n:x} 10 function {n}\n")).chain(["end".into()]).collect();
        let mut parts: Vec<Vec<u8>> = Vec::new();
        in_parts(Slow(text.as_bytes()), &mut |part| parts.push(part.to_vec()));
        assert!(parts.len() > 2 && parts.concat() == text.as_bytes());
        assert!(parts[..parts.len() - 1].iter().all(|part| part.ends_with(b"\n")));
        // No line is as long; it ends at some time all the same.
        let mut len = 0;
        in_parts(std::io::repeat(b'x').take(5 << 20), &mut |part| len += part.len());
        assert_eq!(len, 5 << 20);
    }

    #[test]
    fn caches_follow_the_environment() {
        let found = caches(|name| (name == "HOME").then(|| PathBuf::from("/home/a")));
        let expected = ["/home/a/.cache/debuginfod_client", "/home/a/.debuginfod_client_cache"];
        assert_eq!(found, expected.map(PathBuf::from));
        assert!(caches(|_| Some(PathBuf::from("relative"))).is_empty());
    }

    /// This test's own binary, under a recorded build id that is and one that is not its own.
    #[test]
    fn only_the_binary_that_was_recorded_is_given() {
        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let id = file.build_id().unwrap().expect("linkers of this system write build ids").to_vec();
        let binaries = Binaries::of(&Header::default(), None);
        let path = own.to_str().unwrap();
        assert_eq!(binaries.file(path, Some(&id)).map(<[u8]>::len), Some(bytes.len()));
        assert_eq!(binaries.file(path, None).map(<[u8]>::len), Some(bytes.len()));
        assert!(!binaries.is_replaced(path));
        let mut other = id.clone();
        other[0] ^= 1;
        assert!(binaries.file(path, Some(&other)).is_none());
        assert!(binaries.is_replaced(path));
        let mut padded = id;
        padded.extend([0; 4]);
        assert!(binaries.file(path, Some(&padded)).is_some());
        let long_ago = Binaries::of(&Header::default(), Some(&Ending::default()));
        assert!(long_ago.file(path, None).is_none(), "written after the recording ended");
        assert!(long_ago.is_replaced(path));
        for nothing in ["[vdso]", "//anon", "/dev/null", "/no/such/file", ""] {
            assert!(binaries.file(nothing, None).is_none(), "{nothing}");
        }
    }
}
