//! What a JSON line of an agent's stdout says, by its shape alone: lines of claude-code, opencode, pi and kew's own
//! vocabulary. Pure; a line that lacks what its type promises says less, never fails.

use serde_json::Value;

/// One thing that a line says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shape {
    /// What the agent wrote, or what a job printed.
    Text(String),
    /// A tool call.
    Tool { name: String, detail: String },
    /// What a tool answered.
    Output { text: String, failed: bool },
    /// How something went: sessions, ends, errors.
    Note(String),
    /// JSON that means nothing here.
    Unknown,
}

/// What the line says; `None` if it is no JSON object. Nothing at all for lines that only repeat others.
pub fn shapes(line: &str) -> Option<Vec<Shape>> {
    let json: Value = serde_json::from_str(line).ok().filter(Value::is_object)?;
    let kind = text(&json, "/type");
    Some(match kind {
        "output" => vec![Shape::Text(text(&json, "/text").into())],
        // claude-code
        "assistant" | "user" => content(&json["message"]["content"]),
        "system" if text(&json, "/subtype") == "init" => {
            vec![Shape::Note(format!(
                "session {}, model {}",
                text(&json, "/session_id"),
                text(&json, "/model")
            ))]
        }
        "result" => vec![Shape::Note(result(&json))],
        // opencode
        "text" => vec![Shape::Text(text(&json, "/part/text").into())],
        "tool_use" => {
            let part = &json["part"];
            let (tool, output) =
                (tool(text(part, "/tool"), &part["state"]["input"]), text(part, "/state/output"));
            let failed = text(part, "/state/status") == "error";
            let output = if failed { text(part, "/state/error") } else { output };
            if output.is_empty() {
                vec![tool]
            } else {
                vec![tool, Shape::Output { text: output.into(), failed }]
            }
        }
        "step_finish" => vec![Shape::Note(format!("step ended: {}", text(&json, "/part/reason")))],
        "error" => vec![Shape::Note(format!("error: {}", error(&json)))],
        // pi
        "message_end" => match text(&json, "/message/role") {
            "assistant" => assistant_end(&json["message"]),
            "toolResult" => vec![output(&json["message"]["content"], json["message"]["isError"] == true)],
            _ => Vec::new(),
        },
        // pi, and kew's own vocabulary
        "agent_settled" => {
            vec![Shape::Note(if json["aborted"] == true { "aborted" } else { "settled" }.into())]
        }
        "session" => vec![Shape::Note(format!("session {}", text(&json, "/id")))],
        "model" => vec![Shape::Note(format!("model {}", text(&json, "/name")))],
        "tool" => {
            vec![Shape::Tool { name: text(&json, "/name").into(), detail: text(&json, "/detail").into() }]
        }
        "usage" | "cost" => Vec::new(),
        "step_start"
        | "message_start"
        | "message_update"
        | "turn_start"
        | "turn_end"
        | "agent_start"
        | "agent_end"
        | "tool_execution_start"
        | "tool_execution_update"
        | "tool_execution_end" => Vec::new(),
        _ => vec![Shape::Unknown],
    })
}

/// Blocks of a message: texts, tool calls and tool results, in both spellings.
fn content(content: &Value) -> Vec<Shape> {
    if let Some(text) = content.as_str() {
        return vec![Shape::Text(text.into())];
    }
    let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let shape = |block: &Value| match text(block, "/type") {
        "text" => Some(text(block, "/text"))
            .filter(|said| !said.trim().is_empty())
            .map(|said| Shape::Text(said.into())),
        "tool_use" => Some(tool(text(block, "/name"), &block["input"])),
        "toolCall" => Some(tool(text(block, "/name"), &block["arguments"])),
        "tool_result" => Some(output(&block["content"], block["is_error"] == true)),
        "thinking" | "redacted_thinking" => None,
        _ => Some(Shape::Unknown),
    };
    blocks.iter().filter_map(shape).collect()
}

fn assistant_end(message: &Value) -> Vec<Shape> {
    let mut shapes = content(&message["content"]);
    if matches!(text(message, "/stopReason"), "error" | "aborted") {
        shapes.push(Shape::Note(format!(
            "{}: {}",
            text(message, "/stopReason"),
            text(message, "/errorMessage")
        )));
    }
    shapes
}

/// A tool call with the argument that says most: else all of them.
fn tool(name: &str, input: &Value) -> Shape {
    let telling =
        ["command", "file_path", "filePath", "path", "pattern", "query", "url", "prompt", "description"];
    let detail = telling.iter().find_map(|key| input[key].as_str()).map(str::to_owned);
    let detail = detail.unwrap_or_else(|| if input.is_null() { String::new() } else { input.to_string() });
    Shape::Tool { name: name.into(), detail }
}

fn output(content: &Value, failed: bool) -> Shape {
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            blocks.iter().map(|block| text(block, "/text")).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    };
    Shape::Output { text, failed }
}

/// The end marker of claude-code (`is_error`, `result`), or of kew's own vocabulary (`exit_code`).
fn result(json: &Value) -> String {
    let failed = json["is_error"] == true || json["error"].is_string();
    let code = json["exit_code"].as_i64();
    let word = if failed || code.is_some_and(|code| code != 0) { "failed" } else { "ended well" };
    let code = code.map(|code| format!(", exit code {code}")).unwrap_or_default();
    let said = ["/error", "/result", "/text"]
        .into_iter()
        .map(|place| text(json, place))
        .find(|said| !said.is_empty());
    match said {
        None => format!("{word}{code}"),
        Some(said) => format!("{word}{code}: {said}"),
    }
}

fn error(json: &Value) -> &str {
    ["/error/data/message", "/error/message", "/error/name", "/error", "/message"]
        .into_iter()
        .map(|place| text(json, place))
        .find(|said| !said.is_empty())
        .unwrap_or_default()
}

fn text<'a>(json: &'a Value, pointer: &str) -> &'a str {
    json.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
