//! The claude CLI's runner: its arguments, the models it takes, and recorded streams of every ending.

use kew::{
    runners::{Kind, Runner, StopSignal, claude_code::ClaudeCode},
    stream::{Account, CostSource, RunResult, RunTotals, StreamEvent, Tokens},
};
use proptest::prelude::*;

const STEP_1: Tokens = Tokens { input: 11, output: 33, cache_read: 0, cache_write: 1000 };
const BOTH: Tokens = Tokens { input: 33, output: 77, cache_read: 1000, cache_write: 1050 };
const NONE: Tokens = Tokens { input: 0, output: 0, cache_read: 0, cache_write: 0 };
const DONE: &str = "Done: out.txt written and committed. ";

fn parse(line: impl AsRef<[u8]>) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    ClaudeCode.parse_line(line.as_ref(), &mut events);
    events
}

fn fixture(case: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/claude-code/{case}.stdout.jsonl", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn events(case: &str) -> Vec<StreamEvent> {
    fixture(case).split(|b| *b == b'\n').flat_map(parse).collect()
}

fn account(case: &str) -> Account {
    let mut account = Account::default();
    events(case).iter().for_each(|event| account.apply(event));
    account
}

#[test]
fn arguments_are_the_contracts_in_its_order() {
    assert_eq!(
        ClaudeCode.container_args(Some("claude-sonnet-4-5")),
        [
            "--dangerously-skip-permissions",
            "--verbose",
            "--output-format",
            "stream-json",
            "--model",
            "claude-sonnet-4-5"
        ]
    );
    assert_eq!(ClaudeCode.required_credentials(), ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"]);
    assert_eq!(ClaudeCode.kind(), Kind::Agent);
    assert_eq!(ClaudeCode.stop_signal(), StopSignal::Int);
    assert!(!ClaudeCode.free() && ClaudeCode.refusal().is_none());
}

#[test]
fn bare_ids_and_aliases_are_routed() {
    for model in [
        "claude-sonnet-4-5",
        "claude-sonnet-4-5-20250929",
        "claude-3-5-haiku-latest",
        "claude-opus-4-1[1m]",
        "sonnet",
        "opus",
        "haiku",
        "sonnet[1m]",
        "opusplan",
        "default",
    ] {
        assert_eq!(ClaudeCode.route(model), Ok(()), "{model}");
    }
}

#[test]
fn other_models_are_refused_with_what_they_look_like() {
    for (model, words) in [
        ("openrouter/anthropic/claude-sonnet-4.5", "OpenRouter id"),
        ("openrouter/anthropic/claude-sonnet-4.5", "`claude-sonnet-4-5`"),
        ("anthropic/claude-sonnet-4.5:beta", "`claude-sonnet-4-5`"),
        ("openai/gpt-5", "runner that goes through OpenRouter"),
        ("gpt-5-mini", "an OpenAI model"),
        ("o3", "an OpenAI model"),
        ("gemini-3-pro", "a Google model"),
        ("qwen3-coder", "a Qwen model"),
        ("us.anthropic.claude-sonnet-4-5-v1:0", "Bedrock"),
        ("claude-sonnet-4-5@20250929", "Vertex"),
        ("Sonnet", "write `sonnet`"),
        ("Claude-Opus-4-1", "write `claude-opus-4-1`"),
        ("totally-unknown-x", "no model of the claude CLI"),
        ("claude-", "no model of the claude CLI"),
        ("sonnet[2m]", "no model of the claude CLI"),
        ("", "is empty"),
        ("--mcp-config", "starts with -"),
        ("-claude-x", "starts with -"),
        ("claude-x\n--mcp-config", "control character"),
        ("claude-x y", "space"),
        ("claude-\u{1b}[31m", "control character"),
        ("claude-\0", "control character"),
    ] {
        let refusal = ClaudeCode.route(model).expect_err(model);
        assert!(refusal.contains(words), "{model:?}: {refusal}");
    }
}

/// What a recorded stream must come to.
struct Case {
    name: &'static str,
    model: Option<&'static str>,
    tokens: Option<Tokens>,
    cost: Option<f64>,
    end: End,
}

enum End {
    None,
    Good,
    Bad { word: &'static str, status: Option<u16> },
}

const fn case(
    name: &'static str,
    model: &'static str,
    tokens: Option<Tokens>,
    cost: Option<f64>,
    end: End,
) -> Case {
    Case { name, model: Some(model), tokens, cost, end }
}

const fn silent(name: &'static str) -> Case {
    Case { name, model: None, tokens: None, cost: None, end: End::None }
}

const S45: &str = "claude-sonnet-4-5";

/// The first step alone, as the stream told it before the end marker: output is a placeholder there.
const CUT: Option<Tokens> = Some(Tokens { output: 1, ..STEP_1 });

const fn bad(word: &'static str, status: u16) -> End {
    End::Bad { word, status: Some(status) }
}

const CASES: &[Case] = &[
    case("ok", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("authtoken", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("bare", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("quiet", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("ratelimit-hdr", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("ok-root-sandbox", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("ok-noskip", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("sessionid", "claude-sonnet-5-5", Some(BOTH), Some(0.003561), End::Good),
    case("unknownmodel", "totally-unknown-x", Some(BOTH), None, End::Good),
    Case { name: "json", model: None, tokens: Some(BOTH), cost: Some(0.007122), end: End::Good },
    case("docker/ro-chowned", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("docker/ro-nohome", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("docker/rw-nohard", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("docker/user0-sandbox", S45, Some(BOTH), Some(0.0054915), End::Good),
    case("nokey", S45, Some(NONE), Some(0.0), End::Bad { word: "api_error: Not logged in", status: None }),
    case("credit", S45, Some(NONE), Some(0.0), bad("invalid_request_error: Credit balance is too low", 400)),
    case("e400", S45, Some(NONE), Some(0.0), bad("prompt_too_long: Prompt is too long", 400)),
    case("e401-r1", S45, Some(NONE), Some(0.0), bad("authentication_error: Invalid API key", 401)),
    case("e401-oauth", S45, Some(NONE), Some(0.0), bad("authentication_error: Not logged in", 401)),
    case("e403", S45, Some(NONE), Some(0.0), bad("permission_error: Failed to authenticate", 403)),
    case(
        "e404",
        S45,
        Some(NONE),
        Some(0.0),
        bad("not_found_error: There's an issue with the selected model", 404),
    ),
    case("e429long", S45, Some(NONE), Some(0.0), bad("rate_limit_error: API Error", 429)),
    case(
        "e429long-oauth",
        S45,
        Some(NONE),
        Some(0.0),
        bad("usage_limit_reached: You've hit your 5-hour limit", 429),
    ),
    case("e500-r2", S45, Some(NONE), Some(0.0), bad("api_error: API Error: 500", 500)),
    case(
        "maxturns",
        S45,
        Some(STEP_1),
        Some(0.004278),
        End::Bad { word: "error_max_turns: Reached maximum number of turns (1)", status: None },
    ),
    case(
        "killed-int",
        S45,
        Some(STEP_1),
        Some(0.004278),
        End::Bad { word: "error_during_execution: [ede_diagnostic]", status: None },
    ),
    case("e401", S45, None, None, End::None),
    case("e429", S45, None, None, End::None),
    case("killed-api", S45, None, None, End::None),
    case("killed", S45, CUT, None, End::None),
    case("docker/stop", S45, CUT, None, End::None),
    silent("badflag"),
    silent("empty"),
    silent("noverbose"),
    silent("ok-root"),
    silent("stdin-null"),
    silent("whitespace"),
    silent("docker/ro-notmp"),
    silent("docker/user0"),
];

#[test]
fn recorded_streams_come_to_what_was_measured() {
    for case in CASES {
        let name = case.name;
        let account = account(name);
        assert_eq!(account.model.as_deref(), case.model, "{name}: model");
        assert_eq!(account.tokens(), case.tokens, "{name}: tokens");
        assert_eq!(account.cost_usd(), case.cost, "{name}: cost");
        match (&case.end, &account.result) {
            (End::None, None) => {}
            (End::Good, Some(result)) => {
                assert!(
                    result.ok && result.error.is_none() && result.api_status.is_none(),
                    "{name}: {result:?}"
                );
                assert_eq!(result.text.as_deref(), Some(DONE), "{name}");
            }
            (End::Bad { word, status }, Some(result)) => {
                assert!(!result.ok, "{name}: {result:?}");
                let error = result.error.as_deref().unwrap_or_default();
                assert!(error.starts_with(word), "{name}: {error}");
                assert_eq!(result.api_status, *status, "{name}");
            }
            (_, result) => panic!("{name}: {result:?}"),
        }
    }
}

#[test]
fn every_recorded_stream_has_a_case_and_names_its_session() {
    let root = format!("{}/tests/fixtures/claude-code", env!("CARGO_MANIFEST_DIR"));
    let mut seen = 0;
    for (folder, prefix) in [(root.clone(), ""), (format!("{root}/docker"), "docker/")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let file = entry.unwrap().file_name().into_string().unwrap();
            let Some(stem) = file.strip_suffix(".stdout.jsonl") else { continue };
            let name = format!("{prefix}{stem}");
            assert!(CASES.iter().any(|case| case.name == name), "{name} has no case");
            let said = String::from_utf8(fixture(&name)).unwrap();
            match account(&name).session {
                Some(session) => assert!(said.contains(&session), "{name}"),
                None => assert!(said.is_empty(), "{name}: no session"),
            }
            seen += 1;
        }
    }
    assert_eq!(seen, CASES.len());
    assert_eq!(account("sessionid").session.as_deref(), Some("11111111-2222-4333-8444-555555555555"));
}

#[test]
fn a_run_tells_its_steps_in_order() {
    let first = Tokens { output: 1, ..STEP_1 };
    let second = Tokens { input: 22, output: 1, cache_read: 1000, cache_write: 50 };
    let model = || StreamEvent::Model { name: S45.into() };
    let step = |id: &str, tokens| StreamEvent::Usage { step: Some(id.into()), tokens };
    let session = || StreamEvent::Session { id: "3b7d2022-e91e-458b-962d-3665408266e4".into() };
    assert_eq!(
        events("ok"),
        [
            session(),
            model(),
            model(),
            step("msg_mock_1", first),
            StreamEvent::Text { text: "I will write the file. ".into() },
            model(),
            step("msg_mock_1", first),
            StreamEvent::Tool {
                name: "Bash".into(),
                detail:
                    "echo hello > out.txt && git add -A && git commit -qm x && git log --oneline | head -1"
                        .into()
            },
            model(),
            step("msg_mock_2", second),
            StreamEvent::Text { text: DONE.into() },
            session(),
            StreamEvent::Result(RunResult {
                ok: true,
                text: Some(DONE.into()),
                totals: Some(RunTotals {
                    tokens: BOTH,
                    cost_usd: Some(0.0054915),
                    source: CostSource::ListPrice
                }),
                ..RunResult::default()
            }),
        ]
    );
}

#[test]
fn retries_carry_their_status() {
    let statuses = |case: &str| -> Vec<Option<u16>> {
        let status = |event| if let StreamEvent::Retry { status, .. } = event { Some(status) } else { None };
        events(case).into_iter().filter_map(status).collect()
    };
    assert_eq!(statuses("e401"), [Some(401); 7]);
    assert_eq!(statuses("e429"), [Some(429); 8]);
    assert_eq!(statuses("e500-r2"), [Some(500); 2]);
    assert_eq!(statuses("ok"), []);
    assert_eq!(
        parse(r#"{"subtype":"api_retry","type":"system","error_status":null}"#),
        [StreamEvent::Retry { status: None, message: "unknown".into() }]
    );
}

#[test]
fn a_used_up_quota_keeps_its_reset() {
    assert_eq!(account("e429long-oauth").rate_limited, Some(Some(1_796_106_357)));
    assert_eq!(account("e429long").rate_limited, Some(None));
    for case in ["ok", "ratelimit-hdr", "e429", "e401-r1", "e500-r2", "credit"] {
        assert_eq!(account(case).rate_limited, None, "{case}");
    }
    let event = |info: &str| parse(format!(r#"{{"type":"rate_limit_event","rate_limit_info":{info}}}"#));
    assert_eq!(event(r#"{"status":"allowed_warning","resetsAt":5}"#), []);
    assert_eq!(event(r#"{"status":"rejected","resetsAt":5,"isUsingOverage":true}"#), []);
    assert_eq!(
        event(r#"{"status":"rejected","resetsAt":5}"#),
        [StreamEvent::RateLimited { resets_at: Some(5) }]
    );
    assert_eq!(event(r#"{"status":"rejected"}"#), [StreamEvent::RateLimited { resets_at: None }]);
}

#[test]
fn refused_tools_are_counted() {
    let account = account("ok-noskip");
    assert_eq!(account.denials, 1);
    assert_eq!(account.result.unwrap().denials, 1);
    assert!(events("ok-noskip").contains(&StreamEvent::PermissionDenied { tool: "Bash".into() }));
}

#[test]
fn agents_of_the_agent_cost_tokens_but_do_not_rename_the_model() {
    let line = r#"{"type":"assistant","parent_tool_use_id":"toolu_1","message":{"id":"m9","model":"claude-haiku-4-5","content":[{"type":"tool_use","name":"Grep","input":{"path":"src","pattern":"a\n  b"}},{"type":"thinking","thinking":"hm"}],"usage":{"input_tokens":3,"output_tokens":1}}}"#;
    assert_eq!(
        parse(line),
        [
            StreamEvent::Usage {
                step: Some("m9".into()),
                tokens: Tokens { input: 3, output: 1, ..Tokens::default() }
            },
            StreamEvent::Tool { name: "Grep".into(), detail: "a b".into() },
        ]
    );
}

fn totals(result: &str) -> Option<RunTotals> {
    match parse(format!(r#"{{"type":"result","is_error":false,"subtype":"success",{result}}}"#)).pop() {
        Some(StreamEvent::Result(result)) => result.totals,
        other => panic!("{other:?}"),
    }
}

#[test]
fn totals_are_all_models_together_and_priced_only_by_list() {
    let usage = r#""usage":{"input_tokens":1,"output_tokens":2},"total_cost_usd":0.5"#;
    let one = r#"{"inputTokens":10,"outputTokens":20,"costBasis":"list"}"#;
    let unpriced = r#"{"inputTokens":5,"cacheReadInputTokens":7,"costBasis":"unknown"}"#;
    let both = totals(&format!(r#"{usage},"modelUsage":{{"a":{one},"b":{one}}}"#)).unwrap();
    assert_eq!(both.tokens, Tokens { input: 20, output: 40, ..Tokens::default() });
    assert_eq!(both.cost_usd, Some(0.5));
    let mixed = totals(&format!(r#"{usage},"modelUsage":{{"a":{one},"b":{unpriced}}}"#)).unwrap();
    assert_eq!(mixed.tokens, Tokens { input: 15, output: 20, cache_read: 7, cache_write: 0 });
    assert_eq!(mixed.cost_usd, None);
    for fallback in ["", r#","modelUsage":{}"#, r#","modelUsage":null"#, r#","modelUsage":[1]"#] {
        let found = totals(&format!("{usage}{fallback}")).unwrap();
        assert_eq!(found.tokens, Tokens { input: 1, output: 2, ..Tokens::default() }, "{fallback}");
        assert_eq!(found.cost_usd, None, "{fallback}");
    }
    assert_eq!(totals(r#""total_cost_usd":0.5"#), None);
}

#[test]
fn the_end_marker_is_good_only_if_it_says_so() {
    for (line, ok) in [
        (r#"{"type":"result","subtype":"success","is_error":false}"#, true),
        (r#"{"is_error":false,"subtype":"success","type":"result","errors":"odd","usage":7}"#, true),
        (r#"{"type":"result","subtype":"success","is_error":true}"#, false),
        (r#"{"type":"result","subtype":"success"}"#, false),
        (r#"{"type":"result","subtype":"success","is_error":"false"}"#, false),
        (r#"{"type":"result","subtype":"error_max_turns","is_error":false}"#, false),
    ] {
        match parse(line).pop() {
            Some(StreamEvent::Result(result)) => assert_eq!(result.ok, ok, "{line}"),
            other => panic!("{line}: {other:?}"),
        }
    }
}

#[test]
fn an_exit_status_of_zero_is_no_good_end_by_itself() {
    let path = format!("{}/tests/fixtures/claude-code/killed-int.exit", env!("CARGO_MANIFEST_DIR"));
    assert_eq!(std::fs::read_to_string(path).unwrap().trim(), "0");
    assert!(!account("killed-int").result.unwrap().ok);
}

#[test]
fn an_end_marker_inside_a_tool_result_is_none() {
    let inner = serde_json::json!({"type": "result", "is_error": false}).to_string();
    let user = serde_json::json!({
        "type": "user",
        "message": {"content": [{"type": "tool_result", "content": inner}, {"type": "result", "is_error": false}]},
        "tool_use_result": inner,
    });
    assert_eq!(parse(user.to_string()), []);
}

#[test]
fn lines_without_meaning_give_nothing() {
    let deep = format!(r#"{{"type":"assistant","message":{}"#, "[".repeat(100_000));
    for line in [
        "",
        "  \r",
        "plain words",
        "null",
        "[\"result\"]",
        r#"{"type":"result","is_error":false"#,
        r#"{"type":"result","type":"result","is_error":false}"#,
        r#"{"type":"result","is_error":true,"is_error":false}"#,
        r#"{"type":"brand_new","is_error":false}"#,
        r#"{"type":7}"#,
        r#"{"type":"system","subtype":"compact_boundary","model":"x"}"#,
        r#"{"type":"assistant","message":"text"}"#,
        r#"{"type":"assistant","message":{"content":"text"}}"#,
        &deep,
    ] {
        assert_eq!(parse(line), [], "{}", &line[..line.len().min(60)]);
    }
    assert_eq!(parse(b"{\"type\":\"assistant\xff\"}"), []);
    assert_eq!(
        parse(b"{\"type\":\"user\",\"message\":\"\xff\xfe\"}"),
        [],
        "a broken line is no reason to stop"
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
        parse(line);
    }

    #[test]
    fn no_damage_to_a_real_line_makes_it_panic(
        pick in any::<prop::sample::Index>(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>(),
    ) {
        let text = fixture("ok");
        let lines: Vec<_> = text.split(|b| *b == b'\n').filter(|line| !line.is_empty()).collect();
        let mut line = lines[pick.index(lines.len())].to_vec();
        let at = at.index(line.len());
        if cut { line.truncate(at) } else { line[at] = byte }
        parse(line);
    }

    #[test]
    fn key_order_does_not_matter(seed in any::<prop::sample::Index>()) {
        let text = fixture("ok");
        let last = text.split(|b| *b == b'\n').rfind(|line| !line.is_empty()).unwrap();
        let value: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(last).unwrap();
        let mut pairs: Vec<_> = value.into_iter().collect();
        let turn = seed.index(pairs.len());
        pairs.rotate_left(turn);
        let turned = serde_json::Value::Object(pairs.into_iter().collect()).to_string();
        prop_assert_eq!(parse(turned), parse(last));
    }
}
