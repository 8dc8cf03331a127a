//! What was built, installed and used where there is no Rust: in a fresh Debian, on a system whose C library is musl,
//! and in a container that has nothing but the program.
//!
//! Each place is a folder that becomes a root. Debian's packages come from where this machine has them from.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::build::VERSION;
use crate::files::{cannot, fresh, put, remove};
use crate::run::{Step, root};
use crate::setup;

/// Programs that the places are made by and of, and Debian's packages of them.
const NEEDS: &[(&str, &str)] = &[
    ("debootstrap", "debootstrap"),
    ("bwrap", "bubblewrap"),
    ("musl-gcc", "musl-tools"),
    ("/bin/busybox", "busybox-static"),
    ("unshare", "util-linux"),
];

const MUSL_LOADER: &str = "/lib/ld-musl-x86_64.so.1";
const MUSL_LIBRARY: &str = "/usr/lib/x86_64-linux-musl/libc.so";

/// Who uses it: root, or the first ordinary user, in the user's folder.
const USERS: [&str; 2] = ["0:0", "1000:1000"];

/// Tries the files of `dist` in each place under `folder`.
pub fn try_all(dist: &Path, folder: &Path) -> Result<(), String> {
    let missing: Vec<&str> =
        NEEDS.iter().filter(|(program, _)| setup::found(&[program]).is_none()).map(|(_, package)| *package).collect();
    if !missing.is_empty() {
        return Err(format!("--try needs more programs; run 'apt-get install {}'", missing.join(" ")));
    }
    fresh(folder)?;
    let programs = Programs::compile(folder)?;
    debian(dist, folder, &programs)?;
    musl(dist, folder, &programs)?;
    alone(dist, folder, &programs)?;
    remove(folder)
}

/// The program of the documentation, for each C library.
struct Programs {
    glibc: PathBuf,
    musl: PathBuf,
    is_static: PathBuf,
}

impl Programs {
    fn compile(folder: &Path) -> Result<Programs, String> {
        let source = root().join("examples/page_cache.c").display().to_string();
        let made = |compiler: &str, name: &str, more: &[&str]| {
            let file = folder.join(name);
            let words = ["-O2", "-g", "-pthread", "-o", &file.display().to_string(), &source];
            Step::new(compiler, &words).args(more).run().map(|()| file)
        };
        Ok(Programs {
            glibc: made("cc", "page_cache_glibc", &[])?,
            musl: made("musl-gcc", "page_cache_musl", &[])?,
            is_static: made("musl-gcc", "page_cache_static", &["-static"])?,
        })
    }
}

/// A fresh Debian of the release that this machine has, the package installed as its users do.
fn debian(dist: &Path, folder: &Path, programs: &Programs) -> Result<(), String> {
    let place = Place { root: folder.join("debian") };
    let about =
        fs::read_to_string("/etc/os-release").map_err(|why| cannot("read", Path::new("/etc/os-release"), &why))?;
    let release = about.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or("stable");
    Step::new("debootstrap", &["--variant=minbase", release, &place.path("")]).output()?;
    let package = format!("holdup_{VERSION}_amd64.deb");
    copy(&dist.join(&package), &place.root.join(&package))?;
    place.run(USERS[0], &["dpkg", "--install", &format!("/{package}")])?;
    place.run(USERS[0], &["dpkg", "--verify", "holdup"])?.expect_nothing("what dpkg finds changed")?;
    for compiler in ["cargo", "rustc", "cc"] {
        if place.root.join("usr/bin").join(compiler).exists() {
            return Err(format!("{} has {compiler}: it is not fresh", place.root.display()));
        }
    }
    for user in USERS {
        println!("Debian {release}, the package, user {user}:");
        place.work(user, &programs.glibc)?;
        place.demo(user)?;
        let tried = place.holdup(user, &["try", "--locks", "spin-learn", "--budget", "20s", "--", "./page_cache"])?;
        tried.says(&["spin-learn", "as it is"])?.shows_not("spin-learn: failed")?;
    }
    place.run(USERS[0], &["dpkg", "--purge", "holdup"])?;
    remove(&place.root)
}

/// A system of busybox and musl, as Alpine is one, the tarball unpacked.
fn musl(dist: &Path, folder: &Path, programs: &Programs) -> Result<(), String> {
    let place = Place { root: folder.join("musl") };
    place.unpack(dist)?;
    copy(Path::new("/bin/busybox"), &place.root.join("bin/busybox"))?;
    copy(Path::new(MUSL_LIBRARY), &place.root.join(&MUSL_LOADER[1..]))?;
    for name in ["sh", "ls", "cat"] {
        let link = place.root.join("bin").join(name);
        symlink("busybox", &link).map_err(|why| cannot("link", &link, &why))?;
    }
    for user in USERS {
        println!("busybox and musl, the static program, user {user}:");
        place.work(user, &programs.musl)?;
        place.demo(user)?;
        // musl's mutexes are not exchanged; there are other remedies, and 'with' says so.
        let tried = place.holdup(user, &["try", "--cpus", "all,1", "--budget", "20s", "--", "./page_cache"])?;
        tried.says(&["1 CPU", "as it is"])?;
        place.holdup_says(user, &["with", "--", "./page_cache"])?.fails()?.says(&["linked with musl"])?;
    }
    remove(&place.root)
}

/// A container without anything: the program, what it records, and what the kernel shows.
fn alone(dist: &Path, folder: &Path, programs: &Programs) -> Result<(), String> {
    let place = Place { root: folder.join("alone") };
    place.unpack(dist)?;
    let bare = Bare { root: place.root.clone() };
    copy(&programs.is_static, &place.root.join("page_cache"))?;
    println!("a container with nothing else, the static program, user 1000:");
    bare.run(&["/bin/holdup", "record", "-o", "/tmp/a.holdup", "/page_cache", "400"])?.says(&["page_cache"])?;
    bare.run(&["/bin/holdup", "try", "--cpus", "all,1", "--budget", "10s", "--", "/page_cache", "400"])?
        .says(&["1 CPU", "as it is"])?;
    bare.run(&["/bin/holdup", "demo"])?.says(&["Which cure helps?"])?;
    remove(&place.root)
}

/// A folder that becomes a root, on this machine's own kernel and among its processes.
struct Place {
    root: PathBuf,
}

impl Place {
    fn path(&self, name: &str) -> String {
        self.root.join(name).display().to_string()
    }

    /// The tarball, where its programs are on the path.
    fn unpack(&self, dist: &Path) -> Result<(), String> {
        fresh(&self.root)?;
        for folder in ["proc", "dev", "tmp", "etc"] {
            fresh(&self.root.join(folder))?;
        }
        let tarball = dist.join(format!("holdup-{VERSION}-x86_64-linux.tar.gz")).display().to_string();
        Step::new("tar", &["--extract", "--gzip", "--strip-components=1", "--file", &tarball])
            .args(&["--directory", &self.path("")])
            .run()
    }

    /// Runs a command that must succeed.
    fn run(&self, user: &str, words: &[&str]) -> Result<Said, String> {
        self.said(user, words)?.works()
    }

    /// Runs a command with this root, a folder of processes and one in memory, and gives what it printed.
    fn said(&self, user: &str, words: &[&str]) -> Result<Said, String> {
        const INSIDE: &str = "mount -t proc proc \"$0/proc\" && mkdir -p \"$0/dev/shm\" && \
            mount -t tmpfs -o mode=1777 tmpfs \"$0/dev/shm\" && { [ -e \"$0/dev/null\" ] || mknod -m 666 \"$0/dev/null\" c 1 3; } && \
            chmod 1777 \"$0/tmp\" && user=$1 && shift && \
            exec chroot --userspec=\"$user\" \"$0\" \"$@\"";
        let root = self.path("");
        let step = Step::new("unshare", &["--mount", "sh", "-c", INSIDE, root.trim_end_matches('/'), user]).args(words);
        Said::of(step.env("HOME", "/tmp").env("TMPDIR", "/tmp").env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin"))
    }

    /// holdup, in the user's folder; it must succeed.
    fn holdup(&self, user: &str, words: &[&str]) -> Result<Said, String> {
        self.holdup_says(user, words)?.works()
    }

    /// The same, however it ends.
    fn holdup_says(&self, user: &str, words: &[&str]) -> Result<Said, String> {
        const THERE: &str = "cd \"/tmp/$0\" && exec holdup \"$@\"";
        self.said(user, &[&["sh", "-c", THERE, folder_of(user)], words].concat())
    }

    /// A program recorded, the recording shown, its page written, and written anew from the file.
    fn work(&self, user: &str, program: &Path) -> Result<(), String> {
        let folder = self.root.join("tmp").join(folder_of(user));
        put(&folder.join("page_cache"), &fs::read(program).map_err(|why| cannot("read", program, &why))?)?;
        let folder = folder.display().to_string();
        Step::new("chmod", &["-R", "755", &folder]).run()?;
        Step::new("chown", &["-R", user, &folder]).run()?;
        self.holdup(user, &["doctor"])?.show();
        let recorded = self.holdup(user, &["record", "-o", "a.holdup", "./page_cache"])?;
        recorded.says(&["g_cache_lock", "page_cache.c:"])?.show();
        self.holdup(user, &["report", "a.holdup", "--html", "a.html"])?;
        let page = fs::read_to_string(format!("{folder}/a.html")).map_err(|why| format!("{folder}/a.html: {why}"))?;
        if page.contains("g_cache_lock") { Ok(()) } else { Err(format!("{folder}/a.html has no finding")) }
    }

    fn demo(&self, user: &str) -> Result<(), String> {
        self.holdup(user, &["demo"])?.says(&["CACHE_LOCK", "Which cure helps?"])?.show();
        Ok(())
    }
}

fn folder_of(user: &str) -> &str {
    user.split(':').next().unwrap_or(user)
}

/// A root in namespaces of its own, as containers have them, for an ordinary user.
struct Bare {
    root: PathBuf,
}

impl Bare {
    fn run(&self, words: &[&str]) -> Result<Said, String> {
        let root = self.root.display().to_string();
        let step = Step::new("bwrap", &["--unshare-all", "--uid", "1000", "--gid", "1000", "--ro-bind", &root, "/"])
            .args(&["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--chdir", "/tmp", "--clearenv"])
            .args(&["--setenv", "HOME", "/tmp"])
            .args(words);
        Ok(Said::of(step)?.works()?.show())
    }
}

/// What a command printed, on both streams, and whether it succeeded.
struct Said {
    command: String,
    text: String,
    success: bool,
}

impl Said {
    fn of(step: Step) -> Result<Said, String> {
        let (command, success, text) = step.said()?;
        Ok(Said { command, text, success })
    }

    fn show(self) -> Said {
        self.text.lines().for_each(|line| println!("    {line}"));
        self
    }

    fn works(self) -> Result<Said, String> {
        if self.success { Ok(self) } else { Err(self.wrong("fails")) }
    }

    fn fails(self) -> Result<Said, String> {
        if self.success { Err(self.wrong("succeeds, and must not")) } else { Ok(self) }
    }

    /// All of the words, where lines may be broken anywhere.
    fn says(self, words: &[&str]) -> Result<Said, String> {
        let flat = self.text.split_whitespace().collect::<Vec<_>>().join(" ");
        match words.iter().find(|word| !flat.contains(**word)) {
            Some(word) => Err(self.wrong(&format!("does not say '{word}'"))),
            None => Ok(self),
        }
    }

    fn shows_not(self, word: &str) -> Result<Said, String> {
        if self.text.contains(word) { Err(self.wrong(&format!("says '{word}'"))) } else { Ok(self) }
    }

    fn expect_nothing(self, what: &str) -> Result<(), String> {
        if self.text.trim().is_empty() { Ok(()) } else { Err(self.wrong(what)) }
    }

    fn wrong(&self, what: &str) -> String {
        format!("'{}' {what}:\n{}", self.command, self.text)
    }
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let made = to.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::copy(from, to)).map(drop).map_err(|why| cannot("copy", from, &why))
}
