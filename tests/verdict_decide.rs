//! What a reviewer's sidecar is worth: the strict form, every doubt held, nothing approved by accident.

use kew::{
    name::{CommitId, NodeId},
    verdict::{
        Expected, Finding, FoundAt, Judged, MAX_BYTES, Opinion, Severity, SidecarFault, decide, schema,
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

const HEAD: &str = "1111111111111111111111111111111111111111";
const OTHER: &str = "2222222222222222222222222222222222222222";
const NONCE: &str = "n0nce-of-this-attempt";

/// Judges as the reviewer `review` of the commit `HEAD`.
fn judge_as(sidecar: Result<&[u8], SidecarFault>, found: FoundAt, pick: Option<&[NodeId]>) -> Judged {
    let node = NodeId::new("review").unwrap();
    let head = CommitId::new(HEAD).unwrap();
    decide(sidecar, &Expected { node: &node, head: &head, nonce: NONCE, found, pick })
}

fn judge(text: impl AsRef<[u8]>) -> Judged {
    judge_as(Ok(text.as_ref()), FoundAt::Root, None)
}

fn held(judged: Judged) -> (&'static str, String) {
    match judged {
        Judged::Held(held) => (held.word, held.sentence),
        other => panic!("not held: {other:?}"),
    }
}

fn approve(extra: Value) -> String {
    let mut verdict = json!({"verdict": "approve", "summary": "fine", "findings": []});
    verdict.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    verdict.to_string()
}

fn plain(summary: &str) -> Opinion {
    Opinion { summary: summary.into(), findings: Vec::new(), pick: None }
}

#[test]
fn an_approval_approves() {
    assert_eq!(judge(approve(json!({}))), Judged::Approve(plain("fine")));
    let bound = approve(json!({"node": "review", "head": HEAD, "nonce": NONCE}));
    assert_eq!(judge(format!("\n {bound} \n")), Judged::Approve(plain("fine")));
    let nulls = approve(json!({"node": null, "head": null, "nonce": null, "pick": null}));
    assert_eq!(judge(nulls), Judged::Approve(plain("fine")));
}

#[test]
fn a_request_carries_its_findings() {
    let text = json!({"verdict": "request_changes", "summary": "s", "findings": [
        {"severity": "critical", "message": "m", "path": "src/a.rs", "line": 7},
        {"severity": "info", "message": ""},
    ]});
    let finding =
        |severity, message: &str| Finding { severity, message: message.into(), path: None, line: None };
    let expected = Opinion {
        summary: "s".into(),
        findings: vec![
            Finding {
                path: Some("src/a.rs".into()),
                line: std::num::NonZeroU32::new(7),
                ..finding(Severity::Critical, "m")
            },
            finding(Severity::Info, ""),
        ],
        pick: None,
    };
    assert_eq!(judge(text.to_string()), Judged::RequestChanges(expected));
    let bare = r#"{"verdict":"request_changes","summary":"no","findings":[]}"#;
    assert_eq!(judge(bare), Judged::RequestChanges(plain("no")));
}

#[test]
fn malformed_documents_are_held() {
    let good = approve(json!({}));
    let deep = format!(r#"{{"verdict":"approve","summary":"s","findings":{}"#, "[".repeat(30_000));
    let deep_whole = format!(r#"{{"verdict":"approve","a":{}{}}}"#, "[".repeat(30_000), "]".repeat(30_000));
    let deep_field = format!(r#"{{"findings":[{{"severity":"info","message":{}"#, "{\"a\":".repeat(9_000));
    let cases: Vec<(&str, &str, Vec<u8>)> = vec![
        ("empty", "not-json", vec![]),
        ("blank", "not-json", b" \n".to_vec()),
        ("prose", "not-json", b"approve".to_vec()),
        ("string", "not-json", b"\"approve\"".to_vec()),
        ("array", "not-json", br#"["approve","fine",[]]"#.to_vec()),
        ("fenced", "not-json", format!("```json\n{good}\n```").into_bytes()),
        ("cut", "not-json", good.as_bytes()[..good.len() - 1].to_vec()),
        ("two documents", "not-json", format!("{good}{good}").into_bytes()),
        ("two lines", "not-json", format!("{good}\n{good}").into_bytes()),
        ("trailing words", "not-json", format!("{good} done").into_bytes()),
        ("trailing nul", "not-json", format!("{good}\0").into_bytes()),
        ("byte order mark", "not-json", format!("\u{feff}{good}").into_bytes()),
        ("UTF-16", "not-utf8", good.encode_utf16().flat_map(u16::to_le_bytes).chain([0xff, 0xfe]).collect()),
        ("invalid UTF-8", "not-utf8", [good.as_bytes(), b"\xff"].concat()),
        (
            "invalid UTF-8 inside",
            "not-utf8",
            [&good.as_bytes()[..5], b"\xc3", &good.as_bytes()[5..]].concat(),
        ),
        ("comment", "not-json", format!("{{/* */{}", &good[1..]).into_bytes()),
        ("trailing comma", "not-json", format!("{},}}", &good[..good.len() - 1]).into_bytes()),
        ("deep", "not-json", deep.into_bytes()),
        ("deep field", "not-json", deep_field.into_bytes()),
        ("deep and whole", "wrong-shape", deep_whole.into_bytes()),
    ];
    for (name, word, bytes) in cases {
        assert_eq!(held(judge(&bytes)).0, word, "{name}");
    }
}

#[test]
fn wrong_shapes_are_held() {
    for text in [
        r#"{}"#,
        r#"{"verdict":"approve"}"#,
        r#"{"verdict":"approve","summary":"s"}"#,
        r#"{"summary":"s","findings":[]}"#,
        r#"{"verdict":"approve","findings":[]}"#,
        r#"{"verdict":"approve","summary":"","findings":[]}"#,
        r#"{"verdict":"request_changes","summary":" \n\t","findings":[]}"#,
        r#"{"verdict":"approve","summary":null,"findings":[]}"#,
        r#"{"verdict":"approve","summary":"s","findings":null}"#,
        r#"{"verdict":"approve","summary":"s","findings":{}}"#,
        r#"{"verdict":"approve","summary":["s"],"findings":[]}"#,
        r#"{"verdict":"approved","summary":"s","findings":[]}"#,
        r#"{"verdict":"Approve","summary":"s","findings":[]}"#,
        r#"{"verdict":"APPROVE","summary":"s","findings":[]}"#,
        r#"{"verdict":" approve","summary":"s","findings":[]}"#,
        r#"{"verdict":"approve | request_changes","summary":"s","findings":[]}"#,
        r#"{"verdict":"request-changes","summary":"s","findings":[]}"#,
        r#"{"verdict":true,"summary":"s","findings":[]}"#,
        r#"{"verdict":null,"summary":"s","findings":[]}"#,
        r#"{"verdict":["approve"],"summary":"s","findings":[]}"#,
        r#"{"verdict":{"approve":null},"summary":"s","findings":[]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[["info","m"]]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[["info","m",null,null]]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[{"severity":{"info":null},"message":"m"}]}"#,
        r#"{"verdict":{"approve":1},"summary":"s","findings":[]}"#,
        r#"{"Verdict":"approve","summary":"s","findings":[]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[],"confidence":1}"#,
        r#"{"verdict":"request_changes","verdict":"approve","summary":"s","findings":[]}"#,
        r#"{"verdict":"approve","verdict":"approve","summary":"s","findings":[]}"#,
        r#"{"verdict":"request_changes","v\u0065rdict":"approve","summary":"s","findings":[]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[{"severity":"info"}]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[{"message":"m"}]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[{"severity":"high","message":"m"}]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[{"severity":"info","message":"m","line":0}]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[{"severity":"info","message":"m","line":-1}]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[{"severity":"info","message":"m","line":"7"}]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[{"severity":"info","message":"m","line":1.5}]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[{"severity":"info","message":"m","file":"x"}]}"#,
        r#"{"verdict":"approve","summary":"s","findings":["m"]}"#,
        r#"{"verdict":"approve","summary":"s","findings":[],"node":7}"#,
        r#"{"verdict":"approve","summary":"s","findings":[],"pick":"a"}"#,
    ] {
        assert_eq!(held(judge(text)).0, "wrong-shape", "{text}");
    }
}

#[test]
fn what_is_given_must_match() {
    for (extra, word) in [
        (json!({"node": "parser"}), "wrong-node"),
        (json!({"node": ""}), "wrong-node"),
        (json!({"head": OTHER}), "wrong-commit"),
        (json!({"head": &HEAD[..10]}), "wrong-commit"),
        (json!({"head": "HEAD"}), "wrong-commit"),
        (json!({"nonce": "n0nce-of-another"}), "wrong-nonce"),
        (json!({"nonce": ""}), "wrong-nonce"),
    ] {
        assert_eq!(held(judge(approve(extra.clone()))).0, word, "{extra}");
    }
}

#[test]
fn away_from_the_root_the_nonce_is_required() {
    let below = |text: String| judge_as(Ok(text.as_bytes()), FoundAt::Below, None);
    assert_eq!(held(below(approve(json!({"head": HEAD, "node": "review"})))).0, "wrong-nonce");
    assert_eq!(held(below(approve(json!({"nonce": null})))).0, "wrong-nonce");
    assert_eq!(below(approve(json!({"nonce": NONCE}))), Judged::Approve(plain("fine")));
}

#[test]
fn a_pick_is_for_choices_only_and_must_be_one_of_them() {
    let choice = [NodeId::new("a").unwrap(), NodeId::new("b").unwrap()];
    let chosen = |text: String| judge_as(Ok(text.as_bytes()), FoundAt::Root, Some(&choice));
    let picked = Opinion { pick: Some(choice[1].clone()), ..plain("fine") };
    assert_eq!(chosen(approve(json!({"pick": "b"}))), Judged::Approve(picked));
    assert_eq!(held(chosen(approve(json!({"pick": "c"})))).0, "wrong-shape");
    assert_eq!(held(chosen(approve(json!({})))).0, "wrong-shape");
    let none = r#"{"verdict":"request_changes","summary":"neither","findings":[]}"#.to_owned();
    assert_eq!(chosen(none), Judged::RequestChanges(plain("neither")));
}

#[test]
fn size_is_bounded() {
    let pad = |len: usize| {
        let good = approve(json!({}));
        format!("{good}{}", " ".repeat(len - good.len()))
    };
    assert_eq!(judge(pad(MAX_BYTES)), Judged::Approve(plain("fine")));
    assert_eq!(held(judge(pad(MAX_BYTES + 1))).0, "too-large");
}

#[test]
fn what_could_not_be_read_is_held_in_one_word() {
    for (fault, word) in [
        (SidecarFault::Missing, "missing"),
        (SidecarFault::Symlink, "symlink"),
        (SidecarFault::NotAFile, "not-a-file"),
        (SidecarFault::HardLink, "hard-link"),
        (SidecarFault::TooLarge, "too-large"),
        (SidecarFault::Planted, "planted"),
        (SidecarFault::Ambiguous, "ambiguous"),
        (SidecarFault::Unreadable("EIO".into()), "unreadable"),
        (SidecarFault::ExitStatus(137), "exit-status"),
    ] {
        let (found, sentence) = held(judge_as(Err(fault), FoundAt::Root, None));
        assert_eq!(found, word);
        assert!(!sentence.is_empty() && !sentence.ends_with('.') && !sentence.contains('\n'), "{sentence}");
    }
    assert!(held(judge_as(Err(SidecarFault::ExitStatus(137)), FoundAt::Root, None)).1.contains("137"));
}

#[test]
fn sentences_quote_only_a_little_of_the_agents_text() {
    let long = "é".repeat(20_000);
    for text in [
        approve(json!({"node": long})),
        approve(json!({"head": long})),
        format!(r#"{{"{long}":1}}"#),
        format!(r#"{{"verdict":"{long}"}}"#),
    ] {
        assert!(held(judge(text)).1.len() < 400);
    }
}

#[test]
fn the_schema_is_as_strict_as_the_reader() {
    let schema = schema();
    assert_eq!(schema.get("additionalProperties"), Some(&json!(false)));
    assert_eq!(schema.get("required"), Some(&json!(["verdict", "summary", "findings"])));
}

/// A second opinion, by generic JSON: whether the bytes may approve at all.
fn may_approve(bytes: &[u8]) -> bool {
    let Ok(Value::Object(map)) = serde_json::from_slice::<Value>(bytes) else { return false };
    let matches =
        |field: &str, wanted: &str| map.get(field).is_none_or(|value| value.is_null() || value == wanted);
    let known = ["verdict", "summary", "findings", "node", "head", "nonce", "pick"];
    map.get("verdict") == Some(&json!("approve"))
        && map.get("summary").and_then(Value::as_str).is_some_and(|summary| !summary.trim().is_empty())
        && map.get("findings").is_some_and(Value::is_array)
        && map.keys().all(|key| known.contains(&key.as_str()))
        && matches("node", "review")
        && matches("head", HEAD)
        && matches("nonce", NONCE)
        && map.get("pick").is_none_or(Value::is_null)
        && bytes.len() <= MAX_BYTES
}

/// Documents that are nearly right.
fn nearly() -> impl Strategy<Value = String> {
    let vote = prop_oneof![Just("approve"), Just("request_changes"), Just("Approve"), Just("")];
    let summary = prop_oneof![Just(""), Just("s"), Just(" ")];
    let extra = prop_oneof![
        Just(json!({})),
        Just(json!({"node": "review"})),
        Just(json!({"node": "parser"})),
        Just(json!({"head": HEAD})),
        Just(json!({"head": OTHER, "nonce": NONCE})),
        Just(json!({"nonce": "x"})),
        Just(json!({"pick": "a"})),
        Just(json!({"more": 1})),
    ];
    (vote, summary, extra).prop_map(|(vote, summary, extra)| {
        let mut verdict = json!({"verdict": vote, "summary": summary, "findings": []});
        verdict.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        verdict.to_string()
    })
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_approve(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(!matches!(judge(&bytes), Judged::Approve(_)) || may_approve(&bytes));
    }

    #[test]
    fn nearly_right_documents_approve_exactly_when_they_may(text in nearly()) {
        prop_assert_eq!(matches!(judge(&text), Judged::Approve(_)), may_approve(text.as_bytes()), "{}", text);
    }

    #[test]
    fn damaged_documents_never_approve_unless_they_still_say_so(
        text in nearly(), at in any::<prop::sample::Index>(), byte in any::<u8>(), insert in any::<bool>(),
    ) {
        let mut bytes = text.into_bytes();
        let at = at.index(bytes.len());
        if insert { bytes.insert(at, byte) } else { bytes[at] = byte }
        prop_assert!(!matches!(judge(&bytes), Judged::Approve(_)) || may_approve(&bytes));
    }
}
