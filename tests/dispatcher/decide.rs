//! The dispatcher alone, message by message: no thread, no clock.

use std::time::Duration;

use kew::{
    outcome::{Kind, Outcome, StopCause},
    record::{Kept, NodeState},
    run::{
        dispatcher::{Action, Dispatcher, Now, Setup, Status},
        executor::{Collected, StopHow},
        node::{Report, Told},
    },
    stream::Account,
    verdict::{Judged, Opinion},
};

use super::rig::{BASE, Rig, commit, jobs, rig};

pub fn at(seconds: u64) -> Now {
    Now { since: Duration::from_secs(seconds), unix_ms: 1_000_000 + 1000 * seconds as i64 }
}

pub fn dispatcher(rig: &Rig) -> Dispatcher<'_> {
    Dispatcher::new(Setup {
        publish: false,
        plan: &rig.plan,
        dag: &rig.dag,
        base: commit(BASE),
        active: rig.active.clone(),
        jobs: rig.jobs,
        fail_fast: rig.fail_fast,
        grace: Duration::from_secs(7),
        int_first: vec![true; rig.plan.nodes.len()],
        idle: vec![None; rig.plan.nodes.len()],
        credentials: rig.plan.nodes.iter().map(|node| node.runner.clone()).collect(),
        free: rig.plan.nodes.iter().map(|node| node.runner == "shell").collect(),
        max_wait: rig.max_wait,
        backoff: Duration::from_secs(10),
    })
}

pub fn report(node: usize, outcome: Outcome) -> Box<Report> {
    Box::new(Report {
        node,
        attempt: 1,
        outcome,
        input: Some(commit(BASE)),
        collected: Collected::default(),
        exit: Some(0),
        ran: true,
        account: Account::default(),
        free: true,
        subscription: false,
        verdict: None,
        summary: None,
        kept: Kept::default(),
        kept_ref: None,
        warnings: Vec::new(),
        files: None,
        egress: Default::default(),
    })
}

fn passed(node: usize) -> Told {
    Told::Ended(report(node, Outcome::passed()))
}

fn launched(actions: &[Action]) -> Vec<usize> {
    let launches = actions.iter().filter_map(|action| match action {
        Action::Launch(launch) => Some(launch.node),
        _ => None,
    });
    launches.collect()
}

fn stops(actions: &[Action]) -> Vec<(usize, StopCause, StopHow)> {
    let stops = actions.iter().filter_map(|action| match action {
        Action::Stop { node, cause, how } => Some((*node, cause.clone(), *how)),
        _ => None,
    });
    stops.collect()
}

const GENTLY: StopHow = StopHow::Grace { int_first: true, grace: Duration::from_secs(7) };

#[test]
fn ends_are_recorded_before_what_follows() {
    let rig = jobs(&["a", "b < a"]);
    let mut it = dispatcher(&rig);
    assert_eq!(launched(&it.start(at(0))), [0]);
    let actions = it.told(passed(0), at(1));
    assert!(matches!(actions.first(), Some(Action::Ended { state: NodeState::Passed, .. })), "{actions:?}");
    assert!(matches!(actions.last(), Some(Action::Launch(launch)) if launch.node == 1), "{actions:?}");
}

#[test]
fn an_end_that_was_not_awaited_changes_nothing() {
    let rig = jobs(&["a", "b < a"]);
    let mut it = dispatcher(&rig);
    it.start(at(0));
    assert!(it.told(passed(1), at(1)).is_empty(), "`b` does not run");
    let mut old = report(0, Outcome::passed());
    old.attempt = 2;
    assert!(it.told(Told::Ended(old), at(1)).is_empty(), "another attempt");
    assert_eq!(it.state(0), NodeState::Running);
    assert!(!it.told(passed(0), at(1)).is_empty());
    assert!(it.told(passed(0), at(2)).is_empty(), "twice");
}

#[test]
fn a_reviewer_whose_verdict_nobody_read_approves_nothing() {
    let rig = jobs(&["a", "r ? a", "b < a"]);
    let mut it = dispatcher(&rig);
    it.start(at(0));
    assert_eq!(launched(&it.told(passed(0), at(1))), [1]);
    let actions = it.told(passed(1), at(2));
    assert_eq!(launched(&actions), Vec::<usize>::new(), "{actions:?}");
    assert_eq!(it.state(1), NodeState::Held);
    assert!(it.done());
    assert_eq!(it.status(), Status::Held);
}

#[test]
fn an_approval_lets_go_on() {
    let rig = jobs(&["a", "r ? a", "b < a"]);
    let mut it = dispatcher(&rig);
    it.start(at(0));
    it.told(passed(0), at(1));
    let mut approval = report(1, Outcome::passed());
    let opinion = Opinion { summary: "good".into(), findings: Vec::new(), pick: None };
    approval.verdict = Some((Judged::Approve(opinion), None));
    assert_eq!(launched(&it.told(Told::Ended(approval), at(2))), [2]);
}

#[test]
fn deadlines_count_from_the_start_of_the_container() {
    let rig = rig(
        "[nodes.a]\nprompt = \"x\"\ntimeout = \"10s\"\n[nodes.b]\nprompt = \"x\"\ntimeout = \"20s\"\n[nodes.c]\nprompt = \"x\"",
    );
    let mut it = dispatcher(&rig);
    it.start(at(0));
    assert_eq!(it.next_deadline(), None, "no container yet");
    it.told(Told::Started(1), at(1));
    it.told(Told::Started(0), at(5));
    it.told(Told::Started(2), at(5));
    assert_eq!(it.next_deadline(), Some(Duration::from_secs(15)));
    assert!(it.tick(at(14)).is_empty());
    let actions = it.tick(at(15));
    assert_eq!(stops(&actions), [(0, StopCause::Deadline("10s".into()), GENTLY)]);
    assert!(it.tick(at(16)).is_empty(), "it is stopped once");
    assert_eq!(it.next_deadline(), Some(Duration::from_secs(21)));
    it.told(passed(1), at(17));
    assert_eq!(it.next_deadline(), None);
    assert!(it.tick(at(99)).is_empty());
}

#[test]
fn one_stop_per_node_and_the_first_cause_holds() {
    let rig = jobs(&["a"]);
    let mut it = dispatcher(&rig);
    it.start(at(0));
    let cap = || StopCause::LogCap("stdout".into());
    assert_eq!(stops(&it.told(Told::MustStop(0, cap()), at(1))), [(0, cap(), GENTLY)]);
    assert!(it.told(Told::MustStop(0, StopCause::CredentialRefused(401)), at(2)).is_empty());
    it.told(passed(0), at(3));
    assert!(it.told(Told::MustStop(0, cap()), at(4)).is_empty(), "it has ended");
}

#[test]
fn the_first_request_is_gentle_the_second_is_not() {
    let rig = jobs(&["a", "b", "c < a"]).jobs(2);
    let mut it = dispatcher(&rig);
    it.start(at(0));
    let first = it.interrupt();
    assert_eq!(stops(&first), [(0, StopCause::Asked, GENTLY), (1, StopCause::Asked, GENTLY)]);
    it.told(Told::Ended(report(0, Outcome::new(Kind::Cancelled, "asked to stop"))), at(1));
    let second = it.interrupt();
    assert_eq!(stops(&second), [(1, StopCause::Asked, StopHow::Now)]);
    assert!(!it.done());
    assert!(launched(&it.told(passed(1), at(2))).is_empty());
    assert!(it.done());
    assert_eq!(it.status(), Status::Interrupted);
}

#[test]
fn an_interrupted_run_is_interrupted_although_all_passed_or_all_failed() {
    for outcome in
        [Outcome::passed(), Outcome::new(Kind::Failed, "x"), Outcome::new(Kind::Infrastructure, "x")]
    {
        let rig = jobs(&["a"]);
        let mut it = dispatcher(&rig);
        it.start(at(0));
        it.interrupt();
        it.told(Told::Ended(report(0, outcome)), at(1));
        assert_eq!(it.status(), Status::Interrupted);
    }
}

#[test]
fn nodes_that_never_started_say_why() {
    let rig = jobs(&["a", "b < a", "c"]).jobs(1);
    let mut it = dispatcher(&rig);
    it.start(at(0));
    it.interrupt();
    it.told(passed(0), at(1));
    let reason = "the run was stopped before it started".to_owned();
    let left = it.leftovers();
    assert_eq!(left, [1, 2].map(|node| (node, NodeState::Cancelled, reason.clone())));
}

#[test]
fn a_broken_state_stops_gently_and_what_a_person_asked_for_stays() {
    let rig = jobs(&["a", "b < a"]);
    let mut it = dispatcher(&rig);
    it.start(at(0));
    assert_eq!(stops(&it.broken()), [(0, StopCause::Asked, GENTLY)]);
    assert!(launched(&it.told(passed(0), at(1))).is_empty());
    assert_eq!(it.status(), Status::Infrastructure);

    let mut it = dispatcher(&rig);
    it.start(at(0));
    it.interrupt();
    assert_eq!(stops(&it.broken()), [], "it is being stopped already");
    it.told(passed(0), at(1));
    assert_eq!(it.status(), Status::Interrupted, "a person asked first");

    let mut it = dispatcher(&rig);
    it.start(at(0));
    it.broken();
    it.interrupt();
    assert_eq!(stops(&it.interrupt()), [(0, StopCause::Asked, StopHow::Now)]);
    it.told(passed(0), at(1));
    assert_eq!(it.status(), Status::Interrupted);
}
