//! Recorded streams of the real programs, with the exit status that each had: what they come to.

use kew::stream::{CostSource, Tokens};

use super::{BOTH, account, ended};

const STEP_1: Tokens = Tokens { input: 11, output: 33, cache_read: 0, cache_write: 1000 };
const NONE: Tokens = Tokens { input: 0, output: 0, cache_read: 0, cache_write: 0 };
const COST: f64 = 0.0054915;

fn file(name: &str, case: &str, kind: &str) -> String {
    let path = format!("{}/tests/fixtures/{name}/{case}.{kind}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
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

pub const CUT: &str = "failed: ended too early: a step began and did not finish";

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
