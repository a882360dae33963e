//! What is written down of a run: one struct per row of the state, in the words of the design. Values only.
//!
//! Times are unix milliseconds (UTC). An absent number is unknown, never zero.

use serde::{Deserialize, Serialize};

use crate::{
    name::{AttemptKey, CommitId, EpicName, NodeId, RunId},
    plan::spec::Commits,
    stream::{CostSource, Tokens},
};

/// Unix milliseconds, UTC.
pub type Millis = i64;

/// A run, when it starts.
#[derive(Debug, Clone)]
pub struct RunStart {
    /// Its id.
    pub run: RunId,
    /// The epic's name.
    pub epic: EpicName,
    /// The plan's path as given, for people.
    pub plan_path: String,
    /// The frozen plan text.
    pub plan_text: String,
    /// Frozen settings, as JSON.
    pub settings_json: String,
    /// SHA-256 (hex) over plan, prompts, settings and image ids.
    pub digest: String,
    /// The pinned base.
    pub base: CommitId,
    /// `allowlist`, `open` or `none`.
    pub network: String,
    /// The owner label of the process that runs it.
    pub owner: String,
    /// When.
    pub started: Millis,
    /// Every node of the run in plan order.
    pub nodes: Vec<NodeStart>,
    /// The prompt files that its plan names.
    pub prompts: Vec<FrozenPrompt>,
}

/// A prompt file, when its run starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrozenPrompt {
    /// The path as the plan names it.
    pub asked: String,
    /// The file, relative to the repository.
    pub path: String,
    /// What it said.
    pub text: String,
}

/// A node, when its run starts.
#[derive(Debug, Clone)]
pub struct NodeStart {
    /// Its id.
    pub node: NodeId,
    /// The runner.
    pub runner: String,
    /// The model asked for.
    pub model: Option<String>,
    /// The image as the settings name it.
    pub image: String,
    /// The image's id.
    pub image_id: String,
    /// The subject, if it is a reviewer.
    pub reviews: Option<NodeId>,
    /// Whether commits are expected.
    pub commits: Commits,
    /// Ids of its needs.
    pub needs: Vec<NodeId>,
}

/// Where a node stands. `Held` is not terminal: a person decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    /// Waits for needs, gates or a free slot.
    Waiting,
    /// An attempt is under way.
    Running,
    /// Passed.
    Passed,
    /// Failed.
    Failed,
    /// Stopped for a person.
    Held,
    /// Never started, because something it needs did not pass.
    Skipped,
    /// Asked to stop.
    Cancelled,
}

impl NodeState {
    /// The word for people and for the state file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Skipped => "skipped",
            Self::Cancelled => "cancelled",
        }
    }

    /// Nothing more happens to it by itself, and no person is asked.
    pub fn terminal(self) -> bool {
        matches!(self, Self::Passed | Self::Failed | Self::Skipped | Self::Cancelled)
    }
}

/// An attempt, when its preparation starts.
#[derive(Debug, Clone)]
pub struct AttemptStart {
    /// Run, node and attempt.
    pub key: AttemptKey,
    /// The round, from 1.
    pub round: u32,
    /// Tries spent so far, from 1.
    pub tries: u32,
    /// The runner that really runs.
    pub runner: String,
    /// The model asked for.
    pub model: Option<String>,
    /// The image's id.
    pub image_id: String,
    /// The container's name.
    pub container: String,
    /// SHA-256 (hex) of the prompt without its brief, which is written once the input is known.
    pub prompt_digest: String,
    /// When.
    pub started: Millis,
}

/// An attempt, when it is over.
#[derive(Debug, Clone)]
pub struct AttemptEnd {
    /// Run, node and attempt.
    pub key: AttemptKey,
    /// When.
    pub ended: Millis,
    /// What it started from.
    pub input: Option<CommitId>,
    /// What it brought, if it committed.
    pub head: Option<CommitId>,
    /// How many commits.
    pub commits: u32,
    /// Outcome, as one word of [`crate::outcome`].
    pub outcome: String,
    /// Why, for people.
    pub reason: Option<String>,
    /// Exit status of the container.
    pub exit: Option<i32>,
    /// The agent's session.
    pub session: Option<String>,
    /// The model that the agent reported.
    pub model_reported: Option<String>,
    /// Tokens.
    pub tokens: Option<Tokens>,
    /// US dollars.
    pub cost_usd: Option<f64>,
    /// Who says so; unknown beside a number makes it "at least".
    pub cost_source: CostSource,
    /// Last text, at most 4 KiB.
    pub summary: Option<String>,
}

/// A file that an attempt left for people: evidence, never an input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Artifact {
    /// Its path, relative to the checkout and to the attempt's folder of artifacts. Of the agent's choosing, but checked.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// SHA-256 (hex) of its bytes.
    pub sha256: String,
}

/// What is kept of an attempt beside its result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// The commit of an attempt that did not pass, under its own ref; never an input.
    pub work: Option<CommitId>,
    /// Its artifacts, in the order of their paths.
    pub artifacts: Vec<Artifact>,
}

impl Kept {
    /// There is nothing.
    pub fn is_empty(&self) -> bool {
        self.work.is_none() && self.artifacts.is_empty()
    }
}

/// A reviewer's word, read and digested.
#[derive(Debug, Clone)]
pub struct VerdictRow {
    /// The reviewer's attempt.
    pub key: AttemptKey,
    /// Its subject.
    pub subject: NodeId,
    /// The commit that was reviewed.
    pub commit: CommitId,
    /// `approve`, `request_changes` or `held`.
    pub verdict: String,
    /// Why it is held, or the reviewer's summary.
    pub summary: String,
    /// The findings, as JSON.
    pub findings_json: String,
    /// SHA-256 (hex) of the bytes of kew's own copy of the sidecar.
    pub digest: Option<String>,
    /// When.
    pub time: Millis,
}

/// A step of a publication: one is written before anything is pushed, one when it is over. The last one of a node counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// The attempt whose work is published.
    pub key: AttemptKey,
    /// The commit.
    pub commit: CommitId,
    /// The branch, without `refs/heads/`.
    pub branch: String,
    /// The remote's address, without user and password.
    pub remote: String,
    /// How far it came.
    pub state: PublicationState,
    /// The page of its pull request.
    pub url: Option<String>,
    /// Why it came no further (may quote the remote).
    pub reason: Option<String>,
    /// When.
    pub time: Millis,
}

/// How far a publication came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PublicationState {
    /// About to be pushed; if this is the last word, kew died meanwhile.
    Pushing,
    /// The branch is at the commit, and the pull request is open if one was wanted.
    Published,
    /// There is no commit that the base has not.
    Nothing,
    /// The remote said no: a person decides.
    Refused,
    /// The remote was not reached, or did not let us in.
    Unreachable,
    /// kew was asked to stop before.
    Stopped,
}

impl PublicationState {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Pushing, Self::Published, Self::Nothing, Self::Refused, Self::Unreachable, Self::Stopped];

    /// The word for people and for the state.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pushing => "pushing",
            Self::Published => "published",
            Self::Nothing => "nothing",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Stopped => "stopped",
        }
    }
}

/// A run, when it is over.
#[derive(Debug, Clone)]
pub struct RunEnd {
    /// Its id.
    pub run: RunId,
    /// `passed`, `failed`, `held`, `interrupted`, `infrastructure`.
    pub status: String,
    /// The exit code that kew ended with.
    pub exit_code: i32,
    /// When.
    pub ended: Millis,
}
