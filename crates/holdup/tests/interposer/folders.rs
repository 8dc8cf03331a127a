//! Where the library and the figures lie: safe from others, gone afterwards, in any place that serves.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::{Ended, With, build, is_possible, text};

/// Runs a program that says what is preloaded and where its folder is.
fn told(place: &With, root: &Path) -> (PathBuf, PathBuf) {
    let mut command =
        place.command(&[], &["sh", "-c", "echo $LD_PRELOAD; echo $HOLDUP_CONTROL; ls $HOLDUP_CONTROL >&2"]);
    let ended =
        Ended::of(command.env("XDG_RUNTIME_DIR", root).output().unwrap()).with(0).says(&["processes", "settings"]);
    let lines: Vec<PathBuf> = ended.out.lines().map(PathBuf::from).collect();
    let [library, folder] = &lines[..] else { panic!("{}", ended.out) };
    (library.clone(), folder.clone())
}

/// A folder that every user can reach, as root's runs need it.
fn root() -> TempDir {
    tempfile::Builder::new().permissions(PermissionsExt::from_mode(0o755)).tempdir_in("/tmp").unwrap()
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn mode_of_parent(path: &Path) -> u32 {
    std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777
}

/// Everything in a folder whose name begins so.
fn named(folder: &Path, start: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(start)).map(|entry| entry.path()).collect()
}

#[test]
fn the_library_stays_for_the_next_run_and_the_figures_go() {
    if !is_possible() {
        return;
    }
    let (place, root) = (With::new(), root());
    let (library, folder) = told(&place, root.path());
    assert!(library.starts_with(root.path()) && folder.starts_with(root.path()), "{library:?} {folder:?}");
    assert!(library.exists() && !folder.exists());
    let made = std::fs::metadata(&library).unwrap();
    assert_eq!(made.mode() & 0o777, if is_root() { 0o555 } else { 0o500 });
    assert_eq!(mode_of_parent(&library), if is_root() { 0o711 } else { 0o700 });
    let (again, _) = told(&place, root.path());
    assert_eq!(again, library);
    assert_eq!(std::fs::metadata(&library).unwrap().ino(), made.ino(), "it was written again");
}

#[test]
fn a_library_that_another_changed_is_replaced() {
    if !is_possible() {
        return;
    }
    let (place, root) = (With::new(), root());
    let (library, _) = told(&place, root.path());
    let good = std::fs::read(&library).unwrap();
    std::fs::remove_file(&library).unwrap();
    std::fs::write(&library, "something else").unwrap();
    assert_eq!(told(&place, root.path()).0, library);
    assert_eq!(std::fs::read(&library).unwrap(), good);
    // A link to the very same bytes is not the file: what it leads to can change.
    let elsewhere = root.path().join("elsewhere.so");
    std::fs::rename(&library, &elsewhere).unwrap();
    symlink(&elsewhere, &library).unwrap();
    told(&place, root.path());
    assert!(!std::fs::symlink_metadata(&library).unwrap().is_symlink());
    assert_eq!(std::fs::read(&elsewhere).unwrap(), good, "the link was not followed");
}

#[test]
fn a_folder_that_others_planted_is_not_entered() {
    if !is_possible() {
        return;
    }
    let place = With::new();
    let user = std::fs::metadata(place.folder.path()).unwrap().uid();
    let usual = format!("holdup-{user}");
    type Plant = fn(&Path);
    let plants: [Plant; 4] = [
        |path| {
            std::fs::create_dir(path)
                .and_then(|()| std::fs::set_permissions(path, PermissionsExt::from_mode(0o777)))
                .unwrap()
        },
        |path| symlink("/", path).unwrap(),
        |path| std::fs::write(path, "a file").unwrap(),
        |path| symlink("nowhere", path).unwrap(),
    ];
    for plant in plants {
        let root = root();
        let planted = root.path().join(&usual);
        plant(&planted);
        let (library, folder) = told(&place, root.path());
        assert!(!library.starts_with(&planted) && library.starts_with(root.path()), "{library:?}");
        assert!(!folder.starts_with(&planted), "{folder:?}");
        assert_eq!(named(root.path(), "holdup-").len(), 1, "what was made for the run alone is gone");
    }
}

#[test]
fn a_path_that_the_loader_cannot_read_is_passed_over() {
    let Some(program) = build::program("three_locks.c", &[]) else { return };
    for name in ["with space", "with:colon"] {
        let (place, root) = (With::new(), root());
        let odd = root.path().join(name);
        std::fs::create_dir(&odd).unwrap();
        let mut command = place.command(&["--lock", "ttas"], &[text(&program), "2", "50"]);
        let ended = Ended::of(command.env("XDG_RUNTIME_DIR", &odd).output().unwrap()).with(0);
        ended.says(&["400 acquisitions"]);
    }
}

#[test]
fn what_killed_runs_left_is_removed() {
    if !is_possible() {
        return;
    }
    let (place, root) = (With::new(), root());
    let folder = told(&place, root.path()).0.parent().unwrap().to_owned();
    // No process can have this number.
    let (dead, alive) = (folder.join("run-99999999-aa"), folder.join(format!("run-{}-bb", std::process::id())));
    [&dead, &alive].iter().for_each(|path| std::fs::create_dir(path).unwrap());
    told(&place, root.path());
    assert_eq!(named(&folder, "run-"), [alive]);
}

#[test]
fn a_relative_or_missing_folder_of_the_user_does_not_matter() {
    if !is_possible() {
        return;
    }
    for root in ["relative", "", "/no/such/folder"] {
        let (library, _) = told(&With::new(), Path::new(root));
        assert!(library.is_absolute(), "{library:?}");
    }
}
