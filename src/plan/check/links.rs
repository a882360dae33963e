//! How nodes name each other: `needs`, `reviews`, `from`; and the circles that this can make.
//!
//! A name that is wrong is left out of the graph, so what is right about it is still judged.

use std::collections::HashMap;

use super::{Checker, is_reviewer, setting};
use crate::plan::{
    cycle::{Cycle, Step},
    dag::{Dag, Why},
    error::{Code, Problem, Span},
    raw::{RawEntry, read::At},
    spec::{Commits, From, NodeIx},
};

/// Other places that a circle's message points at; the whole circle is in the message.
const POINTED_AT: usize = 8;

/// All references, resolved.
pub(super) struct Links {
    pub needs: Vec<Vec<NodeIx>>,
    pub reviews: Vec<Option<NodeIx>>,
    /// Which nodes somebody reviews.
    pub reviewed: Vec<bool>,
}

impl<'p> Checker<'p> {
    pub(super) fn links(&mut self) -> Links {
        let entries = self.entries;
        let needs = entries.iter().map(|entry| self.needs(entry)).collect();
        let reviews: Vec<Option<NodeIx>> = entries.iter().map(|entry| self.reviews(entry)).collect();
        let mut reviewed = vec![false; entries.len()];
        reviews.iter().flatten().for_each(|subject| reviewed[*subject] = true);
        Links { needs, reviews, reviewed }
    }

    fn needs(&mut self, entry: &'p RawEntry) -> Vec<NodeIx> {
        let Some(needs) = &entry.node.value.needs else { return Vec::new() };
        let mut found = Vec::with_capacity(needs.value.0.len());
        let mut seen: HashMap<&str, Span> = HashMap::new();
        for (name, span) in &needs.value.0 {
            if let Some(first) = seen.insert(name, *span) {
                let message = format!("node `{}` needs `{name}` twice", entry.id);
                let problem = Problem::new(Code::DuplicateNeed, *span, message).also(first, "first here");
                self.findings.push(problem.help("remove one of them"));
                continue;
            }
            if *name == entry.id {
                let message = format!("node `{name}` needs itself");
                self.findings.push(Problem::new(Code::SelfNeed, *span, message));
                continue;
            }
            let message = || format!("node `{}` needs `{name}`, which does not exist", entry.id);
            found.extend(self.resolve(name, *span, &entry.id, Code::UnknownNeed, message));
        }
        found
    }

    fn reviews(&mut self, entry: &'p RawEntry) -> Option<NodeIx> {
        let at = entry.node.value.reviews.as_ref()?;
        let name = &at.value;
        if *name == entry.id {
            self.findings.push(Problem::new(
                Code::ReviewsSelf,
                at.span,
                format!("node `{name}` reviews itself"),
            ));
            return None;
        }
        let message = || format!("node `{}` reviews `{name}`, which does not exist", entry.id);
        let subject = self.resolve(name, at.span, &entry.id, Code::ReviewsUnknown, message)?;
        let raw = &self.entries[subject].node.value;
        if is_reviewer(raw) {
            let message = format!("node `{}` reviews `{name}`, which is a reviewer itself", entry.id);
            let problem = Problem::new(Code::ReviewsReviewer, at.span, message)
                .help("a reviewer brings no commits; to use what it found, list it in `needs`");
            let own = raw.reviews.as_ref().map(|reviews| reviews.span);
            self.findings.push(match own {
                Some(span) => problem.also(span, format!("`{name}` reviews this")),
                None => problem,
            });
            return None;
        }
        let commits = setting(&raw.commits, &self.defaults.commits);
        if let Some(commits) = commits.filter(|commits| commits.at.value.0 == Commits::Forbidden) {
            let message = format!("node `{}` reviews `{name}`, whose commits are forbidden", entry.id);
            let problem = Problem::new(Code::ReviewsNothing, at.span, message)
                .also(commits.at.span, "so there is never anything to review")
                .help("review the node that commits, or allow commits");
            self.findings.push(problem);
        }
        Some(subject)
    }

    /// The node of that name; never `asking` is offered for a wrong one.
    fn resolve(
        &mut self,
        name: &str,
        span: Span,
        asking: &str,
        code: Code,
        message: impl FnOnce() -> String,
    ) -> Option<NodeIx> {
        if let Some(&ix) = self.index.get(name) {
            return Some(ix);
        }
        let others = self.entries.iter().map(|entry| entry.id.as_str()).filter(|id| *id != asking);
        let near = self.findings.near(name, others);
        self.findings.push(Problem::new(code, span, message()).maybe_help(near));
        None
    }

    pub(super) fn graph(&mut self, links: &Links) -> Option<Dag> {
        match Dag::new(&links.needs, &links.reviews) {
            Ok(dag) => Some(dag),
            Err(cycles) => {
                for cycle in &cycles {
                    let problem = self.circle(cycle, links);
                    self.findings.push(problem);
                }
                None
            }
        }
    }

    fn circle(&self, cycle: &Cycle, links: &Links) -> Problem {
        let id = |ix: NodeIx| self.entries[ix].id.as_str();
        let through_gates = cycle.steps.iter().any(|step| step.why == Why::Gate);
        let mut path: Vec<String> = cycle.steps.iter().map(|step| format!("`{}`", id(step.node))).collect();
        path.push(format!("`{}`", id(cycle.steps[0].node)));
        let path = path.join(" -> ");
        let mut steps = cycle.steps.iter().map(|step| (self.place(step), self.rule(step, links)));
        let (span, label) = steps.next().expect("a circle has a step");
        let mut problem = if through_gates {
            Problem::new(Code::GateCycle, span, format!("nodes wait for each other's reviews in a circle: {path}"))
                .help("a node waits for all reviewers of what it needs; let one of these need less, or review elsewhere")
        } else {
            Problem::new(Code::Cycle, span, format!("nodes need each other in a circle: {path}"))
                .help("remove one of these")
        };
        problem.label = Some(label);
        for (at, (span, label)) in steps.enumerate() {
            if at < POINTED_AT {
                problem.also.push((span, label));
            } else if through_gates {
                problem.notes.push(label);
            }
        }
        problem
    }

    /// Where an edge is written; an implied one is written nowhere, so where its node is.
    fn place(&self, step: &Step) -> Span {
        let entry = &self.entries[step.node].node;
        let written = match step.why {
            Why::Gate => None,
            Why::Subject => entry.value.reviews.as_ref().map(|at| at.span),
            Why::Written => entry.value.needs.as_ref().and_then(|needs| {
                let on = &self.entries[step.on].id;
                needs.value.0.iter().find(|(name, _)| name == on).map(|(_, span)| *span)
            }),
        };
        written.unwrap_or(entry.key)
    }

    fn rule(&self, step: &Step, links: &Links) -> String {
        let id = |ix: NodeIx| self.entries[ix].id.as_str();
        let (node, on) = (id(step.node), id(step.on));
        match step.why {
            Why::Written => format!("`{node}` needs `{on}`"),
            Why::Subject => format!("`{node}` reviews `{on}`"),
            Why::Gate => {
                let subject = links.reviews[step.on].map_or("", id);
                let direct = links.needs[step.node].iter().any(|&need| id(need) == subject);
                let how = if direct { "needs" } else { "indirectly needs" };
                format!("`{node}` waits for `{on}`, which reviews `{subject}`, which `{node}` {how}")
            }
        }
    }

    /// `from` of all nodes. A wrong one is a problem and becomes the default; without a graph only names are judged.
    pub(super) fn froms(&mut self, links: &Links, dag: Option<&Dag>) -> Vec<From> {
        (0..self.entries.len()).map(|ix| self.from(ix, links, dag).unwrap_or_default()).collect()
    }

    fn from(&mut self, ix: NodeIx, links: &Links, dag: Option<&Dag>) -> Option<From> {
        let entry = &self.entries[ix];
        let at: &At<String> = entry.node.value.from.as_ref()?;
        if is_reviewer(&entry.node.value) {
            let message = format!("`from` on node `{}`, which is a reviewer", entry.id);
            let problem = Problem::new(Code::FromOnReviewer, at.key, message);
            self.findings
                .push(problem.help("a reviewer starts from the commit that it reviews; remove `from`"));
            return None;
        }
        let word = matches!(at.value.as_str(), "needs" | "base");
        if let Some(&named) = self.index.get(at.value.as_str()).filter(|_| word) {
            let message =
                format!("`from = \"{}\"` on node `{}` could be a word or a node", at.value, entry.id);
            let problem = Problem::new(Code::AmbiguousFrom, at.span, message)
                .also(self.entries[named].node.key, "the node")
                .help("give that node another id");
            self.findings.push(problem);
            return None;
        }
        match at.value.as_str() {
            "needs" => return Some(From::Needs),
            "base" => return Some(From::Base),
            _ => {}
        }
        let name = &at.value;
        if let Some(&other) = self.index.get(name.as_str()) {
            let dag = dag?;
            if dag.is_upstream(other, ix) {
                return Some(From::Node(other));
            }
            let message = format!("node `{}` starts from `{name}`, which is not upstream of it", entry.id);
            let problem = Problem::new(Code::FromNotUpstream, at.span, message);
            let help = if other == ix {
                "name a node that this one needs, `needs` or `base`".to_string()
            } else if dag.is_upstream(ix, other) {
                format!("`{name}` needs `{}`, so it comes later", entry.id)
            } else {
                format!("add \"{name}\" to `needs`, so that it has passed before")
            };
            self.findings.push(problem.help(help));
            return None;
        }
        let upstream: Vec<&str> =
            links.needs[ix].iter().map(|&need| self.entries[need].id.as_str()).collect();
        let near = self.findings.near(name, upstream.into_iter().chain(["needs", "base"]));
        let message = format!("node `{}` starts from `{name}`, which does not exist", entry.id);
        let help = near.unwrap_or_else(|| "name a node that this one needs, `needs` or `base`".to_string());
        self.findings.push(Problem::new(Code::FromNotUpstream, at.span, message).help(help));
        None
    }
}
