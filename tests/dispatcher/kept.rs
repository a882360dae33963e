//! What is kept beside a result, and what that does to an outcome.

use kew::run::scripted::Script;

use super::rig::{exits, rig};

fn leaves(files: &[&str], script: Script) -> Script {
    Script { files: files.iter().map(ToString::to_string).collect(), ..script }
}

const NODE: &str = "[nodes.a]\nrunner = \"shell\"\nprompt = \"x\"\nartifacts = [\"out/**\", \"*.xml\"]\n";

#[test]
fn artifacts_of_passing_and_failing_nodes_are_on_record() {
    for (exit, state) in [(0, "passed"), (1, "failed")] {
        let played = rig(NODE).script("a", leaves(&["out/b", "src/c", "t.xml"], exits(exit))).play();
        assert_eq!(played.states(), format!("a={state}"));
        let (key, kept) = &played.state.kept[0];
        assert_eq!(key.attempt, 1);
        let paths: Vec<&str> = kept.artifacts.iter().map(|artifact| artifact.path.as_str()).collect();
        assert_eq!(paths, ["out/b", "t.xml"]);
    }
}

#[test]
fn a_pattern_without_a_match_fails_what_passed_and_only_that() {
    let played = rig(NODE).script("a", leaves(&["out/b"], exits(0))).play();
    assert_eq!(played.states(), "a=failed");
    assert_eq!(played.reason("a"), "artifacts: nothing matched `*.xml`");
    assert_eq!(played.state.kept[0].1.artifacts.len(), 1, "what there is, is kept");
    let played = rig(NODE).script("a", exits(7)).play();
    assert_eq!(played.reason("a"), "exit status 7");
    let optional = format!("{NODE}artifacts_optional = true\n");
    let played = rig(&optional).script("a", leaves(&["out/b"], exits(0))).play();
    assert_eq!(played.states(), "a=passed");
}

#[test]
fn a_store_that_refuses_an_artifact_is_no_fault_of_the_agents() {
    let mut rig = rig(NODE);
    rig.shelf.lock().broken = Some("artifact");
    rig = rig.script("a", leaves(&["out/b", "t.xml"], exits(0)));
    let played = rig.play();
    assert_eq!(played.end("a").outcome, "infrastructure");
}

#[test]
fn work_is_kept_where_a_node_did_not_pass_and_is_never_an_input() {
    let dirty = |exit| Script { dirty: true, ..exits(exit) };
    let nodes = "[nodes.a]\nrunner = \"shell\"\nprompt = \"x\"\n[nodes.b]\nrunner = \"shell\"\nprompt = \"x\"\nneeds = [\"a\"]\n";
    let played = rig(nodes).script("a", dirty(0)).play();
    assert_eq!((played.states().as_str(), played.state.kept.len()), ("a=passed b=passed", 0));
    let played = rig(nodes).script("a", dirty(1)).play();
    assert_eq!(played.states(), "a=failed b=skipped");
    assert!(played.state.kept[0].1.work.is_some());
    assert!(played.end("a").head.is_none());
}
