//! The claude CLI's `stream-json` lines (measured with 2.1.332).
//!
//! Key order is not stable, so lines are parsed and never matched by prefix. Unknown types mean nothing. What decides is
//! the last `result` line: `is_error` (not `subtype`, which says `success` on API failures too), totals from `modelUsage`
//! (the `usage` beside it covers the main loop only), a cost only where every model in it has a list price.

use std::collections::HashMap;

use serde::{Deserialize, de::IgnoredAny};

use crate::{
    runners::{
        lenient::{List, Object, Scalar},
        one_line, status,
    },
    stream::{CostSource, RunResult, RunTotals, StreamEvent, Tokens},
};

/// What the CLI names as the model of messages that it made up itself, such as API errors.
const SYNTHETIC: &str = "<synthetic>";

/// Meanings of one line. The type is read first, so that long lines of no meaning (tool results) are only skipped over.
pub(super) fn parse(line: &[u8], out: &mut Vec<StreamEvent>) {
    let line = line.trim_ascii();
    if line.first() != Some(&b'{') {
        return;
    }
    let Ok(head) = serde_json::from_slice::<Head>(line) else { return };
    match (head.kind.text(), head.subtype.text()) {
        (Some("system"), Some("init")) => read(line, out, Init::tell),
        (Some("system"), Some("api_retry")) => read(line, out, ApiRetry::tell),
        (Some("system"), Some("permission_denied")) => read(line, out, PermissionDenied::tell),
        (Some("assistant"), _) => read(line, out, Assistant::tell),
        (Some("rate_limit_event"), _) => read(line, out, RateLimitEvent::tell),
        (Some("result"), _) => read(line, out, End::tell),
        _ => {}
    }
}

/// Parses the line as `T` and lets it tell what it means.
fn read<'a, T: Deserialize<'a>>(
    line: &'a [u8],
    out: &mut Vec<StreamEvent>,
    tell: fn(T, &mut Vec<StreamEvent>),
) {
    if let Ok(value) = serde_json::from_slice::<T>(line) {
        tell(value, out);
    }
}

fn session(id: &Scalar<'_>, out: &mut Vec<StreamEvent>) {
    out.extend(id.words().map(|id| StreamEvent::Session { id: id.to_owned() }));
}

fn model(name: &Scalar<'_>, out: &mut Vec<StreamEvent>) {
    let name = name.words().filter(|name| *name != SYNTHETIC);
    out.extend(name.map(|name| StreamEvent::Model { name: name.to_owned() }));
}

/// What says which of the shapes below a line has.
#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(borrow, default)]
    subtype: Scalar<'a>,
}

#[derive(Deserialize)]
struct Init<'a> {
    #[serde(borrow, default)]
    session_id: Scalar<'a>,
    #[serde(borrow, default)]
    model: Scalar<'a>,
}

impl Init<'_> {
    fn tell(self, out: &mut Vec<StreamEvent>) {
        session(&self.session_id, out);
        model(&self.model, out);
    }
}

#[derive(Deserialize)]
struct ApiRetry<'a> {
    #[serde(borrow, default)]
    error_status: Scalar<'a>,
    #[serde(borrow, default)]
    error: Scalar<'a>,
}

impl ApiRetry<'_> {
    fn tell(self, out: &mut Vec<StreamEvent>) {
        let message = self.error.words().unwrap_or("unknown").to_owned();
        out.push(StreamEvent::Retry { status: status(&self.error_status), message });
    }
}

#[derive(Deserialize)]
struct PermissionDenied<'a> {
    #[serde(borrow, default)]
    tool_name: Scalar<'a>,
}

impl PermissionDenied<'_> {
    fn tell(self, out: &mut Vec<StreamEvent>) {
        out.push(StreamEvent::PermissionDenied { tool: self.tool_name.words().unwrap_or("?").to_owned() });
    }
}

#[derive(Deserialize)]
struct RateLimitEvent<'a> {
    #[serde(borrow, default)]
    rate_limit_info: Object<RateLimit<'a>>,
}

impl RateLimitEvent<'_> {
    fn tell(self, out: &mut Vec<StreamEvent>) {
        out.extend(self.rate_limit_info.0.and_then(RateLimit::rejected));
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RateLimit<'a> {
    #[serde(borrow, default)]
    status: Scalar<'a>,
    #[serde(borrow, default)]
    resets_at: Scalar<'a>,
    #[serde(borrow, default)]
    is_using_overage: Scalar<'a>,
}

impl RateLimit<'_> {
    /// Used up, and not paid for otherwise.
    fn rejected(self) -> Option<StreamEvent> {
        let over = self.status.text() == Some("rejected") && self.is_using_overage.truth() != Some(true);
        let resets_at = self.resets_at.whole().and_then(|time| i64::try_from(time).ok());
        over.then_some(StreamEvent::RateLimited { resets_at })
    }
}

#[derive(Deserialize)]
struct Assistant<'a> {
    #[serde(borrow, default)]
    message: Object<Message<'a>>,
    #[serde(borrow, default)]
    parent_tool_use_id: Scalar<'a>,
    #[serde(borrow, default)]
    api_error_params: Object<RateLimitEvent<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Scalar<'a>,
    #[serde(borrow, default)]
    model: Scalar<'a>,
    #[serde(borrow, default)]
    content: List<Block<'a>>,
    #[serde(borrow, default)]
    usage: Object<Usage<'a>>,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(borrow, default)]
    text: Scalar<'a>,
    #[serde(borrow, default)]
    name: Scalar<'a>,
    #[serde(borrow, default)]
    input: Object<Input<'a>>,
}

/// The parts of a tool's input that say in short what it does.
#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow, default)]
    command: Scalar<'a>,
    #[serde(borrow, default)]
    file_path: Scalar<'a>,
    #[serde(borrow, default)]
    notebook_path: Scalar<'a>,
    #[serde(borrow, default)]
    pattern: Scalar<'a>,
    #[serde(borrow, default)]
    url: Scalar<'a>,
    #[serde(borrow, default)]
    query: Scalar<'a>,
    #[serde(borrow, default)]
    description: Scalar<'a>,
    #[serde(borrow, default)]
    path: Scalar<'a>,
}

impl Assistant<'_> {
    fn tell(self, out: &mut Vec<StreamEvent>) {
        if let Some(limit) = self.api_error_params.0 {
            limit.tell(out);
        }
        let Some(message) = self.message.0 else { return };
        let synthetic = message.model.text() == Some(SYNTHETIC);
        // What the agent hands on to agents of its own may use another model; the node's is the main thread's.
        if self.parent_tool_use_id.words().is_none() {
            model(&message.model, out);
        }
        if let Some(usage) = message.usage.0.filter(|_| !synthetic) {
            // Every block of a message repeats its usage, so the message's id is the step. Output is a placeholder here.
            let step = message.id.words().map(str::to_owned);
            out.extend(usage.tokens().map(|tokens| StreamEvent::Usage { step, tokens }));
        }
        for block in &message.content.0 {
            block.tell(out);
        }
    }
}

impl Block<'_> {
    fn tell(&self, out: &mut Vec<StreamEvent>) {
        match self.kind.text() {
            Some("text") => {
                out.extend(self.text.words().map(|text| StreamEvent::Text { text: text.to_owned() }))
            }
            Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                let detail = self.input.0.as_ref().and_then(Input::detail).unwrap_or_default();
                out.push(StreamEvent::Tool { name: self.name.words().unwrap_or("?").to_owned(), detail });
            }
            _ => {}
        }
    }
}

impl Input<'_> {
    fn detail(&self) -> Option<String> {
        let fields = [
            &self.command,
            &self.file_path,
            &self.notebook_path,
            &self.pattern,
            &self.url,
            &self.query,
            &self.description,
            &self.path,
        ];
        fields.into_iter().find_map(Scalar::words).map(one_line)
    }
}

/// `usage` of a message and of the end marker.
#[derive(Deserialize)]
struct Usage<'a> {
    #[serde(borrow, default)]
    input_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    output_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    cache_read_input_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    cache_creation_input_tokens: Scalar<'a>,
}

impl Usage<'_> {
    fn tokens(&self) -> Option<Tokens> {
        sum([
            &self.input_tokens,
            &self.output_tokens,
            &self.cache_read_input_tokens,
            &self.cache_creation_input_tokens,
        ])
    }
}

/// One model's part of `modelUsage`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ModelUsage<'a> {
    #[serde(borrow, default)]
    input_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    output_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    cache_read_input_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    cache_creation_input_tokens: Scalar<'a>,
    #[serde(borrow, default)]
    cost_basis: Scalar<'a>,
}

impl ModelUsage<'_> {
    fn tokens(&self) -> Option<Tokens> {
        sum([
            &self.input_tokens,
            &self.output_tokens,
            &self.cache_read_input_tokens,
            &self.cache_creation_input_tokens,
        ])
    }
}

/// Input, output, cache read, cache write; nothing if none of them is a count.
fn sum(counts: [&Scalar<'_>; 4]) -> Option<Tokens> {
    let counts = counts.map(Scalar::whole);
    counts.iter().any(Option::is_some).then(|| {
        let [input, output, cache_read, cache_write] = counts.map(Option::unwrap_or_default);
        Tokens { input, output, cache_read, cache_write }
    })
}

/// The end marker.
#[derive(Deserialize)]
struct End<'a> {
    #[serde(borrow, default)]
    session_id: Scalar<'a>,
    #[serde(borrow, default)]
    subtype: Scalar<'a>,
    #[serde(borrow, default)]
    is_error: Scalar<'a>,
    #[serde(borrow, default)]
    api_error: Scalar<'a>,
    #[serde(borrow, default)]
    api_error_type: Scalar<'a>,
    #[serde(borrow, default)]
    api_error_status: Scalar<'a>,
    #[serde(borrow, default)]
    terminal_reason: Scalar<'a>,
    #[serde(borrow, default)]
    result: Scalar<'a>,
    #[serde(borrow, default)]
    errors: List<Scalar<'a>>,
    #[serde(default)]
    permission_denials: List<IgnoredAny>,
    #[serde(borrow, default)]
    usage: Object<Usage<'a>>,
    #[serde(borrow, default, rename = "modelUsage")]
    model_usage: Object<HashMap<String, Object<ModelUsage<'a>>>>,
    #[serde(borrow, default)]
    total_cost_usd: Scalar<'a>,
}

impl End<'_> {
    fn tell(self, out: &mut Vec<StreamEvent>) {
        session(&self.session_id, out);
        let failed_subtype = self.subtype.text().filter(|subtype| subtype.starts_with("error"));
        let ok = self.is_error.truth() == Some(false) && failed_subtype.is_none();
        let api_status = status(&self.api_error_status);
        let used_up = matches!(self.api_error.text(), Some("usage_limit_reached"));
        if !ok && (api_status == Some(429) || used_up) {
            out.push(StreamEvent::RateLimited { resets_at: None });
        }
        let error = (!ok).then(|| self.reason(failed_subtype));
        out.push(StreamEvent::Result(RunResult {
            ok,
            error,
            api_status,
            text: self.result.text().map(str::to_owned),
            denials: u32::try_from(self.permission_denials.0.len()).unwrap_or(u32::MAX),
            totals: self.totals(),
            ..RunResult::default()
        }));
    }

    /// The most telling word, then the words for people.
    fn reason(&self, failed_subtype: Option<&str>) -> String {
        let word = self
            .api_error
            .words()
            .or(failed_subtype)
            .or(self.terminal_reason.words().filter(|reason| !matches!(*reason, "api_error" | "completed")))
            .or(self.api_error_type.words())
            .or(self.terminal_reason.words())
            .unwrap_or("error");
        let errors: Vec<&str> = self.errors.0.iter().filter_map(Scalar::words).collect();
        let words = if errors.is_empty() {
            self.result.words().map(one_line)
        } else {
            Some(one_line(&errors.join("; ")))
        };
        words.map_or_else(|| word.to_owned(), |words| format!("{word}: {words}"))
    }

    fn totals(&self) -> Option<RunTotals> {
        let usage = self.usage.0.as_ref().and_then(Usage::tokens);
        let models: Vec<_> =
            self.model_usage.0.iter().flatten().filter_map(|(_, model)| model.0.as_ref()).collect();
        let mut tokens = None;
        for model in &models {
            if let Some(more) = model.tokens() {
                *tokens.get_or_insert_with(Tokens::default) += more;
            }
        }
        let by_model = tokens.is_some();
        let tokens = tokens.or(usage)?;
        // A request that never got an answer costs nothing: no model is listed, and nothing was counted.
        let nothing_used = self.model_usage.0.as_ref().is_some_and(HashMap::is_empty) && tokens.total() == 0;
        let priced = by_model && models.iter().all(|model| model.cost_basis.text() == Some("list"));
        let cost_usd = self.total_cost_usd.number().filter(|usd| *usd >= 0.0 && (priced || nothing_used));
        Some(RunTotals { tokens, cost_usd, source: CostSource::ListPrice })
    }
}
