//! What attempts of a run stand on: the engine with all that it must have and tell, asked before the first of them.
//!
//! Where there is no engine, `host` says what they stand on. Invariant: what dead runs left is gone before anything new is made.

use std::sync::Arc;

use camino::Utf8Path;

use super::{
    Ready,
    leftovers::{Cleaner, leftovers_of, reap},
};
use crate::{
    cli::{network, preflight},
    docker::{argv::Labels, client::Docker, events::Events},
    error::Failure,
    git::access::Access,
    name::RunId,
    process::query::RunAs,
    run::{host::Ground, watchdog::Watchdog},
    workspace::Workspace,
};

/// What the attempts of a run stand on.
pub(super) struct Footing {
    pub events: Events,
    pub collector: String,
    pub access: Access,
    pub cpus: Option<u32>,
    pub register: Arc<dyn Fn(u32) + Send + Sync>,
    pub host: Option<Ground>,
}

impl Ready {
    /// What attempts in containers stand on: everything that the engine must have and tell.
    #[expect(clippy::too_many_arguments, reason = "each is one thing that the steps before have made")]
    pub(super) fn footing(
        &mut self,
        id: &RunId,
        state: &Utf8Path,
        workspace: &Workspace,
        docker: &Docker,
        labels: &Labels,
        watchdog: &Watchdog,
        clean: &mut Option<Cleaner>,
    ) -> Result<Footing, Failure> {
        let engine = docker.engine()?;
        preflight::check_engine(&engine, &self.settings)?;
        match &self.goes_on {
            None => preflight::resolve_images(docker, &mut self.resolved, &self.active)?,
            Some(_) => preflight::check_images(docker, &self.resolved, &self.active)?,
        }
        let collector = preflight::collector_id(docker, &self.settings)?;
        self.warnings.extend(network::ready(docker, &self.resolved, &self.active)?);
        let cleaner =
            Cleaner { docker: docker.clone(), labels: labels.clone(), collector: collector.clone() };
        let checkouts = self.settings.sandbox.checkout_dir.as_deref();
        reap(checkouts, state, &cleaner);
        if self.goes_on.is_some() {
            leftovers_of(id, checkouts, state, workspace.root(), &cleaner)?;
        }
        *clean = Some(cleaner);

        let register = watchdog.register();
        let events =
            Events::listen(docker, &labels.owner, &engine.time, Arc::clone(&register)).map_err(|error| {
                Failure::infrastructure(format!("`docker events` could not be started: {error}"))
            })?;
        let probe = Labels { node: "probe".to_owned(), ..labels.clone() };
        let agent = preflight::probe_mount(docker, &collector, &probe, &workspace.root().join("checkouts"))?;
        let access = if rustix::process::geteuid().is_root() {
            Access::Owner(RunAs { uid: agent.0, gid: agent.1 })
        } else {
            Access::Everyone
        };
        let cpus = Some(engine.cpus).filter(|cpus| *cpus > 0);
        Ok(Footing { events, collector, access, cpus, register, host: None })
    }
}
