//! The runners `opencode`, `pi` and `hermes`: their arguments, the models they take, what their lines mean, and recorded
//! streams of every ending.

mod lines;
mod recorded;

use kew::{
    outcome::{EngineEnd, judge_end},
    runners::{self, Kind, Runner, StopSignal},
    stream::{Account, StreamEvent, Tokens},
};

const AGENTS: [&str; 3] = ["opencode", "pi", "hermes"];
const BOTH: Tokens = Tokens { input: 33, output: 77, cache_read: 1000, cache_write: 1050 };

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
