//! Random damage to recordings, our own and those of perf, for longer than `cargo test` takes.

use crate::run::cargo;

const DEFAULT_SECONDS: &str = "60";
/// The readers: the package and its fuzz test.
const READERS: [(&str, &str); 2] =
    [("holdup-trace", "file::tests::fuzz"), ("holdup-record", "import::tests::damaged_files_never_panic")];

/// Runs the fuzz test of every reader in release, each for the seconds that the first argument says. The first line of
/// output of that of our own format is the seed, which `HOLDUP_FUZZ_SEED` repeats; that of the import tries the same
/// files in every run and names the one that fails.
pub fn run(args: &[String]) -> Result<(), String> {
    let seconds = args.first().map_or(DEFAULT_SECONDS, String::as_str);
    if seconds.parse::<u64>().is_err() {
        return Err(format!("'{seconds}' is not a number of seconds; for example: cargo xtask fuzz 60"));
    }
    READERS.iter().try_for_each(|(package, test)| {
        cargo(&["test", "--package", package, "--release", "--lib", test, "--", "--nocapture"])
            .env("HOLDUP_FUZZ_SECONDS", seconds)
            .run()
    })
}
