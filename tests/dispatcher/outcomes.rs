//! What a run comes to: ends to states, states to what follows, all of it to one status.

use std::time::Duration;

use kew::{
    event::RunEvent,
    run::{dispatcher::Status, executor::Trouble, scripted::Script},
};

use super::rig::{Rig, endless, exits, jobs, rig, votes};

fn held() -> Script {
    Script {
        trouble: Some(Trouble::Held { word: "conflict", sentence: "`a.txt` was changed by both".into() }),
        ..Script::default()
    }
}

fn infrastructure() -> Script {
    Script { trouble: Some(Trouble::Infrastructure("the disk is full".into())), ..Script::default() }
}

#[test]
fn all_pass() {
    let played = jobs(&["a", "b < a", "c < a", "d < b, c"]).play();
    assert_eq!(played.states(), "a=passed b=passed c=passed d=passed");
    assert_eq!((played.status(), played.status().exit_code()), (Status::Passed, 0));
    assert_eq!(played.ran()[0], "a");
    assert_eq!(played.ran()[3], "d");
    assert!(!played.ended.left);
}

#[test]
fn each_end_has_its_outcome_state_and_reason() {
    let no_marker = Script { stdout: vec!["hello".into()], ..Script::default() };
    let lied = Script { exit: 3, ..Script::default() };
    let failed =
        Script { trouble: Some(Trouble::Failed("the base was rewritten".into())), ..Script::default() };
    let stopped = Script { trouble: Some(Trouble::Stopped), ..Script::default() };
    for (script, outcome, state, reason) in [
        (exits(0), "passed", "passed", ""),
        (exits(7), "failed", "failed", "exit status 7"),
        (lied, "failed", "failed", "exit status 3, although the agent reported success"),
        (no_marker, "failed", "failed", "no end marker from the agent (exit status 0)"),
        (held(), "held", "held", "conflict: `a.txt` was changed by both"),
        (failed, "failed", "failed", "the base was rewritten"),
        (infrastructure(), "infrastructure", "failed", "the disk is full"),
        (stopped, "cancelled", "cancelled", "asked to stop"),
    ] {
        let played = jobs(&["a"]).script("a", script).play();
        assert_eq!(played.states(), format!("a={state}"));
        assert_eq!(played.reason("a"), reason);
        let row = played.end("a");
        assert_eq!((row.outcome.as_str(), row.reason.as_deref().unwrap_or_default()), (outcome, reason));
    }
}

#[test]
fn what_git_or_a_verdict_quotes_of_a_secret_is_masked() {
    let quotes = Trouble::Held { word: "reserved name", sentence: "the commits bring `the-secret`".into() };
    let played = jobs(&["a"]).script("a", Script { trouble: Some(quotes), ..Script::default() }).play();
    assert_eq!(played.reason("a"), "reserved name: the commits bring `***SECRET***`");
    assert_eq!(played.end("a").reason.as_deref(), Some("reserved name: the commits bring `***SECRET***`"));
    let escaped = r#"{"type":"result","exit_code":0,"text":"it is the\u002dsecret"}"#.to_owned();
    let played = jobs(&["a"]).script("a", Script { stdout: vec![escaped], ..Script::default() }).play();
    assert_ne!(played.end("a").summary.as_deref(), Some("it is the-secret"));
}

#[test]
fn an_agent_without_commits_has_done_nothing() {
    let nodes = "[nodes.a]\nrunner = \"claude-code\"\nmodel = \"claude-sonnet-4-5\"\nprompt = \"work\"";
    let marker = r#"{"type":"result","subtype":"success","is_error":false,"result":"ok"}"#;
    let script = |commits| Script { stdout: vec![marker.into()], commits, ..Script::default() };
    let played = rig(nodes).script("a", script(0)).play();
    assert_eq!((played.states().as_str(), played.end("a").outcome.as_str()), ("a=failed", "nothing-done"));
    let played = rig(nodes).script("a", script(2)).play();
    assert_eq!((played.states().as_str(), played.end("a").commits), ("a=passed", 2));
}

#[test]
fn a_failure_skips_what_needs_it_and_says_which() {
    let played = jobs(&["a", "b < a", "c < b", "d"]).script("a", exits(1)).play();
    assert_eq!(played.states(), "a=failed b=skipped c=skipped d=passed");
    assert_eq!(played.reason("b"), "needs `a`, which is failed");
    assert_eq!(played.reason("c"), "needs `b`, which is skipped");
    assert_eq!((played.status(), played.status().exit_code()), (Status::Failed, 1));
    let told: Vec<_> = played.events.iter().filter_map(skipped).collect();
    assert_eq!(told, [("b", "needs `a`, which is failed"), ("c", "needs `b`, which is skipped")]);
    let mut ran = played.ran();
    ran.sort();
    assert_eq!(ran, ["a", "d"]);
}

fn skipped(event: &kew::event::Stamped) -> Option<(&str, &str)> {
    match &event.event {
        RunEvent::NodeSkipped { node, reason } => Some((node.as_str(), reason)),
        _ => None,
    }
}

#[test]
fn a_held_node_leaves_waiting_what_needs_it() {
    let played = jobs(&["a", "b < a", "c < b", "d"]).script("a", held()).play();
    assert_eq!(played.states(), "a=held b=waiting c=waiting d=passed");
    assert_eq!(played.reason("b"), "needs `a`, which is held");
    assert_eq!(played.reason("c"), "needs `b`, which is waiting");
    assert_eq!((played.status(), played.status().exit_code()), (Status::Held, 3));
    let waiting = played.events.iter().filter(|event| matches!(event.event, RunEvent::NodeWaiting { .. }));
    assert_eq!(waiting.count(), 2);
}

#[test]
fn an_approval_opens_the_gate() {
    let played = jobs(&["a", "r ? a", "b < a"]).commits(&["a"]).script("r", votes("approve")).play();
    assert_eq!(played.states(), "a=passed r=passed b=passed");
    assert_eq!(played.ran(), ["a", "r", "b"], "`b` waits for the verdict");
    let row = played.verdict("r").unwrap();
    assert_eq!((row.verdict.as_str(), row.subject.as_str()), ("approve", "a"));
    assert_eq!(row.summary, "r says approve");
    assert_eq!(Some(&row.commit), played.end("a").head.as_ref(), "the verdict is on what `a` brought");
    let copy = &played.shelf.lock().verdicts["r"];
    assert_eq!(row.digest.as_deref(), Some(kew::digest::sha256_hex(copy).as_str()));
    assert!(played.events.iter().any(|event| matches!(&event.event,
        RunEvent::Verdict { node, subject, verdict, .. }
            if (node.as_str(), subject.as_str(), verdict.as_str()) == ("r", "a", "approve"))));
}

#[test]
fn asked_changes_hold_the_subject_and_close_the_gate() {
    let played = jobs(&["a", "r ? a", "b < a", "c"]).script("r", votes("request_changes")).play();
    assert_eq!(played.states(), "a=held r=passed b=waiting c=passed");
    assert_eq!(played.reason("a"), "`r` asks for changes: r says request_changes");
    assert_eq!(played.reason("b"), "needs `a`, which is held");
    assert_eq!((played.status(), played.status().exit_code()), (Status::Held, 3));
    assert_eq!(played.verdict("r").unwrap().verdict, "request_changes");
    let held = played
        .events
        .iter()
        .any(|event| matches!(&event.event, RunEvent::NodeHeld { node, .. } if node.as_str() == "a"));
    assert!(held);
}

#[test]
fn two_reviewers_that_ask_for_changes_are_both_named() {
    let changes = || votes("request_changes");
    let played = jobs(&["a", "r ? a", "s ? a"]).jobs(1).script("r", changes()).script("s", changes()).play();
    assert_eq!(played.states(), "a=held r=passed s=passed");
    assert_eq!(
        played.reason("a"),
        "`r` asks for changes: r says request_changes; `s` asks for changes: s says request_changes"
    );
}

#[test]
fn a_reviewer_is_never_satisfied_without_an_approval() {
    let bad = |sidecar: Option<&str>| Script { sidecar: sidecar.map(str::to_owned), ..Script::default() };
    let other = r#"{"verdict":"approve","summary":"x","findings":[],"head":"0000000000000000000000000000000000000000"}"#;
    for (script, word) in [
        (bad(None), "missing"),
        (bad(Some("")), "not-json"),
        (bad(Some("{\"verdict\":\"approve\"}")), "wrong-shape"),
        (bad(Some(other)), "wrong-commit"),
        (bad(Some(r#"{"verdict":"approve","summary":"x","findings":[],"node":"a"}"#)), "wrong-node"),
        (bad(Some(r#"{"verdict":"approve","summary":"x","findings":[],"nonce":"n"}"#)), "wrong-nonce"),
    ] {
        let played = jobs(&["a", "r ? a", "b < a"]).script("r", script).play();
        assert_eq!(played.states(), "a=passed r=held b=waiting", "{word}");
        assert!(played.reason("r").starts_with(&format!("{word}: ")), "{}", played.reason("r"));
        assert_eq!(played.reason("b"), "gated by `r`, the reviewer of `a`, which is held");
        assert_eq!(played.verdict("r").unwrap().verdict, "held");
        assert_eq!(played.status(), Status::Held);
    }
}

#[test]
fn a_reviewer_that_fails_has_no_vote() {
    let script = Script { exit: 1, stdout: exits(1).stdout, ..votes("approve") };
    let played = jobs(&["a", "r ? a", "b < a"]).script("r", script).play();
    assert_eq!(played.states(), "a=passed r=failed b=skipped");
    assert_eq!(played.reason("b"), "gated by `r`, the reviewer of `a`, which is failed");
    assert!(played.verdict("r").is_none());
    assert_eq!(played.status(), Status::Failed);
}

#[test]
fn a_reviewer_of_what_failed_is_skipped() {
    let played = jobs(&["a", "r ? a"]).script("a", exits(1)).script("r", votes("approve")).play();
    assert_eq!(played.states(), "a=failed r=skipped");
    assert_eq!(played.reason("r"), "reviews `a`, which is failed");
}

#[test]
fn an_exit_status_is_a_verdict_up_to_123() {
    let nodes =
        "[nodes.a]\nprompt = \"true\"\n[nodes.r]\nreviews = \"a\"\nverdict = \"exit\"\nprompt = \"true\"";
    let by_exit = |code: i32, verdict: Option<&str>| Script {
        sidecar: verdict.and_then(|verdict| votes(verdict).sidecar),
        ..exits(code)
    };
    for (script, states) in [
        (by_exit(0, Some("approve")), "a=passed r=passed"),
        (by_exit(0, Some("request_changes")), "a=held r=passed"),
        (by_exit(0, None), "a=passed r=held"),
        (by_exit(124, None), "a=passed r=held"),
        (by_exit(137, None), "a=passed r=held"),
    ] {
        let code = script.exit;
        let played = rig(nodes).script("r", script).play();
        assert_eq!(played.states(), states, "{code}");
        if code >= 124 {
            assert_eq!(
                played.reason("r"),
                format!("exit-status: the script ended with status {code}, which is no verdict")
            );
        }
    }
}

#[test]
fn evidence_runs_before_the_verdict_that_needs_it_and_after_the_others() {
    // `bench` needs `a` and `deep` needs `bench`: it cannot wait for `deep`, but it waits for `quick`.
    let plan = || jobs(&["a", "quick ? a", "bench < a", "deep ? a < bench", "b < a"]);
    let played = plan().script("quick", votes("approve")).script("deep", votes("approve")).play();
    assert_eq!(played.ran(), ["a", "quick", "bench", "deep", "b"]);
    assert_eq!(played.status(), Status::Passed);

    let played = plan().script("quick", votes("approve")).script("deep", votes("request_changes")).play();
    assert_eq!(played.states(), "a=held quick=passed bench=passed deep=passed b=waiting");

    let played = plan().script("quick", votes("request_changes")).script("deep", votes("approve")).play();
    assert_eq!(played.states(), "a=held quick=passed bench=waiting deep=waiting b=waiting");
    assert_eq!(played.ran(), ["a", "quick"]);
}

#[test]
fn what_waits_for_a_reviewer_says_what_it_asks_for() {
    let plan = || jobs(&["a", "bench < a", "deep ? a < bench", "b < bench", "c < deep", "d < c"]);
    let played = plan().script("deep", votes("request_changes")).play();
    assert_eq!(played.states(), "a=held bench=passed deep=passed b=waiting c=waiting d=waiting");
    assert_eq!(played.reason("deep"), "asks for changes: deep says request_changes");
    assert_eq!(played.reason("b"), "gated by `deep`, the reviewer of `a`, which asks for changes");
    assert_eq!(played.reason("c"), "needs `deep`, which asks for changes");
    assert_eq!(played.reason("d"), "needs `c`, which is waiting");
}

#[test]
fn fail_fast_starts_nothing_more_and_lets_finish_what_runs() {
    let slow = || Script { runs: Duration::from_millis(300), ..Script::default() };
    let plan = || {
        let mut rig = jobs(&["a", "b", "c", "d < b"]).jobs(2).script("a", exits(1)).script("b", slow());
        rig.fail_fast = true;
        rig
    };
    let played = plan().play();
    assert_eq!(played.states(), "a=failed b=passed c=skipped d=skipped");
    assert_eq!(played.reason("c"), "the run stopped at its first failure");
    assert_eq!(played.status(), Status::Failed);

    let played = plan().script("a", held()).play();
    assert_eq!(played.states(), "a=held b=passed c=passed d=passed", "a hold is no failure");
}

#[test]
fn without_fail_fast_the_rest_goes_on() {
    let played = jobs(&["a", "b", "c"]).jobs(1).script("a", exits(1)).play();
    assert_eq!(played.states(), "a=failed b=passed c=passed");
}

#[test]
fn a_timeout_stops_a_node_and_no_other() {
    let nodes = "[nodes.a]\nprompt = \"x\"\ntimeout = \"1s\"\n[nodes.b]\nprompt = \"x\"\n[nodes.c]\nneeds = [\"a\"]\nprompt = \"x\"";
    let slow = Script { runs: Duration::from_millis(1500), ..Script::default() };
    let played = rig(nodes).script("a", endless()).script("b", slow).play();
    assert_eq!(played.states(), "a=failed b=passed c=skipped");
    assert_eq!(played.reason("a"), "its timeout of 1s ran out");
    assert_eq!(played.end("a").outcome, "timed-out");
}

#[test]
fn a_log_past_its_cap_stops_the_node() {
    let mut rig = jobs(&["a", "b"]);
    rig.log_max = 100;
    let loud = Script {
        runs: Duration::from_secs(600),
        stdout: vec![r#"{"type":"output","text":"0123456789012345678901234567890123456789"}"#.into(); 9],
        ..Script::default()
    };
    let played = rig.script("a", loud).play();
    assert_eq!(played.states(), "a=failed b=passed");
    assert_eq!(played.end("a").outcome, "runaway");
    assert_eq!(played.reason("a"), "it wrote more than 100 bytes to stdout");
    assert!(played.shelf.lock().stdout["a"].len() < 300, "and what is beyond is not kept");
}

#[test]
fn a_refused_credential_stops_an_agent_that_retries() {
    let nodes = "[nodes.a]\nrunner = \"claude-code\"\nmodel = \"claude-sonnet-4-5\"\nprompt = \"work\"";
    let line = r#"{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":500,"error_status":401,"error":"authentication_failed"}"#;
    let script = Script { stdout: vec![line.into()], ..endless() };
    let played = rig(nodes).script("a", script).play();
    assert_eq!(played.states(), "a=failed");
    assert_eq!(played.end("a").outcome, "credential-refused");
}

#[test]
fn files_that_cannot_be_written_are_infrastructure() {
    for what in ["folder", "prompt", "log", "line", "flush", "verdict"] {
        let rig = jobs(&["a", "r ? a"]).script("r", votes("approve"));
        rig.shelf.lock().broken = Some(what);
        let played = rig.play();
        assert_eq!(played.status(), Status::Infrastructure, "{what}");
        let node = if what == "verdict" { "r" } else { "a" };
        assert!(played.reason(node).ends_with("no space left"), "{what}: {}", played.reason(node));
        assert_eq!(played.end(node).outcome, "infrastructure", "{what}");
    }
}

#[test]
fn the_worst_end_is_the_runs() {
    let plan = || jobs(&["a", "b", "c", "d < a"]);
    let status = |rig: Rig| rig.play().status();
    assert_eq!(status(plan()), Status::Passed);
    assert_eq!(status(plan().script("a", held())), Status::Held);
    assert_eq!(status(plan().script("a", held()).script("b", exits(1))), Status::Failed);
    let all = || plan().script("a", held()).script("b", exits(1)).script("c", infrastructure());
    assert_eq!(status(all()), Status::Infrastructure);
    assert_eq!(Status::Infrastructure.exit_code(), 4);
    assert_eq!(Status::Interrupted.exit_code(), 130);
}

#[test]
fn only_a_part_of_the_plan_runs() {
    let mut rig = jobs(&["a", "r ? a", "b < a", "other", "late < other"]);
    let wanted = [rig.ix("b")];
    rig.active = vec![false; 5];
    for node in rig.dag.closure_for_only(&wanted) {
        rig.active[node] = true;
    }
    let played = rig.script("r", votes("approve")).play();
    assert_eq!(played.states(), "a=passed r=passed b=passed");
    let RunEvent::RunStarted { nodes, .. } = &played.events[0].event else { panic!() };
    assert_eq!(nodes.iter().map(|node| node.as_str()).collect::<Vec<_>>(), ["a", "r", "b"]);
    assert!(!played.events.iter().any(|event| skipped(event).is_some()), "the others do not exist");
}

#[test]
fn nothing_to_do_is_a_run_that_passed() {
    let mut rig = jobs(&["a"]);
    rig.active = vec![false];
    let played = rig.play();
    assert_eq!((played.states().as_str(), played.status()), ("", Status::Passed));
    assert_eq!(played.events.len(), 2);
}

#[test]
fn warnings_are_told_after_the_start() {
    let mut rig = jobs(&["a"]);
    rig.warnings = vec!["one".into(), "two".into()];
    let played = rig.play();
    let told: Vec<_> = played.events[1..3].iter().map(|event| &event.event).collect();
    let warning = |message: &str| RunEvent::Warning { message: message.into() };
    assert_eq!(told, [&warning("one"), &warning("two")]);
}

#[test]
fn one_job_at_a_time_is_one() {
    let quick = || Script { runs: Duration::from_millis(20), ..Script::default() };
    let played = jobs(&["a", "b", "c"]).jobs(1).script("a", quick()).script("b", quick()).play();
    use kew::run::scripted::Happened::{Ended, Started};
    let happened = played.engine().happened();
    assert!(happened.chunks(2).all(|pair| matches!(pair, [Started(a), Ended(b)] if a == b)), "{happened:?}");
    assert_eq!(played.ran(), ["a", "b", "c"]);
}

#[test]
fn a_thousand_nodes_end() {
    let names: Vec<String> = (0..1000)
        .map(|at| if at < 10 { format!("n{at}") } else { format!("n{at} < n{}, n{}", at - 10, at - 7) })
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let played = jobs(&names).play();
    assert_eq!(played.status(), Status::Passed);
    assert_eq!(played.ran().len(), 1000);
}
