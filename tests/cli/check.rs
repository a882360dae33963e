//! `kew check`: good plans, bad plans, several plans; for people and for machines.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::Value;

use super::rig::{ONE, Rig, project};

#[test]
fn a_good_plan_is_ok_and_its_gates_are_shown() {
    let rig = Rig::new();
    let done = rig.kew(&["check", "plan.toml"]);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, "plan.toml: ok, 1 node\n", ""));
    rig.write("demo.toml", std::fs::read_to_string(project().join("plans/demo.toml")).unwrap());
    let done = rig.kew(&["check", "demo.toml"]);
    assert_eq!(done.code, 0, "{}", done.err);
    insta::assert_snapshot!(done.out);
}

#[test]
fn a_bad_plan_is_refused_with_all_its_problems() {
    let rig = Rig::new();
    rig.write("bad.toml", ONE.replace("prompt", "promt").replace("shell", "shel"));
    let done = rig.kew(&["check", "bad.toml"]);
    assert_eq!((done.code, done.out.as_str()), (2, ""));
    insta::assert_snapshot!(done.err);
}

#[test]
fn problems_for_machines_are_one_object_per_line() {
    let rig = Rig::new();
    rig.write("bad.toml", ONE.replace("prompt", "promt").replace("shell", "shel"));
    let done = rig.kew(&["check", "--format", "json", "bad.toml", "plan.toml"]);
    assert_eq!((done.code, done.err.as_str()), (2, ""));
    let problems: Vec<Value> =
        done.out.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect();
    assert!(problems.len() >= 2, "{}", done.out);
    for problem in &problems {
        assert_eq!((&problem["v"], &problem["file"]), (&1.into(), &"bad.toml".into()));
        let problem = &problem["problem"];
        assert!(problem["code"].as_str().is_some_and(|code| code.starts_with('E')), "{problem}");
        assert!(problem["message"].is_string(), "{problem}");
    }
    insta::assert_snapshot!(done.out);
}

#[test]
fn several_plans_are_all_checked_whatever_is_wrong_with_one() {
    let rig = Rig::new();
    rig.write("bad.toml", "version = 1");
    rig.write("binary.toml", [0xff, 0xfe]);
    let done = rig.kew(&["check", "bad.toml", "missing.toml", "binary.toml", "plan.toml"]);
    assert_eq!((done.code, done.out.as_str()), (2, "plan.toml: ok, 1 node\n"), "{}", done.err);
    for word in ["bad.toml:", "`missing.toml` could not be read", "`binary.toml` is not UTF-8 text"] {
        assert!(done.err.contains(word), "{word}: {}", done.err);
    }
    let done = rig.kew(&["check", "plan.toml", "plan.toml"]);
    assert_eq!((done.code, done.out.lines().count()), (0, 2));
}

#[test]
fn unreadable_plans_are_problems_for_machines_too() {
    let rig = Rig::new();
    let done = rig.kew(&["check", "--format", "json", "missing.toml", "plan.toml"]);
    assert_eq!((done.code, done.err.as_str()), (2, ""), "{}", done.out);
    let line: Value = serde_json::from_str(done.out.trim()).expect("one line of JSON");
    assert_eq!(line["file"], "missing.toml");
    assert!(line["problem"]["message"].as_str().unwrap().contains("could not be read"), "{line}");
}

#[test]
fn the_plans_of_the_project_are_good() {
    let rig = Rig::new();
    for plan in ["plans/demo.toml", "plans/epic.toml"] {
        let path = project().join(plan);
        let done = rig.kew(&["check", path.as_str()]);
        assert_eq!(done.code, 0, "{plan}: {}", done.err);
    }
}

#[test]
fn a_missing_image_names_node_runner_and_key_everywhere() {
    let rig = Rig::new();
    rig.write("kew.toml", "[sandbox.images]\nclaude-code = \"kew-agent:latest\"\n");
    for args in [&["check", "plan.toml"][..], &["run", "plan.toml"], &["run", "--dry-run", "plan.toml"]] {
        let words = ["node `a`", "`shell`", "`sandbox.images.shell`", "kew.toml"];
        rig.refused(args, &words);
    }
}

#[test]
fn a_plan_outside_of_every_repository_is_checked_against_the_one_that_it_would_run_in() {
    let rig = Rig::new();
    let outside = rig.root.join("home/plan.toml");
    std::fs::write(&outside, ONE).unwrap();
    for args in [&["check", outside.as_str()][..], &["run", "--dry-run", outside.as_str()]] {
        let done = rig.kew(args);
        assert_eq!(done.code, 0, "{args:?}: {}", done.err);
    }
}

#[test]
fn a_toolchain_of_its_own_needs_its_own_image() {
    let rig = Rig::new();
    rig.write("plan.toml", format!("{ONE}toolchain = \"rust\"\n"));
    rig.refused(&["check", "plan.toml"], &["`rust`"]);
    rig.write("kew.toml", "[sandbox.toolchains.rust.images]\nclaude-code = \"x\"\n");
    rig.refused(&["check", "plan.toml"], &["sandbox.toolchains.rust.images.shell"]);
    rig.write("kew.toml", "[sandbox.toolchains.rust.images]\nshell = \"x\"\n");
    assert_eq!(rig.kew(&["check", "plan.toml"]).code, 0);
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let rig = Rig::new();
    let mut text =
        String::from("version = 1\nepic.name = \"e\"\ndefaults = { runner = \"shell\", prompt_x = 1 }\n");
    for node in 0..3000 {
        text.push_str(&format!("[nodes.n{node}]\nrunnr = \"shell\"\n"));
    }
    rig.write("big.toml", text);
    let mut kew = rig.command(&["check", "--format", "json", "big.toml"]);
    let mut child = kew.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.starts_with('{'));
    drop(out);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "it ends as if it had been read");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn a_check_writes_nothing() {
    let rig = Rig::new();
    let before = rig.listing();
    rig.kew(&["check", "plan.toml"]);
    assert_eq!(rig.listing(), before);
}
