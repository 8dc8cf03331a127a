//! The object that goes into the kernel is the one that its source makes.

use std::path::Path;

#[path = "../bpf/hash.rs"]
mod hash;

#[test]
fn the_committed_object_is_fresh() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    let now = hash::lines(&folder).unwrap();
    let written = std::fs::read_to_string(folder.join(hash::FILE)).unwrap();
    assert_eq!(now, written, "'cargo xtask bpf' builds it anew");
}

#[test]
fn the_object_names_no_place_of_the_machine_that_compiled_it() {
    let object = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf/capture.bpf.o")).unwrap();
    // Numbers of lines hold a NUL, a slash and a letter by chance: of a path, all is text until the next NUL.
    let strings =
        object.split(|byte| *byte == 0).filter(|string| string.iter().all(|byte| (b' '..=b'~').contains(byte)));
    let paths = strings.filter(|string| string.len() > 1 && string[0] == b'/' && string[1].is_ascii_alphabetic());
    assert_eq!(paths.count(), 0, "`strings capture.bpf.o | grep ^/` shows them");
}
