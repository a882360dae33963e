//! Plans.
pub mod spec;
