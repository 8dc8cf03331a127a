//! What Java's machine says when it is asked.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use holdup_record::AskedForMap;

/// Runs for a minute, compiled soon, unless its input ends before.
const BUSY_JAVA: &str = "\
public class Busy {
    static long burn(long value) {
        for (int n = 0; n < 1000; n++) value = value * 6364136223846793005L + n;
        return value;
    }
    public static void main(String[] words) throws Exception {
        long value = 1;
        for (int n = 0; n < 100000; n++) value = burn(value);
        System.out.println(value);
        System.in.read();
    }
}
";

#[test]
fn java_is_asked_for_its_map_as_the_user_whose_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let source = folder.path().join("Busy.java");
    std::fs::write(&source, BUSY_JAVA).unwrap();
    let built = Command::new("javac").arg("-d").arg(folder.path()).arg(&source).status();
    if !built.is_ok_and(|status| status.success()) {
        println!("skipped: there is no javac");
        return;
    }
    let own = std::fs::metadata("/proc/self").unwrap().uid();
    for (switches, user) in
        [(&[][..], None), (&[], (own == 0).then_some(65534)), (&["-XX:+DisableAttachMechanism"], None)]
    {
        let mut java = Command::new("java");
        java.args(switches).arg("-cp").arg(folder.path()).arg("Busy");
        java.stdin(Stdio::piped()).stdout(Stdio::piped());
        user.into_iter().for_each(|user| {
            java.uid(user).gid(user);
        });
        let mut java = java.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(java.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let asked = holdup_record::ask_for_map(java.id());
        let map = holdup_record::code_map(java.id(), 0);
        drop(java.stdin.take());
        java.wait().unwrap();
        if !switches.is_empty() {
            assert!(matches!(&asked, AskedForMap::Refused(why) if why.contains(switches[0])), "{asked:?}");
            continue;
        }
        let path = match asked {
            AskedForMap::Written(path) => path,
            AskedForMap::Refused(why) if why.contains("from 17 on") => {
                println!("skipped: {why}");
                return;
            }
            other => panic!("{other:?}"),
        };
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("Busy.burn(long)"), "{} lines, of user {user:?}", text.lines().count());
        assert_eq!(std::fs::metadata(&path).unwrap().uid(), user.unwrap_or(own));
        assert!(map.is_ok_and(|map| map.is_some()), "it is where it is looked for");
        std::fs::remove_file(path).unwrap();
        // The machine has removed what it listened at.
        assert!(!Path::new(&format!("/tmp/.java_pid{}", java.id())).exists());
    }
}
