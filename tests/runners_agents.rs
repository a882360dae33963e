//! The runners `opencode`, `pi` and `hermes`: their arguments, the models they take, and recorded streams of every ending.

use kew::{
    outcome::{EngineEnd, StopCause, judge_end},
    runners::{self, Kind, Runner, StopSignal},
    stream::{Account, CostSource, RunResult, StreamEvent, Tokens},
};
use proptest::prelude::*;

const AGENTS: [&str; 3] = ["opencode", "pi", "hermes"];
const STEP_1: Tokens = Tokens { input: 11, output: 33, cache_read: 0, cache_write: 1000 };
const BOTH: Tokens = Tokens { input: 33, output: 77, cache_read: 1000, cache_write: 1050 };
const NONE: Tokens = Tokens { input: 0, output: 0, cache_read: 0, cache_write: 0 };
const COST: f64 = 0.0054915;

fn runner(name: &str) -> &'static dyn Runner {
    runners::find(name).unwrap()
}

fn parse(name: &str, line: impl AsRef<[u8]>) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    runner(name).parse_line(line.as_ref(), &mut events);
    events
}

fn account(name: &str, stream: impl AsRef<[u8]>) -> Account {
    let mut account = Account::default();
    for event in stream.as_ref().split(|b| *b == b'\n').flat_map(|line| parse(name, line)) {
        account.apply(&event);
    }
    account
}

/// The outcome of a stream whose process ended with this status.
fn outcome(account: &Account, exit: i32) -> String {
    ended(account, exit, "")
}

fn ended(account: &Account, exit: i32, stderr: &str) -> String {
    let end = EngineEnd {
        started: true,
        exit: Some(exit),
        oom: Some(false),
        stderr_tail: stderr.to_owned(),
        ..EngineEnd::default()
    };
    match judge_end(None, &end, account) {
        Ok(()) => "passed".to_owned(),
        Err(outcome) => format!("{}: {}", outcome.kind.word(), outcome.reason.unwrap_or_default()),
    }
}

fn file(name: &str, case: &str, kind: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}/{case}.{kind}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn arguments_and_credentials_are_the_contracts() {
    let args = |name: &str, model| runner(name).container_args(Some(model)).join(" ");
    assert_eq!(
        args("opencode", "openrouter/anthropic/claude-sonnet-4.5"),
        "--format json --auto --title kew --model openrouter/anthropic/claude-sonnet-4.5"
    );
    assert_eq!(
        args("pi", "openrouter/anthropic/claude-sonnet-4.5"),
        "--mode json --no-session --model openrouter/anthropic/claude-sonnet-4.5"
    );
    assert_eq!(
        args("hermes", "anthropic/claude-sonnet-4.5"),
        "--provider openrouter --model anthropic/claude-sonnet-4.5"
    );
    for name in AGENTS {
        let runner = runner(name);
        assert_eq!(runner.required_credentials(), ["OPENROUTER_API_KEY"], "{name}");
        assert_eq!((runner.kind(), runner.stop_signal()), (Kind::Agent, StopSignal::Term), "{name}");
        assert!(!runner.free() && runner.refusal().is_none() && runner.step_cap().is_some(), "{name}");
    }
    assert!(runner("opencode").idle_timeout().is_some() && runner("hermes").idle_timeout().is_none());
    assert!(runner("lemonade").refusal().is_some());
}

#[test]
fn openrouter_models_are_routed_and_others_are_told_the_shape() {
    for model in [
        "anthropic/claude-sonnet-4.5",
        "deepseek/deepseek-chat-v3.1:free",
        "openai/gpt-5-mini",
        "~anthropic/claude-latest",
    ] {
        for name in ["opencode", "pi"] {
            assert_eq!(runner(name).route(&format!("openrouter/{model}")), Ok(()), "{name} {model}");
        }
        assert_eq!(runner("hermes").route(model), Ok(()), "{model}");
    }
    assert_eq!(runner("opencode").route("openrouter/openrouter/auto"), Ok(()));
    assert_eq!(runner("pi").route("openrouter/z-ai/glm-4.6:high"), Ok(()));
    assert_eq!(runner("hermes").route("openrouter/auto"), Ok(()));
    for (names, model, words) in [
        (&AGENTS[..2], "claude-sonnet-4-5", "`openrouter/anthropic/claude-sonnet-4-5`"),
        (&AGENTS[..2], "claude-sonnet-4-5", "bare name"),
        (&AGENTS[..2], "gpt-5", "`openrouter/openai/gpt-5`"),
        (&AGENTS[..2], "sonnet", "`openrouter/maker/model`"),
        (&AGENTS[..2], "anthropic/claude-sonnet-4-5", "write `openrouter/anthropic/claude-sonnet-4-5`"),
        (&AGENTS[..2], "openrouter/gpt-5", "names no maker"),
        (&AGENTS[2..], "claude-sonnet-4.5", "`anthropic/claude-sonnet-4.5`"),
        (&AGENTS[2..], "openrouter/anthropic/claude-sonnet-4.5", "write `anthropic/claude-sonnet-4.5`"),
        (&AGENTS[2..], "a/b/c", "too many parts"),
        (&AGENTS, "", "is empty"),
        (&AGENTS, "--auto", "starts with -"),
        (&AGENTS, "openrouter/a/b c", "space"),
        (&AGENTS, "openrouter/a/b\n", "control character"),
        (&AGENTS, "openrouter//b", "empty part"),
        (&AGENTS, "openrouter/a/", "empty part"),
        (&AGENTS, "openrouter/a/b$c", "`$`"),
    ] {
        for name in names {
            let refusal = runner(name).route(model).expect_err(model);
            assert!(refusal.contains(words), "{name} {model:?}: {refusal}");
        }
    }
}

/// What a recorded stream must come to.
struct Case {
    name: &'static str,
    model: Option<&'static str>,
    tokens: Option<Tokens>,
    cost: Option<f64>,
    /// How its outcome begins, with the recorded exit status.
    outcome: &'static str,
}

const fn case(
    name: &'static str,
    model: Option<&'static str>,
    tokens: Option<Tokens>,
    cost: Option<f64>,
    outcome: &'static str,
) -> Case {
    Case { name, model, tokens, cost, outcome }
}

/// Nothing counted.
const fn bare(name: &'static str, outcome: &'static str) -> Case {
    case(name, None, None, None, outcome)
}

const CUT: &str = "failed: ended too early: a step began and did not finish";

const OPENCODE: &[Case] = &[
    // In OpenAI's flavour the prompt's tokens that were written to the cache are not told apart.
    case(
        "ok",
        None,
        Some(Tokens { input: 1083, output: 77, cache_read: 1000, cache_write: 0 }),
        Some(0.004704),
        "passed",
    ),
    case("ok-anthropic", None, Some(BOTH), Some(COST), "passed"),
    case("argv-and-stdin", None, Some(BOTH), Some(COST), "passed"),
    case("dsp-flag", None, Some(BOTH), Some(COST), "passed"),
    case("git-ext", None, Some(BOTH), Some(COST), "passed"),
    case("noauto", None, Some(BOTH), Some(COST), "passed"),
    case("timing", None, Some(BOTH), Some(COST), "passed"),
    case("title-flag", None, Some(BOTH), Some(COST), "passed"),
    bare("badflag", "failed: no end marker from the agent (exit status 1); it said: "),
    bare("empty", "failed: no end marker from the agent (exit status 1); it said: "),
    bare("e401", "credential-refused: HTTP 401: APIError: invalid x-api-key"),
    bare("e401-openrouter", "credential-refused: HTTP 401: APIError: invalid x-api-key"),
    bare("e404", "failed: APIError: model: claude-sonnet-4-5"),
    bare("e429", "rate-limited: APIError: This request would exceed"),
    bare("e500", "failed: no end marker from the agent (exit status 137)"),
    bare("e500-long", "failed: APIError: Internal server error"),
    bare("errsse", CUT),
    bare("killed", CUT),
    bare("killed-int", CUT),
    bare("killed3", CUT),
    bare("nokey", "failed: ProviderAuthError: Anthropic API key is missing"),
    bare("docker/oc-stop", CUT),
    bare("docker/oc-stop-init", CUT),
];

const S45: Option<&str> = Some("claude-sonnet-4-5");
const AFTER_A_CALL: &str = "failed: ended too early: after a tool call (exit status 1";

const PI: &[Case] = &[
    case("ok", S45, Some(BOTH), Some(COST), "passed"),
    case("ok-openrouter", Some("anthropic/claude-sonnet-4.5"), Some(BOTH), Some(COST), "passed"),
    case("ok-custom", Some("mock-model"), Some(BOTH), Some(COST), "passed"),
    case("ok-old074", S45, Some(BOTH), Some(COST), "passed"),
    case("at-file", S45, Some(BOTH), Some(COST), "passed"),
    case("offline", S45, Some(BOTH), Some(COST), "passed"),
    case("modelunknown", Some("claude-nope-9"), Some(BOTH), Some(0.007122), "passed"),
    case("docker/pi-ok", S45, Some(BOTH), Some(COST), "passed"),
    case("maxtok", S45, Some(BOTH), Some(COST), "failed: ended too early: the answer grew longer"),
    case("e401", S45, Some(NONE), Some(0.0), "credential-refused: HTTP 401: authentication_error: invalid x"),
    case("e404", S45, Some(NONE), Some(0.0), "failed: not_found_error: model: claude-sonnet-4-5"),
    case("e500", S45, Some(NONE), Some(0.0), "failed: api_error: Internal server error"),
    case("killed", S45, Some(STEP_1), Some(0.004278), AFTER_A_CALL),
    case("killed-int", S45, Some(STEP_1), Some(0.004278), AFTER_A_CALL),
    case("docker/pi-stop", S45, Some(STEP_1), Some(0.004278), AFTER_A_CALL),
    bare("killed-api", "failed: no end marker from the agent (exit status 143)"),
    bare("badflag", "failed: no end marker from the agent (exit status 1); it said: Error: Unknown option"),
    bare("nokey", "failed: no end marker from the agent (exit status 1); it said: No API key"),
    bare("text-e401", "failed: no end marker from the agent (exit status 1)"),
    bare("empty", "failed: no end marker from the agent (exit status 0)"),
    bare("whitespace", "failed: no end marker from the agent (exit status 0)"),
];

/// What the CLI by itself prints is no end marker; only what its image adds is one.
const PROSE: &str = "failed: no end marker from the agent (exit status 0)";

const HERMES: &[Case] = &[
    case("shim-ok", Some("mock-model"), Some(BOTH), None, "passed"),
    bare("shim-e401", "credential-refused: HTTP 401: invalid x-api-key"),
    bare("ok", PROSE),
    bare("anthropic", PROSE),
    bare("ok-chat", PROSE),
    bare("e401", PROSE),
    bare("e402", PROSE),
    bare("e404", PROSE),
    bare("e500", PROSE),
    bare("empty", PROSE),
    bare("stdin", PROSE),
    bare("stdin-dash", PROSE),
    bare("chat-e401", "failed: no end marker from the agent (exit status 1)"),
    bare("nokey", "failed: no end marker from the agent (exit status 1); it said: hermes -z: agent failed"),
    bare("killed", "failed: no end marker from the agent (exit status 143)"),
    bare("killed-int", "failed: no end marker from the agent (exit status 130)"),
];

#[test]
fn recorded_streams_come_to_what_was_measured() {
    for (runner, cases) in [("opencode", OPENCODE), ("pi", PI), ("hermes", HERMES)] {
        for case in cases {
            let name = format!("{runner}/{}", case.name);
            let stream = file(runner, case.name, "stdout.jsonl");
            let account = account(runner, &stream);
            assert_eq!(account.model.as_deref(), case.model, "{name}: model");
            assert_eq!(account.tokens(), case.tokens, "{name}: tokens");
            match (account.cost_usd(), case.cost) {
                (Some(found), Some(usd)) => {
                    assert!((found - usd).abs() < 1e-9, "{name}: {found}");
                    assert_eq!(account.cost_source(), CostSource::ListPrice, "{name}");
                }
                (found, expected) => {
                    assert_eq!(found, expected, "{name}: cost");
                    assert_eq!(account.cost_source(), CostSource::Unknown, "{name}");
                }
            }
            let exit: i32 = file(runner, case.name, "exit").trim().parse().unwrap();
            // A death by signal, as a container tells it.
            let exit = if exit < 0 { 128 - exit } else { exit };
            let found = ended(&account, exit, &file(runner, case.name, "stderr"));
            assert!(found.starts_with(case.outcome), "{name}: {found}");
            assert_eq!(found == "passed", case.outcome == "passed", "{name}: {found}");
            // Every line of JSON that these CLIs print comes after the session's id, but for the image's own failure line.
            match &account.session {
                Some(session) => assert!(stream.contains(session.as_str()), "{name}"),
                None => assert!(!stream.starts_with('{') || case.name == "shim-e401", "{name}: no session"),
            }
        }
    }
}

#[test]
fn every_recorded_stream_has_a_case() {
    for (runner, cases) in [("opencode", OPENCODE), ("pi", PI), ("hermes", HERMES)] {
        let mut seen = 0;
        for prefix in ["", "docker/"] {
            let folder = format!("{}/tests/fixtures/{runner}/{prefix}", env!("CARGO_MANIFEST_DIR"));
            for entry in std::fs::read_dir(folder).into_iter().flatten() {
                let file = entry.unwrap().file_name().into_string().unwrap();
                let Some(stem) = file.strip_suffix(".stdout.jsonl") else { continue };
                let name = format!("{prefix}{stem}");
                assert!(cases.iter().any(|case| case.name == name), "{runner}/{name} has no case");
                seen += 1;
            }
        }
        assert_eq!(seen, cases.len(), "{runner}");
    }
}

/// A step of opencode's that finished for this reason.
fn finish(id: &str, reason: &str, tokens: &str, cost: f64) -> String {
    format!(
        r#"{{"type":"step_finish","sessionID":"ses_1","part":{{"id":"{id}","reason":"{reason}","type":"step-finish","tokens":{tokens},"cost":{cost}}}}}"#
    )
}

const USED: &str = r#"{"input":1,"output":2,"reasoning":3,"cache":{"read":4,"write":5}}"#;
const EMPTY: &str = r#"{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}}"#;
const START: &str = r#"{"type":"step_start","sessionID":"ses_1","part":{"id":"p"}}"#;
const ERROR: &str = r#"{"type":"error","sessionID":"ses_1","error":{"name":"APIError","data":{"message":"no","statusCode":400,"responseHeaders":{"authorization":"sk-secret"}}}}"#;

#[test]
fn opencode_ends_well_only_after_a_last_step_that_stopped() {
    let stop = finish("a", "stop", USED, 0.5);
    let calls = finish("b", "tool-calls", USED, 0.5);
    let after = |lines: &[&str]| outcome(&account("opencode", lines.join("\n")), 0);
    assert_eq!(after(&[START, &calls, START, &stop]), "passed");
    // Exit status 0 in all of them.
    assert_eq!(after(&[START]), CUT);
    assert_eq!(after(&[START, &calls]), "failed: ended too early: after a tool call");
    assert_eq!(after(&[START, &stop, START]), CUT);
    assert!(
        after(&[START, &finish("a", "length", USED, 0.5)]).starts_with("failed: ended too early: the answer")
    );
    assert!(after(&[START, &finish("a", "unknown", EMPTY, 0.0)]).contains("cut off"));
    assert!(after(&[START, &finish("a", "content-filter", USED, 0.5)]).contains("`content-filter`"));
    assert_eq!(after(&[ERROR, START, &stop]), "failed: APIError: no", "an error is not made good");
    assert_eq!(after(&[START, &stop, ERROR]), "failed: APIError: no");
    assert!(!after(&[ERROR]).contains("sk-secret"));
    let good = account("opencode", &stop);
    assert_eq!(outcome(&good, 1), "failed: exit status 1, although the agent reported success");
}

#[test]
fn opencode_counts_reasoning_as_output_and_each_part_once() {
    let twice = [finish("a", "stop", USED, 0.5), finish("a", "stop", USED, 0.5)].join("\n");
    let account = account("opencode", twice);
    let tokens = Tokens { input: 1, output: 5, cache_read: 4, cache_write: 5 };
    assert_eq!((account.tokens(), account.cost_usd(), account.steps()), (Some(tokens), Some(0.5), 1));
}

#[test]
fn a_price_of_zero_for_tokens_is_unknown_not_free() {
    let lines = [finish("a", "tool-calls", USED, 0.5), finish("b", "stop", USED, 0.0)].join("\n");
    let mixed = account("opencode", lines);
    assert_eq!((mixed.cost_usd(), mixed.cost_source()), (Some(0.5), CostSource::Unknown), "at least");
    let unpriced = account("opencode", finish("a", "stop", USED, 0.0));
    assert_eq!((unpriced.cost_usd(), unpriced.cost_source()), (None, CostSource::Unknown));
    let from = |from: bool, total: f64| {
        let line = format!(
            r#"{{"type":"message_end","message":{{"role":"assistant","usage":{{"input":1,"output":2,"cost":{{"total":{total},"totalFromProvider":{from}}}}},"stopReason":"stop"}}}}"#
        );
        let account = account("pi", line);
        (account.cost_usd(), account.cost_source())
    };
    assert_eq!(from(false, 0.0), (None, CostSource::Unknown));
    assert_eq!(from(true, 0.0), (Some(0.0), CostSource::Provider), "a free model");
    assert_eq!(from(true, 0.0123), (Some(0.0123), CostSource::Provider), "not the sum of its parts");
    assert_eq!(from(false, 0.25), (Some(0.25), CostSource::ListPrice));
}

#[test]
fn opencode_tells_a_refused_call() {
    let call = |error: &str| {
        let line = format!(
            r#"{{"type":"tool_use","sessionID":"s","part":{{"type":"tool","tool":"bash","state":{{"status":"error","error":"{error}","input":{{"command":"ls  -l\n"}}}}}}}}"#
        );
        parse("opencode", line)
    };
    let tool = StreamEvent::Tool { name: "bash".into(), detail: "ls -l".into() };
    let refused = StreamEvent::PermissionDenied { tool: "bash".into() };
    let session = StreamEvent::Session { id: "s".into() };
    for words in [
        "The user rejected permission to use this specific tool call.",
        "The user has specified a rule which prevents you from using this specific tool call. Here are the rules",
    ] {
        assert_eq!(call(words), [session.clone(), tool.clone(), refused.clone()], "{words}");
    }
    assert_eq!(call("no such file"), [session, tool]);
}

/// A message of pi's assistant that stopped for this reason.
fn message(stop: &str, more: &str) -> String {
    format!(
        r#"{{"type":"message_end","message":{{"role":"assistant","model":"m","usage":{{"input":1,"output":2}},"stopReason":"{stop}"{more}}}}}"#
    )
}

#[test]
fn pi_ends_well_only_once_it_has_settled() {
    let after = |lines: &[&str]| outcome(&account("pi", lines.join("\n")), 0);
    let settled = r#"{"type":"agent_settled","aborted":false}"#;
    let stop = message("stop", "");
    assert_eq!(after(&[&stop, settled]), "passed");
    // Exit status 0 in all of them.
    assert_eq!(after(&[&stop]), "failed: no end marker from the agent (exit status 0)");
    assert_eq!(after(&[&stop, r#"{"type":"agent_end","willRetry":false}"#]), after(&[&stop]));
    assert_eq!(after(&[&stop, r#"{"type":"agent_settled","aborted":true}"#]), "failed: aborted");
    assert_eq!(
        after(&[settled]),
        "failed: no end marker from the agent (exit status 0)",
        "nothing was asked"
    );
    assert_eq!(
        after(&[&stop, settled, &message("toolUse", "")]),
        "failed: ended too early: after a tool call"
    );
    for stop in ["toolUse", "length", "aborted", "pending", "new-word"] {
        assert!(after(&[&message(stop, ""), settled]).starts_with("failed: ended too early: "), "{stop}");
    }
    let given_up = r#"{"type":"auto_retry_end","success":false,"attempt":3,"finalError":"429 {\"error\":{\"message\":\"slow down\"}}"}"#;
    assert_eq!(after(&[given_up, settled]), "rate-limited: slow down");
}

#[test]
fn pi_says_what_the_provider_said() {
    let said = |text: &str| {
        let more = format!(r#","errorMessage":{}"#, serde_json::to_string(text).unwrap());
        let result = account("pi", message("error", &more)).result.unwrap();
        (result.api_status, result.error.unwrap())
    };
    let body = r#"401 {"type":"error","error":{"type":"authentication_error","message":"invalid"}}"#;
    assert_eq!(said(body), (Some(401), "authentication_error: invalid".into()));
    assert_eq!(said("402: Insufficient credits"), (Some(402), "Insufficient credits".into()));
    assert_eq!(said("404 No endpoints found"), (Some(404), "No endpoints found".into()));
    assert_eq!(said("503"), (Some(503), "503".into()));
    assert_eq!(said(r#"500 {"message":"down"}"#), (Some(500), "down".into()));
    assert_eq!(said("12 monkeys"), (None, "12 monkeys".into()));
    assert_eq!(said("Connection error."), (None, "Connection error.".into()));
    let retry = parse(
        "pi",
        r#"{"type":"auto_retry_start","attempt":1,"errorMessage":"500 {\"error\":{\"message\":\"x\"}}"}"#,
    );
    assert_eq!(retry, [StreamEvent::Retry { status: Some(500), message: "x".into() }]);
}

#[test]
fn hermes_ends_well_only_if_it_says_that_it_completed() {
    let after = |fields: &str| {
        let line = format!(r#"{{"type":"result","exit_code":0,"text":"Done.","session_id":"s",{fields}}}"#);
        outcome(&account("hermes", line), 0)
    };
    assert_eq!(after(r#""completed":true,"failed":false"#), "passed");
    // Exit status 0 in all of them.
    for fields in [
        r#""completed":false,"failed":false"#,
        r#""completed":true,"failed":true"#,
        r#""completed":null,"failed":false"#,
        r#""failed":false"#,
        r#""completed":true,"failed":false,"partial":true"#,
        r#""completed":true,"failed":false,"interrupted":true"#,
    ] {
        assert!(after(fields).starts_with("failed: "), "{fields}: {}", after(fields));
    }
    let told = |text: &str| {
        let line =
            format!(r#"{{"type":"result","exit_code":0,"text":"{text}","completed":false,"failed":true}}"#);
        outcome(&account("hermes", line), 1)
    };
    assert_eq!(told("HTTP 403: not yours"), "credential-refused: HTTP 403: not yours");
    assert_eq!(
        told("API call failed after 3 retries: HTTP 429: slow down"),
        "rate-limited: API call failed after 3 retries: HTTP 429: slow down"
    );
    assert_eq!(told("Connection error."), "failed: failed: Connection error.");
}

#[test]
fn hermes_costs_are_estimates_or_unknown() {
    let cost = |status: &str| {
        let line = format!(
            r#"{{"type":"result","exit_code":0,"completed":true,"input_tokens":33,"output_tokens":77,"cache_read_tokens":1000,"cache_write_tokens":1050,"estimated_cost_usd":0.25,"cost_status":{status}}}"#
        );
        let account = account("hermes", line);
        assert_eq!(account.tokens(), Some(BOTH), "{status}");
        (account.cost_usd(), account.cost_source())
    };
    assert_eq!(cost(r#""estimated""#), (Some(0.25), CostSource::Estimate));
    assert_eq!(cost(r#""actual""#), (Some(0.25), CostSource::Provider));
    assert_eq!(cost(r#""unknown""#), (None, CostSource::Unknown));
    assert_eq!(cost("null"), (None, CostSource::Unknown));
}

#[test]
fn the_stream_of_later_hermes_releases_is_read_too() {
    let lines = [
        r#"{"type":"system","subtype":"init","model":"anthropic/claude-sonnet-4.5","session_id":"s1","timestamp":1}"#,
        r#"{"type":"text","text":"I will ","timestamp":2}"#,
        r#"{"type":"tool_use","name":"terminal","input":{"command":"ls"},"tool_call_id":"t","timestamp":3}"#,
        r#"{"type":"tool_result","name":"terminal","output":"x","duration_ms":5,"is_error":false,"timestamp":4}"#,
        r#"{"type":"result","session_id":"s1","exit_code":0,"text":"Done.","tokens":{"input":33,"output":77,"total":2160,"cache_read":1000,"cache_write":1050},"duration_ms":9,"timestamp":5}"#,
    ];
    let events: Vec<StreamEvent> = lines.iter().flat_map(|line| parse("hermes", line)).collect();
    assert!(events.contains(&StreamEvent::Tool { name: "terminal".into(), detail: "ls".into() }));
    assert!(events.contains(&StreamEvent::Text { text: "I will ".into() }));
    let whole = account("hermes", lines.join("\n"));
    assert_eq!((whole.session.as_deref(), whole.tokens(), whole.cost_usd()), (Some("s1"), Some(BOTH), None));
    assert_eq!(whole.model.as_deref(), Some("anthropic/claude-sonnet-4.5"));
    assert_eq!(outcome(&whole, 0), "passed");
    assert!(outcome(&account("hermes", lines[..4].join("\n")), 0).starts_with("failed: no end marker"));
    for (fields, reason) in [
        (
            r#""failed":true,"failure_reason":"auth","error":"HTTP 401: no""#,
            "credential-refused: HTTP 401: no",
        ),
        (r#""partial":true"#, "failed: not completed: exit status 1"),
        (r#""interrupted":true"#, "failed: interrupted: exit status 1"),
    ] {
        let line = format!(r#"{{"type":"result","exit_code":1,"tokens":{{"input":1}},{fields}}}"#);
        assert_eq!(outcome(&account("hermes", line), 1), reason, "{fields}");
    }
}

#[test]
fn a_stop_by_kew_is_judged_as_such() {
    let end = EngineEnd { started: true, exit: Some(143), oom: Some(false), ..EngineEnd::default() };
    let kind = |cause| judge_end(Some(&cause), &end, &Account::default()).unwrap_err();
    assert_eq!(kind(StopCause::Idle("20m".into())).kind.word(), "stalled");
    assert_eq!(kind(StopCause::Idle("20m".into())).reason.as_deref(), Some("it said nothing for 20m"));
    assert_eq!(kind(StopCause::StepCap("why".into())).kind.word(), "runaway");
}

#[test]
fn empty_steps_in_a_row_are_counted() {
    let mut lines: Vec<String> = (0..30).map(|id| finish(&id.to_string(), "unknown", EMPTY, 0.0)).collect();
    let looping = account("opencode", lines.join("\n"));
    assert_eq!((looping.steps(), looping.empty_steps()), (30, 30));
    lines.push(finish("last", "stop", USED, 0.1));
    lines.push(finish("again", "stop", EMPTY, 0.1));
    let recovered = account("opencode", lines.join("\n"));
    assert_eq!((recovered.steps(), recovered.empty_steps()), (32, 1));
}

#[test]
fn odd_lines_mean_nothing() {
    for name in AGENTS {
        for line in
            ["", "{", "null", "[]", "\"x\"", "{}", r#"{"type":5}"#, r#"{"type":"new"}"#, "text", "\u{feff}{}"]
        {
            assert_eq!(parse(name, line), [], "{name} {line:?}");
        }
        for line in [
            r#"{"type":"error"}"#,
            r#"{"type":"step_finish","part":[1]}"#,
            r#"{"type":"step_finish","part":{"tokens":"x","cost":"y","reason":{}}}"#,
            r#"{"type":"message_end","message":{"role":"assistant","usage":[],"content":{}}}"#,
            r#"{"type":"result","exit_code":"0","completed":"true"}"#,
        ] {
            let result = account(name, line).result;
            assert!(!result.is_some_and(|result: RunResult| result.ok), "{name} {line}");
        }
    }
}

proptest! {
    #[test]
    fn no_line_breaks_a_parser(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..2000usize) {
        for name in AGENTS {
            parse(name, &bytes);
            let whole = finish("a", "stop", USED, 0.5) + &message("error", ",\"errorMessage\":\"4€\"");
            parse(name, &whole.as_bytes()[..cut.min(whole.len())]);
        }
    }
}
