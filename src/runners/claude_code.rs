//! The claude CLI: its arguments, its credentials and the models that it can route.
//!
//! Not its lines (see `line`). A model id of another provider is refused here, before a container exists, because the
//! CLI would only learn it from the provider's 404.

mod line;

use super::{Kind, Runner, StopSignal, host::HostCommand};
use crate::{plan::world::Metering, stream::StreamEvent};

/// Short names that the CLI resolves by itself; each may carry [`LONG_CONTEXT`].
const ALIASES: &[&str] = &["sonnet", "opus", "haiku", "fable", "best", "opusplan", "default"];

/// Suffix that asks for the long context window.
const LONG_CONTEXT: &str = "[1m]";

/// Starts of model names of other makers, and who they are.
const OTHER_MAKERS: &[(&str, &str)] = &[
    ("gpt", "an OpenAI model"),
    ("chatgpt", "an OpenAI model"),
    ("codex", "an OpenAI model"),
    ("o1", "an OpenAI model"),
    ("o3", "an OpenAI model"),
    ("o4", "an OpenAI model"),
    ("gemini", "a Google model"),
    ("gemma", "a Google model"),
    ("grok", "an xAI model"),
    ("llama", "a Meta model"),
    ("mistral", "a Mistral model"),
    ("devstral", "a Mistral model"),
    ("deepseek", "a DeepSeek model"),
    ("qwen", "a Qwen model"),
    ("kimi", "a Moonshot model"),
    ("glm", "a Z.ai model"),
];

/// The claude CLI.
#[derive(Debug, Clone, Copy)]
pub struct ClaudeCode;

impl Runner for ClaudeCode {
    fn name(&self) -> &'static str {
        "claude-code"
    }

    fn kind(&self) -> Kind {
        Kind::Agent
    }

    fn container_args(&self, model: Option<&str>) -> Vec<String> {
        let mut args: Vec<String> =
            ["--dangerously-skip-permissions", "--verbose", "--output-format", "stream-json"]
                .map(str::to_owned)
                .into();
        if let Some(model) = model {
            args.extend(["--model".to_owned(), model.to_owned()]);
        }
        args
    }

    fn build_command(&self, model: Option<&str>) -> Result<HostCommand, String> {
        let command = HostCommand::stdin("claude", &["--print"], self.container_args(model));
        Ok(HostCommand { session: Some("--session-id"), ..command })
    }

    fn required_credentials(&self) -> &'static [&'static str] {
        &["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"]
    }

    fn subscription(&self, credential: &str) -> bool {
        credential == "CLAUDE_CODE_OAUTH_TOKEN"
    }

    fn credential_advice(&self) -> Option<&'static str> {
        Some(
            "for a subscription run `claude setup-token` on a machine where you are logged in, and export what it prints as \
             CLAUDE_CODE_OAUTH_TOKEN; else make an API key in Anthropic's console and export it as ANTHROPIC_API_KEY",
        )
    }

    fn model_shape(&self) -> &'static str {
        "`claude-…` ids, or an alias such as `sonnet`, `opus`, `haiku`; each may end in `[1m]`"
    }

    fn program(&self) -> Option<&'static str> {
        Some("claude")
    }

    fn hosts(&self) -> &'static [&'static str] {
        &["api.anthropic.com"]
    }

    fn route(&self, model: &str) -> Result<(), String> {
        let bare = model.strip_suffix(LONG_CONTEXT).unwrap_or(model);
        let plain = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
        let full = bare.strip_prefix("claude-").is_some_and(|rest| !rest.is_empty());
        if ALIASES.contains(&bare) || (full && bare.bytes().all(plain)) {
            return Ok(());
        }
        Err(refuse(model, bare))
    }

    fn metering(&self) -> Metering {
        Metering::AtEnd
    }

    fn parse_line(&self, line: &[u8], out: &mut Vec<StreamEvent>) {
        line::parse(line, out);
    }

    fn stop_signal(&self) -> StopSignal {
        StopSignal::Int
    }
}

/// Why the claude CLI does not get this model, and what to write instead.
fn refuse(model: &str, bare: &str) -> String {
    if model.is_empty() {
        return "is empty; name a model such as `sonnet` or `claude-sonnet-4-5`".into();
    }
    if model.starts_with('-') {
        return "starts with -, which the claude CLI would take as an option".into();
    }
    if model.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return "has a space or a control character in it".into();
    }
    if let Some((_, last)) = bare.rsplit_once('/') {
        let advice = match last.split_once(':').map_or(last, |(name, _)| name) {
            name if name.starts_with("claude-") => {
                format!("write the bare id (`{}`) or choose the runner `opencode`", name.replace('.', "-"))
            }
            _ => "choose a runner that goes through OpenRouter, such as `opencode`".into(),
        };
        return format!("looks like an OpenRouter id, which the claude CLI cannot route; {advice}");
    }
    let lower = bare.to_ascii_lowercase();
    if lower != bare && (ALIASES.contains(&lower.as_str()) || lower.starts_with("claude-")) {
        return format!("has capital letters; write `{}`", model.to_ascii_lowercase());
    }
    if lower.contains("anthropic.") || lower.starts_with("arn:") {
        return "looks like an Amazon Bedrock id; the container has no AWS credential, write the bare `claude-…` id".into();
    }
    if lower.starts_with("claude-") && lower.contains('@') {
        return "looks like a Vertex AI id; the container has no Google credential, write the bare `claude-…` id".into();
    }
    if let Some((_, maker)) = OTHER_MAKERS.iter().find(|(start, _)| lower.starts_with(start)) {
        return format!("looks like {maker}, which the claude CLI cannot route; choose another runner");
    }
    format!("is no model of the claude CLI; write a `claude-…` id or one of `{}`", ALIASES.join("`, `"))
}
