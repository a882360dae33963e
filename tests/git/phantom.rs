//! A commit that claims objects which its agent was never given. They may lie in kew's mirror by now, from another run, a
//! sibling or the user's own branches; that they exist somewhere must never be enough.

use std::fs;

use camino::Utf8Path;
use kew::{
    git::{
        collect::{CollectFault, CollectLimits, Held},
        error::GitError,
        refs,
    },
    name::CommitId,
};

use crate::{
    collect::held,
    hostile::{answer, feed, forge, pack_of},
    support::{Kew, World, commit, git, head, key, rev, write},
};

/// What names foreign objects: each as a whole answer of a container that lies, and judged as such.
fn all_refused(kew: &Kew, work: &Utf8Path, base: &CommitId, foreign: &CommitId, from: &Utf8Path) {
    let own = rev(work, "HEAD^{tree}");
    let foreign_tree = rev(from, &format!("{foreign}^{{tree}}"));
    let brought = git(from, &["diff-tree", "-r", "--no-commit-id", foreign.as_str()]);
    let blob = CommitId::new(brought.split_ascii_whitespace().nth(3).unwrap()).unwrap();
    let with_blob = feed(work, &["mktree", "--missing"], format!("100644 blob {blob}\tx\n").as_bytes());
    let with_blob = CommitId::new(String::from_utf8(with_blob).unwrap().trim()).unwrap();
    let mine = rev(work, "HEAD");
    let claims = [
        ("a second parent", forge(work, &own, &[base, foreign]), vec![own.clone()]),
        ("the first parent", forge(work, &own, &[foreign, base]), vec![own.clone()]),
        ("a parent behind another", forge(work, &own, &[&mine, foreign]), vec![mine.clone(), own.clone()]),
        ("its tree", forge(work, &foreign_tree, &[base]), vec![]),
        ("its blob", forge(work, &with_blob, &[base]), vec![with_blob.clone()]),
        ("the head itself", foreign.clone(), vec![]),
    ];
    for (what, lie, with) in claims {
        let mut ids: Vec<&CommitId> = with.iter().collect();
        if lie != *foreign {
            ids.push(&lie);
        }
        let own_blobs = git(work, &["ls-tree", "-r", "--format=%(objectname)", own.as_str()]);
        let own_blobs: Vec<_> = own_blobs.lines().map(|id| CommitId::new(id).unwrap()).collect();
        if with.contains(&own) {
            ids.extend(&own_blobs);
        }
        // Sub-trees of the agent's own tree.
        let trees = git(work, &["ls-tree", "-r", "-d", "--format=%(objectname)", own.as_str()]);
        let trees: Vec<_> = trees.lines().map(|id| CommitId::new(id).unwrap()).collect();
        if with.contains(&own) {
            ids.extend(&trees);
        }
        let path = answer(kew, &lie, &pack_of(work, &ids));
        let found = held(kew.accept(&path, base, &CollectLimits::default()));
        assert_eq!(found, Held::ForeignObjects, "{what}");
    }
    // And by the agent's own repository, which hides the gap from its git.
    let lie = forge(work, &own, &[base, foreign]);
    write(work, ".git/shallow", &format!("{lie}\n"));
    git(work, &["update-ref", "HEAD", lie.as_str()]);
    assert_eq!(held(kew.collect(work, base)), Held::ForeignObjects, "behind a lie about history");
    fs::remove_file(work.join(".git/shallow")).unwrap();
}

#[test]
fn what_another_run_brought_into_the_mirror_is_no_ones_parent() {
    let world = World::new();
    let user = world.user();
    git(&user, &["checkout", "-q", "-b", "private"]);
    let private = commit(&user, "secret", "s");
    let first = world.open();
    first.checkout(&first.base(), "first");
    // The next run starts elsewhere, when the branch is gone.
    git(&user, &["checkout", "-q", "main"]);
    git(&user, &["branch", "-q", "-D", "private"]);
    let kew = world.open();
    let base = kew.base();
    assert!(kew.mirror.has(&private).unwrap(), "the mirror keeps what it has");
    let work = kew.checkout(&base, "work");
    commit(&work, "a", "a");
    all_refused(&kew, &work, &base, &private, &user);
}

#[test]
fn what_a_sibling_brought_home_is_no_ones_parent() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let sibling = kew.checkout(&base, "sibling");
    let theirs = commit(&sibling, "theirs", "t");
    kew.collect(&sibling, &base).unwrap();
    kew.land(&base, &theirs, &refs::node(&key("sibling", 1)));
    assert!(kew.mirror.has(&theirs).unwrap());
    let work = kew.checkout(&base, "work");
    commit(&work, "a", "a");
    all_refused(&kew, &work, &base, &theirs, &sibling);
    // Who was given it may build on it.
    let child = kew.checkout(&theirs, "child");
    let done = commit(&child, "more", "m");
    assert_eq!(kew.collect(&child, &theirs).unwrap().head, Some(done));
}

#[test]
fn what_was_refused_is_nowhere_for_the_next() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let first = kew.checkout(&base, "first");
    commit(&first, "fine", "f");
    let refused = commit(&first, "sub/.kew-plan", "x");
    assert_eq!(held(kew.collect(&first, &base)), Held::ReservedName);
    // What lies in a quarantine is never there for another collection.
    let answer = kew.root.join("answer");
    let again =
        kew::git::collect::accept(&answer, &kew.mirror, &kew.quarantine(), &base, &CollectLimits::default());
    assert!(matches!(again, Err(CollectFault::Infrastructure(GitError::Exists(_)))), "{again:?}");
    assert!(!kew.mirror.has(&refused).unwrap());

    let work = kew.checkout(&base, "work");
    let done = commit(&work, "a", "a");
    let lie = forge(&work, &rev(&work, "HEAD^{tree}"), &[&done, &refused]);
    write(&work, ".git/shallow", &format!("{lie}\n{done}\n"));
    git(&work, &["update-ref", "HEAD", lie.as_str()]);
    assert_eq!(held(kew.collect(&work, &base)), Held::Broken);
    for dir in [world.user(), kew.mirror.path().to_owned()] {
        let known =
            crate::support::command(&dir).args(["cat-file", "-e", refused.as_str()]).status().unwrap();
        assert!(!known.success(), "{dir} has it");
    }
}

#[test]
fn a_delta_against_an_object_outside_of_the_pack_is_refused() {
    let world = World::new();
    let user = world.user();
    let long: String = (0..4000).map(|at| format!("line {at} of the secret\n")).collect();
    commit(&user, "given", &long);
    git(&user, &["checkout", "-q", "-b", "private"]);
    let private = commit(&user, "secret", &format!("{long}the secret itself\n"));
    git(&user, &["checkout", "-q", "main"]);
    let kew = world.open();
    let base = kew.base();
    kew.mirror.ensure(&kew.user, &private).unwrap();
    let work = kew.checkout(&base, "work");
    git(&work, &["fetch", "-q", user.as_str(), "private"]);
    for (edge, name, text) in [
        (&private, "secret", format!("{long}the secret itself\nand more\n")),
        (&base, "given", format!("{long}and more\n")),
    ] {
        let done = commit(&work, name, &text);
        let done = forge(&work, &rev(&work, &format!("{done}^{{tree}}")), &[edge]);
        let list = format!("{done}\n^{edge}\n");
        let thin = feed(&work, &["pack-objects", "--revs", "--thin", "--stdout", "-q"], list.as_bytes());
        let whole = feed(&work, &["pack-objects", "--revs", "--stdout", "-q"], list.as_bytes());
        assert!(thin.len() * 2 < whole.len(), "no delta against {name}: {} of {}", thin.len(), whole.len());
        // Not for its parent (that would be a foreign object): git must not even look for the rest.
        let path = answer(&kew, &done, &thin);
        assert_eq!(held(kew.accept(&path, &base, &CollectLimits::default())), Held::Broken, "{name}");
        git(&work, &["reset", "-q", "--hard", base.as_str()]);
    }
    assert_eq!(head(&user), base);
}
