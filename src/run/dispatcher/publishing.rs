//! What of a run is published, and when: decided after every end, handed out one by one, in an order in which what others
//! stand on goes first.
//!
//! Invariant: a node is asked about once its reviewers and its gate have all spoken, and goes out at most once per run;
//! after a stop nothing more goes out.

use std::collections::VecDeque;

use super::{Action, Dispatcher, Status, Stopping};
use crate::{
    git::publish::Kind,
    name::CommitId,
    plan::{
        dag::Dag,
        spec::{NodeIx, Publish},
    },
    publish::{Ballot, Standing, may_publish},
    run::{
        node::Report,
        publisher::{Answered, Going},
    },
    stream::CostSource,
    verdict::Judged,
};

pub(super) struct Publishing<'a> {
    dag: &'a Dag,
    /// This run publishes at all.
    wanted: bool,
    standings: Vec<Standing>,
    /// For each node: the commit with which it went into the queue.
    asked: Vec<Option<CommitId>>,
    queue: VecDeque<NodeIx>,
    under_way: Option<NodeIx>,
    unreachable: bool,
    refused: bool,
}

impl<'a> Publishing<'a> {
    pub fn new(dag: &'a Dag, wanted: bool) -> Self {
        Self {
            dag,
            wanted,
            standings: vec![Standing::waiting(); dag.len()],
            asked: vec![None; dag.len()],
            queue: VecDeque::new(),
            under_way: None,
            unreachable: false,
            refused: false,
        }
    }

    /// Nothing is under way or waits.
    pub fn idle(&self) -> bool {
        self.under_way.is_none() && self.queue.is_empty()
    }

    /// What a node did in its last round is void.
    pub fn void(&mut self, node: NodeIx) {
        let Standing { cost_usd, cost_at_least, .. } = self.standings[node].clone();
        self.standings[node] = Standing { cost_usd, cost_at_least, ..Standing::waiting() };
    }

    /// What the worst trouble comes to.
    pub fn status(&self) -> Option<Status> {
        match (self.unreachable, self.refused) {
            (true, _) => Some(Status::Infrastructure),
            (_, true) => Some(Status::Held),
            _ => None,
        }
    }
}

impl Dispatcher<'_> {
    /// Takes up what a run that goes on knows of its nodes. What of it is void, the node's state says.
    pub fn remember_published(&mut self, going: &Going) {
        for (node, before) in going.before.iter().enumerate() {
            if let Some(before) = before {
                self.publishing.standings[node] = before.clone();
            }
        }
        for (node, out) in &going.out {
            self.publishing.asked[*node] = Some(out.commit.clone());
        }
    }

    /// Remembers what an attempt brought.
    pub(super) fn note(&mut self, report: &Report) {
        let standing = &mut self.publishing.standings[report.node];
        standing.attempt = report.attempt;
        standing.input.clone_from(&report.input);
        standing.head.clone_from(&report.collected.head);
        standing.summary.clone_from(&report.summary);
        standing.vote =
            report.verdict.as_ref().zip(report.input.clone()).map(|((judged, _), commit)| Ballot {
                approves: matches!(judged, Judged::Approve(_)),
                commit,
                summary: judged.summary(),
                findings: match judged {
                    Judged::Approve(opinion) | Judged::RequestChanges(opinion) => opinion.findings.len(),
                    Judged::Held(_) => 0,
                },
            });
        if let Some(usd) = report.cost_usd() {
            *standing.cost_usd.get_or_insert(0.0) += usd;
        }
        standing.cost_at_least |= report.ran && report.cost_source() == CostSource::Unknown;
    }

    /// Puts what may go out now into the queue, and hands out the next.
    pub(super) fn publish(&mut self) -> Option<Action> {
        if !self.publishing.wanted || self.stopping >= Stopping::Broken {
            return None;
        }
        for node in 0..self.plan.nodes.len() {
            self.publishing.standings[node].state = self.sched.state(node);
        }
        for &node in self.publishing.dag.order() {
            if self.plan.nodes[node].publish == Publish::None {
                continue;
            }
            let may = self.may_publish(node);
            if may.is_some() && may != self.publishing.asked[node] {
                self.publishing.asked[node] = may;
                self.publishing.queue.push_back(node);
            }
        }
        self.hand_out()
    }

    fn may_publish(&self, node: NodeIx) -> Option<CommitId> {
        may_publish(self.plan, self.publishing.dag, node, &|node| self.standing(node)).ok()
    }

    /// What is known of a node that is part of the run.
    pub fn standing(&self, node: NodeIx) -> Option<&Standing> {
        self.sched.active(node).then(|| &self.publishing.standings[node])
    }

    fn hand_out(&mut self) -> Option<Action> {
        if self.publishing.under_way.is_some() {
            return None;
        }
        loop {
            let node = self.publishing.queue.pop_front()?;
            // Asked once more: what was true when it was queued may be void.
            if let Some(commit) = self.may_publish(node) {
                self.publishing.under_way = Some(node);
                return Some(Action::Publish { node, commit });
            }
        }
    }

    /// A node is out, or could not go.
    pub(super) fn answered(&mut self, answered: Box<Answered>) -> Vec<Action> {
        if self.publishing.under_way != Some(answered.job.node) {
            return Vec::new();
        }
        match answered.sent.as_ref().err().map(|fault| fault.kind) {
            Some(Kind::Refused) => self.publishing.refused = true,
            Some(Kind::Unreachable) => self.publishing.unreachable = true,
            Some(Kind::Stopped) | None => {}
        }
        let mut actions = vec![Action::Published(answered)];
        actions.extend(self.went());
        actions
    }

    /// What was under way is over; the next one.
    pub fn went(&mut self) -> Vec<Action> {
        self.publishing.under_way = None;
        self.hand_out().into_iter().collect()
    }

    /// A stop: what waits stays here, and what is under way is ended at once if `now`.
    pub(super) fn stop_publishing(&mut self, now: bool) -> Vec<Action> {
        let mut actions: Vec<Action> =
            self.publishing.queue.drain(..).map(|node| Action::NotPublished { node }).collect();
        actions.extend((now && self.publishing.under_way.is_some()).then_some(Action::AbandonPublishing));
        actions
    }

    /// What was to be published next is not, as it could not be recorded; nor is anything after it.
    pub fn unpublish(&mut self) {
        self.publishing.under_way = None;
        self.publishing.queue.clear();
    }

    /// The state broke: nothing can be recorded any more.
    pub(super) fn forget_publishing(&mut self) {
        self.publishing.queue.clear();
    }
}
