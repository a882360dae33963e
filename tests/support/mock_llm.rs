//! A scripted stand-in for a provider: the Anthropic Messages API and OpenAI's chat completions as OpenRouter has them.
//! Plain HTTP on a port of its own, threads, no async, no TLS.
//!
//! Each `POST …/messages` or `POST …/chat/completions` that offers tools takes the next scripted reply; the last one
//! repeats. Everything else that a client asks (token counts, prices, telemetry, probes, requests without tools) gets a
//! harmless answer and takes none. Bodies, connections and waits are bounded, and dropping it ends its threads.

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

#[path = "mock_llm/shapes.rs"]
mod shapes;

use shapes::{Asked, answer, response};

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

/// What OpenRouter says that each step cost, US dollars: not what a list of prices would give.
pub const OPENROUTER_COST: f64 = 0.0123;

/// One scripted answer.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Text, then a call of the shell tool if there is a command, else the end of the turn.
    Message { text: String, command: Option<String>, spend: Spend },
    /// The beginning of a message, then the connection is cut.
    Cut { text: String },
    /// The connection stays open and nothing comes.
    Silence,
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
        self.api().is_some() && tools.is_some_and(|tools| !tools.is_empty())
    }

    fn api(&self) -> Option<Api> {
        match &*self.path {
            _ if self.method != "POST" => None,
            path if path.ends_with("/v1/messages") => Some(Api::Anthropic),
            path if path.ends_with("/chat/completions") => Some(Api::OpenAi),
            _ => None,
        }
    }

    /// The name of the shell among the tools on offer.
    fn shell(&self) -> String {
        let tools = self.body.get("tools").and_then(Value::as_array).into_iter().flatten();
        let names = tools.filter_map(|tool| tool.get("function").unwrap_or(tool).get("name")?.as_str());
        let known = |name: &&str| ["Bash", "bash", "terminal"].contains(name);
        names.into_iter().find(known).unwrap_or("Bash").to_owned()
    }
}

/// Whose requests and answers these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Api {
    Anthropic,
    OpenAi,
}

/// One call of the shell tool with the command, then the final text `done`: 33/77/1050/1000 tokens in all.
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
    let (api, scripted, shell) = (request.api(), request.scripted(), request.shell());
    let head = request.method == "HEAD";
    let counting = request.path.ends_with("/count_tokens");
    let pricing = request.path.ends_with("/models");
    // Taken together, so that the order of the record is the order of the script.
    let (turn, reply) = {
        let mut requests = shared.requests.lock().expect("no handler panics with the lock");
        requests.push(request);
        let turn = if scripted { shared.served.fetch_add(1, Ordering::SeqCst) } else { 0 };
        (turn, shared.script.get(turn).or(shared.script.last()).filter(|_| scripted))
    };
    if matches!(reply, Some(Reply::Silence)) {
        while !shared.stop.load(Ordering::SeqCst) && !gone(stream) {
            thread::sleep(Duration::from_millis(50));
        }
        return Ok(());
    }
    let aside = Reply::Message {
        text: "ok".into(),
        command: None,
        spend: Spend { input: 0, output: 0, cache_write: 0, cache_read: 0 },
    };
    let asked = Asked {
        api: api.unwrap_or(Api::Anthropic),
        turn,
        model: &model,
        shell: &shell,
        stream: stream_wanted,
    };
    let response = match reply {
        Some(reply) => answer(reply, Asked { turn: turn + 1, ..asked }),
        None if api.is_some() => answer(&aside, asked),
        None if counting => response(200, "application/json", None, &json!({"input_tokens": 0}).to_string()),
        None if pricing => response(200, "application/json", None, &prices().to_string()),
        None => response(200, "application/json", None, if head { "" } else { "{}" }),
    };
    stream.write_all(response.as_bytes())?;
    stream.flush()
}

/// The client has closed the connection.
fn gone(stream: &TcpStream) -> bool {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(10)));
    matches!(stream.peek(&mut [0]), Ok(0))
}

/// OpenRouter's list of models, as far as prices go: US dollars per token.
fn prices() -> Value {
    let pricing = json!({
        "prompt": "0.000003", "completion": "0.000015", "request": "0",
        "input_cache_read": "0.0000003", "input_cache_write": "0.00000375",
    });
    json!({"data": [{"id": "anthropic/claude-sonnet-4.5", "name": "Scripted", "context_length": 200_000, "pricing": pricing}]})
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
    fn openrouter_gets_the_same_script_in_its_own_shape() {
        let server = MockLlm::start(Ipv4Addr::LOCALHOST.into(), two_steps("ls", "bye")).unwrap();
        let tools = json!([{"type": "function", "function": {"name": "terminal"}}]);
        let step = |stream: bool| json!({"model": "m", "stream": stream, "tools": tools}).to_string();
        assert!(ask(&server, "GET", "/v1/models", "").contains(r#""completion":"0.000015""#));
        let first = ask(&server, "POST", "/v1/chat/completions", &step(true));
        assert!(first.contains("text/event-stream") && first.ends_with("data: [DONE]\n\n"), "{first}");
        for part in [r#"{\"command\":\"ls\""#, r#""name":"terminal""#, r#""finish_reason":"tool_calls""#] {
            assert!(first.contains(part), "{part}: {first}");
        }
        for part in [r#""prompt_tokens":1011"#, r#""cache_write_tokens":1000"#, r#""cost":0.0123"#] {
            assert!(first.contains(part), "{part}: {first}");
        }
        let second = ask(&server, "POST", "/v1/chat/completions", &step(false));
        assert!(second.contains("application/json") && second.contains(r#""content":"bye""#), "{second}");
        assert!(server.requests().iter().skip(1).all(Request::scripted));
    }

    #[test]
    fn a_cut_answer_does_not_come_to_its_end_and_a_silent_one_is_none() {
        let script = vec![Reply::Cut { text: "I will not".into() }, Reply::Silence];
        let server = MockLlm::start(Ipv4Addr::LOCALHOST.into(), script).unwrap();
        let cut = ask(&server, "POST", "/v1/messages", &step(true));
        assert!(cut.contains("I ") && !cut.contains("message_stop"), "{cut}");
        assert!(!cut.contains("content-length") && !cut.contains("message_delta"), "{cut}");
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, server.port())).unwrap();
        let body = step(true);
        write!(stream, "POST /v1/messages HTTP/1.1\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
        assert!(stream.read(&mut [0]).is_err(), "nothing comes");
        drop(server);
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
