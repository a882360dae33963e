//! One run in full, for `kew show`: each node with its attempts, what they brought and cost, and the verdicts.
//!
//! Pure: rows in, text out. Texts of agents are inert, on lines that kew's own words begin.

use camino::Utf8Path;

use super::{
    ci::defanged,
    figures::{UNKNOWN, count, duration, time, usd_from},
    summary::{kept_work, node_ref},
};
use crate::{
    egress,
    name::CommitId,
    record::{AttemptEnd, NodeStart, Publication, PublicationState, VerdictRow},
    store::{AttemptDetail, AttemptFiles, NodeDetail, RunDetail},
    text::{inert, plural},
    units::show_size,
};

/// A reviewer's finding, as far as it can be read.
#[derive(serde::Deserialize)]
struct Finding {
    severity: String,
    message: String,
    path: Option<String>,
    line: Option<u64>,
}

/// The text, with a newline at its end. `alive`: somebody holds the run's lock.
pub fn show(run: &RunDetail, state_dir: &Utf8Path, alive: bool) -> String {
    let mut lines = head(run, alive);
    for (start, node) in run.each() {
        lines.push(String::new());
        lines.extend(node_lines(start, node));
        lines.extend(run.publications.iter().rfind(|row| row.key.node == node.node).map(publication));
        for attempt in &node.attempts {
            lines.extend(attempt_lines(attempt, state_dir));
        }
    }
    lines.iter().map(|line| format!("{}\n", defanged(line))).collect()
}

fn head(run: &RunDetail, alive: bool) -> Vec<String> {
    let start = &run.start;
    let status = match &run.end {
        Some(end) => format!(
            "{} (exit code {}) after {}",
            inert(&end.status),
            end.exit_code,
            duration(end.ended - start.started)
        ),
        None if alive => "running".into(),
        None => "died: nobody carries it out any more".into(),
    };
    vec![
        format!("run      {}", start.run),
        format!("epic     {}", start.epic),
        format!("status   {status}"),
        format!("started  {} UTC", time(start.started)),
        format!("plan     {}", inert(&start.plan_path)),
        format!("base     {}", start.base),
        format!(
            "network  {}{}",
            inert(&start.network),
            if start.network == "host" { " (agents were not contained)" } else { "" }
        ),
        format!("digest   {}", inert(&start.digest)),
    ]
}

fn node_lines(start: &NodeStart, node: &NodeDetail) -> Vec<String> {
    let mut lines = vec![format!("{}: {}", node.node, node.state.word())];
    lines.extend(node.reason.as_deref().map(|reason| field("reason", reason)));
    let model = start.model.as_deref().map(|model| format!(", {}", inert(model))).unwrap_or_default();
    lines.push(format!("  {:<9}{}{model}, {}", "runner", inert(&start.runner), inert(&start.image)));
    if let Some(subject) = &start.reviews {
        lines.push(field("reviews", subject.as_str()));
    }
    if !start.needs.is_empty() {
        let needs: Vec<&str> = start.needs.iter().map(AsRef::as_ref).collect();
        lines.push(field("needs", &needs.join(", ")));
    }
    lines
}

/// How far its last publication came.
fn publication(row: &Publication) -> String {
    let at = CommitId::short(&row.commit);
    let state = match row.state {
        PublicationState::Pushing => "not known whether it was pushed",
        PublicationState::Nothing => return field("publish", "nothing to publish"),
        other => other.word(),
    };
    let url = row.url.as_deref().map(|url| format!(", {url}")).unwrap_or_default();
    let reason = row.reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
    field("publish", &format!("{state}, {} at {at} on {}{url}{reason}", row.branch, row.remote))
}

fn attempt_lines(attempt: &AttemptDetail, state_dir: &Utf8Path) -> Vec<String> {
    let start = &attempt.start;
    let head = format!("  attempt {} (round {}, try {})", start.key.attempt, start.round, start.tries);
    let mut lines = Vec::new();
    match &attempt.end {
        None => lines.push(format!("{head}: not ended, started {} UTC", time(start.started))),
        Some(end) => {
            lines.push(format!("{head}: {} in {}", inert(&end.outcome), duration(end.ended - start.started)));
            lines.extend(end_lines(end).into_iter().map(|line| format!("  {line}")));
        }
    }
    if !attempt.refused.is_empty() {
        lines.push(format!("  {}", field("refused", &egress::told(&attempt.refused))));
        let add = egress::advice(&attempt.refused);
        lines.extend(add.map(|add| format!("  {}", field("to allow", &format!("{add} under [sandbox]")))));
    }
    lines.extend(kept_lines(attempt).into_iter().map(|line| format!("  {line}")));
    lines.push(format!("  {}", field("log", AttemptFiles::new(state_dir, &start.key).stdout().as_str())));
    if let Some(verdict) = &attempt.verdict {
        lines.extend(verdict_lines(verdict));
    }
    lines
}

/// How to look at what is kept beside the result.
fn kept_lines(attempt: &AttemptDetail) -> Vec<String> {
    let mut lines = Vec::new();
    let input = attempt.end.as_ref().and_then(|end| end.input.as_ref());
    if let (Some(_), Some(input)) = (&attempt.kept.work, input) {
        lines.push(field("kept", &kept_work(input, &attempt.start.key)));
    }
    let artifacts = &attempt.kept.artifacts;
    if !artifacts.is_empty() {
        let bytes = artifacts.iter().map(|artifact| artifact.size).sum();
        let files = plural(artifacts.len(), "file");
        lines.push(field(
            "files",
            &format!(
                "{files}, {}: kew artifacts {} {}",
                show_size(bytes),
                attempt.start.key.run,
                attempt.start.key.node
            ),
        ));
    }
    lines
}

fn end_lines(end: &AttemptEnd) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(end.reason.as_deref().map(|reason| field("reason", reason)));
    lines.extend(end.exit.filter(|exit| *exit != 0).map(|exit| field("exit", &exit.to_string())));
    lines.extend(end.model_reported.as_deref().map(|model| field("model", model)));
    lines.extend(end.session.as_deref().map(|session| field("session", session)));
    let tokens = end.tokens.map_or(UNKNOWN.into(), |tokens| {
        format!(
            "{} in, {} cache read, {} cache write, {} out",
            count(tokens.input),
            count(tokens.cache_read),
            count(tokens.cache_write),
            count(tokens.output)
        )
    });
    lines.push(field("tokens", &tokens));
    lines.push(field("cost", &usd_from(end.cost_usd, end.cost_source)));
    lines.extend(end.input.as_ref().map(|input| field("input", input.as_str())));
    if let Some(head) = end.head.as_ref().filter(|_| end.commits > 0) {
        lines.push(field("commits", &format!("{}, head {head}", plural(end.commits as usize, "commit"))));
        lines.push(field("ref", &node_ref(&end.key)));
    }
    lines.extend(end.summary.as_deref().map(|summary| field("summary", summary)));
    lines
}

fn verdict_lines(verdict: &VerdictRow) -> Vec<String> {
    let VerdictRow { subject, commit, .. } = verdict;
    let word = inert(&verdict.verdict);
    let mut lines = vec![format!(
        "    verdict  {word} on {subject} at {}: {}",
        CommitId::short(commit),
        inert(&verdict.summary)
    )];
    match serde_json::from_str::<Vec<Finding>>(&verdict.findings_json) {
        Ok(findings) => lines.extend(findings.iter().map(finding_line)),
        Err(_) => lines.push("      findings that cannot be read".into()),
    }
    lines
}

fn finding_line(finding: &Finding) -> String {
    let place = match (&finding.path, finding.line) {
        (Some(path), Some(line)) => format!(" {}:{line}", inert(path)),
        (Some(path), None) => format!(" {}", inert(path)),
        (None, _) => String::new(),
    };
    format!("      - {}{place}: {}", inert(&finding.severity), inert(&finding.message))
}

/// A name and a value; the value may be agent text.
fn field(name: &str, value: &str) -> String {
    format!("  {name:<9}{}", inert(value.trim()))
}
