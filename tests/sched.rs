//! The pure scheduler, over tables and over random graphs with reviewers and gates.
//!
//! Every property compares with what a second, slower reading of the rules says must have happened.

use std::collections::BTreeSet;

use kew::{
    plan::{
        dag::{Dag, Why},
        spec::NodeIx,
    },
    record::NodeState,
    sched::{End, Sched, Skip, Wait, Waits},
};
use proptest::prelude::*;

fn sched(dag: &Dag, jobs: usize) -> Sched {
    Sched::new(Waits::of(dag), vec![true; dag.len()], jobs)
}

fn dag(needs: &[&[NodeIx]], reviews: &[Option<NodeIx>]) -> Dag {
    let needs: Vec<Vec<NodeIx>> = needs.iter().map(|needs| needs.to_vec()).collect();
    Dag::new(&needs, reviews).expect("no circle")
}

fn start_all(sched: &mut Sched) -> Vec<NodeIx> {
    std::iter::from_fn(|| sched.start_next(|_| true)).collect()
}

fn states(sched: &Sched) -> Vec<NodeState> {
    (0..sched.nodes().count()).map(|node| sched.state(node)).collect()
}

use NodeState::{Cancelled, Failed, Held, Passed, Running, Skipped, Waiting};

/// 0 <- 1 <- 3, 0 <- 2 <- 3.
fn diamond() -> Dag {
    dag(&[&[], &[0], &[0], &[1, 2]], &[None; 4])
}

#[test]
fn nodes_start_in_plan_order_when_what_they_need_has_passed() {
    let mut sched = sched(&diamond(), 9);
    assert_eq!(start_all(&mut sched), [0]);
    assert!(sched.end(0, End::Passed).is_empty());
    assert_eq!(start_all(&mut sched), [1, 2]);
    sched.end(2, End::Passed);
    assert!(start_all(&mut sched).is_empty());
    assert_eq!(sched.waits_for(3), Some(Wait { node: 1, why: Why::Written }));
    assert!(!sched.idle());
    sched.end(1, End::Passed);
    assert_eq!(start_all(&mut sched), [3]);
    sched.end(3, End::Passed);
    assert!(sched.idle());
    assert_eq!(states(&sched), [Passed; 4]);
}

#[test]
fn no_more_run_than_may_and_no_jobs_means_one() {
    for (jobs, expected) in [(0, 1), (1, 1), (2, 2), (9, 3)] {
        let mut sched = sched(&dag(&[&[], &[], &[]], &[None; 3]), jobs);
        assert_eq!(start_all(&mut sched).len(), expected, "{jobs} jobs");
        assert_eq!(sched.running().count(), expected);
    }
}

#[test]
fn a_failure_skips_what_is_behind_it_and_names_the_node_in_the_way() {
    for (end, state) in [(End::Failed, Failed), (End::Cancelled, Cancelled)] {
        let mut sched = sched(&diamond(), 9);
        start_all(&mut sched);
        sched.end(0, End::Passed);
        start_all(&mut sched);
        let skips = sched.end(1, end);
        let because = Wait { node: 1, why: Why::Written };
        assert_eq!(skips, [Skip { node: 3, because, state }]);
        assert!(!sched.idle(), "2 still runs");
        assert_eq!(sched.end(2, End::Failed), [], "3 is skipped once");
        assert_eq!(states(&sched), [Passed, state, Failed, Skipped]);
        assert!(sched.idle());
    }
}

#[test]
fn a_skip_is_the_reason_of_the_next() {
    let mut sched = sched(&dag(&[&[], &[0], &[1], &[2]], &[None; 4]), 1);
    start_all(&mut sched);
    let skips = sched.end(0, End::Failed);
    let told: Vec<_> = skips.iter().map(|skip| (skip.node, skip.because.node, skip.state)).collect();
    assert_eq!(told, [(1, 0, Failed), (2, 1, Skipped), (3, 2, Skipped)]);
}

#[test]
fn a_held_node_blocks_and_skips_nothing() {
    let mut sched = sched(&diamond(), 9);
    start_all(&mut sched);
    sched.end(0, End::Passed);
    start_all(&mut sched);
    assert_eq!(sched.end(1, End::Held), []);
    sched.end(2, End::Passed);
    assert!(start_all(&mut sched).is_empty());
    assert!(sched.idle());
    assert_eq!(states(&sched), [Passed, Held, Passed, Waiting]);
    assert_eq!(sched.waits_for(3).map(|wait| wait.node), Some(1));
}

/// 0 is reviewed by 1 and 2; 3 needs 0 and so waits for both.
fn reviewed() -> Dag {
    dag(&[&[], &[], &[], &[0]], &[None, Some(0), Some(0), None])
}

#[test]
fn asked_changes_block_what_is_gated_and_hold_the_subject() {
    let mut sched = sched(&reviewed(), 9);
    start_all(&mut sched);
    sched.end(0, End::Passed);
    assert_eq!(start_all(&mut sched), [1, 2]);
    assert_eq!(sched.end(1, End::ChangesRequested), []);
    sched.hold(0);
    sched.end(2, End::Passed);
    assert!(start_all(&mut sched).is_empty());
    assert!(sched.idle());
    assert_eq!(states(&sched), [Held, Passed, Passed, Waiting]);
    assert!(sched.changes_requested(1) && !sched.changes_requested(2));
}

#[test]
fn a_reviewer_that_fails_skips_what_it_gates() {
    let mut sched = sched(&reviewed(), 9);
    start_all(&mut sched);
    sched.end(0, End::Passed);
    start_all(&mut sched);
    let skips = sched.end(2, End::Failed);
    assert_eq!(skips, [Skip { node: 3, because: Wait { node: 2, why: Why::Gate }, state: Failed }]);
    assert_eq!(states(&sched), [Passed, Running, Failed, Skipped], "the subject itself keeps its state");
}

#[test]
fn only_what_passed_can_be_held_by_its_reviewers() {
    let mut sched = sched(&dag(&[&[], &[]], &[None; 2]), 1);
    sched.hold(0);
    assert_eq!(states(&sched), [Waiting, Waiting]);
    start_all(&mut sched);
    sched.hold(0);
    assert_eq!(sched.state(0), Running);
    sched.end(0, End::Failed);
    sched.hold(0);
    assert_eq!(sched.state(0), Failed);
}

#[test]
fn nothing_starts_after_a_stop() {
    let mut sched = sched(&dag(&[&[], &[], &[0]], &[None; 3]), 1);
    assert_eq!(sched.start_next(|_| true), Some(0));
    sched.stop();
    assert!(sched.stopping() && !sched.idle());
    sched.end(0, End::Passed);
    assert!(start_all(&mut sched).is_empty());
    assert!(sched.idle());
    assert_eq!(states(&sched), [Passed, Waiting, Waiting]);
}

#[test]
fn an_end_that_nobody_waits_for_changes_nothing() {
    let mut sched = sched(&dag(&[&[], &[0]], &[None; 2]), 1);
    assert_eq!(sched.end(0, End::Failed), [], "it has not started");
    assert_eq!(sched.end(1, End::Failed), []);
    assert_eq!(start_all(&mut sched), [0]);
    sched.end(0, End::Passed);
    assert_eq!(sched.end(0, End::Failed), [], "it has ended");
    assert_eq!(states(&sched), [Passed, Waiting]);
    assert_eq!(start_all(&mut sched), [1], "and nobody's slot was freed twice");
}

#[test]
fn an_empty_graph_is_done_at_once() {
    let mut sched = Sched::new(Waits::default(), Vec::new(), 3);
    assert!(sched.idle());
    assert_eq!(sched.start_next(|_| true), None);
}

#[test]
fn a_hundred_thousand_nodes_in_a_row_a_fan_and_a_lattice() {
    const COUNT: usize = 100_000;
    let row: Vec<Vec<NodeIx>> = (0..COUNT).map(|node| node.checked_sub(1).into_iter().collect()).collect();
    let fan: Vec<Vec<NodeIx>> =
        (0..COUNT).map(|node| if node == COUNT - 1 { (0..node).collect() } else { vec![] }).collect();
    let lattice: Vec<Vec<NodeIx>> = (0..COUNT)
        .map(|node| (0..8).filter_map(|back| (node - node % 8 + back).checked_sub(8)).collect())
        .collect();
    for needs in [row, fan, lattice] {
        let dag = Dag::new(&needs, &vec![None; COUNT]).expect("no circle");
        let mut good = sched(&dag, 64);
        let mut started = 0;
        while !good.idle() {
            for node in start_all(&mut good) {
                started += 1;
                good.end(node, End::Passed);
            }
        }
        assert_eq!(started, COUNT);

        let mut bad = sched(&dag, 1);
        let first = bad.start_next(|_| true).expect("something can start");
        let behind = bad.end(first, End::Failed).len();
        assert!(behind > 0);
        assert_eq!(bad.nodes().filter(|node| bad.state(*node) == Skipped).count(), behind);
    }
}

/// A graph, what each node will come to, and in what order running nodes end.
#[derive(Debug, Clone)]
struct Case {
    dag: Dag,
    ends: Vec<End>,
    wanted: Vec<NodeIx>,
    jobs: usize,
    orders: [Vec<prop::sample::Index>; 2],
    stop_after: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    let node =
        (any::<prop::sample::Index>(), prop::collection::vec(any::<prop::sample::Index>(), 0..4), 0..6u8);
    let order = || prop::collection::vec(any::<prop::sample::Index>(), 16);
    (prop::collection::vec((node, any::<u8>(), 0..10u8), 1..16), 1..5usize, [order(), order()], 0..20usize)
        .prop_filter_map("a circle through gates", |(nodes, jobs, orders, stop_after)| {
            build(&nodes, jobs, orders, stop_after)
        })
}

type Drawn = ((prop::sample::Index, Vec<prop::sample::Index>, u8), u8, u8);

/// Nodes are drawn in an order in which each needs earlier ones only, then put into a plan order of their own.
fn build(
    nodes: &[Drawn],
    jobs: usize,
    orders: [Vec<prop::sample::Index>; 2],
    stop_after: usize,
) -> Option<Case> {
    let count = nodes.len();
    let mut place: Vec<NodeIx> = (0..count).collect();
    place.sort_by_key(|&at| (nodes[at].1, at));
    let (mut needs, mut reviews) = (vec![Vec::new(); count], vec![None; count]);
    let (mut ends, mut coders) = (vec![End::Passed; count], Vec::new());
    let mut wanted = Vec::new();
    for (at, ((subject, drawn, kind), key, end)) in nodes.iter().enumerate() {
        let me = place[at];
        let earlier: BTreeSet<NodeIx> =
            drawn.iter().filter(|_| at > 0).map(|need| place[need.index(at.max(1))]).collect();
        needs[me] = earlier.into_iter().collect();
        if *kind < 3 && !coders.is_empty() {
            reviews[me] = Some(coders[subject.index(coders.len())]);
        } else {
            coders.push(me);
        }
        ends[me] = match end {
            0 => End::Failed,
            1 => End::Held,
            2 | 3 if reviews[me].is_some() => End::ChangesRequested,
            _ => End::Passed,
        };
        if key % 2 == 0 {
            wanted.push(me);
        }
    }
    let dag = Dag::new(&needs, &reviews).ok()?;
    Some(Case { dag, ends, wanted, jobs, orders, stop_after })
}

/// All that a node waits for, gates in full.
fn all_waits(dag: &Dag, node: NodeIx) -> BTreeSet<NodeIx> {
    dag.needs(node).iter().map(|need| need.node).chain(dag.gates(node)).collect()
}

/// Where every node must stand at the end, whatever the order was.
fn expected(case: &Case, active: &[bool]) -> Vec<NodeState> {
    let count = case.dag.len();
    let mut outcome: Vec<Option<End>> = vec![None; count];
    let mut states = vec![Waiting; count];
    for &node in case.dag.order().iter().filter(|node| active[**node]) {
        let on = all_waits(&case.dag, node);
        if on.iter().any(|&other| matches!(states[other], Failed | Skipped)) {
            states[node] = Skipped;
        } else if on.iter().all(|&other| outcome[other] == Some(End::Passed)) {
            outcome[node] = Some(case.ends[node]);
            states[node] = match case.ends[node] {
                End::Passed | End::ChangesRequested => Passed,
                End::Held => Held,
                _ => Failed,
            };
        }
    }
    for (subject, state) in states.iter_mut().enumerate() {
        let asked =
            case.dag.reviewers(subject).iter().any(|&other| outcome[other] == Some(End::ChangesRequested));
        if asked {
            assert_eq!(*state, Passed, "it was reviewed, so it had passed");
            *state = Held;
        }
    }
    states
}

/// Plays a case to its end and checks every step. `stop_after`: that many ends before a stop.
fn play(
    case: &Case,
    active: &[bool],
    order: &[prop::sample::Index],
    stop_after: Option<usize>,
) -> Vec<NodeState> {
    let dag = &case.dag;
    let mut sched = Sched::new(Waits::of(dag), active.to_vec(), case.jobs);
    let mut ended: Vec<Option<End>> = vec![None; dag.len()];
    let mut started = BTreeSet::new();
    let mut skipped = BTreeSet::new();
    let (mut running, mut count) = (Vec::new(), 0);
    loop {
        if stop_after == Some(count) {
            sched.stop();
        }
        while let Some(node) = sched.start_next(|_| true) {
            assert!(!sched.stopping(), "{node} started after a stop");
            assert!(active[node], "{node} is no part of the run");
            assert!(started.insert(node), "{node} started twice");
            assert!(!skipped.contains(&node), "{node} was skipped");
            for other in all_waits(dag, node) {
                assert_eq!(ended[other], Some(End::Passed), "{node} did not wait for {other}");
            }
            running.push(node);
            assert!(running.len() <= case.jobs);
        }
        running.sort_unstable();
        assert_eq!(sched.running().collect::<Vec<_>>(), running);
        assert_eq!(sched.idle(), running.is_empty());
        if running.is_empty() {
            break;
        }
        let node = running.remove(order[count % order.len()].index(running.len()));
        let end = case.ends[node];
        ended[node] = Some(end);
        count += 1;
        let skips = sched.end(node, end);
        assert!(sched.end(node, End::Failed).is_empty(), "an end counts once");
        let told: BTreeSet<NodeIx> = skips.iter().map(|skip| skip.node).collect();
        assert_eq!(told.len(), skips.len(), "each is skipped once");
        let behind: BTreeSet<NodeIx> = if end == End::Failed {
            let all = behind(dag, node);
            all.into_iter().filter(|other| active[*other] && !skipped.contains(other)).collect()
        } else {
            BTreeSet::new()
        };
        assert_eq!(told, behind, "exactly what is behind {node} is skipped");
        for skip in &skips {
            assert!(all_waits(dag, skip.node).contains(&skip.because.node));
            let state = sched.state(skip.because.node);
            assert!(matches!(state, Failed | Skipped));
            assert_eq!(skip.state, state);
        }
        skipped.extend(told);
        if end == End::ChangesRequested {
            let subject = (0..dag.len()).find(|&subject| dag.reviewers(subject).contains(&node));
            sched.hold(subject.expect("only reviewers ask for changes"));
        }
    }
    if stop_after.is_none() {
        for node in sched.nodes().filter(|&node| sched.state(node) == Waiting) {
            let wait = sched.waits_for(node).expect("it waits for something");
            // A subject that its reviewers hold had passed: it is named, as it is what a person must decide on.
            assert!(sched.state(wait.node) != Passed || sched.changes_requested(wait.node));
        }
    }
    (0..dag.len()).map(|node| sched.state(node)).collect()
}

/// Everything that waits for `node`, directly or not.
fn behind(dag: &Dag, node: NodeIx) -> BTreeSet<NodeIx> {
    let mut found = BTreeSet::new();
    let mut open = vec![node];
    while let Some(from) = open.pop() {
        for next in (0..dag.len()).filter(|&next| all_waits(dag, next).contains(&from)) {
            if found.insert(next) {
                open.push(next);
            }
        }
    }
    found
}

proptest! {
    #[test]
    fn the_order_of_ends_changes_nothing(case in cases()) {
        let active = vec![true; case.dag.len()];
        let wanted = expected(&case, &active);
        for order in &case.orders {
            prop_assert_eq!(&play(&case, &active, order, None), &wanted);
        }
    }

    #[test]
    fn a_part_of_the_plan_ends_as_it_would_in_the_whole(case in cases()) {
        let mut active = vec![false; case.dag.len()];
        for node in case.dag.closure_for_only(&case.wanted) {
            active[node] = true;
        }
        let states = play(&case, &active, &case.orders[0], None);
        prop_assert_eq!(&states, &expected(&case, &active));
    }

    #[test]
    fn a_stop_at_any_moment_is_a_stop(case in cases()) {
        let active = vec![true; case.dag.len()];
        let states = play(&case, &active, &case.orders[0], Some(case.stop_after));
        prop_assert!(states.iter().all(|state| *state != Running));
        let whole = expected(&case, &active);
        for (state, whole) in states.iter().zip(whole) {
            // A node is where the whole run would have it, or it never started; a subject may miss its reviews.
            prop_assert!(*state == whole || *state == Waiting || (*state, whole) == (Passed, Held));
        }
    }
}
