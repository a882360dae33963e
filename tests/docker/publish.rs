//! Whole runs whose work goes to a real bare remote: approved, refused, held back, later, and merge requests by push options.

use std::{fs, os::unix::fs::PermissionsExt as _};

use camino::Utf8PathBuf;

use crate::rig::{Ran, Rig, git, prompt};

const WORK: &str = "echo $RANDOM > x; git add x; git commit -qm x; echo done, fixes '#1'";
const APPROVE: &str = r#"echo '{"verdict":"approve","summary":"good","findings":[]}' > $KEW_SIDECAR"#;
const REJECT: &str = r#"echo '{"verdict":"request_changes","summary":"bad","findings":[]}' > $KEW_SIDECAR"#;

fn with_remote() -> (Rig, Utf8PathBuf) {
    let rig = Rig::new();
    let bare = rig.root.join("remote.git");
    git(&rig.root, &["init", "-q", "--bare", "-b", "main", "remote.git"]);
    git(&rig.repo, &["remote", "add", "origin", &format!("file://{bare}")]);
    git(&rig.repo, &["push", "-q", "-u", "origin", "main"]);
    (rig, bare)
}

fn branches(bare: &Utf8PathBuf) -> Vec<String> {
    git(bare, &["for-each-ref", "--format=%(refname:short)"]).lines().map(str::to_owned).collect()
}

fn plan(rig: &Rig, verdict: &str) -> Utf8PathBuf {
    rig.plan(&format!(
        "[nodes.work]\npublish = 'branch'\n{}\n[nodes.judge]\nreviews = 'work'\n{}\n[nodes.top]\nneeds = ['work']\npublish = 'branch'\n{}\n",
        prompt(WORK),
        prompt(verdict),
        prompt("echo y > y; git add y; git commit -qm y")
    ))
}

fn hook(bare: &Utf8PathBuf, name: &str, script: &str) {
    let path = bare.join("hooks").join(name);
    fs::create_dir_all(bare.join("hooks")).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn told(ran: &Ran, kind: &str) -> Vec<String> {
    let events = ran.events.iter().filter(|event| event["type"] == kind);
    events.map(|event| event["node"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn docker_what_was_approved_is_pushed_and_a_second_run_replaces_it() {
    let (rig, bare) = with_remote();
    let plan = plan(&rig, APPROVE);
    let ran = rig.run(&plan);
    ran.expect(0);
    assert_eq!(told(&ran, "published"), ["work", "top"]);
    assert_eq!(branches(&bare), ["kew/test/top", "kew/test/work", "main"]);
    assert_eq!(git(&bare, &["rev-parse", "kew/test/work"]), ran.ended("work")["head"]);
    let run = ran.run_id().unwrap();

    let again = rig.kew(&["publish", run]);
    let text = String::from_utf8_lossy(&again.stdout);
    assert_eq!((again.status.code(), text.matches("is published already").count()), (Some(0), 2), "{text}");
    let shown = String::from_utf8(rig.kew(&["show", run]).stdout).unwrap();
    assert!(shown.contains("publish  published, kew/test/work at "), "{shown}");

    let second = rig.run(&plan);
    second.expect(0);
    assert_eq!(git(&bare, &["rev-parse", "kew/test/work"]), second.ended("work")["head"]);
    // The first run is kew's own as well, so it may be brought back.
    assert_eq!(rig.kew(&["publish", run, "work"]).status.code(), Some(0));
    assert_eq!(git(&bare, &["rev-parse", "kew/test/work"]), ran.ended("work")["head"]);
}

#[test]
fn docker_what_was_rejected_stays_here_now_and_later() {
    let (rig, bare) = with_remote();
    let ran = rig.run(&plan(&rig, REJECT));
    ran.expect(3);
    assert_eq!(branches(&bare), ["main"]);
    let later = rig.kew(&["publish", "latest"]);
    let said = String::from_utf8_lossy(&later.stderr).into_owned();
    assert_eq!(later.status.code(), Some(3), "{said}");
    assert!(said.contains("work: may not be published: it is held for a person"), "{said}");
    assert_eq!(branches(&bare), ["main"]);
}

#[test]
fn docker_a_run_without_publishing_publishes_later() {
    let (rig, bare) = with_remote();
    let plan = plan(&rig, APPROVE);
    let ran = rig.run_in(&rig.repo.clone(), &plan, &["--no-publish"]);
    ran.expect(0);
    assert_eq!(branches(&bare), ["main"]);
    // A run that goes on keeps what was asked of it at its start.
    assert_eq!(rig.kew(&["resume", ran.run_id().unwrap()]).status.code(), Some(0));
    assert_eq!(branches(&bare), ["main"]);
    let later = rig.kew(&["publish", ran.run_id().unwrap(), "work", "--format", "json"]);
    assert_eq!(later.status.code(), Some(0), "{}", String::from_utf8_lossy(&later.stderr));
    assert!(String::from_utf8_lossy(&later.stdout).contains(r#""type":"published""#));
    assert_eq!(branches(&bare), ["kew/test/work", "main"]);
    rig.no_checkouts();
}

#[test]
fn docker_a_refused_push_can_be_taken_up_again() {
    let (rig, bare) = with_remote();
    hook(&bare, "pre-receive", "echo no such branches here >&2; exit 1");
    let plan = plan(&rig, APPROVE);
    let ran = rig.run(&plan);
    ran.expect(3);
    assert_eq!(told(&ran, "publish-failed"), ["work", "top"]);
    let failed = ran.of_node("publish-failed", "work")[0];
    assert!(failed["reason"].as_str().unwrap().contains("no such branches here"), "{failed}");
    assert!(failed["help"].as_str().unwrap().contains("kew publish"), "{failed}");
    fs::remove_file(bare.join("hooks/pre-receive")).unwrap();
    assert_eq!(rig.kew(&["publish", "latest", "work"]).status.code(), Some(0));
    assert_eq!(branches(&bare), ["kew/test/work", "main"]);
    // A run that goes on publishes what is left, and that alone.
    let resumed = rig.kew(&["resume", "latest", "--format", "json"]);
    let told = String::from_utf8_lossy(&resumed.stdout).into_owned();
    assert_eq!(resumed.status.code(), Some(0), "{told}\n{}", String::from_utf8_lossy(&resumed.stderr));
    assert_eq!(told.matches(r#""type":"published""#).count(), 1, "{told}");
    assert!(!told.contains(r#""type":"node-started""#), "{told}");
    assert_eq!(branches(&bare), ["kew/test/top", "kew/test/work", "main"]);

    fs::rename(&bare, rig.root.join("away")).unwrap();
    rig.run(&plan).expect(4);
    let lost = rig.kew(&["publish", "latest", "work"]);
    assert_eq!(lost.status.code(), Some(4));
}

#[test]
fn docker_a_checkout_s_own_rules_lead_nowhere() {
    let (rig, bare) = with_remote();
    let evil = rig.root.join("evil.git");
    git(&rig.root, &["init", "-q", "--bare", "evil.git"]);
    let plant = format!(
        "git config url.file://{evil}.pushInsteadOf file://{bare}; git config remote.origin.url file://{evil}; {WORK}"
    );
    let text = format!("[nodes.work]\npublish = 'branch'\n{}\n", prompt(&plant));
    rig.run(&rig.plan(&text)).expect(0);
    assert_eq!(branches(&bare), ["kew/test/work", "main"]);
    assert!(branches(&evil).is_empty());
}

#[test]
fn docker_a_merge_request_is_asked_for_by_the_push() {
    let (rig, bare) = with_remote();
    let settings = fs::read_to_string(rig.root.join("config/kew/config.toml")).unwrap();
    rig.settings(&format!(
        "{settings}\n[publish]\nforge = \"gitlab\"\ndraft = true\nlabels = [\"by-kew\"]\n"
    ));
    git(&bare, &["config", "receive.advertisePushOptions", "true"]);
    hook(
        &bare,
        "post-receive",
        "env | grep ^GIT_PUSH_OPTION_ | cut -d= -f2- >> options; echo 'https://gl.example/g/p/-/merge_requests/5' >&2",
    );
    let text = format!(
        "[nodes.work]\npublish = 'pull-request'\n{}\n[nodes.judge]\nreviews = 'work'\n{}\n[nodes.top]\nneeds = ['work']\npublish = 'pull-request'\n{}\n",
        prompt(WORK),
        prompt(APPROVE),
        prompt("echo y > y; git add y; git commit -qm y")
    );
    let ran = rig.run(&rig.plan(&text));
    ran.expect(0);
    let url = "https://gl.example/g/p/-/merge_requests/5";
    assert_eq!(ran.of_node("published", "work")[0]["url"], url);
    let options = fs::read_to_string(bare.join("options")).unwrap();
    for option in [
        "merge_request.target=main",
        "merge_request.target=kew/test/work",
        "merge_request.title=test: work: done, fixes # 1",
        "merge_request.draft",
        "merge_request.label=by-kew",
    ] {
        assert!(options.lines().any(|line| line == option), "{option}\n{options}");
    }
    let again = rig.kew(&["publish", "latest"]);
    assert!(String::from_utf8_lossy(&again.stdout).contains(url));
}

#[test]
fn docker_a_run_that_could_not_publish_does_not_begin() {
    let rig = Rig::new();
    let plan = plan(&rig, APPROVE);
    let out = rig.kew(&["run", plan.as_str()]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("no remote `origin` to publish to") && said.contains("--no-publish"), "{said}");
    let (rig, _) = with_remote();
    let text = format!("[nodes.work]\npublish = 'pull-request'\n{}\n", prompt(WORK));
    let out = rig.kew(&["run", "--dry-run", rig.plan(&text).as_str()]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(said.contains("no forge that kew knows"), "{said}");
}
