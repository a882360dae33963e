//! The demo plan, as a newcomer runs it.

use std::fs;

use camino::Utf8Path;

use crate::rig::{Rig, git};

fn demo() -> camino::Utf8PathBuf {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR")).join("plans/demo.toml")
}

#[test]
fn docker_the_demo_runs_to_its_end_and_brings_its_commits_home() {
    let rig = Rig::new();
    let plans = rig.repo.join("plans");
    fs::create_dir(&plans).unwrap();
    let plan = plans.join("demo.toml");
    fs::copy(demo(), &plan).unwrap();
    let ran = rig.run(&plan);
    ran.expect(0);
    let run = ran.run_id().unwrap();

    let refs = git(&rig.repo, &["for-each-ref", "--format=%(refname)", &format!("refs/kew/{run}/")]);
    let nodes: Vec<&str> = refs.lines().filter(|name| name.contains("/nodes/")).collect();
    assert!(nodes.len() >= 4, "{refs}");
    assert!(refs.lines().any(|name| name.contains("/inputs/")), "the demo has a merge: {refs}");
    for name in refs.lines() {
        let files = git(&rig.repo, &["ls-tree", "-r", "--name-only", name]);
        assert!(!files.contains(".kew-"), "{name}: {files}");
    }
    let merges =
        git(&rig.repo, &["log", "--merges", "--format=%an <%ae>", &format!("--glob=refs/kew/{run}")]);
    assert!(merges.lines().next().is_some_and(|author| author == "kew <kew@kew.local>"), "{merges}");
    git(&rig.repo, &["fsck", "--strict"]);
    assert_eq!(git(&rig.repo, &["status", "--porcelain", "--", "README"]), "");
    assert_eq!(
        git(&rig.repo, &["branch", "--format=%(refname:short)"]),
        "main",
        "no branch of the user's is made"
    );

    let shown = rig.kew(&["show", run]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    for event in ran.events.iter().filter(|event| event["type"] == "node-started") {
        assert!(shown.contains(event["node"].as_str().unwrap()), "{shown}");
    }
    let runs = rig.kew(&["runs"]);
    assert!(String::from_utf8_lossy(&runs.stdout).contains(run));
}

#[test]
fn docker_only_takes_along_what_a_node_needs_and_what_gates_it() {
    let rig = Rig::new();
    let plan = rig.plan(
        "[nodes.a]\nprompt = 'true'\n[nodes.check]\nreviews = 'a'\nverdict = 'exit'\nprompt = 'true'\n\
         [nodes.b]\nneeds = ['a']\nprompt = 'true'\n[nodes.other]\nprompt = 'true'\n",
    );
    let ran = rig.run_in(&rig.repo, &plan, &["--only", "b"]);
    ran.expect(0);
    for (node, runs) in [("a", true), ("check", true), ("b", true), ("other", false)] {
        assert_eq!(ran.started(node), runs, "{node}");
    }
}

#[test]
fn docker_a_failed_node_skips_what_needs_it_and_the_rest_goes_on() {
    let rig = Rig::new();
    let plan = rig.plan(
        "[nodes.bad]\nprompt = 'echo no >&2; exit 7'\n[nodes.behind]\nneeds = ['bad']\nprompt = 'true'\n\
         [nodes.further]\nneeds = ['behind']\nprompt = 'true'\n[nodes.free]\nprompt = 'sleep 1'\n",
    );
    let ran = rig.run(&plan);
    ran.expect(1);
    assert!(ran.outcome("bad").starts_with("failed: "), "{}", ran.outcome("bad"));
    assert_eq!(ran.outcome("free"), "passed");
    assert!(!ran.started("behind") && !ran.started("further"));
    assert_eq!(ran.of_node("node-skipped", "behind")[0]["reason"], "needs `bad`, which is failed");
}

#[test]
fn docker_fail_fast_starts_nothing_more() {
    let rig = Rig::new();
    let plan = rig.plan("[nodes.bad]\nprompt = 'exit 1'\n[nodes.later]\nprompt = 'true'\n");
    let ran = rig.run_in(&rig.repo, &plan, &["--fail-fast", "--jobs", "1"]);
    ran.expect(1);
    assert!(!ran.started("later"));
}

#[test]
fn docker_a_timeout_ends_a_node() {
    let rig = Rig::with_settings("stop_grace = 1");
    let plan = rig.plan("[nodes.slow]\ntimeout = '2s'\nprompt = 'sleep 300'\n");
    let ran = rig.run(&plan);
    ran.expect(1);
    assert_eq!(ran.outcome("slow"), "timed-out: its timeout of 2s ran out");
}

#[test]
fn docker_conflicting_inputs_hold_the_node_and_name_the_files() {
    let rig = Rig::new();
    let write = |text: &str| format!("echo {text} > same.txt; git add -A; git commit -qm {text}");
    let plan = rig.plan(&format!(
        "[nodes.a]\nprompt = '{}'\n[nodes.b]\nprompt = '{}'\n[nodes.both]\nneeds = ['a', 'b']\nprompt = 'true'\n",
        write("one"),
        write("two")
    ));
    let ran = rig.run(&plan);
    ran.expect(3);
    let outcome = ran.outcome("both");
    assert!(outcome.starts_with("held: conflict: ") && outcome.contains("same.txt"), "{outcome}");
}

#[test]
fn docker_images_that_the_repository_chooses_are_said_before_a_run() {
    let rig = Rig::new();
    fs::write(rig.repo.join("kew.toml"), "[sandbox.images]\nshell = \"kew-shell\"\n\"\\u001b[2J\" = \"x\"\n")
        .unwrap();
    let output = rig.kew(&["run", rig.plan("[nodes.a]\nprompt = 'true'\n").as_str()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains(r#"kew.toml chooses images: images.shell = "kew-shell""#), "{stderr}");
    assert!(!stderr.contains('\u{1b}'), "{stderr}");
}
