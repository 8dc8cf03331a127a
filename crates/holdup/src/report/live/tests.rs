//! The screen of a made-up program, in the sizes of real terminals.

use super::super::recording::specimen;
use super::super::schema_tests::assert_defines;
use super::json::Top;
use super::screen::{Controls, draw, plain};
use super::*;
use crate::live::history::History;
use crate::recording::{Word, Words};
use holdup_analyze::{Interval, LockNumber, Timeline};
use holdup_trace::Tid;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

/// A look at the program that is held up, whose lock somebody has.
fn look() -> Look {
    let mut recording = specimen::held_up();
    let facts = &mut recording.report.facts;
    let mut words = Words::new();
    if let Some(lock) = facts.locks.first()
        && let Some(addr) = lock.addr
    {
        words.insert((lock.pid, addr), Word { time_ns: facts.end_ns, word: 2, owner: facts.threads[0].tid });
    }
    let facts = &recording.report.facts;
    let running = |(from_ns, to_ns)| Interval { from_ns, to_ns, state: State::Running { cpu: 0 } };
    let mut rows = vec![vec![running((facts.start_ns, facts.end_ns))]; facts.threads.len()];
    // The last thread that lives waits for the first lock.
    if let Some(waits) = facts.threads.iter().rposition(|thread| !thread.exited) {
        let state = State::Off { reason: Reason::Futex(Primitive::Mutex), lock: Some(LockNumber(0)) };
        let since_ns = facts.end_ns - 40_000_000;
        rows[waits] =
            vec![running((facts.start_ns, since_ns)), Interval { from_ns: since_ns, to_ns: facts.end_ns, state }];
    }
    recording.report.timeline = Some(Timeline::of(&rows));
    Look { recording, words }
}

#[test]
fn the_screen_fits_and_names_lock_holder_and_findings() {
    let look = look();
    let view = View::new(&look);
    let mut history = History::new(2.0);
    history.add(&look.recording.report.facts);
    for (columns, rows) in [(80, 24), (200, 50), (20, 5), (1, 1)] {
        let text = plain(&view, &history, columns, rows);
        assert!(text.lines().count() <= usize::from(rows));
        assert!(text.lines().all(|line| text::columns(line) <= usize::from(columns)), "{text}");
    }
    let text = plain(&view, &history, 80, 24);
    for word in ["g_cache_lock", "<- worker-1 (702) has", "last minute", "switches/s", "* ", "thread (by lock)"] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
}

#[test]
fn an_empty_look_is_a_screen_too() {
    let look = Look { recording: specimen::empty(), words: Words::new() };
    let text = plain(&View::new(&look), &History::new(2.0), 80, 24);
    assert!(text.contains("no thread had to wait for a lock") && text.contains("no thread"), "{text}");
}

#[test]
fn threads_are_sorted_filtered_and_opened() {
    let view = View::new(&look());
    let names =
        |filter: &str, sort| chosen(&view, filter, sort).into_iter().map(|row| row.name.clone()).collect::<Vec<_>>();
    let by_name = names("", Sort::Name);
    assert!(by_name.is_sorted() && by_name.len() == view.threads.len());
    assert_eq!(names(&by_name[0].to_uppercase(), Sort::Lock), by_name[..1]);
    assert_eq!(names("no such thread", Sort::Cpu), Vec::<String>::new());
    assert_eq!([Sort::Lock; 4].map(Sort::next), [Sort::Cpu; 4]);
    let area = Rect::new(0, 0, 80, 24);
    let mut buffer = Buffer::empty(area);
    let controls = Controls { keys: true, open: true, paused: true, colour: true, ..Controls::default() };
    draw(&view, &History::new(2.0), &controls, area, &mut buffer);
    let text: String = buffer.content().iter().map(ratatui::buffer::Cell::symbol).collect();
    assert!(text.contains("left a CPU last in") && text.contains("PAUSED"), "{text}");
}

#[test]
fn every_key_of_a_look_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let mut looks = vec![look()];
    for recording in [specimen::healthy(), specimen::empty(), specimen::hostile()] {
        looks.push(Look { recording, words: Words::new() });
    }
    assert!(looks[0].words.values().all(|word| word.owner != Tid(0)));
    let all: Vec<Top<'_>> = looks.iter().map(Top::new).collect();
    assert_defines("holdup-top-1", &all);
}
