//! A state that cannot be written: the run stops, says so, and nothing runs that is not on record.

use std::{collections::BTreeSet, time::Duration};

use kew::{
    record::NodeState,
    run::{dispatcher::Status, scripted::Script},
};

use super::{
    memory::Fails,
    rig::{Played, Rig, exits, jobs, votes},
};

/// A bit of everything: a chain, reviewers with both votes, a failure, a skip, a wait.
fn plan() -> Rig {
    let short = || Script { runs: Duration::from_millis(2), commits: 1, ..Script::default() };
    jobs(&["a", "b < a", "r ? b", "s ? b", "c < b", "x", "y < x", "z"])
        .jobs(3)
        .script("a", short())
        .script("b", short())
        .script("r", votes("approve"))
        .script("s", votes("request_changes"))
        .script("x", exits(1))
}

fn with(fails: Fails) -> Played {
    let mut rig = plan();
    rig.state.fails = Some(fails);
    rig.play()
}

fn calls() -> usize {
    let played = plan().play();
    assert_eq!(played.states(), "a=passed b=held r=passed s=passed c=waiting x=failed y=skipped z=passed");
    played.state.calls
}

#[test]
fn a_state_that_fails_at_any_call_stops_the_run() {
    let calls = calls();
    assert!(calls > 30, "{calls}");
    for at in 1..=calls {
        for fails in [Fails::Once(at), Fails::From(at)] {
            let played = with(fails);
            if played.state.calls < at {
                // Threads took another turn and there were fewer calls this time; then nothing failed.
                assert!(played.ended.broken.is_none());
                continue;
            }
            assert_eq!(played.status(), Status::Infrastructure, "{fails:?}");
            let broken = played.ended.broken.as_ref().expect("it says what broke");
            assert_eq!(broken.0, format!("call {at}"), "the first refusal is the one that is told");
            for (node, state, _) in &played.ended.nodes {
                assert_ne!(*state, NodeState::Running, "{fails:?}: {node}");
            }
            let ran: BTreeSet<_> = played.ran().into_iter().collect();
            let recorded: BTreeSet<_> =
                played.state.starts.iter().map(|row| row.key.node.to_string()).collect();
            assert!(ran.is_subset(&recorded), "{fails:?}: {ran:?} ran, {recorded:?} are on record");
            if let Some(end) = &played.state.ended {
                assert_eq!((end.status.as_str(), end.exit_code), ("infrastructure", 4), "{fails:?}");
            }
        }
    }
}

#[test]
fn what_did_not_run_is_cancelled_with_the_reason() {
    let played = with(Fails::From(1));
    assert_eq!(
        played.states(),
        "a=cancelled b=cancelled r=cancelled s=cancelled c=cancelled x=cancelled y=cancelled z=cancelled"
    );
    assert_eq!(played.reason("a"), "the run stopped because its state could not be written");
    assert!(played.ran().is_empty());
}

#[test]
fn a_start_that_is_not_on_record_never_runs() {
    let clean = jobs(&["a"]).play();
    // The start of the run is told first.
    assert_eq!(
        clean.state.calls, 7,
        "run-started, the attempt, node-started, its end, node-ended, the run's end twice"
    );
    let mut rig = jobs(&["a"]);
    rig.state.fails = Some(Fails::Once(2));
    let played = rig.play();
    assert_eq!(played.states(), "a=cancelled");
    assert!(played.ran().is_empty());
    assert!(played.state.starts.is_empty());
}

#[test]
fn a_long_node_is_stopped_when_the_state_breaks() {
    let quick = jobs(&["long", "a"]).script("long", super::rig::endless());
    let mut rig = quick;
    // The fifth to eighth calls are those of `a`'s end, while `long` runs.
    rig.state.fails = Some(Fails::From(6));
    let played = rig.play();
    assert_eq!(played.status(), Status::Infrastructure);
    assert!(played.states().starts_with("long=cancelled"), "{}", played.states());
}
