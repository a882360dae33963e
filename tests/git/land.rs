//! Commits that come home: one ref per attempt in the user's repository, and nothing else changed there.

use std::fs;

use kew::git::{collect::CollectLimits, error::GitError, land, refs};

use crate::{
    base::inventory,
    support::{World, branch, commit, git, key, rev, write},
};

#[test]
fn commits_come_home_under_one_ref_and_nothing_else_changes() {
    let world = World::new();
    let user = world.user();
    let before = inventory(&user);
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    let done = commit(&work, "a", "a");
    git(&work, &["tag", "mine"]);
    kew.collect(&work, &base).unwrap();
    let name = refs::node(&key("n", 1));
    kew.land(&base, &done, &name);
    kew.land(&base, &done, &name);
    assert_eq!(git(&user, &["for-each-ref", "--format=%(refname)"]), format!("refs/heads/main\n{name}"));
    assert_eq!(rev(&user, name.as_str()), done);
    assert!(kew.mirror.has(&done).unwrap());
    git(&user, &["fsck", "--full", "--strict"]);
    let after = inventory(&user);
    for (path, facts) in before {
        assert_eq!(after.get(&path), Some(&facts), "{path}");
    }
    // No pack for a few objects, nothing left behind.
    assert!(!after.keys().any(|path| path.extension() == Some("pack") || path.as_str().contains("tmp_")));
}

#[test]
fn a_second_node_builds_on_the_first_without_the_users_repository() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    let first = commit(&work, "a", "a");
    kew.collect(&work, &base).unwrap();
    kew.land(&base, &first, &refs::node(&key("a", 1)));
    let work = kew.checkout(&first, "work2");
    let second = commit(&work, "b", "b");
    let collected = kew.collect(&work, &first).unwrap();
    assert_eq!((collected.head.as_ref(), collected.commits), (Some(&second), 1));
    kew.land(&first, &second, &refs::node(&key("b", 1)));
    assert_eq!(git(&world.user(), &["rev-list", "--count", &format!("{base}..{second}")]), "2");
}

#[test]
fn many_objects_come_as_one_pack() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    for at in 0..150 {
        write(&work, &format!("many/{at}"), &at.to_string());
    }
    let done = commit(&work, "last", "");
    git(&work, &["add", "-A"]);
    git(&work, &["commit", "-q", "-m", "many"]);
    let head = rev(&work, "HEAD");
    let _ = done;
    kew.collect(&work, &base).unwrap();
    kew.land(&base, &head, &refs::node(&key("n", 1)));
    let packs = inventory(&world.user()).keys().filter(|path| path.extension() == Some("pack")).count();
    assert_eq!(packs, 1);
    git(&world.user(), &["fsck", "--full", "--strict"]);
}

#[test]
fn an_attempt_cannot_be_replaced() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let name = refs::node(&key("n", 1));
    kew.user.create_ref(&name, &base).unwrap();
    let work = kew.checkout(&base, "work");
    let done = commit(&work, "a", "a");
    kew.collect(&work, &base).unwrap();
    let error = land::land(&kew.user, &kew.mirror, &kew.quarantine(), &base, &done, &name).unwrap_err();
    assert!(matches!(error, GitError::RefTaken { .. }));
    assert_eq!(rev(&world.user(), name.as_str()), base);
}

#[test]
fn works_from_a_shallow_clone_and_a_linked_worktree() {
    let world = World::new();
    git(&world.root, &["clone", "-q", "--depth=1", &format!("file://{}", world.user()), "shallow"]);
    git(&world.root.join("shallow"), &["worktree", "add", "-q", "--detach", "../linked"]);
    let kew = world.open_at(&world.root.join("linked"));
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    let done = commit(&work, "a", "a");
    kew.collect(&work, &base).unwrap();
    let name = refs::node(&key("n", 1));
    kew.land(&base, &done, &name);
    assert_eq!(rev(&world.root.join("shallow"), name.as_str()), done);
    git(&world.root.join("shallow"), &["fsck", "--full"]);
}

#[test]
fn what_else_a_pack_holds_stays_behind() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    let done = commit(&work, "a", "a");
    write(&work, "junk", "junk");
    let junk = git(&work, &["hash-object", "-w", "junk"]);
    let list = format!(
        "{}\n{junk}\n",
        git(&work, &["rev-list", "--objects", "--no-object-names", &format!("{base}..")])
    );
    fs::write(work.join(".git/list"), list).unwrap();
    let pack = crate::support::command(&work)
        .args(["pack-objects", "--stdout", "-q"])
        .stdin(fs::File::open(work.join(".git/list")).unwrap())
        .output()
        .unwrap();
    let header = format!("kew-collect 1\nhead {done}\nsymbolic {}\nbranch {done}\ndirty 0\n\n", branch());
    let answer = kew.root.join("answer");
    fs::write(&answer, [header.as_bytes(), &pack.stdout].concat()).unwrap();
    kew.accept(&answer, &base, &CollectLimits::default()).unwrap();
    kew.land(&base, &done, &refs::node(&key("n", 1)));
    let has = |dir: &camino::Utf8Path| {
        crate::support::command(dir).args(["cat-file", "-e", &junk]).status().unwrap().success()
    };
    assert!(has(&kew.quarantine()));
    assert!(!has(&world.user()) && !has(kew.mirror.path()));
}
