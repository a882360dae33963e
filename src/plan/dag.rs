//! The graph of a plan: what each node needs, and which reviews it waits for.
//!
//! A `Dag` exists only if needs and implied gates together are acyclic. Nodes are indices in plan order; every list is in
//! plan order too, but [`Dag::order`]. It knows no states: what is satisfied is for the scheduler to say.

use fixedbitset::FixedBitSet;
use petgraph::{algo::toposort, graph::DiGraph};

use super::{
    cycle::{Cycle, cycles},
    gates::{Gates, Needs, reachable},
    spec::NodeIx,
};

/// Why one node waits for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Why {
    /// `needs` names it.
    Written,
    /// It is the subject that the node reviews.
    Subject,
    /// It reviews something that the node transitively needs.
    Gate,
}

/// A need of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// The node that must pass first.
    pub node: NodeIx,
    /// [`Why::Written`] or [`Why::Subject`].
    pub why: Why,
}

/// An acyclic graph of nodes.
#[derive(Debug, Clone)]
pub struct Dag {
    order: Vec<NodeIx>,
    needs: Vec<Vec<Need>>,
    plain_needs: Vec<Vec<NodeIx>>,
    dependents: Vec<Vec<NodeIx>>,
    reviews: Vec<Option<NodeIx>>,
    reviewers: Vec<Vec<NodeIx>>,
    gate_edges: Vec<Vec<NodeIx>>,
    gated_by: Vec<Vec<NodeIx>>,
    evidence: FixedBitSet,
}

impl Dag {
    /// Builds the graph of nodes with these needs and subjects, or tells its circles: those among needs, or if there are
    /// none, those through gates.
    ///
    /// `needs[n]` are the written needs of n, `reviews[n]` is its subject; both have one item for each node. A subject
    /// may be among the needs or not. Panics on an index that is no node.
    pub fn new(needs: &[Vec<NodeIx>], reviews: &[Option<NodeIx>]) -> Result<Self, Vec<Cycle>> {
        let count = needs.len();
        assert_eq!(count, reviews.len(), "every node has an entry in both lists");
        let needs: Vec<Vec<Need>> =
            needs.iter().zip(reviews).map(|(needs, subject)| join(needs, *subject)).collect();
        let plain_needs: Vec<Vec<NodeIx>> =
            needs.iter().map(|needs| needs.iter().map(|need| need.node).collect()).collect();
        let dependents = inverse(&plain_needs);
        let mut reviewers = vec![Vec::new(); count];
        for (node, subject) in reviews.iter().enumerate() {
            if let Some(subject) = *subject {
                reviewers[subject].push(node);
            }
        }

        let mut graph = DiGraph::with_capacity(count, 2 * count);
        for _ in 0..count {
            graph.add_node(());
        }
        for (node, needs) in needs.iter().enumerate() {
            for need in needs {
                graph.add_edge(node.into(), need.node.into(), need.why);
            }
        }
        let order = sorted(&graph)?;

        let rule = Needs {
            needs: &plain_needs,
            dependents: &dependents,
            reviews,
            reviewers: &reviewers,
            order: &order,
        };
        let Gates { reduced: gate_edges, evidence } = rule.gates();
        for (node, gates) in gate_edges.iter().enumerate() {
            for &reviewer in gates {
                graph.add_edge(node.into(), reviewer.into(), Why::Gate);
            }
        }
        // The reduced edges reach what all gates reach, so a circle through any gate shows in them.
        let order = sorted(&graph)?;
        let gated_by = inverse(&gate_edges);
        let reviews = reviews.to_vec();
        Ok(Self { order, needs, plain_needs, dependents, reviews, reviewers, gate_edges, gated_by, evidence })
    }

    /// How many nodes there are.
    pub fn len(&self) -> usize {
        self.needs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.needs.is_empty()
    }

    /// All nodes in plan order, but each after what it waits for: that is pulled ahead of it.
    pub fn order(&self) -> &[NodeIx] {
        &self.order
    }

    /// What must pass before `node`: a reviewer's subject first, then the written needs as written.
    pub fn needs(&self, node: NodeIx) -> &[Need] {
        &self.needs[node]
    }

    /// The nodes that need `node`, its reviewers included.
    pub fn dependents(&self, node: NodeIx) -> &[NodeIx] {
        &self.dependents[node]
    }

    /// The reviewers of `node`.
    pub fn reviewers(&self, node: NodeIx) -> &[NodeIx] {
        &self.reviewers[node]
    }

    /// `G(n)` in full: every reviewer that must have approved before `node` starts. Walks the graph: linear in it.
    pub fn gates(&self, node: NodeIx) -> Vec<NodeIx> {
        self.rule().gates_of(node)
    }

    /// `G(n)` without the gates of what `node` needs: those were satisfied before that could start.
    pub fn gate_edges(&self, node: NodeIx) -> &[NodeIx] {
        &self.gate_edges[node]
    }

    /// The nodes that have `reviewer` among their gate edges.
    pub fn gated_by(&self, reviewer: NodeIx) -> &[NodeIx] {
        &self.gated_by[reviewer]
    }

    /// Whether `node` runs on unreviewed input because a reviewer of that input needs it.
    pub fn is_evidence(&self, node: NodeIx) -> bool {
        self.evidence.contains(node)
    }

    /// Everything that `node` transitively needs.
    pub fn upstream(&self, node: NodeIx) -> Vec<NodeIx> {
        reachable(&self.plain_needs, &[node]).ones().filter(|&other| other != node).collect()
    }

    /// Whether `node` transitively needs `other`. A direct need is answered at once.
    pub fn is_upstream(&self, other: NodeIx, node: NodeIx) -> bool {
        other != node
            && (self.plain_needs[node].contains(&other)
                || reachable(&self.plain_needs, &[node]).contains(other))
    }

    /// What must run so that `nodes` can: they, all that they need, and all reviewers that any of these waits for.
    pub fn closure_for_only(&self, nodes: &[NodeIx]) -> Vec<NodeIx> {
        let mut seen = FixedBitSet::with_capacity(self.len());
        let mut open = nodes.to_vec();
        while let Some(node) = open.pop() {
            if !seen.put(node) {
                open.extend_from_slice(&self.plain_needs[node]);
                open.extend_from_slice(&self.gate_edges[node]);
            }
        }
        seen.ones().collect()
    }

    fn rule(&self) -> Needs<'_> {
        Needs {
            needs: &self.plain_needs,
            dependents: &self.dependents,
            reviews: &self.reviews,
            reviewers: &self.reviewers,
            order: &self.order,
        }
    }
}

/// Each node after what it waits for. Edges lead from a node to that, so the finishing order of a depth-first search in
/// plan order is wanted: petgraph tells it backwards.
fn sorted(graph: &DiGraph<(), Why, usize>) -> Result<Vec<NodeIx>, Vec<Cycle>> {
    let mut order = toposort(graph, None).map_err(|_| cycles(graph))?;
    order.reverse();
    Ok(order.into_iter().map(|node| node.index()).collect())
}

/// The subject is a need that nobody writes; written all the same, it is still the subject.
fn join(written: &[NodeIx], subject: Option<NodeIx>) -> Vec<Need> {
    let subject_need = subject.map(|node| Need { node, why: Why::Subject });
    let others = written.iter().filter(|&&node| Some(node) != subject);
    subject_need.into_iter().chain(others.map(|&node| Need { node, why: Why::Written })).collect()
}

fn inverse(edges: &[Vec<NodeIx>]) -> Vec<Vec<NodeIx>> {
    let mut inverse = vec![Vec::new(); edges.len()];
    for (from, targets) in edges.iter().enumerate() {
        for &to in targets {
            inverse[to].push(from);
        }
    }
    inverse
}
