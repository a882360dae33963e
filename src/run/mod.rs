//! Running: the dispatcher decides, nodes live on threads of their own, and this loop joins the two.
//!
//! This file holds what goes in and what comes out. `driver` is the loop, `dispatcher` its decisions, `node` one attempt
//! on its thread, `executor` the port to engines.

pub mod broker;
pub mod contained;
pub mod dispatcher;
mod driver;
pub mod executor;
pub mod host;
pub mod ledger;
pub mod node;
pub mod past;
mod pool;
pub mod publisher;
mod reasons;
pub mod scripted;
pub mod signals;
mod status;
pub mod watchdog;

use std::time::Duration;

pub use self::driver::drive;
use self::{dispatcher::Status, ledger::LedgerError, past::Past, publisher::Going};
use crate::{
    docker::argv::{Limits, Network},
    egress::Host,
    name::{CommitId, EnvName, RunId},
    plan::{
        dag::Dag,
        spec::{NodeIx, Plan},
    },
    record::NodeState,
    runners::Runner,
};

/// What is known of each node before the run begins, beside its plan.
#[derive(Clone)]
pub struct NodeSetup {
    /// The runner.
    pub runner: &'static dyn Runner,
    /// The image as the settings name it.
    pub image: String,
    /// Its id.
    pub image_id: String,
    /// Names of the runner's credentials.
    pub credentials: Vec<EnvName>,
    /// The credential that its agent uses and bills, or the runner's name where it has none: what a rate limit holds for.
    pub bills: String,
    /// Where it may connect to.
    pub network: Network,
    /// On the allowlist network: the hosts that it may reach.
    pub allow: Vec<Host>,
    /// How long it may say nothing.
    pub idle: Option<Duration>,
    /// How many steps it may take.
    pub step_cap: Option<u32>,
}

/// A run, ready to go: everything in it is frozen.
pub struct Run<'a> {
    /// Its id.
    pub id: RunId,
    /// The plan.
    pub plan: &'a Plan,
    /// Its graph.
    pub dag: &'a Dag,
    /// The pinned base.
    pub base: CommitId,
    /// For each node of the plan.
    pub nodes: Vec<NodeSetup>,
    /// Which nodes are part of the run.
    pub active: Vec<bool>,
    /// How many run at once.
    pub jobs: usize,
    /// Start nothing more after the first failure.
    pub fail_fast: bool,
    /// The bounds of every container.
    pub limits: Limits,
    /// The largest log of one stream, in bytes.
    pub log_max: u64,
    /// Time between the first signal and SIGKILL.
    pub grace: Duration,
    /// The longest pause for a rate limit; `None` = any.
    pub max_wait: Option<Duration>,
    /// How long the first retry of a node waits; each further one twice as long.
    pub backoff: Duration,
    /// The network of the run in one word, for the record.
    pub network: &'static str,
    /// Things to say at the start.
    pub warnings: Vec<String>,
    /// Publishes the nodes that ask for it; `None` = nothing is published.
    pub publisher: Option<Going>,
    /// What is on record already, if the run goes on.
    pub past: Option<Past>,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    /// The status.
    pub status: Status,
    /// For each node that is part of the run: its state and why.
    pub nodes: Vec<(NodeIx, NodeState, Option<String>)>,
    /// Left at once, at a third signal: containers may still run, and the watchdog removes them.
    pub left: bool,
    /// The state could not be written.
    pub broken: Option<LedgerError>,
}

/// Unix milliseconds.
pub fn unix_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// A random word of `bytes` bytes in hex, for names and nonces.
pub fn fresh(bytes: usize) -> String {
    use std::fmt::Write as _;
    let mut buffer = vec![0; bytes];
    getrandom::fill(&mut buffer).expect("the system has a source of random bytes");
    buffer.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
