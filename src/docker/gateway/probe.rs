//! Whether packets of a container on the allowlist network get to the gateway: firewall rules are the host's, and only a try
//! tells. The container is kew's own, as hardened as an agent's, and gone when this returns.

use std::time::Duration;

use super::{GATEWAY_IMAGE, GatewayError};
use crate::docker::{
    argv::{ALLOWLIST_NETWORK, GATEWAY_ADDRESS},
    client::Docker,
};

/// The gateway's image has perl; a refused or lost connection is told in one word.
const SCRIPT: &str = r#"use IO::Socket::INET;
    exit 0 if IO::Socket::INET->new(PeerAddr => $ARGV[0], PeerPort => 443, Timeout => 5);
    print STDERR "$!\n"; exit 1"#;

/// Stops unless a container there gets a connection.
pub fn reach(docker: &Docker, name: &str) -> Result<(), GatewayError> {
    let answer = docker
        .query([
            "run",
            "--rm",
            "--name",
            name,
            "--pull",
            "never",
            "--network",
            ALLOWLIST_NETWORK,
            "--read-only",
        ])
        .args(["--dns", GATEWAY_ADDRESS, "--cap-drop", "ALL", "--security-opt", "no-new-privileges"])
        .args(["--pids-limit", "16", "--memory", "64m", "--log-driver", "none"])
        .args(["--entrypoint", "perl", GATEWAY_IMAGE, "-e", SCRIPT, GATEWAY_ADDRESS])
        .deadline(Duration::from_secs(60))
        .run();
    if answer.is_err() {
        let _ = docker.remove(name);
    }
    let answer = answer.map_err(|error| GatewayError::Docker(error.into()))?;
    if answer.ok() { Ok(()) } else { Err(GatewayError::Unreached(answer.stderr)) }
}
