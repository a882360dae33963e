//! The plan: its text, its check and its graph. Pure: whatever the check must know of the outside, it asks a [`world::World`].
//!
//! Text → [`raw`] (keys and places) → [`check`] (everything resolved) → [`spec::Plan`] and [`dag::Dag`], which exist only
//! if nothing is wrong; else [`error::Problems`] has everything at once.

pub mod check;
pub mod cycle;
pub mod dag;
pub mod error;
mod gates;
pub mod input;
pub mod pattern;
pub mod raw;
pub mod schema;
pub mod spec;
pub mod world;

pub use check::parse_and_check;
pub use schema::{schema, schema_text};
