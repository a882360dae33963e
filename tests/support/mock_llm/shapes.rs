//! The scripted answers in the two shapes that clients know: Anthropic's messages and OpenRouter's chat completions, each
//! whole or as a stream of events.

use serde_json::{Value, json};

use super::{Api, OPENROUTER_COST, Reply, Spend};

pub fn response(status: u16, kind: &str, retry_after: Option<u32>, body: &str) -> String {
    let retry = retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
    format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{retry}\
         request-id: req_mock\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// What a request wants to have answered.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub api: Api,
    pub turn: usize,
    pub model: &'a str,
    pub shell: &'a str,
    pub stream: bool,
}

pub fn answer(reply: &Reply, asked: Asked<'_>) -> String {
    let none = Spend { input: 11, output: 1, cache_write: 1000, cache_read: 0 };
    match reply {
        Reply::Error { status, message, retry_after } => {
            let kind = match status {
                400 => "invalid_request_error",
                401 => "authentication_error",
                403 => "permission_error",
                404 => "not_found_error",
                429 => "rate_limit_error",
                529 => "overloaded_error",
                _ => "api_error",
            };
            let body = match asked.api {
                Api::Anthropic => json!({"type": "error", "error": {"type": kind, "message": message}}),
                Api::OpenAi => json!({"error": {"message": message, "code": status}}),
            };
            response(*status, "application/json", *retry_after, &body.to_string())
        }
        Reply::Message { text, command, spend } => {
            let message = Message { asked, text, command: command.as_deref(), spend };
            if asked.stream {
                response(200, "text/event-stream", None, &message.events().concat())
            } else {
                response(200, "application/json", None, &message.whole().to_string())
            }
        }
        Reply::Cut { text } => {
            let message = Message { asked, text, command: None, spend: &none };
            let events = message.events();
            // No length is announced, so that the end of the connection looks like the end of the answer.
            let head =
                "HTTP/1.1 200 Scripted\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            format!("{head}{}", events[..events.len() - 3].concat())
        }
        Reply::Silence => String::new(),
    }
}

struct Message<'a> {
    asked: Asked<'a>,
    text: &'a str,
    command: Option<&'a str>,
    spend: &'a Spend,
}

impl Message<'_> {
    fn input(&self) -> Option<Value> {
        self.command.map(|command| json!({"command": command, "description": "Scripted"}))
    }

    fn whole(&self) -> Value {
        match self.asked.api {
            Api::Anthropic => self.anthropic_whole(),
            Api::OpenAi => self.openai_whole(),
        }
    }

    fn events(&self) -> Vec<String> {
        match self.asked.api {
            Api::Anthropic => {
                let line = |event: &Value| {
                    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or(""))
                };
                self.anthropic_events().iter().map(line).collect()
            }
            Api::OpenAi => {
                let chunks = self.openai_chunks();
                let chunks = chunks.iter().map(|chunk| format!("data: {chunk}\n\n"));
                chunks.chain(["data: [DONE]\n\n".to_owned()]).collect()
            }
        }
    }
}

/// Anthropic's shapes.
impl Message<'_> {
    fn stop_reason(&self) -> &'static str {
        if self.command.is_some() { "tool_use" } else { "end_turn" }
    }

    /// As in the real API, a stream starts with a placeholder where the output count will be.
    fn usage(&self, output: u64) -> Value {
        json!({
            "input_tokens": self.spend.input,
            "output_tokens": output,
            "cache_creation_input_tokens": self.spend.cache_write,
            "cache_read_input_tokens": self.spend.cache_read,
            "service_tier": "standard",
        })
    }

    fn message(&self, content: Value, stop_reason: Value, output: u64) -> Value {
        let Asked { turn, model, .. } = self.asked;
        json!({
            "id": format!("msg_mock_{turn}"), "type": "message", "role": "assistant", "model": model,
            "content": content, "stop_reason": stop_reason, "stop_sequence": null, "usage": self.usage(output),
        })
    }

    fn tool(&self, input: &Value) -> Value {
        let Asked { turn, shell, .. } = self.asked;
        json!({"type": "tool_use", "id": format!("toolu_mock_{turn}"), "name": shell, "input": input})
    }

    fn anthropic_whole(&self) -> Value {
        let mut content = vec![json!({"type": "text", "text": self.text})];
        content.extend(self.input().map(|input| self.tool(&input)));
        self.message(content.into(), self.stop_reason().into(), self.spend.output)
    }

    fn anthropic_events(&self) -> Vec<Value> {
        let mut events = vec![
            json!({"type": "message_start", "message": self.message(json!([]), Value::Null, 1)}),
            json!({"type": "ping"}),
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ];
        for word in self.text.split_inclusive(' ') {
            let delta = json!({"type": "text_delta", "text": word});
            events.push(json!({"type": "content_block_delta", "index": 0, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": 0}));
        if let Some(input) = self.input() {
            let delta = json!({"type": "input_json_delta", "partial_json": input.to_string()});
            events.push(
                json!({"type": "content_block_start", "index": 1, "content_block": self.tool(&json!({}))}),
            );
            events.push(json!({"type": "content_block_delta", "index": 1, "delta": delta}));
            events.push(json!({"type": "content_block_stop", "index": 1}));
        }
        events.push(json!({
            "type": "message_delta",
            "delta": {"stop_reason": self.stop_reason(), "stop_sequence": null},
            "usage": {"output_tokens": self.spend.output},
        }));
        events.push(json!({"type": "message_stop"}));
        events
    }
}

/// OpenRouter's shapes: OpenAI's, with what was written to the cache and what it cost.
impl Message<'_> {
    fn openai_usage(&self) -> Value {
        let Spend { input, output, cache_write, cache_read } = self.spend;
        let prompt = input + cache_write + cache_read;
        json!({
            "prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": cache_read, "cache_write_tokens": cache_write},
            "completion_tokens_details": {"reasoning_tokens": output.min(&7)},
            "cost": OPENROUTER_COST, "is_byok": false,
        })
    }

    fn finish_reason(&self) -> &'static str {
        if self.command.is_some() { "tool_calls" } else { "stop" }
    }

    fn calls(&self) -> Option<Value> {
        let Asked { turn, shell, .. } = self.asked;
        let function = json!({"name": shell, "arguments": self.input()?.to_string()});
        Some(
            json!([{"index": 0, "id": format!("call_mock_{turn}"), "type": "function", "function": function}]),
        )
    }

    fn openai_whole(&self) -> Value {
        let mut message = json!({"role": "assistant", "content": self.text});
        if let Some(calls) = self.calls() {
            message["tool_calls"] = calls;
        }
        let choice = json!({"index": 0, "message": message, "finish_reason": self.finish_reason()});
        let Asked { turn, model, .. } = self.asked;
        json!({
            "id": format!("gen-mock-{turn}"), "object": "chat.completion", "created": 1, "model": model,
            "choices": [choice], "usage": self.openai_usage(),
        })
    }

    fn openai_chunks(&self) -> Vec<Value> {
        let Asked { turn, model, .. } = self.asked;
        let chunk = |choices: Value| {
            json!({
                "id": format!("gen-mock-{turn}"), "object": "chat.completion.chunk", "created": 1, "model": model,
                "choices": choices,
            })
        };
        let delta = |delta: Value| chunk(json!([{"index": 0, "delta": delta, "finish_reason": null}]));
        let mut chunks = vec![delta(json!({"role": "assistant", "content": ""}))];
        chunks.extend(self.text.split_inclusive(' ').map(|word| delta(json!({"content": word}))));
        chunks.extend(self.calls().map(|calls| delta(json!({"tool_calls": calls}))));
        chunks.push(chunk(json!([{"index": 0, "delta": {}, "finish_reason": self.finish_reason()}])));
        let mut usage = chunk(json!([]));
        usage["usage"] = self.openai_usage();
        chunks.push(usage);
        chunks
    }
}
