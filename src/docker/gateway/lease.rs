//! What a run asks of a running gateway: an address with hosts, taken back when its container is gone.
//!
//! The gateway's own program answers, inside its container and under one lock for all kews of the engine. Invariant: a lease
//! counts only if the gateway has read its entries back.

use super::{GATEWAY, GatewayError, log};
use crate::{
    docker::{
        client::Docker,
        network::{self, LEASED},
    },
    egress::{Dealings, Host},
};

/// The program in the gateway's image.
const CONTROL: &str = "/usr/local/lib/kew/gateway-control.pl";

/// An address that is one container's, with the hosts that it may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// Unlike any other's.
    pub id: String,
    /// The address.
    pub address: String,
    /// When it began, by the engine's clock: unix seconds with a fraction.
    pub since: String,
    /// What it allows.
    pub hosts: Vec<Host>,
}

/// What a gateway says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Changes whenever it starts.
    pub generation: String,
    /// Leases that are out.
    pub leases: usize,
}

/// What the gateway's resolver says of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolved {
    /// It has an address.
    Address,
    /// There is no such name, or it has no address.
    None,
    /// Nobody answers.
    Silent,
}

fn control(docker: &Docker, args: &[&str]) -> Result<String, GatewayError> {
    let answer = docker.query(["exec", GATEWAY, CONTROL]).args(args).run();
    let answer = answer.map_err(|error| GatewayError::Docker(error.into()))?;
    if answer.ok() { Ok(answer.text()) } else { Err(GatewayError::Said(answer.stderr)) }
}

/// Its own word that it works.
pub fn status(docker: &Docker) -> Result<Status, GatewayError> {
    let text = control(docker, &["status"])?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    match (field("generation"), field("leases").and_then(|leases| leases.parse().ok())) {
        (Some(generation), Some(leases)) => Ok(Status { generation: generation.to_owned(), leases }),
        _ => Err(GatewayError::Said(format!("its status cannot be read: {text}"))),
    }
}

/// An address that no other container has, with these hosts and no others. `id`: unlike any other's.
pub fn take(docker: &Docker, id: &str, hosts: &[Host]) -> Result<Lease, GatewayError> {
    let attached = network::check_allowlist(docker)?;
    let busy: Vec<&str> = attached.iter().map(|container| container.address.as_str()).collect();
    let (busy, first, last) = (busy.join(","), LEASED.0.to_string(), LEASED.1.to_string());
    let names: Vec<String> = hosts.iter().map(Host::full).collect();
    let mut args = vec!["lease", id, &first, &last, &busy];
    args.extend(names.iter().map(String::as_str));
    let text = control(docker, &args)?;
    let words: Vec<&str> = text.split(' ').collect();
    match words.as_slice() {
        ["leased", address, since] => Ok(Lease {
            id: id.to_owned(),
            address: (*address).to_owned(),
            since: (*since).to_owned(),
            hosts: hosts.to_vec(),
        }),
        _ => Err(GatewayError::Said(format!("its answer cannot be read: {text}"))),
    }
}

/// Takes the address back, with its connections; its container must be gone. Tells what was asked for and refused meanwhile.
pub fn give_back(docker: &Docker, lease: &Lease) -> Dealings {
    let trouble = match control(docker, &["release", &lease.id, &lease.address]).as_deref() {
        Ok("released") => None,
        Ok(_) => Some(
            "the gateway was started again while it ran, so from then on it could reach nothing".to_owned(),
        ),
        Err(error) => Some(format!("{error}; what it asked for then is not known")),
    };
    let mut asked = log::of(docker, lease).unwrap_or_default();
    asked.trouble = trouble.or(asked.trouble);
    asked
}

/// Asks the gateway's resolver for each name.
pub fn resolve(docker: &Docker, names: &[&str]) -> Result<Vec<Resolved>, GatewayError> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let text = control(docker, &[&["resolve"], names].concat())?;
    let word = |name: &&str| {
        let word = text.lines().find_map(|line| line.strip_prefix(*name)?.strip_prefix(' '));
        match word {
            Some("address") => Resolved::Address,
            Some("none") => Resolved::None,
            _ => Resolved::Silent,
        }
    };
    Ok(names.iter().map(word).collect())
}
