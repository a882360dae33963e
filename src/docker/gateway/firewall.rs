//! The host's firewall rules, set by a one-shot container on the host's network: agents reach the gateway, and nothing else.
//!
//! Without the rules nothing is open: the network itself allows no traffic between its containers. The rules are lost at a
//! reboot; then nobody reaches the gateway until they are set again.

use super::GatewayError;
use crate::docker::{
    argv::GATEWAY_ADDRESS,
    client::Docker,
    network::{INNER_BRIDGE, OUTER_BRIDGE, SUBNET},
};

/// The program in the gateway's image.
const PROGRAM: &str = "/usr/local/lib/kew/gateway-firewall.sh";
/// Its exit status where no table has docker's chain.
const NO_CHAIN: i32 = 3;

/// The items after `docker`. Tables of the old kind are reached by a raw socket, which takes one capability more.
fn argv(image: &str, what: &str, raw: bool) -> Vec<String> {
    let mut argv: Vec<String> =
        ["run", "--rm", "--pull", "never", "--network", "host", "--read-only", "--user", "0:0"]
            .map(String::from)
            .into();
    argv.extend(["--tmpfs", "/run", "--cap-drop", "ALL", "--cap-add", "NET_ADMIN"].map(String::from));
    if raw {
        argv.extend(["--cap-add", "NET_RAW"].map(String::from));
    }
    argv.extend(["--security-opt", "no-new-privileges", "--log-driver", "none"].map(String::from));
    argv.extend(["--entrypoint", PROGRAM, image, what].map(String::from));
    argv.extend([INNER_BRIDGE, OUTER_BRIDGE, SUBNET, GATEWAY_ADDRESS].map(String::from));
    argv
}

/// Exit status and stderr.
fn call(docker: &Docker, image: &str, what: &str) -> Result<(i32, String), GatewayError> {
    let mut last = (NO_CHAIN, String::new());
    for raw in [false, true] {
        let answer = docker.query(argv(image, what, raw)).run();
        let answer = answer.map_err(|error| GatewayError::Docker(error.into()))?;
        last = (answer.code.unwrap_or(1), answer.stderr);
        if last.0 != NO_CHAIN {
            break;
        }
    }
    Ok(last)
}

/// Whether the rules are there.
pub fn check(docker: &Docker, image: &str) -> Result<bool, GatewayError> {
    Ok(call(docker, image, "check")?.0 == 0)
}

/// Sets them if they are not there; true if it did.
pub fn set(docker: &Docker, image: &str) -> Result<bool, GatewayError> {
    if check(docker, image)? {
        return Ok(false);
    }
    match call(docker, image, "set")? {
        (0, _) => match call(docker, image, "check")? {
            (0, _) => Ok(true),
            (_, why) => Err(GatewayError::Firewall(format!("they do not hold once they are set: {why}"))),
        },
        (NO_CHAIN, _) => Err(GatewayError::Firewall(
            "the engine's host has no chain DOCKER-USER; kew knows engines that use iptables".to_owned(),
        )),
        (code, said) => Err(GatewayError::Firewall(format!("exit status {code}: {said}"))),
    }
}

/// Removes them.
pub fn remove(docker: &Docker, image: &str) -> Result<(), GatewayError> {
    match call(docker, image, "remove")? {
        (0 | NO_CHAIN, _) => Ok(()),
        (code, said) => Err(GatewayError::Firewall(format!("exit status {code}: {said}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_helper_has_one_capability_and_the_hosts_network() {
        insta::assert_snapshot!(argv("sha256:1", "set", false).join(" "), @"run --rm --pull never --network host --read-only --user 0:0 --tmpfs /run --cap-drop ALL --cap-add NET_ADMIN --security-opt no-new-privileges --log-driver none --entrypoint /usr/local/lib/kew/gateway-firewall.sh sha256:1 set kew-int kew-out 172.31.248.0/22 172.31.248.2");
        assert!(argv("sha256:1", "set", true).join(" ").contains("--cap-add NET_ADMIN --cap-add NET_RAW"));
    }
}
