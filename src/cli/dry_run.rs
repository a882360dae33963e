//! `kew run --dry-run`: what a run would do, as text and as JSON. It starts no container and writes nothing; what only a
//! run knows is a placeholder.

use std::fmt::Write as _;

use camino::Utf8Path;
use serde::Serialize;

use super::{Format, check::implied, outgoing::Outgoing};
use crate::{
    config::Settings,
    docker::argv::{Labels, Network, RunArgv, build_run_argv},
    egress::{self, Host},
    name::{CommitId, EnvName},
    plan::{
        dag::Dag,
        input::InputFrom,
        spec::{NodeIx, Plan, Publish},
    },
    run::host,
};

/// A dry run's result; `v` is its version.
#[derive(Debug, Serialize)]
pub struct DryRun {
    v: u32,
    plan: String,
    epic: String,
    base: String,
    max_parallel: usize,
    network: &'static str,
    order: Vec<String>,
    nodes: Vec<DryNode>,
    warnings: Vec<String>,
    #[serde(skip)]
    implied: String,
}

#[derive(Debug, Serialize)]
struct DryNode {
    node: String,
    runner: &'static str,
    model: Option<String>,
    image: String,
    image_id: Option<String>,
    network: &'static str,
    allow: Vec<Host>,
    needs: Vec<String>,
    gates: Vec<String>,
    evidence: bool,
    reviews: Option<String>,
    input: String,
    commits: crate::plan::spec::Commits,
    publish: Option<DryPublish>,
    timeout_s: Option<u64>,
    retries: u32,
    rework: u32,
    artifacts: Vec<String>,
    artifacts_optional: bool,
    credentials: Vec<DryCredential>,
    argv: Vec<String>,
}

#[derive(Debug, Serialize)]
struct DryPublish {
    how: &'static str,
    branch: String,
    remote: String,
    #[serde(skip)]
    shown: String,
}

#[derive(Debug, Serialize)]
struct DryCredential {
    name: String,
    set: bool,
}

/// What a dry run is made of.
pub struct Given<'a> {
    /// The plan's path.
    pub path: &'a Utf8Path,
    /// The plan.
    pub plan: &'a Plan,
    /// Its graph.
    pub dag: &'a Dag,
    /// Which nodes would run.
    pub active: &'a [bool],
    /// The base.
    pub base: &'a CommitId,
    /// Settings.
    pub settings: &'a Settings,
    /// Runner, image, network and credentials of each node; the image's id if it was asked for.
    pub nodes: &'a [super::preflight::Resolved],
    /// CPUs of the engine, if it was asked.
    pub engine_cpus: Option<u32>,
    /// How many would run at once.
    pub jobs: usize,
    /// Things to say.
    pub warnings: Vec<String>,
    /// Where published nodes would go; `None` if none would.
    pub outgoing: Option<&'a Outgoing>,
}

/// Puts a dry run together.
pub fn dry_run(given: Given<'_>) -> DryRun {
    let ids = |nodes: &[NodeIx]| {
        nodes.iter().map(|node| given.plan.nodes[*node].id.to_string()).collect::<Vec<_>>()
    };
    let active: Vec<NodeIx> = given.dag.order().iter().copied().filter(|node| given.active[*node]).collect();
    let nodes = active.iter().map(|&node| dry_node(&given, node)).collect();
    DryRun {
        v: 1,
        plan: given.path.to_string(),
        epic: given.plan.epic.name.to_string(),
        base: given.base.to_string(),
        max_parallel: given.jobs,
        network: if given.settings.sandbox.enabled {
            given.settings.sandbox.network.word()
        } else {
            host::NETWORK
        },
        order: ids(&active),
        nodes,
        implied: implied(given.plan, given.dag, given.active),
        warnings: given.warnings,
    }
}

fn dry_node(given: &Given<'_>, node: NodeIx) -> DryNode {
    let (spec, resolved) = (&given.plan.nodes[node], &given.nodes[node]);
    let id = |node: NodeIx| given.plan.nodes[node].id.to_string();
    let labels = Labels {
        state: "{state}".into(),
        owner: "{owner}".into(),
        run: "{run}".into(),
        node: spec.id.to_string(),
        attempt: 1,
    };
    let container_args = resolved.runner.container_args(spec.model.as_deref());
    let credentials: Vec<EnvName> = resolved.credentials.iter().map(|(name, _)| name.clone()).collect();
    let argv = || {
        build_run_argv(&RunArgv {
            name: &format!("kew-{{run}}-{}-1", spec.id),
            labels: &labels,
            limits: &given.settings.sandbox.limits(given.engine_cpus),
            network: resolved.network,
            address: Some("{address}"),
            checkout: "{checkout}",
            credentials: &credentials,
            image: resolved.image_id.as_deref().unwrap_or("<image id>"),
            container_args: &container_args,
        })
    };
    DryNode {
        node: spec.id.to_string(),
        runner: resolved.runner.name(),
        model: spec.model.clone(),
        image: resolved.image.clone(),
        image_id: resolved.image_id.clone(),
        network: if resolved.command.is_some() { host::NETWORK } else { resolved.network.word() },
        allow: resolved.allow.clone(),
        needs: given.dag.needs(node).iter().map(|need| id(need.node)).collect(),
        gates: given.dag.gates(node).into_iter().map(id).collect(),
        evidence: given.dag.is_evidence(node),
        reviews: spec.reviews.map(id),
        input: match given.plan.input_sources(node) {
            InputFrom::Base => "the base".to_owned(),
            InputFrom::Reviewed(subject) => format!("the result of `{}`", id(subject)),
            InputFrom::Node(from) => format!("the result of `{}`", id(from)),
            InputFrom::Needs(mut needs) => {
                needs.sort_unstable();
                let names: Vec<String> = needs.into_iter().map(id).collect();
                match names.as_slice() {
                    [one] => format!("the result of `{one}`"),
                    _ => format!("the merge of {}", crate::text::list(names, "and")),
                }
            }
        },
        commits: spec.commits,
        publish: given.outgoing.filter(|_| spec.publish != Publish::None).map(|outgoing| DryPublish {
            how: spec.publish.word(),
            branch: given.settings.publish.template().show(&given.plan.epic.name, &spec.id),
            remote: outgoing.remote.address.to_string(),
            shown: outgoing.shown(spec.publish),
        }),
        timeout_s: spec.timeout.map(|timeout| timeout.as_secs()),
        retries: spec.retries,
        rework: spec.rework,
        artifacts: spec.artifacts.iter().map(ToString::to_string).collect(),
        artifacts_optional: spec.artifacts_optional,
        credentials: resolved
            .credentials
            .iter()
            .map(|(name, state)| DryCredential {
                name: name.to_string(),
                set: *state == super::preflight::CredentialState::Set,
            })
            .collect(),
        argv: match &resolved.command {
            None => std::iter::once("docker".to_owned()).chain(argv()).collect(),
            Some(command) => {
                std::iter::once(command.program.clone()).chain(command.argv("{session}")).collect()
            }
        },
    }
}

impl DryRun {
    /// As text or as one JSON object.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => {
                let json = serde_json::to_string(self).expect("names, numbers and lists are JSON");
                format!("{json}\n")
            }
            Format::Human => self.human(),
        }
    }

    fn human(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(out, "{}: epic `{}` on {}", self.plan, self.epic, &self.base[..10]);
        let contained = if self.network == host::NETWORK { ", none contained" } else { "" };
        let _ = writeln!(out, "{} at once, network {}{contained}", self.max_parallel, self.network);
        let _ = writeln!(out, "order: {}", self.order.join(" "));
        if !self.implied.is_empty() {
            let _ = write!(out, "implied gates:\n{}", self.implied);
        }
        for node in &self.nodes {
            let _ = write!(out, "\n{}\n", node.human());
        }
        for warning in &self.warnings {
            let _ = writeln!(out, "\nwarning: {warning}");
        }
        out
    }
}

impl DryNode {
    fn human(&self) -> String {
        let mut out = String::new();
        let model = self.model.as_ref().map(|model| format!(", model {model}")).unwrap_or_default();
        let _ = writeln!(out, "{}: runner {}{model}", self.node, self.runner);
        let id = self.image_id.as_ref().map(|id| format!(" ({id})")).unwrap_or_default();
        let _ = writeln!(out, "  image       {}{id}", self.image);
        let hosts = match self.network {
            "allowlist" if self.allow.is_empty() => ": no host".to_owned(),
            "allowlist" => format!(": {}", egress::shown(&self.allow)),
            host::NETWORK => ", not contained".to_owned(),
            _ => String::new(),
        };
        let _ = writeln!(out, "  network     {}{hosts}", self.network);
        let credentials =
            self.credentials.iter().map(|c| format!("{} ({})", c.name, if c.set { "set" } else { "unset" }));
        let credentials = credentials.collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "  credentials {}", if credentials.is_empty() { "none" } else { &credentials });
        let _ = writeln!(out, "  input       {}", self.input);
        if let Some(subject) = &self.reviews {
            let _ = writeln!(out, "  reviews     {subject}");
        }
        if !self.needs.is_empty() {
            let _ = writeln!(out, "  needs       {}", self.needs.join(", "));
        }
        if !self.gates.is_empty() {
            let _ = writeln!(out, "  gated by    {}", self.gates.join(", "));
        }
        if let Some(publish) = &self.publish {
            let _ = writeln!(out, "  publish     {} {} on {}", publish.how, publish.branch, publish.shown);
        }
        if let Some(timeout) = self.timeout_s {
            let _ = writeln!(
                out,
                "  timeout     {}",
                crate::units::show_duration(std::time::Duration::from_secs(timeout))
            );
        }
        for (what, times) in [("retries", self.retries), ("rework", self.rework)] {
            if times > 0 {
                let _ = writeln!(out, "  {what:<11} {times}");
            }
        }
        if !self.artifacts.is_empty() {
            let optional = if self.artifacts_optional { " (optional)" } else { "" };
            let _ = writeln!(out, "  artifacts   {}{optional}", self.artifacts.join(", "));
        }
        let _ = write!(out, "  argv        {}", self.argv.join(" "));
        out
    }
}

/// The network of a node: its plan may narrow the run's to nothing, or an open one to a list.
pub fn network_of(plan: &Plan, node: NodeIx, settings: &Settings) -> Network {
    let node = &plan.nodes[node];
    match settings.sandbox.network {
        _ if node.network_none => Network::None,
        Network::Open if node.allow.is_some() => Network::Allowlist,
        network => network,
    }
}
