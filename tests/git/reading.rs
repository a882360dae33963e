//! Reading single files of a folder that somebody hostile owns: plain files up to a cap, and nothing else.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt as _, symlink},
        net::UnixListener,
    },
    process::Command,
};

use camino::{Utf8Path, Utf8PathBuf};
use kew::git::{
    beneath::{ReadFault, read_beneath},
    heads::{heads, untouched},
    prompt::{PromptError, remove_prompt, write_prompt},
};

use crate::support::{World, commit, git, write};

fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
    let tmp = tempfile::tempdir().unwrap();
    let dir = Utf8Path::from_path(tmp.path()).unwrap().join("dir");
    fs::create_dir(&dir).unwrap();
    (tmp, dir)
}

fn mkfifo(path: &Utf8Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_plain_file_is_read_up_to_the_cap() {
    let (_tmp, dir) = folder();
    write(&dir, "a/b", "12345");
    assert_eq!(read_beneath(&dir, "a/b", 5).unwrap(), b"12345");
    assert!(matches!(read_beneath(&dir, "a/b", 4), Err(ReadFault::TooLarge { size: 5, cap: 4 })));
    let sparse = fs::File::create(dir.join("sparse")).unwrap();
    sparse.set_len(20 << 30).unwrap();
    assert!(matches!(read_beneath(&dir, "sparse", 65536), Err(ReadFault::TooLarge { .. })));
}

#[test]
fn what_is_not_a_plain_file_of_the_folder_is_never_read() {
    let (tmp, dir) = folder();
    let outside = Utf8Path::from_path(tmp.path()).unwrap().join("outside");
    write(&outside, "secret", "s");
    symlink("../outside/secret", dir.join("link")).unwrap();
    symlink("../outside", dir.join("parent")).unwrap();
    symlink("loop", dir.join("loop")).unwrap();
    symlink("/proc/self/environ", dir.join("environ")).unwrap();
    fs::hard_link(outside.join("secret"), dir.join("hard")).unwrap();
    fs::create_dir(dir.join("folder")).unwrap();
    mkfifo(&dir.join("fifo"));
    let _socket = UnixListener::bind(dir.join("socket")).unwrap();
    for name in ["link", "parent/secret", "loop", "environ"] {
        assert!(matches!(read_beneath(&dir, name, 99), Err(ReadFault::Symlink)), "{name}");
    }
    for name in ["folder", "fifo", "socket", "fifo/x"] {
        assert!(matches!(read_beneath(&dir, name, 99), Err(ReadFault::NotARegularFile)), "{name}");
    }
    for name in ["../outside/secret", "/etc/passwd", "", "folder/../hard", "./hard"] {
        assert!(matches!(read_beneath(&dir, name, 99), Err(ReadFault::Outside)), "{name}");
    }
    assert!(matches!(read_beneath(&dir, "hard", 99), Err(ReadFault::HardLinked)));
    assert!(matches!(read_beneath(&dir, "none", 99), Err(ReadFault::Missing)));
}

#[test]
fn a_file_that_flips_to_a_link_never_leaks() {
    let (tmp, dir) = folder();
    let outside = Utf8Path::from_path(tmp.path()).unwrap().join("secret");
    fs::write(&outside, "secret").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                fs::write(dir.join("a"), "fine").unwrap();
                fs::rename(dir.join("a"), dir.join("name")).unwrap();
                symlink(&outside, dir.join("b")).unwrap();
                fs::rename(dir.join("b"), dir.join("name")).unwrap();
            }
        });
        for _ in 0..2000 {
            if let Ok(bytes) = read_beneath(&dir, "name", 99) {
                assert_ne!(bytes, b"secret");
            }
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn the_prompt_replaces_a_link_or_a_pipe_and_writes_nowhere_else() {
    let (tmp, dir) = folder();
    let outside = Utf8Path::from_path(tmp.path()).unwrap().join("outside");
    fs::write(&outside, "mine").unwrap();
    let prompt = dir.join(".kew-prompt.txt");
    let check = || {
        write_prompt(&dir, "do it").unwrap();
        let meta = fs::symlink_metadata(&prompt).unwrap();
        assert!(meta.is_file());
        assert_eq!(meta.mode() & 0o777, 0o444);
        assert_eq!(fs::read_to_string(&prompt).unwrap(), "do it");
        remove_prompt(&dir).unwrap();
        assert!(!prompt.exists());
    };
    check();
    symlink("../outside", &prompt).unwrap();
    check();
    symlink("../dangling", &prompt).unwrap();
    check();
    mkfifo(&prompt);
    check();
    fs::write(&prompt, "planted").unwrap();
    check();
    remove_prompt(&dir).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
    assert!(!outside.with_file_name("dangling").exists());
    fs::create_dir(&prompt).unwrap();
    assert!(matches!(write_prompt(&dir, "x"), Err(PromptError::Folder)));
    assert!(matches!(remove_prompt(&dir), Err(PromptError::Folder)));
}

#[test]
fn a_moved_branch_or_head_is_seen() {
    let world = World::new();
    let kew = world.open();
    let base = kew.base();
    let changes: [&dyn Fn(&Utf8Path); 7] = [
        &|work| {
            commit(work, "x", "y");
        },
        &|work| {
            git(work, &["checkout", "-q", "-b", "other"]);
        },
        &|work| {
            git(work, &["checkout", "-q", "--detach"]);
        },
        &|work| {
            git(work, &["pack-refs", "--all"]);
        },
        &|work| {
            fs::remove_file(work.join(".git/HEAD")).unwrap();
            symlink("refs/heads/kew/e/n", work.join(".git/HEAD")).unwrap();
        },
        &|work| mkfifo(&work.join(".git/packed-refs")),
        &|work| {
            fs::rename(work.join(".git"), work.join("git")).unwrap();
            symlink("git", work.join(".git")).unwrap();
        },
    ];
    for (at, change) in changes.iter().enumerate() {
        let work = kew.checkout(&base, &format!("work{at}"));
        let before = heads(&work).unwrap();
        write(&work, "loose", "change");
        git(&work, &["add", "-A"]);
        assert!(untouched(&work, &before));
        change(&work);
        assert!(!untouched(&work, &before), "change {at}");
    }
}
