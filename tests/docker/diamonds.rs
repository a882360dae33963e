//! Where results meet: arms that get along are merged, arms that do not are held for a person, and nothing is merged twice.

use crate::rig::{Rig, git, prompt};

fn node(id: &str, needs: &[&str], script: &str) -> String {
    format!("[nodes.{id}]\nneeds = {needs:?}\n{}\n", prompt(script))
}

fn writes(path: &str, text: &str) -> String {
    format!("mkdir -p $(dirname {path}); echo {text} >{path}; git add {path}; git commit -qm {text}")
}

#[test]
fn docker_arms_that_touch_different_files_are_merged_and_those_that_touch_one_line_are_held() {
    let rig = Rig::new();
    let join =
        "test \"$(cat left) $(cat right)\" = 'l r' && test $(git rev-list --parents -n1 HEAD | wc -w) = 3";
    let plan = rig.plan(
        &[
            node("left", &[], &writes("left", "l")),
            node("right", &[], &writes("right", "r")),
            node("join", &["left", "right"], &format!("{join}; {}", writes("joined", "j"))),
            node("one", &[], &writes("sub/same", "1")),
            node("two", &[], &writes("sub/same", "2")),
            node("clash", &["one", "two"], "true"),
            node("after", &["clash"], "true"),
            node("apart", &["join"], "test -f joined"),
        ]
        .concat(),
    );
    let ran = rig.run(&plan);
    ran.expect(3);
    for passed in ["left", "right", "join", "one", "two", "apart"] {
        assert_eq!(ran.outcome(passed), "passed", "{passed}");
    }
    let clash = ran.outcome("clash");
    assert!(clash.starts_with("held: conflict: ") && clash.contains("`sub/same`"), "{clash}");
    assert!(!ran.started("after"));
    let run = ran.run_id().unwrap();
    let merge = format!("refs/kew/{run}/inputs/join/1");
    assert_eq!(
        git(&rig.repo, &["log", "-1", "--format=%an %cn %s", &merge]),
        "kew kew kew: merge left, right"
    );
    let refs = git(&rig.repo, &["for-each-ref", "--format=%(refname)", "refs/kew"]);
    assert!(!refs.contains("inputs/clash") && !refs.contains("inputs/apart"), "{refs}");
}

#[test]
fn docker_contained_empty_and_crossing_results_are_merged_only_where_they_must() {
    let rig = Rig::new();
    let plan = rig.plan(
        &[
            node("a", &[], &writes("a", "a")),
            node("b", &["a"], &writes("b", "b")),
            node("idle", &[], "true"),
            node("idle-too", &["idle"], "true"),
            // a is in b; the idle ones bring the base.
            node("contained", &["a", "b", "idle"], "test -f a && test -f b"),
            node("empty", &["idle", "idle-too"], "true"),
            // Two that start from the same merge meet again.
            node("x", &[], &writes("x", "x")),
            node("left", &["a", "x"], &writes("left", "l")),
            node("right", &["x", "a"], &writes("right", "r")),
            node("cross", &["left", "right"], "test \"$(echo *)\" = 'README a left right x'"),
        ]
        .concat(),
    );
    let ran = rig.run(&plan);
    ran.expect(0);
    let run = ran.run_id().unwrap();
    let refs =
        git(&rig.repo, &["for-each-ref", "--format=%(refname:lstrip=3)", &format!("refs/kew/{run}/inputs")]);
    assert_eq!(refs, "inputs/cross/1\ninputs/left/1\ninputs/right/1");
    let input = |node: &str| git(&rig.repo, &["rev-parse", &format!("refs/kew/{run}/inputs/{node}/1")]);
    assert_eq!(input("left"), input("right"), "the order is the plan's, not the node's");
}
