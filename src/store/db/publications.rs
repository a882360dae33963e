//! Publications: steps that are added, never changed.
//!
//! What kew pushed to a branch, in whatever run, is what a later push may replace; so a step is written before its push.
//! Deleting a run forgets its steps, after which its branches count as somebody else's.

use rusqlite::{Row, named_params, params};

use super::{
    Store, StoreError,
    error::Doing as _,
    read::{collect, damaged, name},
};
use crate::{
    name::{AttemptKey, CommitId, NodeId, RunId},
    record::{Publication, PublicationState},
};

impl Store {
    /// Writes down a step of a publication.
    pub fn add_publication(&mut self, row: &Publication) -> Result<(), StoreError> {
        let doing = "cannot record the publication";
        let write = self.begin(doing)?;
        write
            .execute(
                "INSERT INTO publications (run, node, attempt, commit_id, branch, remote, state, url, reason, time)
                 VALUES (:run, :node, :attempt, :commit, :branch, :remote, :state, :url, :reason, :time)",
                named_params! {
                    ":run": row.key.run.as_str(), ":node": row.key.node.as_str(), ":attempt": row.key.attempt,
                    ":commit": row.commit.as_str(), ":branch": row.branch, ":remote": row.remote,
                    ":state": row.state.word(), ":url": row.url, ":reason": row.reason, ":time": row.time,
                },
            )
            .doing(doing)?;
        write.commit().doing(doing)
    }

    /// All steps of a run, oldest first.
    pub fn publications(&self, run: &RunId) -> Result<Vec<Publication>, StoreError> {
        let sql = "SELECT * FROM publications WHERE run = ?1 ORDER BY id";
        collect(&self.connection, "cannot read the publications", sql, params![run.as_str()], publication)
    }

    /// The commits that kew pushed to this branch of this remote, in any run, or was about to.
    pub fn pushed(&self, remote: &str, branch: &str) -> Result<Vec<CommitId>, StoreError> {
        let sql = "SELECT DISTINCT commit_id FROM publications WHERE remote = ?1 AND branch = ?2 AND state IN (?3, ?4)";
        let states = [PublicationState::Pushing, PublicationState::Published].map(PublicationState::word);
        let params = params![remote, branch, states[0], states[1]];
        collect(&self.connection, "cannot read the publications", sql, params, |row| {
            name(row, "commit_id", CommitId::new)
        })
    }
}

fn publication(row: &Row<'_>) -> rusqlite::Result<Publication> {
    let word: String = row.get("state")?;
    let state = PublicationState::ALL.into_iter().find(|state| state.word() == word);
    Ok(Publication {
        key: AttemptKey {
            run: name(row, "run", RunId::new)?,
            node: name(row, "node", NodeId::new)?,
            attempt: row.get("attempt")?,
        },
        commit: name(row, "commit_id", CommitId::new)?,
        branch: row.get("branch")?,
        remote: row.get("remote")?,
        state: state.ok_or_else(|| damaged(row, "state", format!("`{word}` is no state")))?,
        url: row.get("url")?,
        reason: row.get("reason")?,
        time: row.get("time")?,
    })
}
