//! Rate limits: a pause of one credential, with the others going on; in made-up time, through the dispatcher alone, and
//! played over a loop.

use std::time::Duration;

use kew::{
    event::RunEvent,
    outcome::{Kind, Outcome},
    plan::spec::NodeIx,
    record::NodeState,
    run::{
        dispatcher::{Action, Dispatcher, Launch, Now, Status},
        node::{Report, Told},
        scripted::Script,
    },
    stream::StreamEvent,
};

use super::{
    decide::{at, dispatcher, report},
    rig::{Rig, whole},
};

/// `a` and `b` share a credential, `c` has another.
fn two_credentials() -> Rig {
    whole(
        "version = 1\nepic.name = \"e\"\n[nodes.a]\nrunner = \"claude-code\"\nmodel = \"sonnet\"\nprompt = \"x\"\n\
         [nodes.b]\nrunner = \"claude-code\"\nmodel = \"sonnet\"\nneeds = [\"c\"]\nprompt = \"x\"\n\
         [nodes.c]\nrunner = \"shell\"\nprompt = \"x\"\n",
    )
}

fn limited(node: NodeIx, attempt: u32, resets_at: Option<i64>) -> Box<Report> {
    let mut report = report(node, Outcome::new(Kind::RateLimited, "the limit is used up"));
    report.attempt = attempt;
    report.account.apply(&StreamEvent::RateLimited { resets_at });
    report
}

fn passed(node: NodeIx, attempt: u32) -> Box<Report> {
    let mut report = report(node, Outcome::passed());
    report.attempt = attempt;
    report
}

fn launches(actions: &[Action]) -> Vec<(NodeIx, u32, u32)> {
    let launch = |action: &Action| match action {
        Action::Launch(Launch { node, attempt, tries, .. }) => Some((*node, *attempt, *tries)),
        _ => None,
    };
    actions.iter().filter_map(launch).collect()
}

fn pauses(actions: &[Action]) -> Vec<(String, i64, bool)> {
    let pause = |action: &Action| match action {
        Action::Tell(RunEvent::Paused { credential, until, given, .. }) => {
            Some((credential.clone(), *until, *given))
        }
        _ => None,
    };
    actions.iter().filter_map(pause).collect()
}

fn ended(run: &mut Dispatcher<'_>, report: Box<Report>, now: Now) -> Vec<Action> {
    run.told(Told::Ended(report), now)
}

#[test]
fn one_credential_pauses_until_its_reset_and_the_other_goes_on() {
    let rig = two_credentials();
    let mut run = dispatcher(&rig);
    assert_eq!(launches(&run.start(at(0))), [(0, 1, 1), (2, 1, 1)]);
    // The clock of `at` stands at 1,000 s; the limit is reset 20 s after the start.
    let actions = ended(&mut run, limited(0, 1, Some(1020)), at(3));
    assert_eq!(pauses(&actions), [("claude-code".to_owned(), 1_022_000, true)]);
    assert!(launches(&actions).is_empty());
    assert_eq!(run.state(0), NodeState::Waiting);
    let actions = ended(&mut run, passed(2, 1), at(5));
    assert!(launches(&actions).is_empty(), "`b` has the paused credential");
    assert!(!run.done());
    assert_eq!(run.next_deadline(), Some(Duration::from_secs(22)));
    assert!(launches(&run.tick(at(21))).is_empty());
    assert_eq!(launches(&run.tick(at(22))), [(0, 2, 1), (1, 1, 1)], "no try was spent");
    ended(&mut run, passed(0, 2), at(23));
    ended(&mut run, passed(1, 1), at(24));
    assert!(run.done());
    assert_eq!(run.status(), Status::Passed);
}

#[test]
fn without_a_word_on_the_time_pauses_grow_and_a_pass_ends_them() {
    let rig = two_credentials();
    let mut run = dispatcher(&rig);
    run.start(at(0));
    let mut now = 0;
    let mut waits = Vec::new();
    for attempt in 1..7 {
        let actions = ended(&mut run, limited(0, attempt, None), at(now));
        let (_, until, given) = pauses(&actions).remove(0);
        assert!(!given);
        let wait = (until - at(now).unix_ms) / 1000;
        waits.push(wait);
        now += wait as u64;
        assert_eq!(launches(&run.tick(at(now))), [(0, attempt + 1, 1)]);
    }
    assert_eq!(waits, [60, 120, 240, 480, 900, 900]);
    ended(&mut run, passed(0, 7), at(now));
    ended(&mut run, passed(2, 1), at(now));
    let actions = ended(&mut run, limited(1, 1, None), at(now));
    assert_eq!((pauses(&actions)[0].1 - at(now).unix_ms) / 1000, 60);
}

#[test]
fn a_pause_that_is_too_long_ends_the_run_with_nothing_failed() {
    let mut rig = two_credentials();
    rig.max_wait = Some(Duration::from_secs(900));
    let mut run = dispatcher(&rig);
    run.start(at(0));
    ended(&mut run, limited(0, 1, Some(1000 + 7200)), at(3));
    assert!(!run.done(), "`c` still runs");
    ended(&mut run, passed(2, 1), at(5));
    assert!(run.done());
    assert_eq!((run.status(), run.status().exit_code()), (Status::Capped, 5));
    let left = run.leftovers();
    assert_eq!(left.len(), 2);
    for (_, state, reason) in left {
        assert_eq!(state, NodeState::Waiting);
        assert!(
            reason.contains("the rate limit of `claude-code` lasts") && reason.contains("15m"),
            "{reason}"
        );
    }
}

#[test]
fn a_provider_that_always_refuses_ends_the_run_in_the_end() {
    let mut rig = two_credentials();
    rig.active = vec![true, false, false];
    let mut run = dispatcher(&rig);
    run.start(at(0));
    let mut now = 0;
    let mut attempt = 1;
    while !run.done() {
        ended(&mut run, limited(0, attempt, None), at(now));
        now += 900;
        run.tick(at(now));
        attempt += 1;
        assert!(attempt < 50);
    }
    assert_eq!(run.status(), Status::Capped);
    assert!(run.leftovers()[0].2.contains("12 times in a row"));
}

#[test]
fn a_loop_waits_for_the_reset_and_the_node_passes() {
    let reset = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 2;
    let refused = Script {
        stdout: vec![format!(
            r#"{{"type":"rate_limit_event","rate_limit_info":{{"status":"rejected","resetsAt":{reset}}}}}"#
        )],
        exit: 1,
        ..Script::default()
    };
    let good = Script {
        stdout: vec![
            r#"{"type":"result","subtype":"success","is_error":false,"result":"done","session_id":"s"}"#
                .to_owned(),
        ],
        commits: 1,
        ..Script::default()
    };
    let played = whole(
        "version = 1\nepic.name = \"e\"\n[nodes.a]\nrunner = \"claude-code\"\nmodel = \"sonnet\"\nprompt = \"x\"\n\
         [nodes.c]\nrunner = \"shell\"\nprompt = \"x\"\n[nodes.d]\nrunner = \"shell\"\nneeds = [\"c\"]\nprompt = \"x\"\n",
    )
    .scripts("a", vec![refused, good])
    .play();
    assert_eq!((played.states().as_str(), played.status()), ("a=passed c=passed d=passed", Status::Passed));
    let mut last = played.events.iter().filter_map(|event| match &event.event {
        RunEvent::NodeEnded { node, .. } => Some(node.to_string()),
        _ => None,
    });
    assert_eq!(last.next_back().as_deref(), Some("a"), "the others finished meanwhile");
    let tries: Vec<u32> =
        played.state.starts.iter().filter(|row| row.key.node.as_str() == "a").map(|row| row.tries).collect();
    assert_eq!(tries, [1, 1]);
}
