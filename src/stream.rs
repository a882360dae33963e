//! What an agent says while it runs: the normalised events that every runner's `parse_line()` gives, and their sum.
//!
//! The vocabulary is one for all runners. `Account` adds events up; it has no clock and no I/O. A number that no event
//! carried is absent, never zero.

use std::collections::BTreeMap;

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

/// Where a cost comes from, the surest first: a sum is as sure as its least sure part.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum CostSource {
    /// It costs nothing by definition.
    Free,
    /// The provider said so.
    Provider,
    /// The agent's own list of prices, times what was used.
    ListPrice,
    /// The same list, but a subscription pays: a measure of what was used, not money spent.
    #[serde(rename = "list-price-not-billed")]
    NotBilled,
    /// A guess of the agent's, or of an image's.
    Estimate,
    /// Not known; beside a number, a part of it is not, so the number is "at least".
    #[default]
    Unknown,
}

impl CostSource {
    /// Every source, the surest first.
    pub const ALL: [Self; 6] =
        [Self::Free, Self::Provider, Self::ListPrice, Self::NotBilled, Self::Estimate, Self::Unknown];

    /// The word of the state file and of events.
    pub fn word(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Provider => "provider",
            Self::ListPrice => "list-price",
            Self::NotBilled => "list-price-not-billed",
            Self::Estimate => "estimate",
            Self::Unknown => "unknown",
        }
    }

    /// Where a number of dollars belongs: money spent, or what a subscription would have cost by list. One that nobody is billed
    /// for is money, too: none.
    pub fn split(self, usd: Option<f64>) -> (Option<f64>, Option<f64>) {
        match self {
            Self::NotBilled => (usd.map(|_| 0.0), usd),
            _ => (usd, None),
        }
    }

    /// The source of that word; another word is not known here.
    pub fn of_word(word: &str) -> Self {
        Self::ALL.into_iter().find(|source| source.word() == word).unwrap_or_default()
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
        /// Who says so.
        source: CostSource,
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
    /// The end marker, or how it would end here. The last one wins, unless one [stays](RunResult::stays).
    Result(RunResult),
    /// The agent says that it is at rest: what makes a [provisional](RunResult::provisional) result an end marker.
    Settled {
        /// It was interrupted.
        aborted: bool,
    },
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
    /// Good only once the agent [settles](StreamEvent::Settled): its line says how a step ended, not that it was the last.
    pub provisional: bool,
    /// No later result of the same stream makes this good again.
    pub stays: bool,
}

/// Authoritative totals of a run, from its end marker.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RunTotals {
    /// Tokens of the whole run, side requests included.
    pub tokens: Tokens,
    /// US dollars; `None` = the agent does not know (an unpriced model is not free).
    pub cost_usd: Option<f64>,
    /// Who says so.
    pub source: CostSource,
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
    steps: BTreeMap<String, Step>,
    loose: Option<Tokens>,
    loose_steps: u32,
    loose_cost: Option<(f64, CostSource)>,
    empty_steps: u32,
}

/// What one step came to, as told last.
#[derive(Debug, Clone, Default)]
struct Step {
    tokens: Option<Tokens>,
    cost: Option<(f64, CostSource)>,
}

impl Account {
    /// Takes one event into the sum.
    pub fn apply(&mut self, event: &StreamEvent) {
        match event {
            StreamEvent::Session { id } => self.session = Some(id.clone()),
            StreamEvent::Model { name } => self.model = Some(name.clone()),
            StreamEvent::Usage { step, tokens } => self.used(step.as_deref(), *tokens),
            StreamEvent::StepCost { step: Some(step), usd, source } => {
                self.steps.entry(step.clone()).or_default().cost = Some((*usd, *source))
            }
            StreamEvent::StepCost { step: None, usd, source } => {
                let (sum, least) = self.loose_cost.unwrap_or((0.0, CostSource::Free));
                self.loose_cost = Some((sum + *usd, least.max(*source)));
            }
            StreamEvent::PermissionDenied { .. } => self.denials = self.denials.saturating_add(1),
            // The end marker repeats it without the reset: a known reset stays known.
            StreamEvent::RateLimited { resets_at } => {
                self.rate_limited = Some(resets_at.or(self.rate_limited.flatten()))
            }
            StreamEvent::Retry { status, message } => self.last_retry = Some((*status, message.clone())),
            StreamEvent::Result(result) => {
                if !self.result.as_ref().is_some_and(|result| result.stays) {
                    self.result = Some(result.clone());
                }
            }
            StreamEvent::Settled { aborted } => self.settle(*aborted),
            StreamEvent::Tool { .. } | StreamEvent::Text { .. } => {}
        }
    }

    fn used(&mut self, step: Option<&str>, tokens: Tokens) {
        let again = step.is_some_and(|step| self.steps.get(step).is_some_and(|step| step.tokens.is_some()));
        if tokens.total() > 0 {
            self.empty_steps = 0;
        } else if !again {
            self.empty_steps = self.empty_steps.saturating_add(1);
        }
        match step {
            Some(step) => self.steps.entry(step.to_owned()).or_default().tokens = Some(tokens),
            None => {
                self.loose_steps = self.loose_steps.saturating_add(1);
                *self.loose.get_or_insert_default() += tokens;
            }
        }
    }

    fn settle(&mut self, aborted: bool) {
        let Some(result) = self.result.as_mut() else { return };
        result.provisional = false;
        if aborted && result.ok {
            result.ok = false;
            result.error = Some("aborted".to_owned());
        }
    }

    /// Nothing that decides or counts was told: no session, model, result or number.
    pub fn untold(&self) -> bool {
        self.session.is_none()
            && self.model.is_none()
            && self.result.is_none()
            && self.tokens().is_none()
            && self.cost_usd().is_none()
    }

    /// Steps so far: answers of the model that told what they used.
    pub fn steps(&self) -> u32 {
        let told = self.steps.values().filter(|step| step.tokens.is_some()).count();
        self.loose_steps.saturating_add(u32::try_from(told).unwrap_or(u32::MAX))
    }

    /// How many of the last steps, in a row, used no token at all.
    pub fn empty_steps(&self) -> u32 {
        self.empty_steps
    }

    /// Tokens so far: the end marker's totals if it gave some, else the sum of the steps; `None` if nothing was told.
    pub fn tokens(&self) -> Option<Tokens> {
        if let Some(totals) = self.totals() {
            return Some(totals.tokens);
        }
        let mut sum = self.loose;
        for tokens in self.steps.values().filter_map(|step| step.tokens) {
            *sum.get_or_insert_default() += tokens;
        }
        sum
    }

    /// US dollars so far, by the same rule as [`Account::tokens`].
    pub fn cost_usd(&self) -> Option<f64> {
        if let Some(totals) = self.totals() {
            return totals.cost_usd;
        }
        let mut sum = self.loose_cost.map(|(usd, _)| usd);
        for (usd, _) in self.steps.values().filter_map(|step| step.cost) {
            *sum.get_or_insert(0.0) += usd;
        }
        sum
    }

    /// Who says what it cost; unknown beside a number if a step that used tokens has no cost.
    pub fn cost_source(&self) -> CostSource {
        if let Some(totals) = self.totals() {
            return if totals.cost_usd.is_some() { totals.source } else { CostSource::Unknown };
        }
        let steps = self.steps.values().filter_map(|step| match (step.cost, step.tokens) {
            (Some((_, source)), _) => Some(source),
            (None, Some(tokens)) if tokens.total() > 0 => Some(CostSource::Unknown),
            (None, _) => None,
        });
        steps.chain(self.loose_cost.map(|(_, source)| source)).max().unwrap_or_default()
    }

    /// The end marker's totals, if it gave some.
    pub fn totals(&self) -> Option<&RunTotals> {
        self.result.as_ref().and_then(|result| result.totals.as_ref())
    }
}
