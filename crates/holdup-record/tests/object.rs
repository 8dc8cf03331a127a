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
    // The numbers of lines hold two such bytes by chance; four are a folder's name.
    let is_path = |bytes: &&[u8]| bytes.starts_with(b"\0/") && bytes[2..].iter().all(u8::is_ascii_graphic);
    let paths = object.windows(6).filter(is_path);
    assert_eq!(paths.count(), 0, "`strings capture.bpf.o | grep ^/` shows them");
}
