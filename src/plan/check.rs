//! The check: a raw plan and a world become a plan and its graph, or everything that is wrong with it.
//!
//! It goes on after each problem and never tells the same trouble twice: a value that is already known to be bad is not
//! asked about again. After an error of syntax only the text itself is judged, since parts of it may be missing.

mod allow;
mod artifacts;
mod caps;
mod findings;
mod links;
mod prompt;
mod publish;
mod values;
mod work;

use std::{collections::HashMap, sync::LazyLock};

use self::{findings::Findings, prompt::PromptFiles, work::Asked};
use super::{
    dag::Dag,
    error::{Code, Problem, Problems, Span},
    raw::{self, RawDefaults, RawEntry, RawNode, RawPlan, read::At},
    spec::{Epic, Node, NodeIx, Plan},
    world::World,
};
use crate::name::NodeId;

/// The version of the format that this check knows.
pub const VERSION: i64 = 1;

/// Reads and checks a plan's text. `file` is its name as people know it, for messages alone.
pub fn parse_and_check(file: &str, text: &str, world: &dyn World) -> Result<(Plan, Dag), Problems> {
    let parsed = raw::parse(text);
    if let Some(problem) = other_version(&parsed.plan) {
        // Its keys and rules are others too.
        let syntax = parsed.problems.into_iter().filter(|problem| problem.code == Code::Syntax);
        let problems = Problems::new(file, text, syntax.chain([problem]).collect());
        return Err(problems.expect("a problem was put in"));
    }
    let mut findings = Findings::new(parsed.problems);
    let checked = if parsed.whole { Checker::new(&parsed.plan, world, &mut findings).check() } else { None };
    if let Some(problems) = Problems::new(file, text, findings.finish()) {
        return Err(problems);
    }
    Ok(checked.expect("whatever keeps a plan from being made is a problem"))
}

fn other_version(raw: &RawPlan) -> Option<Problem> {
    let version = raw.version.as_ref().filter(|version| version.value.0 != VERSION)?;
    let message = format!("plan version {} is not one that this kew reads", version.value.0);
    Some(
        Problem::new(Code::BadVersion, version.span, message)
            .help(format!("this kew reads `version = {VERSION}`")),
    )
}

struct Checker<'p> {
    raw: &'p RawPlan,
    entries: &'p [RawEntry],
    defaults: &'p RawDefaults,
    /// Ids as written, bad ones too, so that what names them is not called unknown.
    index: HashMap<&'p str, NodeIx>,
    asked: Asked<'p>,
    prompt_files: PromptFiles<'p>,
    findings: &'p mut Findings,
}

/// A node's value of a key that has a default.
struct Setting<'p, T> {
    at: &'p At<T>,
    inherited: bool,
}

fn setting<'p, T>(own: &'p Option<At<T>>, default: &'p Option<At<T>>) -> Option<Setting<'p, T>> {
    let own = own.as_ref().map(|at| Setting { at, inherited: false });
    own.or_else(|| default.as_ref().map(|at| Setting { at, inherited: true }))
}

impl<'p> Checker<'p> {
    fn new(raw: &'p RawPlan, world: &'p dyn World, findings: &'p mut Findings) -> Self {
        static NO_DEFAULTS: LazyLock<RawDefaults> = LazyLock::new(RawDefaults::default);
        let entries = raw.nodes.as_ref().map_or(&[][..], |nodes| &nodes.value.0);
        let defaults = raw.defaults.as_ref().map_or(&*NO_DEFAULTS, |defaults| &defaults.value);
        let index = entries.iter().enumerate().map(|(ix, entry)| (entry.id.as_str(), ix)).collect();
        Self {
            raw,
            entries,
            defaults,
            index,
            asked: Asked::new(world),
            prompt_files: PromptFiles::new(),
            findings,
        }
    }

    fn check(mut self) -> Option<(Plan, Dag)> {
        self.version();
        let epic = self.epic();
        self.check_defaults();
        if self.entries.is_empty() && !self.raw.unread.contains(&"nodes") {
            let span = self.raw.nodes.as_ref().map_or(Span::default(), |nodes| nodes.key);
            let help = "add one: `[nodes.<id>]` with a `prompt`";
            self.findings.push(Problem::new(Code::NoNodes, span, "the plan has no nodes").help(help));
        }

        let links = self.links();
        let nodes: Vec<Option<Node>> = (0..self.entries.len()).map(|ix| self.node(ix, &links)).collect();
        let dag = self.graph(&links);
        let froms = self.froms(&links, dag.as_ref());
        let publish = self.publishes(dag.as_ref());
        let nodes: Option<Vec<Node>> = nodes.into_iter().collect();
        let nodes = nodes?.into_iter().zip(froms).zip(publish);
        let nodes = nodes.map(|((node, from), publish)| Node { from, publish, ..node });
        Some((Plan { epic: epic?, nodes: nodes.collect() }, dag?))
    }

    fn version(&mut self) {
        if self.raw.version.is_none() && !self.raw.unread.contains(&"version") {
            let problem = Problem::new(Code::MissingKey, Span::default(), "the plan has no `version`");
            let help = format!("write `version = {VERSION}` at the top, before any table");
            self.findings.push(problem.help(help));
        }
    }

    fn epic(&mut self) -> Option<Epic> {
        let Some(epic) = &self.raw.epic else {
            if !self.raw.unread.contains(&"epic") {
                let problem = Problem::new(Code::MissingKey, Span::default(), "the plan has no `[epic]`");
                self.findings.push(problem.help("add `[epic]` with a `name`"));
            }
            return None;
        };
        let name = self.epic_name(epic);
        let base = self.clean_text(epic.value.base.as_ref(), "epic.base");
        let max_parallel = self.max_parallel(epic.value.max_parallel.as_ref());
        let timeout = self.time(epic.value.timeout.as_ref(), "epic.timeout");
        let caps = self.epic_caps(&epic.value);
        Some(Epic { name: name?, base, max_parallel, timeout, caps })
    }

    /// One node, but for `from` and `publish`, which ask for the whole graph.
    fn node(&mut self, ix: NodeIx, links: &links::Links) -> Option<Node> {
        let entry = &self.entries[ix];
        let raw: &RawNode = &entry.node.value;
        let id = self.id(entry);
        let reviewer = is_reviewer(raw);
        let work = self.work(entry);
        let prompt = self.prompt(entry);
        let artifacts = self.artifacts(raw);
        let timeout = self.timeout(raw);
        let caps = self.caps(entry, work.as_ref().map(|work| work.metering));
        let (retries, rework) = (self.retries(raw), self.rework(ix, entry, links));
        let verdict = self.verdict(entry, work.as_ref().map(|work| work.agent));
        let commits = self.commits(raw, reviewer, work.as_ref().map(|work| work.agent));
        let allow = self.allow(entry, work.as_ref().map(|work| work.runner.as_str()));
        let work = work?;
        let (prompt, prompt_file) = prompt?;
        Some(Node {
            id: id?,
            runner: work.runner,
            model: work.model,
            toolchain: work.toolchain,
            prompt,
            prompt_file,
            needs: links.needs[ix].clone(),
            from: super::spec::From::Needs,
            reviews: links.reviews[ix],
            verdict,
            commits: commits?,
            timeout,
            caps,
            retries,
            rework,
            network_none: setting(&raw.network, &self.defaults.network).is_some(),
            allow,
            brief: setting(&raw.brief, &self.defaults.brief).is_none_or(|brief| brief.at.value),
            artifacts,
            artifacts_optional: setting(&raw.artifacts_optional, &self.defaults.artifacts_optional)
                .is_some_and(|optional| optional.at.value),
            publish: super::spec::Publish::None,
        })
    }

    fn id(&mut self, entry: &RawEntry) -> Option<NodeId> {
        let span = entry.node.key;
        match NodeId::new(entry.id.as_str()) {
            Err(bad) => {
                let problem = Problem::new(Code::BadNodeId, span, format!("node id `{}` {bad}", entry.id));
                self.findings
                    .push(problem.help("ids are a-z, 0-9 and -, begin with a letter or digit, at most 40"));
                None
            }
            Ok(id) => Some(id),
        }
    }
}

/// A node that says that it reviews, whether or not what it says is right.
fn is_reviewer(raw: &RawNode) -> bool {
    raw.reviews.is_some() || raw.unread.contains(&"reviews")
}
