//! What an agent says while it runs: the normalised events that every runner's `parse_line()` gives, and their sum.
//!
//! The vocabulary is one for all runners. `Account` adds events up; it has no clock and no I/O. A number that no event
//! carried is absent, never zero.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

/// Tokens in one meaning for all runners: `input` excludes cache, `output` includes reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Tokens {
    /// Prompt tokens that came from no cache.
    pub input: u64,
    /// Generated tokens, reasoning included.
    pub output: u64,
    /// Prompt tokens read from the provider's cache.
    pub cache_read: u64,
    /// Prompt tokens written to the provider's cache.
    pub cache_write: u64,
}

impl std::ops::AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}

impl Tokens {
    /// All four kinds together.
    pub fn total(&self) -> u64 {
        self.input
            .saturating_add(self.output)
            .saturating_add(self.cache_read)
            .saturating_add(self.cache_write)
    }
}

/// One meaning found in one line of stdout. A line may hold several.
#[derive(Debug, Clone, PartialEq)]
pub enum StreamEvent {
    /// The agent's own session id.
    Session {
        /// The id.
        id: String,
    },
    /// The model that the agent says it uses (never a placeholder such as `<synthetic>`).
    Model {
        /// Its name.
        name: String,
    },
    /// Tokens of one step. Events with the same `step` replace one another (the agent repeats itself); `None` always adds.
    Usage {
        /// The step's id.
        step: Option<String>,
        /// Its tokens.
        tokens: Tokens,
    },
    /// Native cost of one step, in US dollars; `step` as in `Usage`.
    StepCost {
        /// The step's id.
        step: Option<String>,
        /// US dollars.
        usd: f64,
    },
    /// A tool call began (or, where the agent tells only ends, ended): its name and a short detail such as the command.
    Tool {
        /// The tool.
        name: String,
        /// What it is called with, in short.
        detail: String,
    },
    /// Text that the agent wrote; for shell one line of output.
    Text {
        /// The text.
        text: String,
    },
    /// The agent's client retries a request by itself. `status` is the HTTP status, if it said one.
    Retry {
        /// HTTP status of the request that failed.
        status: Option<u16>,
        /// What the agent says of it.
        message: String,
    },
    /// The provider says that a rate limit or quota is used up; `resets_at` in unix seconds.
    RateLimited {
        /// Unix seconds.
        resets_at: Option<i64>,
    },
    /// A tool call was refused by the agent's permission mode.
    PermissionDenied {
        /// The tool.
        tool: String,
    },
    /// The end marker. The last one wins.
    Result(RunResult),
}

/// The agent's end marker: its own word on how it went.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RunResult {
    /// The marker says success. `shell`: exit status 0.
    pub ok: bool,
    /// Why not, in the agent's words (a few words such as `error_max_turns`, `authentication_failed: Invalid API key`).
    pub error: Option<String>,
    /// HTTP status of the API failure behind it.
    pub api_status: Option<u16>,
    /// The final text.
    pub text: Option<String>,
    /// How many permission denials it lists.
    pub denials: u32,
    /// The exit status of a `shell` job, as its image saw it.
    pub exit_code: Option<i32>,
    /// Totals that overwrite everything accumulated.
    pub totals: Option<RunTotals>,
}

/// Authoritative totals of a run, from its end marker.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunTotals {
    /// Tokens of the whole run, side requests included.
    pub tokens: Tokens,
    /// US dollars; `None` = the agent does not know (an unpriced model is not free).
    pub cost_usd: Option<f64>,
}

/// The running sum over one attempt's events.
#[derive(Debug, Clone, Default)]
pub struct Account {
    /// Session id, once told.
    pub session: Option<String>,
    /// Model, once told; the last one told.
    pub model: Option<String>,
    /// The last end marker.
    pub result: Option<RunResult>,
    /// Permission denials told one by one.
    pub denials: u32,
    /// The provider said that the quota is used up; with the reset, if told.
    pub rate_limited: Option<Option<i64>>,
    /// Status of the last self-made retry.
    pub last_retry: Option<(Option<u16>, String)>,
    steps: HashMap<String, (Tokens, Option<f64>)>,
    loose: Option<Tokens>,
    loose_cost: Option<f64>,
}

impl Account {
    /// Takes one event into the sum.
    pub fn apply(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Session { id } => self.session = Some(id.clone()),
            StreamEvent::Model { name } => self.model = Some(name.clone()),
            StreamEvent::Usage { step: Some(step), tokens } => {
                self.steps.entry(step.clone()).or_default().0 = *tokens
            }
            StreamEvent::Usage { step: None, tokens } => *self.loose.get_or_insert_default() += *tokens,
            StreamEvent::StepCost { step: Some(step), usd } => {
                self.steps.entry(step.clone()).or_default().1 = Some(*usd)
            }
            StreamEvent::StepCost { step: None, usd } => *self.loose_cost.get_or_insert(0.0) += *usd,
            StreamEvent::PermissionDenied { .. } => self.denials = self.denials.saturating_add(1),
            // The end marker repeats it without the reset: a known reset stays known.
            StreamEvent::RateLimited { resets_at } => {
                self.rate_limited = Some(resets_at.or(self.rate_limited.flatten()))
            }
            StreamEvent::Retry { status, message } => self.last_retry = Some((*status, message.clone())),
            StreamEvent::Result(result) => self.result = Some(result.clone()),
            StreamEvent::Tool { .. } | StreamEvent::Text { .. } => {}
        }
    }

    /// Tokens so far: the end marker's totals if it gave some, else the sum of the steps; `None` if nothing was told.
    pub fn tokens(&self) -> Option<Tokens> {
        if let Some(totals) = self.result.as_ref().and_then(|result| result.totals) {
            return Some(totals.tokens);
        }
        let mut sum = self.loose;
        for (tokens, _) in self.steps.values() {
            *sum.get_or_insert_default() += *tokens;
        }
        sum
    }

    /// US dollars so far, by the same rule as [`Account::tokens`].
    pub fn cost_usd(&self) -> Option<f64> {
        if let Some(totals) = self.result.as_ref().and_then(|result| result.totals) {
            return totals.cost_usd;
        }
        let mut sum = self.loose_cost;
        for usd in self.steps.values().filter_map(|(_, usd)| *usd) {
            *sum.get_or_insert(0.0) += usd;
        }
        sum
    }
}
