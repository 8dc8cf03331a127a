//! The Debian package: a holdup that is linked with the system's C library.

use std::fs;
use std::path::Path;

use super::build::{Build, VERSION};
use super::tree::{self, below, install, mode, read, zip};
use crate::files::{cannot, fresh, put, size};
use crate::run::Step;

/// Writes it, by dpkg-deb.
pub fn package(build: &Build, program: &Path, folder: &Path) -> Result<(), String> {
    let stage = fresh(&build.target.join("dist-stage/deb"))?;
    install(program, &stage.join("usr"))?;
    let documents = stage.join("usr/share/doc/holdup");
    put(&documents.join("README.md"), &read(build, "README.md")?)?;
    put(&documents.join("changelog"), &read(build, "CHANGELOG.md")?)?;
    zip(&documents.join("changelog"))?;
    put(&documents.join("copyright"), copyright(build)?.as_bytes())?;
    // Debian's place for completions of zsh.
    let zsh = stage.join("usr/share/zsh");
    fs::create_dir_all(zsh.join("vendor-completions")).map_err(|why| cannot("make", &zsh, &why))?;
    let (from, to) = (zsh.join("site-functions/_holdup"), zsh.join("vendor-completions/_holdup"));
    fs::rename(&from, &to)
        .and_then(|()| fs::remove_dir(zsh.join("site-functions")))
        .map_err(|why| cannot("move", &from, &why))?;
    let paths = below(&stage)?;
    let sums = below(&stage)?.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    let sums: Vec<&str> = sums.iter().map(String::as_str).collect();
    let sums = Step::new("md5sum", &sums).folder(&stage).output()?;
    let kib = paths.iter().map(|path| Ok(size(&stage.join(path))?.div_ceil(1024))).sum::<Result<u64, String>>()?;
    put(&stage.join("DEBIAN/md5sums"), sums.as_bytes())?;
    put(&stage.join("DEBIAN/control"), control(&oldest_glibc(program)?, kib).as_bytes())?;
    Step::new("chmod", &["--recursive", "a+rX,u+w,go-w", &stage.display().to_string()]).run()?;
    mode(&stage.join("usr/bin/holdup"), "755")?;
    let file = folder.join(format!("holdup_{VERSION}_amd64.deb")).display().to_string();
    // One thread: more of them cut what they compress elsewhere.
    Step::new("dpkg-deb", &["--root-owner-group", "-Zxz", "--threads-max=1", "--build"])
        .args(&[&stage.display().to_string(), &file])
        .env("SOURCE_DATE_EPOCH", &build.epoch)
        .run()
}

/// What apt is told. Who packages for others gives his name as Debian's tools expect it.
fn control(glibc: &str, kib: u64) -> String {
    let of = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.to_owned());
    let maintainer = format!("{} <{}>", of("DEBFULLNAME", "holdup"), of("DEBEMAIL", "holdup@localhost"));
    format!(
        "Package: holdup\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: {maintainer}\nInstalled-Size: {kib}\n\
         Depends: libc6 (>= {glibc}), libgcc-s1\nSection: devel\nPriority: optional\n\
         Description: finds out what makes multithreaded programs wait\n \
         holdup records a real, unmodified program and reports in ranked findings\n \
         what its threads wait for, where, and what to try. It runs the program with\n \
         other lock policies, limits and settings, and says which of them helps and\n \
         by how much. It is a laboratory for locks, too.\n"
    )
}

/// The oldest C library that has all that the program asks of it, and what the interposer inside asks of that of
/// other programs.
fn oldest_glibc(program: &Path) -> Result<String, String> {
    const MARK: &[u8] = b"\0GLIBC_2.";
    let bytes = fs::read(program).map_err(|why| cannot("read", program, &why))?;
    let after = |at: usize| bytes[at + MARK.len()..].iter().take_while(|byte| byte.is_ascii_digit()).copied().collect();
    let found = bytes.windows(MARK.len()).enumerate().filter(|(_, there)| *there == MARK).map(|(at, _)| after(at));
    let minor = found.filter_map(|digits: Vec<u8>| String::from_utf8(digits).ok()?.parse::<u32>().ok()).max();
    minor.map(|minor| format!("2.{minor}")).ok_or_else(|| format!("{} asks for no C library", program.display()))
}

/// Debian's form of it; the licences of what is linked in are in the SBOM.
fn copyright(build: &Build) -> Result<String, String> {
    let mit = String::from_utf8_lossy(&tree::read(build, "LICENSE-MIT")?).into_owned();
    let lines: Vec<String> = mit
        .lines()
        .skip_while(|line| !line.starts_with("Permission"))
        .map(|line| if line.is_empty() { " .".to_owned() } else { format!(" {line}") })
        .collect();
    let holder = mit.lines().find_map(|line| line.strip_prefix("Copyright ")).unwrap_or("the holdup developers");
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: holdup\n\n\
         Files: *\nCopyright: {holder}\nLicense: Expat or Apache-2.0\n\nLicense: Expat\n{}\n\nLicense: Apache-2.0\n \
         On Debian systems the full text of the Apache License 2.0 is in\n /usr/share/common-licenses/Apache-2.0.\n",
        lines.join("\n")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_c_library_is_the_newest_that_anything_inside_asks_for() {
        let file = std::env::temp_dir().join(format!("holdup-deb-{}", std::process::id()));
        fs::write(&file, b"x\0GLIBC_2.2.5\0GLIBC_2.34\0\0GLIBC_2.9\0GLIBC_PRIVATE").unwrap();
        assert_eq!(oldest_glibc(&file).as_deref(), Ok("2.34"));
        fs::write(&file, b"static").unwrap();
        assert!(oldest_glibc(&file).is_err());
        fs::remove_file(&file).unwrap();
    }

    #[test]
    fn what_apt_reads_has_its_form() {
        let control = control("2.34", 7);
        assert!(control.contains("\nDepends: libc6 (>= 2.34), libgcc-s1\n") && control.ends_with(".\n"));
        assert!(control.lines().all(|line| line.len() <= 80 && (line.contains(": ") || line.starts_with(' '))));
    }
}
