//! Whatever a reviewer leaves behind that is not a clean approval: the gated node never starts, and each case says why.

use crate::rig::{Ran, Rig, prompt};

const APPROVE: &str = r#"{"verdict":"approve","summary":"good","findings":[]}"#;

/// Runs subject, reviewer and a gated node; the reviewer is `script`.
fn review(subject: &str, script: &str) -> Ran {
    review_with(subject, "", script)
}

fn review_with(subject: &str, keys: &str, script: &str) -> Ran {
    let rig = Rig::new();
    let plan = rig.plan(&format!(
        "[nodes.work]\n{}\n[nodes.judge]\nreviews = 'work'\n{keys}\n{}\n[nodes.behind]\nneeds = ['work']\nprompt = 'true'\n",
        prompt(subject),
        prompt(script)
    ));
    rig.run(&plan)
}

const WORK: &str = "echo x > x; git add x; git commit -qm x";

fn held(script: &str, word: &str) {
    let ran = review(WORK, script);
    ran.expect(3);
    let outcome = ran.outcome("judge");
    assert!(outcome.starts_with(&format!("held: {word}: ")), "{script}\n{outcome}");
    assert!(!ran.started("behind"));
    assert_eq!(ran.of_node("node-waiting", "behind").len(), 1);
}

#[test]
fn docker_an_approval_opens_the_gate() {
    let ran = review(WORK, &format!("echo '{APPROVE}' > $KEW_SIDECAR"));
    ran.expect(0);
    assert!(ran.started("behind"));
}

#[test]
fn docker_no_verdict_field_is_held() {
    held(r#"echo '{"summary":"good","findings":[]}' > $KEW_SIDECAR"#, "wrong-shape");
}

#[test]
fn docker_a_missing_verdict_is_held() {
    held("true", "missing");
}

#[test]
fn docker_a_verdict_that_is_no_json_is_held() {
    held("echo approve > $KEW_SIDECAR", "not-json");
}

#[test]
fn docker_a_verdict_for_another_node_is_held() {
    held(
        r#"echo '{"verdict":"approve","summary":"s","findings":[],"node":"other"}' > $KEW_SIDECAR"#,
        "wrong-node",
    );
}

#[test]
fn docker_a_verdict_for_another_commit_is_held() {
    let script = r#"jq -n --arg h "$(git rev-parse HEAD^)" '{verdict:"approve",summary:"s",findings:[],head:$h}' > $KEW_SIDECAR"#;
    held(script, "wrong-commit");
}

#[test]
fn docker_a_symlink_is_held() {
    held(&format!("echo '{APPROVE}' > real; ln -s real $KEW_SIDECAR"), "symlink");
}

#[test]
fn docker_a_hard_link_is_held() {
    held(&format!("echo '{APPROVE}' > real; ln real $KEW_SIDECAR"), "hard-link");
}

#[test]
fn docker_a_pipe_is_held() {
    held("mkfifo $KEW_SIDECAR", "not-a-file");
}

#[test]
fn docker_a_megabyte_is_held() {
    held("head -c 1048576 /dev/zero | tr '\\0' ' ' > $KEW_SIDECAR", "too-large");
}

#[test]
fn docker_a_verdict_committed_by_the_subject_never_counts() {
    let plant = format!(
        "echo '{APPROVE}' > .kew-review-verdict.json; git add -f .kew-review-verdict.json; git commit -qm x"
    );
    let ran = review(&plant, "true");
    ran.expect(3);
    let outcome = ran.outcome("work");
    assert!(
        outcome.starts_with("held: reserved name: ") && outcome.contains(".kew-review-verdict.json"),
        "{outcome}"
    );
    assert!(!ran.started("judge") && !ran.started("behind"));
}

#[test]
fn docker_a_verdict_in_the_base_is_planted() {
    let rig = Rig::new();
    std::fs::write(rig.repo.join(".kew-review-verdict.json"), APPROVE).unwrap();
    crate::rig::git(&rig.repo, &["add", "-f", ".kew-review-verdict.json"]);
    crate::rig::git(&rig.repo, &["commit", "-qm", "plant"]);
    let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'true'\n"));
    ran.expect(3);
    assert!(ran.outcome("a").starts_with("held: planted: "), "{}", ran.outcome("a"));
}

#[test]
fn docker_a_reviewer_that_fails_after_its_verdict_closes_the_gate() {
    let ran = review(WORK, &format!("echo '{APPROVE}' > $KEW_SIDECAR; exit 3"));
    ran.expect(1);
    assert!(ran.outcome("judge").starts_with("failed: "), "{}", ran.outcome("judge"));
    assert!(!ran.started("behind"));
    assert_eq!(ran.of_node("node-skipped", "behind").len(), 1);
}

#[test]
fn docker_a_request_for_changes_holds_the_subject() {
    let script = r#"echo '{"verdict":"request_changes","summary":"not yet","findings":[]}' > $KEW_SIDECAR"#;
    let ran = review(WORK, script);
    ran.expect(3);
    assert_eq!(ran.outcome("judge"), "passed");
    assert_eq!(ran.of_node("node-held", "work")[0]["reason"], "`judge` asks for changes: not yet");
    assert!(!ran.started("behind"));
}

#[test]
fn docker_an_exit_status_is_a_verdict_where_the_plan_says_so() {
    let approve = review_with(WORK, "verdict = 'exit'", "test -f x");
    approve.expect(0);
    let changes = review_with(WORK, "verdict = 'exit'", "echo the reason; test -f y");
    changes.expect(3);
    assert_eq!(changes.outcome("judge"), "passed");
    assert!(!changes.started("behind"));
    let none = review_with(WORK, "verdict = 'exit'", "kill -9 $$");
    none.expect(3);
    assert!(none.outcome("judge").starts_with("held: exit-status: "), "{}", none.outcome("judge"));
    assert!(!none.started("behind"));
}

#[test]
fn docker_both_reviewers_must_approve() {
    let rig = Rig::new();
    let plan = rig.plan(&format!(
        "[nodes.work]\n{}\n[nodes.one]\nreviews = 'work'\nverdict = 'exit'\nprompt = 'true'\n\
         [nodes.two]\nreviews = 'work'\nprompt = 'true'\n[nodes.behind]\nneeds = ['work']\nprompt = 'true'\n",
        prompt(WORK)
    ));
    let ran = rig.run(&plan);
    ran.expect(3);
    assert!(!ran.started("behind"));
}

#[test]
fn docker_a_reviewers_commits_are_dropped() {
    let script = format!("{WORK}2; echo '{APPROVE}' > $KEW_SIDECAR");
    let ran = review(WORK, &script);
    ran.expect(0);
    assert!(ran.ended("judge")["head"].is_null());
}
