//! `kew check`: every problem of every plan, and for good ones what their gates imply. No engine, no keys, no writing.

use serde_json::json;

use super::{CheckArgs, Format, paint, put, say, setting};
use crate::{
    error::{Failure, exit},
    plan::{dag::Dag, spec::Plan},
    text,
};

/// Checks the plans; exit code 2 if any has a problem.
pub fn check(args: &CheckArgs) -> Result<u8, Failure> {
    let mut code = exit::PASSED;
    for path in &args.plans {
        let start =
            args.repo.repo.as_deref().or_else(|| path.parent().filter(|dir| !dir.as_str().is_empty()));
        let work_tree = setting::work_tree(start)?;
        let settings = setting::settings(work_tree.as_deref())?;
        match (setting::check(path, work_tree.as_deref(), &settings)?, args.format) {
            (Ok(good), Format::Human) => {
                put(&format!("{path}: ok, {}\n", text::plural(good.plan.nodes.len(), "node")));
                put(&implied(&good.plan, &good.dag));
            }
            (Ok(_), Format::Json) => {}
            (Err(bad), format) => {
                code = exit::USAGE;
                match format {
                    Format::Human => say(&bad.problems.render(paint())),
                    Format::Json => {
                        for problem in bad.problems.located() {
                            put(&format!("{}\n", json!({ "v": 1, "file": path, "problem": problem })));
                        }
                    }
                }
            }
        }
    }
    Ok(code)
}

/// Implied edges, for people: which reviewers gate which nodes, and which nodes are evidence.
pub fn implied(plan: &Plan, dag: &Dag) -> String {
    let mut out = String::new();
    // A plan of thousands of nodes is checked for its problems; nobody reads thousands of lines.
    const MOST: usize = 200;
    let mut left = 0;
    for node in 0..plan.nodes.len() {
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
