//! How to drive one agent: its arguments, credentials, event vocabulary and models. One runner, one file.
//!
//! A runner is a value without state. It never names an image, a path of the host or a prompt.

use crate::stream::StreamEvent;

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

    /// Names of the credentials that are forwarded, and no others. Empty = needs none.
    fn required_credentials(&self) -> &'static [&'static str];

    /// Whether this runner can route the model; else why not and what it looks like.
    fn route(&self, model: &str) -> Result<(), String>;

    /// Meanings of one line of stdout (without its newline). Lines that mean nothing, or are no JSON, give nothing.
    fn parse_line(&self, line: &[u8], out: &mut Vec<StreamEvent>);

    /// How it is asked to stop.
    fn stop_signal(&self) -> StopSignal {
        StopSignal::Term
    }

    /// Why it cannot run in a container at all, if so.
    fn refusal(&self) -> Option<&'static str> {
        None
    }

    /// It costs nothing by definition.
    fn free(&self) -> bool {
        false
    }
}
