//! The hermes CLI: its arguments, its models and its lines.
//!
//! Release 0.19 prints no JSON; its image does, one `result` line with what hermes writes to its usage file. Later releases
//! have a stream of their own (`--format stream-json`), which is read as well. Its exit status lies: `failed`,
//! `completed` and the like decide.

use std::time::Duration;

use serde::Deserialize;

use super::{
    Kind, Runner,
    host::HostCommand,
    lenient::{Object, Scalar},
    one_line,
    openrouter::{self, Shape},
};
use crate::{
    plan::world::Metering,
    stream::{CostSource, RunResult, RunTotals, StreamEvent, Tokens},
};

/// The hermes CLI.
#[derive(Debug, Clone, Copy)]
pub struct Hermes;

impl Runner for Hermes {
    fn name(&self) -> &'static str {
        "hermes"
    }

    fn kind(&self) -> Kind {
        Kind::Agent
    }

    fn container_args(&self, model: Option<&str>) -> Vec<String> {
        // It refuses a provider without a model.
        let args = model.map(|model| ["--provider", "openrouter", "--model", model].map(str::to_owned));
        args.map(Vec::from).unwrap_or_default()
    }

    fn build_command(&self, _: Option<&str>) -> Result<HostCommand, String> {
        Err("takes its prompt as an argument, which every process of the host can read, and prints no events; only its image \
             gives it the prompt on stdin"
            .to_owned())
    }

    fn required_credentials(&self) -> &'static [&'static str] {
        &["OPENROUTER_API_KEY"]
    }

    fn credential_advice(&self) -> Option<&'static str> {
        Some(openrouter::ADVICE)
    }

    fn model_shape(&self) -> &'static str {
        Shape::Bare.words()
    }

    fn hosts(&self) -> &'static [&'static str] {
        &["openrouter.ai"]
    }

    fn route(&self, model: &str) -> Result<(), String> {
        Shape::Bare.check("hermes", model)
    }

    fn idle_timeout(&self) -> Option<Duration> {
        // Release 0.19 says nothing until its end.
        None
    }

    fn metering(&self) -> Metering {
        Metering::AtEnd
    }

    fn parse_line(&self, line: &[u8], out: &mut Vec<StreamEvent>) {
        let line = line.trim_ascii();
        if line.first() != Some(&b'{') {
            return;
        }
        let Ok(head) = serde_json::from_slice::<Head>(line) else { return };
        match (head.kind.text(), head.subtype.text()) {
            (Some("system"), Some("init")) => head.init(out),
            (Some("text"), _) => {
                out.extend(head.text.words().map(|text| StreamEvent::Text { text: text.to_owned() }))
            }
            (Some("tool_use"), _) => head.tool(out),
            (Some("result"), _) => {
                if let Ok(end) = serde_json::from_slice::<End>(line) {
                    end.tell(out);
                }
            }
            _ => {}
        }
    }
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(borrow, default)]
    subtype: Scalar<'a>,
    #[serde(borrow, default)]
    session_id: Scalar<'a>,
    #[serde(borrow, default)]
    model: Scalar<'a>,
    #[serde(borrow, default)]
    text: Scalar<'a>,
    #[serde(borrow, default)]
    name: Scalar<'a>,
    #[serde(borrow, default)]
    input: Object<Input<'a>>,
}

#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow, default)]
    command: Scalar<'a>,
    #[serde(borrow, default)]
    path: Scalar<'a>,
    #[serde(borrow, default)]
    query: Scalar<'a>,
}

impl Head<'_> {
    fn init(&self, out: &mut Vec<StreamEvent>) {
        out.extend(self.session_id.words().map(|id| StreamEvent::Session { id: id.to_owned() }));
        out.extend(self.model.words().map(|name| StreamEvent::Model { name: name.to_owned() }));
    }

    fn tool(&self, out: &mut Vec<StreamEvent>) {
        let fields = self.input.0.as_ref().map(|input| [&input.command, &input.path, &input.query]);
        let detail = fields.into_iter().flatten().find_map(Scalar::words).map(one_line).unwrap_or_default();
        out.push(StreamEvent::Tool { name: self.name.words().unwrap_or("?").to_owned(), detail });
    }
}

/// The end marker of both: the image's has the counts side by side and a cost, the stream's has them in `tokens`.
#[derive(Deserialize)]
struct End<'a> {
    #[serde(borrow, default)]
    exit_code: Scalar<'a>,
    #[serde(borrow, default)]
    text: Scalar<'a>,
    #[serde(borrow, default)]
    session_id: Scalar<'a>,
    #[serde(borrow, default)]
    model: Scalar<'a>,
    #[serde(borrow, default)]
    completed: Scalar<'a>,
    #[serde(borrow, default)]
    failed: Scalar<'a>,
    #[serde(borrow, default)]
    partial: Scalar<'a>,
    #[serde(borrow, default)]
    interrupted: Scalar<'a>,
    #[serde(borrow, default)]
    failure: Scalar<'a>,
    #[serde(borrow, default)]
    failure_reason: Scalar<'a>,
    #[serde(borrow, default)]
    error: Scalar<'a>,
    #[serde(borrow, default)]
    tokens: Object<Counts<'a>>,
    #[serde(borrow, default)]
    input_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    output_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    cache_read_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    cache_write_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    estimated_cost_usd: Scalar<'a>,
    #[serde(borrow, default)]
    cost_status: Scalar<'a>,
}

#[derive(Deserialize)]
struct Counts<'a> {
    #[serde(borrow, default)]
    input: Scalar<'a>,
    #[serde(borrow, default)]
    output: Scalar<'a>,
    #[serde(borrow, default)]
    cache_read: Scalar<'a>,
    #[serde(borrow, default)]
    cache_write: Scalar<'a>,
}

impl End<'_> {
    fn tell(&self, out: &mut Vec<StreamEvent>) {
        out.extend(self.session_id.words().map(|id| StreamEvent::Session { id: id.to_owned() }));
        out.extend(self.model.words().map(|name| StreamEvent::Model { name: name.to_owned() }));
        let error = self.fault();
        out.push(StreamEvent::Result(RunResult {
            ok: error.is_none(),
            api_status: error.as_deref().and_then(http_status),
            error,
            text: self.text.words().map(|text| text.trim().to_owned()),
            totals: self.totals(),
            ..RunResult::default()
        }));
    }

    /// Why it is no good end; `None` = it is one.
    fn fault(&self) -> Option<String> {
        let set = |scalar: &Scalar<'_>| scalar.truth() == Some(true);
        let code = self.exit_code.number();
        let word = if set(&self.interrupted) {
            "interrupted"
        } else if set(&self.failed) {
            "failed"
        } else if set(&self.partial) || self.completed.truth() == Some(false) {
            "not completed"
        } else if code != Some(0.0) {
            "ended badly"
        } else if !set(&self.completed) && self.tokens.0.is_none() {
            // The image's line says that it completed, or it did not.
            "not completed"
        } else {
            return None;
        };
        let words = [&self.failure, &self.error, &self.failure_reason, &self.text]
            .into_iter()
            .find_map(Scalar::words);
        Some(match words {
            Some(words) if http_status(words).is_some() => one_line(words),
            Some(words) => format!("{word}: {}", one_line(words)),
            None => code
                .filter(|code| *code != 0.0)
                .map_or(word.to_owned(), |code| format!("{word}: exit status {code}")),
        })
    }

    fn totals(&self) -> Option<RunTotals> {
        let counts = match &self.tokens.0 {
            Some(tokens) => [&tokens.input, &tokens.output, &tokens.cache_read, &tokens.cache_write],
            None => {
                [&self.input_tokens, &self.output_tokens, &self.cache_read_tokens, &self.cache_write_tokens]
            }
        };
        let counts = counts.map(Scalar::whole);
        if counts.iter().all(Option::is_none) {
            return None;
        }
        let [input, output, cache_read, cache_write] = counts.map(Option::unwrap_or_default);
        let source = match self.cost_status.text() {
            Some("estimated") => CostSource::Estimate,
            Some("actual") => CostSource::Provider,
            _ => CostSource::Unknown,
        };
        let known = source != CostSource::Unknown;
        let cost_usd = self.estimated_cost_usd.number().filter(|usd| known && *usd >= 0.0);
        Some(RunTotals { tokens: Tokens { input, output, cache_read, cache_write }, cost_usd, source })
    }
}

/// The status in `HTTP 401: …`, which is all that hermes says of it.
fn http_status(error: &str) -> Option<u16> {
    let (_, rest) = error.split_once("HTTP ")?;
    rest.get(..3)?.parse().ok().filter(|status| (400..600).contains(status))
}
