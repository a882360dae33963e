//! What a run came to: a closing table, how to get at the commits, why the others did not pass, and what it cost.
//!
//! Pure: rows in, text out. An unknown number is `–` and makes a sum "at least" (`≥`); a number that is zero by definition
//! is zero.

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    ci::defanged,
    figures::{NOT_BILLED, UNKNOWN, count, duration, tokens_in, usd_split},
    table::{Align, Table},
};
use crate::{
    egress::{self, Refused},
    name::{AttemptKey, CommitId, EpicName, NodeId, RunId},
    plan::spec::Commits,
    record::{Millis, NodeState},
    store::{AttemptFiles, NodeDetail, RunDetail, StateCounts},
    stream::Tokens,
    text::{cut, inert, plural},
};

/// Columns of a reason; the whole of it is in the state.
const REASON: usize = 400;

/// What is said of the run as a whole.
#[derive(Debug, Clone)]
pub struct SummaryHead {
    /// Its id.
    pub run: RunId,
    /// Its epic.
    pub epic: EpicName,
    /// How it ended, as in [`crate::record::RunEnd`].
    pub status: String,
    /// Wall time in milliseconds.
    pub duration_ms: Option<Millis>,
}

/// What is said of one node.
#[derive(Debug, Clone)]
pub struct SummaryRow {
    /// Its id.
    pub node: NodeId,
    /// Where it stands.
    pub state: NodeState,
    /// The last attempt's outcome; `None` = no attempt ended.
    pub outcome: Option<String>,
    /// Why (may quote agent text).
    pub reason: Option<String>,
    /// The last attempt's number; 0 = it never ran.
    pub attempt: u32,
    /// The last attempt's time in milliseconds.
    pub attempt_ms: Option<Millis>,
    /// Tokens of all attempts.
    pub tokens: Option<Tokens>,
    /// US dollars of all attempts that somebody is billed for.
    pub cost_usd: Option<f64>,
    /// What subscriptions used, at list price.
    pub not_billed_usd: Option<f64>,
    /// The cost of an attempt is unknown.
    pub cost_unknown: bool,
    /// Commits of the last attempt.
    pub commits: u32,
    /// The branch that its commits are meant for.
    pub branch: String,
    /// The ref that keeps its commits.
    pub git_ref: Option<String>,
    /// The command that shows what is kept of the last attempt, if it did not pass and left something.
    pub kept: Option<String>,
    /// How many artifacts the last attempt left.
    pub artifacts: usize,
    /// The last attempt's log.
    pub log: Option<Utf8PathBuf>,
    /// Nodes that it waits for.
    pub waits_for: Vec<NodeId>,
    /// Hosts that its last attempt asked for in vain.
    pub refused: Vec<Refused>,
}

/// The ref that keeps an attempt's commits.
pub(super) fn node_ref(key: &AttemptKey) -> String {
    crate::git::refs::node(key).to_string()
}

/// The command that shows what is kept of an attempt that did not pass.
pub(super) fn kept_work(input: &CommitId, key: &AttemptKey) -> String {
    format!("git diff {}..{}", input.short(), crate::git::refs::wip(key))
}

/// Head and rows of a run as the state has it.
pub fn of(run: &RunDetail, state_dir: &Utf8Path) -> (SummaryHead, Vec<SummaryRow>) {
    let head = SummaryHead {
        run: run.start.run.clone(),
        epic: run.start.epic.clone(),
        status: run.end.as_ref().map_or("not ended".into(), |end| end.status.clone()),
        duration_ms: run.end.as_ref().map(|end| end.ended - run.start.started),
    };
    let passed = |node: &NodeId| run.node(node).is_some_and(|node| node.state == NodeState::Passed);
    let rows = run.each().map(|(start, node)| {
        let waits = matches!(node.state, NodeState::Waiting | NodeState::Held);
        SummaryRow {
            branch: format!("kew/{}/{}", run.start.epic, node.node),
            waits_for: start.needs.iter().filter(|need| waits && !passed(need)).cloned().collect(),
            ..row(node, start.commits, state_dir)
        }
    });
    (head, rows.collect())
}

fn row(node: &NodeDetail, expected: Commits, state_dir: &Utf8Path) -> SummaryRow {
    let last = node.attempts.last();
    let end = last.and_then(|attempt| attempt.end.as_ref());
    let commits = end.map_or(0, |end| end.commits);
    let (cost_usd, cost_unknown) = node.cost_usd();
    let keeps = commits > 0 && expected != Commits::Forbidden;
    SummaryRow {
        node: node.node.clone(),
        state: node.state,
        outcome: end.map(|end| end.outcome.clone()),
        reason: node.reason.clone(),
        attempt: node.attempt,
        attempt_ms: end.zip(last).map(|(end, last)| end.ended - last.start.started),
        tokens: node.tokens(),
        cost_usd,
        not_billed_usd: node.not_billed_usd(),
        cost_unknown,
        commits,
        branch: String::new(),
        git_ref: end.filter(|_| keeps).map(|end| node_ref(&end.key)),
        kept: last
            .filter(|last| last.kept.work.is_some())
            .and_then(|last| Some(kept_work(end?.input.as_ref()?, &last.start.key))),
        artifacts: last.map_or(0, |last| last.kept.artifacts.len()),
        log: last.map(|last| AttemptFiles::new(state_dir, &last.start.key).stdout()),
        waits_for: Vec::new(),
        refused: last.map(|last| last.refused.clone()).unwrap_or_default(),
    }
}

/// The text, with a newline at its end.
pub fn summary(head: &SummaryHead, rows: &[SummaryRow]) -> String {
    let mut lines = table(head, rows);
    let mut section = |section: Vec<String>| {
        if !section.is_empty() {
            lines.push(String::new());
            lines.extend(section);
        }
    };
    section(switches(rows));
    section(rows.iter().filter(|row| row.state != NodeState::Passed).flat_map(stopped).collect());
    section(refused(rows));
    section(artifacts(head, rows));
    section(vec![closing(head, rows)]);
    lines.iter().map(|line| format!("{}\n", defanged(line))).collect()
}

fn table(head: &SummaryHead, rows: &[SummaryRow]) -> Vec<String> {
    let mut table = Table::new([
        ("node", Align::Left),
        ("outcome", Align::Left),
        ("time", Align::Right),
        ("in", Align::Right),
        ("out", Align::Right),
        ("cost", Align::Right),
        ("commits", Align::Right),
    ]);
    let counts = |tokens: Option<Tokens>| match tokens {
        None => [UNKNOWN.to_owned(), UNKNOWN.to_owned()],
        Some(tokens) => [count(tokens_in(tokens)), count(tokens.output)],
    };
    for row in rows {
        let [input, output] = counts(row.tokens);
        table.row([
            row.node.to_string(),
            outcome(row),
            row.attempt_ms.map_or(UNKNOWN.into(), duration),
            input,
            output,
            usd_split(row.cost_usd, row.cost_unknown, row.not_billed_usd, NOT_BILLED),
            if row.attempt == 0 { UNKNOWN.into() } else { row.commits.to_string() },
        ]);
    }
    let (tokens, cost_usd, at_least) = spent(rows);
    let [input, output] = counts(tokens);
    table.row([
        "total".into(),
        plural(rows.len(), "node"),
        head.duration_ms.map_or(UNKNOWN.into(), duration),
        input,
        output,
        usd_split(cost_usd, at_least, sum(rows.iter().map(|row| row.not_billed_usd)), NOT_BILLED),
        rows.iter().map(|row| u64::from(row.commits)).sum::<u64>().to_string(),
    ]);
    table.lines()
}

/// Where the node stands, in a few words.
fn outcome(row: &SummaryRow) -> String {
    let mut text = row.state.word().to_owned();
    if let Some(outcome) = row.outcome.as_deref().filter(|outcome| *outcome != row.state.word()) {
        text.push_str(&format!(" ({})", cut(&inert(outcome), 40)));
    }
    if row.attempt > 1 {
        text.push_str(&format!(", attempt {}", row.attempt));
    }
    text
}

/// Of what is known; `None` if nothing is.
fn sum(of: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    of.flatten().fold(None, |sum, usd| Some(sum.unwrap_or(0.0) + usd))
}

/// Sums over all nodes, and whether the cost is at least that.
fn spent(rows: &[SummaryRow]) -> (Option<Tokens>, Option<f64>, bool) {
    let mut tokens = None;
    for row in rows {
        if let Some(used) = row.tokens {
            *tokens.get_or_insert_with(Tokens::default) += used;
        }
    }
    let cost = sum(rows.iter().map(|row| row.cost_usd));
    (tokens, cost, rows.iter().any(|row| row.cost_unknown))
}

/// For each passed node with commits, the command that makes its branch.
fn switches(rows: &[SummaryRow]) -> Vec<String> {
    let passed = rows.iter().filter(|row| row.state == NodeState::Passed);
    passed
        .filter_map(|row| {
            row.git_ref.as_ref().map(|git_ref| format!("git switch -c {} {git_ref}", row.branch))
        })
        .collect()
}

/// Why a node did not pass, where its log is, and what it waits for.
fn stopped(row: &SummaryRow) -> Vec<String> {
    let reason = row.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    let mut first = format!("{}: {}", row.node, row.state.word());
    if let Some(reason) = reason.or(row.outcome.as_deref()) {
        first.push_str(&format!(": {}", cut(&inert(reason), REASON)));
    }
    let mut lines = vec![first];
    if !row.waits_for.is_empty() {
        let needs: Vec<&str> = row.waits_for.iter().map(NodeId::as_str).collect();
        lines.push(format!("  waits for {}", needs.join(", ")));
    }
    if row.state == NodeState::Held {
        lines.push("  waits for a person".into());
    }
    lines.extend(row.kept.as_ref().map(|kept| format!("  kept: {kept}")));
    lines.extend(row.log.as_ref().map(|log| format!("  log: {}", inert(log.as_str()))));
    lines
}

/// What each node asked for in vain, and the line that would let all of it through.
fn refused(rows: &[SummaryRow]) -> Vec<String> {
    let asking = || rows.iter().filter(|row| !row.refused.is_empty());
    let mut lines: Vec<String> = asking()
        .map(|row| {
            let told = egress::told(&row.refused);
            format!("{}: its network refused {}", row.node, cut(&inert(&told), REASON))
        })
        .collect();
    let all: Vec<Refused> = asking().flat_map(|row| row.refused.iter().cloned()).collect();
    lines.extend(
        egress::advice(&all)
            .map(|add| format!("  to let them through: {} under [sandbox] in the settings", inert(&add))),
    );
    lines
}

/// How to get at artifacts, if there are any.
fn artifacts(head: &SummaryHead, rows: &[SummaryRow]) -> Vec<String> {
    let all: usize = rows.iter().map(|row| row.artifacts).sum();
    let line = || format!("{}: kew artifacts {} -o DIR", plural(all, "artifact"), head.run);
    (all > 0).then(line).into_iter().collect()
}

fn closing(head: &SummaryHead, rows: &[SummaryRow]) -> String {
    let counts: StateCounts = rows.iter().map(|row| row.state).collect();
    let counts: Vec<String> =
        counts.present().map(|(state, nodes)| format!("{nodes} {}", state.word())).collect();
    let status = inert(&head.status);
    format!("run {} of {}: {status} ({})", head.run, head.epic, counts.join(", "))
}
