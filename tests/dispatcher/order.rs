//! The order in which nodes end is chance; what a run comes to is not.

use std::time::Duration;

use kew::{
    name::NodeId,
    run::{
        executor::{Source, Trouble},
        scripted::Script,
    },
};
use proptest::prelude::*;

use super::rig::{Rig, exits, jobs, votes};

/// What one node does: needs among the earlier ones, which earlier one it reviews, how it ends.
#[derive(Debug, Clone)]
struct Drawn {
    needs: Vec<usize>,
    reviews: Option<usize>,
    end: u8,
    commits: bool,
}

fn drawn() -> impl Strategy<Value = Vec<Drawn>> {
    let node = (
        prop::collection::vec(0..8usize, 0..3),
        prop::option::weighted(0.4, 0..8usize),
        0..9u8,
        any::<bool>(),
    );
    prop::collection::vec(
        node.prop_map(|(needs, reviews, end, commits)| Drawn { needs, reviews, end, commits }),
        1..8,
    )
}

/// The plan, if it is one: `n0`, `n1` and so on.
fn plan(nodes: &[Drawn], runs: &[u64]) -> Option<Rig> {
    let mut lines = Vec::new();
    let mut scripts = Vec::new();
    let (mut needs, mut reviews) = (Vec::new(), Vec::<Option<usize>>::new());
    for (at, node) in nodes.iter().enumerate() {
        let mut on: Vec<usize> = node.needs.iter().copied().filter(|need| *need < at).collect();
        on.sort_unstable();
        on.dedup();
        let subject = node.reviews.filter(|subject| *subject < at && reviews[*subject].is_none());
        on.retain(|need| Some(*need) != subject);
        let mut line = format!("n{at}");
        line.extend(subject.map(|subject| format!(" ? n{subject}")));
        if !on.is_empty() {
            let on: Vec<String> = on.iter().map(|need| format!("n{need}")).collect();
            line.push_str(&format!(" < {}", on.join(", ")));
        }
        let held = Trouble::Held { word: "conflict", sentence: "it conflicts".into() };
        let script = match (node.end, subject) {
            (0, _) => exits(1),
            (1, _) => Script { trouble: Some(held), ..Script::default() },
            (2, Some(_)) => Script::default(),
            (3, Some(_)) => votes("request_changes"),
            (_, Some(_)) => votes("approve"),
            (_, None) => Script { commits: node.commits.into(), ..Script::default() },
        };
        scripts.push(Script { runs: Duration::from_millis(runs[at % runs.len()]), ..script });
        lines.push(line);
        needs.push(on);
        reviews.push(subject);
    }
    // Circles through gates are no plan.
    kew::plan::dag::Dag::new(&needs, &reviews).ok()?;
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let rig = jobs(&lines);
    Some(scripts.into_iter().enumerate().fold(rig, |rig, (at, script)| rig.script(&format!("n{at}"), script)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn neither_speed_nor_jobs_change_what_a_run_comes_to(
        nodes in drawn(),
        runs in [prop::collection::vec(0..6u64, 8), prop::collection::vec(0..6u64, 8)],
        jobs in [1..4usize, 4..9usize],
    ) {
        let play = |turn: usize| plan(&nodes, &runs[turn]).map(|rig| rig.jobs(jobs[turn]).play());
        let (Some(one), Some(two)) = (play(0), play(1)) else { return Ok(()) };
        prop_assert_eq!(one.states(), two.states());
        prop_assert_eq!(one.status(), two.status());
        for at in 0..nodes.len() {
            let id = NodeId::new(format!("n{at}")).unwrap();
            let sources: [Option<Source>; 2] = [&one, &two].map(|played| played.engine().source(&id, 1));
            prop_assert_eq!(&sources[0], &sources[1], "what {} starts from", id);
        }
    }
}
