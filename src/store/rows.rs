//! What the database answers: runs, nodes and attempts as they stand. Values only; written rows are in [`crate::record`].

use crate::{
    egress::Refused,
    name::{AttemptKey, NodeId, RunId},
    record::{
        AttemptEnd, AttemptStart, Kept, Millis, NodeStart, NodeState, Publication, RunEnd, RunStart,
        VerdictRow,
    },
    stream::{CostSource, Tokens},
};

/// How many nodes of a run stand where.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateCounts {
    counts: [usize; 7],
}

impl StateCounts {
    /// Every state, in the order in which people want them.
    pub const ORDER: [NodeState; 7] = [
        NodeState::Passed,
        NodeState::Failed,
        NodeState::Held,
        NodeState::Cancelled,
        NodeState::Skipped,
        NodeState::Running,
        NodeState::Waiting,
    ];

    /// One more node in this state.
    pub fn add(&mut self, state: NodeState) {
        self.add_many(state, 1);
    }

    /// More nodes in this state.
    pub fn add_many(&mut self, state: NodeState, nodes: usize) {
        self.counts[Self::slot(state)] += nodes;
    }

    /// How many are in this state.
    pub fn get(&self, state: NodeState) -> usize {
        self.counts[Self::slot(state)]
    }

    /// How many there are.
    pub fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// States that at least one node is in, in [`StateCounts::ORDER`].
    pub fn present(&self) -> impl Iterator<Item = (NodeState, usize)> + '_ {
        Self::ORDER.into_iter().map(|state| (state, self.get(state))).filter(|(_, nodes)| *nodes > 0)
    }

    fn slot(state: NodeState) -> usize {
        match state {
            NodeState::Passed => 0,
            NodeState::Failed => 1,
            NodeState::Held => 2,
            NodeState::Cancelled => 3,
            NodeState::Skipped => 4,
            NodeState::Running => 5,
            NodeState::Waiting => 6,
        }
    }
}

impl FromIterator<NodeState> for StateCounts {
    fn from_iter<I: IntoIterator<Item = NodeState>>(states: I) -> Self {
        let mut counts = Self::default();
        states.into_iter().for_each(|state| counts.add(state));
        counts
    }
}

/// One line of the list of runs.
#[derive(Debug, Clone, PartialEq)]
pub struct RunSummary {
    /// Its id.
    pub run: RunId,
    /// The epic's name.
    pub epic: String,
    /// As in [`RunEnd`]; `None` = not ended. Whether it still runs, its lock tells.
    pub status: Option<String>,
    /// When it started.
    pub started: Millis,
    /// When it ended.
    pub ended: Option<Millis>,
    /// Its nodes by state.
    pub counts: StateCounts,
    /// Sum of known tokens of all attempts; `None` if none is known.
    pub tokens: Option<Tokens>,
    /// Sum of known costs of all attempts, US dollars; `None` if none is known.
    pub cost_usd: Option<f64>,
    /// What subscriptions used, at list price; not part of `cost_usd`.
    pub not_billed_usd: Option<f64>,
    /// The cost of at least one attempt is unknown (or not yet known), so the sum is "at least".
    pub at_least: bool,
}

/// A whole run.
#[derive(Debug, Clone)]
pub struct RunDetail {
    /// What it started with; its `nodes` are in plan order.
    pub start: RunStart,
    /// How it ended; `None` = not ended.
    pub end: Option<RunEnd>,
    /// Where each node stands: `nodes[i]` is about `start.nodes[i]`.
    pub nodes: Vec<NodeDetail>,
    /// Steps of publications, oldest first.
    pub publications: Vec<Publication>,
}

impl RunDetail {
    /// Each node's start with where it stands, in plan order.
    pub fn each(&self) -> impl Iterator<Item = (&NodeStart, &NodeDetail)> {
        self.start.nodes.iter().zip(&self.nodes)
    }

    /// Where this node stands.
    pub fn node(&self, node: &NodeId) -> Option<&NodeDetail> {
        self.nodes.iter().find(|detail| detail.node == *node)
    }

    /// Attempts that started and never ended: their process died, or they run right now.
    pub fn open_attempts(&self) -> impl Iterator<Item = &AttemptKey> {
        self.nodes
            .iter()
            .flat_map(|node| &node.attempts)
            .filter(|attempt| attempt.end.is_none())
            .map(|attempt| &attempt.start.key)
    }
}

/// Where one node stands.
#[derive(Debug, Clone)]
pub struct NodeDetail {
    /// Its id.
    pub node: NodeId,
    /// Where it stands.
    pub state: NodeState,
    /// Why, for people (may quote agent text).
    pub reason: Option<String>,
    /// The last attempt's number; 0 = none yet.
    pub attempt: u32,
    /// The last attempt's round; 1 before any.
    pub round: u32,
    /// Tries spent in that round; 0 before any.
    pub tries: u32,
    /// Its attempts, oldest first.
    pub attempts: Vec<AttemptDetail>,
}

impl NodeDetail {
    /// Sum of known tokens over its attempts.
    pub fn tokens(&self) -> Option<Tokens> {
        let mut sum = None;
        for tokens in self.ends().filter_map(|end| end.tokens) {
            *sum.get_or_insert_with(Tokens::default) += tokens;
        }
        sum
    }

    /// What subscriptions used over its attempts, at list price in US dollars.
    pub fn not_billed_usd(&self) -> Option<f64> {
        let known = self.ends().filter_map(|end| end.cost_source.split(end.cost_usd).1);
        known.fold(None, |sum, usd| Some(sum.unwrap_or(0.0) + usd))
    }

    /// Sum of known costs over its attempts that somebody is billed for, US dollars, and whether one is unknown.
    pub fn cost_usd(&self) -> (Option<f64>, bool) {
        let mut sum = None;
        for usd in self.ends().filter_map(|end| end.cost_source.split(end.cost_usd).0) {
            *sum.get_or_insert(0.0) += usd;
        }
        let unknown = self.attempts.iter().any(|attempt| attempt.cost_source() == CostSource::Unknown);
        (sum, unknown)
    }

    fn ends(&self) -> impl Iterator<Item = &AttemptEnd> {
        self.attempts.iter().filter_map(|attempt| attempt.end.as_ref())
    }
}

/// One attempt.
#[derive(Debug, Clone)]
pub struct AttemptDetail {
    /// What it started with.
    pub start: AttemptStart,
    /// How it ended; `None` = not ended.
    pub end: Option<AttemptEnd>,
    /// Its verdict, if it was a reviewer's and one was read.
    pub verdict: Option<VerdictRow>,
    /// Hosts that it asked for in vain.
    pub refused: Vec<Refused>,
    /// What is kept of it beside its result.
    pub kept: Kept,
}

impl AttemptDetail {
    fn cost_source(&self) -> CostSource {
        self.end.as_ref().map_or(CostSource::Unknown, |end| end.cost_source)
    }
}
