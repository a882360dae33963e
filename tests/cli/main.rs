//! The real program without an engine: in repositories of its own, with a cleared environment and no docker on its path.
//!
//! Every call is also checked as a whole ([`rig::Done`]): no panic, no backtrace, no path of this machine's cargo.

mod base;
mod check;
mod credentials;
mod dry_run;
mod egress;
mod history;
mod host;
mod places;
mod rig;
mod schemas;
mod settings;
mod usage;
