//! What single lines mean: every way in which these programs end with 0 and have not succeeded, and numbers that lie.

use kew::{
    outcome::{EngineEnd, StopCause, judge_end},
    stream::{Account, CostSource, RunResult, StreamEvent, Tokens},
};
use proptest::prelude::*;

use super::{AGENTS, BOTH, account, outcome, parse, recorded::CUT};

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
    let mut retried = Account::default();
    retried.apply(&StreamEvent::Retry { status: Some(401), message: "invalid key".into() });
    retried
        .apply(&StreamEvent::Result(RunResult { error: Some("interrupted".into()), ..RunResult::default() }));
    let refused = judge_end(Some(&StopCause::CredentialRefused(401)), &end, &retried).unwrap_err();
    assert_eq!(refused.reason.as_deref(), Some("HTTP 401: invalid key"), "not that it was interrupted");
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
