//! The port to what publishes: one passed and approved node goes out at a time, on a thread of its own.
//!
//! Whether it may is decided before. Invariant: a job is on record before it is handed over, and each job has one answer.

use crate::{
    git::publish::PublishFault,
    name::{AttemptKey, CommitId},
    plan::spec::{NodeIx, Publish},
    publish::story::Story,
};

/// What is published, and all that is told of it.
#[derive(Debug, Clone)]
pub struct PublishJob {
    /// The node.
    pub node: NodeIx,
    /// The attempt that brought it.
    pub key: AttemptKey,
    /// How.
    pub want: Publish,
    /// The commit.
    pub commit: CommitId,
    /// The branch.
    pub branch: String,
    /// What must be in the commit's history: the base, and every result that it builds on.
    pub contains: Vec<CommitId>,
    /// The published branches that it stands on.
    pub stands_on: Vec<StandsOn>,
    /// For the pull request.
    pub story: Story,
}

/// A published branch below another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StandsOn {
    /// The branch.
    pub branch: String,
    /// Its commit.
    pub commit: CommitId,
    /// The page of its pull request.
    pub url: Option<String>,
}

/// What became of a job.
#[derive(Debug, Clone)]
pub struct Sent {
    /// The page of its pull request.
    pub url: Option<String>,
    /// Nothing had to be done.
    pub already: bool,
    /// What did not work, but changes nothing.
    pub warnings: Vec<String>,
}

/// A job is over.
#[derive(Debug)]
pub struct Answered {
    /// The node.
    pub node: NodeIx,
    /// How it went.
    pub sent: Result<Sent, PublishFault>,
}

/// Publishes.
pub trait Publisher: Send + Sync {
    /// The remote's address, without user and password.
    fn remote(&self) -> String;

    /// The branch of a node.
    fn branch(&self, key: &AttemptKey) -> String;

    /// Brings one node out. Blocking.
    fn publish(&self, job: &PublishJob) -> Result<Sent, PublishFault>;

    /// Ends what is under way. Does not block.
    fn abandon(&self);
}
