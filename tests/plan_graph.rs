//! The graph and its implied gates: the plans that people write, and properties of any plan.

mod plan_world;

use std::collections::BTreeSet;

use kew::plan::{
    dag::{Dag, Why},
    input::InputFrom,
    parse_and_check,
    spec::Plan,
};
use plan_world::TestWorld;
use proptest::prelude::*;

/// `"docs: implement | reviews x"` per line, into a checked plan of shell nodes.
fn plan(lines: &[&str]) -> (Plan, Dag) {
    let mut text = String::from("version = 1\nepic.name = \"demo\"\ndefaults.runner = \"shell\"\n");
    for line in lines {
        let (id, rest) = line.split_once(':').expect("an id");
        text += &format!("[nodes.{id}]\nprompt = \"true\"\n");
        let (needs, reviews) = rest.split_once('|').unwrap_or((rest, ""));
        text += &format!("needs = {:?}\n", needs.split_whitespace().collect::<Vec<_>>());
        if let Some(subject) = reviews.trim().strip_prefix("reviews ") {
            text += &format!("reviews = {subject:?}\n");
        }
    }
    parse_and_check("x.toml", &text, &TestWorld).unwrap_or_else(|problems| panic!("{problems}"))
}

/// One line for each node: what it needs, its gates in full, and those that are new to it.
fn drawn(lines: &[&str]) -> String {
    let (plan, dag) = plan(lines);
    let names =
        |nodes: &[usize]| nodes.iter().map(|&ix| plan.nodes[ix].id.as_str()).collect::<Vec<_>>().join(" ");
    let mut out = String::new();
    for (ix, node) in plan.nodes.iter().enumerate() {
        let evidence = if dag.is_evidence(ix) { "  (evidence)" } else { "" };
        let gates = names(&dag.gates(ix));
        let edges = names(dag.gate_edges(ix));
        out += &format!("{}: gates [{gates}] waits for [{edges}]{evidence}\n", node.id);
    }
    out + &format!("order: {}\n", names(dag.order()))
}

#[test]
fn whoever_needs_a_reviewed_node_waits_for_its_reviewers() {
    insta::assert_snapshot!(drawn(&[
        "implement:",
        "test: | reviews implement",
        "review: test | reviews implement",
        "docs: implement",
        "site: docs",
    ]), @"
    implement: gates [] waits for []
    test: gates [] waits for []
    review: gates [] waits for []
    docs: gates [test review] waits for [test review]
    site: gates [test review] waits for []
    order: implement test review docs site
    ");
}

#[test]
fn what_a_reviewer_needs_is_evidence() {
    insta::assert_snapshot!(drawn(&[
        "implement:",
        "bench: implement",
        "report: bench",
        "lint: | reviews implement",
        "review: report | reviews implement",
        "docs: implement",
        "compare: bench",
    ]), @"
    implement: gates [] waits for []
    bench: gates [lint] waits for [lint]  (evidence)
    report: gates [lint] waits for []  (evidence)
    lint: gates [] waits for []
    review: gates [] waits for []
    docs: gates [lint review] waits for [lint review]
    compare: gates [lint review] waits for [review]
    order: implement lint bench report review docs compare
    ");
}

#[test]
fn reviewed_nodes_in_a_chain_wait_once() {
    insta::assert_snapshot!(drawn(&[
        "one:",
        "review-one: | reviews one",
        "two: one",
        "review-two: | reviews two",
        "three: two",
        "review-three: | reviews three",
        "release: three one",
    ]), @"
    one: gates [] waits for []
    review-one: gates [] waits for []
    two: gates [review-one] waits for [review-one]
    review-two: gates [review-one] waits for []
    three: gates [review-one review-two] waits for [review-two]
    review-three: gates [review-one review-two] waits for []
    release: gates [review-one review-two review-three] waits for [review-three]
    order: one review-one two review-two three review-three release
    ");
}

#[test]
fn a_reviewer_may_need_work_that_is_reviewed_elsewhere() {
    insta::assert_snapshot!(drawn(&[
        "code:",
        "tool:",
        "review-tool: | reviews tool",
        "review-code: tool | reviews code",
        "ship: code tool",
    ]), @"
    code: gates [] waits for []
    tool: gates [] waits for []
    review-tool: gates [] waits for []
    review-code: gates [review-tool] waits for [review-tool]
    ship: gates [review-tool review-code] waits for [review-tool review-code]
    order: code tool review-tool review-code ship
    ");
}

#[test]
fn without_reviewers_there_are_no_gates() {
    insta::assert_snapshot!(drawn(&["c: a b", "a:", "b: a"]), @"
    c: gates [] waits for []
    a: gates [] waits for []
    b: gates [] waits for []
    order: a b c
    ");
}

#[test]
fn a_subject_is_a_need_that_nobody_writes() {
    let (_, dag) = plan(&["a:", "b:", "review: b a | reviews a"]);
    let needs: Vec<_> = dag.needs(2).iter().map(|need| (need.node, need.why)).collect();
    assert_eq!(needs, [(0, Why::Subject), (1, Why::Written)]);
    assert_eq!(dag.dependents(0), [2]);
    assert_eq!(dag.reviewers(0), [2]);
    assert_eq!(dag.upstream(2), [0, 1]);
}

#[test]
fn reviewers_that_need_each_other_are_a_circle_of_needs() {
    let cycles = Dag::new(&[vec![], vec![2], vec![1]], &[None, Some(0), Some(0)]).expect_err("a circle");
    let steps: Vec<_> = cycles[0].steps.iter().map(|step| (step.node, step.on, step.why)).collect();
    assert_eq!(steps, [(1, 2, Why::Written), (2, 1, Why::Written)]);
}

#[test]
fn two_reviewers_whose_evidence_needs_the_other_subject_are_a_circle_of_gates() {
    // 0 and 1 are subjects; 2 needs 0, 3 needs 1; 4 reviews 0 and needs 3; 5 reviews 1 and needs 2.
    let needs = [vec![], vec![], vec![0], vec![1], vec![3], vec![2]];
    let cycles = Dag::new(&needs, &[None, None, None, None, Some(0), Some(1)]).expect_err("a circle");
    assert_eq!(cycles.len(), 1);
    let mut kinds: Vec<_> = cycles[0].steps.iter().map(|step| step.why).collect();
    kinds.sort_by_key(|why| *why == Why::Gate);
    assert_eq!(kinds, [Why::Written, Why::Written, Why::Gate, Why::Gate]);
}

#[test]
fn only_some_nodes_take_their_gates_along() {
    let (plan, dag) = plan(&[
        "base:",
        "code: base",
        "test: | reviews code",
        "bench: code",
        "review: bench | reviews code",
        "docs: code",
        "other:",
        "review-docs: | reviews docs",
    ]);
    let only = |id: &str| {
        let start = plan.nodes.iter().position(|node| node.id.as_str() == id).expect("the node");
        let nodes = dag.closure_for_only(&[start]);
        nodes.iter().map(|&ix| plan.nodes[ix].id.as_str()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(only("code"), "base code");
    assert_eq!(only("docs"), "base code test bench review docs");
    assert_eq!(only("other"), "other");
    assert_eq!(only("review-docs"), "base code test bench review docs review-docs");
}

#[test]
fn a_node_starts_from_what_its_plan_says() {
    let text = r#"
        version = 1
        epic.name = "demo"
        defaults = { runner = "shell" }
        [nodes]
        a = { prompt = "true" }
        b = { prompt = "true" }
        merge = { prompt = "true", needs = ["b", "a"] }
        late = { prompt = "true", needs = ["a"], from = "base" }
        skip = { prompt = "true", needs = ["merge"], from = "a" }
        review = { prompt = "true", needs = ["b"], reviews = "a" }
    "#;
    let (plan, _) = parse_and_check("x.toml", text, &TestWorld).expect("a good plan");
    let sources: Vec<_> = (0..6).map(|ix| plan.input_sources(ix)).collect();
    let expected = [
        InputFrom::Base,
        InputFrom::Base,
        InputFrom::Needs(vec![1, 0]),
        InputFrom::Base,
        InputFrom::Node(0),
        InputFrom::Reviewed(0),
    ];
    assert_eq!(sources, expected);
}

/// Needs and subjects of a graph whose needs point backwards, so that it has no circle of needs. Subjects are no reviewers.
fn graphs() -> impl Strategy<Value = (Vec<Vec<usize>>, Vec<Option<usize>>)> {
    (1..24usize).prop_flat_map(|count| {
        let node = (prop::collection::btree_set(0..count, 0..4), prop::option::weighted(0.4, 0..count));
        prop::collection::vec(node, count).prop_map(|nodes| {
            let mut reviews: Vec<Option<usize>> = Vec::new();
            for (ix, (_, subject)) in nodes.iter().enumerate() {
                let subject = subject.filter(|&subject| subject < ix && reviews[subject].is_none());
                reviews.push(subject);
            }
            let needs = nodes.iter().enumerate();
            let needs =
                needs.map(|(ix, (needs, _))| needs.iter().copied().filter(|&need| need < ix).collect());
            (needs.collect(), reviews)
        })
    })
}

/// All that `node` transitively needs, the slow way.
fn below(node: usize, needs: &[Vec<usize>], reviews: &[Option<usize>]) -> BTreeSet<usize> {
    let direct = needs[node].iter().copied().chain(reviews[node]);
    direct.flat_map(|need| below(need, needs, reviews).into_iter().chain([need])).collect()
}

/// The rule, word by word.
fn rule(node: usize, needs: &[Vec<usize>], reviews: &[Option<usize>]) -> Vec<usize> {
    let upstream = below(node, needs, reviews);
    (0..needs.len())
        .filter(|&reviewer| reviews[reviewer].is_some_and(|subject| upstream.contains(&subject)))
        .filter(|&reviewer| reviewer != node)
        .filter(|&reviewer| reviews[node].is_none() || reviews[node] != reviews[reviewer])
        .filter(|&reviewer| !below(reviewer, needs, reviews).contains(&node))
        .collect()
}

proptest! {
    #[test]
    fn gates_follow_the_rule((needs, reviews) in graphs()) {
        let full: Vec<Vec<usize>> = (0..needs.len()).map(|node| rule(node, &needs, &reviews)).collect();
        let Ok(dag) = Dag::new(&needs, &reviews) else {
            // Then needs and full gates together must have a circle: no order can be found by taking free nodes away.
            let mut left: BTreeSet<usize> = (0..needs.len()).collect();
            loop {
                let free = left.iter().copied().find(|&node| {
                    !needs[node].iter().chain(&reviews[node]).chain(&full[node]).any(|wait| left.contains(wait))
                });
                match free {
                    Some(node) => left.remove(&node),
                    None => break,
                };
            }
            prop_assert!(!left.is_empty(), "a circle was told of where there is none");
            return Ok(());
        };
        let place: Vec<usize> = (0..needs.len())
            .map(|node| dag.order().iter().position(|&other| other == node).expect("every node is in the order"))
            .collect();
        for node in 0..needs.len() {
            prop_assert_eq!(dag.gates(node), full[node].clone());
            for wait in needs[node].iter().chain(&reviews[node]).chain(&full[node]) {
                prop_assert!(place[*wait] < place[node], "{} comes after {}", wait, node);
            }
            let satisfied: BTreeSet<usize> = dag.needs(node).iter().flat_map(|need| full[need.node].clone()).collect();
            let new: Vec<usize> = full[node].iter().copied().filter(|gate| !satisfied.contains(gate)).collect();
            prop_assert_eq!(dag.gate_edges(node), new.as_slice());
            for &gate in dag.gate_edges(node) {
                prop_assert!(dag.gated_by(gate).contains(&node));
            }
            let upstream: Vec<usize> = below(node, &needs, &reviews).into_iter().collect();
            prop_assert_eq!(dag.upstream(node), upstream);
        }
    }

    #[test]
    fn a_plan_in_a_working_order_keeps_it((needs, _) in graphs()) {
        let dag = Dag::new(&needs, &vec![None; needs.len()]).expect("needs point backwards");
        prop_assert_eq!(dag.order().to_vec(), (0..needs.len()).collect::<Vec<_>>());
    }

    #[test]
    fn what_runs_alone_is_closed((needs, reviews) in graphs(), start in 0..24usize) {
        let Ok(dag) = Dag::new(&needs, &reviews) else { return Ok(()) };
        let nodes: BTreeSet<usize> = dag.closure_for_only(&[start % needs.len()]).into_iter().collect();
        for &node in &nodes {
            prop_assert!(needs[node].iter().chain(&reviews[node]).all(|need| nodes.contains(need)));
            prop_assert!(dag.gates(node).iter().all(|gate| nodes.contains(gate)));
        }
    }

    #[test]
    fn any_text_is_judged_without_a_panic(text in "(?s).{0,200}") {
        let _ = parse_and_check("x.toml", &text, &TestWorld).map_err(|problems| problems.to_string());
    }

    #[test]
    fn any_bytes_are_judged_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = parse_and_check("x.toml", &text, &TestWorld).map_err(|problems| problems.to_string());
    }

    #[test]
    fn near_plans_are_judged_without_a_panic(words in prop::collection::vec(plan_words(), 0..60)) {
        let text = words.concat();
        if let Err(problems) = parse_and_check("x.toml", &text, &TestWorld) {
            prop_assert!(!problems.list().is_empty());
            prop_assert!(problems.to_string().contains("error[E"));
            prop_assert_eq!(problems.located().len(), problems.list().len());
        }
    }
}

/// Pieces of plans, so that arbitrary texts get past the first character.
fn plan_words() -> impl Strategy<Value = String> {
    let pieces = [
        "version = 1\n",
        "[epic]\n",
        "name = \"x\"\n",
        "[defaults]\n",
        "[nodes.a]\n",
        "[nodes.b]\n",
        "[[nodes]]\n",
        "[nodes.a.b]\n",
        "[nodes]\n",
        "runner = \"shell\"\n",
        "runner = \"claude-code\"\n",
        "model = \"m\"\n",
        "prompt = \"x\"\n",
        "prompt_file = \"p\"\n",
        "needs = [\"a\"]\n",
        "needs = [\"b\", ",
        "reviews = \"a\"\n",
        "reviews = \"b\"\n",
        "from = \"a\"\n",
        "from = \"base\"\n",
        "a = {",
        "}\n",
        "a.b = 1\n",
        "nodes.a = 3\n",
        "\"\"\"",
        "]",
        "\n",
        "\r\n",
        "\r",
        "é",
        "\u{feff}",
        "timeout = \"1h\"\n",
        "timeout = \"99999999999999999999d\"\n",
        "max_parallel = -1\n",
        "= ",
        "'",
        "#",
        "\0",
        "0x",
        "1979-05-27",
        "verdict = \"exit\"\n",
    ];
    prop::sample::select(pieces.to_vec()).prop_map(String::from)
}
