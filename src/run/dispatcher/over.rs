//! What a run came to: where the nodes that never ran stand, and the status of the whole, worst first.

use super::{Dispatcher, Status, Stopping};
use crate::{plan::spec::NodeIx, record::NodeState, run::reasons};

impl Dispatcher<'_> {
    /// Where the nodes that never ran stand at the end, with the reason: held up by a person's decision, or stopped.
    pub fn leftovers(&self) -> Vec<(NodeIx, NodeState, String)> {
        let waiting = self.sched.nodes().filter(|node| self.sched.state(*node) == NodeState::Waiting);
        waiting
            .map(|node| match self.stopping {
                Stopping::Capped => (node, NodeState::Waiting, self.capped.clone().unwrap_or_default()),
                Stopping::No => (node, NodeState::Waiting, reasons::waiting(self.plan, &self.sched, node)),
                Stopping::FailFast => {
                    (node, NodeState::Skipped, "the run stopped at its first failure".to_owned())
                }
                Stopping::Broken => (
                    node,
                    NodeState::Cancelled,
                    "the run stopped because its state could not be written".to_owned(),
                ),
                Stopping::Asked | Stopping::AskedTwice => {
                    (node, NodeState::Cancelled, "the run was stopped before it started".to_owned())
                }
            })
            .collect()
    }

    /// How the run ended; worst first.
    pub fn status(&self) -> Status {
        if matches!(self.stopping, Stopping::Asked | Stopping::AskedTwice) {
            return Status::Interrupted;
        }
        if self.stopping == Stopping::Broken || self.live.iter().any(|live| live.infrastructure) {
            return Status::Infrastructure;
        }
        let publishing = self.publishing.status();
        if publishing == Some(Status::Infrastructure) {
            return Status::Infrastructure;
        }
        let any = |wanted: NodeState| self.sched.nodes().any(|node| self.sched.state(node) == wanted);
        if any(NodeState::Failed) {
            Status::Failed
        } else if any(NodeState::Held) || publishing.is_some() {
            Status::Held
        } else if self.stopping == Stopping::Capped {
            Status::Capped
        } else if any(NodeState::Waiting) {
            Status::Held
        } else {
            Status::Passed
        }
    }
}
