//! Other ways to allocate memory, put under a program by its environment.

use std::path::{Path, PathBuf};

/// What serves a program's malloc.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allocator {
    /// The C library's own, which keeps what is freed instead of giving it back to the system.
    Keeping,
    /// Another one, from this library.
    Other(PathBuf),
}

/// Settings of the C library (2.26 and later) under which freed memory stays with the process: nothing is trimmed below
/// a gibibyte, and blocks of up to 32 MiB, the most that it takes, come from heaps.
const KEEPING: &str = "glibc.malloc.trim_threshold=1073741824:glibc.malloc.mmap_threshold=33554432";

/// Allocators by name: how their library's file name begins, and Debian's package.
const OTHERS: [(&str, &[&str], &str); 3] = [
    ("jemalloc", &["libjemalloc.so"], "libjemalloc2"),
    ("mimalloc", &["libmimalloc.so"], "libmimalloc2.0"),
    ("tcmalloc", &["libtcmalloc_minimal.so", "libtcmalloc.so"], "libtcmalloc-minimal4"),
];
/// Where libraries lie.
const FOLDERS: [&str; 5] =
    ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/lib/aarch64-linux-gnu"];

impl Allocator {
    /// By its name; of another one the library that is installed here.
    ///
    /// # Errors
    /// There is none of that name, or it is not installed.
    pub fn named(name: &str) -> Result<Allocator, String> {
        if name == "keep" {
            return Ok(Allocator::Keeping);
        }
        let Some((_, files, package)) = OTHERS.iter().find(|(other, ..)| *other == name) else {
            return Err(format!("'{name}': give keep, jemalloc, mimalloc or tcmalloc"));
        };
        let found = files.iter().find_map(|file| installed(file));
        found
            .map(Allocator::Other)
            .ok_or_else(|| format!("{name} is not installed here; install it, on Debian: apt install {package}"))
    }

    /// The names of all that can be had here.
    pub fn here() -> Vec<&'static str> {
        let others = OTHERS.iter().map(|(name, ..)| *name).filter(|name| Allocator::named(name).is_ok());
        std::iter::once("keep").chain(others).collect()
    }

    /// The variable that puts it under a program, and what it is to contain before what it already does.
    pub fn variable(&self) -> (&'static str, String) {
        match self {
            Allocator::Keeping => ("GLIBC_TUNABLES", KEEPING.to_owned()),
            Allocator::Other(path) => ("LD_PRELOAD", path.display().to_string()),
        }
    }
}

/// The library whose file name begins so, if there is one.
fn installed(file: &str) -> Option<PathBuf> {
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(file));
    FOLDERS.iter().find_map(|folder| {
        let mut found: Vec<PathBuf> =
            Path::new(folder).read_dir().ok()?.filter_map(|entry| Some(entry.ok()?.path())).filter(is_it).collect();
        found.sort();
        // Links for those who build against it point to the same file.
        found.into_iter().next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocator_is_known_or_the_error_says_what_is() {
        assert_eq!(Allocator::named("keep"), Ok(Allocator::Keeping));
        assert!(Allocator::named("hoard").unwrap_err().contains("jemalloc"));
        assert!(Allocator::here().contains(&"keep"));
        let (name, value) = Allocator::Other("/lib/libjemalloc.so.2".into()).variable();
        assert_eq!((name, value.as_str()), ("LD_PRELOAD", "/lib/libjemalloc.so.2"));
    }
}
