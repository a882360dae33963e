//! The clone that a container works in: what it holds, what it shares, and who may write to it.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
};

use camino::Utf8Path;
use kew::{
    git::{access::Access, checkout::checkout, error::GitError},
    process::query::RunAs,
};

use crate::{
    base::inventory,
    support::{World, branch, command, commit, git, head, is_root, rev, write},
};

fn objects(dir: &Utf8Path) -> BTreeSet<String> {
    git(dir, &["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"])
        .lines()
        .map(str::to_owned)
        .collect()
}

#[test]
fn it_holds_exactly_what_the_input_reaches_and_is_ready_to_work_in() {
    let world = World::new();
    let user = world.user();
    git(&user, &["tag", "v1"]);
    git(&user, &["checkout", "-q", "-b", "private"]);
    let private = commit(&user, "secret", "s");
    let kew = world.open();
    kew.mirror.ensure(&kew.user, &private).unwrap();
    let input = rev(&user, "main");
    kew.mirror.ensure(&kew.user, &input).unwrap();
    let work = kew.checkout(&input, "work");

    let reached: BTreeSet<String> = git(&user, &["rev-list", "--objects", "--no-object-names", "main"])
        .lines()
        .map(str::to_owned)
        .collect();
    assert_eq!(objects(&work), reached);
    assert_eq!(git(&work, &["symbolic-ref", "HEAD"]), branch().as_str());
    assert_eq!(git(&work, &["for-each-ref", "--format=%(refname)"]), branch().as_str());
    assert_eq!(head(&work), input);
    assert_eq!(git(&work, &["status", "--porcelain"]), "");
    assert_eq!(git(&work, &["remote"]), "");
    assert_eq!(git(&work, &["config", "core.checkStat"]), "minimal");
    assert_eq!(git(&work, &["config", "core.trustctime"]), "false");
    assert!(!work.join(".git/hooks").exists() && !work.join(".git/objects/info/alternates").exists());
    git(&work, &["fsck", "--full", "--strict"]);
}

#[test]
fn it_shares_no_inode_and_leaves_the_users_repository_alone() {
    let world = World::new();
    git(&world.user(), &["repack", "-adq"]);
    let before = inventory(&world.user());
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    assert_eq!(inventory(&world.user()), before);
    let inodes = |dir: &Utf8Path| inventory(dir).values().map(|facts| facts.0).collect::<BTreeSet<u64>>();
    assert!(inodes(&work).is_disjoint(&inodes(&world.user())));
    assert!(inodes(&work).is_disjoint(&inodes(kew.mirror.path())));
}

#[test]
fn everybody_may_write_where_kew_is_not_root() {
    let world = World::new();
    let user = world.user();
    write(&user, "run.sh", "#!/bin/sh\n");
    fs::set_permissions(user.join("run.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("/etc/hostname", user.join("link")).unwrap();
    let outside = fs::metadata("/etc/hostname").unwrap();
    git(&user, &["add", "-A"]);
    git(&user, &["commit", "-q", "-m", "modes"]);
    let kew = world.open();
    let work = kew.checkout(&kew.base(), "work");
    let mode = |path: &str| fs::symlink_metadata(work.join(path)).unwrap().mode() & 0o777;
    assert_eq!(mode("README") & 0o666, 0o666);
    assert_eq!(mode("README") & 0o111, 0);
    assert_eq!(mode("run.sh"), 0o777);
    for dir in ["", "src", ".git", ".git/objects/pack", ".git/refs/heads/kew/e"] {
        assert_eq!(mode(dir), 0o777, "{dir}");
    }
    assert_eq!(git(&work, &["status", "--porcelain"]), "");
    assert_eq!(fs::metadata("/etc/hostname").unwrap().mode(), outside.mode());
}

#[test]
fn it_becomes_the_containers_users_where_kew_is_root() {
    if !is_root() {
        return;
    }
    let world = World::new();
    symlink("/etc/hostname", world.user().join("link")).unwrap();
    git(&world.user(), &["add", "-A"]);
    git(&world.user(), &["commit", "-q", "-m", "link"]);
    let kew = world.open();
    let owner = Access::Owner(RunAs { uid: 1001, gid: 1002 });
    let dest = kew.root.join("work");
    checkout(&kew.mirror, &kew.base(), &dest, &branch(), owner).unwrap();
    for (path, facts) in inventory(&dest) {
        assert_eq!(facts.2, 1001, "{path}");
    }
    assert_eq!(fs::metadata(dest.join(".git/HEAD")).unwrap().gid(), 1002);
    assert_eq!(fs::metadata("/etc/hostname").unwrap().uid(), 0);
    // The new owner made no file look changed: git does not have to read them again.
    let dirty = command(&dest).args(["diff-files", "--quiet"]).status().unwrap();
    assert!(dirty.success());
}

#[test]
fn a_shallow_mirror_gives_a_shallow_checkout() {
    let world = World::new();
    git(&world.root, &["clone", "-q", "--depth=1", &format!("file://{}", world.user()), "shallow"]);
    let kew = world.open_at(&world.root.join("shallow"));
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    assert_eq!(git(&work, &["rev-list", "--count", "HEAD"]), "1");
    git(&work, &["fsck", "--full"]);
    let done = commit(&work, "x", "y");
    let collected = kew.collect(&work, &base).unwrap();
    assert_eq!((collected.head, collected.commits), (Some(done), 1));
}

#[test]
fn filters_and_submodules_of_the_repository_do_not_run() {
    let world = World::new();
    let user = world.user();
    let trace = world.root.join("ran");
    commit(&user, ".gitattributes", "*.bin filter=lfs\n");
    commit(&user, "a.bin", "version https://git-lfs.github.com/spec/v1\n");
    commit(&user, ".gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = ../user\n");
    let id = head(&user);
    git(&user, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},s")]);
    git(&user, &["commit", "-q", "-m", "submodule"]);
    git(&user, &["config", "filter.lfs.smudge", &format!("touch {trace}")]);
    git(&user, &["config", "filter.lfs.required", "true"]);
    let kew = world.open();
    let work = kew.checkout(&kew.base(), "work");
    assert!(fs::read_to_string(work.join("a.bin")).unwrap().starts_with("version"));
    assert_eq!(fs::read_dir(work.join("s")).unwrap().count(), 0);
    assert!(!trace.exists());
}

#[test]
fn a_folder_in_use_is_refused_and_kept() {
    let world = World::new();
    let kew = world.open();
    let dest = kew.root.join("work");
    write(&dest, "mine", "x");
    let error = checkout(&kew.mirror, &kew.base(), &dest, &branch(), Access::Everyone).unwrap_err();
    assert!(matches!(error, GitError::Exists(_)));
    assert!(dest.join("mine").exists());
}

#[test]
fn kews_own_files_stay_out_of_commits() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    kew::git::prompt::write_prompt(&work, "do it").unwrap();
    write(&work, ".kew-review-verdict.json", "{}");
    git(&work, &["add", "-A"]);
    assert_eq!(git(&work, &["status", "--porcelain"]), "");
    let collected = kew.collect(&work, &base).unwrap();
    assert_eq!((collected.head, collected.dirty), (None, Some(0)));
}
