//! What can go wrong with the database. Messages are fragments; every one of them ends a run, for nothing may be lost.

use camino::Utf8PathBuf;

use crate::{
    name::{AttemptKey, NodeId, RunId},
    store::FileError,
};

/// Why the database gave no answer or took no row.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The state folder cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// SQLite refused: disk full, locked for too long, damaged.
    #[error("{doing}: {source}")]
    Sqlite {
        /// What was tried.
        doing: &'static str,
        /// Why.
        source: rusqlite::Error,
    },
    /// A newer kew wrote it.
    #[error(
        "`{path}` was written by a newer kew (its schema is {found}, this kew knows up to {known}); use that kew, or another `[state] dir`"
    )]
    Newer {
        /// The database.
        path: Utf8PathBuf,
        /// Its schema version.
        found: u32,
        /// Ours.
        known: u32,
    },
    /// The folder lies where file locks or shared memory cannot be trusted.
    #[error(
        "the state folder `{dir}` is on a {kind} file system, where a database may lose data; set `[state] dir` to a folder on a local disk"
    )]
    FileSystem {
        /// The folder.
        dir: Utf8PathBuf,
        /// `nfs`, `fuse`, …
        kind: &'static str,
    },
    /// No run has this id, or one that starts so.
    #[error("no run `{asked}`")]
    NoRun {
        /// What was asked for.
        asked: String,
    },
    /// More than one run starts so.
    #[error("`{asked}` is the start of {} runs: {}", candidates.len(), backticked(candidates))]
    Ambiguous {
        /// What was asked for.
        asked: String,
        /// Runs that start so, oldest first.
        candidates: Vec<RunId>,
    },
    /// The run has no such node.
    #[error("run `{run}` has no node `{node}`")]
    NoNode {
        /// The run.
        run: RunId,
        /// What was asked for.
        node: NodeId,
    },
    /// The node has no such attempt.
    #[error("no attempt `{key}`")]
    NoAttempt {
        /// What was asked for.
        key: AttemptKey,
    },
    /// A run with this id is there already.
    #[error("run `{run}` exists already")]
    RunExists {
        /// The run.
        run: RunId,
    },
    /// The run has ended.
    #[error("run `{run}` has ended already")]
    RunEnded {
        /// The run.
        run: RunId,
    },
    /// The attempt has ended, or a later one has begun: its results come too late.
    #[error("attempt `{key}` has ended already")]
    AttemptEnded {
        /// The attempt.
        key: AttemptKey,
    },
    /// An earlier attempt of the node is still open.
    #[error("attempt `{key}` has not ended yet")]
    AttemptOpen {
        /// The open one.
        key: AttemptKey,
    },
    /// The attempt is not the next one.
    #[error("attempt `{key}` is out of order, the next one is {next}")]
    AttemptOrder {
        /// The attempt.
        key: AttemptKey,
        /// The number that it should have.
        next: u32,
    },
    /// A verdict was handed over with another attempt's end.
    #[error("a verdict of `{verdict}` came with the end of `{key}`")]
    ForeignVerdict {
        /// The attempt that ends.
        key: AttemptKey,
        /// The attempt that the verdict names.
        verdict: AttemptKey,
    },
    /// A row does not read back as what it should be.
    #[error("the state is damaged: {what}")]
    Damaged {
        /// Which column, and why.
        what: String,
    },
}

fn backticked(runs: &[RunId]) -> String {
    runs.iter().map(|run| format!("`{run}`")).collect::<Vec<_>>().join(", ")
}

/// Says what was tried when SQLite refuses.
pub(super) trait Doing<T> {
    fn doing(self, doing: &'static str) -> Result<T, StoreError>;
}

impl<T> Doing<T> for rusqlite::Result<T> {
    fn doing(self, doing: &'static str) -> Result<T, StoreError> {
        self.map_err(|source| StoreError::Sqlite { doing, source })
    }
}
