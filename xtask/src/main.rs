//! What cargo cannot do.

fn main() {}
