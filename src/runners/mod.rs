//! How to drive one agent: its arguments, credentials, event vocabulary and models. One runner, one file.
//!
//! A runner is a value without state. It never names an image, a path of the host or a prompt.

pub mod brief;
pub mod claude_code;
pub mod custom;
pub mod hermes;
pub mod host;
mod lenient;
pub mod opencode;
mod openrouter;
pub mod pi;
pub mod recording;
pub mod shell;

use std::time::Duration;

use self::{host::HostCommand, lenient::Scalar};
use crate::{plan::world::Metering, stream::StreamEvent};

/// The runners of kew's own, in the order of the documentation.
pub fn built_in() -> &'static [&'static dyn Runner] {
    &[&claude_code::ClaudeCode, &opencode::Opencode, &pi::Pi, &hermes::Hermes, &shell::Shell, &Lemonade]
}

/// Every runner that a plan may name: kew's own, then those that the user's settings define.
#[derive(Clone)]
pub struct Registry(Vec<&'static dyn Runner>);

impl Default for Registry {
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|runner| runner.name())).finish()
    }
}

impl Registry {
    /// Kew's own and these.
    pub fn new(own: Vec<custom::Custom>) -> Self {
        let own = own.into_iter().map(|runner| -> &'static dyn Runner { Box::leak(Box::new(runner)) });
        Self(built_in().iter().copied().chain(own).collect())
    }

    /// All of them.
    pub fn all(&self) -> &[&'static dyn Runner] {
        &self.0
    }

    /// The runner of that name.
    pub fn find(&self, name: &str) -> Option<&'static dyn Runner> {
        self.0.iter().copied().find(|runner| runner.name() == name)
    }
}

/// Kew's own runner of that name.
pub fn find(name: &str) -> Option<&'static dyn Runner> {
    built_in().iter().copied().find(|runner| runner.name() == name)
}

/// What sort of work a runner does; decides defaults of the plan and the form of the brief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A coding agent: takes a model and a prose prompt, must bring commits.
    Agent,
    /// A plain job: the prompt is a script, no model, may bring commits.
    Job,
}

/// The signal that ends an agent best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// SIGTERM.
    Term,
    /// SIGINT first (its totals survive), SIGTERM after the grace.
    Int,
}

/// One agent CLI, as kew drives it.
pub trait Runner: Send + Sync {
    /// The name that plans and settings use.
    fn name(&self) -> &'static str;

    /// Agent or plain job.
    fn kind(&self) -> Kind;

    /// Arguments after the image, exactly; the image forwards them unmodified.
    fn container_args(&self, model: Option<&str>) -> Vec<String>;

    /// Program and arguments as a process of the host, of which [`Runner::container_args`] is the part without the binary and
    /// what only means something on a host. The error says why there is none; it reads well after "it".
    fn build_command(&self, _model: Option<&str>) -> Result<HostCommand, String> {
        Err("has no form as a host process".to_owned())
    }

    /// Names of the credentials that are forwarded, and no others; one of them is enough. Empty = needs none.
    ///
    /// In the order of the agent's own preference: of several that are set, the first is the one that it uses.
    fn required_credentials(&self) -> &'static [&'static str];

    /// Whether this credential of its is a subscription: then nobody is billed for what one run uses.
    fn subscription(&self, _credential: &str) -> bool {
        false
    }

    /// How to get one of the credentials, for people who have none yet.
    fn credential_advice(&self) -> Option<&'static str> {
        None
    }

    /// Hosts that its agent cannot do without, each as `host` or `host:port`.
    fn hosts(&self) -> &'static [&'static str] {
        &[]
    }

    /// Whether this runner can route the model; else why not and what it looks like.
    fn route(&self, model: &str) -> Result<(), String>;

    /// What the models that it can route look like, in a few words.
    fn model_shape(&self) -> &'static str {
        match self.kind() {
            Kind::Agent => "as the agent names them",
            Kind::Job => "none",
        }
    }

    /// The agent's program in its image, which answers `--version`; `None` = there is none.
    fn program(&self) -> Option<&'static str> {
        match self.kind() {
            Kind::Agent => Some(self.name()),
            Kind::Job => None,
        }
    }

    /// Meanings of one line of stdout (without its newline). Lines that mean nothing, or are no JSON, give nothing.
    fn parse_line(&self, line: &[u8], out: &mut Vec<StreamEvent>);

    /// How it is asked to stop.
    fn stop_signal(&self) -> StopSignal {
        StopSignal::Term
    }

    /// How long it may say nothing, on either stream, before it counts as stalled; `None` = as long as its timeout.
    ///
    /// Silence is normal: some agents say nothing while a tool runs or a request is repeated.
    fn idle_timeout(&self) -> Option<Duration> {
        match self.kind() {
            Kind::Agent => Some(Duration::from_secs(20 * 60)),
            Kind::Job => None,
        }
    }

    /// How many steps (answers of the model) it may take before it counts as a runaway; `None` = any number.
    fn step_cap(&self) -> Option<u32> {
        match self.kind() {
            Kind::Agent => Some(1000),
            Kind::Job => None,
        }
    }

    /// Why it cannot run in a container at all, if so.
    fn refusal(&self) -> Option<&'static str> {
        None
    }

    /// It costs nothing by definition.
    fn free(&self) -> bool {
        false
    }

    /// When it tells what it costs.
    fn metering(&self) -> Metering {
        if self.free() { Metering::Free } else { Metering::Steps }
    }
}

/// A local model server: known by name, so that a plan that names it is told why it cannot run.
#[derive(Debug, Clone, Copy)]
struct Lemonade;

impl Runner for Lemonade {
    fn name(&self) -> &'static str {
        "lemonade"
    }

    fn kind(&self) -> Kind {
        Kind::Agent
    }

    fn container_args(&self, _: Option<&str>) -> Vec<String> {
        Vec::new()
    }

    fn build_command(&self, _: Option<&str>) -> Result<HostCommand, String> {
        Err("is a model server without a coding agent of its own: there is no command that takes a prompt"
            .to_owned())
    }

    fn required_credentials(&self) -> &'static [&'static str] {
        &[]
    }

    fn route(&self, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn parse_line(&self, _: &[u8], _: &mut Vec<StreamEvent>) {}

    fn refusal(&self) -> Option<&'static str> {
        Some("declares no credential that could be used in a container, so it cannot run in one")
    }
}

/// An HTTP status, if it can be one.
fn status(scalar: &Scalar<'_>) -> Option<u16> {
    scalar.whole().and_then(|status| u16::try_from(status).ok())
}

/// Longest tool detail or error text that is passed on, in bytes.
const DETAIL_MAX: usize = 400;

/// The text as one line of at most [`DETAIL_MAX`] bytes, cut with an ellipsis.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len().min(DETAIL_MAX));
    for word in text.split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.len() > DETAIL_MAX {
            line.truncate(line.floor_char_boundary(DETAIL_MAX - '…'.len_utf8()));
            line.push('…');
            return line;
        }
    }
    line
}
