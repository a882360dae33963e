//! What is printed after a run: summary, list of runs, one run in full, and logs.

use std::fs;

use crate::support::{HOSTILE, START, assert_harmless, node, source, tokens};
use camino::Utf8Path;
use kew::{
    name::{AttemptKey, CommitId, EpicName, NodeId, RunId},
    plan::spec::Commits,
    record::{Artifact, AttemptEnd, AttemptStart, Kept, NodeStart, NodeState, RunEnd, RunStart, VerdictRow},
    report::{
        artifacts,
        logs::{LogForm, logs},
        runs::runs,
        show::show,
        summary::{self, SummaryHead, SummaryRow, summary},
    },
    store::{AttemptDetail, NodeDetail, RunDetail, RunSummary, StateCounts},
    stream::{CostSource, Tokens},
};

const STATE: &str = "/repo/.git/kew";

fn run_id() -> RunId {
    RunId::new("20261201-093000-k3f9").expect("good")
}

fn commit(digit: char) -> CommitId {
    CommitId::new(digit.to_string().repeat(40)).expect("good")
}

fn node_start(id: &str, needs: &[&str]) -> NodeStart {
    NodeStart {
        node: node(id),
        runner: "claude-code".into(),
        model: Some("claude-sonnet-4-5".into()),
        image: "kew-claude:1".into(),
        image_id: "sha256:abc".into(),
        reviews: None,
        commits: Commits::Required,
        needs: needs.iter().map(|need| node(need)).collect(),
    }
}

fn attempt(
    id: &str,
    attempt: u32,
    outcome: &str,
    tokens: Option<Tokens>,
    cost_usd: Option<f64>,
    commits: u32,
) -> AttemptDetail {
    let key = AttemptKey { run: run_id(), node: node(id), attempt };
    let start = AttemptStart {
        key: key.clone(),
        round: 1,
        tries: attempt,
        runner: "claude-code".into(),
        model: Some("claude-sonnet-4-5".into()),
        image_id: "sha256:abc".into(),
        container: "kew-x".into(),
        prompt_digest: "p".into(),
        started: START + 1000,
    };
    let end = AttemptEnd {
        key,
        ended: START + 186_000,
        input: Some(commit('a')),
        head: Some(commit('b')),
        commits,
        outcome: outcome.into(),
        reason: (outcome != "passed").then(|| HOSTILE.to_owned()),
        exit: Some(i32::from(outcome != "passed")),
        session: Some("s-1".into()),
        model_reported: Some("claude-sonnet-4-5-20250929".into()),
        tokens,
        cost_usd,
        cost_source: source(cost_usd),
        summary: Some(HOSTILE.into()),
    };
    AttemptDetail { start, end: Some(end), verdict: None, kept: Kept::default(), refused: Vec::new() }
}

fn detail(id: &str, state: NodeState, reason: Option<&str>, attempts: Vec<AttemptDetail>) -> NodeDetail {
    let last = attempts.last().map_or(0, |attempt| attempt.start.key.attempt);
    NodeDetail {
        node: node(id),
        state,
        reason: reason.map(Into::into),
        attempt: last,
        round: 1,
        tries: last,
        attempts,
    }
}

/// One node of each kind, with hostile words wherever an agent has some.
fn run() -> RunDetail {
    let mut review = attempt("review", 1, "passed", tokens(900, 50), Some(0.04), 0);
    review.verdict = Some(VerdictRow {
        key: review.start.key.clone(),
        subject: node("parser"),
        commit: commit('b'),
        verdict: "request_changes".into(),
        summary: HOSTILE.into(),
        findings_json: serde_json::json!([
            {"severity": "high", "message": HOSTILE, "path": "src/lib.rs", "line": 12},
            {"severity": HOSTILE, "message": "no tests"},
        ])
        .to_string(),
        digest: Some("d".into()),
        time: START,
    });
    let reviewer =
        NodeStart { reviews: Some(node("parser")), commits: Commits::Forbidden, ..node_start("review", &[]) };
    let shell = NodeStart {
        runner: "shell".into(),
        model: None,
        commits: Commits::Optional,
        ..node_start("test", &["parser"])
    };
    let mut running = attempt("running", 1, "passed", None, None, 0);
    running.end = None;
    RunDetail {
        publications: Vec::new(),
        start: RunStart {
            run: run_id(),
            epic: EpicName::new("parser-rewrite").expect("good"),
            plan_path: "plans/epic.toml".into(),
            plan_text: String::new(),
            settings_json: "{}".into(),
            digest: "d1g3st".into(),
            base: commit('a'),
            network: "allowlist".into(),
            owner: "o".into(),
            started: START,
            prompts: Vec::new(),
            nodes: vec![
                node_start("parser", &[]),
                shell,
                reviewer,
                node_start("lexer", &["parser"]),
                node_start("docs", &["lexer", "parser"]),
                node_start("extra", &["docs"]),
                node_start("running", &[]),
            ],
        },
        end: Some(RunEnd { run: run_id(), status: "failed".into(), exit_code: 1, ended: START + 3_720_000 }),
        nodes: vec![
            detail(
                "parser",
                NodeState::Passed,
                None,
                vec![
                    attempt("parser", 1, "rate limited", None, None, 0),
                    attempt("parser", 2, "passed", tokens(2_345, 4_500), Some(1.2), 2),
                ],
            ),
            detail("test", NodeState::Passed, None, vec![attempt("test", 1, "passed", None, Some(0.0), 0)]),
            detail("review", NodeState::Passed, None, vec![review]),
            detail(
                "lexer",
                NodeState::Failed,
                Some(HOSTILE),
                vec![AttemptDetail {
                    kept: Kept {
                        work: Some(commit('c')),
                        artifacts: vec![Artifact {
                            path: HOSTILE.into(),
                            size: 3000,
                            sha256: "d".repeat(64),
                        }],
                    },
                    ..attempt("lexer", 1, "timed out", tokens(1, 2), Some(0.0055), 1)
                }],
            ),
            detail("docs", NodeState::Held, Some("inputs conflict in `src/日本語.rs`"), vec![]),
            detail("extra", NodeState::Waiting, None, vec![]),
            detail("running", NodeState::Cancelled, None, vec![running]),
        ],
    }
}

fn summed_up(run: &RunDetail) -> String {
    let (head, rows) = summary::of(run, Utf8Path::new(STATE));
    summary(&head, &rows)
}

#[test]
fn the_summary_tells_everything() {
    let text = summed_up(&run());
    assert_harmless(&text);
    insta::assert_snapshot!(text);
}

#[test]
fn the_list_of_artifacts_is_harmless_for_people_and_exact_for_programs() {
    let artifact = Artifact { path: HOSTILE.into(), size: 3000, sha256: "d".repeat(64) };
    let key = AttemptKey { run: run_id(), node: node("lexer"), attempt: 2 };
    let text = artifacts::table(&[(&key, &artifact)]);
    assert_harmless(&text);
    assert_eq!(text.lines().count(), 2, "{text}");
    let json: serde_json::Value = serde_json::from_str(&artifacts::json(&[(&key, &artifact)])).expect("JSON");
    assert_eq!((json["path"].as_str(), json["attempt"].as_u64()), (Some(HOSTILE), Some(2)));
}

#[test]
fn a_perfect_run_has_a_short_summary() {
    let mut run = run();
    run.start.nodes.truncate(2);
    run.nodes.truncate(2);
    run.nodes[0].attempts.remove(0);
    insta::assert_snapshot!(summed_up(&run));
}

#[test]
fn columns_line_up_by_how_wide_they_are_shown() {
    use unicode_width::UnicodeWidthStr as _;
    let row = |outcome: &str| SummaryRow {
        node: node("n"),
        state: NodeState::Failed,
        outcome: Some(outcome.into()),
        reason: None,
        attempt: 1,
        attempt_ms: Some(0),
        tokens: None,
        cost_usd: None,
        not_billed_usd: None,
        cost_unknown: true,
        commits: 0,
        branch: "kew/e/n".into(),
        git_ref: None,
        kept: None,
        artifacts: 0,
        log: None,
        waits_for: vec![],
        refused: Vec::new(),
    };
    let head = SummaryHead {
        run: run_id(),
        epic: EpicName::new("e").expect("good"),
        status: "failed".into(),
        duration_ms: None,
    };
    let text = summary(&head, &[row("日本語日本語"), row("é"), row("plain")]);
    let widths: Vec<usize> = text.lines().take(5).map(|line| line.width()).collect();
    assert!(widths.iter().all(|width| *width == widths[0]), "{text}");
}

#[test]
fn the_list_of_runs() {
    let summary = |id: &str, status: Option<&str>, cost_usd: Option<f64>, at_least: bool| {
        let mut counts = StateCounts::default();
        counts.add_many(NodeState::Passed, 3);
        counts.add(NodeState::Held);
        RunSummary {
            run: RunId::new(id).expect("good"),
            epic: "parser-rewrite".into(),
            status: status.map(Into::into),
            started: START,
            ended: status.map(|_| START + 3_720_000),
            counts,
            tokens: cost_usd.and_then(|_| tokens(1, 999_999)),
            cost_usd,
            not_billed_usd: None,
            at_least,
        }
    };
    let all = [
        summary("20261201-093000-k3f9", Some("held"), Some(1.5), true),
        summary("20261202-093000-aaaa", None, None, true),
        summary("20261203-093000-bbbb", None, Some(0.0), false),
    ];
    let alive = |run: &RunId| run.as_str().ends_with("bbbb");
    insta::assert_snapshot!(runs(&all, START + 65_000, &alive));
    assert_eq!(runs(&[], 0, &alive), "no runs yet\n");
}

#[test]
fn one_run_in_full() {
    let text = show(&run(), Utf8Path::new(STATE), false);
    assert_harmless(&text);
    insta::assert_snapshot!(text);
}

#[test]
fn a_run_without_an_end_runs_or_died() {
    let mut run = run();
    run.end = None;
    assert!(show(&run, Utf8Path::new(STATE), true).contains("status   running\n"));
    assert!(show(&run, Utf8Path::new(STATE), false).contains("status   died"));
    run.nodes[2].attempts[0].verdict.as_mut().expect("it has one").findings_json = "{".into();
    assert!(show(&run, Utf8Path::new(STATE), true).contains("findings that cannot be read"));
}

fn log(text: &[u8], form: LogForm) -> String {
    let mut out = Vec::new();
    logs(&mut &*text, &mut out, form).expect("no error");
    String::from_utf8_lossy(&out).into_owned()
}

fn captured(runner: &str) -> String {
    let path = format!("{}/tests/fixtures/logs/{runner}.jsonl", env!("CARGO_MANIFEST_DIR"));
    log(&fs::read(path).expect("there"), LogForm::Readable)
}

#[test]
fn logs_of_claude_code_are_readable() {
    insta::assert_snapshot!(captured("claude-code"));
}

#[test]
fn logs_of_opencode_are_readable() {
    insta::assert_snapshot!(captured("opencode"));
}

#[test]
fn logs_of_pi_are_readable() {
    insta::assert_snapshot!(captured("pi"));
}

#[test]
fn logs_of_jobs_are_what_they_printed() {
    let text = concat!(
        r#"{"type":"output","text":"running 3 tests"}"#,
        "\n",
        r#"{"type":"output","text":""}"#,
        "\n",
        r#"{"type":"output","text":"\u001b[32mok\u001b[0m"}"#,
        "\n",
        "no JSON at all\n",
        r#"{"type":"result","exit_code":101,"error":"a test failed"}"#,
        "\n",
        r#"{"type":"result","exit_code":0}"#,
    );
    assert_eq!(
        log(text.as_bytes(), LogForm::Readable),
        "running 3 tests\n\n\\x1b[32mok\\x1b[0m\nno JSON at all\n= failed, exit code 101: a test failed\n= ended well, exit code 0\n"
    );
}

#[test]
fn long_answers_of_tools_are_shortened() {
    let answer = (1..=12).map(|n| format!("line {n}")).collect::<Vec<_>>().join("\n");
    let line = serde_json::json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": answer, "is_error": true}]}});
    let text = log(line.to_string().as_bytes(), LogForm::Readable);
    assert_eq!(text, "! line 1\n! line 2\n! line 3\n! line 4\n! line 5\n! … and 7 more lines\n");
}

#[test]
fn hostile_logs_are_only_shown() {
    let lines = [
        HOSTILE.replace('\n', " "),
        serde_json::json!({"type": "output", "text": HOSTILE}).to_string(),
        serde_json::json!({"type": "unheard-of", "x": HOSTILE}).to_string(),
        serde_json::json!({"type": HOSTILE}).to_string(),
        serde_json::json!({"type": "assistant", "message": {"content": [{"type": "text", "text": HOSTILE}, {"type": "tool_use", "name": HOSTILE, "input": {"command": HOSTILE}}]}}).to_string(),
        serde_json::json!({"type": "result", "result": HOSTILE, "is_error": true}).to_string(),
        "  ::error::indented".into(),
        "[1,2]".into(),
        "\"::error::\"".into(),
    ];
    for line in lines {
        let text = log(line.as_bytes(), LogForm::Readable);
        assert!(!text.is_empty(), "{line}");
        assert_harmless(&text);
    }
    log(b"\xff\xfe{\"type\":\"output\"}\n\n{}\n{\"type\":\"assistant\"}\n", LogForm::Readable);
}

#[test]
fn raw_logs_are_byte_for_byte() {
    let bytes = b"\x1b[0m::error::\r\n{\"type\":\"output\"}\nno newline";
    let mut out = Vec::new();
    logs(&mut &bytes[..], &mut out, LogForm::Raw).expect("no error");
    assert_eq!(out, bytes);
}

#[test]
fn nodes_are_found_in_a_run() {
    let run = run();
    assert!(run.node(&NodeId::new("lexer").expect("good")).is_some());
    assert_eq!(
        run.open_attempts().map(ToString::to_string).collect::<Vec<_>>(),
        ["20261201-093000-k3f9/running/1"]
    );
}

#[test]
fn what_a_subscription_pays_is_told_apart() {
    let mut run = run();
    for attempt in run.nodes.iter_mut().flat_map(|node| &mut node.attempts) {
        if let Some(end) = attempt.end.as_mut().filter(|end| end.cost_source == CostSource::ListPrice) {
            end.cost_source = CostSource::NotBilled;
        }
    }
    insta::assert_snapshot!(summed_up(&run));
    let shown = show(&run, Utf8Path::new(STATE), false);
    assert!(shown.contains("(list price, not billed)") && !shown.contains("(list price)"), "{shown}");
}
