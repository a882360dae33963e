//! Opening a database: one of another version, one that is no database, one on a file system that lies about locks.

use std::{fs, os::unix::fs::PermissionsExt as _};

use kew::{
    record::NodeState,
    store::{
        Store, StoreError,
        db::{SCHEMA_VERSION, refused_file_system},
    },
    stream::CostSource,
};

use super::{attempt_end, attempt_start, folder, key, open, run_start};

#[test]
fn a_newer_database_is_refused_and_left_alone() {
    let folder = folder();
    drop(open(&folder));
    let file = folder.path.join("dispatch.db");
    let raw = rusqlite::Connection::open(&file).expect("it opens");
    raw.pragma_update(None, "user_version", SCHEMA_VERSION + 1).expect("no error");
    drop(raw);
    let error = Store::open(&folder.path).expect_err("newer");
    assert!(matches!(error, StoreError::Newer { found, known, .. } if found == known + 1), "{error}");
    assert!(error.to_string().contains("was written by a newer kew"), "{error}");
    assert!(error.to_string().contains("`[state] dir`"), "{error}");
}

#[test]
fn a_database_without_sources_of_costs_is_brought_up_to_date() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    let parser = key("r1", "parser", 1);
    store.start_attempt(&attempt_start(parser.clone())).expect("no error");
    store.end_attempt(&attempt_end(parser), NodeState::Passed, None).expect("no error");
    drop(store);
    let raw = rusqlite::Connection::open(folder.path.join("dispatch.db")).expect("it opens");
    raw.execute_batch(
        "DROP TABLE prompts; DROP TABLE kept; DROP TABLE artifacts; ALTER TABLE attempts DROP COLUMN cost_source; PRAGMA user_version = 1",
    )
    .expect("done");
    drop(raw);
    let end = open(&folder).run("r1").expect("there").nodes[0].attempts[0].end.clone().expect("ended");
    assert_eq!((end.cost_usd, end.cost_source), (Some(0.0054915), CostSource::ListPrice));
}

#[test]
fn a_file_that_is_no_database_is_an_error() {
    let folder = folder();
    fs::create_dir_all(&folder.path).expect("no error");
    fs::write(folder.path.join("dispatch.db"), "x".repeat(4096)).expect("no error");
    assert!(matches!(Store::open(&folder.path), Err(StoreError::Sqlite { .. })));
}

#[test]
fn the_database_is_private_and_careful() {
    let folder = folder();
    assert!(Store::open_existing(&folder.path).expect("no error").is_none());
    assert!(!folder.path.exists(), "asking makes nothing");
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    assert!(Store::open_existing(&folder.path).expect("no error").is_some());
    for name in ["dispatch.db", "dispatch.db-wal"] {
        let mode = fs::metadata(folder.path.join(name)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
}

#[test]
fn file_systems_that_lie_about_locks_are_refused() {
    for (magic, kind) in [(0x6969, "nfs"), (0xff53_4d42, "smb"), (0x6573_5546, "fuse"), (0x0102_1997, "9p")] {
        assert_eq!(refused_file_system(magic), Some(kind));
    }
    // ext4, xfs, btrfs, tmpfs, overlayfs, zfs.
    for magic in [0xef53, 0x5846_5342, 0x9123_683e, 0x0102_1994, 0x794c_7630, 0x2fc1_2fc1] {
        assert_eq!(refused_file_system(magic), None, "{magic:x}");
    }
    let error = StoreError::FileSystem { dir: "/net/kew".into(), kind: "nfs" };
    assert!(error.to_string().contains("set `[state] dir` to a folder on a local disk"), "{error}");
}
