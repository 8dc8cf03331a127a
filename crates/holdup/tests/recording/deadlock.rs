//! A program that hangs is attached to, and the report says who waits for whom.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, skip};

#[test]
fn a_program_that_hangs_is_told_to_be_deadlocked_however_it_is_captured() {
    let Ok(program) = build::program("../recorder/deadlock.c", Frames::None) else {
        return skip("there is no C compiler");
    };
    let _alone = alone();
    let place = Place::new();
    let mut hung = place.command(&program).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(hung.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    let pid = hung.id().to_string();
    let captures = ["auto", "sampler"].map(|capture| {
        let file = format!("{capture}.holdup");
        let record = ["--capture", capture, "-p", &pid, "--for", "2s", "-o", &file];
        let output = place.recorder(&record).output().unwrap();
        (capture, text(&output), output.status.success().then(|| place.report(&file)))
    });
    hung.kill().unwrap();
    hung.wait().unwrap();
    assert_eq!(said, "stuck\n");
    for (capture, said, report) in captures {
        let Some(report) = report else { panic!("{capture}: {said}") };
        let first = &report["findings"][0];
        assert_eq!(first["kind"], "deadlock", "{capture}: {said}");
        let evidence = first["evidence"].to_string();
        assert!(evidence.contains(r#""name":"threads","unit":"count","value":2.0"#), "{capture}: {evidence}");
        assert!(evidence.contains(r#""name":"stuck_threads","unit":"count","value":3.0"#), "{capture}: {evidence}");
        for word in ["Deadlock: ", "has g_journal and waits for g_accounts", "in post_entry"] {
            assert!(said.split_whitespace().collect::<Vec<_>>().join(" ").contains(word), "{capture}: {said}");
        }
    }
}
