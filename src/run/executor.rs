//! The port to whatever runs containers: one attempt goes through prepare, run, collect, sidecar, release.
//!
//! A `NodeSpec` is serialisable, names no host path and no credential value. Data moves as commits and bytes. Gates,
//! holds, deadlines and outcomes stay on this side of the port.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    docker::argv::{Limits, Network},
    egress::{Dealings, Host},
    lines::Line,
    name::{AttemptKey, CommitId, EnvName, EpicName, NodeId},
    outcome::{EngineEnd, Work},
    plan::{pattern::Pattern, spec::Commits},
    record::Artifact,
    run::ledger::AttemptShelf,
    verdict::{FoundAt, SidecarFault},
};

/// What one attempt is, for any engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Run, node and attempt.
    pub key: AttemptKey,
    /// The container's name; the same attempt always has the same.
    pub container: String,
    /// The image's id.
    pub image_id: String,
    /// What follows the image.
    pub container_args: Vec<String>,
    /// Names of the credentials.
    pub credentials: Vec<EnvName>,
    /// Where it may connect to.
    pub network: Network,
    /// On the allowlist network: the hosts that it may reach.
    pub allow: Vec<Host>,
    /// Its bounds.
    pub limits: Limits,
    /// The epic: its name is part of the branch's.
    pub epic: EpicName,
    /// Whether commits are expected.
    pub commits: Commits,
    /// What is kept of the checkout beside the log.
    #[serde(default)]
    pub artifacts: Vec<Pattern>,
    /// The runner is a plain job: where nothing was committed, that can be seen without asking a container.
    pub job: bool,
}

impl NodeSpec {
    /// The branch that is checked out, without `refs/heads/`.
    pub fn branch(&self) -> String {
        format!("kew/{}/{}", self.epic, self.key.node)
    }
}

/// What an attempt starts from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This commit.
    One(CommitId),
    /// The merge of these nodes' results, in plan order.
    Merge(Vec<(NodeId, CommitId)>),
}

/// How strictly an engine keeps a field of the hardening.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hardening {
    /// As asked.
    Enforced,
    /// Weaker than asked.
    Degraded,
    /// Not at all.
    Absent,
}

/// The fields of the hardening.
pub const HARDENING: [&str; 8] = [
    "read-only root",
    "capabilities",
    "no-new-privileges",
    "pids",
    "memory",
    "cpus",
    "network",
    "single mount",
];

/// What an engine says of its hardening, field by field.
#[derive(Debug, Clone)]
pub struct Caps {
    /// Field and how it is kept.
    pub fields: Vec<(&'static str, Hardening)>,
}

impl Caps {
    /// Fields that are not enforced; a run is refused if there are any.
    pub fn gaps(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.fields.iter().filter(|(_, hardening)| *hardening != Hardening::Enforced).map(|(field, _)| *field)
    }
}

/// Takes the lines of a running container, each on its stream's own thread.
pub trait Sink: Send + Sync {
    /// A line of stdout.
    fn stdout(&self, line: Line<'_>);
    /// A line of stderr.
    fn stderr(&self, line: Line<'_>);
    /// The container is about to start; its deadline counts from here.
    fn started(&self);
    /// The container must be stopped for what it does to the disk.
    fn outgrew(&self, what: Outgrown) {
        drop(what);
    }
}

/// What a container does to the disk; each has the words for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outgrown {
    /// Its own checkout takes more than it may.
    Checkout(String),
    /// The disk of all checkouts is nearly full, whoever filled it.
    Disk(String),
}

/// What came home.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// What HEAD names, if it is not the input.
    pub head: Option<CommitId>,
    /// Commits and uncommitted paths.
    pub work: Work,
    /// The ref in the user's repository that keeps the head.
    pub git_ref: Option<String>,
}

/// What an attempt left that did not pass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftBehind {
    /// The commit with all of it, if there is more than came home as its result; never an input.
    pub head: Option<CommitId>,
    /// The ref in the user's repository that keeps it.
    pub git_ref: Option<String>,
    /// What is worth a warning. May quote the agent.
    pub notes: Vec<String>,
}

/// Files for people.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Artifacts {
    /// Those that are stored now.
    pub files: Vec<Artifact>,
    /// The patterns that matched none of them.
    pub unmatched: Vec<Pattern>,
    /// What was left out, and why; names are inert.
    pub left_out: Vec<String>,
}

/// Why a step of an attempt did not do its work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// A person must look.
    #[error("{sentence}")]
    Held {
        /// One kebab word.
        word: &'static str,
        /// One sentence.
        sentence: String,
    },
    /// The agent's own doing.
    #[error("{0}")]
    Failed(String),
    /// Docker, git or disk.
    #[error("{0}")]
    Infrastructure(String),
    /// Stopped before it began.
    #[error("stopped before it began")]
    Stopped,
}

/// How an attempt is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopHow {
    /// With a grace: SIGINT first where the agent keeps its totals by it, then SIGTERM, then SIGKILL.
    Grace {
        /// Send SIGINT first.
        int_first: bool,
        /// Time between the first signal and SIGKILL.
        grace: Duration,
    },
    /// Remove it now.
    Now,
}

/// An engine.
pub trait Executor: Send + Sync {
    /// What it enforces.
    fn caps(&self) -> Caps;

    /// Makes the input and the checkout. Blocking.
    fn prepare(&self, spec: &NodeSpec, source: &Source) -> Result<Box<dyn Attempt>, Trouble>;

    /// Stops an attempt, wherever it is. Does not block; the attempt's own steps return when it is over.
    fn stop(&self, key: &AttemptKey, how: StopHow);
}

/// One attempt under way. Blocking; lives on one thread.
pub trait Attempt: Send {
    /// The commit that it starts from.
    fn input(&self) -> &CommitId;

    /// The checkout as the agent sees it, where that is a path of the host; `None` = the mount point of a container.
    fn host_path(&self) -> Option<&str> {
        None
    }

    /// Runs the container to its end; it is known to be gone when this returns.
    fn run(&mut self, prompt: &str, sink: std::sync::Arc<dyn Sink>) -> Result<EngineEnd, Trouble>;

    /// What it asked its network's gateway for, once it ran; asked for once.
    fn egress(&mut self) -> Dealings {
        Dealings::default()
    }

    /// Brings the commits home.
    fn collect(&mut self) -> Result<Collected, Trouble>;

    /// Stores what matches the node's patterns. The container is gone.
    fn artifacts(&mut self, into: &mut dyn AttemptShelf) -> Result<Artifacts, Trouble> {
        let _ = into;
        Ok(Artifacts::default())
    }

    /// Keeps what the attempt left, since it did not pass. The container is gone.
    fn keep(&mut self) -> Result<LeftBehind, Trouble> {
        Ok(LeftBehind::default())
    }

    /// Reads the reviewer's sidecar: its bytes and where they were.
    fn sidecar(&mut self) -> Result<(Vec<u8>, FoundAt), SidecarFault>;
}
