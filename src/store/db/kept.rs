//! What is kept of attempts beside their results: the commit of one that did not pass, and its artifacts.
//!
//! Rows say where something is and what it must be; the bytes are in refs and files. They are written before their attempt
//! ends, by the same fence. Invariant: an artifact's row has the digest of the bytes that were stored.

use rusqlite::{Connection, named_params, params};

use super::{Store, StoreError, error::Doing as _, fence, read::collect, schema::number};
use crate::{
    name::{AttemptKey, CommitId, NodeId, RunId},
    record::{Artifact, Kept},
};

/// Its tables.
pub(super) const TABLES: &str = "
CREATE TABLE kept (
  run TEXT NOT NULL,
  node TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  commit_id TEXT NOT NULL,
  PRIMARY KEY (run, node, attempt),
  FOREIGN KEY (run, node, attempt) REFERENCES attempts (run, node, attempt) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE TABLE artifacts (
  run TEXT NOT NULL,
  node TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  path TEXT NOT NULL,
  size INTEGER NOT NULL,
  sha256 TEXT NOT NULL,
  PRIMARY KEY (run, node, attempt, path),
  FOREIGN KEY (run, node, attempt) REFERENCES attempts (run, node, attempt) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
";

impl Store {
    /// Writes down what is kept of an attempt that has not ended. Once.
    pub fn keep(&mut self, key: &AttemptKey, kept: &Kept) -> Result<(), StoreError> {
        let doing = "cannot record what is kept of the attempt";
        let write = self.begin(doing)?;
        fence(&write, key)?;
        let AttemptKey { run, node, attempt } = key;
        if let Some(work) = &kept.work {
            write
                .execute(
                    "INSERT INTO kept (run, node, attempt, commit_id) VALUES (?1, ?2, ?3, ?4)",
                    params![run.as_str(), node.as_str(), attempt, work.as_str()],
                )
                .doing(doing)?;
        }
        let sql = "INSERT INTO artifacts (run, node, attempt, path, size, sha256)
                   VALUES (:run, :node, :attempt, :path, :size, :sha256)";
        let mut insert = write.prepare(sql).doing(doing)?;
        for artifact in &kept.artifacts {
            insert
                .execute(named_params! {
                    ":run": run.as_str(), ":node": node.as_str(), ":attempt": attempt, ":path": artifact.path,
                    ":size": number(artifact.size), ":sha256": artifact.sha256,
                })
                .doing(doing)?;
        }
        drop(insert);
        write.commit().doing(doing)
    }
}

/// What is kept of each attempt of a node that has something, by its number.
pub(super) fn of_node(
    read: &Connection,
    run: &RunId,
    node: &NodeId,
) -> Result<std::collections::HashMap<u32, Kept>, StoreError> {
    let doing = "cannot read what is kept";
    let of = params![run.as_str(), node.as_str()];
    let mut all: std::collections::HashMap<u32, Kept> = std::collections::HashMap::new();
    let sql = "SELECT attempt, commit_id FROM kept WHERE run = ?1 AND node = ?2";
    let commits = collect(read, doing, sql, of, |row| {
        Ok((row.get::<_, u32>("attempt")?, super::read::name(row, "commit_id", CommitId::new)?))
    })?;
    for (attempt, commit) in commits {
        all.entry(attempt).or_default().work = Some(commit);
    }
    let sql = "SELECT * FROM artifacts WHERE run = ?1 AND node = ?2 ORDER BY attempt, path";
    let of = params![run.as_str(), node.as_str()];
    let artifacts = collect(read, doing, sql, of, |row| {
        let size: i64 = row.get("size")?;
        let artifact =
            Artifact { path: row.get("path")?, size: size.unsigned_abs(), sha256: row.get("sha256")? };
        Ok((row.get::<_, u32>("attempt")?, artifact))
    })?;
    for (attempt, artifact) in artifacts {
        all.entry(attempt).or_default().artifacts.push(artifact);
    }
    Ok(all)
}
