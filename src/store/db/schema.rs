//! Tables, their version, and how the database is opened. No row of a run is read or written here.
//!
//! WAL, so that `kew show` reads while a run writes; `synchronous=FULL`, because in WAL mode `NORMAL` may forget the last
//! transactions at a power cut while refs of those attempts survive, and an attempt number must never be given twice. A run
//! commits a few times per node, so the extra fsync is not felt.

use std::{io, thread, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::{
    error::{Doing as _, StoreError},
    kept,
};
use crate::{
    store::{FileError, create_private_dir},
    stream::Tokens,
};

/// Version of the tables, kept in `user_version`. A newer one is refused.
pub const SCHEMA_VERSION: u32 = 4;

/// How long a writer waits for another process's transaction.
const BUSY: Duration = Duration::from_secs(10);

const TABLES: &str = "
CREATE TABLE runs (
  run TEXT NOT NULL PRIMARY KEY,
  epic TEXT NOT NULL,
  plan_path TEXT NOT NULL,
  plan_text TEXT NOT NULL,
  settings_json TEXT NOT NULL,
  digest TEXT NOT NULL,
  base TEXT NOT NULL,
  network TEXT NOT NULL,
  owner TEXT NOT NULL,
  started INTEGER NOT NULL,
  status TEXT,
  exit_code INTEGER,
  ended INTEGER
) STRICT;
CREATE TABLE nodes (
  run TEXT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
  node TEXT NOT NULL,
  position INTEGER NOT NULL,
  runner TEXT NOT NULL,
  model TEXT,
  image TEXT NOT NULL,
  image_id TEXT NOT NULL,
  reviews TEXT,
  commits TEXT NOT NULL,
  needs TEXT NOT NULL,
  state TEXT NOT NULL,
  reason TEXT,
  attempt INTEGER NOT NULL DEFAULT 0,
  round INTEGER NOT NULL DEFAULT 1,
  tries INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (run, node)
) STRICT, WITHOUT ROWID;
CREATE TABLE attempts (
  run TEXT NOT NULL,
  node TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  round INTEGER NOT NULL,
  tries INTEGER NOT NULL,
  runner TEXT NOT NULL,
  model TEXT,
  image_id TEXT NOT NULL,
  container TEXT NOT NULL,
  prompt_digest TEXT NOT NULL,
  started INTEGER NOT NULL,
  ended INTEGER,
  input TEXT,
  head TEXT,
  commits INTEGER,
  outcome TEXT,
  reason TEXT,
  exit INTEGER,
  session TEXT,
  model_reported TEXT,
  tokens_input INTEGER,
  tokens_output INTEGER,
  tokens_cache_read INTEGER,
  tokens_cache_write INTEGER,
  cost_usd REAL,
  summary TEXT,
  cost_source TEXT,
  PRIMARY KEY (run, node, attempt),
  FOREIGN KEY (run, node) REFERENCES nodes (run, node) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE verdicts (
  run TEXT NOT NULL,
  node TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  subject TEXT NOT NULL,
  commit_id TEXT NOT NULL,
  verdict TEXT NOT NULL,
  summary TEXT NOT NULL,
  findings_json TEXT NOT NULL,
  digest TEXT,
  time INTEGER NOT NULL,
  PRIMARY KEY (run, node, attempt),
  FOREIGN KEY (run, node, attempt) REFERENCES attempts (run, node, attempt) ON DELETE CASCADE,
  FOREIGN KEY (run, subject) REFERENCES nodes (run, node)
) STRICT, WITHOUT ROWID;
CREATE TABLE events (
  run TEXT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  time INTEGER NOT NULL,
  json TEXT NOT NULL,
  PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
";

/// Steps are only ever added; the last one of a node is where it stands.
const PUBLICATIONS: &str = "
CREATE TABLE IF NOT EXISTS publications (
  id INTEGER PRIMARY KEY,
  run TEXT NOT NULL,
  node TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  commit_id TEXT NOT NULL,
  branch TEXT NOT NULL,
  remote TEXT NOT NULL,
  state TEXT NOT NULL,
  url TEXT,
  reason TEXT,
  time INTEGER NOT NULL,
  FOREIGN KEY (run, node) REFERENCES nodes (run, node) ON DELETE CASCADE
) STRICT;
";

/// Prompt files as they were when the run began.
const PROMPTS: &str = "
CREATE TABLE prompts (
  run TEXT NOT NULL REFERENCES runs (run) ON DELETE CASCADE,
  asked TEXT NOT NULL,
  path TEXT NOT NULL,
  text TEXT NOT NULL,
  PRIMARY KEY (run, asked)
) STRICT, WITHOUT ROWID;
";

/// What brings a database of version `n + 1` to the next one: `MIGRATIONS[n]`.
const MIGRATIONS: [&[&str]; 3] = [&[COST_SOURCES], &[PROMPTS], &[PUBLICATIONS, kept::TABLES]];

const COST_SOURCES: &str = "
ALTER TABLE attempts ADD COLUMN cost_source TEXT;
UPDATE attempts SET cost_source = CASE runner WHEN 'shell' THEN 'free' ELSE 'list-price' END WHERE cost_usd IS NOT NULL;
";

/// Where the database lies.
pub(super) fn path(state_dir: &Utf8Path) -> Utf8PathBuf {
    state_dir.join("dispatch.db")
}

/// Opens the database, making folder, file and tables if they are missing.
pub(super) fn open(state_dir: &Utf8Path) -> Result<Connection, StoreError> {
    create_private_dir(state_dir)?;
    let kind = rustix::fs::statfs(state_dir.as_std_path())
        .map_err(|error| FileError::at("cannot look at the file system of", state_dir)(error.into()))?;
    // The magic numbers have 32 bits; the field is as wide as the platform likes.
    if let Some(kind) = refused_file_system(kind.f_type as u32) {
        return Err(StoreError::FileSystem { dir: state_dir.to_owned(), kind });
    }
    let path = path(state_dir);
    create_private(&path)?;
    let doing = "cannot open the database";
    let mut connection = Connection::open_with_flags(
        &path,
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX,
    )
    .doing(doing)?;
    connection.busy_timeout(BUSY).doing(doing)?;
    refuse_newer(&connection, &path)?;
    use_wal(&connection)?;
    connection.pragma_update(None, "synchronous", "FULL").doing(doing)?;
    connection.pragma_update(None, "foreign_keys", true).doing(doing)?;
    create_tables(&mut connection, &path)?;
    Ok(connection)
}

/// Makes an empty database for the owner alone; SQLite gives its side files the same mode.
///
/// The file gets its name after it was closed: POSIX drops all locks that a process has on a file as soon as it closes any
/// descriptor of it, and another connection of this process may have some.
fn create_private(path: &Utf8Path) -> Result<(), FileError> {
    let cannot = || FileError::at("cannot make the database", path);
    if path.exists() {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(Utf8Path::new("."));
    let closed =
        tempfile::Builder::new().prefix(".dispatch-").tempfile_in(dir).map_err(cannot())?.into_temp_path();
    match closed.persist_noclobber(path) {
        Err(lost) if lost.error.kind() != io::ErrorKind::AlreadyExists => Err(cannot()(lost.error)),
        _ => Ok(()),
    }
}

/// The name of a file system (by its 32-bit magic) on which a WAL database must not lie: its locks or its shared memory
/// do not hold between hosts, or are only as good as the program behind it. `None` = fine.
pub fn refused_file_system(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_6969 => "nfs",
        0x0000_517b | 0xff53_4d42 | 0xfe53_4d42 => "smb",
        0x6573_5546 => "fuse",
        0x0102_1997 => "9p",
        0x00c3_6400 => "ceph",
        0x5346_414f | 0x6b41_4653 => "afs",
        0x7375_7245 => "coda",
        0x0000_564c => "ncp",
        0x0bd0_0bd0 => "lustre",
        0x4750_4653 => "gpfs",
        0x0116_1970 => "gfs2",
        0x7461_636f => "ocfs2",
        0x2003_0528 => "orangefs",
        0x1983_0326 => "beegfs",
        0x786f_4256 => "vboxsf",
        0x7c7c_6673 => "prl_fs",
        0xbacb_acbc => "vmhgfs",
        _ => return None,
    })
}

/// A value as JSON text.
pub(super) fn json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Damaged { what: error.to_string() })
}

/// SQLite's integers are signed: what an agent claims beyond that counts as the largest.
pub(super) fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The four columns of tokens, all set or all NULL.
pub(super) fn tokens_columns(tokens: Option<Tokens>) -> [Option<i64>; 4] {
    match tokens {
        None => [None; 4],
        Some(Tokens { input, output, cache_read, cache_write }) => {
            [input, output, cache_read, cache_write].map(|count| Some(number(count)))
        }
    }
}

fn version(connection: &Connection) -> Result<u32, StoreError> {
    connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .doing("cannot read the version of the database")
}

fn refuse_newer(connection: &Connection, path: &Utf8Path) -> Result<(), StoreError> {
    let found = version(connection)?;
    if found > SCHEMA_VERSION {
        return Err(StoreError::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION });
    }
    Ok(())
}

/// Turns WAL on; it stays on in the file. SQLite does not wait for others here, so this does.
fn use_wal(connection: &Connection) -> Result<(), StoreError> {
    let mut left = 100_u32;
    loop {
        match connection.pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get::<_, String>(0)) {
            Ok(mode) if mode.eq_ignore_ascii_case("wal") => return Ok(()),
            Ok(mode) => {
                return Err(StoreError::Damaged { what: format!("the database keeps the journal `{mode}`") });
            }
            Err(rusqlite::Error::SqliteFailure(error, _))
                if left > 0 && matches!(error.code, ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) =>
            {
                left -= 1;
                thread::sleep(Duration::from_millis(20));
            }
            Err(source) => {
                return Err(StoreError::Sqlite { doing: "cannot turn on write-ahead logging", source });
            }
        }
    }
}

/// Makes the tables of a fresh database, or brings old ones up to date; looks again inside the transaction, since another process may have been faster.
fn create_tables(connection: &mut Connection, path: &Utf8Path) -> Result<(), StoreError> {
    if version(connection)? == SCHEMA_VERSION {
        return Ok(());
    }
    let doing = "cannot make the tables";
    let write = connection.transaction_with_behavior(TransactionBehavior::Immediate).doing(doing)?;
    refuse_newer(&write, path)?;
    match version(&write)? as usize {
        0 => {
            for tables in [TABLES, PROMPTS, PUBLICATIONS, kept::TABLES] {
                write.execute_batch(tables).doing(doing)?;
            }
        }
        found => {
            for migration in MIGRATIONS[found - 1..].iter().copied().flatten() {
                write.execute_batch(migration).doing("cannot bring the tables up to date")?;
            }
        }
    }
    write.pragma_update(None, "user_version", SCHEMA_VERSION).doing(doing)?;
    write.commit().doing(doing)
}
