//! Decides, message by message, what a run does next. A state machine on values: time and randomness come in, actions go
//! out; whoever drives it performs the actions in their order.
//!
//! Invariants: every start is recorded before it is launched, every end before anything that follows from it; nothing
//! starts after a stop; an end that was not awaited changes nothing.

mod again;
mod deadlines;
mod ending;
mod over;
mod pause;
mod publishing;
mod restore;
mod spend;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use self::{
    ending::{asks, end_of, fail_closed},
    pause::{Purse, purses},
    publishing::Publishing,
};
pub use super::status::Status;
use super::{
    executor::{Source, StopHow},
    node::{Progress, Report, Told},
    publisher::Answered,
    reasons,
};
use crate::{
    budget::{Budget, Room},
    event::RunEvent,
    name::{CommitId, NodeId},
    outcome::{Kind, StopCause},
    plan::{
        dag::Dag,
        input::InputFrom,
        spec::{NodeIx, Plan},
    },
    record::NodeState,
    rounds::{Asked, Rounds},
    sched::{End, Sched, Waits},
    stream::Tokens,
    verdict::Opinion,
};

/// Time, as the driver sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Since the run began; never goes back.
    pub since: Duration,
    /// Unix milliseconds.
    pub unix_ms: i64,
}

/// What the driver does for the dispatcher.
#[derive(Debug)]
pub enum Action {
    /// Record the start of an attempt, then launch it.
    Launch(Launch),
    /// Record the end of an attempt.
    Ended {
        /// Its report.
        report: Box<Report>,
        /// Where its node stands.
        state: NodeState,
        /// When it began, unix milliseconds.
        started: i64,
    },
    /// Record a node that changed without an attempt.
    Node {
        /// The node.
        node: NodeIx,
        /// Where it stands.
        state: NodeState,
        /// Why.
        reason: String,
    },
    /// Stop an attempt, for this cause.
    Stop {
        /// The node.
        node: NodeIx,
        /// Why; kept with the node so that its end is judged by it.
        cause: StopCause,
        /// How.
        how: StopHow,
    },
    /// Record that a node is about to be published, then hand it over.
    Publish {
        /// The node.
        node: NodeIx,
        /// What it brought, as it was approved.
        commit: CommitId,
    },
    /// Record and tell how that went.
    Published(Box<Answered>),
    /// Tell that the run was stopped before a node was published.
    NotPublished {
        /// The node.
        node: NodeIx,
    },
    /// End the publication that is under way.
    AbandonPublishing,
    /// Tell.
    Tell(RunEvent),
}

/// A node to be launched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launch {
    /// The node.
    pub node: NodeIx,
    /// Its attempt.
    pub attempt: u32,
    /// What it starts from.
    pub source: Source,
    /// For a reviewer: the reviewed commit.
    pub reviewed: Option<CommitId>,
    /// The round, from 1.
    pub round: u32,
    /// Which try in this round, from 1.
    pub tries: u32,
    /// From the second round on: who asked for what.
    pub changes: Vec<Asked>,
}

/// How the whole run stopped or is being stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stopping {
    No,
    /// Nothing new starts (`--fail-fast`).
    FailFast,
    /// A cap or the time of the whole run is reached.
    Capped,
    /// The state cannot be written.
    Broken,
    /// A person asked.
    Asked,
    /// A person asked twice.
    AskedTwice,
}

#[derive(Debug, Default)]
struct Live {
    attempt: u32,
    started_unix: i64,
    deadline: Option<Duration>,
    /// Since when it says nothing, while its container runs.
    silent: Option<Duration>,
    stopping: bool,
    result: Option<CommitId>,
    reason: Option<String>,
    infrastructure: bool,
    /// Tries in this round so far.
    tries: u32,
    /// Its rounds as a subject.
    rounds: Rounds,
    /// What this round starts from, and why there is one: from the second on.
    restart: Option<(CommitId, Vec<Asked>)>,
    /// What it asks for, as a reviewer, of the commit that stands now.
    asks: Option<Opinion>,
}

/// The run.
pub struct Dispatcher<'a> {
    plan: &'a Plan,
    base: CommitId,
    sched: Sched,
    live: Vec<Live>,
    fail_fast: bool,
    stopping: Stopping,
    grace: Duration,
    int_first: Vec<bool>,
    idle: Vec<Option<Duration>>,
    backoff: Duration,
    /// What is known of each credential, and which one each node uses.
    purses: Vec<Purse>,
    paid_by: Vec<usize>,
    max_wait: Option<Duration>,
    budget: Budget,
    /// Nodes that cost nothing.
    free: Vec<bool>,
    /// Why the run stopped at a cap.
    capped: Option<String>,
    /// Nodes that may not start before a time, for a retry.
    delayed: BTreeMap<NodeIx, Duration>,
    /// Subjects of which a reviewer asks for changes.
    sent_back: BTreeSet<NodeIx>,
    publishing: Publishing<'a>,
    tokens: Option<Tokens>,
    cost_usd: Option<f64>,
    not_billed_usd: Option<f64>,
    cost_at_least: bool,
}

/// What a dispatcher is made for.
pub struct Setup<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its graph.
    pub dag: &'a Dag,
    /// The pinned base.
    pub base: CommitId,
    /// Which nodes are part of the run; closed under needs and gates.
    pub active: Vec<bool>,
    /// How many run at once.
    pub jobs: usize,
    /// Start nothing more after the first failure.
    pub fail_fast: bool,
    /// Time between the first signal and SIGKILL.
    pub grace: Duration,
    /// For each node: SIGINT first.
    pub int_first: Vec<bool>,
    /// For each node: how long it may say nothing.
    pub idle: Vec<Option<Duration>>,
    /// For each node: the credential that its runner uses, by name.
    pub credentials: Vec<String>,
    /// For each node: it costs nothing.
    pub free: Vec<bool>,
    /// The longest pause for a rate limit; `None` = any.
    pub max_wait: Option<Duration>,
    /// How long the first retry waits; each further one twice as long as the one before.
    pub backoff: Duration,
    /// Nodes that ask for it are published.
    pub publish: bool,
}

impl<'a> Dispatcher<'a> {
    /// Nothing has started yet.
    pub fn new(setup: Setup<'a>) -> Self {
        let waits = Waits::of(setup.dag);
        let (purses, paid_by) = purses(&setup.credentials);
        Self {
            sched: Sched::new(waits, setup.active, setup.jobs),
            live: setup.plan.nodes.iter().map(|_| Live::default()).collect(),
            plan: setup.plan,
            base: setup.base,
            fail_fast: setup.fail_fast,
            stopping: Stopping::No,
            grace: setup.grace,
            int_first: setup.int_first,
            idle: setup.idle,
            backoff: setup.backoff,
            purses,
            paid_by,
            max_wait: setup.max_wait,
            budget: Budget::new(
                setup.plan.epic.caps,
                setup.plan.nodes.iter().map(|node| node.caps).collect(),
            ),
            free: setup.free,
            capped: None,
            delayed: BTreeMap::new(),
            sent_back: BTreeSet::new(),
            publishing: Publishing::new(setup.dag, setup.publish),
            tokens: None,
            cost_usd: None,
            not_billed_usd: None,
            cost_at_least: false,
        }
    }

    /// Starts what may start.
    pub fn start(&mut self, now: Now) -> Vec<Action> {
        let mut actions = Vec::new();
        // A time that has come is none any more, even while no slot is free.
        self.delayed.retain(|_, at| *at > now.since);
        self.end_pauses(now);
        loop {
            let (delayed, purses, paid_by) = (&self.delayed, &self.purses, &self.paid_by);
            let waits = |node: NodeIx| delayed.contains_key(&node) || purses[paid_by[node]].paused();
            let room = |node: NodeIx| self.free[node] || self.budget.room(node) == Room::Yes;
            let Some(node) = self.sched.start_next(|node| !waits(node) && room(node)) else { break };
            if !self.free[node] {
                self.budget.begin(node);
            }
            let live = &mut self.live[node];
            live.attempt += 1;
            live.tries += 1;
            live.started_unix = now.unix_ms;
            let (attempt, tries) = (live.attempt, live.tries);
            let changes = live.restart.as_ref().map(|(_, asked)| asked.clone()).unwrap_or_default();
            let source = self.source(node);
            let subject = self.plan.nodes[node].reviews;
            let reviewed = subject.and_then(|subject| self.live[subject].result.clone());
            let round = self.live[subject.unwrap_or(node)].rounds.number();
            let launch = Launch { node, attempt, source, reviewed, round, tries, changes };
            actions.push(Action::Launch(launch));
        }
        self.out_of_budget();
        actions
    }

    /// Takes a message from a node.
    pub fn told(&mut self, told: Told, now: Now) -> Vec<Action> {
        match told {
            Told::Progress(progress) => {
                let (node, tokens, usd) = (progress.node, progress.tokens, progress.cost_usd);
                let mut actions = vec![Action::Tell(self.progress(progress))];
                actions.append(&mut self.spends(node, tokens, usd));
                actions
            }
            Told::Started(node) => {
                self.live[node].deadline = self.plan.nodes[node].timeout.map(|timeout| now.since + timeout);
                self.live[node].silent = Some(now.since);
                Vec::new()
            }
            Told::Heard(node) | Told::Ran(node) => {
                // Once its container is over it may be silent.
                let runs = matches!(told, Told::Heard(_));
                self.live[node].silent = self.live[node].silent.filter(|_| runs).map(|_| now.since);
                Vec::new()
            }
            Told::MustStop(node, cause) => self.stop_node(node, cause).into_iter().collect(),
            Told::Ended(report) => self.ended(report, now),
            Told::Published(answered) => self.answered(answered),
        }
    }

    /// A person asks to stop: the first time with a grace, the second time at once.
    pub fn interrupt(&mut self) -> Vec<Action> {
        let twice = self.stopping >= Stopping::Asked;
        self.stopping = if twice { Stopping::AskedTwice } else { Stopping::Asked };
        self.sched.stop();
        let running: Vec<NodeIx> = self.sched.running().collect();
        let mut actions = self.stop_publishing(twice);
        actions.extend(running.into_iter().map(|node| {
            self.live[node].stopping = true;
            let how = if twice { StopHow::Now } else { self.gently(node) };
            Action::Stop { node, cause: StopCause::Asked, how }
        }));
        actions
    }

    /// The state cannot be written: nothing starts, everything stops, with a grace. What is being stopped already goes on
    /// as it was asked to, and a run that a person stopped stays one.
    pub fn broken(&mut self) -> Vec<Action> {
        self.stopping = self.stopping.max(Stopping::Broken);
        self.sched.stop();
        self.forget_publishing();
        let running: Vec<NodeIx> = self.sched.running().collect();
        running.into_iter().filter_map(|node| self.stop_node(node, StopCause::Asked)).collect()
    }

    /// Nothing runs and nothing can start.
    pub fn done(&self) -> bool {
        self.sched.idle() && self.publishing.idle()
    }

    /// Where a node stands.
    pub fn state(&self, node: NodeIx) -> NodeState {
        self.sched.state(node)
    }

    /// Why a node stands where it stands.
    pub fn reason(&self, node: NodeIx) -> Option<&str> {
        self.live[node].reason.as_deref()
    }

    /// Running nodes.
    pub fn running(&self) -> Vec<NodeId> {
        self.sched.running().map(|node| self.plan.nodes[node].id.clone()).collect()
    }

    /// Sums over all ended attempts: tokens, dollars, and whether the dollars are only "at least".
    /// Dollars are those that somebody is billed for.
    pub fn spent(&self) -> (Option<Tokens>, Option<f64>, bool) {
        (self.tokens, self.cost_usd, self.cost_at_least)
    }

    /// What subscriptions used in all ended attempts, at list price.
    pub fn not_billed(&self) -> Option<f64> {
        self.not_billed_usd
    }

    fn progress(&self, progress: Progress) -> RunEvent {
        RunEvent::NodeProgress {
            node: self.plan.nodes[progress.node].id.clone(),
            attempt: self.live[progress.node].attempt,
            phase: progress.phase.to_owned(),
            tokens: progress.tokens,
            cost_usd: progress.cost_usd,
            activity: progress.activity,
        }
    }

    fn gently(&self, node: NodeIx) -> StopHow {
        StopHow::Grace { int_first: self.int_first[node], grace: self.grace }
    }

    fn stop_node(&mut self, node: NodeIx, cause: StopCause) -> Option<Action> {
        if self.sched.state(node) != NodeState::Running || self.live[node].stopping {
            return None;
        }
        self.live[node].stopping = true;
        Some(Action::Stop { node, cause, how: self.gently(node) })
    }

    fn ended(&mut self, mut report: Box<Report>, now: Now) -> Vec<Action> {
        let node = report.node;
        if self.sched.state(node) != NodeState::Running || self.live[node].attempt != report.attempt {
            return Vec::new();
        }
        let mut over = self.add_up(&report);
        let reviews = self.plan.nodes[node].reviews;
        if reviews.is_some() {
            fail_closed(&mut report);
        }
        self.hold_idle_round(node, &mut report);
        let mut again = Vec::new();
        if !self.rate_limited(node, &report, now, &mut again) {
            again.extend(self.try_again(node, &report, now).map(Action::Tell));
        }
        let end = if again.is_empty() { end_of(&report) } else { End::Again };
        let live = &mut self.live[node];
        live.deadline = None;
        live.silent = None;
        live.stopping = false;
        live.infrastructure = report.outcome.kind == Kind::Infrastructure && again.is_empty();
        live.reason.clone_from(&report.outcome.reason);
        live.asks = asks(&report).filter(|_| end == End::ChangesRequested);
        let result = match reviews {
            Some(subject) => self.live[subject].result.clone(),
            None => report.collected.head.clone().or_else(|| report.input.clone()),
        };
        self.live[node].result = result;
        self.note(&report);

        let skips = self.sched.end(node, end);
        let state = self.sched.state(node);
        let mut follow = Vec::new();
        follow.append(&mut over);
        self.tell_end(node, &report, state, now, &mut follow);
        follow.append(&mut again);
        for skip in skips {
            let reason = reasons::skipped(self.plan, &skip);
            self.live[skip.node].reason = Some(reason.clone());
            follow.push(Action::Node { node: skip.node, state: NodeState::Skipped, reason: reason.clone() });
            let id = self.plan.nodes[skip.node].id.clone();
            follow.push(Action::Tell(RunEvent::NodeSkipped { node: id, reason }));
        }
        if end == End::ChangesRequested {
            self.sent_back.extend(reviews);
        }
        self.close_rounds(&mut follow);
        if self.fail_fast && end == End::Failed && self.stopping == Stopping::No {
            self.stopping = Stopping::FailFast;
            self.sched.stop();
        }
        follow.extend(self.publish());
        let started = self.live[node].started_unix;
        let mut actions = vec![Action::Ended { report, state, started }];
        actions.append(&mut follow);
        actions.append(&mut self.start(now));
        actions
    }

    fn source(&self, node: NodeIx) -> Source {
        if let Some((restart, _)) = &self.live[node].restart {
            return Source::One(restart.clone());
        }
        let result = |node: NodeIx| self.live[node].result.clone().unwrap_or_else(|| self.base.clone());
        match self.plan.input_sources(node) {
            InputFrom::Base => Source::One(self.base.clone()),
            InputFrom::Reviewed(subject) => Source::One(result(subject)),
            InputFrom::Node(from) => Source::One(result(from)),
            InputFrom::Needs(mut needs) => {
                // Plan order, so that the order of writing them changes no commit id.
                needs.sort_unstable();
                match needs.as_slice() {
                    [one] => Source::One(result(*one)),
                    many => Source::Merge(
                        many.iter().map(|need| (self.plan.nodes[*need].id.clone(), result(*need))).collect(),
                    ),
                }
            }
        }
    }
}
