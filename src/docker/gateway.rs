//! The gateway: the one container on both networks, which answers and forwards for hosts that an address was leased with.
//!
//! `lease` is what a run asks of it, `log` reads what it wrote of an address, `firewall` sets the host's rules. Invariant: it
//! allows nothing to anybody until a lease says so, and forgets all of them when it starts again.

pub mod firewall;
pub mod lease;
pub mod log;
pub mod probe;

use std::{
    collections::{BTreeMap, BTreeSet},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;

use super::{
    argv::{ALLOWLIST_NETWORK, GATEWAY_ADDRESS},
    client::{Docker, DockerError, Engine},
    network::{self, NetworkError, OUTER_NETWORK, SUBNET},
};
use crate::egress::TLS_PORT;

/// The container's name.
pub const GATEWAY: &str = "kew-gateway";
/// The image's name.
pub const GATEWAY_IMAGE: &str = "kew-gateway:latest";
/// The label of the container.
const GATEWAY_LABEL: &str = "kew.gateway=1";
/// The ports that it listens on for TLS, in its environment.
const PORTS: &str = "KEW_GATEWAY_PORTS";
/// How long it may take to answer after its start.
const ANSWER: Duration = Duration::from_secs(30);

/// Why nothing can leave by the gateway.
#[derive(Debug, thiserror::Error)]
pub enum GatewayError {
    /// A network is not as it must be.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Docker gave no answer.
    #[error(transparent)]
    Docker(#[from] DockerError),
    /// An engine whose firewall kew cannot reach.
    #[error(
        "{0}: the allowlist network needs firewall rules on the engine's own host, which kew cannot set there"
    )]
    Unsupported(&'static str),
    /// No image.
    #[error("no such image on the engine: `{GATEWAY_IMAGE}`, kew's own gateway")]
    NoImage,
    /// No container.
    #[error("the gateway `{GATEWAY}` does not exist")]
    Absent,
    /// It is there and does not run.
    #[error("the gateway `{GATEWAY}` does not run: it is {0}")]
    Down(String),
    /// A container of that name that is not as kew makes it.
    #[error("the container `{GATEWAY}` is not the one that kew makes: {0}")]
    Foreign(String),
    /// Hosts need a port that it does not listen on.
    #[error("the gateway `{GATEWAY}` does not listen on {}", ports_of(.0))]
    Ports(BTreeSet<u16>),
    /// Leases are out, so that it cannot be replaced.
    #[error("{} at the gateway: it cannot be replaced or removed now", crate::text::plural(*.0, "running container"))]
    InUse(usize),
    /// It did not do what was asked.
    #[error("the gateway `{GATEWAY}` did not do what it was asked: {0}")]
    Said(String),
    /// The firewall rules are not there, or could not be set.
    #[error("the firewall rules are not as they must be: {0}")]
    Firewall(String),
    /// Packets do not get there.
    #[error("the gateway `{GATEWAY}` runs, but a container on `{ALLOWLIST_NETWORK}` does not reach it: {0}")]
    Unreached(String),
    /// Nobody answers the gateway's questions for hosts.
    #[error("the gateway's resolver gives no answer for {}", crate::text::list(.0, "and"))]
    Resolver(Vec<String>),
}

fn ports_of(ports: &BTreeSet<u16>) -> String {
    crate::text::list(ports.iter().map(|port| format!("port {port}")), "and")
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    image: String,
    state: State,
    config: Config,
    network_settings: Networks,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct State {
    status: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Config {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    env: Option<Vec<String>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Networks {
    #[serde(default)]
    networks: BTreeMap<String, Joined>,
}

#[derive(Debug, Deserialize)]
struct Joined {
    #[serde(default, rename = "IPAddress")]
    address: String,
}

/// A gateway that is as kew makes it; it need not run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The id of the image that it was made from.
    pub image: String,
    /// `running`, `exited`, …
    pub status: String,
    /// The ports for TLS.
    pub ports: BTreeSet<u16>,
}

/// Looks at the container.
pub fn find(docker: &Docker) -> Result<Found, GatewayError> {
    let args = ["container", "inspect", "--format", "{{json .}}", GATEWAY];
    match docker.ask(&args) {
        Ok(text) => judge(&text).map_err(GatewayError::Foreign),
        Err(DockerError::Refused { stderr, .. }) if stderr.to_lowercase().contains("no such container") => {
            Err(GatewayError::Absent)
        }
        Err(error) => Err(error.into()),
    }
}

fn judge(text: &str) -> Result<Found, String> {
    let gateway: Inspected =
        serde_json::from_str(text).map_err(|_| "docker's description of it cannot be read".to_owned())?;
    let (key, value) = GATEWAY_LABEL.split_once('=').expect("the label has a value");
    let label = gateway.config.labels.as_ref().and_then(|labels| labels.get(key));
    if label.map(String::as_str) != Some(value) {
        return Err(format!("it has no label `{GATEWAY_LABEL}`"));
    }
    let joined = &gateway.network_settings.networks;
    let running = gateway.state.status == "running";
    let inner = joined.get(ALLOWLIST_NETWORK).map(|joined| joined.address.as_str());
    if !joined.contains_key(OUTER_NETWORK) || inner.is_none_or(|at| running && at != GATEWAY_ADDRESS) {
        return Err(format!(
            "it is not on `{ALLOWLIST_NETWORK}` at {GATEWAY_ADDRESS} and on `{OUTER_NETWORK}`"
        ));
    }
    let env = gateway.config.env.unwrap_or_default();
    let ports = env.iter().find_map(|pair| pair.strip_prefix(PORTS)?.strip_prefix('='));
    let ports = ports.unwrap_or_default().split(' ').filter_map(|port| port.parse().ok()).collect();
    Ok(Found { image: gateway.image, status: gateway.state.status, ports })
}

/// The items after `docker` that make the container; the outer network is joined afterwards, before its start.
fn create_argv(image: &str, ports: &BTreeSet<u16>) -> Vec<String> {
    let mut argv: Vec<String> =
        ["create", "--name", GATEWAY, "--label", GATEWAY_LABEL, "--init", "--restart", "unless-stopped"]
            .map(String::from)
            .into();
    argv.extend(["--pull", "never", "--read-only"].map(String::from));
    argv.extend(["--tmpfs", "/run/kew:mode=0700,uid=65534,gid=65534,size=64m"].map(String::from));
    argv.extend(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"].map(String::from));
    argv.extend(["--pids-limit", "128", "--memory", "256m", "--memory-swap", "256m"].map(String::from));
    // Refusals are read from there; what an agent can make it write is bounded.
    argv.extend(["--log-driver", "json-file", "--log-opt", "max-size=10m"].map(String::from));
    argv.extend(["--log-opt", "max-file=2"].map(String::from));
    // It forwards connections, never packets; and it listens below 1024 without being root.
    argv.extend(["--sysctl", "net.ipv4.ip_forward=0"].map(String::from));
    argv.extend(["--sysctl", "net.ipv4.ip_unprivileged_port_start=0"].map(String::from));
    argv.extend(["--network", ALLOWLIST_NETWORK, "--ip", GATEWAY_ADDRESS].map(String::from));
    argv.extend(["--env".to_owned(), format!("KEW_GATEWAY_IP={GATEWAY_ADDRESS}")]);
    argv.extend(["--env".to_owned(), format!("KEW_GATEWAY_NET={SUBNET}")]);
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    argv.extend(["--env".to_owned(), format!("{PORTS}={}", ports.join(" "))]);
    argv.push(image.to_owned());
    argv
}

/// Refuses engines that kew cannot set firewall rules for.
pub fn supported(engine: &Engine) -> Result<(), GatewayError> {
    if engine.rootless {
        return Err(GatewayError::Unsupported("this is a rootless engine"));
    }
    if engine.desktop {
        return Err(GatewayError::Unsupported(
            "this is Docker Desktop, whose engine runs in a virtual machine",
        ));
    }
    Ok(())
}

/// Whether a gateway that is there is left alone, or made again with what is wanted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renew {
    /// Only where it lacks a port, or its image is another now.
    IfNeeded,
    /// In any case.
    Always,
}

/// Networks, container and firewall rules, all of them as they must be when this returns. `wanted`: ports beside those that
/// it has. Says what was done.
pub fn up(docker: &Docker, wanted: &BTreeSet<u16>, renew: Renew) -> Result<Vec<&'static str>, GatewayError> {
    supported(&docker.engine()?)?;
    let mut done = Vec::new();
    let image = docker.image_id(GATEWAY_IMAGE)?.ok_or(GatewayError::NoImage)?;
    if network::ensure_networks(docker)? {
        done.push("networks made");
    }
    let mut ports: BTreeSet<u16> = wanted.iter().copied().chain([TLS_PORT]).collect();
    let made = match find(docker) {
        Err(GatewayError::Absent) => {
            create(docker, &image, &ports)?;
            done.push("gateway made");
            true
        }
        Err(error) => return Err(error),
        Ok(found) => {
            let lacks = !ports.is_subset(&found.ports) || found.image != image;
            ports.extend(&found.ports);
            if renew == Renew::Always || lacks {
                // One that does not run has forgotten its leases.
                let leases = if found.status == "running" {
                    lease::status(docker).map_or(0, |status| status.leases)
                } else {
                    0
                };
                if leases > 0 {
                    return Err(GatewayError::InUse(leases));
                }
                docker.remove(GATEWAY)?;
                create(docker, &image, &ports)?;
                done.push("gateway made again");
                true
            } else {
                false
            }
        }
    };
    if firewall::set(docker, &image)? {
        done.push("firewall rules set");
    }
    if !made && find(docker)?.status != "running" {
        docker.ask(&["start", GATEWAY])?;
        done.push("gateway started");
    }
    wait(docker)?;
    Ok(done)
}

fn create(docker: &Docker, image: &str, ports: &BTreeSet<u16>) -> Result<(), GatewayError> {
    let argv = create_argv(image, ports);
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    docker.ask(&argv)?;
    docker.ask(&["network", "connect", OUTER_NETWORK, GATEWAY])?;
    docker.ask(&["start", GATEWAY])?;
    Ok(())
}

/// Until it answers.
fn wait(docker: &Docker) -> Result<(), GatewayError> {
    let begun = Instant::now();
    loop {
        match lease::status(docker) {
            Ok(_) => return Ok(()),
            Err(error) if begun.elapsed() > ANSWER => return Err(error),
            Err(_) => thread::sleep(Duration::from_millis(100)),
        }
    }
}

/// Removes container, firewall rules and networks, unless something uses them.
pub fn down(docker: &Docker) -> Result<(), GatewayError> {
    match find(docker) {
        Ok(found) => {
            if found.status == "running"
                && let Ok(status) = lease::status(docker)
                && status.leases > 0
            {
                return Err(GatewayError::InUse(status.leases));
            }
            docker.remove(GATEWAY)?;
        }
        Err(GatewayError::Absent) => {}
        Err(error) => return Err(error),
    }
    network::remove_networks(docker)?;
    if let Some(image) = docker.image_id(GATEWAY_IMAGE)? {
        firewall::remove(docker, &image)?;
    }
    Ok(())
}

/// That a run may begin: both networks, the container, its ports, and its own word that it works. Gives the status.
pub fn ready(docker: &Docker, wanted: &BTreeSet<u16>) -> Result<lease::Status, GatewayError> {
    network::check_allowlist(docker)?;
    network::check_outer(docker)?;
    let found = find(docker)?;
    if found.status != "running" {
        return Err(GatewayError::Down(found.status));
    }
    let missing: BTreeSet<u16> = wanted.difference(&found.ports).copied().collect();
    if !missing.is_empty() {
        return Err(GatewayError::Ports(missing));
    }
    lease::status(docker)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"Id":"x","Image":"sha256:1","State":{"Status":"running","Running":true},
        "Config":{"Labels":{"kew.gateway":"1"},"Env":["PATH=/bin","KEW_GATEWAY_PORTS=443 8443"]},
        "NetworkSettings":{"Networks":{"kew-allowlist":{"IPAddress":"172.31.248.2"},"kew-egress":{"IPAddress":"172.18.0.2"}}}}"#;

    #[test]
    fn only_the_container_that_kew_makes_is_taken() {
        let found = judge(GOOD).unwrap();
        assert_eq!((found.status.as_str(), found.ports), ("running", BTreeSet::from([443, 8443])));
        for (from, to, says) in [
            (r#""kew.gateway":"1""#, r#""other":"1""#, "no label"),
            (r#""172.31.248.2""#, r#""172.31.251.1""#, "is not on"),
            ("kew-egress", "bridge", "is not on"),
            (r#""Image""#, r#""Picture""#, "cannot be read"),
        ] {
            let why = judge(&GOOD.replacen(from, to, 1)).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
        // One that does not run has no address.
        let stopped = GOOD.replace("running", "exited").replace("172.31.248.2", "");
        assert_eq!(judge(&stopped).unwrap().status, "exited");
    }

    #[test]
    fn the_gateway_is_as_hardened_as_an_agent() {
        insta::assert_snapshot!(create_argv("sha256:1", &BTreeSet::from([443, 8443])).join(" "), @"create --name kew-gateway --label kew.gateway=1 --init --restart unless-stopped --pull never --read-only --tmpfs /run/kew:mode=0700,uid=65534,gid=65534,size=64m --cap-drop ALL --security-opt no-new-privileges --pids-limit 128 --memory 256m --memory-swap 256m --log-driver json-file --log-opt max-size=10m --log-opt max-file=2 --sysctl net.ipv4.ip_forward=0 --sysctl net.ipv4.ip_unprivileged_port_start=0 --network kew-allowlist --ip 172.31.248.2 --env KEW_GATEWAY_IP=172.31.248.2 --env KEW_GATEWAY_NET=172.31.248.0/22 --env KEW_GATEWAY_PORTS=443 8443 sha256:1");
    }
}
