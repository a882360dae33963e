//! What is on record of a run that goes on: each node's state and attempts. Values only; whoever reads the state makes them.
//!
//! Every attempt in here has ended: one that nobody lives to end was closed by whoever took the run up again.

use crate::{name::CommitId, record::NodeState, stream::Tokens, verdict::Opinion};

/// A run so far.
#[derive(Debug, Clone, Default)]
pub struct Past {
    /// For each node of the plan.
    pub nodes: Vec<PastNode>,
    /// The sequence number of its last event.
    pub seq: u64,
}

/// A node so far.
#[derive(Debug, Clone, PartialEq)]
pub struct PastNode {
    /// Where it stands.
    pub state: NodeState,
    /// Why.
    pub reason: Option<String>,
    /// The round that it is in as a subject, from 1.
    pub round: u32,
    /// Its attempts, oldest first.
    pub attempts: Vec<PastAttempt>,
    /// It is to be done again with all that is behind it: somebody asked, or its commit is gone.
    pub again: bool,
}

/// An attempt that is over.
#[derive(Debug, Clone, PartialEq)]
pub struct PastAttempt {
    /// Its number.
    pub attempt: u32,
    /// Its round.
    pub round: u32,
    /// What it started from.
    pub input: Option<CommitId>,
    /// What it brought.
    pub head: Option<CommitId>,
    /// The commit that it voted on, either way, if it was a reviewer's.
    pub voted: Option<CommitId>,
    /// The reviewed commit and what is asked for, if it was a reviewer's that asks for changes.
    pub asks: Option<(CommitId, Opinion)>,
    /// Tokens.
    pub tokens: Option<Tokens>,
    /// US dollars that somebody is billed for.
    pub cost_usd: Option<f64>,
    /// What a subscription used, at list price.
    pub not_billed_usd: Option<f64>,
    /// What it cost is not, or not wholly, known.
    pub unknown_cost: bool,
}

impl PastNode {
    /// One that never ran.
    pub fn new() -> Self {
        Self { state: NodeState::Waiting, reason: None, round: 1, attempts: Vec::new(), again: false }
    }

    /// The commit that stands for what it did: its head, or its input if it committed nothing.
    pub fn result(&self) -> Option<&CommitId> {
        let last = self.attempts.last()?;
        last.head.as_ref().or(last.input.as_ref())
    }
}

impl Default for PastNode {
    fn default() -> Self {
        Self::new()
    }
}
