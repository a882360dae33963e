//! Plain jobs, the published line vocabulary, and which runners there are.

use kew::{
    runners::{self, Kind, Runner, shell::Shell},
    stream::{Account, CostSource, RunResult, RunTotals, StreamEvent, Tokens},
};
use proptest::prelude::*;

fn parse(line: &str) -> Vec<StreamEvent> {
    let mut events = Vec::new();
    Shell.parse_line(line.as_bytes(), &mut events);
    events
}

fn result(line: &str) -> RunResult {
    match parse(line).pop() {
        Some(StreamEvent::Result(result)) => result,
        other => panic!("{line}: {other:?}"),
    }
}

#[test]
fn a_job_needs_nothing_and_costs_nothing() {
    assert_eq!(Shell.kind(), Kind::Job);
    assert!(Shell.free() && Shell.refusal().is_none());
    assert_eq!(Shell.container_args(None), Vec::<String>::new());
    assert_eq!(Shell.required_credentials(), Vec::<&str>::new());
    assert!(Shell.route("sonnet").unwrap_err().contains("takes no model"));
}

#[test]
fn output_lines_are_text() {
    assert_eq!(
        parse(r#"{"type":"output","text":"running 3 tests é"}"#),
        [StreamEvent::Text { text: "running 3 tests é".into() }]
    );
    assert_eq!(parse(r#"{"text":"","type":"output"}"#), [StreamEvent::Text { text: String::new() }]);
}

#[test]
fn only_exit_code_zero_is_a_good_end() {
    let good = result(r#"{"type":"result","exit_code":0,"text":"fine"}"#);
    assert_eq!((good.ok, good.error, good.exit_code), (true, None, Some(0)));
    assert_eq!(good.text.as_deref(), Some("fine"));
    let bad = result(r#"{"type":"result","exit_code":101}"#);
    assert_eq!((bad.ok, bad.error.as_deref(), bad.exit_code), (false, Some("exit status 101"), Some(101)));
    let said = result(r#"{"type":"result","exit_code":-1,"error":"no\nbash"}"#);
    assert_eq!((said.ok, said.error.as_deref()), (false, Some("no bash")));
    for line in [
        r#"{"type":"result"}"#,
        r#"{"type":"result","exit_code":"0"}"#,
        r#"{"type":"result","exit_code":0"#,
        r#"{"type":"result","exit_code":1,"exit_code":0}"#,
        r#"["result",0]"#,
        "result 0",
        "",
    ] {
        assert_eq!(parse(line), [], "{line}");
    }
}

#[test]
fn an_own_image_can_tell_session_model_tools_and_spend() {
    let mut account = Account::default();
    let mut tools = Vec::new();
    for line in [
        r#"{"type":"session","id":"s1"}"#,
        r#"{"type":"model","name":"m1"}"#,
        r#"{"type":"tool","name":"bash","detail":"ls\n -l"}"#,
        r#"{"type":"usage","input":1,"output":2,"cache_read":3,"cache_write":4}"#,
        r#"{"type":"usage","input":10,"output":20,"cache_read":30,"cache_write":40}"#,
        r#"{"type":"cost","usd":0.25}"#,
        r#"{"type":"cost","usd":-1}"#,
        r#"{"type":"of-tomorrow","id":"x"}"#,
    ] {
        for event in parse(line) {
            account.apply(&event);
            if let StreamEvent::Tool { name, detail } = event {
                tools.push((name, detail));
            }
        }
    }
    assert_eq!(tools, [("bash".into(), "ls -l".into())]);
    assert_eq!((account.session.as_deref(), account.model.as_deref()), (Some("s1"), Some("m1")));
    assert_eq!(account.tokens(), Some(Tokens { input: 11, output: 22, cache_read: 33, cache_write: 44 }));
    assert_eq!(account.cost_usd(), Some(0.25));

    let mut added = account.clone();
    parse(r#"{"type":"result","exit_code":0,"cost_usd":0.5}"#).iter().for_each(|event| added.apply(event));
    assert_eq!((added.cost_usd(), added.tokens()), (Some(0.75), account.tokens()));

    let line = r#"{"type":"result","exit_code":0,"cost_usd":0.5,"tokens":{"input":1,"output":1,"cache_read":0,"cache_write":0}}"#;
    parse(line).iter().for_each(|event| account.apply(event));
    assert_eq!(account.cost_usd(), Some(0.5));
    assert_eq!(account.tokens(), Some(Tokens { input: 1, output: 1, ..Tokens::default() }));
    let totals = result(line).totals;
    assert_eq!(
        totals,
        Some(RunTotals {
            tokens: account.tokens().unwrap(),
            cost_usd: Some(0.5),
            source: CostSource::Estimate
        })
    );
}

#[test]
fn runners_are_found_by_name() {
    let names: Vec<_> = runners::built_in().iter().map(|runner| runner.name()).collect();
    assert_eq!(names, ["claude-code", "opencode", "pi", "hermes", "shell", "lemonade"]);
    for name in names {
        assert_eq!(runners::find(name).unwrap().name(), name);
    }
    for name in ["", "claude", "Shell", "open-code", "shell "] {
        assert!(runners::find(name).is_none(), "{name}");
    }
}

#[test]
fn lemonade_is_known_but_refused() {
    let lemonade = runners::find("lemonade").unwrap();
    assert!(lemonade.refusal().unwrap().contains("no credential"));
    assert_eq!(lemonade.required_credentials(), Vec::<&str>::new());
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(line in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut events = Vec::new();
        Shell.parse_line(&line, &mut events);
    }

    #[test]
    fn any_text_comes_through_as_it_was(text in any::<String>()) {
        let line = serde_json::json!({"type": "output", "text": text}).to_string();
        prop_assert_eq!(parse(&line), [StreamEvent::Text { text }]);
    }

    #[test]
    fn details_are_one_short_line(detail in any::<String>()) {
        let line = serde_json::json!({"type": "tool", "name": "t", "detail": detail.repeat(20)}).to_string();
        let Some(StreamEvent::Tool { detail, .. }) = parse(&line).pop() else { panic!() };
        prop_assert!(detail.len() <= 400 && !detail.contains('\n'));
    }
}
