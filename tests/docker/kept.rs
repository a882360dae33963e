//! Work comes home: unfinished work under a ref of its own, artifacts whole, and a runaway is stopped before the disk is full.

use std::{collections::BTreeSet, fs};

use crate::rig::{Ran, Rig, git, prompt};

fn one(rig: &Rig, script: &str, keys: &str) -> Ran {
    let plan = rig.plan(&format!("[nodes.a]\n{keys}\n{}\n", prompt(script)));
    rig.run(&plan)
}

fn text(output: std::process::Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const WORK: &str =
    "echo new > new; git add new; git commit -qm new; echo edited > README; echo more > more; ";

#[test]
fn docker_work_of_nodes_that_did_not_pass_is_kept_and_shown() {
    for (end, keys, outcome, code) in [
        ("exit 1", "", "failed", 1),
        ("exec sleep 100", "timeout = '4s'", "timed-out", 1),
        (
            "git commit -q --amend -m x; git reset -q --soft HEAD~1; git commit -q --amend -m y; true",
            "",
            "held",
            3,
        ),
    ] {
        let rig = Rig::with_settings("stop_grace = 1");
        let ran = one(&rig, &format!("{WORK}{end}"), keys);
        ran.expect(code);
        let ended = ran.ended("a");
        assert_eq!(ended["outcome"], outcome, "{ended}");
        let run = ran.run_id().unwrap();
        let name = format!("refs/kew/{run}/nodes/a/1-wip");
        assert_eq!(ended["kept"], name.as_str(), "{}", ran.stderr);
        let paths = git(&rig.repo, &["ls-tree", "--name-only", &name]);
        assert_eq!(paths, "README\nmore\nnew");
        assert_eq!(git(&rig.repo, &["show", &format!("{name}:README")]), "edited");
        git(&rig.repo, &["fsck", "--strict"]);
        let shown = text(rig.kew(&["show"]));
        let base = git(&rig.repo, &["rev-parse", "HEAD"]);
        assert!(shown.contains(&format!("git diff {}..{name}", &base[..10])), "{shown}");
        assert_eq!(git(&rig.repo, &["status", "--porcelain"]), "", "the user's tree is not touched");
    }
}

#[test]
fn docker_uncommitted_work_is_kept_and_nothing_of_a_passing_node() {
    let rig = Rig::new();
    let ran = one(
        &rig,
        "echo x > x; ln -s /etc/passwd link; mkfifo pipe; truncate -s 1G sparse",
        "commits = 'required'",
    );
    ran.expect(1);
    assert_eq!(ran.ended("a")["outcome"], "uncommitted-work");
    let name = ran.ended("a")["kept"].as_str().unwrap();
    assert_eq!(git(&rig.repo, &["ls-tree", "--name-only", name]), "README\nlink\nx");
    let warned = ran.events.iter().any(|event| {
        event["type"] == "warning"
            && event["message"].as_str().unwrap().contains("without 1 file larger than 100 MiB: `sparse`")
    });
    assert!(warned, "{:#?}", ran.events);
    let ran = one(&rig, "echo x > x", "");
    ran.expect(0);
    assert!(ran.ended("a")["kept"].is_null());
    let refs = git(
        &rig.repo,
        &["for-each-ref", "--format=%(refname)", &format!("refs/kew/{}", ran.run_id().unwrap())],
    );
    assert!(!refs.contains("wip"), "{refs}");
}

#[test]
fn docker_a_tree_that_cannot_be_kept_is_a_warning() {
    let rig = Rig::new();
    let ran = one(&rig, "rm -rf .git; exit 3", "");
    ran.expect(1);
    assert_eq!(ran.outcome("a"), "failed: exit status 3");
    let said = ran
        .events
        .iter()
        .filter(|event| event["type"] == "warning")
        .map(|event| event["message"].to_string());
    assert!(said.collect::<String>().contains("not kept"), "{:#?}", ran.events);
}

const ARTIFACTS: &str = "mkdir -p coverage/deep; head -c 300000 /dev/urandom > coverage/deep/data; echo '<x/>' > coverage/index.html
echo secret > other; ln -s ../other coverage/link; ln -s .. coverage/up; mkfifo coverage/pipe; truncate -s 1G coverage/sparse
sha256sum coverage/deep/data | cut -c -64; ";

#[test]
fn docker_artifacts_of_passing_and_failing_nodes_come_out_whole() {
    let rig = Rig::new();
    let nodes = format!(
        "[nodes.good]\nartifacts = ['coverage/**']\n{}\n[nodes.bad]\nartifacts = ['coverage/**', 'none']\n{}\n",
        prompt(ARTIFACTS),
        prompt(&format!("{ARTIFACTS} exit 1"))
    );
    let ran = rig.run(&rig.plan(&nodes));
    ran.expect(1);
    assert_eq!(
        (ran.outcome("good").as_str(), ran.outcome("bad").as_str()),
        ("passed", "failed: exit status 1")
    );
    let run = ran.run_id().unwrap();
    let out = rig.root.join("out");
    let said = text(rig.kew(&["artifacts", run, "-o", out.as_str()]));
    assert!(said.contains("4 artifacts copied"), "{said}");
    for node in ["good", "bad"] {
        let found: BTreeSet<String> = walk(&out.join(node));
        assert_eq!(
            found,
            BTreeSet::from(["coverage/deep/data".to_owned(), "coverage/index.html".to_owned()])
        );
        let digest = rig.output(run, node);
        let bytes = fs::read(out.join(node).join("coverage/deep/data")).unwrap();
        assert_eq!(kew::digest::sha256_hex(&bytes), digest.trim());
        let warnings: String = ran
            .events
            .iter()
            .filter_map(|event| event["message"].as_str())
            .filter(|message| message.starts_with(&format!("`{node}`")))
            .collect();
        for left in
            ["coverage/link`: a symbolic link", "coverage/pipe`: a pipe", "coverage/sparse`: 1 GiB large"]
        {
            assert!(warnings.contains(left), "{warnings}");
        }
    }
    // Again: nothing is overwritten, and nothing is copied beside it.
    fs::remove_file(out.join("bad/coverage/index.html")).unwrap();
    let again = rig.kew(&["artifacts", run, "-o", out.as_str()]);
    assert_eq!(again.status.code(), Some(2), "{}", text(again));
    assert!(!out.join("bad/coverage/index.html").exists());
    let listed = text(rig.kew(&["artifacts", run, "good"]));
    assert!(listed.contains("coverage/deep/data") && !listed.contains("bad"), "{listed}");
    let json = text(rig.kew(&["artifacts", run, "--format", "json", "--all"]));
    assert_eq!(json.lines().count(), 4, "{json}");
    // What was changed in the state is not handed out.
    let stored = rig.repo.join(format!(".git/kew/runs/{run}/good/1/artifacts/coverage/index.html"));
    fs::write(stored, "forged").unwrap();
    let forged = rig.kew(&["artifacts", run, "good", "-o", rig.root.join("two").as_str()]);
    assert_eq!(forged.status.code(), Some(4), "{}", text(forged));
    assert!(!rig.root.join("two/good/coverage/index.html").exists());
}

#[test]
fn docker_artifacts_that_are_missing_fail_the_node_unless_they_are_optional() {
    let rig = Rig::new();
    let ran = one(&rig, "ln -s README report", "artifacts = ['report', 'README']");
    ran.expect(1);
    assert_eq!(ran.outcome("a"), "failed: artifacts: nothing matched `report`");
    assert_eq!(ran.ended("a")["artifacts"], 1);
    let ran = one(&rig, "true", "artifacts = ['report']\nartifacts_optional = true");
    ran.expect(0);
}

#[test]
fn docker_a_checkout_that_grows_past_its_cap_is_stopped() {
    let rig = Rig::with_settings("checkout_max = \"64MiB\"\nstop_grace = 1");
    // A sparse file takes nothing.
    let script =
        "truncate -s 1G sparse; mkdir -p d/e; head -c 100M /dev/zero | tr '\\0' x > d/e/large; exec sleep 60";
    let ran = one(&rig, script, "");
    ran.expect(1);
    assert_eq!(ran.outcome("a"), "runaway: its checkout grew past 64 MiB");
    let ran = one(&rig, "truncate -s 1G sparse; sleep 5", "");
    ran.expect(0);
}

#[test]
fn docker_a_passing_node_pays_for_no_container_that_it_does_not_need() {
    let rig = Rig::new();
    let before = crate::rig::docker(&["info", "--format", "{{.SystemTime}}"]);
    let ran = one(&rig, "true", "");
    ran.expect(0);
    let until = crate::rig::docker(&["info", "--format", "{{.SystemTime}}"]);
    let label = format!("label=kew.run={}", ran.run_id().unwrap());
    let created = crate::rig::docker(&[
        "events",
        "--since",
        &before,
        "--until",
        &until,
        "--filter",
        "event=start",
        "--filter",
        "label=kew.node=a",
        "--filter",
        &label,
        "--format",
        "{{.Actor.Attributes.name}}",
    ]);
    assert_eq!(created.lines().count(), 1, "{created}");
}

fn walk(root: &camino::Utf8Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(dir) = waiting.pop() {
        for entry in dir.read_dir_utf8().unwrap().flatten() {
            if entry.file_type().unwrap().is_dir() {
                waiting.push(entry.path().to_owned());
            } else {
                assert!(entry.file_type().unwrap().is_file());
                found.insert(entry.path().strip_prefix(root).unwrap().to_string());
            }
        }
    }
    found
}
