//! Decides what runs next: a pure state machine over the graph of needs and gates.
//!
//! A node starts when everything it waits for is *satisfied*: passed, and for a reviewer also approved. One thing that
//! can never be satisfied (failed, skipped, cancelled) skips what waits for it, with the reason. A held node is neither:
//! what waits for it keeps waiting. Invariant: a node runs at most once at a time, and again only after [`End::Again`] or [`Sched::reopen`];
//! no clock, no I/O.

use std::collections::BTreeSet;

use crate::{
    plan::{
        dag::{Dag, Why},
        spec::NodeIx,
    },
    record::NodeState,
};

/// What each node waits for.
#[derive(Debug, Clone, Default)]
pub struct Waits {
    /// For each node the nodes that must be satisfied before it starts, without repetition.
    pub on: Vec<Vec<Wait>>,
}

impl Waits {
    /// Needs, the subject of a reviewer, and the gates that no need has already waited for.
    pub fn of(dag: &Dag) -> Self {
        let of = |node: NodeIx| {
            let needs = dag.needs(node).iter().map(|need| Wait { node: need.node, why: need.why });
            let mut on: Vec<Wait> = needs.collect();
            let known: BTreeSet<NodeIx> = on.iter().map(|wait| wait.node).collect();
            let gates = dag.gate_edges(node).iter().filter(|gate| !known.contains(gate));
            on.extend(gates.map(|&node| Wait { node, why: Why::Gate }));
            on
        };
        Self { on: (0..dag.len()).map(of).collect() }
    }
}

/// One thing that a node waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The node waited for.
    pub node: NodeIx,
    /// By which rule.
    pub why: Why,
}

/// How an attempt left its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Passed; satisfied.
    Passed,
    /// A reviewer that passed and asks for changes: not satisfied.
    ChangesRequested,
    /// Failed.
    Failed,
    /// Stopped for a person.
    Held,
    /// Asked to stop.
    Cancelled,
    /// To be tried again: it waits for its next attempt.
    Again,
}

/// Something that follows from an end: a node that will not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skip {
    /// The node.
    pub node: NodeIx,
    /// The node that closed the way.
    pub because: Wait,
    /// The state of that node.
    pub state: NodeState,
}

/// The state of all nodes.
#[derive(Debug)]
pub struct Sched {
    waits: Waits,
    behind: Vec<Vec<NodeIx>>,
    missing: Vec<usize>,
    states: Vec<NodeState>,
    changes_requested: Vec<bool>,
    active: Vec<bool>,
    ready: BTreeSet<NodeIx>,
    running: usize,
    jobs: usize,
    stopping: bool,
}

impl Sched {
    /// All `active` nodes are waiting; the others do not exist for this run. `active` must hold with each node all that
    /// it waits for.
    pub fn new(waits: Waits, active: Vec<bool>, jobs: usize) -> Self {
        let count = waits.on.len();
        let mut behind = vec![Vec::new(); count];
        let mut missing = vec![0; count];
        let mut ready = BTreeSet::new();
        for (node, on) in waits.on.iter().enumerate().filter(|(node, _)| active[*node]) {
            for wait in on {
                behind[wait.node].push(node);
            }
            missing[node] = on.len();
            if on.is_empty() {
                ready.insert(node);
            }
        }
        Self {
            waits,
            behind,
            missing,
            states: vec![NodeState::Waiting; count],
            changes_requested: vec![false; count],
            active,
            ready,
            running: 0,
            jobs: jobs.max(1),
            stopping: false,
        }
    }

    /// Takes the next node that may start, in plan order, of those that `may` (of which the caller knows a time before
    /// which they may not); it counts as running from now on.
    pub fn start_next(&mut self, may: impl Fn(NodeIx) -> bool) -> Option<NodeIx> {
        if self.stopping || self.running >= self.jobs {
            return None;
        }
        let node = self.ready.iter().copied().find(|node| may(*node))?;
        self.ready.remove(&node);
        self.states[node] = NodeState::Running;
        self.running += 1;
        Some(node)
    }

    /// A running node ended. Gives the nodes that are skipped by it.
    pub fn end(&mut self, node: NodeIx, end: End) -> Vec<Skip> {
        if self.states[node] != NodeState::Running {
            return Vec::new();
        }
        self.running -= 1;
        self.states[node] = match end {
            End::Passed | End::ChangesRequested => NodeState::Passed,
            End::Failed => NodeState::Failed,
            End::Held => NodeState::Held,
            End::Cancelled => NodeState::Cancelled,
            End::Again => NodeState::Waiting,
        };
        self.changes_requested[node] = end == End::ChangesRequested;
        match end {
            End::Passed => {
                self.satisfied(node);
                Vec::new()
            }
            End::Failed | End::Cancelled => self.close(node),
            End::Held | End::ChangesRequested => Vec::new(),
            End::Again => {
                self.ready.insert(node);
                Vec::new()
            }
        }
    }

    /// All that waits for `node`, directly or not, ascending; without it.
    pub fn dependents(&self, node: NodeIx) -> BTreeSet<NodeIx> {
        let mut found = BTreeSet::new();
        let mut open = vec![node];
        while let Some(at) = open.pop() {
            open.extend(self.behind[at].iter().filter(|next| found.insert(**next)));
        }
        found
    }

    /// Puts a node and all that waits for it back to waiting: its next round. None of them may be running. Gives those that
    /// changed, ascending.
    pub fn reopen(&mut self, node: NodeIx) -> Vec<NodeIx> {
        let mut all = self.dependents(node);
        all.insert(node);
        debug_assert!(all.iter().all(|node| self.states[*node] != NodeState::Running));
        let changed: Vec<NodeIx> =
            all.iter().copied().filter(|node| self.states[*node] != NodeState::Waiting).collect();
        for &node in &all {
            self.states[node] = NodeState::Waiting;
            self.changes_requested[node] = false;
            self.ready.remove(&node);
        }
        for &node in &all {
            self.missing[node] = self.unsatisfied(node);
            if self.missing[node] == 0 {
                self.ready.insert(node);
            }
        }
        changed
    }

    /// A node that passed is stopped for a person (its reviewers asked for changes). Nothing behind its gates may have
    /// started, as they wait for all of its reviewers.
    pub fn hold(&mut self, node: NodeIx) {
        if self.states[node] == NodeState::Passed {
            self.states[node] = NodeState::Held;
        }
    }

    /// Puts every node where it stands, before anything has started; `asks` are reviewers that ask for changes. Gives the
    /// nodes that are skipped by those that failed. Running and skipped nodes count as waiting.
    pub fn restore(&mut self, states: &[NodeState], asks: &[bool]) -> Vec<Skip> {
        for node in self.nodes().collect::<Vec<_>>() {
            self.states[node] = match states[node] {
                NodeState::Running | NodeState::Skipped => NodeState::Waiting,
                state => state,
            };
            self.changes_requested[node] = asks[node];
        }
        self.ready.clear();
        for node in self.nodes().collect::<Vec<_>>() {
            self.missing[node] = self.unsatisfied(node);
            if self.missing[node] == 0 && self.states[node] == NodeState::Waiting {
                self.ready.insert(node);
            }
        }
        let closed = |node: &NodeIx| matches!(self.states[*node], NodeState::Failed | NodeState::Cancelled);
        let closed: Vec<NodeIx> = self.nodes().filter(closed).collect();
        closed.into_iter().flat_map(|node| self.close(node)).collect()
    }

    /// Nothing starts any more; what runs goes on.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Whether nothing starts any more.
    pub fn stopping(&self) -> bool {
        self.stopping
    }

    /// Nothing runs and nothing can start.
    pub fn idle(&self) -> bool {
        self.running == 0 && (self.stopping || self.ready.is_empty())
    }

    /// Where a node stands.
    pub fn state(&self, node: NodeIx) -> NodeState {
        self.states[node]
    }

    /// Whether a node is part of this run.
    pub fn active(&self, node: NodeIx) -> bool {
        self.active[node]
    }

    /// Nodes of this run.
    pub fn nodes(&self) -> impl Iterator<Item = NodeIx> + '_ {
        (0..self.states.len()).filter(|node| self.active[*node])
    }

    /// Whether anything runs.
    pub fn busy(&self) -> bool {
        self.running > 0
    }

    /// Running nodes, in plan order.
    pub fn running(&self) -> impl Iterator<Item = NodeIx> + '_ {
        self.nodes().filter(|node| self.states[*node] == NodeState::Running)
    }

    /// Nodes that wait for nothing but a slot and the caller's leave, in plan order.
    pub fn ready(&self) -> impl Iterator<Item = NodeIx> + '_ {
        self.ready.iter().copied()
    }

    /// The first thing that a waiting node still waits for.
    pub fn waits_for(&self, node: NodeIx) -> Option<Wait> {
        self.waits.on[node].iter().copied().find(|wait| !self.is_satisfied(wait.node))
    }

    /// Whether a reviewer asked for changes.
    pub fn changes_requested(&self, node: NodeIx) -> bool {
        self.changes_requested[node]
    }

    fn is_satisfied(&self, node: NodeIx) -> bool {
        self.states[node] == NodeState::Passed && !self.changes_requested[node]
    }

    fn unsatisfied(&self, node: NodeIx) -> usize {
        self.waits.on[node].iter().filter(|wait| !self.is_satisfied(wait.node)).count()
    }

    fn satisfied(&mut self, node: NodeIx) {
        for &next in &self.behind[node] {
            self.missing[next] -= 1;
            if self.missing[next] == 0 && self.states[next] == NodeState::Waiting {
                self.ready.insert(next);
            }
        }
    }

    /// Skips all that waits for `node`, and all that waits for that. Iterative: graphs may be deep.
    fn close(&mut self, node: NodeIx) -> Vec<Skip> {
        let mut skips = Vec::new();
        let mut closed = vec![node];
        let mut at = 0;
        while let Some(&from) = closed.get(at) {
            at += 1;
            for &next in &self.behind[from] {
                if self.states[next] != NodeState::Waiting {
                    continue;
                }
                self.states[next] = NodeState::Skipped;
                self.ready.remove(&next);
                let because = self.waits.on[next].iter().copied().find(|wait| wait.node == from);
                let because = because.unwrap_or(Wait { node: from, why: Why::Written });
                skips.push(Skip { node: next, because, state: self.states[from] });
                closed.push(next);
            }
        }
        skips
    }
}
