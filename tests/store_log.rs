//! The files of an attempt: where they lie, what they hold, who may read them, and what a full disk does.

use std::{fs, os::unix::fs::PermissionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};
use kew::{
    name::{AttemptKey, NodeId, RunId},
    store::{AttemptFiles, LogWriter},
};

fn files(dir: &tempfile::TempDir) -> AttemptFiles {
    let key = AttemptKey {
        run: RunId::new("20261201-093000-k3f9").expect("good"),
        node: NodeId::new("parser").expect("good"),
        attempt: 2,
    };
    AttemptFiles::new(Utf8Path::from_path(dir.path()).expect("UTF-8"), &key)
}

fn mode(path: &Utf8Path) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[test]
fn files_lie_where_people_look_for_them() {
    let dir = tempfile::tempdir().expect("a folder");
    let files = files(&dir);
    let root = Utf8PathBuf::from_path_buf(dir.path().to_owned()).expect("UTF-8");
    assert_eq!(files.dir().strip_prefix(&root).expect("below"), "runs/20261201-093000-k3f9/parser/2");
    for (path, name) in [
        (files.prompt(), "prompt.md"),
        (files.stdout(), "stdout.log"),
        (files.stderr(), "stderr.log"),
        (files.verdict(), "verdict.json"),
    ] {
        assert_eq!(path, files.dir().join(name));
    }
}

#[test]
fn lines_are_kept_in_order_and_private() {
    let dir = tempfile::tempdir().expect("a folder");
    let files = files(&dir);
    files.create().expect("no error");
    files.create().expect("twice is fine");
    files.write_prompt("do it").expect("no error");
    files.write_verdict(b"{}").expect("no error");
    let mut log = files.open_stdout().expect("no error");
    log.line(b"one").expect("no error");
    log.line(b"\xff\x00two").expect("no error");
    assert_eq!(log.written(), 10);
    log.flush().expect("no error");
    assert_eq!(fs::read(files.stdout()).expect("there"), b"one\n\xff\x00two\n");
    log.finish().expect("no error");
    let mut again = files.open_stdout().expect("no error");
    again.line(b"three").expect("no error");
    again.finish().expect("no error");
    assert_eq!(fs::read(files.stdout()).expect("there"), b"one\n\xff\x00two\nthree\n");
    assert_eq!(fs::read_to_string(files.prompt()).expect("there"), "do it");
    assert_eq!(mode(files.dir()), 0o700);
    for path in [files.prompt(), files.stdout(), files.verdict()] {
        assert_eq!(mode(&path), 0o600, "{path}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let mut log = LogWriter::open(Utf8Path::new("/dev/full")).expect("it opens");
    log.line(b"lost").expect("still in memory");
    let error = log.finish().expect_err("no space");
    assert!(error.to_string().starts_with("cannot write `/dev/full`: "), "{error}");
    assert_eq!(error.source.kind(), std::io::ErrorKind::StorageFull);
}

#[test]
fn a_full_disk_is_noticed_while_lines_flow() {
    let mut log = LogWriter::open(Utf8Path::new("/dev/full")).expect("it opens");
    let line = [b'x'; 1000];
    assert!((0..1000).any(|_| log.line(&line).is_err()));
}
