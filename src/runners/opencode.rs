//! The opencode CLI (measured with 1.18.33): its arguments, its models and its lines.
//!
//! It tells neither its model nor any totals, and no line says that it is over. So each line about a step also says how
//! the run would end here: begun, in the middle, well, or badly. The last of these is the end marker; an `error` stays.

use serde::Deserialize;

use super::{
    Kind, Runner,
    host::HostCommand,
    lenient::{Object, Scalar},
    one_line,
    openrouter::{self, Shape},
    status,
};
use crate::stream::{CostSource, RunResult, StreamEvent, Tokens};

/// The opencode CLI.
#[derive(Debug, Clone, Copy)]
pub struct Opencode;

impl Runner for Opencode {
    fn name(&self) -> &'static str {
        "opencode"
    }

    fn kind(&self) -> Kind {
        Kind::Agent
    }

    fn container_args(&self, model: Option<&str>) -> Vec<String> {
        // Without a title it asks another model for one, whose tokens it does not tell.
        let mut args: Vec<String> =
            ["--format", "json", "--auto", "--title", "kew"].map(str::to_owned).into();
        if let Some(model) = model {
            args.extend(["--model".to_owned(), model.to_owned()]);
        }
        args
    }

    fn build_command(&self, model: Option<&str>) -> Result<HostCommand, String> {
        Ok(HostCommand::stdin("opencode", &["run"], self.container_args(model)))
    }

    fn required_credentials(&self) -> &'static [&'static str] {
        &["OPENROUTER_API_KEY"]
    }

    fn credential_advice(&self) -> Option<&'static str> {
        Some(openrouter::ADVICE)
    }

    fn model_shape(&self) -> &'static str {
        Shape::WithProvider.words()
    }

    fn hosts(&self) -> &'static [&'static str] {
        &["openrouter.ai"]
    }

    fn route(&self, model: &str) -> Result<(), String> {
        Shape::WithProvider.check("opencode", model)
    }

    fn parse_line(&self, line: &[u8], out: &mut Vec<StreamEvent>) {
        let line = line.trim_ascii();
        if line.first() != Some(&b'{') {
            return;
        }
        if let Ok(event) = serde_json::from_slice::<Event>(line) {
            event.tell(out);
        }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(borrow, default, rename = "sessionID")]
    session: Scalar<'a>,
    #[serde(borrow, default)]
    part: Object<Part<'a>>,
    #[serde(borrow, default)]
    error: Object<Error<'a>>,
}

#[derive(Deserialize, Default)]
struct Part<'a> {
    #[serde(borrow, default)]
    id: Scalar<'a>,
    #[serde(borrow, default)]
    text: Scalar<'a>,
    #[serde(borrow, default)]
    tool: Scalar<'a>,
    #[serde(borrow, default)]
    state: Object<ToolState<'a>>,
    #[serde(borrow, default)]
    reason: Scalar<'a>,
    #[serde(borrow, default)]
    tokens: Object<Counts<'a>>,
    #[serde(borrow, default)]
    cost: Scalar<'a>,
}

impl Event<'_> {
    fn tell(self, out: &mut Vec<StreamEvent>) {
        let kind = self.kind.text();
        if !matches!(kind, Some("step_start" | "text" | "tool_use" | "step_finish" | "error")) {
            return;
        }
        out.extend(self.session.words().map(|id| StreamEvent::Session { id: id.to_owned() }));
        let part = self.part.0.unwrap_or_default();
        match kind {
            Some("step_start") => out.push(not_yet("a step began and did not finish")),
            Some("text") => {
                out.extend(part.text.words().map(|text| StreamEvent::Text { text: text.to_owned() }))
            }
            Some("tool_use") => part.tell_tool(out),
            Some("step_finish") => part.tell_finish(out),
            _ => out.push(self.error.0.unwrap_or_default().result()),
        }
    }
}

/// Where the run stands while it is under way: not at a good end.
fn not_yet(why: &str) -> StreamEvent {
    StreamEvent::Result(RunResult { error: Some(format!("ended too early: {why}")), ..RunResult::default() })
}

#[derive(Deserialize)]
struct ToolState<'a> {
    #[serde(borrow, default)]
    status: Scalar<'a>,
    #[serde(borrow, default)]
    error: Scalar<'a>,
    #[serde(borrow, default)]
    title: Scalar<'a>,
    #[serde(borrow, default)]
    input: Object<Input<'a>>,
}

/// The parts of a tool's input that say in short what it does.
#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow, default)]
    command: Scalar<'a>,
    #[serde(borrow, default, rename = "filePath")]
    file_path: Scalar<'a>,
    #[serde(borrow, default)]
    pattern: Scalar<'a>,
    #[serde(borrow, default)]
    url: Scalar<'a>,
    #[serde(borrow, default)]
    description: Scalar<'a>,
}

/// What opencode writes where its permissions refused a call; other errors are the tool's own.
const REFUSALS: [&str; 2] = ["rejected permission to use", "prevents you from using this specific tool"];

impl Part<'_> {
    /// Told when the call is over, not when it begins.
    fn tell_tool(&self, out: &mut Vec<StreamEvent>) {
        let name = self.tool.words().unwrap_or("?").to_owned();
        let state = self.state.0.as_ref();
        let input = state.and_then(|state| state.input.0.as_ref());
        let fields = input
            .map(|input| [&input.command, &input.file_path, &input.pattern, &input.url, &input.description]);
        let detail = fields.into_iter().flatten().find_map(Scalar::words);
        let detail = detail.or(state.and_then(|state| state.title.words())).map(one_line).unwrap_or_default();
        let failed = state.filter(|state| state.status.text() == Some("error"));
        let refused = failed
            .and_then(|state| state.error.text())
            .is_some_and(|error| REFUSALS.iter().any(|words| error.contains(words)));
        out.push(StreamEvent::Tool { name: name.clone(), detail });
        if refused {
            out.push(StreamEvent::PermissionDenied { tool: name });
        }
    }

    fn tell_finish(&self, out: &mut Vec<StreamEvent>) {
        let step = self.id.words().map(str::to_owned);
        let tokens = self.tokens.0.as_ref().map(Counts::tokens);
        if let Some(tokens) = tokens {
            out.push(StreamEvent::Usage { step: step.clone(), tokens });
        }
        // A model that its list of prices does not have costs 0 there: that is unknown.
        let used = tokens.is_some_and(|tokens| tokens.total() > 0);
        let usd = self.cost.number().filter(|usd| *usd > 0.0 || (*usd == 0.0 && !used));
        out.extend(usd.map(|usd| StreamEvent::StepCost { step, usd, source: CostSource::ListPrice }));
        out.push(match self.reason.text() {
            Some("stop") => StreamEvent::Result(RunResult { ok: true, ..RunResult::default() }),
            Some("tool-calls") => not_yet("after a tool call"),
            Some("length") => not_yet("the answer grew longer than the model may write"),
            Some("unknown") => not_yet("the provider's answer was cut off"),
            other => not_yet(&format!("the last step finished with `{}`", one_line(other.unwrap_or("?")))),
        });
    }
}

#[derive(Deserialize)]
struct Counts<'a> {
    #[serde(borrow, default)]
    input: Scalar<'a>,
    #[serde(borrow, default)]
    output: Scalar<'a>,
    #[serde(borrow, default)]
    reasoning: Scalar<'a>,
    #[serde(borrow, default)]
    cache: Object<Cache<'a>>,
}

#[derive(Deserialize)]
struct Cache<'a> {
    #[serde(borrow, default)]
    read: Scalar<'a>,
    #[serde(borrow, default)]
    write: Scalar<'a>,
}

impl Counts<'_> {
    /// Its output leaves reasoning out, ours does not; its input leaves the cache out, as ours does.
    fn tokens(&self) -> Tokens {
        let count = |scalar: &Scalar<'_>| scalar.whole().unwrap_or(0);
        let cache = |pick: fn(&Cache<'_>) -> u64| self.cache.0.as_ref().map_or(0, pick);
        Tokens {
            input: count(&self.input),
            output: count(&self.output).saturating_add(count(&self.reasoning)),
            cache_read: cache(|cache| cache.read.whole().unwrap_or(0)),
            cache_write: cache(|cache| cache.write.whole().unwrap_or(0)),
        }
    }
}

/// What ends a run. `data` also holds the response's headers and body, which are not passed on.
#[derive(Deserialize, Default)]
struct Error<'a> {
    #[serde(borrow, default)]
    name: Scalar<'a>,
    #[serde(borrow, default)]
    data: Object<ErrorData<'a>>,
}

#[derive(Deserialize)]
struct ErrorData<'a> {
    #[serde(borrow, default)]
    message: Scalar<'a>,
    #[serde(borrow, default, rename = "statusCode")]
    status_code: Scalar<'a>,
}

impl Error<'_> {
    fn result(&self) -> StreamEvent {
        let data = self.data.0.as_ref();
        let name = self.name.words().unwrap_or("error");
        let words = data.and_then(|data| data.message.words()).map(one_line);
        StreamEvent::Result(RunResult {
            error: Some(words.map_or_else(|| one_line(name), |words| format!("{}: {words}", one_line(name)))),
            api_status: data.and_then(|data| status(&data.status_code)),
            stays: true,
            ..RunResult::default()
        })
    }
}
