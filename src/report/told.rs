//! Each event as one line for people: inert, without time or prefix. `None` for what is only drawn or counted.

use super::figures::{NOT_BILLED_LONG, duration, tokens, usd_split};
use crate::{
    egress,
    event::{RunEvent, Stamped},
    name::NodeId,
    record::NodeState,
    stream::CostSource,
    text::{cut, inert, plural},
};

/// Columns of agent text that one line holds; the whole of it is in the state.
const QUOTED: usize = 300;
/// Nodes that a heartbeat names.
const NAMED: usize = 6;

/// The line of an event.
pub fn told(event: &Stamped) -> Option<String> {
    Some(match &event.event {
        RunEvent::RunStarted { epic, base, nodes, max_parallel, network } => {
            let base = base.get(..10).unwrap_or(base);
            let (run, nodes) = (&event.run, plural(nodes.len(), "node"));
            format!(
                "run {run} of {}: {nodes}, {max_parallel} at once, base {}, network {}",
                inert(epic),
                inert(base),
                inert(network)
            )
        }
        RunEvent::RunResumed { epic, base: _, nodes, max_parallel, network, kept } => format!(
            "run {} of {} goes on: {} of {} kept, {max_parallel} at once, network {}",
            event.run,
            inert(epic),
            kept.len(),
            plural(nodes.len(), "node"),
            inert(network)
        ),
        RunEvent::Warning { message } => format!("warning: {}", quoted(message)),
        RunEvent::NodeStarted { node, attempt, runner, model, image: _ } => {
            let model = model.as_deref().map(|model| format!(", {}", inert(model))).unwrap_or_default();
            let again = if *attempt > 1 { format!(", attempt {attempt}") } else { String::new() };
            format!("{node}: started ({}{model}{again})", inert(runner))
        }
        RunEvent::NodeRefused { node, attempt: _, hosts, add } => {
            let add = add
                .as_deref()
                .map(|add| format!("; to let them through: `{}` under `[sandbox]`", inert(add)));
            format!(
                "{node}: asked for what its network refuses: {}{}",
                quoted(&egress::told(hosts)),
                add.unwrap_or_default()
            )
        }
        RunEvent::NodeEnded { .. } => ended(&event.event)?,
        RunEvent::Verdict { node, subject, verdict, summary } => {
            let verb = match verdict.as_str() {
                "approve" => format!("approves {subject}"),
                "request_changes" => format!("asks for changes in {subject}"),
                other => format!("{} on {subject}", inert(other)),
            };
            format!("{node}: {verb}{}", because(Some(summary)))
        }
        RunEvent::NodeRetries { node, tries, of, wait_ms, reason: _ } => {
            format!("{node}: try {} of {of} follows in {}", tries + 1, duration(*wait_ms))
        }
        RunEvent::Paused { credential, until, given, reason } => {
            let left = duration(until - event.time);
            let guessed = if *given { "" } else { ", guessed: the provider did not say" };
            format!(
                "rate limit of {}: paused for {left}{guessed}{}",
                inert(credential),
                because(reason.as_deref())
            )
        }
        RunEvent::RoundStarted { node, round, of, reviewers, findings, again: _ } => {
            let who = reviewers.iter().map(NodeId::as_str).collect::<Vec<_>>().join(", ");
            format!("{node}: round {round} of {of}, with {} of {who}", plural(*findings, "finding"))
        }
        RunEvent::NodeHeld { node, reason } => format!("{node}: held{}", because(Some(reason))),
        RunEvent::NodeSkipped { node, reason } => format!("{node}: skipped{}", because(Some(reason))),
        RunEvent::NodeWaiting { node, reason } => format!("{node}: waits{}", because(Some(reason))),
        RunEvent::Published { .. } | RunEvent::NothingToPublish { .. } | RunEvent::PublishFailed { .. } => {
            publishing(&event.event)?
        }
        RunEvent::Heartbeat { running } => still_running(running.iter()),
        RunEvent::RunEnded {
            status,
            exit_code,
            duration_ms,
            tokens: sum,
            cost_usd,
            not_billed_usd,
            cost_at_least,
        } => {
            let sum = sum.map(|sum| format!(", {}", tokens(sum))).unwrap_or_default();
            let cost = cost(*cost_usd, *cost_at_least, *not_billed_usd);
            format!(
                "run {}: {} after {}{sum}, {cost} (exit code {exit_code})",
                event.run,
                inert(status),
                duration(*duration_ms)
            )
        }
        RunEvent::NodeProgress { .. } => return None,
    })
}

/// `still running: a, b and 3 more`.
pub fn still_running<'a>(nodes: impl Iterator<Item = &'a NodeId>) -> String {
    let nodes: Vec<&str> = nodes.map(NodeId::as_str).collect();
    if nodes.is_empty() {
        return "still waiting, no node runs".into();
    }
    let named = nodes.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    match nodes.len().saturating_sub(NAMED) {
        0 => format!("still running: {named}"),
        more => format!("still running: {named} and {more} more"),
    }
}

fn publishing(event: &RunEvent) -> Option<String> {
    Some(match event {
        RunEvent::Published { node, branch, remote, commit, url, already } => {
            let verb = if *already { "is published already" } else { "published" };
            let url = url.as_deref().map(|url| format!(", {}", quoted(url))).unwrap_or_default();
            let commit = commit.get(..10).unwrap_or(commit);
            format!("{node}: {verb}: {} at {commit} on {}{url}", inert(branch), quoted(remote))
        }
        RunEvent::NothingToPublish { node, .. } => {
            format!("{node}: nothing to publish: no commit of its own")
        }
        RunEvent::PublishFailed { node, reason, help, .. } => {
            format!("{node}: not published: {}; help: {}", quoted(reason), quoted(help))
        }
        _ => return None,
    })
}

fn ended(event: &RunEvent) -> Option<String> {
    let RunEvent::NodeEnded {
        node,
        attempt,
        state,
        outcome,
        reason,
        duration_ms,
        tokens: used,
        cost_usd,
        cost_source,
        commits,
        ..
    } = event
    else {
        return None;
    };
    let word = match state {
        NodeState::Waiting => format!("attempt {attempt} ended ({}), another follows", inert(outcome)),
        state if state.word() == outcome => state.word().to_owned(),
        state => format!("{} ({})", state.word(), inert(outcome)),
    };
    let mut line = format!("{node}: {word}, {}", duration(*duration_ms));
    if let Some(used) = used {
        line.push_str(&format!(", {}", tokens(*used)));
    }
    let at_least = *cost_source == CostSource::Unknown;
    let (billed, not_billed) = cost_source.split(*cost_usd);
    line.push_str(&format!(", {}", cost(billed, at_least, not_billed)));
    if *commits > 0 {
        line.push_str(&format!(", {}", plural(*commits as usize, "commit")));
    }
    line.push_str(&because(reason.as_deref()));
    Some(line)
}

fn cost(billed: Option<f64>, at_least: bool, not_billed: Option<f64>) -> String {
    match (billed, not_billed) {
        (None, None) => "cost unknown".into(),
        _ => usd_split(billed, at_least, not_billed, NOT_BILLED_LONG),
    }
}

fn because(reason: Option<&str>) -> String {
    match reason.map(str::trim).filter(|reason| !reason.is_empty()) {
        None => String::new(),
        Some(reason) => format!(": {}", quoted(reason)),
    }
}

/// Agent text, or text that may quote some, as a part of a line.
fn quoted(text: &str) -> String {
    cut(&inert(text), QUOTED).into_owned()
}
