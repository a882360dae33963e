//! Circles among nodes: one shortest circle for each knot, from its first node in plan order.
//!
//! Only for the message: whether a graph is acyclic is decided by the caller.

use std::collections::{HashMap, VecDeque};

use petgraph::{algo::kosaraju_scc, graph::DiGraph, visit::EdgeRef};

use super::{dag::Why, spec::NodeIx};

/// A circle: each step's node waits for the next one's, the last for the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cycle {
    /// At least one step.
    pub steps: Vec<Step>,
}

/// One edge of a circle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The node that waits.
    pub node: NodeIx,
    /// The node that it waits for.
    pub on: NodeIx,
    /// Why it waits.
    pub why: Why,
}

/// One circle for each strongly connected part, in plan order. Empty if there is none.
pub(super) fn cycles(graph: &DiGraph<(), Why, usize>) -> Vec<Cycle> {
    let mut part_of = vec![usize::MAX; graph.node_count()];
    let mut firsts = Vec::new();
    for (part, nodes) in kosaraju_scc(graph).into_iter().enumerate() {
        for node in &nodes {
            part_of[node.index()] = part;
        }
        let first = nodes.iter().map(|node| node.index()).min();
        let circular = nodes.len() > 1 || nodes.iter().any(|&node| graph.contains_edge(node, node));
        firsts.extend(first.filter(|_| circular));
    }
    firsts.sort_unstable();
    firsts.into_iter().filter_map(|first| shortest(graph, first, &part_of)).collect()
}

/// Breadth first from `first` within its part, until an edge leads back to it.
fn shortest(graph: &DiGraph<(), Why, usize>, first: NodeIx, part_of: &[usize]) -> Option<Cycle> {
    let mut reached: HashMap<NodeIx, Step> = HashMap::new();
    let mut open = VecDeque::from([first]);
    while let Some(node) = open.pop_front() {
        let mut edges: Vec<_> = graph.edges(node.into()).collect();
        // petgraph tells the newest edge first.
        edges.reverse();
        for edge in edges {
            let step = Step { node, on: edge.target().index(), why: *edge.weight() };
            if step.on == first {
                return Some(walk_back(first, step, &reached));
            }
            if part_of[step.on] == part_of[first] && !reached.contains_key(&step.on) {
                reached.insert(step.on, step);
                open.push_back(step.on);
            }
        }
    }
    None
}

fn walk_back(first: NodeIx, last: Step, reached: &HashMap<NodeIx, Step>) -> Cycle {
    let mut steps = vec![last];
    let mut at = last.node;
    while at != first {
        let step = reached[&at];
        steps.push(step);
        at = step.node;
    }
    steps.reverse();
    Cycle { steps }
}
