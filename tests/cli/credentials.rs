//! Credentials are looked for before anything is made: by name, never shown.

use super::rig::{AGENT, Rig};

fn agent() -> Rig {
    let rig = Rig::new();
    rig.write("plan.toml", AGENT);
    rig.commit();
    rig
}

#[test]
fn none_set_is_refused_with_all_names() {
    let rig = agent();
    let before = rig.listing();
    rig.refused(
        &["run", "plan.toml"],
        &[
            "`claude-code`",
            "none of its credentials is set",
            "ANTHROPIC_API_KEY",
            "CLAUDE_CODE_OAUTH_TOKEN",
            "`a`",
        ],
    );
    assert_eq!(rig.listing(), before, "nothing was made");
}

#[test]
fn set_but_empty_is_refused_even_beside_one_that_is_set() {
    for rig in [
        agent().env("ANTHROPIC_API_KEY", ""),
        agent().env("ANTHROPIC_API_KEY", "").env("CLAUDE_CODE_OAUTH_TOKEN", "tok-secret"),
    ] {
        let text = rig.refused(&["run", "plan.toml"], &["`ANTHROPIC_API_KEY` is set but empty"]);
        assert!(!text.contains("tok-secret"));
    }
}

#[test]
fn one_of_them_is_enough() {
    for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"] {
        let rig = agent().env(name, "sk-ant-secret");
        let done = rig.kew(&["run", "plan.toml"]);
        assert_eq!(done.code, 4, "the next thing that is missing is the engine: {}", done.err);
        assert!(!done.err.contains("credential") && !done.err.contains("sk-ant-secret"), "{}", done.err);
    }
}

#[test]
fn only_nodes_of_the_run_need_theirs() {
    let rig = agent();
    rig.write("plan.toml", format!("{AGENT}[nodes.b]\nrunner = \"shell\"\nprompt = \"true\"\n"));
    assert_eq!(rig.kew(&["run", "--only", "b", "plan.toml"]).code, 4);
    assert_eq!(rig.kew(&["run", "plan.toml"]).code, 2);
}

#[test]
fn a_dry_run_says_which_are_set_and_refuses_nothing() {
    let rig = agent().env("ANTHROPIC_API_KEY", "sk-ant-secret");
    let done = rig.kew(&["run", "--dry-run", "plan.toml"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(done.out.contains("ANTHROPIC_API_KEY (set), CLAUDE_CODE_OAUTH_TOKEN (unset)"), "{}", done.out);
    assert!(!done.out.contains("sk-ant-secret"));
}

#[test]
fn what_is_wrong_with_the_engine_is_said_with_what_to_do() {
    for (host, word) in
        [("tcp://127.0.0.1:1", "tcp"), ("ssh://there", "ssh"), ("unix:///nowhere.sock", "docker")]
    {
        let done = Rig::new().env("DOCKER_HOST", host).kew(&["run", "plan.toml"]);
        assert_eq!((done.code, done.out.as_str()), (4, ""), "{host}: {}", done.err);
        assert!(done.err.contains(word) && done.err.contains("\n  help: "), "{host}: {}", done.err);
    }
}

#[test]
fn a_client_that_is_not_there_is_asked_for() {
    for rig in [Rig::new(), Rig::new().without("DOCKER_HOST")] {
        let done = rig.kew(&["run", "plan.toml"]);
        assert_eq!(done.code, 4, "{}", done.err);
        assert!(done.err.contains("`docker` could not be started"), "{}", done.err);
        assert!(done.err.contains("install docker's command line client"), "{}", done.err);
    }
}

#[test]
fn without_an_engine_nothing_stays_behind() {
    let rig = Rig::new().env("TMPDIR", "/nonexistent");
    let done = rig.kew(&["run", "plan.toml"]);
    assert_eq!(done.code, 4, "{}", done.err);
    let rig = Rig::new();
    let tmp = rig.root.join("tmp");
    std::fs::create_dir(&tmp).unwrap();
    let rig = rig.env("TMPDIR", tmp.as_str());
    let done = rig.kew(&["run", "plan.toml"]);
    assert_eq!((done.code, done.out.as_str()), (4, ""), "{}", done.err);
    assert!(done.err.starts_with("error: ") && done.err.contains("\n  help: "), "{}", done.err);
    assert_eq!(std::fs::read_dir(&tmp).unwrap().count(), 0);
    assert_eq!(rig.git(&["for-each-ref", "refs/kew"]), "");
    let locks = rig.repo.join(".git/kew/locks");
    assert_eq!(locks.read_dir_utf8().map_or(0, Iterator::count), 0, "no lock is left");
    assert_eq!(rig.kew(&["runs"]).out, "no runs yet\n");
}
