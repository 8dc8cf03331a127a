//! The JSON against its schema.
