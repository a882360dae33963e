//! The dispatcher and its loop, over an engine that plays scripts and a state in memory: no container, no disk, no git.
//!
//! Every run that is played here is also checked as a whole ([`rig::Played::check`]): its record, its events, its end.

mod budgets;
mod decide;
mod input;
mod interrupt;
mod kept;
mod limits;
mod memory;
mod order;
mod outcomes;
mod publish;
mod record;
mod resume;
mod rework;
mod rig;
mod spend;
