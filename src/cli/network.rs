//! `kew sandbox network`: makes, removes and looks at the allowlist network; and what a run asks of it before it begins.
//!
//! `check` is in a file of its own. Invariant: a run on the allowlist begins only if every part of it has answered.

mod check;

use std::collections::{BTreeMap, BTreeSet};

use super::{NetworkArgs, NetworkCommand, preflight::Resolved, put, sandbox, say};
use crate::{
    config::Settings,
    docker::{
        argv::{ALLOWLIST_NETWORK, GATEWAY_ADDRESS, Network},
        client::Docker,
        gateway::{
            self, GATEWAY, GATEWAY_IMAGE, GatewayError, Renew, firewall,
            lease::{self, Resolved as Answer},
            probe,
        },
        network::{self, OUTER_NETWORK, SUBNET},
    },
    egress::Host,
    error::{Failure, exit},
    plan::spec::Node,
    run::fresh,
    runners::Runner,
    text,
};

/// Carries one of the commands out.
pub fn network(command: &NetworkCommand) -> Result<u8, Failure> {
    match command {
        NetworkCommand::Up(args) => up(args, Renew::IfNeeded),
        NetworkCommand::Reload(args) => up(args, Renew::Always),
        NetworkCommand::Down => {
            let (docker, _config) = sandbox::engine()?;
            gateway::down(&docker)?;
            say("the allowlist network, its gateway and its firewall rules are removed");
            Ok(exit::PASSED)
        }
        NetworkCommand::Status(args) => status(args),
        NetworkCommand::Check(args) => check::check(args),
    }
}

fn up(args: &NetworkArgs, renew: Renew) -> Result<u8, Failure> {
    let settings = sandbox::settings(args.repo.repo.as_deref())?;
    let (docker, _config) = sandbox::engine()?;
    say(&bring_up(&docker, &settings, renew)?);
    Ok(exit::PASSED)
}

/// Everything that the settings need of the gateway; says what was done.
pub fn bring_up(docker: &Docker, settings: &Settings, renew: Renew) -> Result<String, Failure> {
    let done = gateway::up(docker, &ports_of(&all_hosts(settings)), renew)?;
    let what = if done.is_empty() { "up to date".to_owned() } else { done.join(", ") };
    Ok(format!("network {ALLOWLIST_NETWORK}: {what}"))
}

/// Every host that any runner of the settings may reach.
fn all_hosts(settings: &Settings) -> BTreeSet<Host> {
    settings.registry.all().iter().flat_map(|runner| settings.sandbox.hosts(*runner)).collect()
}

fn ports_of<'a>(hosts: impl IntoIterator<Item = &'a Host>) -> BTreeSet<u16> {
    hosts.into_iter().map(Host::port).collect()
}

/// The hosts that a node may reach: what the settings allow its runner, or the part of it that the node narrows to.
pub fn hosts_of(node: &Node, runner: &dyn Runner, network: Network, settings: &Settings) -> Vec<Host> {
    if network != Network::Allowlist {
        return Vec::new();
    }
    let Some(narrowed) = &node.allow else { return settings.sandbox.hosts(runner).into_iter().collect() };
    let own = runner.hosts().iter().filter_map(|host| Host::new(host).ok());
    narrowed.iter().cloned().chain(own).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Stops unless everything is as it must be for the nodes that join the allowlist network; gives what is worth a warning.
pub fn ready(docker: &Docker, nodes: &[Resolved], active: &[bool]) -> Result<Vec<String>, Failure> {
    let joining: Vec<&Resolved> = nodes
        .iter()
        .zip(active)
        .filter(|(node, active)| **active && node.network == Network::Allowlist)
        .map(|(node, _)| node)
        .collect();
    if joining.is_empty() {
        return Ok(Vec::new());
    }
    let hosts: BTreeSet<&Host> = joining.iter().flat_map(|node| &node.allow).collect();
    gateway::ready(docker, &ports_of(hosts.iter().copied()))?;
    probe::reach(docker, &format!("kew-probe-{}", fresh(6)))?;
    let names: BTreeSet<&str> = hosts.iter().map(|host| host.name()).collect();
    let names: Vec<&str> = names.into_iter().collect();
    let answers: BTreeMap<&str, Answer> =
        names.iter().copied().zip(lease::resolve(docker, &names)?).collect();
    let with = |wanted: Answer| {
        let names = answers.iter().filter(move |(_, answer)| **answer == wanted);
        names.map(|(name, _)| (*name).to_owned()).collect::<Vec<_>>()
    };
    let silent = with(Answer::Silent);
    if !silent.is_empty() {
        return Err(GatewayError::Resolver(silent).into());
    }
    let unknown = with(Answer::None);
    Ok(if unknown.is_empty() {
        Vec::new()
    } else {
        vec![format!("allowed, but the engine's resolver knows no address of {}", text::list(unknown, "and"))]
    })
}

fn status(args: &NetworkArgs) -> Result<u8, Failure> {
    let settings = sandbox::settings(args.repo.repo.as_deref())?;
    let (docker, _config) = sandbox::engine()?;
    let mut bad = 0;
    let mut line = |what: &str, found: Result<String, GatewayError>| match found {
        Ok(says) => put(&format!("ok   {what}: {says}\n")),
        Err(error) => {
            bad += 1;
            let failure = Failure::from(error);
            put(&format!("FAIL {what}: {}\n", failure.message));
            if let Some(help) = failure.help {
                put(&format!("     help: {help}\n"));
            }
        }
    };
    line(
        "engine",
        docker.engine().map_err(GatewayError::from).and_then(|engine| {
            gateway::supported(&engine)?;
            Ok(engine.version)
        }),
    );
    line(
        ALLOWLIST_NETWORK,
        network::check_allowlist(&docker).map_err(GatewayError::from).map(|attached| {
            let agents = attached.iter().filter(|container| container.name != GATEWAY).count();
            format!("internal, {SUBNET}, {} on it", text::plural(agents, "container"))
        }),
    );
    line(
        OUTER_NETWORK,
        network::check_outer(&docker).map_err(GatewayError::from).map(|()| "there".to_owned()),
    );
    let wanted = ports_of(&all_hosts(&settings));
    line(
        GATEWAY,
        gateway::ready(&docker, &wanted).and_then(|status| {
            let found = gateway::find(&docker)?;
            let ports: Vec<String> = found.ports.iter().map(u16::to_string).collect();
            let old = docker.image_id(GATEWAY_IMAGE)?.is_some_and(|image| image != found.image);
            let old = if old { "; its image is not the newest: `kew sandbox network reload`" } else { "" };
            Ok(format!(
                "runs at {GATEWAY_ADDRESS}, ports {}, {} at it{old}",
                ports.join(" "),
                text::plural(status.leases, "lease")
            ))
        }),
    );
    let image = docker.image_id(GATEWAY_IMAGE)?;
    line(
        "firewall",
        image.ok_or(GatewayError::NoImage).and_then(|image| {
            if firewall::check(&docker, &image)? {
                Ok("the rules are there".to_owned())
            } else {
                Err(GatewayError::Firewall(
                    "they are not there, so that nobody reaches the gateway".to_owned(),
                ))
            }
        }),
    );
    line(
        "way",
        probe::reach(&docker, &format!("kew-probe-{}", fresh(6)))
            .map(|()| "a container reaches the gateway".to_owned()),
    );
    Ok(if bad > 0 { exit::INFRASTRUCTURE } else { exit::PASSED })
}
