//! A run of the past as the state has it: its frozen plan read again, and where each of its nodes stands.
//!
//! What the world must have to run a plan (images, prompt files, routes) is not asked again: it has run.

use std::collections::BTreeMap;

use camino::{Utf8Path, Utf8PathBuf};

use crate::{
    config::Settings,
    plan::{
        spec::{NodeIx, Plan},
        world::{ImageGap, Metering, PromptFault, RunnerFacts, World},
    },
    publish::{Ballot, Standing},
    record::PublicationState,
    run::publisher::StandsOn,
    runners::Kind,
    store::{NodeDetail, RunDetail},
};

/// The world in which the plan was good.
pub struct Frozen<'a> {
    /// The settings of now, for what a runner is.
    pub settings: &'a Settings,
    /// The run.
    pub run: &'a RunDetail,
}

impl World for Frozen<'_> {
    fn runners(&self) -> Vec<String> {
        self.run.start.nodes.iter().map(|node| node.runner.clone()).collect()
    }

    fn runner(&self, name: &str) -> Option<RunnerFacts> {
        let known = self.settings.registry.find(name).map(|runner| runner.kind() == Kind::Agent);
        // A runner of one's own may be gone by now; whether it was an agent, its model tells.
        let agent = known.unwrap_or_else(|| {
            self.run.start.nodes.iter().any(|node| node.runner == name && node.model.is_some())
        });
        let metering = self.settings.registry.find(name).map_or(Metering::Steps, |runner| runner.metering());
        Some(RunnerFacts { agent, refused: None, metering })
    }

    fn route(&self, _: &str, _: &str) -> Result<(), String> {
        Ok(())
    }

    fn image(&self, _: &str, _: Option<&str>) -> Result<(), ImageGap> {
        Ok(())
    }

    fn prompt_file(&self, path: &Utf8Path) -> Result<(String, Utf8PathBuf), PromptFault> {
        Ok(("as it was".to_owned(), path.to_owned()))
    }
}

/// Where each node of the plan stands; `None` for those that were no part of the run.
pub fn standings(plan: &Plan, run: &RunDetail) -> Vec<Option<Standing>> {
    plan.nodes.iter().map(|node| run.node(&node.id).map(standing)).collect()
}

fn standing(node: &NodeDetail) -> Standing {
    let last = node.attempts.last();
    let end = last.and_then(|attempt| attempt.end.as_ref());
    let verdict = last.and_then(|attempt| attempt.verdict.as_ref());
    let (cost_usd, cost_at_least) = node.cost_usd();
    Standing {
        state: node.state,
        attempt: node.attempt,
        input: end.and_then(|end| end.input.clone()),
        head: end.and_then(|end| end.head.clone()),
        vote: verdict.map(|verdict| Ballot {
            approves: verdict.verdict == "approve",
            commit: verdict.commit.clone(),
            summary: verdict.summary.clone(),
            findings: serde_json::from_str::<Vec<serde::de::IgnoredAny>>(&verdict.findings_json)
                .map_or(0, |findings| findings.len()),
        }),
        summary: end.and_then(|end| end.summary.clone()),
        cost_usd,
        cost_at_least,
    }
}

/// What of a run is out on this remote.
pub fn out(plan: &Plan, run: &RunDetail, remote: &str) -> BTreeMap<NodeIx, StandsOn> {
    let mut out = BTreeMap::new();
    for row in &run.publications {
        let node = plan.nodes.iter().position(|node| node.id == row.key.node);
        if let Some(node) = node.filter(|_| row.remote == remote && row.state == PublicationState::Published)
        {
            let (branch, commit, url) = (row.branch.clone(), row.commit.clone(), row.url.clone());
            out.insert(node, StandsOn { branch, commit, url });
        }
    }
    out
}
