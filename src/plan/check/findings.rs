//! The problems found so far, those of many nodes with one cause told once.
//!
//! Nodes of a shared problem are named in its message in the order in which they were found, which is plan order.

use std::collections::HashMap;

use crate::{
    plan::error::{Code, Problem},
    text::{did_you_mean, short_list},
};

/// Nodes that a message names before it counts the rest.
const NAMED: usize = 5;
/// Nearest names are sought for this many; a search looks at every node.
const SEARCHES: usize = 100;

pub(super) struct Findings {
    problems: Vec<Problem>,
    shared: Vec<Shared>,
    index: HashMap<(Code, String), usize>,
    searches: usize,
}

struct Shared {
    problem: Problem,
    after: &'static str,
    nodes: Vec<String>,
}

impl Findings {
    pub fn new(problems: Vec<Problem>) -> Self {
        Self { problems, shared: Vec::new(), index: HashMap::new(), searches: 0 }
    }

    pub fn push(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    /// A problem of `node` that others with the same `cause` share. The message becomes its text, the nodes, and `after`.
    pub fn share(&mut self, node: &str, cause: &str, after: &'static str, problem: impl FnOnce() -> Problem) {
        let problem = problem();
        let key = (problem.code, cause.to_string());
        let at = *self.index.entry(key).or_insert(self.shared.len());
        if at == self.shared.len() {
            self.shared.push(Shared { problem, after, nodes: Vec::new() });
        }
        self.shared[at].nodes.push(node.to_string());
    }

    /// `did you mean …?`
    pub fn near<'c>(&mut self, word: &str, known: impl IntoIterator<Item = &'c str>) -> Option<String> {
        self.searches += 1;
        if self.searches > SEARCHES {
            return None;
        }
        did_you_mean(word, known).map(|near| format!("did you mean `{near}`?"))
    }

    pub fn finish(self) -> Vec<Problem> {
        let mut problems = self.problems;
        problems.extend(self.shared.into_iter().map(|shared| {
            let nodes = if shared.nodes.len() == 1 { "node" } else { "nodes" };
            let names = short_list(&shared.nodes, NAMED);
            let message = format!("{} {nodes} {names}{}", shared.problem.message, shared.after);
            Problem { message, ..shared.problem }
        }));
        problems
    }
}
