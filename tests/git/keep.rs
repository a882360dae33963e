//! What is kept of an attempt that did not pass: its commits and its uncommitted work, in one commit that checks out.

use std::{fs, os::unix::fs::symlink, process::Command};

use camino::{Utf8Path, Utf8PathBuf};
use kew::{
    git::{
        collect::{CollectFault, CollectLimits, Held, script_fault},
        keep::{self, Left},
        land, refs,
    },
    name::CommitId,
};

use crate::support::{Kew, World, branch, commit, git, head, key, rev, write};

fn start(world: &World) -> (Kew, CommitId, Utf8PathBuf) {
    let kew = world.open();
    let base = kew.base();
    let work = kew.checkout(&base, "work");
    (kew, base, work)
}

fn keep_within(
    kew: &Kew,
    work: &Utf8Path,
    input: &CommitId,
    limits: &CollectLimits,
) -> Result<Left, CollectFault> {
    let answer = kew.root.join("answer");
    let output = Command::new("/bin/sh")
        .args(["-c", keep::SCRIPT, "kew-keep"])
        .args(keep::script_args(input, &branch(), &key("n", 1), limits))
        .arg(work)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent")
        .current_dir("/")
        .stdout(fs::File::create(&answer).unwrap())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let code = output.status.code().unwrap();
        return Err(script_fault(code, &stderr).unwrap_or_else(|| panic!("exit {code}: {stderr}")));
    }
    assert_eq!(stderr, "");
    let quarantine = kew.quarantine();
    if quarantine.exists() {
        fs::remove_dir_all(&quarantine).unwrap();
    }
    keep::accept(&answer, &kew.mirror, &quarantine, input, limits)
}

fn keep(kew: &Kew, work: &Utf8Path, input: &CommitId) -> Left {
    keep_within(kew, work, input, &keep::limits(&CollectLimits::default())).unwrap()
}

/// Brings it home; the paths of the kept tree.
fn home(kew: &Kew, world: &World, input: &CommitId, left: &Left) -> String {
    let name = refs::wip(&key("n", 1));
    land::land(&kew.user, &kew.mirror, &kew.quarantine(), input, left.head.as_ref().unwrap(), &name).unwrap();
    assert_eq!(name.as_str(), "refs/kew/20261201-093000-k3f9/nodes/n/1-wip");
    git(&world.user(), &["fsck", "--strict"]);
    git(&world.user(), &["ls-tree", "-r", "--name-only", name.as_str()])
}

#[test]
fn commits_and_what_is_uncommitted_are_in_one_commit_on_top() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let done = commit(&work, "committed", "c");
    write(&work, "src/lib.rs", "edited\n");
    write(&work, "deep/new", "new\n");
    fs::remove_file(work.join("README")).unwrap();
    let before = git(&work, &["status", "--porcelain"]);
    let left = keep(&kew, &work, &base);
    assert_eq!(home(&kew, &world, &base, &left), "committed\ndeep/new\nsrc/lib.rs");
    let user = world.user();
    let kept = left.head.unwrap();
    assert_eq!(rev(&user, &format!("{kept}^")), done);
    assert_eq!(git(&user, &["show", &format!("{kept}:src/lib.rs")]), "edited");
    let said = git(&user, &["log", "-1", "--format=%an %ae %s", kept.as_str()]);
    assert_eq!(said, "kew kew@kew.local kew: what n left, attempt 1");
    // Nothing in the checkout changed.
    assert_eq!((git(&work, &["status", "--porcelain"]), head(&work)), (before, done));
}

#[test]
fn a_clean_tree_is_kept_as_its_head_and_an_untouched_one_not_at_all() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    assert_eq!(keep(&kew, &work, &base), Left { head: None, large: 0, large_paths: vec![] });
    write(&work, ".gitignore", "/target\n");
    let done = commit(&work, "a", "a");
    git(&work, &["add", "."]);
    git(&work, &["commit", "-qm", "ignore"]);
    write(&work, "target/large", "ignored\n");
    write(&work, ".kew-review-verdict.json", "{}");
    let kept = keep(&kew, &work, &base).head.unwrap();
    assert_eq!(kept, head(&work));
    assert_ne!(kept, done);
}

#[test]
fn rewritten_history_and_a_branch_left_behind_lose_nothing() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let on_branch = commit(&work, "on-branch", "");
    git(&work, &["checkout", "-q", "--orphan", "fresh"]);
    git(&work, &["rm", "-rfq", "--cached", "."]);
    write(&work, "only", "only\n");
    git(&work, &["add", "only"]);
    git(&work, &["commit", "-qm", "orphan"]);
    let orphan = head(&work);
    let left = keep(&kew, &work, &base);
    home(&kew, &world, &base, &left);
    let parents = git(&world.user(), &["log", "-1", "--format=%P", left.head.unwrap().as_str()]);
    assert_eq!(parents, format!("{orphan} {base} {on_branch}"));
}

#[test]
fn a_head_that_names_nothing_still_leaves_a_tree() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    write(&work, "new", "new\n");
    fs::write(work.join(".git/HEAD"), "ref: refs/heads/none\n").unwrap();
    assert!(home(&kew, &world, &base, &keep(&kew, &work, &base)).contains("new"));
    fs::write(work.join(".git/HEAD"), "garbage\n").unwrap();
    fs::write(work.join(".git/index"), "garbage\n").unwrap();
    assert!(keep(&kew, &work, &base).head.is_some());
}

#[test]
fn nothing_that_the_agent_configured_runs_or_hides_anything() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let trap = kew.root.join("trap");
    let run = format!("touch {trap}; cat");
    git(&work, &["config", "filter.x.clean", &run]);
    git(&work, &["config", "filter.x.process", &run]);
    git(&work, &["config", "filter.x.required", "true"]);
    git(&work, &["config", "core.fsmonitor", &run]);
    git(&work, &["config", "core.worktree", "/etc"]);
    write(&work, ".git/info/attributes", "* filter=x\n");
    write(&work, ".git/info/exclude", "*\n");
    write(&work, ".gitattributes", "*.txt filter=x\n");
    write(&work, "a.txt", "a\n");
    let paths = home(&kew, &world, &base, &keep(&kew, &work, &base));
    assert!(!trap.exists());
    assert!(paths.contains("a.txt"), "{paths}");
}

#[test]
fn odd_names_and_kinds_of_files_are_no_trouble() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    for name in ["-rf", "a\nb", ":(exclude)x", "sp ace", "*", "é"] {
        write(&work, name, "x");
    }
    symlink("/etc/passwd", work.join("link")).unwrap();
    symlink("/etc", work.join("folder-link")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        work.join("pipe").as_std_path(),
        rustix::fs::FileType::Fifo,
        0o644.into(),
        0,
    )
    .unwrap();
    // A repository without a commit, and one with.
    git(&work, &["init", "-q", "inner-empty"]);
    write(&work, "inner-empty/file", "x");
    git(&work, &["init", "-q", "inner"]);
    commit(&work.join("inner"), "file", "x");
    let left = keep(&kew, &work, &base);
    let paths = home(&kew, &world, &base, &left);
    for name in ["-rf", "\"a\\nb\"", ":(exclude)x", "sp ace", "*", "link", "folder-link", "inner"] {
        assert!(paths.lines().any(|path| path == name), "{name} in {paths}");
    }
    assert!(!paths.contains("pipe"), "{paths}");
    let target = git(&world.user(), &["show", &format!("{}:link", left.head.unwrap())]);
    assert_eq!(target, "/etc/passwd");
}

#[test]
fn large_files_are_left_out_and_named_and_the_rest_is_kept() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    write(&work, "small", "s");
    fs::File::create(work.join("sparse")).unwrap().set_len(1 << 30).unwrap();
    fs::create_dir(work.join("b")).unwrap();
    fs::File::create(work.join("b/large\nfile")).unwrap().set_len(200 << 20).unwrap();
    let left = keep(&kew, &work, &base);
    assert_eq!((left.large, left.large_paths.len()), (2, 2));
    assert!(left.large_paths.contains(&"b/large?file".to_owned()), "{:?}", left.large_paths);
    let paths = home(&kew, &world, &base, &left);
    assert!(paths.contains("small") && !paths.contains("sparse") && !paths.contains("large"), "{paths}");
}

#[test]
fn more_than_fits_is_refused() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    let mut noise = vec![0_u8; 3 << 20];
    getrandom_like(&mut noise);
    fs::write(work.join("noise"), noise).unwrap();
    let limits = CollectLimits { pack_bytes: 1 << 20, ..CollectLimits::default() };
    match keep_within(&kew, &work, &base, &limits) {
        Err(CollectFault::Held { reason: Held::TooMuch, .. }) => {}
        other => panic!("{other:?}"),
    }
}

#[test]
fn many_files_are_kept() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    for folder in 0..20 {
        let folder = work.join(format!("many/{folder}"));
        fs::create_dir_all(&folder).unwrap();
        for file in 0..100 {
            fs::write(folder.join(file.to_string()), format!("{folder} {file}\n")).unwrap();
        }
    }
    let left = keep(&kew, &work, &base);
    assert_eq!(
        home(&kew, &world, &base, &left).lines().filter(|path| path.starts_with("many/")).count(),
        2000
    );
}

#[test]
fn a_pipe_among_the_objects_ends_it_soon_with_the_reason() {
    let world = World::new();
    let (kew, base, work) = start(&world);
    fs::write(work.join("new"), "new\n").unwrap();
    git(&work, &["add", "new"]);
    git(&work, &["commit", "-qm", "new"]);
    let blob = git(&work, &["rev-parse", "HEAD:new"]);
    let object = work.join(format!(".git/objects/{}/{}", &blob[..2], &blob[2..]));
    fs::remove_file(&object).unwrap();
    assert!(Command::new("mkfifo").arg(&object).status().unwrap().success());
    match keep_within(&kew, &work, &base, &keep::limits(&CollectLimits::default())) {
        Err(CollectFault::Held { sentence, .. }) => {
            assert!(sentence.contains("a pipe or a device"), "{sentence}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_private_commit_of_the_user_cannot_be_smuggled_in() {
    let world = World::new();
    let user = world.user();
    git(&user, &["checkout", "-q", "-b", "private"]);
    let private = commit(&user, "secret", "secret\n");
    git(&user, &["checkout", "-q", "main"]);
    let (kew, base, work) = start(&world);
    kew.mirror.ensure(&kew.user, &private).unwrap();
    // The checkout does not have it; a commit that names it as its parent cannot be packed, and nothing is kept on top of it.
    let tree = git(&work, &["rev-parse", "HEAD^{tree}"]);
    let text =
        format!("tree {tree}\nparent {private}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\n\nx\n");
    fs::write(kew.root.join("commit"), text).unwrap();
    let forged =
        git(&work, &["hash-object", "-t", "commit", "-w", "--literally", kew.root.join("commit").as_str()]);
    fs::write(work.join(".git/refs/heads/kew/e/n"), format!("{forged}\n")).unwrap();
    write(&work, ".git/shallow", &format!("{forged}\n"));
    let result = keep_within(&kew, &work, &base, &CollectLimits::default());
    match result {
        Err(CollectFault::Held { .. }) => {}
        Ok(left) => {
            let all = git(&kew.quarantine(), &["rev-list", left.head.unwrap().as_str()]);
            assert!(!all.contains(private.as_str()), "{all}");
        }
        other => panic!("{other:?}"),
    }
}

/// Bytes that do not compress.
fn getrandom_like(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}
