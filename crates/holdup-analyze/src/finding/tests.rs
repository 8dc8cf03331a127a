//! Each rule at its thresholds, healthy shapes, and what explains what.
