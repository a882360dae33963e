//! Taking a run up again: what is on record becomes where every node stands.
//!
//! Invariant: nothing that counts is done twice (a node that passed, whose commit stands, is kept), and nothing counts that
//! is void: what an open round, a node done again, or a commit that is gone stands behind.

use std::collections::BTreeSet;

use super::{Action, Dispatcher, Now, reasons};
use crate::{
    event::RunEvent,
    plan::spec::NodeIx,
    record::NodeState,
    rounds::{Asked, Rounds},
    run::past::{Past, PastNode},
};

impl Dispatcher<'_> {
    /// Restores everything from the record of this very plan, then starts what may start.
    pub fn resume(&mut self, past: &Past, now: Now) -> Vec<Action> {
        let void = self.void(past);
        let mut states = vec![NodeState::Waiting; self.plan.nodes.len()];
        for node in self.sched.nodes().collect::<Vec<_>>() {
            let known = &past.nodes[node];
            self.add_past(node, known);
            let live = &mut self.live[node];
            live.attempt = known.attempts.last().map_or(0, |last| last.attempt);
            if void.contains(&node) || !stands(known.state) {
                continue;
            }
            states[node] = known.state;
            live.reason.clone_from(&known.reason);
            live.result = known.result().cloned();
            live.asks =
                known.attempts.last().and_then(|last| last.asks.as_ref()).map(|(_, opinion)| opinion.clone());
        }
        for node in self.sched.nodes().collect::<Vec<_>>() {
            if let Some(subject) = self.plan.nodes[node].reviews {
                if self.live[node].asks.is_some() {
                    self.sent_back.insert(subject);
                }
                self.live[node].result = self.live[subject].result.clone();
            }
            self.restore_round(node, past);
        }
        let asks: Vec<bool> = self.live.iter().map(|live| live.asks.is_some()).collect();
        let skips = self.sched.restore(&states, &asks);

        let mut actions = Vec::new();
        for node in self.sched.nodes().collect::<Vec<_>>() {
            let (was, is) = (past.nodes[node].state, self.sched.state(node));
            if was != is && is == NodeState::Waiting {
                let reason = "the run goes on".to_owned();
                actions.push(Action::Node { node, state: is, reason });
            }
        }
        for skip in skips {
            let reason = reasons::skipped(self.plan, &skip);
            self.live[skip.node].reason = Some(reason.clone());
            if past.nodes[skip.node].state != NodeState::Skipped {
                actions.push(Action::Node {
                    node: skip.node,
                    state: NodeState::Skipped,
                    reason: reason.clone(),
                });
                let id = self.plan.nodes[skip.node].id.clone();
                actions.push(Action::Tell(RunEvent::NodeSkipped { node: id, reason }));
            }
        }
        self.close_rounds(&mut actions);
        actions.extend(self.publish());
        actions.append(&mut self.start(now));
        actions
    }

    /// Nodes whose record does not count any more, with all that waits for them.
    fn void(&self, past: &Past) -> BTreeSet<NodeIx> {
        let mut void = BTreeSet::new();
        for node in self.sched.nodes() {
            let known = &past.nodes[node];
            // Its next round was told and never began.
            let idle_round =
                known.round > 1 && known.attempts.last().is_none_or(|last| last.round < known.round);
            // A verdict of an earlier round is about a commit that does not stand any more.
            let stale = self.plan.nodes[node].reviews.is_some_and(|subject| {
                known.attempts.last().is_some_and(|last| last.round < past.nodes[subject].round)
            });
            // Closed before open: what passed as a reviewer counts only with a vote on the very commit that stands.
            let unbound = known.state == NodeState::Passed
                && self.plan.nodes[node].reviews.is_some_and(|subject| {
                    let voted = known.attempts.last().and_then(|last| last.voted.as_ref());
                    voted.is_none() || voted != past.nodes[subject].result()
                });
            if (known.again || idle_round || stale || unbound) && void.insert(node) {
                void.extend(self.sched.dependents(node));
            }
        }
        void
    }

    fn add_past(&mut self, node: NodeIx, known: &PastNode) {
        for attempt in &known.attempts {
            if let Some(tokens) = attempt.tokens {
                *self.tokens.get_or_insert_default() += tokens;
            }
            let sums =
                [(&mut self.cost_usd, attempt.cost_usd), (&mut self.not_billed_usd, attempt.not_billed_usd)];
            for (sum, usd) in sums {
                if let Some(usd) = usd {
                    *sum.get_or_insert(0.0) += usd;
                }
            }
            self.cost_at_least |= attempt.unknown_cost;
            // What is over is only known later to be over the cap: whether anything may start, the budget says.
            let _ = self
                .budget
                .end(node, super::spend::spent(attempt.tokens, attempt.not_billed_usd.or(attempt.cost_usd)));
        }
    }

    /// The rounds of a subject: its number, what was asked for, and the commit that it goes on from.
    fn restore_round(&mut self, node: NodeIx, past: &Past) {
        let round = past.nodes[node].round;
        if round < 2 {
            return;
        }
        let mut rejected = None;
        let mut asked = Vec::new();
        for reviewer in self.plan.reviewers_of(node) {
            let before = past.nodes[reviewer].attempts.iter().rfind(|attempt| attempt.round == round - 1);
            if let Some((commit, opinion)) = before.and_then(|attempt| attempt.asks.clone()) {
                rejected = Some(commit);
                asked.push(Asked { reviewer: self.plan.nodes[reviewer].id.clone(), opinion });
            }
        }
        self.live[node].rounds = Rounds::resumed(round, &asked);
        self.live[node].restart = rejected.map(|rejected| (rejected, asked));
    }
}

/// States that a resumed run keeps. What was skipped follows from the others; the rest is to be done.
fn stands(state: NodeState) -> bool {
    matches!(state, NodeState::Passed | NodeState::Failed | NodeState::Held)
}
