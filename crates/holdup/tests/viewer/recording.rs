//! A recording's page: what it shows, and that it does what people ask of it.

use holdup_analyze::{Leaf, PathPart, PathPiece};
use holdup_trace::Tid;
use serde_json::{Value, json};

use super::browser::Browser;
use super::drive::{browser, colour, no_complaints, number, opened, painted, pixel, place, recording, same, text};
use super::{pages, skip};

#[test]
fn fixtures_open_without_a_request_or_an_error() {
    let Some(mut browser) = browser("fixtures") else { return };
    let folder = pages::folder("fixtures");
    let imported = folder.join("perf.holdup");
    let perf = pages::fixture("recordings/ping-pong.perf.data");
    pages::holdup(&["import", &perf.to_string_lossy(), "-o", &imported.to_string_lossy()], &folder);
    for recording in [pages::fixture("recordings/format-1.holdup"), imported] {
        let page = pages::page_of(&recording, &folder);
        let report = pages::holdup(&["report", &recording.to_string_lossy(), "--json"], &folder);
        let report: Value = serde_json::from_str(&report).unwrap();
        opened(&mut browser, &page);
        painted(&mut browser);
        // The figures of the page are the report itself.
        let shown = browser.eval("JSON.parse(document.getElementById('report').textContent)").unwrap();
        same(&shown, &report, "report");
        let rows = number(&mut browser, "document.querySelectorAll('.labels .thread').length");
        assert_eq!(rows as usize, report["threads"].as_array().unwrap().len());
        assert_eq!(text(&mut browser, "h1"), report["headline"].as_str().unwrap());
        no_complaints(&mut browser);
    }
}

#[test]
fn hostile_names_stay_text_in_page_and_timeline() {
    let Some(mut browser) = browser("hostile") else { return };
    let folder = pages::folder("hostile");
    let page = pages::write(&pages::made_up(40), &folder);
    opened(&mut browser, &page);
    assert_eq!(number(&mut browser, "document.images.length + document.querySelectorAll('[onerror]').length"), 0.0);
    let label = text(&mut browser, ".labels .thread");
    assert!(
        label.contains("</script><img src=x onerror=alert(1)>\"'`${1}<U+001B>[31m<U+202E><U+2028>]]>&lt;<!--"),
        "{label}"
    );
    // Reports shorten what looks like a long C++ name; what is left is foreign enough.
    let lock = text(&mut browser, "[aria-label='Locks'] tbody th");
    assert!(lock.contains("\"'`${1}<"), "{lock}");
    // Everything that can show a name is made to show it.
    let (x, y) = place(&mut browser, 60_000.0, 0);
    browser.mouse("mouseMoved", x, y, json!({})).unwrap();
    painted(&mut browser);
    let tip = text(&mut browser, "#timeline .tip");
    assert!(tip.contains("</script><img") && tip.contains("\"'`${1}<"), "{tip}");
    let bodies = browser
        .eval("document.body.innerHTML.includes('\\u202e') || document.body.innerText.includes('\\u001b')")
        .unwrap();
    assert_eq!(bodies, Value::Bool(false), "a control character reached the page");
    no_complaints(&mut browser);
}

#[test]
fn the_critical_path_has_a_row_that_tells() {
    let Some(mut browser) = browser("path") else { return };
    let mut recording = pages::made_up(40);
    let facts = &mut recording.report.facts;
    let piece = |from: u64, to: u64, leaf, tid| PathPiece {
        from_ns: facts.start_ns + from,
        to_ns: facts.start_ns + to,
        leaf,
        thread: Tid(tid),
    };
    let pieces = vec![piece(0, 1_000_000, Leaf::Running, 500), piece(1_000_000, 4_000_000, Leaf::Io, 501)];
    let part = PathPart { leaf: Leaf::Io, thread: Tid(501), site: None, file: None, ns: 3_000_000 };
    facts.path = holdup_analyze::Path { parts: vec![part], pieces, ..holdup_analyze::Path::default() };
    opened(&mut browser, &pages::write(&recording, &pages::folder("path")));
    assert_eq!(text(&mut browser, ".labels > div"), "critical path");
    for (time, variable) in [(500e3, "--run0"), (2e6, "--waiting_for_io")] {
        assert_eq!(pixel(&mut browser, time, 0), colour(&mut browser, variable), "{variable} at {time}");
    }
    let (x, y) = place(&mut browser, 2e6, 0);
    browser.mouse("mouseMoved", x, y, json!({})).unwrap();
    painted(&mut browser);
    let tip = text(&mut browser, "#timeline .tip");
    assert!(tip.contains("waiting for I/O") && tip.contains("(501)") && tip.contains("3.00ms"), "{tip}");
    no_complaints(&mut browser);
}

#[test]
fn the_flame_graph_adds_up_and_leads_to_the_moments() {
    let Some(mut browser) = recording("flame") else { return };
    let boxes = |browser: &mut Browser, by: &str| {
        let shown = browser.eval(&format!(
            "new Promise((done) => {{ document.querySelector('.flame').open = true; \
             const choice = document.querySelector('.flame select'); choice.value = '{by}'; \
             choice.dispatchEvent(new Event('change')); document.querySelector('.boxes').replaceChildren(); \
             const look = () => {{ const all = [...document.querySelectorAll('.boxes button')]; \
             all.length ? done(all.map((one) => one.title)) : setTimeout(look, 20); }}; look(); }})"
        ));
        shown.unwrap().as_array().unwrap().iter().map(|title| title.as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Of each 100 us, the one thread is off the CPU for 60 and the other for 45, in 40 rounds.
    let by_thread = boxes(&mut browser, "off-thread");
    assert_eq!(by_thread[0], "all: 4.20ms, 100%");
    let threads = by_thread.iter().filter(|title| title.contains("(500): 2.40ms") || title.contains("(501): 1.80ms"));
    assert_eq!(threads.count(), 2, "{by_thread:?}");
    // While the one waits for the lock, the other runs: 50 us of the one's, 40 of the other's.
    let by_blame = boxes(&mut browser, "off-blame");
    let runs: Vec<&String> = by_blame.iter().filter(|title| title.contains(" runs: ")).collect();
    assert_eq!(runs.len(), 2, "{by_blame:?}");
    // Keys go from box to box, and Enter shows one's moments; these lead to the timeline.
    browser.eval("document.querySelector('.boxes button').focus()").unwrap();
    browser.key("ArrowDown").unwrap();
    let level = "document.activeElement.getAttribute('aria-level')";
    assert_eq!(browser.eval(level).unwrap(), json!("2"));
    browser.eval("document.activeElement.click()").unwrap();
    browser.eval("document.querySelector('.told .moment').click()").unwrap();
    assert_eq!(number(&mut browser, "holdup.timeline.b - holdup.timeline.a"), 50_000.0);
    no_complaints(&mut browser);
}

#[test]
fn the_timeline_zooms_pans_measures_and_tells() {
    let Some(mut browser) = recording("timeline") else { return };
    // Rows: the first runs from 0 to 40 us, waits until 90 us; the second the other way about.
    browser.eval("holdup.timeline.show(0, 200000)").unwrap();
    for (time, row, variable) in [
        (20e3, 0, "--run0"),
        (65e3, 0, "--lock0"),
        (95e3, 0, "--waiting_for_cpu"),
        (20e3, 1, "--lock0"),
        (70e3, 1, "--run1"),
    ] {
        let wanted = colour(&mut browser, variable);
        assert_eq!(pixel(&mut browser, time, row), wanted, "{variable} at {time} in row {row}");
    }
    // A switch is a green line.
    let green = colour(&mut browser, "--switch");
    let x = number(&mut browser, "Math.floor(holdup.timeline.xOf(40000))");
    let line = browser
        .eval(&format!(
            "Array.from(document.querySelector('canvas.base').getContext('2d').getImageData({x}, 13, 1, \
            1).data).slice(0, 3)"
        ))
        .unwrap();
    assert_eq!(line, green);
    // An arrow leads from the waker's row to the woken one's.
    let drawn = "(() => { const c = document.querySelector('canvas.over'); const x = Math.round(holdup.timeline.xOf(40000)); \
                 return Array.from(c.getContext('2d').getImageData(x - 1, 22, 4, 1).data).some((v, i) => i % 4 === 3 && v > 60); })()";
    assert_eq!(browser.eval(drawn).unwrap(), Value::Bool(true));
    // The wheel zooms around the pointer.
    let (x, y) = place(&mut browser, 65_000.0, 0);
    browser.mouse("mouseWheel", x, y, json!({ "deltaX": 0, "deltaY": -120 })).unwrap();
    painted(&mut browser);
    let (from, to) = (number(&mut browser, "holdup.timeline.from"), number(&mut browser, "holdup.timeline.to"));
    assert!(to - from < 180_000.0, "{from} to {to}");
    assert!((number(&mut browser, "holdup.timeline.timeAt(holdup.timeline.xOf(65000))") - 65_000.0).abs() < 1.0);
    let (again, _) = place(&mut browser, 65_000.0, 0);
    assert!((again - x).abs() < 1.5, "what was under the pointer moved from {x} to {again}");
    // A drag pans, shift and drag selects.
    browser.eval("holdup.timeline.show(1000000, 1200000)").unwrap();
    let (x, y) = place(&mut browser, 1_100_000.0, 0);
    browser.drag((x, y), (x - 200.0, y), false).unwrap();
    assert!(number(&mut browser, "holdup.timeline.from") > 1_010_000.0);
    browser.eval("holdup.timeline.show(0, 200000)").unwrap();
    let (from, to) = (place(&mut browser, 20_000.0, 0), place(&mut browser, 120_000.0, 1));
    browser.drag(from, to, true).unwrap();
    painted(&mut browser);
    let (a, b) = (number(&mut browser, "holdup.timeline.a"), number(&mut browser, "holdup.timeline.b"));
    assert!((a - 20_000.0).abs() < 400.0 && (b - 120_000.0).abs() < 400.0, "{a} {b}");
    let difference = text(&mut browser, "[data-part='difference']");
    assert!(difference.contains("us") && difference.contains("ns)"), "{difference}");
    // Both threads ended one run each between the markers: at 40 us and at 95 us.
    browser.wait("document.querySelector('[data-figure=switches]')?.title === '2'").unwrap();
    // Keys: markers at the pointer, everything, away with the markers.
    browser.key("Escape").unwrap();
    assert_eq!(browser.eval("holdup.timeline.a").unwrap(), Value::Null);
    browser.key("0").unwrap();
    assert_eq!(number(&mut browser, "holdup.timeline.to - holdup.timeline.from"), 4_000_000.0);
    browser.wait("document.querySelector('[data-figure=switches]')?.title === '80'").unwrap();
    // What is under the pointer: who, what, how long, who ended it.
    browser.eval("holdup.timeline.show(0, 200000)").unwrap();
    let (x, y) = place(&mut browser, 65_000.0, 0);
    browser.mouse("mouseMoved", x, y, json!({})).unwrap();
    painted(&mut browser);
    let tip = text(&mut browser, "#timeline .tip");
    for part in ["waits for", "50.0us", "ended by (it released)", "501"] {
        assert!(tip.contains(part), "{part}: {tip}");
    }
    no_complaints(&mut browser);
}

#[test]
fn loss_and_doubt_are_shown_where_they_are() {
    let Some(mut browser) = recording("loss") else { return };
    // Red lines over the rows from the first to the last lost event, and nowhere else.
    browser.eval("holdup.timeline.show(3880000, 3960000)").unwrap();
    painted(&mut browser);
    let mut red = |from: u32, to: u32| {
        number(
            &mut browser,
            &format!(
                "(() => {{ const line = holdup.timeline, x = Math.ceil(line.xOf({from})), width = Math.floor(line.xOf({to})) - x; \
                 const data = document.querySelector('canvas.over').getContext('2d').getImageData(x, 0, width, 48).data; \
                 return data.filter((value, i) => i % 4 === 0 && data[i + 3] > 20 && value - data[i + 1] > 60).length; }})()"
            ),
        )
    };
    assert!(red(3_911_000, 3_929_000) > 100.0);
    assert_eq!(red(3_881_000, 3_909_000), 0.0);
    assert_eq!(red(3_932_000, 3_959_000), 0.0);
    // The thread whose switches are missing has a mark, in its row and in the table, that says so.
    assert_eq!(number(&mut browser, "document.querySelectorAll('.labels .doubt').length"), 1.0);
    let said = browser.eval("document.querySelector('.labels .doubt').parentElement.title").unwrap();
    assert!(said.as_str().unwrap().contains("(501), 40 were recorded"), "{said}");
    let told = browser
        .eval(
            "[...document.querySelectorAll('table[aria-label=Threads] tbody th')].map((one) => \
            one.textContent.endsWith(' !') && one.title !== '')",
        )
        .unwrap();
    assert_eq!(told, json!([true, false]), "the second thread ran longer, so it stands first");
    no_complaints(&mut browser);
}

#[test]
fn search_sort_tables_and_theme() {
    let Some(mut browser) = browser("search") else { return };
    let folder = pages::folder("search");
    let page = pages::write(&pages::made_up(3_000), &folder);
    opened(&mut browser, &page);
    // Search by typing; what does not match goes, what matches stays.
    browser.key("/").unwrap();
    browser.call("Input.insertText", json!({ "text": "(501)" })).unwrap();
    assert_eq!(number(&mut browser, "document.querySelectorAll('.labels .thread').length"), 1.0);
    browser.key("Escape").unwrap();
    assert_eq!(number(&mut browser, "document.querySelectorAll('.labels .thread').length"), 2.0);
    // A search for a lock dims the rest and finds the next wait.
    browser.eval("holdup.timeline.find('waits for')").unwrap();
    browser.eval("holdup.timeline.next(1)").unwrap();
    let found = browser.eval("holdup.timeline.marked").unwrap();
    assert!(found["to"].as_f64() > found["from"].as_f64(), "{found}");
    browser.eval("holdup.timeline.find('')").unwrap();
    // Rows by CPU time: the second thread has more.
    browser.eval("holdup.timeline.setSort('cpu')").unwrap();
    assert!(text(&mut browser, ".labels .thread").contains("(501)"));
    browser.eval("holdup.timeline.setGrouping('process')").unwrap();
    assert_eq!(number(&mut browser, "document.querySelectorAll('.labels .group').length"), 1.0);
    // A table sorts by its head, up and down, and by nothing else.
    browser
        .eval(
            "[...document.querySelectorAll('[role=tab]')].find((tab) => tab.textContent.startsWith('Threads')).click()",
        )
        .unwrap();
    let first = "document.querySelector('table[aria-label=Threads] tbody th').textContent";
    let press = "[...document.querySelectorAll('table[aria-label=Threads] thead button')].find((b) => b.textContent \
        === 'on CPU').click()";
    assert!(browser.eval(first).unwrap().as_str().unwrap().contains("(501)"));
    browser.eval(press).unwrap();
    assert!(browser.eval(first).unwrap().as_str().unwrap().contains("(500)"));
    // Dark and light by a key; the canvas follows.
    browser
        .eval(
            "holdup.timeline.setSort('order'); holdup.timeline.setGrouping('none'); holdup.timeline.show(0, \
        200000); document.activeElement.blur()",
        )
        .unwrap();
    let light = pixel(&mut browser, 20e3, 0);
    browser.key("t").unwrap();
    let (dark, wanted) = (pixel(&mut browser, 20e3, 0), colour(&mut browser, "--run0"));
    assert_ne!(light, dark);
    assert_eq!(dark, wanted);
    no_complaints(&mut browser);
}

#[test]
fn summaries_and_events_agree_and_nothing_jumps_at_any_width() {
    let Some(mut browser) = browser("widths") else { return };
    let folder = pages::folder("widths");
    // So many that the page opens with summaries.
    let page = pages::write(&pages::made_up(30_000), &folder);
    opened(&mut browser, &page);
    assert!(number(&mut browser, "holdup.timeline.view.threads[0].levels.length") > 1.0);
    // The first thread runs 40% of the time and waits 50%: the mixture is between the two colours.
    let (run, lock) = (colour(&mut browser, "--run0"), colour(&mut browser, "--lock0"));
    let seen = pixel(&mut browser, 1.5e9, 0);
    for channel in 0..3 {
        let [run, lock, seen] = [&run, &lock, &seen].map(|colour| colour[channel].as_f64().unwrap());
        let (low, high) = (run.min(lock) - 30.0, run.max(lock) + 30.0);
        assert!((low..=high).contains(&seen), "{seen} is not between {run} and {lock}");
    }
    for width in [1024, 1600, 2560] {
        browser.look(width, 900, false).unwrap();
        painted(&mut browser);
        let before = browser.eval("document.querySelector('#tables').offsetTop").unwrap();
        browser
            .eval(
                "holdup.timeline.setMarker('a', 1e6); holdup.timeline.setMarker('b', 2e9); \
            holdup.timeline.show(0, 1e6)",
            )
            .unwrap();
        browser.wait("document.querySelector('.stats h3')?.textContent === 'Between the markers'").unwrap();
        painted(&mut browser);
        assert_eq!(browser.eval("document.querySelector('#tables').offsetTop").unwrap(), before, "at {width}");
        let sideways = number(&mut browser, "document.documentElement.scrollWidth - innerWidth");
        assert!(sideways <= 0.0, "at {width} the page is {sideways} px too wide");
        browser.key("Escape").unwrap();
        browser.eval("holdup.timeline.fit()").unwrap();
        browser.wait("document.querySelector('.stats h3')?.textContent === 'In the window'").unwrap();
    }
    no_complaints(&mut browser);
}

#[test]
fn a_real_recording_and_the_way_from_a_finding_to_its_moment() {
    let Some(mut browser) = browser("real") else { return };
    let folder = pages::folder("real");
    let recording = match pages::recorded("hot_lock.c", &folder) {
        Ok(recording) => recording,
        Err(why) => return skip(&why),
    };
    let page = pages::page_of(&recording, &folder);
    assert!(std::fs::metadata(&page).unwrap().len() < 2_000_000);
    opened(&mut browser, &page);
    let report = pages::holdup(&["report", &recording.to_string_lossy(), "--json"], &folder);
    let report: Value = serde_json::from_str(&report).unwrap();
    let shown = browser.eval("JSON.parse(document.getElementById('report').textContent)").unwrap();
    same(&shown, &report, "report");
    let findings = report["findings"].as_array().unwrap();
    assert_eq!(number(&mut browser, "document.querySelectorAll('.finding').length") as usize, findings.len());
    no_complaints(&mut browser);
    if number(&mut browser, "document.querySelectorAll('button.moment').length") == 0.0 {
        return skip("the machine was too busy: this recording has no finding with a moment");
    }
    let (from, to) = browser
        .eval("(() => \
            { const m = document.querySelector('button.moment'); m.click(); return [Number(m.dataset.from), Number(m.dataset.to)]; })()")
        .map(|pair| (pair[0].as_f64().unwrap(), pair[1].as_f64().unwrap()))
        .unwrap();
    painted(&mut browser);
    assert_eq!(number(&mut browser, "holdup.timeline.a"), from);
    assert_eq!(number(&mut browser, "holdup.timeline.b"), to);
    assert!(number(&mut browser, "holdup.timeline.from") <= from && number(&mut browser, "holdup.timeline.to") >= to);
    assert_eq!(number(&mut browser, "holdup.timeline.selected"), number(&mut browser, "holdup.timeline.marked.thread"));
    no_complaints(&mut browser);
}
