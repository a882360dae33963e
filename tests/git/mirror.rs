//! kew's cache of the user's repository: only what commits reach, shallow where the source is.

use std::fs;

use kew::git::{context::ObjectFormat, error::GitError, mirror::Mirror};

use crate::support::{World, commit, git, head, rev};

#[test]
fn a_commit_is_fetched_once_and_kept() {
    let world = World::new();
    let kew = world.open();
    let base = head(&world.user());
    assert!(!kew.mirror.has(&base).unwrap());
    kew.mirror.ensure(&kew.user, &base).unwrap();
    assert!(kew.mirror.has(&base).unwrap());
    // Warm: works even without the source's objects.
    fs::rename(world.user().join(".git/objects"), world.user().join(".git/away")).unwrap();
    kew.mirror.ensure(&kew.user, &base).unwrap();
    assert!(kew.mirror.ensure(&kew.user, &rev_missing()).is_err());
}

fn rev_missing() -> kew::name::CommitId {
    kew::name::CommitId::new("1".repeat(40)).unwrap()
}

#[test]
fn it_holds_only_what_the_commit_reaches() {
    let world = World::new();
    let user = world.user();
    let base = head(&user);
    git(&user, &["checkout", "-q", "-b", "private"]);
    let private = commit(&user, "secret", "s");
    git(&user, &["tag", "-a", "-m", "t", "tagged", base.as_str()]);
    let kew = world.open();
    kew.mirror.ensure(&kew.user, &base).unwrap();
    assert!(!has_object(kew.mirror.path(), private.as_str()));
    assert!(!has_object(kew.mirror.path(), rev(&user, "tagged").as_str()));
    assert_eq!(
        git(kew.mirror.path(), &["for-each-ref", "--format=%(refname)"]),
        format!("refs/kew/keep/{base}")
    );
}

fn has_object(dir: &camino::Utf8Path, id: &str) -> bool {
    crate::support::command(dir).args(["cat-file", "-e", id]).status().unwrap().success()
}

#[test]
fn a_shallow_source_gives_a_shallow_mirror_until_it_is_whole() {
    let world = World::new();
    git(&world.root, &["clone", "-q", "--depth=1", &format!("file://{}", world.user()), "shallow"]);
    let shallow = world.root.join("shallow");
    let kew = world.open_at(&shallow);
    assert!(kew.user.is_shallow());
    let base = kew.base();
    let count = |kew: &crate::support::Kew| git(kew.mirror.path(), &["rev-list", "--count", base.as_str()]);
    assert_eq!(count(&kew), "1");
    git(&shallow, &["fetch", "-q", "--unshallow"]);
    let kew = world.open_at(&shallow);
    kew.mirror.ensure(&kew.user, &base).unwrap();
    assert_eq!(count(&kew), "2");
}

#[test]
fn strange_paths_and_sha256_work() {
    let world = World::with_format("sha256");
    let odd = world.root.join("100% \"odd\" é:name");
    fs::rename(world.user(), &odd).unwrap();
    let kew = world.open_at(&odd);
    assert_eq!(kew.user.format(), ObjectFormat::Sha256);
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    let done = commit(&work, "x", "y");
    assert_eq!(kew.collect(&work, &base).unwrap().head, Some(done));
}

#[test]
fn a_damaged_or_foreign_mirror_is_an_error_that_says_what_to_do() {
    let world = World::new();
    let kew = world.open();
    let context = kew.user.context(&world.root.join("kew/git")).unwrap();
    let open = |format| Mirror::open_or_create(&context, kew.mirror.path(), format);
    open(ObjectFormat::Sha1).unwrap();
    let error = open(ObjectFormat::Sha256).unwrap_err();
    assert!(matches!(error, GitError::Mirror { .. }) && error.hint().is_some());
    fs::remove_dir_all(kew.mirror.path().join("objects")).unwrap();
    assert!(matches!(open(ObjectFormat::Sha1), Err(GitError::Mirror { .. })));
}

#[test]
fn many_threads_may_bring_commits_at_once() {
    let world = World::new();
    let mut ids = vec![head(&world.user())];
    for at in 0..6 {
        ids.push(commit(&world.user(), "count", &at.to_string()));
    }
    let kew = world.open();
    std::thread::scope(|scope| {
        for id in &ids {
            scope.spawn(|| {
                let again = Mirror::open_or_create(
                    &kew.user.context(&world.root.join("kew/git")).unwrap(),
                    kew.mirror.path(),
                    kew.user.format(),
                );
                again.unwrap().ensure(&kew.user, id).unwrap();
            });
        }
    });
    for id in &ids {
        assert!(kew.mirror.has(id).unwrap());
    }
}
