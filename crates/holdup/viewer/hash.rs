//! A name for the state of the viewer's sources: `cargo xtask viewer` writes it beside the bundle, a test makes it
//! again.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Where the names are kept.
pub const FILE: &str = "dist/hashes.txt";

/// What the bundle is made from and what it is, a line each: `sources 0123456789abcdef`.
pub fn lines(viewer: &Path) -> io::Result<String> {
    let mut sources = Vec::new();
    collect(&viewer.join("src"), &mut sources)?;
    sources.extend(["build.mjs", "package.json", "package-lock.json", "tsconfig.json"].map(|name| viewer.join(name)));
    let bundle = ["viewer.css", "viewer.js"].map(|name| viewer.join("dist").join(name)).to_vec();
    Ok(format!("sources {}\nbundle {}\n", of(viewer, sources)?, of(viewer, bundle)?))
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, into)?;
        } else {
            into.push(path);
        }
    }
    Ok(())
}

/// FNV-1a of 64 bits over names and contents, in order of name: against forgetting, not against malice.
fn of(root: &Path, mut files: Vec<PathBuf>) -> io::Result<String> {
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    };
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        take(name.as_bytes());
        take(&[0]);
        // A checkout may have changed the ends of lines.
        take(fs::read_to_string(&path)?.replace("\r\n", "\n").as_bytes());
        take(&[0]);
    }
    Ok(format!("{hash:016x}"))
}
