//! What goroutines do, in a sentence: no thread shows it.

use holdup_analyze::{GoroutineFacts, GoroutineGroup, GoroutineHolder, GoroutineState};

use super::super::number;
use crate::recording::name;

/// Fewer looks are no account.
const LEAST_LOOKS: u64 = 5;
/// What fewer do, of all, is not named; nor is more than so much.
const LEAST_NAMED: f64 = 0.02;
const MOST_NAMED: usize = 5;

/// `80 on average: 61 wait for a mutex in main.(*Store).Get store.go:44, 12 for the network in ...`; `None` for a
/// process whose goroutines were not looked at.
pub fn sentence(of: &GoroutineFacts) -> Option<String> {
    if of.looks < LEAST_LOOKS || of.mean < 0.05 {
        return None;
    }
    let named = of.doing.iter().filter(|group| group.mean >= LEAST_NAMED * of.mean);
    let mut named: Vec<&GoroutineGroup> = named.collect();
    named.sort_by_key(|group| !matches!(group.state, GoroutineState::Mutex | GoroutineState::Send));
    let parts: Vec<String> = named.into_iter().take(MOST_NAMED).map(part).collect();
    (!parts.is_empty()).then(|| format!("{} on average: {}", number::ratio(of.mean), parts.join(", ")))
}

fn part(group: &GoroutineGroup) -> String {
    let place = name::caller(&group.site).map(|place| format!(" in {place}")).unwrap_or_default();
    format!("{} {}{place}", number::ratio(group.mean), does(group.state))
}

fn does(state: GoroutineState) -> &'static str {
    match state {
        GoroutineState::Running => "running",
        GoroutineState::Runnable => "waiting for a CPU",
        GoroutineState::Call => "in a system call",
        GoroutineState::Mutex => "waiting for a mutex",
        GoroutineState::Send => "waiting to send",
        GoroutineState::Receive => "waiting to receive",
        GoroutineState::Others => "waiting for other goroutines",
        GoroutineState::Sleep => "asleep",
        GoroutineState::Network => "waiting for the network",
        GoroutineState::Unknown => "waiting for something else",
    }
}

/// `asleep`: what who keeps others waiting does, as a participle.
pub fn holder_does(holder: &GoroutineHolder) -> &'static str {
    does(holder.doing)
}

#[cfg(test)]
mod tests {
    use holdup_analyze::{Frame, Role, Site};

    use super::*;

    #[test]
    fn what_many_do_is_told_waits_for_each_other_first() {
        let group = |state, mean, function: Option<&str>| {
            let frame = |function: &str| Frame {
                address: 0x1000,
                function: Some(function.into()),
                module: "/srv/shop".into(),
                offset: 0x1000,
                start: 0x1000,
                file: Some("/srv/shop/store.go".into()),
                line: Some(44),
                inlined: false,
                role: Role::Program,
            };
            let call_path = function.map(frame).into_iter().collect();
            GoroutineGroup { state, mean, site: Site { call_path, ..Site::default() }, looking: None }
        };
        let doing = vec![
            group(GoroutineState::Network, 61.0, None),
            group(GoroutineState::Mutex, 17.5, Some("main.(*Store).Get")),
            group(GoroutineState::Sleep, 1.0, Some("main.load")),
        ];
        let of = GoroutineFacts { looks: 40, mean: 79.5, doing, ..GoroutineFacts::default() };
        assert_eq!(
            sentence(&of).unwrap(),
            "79.5 on average: 17.5 waiting for a mutex in main.(*Store).Get store.go:44, 61.0 waiting for the network"
        );
        assert_eq!(sentence(&GoroutineFacts { looks: 4, ..of }), None);
    }
}
