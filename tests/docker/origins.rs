//! Where a repository may come from, and who may run kew on it.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown},
    process::Command,
};

use camino::{Utf8Path, Utf8PathBuf};

use crate::rig::{Ran, Rig, git, git_command};

/// A fan-out, a merge and a gate: the demo in short.
const EPIC: &str = "[nodes.a]\nprompt = 'echo a > a; git add a; git commit -qm a'\n[nodes.b]\nprompt = 'echo b > b; git add b; git commit -qm b'\n\
    [nodes.both]\nneeds = ['a', 'b']\nprompt = 'cat a b > c; git add c; git commit -qm c'\n\
    [nodes.check]\nreviews = 'both'\nverdict = 'exit'\nprompt = 'test -f c'\n[nodes.end]\nneeds = ['both']\nprompt = 'test -f c'\n";

fn runs_in(rig: &Rig, dir: &Utf8Path) -> Ran {
    let plan = rig.plan(EPIC);
    let ran = rig.run_in(dir, &plan, &[]);
    ran.expect(0);
    let git_ref = ran.ended("both")["git_ref"].as_str().unwrap();
    assert_eq!(git(dir, &["show", &format!("{git_ref}:c")]), "a\nb");
    ran
}

#[test]
fn docker_from_a_shallow_clone() {
    let rig = Rig::new();
    fs::write(rig.repo.join("more"), "more\n").unwrap();
    git(&rig.repo, &["add", "."]);
    git(&rig.repo, &["commit", "-qm", "More"]);
    let clone = rig.root.join("shallow");
    git(&rig.root, &["clone", "-q", "--depth=1", &format!("file://{}", rig.repo), clone.as_str()]);
    runs_in(&rig, &clone);
    assert_eq!(git(&clone, &["rev-list", "--count", "HEAD"]), "1");
    git(&clone, &["fsck", "--strict"]);
}

#[test]
fn docker_from_a_detached_head() {
    let rig = Rig::new();
    git(&rig.repo, &["checkout", "-q", "--detach"]);
    runs_in(&rig, &rig.repo);
}

#[test]
fn docker_from_a_linked_worktree() {
    let rig = Rig::new();
    let tree = rig.root.join("tree");
    git(&rig.repo, &["worktree", "add", "-q", "-b", "side", tree.as_str()]);
    runs_in(&rig, &tree);
    assert!(rig.repo.join(".git/kew/dispatch.db").exists(), "the state is shared by all worktrees");
}

#[test]
fn docker_root_in_somebody_elses_repository_leaves_nothing_of_roots() {
    let rig = Rig::new();
    own(&rig.repo, 4242);
    runs_in(&rig, &rig.repo);
    let foreign: Vec<Utf8PathBuf> = walk(&rig.repo)
        .into_iter()
        .filter(|path| fs::symlink_metadata(path).unwrap().uid() != 4242)
        .collect();
    assert!(foreign.is_empty(), "these became root's: {foreign:?}");
}

#[test]
fn docker_a_user_that_is_not_root() {
    let rig = Rig::new();
    let user = 4343;
    own(&rig.root, user);
    // The binary may lie where only root can go.
    let binary = rig.root.join("kew");
    fs::copy(env!("CARGO_BIN_EXE_kew"), &binary).unwrap();
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).unwrap();
    let group = fs::metadata("/var/run/docker.sock").unwrap().gid();
    let plan = rig.plan(&format!(
        "{EPIC}[nodes.messy]\nprompt = 'umask 077; mkdir -p deep/er; echo x > deep/er/x; chmod 0500 deep'\n"
    ));
    let args =
        ["--reuid", &user.to_string(), "--regid", &user.to_string(), "--groups", &group.to_string(), "--"];
    let mut command = rig.command("setpriv", &args);
    let output = command.args([binary.as_str(), "run", plan.as_str(), "--format", "json"]).output().unwrap();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    rig.no_checkouts();
    let refs = git(&rig.repo, &["for-each-ref", "--format=%(refname)", "refs/kew/"]);
    assert!(refs.contains("/nodes/both/1"), "{refs}");
    let foreign: Vec<Utf8PathBuf> = walk(&rig.repo)
        .into_iter()
        .filter(|path| fs::symlink_metadata(path).unwrap().uid() != user)
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn docker_uncommitted_changes_are_not_seen_and_said() {
    let rig = Rig::new();
    fs::write(rig.repo.join("README"), "changed\n").unwrap();
    let plan = rig.plan("[nodes.a]\nprompt = 'grep -q repository README'\n");
    let ran = rig.run(&plan);
    ran.expect(0);
    let warnings: Vec<&str> = ran
        .events
        .iter()
        .filter(|event| event["type"] == "warning")
        .map(|event| event["message"].as_str().unwrap())
        .collect();
    assert_eq!(warnings, ["1 uncommitted change in the work tree: agents see the base commit only"]);
    assert_eq!(fs::read_to_string(rig.repo.join("README")).unwrap(), "changed\n");
}

fn own(dir: &Utf8Path, uid: u32) {
    for path in walk(dir) {
        std::os::unix::fs::lchown(&path, Some(uid), Some(uid)).unwrap();
    }
    chown(dir, Some(uid), Some(uid)).unwrap();
}

fn walk(dir: &Utf8Path) -> Vec<Utf8PathBuf> {
    let output = Command::new("find").arg(dir).output().unwrap();
    String::from_utf8(output.stdout).unwrap().lines().map(Utf8PathBuf::from).collect()
}

#[test]
fn docker_the_users_hooks_do_not_run() {
    let rig = Rig::new();
    let trap = rig.root.join("hook-ran");
    for hook in ["reference-transaction", "post-checkout", "pre-receive", "post-update", "update"] {
        let path = rig.repo.join(".git/hooks").join(hook);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("#!/bin/sh\ntouch {trap}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    runs_in(&rig, &rig.repo);
    assert!(!trap.exists());
    assert!(git_command(&rig.repo).args(["update-ref", "refs/heads/x", "HEAD"]).status().unwrap().success());
    assert!(trap.exists(), "the hooks of this test are real");
}
