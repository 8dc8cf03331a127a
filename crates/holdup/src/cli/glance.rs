//! A look at what a flight recorder keeps, by a process of its own: call paths and names take much memory for a moment,
//! and the recorder, which runs for days, stays as small as what it keeps.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use holdup_analyze::{Kind, Parsed, Primitive};
use holdup_record::LongWait;
use holdup_trace::{Pid, Reader, Tid};
use serde::{Deserialize, Serialize};

use crate::recording::binaries::Binaries;
use crate::recording::{self, Recording, name};
use crate::report::number;

/// The argument that makes a process answer.
pub const LOOK: &str = "__look";

/// What is asked of a recording.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// Which of these waits are waits for a lock: thread, process, address, from, to.
    waits: Vec<(u32, u32, u64, u64, u64)>,
    /// Whether there is a finding of this kind, by name, or of any, of at least this share.
    findings: Vec<(Option<String>, f64)>,
}

/// The answer.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// The first wait that is one for a lock, in words.
    pub lock: Option<String>,
    /// The waits before it, by place, which are none; and whether it is known what their futex is.
    pub dismissed: Vec<(usize, bool)>,
    /// The first finding that was asked for, by place; in words; and the last moment that was looked at.
    pub finding: Option<(usize, String, u64)>,
}

impl Question {
    /// Which of these is a wait for a lock.
    pub fn of_waits(waits: &[LongWait]) -> Question {
        let waits = waits.iter().map(|wait| (wait.tid.0, wait.pid.0, wait.addr, wait.from_ns, wait.to_ns));
        Question { waits: waits.collect(), ..Question::default() }
    }

    /// Whether one of these findings is there.
    pub fn of_findings(wanted: impl Iterator<Item = (Option<Kind>, f64)>) -> Question {
        let findings = wanted.map(|(kind, share)| (kind.map(|kind| kind.name().to_owned()), share));
        Question { findings: findings.collect(), ..Question::default() }
    }

    /// Asks another process, or, if none can be started, this one. `None` if there is nothing to look at.
    pub fn ask(&self, file: Vec<u8>) -> Option<Answer> {
        match self.ask_another(&file) {
            Some(answer) => Some(answer),
            None => holdup_record::aside(|| self.answer(&file)),
        }
    }

    fn ask_another(&self, file: &[u8]) -> Option<Answer> {
        let mut command = Command::new(std::env::current_exe().ok()?);
        command.arg(LOOK).arg(serde_json::to_string(self).ok()?);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().ok()?;
        // It reads all of it before it writes anything.
        let given = child.stdin.take().is_some_and(|mut input| input.write_all(file).is_ok());
        let output = child.wait_with_output().ok()?;
        let told = given && output.status.success();
        told.then(|| serde_json::from_slice(&output.stdout).ok()).flatten()
    }

    fn answer(&self, file: &[u8]) -> Option<Answer> {
        let reader = Reader::open(file).ok()?;
        let binaries = Binaries::of(reader.header(), None);
        let (recording, _) = recording::live(Path::new("live"), file, &reader, &binaries, &mut Parsed::default());
        let (lock, dismissed) = self.lock(&recording);
        Some(Answer { lock, dismissed, finding: self.finding(&recording) })
    }

    fn lock(&self, recording: &Recording) -> (Option<String>, Vec<(usize, bool)>) {
        let facts = &recording.report.facts;
        let mut dismissed = Vec::new();
        for (at, (tid, pid, addr, from_ns, to_ns)) in self.waits.iter().enumerate() {
            let lock = facts.locks.iter().find(|lock| lock.pid == Pid(*pid) && lock.addr == Some(*addr));
            if let Some(lock) = lock.filter(|lock| lock.primitive.is_contention()) {
                let (who, what) = (name::thread(facts, Tid(*tid)), name::lock(lock));
                let waited = number::time_ns(to_ns.saturating_sub(*from_ns) as f64);
                return (Some(format!("{who} waited {waited} for {what}")), dismissed);
            }
            dismissed.push((at, lock.is_some_and(|lock| lock.primitive != Primitive::Unknown)));
        }
        (None, dismissed)
    }

    fn finding(&self, recording: &Recording) -> Option<(usize, String, u64)> {
        let report = &recording.report;
        let (at, finding) = self.findings.iter().enumerate().find_map(|(at, (kind, share))| {
            let is_kind = |of: Kind| kind.as_ref().is_none_or(|kind| of.name() == kind);
            let found = report.findings.iter().find(|finding| finding.severity >= *share && is_kind(finding.kind));
            found.map(|finding| (at, finding))
        })?;
        let subject = finding.subjects.first().map(|subject| format!(" of {}", name::subject(&report.facts, subject)));
        let (kind, percent) = (finding.kind.name(), finding.severity * 100.0);
        let seen = format!("{kind}{} costs {percent:.0}% of working time", subject.unwrap_or_default());
        Some((at, seen, report.facts.end_ns))
    }
}

/// What a process answers that is asked so, with the recording on its input. Nothing if that makes no sense.
pub fn answer(words: &[String]) -> String {
    let mut file = Vec::new();
    let question = words.first().and_then(|word| serde_json::from_str::<Question>(word).ok());
    let read = std::io::stdin().lock().read_to_end(&mut file).ok();
    let answer = question.zip(read).and_then(|(question, _)| question.answer(&file));
    answer.and_then(|answer| serde_json::to_string(&answer).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_reaches_the_other_process_as_it_was() {
        let wait = LongWait { tid: Tid(7), pid: Pid(5), addr: 0xdead_beef_0000, from_ns: 3, to_ns: u64::MAX };
        let question = Question {
            findings: Question::of_findings([(Some(Kind::HotLock), 0.2), (None, 0.05)].into_iter()).findings,
            ..Question::of_waits(&[wait])
        };
        let text = serde_json::to_string(&question).unwrap();
        assert_eq!(serde_json::from_str::<Question>(&text).unwrap(), question);
        assert_eq!(question.answer(b"no recording"), None);
        assert_eq!(answer(&["no question".to_owned()]), "");
    }
}
