//! Samples in stores of version 1: lines of `name value ...`.

use holdup_bench::sample::Sample;
use serde_json::{Value, json};

/// Figures that stood in one line, in its order.
const GROUPS: [(&str, &str, &[&str]); 3] = [
    ("latency_ns", "latency", &["count", "sampled_every", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"]),
    ("latency_cost", "latency", &["clock_ns", "cost_share"]),
    ("counters", "counters", &["cycles", "instructions", "cache_misses"]),
];

/// What only tests of the recorder read.
const HIDDEN: [&str; 2] = ["thread_life_switches", "latency_sum_ns"];

pub(super) fn read(text: &str) -> Result<Sample, String> {
    let mut sample = json!(Sample::default());
    for line in text.lines() {
        read_line(&mut sample, line).ok_or_else(|| format!("unreadable sample line '{line}'"))?;
    }
    serde_json::from_value(sample).map_err(|why| why.to_string())
}

fn read_line(sample: &mut Value, line: &str) -> Option<()> {
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let mut numbers = rest.split_whitespace().map(number);
    if let Some((_, group, names)) = GROUPS.iter().find(|(line, ..)| *line == name) {
        for name in *names {
            sample[group][name] = numbers.next()??;
        }
    } else if name == "extra" {
        let (name, value) = rest.split_once(' ')?;
        sample["extra"][name] = number(value)?;
    } else if sample[name].is_array() {
        sample[name] = numbers.collect::<Option<_>>()?;
    } else if !HIDDEN.contains(&name) {
        *sample.get_mut(name)? = numbers.next()??;
    }
    Some(())
}

fn number(word: &str) -> Option<Value> {
    word.parse().ok().map(|count: u64| count.into()).or_else(|| word.parse::<f64>().ok().map(Value::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_version_1_is_read() {
        let text = "elapsed_ns 200000001\nuser_ns 3\nkernel_ns 0\nacquisitions 40\nvoluntary_switches 0\nunit_ns 1.25\n\
            hold_ns_mean 0\ngap_ns_mean NaN\nthread_ops 10\nthread_finish_ns 1 2\nthread_life_switches 70 80\n\
            latency_ns 9 64 20 0 0 0 70\nlatency_sum_ns 500\nlatency_cost 41.5 0.25\ncounters 5 6 7\n\
            extra round_trips_per_s 1234.5\n";
        let sample = read(text).unwrap();
        assert_eq!((sample.elapsed_ns, sample.voluntary_switches, sample.minor_faults), (200_000_001, Some(0), None));
        assert_eq!((&*sample.thread_ops, &*sample.thread_finish_ns), (&[10][..], &[1, 2][..]));
        assert!(sample.unit_ns == 1.25 && sample.gap_ns_mean.is_nan());
        let latency = sample.latency.unwrap();
        assert_eq!((latency.count, latency.p50_ns, latency.max_ns, latency.clock_ns), (9, 20, 70, 41.5));
        assert_eq!(sample.counters.map(|counters| counters.cache_misses), Some(7));
        assert_eq!(sample.extra, [("round_trips_per_s".to_owned(), 1234.5)]);
        assert!(read("").unwrap_err().contains("the sample names no thread"));
        for wrong in ["elapsed_ns x", "elapsed_ns", "what 1", "counters 1 2", "extra alone"] {
            assert!(read(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }
}
