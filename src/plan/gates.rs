//! Which reviews a node must wait for: the gates that nobody writes down.
//!
//! `G(n)` = the reviewers of every node that n transitively needs, minus n itself, minus the reviewers of n's own subject
//! if n is a reviewer, minus every reviewer that transitively needs n. A reviewer's subject counts as a need. An n that
//! loses a reviewer by the last rule is *evidence*: it runs on unreviewed input for that reviewer's sake.
//! The needs must be acyclic; the graph of needs and gates may not be, which is for the caller to find out.

use fixedbitset::FixedBitSet;

use super::spec::NodeIx;

/// The needs of all nodes, by index: what the rule reads.
pub(super) struct Needs<'d> {
    /// Needs of each node, the subject of a reviewer among them.
    pub needs: &'d [Vec<NodeIx>],
    /// The inverse of `needs`.
    pub dependents: &'d [Vec<NodeIx>],
    /// The subject of each node that is a reviewer.
    pub reviews: &'d [Option<NodeIx>],
    /// The reviewers of each node.
    pub reviewers: &'d [Vec<NodeIx>],
    /// All nodes, each after its needs.
    pub order: &'d [NodeIx],
}

/// The gates of all nodes.
pub(super) struct Gates {
    /// `G(n)` without what is in `G(m)` for a need m of n: that was satisfied before m could start. Ascending.
    pub reduced: Vec<Vec<NodeIx>>,
    /// Whether a node is evidence.
    pub evidence: FixedBitSet,
}

/// Reviewers looked at in one pass. Bounds the memory at two of these bit sets for each node.
const PASS: usize = 1024;

impl Needs<'_> {
    /// Gates of all nodes at once, in passes over the reviewers.
    pub fn gates(&self) -> Gates {
        let count = self.needs.len();
        let mut gates =
            Gates { reduced: vec![Vec::new(); count], evidence: FixedBitSet::with_capacity(count) };
        let reviewers: Vec<NodeIx> = (0..count).filter(|&node| self.reviews[node].is_some()).collect();
        if reviewers.is_empty() {
            return gates;
        }
        let width = reviewers.len().min(PASS);
        let mut below = vec![FixedBitSet::with_capacity(width); count];
        let mut above = below.clone();
        let mut bit_of = vec![None; count];
        for pass in reviewers.chunks(PASS) {
            below.iter_mut().chain(&mut above).for_each(FixedBitSet::clear);
            bit_of.fill(None);
            for (bit, &reviewer) in pass.iter().enumerate() {
                bit_of[reviewer] = Some(bit);
            }
            self.pass(pass, &bit_of, &mut below, &mut above, &mut gates);
        }
        gates
    }

    fn pass(
        &self,
        pass: &[NodeIx],
        bit_of: &[Option<usize>],
        below: &mut [FixedBitSet],
        above: &mut [FixedBitSet],
        gates: &mut Gates,
    ) {
        // below[n]: reviewers of what n needs. above[n]: reviewers that need n.
        let mut row = FixedBitSet::with_capacity(below[0].len());
        for &node in self.order {
            row.clear();
            for &need in &self.needs[node] {
                row.union_with(&below[need]);
                row.extend(self.reviewers[need].iter().filter_map(|&reviewer| bit_of[reviewer]));
            }
            below[node].clone_from(&row);
        }
        for &node in self.order.iter().rev() {
            row.clear();
            for &dependent in &self.dependents[node] {
                row.union_with(&above[dependent]);
                row.extend(bit_of[dependent]);
            }
            above[node].clone_from(&row);
        }
        // From here on below[n] becomes G(n).
        for &node in self.order {
            let own = bit_of[node].into_iter();
            let siblings = self.reviews[node].into_iter().flat_map(|subject| &self.reviewers[subject]);
            for bit in own.chain(siblings.filter_map(|&sibling| bit_of[sibling])) {
                below[node].remove(bit);
            }
            if !below[node].is_disjoint(&above[node]) {
                gates.evidence.insert(node);
                below[node].difference_with(&above[node]);
            }
        }
        for &node in self.order {
            row.clone_from(&below[node]);
            for &need in &self.needs[node] {
                row.difference_with(&below[need]);
            }
            gates.reduced[node].extend(row.ones().map(|bit| pass[bit]));
        }
    }

    /// `G(n)` of one node in full, ascending; by walking the graph from it.
    pub fn gates_of(&self, node: NodeIx) -> Vec<NodeIx> {
        let below = reachable(self.needs, &[node]);
        let above = reachable(self.dependents, &[node]);
        let siblings = self.reviews[node].map_or(&[][..], |subject| &self.reviewers[subject]);
        let mut gates: Vec<NodeIx> = below
            .ones()
            .filter(|&need| need != node)
            .flat_map(|need| &self.reviewers[need])
            .copied()
            .filter(|reviewer| {
                *reviewer != node && !siblings.contains(reviewer) && !above.contains(*reviewer)
            })
            .collect();
        gates.sort_unstable();
        gates
    }
}

/// Every node that can be reached from `starts`, those included.
pub(super) fn reachable(edges: &[Vec<NodeIx>], starts: &[NodeIx]) -> FixedBitSet {
    let mut seen = FixedBitSet::with_capacity(edges.len());
    let mut open = starts.to_vec();
    while let Some(node) = open.pop() {
        if !seen.put(node) {
            open.extend(edges[node].iter().copied().filter(|&next| !seen.contains(next)));
        }
    }
    seen
}
