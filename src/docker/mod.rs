//! The docker CLI: where the engine is, what a node's argv looks like, what the engine tells, and how things are removed.
//!
//! `argv` and the parsing in `events` are pure; the rest starts short docker commands. Nothing here knows plans or git.

pub mod argv;
pub mod build;
pub mod client;
pub mod context;
pub mod doctor;
pub mod events;
pub mod gateway;
pub mod network;
pub mod recipes;
pub mod sealed;
pub mod trial;
