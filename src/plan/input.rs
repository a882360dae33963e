//! What a node starts from. A rule on the plan alone; which commits that means, and how they are merged, is for others.

use super::spec::{From, NodeIx, Plan};

/// Where a node's input comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputFrom {
    /// The epic's base.
    Base,
    /// Exactly the commit of this subject: the node reviews it.
    Reviewed(NodeIx),
    /// The merge of the results of these nodes, in the order written. The result of a reviewer among them is the commit
    /// that it reviewed. Never empty.
    Needs(Vec<NodeIx>),
    /// The result of one upstream node.
    Node(NodeIx),
}

impl Plan {
    /// What `node` starts from.
    pub fn input_sources(&self, node: NodeIx) -> InputFrom {
        let node = &self.nodes[node];
        match (node.reviews, &node.from) {
            (Some(subject), _) => InputFrom::Reviewed(subject),
            (None, From::Base) => InputFrom::Base,
            (None, From::Node(upstream)) => InputFrom::Node(*upstream),
            (None, From::Needs) if node.needs.is_empty() => InputFrom::Base,
            (None, From::Needs) => InputFrom::Needs(node.needs.clone()),
        }
    }
}
