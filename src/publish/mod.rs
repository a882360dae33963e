//! Whether a node's work may leave the repository, and on what other published branch it stands.
//!
//! Pure; a run and `kew publish` ask the same question. Invariant: only a passed node whose own reviewers and whole gate
//! approved exactly the commits that stand may publish; a reviewer, evidence, or anything in doubt never.

pub mod branch;
pub mod story;
pub mod tame;

use std::collections::BTreeSet;

use crate::{
    name::CommitId,
    plan::{
        dag::Dag,
        input::InputFrom,
        spec::{NodeIx, Plan},
    },
    record::NodeState,
};

/// What is known of a node of a run. Of a node that is not part of the run there is none.
#[derive(Debug, Clone)]
pub struct Standing {
    /// Where it stands.
    pub state: NodeState,
    /// Its last attempt; 0 = none.
    pub attempt: u32,
    /// What that attempt started from; of a reviewer, what it reviewed.
    pub input: Option<CommitId>,
    /// What it brought.
    pub head: Option<CommitId>,
    /// A reviewer's word.
    pub vote: Option<Ballot>,
    /// Its last text (agent text).
    pub summary: Option<String>,
    /// US dollars of all its attempts.
    pub cost_usd: Option<f64>,
    /// The cost of an attempt is unknown, so the sum is "at least".
    pub cost_at_least: bool,
}

/// A reviewer's word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ballot {
    /// It approves; anything else does not.
    pub approves: bool,
    /// The commit that it is about.
    pub commit: CommitId,
    /// Its reasons (agent text).
    pub summary: String,
    /// How many findings it has.
    pub findings: usize,
}

impl Standing {
    /// Nothing has happened yet.
    pub fn waiting() -> Self {
        Self {
            state: NodeState::Waiting,
            attempt: 0,
            input: None,
            head: None,
            vote: None,
            summary: None,
            cost_usd: None,
            cost_at_least: false,
        }
    }

    /// What others build on: what it brought, else what it started from.
    pub fn result(&self) -> Option<&CommitId> {
        self.head.as_ref().or(self.input.as_ref())
    }
}

/// Why a node is not published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Not {
    /// Something that it waits for is not over.
    Yet(String),
    /// A person must decide first.
    Held(String),
    /// It will not be.
    Never(String),
}

impl Not {
    /// Why, as a fragment.
    pub fn reason(&self) -> &str {
        let (Self::Yet(reason) | Self::Held(reason) | Self::Never(reason)) = self;
        reason
    }
}

/// The commit that may leave.
///
/// `of` gives each node's standing, or `None` for one that is not part of the run.
pub fn may_publish<'s>(
    plan: &Plan,
    dag: &Dag,
    node: NodeIx,
    of: &dyn Fn(NodeIx) -> Option<&'s Standing>,
) -> Result<CommitId, Not> {
    let spec = &plan.nodes[node];
    if spec.reviews.is_some() {
        return Err(Not::Never("it is a reviewer, whose commits are dropped".to_owned()));
    }
    if dag.is_evidence(node) {
        return Err(Not::Never("it is evidence: it ran on work that was not yet reviewed".to_owned()));
    }
    let standing = of(node).ok_or_else(|| Not::Never("it is not part of this run".to_owned()))?;
    let word = standing.state.word();
    match standing.state {
        NodeState::Passed => {}
        NodeState::Waiting | NodeState::Running => return Err(Not::Yet(format!("it is {word}"))),
        NodeState::Held => return Err(Not::Held(format!("it is {word} for a person"))),
        _ => return Err(Not::Never(format!("it is {word}"))),
    }
    let result =
        standing.result().ok_or_else(|| Not::Never("what it brought is not on record".to_owned()))?;
    let gates: BTreeSet<NodeIx> = dag.reviewers(node).iter().copied().chain(dag.gates(node)).collect();
    for reviewer in gates {
        approved(plan, reviewer, of)?;
    }
    Ok(result.clone())
}

/// Fails unless a reviewer approved the commit of its subject that stands now.
fn approved<'s>(
    plan: &Plan,
    reviewer: NodeIx,
    of: &dyn Fn(NodeIx) -> Option<&'s Standing>,
) -> Result<(), Not> {
    let id = &plan.nodes[reviewer].id;
    let Some(subject) = plan.nodes[reviewer].reviews else {
        return Err(Not::Never(format!("`{id}` reviews nothing")));
    };
    let subject_id = &plan.nodes[subject].id;
    let Some(standing) = of(reviewer) else {
        return Err(Not::Never(format!("`{id}`, which reviews `{subject_id}`, is not part of this run")));
    };
    match standing.state {
        NodeState::Passed => {}
        NodeState::Waiting | NodeState::Running => {
            return Err(Not::Yet(format!("`{id}` has not reviewed `{subject_id}` yet")));
        }
        NodeState::Held => return Err(Not::Held(format!("`{id}`, which reviews `{subject_id}`, is held"))),
        other => {
            let word = other.word();
            return Err(Not::Never(format!("`{id}`, which reviews `{subject_id}`, is {word}")));
        }
    }
    let stands = of(subject).and_then(Standing::result);
    match &standing.vote {
        Some(vote) if !vote.approves => Err(Not::Held(format!("`{id}` asks for changes in `{subject_id}`"))),
        Some(vote) if Some(&vote.commit) == stands => Ok(()),
        Some(_) => {
            Err(Not::Held(format!("`{id}` approved another commit of `{subject_id}` than stands now")))
        }
        None => Err(Not::Held(format!("`{id}` has no verdict on `{subject_id}`"))),
    }
}

/// The nodes whose results went into what `node` started from, itself without; ascending.
pub fn lineage(plan: &Plan, node: NodeIx) -> Vec<NodeIx> {
    let mut found = BTreeSet::new();
    let mut open = vec![node];
    while let Some(at) = open.pop() {
        open.extend(sources(plan, at).into_iter().filter(|source| found.insert(*source)));
    }
    found.into_iter().collect()
}

/// The nodes whose results are directly in the input of `node`. What a reviewer passes on is what it reviewed.
pub fn sources(plan: &Plan, node: NodeIx) -> Vec<NodeIx> {
    match plan.input_sources(node) {
        InputFrom::Base => Vec::new(),
        InputFrom::Reviewed(subject) => vec![subject],
        InputFrom::Node(from) => vec![from],
        InputFrom::Needs(mut needs) => {
            needs.sort_unstable();
            needs
        }
    }
}

/// The commits that must be in the history of what `node` brought: the results of all that it builds on.
pub fn must_contain<'s>(
    plan: &Plan,
    node: NodeIx,
    of: &dyn Fn(NodeIx) -> Option<&'s Standing>,
) -> Vec<CommitId> {
    let mut commits: Vec<CommitId> = lineage(plan, node)
        .into_iter()
        .filter(|source| plan.nodes[*source].reviews.is_none())
        .filter_map(|source| of(source)?.result().cloned())
        .collect();
    commits.sort();
    commits.dedup();
    commits
}

/// The published nodes that `node` stands on: those that are reached through unpublished ones alone; ascending.
pub fn stands_on(plan: &Plan, node: NodeIx, published: &dyn Fn(NodeIx) -> bool) -> Vec<NodeIx> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut open = sources(plan, node);
    while let Some(at) = open.pop() {
        if !seen.insert(at) {
            continue;
        }
        if published(at) {
            found.insert(at);
        } else {
            open.extend(sources(plan, at));
        }
    }
    found.into_iter().collect()
}
