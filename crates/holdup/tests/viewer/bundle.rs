//! The committed bundle is the one that its sources give, as far as that can be told without Node.

use std::path::Path;

#[path = "../../viewer/hash.rs"]
mod hash;

#[test]
fn the_bundle_is_made_from_these_sources() {
    let viewer = Path::new(env!("CARGO_MANIFEST_DIR")).join("viewer");
    let kept = std::fs::read_to_string(viewer.join(hash::FILE)).unwrap();
    assert_eq!(
        kept.replace("\r\n", "\n"),
        hash::lines(&viewer).unwrap(),
        "viewer/dist is not built from viewer/src as it is now: run 'cargo xtask viewer'"
    );
}
