//! kew runs an epic: a DAG of nodes, each one coding agent in one hardened container over its own clone.
//!
//! The modules, in reading order; each imports only from its own floor or a lower one:
//!
//! | floor | modules | what they are |
//! |---|---|---|
//! | 0 words | [`contract`], [`name`], [`units`], [`egress`], [`text`], [`lines`], [`digest`] | checked values, no decisions |
//! | 1 plan | [`plan`] | text to a checked plan and its graph; pure |
//! | 2 decisions | [`stream`], [`event`], [`record`], [`sched`], [`rounds`], [`budget`], [`publish`], [`outcome`], [`verdict`] | state machines on values; no clock, I/O or async |
//! | 3 outside | [`process`], [`docker`], [`git`], [`forge`], [`runners`] | child processes, the engine, repositories, agent CLIs |
//! | 4 running | [`workspace`], [`run`] | the loop that joins decisions with the outside |
//! | 5 showing | [`store`], [`report`] | the state on disk, and what people and pipelines see |
//! | 6 front | [`config`], [`error`], [`cli`] | settings, exit codes, commands |

// Here and not in Cargo.toml: tests may unwrap, also in functions of their crates that are no `#[test]` themselves.
#![warn(clippy::unwrap_used)]

pub mod budget;
pub mod cli;
pub mod config;
pub mod contract;
pub mod digest;
pub mod docker;
pub mod egress;
pub mod error;
pub mod event;
pub mod forge;
pub mod git;
pub mod lines;
pub mod name;
pub mod outcome;
pub mod plan;
pub mod process;
pub mod publish;
pub mod record;
pub mod report;
pub mod rounds;
pub mod run;
pub mod runners;
pub mod sched;
pub mod store;
pub mod stream;
pub mod text;
pub mod units;
pub mod verdict;
pub mod workspace;
