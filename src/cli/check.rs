//! `kew check`: every problem of every plan, and for good ones what their gates imply. No engine, no keys, no writing.

use camino::Utf8Path;
use serde_json::json;

use super::{
    CheckArgs, Format, paint, put, say,
    setting::{self, Checked, Refused},
};
use crate::{
    error::{Failure, exit},
    plan::{dag::Dag, spec::Plan},
    text,
};

/// Checks the plans, all of them whatever is wrong with one; exit code 2 if any has a problem.
pub fn check(args: &CheckArgs) -> Result<u8, Failure> {
    let mut code = exit::PASSED;
    for path in &args.plans {
        code = code.max(match one(path, args) {
            Ok(Ok(good)) => good_plan(path, &good, args.format),
            Ok(Err(bad)) => bad_plan(path, &bad, args.format),
            Err(failure) => no_plan(path, &failure, args.format),
        });
    }
    Ok(code)
}

fn one(path: &Utf8Path, args: &CheckArgs) -> Result<Result<Checked, Refused>, Failure> {
    let start = args.repo.repo.as_deref().or_else(|| path.parent().filter(|dir| !dir.as_str().is_empty()));
    // A plan that lies in no repository is meant for the one that `kew run` would take: that of the current folder.
    let work_tree = match setting::work_tree(start)? {
        None if args.repo.repo.is_none() => setting::work_tree(None)?,
        found => found,
    };
    let settings = setting::settings(work_tree.as_deref())?;
    setting::check(path, work_tree.as_deref(), &settings)
}

fn good_plan(path: &Utf8Path, good: &Checked, format: Format) -> u8 {
    if format == Format::Human {
        let all = vec![true; good.plan.nodes.len()];
        put(&format!("{path}: ok, {}\n", text::plural(good.plan.nodes.len(), "node")));
        put(&implied(&good.plan, &good.dag, &all));
    }
    if !good.contained {
        say(&format!("warning: {}", super::run::host::LOUD));
    }
    exit::PASSED
}

fn bad_plan(path: &Utf8Path, bad: &Refused, format: Format) -> u8 {
    match format {
        Format::Human => say(&bad.problems.render(paint())),
        Format::Json => {
            for problem in bad.problems.located() {
                put(&format!("{}\n", json!({ "v": 1, "file": path, "problem": problem })));
            }
        }
    }
    exit::USAGE
}

/// The plan, or the settings that it is checked against, cannot even be read.
fn no_plan(path: &Utf8Path, failure: &Failure, format: Format) -> u8 {
    match format {
        Format::Human => say(&failure.to_string()),
        Format::Json => {
            let problem = json!({ "message": failure.message, "help": failure.help });
            put(&format!("{}\n", json!({ "v": 1, "file": path, "problem": problem })));
        }
    }
    failure.code
}

/// Implied edges between nodes that are part of a run, for people: which reviewers gate which nodes, and which nodes are
/// evidence.
pub fn implied(plan: &Plan, dag: &Dag, active: &[bool]) -> String {
    let mut out = String::new();
    // A plan of thousands of nodes is checked for its problems; nobody reads thousands of lines.
    const MOST: usize = 200;
    let mut left = 0;
    for node in (0..plan.nodes.len()).filter(|node| active[*node]) {
        let new = dag.gate_edges(node);
        if new.is_empty() && !dag.is_evidence(node) {
            continue;
        }
        if out.lines().count() >= MOST {
            left += 1;
            continue;
        }
        let id = &plan.nodes[node].id;
        if !new.is_empty() {
            let gates = dag.gates(node).into_iter().map(|gate| {
                let subject = plan.nodes[gate]
                    .reviews
                    .map(|subject| plan.nodes[subject].id.as_str())
                    .unwrap_or_default();
                format!("`{}` (of `{subject}`)", plan.nodes[gate].id)
            });
            out.push_str(&format!(
                "  `{id}` waits for the approval of {}\n",
                gates.collect::<Vec<_>>().join(" and ")
            ));
        }
        if dag.is_evidence(node) {
            out.push_str(&format!(
                "  `{id}` is evidence for a reviewer: it runs on work that is not yet reviewed\n"
            ));
        }
    }
    if left > 0 {
        out.push_str(&format!("  … and {} more\n", text::plural(left, "gated node")));
    }
    out
}
