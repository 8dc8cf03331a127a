//! Loops of scripts that do nothing but look whether something has happened, by their text.
//!
//! Around a line that sleeps: what else is in the loop decides whether it goes on, or reads what that is decided by.
//! Python's blocks are told by how far their lines are indented, and Ruby's are taken to be, as its formatters do.

/// What begins a loop; those of `for` end by themselves.
const LOOPS: [&str; 5] = ["while", "until", "for", "loop do", "loop {"];
/// Blocks that a loop may have within.
const BLOCKS: [&str; 13] =
    ["if", "elif", "else", "try", "except", "finally", "with", "unless", "elsif", "begin", "rescue", "ensure", "end"];
/// What ends a round, or the loop.
const JUMPS: [&str; 7] = ["return", "break", "continue", "raise", "pass", "next", "redo"];
/// Blocks whose first line asks something.
const ASKS: [&str; 6] = ["if", "elif", "unless", "elsif", "while", "until"];
/// Who asks for the time waits until it is over.
const CLOCKS: [&str; 5] = ["time()", "monotonic()", "perf_counter()", "Time.now", "clock_gettime"];
/// A loop has few lines.
const MOST_LINES: usize = 40;

/// Whether a line of a script sleeps in a loop that only looks; lines are counted from 1.
pub(super) fn only_looks(path: &str, text: &str, line: u32) -> bool {
    if !path.ends_with(".py") && !path.ends_with(".rb") {
        return false;
    }
    let lines: Vec<Line<'_>> = text.lines().map(Line::of).collect();
    let Some(at) = (line as usize).checked_sub(1).filter(|at| lines.get(*at).is_some_and(Line::sleeps)) else {
        return false;
    };
    // sleep 0.1 until ready?
    let words = lines[at].words;
    if path.ends_with(".rb") && [" until ", " while "].iter().any(|asks| words.contains(asks)) {
        return true;
    }
    let Some(head) = head(&lines, at) else { return false };
    let inside = |line: &&Line<'_>| line.words.is_empty() || line.indent > lines[head].indent;
    let body: Vec<&Line<'_>> = lines[head + 1..].iter().take(MOST_LINES).take_while(inside).collect();
    // What stands behind is for rounds that do not sleep here.
    let sleeps = at - head - 1;
    let goes_back = body
        .get(sleeps + 1)
        .is_some_and(|next| next.is_one_of(&["continue", "next"]) && next.indent == lines[at].indent);
    let round = if goes_back { &body[..=sleeps + 1] } else { &body[..] };
    looks(&lines[head], round)
}

/// Whether a round of a loop does nothing but look, and something is decided by it.
fn looks(head: &Line<'_>, round: &[&Line<'_>]) -> bool {
    let mut asked: Vec<&str> = round.iter().filter(|line| line.asks()).map(|line| line.words).collect();
    asked.extend(Some(head.words).filter(|words| head.asks() && !CLOCKS.iter().any(|clock| words.contains(clock))));
    let catches = round.iter().any(|line| line.is_one_of(&["except", "rescue"]));
    let decides = |name: &str| catches || asked.iter().any(|words| has_word(words, name));
    let only = round.iter().all(|line| {
        line.words.is_empty()
            || line.sleeps()
            || line.is_one_of(&BLOCKS)
            || line.is_one_of(&JUMPS)
            || line.counts()
            || line.assigned().is_some_and(|mut names| names.any(decides))
    });
    only && (catches || !asked.is_empty())
}

/// The line that begins the loop in which a line is, if nothing but blocks lies between.
fn head(lines: &[Line<'_>], at: usize) -> Option<usize> {
    let mut indent = lines[at].indent;
    for (index, line) in lines[..at].iter().enumerate().rev().take(MOST_LINES) {
        if line.words.is_empty() || line.indent >= indent {
            continue;
        }
        indent = line.indent;
        if line.is_one_of(&LOOPS) {
            return Some(index);
        }
        if !line.is_one_of(&BLOCKS) {
            return None;
        }
    }
    None
}

/// A line without what is indented and commented.
struct Line<'a> {
    indent: usize,
    words: &'a str,
}

impl<'a> Line<'a> {
    fn of(text: &'a str) -> Self {
        let words = text.trim_start();
        let indent = text.len() - words.len();
        let words = if words.starts_with('#') { "" } else { words.split("  #").next().unwrap_or_default().trim_end() };
        Line { indent, words }
    }

    /// Whether it begins with one of these words.
    fn is_one_of(&self, words: &[&str]) -> bool {
        words.iter().any(|word| {
            self.words
                .strip_prefix(word)
                .is_some_and(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
        })
    }

    /// Whether it is a call that sleeps, and nothing else.
    fn sleeps(&self) -> bool {
        let call = self.words.split(['(', ' ']).next().unwrap_or_default();
        call.rsplit('.').next() == Some("sleep") && self.assigned().is_none()
    }

    /// Whether it asks something: the beginning of a block, or a jump under a condition.
    fn asks(&self) -> bool {
        let condition = self.is_one_of(&ASKS);
        let always = ["while True", "while 1", "while true"].iter().any(|words| self.words.starts_with(words));
        let jumps = self.is_one_of(&JUMPS) && [" if ", " unless "].iter().any(|asks| self.words.contains(asks));
        condition && !always || jumps
    }

    /// Whether it counts rounds.
    fn counts(&self) -> bool {
        let counted = self.words.split_once(" += ").or_else(|| self.words.split_once(" -= "));
        counted.is_some_and(|(name, by)| is_name(name) && !by.contains('('))
    }

    /// The names that it gives values to.
    fn assigned(&self) -> Option<impl Iterator<Item = &'a str> + use<'a>> {
        let (names, _) = self.words.split_once(" = ")?;
        names.split(", ").all(is_name).then(|| names.split(", "))
    }
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|one| one.is_alphanumeric() || one == '_' || one == '@')
}

/// Whether a word stands alone in a text.
fn has_word(text: &str, word: &str) -> bool {
    text.split(|one: char| !(one.is_alphanumeric() || one == '_' || one == '@')).any(|one| one == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looks_in(path: &str, text: &str) -> bool {
        let line = text.lines().position(|line| line.contains("sleep")).expect("a sleep") + 1;
        only_looks(path, text, line as u32)
    }

    #[test]
    fn loops_of_python_that_only_look() {
        for text in [
            "def collect(self):\n    while self.status(7) != 'ready':\n        time.sleep(0.05)\n    return 1\n",
            "while True:\n    if done():\n        break\n    time.sleep(1)\n",
            "while True:\n    answer = self.peek(7)\n    if answer is not None:\n        return answer\n    sleep(0.1)\n",
            "for attempt in range(50):\n    with lock:\n        if key in ready:\n            return\n    time.sleep(.1)\n",
            "while running:\n    try:\n        job = jobs.get_nowait()\n    except queue.Empty:\n        time.sleep(0.01)\n        \
             continue\n    work_on(job)\n",
            "tries = 0\nwhile not path.exists():\n    # not yet\n\n    tries += 1\n    time.sleep(0.2)  # a while\n",
        ] {
            assert!(looks_in("/srv/app.py", text), "{text}");
        }
    }

    #[test]
    fn loops_of_python_that_do_more() {
        for text in [
            "while True:\n    send(message)\n    time.sleep(1)\n",
            "while not stop:\n    answer = ask()\n    time.sleep(1)\n",
            "while running:\n    time.sleep(1)\n    print(count)\n",
            "while time.monotonic() < end:\n    time.sleep(0.1)\n",
            "while True:\n    time.sleep(1)\n",
            "for order in orders:\n    time.sleep(0.1)\n",
            "def think():\n    time.sleep(0.1)\n",
            "while True:\n    def later():\n        time.sleep(1)\n",
        ] {
            assert!(!looks_in("/srv/app.py", text), "{text}");
        }
        assert!(!looks_in("/srv/app.js", "while (!done) {\n  sleep(1)\n}\n"), "another language");
        assert!(!only_looks("/srv/app.py", "while a:\n    time.sleep(1)\n", 9), "the file is another one");
    }

    #[test]
    fn loops_of_ruby() {
        for text in [
            "sleep 0.05 until ready?\n",
            "until ready?\n  sleep 0.05\nend\n",
            "loop do\n  state = @lock.synchronize { @state }\n  break if state == :done\n  sleep(0.1)\nend\n",
        ] {
            assert!(looks_in("/srv/app.rb", text), "{text}");
        }
        for text in ["loop do\n  post(page)\n  sleep 0.1\nend\n", "loop do\n  sleep 0.1\nend\n"] {
            assert!(!looks_in("/srv/app.rb", text), "{text}");
        }
    }
}
