//! kew's two networks: the inner one that agents join, which leads nowhere, and the outer one, which only the gateway joins.
//!
//! The inner one is internal, has no address of the host on it and no traffic between its containers; its options are the
//! same on old and new engines. Invariant: a network of that name that is not exactly so is refused, never used.

use std::{collections::BTreeMap, net::Ipv4Addr};

use serde::Deserialize;

use super::{
    argv::ALLOWLIST_NETWORK,
    client::{Docker, DockerError},
};

/// The label of networks that kew made; its value says which kind.
pub const NETWORK_LABEL: &str = "kew.net";
/// The kind of the inner network.
const INNER_KIND: &str = "2";
/// The kind of the outer network.
const OUTER_KIND: &str = "outer";
/// The network that only the gateway joins.
pub const OUTER_NETWORK: &str = "kew-egress";

/// The inner network's bridge, by which firewall rules know it.
pub const INNER_BRIDGE: &str = "kew-int";
/// The outer network's bridge.
pub const OUTER_BRIDGE: &str = "kew-out";

/// The inner network. Nobody routes there: the host has no address in it.
pub const SUBNET: &str = "172.31.248.0/22";
/// The address that would be the host's; it is never assigned.
const NOBODY: &str = "172.31.248.1";
/// Addresses that are leased, first and last.
pub const LEASED: (Ipv4Addr, Ipv4Addr) = (Ipv4Addr::new(172, 31, 249, 0), Ipv4Addr::new(172, 31, 250, 255));
/// Addresses that the engine gives to containers without a lease; the gateway allows them nothing.
const UNLEASED: &str = "172.31.251.0/24";

/// What makes the inner network what it is: driver options.
const INNER_OPTIONS: [(&str, &str); 3] = [
    ("com.docker.network.bridge.name", INNER_BRIDGE),
    ("com.docker.network.bridge.inhibit_ipv4", "true"),
    ("com.docker.network.bridge.enable_icc", "false"),
];

/// Why a network cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Docker gave no answer.
    #[error(transparent)]
    Docker(#[from] DockerError),
    /// No such network.
    #[error("the network `{0}` does not exist")]
    Absent(&'static str),
    /// kew's, of a kind that an earlier kew made.
    #[error("the network `{ALLOWLIST_NETWORK}` was made by an earlier kew and has no gateway")]
    Old,
    /// Somebody else's network of that name, or one that was made in another way.
    #[error("the network `{name}` is not the one that kew makes: {why}")]
    Foreign {
        /// Its name.
        name: &'static str,
        /// What is different.
        why: String,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    internal: bool,
    driver: String,
    #[serde(default, rename = "EnableIPv6")]
    enable_ipv6: bool,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    options: Option<BTreeMap<String, String>>,
    #[serde(default, rename = "IPAM")]
    ipam: Ipam,
    #[serde(default)]
    containers: Option<BTreeMap<String, Member>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Ipam {
    #[serde(default)]
    config: Option<Vec<Range>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Range {
    #[serde(default)]
    subnet: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Member {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "IPv4Address")]
    address: String,
}

/// A container on the inner network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
}

fn inspect(docker: &Docker, name: &'static str) -> Result<Inspected, NetworkError> {
    let text = match docker.ask(&["network", "inspect", "--format", "{{json .}}", name]) {
        Ok(text) => text,
        Err(DockerError::Refused { stderr, .. })
            if stderr.to_lowercase().contains("no such network") || stderr.contains("not found") =>
        {
            return Err(NetworkError::Absent(name));
        }
        Err(error) => return Err(error.into()),
    };
    serde_json::from_str(&text).map_err(|_| NetworkError::Foreign {
        name,
        why: "docker's description of it cannot be read".to_owned(),
    })
}

/// Checks the inner network; gives the containers on it.
pub fn check_allowlist(docker: &Docker) -> Result<Vec<Attached>, NetworkError> {
    let network = inspect(docker, ALLOWLIST_NETWORK)?;
    judge_inner(&network)?;
    Ok(members(network))
}

/// Checks the outer network.
pub fn check_outer(docker: &Docker) -> Result<(), NetworkError> {
    let network = inspect(docker, OUTER_NETWORK)?;
    let kind = network.labels.as_ref().and_then(|labels| labels.get(NETWORK_LABEL)).map(String::as_str);
    let bridge = network.options.as_ref().and_then(|options| options.get(INNER_OPTIONS[0].0));
    let why = if kind != Some(OUTER_KIND) {
        format!("it has no label `{NETWORK_LABEL}={OUTER_KIND}`")
    } else if network.driver != "bridge" || bridge.map(String::as_str) != Some(OUTER_BRIDGE) {
        format!("it is not the bridge `{OUTER_BRIDGE}`")
    } else {
        return Ok(());
    };
    Err(NetworkError::Foreign { name: OUTER_NETWORK, why })
}

/// Makes both networks where there are none; the one of an earlier kew is replaced if nothing is on it. True if something
/// was made.
pub fn ensure_networks(docker: &Docker) -> Result<bool, NetworkError> {
    if let Err(NetworkError::Old) = check_allowlist(docker) {
        // The engine refuses to remove a network that is in use.
        docker.ask(&["network", "rm", ALLOWLIST_NETWORK])?;
    }
    let mut made = false;
    if let Err(NetworkError::Absent(_)) = check_allowlist(docker) {
        made |= create(docker, &inner_argv())?;
    }
    check_allowlist(docker)?;
    if let Err(NetworkError::Absent(_)) = check_outer(docker) {
        made |= create(docker, &outer_argv())?;
    }
    check_outer(docker)?;
    Ok(made)
}

/// Removes both networks, as far as they are kew's.
pub fn remove_networks(docker: &Docker) -> Result<(), NetworkError> {
    for (name, checked) in
        [(ALLOWLIST_NETWORK, check_allowlist(docker).map(|_| ())), (OUTER_NETWORK, check_outer(docker))]
    {
        match checked {
            Ok(()) | Err(NetworkError::Old) => {
                docker.ask(&["network", "rm", name])?;
            }
            Err(NetworkError::Absent(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Another kew may be faster: then it is there, and the caller looks again.
fn create(docker: &Docker, argv: &[String]) -> Result<bool, NetworkError> {
    let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
    match docker.ask(&argv) {
        Ok(_) => Ok(true),
        Err(DockerError::Refused { stderr, .. }) if stderr.contains("already exists") => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn inner_argv() -> Vec<String> {
    let mut argv: Vec<String> =
        ["network", "create", "--internal", "--subnet", SUBNET].map(String::from).into();
    argv.extend(["--gateway", NOBODY, "--ip-range", UNLEASED].map(String::from));
    argv.extend(["--label".to_owned(), format!("{NETWORK_LABEL}={INNER_KIND}")]);
    for (key, value) in INNER_OPTIONS {
        argv.extend(["--opt".to_owned(), format!("{key}={value}")]);
    }
    argv.push(ALLOWLIST_NETWORK.to_owned());
    argv
}

fn outer_argv() -> Vec<String> {
    let label = format!("{NETWORK_LABEL}={OUTER_KIND}");
    let bridge = format!("{}={OUTER_BRIDGE}", INNER_OPTIONS[0].0);
    ["network", "create", "--label", &label, "--opt", &bridge, OUTER_NETWORK].map(String::from).into()
}

fn judge_inner(network: &Inspected) -> Result<(), NetworkError> {
    let foreign = |why: &str| Err(NetworkError::Foreign { name: ALLOWLIST_NETWORK, why: why.to_owned() });
    let kind = network.labels.as_ref().and_then(|labels| labels.get(NETWORK_LABEL)).map(String::as_str);
    if !network.internal {
        return foreign("it is not internal, so it would let traffic out");
    }
    if network.driver != "bridge" {
        return foreign("it is not a bridge");
    }
    match kind {
        Some(INNER_KIND) => {}
        Some("1") => return Err(NetworkError::Old),
        Some(_) => return foreign("its label `kew.net` is of a kind that this kew does not know"),
        None => return foreign("it has no label `kew.net`"),
    }
    if network.enable_ipv6 {
        return foreign("it has IPv6");
    }
    let option =
        |key: &str| network.options.as_ref().and_then(|options| options.get(key)).map(String::as_str);
    for (key, value) in INNER_OPTIONS {
        if option(key) != Some(value) {
            return foreign(&format!("its option `{key}` is not `{value}`"));
        }
    }
    match network.ipam.config.as_deref() {
        Some([range]) if range.subnet == SUBNET => Ok(()),
        _ => foreign(&format!("its subnet is not {SUBNET}")),
    }
}

fn members(network: Inspected) -> Vec<Attached> {
    let bare = |address: String| address.split('/').next().unwrap_or_default().to_owned();
    let members = network.containers.unwrap_or_default().into_values();
    members.map(|member| Attached { name: member.name, address: bare(member.address) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"Name":"kew-allowlist","Internal":true,"Driver":"bridge","EnableIPv6":false,
        "IPAM":{"Config":[{"Subnet":"172.31.248.0/22","IPRange":"172.31.251.0/24","Gateway":"172.31.248.1"}]},
        "Labels":{"kew.net":"2"},"Options":{"com.docker.network.bridge.name":"kew-int",
        "com.docker.network.bridge.inhibit_ipv4":"true","com.docker.network.bridge.enable_icc":"false"},
        "Containers":{"a1":{"Name":"kew-gateway","IPv4Address":"172.31.248.2/22"}}}"#;

    #[test]
    fn only_the_network_that_kew_makes_is_taken() {
        let judged = |text: &str| judge_inner(&serde_json::from_str(text).unwrap());
        assert!(judged(GOOD).is_ok());
        assert_eq!(
            members(serde_json::from_str(GOOD).unwrap()),
            [Attached { name: "kew-gateway".into(), address: "172.31.248.2".into() }]
        );
        for (from, to, says) in [
            (r#""Internal":true"#, r#""Internal":false"#, "not internal"),
            (r#""bridge""#, r#""macvlan""#, "not a bridge"),
            (r#"{"kew.net":"2"}"#, "{}", "no label"),
            (r#"{"kew.net":"2"}"#, "null", "no label"),
            (r#"{"kew.net":"2"}"#, r#"{"kew.net":"1"}"#, "earlier kew"),
            (r#"{"kew.net":"2"}"#, r#"{"kew.net":"3"}"#, "does not know"),
            (r#"icc":"false""#, r#"icc":"true""#, "enable_icc` is not `false`"),
            (r#"ipv4":"true""#, r#"ipv4":"false""#, "inhibit_ipv4` is not `true`"),
            (r#""172.31.248.0/22""#, r#""10.0.0.0/8""#, "subnet is not"),
            (r#""EnableIPv6":false"#, r#""EnableIPv6":true"#, "has IPv6"),
        ] {
            assert!(GOOD.contains(from), "{from}");
            let error = judged(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn the_networks_are_made_like_this() {
        insta::assert_snapshot!(inner_argv().join(" "), @"network create --internal --subnet 172.31.248.0/22 --gateway 172.31.248.1 --ip-range 172.31.251.0/24 --label kew.net=2 --opt com.docker.network.bridge.name=kew-int --opt com.docker.network.bridge.inhibit_ipv4=true --opt com.docker.network.bridge.enable_icc=false kew-allowlist");
        insta::assert_snapshot!(outer_argv().join(" "), @"network create --label kew.net=outer --opt com.docker.network.bridge.name=kew-out kew-egress");
    }
}
