//! The merge of several results: deterministic, in plan order, and held on a conflict.

use kew::{
    git::{
        land::land_merge,
        merge::{MergeError, merge_inputs},
        refs,
    },
    name::{CommitId, NodeId},
};

use crate::support::{Kew, World, commit, git, head, key, node, rev};

/// A branch `name` from `start` with one commit.
fn side(world: &World, name: &str, start: &str, path: &str, text: &str) -> CommitId {
    git(&world.user(), &["checkout", "-q", "-b", name, start]);
    commit(&world.user(), path, text)
}

fn inputs(kew: &Kew, list: &[(&str, &CommitId)]) -> Vec<(NodeId, CommitId)> {
    for (_, id) in list {
        kew.mirror.ensure(&kew.user, id).unwrap();
    }
    list.iter().map(|(name, id)| (node(name), (*id).clone())).collect()
}

#[test]
fn three_results_give_one_deterministic_commit() {
    let world = World::new();
    let a = side(&world, "a", "main", "a", "a");
    let b = side(&world, "b", "main", "b", "b");
    let c = side(&world, "c", "main", "c", "c");
    let kew = world.open();
    let list = inputs(&kew, &[("a", &a), ("b", &b), ("c", &c)]);
    let merged = merge_inputs(&kew.mirror, &list).unwrap();
    let mirror = kew.mirror.path();
    assert_eq!(git(mirror, &["ls-tree", "--name-only", merged.as_str()]), "README\na\nb\nc\nsrc");
    let newest = ["a", "b", "c"].map(|name| git(&world.user(), &["log", "-1", "--format=%ct", name, "--"]));
    let facts = git(mirror, &["log", "-1", "--format=%an <%ae> %at %ai|%cn <%ce> %ct|%B", merged.as_str()]);
    let newest = newest.iter().max().unwrap();
    assert!(facts.starts_with(&format!("kew <kew@kew.local> {newest} ")), "{facts}");
    assert!(
        facts.contains("+0000|kew <kew@kew.local> ") && facts.ends_with("|kew: merge a, b, c"),
        "{facts}"
    );

    // Another mirror, later, elsewhere.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    let other = World::new();
    git(&other.root, &["clone", "-q", "--mirror", world.user().as_str(), "copy.git"]);
    let kew = other.open_at(&other.root.join("copy.git"));
    let list = inputs(&kew, &[("a", &a), ("b", &b), ("c", &c)]);
    assert_eq!(merge_inputs(&kew.mirror, &list).unwrap(), merged);
}

#[test]
fn contained_and_equal_results_add_nothing() {
    let world = World::new();
    let base = head(&world.user());
    let a = side(&world, "a", "main", "a", "a");
    let a2 = commit(&world.user(), "a", "more");
    let kew = world.open();
    let list = inputs(&kew, &[("base", &base), ("a", &a), ("b", &a2), ("c", &a2)]);
    assert_eq!(merge_inputs(&kew.mirror, &list).unwrap(), a2);
    assert_eq!(merge_inputs(&kew.mirror, &list[..1]).unwrap(), base);
    assert!(matches!(merge_inputs(&kew.mirror, &[]), Err(MergeError::Nothing)));
}

#[test]
fn order_is_the_plans() {
    let world = World::new();
    let a = side(&world, "a", "main", "a", "a");
    let b = side(&world, "b", "main", "b", "b");
    let kew = world.open();
    let parents = |list: &[(&str, &CommitId)]| {
        let merged = merge_inputs(&kew.mirror, &inputs(&kew, list)).unwrap();
        git(kew.mirror.path(), &["log", "-1", "--format=%P", merged.as_str()])
    };
    assert_eq!(parents(&[("a", &a), ("b", &b)]), format!("{a} {b}"));
    assert_eq!(parents(&[("b", &b), ("a", &a)]), format!("{b} {a}"));
}

#[test]
fn a_criss_cross_merges() {
    let world = World::new();
    let user = world.user();
    let lines = |first: &str, last: &str| format!("{first}\n2\n3\n4\n5\n6\n7\n{last}\n");
    commit(&user, "file", &lines("1", "8"));
    let a = side(&world, "a", "main", "file", &lines("A", "8"));
    let b = side(&world, "b", "main", "file", &lines("1", "B"));
    git(&user, &["checkout", "-q", "a"]);
    git(&user, &["merge", "-q", "--no-edit", b.as_str()]);
    let first = a;
    let a = commit(&user, "only-a", "");
    git(&user, &["checkout", "-q", "b"]);
    git(&user, &["merge", "-q", "--no-edit", first.as_str()]);
    let b = commit(&user, "only-b", "");
    assert_eq!(git(&user, &["merge-base", "--all", "a", "b"]).lines().count(), 2);
    let kew = world.open();
    let merged = merge_inputs(&kew.mirror, &inputs(&kew, &[("a", &a), ("b", &b)])).unwrap();
    assert_eq!(git(kew.mirror.path(), &["show", &format!("{merged}:file")]), lines("A", "B").trim());
}

#[test]
fn a_conflict_lists_the_files_and_whose_they_are() {
    let world = World::new();
    let a = side(&world, "a", "main", "apart", "a");
    side(&world, "b", "main", "README", "b\n");
    side(&world, "c", "main", "README", "c\n");
    let c = commit(&world.user(), "dir/with space é", "c");
    git(&world.user(), &["checkout", "-q", "b"]);
    let b = commit(&world.user(), "dir/with space é", "b");
    let kew = world.open();
    let list = inputs(&kew, &[("a", &a), ("b", &b), ("c", &c)]);
    match merge_inputs(&kew.mirror, &list).unwrap_err() {
        error @ MergeError::Conflict { .. } => {
            assert_eq!(error.to_string(), "`c` conflicts with `a`, `b` in `README`, `dir/with space é`");
        }
        error => panic!("{error}"),
    }
}

#[test]
fn nothing_of_the_repository_runs_in_a_merge() {
    let world = World::new();
    let trace = world.root.join("ran");
    let user = world.user();
    commit(&user, ".gitattributes", "* merge=evil\n");
    git(&user, &["config", "merge.evil.driver", &format!("touch {trace}")]);
    git(&user, &["branch", "-f", "start"]);
    let a = side(&world, "a", "start", "README", "a\n");
    let b = side(&world, "b", "start", "README", "b\n");
    let kew = world.open();
    let error = merge_inputs(&kew.mirror, &inputs(&kew, &[("a", &a), ("b", &b)])).unwrap_err();
    assert!(matches!(error, MergeError::Conflict { .. }));
    assert!(!trace.exists());
}

#[test]
fn a_merge_comes_home_with_all_its_steps() {
    let world = World::new();
    let a = side(&world, "a", "main", "a", "a");
    let b = side(&world, "b", "main", "b", "b");
    let c = side(&world, "c", "main", "c", "c");
    let kew = world.open();
    let merged = merge_inputs(&kew.mirror, &inputs(&kew, &[("a", &a), ("b", &b), ("c", &c)])).unwrap();
    let name = refs::input(&key("n", 1));
    for _ in 0..2 {
        land_merge(&kew.user, &kew.mirror, &merged, &[a.clone(), b.clone(), c.clone()], &name).unwrap();
    }
    assert_eq!(rev(&world.user(), name.as_str()), merged);
    assert_eq!(git(&world.user(), &["rev-list", "--merges", "--count", name.as_str()]), "2");
    git(&world.user(), &["fsck", "--strict", "--full"]);
}

#[test]
fn what_a_merge_contains_adds_nothing_to_it() {
    let world = World::new();
    let a = side(&world, "a", "main", "a", "a");
    let b = side(&world, "b", "main", "b", "b");
    git(&world.user(), &["merge", "-q", "--no-edit", "a"]);
    let both = head(&world.user());
    let c = side(&world, "c", "main", "c", "c");
    let kew = world.open();
    let list = inputs(&kew, &[("a", &a), ("both", &both), ("b", &b)]);
    assert_eq!(merge_inputs(&kew.mirror, &list).unwrap(), both);
    let list = inputs(&kew, &[("a", &a), ("c", &c), ("both", &both), ("b", &b)]);
    let merged = merge_inputs(&kew.mirror, &list).unwrap();
    let facts = git(kew.mirror.path(), &["log", "-1", "--format=%P|%s", merged.as_str()]);
    assert_eq!(facts, format!("{c} {both}|kew: merge c, both"));
}

#[test]
fn results_without_a_change_merge_too() {
    let world = World::new();
    let user = world.user();
    let base = head(&user);
    let empty = |name: &str| {
        git(&user, &["checkout", "-q", "-b", name, "main"]);
        git(&user, &["commit", "-q", "--allow-empty", "-m", name]);
        head(&user)
    };
    let (one, two) = (empty("one"), empty("two"));
    let a = side(&world, "a", "main", "a", "a");
    let kew = world.open();
    // A node that committed nothing gives its input.
    assert_eq!(merge_inputs(&kew.mirror, &inputs(&kew, &[("none", &base), ("a", &a)])).unwrap(), a);
    let merged =
        merge_inputs(&kew.mirror, &inputs(&kew, &[("one", &one), ("two", &two), ("a", &a)])).unwrap();
    let tree = |commit: &CommitId| git(kew.mirror.path(), &["rev-parse", &format!("{commit}^{{tree}}")]);
    assert_eq!(tree(&merged), tree(&a));
    for commit in [&one, &two, &a] {
        git(kew.mirror.path(), &["merge-base", "--is-ancestor", commit.as_str(), merged.as_str()]);
    }
}

#[test]
fn a_criss_cross_has_one_id_on_every_machine_and_in_every_format() {
    for format in ["sha1", "sha256"] {
        let world = World::with_format(format);
        let user = world.user();
        let a = side(&world, "a", "main", "a", "a");
        let b = side(&world, "b", "main", "b", "b");
        for (at, with) in [("a", &b), ("b", &a)] {
            git(&user, &["checkout", "-q", at]);
            git(&user, &["merge", "-q", "--no-edit", with.as_str()]);
            commit(&user, &format!("{at}-more"), at);
        }
        let (a, b) = (rev(&user, "a"), rev(&user, "b"));
        assert_eq!(git(&user, &["merge-base", "--all", "a", "b"]).lines().count(), 2);
        let kew = world.open();
        let first = merge_inputs(&kew.mirror, &inputs(&kew, &[("a", &a), ("b", &b)])).unwrap();
        let other = World::new();
        git(&other.root, &["clone", "-q", "--mirror", user.as_str(), "copy.git"]);
        let kew = other.open_at(&other.root.join("copy.git"));
        let second = merge_inputs(&kew.mirror, &inputs(&kew, &[("a", &a), ("b", &b)])).unwrap();
        assert_eq!(first, second, "{format}");
        let again = merge_inputs(&kew.mirror, &inputs(&kew, &[("a", &a), ("b", &b)])).unwrap();
        assert_eq!(again, second);
    }
}
