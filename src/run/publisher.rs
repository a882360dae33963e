//! The port to what publishes: one passed and approved node goes out at a time, on a thread of its own.
//!
//! Whether it may is decided before. Invariant: a job is on record before it is handed over, and each job has one answer.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    event::RunEvent,
    git::publish::{Kind, PublishFault},
    name::{AttemptKey, CommitId, RunId},
    plan::{
        dag::Dag,
        spec::{NodeIx, Plan, Publish},
    },
    publish::{self, Standing, story::Story},
    record::{Millis, Publication, PublicationState},
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
    /// The job.
    pub job: PublishJob,
    /// How it went.
    pub sent: Result<Sent, PublishFault>,
}

/// Publishing, as a run begins or goes on.
#[derive(Clone)]
pub struct Going {
    /// Who publishes.
    pub publisher: Arc<dyn Publisher>,
    /// Of a run that goes on: where its nodes stood.
    pub before: Vec<Option<Standing>>,
    /// Of a run that goes on: what of it is out.
    pub out: BTreeMap<NodeIx, StandsOn>,
}

impl Going {
    /// For a new run.
    pub fn new(publisher: Arc<dyn Publisher>) -> Self {
        Self { publisher, before: Vec::new(), out: BTreeMap::new() }
    }
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

/// A run, as far as a job is made of it.
pub struct Of<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its graph.
    pub dag: &'a Dag,
    /// The run.
    pub run: &'a RunId,
    /// The pinned base.
    pub base: &'a CommitId,
}

/// The job of a node that may be published at `commit`; `None` if that is nothing that its base has not.
///
/// `of` gives the standing of the nodes of the run, `published` those that are out.
pub fn job<'s>(
    run: &Of<'_>,
    node: NodeIx,
    commit: CommitId,
    branch: String,
    of: &dyn Fn(NodeIx) -> Option<&'s Standing>,
    published: &dyn Fn(NodeIx) -> Option<StandsOn>,
) -> Option<PublishJob> {
    let plan = run.plan;
    let below = publish::stands_on(plan, node, &|node| published(node).is_some());
    let stands_on: Vec<StandsOn> = below.into_iter().filter_map(published).collect();
    if commit == *run.base || stands_on.iter().any(|below| below.commit == commit) {
        return None;
    }
    let standing = of(node)?;
    let votes = |reviewers: &[NodeIx]| {
        let vote = |reviewer: &NodeIx| {
            let subject = plan.nodes[*reviewer].reviews?;
            Some((
                plan.nodes[*reviewer].id.clone(),
                plan.nodes[subject].id.clone(),
                of(*reviewer)?.vote.clone()?,
            ))
        };
        reviewers.iter().filter_map(vote).collect::<Vec<_>>()
    };
    let own =
        votes(run.dag.reviewers(node)).into_iter().map(|(reviewer, _, vote)| (reviewer, vote)).collect();
    let mut contains = publish::must_contain(plan, node, of);
    contains.push(run.base.clone());
    let id = &plan.nodes[node].id;
    Some(PublishJob {
        node,
        key: AttemptKey { run: run.run.clone(), node: id.clone(), attempt: standing.attempt },
        want: plan.nodes[node].publish,
        branch,
        contains,
        story: Story {
            epic: plan.epic.name.clone(),
            node: id.clone(),
            run: run.run.clone(),
            attempt: standing.attempt,
            commit: commit.clone(),
            summary: standing.summary.clone(),
            own,
            gates: votes(&run.dag.gates(node)),
            cost: (standing.cost_usd, standing.cost_at_least),
            stands_on: stands_on.iter().map(|below| (below.branch.clone(), below.url.clone())).collect(),
        },
        commit,
        stands_on,
    })
}

/// The last row of a publication, by how it went.
pub fn row(job: &PublishJob, remote: String, sent: &Result<Sent, PublishFault>, time: Millis) -> Publication {
    let (state, url, reason) = match sent {
        Ok(sent) => (PublicationState::Published, sent.url.clone(), None),
        Err(fault) => (fault_state(fault), None, Some(fault.to_string())),
    };
    let (key, commit, branch) = (job.key.clone(), job.commit.clone(), job.branch.clone());
    Publication { key, commit, branch, remote, state, url, reason, time }
}

/// What is told of it.
pub fn event(job: &PublishJob, remote: String, sent: &Result<Sent, PublishFault>) -> RunEvent {
    let (node, branch) = (job.key.node.clone(), job.branch.clone());
    match sent {
        Ok(sent) => RunEvent::Published {
            node,
            branch,
            remote,
            commit: job.commit.to_string(),
            url: sent.url.clone(),
            already: sent.already,
        },
        Err(fault) => RunEvent::PublishFailed {
            node,
            branch,
            remote,
            state: fault_state(fault),
            reason: fault.to_string(),
            help: fault.hint.to_owned(),
        },
    }
}

fn fault_state(fault: &PublishFault) -> PublicationState {
    match fault.kind {
        Kind::Refused => PublicationState::Refused,
        Kind::Unreachable => PublicationState::Unreachable,
        Kind::Stopped => PublicationState::Stopped,
    }
}
