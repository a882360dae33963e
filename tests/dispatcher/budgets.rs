//! Budgets and the run's own time: what stops, what starts no more, and how the run ends.

use kew::{
    event::RunEvent,
    outcome::{Outcome, StopCause},
    record::NodeState,
    run::{
        dispatcher::{Action, Dispatcher, Status},
        node::{Progress, Told},
    },
    stream::{CostSource, StreamEvent},
};

use super::{
    decide::{at, dispatcher, report},
    rig::{Rig, whole},
};

/// Five agents that report as they go, each with this cap, two at once; `s` is a plain job behind `a`.
fn five(epic: &str, node: &str) -> Rig {
    let agents: String = ["a", "b", "c", "d", "e"]
        .iter()
        .map(|id| {
            format!("[nodes.{id}]\nrunner = \"opencode\"\nmodel = \"openrouter/x/y\"\nprompt = \"x\"\n")
        })
        .collect();
    let mut rig = whole(&format!(
        "version = 1\n[epic]\nname = \"e\"\n{epic}\n[defaults]\n{node}\n{agents}\
         [nodes.s]\nrunner = \"shell\"\nneeds = [\"a\"]\nprompt = \"x\"\n"
    ));
    rig.jobs = 2;
    rig
}

fn spends(run: &mut Dispatcher<'_>, node: usize, usd: f64) -> Vec<Action> {
    let told = Progress { node, phase: "running", tokens: None, cost_usd: Some(usd), activity: None };
    run.told(Told::Progress(told), at(1))
}

fn ends(run: &mut Dispatcher<'_>, node: usize, usd: f64) -> Vec<Action> {
    let mut report = report(node, Outcome::passed());
    report.free = false;
    report.account.apply(&StreamEvent::StepCost { step: None, usd, source: CostSource::Provider });
    run.told(Told::Ended(report), at(2))
}

fn launched(actions: &[Action]) -> Vec<usize> {
    let launch = |action: &Action| if let Action::Launch(launch) = action { Some(launch.node) } else { None };
    actions.iter().filter_map(launch).collect()
}

fn stopped(actions: &[Action]) -> Vec<(usize, String)> {
    let stop = |action: &Action| match action {
        Action::Stop { node, cause: StopCause::Budget(what) | StopCause::RunDeadline(what), .. } => {
            Some((*node, what.clone()))
        }
        _ => None,
    };
    actions.iter().filter_map(stop).collect()
}

#[test]
fn a_node_reserves_its_own_cap_before_it_starts() {
    let rig = five("max_cost_usd = 5", "max_cost_usd = 2");
    let mut run = dispatcher(&rig);
    assert_eq!(launched(&run.start(at(0))), [0, 1]);
    assert_eq!(launched(&ends(&mut run, 0, 1.9)), [5], "1.9 + 2 + 2 is too much, but a plain job is free");
    assert_eq!(launched(&ends(&mut run, 5, 0.0)), [0; 0]);
    assert_eq!(launched(&ends(&mut run, 1, 0.5)), [2], "2.4 + 2 leaves no room for another 2");
    let last = ends(&mut run, 2, 1.0);
    assert!(launched(&last).is_empty());
    assert!(run.done());
    assert_eq!((run.status(), run.status().exit_code()), (Status::Capped, 5));
    let (node, state, reason) = run.leftovers().remove(0);
    assert_eq!((node, state), (3, NodeState::Waiting));
    assert_eq!(reason, "`d` cannot start: the run's budget of $5.00 has $1.60 left; it reserves $2.00");
}

#[test]
fn a_run_over_its_budget_stops_all_that_costs_and_warns_before() {
    let rig = five("max_cost_usd = 1", "");
    let mut run = dispatcher(&rig);
    run.start(at(0));
    assert!(stopped(&spends(&mut run, 0, 0.5)).is_empty());
    let near = spends(&mut run, 1, 0.4);
    let warns = |action: &Action| matches!(action, Action::Tell(RunEvent::Warning { message }) if message == "the run has spent $0.90 of its budget of $1.00");
    assert_eq!(near.iter().filter(|action| warns(action)).count(), 1);
    let over = spends(&mut run, 1, 0.6);
    let what = "the run spent $1.10 of $1.00".to_owned();
    assert_eq!(stopped(&over), [(0, what.clone()), (1, what)]);
    assert!(launched(&ends(&mut run, 0, 0.5)).is_empty());
    ends(&mut run, 1, 0.6);
    assert!(run.done());
    assert_eq!(run.status(), Status::Capped);
}

#[test]
fn a_node_over_its_own_budget_is_stopped_and_the_run_with_it() {
    let rig = five("", "max_cost_usd = 0.2");
    let mut run = dispatcher(&rig);
    run.start(at(0));
    let over = spends(&mut run, 1, 0.25);
    assert_eq!(stopped(&over), [(1, "it spent $0.25 of $0.20".to_owned())]);
    let stopped = Outcome::new(kew::outcome::Kind::OverBudget, "it spent $0.25 of $0.20");
    run.told(Told::Ended(report(1, stopped)), at(3));
    assert_eq!(run.state(1), NodeState::Cancelled);
    ends(&mut run, 0, 0.1);
    assert!(run.done());
    assert_eq!(run.status(), Status::Capped, "nothing failed");
}

#[test]
fn the_runs_own_time_ends_it_with_nothing_failed() {
    let rig = five("timeout = \"10s\"", "");
    let mut run = dispatcher(&rig);
    run.start(at(0));
    assert_eq!(run.next_deadline(), Some(std::time::Duration::from_secs(10)));
    assert!(run.tick(at(9)).is_empty());
    let over = run.tick(at(10));
    assert_eq!(stopped(&over), [(0, "10s".to_owned()), (1, "10s".to_owned())]);
    assert!(run.tick(at(11)).is_empty(), "once");
    for node in [0, 1] {
        let cancelled = Outcome::new(kew::outcome::Kind::Cancelled, "the run's timeout of 10s ran out");
        run.told(Told::Ended(report(node, cancelled)), at(12));
    }
    assert!(run.done());
    assert_eq!(run.status(), Status::Capped);
    assert!(
        run.leftovers().iter().all(|(_, state, why)| *state == NodeState::Waiting && why.contains("10s"))
    );
}
