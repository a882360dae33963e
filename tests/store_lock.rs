//! The lock of a run: who holds it, what frees it, and what two kews at once see.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use camino::{Utf8Path, Utf8PathBuf};
use kew::{
    name::RunId,
    store::{
        lock::{RunLock, free_locks, is_free, lock_path, locks_dir},
        state_id,
    },
};

const HOLD: &str = "KEW_TEST_HOLD_LOCK";

struct State {
    _dir: tempfile::TempDir,
    path: Utf8PathBuf,
}

fn state() -> State {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let path = Utf8PathBuf::from_path_buf(dir.path().join("kew")).expect("UTF-8");
    State { _dir: dir, path }
}

fn run(id: &str) -> RunId {
    RunId::new(id).expect("a good id")
}

fn take(path: &Utf8Path) -> RunLock {
    RunLock::try_take(path).expect("no error").expect("free")
}

fn becomes_free(path: &Utf8Path) -> bool {
    let end = Instant::now() + Duration::from_secs(20);
    while Instant::now() < end {
        if is_free(path).expect("no error") {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    false
}

#[test]
fn a_held_lock_is_taken_by_nobody_else() {
    let state = state();
    let path = lock_path(&state.path, &run("r1"));
    let lock = take(&path);
    assert!(RunLock::try_take(&path).expect("no error").is_none());
    assert!(!is_free(&path).expect("no error"));
    assert_eq!(free_locks(&locks_dir(&state.path)).expect("no error"), []);
    drop(lock);
    assert_eq!(free_locks(&locks_dir(&state.path)).expect("no error"), [run("r1")]);
    take(&path);
}

#[test]
fn state_and_lock_are_private() {
    let state = state();
    let path = lock_path(&state.path, &run("r1"));
    let _lock = take(&path);
    let mode = |path: &Utf8Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&state.path), 0o700);
    assert_eq!(mode(&locks_dir(&state.path)), 0o700);
    assert_eq!(mode(&path), 0o600);
}

#[test]
fn a_child_with_a_duplicate_holds_on() {
    let state = state();
    let path = lock_path(&state.path, &run("r1"));
    let lock = take(&path);
    let duplicate = lock.duplicate().expect("no error");
    let mut child = Command::new("sleep").arg("60").stdout(duplicate).spawn().expect("sleep starts");
    drop(lock);
    assert!(RunLock::try_take(&path).expect("no error").is_none(), "the child still has it");
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    assert!(becomes_free(&path));
}

#[test]
fn a_child_without_a_duplicate_holds_nothing() {
    let state = state();
    let path = lock_path(&state.path, &run("r1"));
    let lock = take(&path);
    let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
    drop(lock);
    assert!(becomes_free(&path), "an ordinary child must not inherit the lock");
    child.kill().expect("it lives");
    child.wait().expect("it ends");
}

/// Not a test of its own: the process that the next test kills.
#[test]
fn holder() {
    let Ok(path) = std::env::var(HOLD) else { return };
    let _lock = take(Utf8Path::new(&path));
    let mut out = std::io::stderr();
    writeln!(out, "held").expect("somebody listens");
    thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_process_frees_its_lock() {
    let state = state();
    let path = lock_path(&state.path, &run("r1"));
    let mut child = Command::new(std::env::current_exe().expect("this binary"))
        .args(["--exact", "holder", "--nocapture"])
        .env(HOLD, path.as_str())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let stderr = child.stderr.take().expect("it is piped");
    assert!(BufReader::new(stderr).lines().map_while(Result::ok).any(|line| line == "held"));
    assert!(RunLock::try_take(&path).expect("no error").is_none(), "another process has it");
    child.kill().expect("it lives");
    child.wait().expect("it ends");
    assert!(becomes_free(&path));
    assert_eq!(free_locks(&locks_dir(&state.path)).expect("no error"), [run("r1")]);
}

#[test]
fn removal_leaves_no_file_and_no_stale_lock() {
    let state = state();
    let path = lock_path(&state.path, &run("r1"));
    take(&path).remove().expect("no error");
    assert!(!path.exists());
    assert!(!is_free(&path).expect("no error"), "a missing lock is not a free one");
    assert_eq!(free_locks(&locks_dir(&state.path)).expect("no error"), []);
    take(&path);
}

#[test]
fn removal_spares_a_file_that_took_the_place() {
    let state = state();
    let path = lock_path(&state.path, &run("r1"));
    let old = take(&path);
    fs::remove_file(&path).expect("there");
    let new = take(&path);
    old.remove().expect("no error");
    assert!(path.exists());
    assert!(RunLock::try_take(&path).expect("no error").is_none());
    drop(new);
}

/// Threads take and remove the same lock as fast as they can: never do two hold it at once.
#[test]
fn two_never_hold_the_same_lock() {
    use std::sync::atomic::{AtomicU32, Ordering};
    let state = state();
    let path = lock_path(&state.path, &run("r1"));
    let (inside, taken) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let Some(lock) = RunLock::try_take(&path).expect("no error") else { continue };
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two hold it");
                    taken.fetch_add(1, Ordering::SeqCst);
                    thread::yield_now();
                    inside.fetch_sub(1, Ordering::SeqCst);
                    lock.remove().expect("no error");
                }
            });
        }
    });
    assert!(taken.load(Ordering::SeqCst) >= 100);
}

#[test]
fn a_lock_is_no_symlink() {
    let state = state();
    let path = lock_path(&state.path, &run("r1"));
    fs::create_dir_all(locks_dir(&state.path)).expect("no error");
    std::os::unix::fs::symlink("/etc/hostname", &path).expect("no error");
    assert!(RunLock::try_take(&path).is_err());
}

#[test]
fn foreign_files_among_the_locks_are_no_runs() {
    let state = state();
    let dir = locks_dir(&state.path);
    fs::create_dir_all(&dir).expect("no error");
    fs::write(dir.join(".hidden"), "").expect("no error");
    fs::write(dir.join("20261201-093000-k3f9"), "").expect("no error");
    assert_eq!(free_locks(&dir).expect("no error"), [run("20261201-093000-k3f9")]);
    assert_eq!(free_locks(&state.path.join("none")).expect("no error"), []);
}

#[test]
fn everybody_gets_the_same_state_id() {
    let state = state();
    let ids: Vec<String> = thread::scope(|scope| {
        let asked: Vec<_> =
            (0..8).map(|_| scope.spawn(|| state_id(&state.path).expect("no error"))).collect();
        asked.into_iter().map(|asked| asked.join().expect("no panic")).collect()
    });
    assert_eq!(ids[0].len(), 32);
    assert!(ids.iter().all(|id| *id == ids[0]));
    assert_eq!(state_id(&state.path).expect("no error"), ids[0]);
    let left: Vec<_> = fs::read_dir(&state.path).expect("there").collect();
    assert_eq!(left.len(), 1, "no temporary file stays");
}

#[test]
fn two_state_folders_have_two_ids() {
    assert_ne!(state_id(&state().path).expect("no error"), state_id(&state().path).expect("no error"));
}

#[test]
fn a_spoilt_id_is_an_error_not_a_new_id() {
    let state = state();
    fs::create_dir_all(&state.path).expect("no error");
    fs::write(state.path.join("id"), "x").expect("no error");
    let error = state_id(&state.path).expect_err("spoilt");
    assert!(error.to_string().ends_with("id`: is not a state id"), "{error}");
}
