//! What kew tells while a run goes on: one versioned vocabulary that the terminal, the JSON stream and the state share.
//!
//! Values only: sequence number and time are stamped on by whoever sends. Text that came from an agent is marked as such
//! by its field's doc and is made inert by each reporter, not here.

use serde::{Deserialize, Serialize};

use crate::{
    egress::Refused,
    name::{NodeId, RunId},
    record::{NodeState, PublicationState},
    stream::{CostSource, Tokens},
};

/// Version of the event vocabulary (`v` of every JSON line).
pub const EVENT_VERSION: u32 = 1;

/// An event with its envelope: one JSON object per line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Stamped {
    /// Version of the vocabulary.
    pub v: u32,
    /// 1 for the first event of the run; +1 each.
    pub seq: u64,
    /// Unix milliseconds, UTC.
    pub time: i64,
    /// The run.
    pub run: RunId,
    /// What happened.
    #[serde(flatten)]
    pub event: RunEvent,
}

/// One thing that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum RunEvent {
    /// The run begins.
    RunStarted {
        /// The epic.
        epic: String,
        /// The pinned base commit.
        base: String,
        /// The nodes that are part of this run, in plan order.
        nodes: Vec<NodeId>,
        /// How many run at once.
        max_parallel: usize,
        /// `allowlist`, `open` or `none`.
        network: String,
    },
    /// A run that had ended, or whose kew died, goes on.
    RunResumed {
        /// The epic.
        epic: String,
        /// The pinned base commit.
        base: String,
        /// The nodes that are part of this run, in plan order.
        nodes: Vec<NodeId>,
        /// How many run at once.
        max_parallel: usize,
        /// `allowlist`, `open` or `none`.
        network: String,
        /// The nodes that have passed and are kept.
        kept: Vec<NodeId>,
    },
    /// Something that a person should know, but that changes nothing.
    Warning {
        /// What.
        message: String,
    },
    /// A node's attempt begins.
    NodeStarted {
        /// The node.
        node: NodeId,
        /// The attempt.
        attempt: u32,
        /// Its runner.
        runner: String,
        /// Its model.
        model: Option<String>,
        /// The image as the settings name it.
        image: String,
    },
    /// Where a running attempt stands; sent now and then, never stored.
    NodeProgress {
        /// The node.
        node: NodeId,
        /// The attempt.
        attempt: u32,
        /// `checkout`, `running`, `collecting`.
        phase: String,
        /// Tokens so far.
        tokens: Option<Tokens>,
        /// US dollars so far.
        cost_usd: Option<f64>,
        /// What it is doing now (agent text).
        activity: Option<String>,
    },
    /// A node's attempt is over.
    NodeEnded {
        /// The node.
        node: NodeId,
        /// The attempt.
        attempt: u32,
        /// Where the node stands now.
        state: NodeState,
        /// The outcome's word.
        outcome: String,
        /// Why (may quote agent text).
        reason: Option<String>,
        /// Milliseconds from start to end.
        duration_ms: i64,
        /// Tokens.
        tokens: Option<Tokens>,
        /// US dollars.
        cost_usd: Option<f64>,
        /// Who says so; `unknown` beside a number makes it "at least", `list-price-not-billed` no money spent.
        #[serde(default)]
        cost_source: CostSource,
        /// The commit that it brought.
        head: Option<String>,
        /// How many commits it brought.
        commits: u32,
        /// The ref that keeps them.
        git_ref: Option<String>,
        /// The ref that keeps what an attempt left that did not pass; nothing starts from it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<String>,
        /// How many artifacts are stored.
        #[serde(default)]
        artifacts: usize,
        /// The folder with its logs.
        logs: Option<String>,
    },
    /// A node asked for hosts that its network did not let it have.
    NodeRefused {
        /// The node.
        node: NodeId,
        /// The attempt.
        attempt: u32,
        /// The hosts: the last request first, then by how often (names are the agent's choice).
        hosts: Vec<Refused>,
        /// The line that the settings would need to let them through, under `[sandbox]`; absent if nothing could.
        add: Option<String>,
    },
    /// A reviewer's verdict was read.
    Verdict {
        /// The reviewer.
        node: NodeId,
        /// Its subject.
        subject: NodeId,
        /// `approve`, `request_changes` or `held`.
        verdict: String,
        /// The reviewer's summary, or why it is held (agent text).
        summary: String,
    },
    /// An attempt was spoilt by the machine, the provider or a crash, and the node is tried again.
    NodeRetries {
        /// The node.
        node: NodeId,
        /// Tries so far in this round.
        tries: u32,
        /// How many it has.
        of: u32,
        /// Milliseconds until it may start.
        wait_ms: i64,
        /// Why (may quote agent text).
        reason: Option<String>,
    },
    /// The rate limit of a credential is used up: nothing starts with it until then, and the refused node waits for it.
    Paused {
        /// The name of the credential's variable, or the runner's where it has none.
        credential: String,
        /// Unix milliseconds.
        until: i64,
        /// The provider said until when; else kew guesses.
        given: bool,
        /// Why (may quote agent text).
        reason: Option<String>,
    },
    /// Reviewers asked for changes, and the node goes on from the rejected commit; they will all look again.
    RoundStarted {
        /// The subject.
        node: NodeId,
        /// The round, from 2.
        round: u32,
        /// How many it has.
        of: u32,
        /// Who asked, in plan order.
        reviewers: Vec<NodeId>,
        /// How many findings there are.
        findings: usize,
        /// Nodes that wait again, the subject among them: what they did before is void.
        again: Vec<NodeId>,
    },
    /// A node is stopped for a person without an attempt of its own ending now: its reviewers asked for changes, or its inputs conflict.
    NodeHeld {
        /// The node.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// A node will not run.
    NodeSkipped {
        /// The node.
        node: NodeId,
        /// Why.
        reason: String,
    },
    /// The run is over and a node still waits, for something that a person must decide.
    NodeWaiting {
        /// The node.
        node: NodeId,
        /// What for.
        reason: String,
    },
    /// A node's branch is on the remote, and its pull request is open if one was wanted.
    Published {
        /// The node.
        node: NodeId,
        /// The branch.
        branch: String,
        /// The remote's address, without user and password.
        remote: String,
        /// The commit.
        commit: String,
        /// The page of its pull request.
        url: Option<String>,
        /// Nothing had to be done: it was all there.
        already: bool,
    },
    /// A node has no commit that the base has not, so there is nothing to publish.
    NothingToPublish {
        /// The node.
        node: NodeId,
        /// The branch that it would have had.
        branch: String,
    },
    /// A node that may be published could not be. It stays passed; `kew publish` tries again.
    PublishFailed {
        /// The node.
        node: NodeId,
        /// The branch.
        branch: String,
        /// The remote's address, without user and password.
        remote: String,
        /// `refused` (a person decides), `unreachable` or `stopped`.
        state: PublicationState,
        /// Why (may quote the remote).
        reason: String,
        /// What to do.
        help: String,
    },
    /// Nothing happened for a while; the run is alive.
    Heartbeat {
        /// Running nodes.
        running: Vec<NodeId>,
    },
    /// The run is over.
    RunEnded {
        /// `passed`, `failed`, `held`, `capped`, `interrupted`, `infrastructure`.
        status: String,
        /// kew's exit code.
        exit_code: i32,
        /// Milliseconds from start to end.
        duration_ms: i64,
        /// Sum of known tokens; `None` if none is known.
        tokens: Option<Tokens>,
        /// Sum of known costs, money that somebody is billed for; `None` if none is known.
        cost_usd: Option<f64>,
        /// What subscriptions used, at list price: not billed, and not part of `cost_usd`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_billed_usd: Option<f64>,
        /// At least one node's cost is unknown, so the sum is "at least".
        cost_at_least: bool,
    },
}
