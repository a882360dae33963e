//! The plants of a hostile agent. None may run on the host, leak an object, hang or be accepted.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use camino::{Utf8Path, Utf8PathBuf};
use kew::{
    git::collect::{CollectFault, CollectLimits, Held, script_fault},
    name::CommitId,
};

use crate::{
    collect::held,
    support::{Kew, World, branch, command, commit, git, head, rev, write},
};

fn start(world: &World) -> (Kew, CommitId, Utf8PathBuf) {
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    (kew, base, work)
}

/// Runs git with bytes on stdin and returns its stdout.
pub fn feed(dir: &Utf8Path, args: &[&str], input: &[u8]) -> Vec<u8> {
    let mut child = command(dir).args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "git {args:?}");
    output.stdout
}

fn id(bytes: Vec<u8>) -> CommitId {
    CommitId::new(String::from_utf8(bytes).unwrap().trim()).unwrap()
}

/// A commit with these parents, which need not exist.
pub fn forge(dir: &Utf8Path, tree: &CommitId, parents: &[&CommitId]) -> CommitId {
    let mut text = format!("tree {tree}\n");
    for parent in parents {
        text.push_str(&format!("parent {parent}\n"));
    }
    text.push_str("author a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n\nforged\n");
    id(feed(dir, &["hash-object", "-t", "commit", "-w", "--stdin"], text.as_bytes()))
}

/// What the script would print: for a container that lies.
pub fn answer(kew: &Kew, head: &CommitId, pack: &[u8]) -> Utf8PathBuf {
    let header = format!("kew-collect 1\nhead {head}\nsymbolic {}\nbranch {head}\ndirty 0\n\n", branch());
    let path = kew.root.join("answer");
    fs::write(&path, [header.as_bytes(), pack].concat()).unwrap();
    path
}

pub fn pack_of(dir: &Utf8Path, ids: &[&CommitId]) -> Vec<u8> {
    let list: String = ids.iter().map(|id| format!("{id}\n")).collect();
    feed(dir, &["pack-objects", "--stdout", "-q"], list.as_bytes())
}

#[test]
fn a_phantom_parent_is_refused_although_the_mirror_has_it() {
    let world = World::new();
    let user = world.user();
    git(&user, &["checkout", "-q", "-b", "private"]);
    let private = commit(&user, "secret", "s");
    git(&user, &["checkout", "-q", "main"]);
    let (kew, base, work) = start(&world);
    kew.mirror.ensure(&kew.user, &private).unwrap();
    let done = commit(&work, "a", "a");
    let phantom = forge(&work, &rev(&work, &format!("{done}^{{tree}}")), &[&base, &private]);
    fs::write(work.join(".git/shallow"), format!("{phantom}\n")).unwrap();
    git(&work, &["update-ref", "HEAD", phantom.as_str()]);
    // Both parents exist where the pack is judged, and the input is among them.
    assert_eq!(held(kew.collect(&work, &base)), Held::ForeignObjects);

    // The same by a container that lies: exactly the new objects.
    let tree = rev(&work, &format!("{done}^{{tree}}"));
    let blob = rev(&work, &format!("{done}:a"));
    let pack = pack_of(&work, &[&phantom, &tree, &blob]);
    let path = answer(&kew, &phantom, &pack);
    assert_eq!(held(kew.accept(&path, &base, &CollectLimits::default())), Held::ForeignObjects);
}

#[test]
fn a_private_tree_or_blob_of_the_mirror_cannot_be_named() {
    let world = World::new();
    let user = world.user();
    git(&user, &["checkout", "-q", "-b", "private"]);
    let private = commit(&user, "secret", "s");
    git(&user, &["checkout", "-q", "main"]);
    let (kew, base, work) = start(&world);
    kew.mirror.ensure(&kew.user, &private).unwrap();
    let stolen = forge(&work, &rev(&user, "private^{tree}"), &[&base]);
    let path = answer(&kew, &stolen, &pack_of(&work, &[&stolen]));
    assert_eq!(held(kew.accept(&path, &base, &CollectLimits::default())), Held::ForeignObjects);
    // A head that came in no pack at all.
    let path = answer(&kew, &private, &pack_of(&work, &[]));
    assert_eq!(held(kew.accept(&path, &base, &CollectLimits::default())), Held::ForeignObjects);
}

#[test]
fn a_pack_that_leans_on_other_objects_or_is_none_is_refused() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let done = commit(&work, "a", "a");
    let accept = |pack: &[u8]| kew.accept(&answer(&kew, &done, pack), &base, &CollectLimits::default());
    assert_eq!(held(accept(b"")), Held::Broken);
    assert_eq!(held(accept(b"PACK\0\0\0\x02\0\0\0\x01garbage")), Held::Broken);
    let whole = pack_of(&work, &[&done, &rev(&work, "HEAD^{tree}"), &rev(&work, "HEAD:a")]);
    assert_eq!(accept(&whole).unwrap().head, Some(done.clone()));
    assert_eq!(held(accept(&whole[..whole.len() - 30])), Held::Broken);
    assert_eq!(held(accept(&pack_of(&work, &[&done]))), Held::Broken);
    let path = answer(&kew, &base, &whole);
    assert_eq!(held(kew.accept(&path, &base, &CollectLimits::default())), Held::Broken);
}

#[test]
fn alternates_bring_no_private_object() {
    let world = World::new();
    let user = world.user();
    git(&user, &["checkout", "-q", "-b", "private"]);
    let private = commit(&user, "secret", "s");
    git(&user, &["checkout", "-q", "main"]);
    let (kew, base, work) = start(&world);
    let done = commit(&work, "a", "a");
    // In the container the path would not exist; even where it does, only descendants of the input pass.
    write(&work, ".git/objects/info/alternates", &format!("{}\n", user.join(".git/objects")));
    git(&work, &["update-ref", "HEAD", private.as_str()]);
    git(&work, &["update-ref", "HEAD", forge(&work, &rev(&work, "HEAD^{tree}"), &[&done]).as_str()]);
    fs::write(work.join(".git/objects/info/alternates"), "/nonexistent/objects\n").unwrap();
    let fault = kew.collect(&work, &base).unwrap_err();
    assert!(matches!(fault, CollectFault::Held { .. }), "{fault}");
}

#[test]
fn links_and_pipes_in_place_of_gits_files_end_with_a_reason_in_time() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let plants: [(&str, bool); 7] = [
        ("HEAD", false),
        ("HEAD", true),
        ("config", true),
        ("packed-refs", true),
        ("refs/heads/kew/e/n", true),
        ("objects", false),
        ("", false),
    ];
    for (at, (name, pipe)) in plants.into_iter().enumerate() {
        let work = kew.checkout(&base, &format!("work{at}"));
        commit(&work, "a", "a");
        let path = work.join(".git").join(name);
        let path = Utf8Path::new(path.as_str().trim_end_matches('/'));
        if path.exists() {
            fs::rename(path, work.join("moved")).unwrap();
        }
        match pipe {
            true => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
            false => symlink(work.join("moved"), path).unwrap(),
        }
        let began = Instant::now();
        let fault = kew.collect(&work, &base).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(60), "{name}: {:?}", began.elapsed());
        assert!(matches!(fault, CollectFault::Held { reason: Held::Spoilt, .. }), "{name}: {fault}");
        assert!(!fault.to_string().contains("no reason given"), "{name}: {fault}");
    }
}

#[test]
fn a_checkout_without_repository_or_head_fails_with_a_reason() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    git(&work, &["checkout", "-q", "--orphan", "fresh"]);
    let fault = kew.collect(&work, &base).unwrap_err();
    assert_eq!(fault.to_string(), "spoilt checkout: it cannot be collected: HEAD names no commit");
    fs::remove_dir_all(work.join(".git")).unwrap();
    let fault = kew.collect(&work, &base).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "spoilt checkout: it cannot be collected: the checkout is not a repository any more"
    );
    fs::write(work.join(".git"), format!("gitdir: {}\n", world.user().join(".git"))).unwrap();
    assert_eq!(held(kew.collect(&work, &base)), Held::Spoilt);
    assert!(script_fault(125, "docker: no").is_none());
}

#[test]
fn evil_trees_are_refused() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let blob = id(feed(&work, &["hash-object", "-w", "--stdin"], b"[core]\n\tfsmonitor = evil\n"));
    let modules = id(feed(
        &work,
        &["hash-object", "-w", "--stdin"],
        b"[submodule \"../../x\"]\n\tpath = x\n\turl = -u./evil\n",
    ));
    let raw = |name: &str, mode: &str, target: &CommitId| {
        let mut tree = format!("{mode} {name}\0").into_bytes();
        let hex = target.as_str().as_bytes().chunks(2);
        tree.extend(hex.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()));
        id(feed(&work, &["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], &tree))
    };
    let config = raw("config", "100644", &blob);
    let trees = [
        raw(".git", "40000", &config),
        raw(".GIT", "40000", &config),
        raw("..", "40000", &config),
        raw("git~1", "40000", &config),
        raw("a/b", "100644", &blob),
        raw(".gitmodules", "100644", &modules),
        raw(".gitmodules", "120000", &blob),
    ];
    for tree in &trees {
        let evil = forge(&work, tree, &[&base]);
        git(&work, &["update-ref", "HEAD", evil.as_str()]);
        assert_eq!(held(kew.collect(&work, &base)), Held::Broken, "{tree}");
    }
}

#[test]
fn a_huge_blob_in_a_small_pack_is_held() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    fs::File::create(work.join("zeros")).unwrap().set_len(300 << 20).unwrap();
    git(&work, &["-c", "core.bigFileThreshold=1m", "add", "zeros"]);
    git(&work, &["commit", "-q", "-m", "zeros"]);
    assert_eq!(held(kew.collect(&work, &base)), Held::TooMuch);
}

#[test]
fn a_few_trees_that_unfold_to_millions_of_paths_are_held() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let blob = id(feed(&work, &["hash-object", "-w", "--stdin"], b"x"));
    let mut line = format!("100644 blob {blob}");
    let mut tree = base.clone();
    for _ in 0..9 {
        let list: String = (0..10).map(|at| format!("{line}\tn{at}\n")).collect();
        tree = id(feed(&work, &["mktree"], list.as_bytes()));
        line = format!("040000 tree {tree}");
    }
    let bomb = forge(&work, &tree, &[&base]);
    let ids =
        git(&work, &["rev-list", "--objects", "--no-object-names", bomb.as_str(), "--not", base.as_str()]);
    let pack = feed(&work, &["pack-objects", "--stdout", "-q"], format!("{ids}\n").as_bytes());
    let path = answer(&kew, &bomb, &pack);
    assert_eq!(held(kew.accept(&path, &base, &CollectLimits::default())), Held::TooMuch);
}

#[test]
fn lies_about_history_are_seen_through() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let done = commit(&work, "a", "a");
    // A replacement and a graft that make a foreign root look like a child of the input.
    let root = forge(&work, &rev(&work, "HEAD^{tree}"), &[]);
    git(&work, &["update-ref", &format!("refs/replace/{root}"), done.as_str()]);
    fs::create_dir_all(work.join(".git/info")).unwrap();
    fs::write(work.join(".git/info/grafts"), format!("{root} {base}\n")).unwrap();
    git(&work, &["update-ref", "HEAD", root.as_str()]);
    let fault = kew.collect(&work, &base).unwrap_err();
    assert!(matches!(fault, CollectFault::Held { .. }), "{fault}");
}

#[test]
fn what_a_checkout_would_run_does_not_run_on_the_host() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let done = commit(&work, "a", "a");
    // The script runs in a sealed container; it writes the answer before the plants are made, then the host judges.
    let clean = kew.collect(&work, &base).unwrap();
    assert_eq!(clean.head, Some(done.clone()));
    let trace = world.root.join("ran");
    let plant = format!("sh -c 'touch {trace}'");
    write(&work, "evil.sh", &format!("#!/bin/sh\ntouch {trace}\n"));
    fs::set_permissions(work.join("evil.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    for hook in ["pre-commit", "post-index-change", "reference-transaction", "post-checkout", "pre-push"] {
        write(&work, &format!(".git/hooks/{hook}"), &format!("#!/bin/sh\ntouch {trace}\n"));
        fs::set_permissions(work.join(".git/hooks").join(hook), fs::Permissions::from_mode(0o755)).unwrap();
    }
    write(&work, ".git/info/attributes", "* filter=evil diff=evil merge=evil\n");
    for key in ["filter.evil.clean", "filter.evil.smudge", "diff.evil.textconv", "merge.evil.driver"] {
        fs::File::options().append(true).open(work.join(".git/config")).unwrap().write_all(b"").unwrap();
        git(&work, &["config", key, &plant]);
    }
    for key in [
        "core.fsmonitor",
        "core.sshCommand",
        "core.pager",
        "diff.external",
        "gpg.program",
        "core.alternateRefsCommand",
    ] {
        git(&work, &["config", key, &plant]);
    }
    kew.accept(&kew.root.join("answer"), &base, &CollectLimits::default()).unwrap();
    kew.land(&base, &done, &kew::git::refs::node(&crate::support::key("n", 1)));
    kew::git::heads::heads(&work);
    kew::git::prompt::remove_prompt(&work).unwrap();
    assert!(!trace.exists(), "a plant ran");
    assert_eq!(head(&world.user()), base);
}
