//! What may leave: `publish` of each node, judged against the whole graph.
//!
//! A default is for those nodes that can publish at all: a reviewer simply does not take it. Invariant: neither a
//! reviewer nor evidence ever has anything but [`Publish::None`].

use super::{Checker, is_reviewer, setting};
use crate::plan::{
    dag::Dag,
    error::{Code, Problem},
    spec::{NodeIx, Publish},
};

impl Checker<'_> {
    /// `publish` of all nodes. Without a graph only reviewers are judged.
    pub(super) fn publishes(&mut self, dag: Option<&Dag>) -> Vec<Publish> {
        (0..self.entries.len()).map(|ix| self.publish(ix, dag).unwrap_or_default()).collect()
    }

    fn publish(&mut self, ix: NodeIx, dag: Option<&Dag>) -> Option<Publish> {
        let entry = &self.entries[ix];
        let raw = &entry.node.value;
        let wish = setting(&raw.publish, &self.defaults.publish)?;
        let (publish, span) = (wish.at.value.0, wish.at.span);
        if publish == Publish::None {
            return None;
        }
        if is_reviewer(raw) {
            if !wish.inherited {
                let message = format!("node `{}` is to publish, but it is a reviewer", entry.id);
                let problem = Problem::new(Code::PublishReviewer, span, message);
                self.findings.push(problem.help("a reviewer's commits are always dropped; remove `publish`"));
            }
            return None;
        }
        if !dag?.is_evidence(ix) {
            return Some(publish);
        }
        let message = format!(
            "node `{}` is to publish, but it is evidence: a reviewer of what it starts from needs it",
            entry.id
        );
        let help = if wish.inherited {
            "set `publish = \"none\"` in the node: it runs before that review is over"
        } else {
            "remove `publish`: the node runs before that review is over"
        };
        let problem = Problem::new(Code::PublishEvidence, span, message);
        let problem = if wish.inherited { problem.also(entry.node.key, "the node") } else { problem };
        self.findings.push(problem.help(help));
        None
    }
}
