//! Why a node did not run, in words: which other node was in its way, by which rule, and where that one stands.
//!
//! One wording for the record, the events and the summary. It decides nothing.

use crate::{
    plan::{
        dag::Why,
        spec::{NodeIx, Plan},
    },
    record::NodeState,
    sched::{Sched, Skip, Wait},
};

/// Why a node is skipped: "needs `a`, which is failed".
pub(super) fn skipped(plan: &Plan, skip: &Skip) -> String {
    format!("{}, which is {}", rule(plan, skip.because), skip.state.word())
}

/// What a node still waits for at the end of a run.
pub(super) fn waiting(plan: &Plan, sched: &Sched, node: NodeIx) -> String {
    let Some(wait) = sched.waits_for(node) else { return "waits".to_owned() };
    let stands = match sched.state(wait.node) {
        // Only a reviewer that asks for changes has passed and satisfies nobody.
        NodeState::Passed => "asks for changes".to_owned(),
        other => format!("is {}", other.word()),
    };
    format!("{}, which {stands}", rule(plan, wait))
}

/// The rule, with the node that it is about.
fn rule(plan: &Plan, wait: Wait) -> String {
    let node = &plan.nodes[wait.node];
    match wait.why {
        Why::Written => format!("needs `{}`", node.id),
        Why::Subject => format!("reviews `{}`", node.id),
        Why::Gate => {
            let subject = node.reviews.map(|subject| plan.nodes[subject].id.as_str()).unwrap_or_default();
            format!("gated by `{}`, the reviewer of `{subject}`", node.id)
        }
    }
}
