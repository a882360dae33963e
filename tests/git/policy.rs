//! Sound commits that a person must look at all the same: what they do, in any commit of the range, and that they are kept.

use std::os::unix::fs::symlink;

use kew::{
    git::{
        collect::{CollectFault, CollectLimits, Held},
        land::land_held,
        policy::{PROTECTED, Policy, Rule},
        refs,
    },
    name::CommitId,
};

use crate::{
    hostile::{answer, feed, forge, pack_of},
    support::{Kew, World, command, commit, git, head, key, rev, write},
};

struct Case {
    _world: World,
    kew: Kew,
    base: CommitId,
    work: camino::Utf8PathBuf,
}

fn start(world: World) -> Case {
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    Case { _world: world, kew, base, work }
}

impl Case {
    /// The reason and the sentence of a hold whose commits are kept.
    #[track_caller]
    fn held(&self) -> (Held, String) {
        match self.kew.collect(&self.work, &self.base) {
            Err(CollectFault::Held { reason, sentence, keep: Some(keep) }) => {
                assert_eq!(keep, head(&self.work));
                (reason, sentence)
            }
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn passes(&self) {
        assert_eq!(self.kew.collect(&self.work, &self.base).unwrap().head, Some(head(&self.work)));
    }

    #[track_caller]
    fn passes_under(&self, policy: Policy) {
        let limits = CollectLimits { policy: Some(policy), ..CollectLimits::default() };
        let collected = self.kew.collect_within(&self.work, &self.base, &limits).unwrap();
        assert_eq!(collected.head, Some(head(&self.work)));
    }

    fn link(&self, path: &str, target: &str) {
        symlink(target, self.work.join(path)).unwrap();
        git(&self.work, &["add", "-A"]);
        git(&self.work, &["commit", "-q", "-m", "link"]);
    }
}

#[test]
fn a_workflow_in_any_commit_is_held_and_named() {
    let case = start(World::new());
    commit(&case.work, "fine", "f");
    case.passes();
    commit(&case.work, ".github/workflows/ci.yml", "on: push\n");
    let (reason, sentence) = case.held();
    assert_eq!(reason, Held::ProtectedPath);
    assert_eq!(sentence, "the commits change `.github/workflows/ci.yml`, which only a person may change");
    // Taken back in the next commit, it is in the history all the same.
    git(&case.work, &["rm", "-q", "-r", ".github"]);
    git(&case.work, &["commit", "-q", "-m", "gone"]);
    assert_eq!(case.held().0, Held::ProtectedPath);
    let none: [&str; 0] = [];
    case.passes_under(Policy::new(&none, Rule::Hold, Rule::Hold).unwrap());
}

#[test]
fn changed_moved_and_removed_workflows_are_held() {
    for (what, args) in [
        ("removed", &["rm", "-q", ".github/workflows/ci.yml"][..]),
        ("moved", &["mv", ".github/workflows/ci.yml", "ci.yml"]),
        ("mode", &["update-index", "--chmod=+x", ".github/workflows/ci.yml"]),
    ] {
        let world = World::new();
        commit(&world.user(), ".github/workflows/ci.yml", "on: push\n");
        let case = start(world);
        commit(&case.work, "fine", "f");
        case.passes();
        git(&case.work, args);
        git(&case.work, &["commit", "-q", "-m", what]);
        let (reason, sentence) = case.held();
        assert_eq!(reason, Held::ProtectedPath, "{what}");
        assert!(sentence.contains("`.github/workflows/ci.yml`"), "{sentence}");
    }
}

#[test]
fn what_a_merge_takes_from_the_input_is_no_change_of_the_agents() {
    let world = World::new();
    commit(&world.user(), ".github/workflows/ci.yml", "on: push\n");
    let case = start(world);
    // A topic from before the workflow came; the merge has it as the input does.
    git(&case.work, &["checkout", "-q", "-b", "topic", "HEAD~1"]);
    commit(&case.work, "topic", "t");
    git(&case.work, &["checkout", "-q", "kew/e/n"]);
    commit(&case.work, "main", "m");
    git(&case.work, &["merge", "-q", "--no-edit", "topic"]);
    case.passes();
    // The same merge in favour of the state before is one.
    git(&case.work, &["reset", "-q", "--hard", "HEAD~1"]);
    git(&case.work, &["merge", "-q", "--no-commit", "topic"]);
    git(&case.work, &["rm", "-q", "-r", "-f", ".github"]);
    git(&case.work, &["commit", "-q", "-m", "evil merge"]);
    assert_eq!(case.held().0, Held::ProtectedPath);
}

#[test]
fn submodules_are_held_unless_allowed() {
    let case = start(World::new());
    let id = rev(&case.work, "HEAD");
    git(&case.work, &["update-index", "--add", "--cacheinfo", &format!("160000,{id},vendor/sub")]);
    git(&case.work, &["commit", "-q", "-m", "a link without a file"]);
    let (reason, sentence) = case.held();
    assert_eq!((reason, &*sentence), (Held::Submodule, "the commits change the submodules of `vendor/sub`"));
    git(&case.work, &["reset", "-q", "--hard", "HEAD~1"]);
    commit(&case.work, ".gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = https://example.org/s\n");
    assert_eq!(case.held().0, Held::Submodule);
    case.passes_under(Policy::new(PROTECTED, Rule::Allow, Rule::Hold).unwrap());
}

#[test]
fn links_are_held_by_where_they_lead() {
    let case = start(World::new());
    case.link("inside", "src/lib.rs");
    case.link("src/up", "../README");
    case.passes();
    case.link("src/out", "../../secret");
    let (reason, sentence) = case.held();
    assert_eq!(reason, Held::Symlink);
    assert!(sentence.contains("out of the tree: `src/out -> ../../secret`"), "{sentence}");
    case.passes_under(Policy::new(PROTECTED, Rule::Hold, Rule::Allow).unwrap());
    git(&case.work, &["reset", "-q", "--hard", "HEAD~1"]);
    // A blob of the input as the target: no new object at all.
    let blob = rev(&case.work, "HEAD:README");
    git(&case.work, &["update-index", "--add", "--cacheinfo", &format!("120000,{blob},same")]);
    git(&case.work, &["commit", "-q", "-m", "same text"]);
    case.passes();
    case.link("hooks", ".git/hooks");
    assert_eq!(case.held().0, Held::GitName);
}

#[test]
fn a_link_that_the_input_has_stays() {
    let world = World::new();
    symlink("/etc/hostname", world.user().join("host")).unwrap();
    git(&world.user(), &["add", "host"]);
    git(&world.user(), &["commit", "-q", "-m", "the user's own"]);
    let case = start(world);
    commit(&case.work, "fine", "f");
    git(&case.work, &["rm", "-q", "host"]);
    git(&case.work, &["commit", "-q", "-m", "gone"]);
    git(&case.work, &["revert", "--no-edit", "HEAD"]);
    case.passes();
    std::fs::remove_file(case.work.join("host")).unwrap();
    case.link("host", "/etc/shadow");
    assert_eq!(case.held().0, Held::Symlink);
}

#[test]
fn all_reasons_are_told_at_once() {
    let case = start(World::new());
    case.link("out", "/etc/passwd");
    commit(&case.work, ".github/workflows/ci.yml", "on: push\n");
    commit(&case.work, "a/.kew-x", "");
    let limits = CollectLimits { object_bytes: 1000, commits: 3, ..CollectLimits::default() };
    commit(&case.work, "big", &"x".repeat(2000));
    match case.kew.collect_within(&case.work, &case.base, &limits) {
        Err(CollectFault::Held { reason: Held::Policy, sentence, keep: Some(_) }) => {
            for words in [
                "`.github/workflows/ci.yml`",
                "`out -> /etc/passwd`",
                "`a/.kew-x`",
                "`big`",
                "4 commits, at most 3",
            ] {
                assert!(sentence.contains(words), "{words}: {sentence}");
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn names_of_git_are_refused_whatever_they_look_like() {
    let case = start(World::new());
    let blob = rev(&case.work, "HEAD:README");
    let raw = |name: &str, mode: &str, target: &CommitId| {
        let mut tree = format!("{mode} {name}\0").into_bytes();
        let hex = target.as_str().as_bytes().chunks(2);
        tree.extend(hex.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()));
        let id = feed(&case.work, &["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], &tree);
        CommitId::new(String::from_utf8(id).unwrap().trim()).unwrap()
    };
    let config = raw("config", "100644", &blob);
    for name in [
        ".git",
        ".GIT",
        "git~1",
        "GIT~1",
        ".git ",
        ".git...",
        ".git::$INDEX_ALLOCATION",
        ".g\u{200c}it",
        "x\\.git",
        "git~2",
    ] {
        let evil = forge(&case.work, &raw(name, "40000", &config), &[&case.base]);
        git(&case.work, &["update-ref", "HEAD", evil.as_str()]);
        match case.kew.collect(&case.work, &case.base) {
            // Git's own check, or the rule that is wider.
            Err(CollectFault::Held { reason: Held::Broken, keep: None, .. }) => {}
            Err(CollectFault::Held { reason: Held::GitName, sentence, keep: Some(_) }) => {
                assert!(sentence.contains("git's own folder"), "{sentence}");
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_tree_of_millions_of_paths_in_the_middle_is_held() {
    let case = start(World::new());
    let blob = rev(&case.work, "HEAD:README");
    let mut line = format!("100644 blob {blob}");
    let mut tree = case.base.clone();
    for _ in 0..9 {
        let list: String = (0..10).map(|at| format!("{line}\tn{at}\n")).collect();
        let id = feed(&case.work, &["mktree"], list.as_bytes());
        tree = CommitId::new(String::from_utf8(id).unwrap().trim()).unwrap();
        line = format!("040000 tree {tree}");
    }
    let bomb = forge(&case.work, &tree, &[&case.base]);
    let good = forge(&case.work, &rev(&case.work, &format!("{}^{{tree}}", case.base)), &[&bomb]);
    let range = ["rev-list", "--objects", "--no-object-names", good.as_str(), "--not", case.base.as_str()];
    let ids: Vec<CommitId> = git(&case.work, &range).lines().map(|id| CommitId::new(id).unwrap()).collect();
    let path = answer(&case.kew, &good, &pack_of(&case.work, &ids.iter().collect::<Vec<_>>()));
    let limits = CollectLimits { paths: 1000, ..CollectLimits::default() };
    match case.kew.accept(&path, &case.base, &limits) {
        Err(CollectFault::Held { reason: Held::TooMuch, keep: None, sentence }) => {
            assert_eq!(sentence, "the commits name more paths than can be listed");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_held_can_be_looked_at_and_is_no_input() {
    let case = start(World::new());
    commit(&case.work, ".github/workflows/ci.yml", "on: push\n");
    let kept = head(&case.work);
    case.held();
    let (kew, name) = (&case.kew, refs::held(&key("n", 2)));
    land_held(&kew.user, &kew.mirror, &kew.quarantine(), &case.base, &kept, &name).unwrap();
    let user = case._world.user();
    assert_eq!(rev(&user, name.as_str()), kept);
    assert_eq!(
        git(&user, &["diff", "--name-only", &format!("{}..{name}", case.base)]),
        ".github/workflows/ci.yml"
    );
    git(&user, &["fsck", "--strict"]);
    assert!(!kew.mirror.has(&kept).unwrap());
    let known = command(kew.mirror.path()).args(["cat-file", "-e", kept.as_str()]).status().unwrap();
    assert!(!known.success(), "the mirror has it");
}

#[test]
fn rewritten_and_parted_work_is_kept_too() {
    let case = start(World::new());
    commit(&case.work, "on-branch", "");
    git(&case.work, &["checkout", "-q", "--detach", case.base.as_str()]);
    commit(&case.work, "on-head", "");
    assert_eq!(case.held().0, Held::MovedApart);
    git(&case.work, &["checkout", "-q", "kew/e/n"]);
    write(&case.work, "README", "amended\n");
    git(&case.work, &["reset", "-q", "--soft", case.base.as_str()]);
    git(&case.work, &["commit", "-q", "--amend", "-a", "-m", "amended"]);
    assert_eq!(case.held().0, Held::HistoryRewritten);
}

#[test]
fn what_nothing_starts_from_is_taken_as_it_is() {
    let case = start(World::new());
    commit(&case.work, ".github/workflows/ci.yml", "on: push\n");
    commit(&case.work, "big", &"x".repeat(2000));
    case.held();
    let limits = CollectLimits { policy: None, ..CollectLimits::default() };
    let collected = case.kew.collect_within(&case.work, &case.base, &limits).unwrap();
    assert_eq!(collected.head, Some(head(&case.work)));
    for limits in
        [CollectLimits { object_bytes: 1000, ..limits.clone() }, CollectLimits { commits: 1, ..limits }]
    {
        let fault = case.kew.collect_within(&case.work, &case.base, &limits).unwrap_err();
        assert!(matches!(fault, CollectFault::Held { reason: Held::TooMuch, keep: None, .. }), "{fault}");
    }
}
