//! What is packed of an agent's repository: its commits wherever HEAD is, and whatever is left uncommitted.

use kew::git::collect::{CollectFault, CollectLimits, Collected, Held};

use crate::support::{Kew, World, commit, git, head, rev, write};

pub fn held(result: Result<Collected, CollectFault>) -> Held {
    match result {
        Err(CollectFault::Held { reason, .. }) => reason,
        other => panic!("{other:?}"),
    }
}

fn start(world: &World) -> (Kew, kew::name::CommitId, camino::Utf8PathBuf) {
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    (kew, base, work)
}

#[test]
fn commits_on_the_branch() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    commit(&work, "a", "a");
    let done = commit(&work, "b/c", "b");
    let expected = Collected { head: Some(done), commits: 2, dirty: Some(0), dirty_paths: vec![] };
    assert_eq!(kew.collect(&work, &base).unwrap(), expected);
}

#[test]
fn commits_on_a_new_branch_or_on_none_are_found_too() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    git(&work, &["checkout", "-q", "-b", "my-own"]);
    let done = commit(&work, "a", "a");
    assert_eq!(kew.collect(&work, &base).unwrap().head, Some(done));
    git(&work, &["checkout", "-q", "--detach"]);
    let done = commit(&work, "b", "b");
    let collected = kew.collect(&work, &base).unwrap();
    assert_eq!((collected.head, collected.commits), (Some(done), 2));
}

#[test]
fn packed_refs_and_repacked_objects_make_no_difference() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let done = commit(&work, "a", "a");
    git(&work, &["pack-refs", "--all"]);
    git(&work, &["-c", "repack.writeBitmaps=true", "repack", "-adbq"]);
    git(&work, &["commit-graph", "write", "--reachable"]);
    git(&work, &["multi-pack-index", "write", "--bitmap"]);
    assert_eq!(kew.collect(&work, &base).unwrap().head, Some(done));
}

#[test]
fn what_was_there_once_may_come_back() {
    let world = World::new();
    let user = world.user();
    let old = "x".repeat(5000);
    commit(&user, "old/file", &old);
    commit(&user, "old/file", "replaced");
    let (kew, base, work) = start(&world);
    // The very blob and tree of an ancestor of the input.
    git(&work, &["revert", "--no-edit", "HEAD"]);
    commit(&work, "copy", &old);
    git(&work, &["mv", "README", "moved"]);
    git(&work, &["commit", "-q", "-m", "move"]);
    git(&work, &["-c", "repack.writeBitmaps=true", "repack", "-adbq"]);
    assert_eq!(kew.collect(&work, &base).unwrap().head, Some(head(&work)));
}

#[test]
fn merges_of_the_agent_are_taken() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    git(&work, &["checkout", "-q", "-b", "topic", "HEAD~1"]);
    commit(&work, "topic", "t");
    git(&work, &["checkout", "-q", "kew/e/n"]);
    commit(&work, "main", "m");
    git(&work, &["merge", "-q", "--no-edit", "topic"]);
    let collected = kew.collect(&work, &base).unwrap();
    assert_eq!((collected.head, collected.commits), (Some(head(&work)), 3));
}

#[test]
fn nothing_done_is_no_head() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let expected = Collected { head: None, commits: 0, dirty: Some(0), dirty_paths: vec![] };
    assert_eq!(kew.collect(&work, &base).unwrap(), expected);
}

#[test]
fn uncommitted_work_is_counted_and_named() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    write(&work, "README", "edited\n");
    write(&work, "new é\n", "");
    write(&work, "deep/er", "");
    std::fs::remove_file(work.join("src/lib.rs")).unwrap();
    let collected = kew.collect(&work, &base).unwrap();
    assert_eq!((collected.head, collected.dirty), (None, Some(4)));
    assert_eq!(collected.dirty_paths, ["README", "src/lib.rs", "deep/", "\"new \\303\\251\\n\""]);
    for at in 0..30 {
        write(&work, &format!("file{at}"), "");
    }
    let collected = kew.collect(&work, &base).unwrap();
    assert_eq!((collected.dirty, collected.dirty_paths.len()), (Some(34), 20));
}

#[test]
fn rewritten_history_is_held() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    write(&work, "README", "amended\n");
    git(&work, &["commit", "-q", "--amend", "-a", "-m", "amended"]);
    assert_eq!(held(kew.collect(&work, &base)), Held::HistoryRewritten);
    git(&work, &["reset", "-q", "--hard", &format!("{base}~1")]);
    assert_eq!(held(kew.collect(&work, &base)), Held::HistoryRewritten);
    git(&work, &["checkout", "-q", "--orphan", "fresh"]);
    git(&work, &["commit", "-q", "-m", "orphan"]);
    assert_eq!(held(kew.collect(&work, &base)), Held::HistoryRewritten);
}

#[test]
fn a_branch_that_holds_what_head_lacks_is_held() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    commit(&work, "on-branch", "");
    git(&work, &["checkout", "-q", "--detach", base.as_str()]);
    assert_eq!(held(kew.collect(&work, &base)), Held::MovedApart);
    commit(&work, "on-head", "");
    assert_eq!(held(kew.collect(&work, &base)), Held::MovedApart);
    // Once HEAD contains it, HEAD counts.
    git(&work, &["merge", "-q", "--no-edit", "kew/e/n"]);
    assert_eq!(kew.collect(&work, &base).unwrap().head, Some(head(&work)));
    git(&work, &["branch", "-q", "-D", "kew/e/n"]);
    assert_eq!(kew.collect(&work, &base).unwrap().commits, 3);
    git(&work, &["branch", "kew/e/n", &format!("{base}~1")]);
    assert_eq!(kew.collect(&work, &base).unwrap().commits, 3);
}

#[test]
fn limits_hold() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    commit(&work, "a", "a");
    commit(&work, "b", "b");
    let noise: String =
        (0..20_000_u64).map(|at| format!("{:x}", at.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let done = commit(&work, "noise", &noise);
    let limits = CollectLimits::default;
    let within = |limits: CollectLimits| kew.collect_within(&work, &base, &limits);
    assert_eq!(held(within(CollectLimits { commits: 2, ..limits() })), Held::TooMuch);
    assert_eq!(held(within(CollectLimits { object_bytes: 1000, ..limits() })), Held::TooMuch);
    assert_eq!(held(within(CollectLimits { objects: 8, ..limits() })), Held::TooMuch);
    assert_eq!(held(within(CollectLimits { pack_bytes: 2000, ..limits() })), Held::TooMuch);
    assert_eq!(held(within(CollectLimits { paths: 4, ..limits() })), Held::TooMuch);
    let enough = CollectLimits {
        commits: 3,
        object_bytes: 400_000,
        objects: 9,
        pack_bytes: 400_000,
        paths: 5,
        ..limits()
    };
    assert_eq!(within(enough).unwrap().head, Some(done));
}

#[test]
fn reserved_names_in_any_commit_are_held() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    commit(&work, ".kew-prompt.txt", "added by force");
    assert_eq!(held(kew.collect(&work, &base)), Held::ReservedName);
    git(&work, &["rm", "-q", "-f", ".kew-prompt.txt"]);
    git(&work, &["commit", "-q", "-m", "gone again"]);
    assert_eq!(held(kew.collect(&work, &base)), Held::ReservedName);
    // A copy of a blob of the input is no new object.
    git(&work, &["reset", "-q", "--hard", base.as_str()]);
    commit(&work, "dir/.KEW-Review-Verdict.json", "one\n");
    assert_eq!(rev(&work, "HEAD:README"), rev(&work, "HEAD:dir/.KEW-Review-Verdict.json"));
    assert_eq!(held(kew.collect(&work, &base)), Held::ReservedName);
}
