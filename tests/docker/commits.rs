//! However an agent commits, exactly its commits come home, or the node says why not.

use crate::rig::{Rig, git, prompt};

fn one(script: &str, keys: &str) -> (Rig, crate::rig::Ran) {
    let rig = Rig::new();
    std::fs::write(rig.repo.join("old"), "old\n").unwrap();
    git(&rig.repo, &["add", "."]);
    git(&rig.repo, &["commit", "-qm", "Second"]);
    let plan = rig.plan(&format!("[nodes.a]\n{keys}\n{}\n", prompt(script)));
    let ran = rig.run(&plan);
    (rig, ran)
}

fn comes_home(script: &str, commits: u64) {
    let (rig, ran) = one(script, "");
    ran.expect(0);
    let ended = ran.ended("a");
    assert_eq!(ended["commits"], commits, "{ended}");
    let home = git(&rig.repo, &["rev-parse", ended["git_ref"].as_str().unwrap()]);
    assert_eq!(home, ended["head"].as_str().unwrap());
    assert_eq!(git(&rig.repo, &["show", &format!("{home}:new")]), "new");
    git(&rig.repo, &["fsck", "--strict"]);
}

const COMMIT: &str = "echo new > new; git add new; git commit -qm new";

#[test]
fn docker_commits_on_the_branch_come_home() {
    comes_home(COMMIT, 1);
}

#[test]
fn docker_commits_on_a_branch_of_its_own_come_home() {
    comes_home(&format!("git checkout -qb mine; {COMMIT}"), 1);
}

#[test]
fn docker_commits_on_a_detached_head_come_home() {
    comes_home(&format!("git checkout -q --detach; {COMMIT}; {COMMIT} --allow-empty"), 2);
}

#[test]
fn docker_commits_after_pack_refs_come_home() {
    comes_home(&format!("{COMMIT}; git pack-refs --all"), 1);
}

#[test]
fn docker_a_rewritten_input_is_held() {
    let (rig, ran) = one("git commit -q --amend -m other", "");
    ran.expect(3);
    assert!(ran.outcome("a").starts_with("held: history rewritten: "), "{}", ran.outcome("a"));
    let refs = git(&rig.repo, &["for-each-ref", "--format=%(refname)", "refs/kew/"]);
    assert!(!refs.lines().any(|name| name.ends_with("/nodes/a/1")), "{refs}");
    assert!(
        refs.contains("/held/a/1") && refs.contains("/nodes/a/1-wip"),
        "what it did can be looked at: {refs}"
    );
}

#[test]
fn docker_uncommitted_work_is_told_apart_from_nothing_done() {
    let (_, ran) = one("echo new > new", "commits = 'required'");
    ran.expect(1);
    assert!(
        ran.outcome("a").starts_with("uncommitted-work: uncommitted work: ")
            && ran.outcome("a").contains("`new`"),
        "{}",
        ran.outcome("a")
    );
    let (_, ran) = one("true", "commits = 'required'");
    ran.expect(1);
    assert!(ran.outcome("a").starts_with("nothing-done: "), "{}", ran.outcome("a"));
}

#[test]
fn docker_a_hostile_checkout_runs_nothing_on_the_host_and_leaks_nothing() {
    let rig = Rig::new();
    git(&rig.repo, &["checkout", "-qb", "private"]);
    std::fs::write(rig.repo.join("secret"), "the secret\n").unwrap();
    git(&rig.repo, &["add", "."]);
    git(&rig.repo, &["commit", "-qm", "private"]);
    let private = git(&rig.repo, &["rev-parse", "HEAD"]);
    git(&rig.repo, &["checkout", "-q", "main"]);
    let trap = rig.root.join("trapped");
    // Everything that git would run, and a commit that claims a private one of the host as its parent.
    let script = format!(
        "for what in core.fsmonitor core.sshCommand core.hooksPath gpg.program diff.external credential.helper; do git config $what 'touch {trap}'; done
mkdir -p .git/hooks; for hook in pre-push post-checkout post-index-change reference-transaction; do printf '#!/bin/sh\\ntouch {trap}\\n' > .git/hooks/$hook; chmod +x .git/hooks/$hook; done
echo '* filter=x diff=x' > .git/info/attributes; git config filter.x.clean 'touch {trap}; cat'; git config filter.x.smudge 'touch {trap}; cat'
echo {private} > .git/shallow
tree=$(git rev-parse HEAD^{{tree}}); parent=$(git rev-parse HEAD)
new=$(printf 'tree %s\\nparent %s\\nparent {private}\\nauthor a <a@b> 1 +0000\\ncommitter a <a@b> 1 +0000\\n\\nx\\n' $tree $parent | git hash-object -t commit -w --stdin --literally)
echo $new > .git/$(git symbolic-ref HEAD)
"
    );
    let plan = rig.plan(&format!("[nodes.a]\n{}\n", prompt(&script)));
    let ran = rig.run(&plan);
    assert!(matches!(ran.code, 1 | 3), "{}", ran.stderr);
    assert!(!trap.exists(), "something of the checkout ran on the host");
    assert!(ran.ended("a")["head"].is_null(), "{}", ran.outcome("a"));
    let reachable = git(&rig.repo, &["rev-list", "--glob=refs/kew/*"]);
    assert!(!reachable.contains(&private), "{reachable}");
}
