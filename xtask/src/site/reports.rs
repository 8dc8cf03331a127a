//! Pages of real reports, to click: made by small runs of the holdup of this repository.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::files::{fresh, put};
use crate::recording::{Bench, output};
use crate::run::root;

/// Where they lie in the site.
pub const FOLDER: &str = "reports";

/// What a reader would type; each writes a page in the folder where it runs, some beside other files.
const COMMANDS: &[&str] = &[
    "cc -O2 -g -pthread -o page_cache page_cache.c",
    "holdup record -o page_cache.holdup ./page_cache",
    "holdup report page_cache.holdup --html recording.html",
    "holdup try --budget 20s --html try.html -- ./page_cache",
    "holdup bench --lock pthread,adaptive,ttas,fair --threads 1,2,4 --repeat 3 --html bench.html",
    "holdup reproduce intel --quick --repeat 3 --html claims.html",
];

/// The pages: file, title, and what there is to see.
const PAGES: &[(&str, &str, &str)] = &[
    (
        "recording.html",
        "A recording",
        "`examples/page_cache.c`, whose threads queue up behind the lock of its cache: the findings, where the threads' time \
         goes, and a timeline to zoom (drag, or the wheel). A click on a wait shows what it waited for; `?` shows the keys.",
    ),
    (
        "try.html",
        "A trial",
        "The same program as it is and with each remedy, in paired runs: which one helps, and how sure that is.",
    ),
    ("bench.html", "A bench", "Four locks with one, two and four threads, each measured three times."),
    (
        "claims.html",
        "Claims of the literature",
        "What Intel published about waiting for locks in 2014, judged on the machine that made these pages. Few and short runs: \
         some claims stay undecided.",
    ),
];

/// Makes them in this folder.
pub fn make(out: &Path) -> Result<(), String> {
    let bench = Bench::new("site")?;
    let source = root().join("examples/page_cache.c");
    std::fs::copy(&source, bench.folder.join("page_cache.c")).map_err(|why| format!("{}: {why}", source.display()))?;
    let path = format!("{}:{}", bench.folder.display(), std::env::var("PATH").unwrap_or_default());
    for command in COMMANDS {
        eprintln!("$ {command}");
        output(
            Command::new("sh")
                .args(["-ec", command])
                .current_dir(&bench.folder)
                .env("PATH", &path)
                .env("XDG_DATA_HOME", bench.folder.join("data")),
        )?;
    }
    fresh(out)?;
    for (file, ..) in PAGES {
        let made = bench.folder.join(file);
        let bytes = std::fs::read(&made).map_err(|why| format!("{}: {why}", made.display()))?;
        put(&out.join(file), &bytes)?;
    }
    Ok(())
}

/// A page that is not in this folder.
pub fn missing(out: &Path) -> Option<PathBuf> {
    PAGES.iter().map(|(file, ..)| out.join(file)).find(|path| !path.exists())
}

/// The page that introduces them.
pub fn page() -> String {
    let mut text = "# Reports to click\n\nEach of these is one file that holdup wrote, and works without the network: the pages below \
                    came out of the commands at the end, run when this site was made.\n"
        .to_owned();
    for (file, title, about) in PAGES {
        text.push_str(&format!("\n## {title}\n\n{about}\n\n[Open it]({file})\n"));
    }
    let commands = COMMANDS.join("\n");
    text + &format!("\n## How they were made\n\nIn a folder with `examples/page_cache.c`:\n\n```sh\n{commands}\n```\n")
}
