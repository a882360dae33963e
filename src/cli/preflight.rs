//! What must be right before the first container: images, credentials, the engine, the network, the mount. Every doubt
//! stops the run here, with what to do.

use std::{
    collections::BTreeMap, ffi::OsString, fs, os::unix::fs::MetadataExt as _,
    os::unix::fs::PermissionsExt as _,
};

use camino::Utf8Path;

use super::dry_run::network_of;
use crate::{
    config::{Sandbox, Settings},
    docker::{
        argv::{Labels, Network},
        client::{Docker, Engine},
        sealed::{Access, Sealed, run_sealed},
    },
    egress::Host,
    error::Failure,
    name::EnvName,
    plan::spec::Plan,
    run::{NodeSetup, fresh, host},
    runners::{Runner, host::HostCommand},
    text,
};

/// Whether a credential's variable is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CredentialState {
    /// Set, to something.
    Set,
    /// Set, to nothing.
    Empty,
    /// Not set.
    Unset,
}

/// What a node of a plan comes down to, by the settings.
#[derive(Clone)]
pub struct Resolved {
    /// Its runner.
    pub runner: &'static dyn Runner,
    /// Its image, as the settings name it.
    pub image: String,
    /// Its image's id, once the engine was asked.
    pub image_id: Option<String>,
    /// Its network.
    pub network: Network,
    /// The hosts that it may reach there, if that is the allowlist.
    pub allow: Vec<Host>,
    /// Its credentials.
    pub credentials: Vec<(EnvName, CredentialState)>,
    /// In host mode: its command, which is all there is instead of an image.
    pub command: Option<HostCommand>,
}

/// Resolves every node by the settings. `env` looks variables up.
pub fn resolve(
    plan: &Plan,
    settings: &Settings,
    env: impl Fn(&str) -> Option<OsString>,
) -> Result<Vec<Resolved>, Failure> {
    let of = |(ix, node): (usize, &crate::plan::spec::Node)| {
        // The check has refused unknown runners and missing images already; here it is a bug to get so far.
        let runner = settings
            .registry
            .find(&node.runner)
            .ok_or_else(|| Failure::usage(format!("unknown runner `{}`", node.runner)))?;
        if !settings.sandbox.enabled {
            let command = runner.build_command(node.model.as_deref()).map_err(|why| {
                Failure::usage(format!("node `{}`: the runner `{}` {why}", node.id, node.runner))
            })?;
            return Ok(Resolved {
                runner,
                image: host::IMAGE.to_owned(),
                image_id: None,
                network: Network::Open,
                allow: Vec::new(),
                credentials: credential_states(runner, settings, &env),
                command: Some(command),
            });
        }
        let image = settings.sandbox.image(&node.runner, node.toolchain.as_deref()).ok_or_else(|| {
            Failure::usage(format!("node `{}`: the runner `{}` has no image", node.id, node.runner))
                .help(format!("set `sandbox.images.{}`", node.runner))
        })?;
        Ok(Resolved {
            runner,
            image: image.to_owned(),
            image_id: None,
            network: network_of(plan, ix, settings),
            allow: super::network::hosts_of(node, runner, network_of(plan, ix, settings), settings),
            credentials: credential_states(runner, settings, &env),
            command: None,
        })
    };
    plan.nodes.iter().enumerate().map(of).collect()
}

/// The credentials that a runner is given by the settings, and whether they are there. `env` looks variables up.
pub fn credential_states(
    runner: &dyn Runner,
    settings: &Settings,
    env: impl Fn(&str) -> Option<OsString>,
) -> Vec<(EnvName, CredentialState)> {
    let state = |name: EnvName| {
        let state = match env(name.as_str()) {
            None => CredentialState::Unset,
            Some(value) if value.is_empty() => CredentialState::Empty,
            Some(_) => CredentialState::Set,
        };
        (name, state)
    };
    settings.credentials(runner).into_iter().map(state).collect()
}

/// What is wrong with a runner's credentials; `None` = one is set, and none is set but empty.
pub fn credential_gap(credentials: &[(EnvName, CredentialState)]) -> Option<String> {
    let names =
        |state| credentials.iter().filter(move |(_, s)| *s == state).map(|(name, _)| name.to_string());
    let empty: Vec<String> = names(CredentialState::Empty).collect();
    if !empty.is_empty() {
        let verb = if empty.len() == 1 { "is" } else { "are" };
        return Some(format!("{} {verb} set but empty", text::list(empty, "and")));
    }
    if credentials.is_empty() || names(CredentialState::Set).next().is_some() {
        return None;
    }
    let unset: Vec<String> = names(CredentialState::Unset).collect();
    Some(match unset.as_slice() {
        [only] => format!("its credential `{only}` is not set"),
        _ => format!("none of its credentials is set: {}", text::list(unset, "or")),
    })
}

/// What to say where several credentials of a runner are set and the settings choose none of them.
pub fn credential_choice(runner: &dyn Runner, credentials: &[(EnvName, CredentialState)]) -> Option<String> {
    let set: Vec<&EnvName> = credentials
        .iter()
        .filter(|(_, state)| *state == CredentialState::Set)
        .map(|(name, _)| name)
        .collect();
    let (first, others) = set.split_first().filter(|(_, others)| !others.is_empty())?;
    let name = runner.name();
    Some(format!(
        "runner `{name}`: {} are set; its agent uses and bills `{first}`, not {}; to choose, put `{name} = \"{}\"` under \
         `[credentials]` in your own settings file, `~/.config/kew/config.toml`, or unset the other",
        text::list(&set, "and"),
        text::list(others, "or"),
        others[0],
    ))
}

/// Stops unless every runner of the run has a credential: one of its names set, none set but empty.
pub fn check_credentials(plan: &Plan, nodes: &[Resolved], active: &[bool]) -> Result<(), Failure> {
    let mut problems: BTreeMap<&str, (String, Vec<&str>)> = BTreeMap::new();
    let mut advice: Vec<&str> = Vec::new();
    for (ix, node) in nodes.iter().enumerate().filter(|(ix, _)| active[*ix]) {
        let Some(what) = credential_gap(&node.credentials) else { continue };
        let unset = node.credentials.iter().all(|(_, state)| *state == CredentialState::Unset);
        advice.extend(node.runner.credential_advice().filter(|advised| unset && !advice.contains(advised)));
        problems.entry(node.runner.name()).or_insert((what, Vec::new())).1.push(plan.nodes[ix].id.as_str());
    }
    if problems.is_empty() {
        return Ok(());
    }
    let lines = problems.iter().map(|(runner, (what, nodes))| {
        format!("runner `{runner}` (of {}): {what}", text::short_list(nodes, 5))
    });
    let lines: Vec<String> = lines.collect();
    if advice.is_empty() {
        advice.push("export one of the names with its value; unset what you do not use");
    }
    Err(Failure::usage(lines.join("\n       ")).help(advice.join("\n        ")))
}

/// Asks the engine for the id of every image that the run uses.
pub fn resolve_images(docker: &Docker, nodes: &mut [Resolved], active: &[bool]) -> Result<(), Failure> {
    let mut ids: BTreeMap<String, Option<String>> = BTreeMap::new();
    let mut missing: BTreeMap<String, String> = BTreeMap::new();
    for (_, node) in nodes.iter_mut().enumerate().filter(|(ix, _)| active[*ix]) {
        let id = match ids.get(&node.image) {
            Some(id) => id.clone(),
            None => ids.entry(node.image.clone()).or_insert(docker.image_id(&node.image)?).clone(),
        };
        if id.is_none() {
            missing.insert(node.image.clone(), node.runner.name().to_owned());
        }
        node.image_id = id;
    }
    if !missing.is_empty() {
        let runners: Vec<String> = missing.values().cloned().collect();
        return Err(Failure::infrastructure(format!(
            "no such image on the engine: {}",
            text::list(missing.keys(), "and")
        ))
        .help(format!("build it: `kew sandbox build {}`; kew never pulls", runners.join(" "))));
    }
    Ok(())
}

/// The images of a run that goes on: the very ones that it began with.
pub fn check_images(docker: &Docker, nodes: &[Resolved], active: &[bool]) -> Result<(), Failure> {
    let used = nodes.iter().zip(active).filter(|(_, active)| **active).map(|(node, _)| node);
    let ids: BTreeMap<&str, &str> =
        used.filter_map(|node| Some((node.image_id.as_deref()?, node.image.as_str()))).collect();
    let mut gone = Vec::new();
    for (id, image) in ids {
        if docker.image_id(id)?.is_none() {
            gone.push(image);
        }
    }
    if !gone.is_empty() {
        let what = text::list(gone, "and");
        return Err(Failure::infrastructure(format!("the image that the run began with is gone: {what}"))
            .help("a run goes on with the very images of its start; start a new run"));
    }
    Ok(())
}

/// kew's own helper image.
pub fn collector_id(docker: &Docker, settings: &Settings) -> Result<String, Failure> {
    let image = &settings.sandbox.collector;
    docker.image_id(image)?.ok_or_else(|| {
        Failure::infrastructure(format!("no such image on the engine: `{image}`, kew's own helper"))
            .help("build it: `kew sandbox build collector`")
    })
}

/// The settings against the engine's own bounds.
pub fn check_engine(engine: &Engine, settings: &Settings) -> Result<(), Failure> {
    let asked = settings.sandbox.cpus.filter(|cpus| engine.cpus > 0 && *cpus > f64::from(engine.cpus));
    match asked {
        None => Ok(()),
        Some(cpus) => Err(Failure::usage(format!(
            "`sandbox.cpus` = {cpus} is more than the engine has: {}",
            engine.cpus
        ))
        .help(format!("set `sandbox.cpus` to at most {}", engine.cpus))),
    }
}

/// Reads a nonce back through a container, and sees which user of this host the container's agent is. Proves that the
/// engine mounts the very folder that kew writes to.
pub fn probe_mount(
    docker: &Docker,
    collector: &str,
    labels: &Labels,
    checkouts: &Utf8Path,
) -> Result<(u32, u32), Failure> {
    let folder = checkouts.join("probe");
    let nonce = fresh(16);
    let io = |error: std::io::Error| {
        Failure::infrastructure(format!("the folder `{folder}` could not be written: {error}"))
    };
    fs::create_dir(&folder).map_err(io)?;
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).map_err(io)?;
    fs::write(folder.join("nonce"), &nonce).map_err(io)?;
    let name = format!("kew-{}-probe-{}", labels.run, fresh(4));
    let sealed = Sealed {
        name: &name,
        labels,
        image: collector,
        folder: folder.as_str(),
        access: Access::Write,
        script: "umask 022; : >/work/mine && cat /work/nonce",
        args: &[],
    };
    let answer = run_sealed(docker, &sealed, None, std::time::Duration::from_secs(120))?;
    if answer.code == Some(125) {
        return Err(Failure::infrastructure(format!(
            "docker could not start a container: {}",
            answer.stderr
        )));
    }
    if answer.text() != nonce {
        return Err(Failure::infrastructure(format!(
            "the docker engine does not mount this machine's `{checkouts}`: a file written there was not seen in a container ({})",
            if answer.stderr.is_empty() { "it was empty" } else { &answer.stderr }
        ))
        .help("set `sandbox.checkout_dir` in your own settings file to a folder that the engine sees under the same path"));
    }
    let meta = fs::symlink_metadata(folder.join("mine")).map_err(io)?;
    let owner = (meta.uid(), meta.gid());
    // The file is the agent's; its folder is ours, so it may go.
    fs::remove_dir_all(&folder).map_err(io)?;
    Ok(owner)
}

/// The first that is set is the one that the agent uses.
fn bills(node: &Resolved) -> String {
    let set = node.credentials.iter().find(|(_, state)| *state == CredentialState::Set);
    set.map_or_else(|| node.runner.name().to_owned(), |(name, _)| name.to_string())
}

/// The nodes of a run, with everything asked for.
pub fn setups(nodes: &[Resolved], sandbox: &Sandbox) -> Vec<NodeSetup> {
    let of = |node: &Resolved| NodeSetup {
        runner: node.runner,
        image: node.image.clone(),
        // Nodes that are not part of the run were not asked for, and are never launched.
        image_id: node.image_id.clone().unwrap_or_default(),
        credentials: node.credentials.iter().map(|(name, _)| name.clone()).collect(),
        bills: bills(node),
        network: node.network,
        allow: node.allow.clone(),
        idle: sandbox.idle(node.runner),
        step_cap: sandbox.steps(node.runner),
    };
    nodes.iter().map(of).collect()
}
