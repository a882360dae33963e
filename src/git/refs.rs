//! The names of the refs that kew makes, all built from checked names, so that none can be misread by git.
//!
//! Results live under `refs/kew/<run>/` in the user's repository; `refs/heads/kew/<epic>/<node>` exists only in a
//! checkout; `refs/kew/keep/<id>` only in the mirror. Invariant: a [`RefName`] comes from a function of this file.

use std::fmt;

use crate::name::{AttemptKey, CommitId, EpicName, NodeId, RunId};

/// The full name of a ref that kew makes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RefName(String);

impl RefName {
    /// The name as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RefName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The pinned base of a run.
pub fn base(run: &RunId) -> RefName {
    RefName(format!("refs/kew/{run}/base"))
}

/// What an attempt brought.
pub fn node(key: &AttemptKey) -> RefName {
    RefName(format!("refs/kew/{}/nodes/{}/{}", key.run, key.node, key.attempt))
}

/// What an attempt left that did not pass. Never an input.
pub fn wip(key: &AttemptKey) -> RefName {
    RefName(format!("refs/kew/{}/nodes/{}/{}-wip", key.run, key.node, key.attempt))
}

/// What an attempt brought that a person must look at first. Never an input.
pub fn held(key: &AttemptKey) -> RefName {
    RefName(format!("refs/kew/{}/held/{}/{}", key.run, key.node, key.attempt))
}

/// The merge that an attempt started from.
pub fn input(key: &AttemptKey) -> RefName {
    RefName(format!("refs/kew/{}/inputs/{}/{}", key.run, key.node, key.attempt))
}

/// The branch of a node inside its checkout.
pub fn branch(epic: &EpicName, node: &NodeId) -> RefName {
    RefName(format!("refs/heads/kew/{epic}/{node}"))
}

/// What keeps a commit in the mirror.
pub(crate) fn keep(id: &CommitId) -> RefName {
    RefName(format!("refs/kew/keep/{id}"))
}
