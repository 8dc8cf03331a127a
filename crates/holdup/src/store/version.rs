//! What marks a file as a store of ours, and of which format.

/// `hold` in ASCII: the header's mark of our files.
pub const APPLICATION_ID: u32 = 0x686f_6c64;

/// Version of the file: 1 had `raw` as lines.
pub const VERSION: u32 = 2;
