//! What is done again: an attempt that the machine or the provider spoilt, and a round that its reviewers send back.
//!
//! Invariant: a try of a round starts from what that round starts from, and a verdict on a commit that does not stand any
//! more counts for nothing.

use std::{collections::BTreeSet, time::Duration};

use super::{Action, Dispatcher, Live, Now, Stopping};
use crate::{
    event::RunEvent,
    outcome::{Kind, Outcome},
    plan::spec::NodeIx,
    record::NodeState,
    rounds::{Asked, Rounds, wishes},
    run::node::Report,
};

/// The longest that a retry waits, without its share of chance.
const BACKOFF_MAX: Duration = Duration::from_secs(300);

impl Dispatcher<'_> {
    /// Whether a node is tried again, and then what is told.
    pub(super) fn try_again(&mut self, node: NodeIx, report: &Report, now: Now) -> Option<RunEvent> {
        let retries = self.plan.nodes[node].retries;
        let live = &mut self.live[node];
        if !report.outcome.curable || live.tries > retries || live.stopping || self.stopping != Stopping::No {
            return None;
        }
        let wait = backoff(self.backoff, live.tries, now);
        self.delayed.insert(node, now.since + wait);
        Some(RunEvent::NodeRetries {
            node: self.plan.nodes[node].id.clone(),
            tries: live.tries,
            of: retries + 1,
            wait_ms: i64::try_from(wait.as_millis()).unwrap_or(i64::MAX),
            reason: report.outcome.reason.clone(),
        })
    }

    /// A round that brought nothing can only be rejected again: a person is asked instead of the reviewers.
    pub(super) fn hold_idle_round(&self, node: NodeIx, report: &mut Report) {
        let Some((_, asked)) = &self.live[node].restart else { return };
        let idle = match report.outcome.kind {
            Kind::Passed => report.collected.head.is_none(),
            kind => kind == Kind::NothingDone,
        };
        if idle {
            let reason =
                format!("round {} changed nothing, but {}", self.live[node].rounds.number(), wishes(asked));
            report.outcome = Outcome::new(Kind::Held, reason);
        }
    }

    /// Each subject of which a reviewer asks for changes gets its next round, once its reviewers have all ended, or is held.
    pub(super) fn close_rounds(&mut self, follow: &mut Vec<Action>) {
        for subject in self.sent_back.clone() {
            self.close_round(subject, follow);
        }
    }

    fn close_round(&mut self, subject: NodeIx, follow: &mut Vec<Action>) {
        let plan = self.plan;
        let reviewers: Vec<NodeIx> =
            plan.reviewers_of(subject).filter(|reviewer| self.sched.active(*reviewer)).collect();
        let asked: Vec<Asked> = reviewers
            .iter()
            .filter_map(|reviewer| {
                let opinion = self.live[*reviewer].asks.clone()?;
                Some(Asked { reviewer: plan.nodes[*reviewer].id.clone(), opinion })
            })
            .collect();
        let stands = matches!(self.sched.state(subject), NodeState::Passed | NodeState::Held);
        if asked.is_empty() || !stands {
            return;
        }
        let rework = plan.nodes[subject].rework;
        if rework == 0 || self.stopping != Stopping::No {
            // No round will follow, so nothing is waited for.
            let held = self.live[subject].rounds.clone().next(0, &asked).err();
            self.hold_subject(subject, held.unwrap_or_default(), follow);
            return;
        }
        // A reviewer that waits for one which asks for changes, itself or through its evidence, has no say in this round.
        let asking = reviewers.iter().filter(|reviewer| self.live[**reviewer].asks.is_some());
        let blocked: BTreeSet<NodeIx> =
            asking.flat_map(|reviewer| self.sched.dependents(*reviewer)).collect();
        let over = reviewers.iter().all(|reviewer| match self.sched.state(*reviewer) {
            NodeState::Waiting => blocked.contains(reviewer),
            state => state.terminal(),
        });
        let dependents = self.sched.dependents(subject);
        if !over || dependents.iter().any(|node| self.sched.state(*node) == NodeState::Running) {
            return;
        }
        match self.live[subject].rounds.next(rework, &asked) {
            Ok(round) => self.reopen(subject, round, asked, follow),
            Err(held) => self.hold_subject(subject, held, follow),
        }
    }

    /// The next round of a subject begins: what its reviewers and all that depends on it have done is void.
    fn reopen(&mut self, subject: NodeIx, round: u32, asked: Vec<Asked>, follow: &mut Vec<Action>) {
        let reopened = self.sched.reopen(subject);
        self.sent_back.remove(&subject);
        // First of all: whoever takes the run up from here must know that a round has begun, or would repeat the last one.
        follow.push(Action::Tell(RunEvent::RoundStarted {
            node: self.plan.nodes[subject].id.clone(),
            round,
            of: self.plan.nodes[subject].rework + 1,
            reviewers: asked.iter().map(|asked| asked.reviewer.clone()).collect(),
            findings: asked.iter().map(|asked| asked.opinion.findings.len()).sum(),
            again: reopened.iter().map(|node| self.plan.nodes[*node].id.clone()).collect(),
        }));
        let reason = format!("round {round} of `{}`", self.plan.nodes[subject].id);
        let rejected = self.live[subject].result.clone().unwrap_or_else(|| self.base.clone());
        for node in reopened {
            self.publishing.void(node);
            let live = &mut self.live[node];
            let attempt = live.attempt;
            let rounds = if node == subject { std::mem::take(&mut live.rounds) } else { Rounds::default() };
            *live = Live { attempt, rounds, ..Live::default() };
            follow.push(Action::Node { node, state: NodeState::Waiting, reason: reason.clone() });
        }
        self.live[subject].restart = Some((rejected, asked));
    }

    /// Reviewers ask for changes and no round is left for them: the subject waits for a person.
    fn hold_subject(&mut self, subject: NodeIx, reason: String, follow: &mut Vec<Action>) {
        if self.live[subject].reason.as_ref() == Some(&reason) {
            return;
        }
        for reviewer in self.plan.reviewers_of(subject) {
            if let Some(asks) = &self.live[reviewer].asks {
                self.live[reviewer].reason = Some(format!("asks for changes: {}", asks.summary));
            }
        }
        self.sched.hold(subject);
        self.live[subject].reason = Some(reason.clone());
        follow.push(Action::Node { node: subject, state: NodeState::Held, reason: reason.clone() });
        let id = self.plan.nodes[subject].id.clone();
        follow.push(Action::Tell(RunEvent::NodeHeld { node: id, reason }));
    }
}

/// Twice as long for each try, and between a half and one and a half of that, so that nodes which failed together do not
/// come back together. The clock's milliseconds are chance enough.
fn backoff(first: Duration, tries: u32, now: Now) -> Duration {
    let whole = first.saturating_mul(1 << tries.saturating_sub(1).min(16)).min(BACKOFF_MAX);
    whole.mul_f64(0.5 + (now.unix_ms.rem_euclid(1000) as f64) / 1000.0)
}
