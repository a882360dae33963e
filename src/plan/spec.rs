//! The checked plan: every reference resolved to an index, every value in its own type. Pure; no I/O.
//!
//! A `Plan` exists only if the check found no problem. `needs`, `reviews` and `from` are indices into `Plan::nodes`,
//! which is in file order ("plan order" everywhere else).

use std::time::Duration;

use camino::Utf8PathBuf;

use super::pattern::Pattern;
use crate::{
    egress::Host,
    name::{EpicName, NodeId},
};

/// Index of a node in [`Plan::nodes`].
pub type NodeIx = usize;

/// A whole epic, checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// `[epic]`.
    pub epic: Epic,
    /// Nodes in file order.
    pub nodes: Vec<Node>,
}

/// `[epic]`.
#[derive(Debug, Clone)]
pub struct Epic {
    /// Name; part of branch names.
    pub name: EpicName,
    /// Branch, tag or commit to start from; `None` = the repository's HEAD.
    pub base: Option<String>,
    /// How many nodes run at once; `None` = the settings' default.
    pub max_parallel: Option<usize>,
    /// Wall time of the whole run.
    pub timeout: Option<Duration>,
    /// What all nodes together may spend.
    pub caps: Caps,
}

/// What may be spent at most; `None` = any amount.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Caps {
    /// US dollars.
    pub usd: Option<f64>,
    /// Tokens, cached ones included.
    pub tokens: Option<u64>,
}

/// One node, checked, with `[defaults]` applied.
#[derive(Debug, Clone)]
pub struct Node {
    /// Its id.
    pub id: NodeId,
    /// The runner's name; known to exist.
    pub runner: String,
    /// The model; absent only where the runner takes none.
    pub model: Option<String>,
    /// A named second image map.
    pub toolchain: Option<String>,
    /// The prompt's text, without any brief.
    pub prompt: String,
    /// Where the prompt came from, if from a file: path relative to the repository.
    pub prompt_file: Option<Utf8PathBuf>,
    /// Nodes that must pass first, in the order written.
    pub needs: Vec<NodeIx>,
    /// What the input is made of.
    pub from: From,
    /// The subject, if this node is a reviewer.
    pub reviews: Option<NodeIx>,
    /// How a reviewer's verdict is read. Meaningless on others.
    pub verdict: VerdictBy,
    /// Whether commits are expected.
    pub commits: Commits,
    /// Wall time that the container may take.
    pub timeout: Option<Duration>,
    /// What all of its attempts together may spend.
    pub caps: Caps,
    /// How often it is tried again, in one round, after an end that another try may cure.
    pub retries: u32,
    /// How many more rounds it has when its reviewers ask for changes. Zero on nodes without reviewers.
    pub rework: u32,
    /// The node narrows its network to nothing.
    pub network_none: bool,
    /// The node narrows its network to these hosts and those that its runner cannot do without.
    pub allow: Option<Vec<Host>>,
    /// Whether the coder's brief is added.
    pub brief: bool,
    /// What is kept of the checkout beside the log.
    pub artifacts: Vec<Pattern>,
    /// It passes although one of them matched nothing.
    pub artifacts_optional: bool,
    /// What is published after it passed.
    pub publish: Publish,
}

/// `from`: what a node's input is made of.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum From {
    /// The merge of the needs' results (of the base, without needs).
    #[default]
    Needs,
    /// The epic's base.
    Base,
    /// The result of one upstream node.
    Node(NodeIx),
}

/// `verdict`: where a reviewer's verdict comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VerdictBy {
    /// The sidecar file that the reviewer writes.
    #[default]
    File,
    /// The exit status of a plain job.
    Exit,
}

/// `commits`: what a node must, may or must not bring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Commits {
    /// No commit is a failure (agents).
    Required,
    /// Both are fine (`shell`).
    Optional,
    /// Commits are dropped (reviewers).
    Forbidden,
}

/// `publish`: what happens to a passed node's branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Publish {
    /// Nothing leaves the repository.
    #[default]
    None,
    /// Its branch is pushed.
    Branch,
    /// Its branch is pushed and a pull request is opened.
    PullRequest,
}

impl Publish {
    /// The word in a plan.
    pub fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Branch => "branch",
            Self::PullRequest => "pull-request",
        }
    }
}

impl Plan {
    /// The reviewers of `subject`, in plan order.
    pub fn reviewers_of(&self, subject: NodeIx) -> impl Iterator<Item = NodeIx> + '_ {
        self.nodes.iter().enumerate().filter(move |(_, node)| node.reviews == Some(subject)).map(|(ix, _)| ix)
    }
}
