//! Where a plan is, where a repository is, and what is said where there is none.

use super::rig::{IMAGES, ONE, Rig};

#[test]
fn a_plan_that_is_no_file() {
    let rig = Rig::new();
    for command in [&["run"][..], &["run", "--dry-run"], &["check"]] {
        let with = |plan: &'static str| command.iter().copied().chain([plan]).collect::<Vec<_>>();
        rig.refused(&with("."), &["the plan `.` could not be read", "directory"]);
        rig.refused(&with("missing.toml"), &["the plan `missing.toml` could not be read", "No such file"]);
        rig.refused(&with("no/such/folder.toml"), &["no/such"]);
        rig.write("latin.toml", [b'#', 0xe4]);
        rig.refused(&with("latin.toml"), &["`latin.toml` is not UTF-8 text", "save it as UTF-8"]);
    }
}

#[test]
fn not_in_a_repository() {
    let rig = Rig::bare();
    rig.write("kew.toml", IMAGES);
    rig.write("plan.toml", ONE);
    // There is no repository, so no settings of one.
    rig.user(IMAGES);
    assert_eq!(rig.kew(&["check", "plan.toml"]).code, 0, "a check reads files only");
    for args in [
        &["run", "plan.toml"][..],
        &["run", "--dry-run", "plan.toml"],
        &["runs"],
        &["show"],
        &["logs", "latest", "a"],
    ] {
        let said = rig.refused(args, &["repository"]);
        assert!(said.contains("help: "), "{said}");
    }
}

#[test]
fn a_repository_without_a_commit() {
    let rig = Rig::empty();
    rig.write("kew.toml", IMAGES);
    rig.write("plan.toml", ONE);
    for args in [&["run", "plan.toml"][..], &["run", "--dry-run", "plan.toml"]] {
        rig.refused(args, &["no commit"]);
    }
    assert_eq!(rig.kew(&["check", "plan.toml"]).code, 0);
}

#[test]
fn an_unknown_base_says_what_to_do() {
    let rig = Rig::new();
    for base in ["no-such-branch", "deadbeef", "refs/heads/none", "HEAD~99"] {
        rig.write(
            "plan.toml",
            ONE.replace("epic.name = \"e\"", &format!("epic = {{ name = \"e\", base = \"{base}\" }}")),
        );
        let said = rig.refused(&["run", "--dry-run", "plan.toml"], &[base]);
        assert!(said.contains("help: "), "{said}");
    }
}

#[test]
fn a_base_is_never_an_option() {
    let rig = Rig::new();
    for base in ["-x", "--help", "--upload-pack=touch x", ""] {
        rig.write(
            "plan.toml",
            ONE.replace("epic.name = \"e\"", &format!("epic = {{ name = \"e\", base = \"{base}\" }}")),
        );
        rig.refused(&["run", "--dry-run", "plan.toml"], &["`epic.base`"]);
    }
}

#[test]
fn from_a_folder_below_and_from_outside() {
    let rig = Rig::new();
    rig.write("deep/below/x", "");
    let mut below = rig.command(&["run", "--dry-run", "../../plan.toml"]);
    let output = below.current_dir(rig.repo.join("deep/below")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let mut outside = rig.command(&["run", "--dry-run", "--repo", "repo", "repo/plan.toml"]);
    let output = outside.current_dir(&rig.root).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    rig.refused(&["run", "--dry-run", "--repo", "/nonexistent", "plan.toml"], &["`/nonexistent`"]);
}

#[test]
fn a_linked_worktree_is_a_repository_too() {
    let rig = Rig::new();
    rig.git(&["worktree", "add", "-q", "../tree"]);
    let mut kew = rig.command(&["run", "--dry-run", "plan.toml"]);
    let output = kew.current_dir(rig.root.join("tree")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn prompt_files_are_found_beside_the_plan_first() {
    let rig = Rig::new();
    let plan = "version = 1\nepic.name = \"e\"\n[nodes.a]\nrunner = \"shell\"\nprompt_file = \"p.sh\"\n";
    rig.write("plans/plan.toml", plan);
    rig.refused(&["check", "plans/plan.toml"], &["`p.sh`", "plans/p.sh"]);
    rig.write("p.sh", "true");
    assert_eq!(rig.kew(&["check", "plans/plan.toml"]).code, 0);
    rig.write("plans/p.sh", [0xff]);
    rig.refused(&["check", "plans/plan.toml"], &["p.sh", "UTF-8"]);
    rig.write("plans/plan.toml", plan.replace("p.sh", "../../home/x"));
    std::fs::write(rig.root.join("home/x"), "secret").unwrap();
    rig.refused(&["check", "plans/plan.toml"], &["outside"]);
}
