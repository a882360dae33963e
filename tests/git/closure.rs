//! Packs that the mirror keeps for the next checkout: that they are used, and that a checkout still holds exactly what
//! its input reaches.

use std::{collections::BTreeSet, fs};

use camino::{Utf8Path, Utf8PathBuf};
use kew::name::CommitId;

use crate::{
    base::inventory,
    support::{Kew, World, command, commit, git, head},
};

/// Bytes that do not compress: enough to be worth keeping.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn commit_noise(world: &World, path: &str, seed: u64, len: usize) -> CommitId {
    fs::write(world.user().join(path), noise(seed, len)).unwrap();
    git(&world.user(), &["add", path]);
    git(&world.user(), &["commit", "-qm", path]);
    head(&world.user())
}

fn kept(kew: &Kew) -> Vec<String> {
    let Ok(entries) = fs::read_dir(kew.mirror.path().join("closures")) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A checkout that holds what `input` reaches and no more; where it is.
fn exact(world: &World, kew: &Kew, input: &CommitId, name: &str) -> Utf8PathBuf {
    kew.mirror.ensure(&kew.user, input).unwrap();
    let work = kew.checkout(input, name);
    let lines = |dir: &Utf8Path, args: &[&str]| -> BTreeSet<String> {
        git(dir, args).lines().map(str::to_owned).collect()
    };
    let reached = lines(&world.user(), &["rev-list", "--objects", "--no-object-names", input.as_str()]);
    let held = lines(&work, &["cat-file", "--batch-all-objects", "--batch-check=%(objectname)"]);
    assert_eq!(held, reached);
    git(&work, &["fsck", "--full", "--strict"]);
    assert_eq!(git(&work, &["status", "--porcelain"]), "");
    let inodes = |dir: &Utf8Path| inventory(dir).values().map(|facts| facts.0).collect::<BTreeSet<u64>>();
    assert!(inodes(&work).is_disjoint(&inodes(kew.mirror.path())), "an inode is shared");
    work
}

fn packs(work: &Utf8Path) -> usize {
    let entries = fs::read_dir(work.join(".git/objects/pack")).unwrap();
    entries
        .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "pack"))
        .count()
}

/// A history of enough objects that git keeps what it fetches as a pack.
fn large() -> World {
    let world = World::new();
    for at in 0..120 {
        fs::write(world.user().join(format!("f{at}")), format!("{at}\n")).unwrap();
    }
    git(&world.user(), &["add", "."]);
    git(&world.user(), &["commit", "-qm", "many"]);
    commit_noise(&world, "big", 7, 5 << 18);
    world
}

#[test]
fn the_first_fetch_is_kept_and_copied_by_every_checkout_of_it() {
    let world = large();
    let kew = world.open();
    let base = kew.base();
    assert_eq!(kept(&kew), [base.to_string()]);
    for name in ["one", "two"] {
        assert_eq!(packs(&exact(&world, &kew, &base, name)), 1);
    }
    assert_eq!(kept(&kew), [base.to_string()]);
}

#[test]
fn a_descendant_gets_its_own_news_and_no_one_elses() {
    let world = large();
    let kew = world.open();
    let base = kew.base();
    git(&world.user(), &["checkout", "-q", "-b", "private"]);
    let private = commit(&world.user(), "secret", "s");
    git(&world.user(), &["checkout", "-q", "main"]);
    let next = commit(&world.user(), "f3", "changed\n");
    kew.mirror.ensure(&kew.user, &private).unwrap();
    let work = exact(&world, &kew, &next, "next");
    assert_eq!(packs(&work), 2, "the ancestor's pack was copied");
    assert!(!command(&work).args(["cat-file", "-e", private.as_str()]).status().unwrap().success());
    assert_eq!(kept(&kew), [base.to_string()]);
}

#[test]
fn an_ancestor_gets_nothing_newer() {
    let world = large();
    let kew = world.open();
    let base = kew.base();
    let before = CommitId::new(git(&world.user(), &["rev-parse", "HEAD~1"])).unwrap();
    let work = exact(&world, &kew, &before, "before");
    assert!(!work.join("big").exists());
    assert_eq!(kept(&kew), [base.to_string()]);
}

#[test]
fn what_has_grown_too_much_is_written_anew() {
    let world = large();
    let kew = world.open();
    kew.base();
    let next = commit_noise(&world, "other", 9, 1 << 19);
    assert_eq!(packs(&exact(&world, &kew, &next, "one")), 2);
    assert!(kept(&kew).is_empty());
    assert_eq!(packs(&exact(&world, &kew, &next, "two")), 1);
    assert_eq!(kept(&kew), [next.to_string()]);
    assert_eq!(packs(&exact(&world, &kew, &next, "three")), 1);
}

#[test]
fn a_damaged_one_is_replaced() {
    let world = large();
    let kew = world.open();
    let base = kew.base();
    let folder = kew.mirror.path().join("closures").join(base.as_str());
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end == "idx") {
            fs::remove_file(path).unwrap();
        }
    }
    exact(&world, &kew, &base, "one");
    assert_eq!(kept(&kew), [base.to_string()]);
    assert_eq!(
        fs::read_dir(&folder)
            .unwrap()
            .filter(|entry| { entry.as_ref().unwrap().path().extension().is_some_and(|end| end == "idx") })
            .count(),
        1
    );
}

#[test]
fn little_repositories_and_shallow_ones_keep_none() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    exact(&world, &kew, &base, "work");
    assert!(kept(&kew).is_empty());

    let world = large();
    git(&world.root, &["clone", "-q", "--depth=1", &format!("file://{}", world.user()), "shallow"]);
    let kew = world.open_at(&world.root.join("shallow"));
    let base = kew.base();
    kew.checkout(&base, "work");
    assert!(kept(&kew).is_empty());
}

#[test]
fn bases_in_use_do_not_displace_each_other() {
    let world = large();
    let kew = world.open();
    let mut bases = vec![kew.base()];
    // Histories of their own: none is an ancestor of another.
    for seed in [21, 22] {
        git(&world.user(), &["checkout", "-q", "--orphan", &format!("other{seed}")]);
        bases.push(commit_noise(&world, &format!("noise{seed}"), seed, 5 << 18));
    }
    for (at, base) in bases.iter().enumerate() {
        exact(&world, &kew, base, &format!("work{at}"));
    }
    let mut first: Vec<String> = bases[..2].iter().map(ToString::to_string).collect();
    first.sort();
    assert_eq!(kept(&kew), first);
    // Long unused: the next that is worth it takes its place.
    let oldest = kew.mirror.path().join("closures").join(bases[0].as_str());
    let past = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    fs::File::open(&oldest).unwrap().set_modified(past).unwrap();
    exact(&world, &kew, &bases[2], "again");
    assert!(kept(&kew).contains(&bases[2].to_string()) && !oldest.exists());
}

#[test]
fn many_threads_may_take_from_it_while_it_changes() {
    let world = large();
    let kew = world.open();
    let base = kew.base();
    let next = commit_noise(&world, "other", 9, 1 << 19);
    kew.mirror.ensure(&kew.user, &next).unwrap();
    std::thread::scope(|scope| {
        for at in 0..6 {
            let (kew, input) = (&kew, if at % 2 == 0 { &next } else { &base });
            scope.spawn(move || {
                let work = kew.checkout(input, &format!("thread{at}"));
                git(&work, &["fsck", "--full", "--strict"]);
            });
        }
    });
}
