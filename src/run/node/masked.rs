//! The last look at a report before anybody keeps or shows it: credentials are taken out of every text in it.
//!
//! Logs and the sidecar are masked as they are written. What is left are texts that came another way, or only now show a
//! value: what git quotes of paths, commits and refusals, and what JSON had written in escapes. Invariant: a report leaves
//! its attempt's thread only through here.

use super::Report;
use crate::{run::ledger::Mask, verdict::Judged};

/// Masks every text of a report that an agent may have had a say in.
pub(super) fn mask_report(report: &mut Report, mask: &Mask) {
    let texts = [
        &mut report.outcome.reason,
        &mut report.summary,
        &mut report.account.session,
        &mut report.account.model,
    ];
    let in_verdict: Vec<&mut String> = match &mut report.verdict {
        Some((Judged::Approve(opinion) | Judged::RequestChanges(opinion), _)) => {
            let findings = opinion.findings.iter_mut();
            let findings =
                findings.flat_map(|finding| std::iter::once(&mut finding.message).chain(&mut finding.path));
            std::iter::once(&mut opinion.summary).chain(findings).collect()
        }
        Some((Judged::Held(held), _)) => vec![&mut held.sentence],
        None => Vec::new(),
    };
    let paths = &mut report.collected.work.dirty_paths;
    let all = texts.into_iter().flatten().chain(in_verdict).chain(paths).chain(&mut report.warnings);
    for text in all {
        *text = mask(text);
    }
}
