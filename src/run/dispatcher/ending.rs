//! What the end of an attempt means for the run: what is told, what is summed up, what is held.
//!
//! Invariant: a reviewer that voted neither way never counts as passed.

use super::{Action, Dispatcher, Now};
use crate::{
    egress,
    event::RunEvent,
    outcome::{Kind, Outcome},
    plan::spec::NodeIx,
    record::NodeState,
    run::node::Report,
    sched::End,
    verdict::{Judged, Opinion},
};

impl Dispatcher<'_> {
    pub(super) fn tell_end(
        &self,
        node: NodeIx,
        report: &Report,
        state: NodeState,
        now: Now,
        follow: &mut Vec<Action>,
    ) {
        let id = self.plan.nodes[node].id.clone();
        for warning in &report.warnings {
            follow.push(Action::Tell(RunEvent::Warning { message: format!("`{id}`: {warning}") }));
        }
        if !report.egress.refused.is_empty() {
            follow.push(Action::Tell(RunEvent::NodeRefused {
                node: id.clone(),
                attempt: report.attempt,
                hosts: report.egress.refused.clone(),
                add: egress::advice(&report.egress.refused),
            }));
        }
        follow.push(Action::Tell(RunEvent::NodeEnded {
            node: id.clone(),
            attempt: report.attempt,
            state,
            outcome: report.outcome.kind.word().to_owned(),
            reason: report.outcome.reason.clone(),
            duration_ms: now.unix_ms - self.live[node].started_unix,
            tokens: report.account.tokens(),
            cost_usd: report.cost_usd(),
            cost_source: report.cost_source(),
            head: report.collected.head.as_ref().map(ToString::to_string),
            commits: report.collected.work.commits,
            git_ref: report.collected.git_ref.clone(),
            kept: report.kept_ref.clone(),
            artifacts: report.kept.artifacts.len(),
            logs: report.files.clone(),
        }));
        if let (Some((judged, _)), Some(subject)) = (&report.verdict, self.plan.nodes[node].reviews) {
            follow.push(Action::Tell(RunEvent::Verdict {
                node: id,
                subject: self.plan.nodes[subject].id.clone(),
                verdict: judged.word().to_owned(),
                summary: judged.summary(),
            }));
        }
    }
}

/// A reviewer that voted neither way never counts as passed, whatever else was said.
pub(super) fn fail_closed(report: &mut Report) {
    if report.outcome.kind.state() != NodeState::Passed {
        return;
    }
    let reason = match &report.verdict {
        Some((Judged::Approve(_) | Judged::RequestChanges(_), _)) => return,
        Some((held @ Judged::Held(_), _)) => held.summary(),
        None => "missing: no verdict was read".to_owned(),
    };
    report.outcome = Outcome::new(Kind::Held, reason);
}

/// What a reviewer asks for.
pub(super) fn asks(report: &Report) -> Option<Opinion> {
    match &report.verdict {
        Some((Judged::RequestChanges(opinion), _)) => Some(opinion.clone()),
        _ => None,
    }
}

pub(super) fn end_of(report: &Report) -> End {
    match (report.outcome.kind.state(), &report.verdict) {
        (NodeState::Passed, Some((Judged::RequestChanges(_), _))) => End::ChangesRequested,
        (NodeState::Passed, _) => End::Passed,
        (NodeState::Held, _) => End::Held,
        (NodeState::Cancelled, _) => End::Cancelled,
        _ => End::Failed,
    }
}
