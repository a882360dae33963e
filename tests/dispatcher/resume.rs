//! Going on after a death at any step: the same end as of a run that nobody disturbed, and nothing that counts done twice.

use std::collections::HashMap;

use kew::{
    event::RunEvent,
    name::NodeId,
    record::NodeState,
    run::{
        past::{Past, PastAttempt, PastNode},
        scripted::Script,
    },
    stream::CostSource,
    verdict::Opinion,
};

use super::{
    memory::State,
    rig::{Played, Rig, exits, id, rig, votes},
};

/// What is on record, with attempts that nobody ended as interrupted.
fn past(rig: &Rig, state: &State) -> Past {
    let node = |node: &kew::plan::spec::Node| {
        let known = state.nodes.get(&node.id).cloned().unwrap_or((NodeState::Waiting, None));
        let starts = state.starts.iter().filter(|row| row.key.node == node.id);
        let attempts = starts.map(|start| {
            let end = state.ends.iter().find(|(end, _, _)| end.key == start.key);
            let asks = end.and_then(|(_, _, verdict)| verdict.as_ref());
            let voted = asks.map(|verdict| verdict.commit.clone());
            let asks = asks.filter(|verdict| verdict.verdict == "request_changes").map(|verdict| {
                let findings = serde_json::from_str(&verdict.findings_json).unwrap();
                let opinion = Opinion { summary: verdict.summary.clone(), findings, pick: None };
                (verdict.commit.clone(), opinion)
            });
            PastAttempt {
                attempt: start.key.attempt,
                round: start.round,
                input: end.and_then(|(end, _, _)| end.input.clone()),
                head: end.and_then(|(end, _, _)| end.head.clone()),
                voted,
                asks,
                tokens: end.and_then(|(end, _, _)| end.tokens),
                cost_usd: end.and_then(|(end, _, _)| end.cost_usd),
                not_billed_usd: None,
                unknown_cost: end.is_none_or(|(end, _, _)| end.cost_source == CostSource::Unknown),
            }
        });
        let round = |event: &&kew::event::Stamped| matches!(&event.event, RunEvent::RoundStarted { node: subject, .. } if *subject == node.id);
        PastNode {
            state: known.0,
            reason: known.1,
            round: 1 + state.events.iter().filter(round).count() as u32,
            attempts: attempts.collect(),
            again: false,
        }
    };
    Past {
        nodes: rig.plan.nodes.iter().map(node).collect(),
        seq: state.events.last().map_or(0, |event| event.seq),
    }
}

/// The scripts for what is left: an attempt that ended has used its script up, an interrupted one has not.
fn left(scripts: &HashMap<NodeId, Vec<Script>>, state: &State) -> HashMap<NodeId, Vec<Script>> {
    let of = |(node, scripts): (&NodeId, &Vec<Script>)| {
        let started = state.starts.iter().filter(|row| row.key.node == *node).count();
        let ended = state.ends.iter().filter(|(row, _, _)| row.key.node == *node).count();
        let mut all = vec![scripts[0].clone(); started];
        all.extend(scripts.iter().skip(ended.min(scripts.len() - 1)).cloned());
        (node.clone(), all)
    };
    scripts.iter().map(of).collect()
}

fn wants(message: &str) -> Script {
    let sidecar = format!(
        r#"{{"verdict":"request_changes","summary":"no","findings":[{{"severity":"major","message":"{message}"}}]}}"#
    );
    Script { sidecar: Some(sidecar), ..Script::default() }
}

fn commits() -> Script {
    Script { commits: 1, ..Script::default() }
}

/// Rework in two rounds with evidence, a failure with what is behind it, a held reviewer, a retry.
fn epic() -> Rig {
    let node = |id: &str, keys: &str| format!("[nodes.{id}]\nprompt = \"x\"\n{keys}\n");
    let text = [
        node("a", "rework = 2"),
        node("e", "needs = [\"a\"]"),
        node("r", "reviews = \"a\"\nneeds = [\"e\"]"),
        node("q", "reviews = \"a\""),
        node("b", "needs = [\"a\"]\nretries = 1"),
        node("f", ""),
        node("g", "needs = [\"f\"]"),
        node("h", ""),
        node("s", "reviews = \"h\""),
        node("t", "needs = [\"h\"]"),
    ];
    let crash = Script { stdout: Vec::new(), exit: 139, ..Script::default() };
    let mut epic = rig(&text.concat())
        .commits(&["a", "e", "h"])
        // In the second round `q` is the first to ask, so that `e`, and `r` behind it, do not start.
        .scripts("r", vec![wants("one"), votes("approve")])
        .scripts("q", vec![votes("approve"), wants("three"), votes("approve")])
        .scripts("b", vec![crash, commits()])
        .script("f", exits(1))
        .script("s", Script::default());
    epic.jobs = 3;
    epic
}

const END: &str = "a=passed e=passed r=passed q=passed b=passed f=failed g=skipped h=passed s=held t=waiting";

fn passes(played: &Played, node: &str) -> usize {
    played
        .state
        .ends
        .iter()
        .filter(|(end, _, _)| end.key.node.as_str() == node && end.outcome == "passed")
        .count()
}

#[test]
fn after_a_death_at_any_step_a_run_ends_as_if_nothing_had_happened() {
    let whole = epic().play();
    assert_eq!(whole.states(), END);
    let rounds = |played: &Played| {
        let is_round = |event: &&kew::event::Stamped| matches!(event.event, RunEvent::RoundStarted { .. });
        played.events.iter().filter(is_round).count()
    };
    assert_eq!((rounds(&whole), passes(&whole, "a")), (2, 3));
    for calls in 0..=whole.state.steps.len() {
        let mut again = epic();
        let known = whole.state.after(calls);
        again.past = Some(past(&again, &known));
        again.scripts = left(&again.scripts, &known);
        let done: HashMap<&NodeId, usize> = known
            .ends
            .iter()
            .filter(|(end, _, _)| end.outcome == "passed")
            .fold(HashMap::new(), |mut done, (end, _, _)| {
                *done.entry(&end.key.node).or_default() += 1;
                done
            });
        let resumed = again.resume();
        assert_eq!(resumed.states(), END, "died after {calls} of {} calls", whole.state.steps.len());
        for node in ["a", "e", "r", "q", "b", "h"] {
            let before = done.get(&id(node)).copied().unwrap_or_default();
            let all = before + passes(&resumed, node);
            assert_eq!(all, passes(&whole, node), "`{node}` did what counts once: died after {calls} calls");
        }
        let told = known.events.iter().chain(&resumed.events);
        let told = told.filter(|event| matches!(event.event, RunEvent::RoundStarted { .. })).count();
        assert_eq!(told, 2, "died after {calls} calls");
    }
}

#[test]
fn a_node_that_is_asked_for_is_done_again_with_all_behind_it_and_nothing_else() {
    let whole = epic().play();
    let mut again = epic();
    let mut known = past(&again, &whole.state);
    let f = again.ix("f");
    known.nodes[f].again = true;
    again.past = Some(known);
    again.scripts.insert(id("f"), vec![commits()]);
    let resumed = again.resume();
    assert_eq!(resumed.states(), END.replace("f=failed g=skipped", "f=passed g=passed"));
    assert_eq!(resumed.ran(), ["f", "g"]);
    assert_eq!(resumed.start("f").key.attempt, 2, "attempts go on counting");
}

#[test]
fn a_reviewer_without_a_vote_on_the_commit_that_stands_looks_again() {
    let nodes = "[nodes.a]\nprompt = \"x\"\n[nodes.r]\nprompt = \"x\"\nreviews = \"a\"\n[nodes.b]\nprompt = \"x\"\nneeds = [\"a\"]\n";
    let play = || rig(nodes).commits(&["a", "b"]).script("r", votes("approve"));
    let whole = play().play();
    for voted in [None, Some(super::rig::commit(super::rig::BASE))] {
        let mut again = play();
        let mut known = past(&again, &whole.state);
        known.nodes[1].attempts[0].voted = voted;
        again.past = Some(known);
        let resumed = again.resume();
        assert_eq!(
            (resumed.states().as_str(), resumed.ran()),
            ("a=passed r=passed b=passed", vec!["r".to_owned(), "b".to_owned()])
        );
    }
}

#[test]
fn a_commit_that_is_gone_is_made_again_with_all_behind_it() {
    let whole = rig(
        "[nodes.a]\nprompt = \"x\"\n[nodes.b]\nprompt = \"x\"\nneeds = [\"a\"]\n[nodes.c]\nprompt = \"x\"\n",
    );
    let whole = whole.commits(&["a", "b", "c"]).play();
    let mut again = rig(
        "[nodes.a]\nprompt = \"x\"\n[nodes.b]\nprompt = \"x\"\nneeds = [\"a\"]\n[nodes.c]\nprompt = \"x\"\n",
    )
    .commits(&["a", "b", "c"]);
    let mut known = past(&again, &whole.state);
    known.nodes[0].again = true;
    again.past = Some(known);
    let resumed = again.resume();
    assert_eq!(
        (resumed.states().as_str(), resumed.ran()),
        ("a=passed b=passed c=passed", vec!["a".to_owned(), "b".to_owned()])
    );
}

#[test]
fn what_was_spent_counts_on() {
    let text = "version = 1\n[epic]\nname = \"e\"\nmax_cost_usd = 1.0\n[defaults]\nrunner = \"opencode\"\nmodel = \"openrouter/x/y\"\n\
                [nodes.a]\nprompt = \"x\"\ncommits = \"optional\"\n[nodes.b]\nneeds = [\"a\"]\nprompt = \"x\"\nmax_cost_usd = 0.5\n";
    let mut again = super::rig::whole(text);
    let spent = PastAttempt {
        attempt: 1,
        round: 1,
        input: Some(super::rig::commit(super::rig::BASE)),
        head: None,
        voted: None,
        asks: None,
        tokens: None,
        cost_usd: Some(0.7),
        not_billed_usd: None,
        unknown_cost: false,
    };
    let passed = PastNode { state: NodeState::Passed, attempts: vec![spent], ..PastNode::new() };
    again.past = Some(Past { nodes: vec![passed, PastNode::new()], seq: 7 });
    let resumed = again.resume();
    assert_eq!(resumed.states(), "a=passed b=waiting");
    assert_eq!(resumed.status(), kew::run::dispatcher::Status::Capped);
    assert!(resumed.reason("b").contains("$0.30 left; it reserves $0.50"), "{}", resumed.reason("b"));
    assert!(
        matches!(&resumed.events.last().unwrap().event, RunEvent::RunEnded { cost_usd: Some(usd), .. } if (usd - 0.7).abs() < 1e-9)
    );
    assert_eq!(resumed.events[0].seq, 8);
}
