//! A checkout whose history is cut off: what it holds, and that what is done in it comes home all the same.

use std::{collections::BTreeSet, fs, os::unix::fs::lchown};

use kew::git::{collect::Held, merge::merge_inputs, refs};

use crate::{
    collect::held,
    support::{World, branch, commit, git, head, is_root, key, node, rev, write},
};

#[test]
fn it_holds_the_newest_commits_and_nothing_else() {
    let world = World::new();
    let user = world.user();
    git(&user, &["checkout", "-q", "-b", "private"]);
    let private = commit(&user, "secret", "s");
    git(&user, &["checkout", "-q", "main"]);
    commit(&user, "README", "two\n");
    let kew = world.open();
    kew.mirror.ensure(&kew.user, &private).unwrap();
    let base = kew.base();
    for (depth, commits) in [(1, "1"), (2, "2"), (50, "3")] {
        let work = kew.checkout_to_depth(&base, &format!("work{depth}"), depth);
        assert_eq!(git(&work, &["rev-list", "--count", "HEAD"]), commits);
        let listed =
            |args: &[&str]| -> BTreeSet<String> { git(&work, args).lines().map(str::to_owned).collect() };
        assert_eq!(
            listed(&["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]),
            listed(&["rev-list", "--objects", "--no-object-names", "HEAD"])
        );
        assert_eq!(git(&work, &["for-each-ref", "--format=%(refname)"]), branch().as_str());
        assert_eq!(git(&work, &["symbolic-ref", "HEAD"]), branch().as_str());
        assert_eq!(git(&work, &["remote"]), "");
        assert_eq!(git(&work, &["status", "--porcelain"]), "");
        assert_eq!(work.join(".git/shallow").exists(), depth < 3);
        assert!(
            !work.join(".git/FETCH_HEAD").exists() && !work.join(".git/objects/info/alternates").exists()
        );
        git(&work, &["fsck", "--full", "--strict"]);
    }
}

#[test]
fn commits_on_a_cut_history_come_home_whole() {
    let world = World::new();
    let user = world.user();
    let old = "x".repeat(5000);
    commit(&user, "old", &old);
    commit(&user, "old", "replaced");
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout_to_depth(&base, "work", 1);
    commit(&work, "new", "n");
    // What an ancestor of the input had, which this clone has never seen.
    let done = commit(&work, "old", &old);
    let collected = kew.collect(&work, &base).unwrap();
    assert_eq!((collected.head.as_ref(), collected.commits), (Some(&done), 2));
    let name = refs::node(&key("n", 1));
    kew.land(&base, &done, &name);
    assert_eq!(git(&user, &["rev-list", "--count", name.as_str()]), "6");
    git(&user, &["fsck", "--strict", "--full"]);
    // The next node starts from there, as deep as the first.
    let next = kew.checkout_to_depth(&done, "next", 2);
    assert_eq!(git(&next, &["rev-list", "--count", "HEAD"]), "2");
}

#[test]
fn a_merge_and_a_shallow_source_can_be_cut_off_too() {
    let world = World::new();
    let user = world.user();
    let side = |name: &str| {
        git(&user, &["checkout", "-q", "-b", name, "main"]);
        commit(&user, name, name)
    };
    let (a, b) = (side("a"), side("b"));
    let kew = world.open();
    for id in [&a, &b] {
        kew.mirror.ensure(&kew.user, id).unwrap();
    }
    let merged = merge_inputs(&kew.mirror, &[(node("a"), a), (node("b"), b)]).unwrap();
    let work = kew.checkout_to_depth(&merged, "work", 2);
    assert_eq!(git(&work, &["rev-list", "--count", "HEAD"]), "3");
    let done = commit(&work, "more", "m");
    assert_eq!(kew.collect(&work, &merged).unwrap().head, Some(done));

    let other = World::new();
    let source = format!("file://{user}");
    git(&other.root, &["clone", "-q", "--depth", "2", "--branch", "a", &source, "shallow"]);
    let kew = other.open_at(&other.root.join("shallow"));
    let base = kew.base();
    for depth in [1, 2, 9] {
        let work = kew.checkout_to_depth(&base, &format!("work{depth}"), depth);
        let done = commit(&work, "x", "y");
        assert_eq!(kew.collect(&work, &base).unwrap().head, Some(done));
    }
}

#[test]
fn what_is_cut_off_cannot_be_rewritten_unseen() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout_to_depth(&base, "work", 1);
    write(&work, "README", "amended\n");
    git(&work, &["commit", "-q", "--amend", "-a", "-m", "amended"]);
    assert_eq!(held(kew.collect(&work, &base)), Held::HistoryRewritten);
    // A root that claims to be the input's child only by the shallow file.
    git(&work, &["checkout", "-q", "--orphan", "fresh"]);
    git(&work, &["commit", "-q", "-m", "orphan"]);
    assert_eq!(held(kew.collect(&work, &base)), Held::HistoryRewritten);
}

#[test]
fn a_mirror_that_was_given_back_to_its_owner_still_serves() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let mut waiting = vec![kew.mirror.path().to_owned()];
    while let Some(path) = waiting.pop() {
        lchown(&path, Some(12_345), Some(12_345)).unwrap();
        if path.is_dir() {
            waiting.extend(path.read_dir_utf8().unwrap().map(|entry| entry.unwrap().into_path()));
        }
    }
    let work = kew.checkout_to_depth(&base, "work", 1);
    assert_eq!(head(&work), base);
    assert_eq!(rev(&work, "HEAD"), base);
    assert!(fs::metadata(work.join("README")).unwrap().is_file());
}
