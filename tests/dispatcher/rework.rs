//! Doing again: rounds that reviewers send back, and tries that a retry cures.

use kew::{
    event::RunEvent,
    record::NodeState,
    run::{
        dispatcher::Status,
        executor::{Source, Trouble},
        scripted::Script,
    },
};

use super::rig::{Played, Rig, exits, id, rig, votes};

/// Asks for changes, with one finding.
fn wants(message: &str) -> Script {
    let sidecar = format!(
        r#"{{"verdict":"request_changes","summary":"not yet","findings":[{{"severity":"major","message":"{message}","path":"src/a.rs","line":7}}]}}"#
    );
    Script { sidecar: Some(sidecar), ..Script::default() }
}

fn commits() -> Script {
    Script { commits: 1, ..Script::default() }
}

/// `a` is reviewed by `r` and `q`, `b` is behind it.
fn reviewed(rework: u32) -> Rig {
    rig(&format!(
        "[nodes.a]\nprompt = \"x\"\nrework = {rework}\n[nodes.r]\nprompt = \"x\"\nreviews = \"a\"\n\
         [nodes.q]\nprompt = \"x\"\nreviews = \"a\"\n[nodes.b]\nprompt = \"x\"\nneeds = [\"a\"]\n"
    ))
    .script("a", commits())
    .script("q", votes("approve"))
}

fn attempts(played: &Played, node: &str) -> Vec<(u32, u32, u32)> {
    let rows = played.state.starts.iter().filter(|row| row.key.node.as_str() == node);
    rows.map(|row| (row.key.attempt, row.round, row.tries)).collect()
}

fn heads(played: &Played, node: &str) -> Vec<kew::name::CommitId> {
    let rows = played.state.ends.iter().filter(|(row, _, _)| row.key.node.as_str() == node);
    rows.filter_map(|(row, _, _)| row.head.clone()).collect()
}

#[test]
fn a_subject_goes_on_from_what_was_rejected_until_all_approve() {
    let played =
        reviewed(2).scripts("r", vec![wants("the name is wrong"), wants("no test"), votes("approve")]).play();
    assert_eq!(played.states(), "a=passed r=passed q=passed b=passed");
    assert_eq!(played.status(), Status::Passed);
    assert_eq!(attempts(&played, "a"), [(1, 1, 1), (2, 2, 1), (3, 3, 1)]);
    assert_eq!(
        attempts(&played, "q"),
        [(1, 1, 1), (2, 2, 1), (3, 3, 1)],
        "every verdict is void in a new round"
    );
    assert_eq!(attempts(&played, "b").len(), 1);
    let heads = heads(&played, "a");
    for round in [2, 3] {
        let source = played.engine().source(&id("a"), round).unwrap();
        assert_eq!(source, Source::One(heads[round as usize - 2].clone()), "round {round}");
    }
    assert_eq!(played.engine().source(&id("b"), 1), Some(Source::One(heads[2].clone())));
    let reviewed = played.engine().source(&id("q"), 2).unwrap();
    assert_eq!(reviewed, Source::One(heads[1].clone()), "reviewers look at what stands");
    let prompt = played.prompt("a");
    assert!(prompt.contains("KEW_ROUND='3'") && prompt.contains("major: src/a.rs:7: no test"), "{prompt}");
    assert!(!prompt.contains("the name is wrong"), "only the last round's findings: {prompt}");
    let rounds: Vec<(u32, usize)> = played
        .events
        .iter()
        .filter_map(|event| match &event.event {
            RunEvent::RoundStarted { round, of: 3, reviewers, findings, again, .. } => {
                assert_eq!((reviewers, again.len()), (&vec![id("r")], 3), "`a`, `r` and `q` wait again");
                Some((*round, *findings))
            }
            _ => None,
        })
        .collect();
    assert_eq!(rounds, [(2, 1), (3, 1)]);
}

#[test]
fn a_subject_that_never_convinces_is_held_after_its_rounds() {
    let asks = (0..9).map(|n| wants(&format!("finding {n}"))).collect();
    let played = reviewed(2).scripts("r", asks).play();
    assert_eq!(played.states(), "a=held r=passed q=passed b=waiting");
    assert_eq!(played.status(), Status::Held);
    assert_eq!(attempts(&played, "a").len(), 3);
    assert_eq!(played.reason("a"), "`r` asks for changes: not yet; 2 rounds of rework did not help");
    assert_eq!(played.reason("r"), "asks for changes: not yet");
}

#[test]
fn one_that_hears_the_same_again_is_held_early() {
    let played = reviewed(9).script("r", wants("the same")).play();
    assert_eq!(attempts(&played, "a").len(), 2);
    assert!(played.reason("a").contains("it is what was found before"), "{}", played.reason("a"));
    assert_eq!(played.status(), Status::Held);
}

#[test]
fn a_round_that_brings_nothing_is_held_without_asking_the_reviewers() {
    for none in [Script::default(), Script { commits: 0, ..Script::default() }] {
        let played = reviewed(9).scripts("a", vec![commits(), none]).script("r", wants("x")).play();
        assert_eq!(played.states(), "a=held r=waiting q=waiting b=waiting");
        assert!(played.reason("a").starts_with("round 2 changed nothing, but `r` asks for changes"));
        assert_eq!(attempts(&played, "r").len(), 1);
    }
}

#[test]
fn a_round_waits_for_all_reviewers_and_a_held_one_keeps_it_open() {
    let held = Script { sidecar: None, ..Script::default() };
    let played = reviewed(2).script("r", wants("x")).script("q", held).play();
    assert_eq!(played.states(), "a=passed r=passed q=held b=waiting");
    assert_eq!(attempts(&played, "a").len(), 1, "a person's word on `q` is missing");
    assert_eq!(played.status(), Status::Held);
    let played = reviewed(1).script("r", wants("x")).scripts("q", vec![exits(2), votes("approve")]);
    let played = played.scripts("r", vec![wants("x"), votes("approve")]).play();
    assert_eq!(played.states(), "a=passed r=passed q=passed b=passed", "a failed reviewer looks again too");
}

#[test]
fn a_dear_reviewer_behind_a_cheap_one_is_spared_while_that_asks_for_changes() {
    let played = rig(
        "[nodes.a]\nprompt = \"x\"\nrework = 1\n[nodes.test]\nprompt = \"x\"\nreviews = \"a\"\n\
         [nodes.review]\nprompt = \"x\"\nreviews = \"a\"\nneeds = [\"test\"]\n[nodes.b]\nprompt = \"x\"\nneeds = [\"a\"]\n",
    )
    .script("a", commits())
    .scripts("test", vec![wants("x"), votes("approve")])
    .script("review", votes("approve"))
    .play();
    assert_eq!(played.states(), "a=passed test=passed review=passed b=passed");
    assert_eq!(attempts(&played, "review"), [(1, 2, 1)]);
}

#[test]
fn evidence_is_made_again_with_every_round() {
    let played = rig("[nodes.a]\nprompt = \"x\"\nrework = 1\n[nodes.e]\nprompt = \"x\"\nneeds = [\"a\"]\n\
         [nodes.r]\nprompt = \"x\"\nreviews = \"a\"\nneeds = [\"e\"]\n")
    .script("a", commits())
    .script("e", commits())
    .scripts("r", vec![wants("x"), votes("approve")])
    .play();
    assert_eq!(played.states(), "a=passed e=passed r=passed");
    assert_eq!(attempts(&played, "e"), [(1, 1, 1), (2, 1, 1)]);
    let second = played.engine().source(&id("e"), 2).unwrap();
    assert_eq!(second, Source::One(heads(&played, "a")[1].clone()), "from the commit that stands");
}

#[test]
fn only_what_a_retry_may_cure_is_tried_again() {
    let crash = || Script { stdout: Vec::new(), exit: 139, ..Script::default() };
    let disk = || Script { trouble: Some(Trouble::Infrastructure("the disk".into())), ..Script::default() };
    let node = |retries: u32| rig(&format!("[nodes.a]\nprompt = \"x\"\nretries = {retries}\n"));
    let played = node(2).scripts("a", vec![crash(), disk(), commits()]).play();
    assert_eq!((played.states().as_str(), played.status()), ("a=passed", Status::Passed));
    assert_eq!(attempts(&played, "a"), [(1, 1, 1), (2, 1, 2), (3, 1, 3)]);
    let told =
        played.events.iter().filter(|event| matches!(event.event, RunEvent::NodeRetries { of: 3, .. }));
    assert_eq!(told.count(), 2);

    let played = node(1).scripts("a", vec![disk(), disk(), commits()]).play();
    assert_eq!((played.states().as_str(), played.status()), ("a=failed", Status::Infrastructure));
    assert_eq!(attempts(&played, "a").len(), 2);

    let played = node(5).scripts("a", vec![exits(1), commits()]).play();
    assert_eq!(
        (played.states().as_str(), played.status()),
        ("a=failed", Status::Failed),
        "failed work stays so"
    );
    assert_eq!(attempts(&played, "a").len(), 1);
}

#[test]
fn a_retry_in_a_round_starts_from_what_the_round_starts_from() {
    let crash = Script { stdout: Vec::new(), exit: 139, commits: 1, ..Script::default() };
    let played = rig(
        "[nodes.a]\nprompt = \"x\"\nrework = 1\nretries = 1\n[nodes.r]\nprompt = \"x\"\nreviews = \"a\"\n",
    )
    .scripts("a", vec![crash.clone(), commits(), crash, commits()])
    .scripts("r", vec![wants("x"), votes("approve")])
    .play();
    assert_eq!(
        attempts(&played, "a"),
        [(1, 1, 1), (2, 1, 2), (3, 2, 1), (4, 2, 2)],
        "a round has its own tries"
    );
    let of = |attempt| played.engine().source(&id("a"), attempt).unwrap();
    assert_eq!((of(1), of(3)), (of(2), of(4)));
    assert_eq!(of(4), Source::One(heads(&played, "a")[0].clone()));
}

#[test]
fn nothing_is_done_again_after_a_stop() {
    let played = reviewed(3).script("r", wants("x")).script("b", commits());
    let mut played = played;
    played.fail_fast = true;
    let played = played.scripts("q", vec![exits(2)]).play();
    assert!(played.ended.nodes.iter().all(|(_, state, _)| *state != NodeState::Running));
    assert_eq!(attempts(&played, "a").len(), 1, "{}", played.states());
}
