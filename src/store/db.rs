//! The database: the one truth about runs, nodes, attempts, verdicts and events.
//!
//! Each step of a run is one transaction, taken with `BEGIN IMMEDIATE`. Writing is in this file, reading in `read`, tables
//! and opening in `schema`. Invariant (the fence): attempts of a node are numbered without gaps, at most one is open, an
//! attempt ends once, and only the last one may end.

mod error;
mod kept;
mod publications;
mod read;
mod schema;

use camino::Utf8Path;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, named_params, params};

use self::{
    error::Doing as _,
    schema::{number, tokens_columns},
};
pub use self::{
    error::StoreError,
    schema::{SCHEMA_VERSION, refused_file_system},
};
use crate::{
    event::{RunEvent, Stamped},
    name::{AttemptKey, NodeId, RunId},
    record::{AttemptEnd, AttemptStart, NodeState, RunEnd, RunStart, VerdictRow},
};

/// An open database. One per thread; several processes may have one open.
#[derive(Debug)]
pub struct Store {
    connection: Connection,
}

impl Store {
    /// Opens the database of a state folder; makes folder and database if they are missing.
    pub fn open(state_dir: &Utf8Path) -> Result<Self, StoreError> {
        schema::open(state_dir).map(|connection| Self { connection })
    }

    /// Like [`Store::open`], but `None` if there is no database yet; makes nothing.
    pub fn open_existing(state_dir: &Utf8Path) -> Result<Option<Self>, StoreError> {
        if !schema::path(state_dir).exists() {
            return Ok(None);
        }
        Self::open(state_dir).map(Some)
    }

    /// Writes down a run and all its nodes, each waiting.
    pub fn start_run(&mut self, start: &RunStart) -> Result<(), StoreError> {
        let doing = "cannot record the start of the run";
        let write = self.begin(doing)?;
        if run_ended(&write, &start.run)?.is_some() {
            return Err(StoreError::RunExists { run: start.run.clone() });
        }
        write
            .execute(
                "INSERT INTO runs (run, epic, plan_path, plan_text, settings_json, digest, base, network, owner, started)
                 VALUES (:run, :epic, :plan_path, :plan_text, :settings_json, :digest, :base, :network, :owner, :started)",
                named_params! {
                    ":run": start.run.as_str(), ":epic": start.epic.as_str(), ":plan_path": start.plan_path,
                    ":plan_text": start.plan_text, ":settings_json": start.settings_json, ":digest": start.digest,
                    ":base": start.base.as_str(), ":network": start.network, ":owner": start.owner,
                    ":started": start.started,
                },
            )
            .doing(doing)?;
        for (position, node) in start.nodes.iter().enumerate() {
            write
                .execute(
                    "INSERT INTO nodes (run, node, position, runner, model, image, image_id, reviews, commits, needs, state)
                     VALUES (:run, :node, :position, :runner, :model, :image, :image_id, :reviews, :commits, :needs, :state)",
                    named_params! {
                        ":run": start.run.as_str(), ":node": node.node.as_str(), ":position": number(position as u64),
                        ":runner": node.runner, ":model": node.model, ":image": node.image,
                        ":image_id": node.image_id, ":reviews": node.reviews.as_ref().map(NodeId::as_str),
                        ":commits": schema::json(&node.commits)?, ":needs": schema::json(&node.needs)?,
                        ":state": NodeState::Waiting.word(),
                    },
                )
                .doing(doing)?;
        }
        for prompt in &start.prompts {
            write
                .execute(
                    "INSERT INTO prompts (run, asked, path, text) VALUES (?1, ?2, ?3, ?4)",
                    params![start.run.as_str(), prompt.asked, prompt.path, prompt.text],
                )
                .doing(doing)?;
        }
        write.commit().doing(doing)
    }

    /// Takes up an ended or abandoned run again, under a new owner: it counts as not ended.
    pub fn reopen_run(&mut self, run: &RunId, owner: &str) -> Result<(), StoreError> {
        let doing = "cannot record that the run goes on";
        let write = self.begin(doing)?;
        let changed = write
            .execute(
                "UPDATE runs SET owner = ?2, status = NULL, exit_code = NULL, ended = NULL WHERE run = ?1",
                params![run.as_str(), owner],
            )
            .doing(doing)?;
        if changed == 0 {
            return Err(StoreError::NoRun { asked: run.to_string() });
        }
        write.commit().doing(doing)
    }

    /// Writes down that an attempt begins, and that its node runs. Its number must be [`Store::next_attempt`].
    pub fn start_attempt(&mut self, start: &AttemptStart) -> Result<(), StoreError> {
        let doing = "cannot record the start of the attempt";
        let write = self.begin(doing)?;
        let AttemptKey { run, node, attempt } = &start.key;
        if run_ended(&write, run)? == Some(true) {
            return Err(StoreError::RunEnded { run: run.clone() });
        }
        let last = last_attempt(&write, run, node)?;
        if *attempt != last.saturating_add(1) {
            return Err(StoreError::AttemptOrder { key: start.key.clone(), next: last.saturating_add(1) });
        }
        let open: Option<u32> = write
            .query_row(
                "SELECT attempt FROM attempts WHERE run = ?1 AND node = ?2 AND ended IS NULL",
                params![run.as_str(), node.as_str()],
                |row| row.get(0),
            )
            .optional()
            .doing(doing)?;
        if let Some(open) = open {
            return Err(StoreError::AttemptOpen { key: AttemptKey { attempt: open, ..start.key.clone() } });
        }
        write
            .execute(
                "INSERT INTO attempts
                   (run, node, attempt, round, tries, runner, model, image_id, container, prompt_digest, started)
                 VALUES
                   (:run, :node, :attempt, :round, :tries, :runner, :model, :image_id, :container, :prompt_digest, :started)",
                named_params! {
                    ":run": run.as_str(), ":node": node.as_str(), ":attempt": attempt, ":round": start.round,
                    ":tries": start.tries, ":runner": start.runner, ":model": start.model,
                    ":image_id": start.image_id, ":container": start.container,
                    ":prompt_digest": start.prompt_digest, ":started": start.started,
                },
            )
            .doing(doing)?;
        write
            .execute(
                "UPDATE nodes SET state = ?3, reason = NULL, attempt = ?4, round = ?5, tries = ?6
                 WHERE run = ?1 AND node = ?2",
                params![
                    run.as_str(),
                    node.as_str(),
                    NodeState::Running.word(),
                    attempt,
                    start.round,
                    start.tries
                ],
            )
            .doing(doing)?;
        write.commit().doing(doing)
    }

    /// Writes down how an attempt ended, its verdict if it brought one, and where its node stands now.
    ///
    /// An attempt that ended already, or that is not its node's last, is an error and changes nothing.
    pub fn end_attempt(
        &mut self,
        end: &AttemptEnd,
        state: NodeState,
        verdict: Option<&VerdictRow>,
    ) -> Result<(), StoreError> {
        let doing = "cannot record the end of the attempt";
        if let Some(verdict) = verdict.filter(|verdict| verdict.key != end.key) {
            return Err(StoreError::ForeignVerdict { key: end.key.clone(), verdict: verdict.key.clone() });
        }
        let write = self.begin(doing)?;
        let AttemptKey { run, node, attempt } = &end.key;
        fence(&write, &end.key)?;
        let [input, output, cache_read, cache_write] = tokens_columns(end.tokens);
        write
            .execute(
                "UPDATE attempts SET
                   ended = :ended, input = :input, head = :head, commits = :commits, outcome = :outcome,
                   reason = :reason, exit = :exit, session = :session, model_reported = :model_reported,
                   tokens_input = :tokens_input, tokens_output = :tokens_output,
                   tokens_cache_read = :tokens_cache_read, tokens_cache_write = :tokens_cache_write,
                   cost_usd = :cost_usd, cost_source = :cost_source, summary = :summary
                 WHERE run = :run AND node = :node AND attempt = :attempt",
                named_params! {
                    ":run": run.as_str(), ":node": node.as_str(), ":attempt": attempt, ":ended": end.ended,
                    ":input": end.input.as_ref().map(AsRef::<str>::as_ref),
                    ":head": end.head.as_ref().map(AsRef::<str>::as_ref), ":commits": end.commits,
                    ":outcome": end.outcome, ":reason": end.reason, ":exit": end.exit, ":session": end.session,
                    ":model_reported": end.model_reported, ":tokens_input": input, ":tokens_output": output,
                    ":tokens_cache_read": cache_read, ":tokens_cache_write": cache_write,
                    ":cost_usd": end.cost_usd.filter(|usd| usd.is_finite()), ":summary": end.summary,
                    ":cost_source": end.cost_source.word(),
                },
            )
            .doing(doing)?;
        set_node(&write, run, node, state, end.reason.as_deref())?;
        if let Some(verdict) = verdict {
            write
                .execute(
                    "INSERT INTO verdicts
                       (run, node, attempt, subject, commit_id, verdict, summary, findings_json, digest, time)
                     VALUES
                       (:run, :node, :attempt, :subject, :commit, :verdict, :summary, :findings, :digest, :time)",
                    named_params! {
                        ":run": run.as_str(), ":node": node.as_str(), ":attempt": attempt,
                        ":subject": verdict.subject.as_str(), ":commit": verdict.commit.as_str(),
                        ":verdict": verdict.verdict, ":summary": verdict.summary,
                        ":findings": verdict.findings_json, ":digest": verdict.digest, ":time": verdict.time,
                    },
                )
                .doing(doing)?;
        }
        write.commit().doing(doing)
    }

    /// Moves a node without an attempt of its own: skipped, held, waiting again.
    pub fn set_node(
        &mut self,
        run: &RunId,
        node: &NodeId,
        state: NodeState,
        reason: Option<&str>,
    ) -> Result<(), StoreError> {
        let doing = "cannot record where the node stands";
        let write = self.begin(doing)?;
        set_node(&write, run, node, state, reason)?;
        write.commit().doing(doing)
    }

    /// Writes down how a run ended. A second end is an error, unless it was reopened.
    pub fn end_run(&mut self, end: &RunEnd) -> Result<(), StoreError> {
        let doing = "cannot record the end of the run";
        let write = self.begin(doing)?;
        match run_ended(&write, &end.run)? {
            None => return Err(StoreError::NoRun { asked: end.run.to_string() }),
            Some(true) => return Err(StoreError::RunEnded { run: end.run.clone() }),
            Some(false) => {}
        }
        write
            .execute(
                "UPDATE runs SET status = ?2, exit_code = ?3, ended = ?4 WHERE run = ?1",
                params![end.run.as_str(), end.status, end.exit_code, end.ended],
            )
            .doing(doing)?;
        write.commit().doing(doing)
    }

    /// Keeps an event. Progress and heartbeats are never kept.
    pub fn append_event(&mut self, event: &Stamped) -> Result<(), StoreError> {
        if matches!(event.event, RunEvent::NodeProgress { .. } | RunEvent::Heartbeat { .. }) {
            return Ok(());
        }
        let doing = "cannot record the event";
        let json = schema::json(event)?;
        let write = self.begin(doing)?;
        write
            .execute(
                "INSERT INTO events (run, seq, time, json) VALUES (?1, ?2, ?3, ?4)",
                params![event.run.as_str(), number(event.seq), event.time, json],
            )
            .doing(doing)?;
        write.commit().doing(doing)
    }

    fn begin(&mut self, doing: &'static str) -> Result<Transaction<'_>, StoreError> {
        self.connection.transaction_with_behavior(TransactionBehavior::Immediate).doing(doing)
    }
}

/// Whether the run has ended; `None` = no such run.
fn run_ended(connection: &Connection, run: &RunId) -> Result<Option<bool>, StoreError> {
    connection
        .query_row("SELECT ended IS NOT NULL FROM runs WHERE run = ?1", [run.as_str()], |row| row.get(0))
        .optional()
        .doing("cannot look up the run")
}

/// The number of the node's last attempt; 0 if it has none.
fn last_attempt(connection: &Connection, run: &RunId, node: &NodeId) -> Result<u32, StoreError> {
    connection
        .query_row(
            "SELECT (SELECT coalesce(max(attempt), 0) FROM attempts WHERE run = ?1 AND node = ?2)
             FROM nodes WHERE run = ?1 AND node = ?2",
            params![run.as_str(), node.as_str()],
            |row| row.get(0),
        )
        .optional()
        .doing("cannot look up the node")?
        .ok_or_else(|| StoreError::NoNode { run: run.clone(), node: node.clone() })
}

/// Refuses results of an attempt that has ended or has been overtaken.
fn fence(connection: &Connection, key: &AttemptKey) -> Result<(), StoreError> {
    let last = last_attempt(connection, &key.run, &key.node)?;
    let ended: Option<bool> = connection
        .query_row(
            "SELECT ended IS NOT NULL FROM attempts WHERE run = ?1 AND node = ?2 AND attempt = ?3",
            params![key.run.as_str(), key.node.as_str(), key.attempt],
            |row| row.get(0),
        )
        .optional()
        .doing("cannot look up the attempt")?;
    match ended {
        None => Err(StoreError::NoAttempt { key: key.clone() }),
        Some(true) => Err(StoreError::AttemptEnded { key: key.clone() }),
        Some(false) if key.attempt != last => Err(StoreError::AttemptEnded { key: key.clone() }),
        Some(false) => Ok(()),
    }
}

fn set_node(
    connection: &Connection,
    run: &RunId,
    node: &NodeId,
    state: NodeState,
    reason: Option<&str>,
) -> Result<(), StoreError> {
    let changed = connection
        .execute(
            "UPDATE nodes SET state = ?3, reason = ?4 WHERE run = ?1 AND node = ?2",
            params![run.as_str(), node.as_str(), state.word(), reason],
        )
        .doing("cannot record where the node stands")?;
    if changed == 0 {
        return Err(StoreError::NoNode { run: run.clone(), node: node.clone() });
    }
    Ok(())
}
