//! A scripted stand-in for the Anthropic Messages API: plain HTTP on a port of its own, threads, no async, no TLS.
//!
//! Each `POST /v1/messages` that offers tools takes the next scripted reply; the last one repeats. Everything else that a
//! client asks (token counts, telemetry, probes, requests without tools) gets a harmless answer and takes none. Bodies,
//! connections and waits are bounded, and dropping it ends its threads.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::{Value, json};

const MAX_BODY: u64 = 32 << 20;
const MAX_HEAD: u64 = 64 << 10;
const MAX_CONNECTIONS: usize = 32;
const PATIENCE: Duration = Duration::from_secs(10);

/// What a reply says was used.
#[derive(Debug, Clone, Copy)]
pub struct Spend {
    pub input: u64,
    pub output: u64,
    pub cache_write: u64,
    pub cache_read: u64,
}

/// The first step of [`two_steps`].
pub const STEP_1: Spend = Spend { input: 11, output: 33, cache_write: 1000, cache_read: 0 };
/// The second.
pub const STEP_2: Spend = Spend { input: 22, output: 44, cache_write: 50, cache_read: 1000 };

/// One scripted answer.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Text, then a call of the tool `Bash` if there is a command, else the end of the turn.
    Message { text: String, command: Option<String>, spend: Spend },
    /// An API error; `retry_after` in seconds.
    Error { status: u16, message: String, retry_after: Option<u32> },
}

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Null if it was no JSON.
    pub body: Value,
}

impl Request {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// It asked for a step of the scripted conversation.
    pub fn scripted(&self) -> bool {
        let tools = self.body.get("tools").and_then(Value::as_array);
        self.method == "POST" && self.path == "/v1/messages" && tools.is_some_and(|tools| !tools.is_empty())
    }
}

/// One call of `Bash` with the command, then the final text `done`: 33/77/1050/1000 tokens in all.
pub fn two_steps(command: &str, done: &str) -> Vec<Reply> {
    vec![
        Reply::Message { text: "I will do it. ".into(), command: Some(command.into()), spend: STEP_1 },
        Reply::Message { text: done.into(), command: None, spend: STEP_2 },
    ]
}

/// The running server.
pub struct MockLlm {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

struct Shared {
    script: Vec<Reply>,
    served: AtomicUsize,
    requests: Mutex<Vec<Request>>,
    open: AtomicUsize,
    stop: AtomicBool,
}

impl MockLlm {
    /// Listens on a free port of `ip` and answers by the script.
    pub fn start(ip: IpAddr, script: Vec<Reply>) -> io::Result<Self> {
        let listener = TcpListener::bind((ip, 0))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script,
            served: AtomicUsize::new(0),
            requests: Mutex::default(),
            open: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
        });
        let accepting = Some(thread::Builder::new().name("mock-llm".into()).spawn({
            let shared = Arc::clone(&shared);
            move || accept(&listener, &shared)
        })?);
        Ok(Self { address, shared, accepting })
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// All requests so far, in order, those outside the script included.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.requests.lock().expect("no handler panics with the lock").clone()
    }
}

impl Drop for MockLlm {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        let mut wake = self.address;
        if wake.ip().is_unspecified() {
            wake.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let _ = TcpStream::connect_timeout(&wake, PATIENCE);
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.stop.load(Ordering::SeqCst) {
            return;
        }
        let Ok(stream) = stream else { continue };
        if shared.open.fetch_add(1, Ordering::SeqCst) >= MAX_CONNECTIONS {
            shared.open.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            // A client that goes away in the middle is no trouble of the server.
            let _ = serve(&stream, &shared);
            shared.open.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

/// One request, one response, and the connection is closed.
fn serve(mut stream: &TcpStream, shared: &Shared) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(request) = read_request(stream)? else { return Ok(()) };
    let stream_wanted = request.body.get("stream").and_then(Value::as_bool) == Some(true);
    let model = request.body.get("model").and_then(Value::as_str).unwrap_or("mock").to_owned();
    let scripted = request.scripted();
    let messages = request.method == "POST" && request.path == "/v1/messages";
    let head = request.method == "HEAD";
    let counting = request.path.ends_with("/count_tokens");
    // Taken together, so that the order of the record is the order of the script.
    let (turn, reply) = {
        let mut requests = shared.requests.lock().expect("no handler panics with the lock");
        requests.push(request);
        let turn = if scripted { shared.served.fetch_add(1, Ordering::SeqCst) } else { 0 };
        (turn, shared.script.get(turn).or(shared.script.last()).filter(|_| scripted))
    };
    let aside = Reply::Message {
        text: "ok".into(),
        command: None,
        spend: Spend { input: 0, output: 0, cache_write: 0, cache_read: 0 },
    };
    let response = match reply {
        Some(reply) => answer(reply, turn + 1, &model, stream_wanted),
        None if messages => answer(&aside, 0, &model, stream_wanted),
        None if counting => response(200, "application/json", None, &json!({"input_tokens": 0}).to_string()),
        None => response(200, "application/json", None, if head { "" } else { "{}" }),
    };
    stream.write_all(response.as_bytes())?;
    stream.flush()
}

/// `None` if the client sent nothing.
fn read_request(stream: &TcpStream) -> io::Result<Option<Request>> {
    let mut reader = BufReader::new(stream);
    let mut head = reader.by_ref().take(MAX_HEAD);
    let mut line = String::new();
    if head.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().split('?').next().unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        if head.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            headers.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length: u64 = length.and_then(|(_, value)| value.parse().ok()).unwrap_or(0);
    let mut body = Vec::new();
    reader.take(length.min(MAX_BODY)).read_to_end(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Some(Request { method, path, headers, body }))
}

fn response(status: u16, kind: &str, retry_after: Option<u32>, body: &str) -> String {
    let retry = retry_after.map(|seconds| format!("retry-after: {seconds}\r\n")).unwrap_or_default();
    format!(
        "HTTP/1.1 {status} Scripted\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n{retry}\
         request-id: req_mock\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn answer(reply: &Reply, turn: usize, model: &str, stream: bool) -> String {
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
            let body = json!({"type": "error", "error": {"type": kind, "message": message}});
            response(*status, "application/json", *retry_after, &body.to_string())
        }
        Reply::Message { text, command, spend } => {
            let message = Message { turn, model, text, command: command.as_deref(), spend };
            if stream {
                response(200, "text/event-stream", None, &message.events())
            } else {
                response(200, "application/json", None, &message.whole().to_string())
            }
        }
    }
}

struct Message<'a> {
    turn: usize,
    model: &'a str,
    text: &'a str,
    command: Option<&'a str>,
    spend: &'a Spend,
}

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
        json!({
            "id": format!("msg_mock_{}", self.turn), "type": "message", "role": "assistant", "model": self.model,
            "content": content, "stop_reason": stop_reason, "stop_sequence": null, "usage": self.usage(output),
        })
    }

    fn input(&self) -> Option<Value> {
        self.command.map(|command| json!({"command": command, "description": "Scripted"}))
    }

    fn tool(&self, input: &Value) -> Value {
        json!({"type": "tool_use", "id": format!("toolu_mock_{}", self.turn), "name": "Bash", "input": input})
    }

    fn whole(&self) -> Value {
        let mut content = vec![json!({"type": "text", "text": self.text})];
        content.extend(self.input().map(|input| self.tool(&input)));
        self.message(content.into(), self.stop_reason().into(), self.spend.output)
    }

    fn events(&self) -> String {
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
            .iter()
            .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("")))
            .collect()
    }
}

/// The stand-in checks itself wherever it is used; so no part of it goes unused either.
#[cfg(test)]
mod checks {
    use super::*;

    /// Sends one request; the whole response.
    fn ask(server: &MockLlm, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nX-Api-Key: k\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn step(stream: bool) -> String {
        json!({"model": "m", "stream": stream, "tools": [{"name": "Bash"}]}).to_string()
    }

    #[test]
    fn the_script_is_followed_and_side_requests_take_nothing_of_it() {
        let server = MockLlm::start(Ipv4Addr::LOCALHOST.into(), two_steps("ls", "bye")).unwrap();
        assert!(ask(&server, "HEAD", "/", "").starts_with("HTTP/1.1 200"));
        assert!(ask(&server, "POST", "/v1/messages/count_tokens?beta=true", "{}").contains("input_tokens"));
        assert!(ask(&server, "POST", "/api/event_logging/batch", "no json").ends_with("{}"));
        assert!(ask(&server, "POST", "/v1/messages", r#"{"model":"m"}"#).contains(r#""text":"ok""#));
        let first = ask(&server, "POST", "/v1/messages?beta=true", &step(true));
        assert!(first.contains("text/event-stream") && first.contains("message_stop"), "{first}");
        assert!(
            first.contains(r#"\"command\":\"ls\""#) && first.contains(r#""output_tokens":33"#),
            "{first}"
        );
        let second = ask(&server, "POST", "/v1/messages", &step(false));
        assert!(second.contains("application/json") && second.contains("bye") && second.contains("end_turn"));
        assert_eq!(ask(&server, "POST", "/v1/messages", &step(false)).replace("mock_3", "mock_2"), second);
        let requests = server.requests();
        let scripted: Vec<bool> = requests.iter().map(Request::scripted).collect();
        assert_eq!(scripted, [false, false, false, false, true, true, true]);
        assert_eq!(
            (requests[2].path.as_str(), &requests[2].body),
            ("/api/event_logging/batch", &Value::Null)
        );
        assert_eq!((requests[4].header("x-api-key"), requests[4].header("y")), (Some("k"), None));
    }

    #[test]
    fn errors_are_scripted_too_and_the_port_is_free_after_the_drop() {
        let error = Reply::Error { status: 429, message: "slow down".into(), retry_after: Some(7) };
        let server = MockLlm::start(Ipv4Addr::UNSPECIFIED.into(), vec![error]).unwrap();
        let text = ask(&server, "POST", "/v1/messages", &step(true));
        assert!(
            text.starts_with("HTTP/1.1 429") && text.contains("retry-after: 7") && text.contains("slow down")
        );
        assert!(text.contains("rate_limit_error"), "{text}");
        let port = server.port();
        drop(server);
        assert!(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err());
    }
}
