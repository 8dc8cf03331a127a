//! The program to be interposed, looked at before it is started: what the loader would silently ignore is said here.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, elf};

use super::{library, sys};

/// Scripts that are run by scripts that are run by scripts: the kernel follows five.
const MAX_SCRIPTS: usize = 5;

/// The largest part of a file that is looked at: its head, with the program headers.
const HEAD_BYTES: u64 = 64 << 10;

/// A program that can be interposed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// The file whose code runs: itself, or of a script the interpreter.
    pub binary: PathBuf,
    /// The loader that it asks for; `None` if the file could not be read.
    pub loader: Option<PathBuf>,
}

impl Program {
    /// The last part of the path of the file whose code runs, behind all links.
    pub fn name(&self) -> Option<String> {
        let file = self.binary.canonicalize().unwrap_or_else(|_| self.binary.clone());
        Some(file.file_name()?.to_string_lossy().into_owned())
    }
}

/// Why a program cannot be interposed.
#[derive(Debug)]
pub enum Refusal {
    /// It cannot be started at all.
    Start {
        /// As given.
        name: String,
        /// The system's reason, or one that it would give.
        why: io::Error,
    },
    /// It has all its libraries within it.
    Static(PathBuf),
    /// The system would drop what is preloaded.
    Privileged(PathBuf, &'static str),
    /// It is for another C library.
    Musl(PathBuf),
    /// It is for another machine, or for 32 bits.
    Machine(PathBuf),
    /// This build has no library.
    Unsupported,
}

/// What to say of a command that is not there.
pub fn not_there(name: &str) -> String {
    match () {
        () if name.starts_with('-') => {
            format!("{name}: no such option; --help lists those there are, and the program comes behind --")
        }
        () if name.contains('/') => {
            format!("{name}: no such file; give the path of a program, or the name of one of $PATH")
        }
        () => format!("{name}: no such command; give a program of $PATH or a path such as ./{name}"),
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other =
            "'holdup record' shows what its threads wait for, and 'holdup try --cpus' or '--vary' try other cures";
        match self {
            Refusal::Start { name, why } if why.kind() == io::ErrorKind::NotFound => f.write_str(&not_there(name)),
            Refusal::Start { name, why } => write!(f, "{name}: cannot be started: {why}"),
            Refusal::Static(path) => write!(
                f,
                "{}: is linked statically, so that its locks cannot be exchanged; link it dynamically, or {other}",
                path.display()
            ),
            Refusal::Privileged(path, what) => write!(
                f,
                "{}: runs with rights of its own ({what}), and the system preloads nothing into such programs; run a copy without \
                 them, or as the user whose rights it takes",
                path.display()
            ),
            Refusal::Musl(path) => write!(
                f,
                "{}: is linked with musl, and holdup only knows the locks of the GNU C library; {other}",
                path.display()
            ),
            Refusal::Machine(path) => write!(
                f,
                "{}: is for another machine than this holdup ({}); build it, or holdup, for the same",
                path.display(),
                std::env::consts::ARCH
            ),
            Refusal::Unsupported => f.write_str(library::MISSING),
        }
    }
}

/// Finds a program as a shell would, and looks whether it can be interposed.
///
/// # Errors
/// It cannot; the message says why and what can be done.
pub fn find(command: &[OsString]) -> Result<Program, Refusal> {
    let library = library::LIBRARY.ok_or(Refusal::Unsupported)?;
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    let path = in_path(name).map_err(|why| Refusal::Start { name: name.to_string_lossy().into_owned(), why })?;
    let mut binary = path.clone();
    let mut arguments: Vec<OsString> = command.iter().skip(1).cloned().collect();
    for _ in 0..MAX_SCRIPTS {
        let Some(head) = head(&binary) else { return Ok(Program { path, binary, loader: None }) };
        let Some((interpreter, argument)) = interpreter(&head) else {
            let loader = look(&binary, &head, library)?;
            return Ok(match launched(&binary, &arguments) {
                Some(command) => Program { path, ..find(command)? },
                None => Program { path, binary, loader },
            });
        };
        // What the interpreter gets: its argument, and the script.
        arguments = argument.into_iter().chain([binary.into_os_string()]).collect();
        binary = interpreter;
        if !binary.exists() {
            let why = format!("its interpreter {} is not there", binary.display());
            let why = io::Error::new(io::ErrorKind::InvalidInput, why);
            return Err(Refusal::Start { name: name.to_string_lossy().into_owned(), why });
        }
    }
    Ok(Program { path, binary, loader: None })
}

/// The command that `env` starts, whose locks are the ones that count; `None` if it is not there or hidden behind
/// options.
fn launched<'a>(binary: &Path, arguments: &'a [OsString]) -> Option<&'a [OsString]> {
    if binary.file_name() != Some(OsStr::new("env")) {
        return None;
    }
    let plain = |word: &OsString| !word.as_encoded_bytes().contains(&b'=');
    let command = &arguments[arguments.iter().position(plain)?..];
    in_path(command.first()?).is_ok().then_some(command)
}

/// The file of a command: the first of its name in `PATH` that can be executed, or the path that it is.
fn in_path(name: &OsStr) -> io::Result<PathBuf> {
    let given = Path::new(name);
    if name.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    if given.components().count() > 1 || given.has_root() || sys::path_bytes(given).contains(&b'/') {
        return executable(given);
    }
    let list = std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into());
    let mut refusal = io::Error::from(io::ErrorKind::NotFound);
    for folder in std::env::split_paths(&list) {
        match executable(&folder.join(given)) {
            Ok(path) => return Ok(path),
            Err(why) if why.kind() != io::ErrorKind::NotFound => refusal = why,
            Err(_) => {}
        }
    }
    Err(refusal)
}

fn executable(path: &Path) -> io::Result<PathBuf> {
    let about = fs::metadata(path)?;
    let refuse = |text: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    if about.is_dir() {
        return refuse("it is a folder; give a program".to_owned());
    }
    if !about.is_file() {
        return refuse("it is no file; give a program".to_owned());
    }
    if !sys::is_executable(path) {
        return refuse(format!("it may not be executed; make it a program with 'chmod +x {}'", path.display()));
    }
    Ok(path.to_owned())
}

/// The beginning of a file; `None` where the user may execute but not read it.
fn head(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// The interpreter in the first line of a script, and its one argument.
fn interpreter(head: &[u8]) -> Option<(PathBuf, Option<OsString>)> {
    let line = head.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = line.trim_ascii();
    let end = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let (path, argument) = (line[..end].to_vec(), line[end..].trim_ascii());
    let argument = (!argument.is_empty()).then(|| sys::path_of(argument).into_os_string());
    (!path.is_empty()).then(|| (sys::path_of(&path), argument))
}

/// Looks at a binary and says which loader it asks for.
fn look(path: &Path, head: &[u8], library: &[u8]) -> Result<Option<PathBuf>, Refusal> {
    if let Some(what) = sys::privilege(path) {
        return Err(Refusal::Privileged(path.to_owned(), what));
    }
    if !head.starts_with(&elf::ELFMAG) {
        // Neither a binary nor a script: whether something runs it, the system knows.
        return Ok(None);
    }
    // Width, order and machine are at the same place in every binary.
    let kind = |bytes: &[u8]| (bytes.get(4..6).map(<[u8]>::to_vec), bytes.get(18..20).map(<[u8]>::to_vec));
    if kind(head) != kind(library) {
        return Err(Refusal::Machine(path.to_owned()));
    }
    match loader(head) {
        Some(loader) if loader.to_string_lossy().contains("ld-musl") => Err(Refusal::Musl(path.to_owned())),
        Some(loader) => Ok(Some(loader)),
        None => Err(Refusal::Static(path.to_owned())),
    }
}

/// The loader that a binary names.
fn loader(head: &[u8]) -> Option<PathBuf> {
    let header = elf::FileHeader64::<Endianness>::parse(head).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, head).ok()?;
    let name = segments.iter().find_map(|segment| segment.interpreter(endian, head).ok().flatten())?;
    Some(sys::path_of(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_of_a_script_names_its_interpreter() {
        let of = |text: &str| interpreter(text.as_bytes());
        assert_eq!(of("#!/bin/sh\necho"), Some(("/bin/sh".into(), None)));
        assert_eq!(of("#! /usr/bin/env  python3 \n"), Some(("/usr/bin/env".into(), Some("python3".into()))));
        assert_eq!(of("#!/bin/awk -f x y"), Some(("/bin/awk".into(), Some("-f x y".into()))));
        assert_eq!(of("#!\n"), None);
        assert_eq!(of("echo"), None);
    }

    #[test]
    fn what_is_no_program_is_refused() {
        let refused = |name: &str| find(&[name.into()]).unwrap_err().to_string();
        if library::LIBRARY.is_none() {
            assert!(refused("ls").contains("glibc"));
            return;
        }
        assert!(refused("no-such-command").contains("no-such-command: no such command"));
        assert!(refused("").contains("no such command"));
        assert!(refused("./no-such-file").contains("no such file"));
        assert!(refused("--no-such-option").contains("no such option"));
        assert!(refused("/").contains("it is a folder"));
        assert!(refused(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).contains("chmod +x"));
    }
}
