//! The user's repository and the base of a run, by every name that a commit may have.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _, process::Command};

use camino::{Utf8Path, Utf8PathBuf};
use kew::git::{
    base::UserRepo,
    error::{Extent, GitError},
    refs,
};

use crate::support::{World, commit, git, head, is_root, key, rev, write};

fn open(dir: &Utf8Path) -> UserRepo {
    UserRepo::open(Some(dir)).unwrap()
}

#[test]
fn a_base_may_be_any_name_of_a_commit() {
    let world = World::new();
    let user = world.user();
    let main = head(&user);
    git(&user, &["tag", "-a", "-m", "tagged", "v1", "HEAD~1"]);
    git(&user, &["branch", "side", "HEAD~1"]);
    git(&user, &["update-ref", "refs/remotes/origin/far", "HEAD~1"]);
    let first = rev(&user, "HEAD~1");
    let repo = open(&user);
    assert_eq!(repo.resolve(None).unwrap(), main);
    assert_eq!(repo.resolve(Some("main")).unwrap(), main);
    for name in ["v1", "side", "origin/far", "far", first.as_str(), first.short(), "main~1"] {
        assert_eq!(repo.resolve(Some(name)).unwrap(), first, "{name}");
    }
    git(&user, &["checkout", "-q", "--detach", "HEAD~1"]);
    assert_eq!(repo.resolve(None).unwrap(), first);
}

#[test]
fn a_base_that_names_no_commit_is_an_error_and_never_an_option() {
    let world = World::new();
    let repo = open(&world.user());
    for name in ["nope", "", "-h", "--all", "^main", "main..main", "main:README", "a\nb", "*"] {
        let error = repo.resolve(Some(name)).unwrap_err();
        assert!(matches!(error, GitError::UnknownBase { .. }), "{name}: {error}");
    }
}

#[test]
fn a_branch_of_two_remotes_at_different_commits_is_ambiguous() {
    let world = World::new();
    git(&world.user(), &["update-ref", "refs/remotes/a/x", "HEAD"]);
    git(&world.user(), &["update-ref", "refs/remotes/b/x", "HEAD"]);
    let repo = open(&world.user());
    assert_eq!(repo.resolve(Some("x")).unwrap(), head(&world.user()));
    git(&world.user(), &["update-ref", "refs/remotes/b/x", "HEAD~1"]);
    let error = repo.resolve(Some("x")).unwrap_err();
    assert_eq!(error.to_string(), "the base `x` is ambiguous: refs/remotes/a/x, refs/remotes/b/x");
}

#[test]
fn an_unknown_base_in_a_clone_that_lacks_history_says_how_to_get_it() {
    let world = World::new();
    git(&world.user(), &["branch", "other"]);
    let url = format!("file://{}", world.user());
    git(&world.root, &["clone", "-q", "--depth=1", &url, "shallow"]);
    git(&world.root, &["clone", "-q", "--single-branch", &url, "single"]);
    git(&world.root, &["clone", "-q", &url, "full"]);
    let extent = |name: &str| match open(&world.root.join(name)).resolve(Some("gone")).unwrap_err() {
        error @ GitError::UnknownBase { extent, .. } => (extent, error.hint()),
        error => panic!("{error}"),
    };
    let (shallow, hint) = extent("shallow");
    assert_eq!(shallow, Extent::Shallow);
    assert!(hint.unwrap().contains("fetch-depth: 0") && hint.unwrap().contains("--unshallow"));
    assert_eq!(extent("single").0, Extent::OneRef);
    assert!(extent("single").1.unwrap().contains("fetch-depth: 0"));
    assert_eq!(extent("full").0, Extent::Full);
    assert!(!extent("full").1.unwrap().contains("fetch-depth"));
}

#[test]
fn a_repository_without_commits_says_so() {
    let world = World::empty("sha1");
    assert!(matches!(open(&world.user()).resolve(None), Err(GitError::NoCommits)));
}

#[test]
fn found_from_a_folder_below_a_linked_worktree_and_a_bare_repository() {
    let world = World::new();
    let user = world.user();
    git(&user, &["worktree", "add", "-q", "-b", "side", "../linked", "HEAD~1"]);
    git(&world.root, &["clone", "-q", "--bare", "user", "bare.git"]);
    assert_eq!(open(&user.join("src")).root(), user);
    let linked = open(&world.root.join("linked"));
    assert_eq!(linked.state_dir(), user.join(".git/kew"));
    assert_eq!(linked.work_tree(), Some(&*world.root.join("linked")));
    assert_eq!(linked.resolve(None).unwrap(), rev(&user, "side"));
    let bare = open(&world.root.join("bare.git"));
    assert_eq!((bare.work_tree(), bare.uncommitted_count().unwrap()), (None, 0));
    assert_eq!(bare.resolve(Some("main")).unwrap(), head(&user));
    assert!(matches!(UserRepo::open(Some(&world.root)), Err(GitError::NoRepository(_))));
}

#[test]
fn partial_clones_are_refused_with_the_remedy() {
    let world = World::new();
    git(&world.user(), &["config", "uploadpack.allowFilter", "true"]);
    let url = format!("file://{}", world.user());
    git(&world.root, &["clone", "-q", "--filter=blob:none", &url, "partial"]);
    let error = UserRepo::open(Some(&world.root.join("partial"))).unwrap_err();
    assert!(matches!(error, GitError::PartialClone(_)));
    assert!(error.hint().unwrap().contains("--refetch"));
    // The remedy works.
    let partial = world.root.join("partial");
    git(&partial, &["config", "--unset", "remote.origin.partialclonefilter"]);
    git(&partial, &["fetch", "-q", "--refetch"]);
    git(&partial, &["config", "--unset", "remote.origin.promisor"]);
    if !git(&partial, &["config", "--get", "--default=", "extensions.partialclone"]).is_empty() {
        git(&partial, &["config", "--unset", "extensions.partialclone"]);
    }
    assert_eq!(open(&partial).resolve(None).unwrap(), head(&world.user()));
}

#[test]
fn uncommitted_paths_are_counted_without_writing_or_starting_anything() {
    let world = World::new();
    let user = world.user();
    assert_eq!(open(&user).uncommitted_count().unwrap(), 0);
    let trace = world.root.join("ran");
    let plant = format!("touch {trace}; cat");
    write(&user, ".gitattributes", "* filter=evil\n");
    for (name, value) in
        [("filter.evil.clean", &*plant), ("filter.evil.required", "true"), ("core.fsmonitor", &*plant)]
    {
        git(&user, &["config", name, value]);
    }
    write(&user, "README", "changed to another length\n");
    write(&user, "new", "");
    let index = fs::metadata(user.join(".git/index")).unwrap();
    assert_eq!(open(&user).uncommitted_count().unwrap(), 3);
    let after = fs::metadata(user.join(".git/index")).unwrap();
    assert_eq!((index.ino(), index.mtime_nsec()), (after.ino(), after.mtime_nsec()));
    assert!(!trace.exists(), "the repository's configuration was executed");
}

#[test]
fn a_ref_is_made_once() {
    let world = World::new();
    let repo = open(&world.user());
    let (new, old) = (head(&world.user()), rev(&world.user(), "HEAD~1"));
    let name = refs::base(&key("n", 1).run);
    assert_eq!(repo.read_ref(&name).unwrap(), None);
    repo.create_ref(&name, &new).unwrap();
    repo.create_ref(&name, &new).unwrap();
    match repo.create_ref(&name, &old).unwrap_err() {
        GitError::RefTaken { have, want, .. } => assert_eq!((have, want), (new.clone(), old)),
        error => panic!("{error}"),
    }
    assert_eq!(repo.read_ref(&name).unwrap(), Some(new));
}

#[test]
fn names_of_refs() {
    let names = [refs::base(&key("n", 1).run), refs::node(&key("n", 2)), refs::input(&key("n", 3))];
    let run = "refs/kew/20261201-093000-k3f9";
    assert_eq!(
        names.map(|name| name.to_string()),
        [format!("{run}/base"), format!("{run}/nodes/n/2"), format!("{run}/inputs/n/3")]
    );
}

/// Path, inode, links, owner and size of all that is in a folder.
pub fn inventory(dir: &Utf8Path) -> BTreeMap<Utf8PathBuf, (u64, u64, u32, u64)> {
    let mut found = BTreeMap::new();
    for entry in dir.read_dir_utf8().unwrap() {
        let path = entry.unwrap().into_path();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            found.extend(inventory(&path));
        }
        let size = if meta.is_dir() { 0 } else { meta.len() };
        let links = if meta.is_dir() { 0 } else { meta.nlink() };
        found.insert(path, (meta.ino(), links, meta.uid(), size));
    }
    found
}

#[test]
fn nothing_of_somebody_elses_repository_becomes_roots() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let user = world.user();
    let trace = world.root.join("ran");
    write(&user, "new", "");
    git(&user, &["config", "core.sshCommand", &format!("touch {trace}")]);
    let chown = Command::new("chown").args(["-R", "4321:4321"]).arg(&user).status().unwrap();
    assert!(chown.success());
    let kew = world.open();
    assert_eq!(kew.user.owner().uid, 4321);
    let base = kew.base();
    assert_eq!(kew.user.uncommitted_count().unwrap(), 1);
    kew.user.create_ref(&refs::base(&key("n", 1).run), &base).unwrap();

    let work = kew.checkout(&base, "work");
    let done = commit(&work, "done", "by the agent\n");
    let collected = kew.collect(&work, &base).unwrap();
    assert_eq!(collected.head, Some(done.clone()));
    kew.land(&base, &done, &refs::node(&key("n", 1)));
    for (path, (_, _, uid, _)) in inventory(&user) {
        assert_eq!(uid, 4321, "{path}");
    }
    assert_eq!(rev(&user, refs::node(&key("n", 1)).as_str()), done);
    assert!(!trace.exists());
}
