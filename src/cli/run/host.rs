//! Host mode, seen from `kew run`: what is said of it, and what attempts stand on where there is no engine.
//!
//! Nothing here is reached but by `sandbox.enabled = false` of the user's own. Invariant: no engine is asked for anything.

use std::{collections::HashMap, fs, path::PathBuf};

use super::{Ready, footing::Footing};
use crate::{
    config::Settings,
    docker::{argv::Network, events::Events},
    error::Failure,
    git::access::Access,
    name::NodeId,
    process::query::RunAs,
    run::{
        host::{self, Ground, agent_env},
        watchdog::Watchdog,
    },
    runners::host::{Handoff, HostCommand},
    text,
    workspace::Workspace,
};

/// What stands where an engine's endpoint is wanted: no engine can be there.
pub(super) const NOWHERE: &str = "unix:///nonexistent/kew-host-mode.sock";

/// What every run in host mode says first.
pub(in crate::cli) const LOUD: &str = "`sandbox.enabled = false`: agents are processes of this host, NOT CONTAINED. They can \
     read, change and send all that you can: files, keys, logins and the network";

/// What is said of host mode before a run; nothing if agents are contained.
pub(super) fn warnings(settings: &Settings, runners: &[&str]) -> Vec<String> {
    if settings.sandbox.enabled {
        return Vec::new();
    }
    let mut said = vec![LOUD.to_owned()];
    let root = rustix::process::geteuid().is_root();
    if root && runners.contains(&"claude-code") {
        said.push("agents run as root; the claude CLI refuses to skip permissions there".to_owned());
    }
    let sandbox = &settings.sandbox;
    let mut idle = Vec::new();
    if sandbox.network != Network::Allowlist {
        idle.push("sandbox.network");
    }
    if !sandbox.images.is_empty() || !sandbox.toolchains.is_empty() {
        idle.push("sandbox.images");
    }
    if !idle.is_empty() {
        let keys = text::list(idle, "and");
        said.push(format!("{keys}, memory, process and CPU limits mean nothing on the host"));
    }
    said
}

impl Ready {
    /// Agents run on the host.
    pub(super) fn on_host(&self) -> bool {
        !self.settings.sandbox.enabled
    }

    /// The network of the run in one word.
    pub(super) fn network(&self) -> &'static str {
        if self.on_host() { host::NETWORK } else { self.settings.sandbox.network.word() }
    }

    /// What attempts stand on: this machine alone.
    pub(super) fn host_footing(
        &self,
        workspace: &Workspace,
        watchdog: &Watchdog,
    ) -> Result<Footing, Failure> {
        let broken = |error: std::io::Error| Failure::infrastructure(error.to_string());
        let folder = workspace.root().join("host");
        fs::create_dir(&folder).map_err(broken)?;
        let kew = std::env::current_exe().map_err(broken)?;
        let register = watchdog.register_guards();
        let ground = Ground {
            kew: kew.to_string_lossy().into_owned(),
            commands: self.commands()?,
            env: agent_env(|name| std::env::var_os(name), []),
            folder,
            register: register.clone(),
        };
        let own =
            RunAs { uid: rustix::process::geteuid().as_raw(), gid: rustix::process::getegid().as_raw() };
        Ok(Footing {
            events: Events::none(),
            collector: String::new(),
            access: Access::Owner(own),
            cpus: None,
            register,
            host: Some(ground),
        })
    }

    /// The command of every node of the run; each program must be there.
    fn commands(&self) -> Result<HashMap<NodeId, HostCommand>, Failure> {
        let mut commands = HashMap::new();
        let mut missing: Vec<String> = Vec::new();
        let nodes = self.checked.plan.nodes.iter().zip(&self.resolved).zip(&self.active);
        for ((node, resolved), _) in nodes.filter(|(_, active)| **active) {
            let Some(command) = &resolved.command else { continue };
            let helper = (command.prompt == Handoff::Script).then_some("perl");
            let lost = [Some(command.program.as_str()), helper].into_iter().flatten();
            let lost = lost.filter(|program| found(program).is_none());
            missing.extend(lost.map(|program| format!("`{program}` of runner `{}`", resolved.runner.name())));
            let program = found(&command.program).unwrap_or_default();
            let program = program.to_string_lossy().into_owned();
            commands.insert(node.id.clone(), HostCommand { program, ..command.clone() });
        }
        missing.sort();
        missing.dedup();
        if missing.is_empty() {
            return Ok(commands);
        }
        Err(Failure::infrastructure(format!("no such program in PATH: {}", missing.join(", ")))
            .help("install it, or remove `sandbox.enabled = false`: in a container the image has it"))
    }
}

/// The whole path of a program, by absolute folders of `PATH` alone: a relative one would find it in a repository.
fn found(program: &str) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let runs = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_absolute() && runs(path));
    }
    let path = std::env::var_os("PATH")?;
    let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(program)).find(runs)
}
