//! kew runs an epic: a DAG of nodes, each one coding agent in one hardened container over its own clone.

pub mod event;
pub mod git;
pub mod name;
pub mod plan;
pub mod process;
pub mod record;
pub mod runners;
pub mod stream;
