//! The pi CLI (measured with 1.6.0): its arguments, its models and its lines.
//!
//! It ends with 0 whatever happened, so its lines alone decide. A message of the assistant says how its step ended, and is
//! the one line whose tokens count (`turn_end` and `agent_end` repeat it); `agent_settled` says that it was the last.

use serde::Deserialize;

use super::{
    Kind, Runner,
    host::HostCommand,
    lenient::{List, Object, Scalar},
    one_line,
    openrouter::{self, Shape},
};
use crate::stream::{CostSource, RunResult, StreamEvent, Tokens};

/// The pi CLI.
#[derive(Debug, Clone, Copy)]
pub struct Pi;

impl Runner for Pi {
    fn name(&self) -> &'static str {
        "pi"
    }

    fn kind(&self) -> Kind {
        Kind::Agent
    }

    fn container_args(&self, model: Option<&str>) -> Vec<String> {
        let mut args: Vec<String> = ["--mode", "json", "--no-session"].map(str::to_owned).into();
        if let Some(model) = model {
            args.extend(["--model".to_owned(), model.to_owned()]);
        }
        args
    }

    fn build_command(&self, model: Option<&str>) -> Result<HostCommand, String> {
        Ok(HostCommand::stdin("pi", &[], self.container_args(model)))
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
        Shape::WithProvider.check("pi", model)
    }

    fn parse_line(&self, line: &[u8], out: &mut Vec<StreamEvent>) {
        let line = line.trim_ascii();
        if line.first() != Some(&b'{') {
            return;
        }
        // The type first: most lines are deltas or repetitions, and long.
        let Ok(head) = serde_json::from_slice::<Head>(line) else { return };
        match head.kind.text() {
            Some("session") => {
                out.extend(head.id.words().map(|id| StreamEvent::Session { id: id.to_owned() }))
            }
            Some("message_end") => {
                if let Ok(Line { message: Object(Some(message)) }) = serde_json::from_slice(line) {
                    message.tell(out);
                }
            }
            Some("tool_execution_start") => {
                if let Ok(call) = serde_json::from_slice::<ToolCall>(line) {
                    call.tell(out);
                }
            }
            Some("agent_end") if head.will_retry.truth().is_none() => {
                // Releases before 1.0 have neither this field nor a line that says that they settled.
                out.push(StreamEvent::Settled { aborted: false });
            }
            Some("agent_settled") => {
                out.push(StreamEvent::Settled { aborted: head.aborted.truth() == Some(true) });
            }
            Some("auto_retry_start") => {
                let message = head.error_message.text().unwrap_or_default();
                let (status, message) = said(message);
                out.push(StreamEvent::Retry { status, message });
            }
            Some("auto_retry_end") if head.success.truth() == Some(false) => {
                out.push(failed(head.final_error.text().unwrap_or("its retries were used up")));
            }
            _ => {}
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(borrow, default)]
    id: Scalar<'a>,
    #[serde(borrow, default)]
    aborted: Scalar<'a>,
    #[serde(borrow, default)]
    will_retry: Scalar<'a>,
    #[serde(borrow, default)]
    success: Scalar<'a>,
    #[serde(borrow, default)]
    error_message: Scalar<'a>,
    #[serde(borrow, default)]
    final_error: Scalar<'a>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default)]
    message: Object<Message<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a> {
    #[serde(borrow, default)]
    role: Scalar<'a>,
    #[serde(borrow, default)]
    content: List<Block<'a>>,
    #[serde(borrow, default)]
    model: Scalar<'a>,
    #[serde(borrow, default)]
    usage: Object<Usage<'a>>,
    #[serde(borrow, default)]
    stop_reason: Scalar<'a>,
    #[serde(borrow, default)]
    error_message: Scalar<'a>,
    #[serde(borrow, default)]
    response_id: Scalar<'a>,
    #[serde(borrow, default)]
    timestamp: Scalar<'a>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(borrow, default)]
    text: Scalar<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage<'a> {
    #[serde(borrow, default)]
    input: Scalar<'a>,
    #[serde(borrow, default)]
    output: Scalar<'a>,
    #[serde(borrow, default)]
    cache_read: Scalar<'a>,
    #[serde(borrow, default)]
    cache_write: Scalar<'a>,
    #[serde(borrow, default)]
    cost: Object<Cost<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Cost<'a> {
    #[serde(borrow, default)]
    total: Scalar<'a>,
    #[serde(borrow, default)]
    total_from_provider: Scalar<'a>,
}

impl Message<'_> {
    fn tell(&self, out: &mut Vec<StreamEvent>) {
        if self.role.text() != Some("assistant") {
            return;
        }
        out.extend(self.model.words().map(|name| StreamEvent::Model { name: name.to_owned() }));
        if let Some(usage) = &self.usage.0 {
            usage.tell(&self.step(), out);
        }
        for block in self.content.0.iter().filter(|block| block.kind.text() == Some("text")) {
            out.extend(block.text.words().map(|text| StreamEvent::Text { text: text.to_owned() }));
        }
        out.push(self.end());
    }

    /// Failed requests have no id of the provider's, and may come more than once.
    fn step(&self) -> String {
        format!(
            "{}@{}",
            self.response_id.text().unwrap_or_default(),
            self.timestamp.number().unwrap_or_default()
        )
    }

    fn end(&self) -> StreamEvent {
        let not_yet = |why: &str| {
            StreamEvent::Result(RunResult {
                error: Some(format!("ended too early: {why}")),
                ..RunResult::default()
            })
        };
        match self.stop_reason.text() {
            Some("stop") => {
                StreamEvent::Result(RunResult { ok: true, provisional: true, ..RunResult::default() })
            }
            Some("toolUse") => not_yet("after a tool call"),
            Some("length") => not_yet("the answer grew longer than the model may write"),
            Some("error") => {
                failed(self.error_message.words().unwrap_or("the provider's answer was an error"))
            }
            other => not_yet(&format!("the last message stopped with `{}`", one_line(other.unwrap_or("?")))),
        }
    }
}

impl Usage<'_> {
    fn tell(&self, step: &str, out: &mut Vec<StreamEvent>) {
        let count = |scalar: &Scalar<'_>| scalar.whole().unwrap_or(0);
        let tokens = Tokens {
            input: count(&self.input),
            output: count(&self.output),
            cache_read: count(&self.cache_read),
            cache_write: count(&self.cache_write),
        };
        out.push(StreamEvent::Usage { step: Some(step.to_owned()), tokens });
        let Some(cost) = &self.cost.0 else { return };
        let source = match cost.total_from_provider.truth() {
            Some(true) => CostSource::Provider,
            _ => CostSource::ListPrice,
        };
        // A model without a price costs 0 in its own list: that is unknown, unless the provider says so.
        let known = |usd: &f64| *usd > 0.0 || source == CostSource::Provider || tokens.total() == 0;
        let usd = cost.total.number().filter(|usd| *usd >= 0.0).filter(known);
        out.extend(usd.map(|usd| StreamEvent::StepCost { step: Some(step.to_owned()), usd, source }));
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolCall<'a> {
    #[serde(borrow, default)]
    tool_name: Scalar<'a>,
    #[serde(borrow, default)]
    args: Object<Args<'a>>,
}

#[derive(Deserialize)]
struct Args<'a> {
    #[serde(borrow, default)]
    command: Scalar<'a>,
    #[serde(borrow, default)]
    path: Scalar<'a>,
    #[serde(borrow, default)]
    pattern: Scalar<'a>,
}

impl ToolCall<'_> {
    fn tell(&self, out: &mut Vec<StreamEvent>) {
        let fields = self.args.0.as_ref().map(|args| [&args.command, &args.path, &args.pattern]);
        let detail = fields.into_iter().flatten().find_map(Scalar::words).map(one_line).unwrap_or_default();
        out.push(StreamEvent::Tool { name: self.tool_name.words().unwrap_or("?").to_owned(), detail });
    }
}

fn failed(message: &str) -> StreamEvent {
    let (api_status, message) = said(message);
    StreamEvent::Result(RunResult { error: Some(message), api_status, ..RunResult::default() })
}

/// `401 {"error":{"message":"…"}}`: the status in front and the message inside, as far as they are there.
fn said(message: &str) -> (Option<u16>, String) {
    #[derive(Deserialize)]
    struct Body<'a> {
        #[serde(borrow, default)]
        error: Object<Inner<'a>>,
        #[serde(borrow, default)]
        message: Scalar<'a>,
    }
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow, default, rename = "type")]
        kind: Scalar<'a>,
        #[serde(borrow, default)]
        message: Scalar<'a>,
    }
    let digits = message.bytes().take_while(u8::is_ascii_digit).count();
    let status = message[..digits].parse().ok().filter(|status| (400..600).contains(status));
    let rest = if status.is_some() { message[digits..].trim_start_matches([':', ' ']) } else { message };
    let Ok(body) = serde_json::from_str::<Body>(rest) else {
        let words = one_line(rest);
        return (status, if words.is_empty() { one_line(message) } else { words });
    };
    let inner = body.error.0.as_ref();
    let words = inner.and_then(|inner| inner.message.words()).or(body.message.words()).map(one_line);
    let kind = inner.and_then(|inner| inner.kind.words()).map(one_line);
    let said = match (kind, words) {
        (Some(kind), Some(words)) => format!("{kind}: {words}"),
        (kind, words) => words.or(kind).unwrap_or_else(|| one_line(rest)),
    };
    (status, said)
}
