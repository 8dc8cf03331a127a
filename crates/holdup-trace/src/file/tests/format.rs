//! What must not change: the committed recording, the sizes, and what foreign files are called.

use std::path::PathBuf;

use super::*;
use crate::OpenError;

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/recordings/format-1.holdup")
}

/// The recording of format 1 that every later holdup must read. It was written once, by running this test with
/// `HOLDUP_WRITE_FIXTURE` set while the file did not exist; it is never written again.
#[test]
fn the_committed_recording_of_format_1_still_opens() {
    let path = fixture();
    if std::env::var_os("HOLDUP_WRITE_FIXTURE").is_some() && !path.exists() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, specimen_of(events_of_the_first_version, 2)).unwrap();
    }
    let bytes = std::fs::read(&path).unwrap();
    let reader = Reader::open(&bytes).unwrap();
    assert_eq!((reader.header().producer.as_str(), reader.header().began_ns), ("a test", 1_000));
    let content = read(&bytes);
    assert_eq!(content.summary.damage, vec![]);
    assert_eq!(content.summary.ending, Some(ending()));
    assert_eq!(content.told, read(&specimen_of(events_of_the_first_version, 2)).told);
    let waits: Vec<_> = content.told.iter().filter(|told| matches!(told.0.what, What::FutexWait { .. })).collect();
    assert_eq!(waits.len(), 2);
    assert_eq!((waits[1].0.time_ns, waits[1].0.tid, waits[1].0.cpu), (1_005_500, Tid(101), 1));
    assert_eq!(waits[1].1, Some(stack(1)));
}

/// Two threads that pass a lock to each other: four events per switch, as the recorder gives them.
#[test]
fn a_switch_costs_less_than_twenty_bytes_before_compression() {
    let mut writer = Writer::new(Vec::new(), &header()).unwrap();
    let wait = Some(writer.stack(&stack(1)));
    let (op, addr) = (FutexOp(FutexOp::WAIT | 128), 0x7f12_3456_7040);
    let mut time_ns = 1_000_000_000_000;
    let switches = 20_000;
    for n in 0..switches {
        let (out, into) = (Tid(5_000 + n % 2), Tid(5_001 - n % 2));
        let steps = [
            (7_000, out, What::FutexWait { op, addr, value: 2, stack: wait }),
            (900, out, What::SwitchOut { off: OffCpu::Blocked, stack: None }),
            (1_200, into, What::SwitchIn),
            (600, into, What::FutexReturn { op, addr, ret: 0, stack: None }),
        ];
        for (step, (after_ns, tid, what)) in steps.into_iter().enumerate() {
            time_ns += after_ns + u64::from(n.wrapping_mul(2_654_435_761).wrapping_mul(step as u32 + 1) >> 23);
            writer.event(&Event { time_ns, tid, cpu: 0, what }).unwrap();
        }
        if n % 2_000 == 1_999 {
            writer.flush().unwrap();
        }
    }
    let bytes = writer.finish(&ending()).unwrap();
    let content = read(&bytes);
    assert_eq!(content.told.len(), switches as usize * 4);
    let (raw, stored) = (content.summary.uncompressed_bytes as f64, bytes.len() as f64);
    let per_switch = |bytes: f64| bytes / f64::from(switches);
    assert!(per_switch(raw) < 20.0, "{} bytes", per_switch(raw));
    assert!(per_switch(stored) < per_switch(raw), "{} bytes stored", per_switch(stored));
}

/// Eight threads that wait for files of their own, looked at a hundred times a second, beside their switches.
#[test]
fn a_look_at_a_blocked_thread_costs_less_than_fifteen_bytes() {
    let stored = |with_looks: bool| {
        let mut writer = Writer::new(Vec::new(), &header()).unwrap();
        let mut looks = 0;
        for n in 0..40_000_u64 {
            // A prime step, so that no two distances are alike for long.
            let (time_ns, tid) = (1_000_000_000_000 + n * 1_249_993 + n * n % 7_919, Tid(5_000 + n as u32 % 8));
            let mut put = |after_ns, cpu, what| {
                writer.event(&Event { time_ns: time_ns + after_ns, tid, cpu, what }).unwrap();
            };
            put(0, 1, What::SwitchOut { off: OffCpu::Blocked, stack: None });
            if with_looks {
                looks += 1;
                let file = format!("/srv/database/tables/part-{}.db", tid.0);
                let found = Blocked {
                    nr: Some(CallNumber(17)),
                    wchan: Some("folio_wait_bit_common".into()),
                    file: Some(file.into()),
                    deep: tid.0 % 3 == 0,
                    addr: u64::from(tid.0 % 8 + 3),
                    stack: None,
                };
                put(n * 31 % 997, NO_CPU, What::Blocked(Box::new(found)));
            }
            put(1_000, 1, What::SwitchIn);
            if n % 80 == 79 {
                writer.flush().unwrap();
            }
        }
        (writer.finish(&ending()).unwrap().len() as f64, looks)
    };
    let ((with, looks), (without, _)) = (stored(true), stored(false));
    let per_look = (with - without) / f64::from(looks);
    println!("{per_look:.1} bytes per look");
    assert!(per_look < 15.0, "{per_look} bytes");
}

#[test]
fn foreign_files_are_called_by_their_names() {
    let cases: &[(&[u8], Option<&str>)] = &[
        (b"", Some("an empty file")),
        (b"PERFILE2\x68\0\0\0", Some("a perf.data file (`holdup import` reads those)")),
        (b"\x7fELF\x02\x01", Some("a program or library (ELF)")),
        (b"\x1f\x8b\x08", Some("a gzip file")),
        (b"\x28\xb5\x2f\xfd\x04", Some("a zstd file")),
        (b"SQLite format 3\0\x10", Some("a SQLite database (holdup bench keeps its results in one)")),
        (b" {\"a\": 1}", Some("a JSON file")),
        (b"[1]", Some("a JSON file")),
        ("dies ist ein Text mit \u{fc}\n".as_bytes(), Some("a text file")),
        (&[0; 100], Some("a file of zeros")),
        (&[0xde, 0xad, 0xbe, 0xef], None),
        (b"\x89HOLDUPS", None),
    ];
    for (bytes, looks_like) in cases {
        assert_eq!(Reader::open(bytes).unwrap_err(), OpenError::Foreign { looks_like: *looks_like }, "{bytes:?}");
    }
    // A text that is cut within a character.
    let long = "\u{20ac}".repeat(300);
    assert_eq!(Reader::open(long.as_bytes()).unwrap_err().to_string(), "this is a text file, not a holdup recording");
}

#[test]
fn newer_and_damaged_beginnings_are_told_apart() {
    let mut newer = specimen(1);
    newer[8] = 9;
    assert_eq!(Reader::open(&newer).unwrap_err(), OpenError::Damaged);
    let sum = super::super::checksum::xxh32(&newer[..12]);
    newer[12..16].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(Reader::open(&newer).unwrap_err(), OpenError::Newer { version: 9, known: 1 });
}

#[test]
fn unknown_fields_of_the_header_are_ignored() {
    let json = br#"{"producer":"holdup 9","colour":"green","machine":{"cpus":2,"moon":1},"grade":{"futexes":true}}"#;
    let header: Header = serde_json::from_slice(json).unwrap();
    assert_eq!((header.producer.as_str(), header.machine.cpus, header.capabilities.futexes), ("holdup 9", 2, true));
}

#[test]
fn a_writer_whose_output_is_full_says_so_and_goes_on() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(std::io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert!(Writer::new(Full(1), &header()).is_err());
    let mut writer = Writer::new(Full(3), &header()).unwrap();
    writer.event(&Event { time_ns: 1, tid: Tid(1), cpu: 0, what: What::SwitchIn }).unwrap();
    assert_eq!(writer.flush().unwrap_err().kind(), std::io::ErrorKind::StorageFull);
    assert!(writer.flush().is_ok(), "nothing is left to write");
}
