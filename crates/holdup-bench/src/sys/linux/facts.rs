//! Facts about the machine, as Linux tells them.
