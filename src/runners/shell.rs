//! Plain jobs: the prompt is a script, there is no model and no credential, and it costs nothing.
//!
//! Its image runs the script and speaks [`AgentEvent`], one JSON object per line of stdout. The same vocabulary is
//! published (`schemas/agent-event.schema.json`) for images of one's own. A line of another type means nothing.

use serde::{Deserialize, Serialize};

use super::{
    Kind, Runner,
    host::{Handoff, HostCommand},
    one_line,
};
use crate::stream::{CostSource, RunResult, RunTotals, StreamEvent, Tokens};

/// One line of stdout of an image that speaks kew's own vocabulary.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum AgentEvent {
    /// One line of output, without its line end: of a script's stdout or stderr, or text that an agent wrote.
    Output {
        /// The line.
        text: String,
    },
    /// The agent's own session id.
    Session {
        /// The id.
        id: String,
    },
    /// The model that is really used.
    Model {
        /// Its name.
        name: String,
    },
    /// Tokens of one step. They are added up.
    Usage(Tokens),
    /// Cost of one step. It is added up; say nothing if you do not know it.
    Cost {
        /// US dollars.
        usd: f64,
    },
    /// A tool call began.
    Tool {
        /// The tool.
        name: String,
        /// What it does in a few words, such as the command.
        #[serde(default)]
        detail: String,
    },
    /// The end marker: the last line. Without it, or with another exit code than 0, the node fails.
    Result(Ending),
}

/// How it went, in the image's own words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Ending {
    /// Exit status of the script or agent; 0 is the only good one.
    pub exit_code: i32,
    /// The final text, which becomes the node's summary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Tokens of the whole run. They, and `cost_usd` beside them, replace what was added up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// US dollars of the whole run; without `tokens` they are added to the costs told before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
}

/// The JSON Schema of one line.
pub fn event_schema() -> schemars::Schema {
    schemars::schema_for!(AgentEvent)
}

/// Plain jobs.
#[derive(Debug, Clone, Copy)]
pub struct Shell;

impl Runner for Shell {
    fn name(&self) -> &'static str {
        "shell"
    }

    fn kind(&self) -> Kind {
        Kind::Job
    }

    fn container_args(&self, _: Option<&str>) -> Vec<String> {
        Vec::new()
    }

    fn build_command(&self, _: Option<&str>) -> Result<HostCommand, String> {
        Ok(HostCommand { prompt: Handoff::Script, ..HostCommand::stdin("bash", &[], Vec::new()) })
    }

    fn required_credentials(&self) -> &'static [&'static str] {
        &[]
    }

    fn route(&self, _: &str) -> Result<(), String> {
        Err("is set, but `shell` runs a script and takes no model; leave `model` out".into())
    }

    fn parse_line(&self, line: &[u8], out: &mut Vec<StreamEvent>) {
        AgentEvent::read(line, out);
    }

    fn free(&self) -> bool {
        true
    }
}

impl AgentEvent {
    /// Reads one line of stdout; a line that is no such event means nothing.
    pub fn read(line: &[u8], out: &mut Vec<StreamEvent>) {
        let line = line.trim_ascii();
        if line.first() != Some(&b'{') {
            return;
        }
        if let Ok(event) = serde_json::from_slice::<Self>(line) {
            event.tell(out);
        }
    }

    /// What the line means, in the vocabulary of all runners.
    pub fn tell(self, out: &mut Vec<StreamEvent>) {
        match self {
            Self::Output { text } => out.push(StreamEvent::Text { text }),
            Self::Session { id } => out.push(StreamEvent::Session { id }),
            Self::Model { name } => out.push(StreamEvent::Model { name }),
            Self::Usage(tokens) => out.push(StreamEvent::Usage { step: None, tokens }),
            Self::Cost { usd } => out.extend(dollars(Some(usd)).map(|usd| StreamEvent::StepCost {
                step: None,
                usd,
                source: CostSource::Estimate,
            })),
            Self::Tool { name, detail } => out.push(StreamEvent::Tool { name, detail: one_line(&detail) }),
            Self::Result(ending) => ending.tell(out),
        }
    }
}

impl Ending {
    fn tell(self, out: &mut Vec<StreamEvent>) {
        let ok = self.exit_code == 0;
        let cost_usd = dollars(self.cost_usd);
        let totals = self.tokens.map(|tokens| RunTotals { tokens, cost_usd, source: CostSource::Estimate });
        if totals.is_none() {
            out.extend(cost_usd.map(|usd| StreamEvent::StepCost {
                step: None,
                usd,
                source: CostSource::Estimate,
            }));
        }
        let said = self.error.map(|error| one_line(&error)).filter(|error| !error.is_empty());
        let error = (!ok).then(|| said.unwrap_or_else(|| format!("exit status {}", self.exit_code)));
        out.push(StreamEvent::Result(RunResult {
            ok,
            error,
            text: self.text,
            exit_code: Some(self.exit_code),
            totals,
            ..RunResult::default()
        }));
    }
}

/// A cost that can be one.
fn dollars(usd: Option<f64>) -> Option<f64> {
    usd.filter(|usd| usd.is_finite() && *usd >= 0.0)
}
