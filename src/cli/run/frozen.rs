//! What is frozen with a run, as its row in the state and as one digest.

use super::Ready;
use crate::{
    docker::argv::Labels,
    name::RunId,
    plan::spec::{NodeIx, Plan},
    record::{NodeStart, RunStart},
    run::unix_ms,
};

impl Ready {
    /// The run's row.
    pub(super) fn start_row(&self, id: &RunId, labels: &Labels) -> RunStart {
        let plan = &self.checked.plan;
        let name = |node: NodeIx| plan.nodes[node].id.clone();
        let nodes = (0..plan.nodes.len()).filter(|node| self.active[*node]).map(|ix| {
            let (node, resolved) = (&plan.nodes[ix], &self.resolved[ix]);
            NodeStart {
                node: node.id.clone(),
                runner: resolved.runner.name().to_owned(),
                model: node.model.clone(),
                image: resolved.image.clone(),
                image_id: resolved.image_id.clone().unwrap_or_default(),
                reviews: node.reviews.map(name),
                commits: node.commits,
                needs: node.needs.iter().copied().map(name).collect(),
            }
        });
        let settings_json = serde_json::to_string(&self.settings)
            .expect("settings are text, numbers and maps, which JSON can hold");
        RunStart {
            run: id.clone(),
            epic: plan.epic.name.clone(),
            plan_path: self.options.plan.to_string(),
            plan_text: self.checked.text.clone(),
            digest: self.digest(plan, &settings_json),
            settings_json,
            base: self.base.clone(),
            network: self.network().to_owned(),
            owner: labels.owner.clone(),
            started: unix_ms(),
            nodes: nodes.collect(),
            prompts: self.checked.prompts.clone(),
        }
    }

    /// Over everything that is frozen: plan, prompts, settings, image ids, base. Each part is preceded by its length.
    fn digest(&self, plan: &Plan, settings_json: &str) -> String {
        let prompts = plan.nodes.iter().map(|node| node.prompt.as_str());
        let images = self.resolved.iter().map(|node| node.image_id.as_deref().unwrap_or_default());
        let parts = [self.checked.text.as_str(), settings_json, self.base.as_str()]
            .into_iter()
            .chain(prompts)
            .chain(images);
        let mut bytes = Vec::new();
        for part in parts {
            bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
            bytes.extend_from_slice(part.as_bytes());
        }
        crate::digest::sha256_hex(bytes)
    }
}
