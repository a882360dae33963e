//! The one function that builds a node's `docker run`, for every runner, in the order of the contract. Pure.
//!
//! Invariants: the checkout is the only bind mount; credentials travel by name alone; the image is an id and everything
//! after it is the runner's.

use serde::{Deserialize, Serialize};

use crate::{
    contract::{AGENT_GID, AGENT_HOME, AGENT_UID, MOUNT_POINT},
    name::EnvName,
};

/// The network that `allowlist` joins.
pub const ALLOWLIST_NETWORK: &str = "kew-allowlist";
/// The gateway's address there; it is the containers' name server.
pub const GATEWAY_ADDRESS: &str = "172.31.248.2";

/// Where a container may connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// The pre-created internal network; fails closed when it is absent.
    Allowlist,
    /// Full egress: an explicit choice.
    Open,
    /// No network at all.
    None,
}

impl Network {
    /// The word in settings.
    pub fn word(self) -> &'static str {
        match self {
            Self::Allowlist => "allowlist",
            Self::Open => "open",
            Self::None => "none",
        }
    }
}

/// What bounds a container. Sizes in bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Processes and threads.
    pub pids: u32,
    /// Memory, swap included, tmpfs included.
    pub memory: u64,
    /// CPUs, may be a fraction.
    pub cpus: f64,
    /// `/tmp`.
    pub tmp_size: u64,
    /// The home folder.
    pub home_size: u64,
    /// The largest file that may be written.
    pub file_size: u64,
}

/// Who a container belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Labels {
    /// The state folder's id.
    pub state: String,
    /// The kew process.
    pub owner: String,
    /// The run.
    pub run: String,
    /// The node.
    pub node: String,
    /// The attempt.
    pub attempt: u32,
}

impl Labels {
    /// `--label` items, in the contract's order.
    pub fn argv(&self) -> Vec<String> {
        let pairs = [
            ("kew.state", self.state.clone()),
            ("kew.owner", self.owner.clone()),
            ("kew.run", self.run.clone()),
            ("kew.node", self.node.clone()),
            ("kew.attempt", self.attempt.to_string()),
        ];
        pairs.into_iter().flat_map(|(key, value)| ["--label".to_owned(), format!("{key}={value}")]).collect()
    }
}

/// Everything that a node's argv depends on.
#[derive(Debug, Clone)]
pub struct RunArgv<'a> {
    /// `kew-<slug>`.
    pub name: &'a str,
    /// Labels.
    pub labels: &'a Labels,
    /// Limits.
    pub limits: &'a Limits,
    /// Network.
    pub network: Network,
    /// The address that was leased on the allowlist network; without one the engine gives an address that may reach nothing.
    pub address: Option<&'a str>,
    /// The checkout on the host: kew's own path, plain characters only.
    pub checkout: &'a str,
    /// Names of the resolved runner's credentials.
    pub credentials: &'a [EnvName],
    /// The image's id.
    pub image: &'a str,
    /// What the runner's `container_args()` gave.
    pub container_args: &'a [String],
}

/// The items after `docker`, in the contract's order.
pub fn build_run_argv(run: &RunArgv<'_>) -> Vec<String> {
    let limits = run.limits;
    let mut argv: Vec<String> =
        vec!["run".into(), "--rm".into(), "--name".into(), run.name.into(), "--init".into()];
    argv.extend(run.labels.argv());
    argv.extend(["--pull", "never", "--read-only"].map(String::from));
    argv.extend(["--tmpfs".into(), format!("/tmp:size={}", limits.tmp_size)]);
    argv.extend([
        "--tmpfs".into(),
        format!("{AGENT_HOME}:exec,uid={AGENT_UID},gid={AGENT_GID},mode=0700,size={}", limits.home_size),
    ]);
    argv.extend(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"].map(String::from));
    argv.extend(["--pids-limit".into(), limits.pids.to_string()]);
    argv.extend([
        "--memory".into(),
        limits.memory.to_string(),
        "--memory-swap".into(),
        limits.memory.to_string(),
    ]);
    argv.extend(["--cpus".into(), limits.cpus.to_string()]);
    argv.extend(["--ulimit".into(), format!("fsize={}", limits.file_size)]);
    argv.extend(["--log-driver", "none", "--network"].map(String::from));
    match run.network {
        // The gateway answers every name with its own address and asks nobody. Without a name server of its own a query
        // could leave by the host's resolver, even from an internal network (CVE-2024-29018).
        Network::Allowlist => {
            argv.push(ALLOWLIST_NETWORK.into());
            argv.extend(run.address.iter().flat_map(|address| ["--ip".to_owned(), (*address).to_owned()]));
            argv.extend(["--dns", GATEWAY_ADDRESS].map(String::from));
        }
        Network::Open => argv.push("bridge".into()),
        Network::None => argv.push("none".into()),
    }
    argv.extend(["-v".into(), format!("{}:{MOUNT_POINT}", run.checkout), "-w".into(), MOUNT_POINT.into()]);
    argv.extend(run.credentials.iter().flat_map(|name| ["-e".to_owned(), name.to_string()]));
    argv.push(run.image.into());
    argv.extend(run.container_args.iter().cloned());
    argv
}

/// Whether a path may be mounted: absolute, and of characters that neither docker nor a shell reads in another way.
pub fn mountable(path: &str) -> bool {
    path.starts_with('/')
        && path.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'/' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argv_is_the_contracts_item_by_item() {
        let labels = Labels {
            state: "s1".into(),
            owner: "o1".into(),
            run: "r1".into(),
            node: "parser".into(),
            attempt: 2,
        };
        let limits = Limits {
            pids: 512,
            memory: 4 << 30,
            cpus: 1.5,
            tmp_size: 1 << 29,
            home_size: 1 << 30,
            file_size: 2 << 30,
        };
        let credentials =
            ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"].map(|name| EnvName::new(name).unwrap());
        let container_args = ["--model", "m"].map(String::from);
        let run = RunArgv {
            name: "kew-r1-parser-2",
            labels: &labels,
            limits: &limits,
            network: Network::Allowlist,
            address: Some("172.31.249.9"),
            checkout: "/tmp/kew/r1/parser-2",
            credentials: &credentials,
            image: "sha256:abc",
            container_args: &container_args,
        };
        insta::assert_snapshot!(build_run_argv(&run).join("\n"), @r"
        run
        --rm
        --name
        kew-r1-parser-2
        --init
        --label
        kew.state=s1
        --label
        kew.owner=o1
        --label
        kew.run=r1
        --label
        kew.node=parser
        --label
        kew.attempt=2
        --pull
        never
        --read-only
        --tmpfs
        /tmp:size=536870912
        --tmpfs
        /home/agent:exec,uid=1001,gid=1001,mode=0700,size=1073741824
        --cap-drop
        ALL
        --security-opt
        no-new-privileges
        --pids-limit
        512
        --memory
        4294967296
        --memory-swap
        4294967296
        --cpus
        1.5
        --ulimit
        fsize=2147483648
        --log-driver
        none
        --network
        kew-allowlist
        --ip
        172.31.249.9
        --dns
        172.31.248.2
        -v
        /tmp/kew/r1/parser-2:/work
        -w
        /work
        -e
        ANTHROPIC_API_KEY
        -e
        CLAUDE_CODE_OAUTH_TOKEN
        sha256:abc
        --model
        m
        ");
        let open = build_run_argv(&RunArgv { network: Network::Open, ..run.clone() });
        assert!(
            open.windows(2).any(|pair| pair == ["--network", "bridge"])
                && !open.contains(&"--dns".to_owned())
                && !open.contains(&"--ip".to_owned())
        );
        let none = build_run_argv(&RunArgv { network: Network::None, credentials: &[], ..run });
        assert!(
            none.windows(2).any(|pair| pair == ["--network", "none"]) && !none.contains(&"-e".to_owned())
        );
    }

    #[test]
    fn only_plain_paths_are_mounted() {
        assert!(mountable("/tmp/kew-1/a.b_c"));
        for bad in ["relative", "/a:b", "/a b", "/a,b", "/ä", ""] {
            assert!(!mountable(bad), "{bad}");
        }
    }
}
