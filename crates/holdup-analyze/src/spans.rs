//! How many of several stretches of time there are at once.

/// For how long as many stretches, each from its begin to its end, overlap as the place in this list says; how long
/// there is none is left out.
pub(crate) fn time_by_count(spans: impl Iterator<Item = (u64, u64)>) -> Vec<u64> {
    let mut edges: Vec<(u64, bool)> =
        spans.filter(|(from, to)| from < to).flat_map(|(from, to)| [(from, true), (to, false)]).collect();
    edges.sort_unstable();
    let mut times = vec![0];
    let (mut now, mut since) = (0_usize, 0);
    for (at, begins) in edges {
        if now > 0 {
            times.resize(times.len().max(now + 1), 0);
            times[now] += at - since;
        }
        now = if begins { now + 1 } else { now - 1 };
        since = at;
    }
    times
}

/// How many of the stretches there are at once, at most.
pub(crate) fn most_at_once(spans: impl Iterator<Item = (u64, u64)>) -> u64 {
    time_by_count(spans).len() as u64 - 1
}

#[cfg(test)]
mod tests {
    use super::{most_at_once, time_by_count};

    #[test]
    fn stretches_are_counted_while_they_overlap() {
        assert_eq!(time_by_count([(0, 10), (4, 6), (20, 25)].into_iter()), [0, 13, 2]);
        assert_eq!(time_by_count([(0, 5), (5, 9)].into_iter()), [0, 9], "one after the other");
        assert_eq!(time_by_count([(3, 3), (7, 7)].into_iter()), [0], "without length");
        assert_eq!(most_at_once([(0, 10), (4, 6), (20, 25)].into_iter()), 2);
    }
}
