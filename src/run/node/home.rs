//! What comes home beside the result: artifacts, and the work of an attempt that did not pass.
//!
//! Evidence for people, never an input. Invariant: trouble with what is kept changes no outcome. Only an attempt that passed
//! may still fail here, because it did not leave the artifacts that its plan asks for.

use super::{Attempt, AttemptShelf, Commits, Job, Kind, Outcome, Report, Trouble, of_trouble};
use crate::{record::NodeState, text::list};

pub(super) fn bring_home(
    job: &Job,
    attempt: &mut dyn Attempt,
    files: &mut dyn AttemptShelf,
    report: &mut Report,
) {
    if !job.spec.artifacts.is_empty() {
        artifacts(job, attempt, files, report);
    }
    // A reviewer's commits are dropped, and so is what it did to the tree.
    if !passed(report) && job.spec.commits != Commits::Forbidden && report.ran {
        keep(attempt, report);
    }
}

fn passed(report: &Report) -> bool {
    report.outcome.kind.state() == NodeState::Passed
}

fn artifacts(job: &Job, attempt: &mut dyn Attempt, files: &mut dyn AttemptShelf, report: &mut Report) {
    match attempt.artifacts(files) {
        Ok(brought) => {
            report.kept.artifacts = brought.files;
            report
                .warnings
                .extend(brought.left_out.into_iter().map(|why| format!("artifact left out: {why}")));
            if let (true, false, Some(_)) =
                (passed(report), job.artifacts_optional, brought.unmatched.first())
            {
                let reason = format!("artifacts: nothing matched {}", list(&brought.unmatched, "and"));
                report.outcome = Outcome::new(Kind::Failed, reason);
            }
        }
        Err(Trouble::Failed(reason)) if passed(report) && job.artifacts_optional => {
            report.warnings.push(format!("no artifacts: {reason}"));
        }
        Err(trouble) if passed(report) => {
            // A stop that came this late is no reason to call finished work unfinished by itself, but what the plan asks for
            // is not there.
            report.outcome = of_trouble(trouble);
            if let Some(reason) = &mut report.outcome.reason {
                *reason = format!("artifacts: {reason}");
            }
        }
        Err(trouble) => report.warnings.push(format!("no artifacts: {trouble}")),
    }
}

fn keep(attempt: &mut dyn Attempt, report: &mut Report) {
    match attempt.keep() {
        Ok(left) => {
            report.kept.work = left.head;
            report.kept_ref = left.git_ref;
            report.warnings.extend(left.notes);
        }
        Err(trouble) => report.warnings.push(format!("its unfinished work is not kept: {trouble}")),
    }
}
