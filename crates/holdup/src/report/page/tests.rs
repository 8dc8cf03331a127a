//! What is written into pages: names stay data, columns say what the timeline says, odd reports break nothing.

use std::path::PathBuf;

use holdup_analyze::{Interval, LockNumber, Primitive, Reason, Report, State, Timeline};

use super::states::States;
use super::track::{BUCKET_BYTES, Track};
use super::{json, recording, visible};
use crate::export::specimen;
use crate::recording::Recording;

fn page(report: Report) -> String {
    let recording = Recording { path: PathBuf::from(specimen::HOSTILE), file_bytes: 1, report, damage: vec![] };
    let mut out = Vec::new();
    super::recording(&recording, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn hostile_names_end_no_element() {
    let page = page(specimen::report(8));
    // The bundle is one script, each piece of data another.
    let scripts = page.matches("<script").count();
    assert_eq!(scripts, page.matches("</script").count());
    assert_eq!(
        scripts,
        1 + 2 + 2 + 5,
        "bundle, report and view, two tracks; summaries, wake-ups, path, samples, call paths"
    );
    for raw in ["\u{202e}", "\u{1b}", "\u{2028}", "d</script>", "<!--"] {
        assert!(!page.contains(raw), "{raw:?}");
    }
    for request in ["http:", "src=", "url(", "@import", "<link", "<img", "fetch("] {
        assert!(!page.contains(request), "{request}");
    }
}

#[test]
fn data_in_a_script_comes_back_as_it_was() {
    let value = serde_json::json!({ "a": specimen::HOSTILE, "b": "</script><!-- ]]> & \u{2029}" });
    let text = json(&value).unwrap();
    assert!(!text.contains(['<', '>', '&', '\u{2028}', '\u{2029}']));
    assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    let markup = maud::html! { p title="<a b=\"c\">&\u{202e}" { ("<a b=\"c\">&\u{202e}") } };
    let safe = "&lt;a b=&quot;c&quot;&gt;&amp;&lt;U+202E&gt;";
    assert_eq!(visible(markup), format!("<p title=\"{safe}\">{safe}</p>"));
}

#[test]
fn contradictory_reports_make_a_page() {
    assert!(page(specimen::contradictory()).ends_with("</html>\n"));
    let mut empty = Report { timeline: Some(holdup_analyze::Timeline::default()), ..Report::default() };
    assert!(page(empty.clone()).ends_with("</html>\n"));
    empty.timeline = None;
    let recording = Recording { path: PathBuf::new(), file_bytes: 0, report: empty, damage: vec![] };
    assert!(recording::recording(&recording, &mut Vec::new()).is_err(), "without a timeline there is no page");
}

const WAITS: State = State::Off { reason: Reason::Futex(Primitive::Mutex), lock: Some(LockNumber(3)) };

fn interval(from_ns: u64, to_ns: u64, state: State) -> Interval {
    Interval { from_ns, to_ns, state }
}

/// The numbers of a column, as the page reads them.
fn decoded(bytes: &[u8]) -> Vec<u64> {
    let mut all = Vec::new();
    let (mut value, mut shift) = (0, 0);
    for byte in bytes {
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            all.push(value);
            (value, shift) = (0, 0);
        }
    }
    all
}

#[test]
fn columns_hold_states_lengths_and_wakers_without_gaps() {
    let run = State::Running { cpu: 1 };
    // A gap from 250 to 300, and an interval that goes back.
    let row = [interval(100, 200, run), interval(200, 250, WAITS), interval(300, 420, run), interval(10, 400, run)];
    let timeline = Timeline::of(&[row.to_vec()]);
    let mut track = Track::new(&timeline.threads[0], 100);
    assert!(track.wake(300, 7), "the last run begins there");
    assert!(!track.wake(301, 7), "nothing begins there");
    let columns = decoded(&track.columns(&States::new(&timeline)));
    assert_eq!(columns[..2], [4, 0], "pieces, first moment");
    assert_eq!(columns[2..6], [0, 1, 2, 0], "run, wait, unknown, run");
    assert_eq!(columns[6..9], [1, 100, 120], "both runs, one byte each");
    assert_eq!(columns[9..13], [1, 50, 1, 50], "the wait, the gap");
    assert_eq!(columns[13..], [0, 7, 0, 0], "who woke: the second run has one");
}

#[test]
fn summaries_keep_shares_switches_and_the_lock() {
    let row: Vec<Interval> = (0..100_000_u64)
        .flat_map(|round| {
            let at = round * 100;
            [interval(at, at + 25, State::Running { cpu: 0 }), interval(at + 25, at + 100, WAITS)]
        })
        .collect();
    let timeline = Timeline::of(&[row]);
    let states = States::new(&timeline);
    let track = Track::new(&timeline.threads[0], 0);
    let levels = track.levels();
    assert_eq!(levels[0], 2048);
    assert!(levels.windows(2).all(|pair| pair[1] == pair[0] * 4));
    for buckets in levels {
        let summary = track.summary(buckets, 0, 10_000_000, &states);
        assert_eq!(summary.len(), buckets as usize * BUCKET_BYTES);
        let mean = |byte: usize| {
            let sum: u64 = summary.chunks(BUCKET_BYTES).map(|bucket| u64::from(bucket[byte])).sum();
            sum as f64 / buckets as f64 / 255.0
        };
        assert!((mean(0) - 0.25).abs() < 0.02, "{buckets}: it ran {}", mean(0));
        assert!((mean(2) - 0.75).abs() < 0.02, "{buckets}: it waited {}", mean(2));
        assert!(summary.chunks(BUCKET_BYTES).all(|bucket| bucket[4] == 1), "the wait is named");
    }
}
