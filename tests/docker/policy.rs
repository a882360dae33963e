//! Commits that a person must look at first, verdicts in the wrong place, and clones that hold less: whole runs.

use std::os::unix::fs::symlink;

use crate::rig::{Rig, git, prompt};

#[test]
fn docker_what_the_policy_holds_is_shown_and_kept() {
    let rig = Rig::new();
    let script = "mkdir -p .github/workflows; echo 'on: push' > .github/workflows/ci.yml; ln -s /etc/passwd out; git add -A; git commit -qm evil";
    let plan =
        rig.plan(&format!("[nodes.a]\n{}\n[nodes.behind]\nneeds = ['a']\nprompt = 'true'\n", prompt(script)));
    let ran = rig.run(&plan);
    ran.expect(3);
    let outcome = ran.outcome("a");
    assert!(outcome.starts_with("held: policy: "), "{outcome}");
    let name = format!("refs/kew/{}/held/a/1", ran.run_id().unwrap());
    for words in ["`.github/workflows/ci.yml`", "`out -> /etc/passwd`", "look: git diff ", &name] {
        assert!(outcome.contains(words), "{words}: {outcome}");
    }
    assert!(ran.ended("a")["head"].is_null() && !ran.started("behind"));
    assert_eq!(
        git(&rig.repo, &["diff", "--name-only", &format!("main..{name}")]),
        ".github/workflows/ci.yml\nout"
    );
    let refs = git(&rig.repo, &["for-each-ref", "--format=%(refname)", "refs/kew/"]);
    assert!(!refs.contains("/nodes/"), "{refs}");
    git(&rig.repo, &["fsck", "--strict"]);
    let shown = String::from_utf8(rig.kew(&["show", ran.run_id().unwrap()]).stdout).unwrap();
    for words in [".github/workflows/ci.yml", "out -> /etc/passwd", &name] {
        assert!(shown.contains(words), "{shown}");
    }
}

#[test]
fn docker_the_user_may_allow_what_the_repository_may_not() {
    let rig = Rig::new();
    let settings = std::fs::read_to_string(rig.root.join("config/kew/config.toml")).unwrap();
    let policy = "[policy]\nprotected_paths = ['deploy/**']\nsymlinks = 'allow'\ncommits_max = 1\n";
    rig.settings(&format!("{settings}{policy}"));
    let script = |more: &str| {
        prompt(&format!(
            "mkdir -p .github/workflows deploy; echo 'on: push' > .github/workflows/ci.yml; ln -s /etc/passwd out; {more}"
        ))
    };
    let plan = rig.plan(&format!(
        "[nodes.fine]\n{}\n[nodes.deploys]\nfrom = 'base'\n{}\n[nodes.twice]\nfrom = 'base'\n{}\n",
        script("git add -A; git commit -qm one"),
        script("echo x > deploy/x; git add -A; git commit -qm one"),
        script("git add -A; git commit -qm one; git commit -q --allow-empty -m two"),
    ));
    let ran = rig.run(&plan);
    ran.expect(3);
    assert_eq!(ran.outcome("fine"), "passed");
    assert!(ran.outcome("deploys").starts_with("held: protected path: the commits change `deploy/x`"));
    assert!(ran.outcome("twice").starts_with("held: too much: 2 commits, at most 1 are taken; look: "));
}

/// A reviewer that writes a verdict with the right nonce at `$place`, where `before` was done.
fn approves(before: &str, place: &str) -> String {
    format!(
        "{before}\njq -n --arg n \"$KEW_NONCE\" '{{verdict:\"approve\",summary:\"good\",findings:[],nonce:$n}}' > {place}/.kew-review-verdict.json"
    )
}

#[test]
fn docker_a_verdict_below_the_root_counts_only_with_its_nonce_and_alone() {
    let name = ".kew-review-verdict.json";
    let plain = r#"echo '{"verdict":"approve","summary":"good","findings":[]}' >"#;
    let cases = [
        ("relative", approves("mkdir -p pkg/app; cd pkg/app", "."), "passed"),
        ("deep", approves("mkdir -p a/b/c/d", "a/b/c/d"), "passed"),
        ("no-nonce", format!("mkdir pkg; {plain} pkg/{name}"), "held: wrong-nonce: "),
        ("bad-nonce", approves("mkdir pkg; KEW_NONCE=guess", "pkg"), "held: wrong-nonce: "),
        ("two", approves(&format!("mkdir a b; {plain} a/{name}"), "b"), "held: ambiguous: "),
        ("too-deep", approves("mkdir -p a/b/c/d/e", "a/b/c/d/e"), "held: missing: "),
        ("case", approves(&format!("mkdir a; {plain} a/.KEW-review-verdict.json"), "a"), "held: planted: "),
        ("behind-link", approves("mkdir /tmp/x; ln -s /tmp/x a", "a"), "held: missing: "),
        (
            "link",
            approves(&format!("mkdir a b; ln -s ../b/real a/{name}; : > b/real"), "a"),
            "held: symlink: ",
        ),
        ("pipe", format!("mkdir a; mkfifo a/{name}"), "held: not-a-file: "),
        ("hard-link", approves("mkdir a", "a") + &format!("; ln a/{name} a/other"), "held: hard-link: "),
        ("in-git", approves("mkdir -p .git/x", ".git/x"), "held: missing: "),
        ("root-first", approves("mkdir a", "a") + &format!("; {plain} {name}"), "passed"),
        ("many", approves("mkdir a m; cd m; seq 20001 | xargs touch; cd ..", "a"), "held: unsearched: "),
    ];
    let rig = Rig::new();
    let mut text = "[nodes.work]\nprompt = 'echo x > x; git add x; git commit -qm x'\n".to_owned();
    for (id, script, _) in &cases {
        text.push_str(&format!("[nodes.{id}]\nreviews = 'work'\n{}\n", prompt(script)));
    }
    let ran = rig.run(&rig.plan(&text));
    ran.expect(3);
    for (id, _, expected) in cases {
        let outcome = ran.outcome(id);
        assert!(outcome.starts_with(expected), "{id}: {outcome}");
        assert_eq!(outcome == "passed", expected == "passed", "{id}: {outcome}");
    }
}

#[test]
fn docker_a_cut_history_reaches_agents_and_their_commits_come_home() {
    let rig = Rig::new();
    for at in 0..5 {
        git(&rig.repo, &["commit", "-q", "--allow-empty", "-m", &format!("{at}")]);
    }
    std::fs::write(rig.repo.join("kew.toml"), "[checkout]\ndepth = 2\n").unwrap();
    let count = "git rev-list --count HEAD; git status --porcelain";
    let plan = rig.plan(&format!(
        "[nodes.a]\n{}\n[nodes.b]\nneeds = ['a']\n{}\n",
        prompt(&format!("{count}; echo a > a; git add a; git commit -qm a")),
        prompt(&format!("{count}; echo b > b; git add b; git commit -qm b")),
    ));
    let ran = rig.run(&plan);
    ran.expect(0);
    for node in ["a", "b"] {
        assert_eq!(rig.output(ran.run_id().unwrap(), node), "2\n", "{node}");
    }
    let head = ran.ended("b")["head"].as_str().unwrap();
    assert_eq!(git(&rig.repo, &["rev-list", "--count", head]), "8");
    git(&rig.repo, &["fsck", "--strict"]);
}

#[test]
fn docker_submodules_and_lfs_are_taken_as_they_are_where_the_settings_say_so() {
    let rig = Rig::new();
    let id = git(&rig.repo, &["rev-parse", "HEAD"]);
    std::fs::write(rig.repo.join(".gitattributes"), "*.psd filter=lfs diff=lfs merge=lfs -text\n").unwrap();
    std::fs::write(rig.repo.join("a.psd"), "version https://git-lfs.github.com/spec/v1\n").unwrap();
    git(&rig.repo, &["add", "."]);
    git(&rig.repo, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},vendor/sub")]);
    git(&rig.repo, &["commit", "-qm", "elsewhere"]);
    let plan = rig.plan(&format!(
        "[nodes.a]\n{}\n",
        prompt("ls -A vendor/sub; head -c 7 a.psd; git status --porcelain; echo x > x; git add x; git commit -qm x")
    ));
    let refused = rig.run(&plan);
    refused.expect(2);
    assert!(refused.events.is_empty());
    std::fs::write(rig.repo.join("kew.toml"), "[checkout]\nsubmodules = 'empty'\nlfs = 'pointers'\n")
        .unwrap();
    let ran = rig.run(&plan);
    ran.expect(0);
    assert_eq!(rig.output(ran.run_id().unwrap(), "a").trim(), "version");
    let home = ran.ended("a")["head"].as_str().unwrap();
    assert_eq!(git(&rig.repo, &["ls-tree", "--format=%(objecttype)", home, "vendor/sub"]), "commit");
}

#[test]
fn docker_a_submodule_that_a_node_brings_stops_the_next() {
    let rig = Rig::new();
    let settings = std::fs::read_to_string(rig.root.join("config/kew/config.toml")).unwrap();
    rig.settings(&format!("{settings}[policy]\nsubmodules = 'allow'\n"));
    // What the base has as a link out of the tree is the user's own.
    symlink("/etc/hostname", rig.repo.join("own")).unwrap();
    git(&rig.repo, &["add", "own"]);
    git(&rig.repo, &["commit", "-qm", "own"]);
    let plan = rig.plan(&format!(
        "[nodes.a]\n{}\n[nodes.b]\nneeds = ['a']\nprompt = 'true'\n",
        prompt("git update-index --add --cacheinfo 160000,$(git rev-parse HEAD),sub; git commit -qm sub")
    ));
    let ran = rig.run(&plan);
    ran.expect(3);
    assert_eq!(ran.outcome("a"), "passed");
    let outcome = ran.outcome("b");
    assert!(outcome.starts_with("held: submodules: the input "), "{outcome}");
    assert!(outcome.contains("`sub`") && outcome.contains("checkout.submodules = \"empty\""), "{outcome}");
}
