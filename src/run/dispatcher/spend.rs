//! What is spent, as it is heard: sums for people, and caps at which nodes or the whole run stop.
//!
//! Invariant: a run whose cap is passed starts nothing more, and everything that still costs is stopped.

use super::{Action, Dispatcher, Now, Stopping};
use crate::{
    budget::{Over, Room, Spent},
    event::RunEvent,
    outcome::StopCause,
    plan::spec::NodeIx,
    run::node::Report,
    stream::{CostSource, Tokens},
    units::show_duration,
};

impl Dispatcher<'_> {
    /// Adds an ended attempt to the sums.
    pub(super) fn add_up(&mut self, report: &Report) -> Vec<Action> {
        if let Some(tokens) = report.account.tokens() {
            *self.tokens.get_or_insert_default() += tokens;
        }
        let (billed, not_billed) = report.cost_source().split(report.cost_usd());
        for (sum, usd) in [(&mut self.cost_usd, billed), (&mut self.not_billed_usd, not_billed)] {
            if let Some(usd) = usd {
                *sum.get_or_insert(0.0) += usd;
            }
        }
        // An attempt whose container never ran spent nothing.
        self.cost_at_least |= report.ran && report.cost_source() == CostSource::Unknown;
        // A cap bounds what is used, whoever pays for it.
        let over = self.budget.end(report.node, spent(report.account.tokens(), report.cost_usd()));
        self.over(report.node, over)
    }

    /// Takes in what a running node has spent so far.
    pub(super) fn spends(&mut self, node: NodeIx, tokens: Option<Tokens>, usd: Option<f64>) -> Vec<Action> {
        let over = self.budget.progress(node, spent(tokens, usd));
        self.over(node, over)
    }

    fn over(&mut self, node: NodeIx, over: Option<Over>) -> Vec<Action> {
        let warning = self.budget.warning().map(|message| Action::Tell(RunEvent::Warning { message }));
        let mut actions: Vec<Action> = warning.into_iter().collect();
        match over {
            None => {}
            Some(Over::Node(what)) => {
                self.cap(format!("`{}` is over its budget: {what}", self.plan.nodes[node].id));
                actions.extend(self.stop_node(node, StopCause::Budget(what)));
            }
            Some(Over::Run(what)) => {
                self.cap(what.clone());
                let costly: Vec<NodeIx> = self.sched.running().filter(|node| !self.free[*node]).collect();
                let stop = |node| self.stop_node(node, StopCause::Budget(what.clone()));
                actions.extend(costly.into_iter().filter_map(stop));
            }
        }
        actions
    }

    /// The end, if nothing runs, nothing waits for its time, and what is left is too little for whatever could start.
    pub(super) fn out_of_budget(&mut self) {
        let waits =
            |node: NodeIx| self.delayed.contains_key(&node) || self.purses[self.paid_by[node]].paused();
        if self.sched.busy() || self.sched.stopping() || self.sched.ready().any(waits) {
            return;
        }
        let never = self.sched.ready().find_map(|node| match self.budget.room(node) {
            Room::Never(why) => Some((node, why)),
            _ => None,
        });
        if let Some((node, why)) = never {
            self.cap(format!("`{}` cannot start: {why}", self.plan.nodes[node].id));
        }
    }

    /// The run's own deadline.
    pub(super) fn run_deadline(&self) -> Option<std::time::Duration> {
        self.plan.epic.timeout.filter(|_| self.stopping < Stopping::Capped)
    }

    /// Stops the run once its time is over.
    pub(super) fn end_of_time(&mut self, now: Now) -> Vec<Action> {
        let Some(timeout) = self.run_deadline().filter(|timeout| *timeout <= now.since) else {
            return Vec::new();
        };
        let length = show_duration(timeout);
        self.cap(format!("the run's timeout of {length} ran out"));
        let running: Vec<NodeIx> = self.sched.running().collect();
        let stop = |node| self.stop_node(node, StopCause::RunDeadline(length.clone()));
        running.into_iter().filter_map(stop).collect()
    }
}

pub(super) fn spent(tokens: Option<Tokens>, usd: Option<f64>) -> Spent {
    let all = |tokens: Tokens| {
        [tokens.input, tokens.output, tokens.cache_read, tokens.cache_write]
            .into_iter()
            .fold(0, u64::saturating_add)
    };
    Spent { usd: usd.unwrap_or_default(), tokens: tokens.map(all).unwrap_or_default() }
}
