//! What time alone brings about: a node stopped at its timeout or for its silence, a delayed one started.
//!
//! Invariant: every time that is waited for is one of [`Dispatcher::next_deadline`].

use std::time::Duration;

use super::{Action, Dispatcher, Now};
use crate::{outcome::StopCause, plan::spec::NodeIx, units};

impl Dispatcher<'_> {
    /// The earliest time at which something is to be done if nothing comes: a running node stopped, a waiting one started.
    pub fn next_deadline(&self) -> Option<Duration> {
        let stops = self.unstopped().flat_map(|node| [self.live[node].deadline, self.idle_deadline(node)]);
        let starts =
            self.delayed.values().copied().chain(self.pauses()).filter(|_| !self.sched.stopping()).map(Some);
        stops.chain(starts).chain([self.run_deadline()]).flatten().min()
    }

    /// Stops the nodes whose deadline has passed, or that have been silent for too long, and starts those whose time has come.
    pub fn tick(&mut self, now: Now) -> Vec<Action> {
        let mut actions = self.end_of_time(now);
        let passed = |at: Option<Duration>| at.is_some_and(|at| at <= now.since);
        let late: Vec<(NodeIx, StopCause)> = self
            .unstopped()
            .filter_map(|node| {
                let length = |length: Option<Duration>| length.map(units::show_duration).unwrap_or_default();
                if passed(self.live[node].deadline) {
                    return Some((node, StopCause::Deadline(length(self.plan.nodes[node].timeout))));
                }
                let idle = passed(self.idle_deadline(node));
                idle.then(|| (node, StopCause::Idle(length(self.idle[node]))))
            })
            .collect();
        actions.extend(late.into_iter().filter_map(|(node, cause)| self.stop_node(node, cause)));
        actions.append(&mut self.start(now));
        actions
    }

    fn unstopped(&self) -> impl Iterator<Item = NodeIx> + '_ {
        self.sched.running().filter(|node| !self.live[*node].stopping)
    }

    fn idle_deadline(&self, node: NodeIx) -> Option<Duration> {
        Some(self.live[node].silent? + self.idle[node]?)
    }
}
