//! Questions to the database. Every answer is read inside one transaction, so it shows one moment of a running run.

use rusqlite::{Connection, Row, params};

use super::{Store, StoreError, error::Doing as _, kept, last_attempt, schema::number};
use crate::{
    egress::Refused,
    event::{RunEvent, Stamped},
    name::{AttemptKey, BadName, CommitId, EpicName, NodeId, RunId},
    record::{AttemptEnd, AttemptStart, FrozenPrompt, NodeStart, NodeState, RunEnd, RunStart, VerdictRow},
    store::rows::{AttemptDetail, NodeDetail, RunDetail, RunSummary, StateCounts},
    stream::{CostSource, Tokens},
};

/// Most candidates that an ambiguous prefix lists.
const CANDIDATES: i64 = 10;

impl Store {
    /// All runs, oldest first.
    pub fn runs(&self) -> Result<Vec<RunSummary>, StoreError> {
        let doing = "cannot list the runs";
        let read = self.connection.unchecked_transaction().doing(doing)?;
        let mut runs = collect(
            &read,
            doing,
            "SELECT run, epic, status, started, ended FROM runs ORDER BY started, run",
            [],
            |row| {
                Ok(RunSummary {
                    run: name(row, "run", RunId::new)?,
                    epic: row.get("epic")?,
                    status: row.get("status")?,
                    started: row.get("started")?,
                    ended: row.get("ended")?,
                    counts: StateCounts::default(),
                    tokens: None,
                    cost_usd: None,
                    not_billed_usd: None,
                    at_least: false,
                })
            },
        )?;
        for run in &mut runs {
            let id = run.run.as_str();
            let states = collect(&read, doing, "SELECT state FROM nodes WHERE run = ?1", [id], state)?;
            run.counts = states.into_iter().collect();
            let spent = collect(&read, doing, "SELECT * FROM attempts WHERE run = ?1", [id], |row| {
                Ok((tokens(row)?, row.get::<_, Option<f64>>("cost_usd")?, cost_source(row)?))
            })?;
            for (tokens, usd, source) in spent {
                if let Some(tokens) = tokens {
                    *run.tokens.get_or_insert_default() += tokens;
                }
                let (billed, not_billed) = source.split(usd);
                for (sum, usd) in [(&mut run.cost_usd, billed), (&mut run.not_billed_usd, not_billed)] {
                    if let Some(usd) = usd {
                        *sum.get_or_insert_default() += usd;
                    }
                }
                run.at_least |= source == CostSource::Unknown;
            }
        }
        Ok(runs)
    }

    /// The id of a run by its whole id, by a start of it that only one run has, or by `latest`.
    pub fn find_run(&self, asked: &str) -> Result<RunId, StoreError> {
        let doing = "cannot look up the run";
        let none = || StoreError::NoRun { asked: asked.to_owned() };
        let one = |row: &Row<'_>| name(row, "run", RunId::new);
        if asked.is_empty() {
            return Err(none());
        }
        if asked == "latest" {
            let latest = "SELECT run FROM runs ORDER BY started DESC, run DESC LIMIT 1";
            return collect(&self.connection, doing, latest, [], one)?.pop().ok_or_else(none);
        }
        // No LIKE: what a person types must not act as a pattern.
        let prefix = "SELECT run FROM runs WHERE substr(run, 1, length(?1)) = ?1 ORDER BY run LIMIT ?2";
        let mut found = collect(&self.connection, doing, prefix, params![asked, CANDIDATES], one)?;
        if let Some(exact) = found.iter().position(|run| run.as_str() == asked) {
            return Ok(found.swap_remove(exact));
        }
        match found.len() {
            0 => Err(none()),
            1 => Ok(found.remove(0)),
            _ => Err(StoreError::Ambiguous { asked: asked.to_owned(), candidates: found }),
        }
    }

    /// A whole run, found as by [`Store::find_run`].
    pub fn run(&self, asked: &str) -> Result<RunDetail, StoreError> {
        let doing = "cannot read the run";
        let read = self.connection.unchecked_transaction().doing(doing)?;
        let id = self.find_run(asked)?;
        let (mut start, end) =
            collect(&read, doing, "SELECT * FROM runs WHERE run = ?1", [id.as_str()], run)?
                .pop()
                .ok_or_else(|| StoreError::NoRun { asked: asked.to_owned() })?;
        let nodes = "SELECT * FROM nodes WHERE run = ?1 ORDER BY position";
        let (starts, mut nodes): (Vec<_>, Vec<_>) =
            collect(&read, doing, nodes, [id.as_str()], node)?.into_iter().unzip();
        start.nodes = starts;
        let refused = refused(&read, &id)?;
        let prompts = "SELECT asked, path, text FROM prompts WHERE run = ?1 ORDER BY asked";
        start.prompts = collect(&read, doing, prompts, [id.as_str()], |row| {
            Ok(FrozenPrompt { asked: row.get("asked")?, path: row.get("path")?, text: row.get("text")? })
        })?;
        for detail in &mut nodes {
            detail.attempts = attempts(&read, &id, &detail.node)?;
            for attempt in &mut detail.attempts {
                let of = |(node, number, _): &&(NodeId, u32, Vec<Refused>)| {
                    *node == detail.node && *number == attempt.start.key.attempt
                };
                attempt.refused =
                    refused.iter().find(of).map(|(.., hosts)| hosts.clone()).unwrap_or_default();
            }
        }
        let publications = self.publications(&id)?;
        Ok(RunDetail { start, end, nodes, publications })
    }

    /// The number that the node's next attempt has: 1 + the last one ever started.
    pub fn next_attempt(&self, run: &RunId, node: &NodeId) -> Result<u32, StoreError> {
        last_attempt(&self.connection, run, node).map(|last| last.saturating_add(1))
    }

    /// Kept events of a run with a sequence number above `after`, in order.
    pub fn events(&self, run: &RunId, after: u64) -> Result<Vec<Stamped>, StoreError> {
        let doing = "cannot read the events";
        let events = "SELECT json FROM events WHERE run = ?1 AND seq > ?2 ORDER BY seq";
        let lines = collect(&self.connection, doing, events, params![run.as_str(), number(after)], |row| {
            row.get::<_, String>("json")
        })?;
        lines
            .iter()
            .map(|line| {
                serde_json::from_str(line)
                    .map_err(|error| StoreError::Damaged { what: format!("an event of `{run}`: {error}") })
            })
            .collect()
    }

    /// The sequence number that the run's next event has.
    pub fn next_seq(&self, run: &RunId) -> Result<u64, StoreError> {
        let last: Option<i64> = self
            .connection
            .query_row("SELECT max(seq) FROM events WHERE run = ?1", [run.as_str()], |row| row.get(0))
            .doing("cannot read the events")?;
        Ok(last.map_or(1, |last| last.unsigned_abs().saturating_add(1)))
    }
}

/// What the attempts of a run asked for in vain, as its events tell.
fn refused(read: &Connection, run: &RunId) -> Result<Vec<(NodeId, u32, Vec<Refused>)>, StoreError> {
    let sql = "SELECT json FROM events WHERE run = ?1 AND instr(json, '\"node-refused\"') > 0 ORDER BY seq";
    let lines =
        collect(read, "cannot read the events", sql, [run.as_str()], |row| row.get::<_, String>("json"))?;
    // A line that cannot be read was written by another kew, and is only shown.
    let told = lines.iter().filter_map(|line| match serde_json::from_str::<Stamped>(line).ok()?.event {
        RunEvent::NodeRefused { node, attempt, hosts, .. } => Some((node, attempt, hosts)),
        _ => None,
    });
    Ok(told.collect())
}

fn attempts(read: &Connection, run: &RunId, node: &NodeId) -> Result<Vec<AttemptDetail>, StoreError> {
    let sql = "SELECT * FROM attempts LEFT JOIN
                 (SELECT run AS v_run, node AS v_node, attempt AS v_attempt, subject, commit_id, verdict,
                         summary AS v_summary, findings_json, digest, time FROM verdicts)
                 ON v_run = run AND v_node = node AND v_attempt = attempt
               WHERE run = ?1 AND node = ?2 ORDER BY attempt";
    let mut kept = kept::of_node(read, run, node)?;
    collect(read, "cannot read the attempts", sql, params![run.as_str(), node.as_str()], |row| {
        let key = AttemptKey { run: run.clone(), node: node.clone(), attempt: row.get("attempt")? };
        Ok(AttemptDetail {
            start: attempt_start(row, &key)?,
            end: attempt_end(row, &key)?,
            verdict: verdict(row, &key)?,
            refused: Vec::new(),
            kept: kept.remove(&key.attempt).unwrap_or_default(),
        })
    })
}

fn run(row: &Row<'_>) -> rusqlite::Result<(RunStart, Option<RunEnd>)> {
    let run = name(row, "run", RunId::new)?;
    let ended: Option<i64> = row.get("ended")?;
    let end = match ended {
        None => None,
        Some(ended) => Some(RunEnd {
            run: run.clone(),
            status: row.get("status")?,
            exit_code: row.get("exit_code")?,
            ended,
        }),
    };
    let start = RunStart {
        run,
        epic: name(row, "epic", EpicName::new)?,
        plan_path: row.get("plan_path")?,
        plan_text: row.get("plan_text")?,
        settings_json: row.get("settings_json")?,
        digest: row.get("digest")?,
        base: name(row, "base", CommitId::new)?,
        network: row.get("network")?,
        owner: row.get("owner")?,
        started: row.get("started")?,
        nodes: Vec::new(),
        prompts: Vec::new(),
    };
    Ok((start, end))
}

fn node(row: &Row<'_>) -> rusqlite::Result<(NodeStart, NodeDetail)> {
    let id = name(row, "node", NodeId::new)?;
    let start = NodeStart {
        node: id.clone(),
        runner: row.get("runner")?,
        model: row.get("model")?,
        image: row.get("image")?,
        image_id: row.get("image_id")?,
        reviews: optional_name(row, "reviews", NodeId::new)?,
        commits: json(row, "commits")?,
        needs: json(row, "needs")?,
    };
    let detail = NodeDetail {
        node: id,
        state: state(row)?,
        reason: row.get("reason")?,
        attempt: row.get("attempt")?,
        round: row.get("round")?,
        tries: row.get("tries")?,
        attempts: Vec::new(),
    };
    Ok((start, detail))
}

fn attempt_start(row: &Row<'_>, key: &AttemptKey) -> rusqlite::Result<AttemptStart> {
    Ok(AttemptStart {
        key: key.clone(),
        round: row.get("round")?,
        tries: row.get("tries")?,
        runner: row.get("runner")?,
        model: row.get("model")?,
        image_id: row.get("image_id")?,
        container: row.get("container")?,
        prompt_digest: row.get("prompt_digest")?,
        started: row.get("started")?,
    })
}

fn attempt_end(row: &Row<'_>, key: &AttemptKey) -> rusqlite::Result<Option<AttemptEnd>> {
    let Some(ended) = row.get("ended")? else { return Ok(None) };
    Ok(Some(AttemptEnd {
        key: key.clone(),
        ended,
        input: optional_name(row, "input", CommitId::new)?,
        head: optional_name(row, "head", CommitId::new)?,
        commits: row.get("commits")?,
        outcome: row.get("outcome")?,
        reason: row.get("reason")?,
        exit: row.get("exit")?,
        session: row.get("session")?,
        model_reported: row.get("model_reported")?,
        tokens: tokens(row)?,
        cost_usd: row.get("cost_usd")?,
        cost_source: cost_source(row)?,
        summary: row.get("summary")?,
    }))
}

fn verdict(row: &Row<'_>, key: &AttemptKey) -> rusqlite::Result<Option<VerdictRow>> {
    let Some(subject) = optional_name(row, "subject", NodeId::new)? else { return Ok(None) };
    Ok(Some(VerdictRow {
        key: key.clone(),
        subject,
        commit: name(row, "commit_id", CommitId::new)?,
        verdict: row.get("verdict")?,
        summary: row.get("v_summary")?,
        findings_json: row.get("findings_json")?,
        digest: row.get("digest")?,
        time: row.get("time")?,
    }))
}

fn tokens(row: &Row<'_>) -> rusqlite::Result<Option<Tokens>> {
    let count = |column| {
        row.get::<_, Option<i64>>(column).map(|count| count.map(|count| u64::try_from(count).unwrap_or(0)))
    };
    let Some(input) = count("tokens_input")? else { return Ok(None) };
    Ok(Some(Tokens {
        input,
        output: count("tokens_output")?.unwrap_or(0),
        cache_read: count("tokens_cache_read")?.unwrap_or(0),
        cache_write: count("tokens_cache_write")?.unwrap_or(0),
    }))
}

fn cost_source(row: &Row<'_>) -> rusqlite::Result<CostSource> {
    let word: Option<String> = row.get("cost_source")?;
    // A number that is not there has no source, whatever is written beside it.
    let known = row.get::<_, Option<f64>>("cost_usd")?.is_some();
    Ok(word.filter(|_| known).map_or(CostSource::Unknown, |word| CostSource::of_word(&word)))
}

fn state(row: &Row<'_>) -> rusqlite::Result<NodeState> {
    let word: String = row.get("state")?;
    StateCounts::ORDER
        .into_iter()
        .find(|state| state.word() == word)
        .ok_or_else(|| damaged(row, "state", format!("`{word}` is no state")))
}

pub(super) fn name<T>(
    row: &Row<'_>,
    column: &str,
    check: fn(String) -> Result<T, BadName>,
) -> rusqlite::Result<T> {
    check(row.get(column)?).map_err(|error| damaged(row, column, error))
}

fn optional_name<T>(
    row: &Row<'_>,
    column: &str,
    check: fn(String) -> Result<T, BadName>,
) -> rusqlite::Result<Option<T>> {
    let Some(text) = row.get(column)? else { return Ok(None) };
    check(text).map(Some).map_err(|error| damaged(row, column, error))
}

fn json<T: serde::de::DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    serde_json::from_str(&text).map_err(|error| damaged(row, column, error))
}

pub(super) fn damaged(
    row: &Row<'_>,
    column: &str,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    let index = row.as_ref().column_index(column).unwrap_or(0);
    rusqlite::Error::FromSqlConversionFailure(index, rusqlite::types::Type::Text, error.into())
}

pub(super) fn collect<T>(
    read: &Connection,
    doing: &'static str,
    sql: &str,
    params: impl rusqlite::Params,
    map: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = read.prepare(sql).doing(doing)?;
    let rows = statement.query_map(params, map).doing(doing)?.collect::<rusqlite::Result<Vec<T>>>();
    rows.map_err(|source| match source {
        rusqlite::Error::FromSqlConversionFailure(_, _, why) => {
            StoreError::Damaged { what: format!("{doing}: {why}") }
        }
        source => StoreError::Sqlite { doing, source },
    })
}
