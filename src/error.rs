//! What the command line says when it cannot go on, and the exit code of each kind. The one place where errors become
//! exit codes.

use std::fmt;

use crate::{
    config::SettingsError,
    docker::{
        build::BuildError, client::DockerError, context::ContextError, gateway::GatewayError,
        network::NetworkError,
    },
    git::error::GitError,
    process::query::QueryError,
    store::{FileError, StoreError},
    workspace::WorkspaceError,
};

/// Exit codes of kew.
pub mod exit {
    /// All passed.
    pub const PASSED: u8 = 0;
    /// Plan, settings or arguments are wrong; nothing ran.
    pub const USAGE: u8 = 2;
    /// Docker, git, disk or the state failed.
    pub const INFRASTRUCTURE: u8 = 4;
}

/// Why a command did not do its work.
#[derive(Debug)]
pub struct Failure {
    /// The exit code.
    pub code: u8,
    /// What happened, for people. May have several lines if `rendered`.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
    /// The message is already a complete report and gets no prefix.
    pub rendered: bool,
}

/// As people read it: what happened, then what to do.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = if self.rendered { "" } else { "error: " };
        write!(f, "{prefix}{}", self.message)?;
        self.help.iter().try_for_each(|help| write!(f, "\n  help: {help}"))
    }
}

impl Failure {
    /// Plan, settings or arguments are wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { code: exit::USAGE, message: message.into(), help: None, rendered: false }
    }

    /// Docker, git, disk or the state failed.
    pub fn infrastructure(message: impl Into<String>) -> Self {
        Self { code: exit::INFRASTRUCTURE, message: message.into(), help: None, rendered: false }
    }

    /// A complete report about a plan.
    pub fn report(message: impl Into<String>) -> Self {
        Self { code: exit::USAGE, message: message.into(), help: None, rendered: true }
    }

    /// With advice.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

impl From<SettingsError> for Failure {
    fn from(error: SettingsError) -> Self {
        Self { help: error.help, ..Self::usage(error.message) }
    }
}

impl From<GitError> for Failure {
    fn from(error: GitError) -> Self {
        let failure = match &error {
            GitError::NoRepository(_)
            | GitError::PartialClone(_)
            | GitError::NoCommits
            | GitError::UnknownBase { .. }
            | GitError::AmbiguousBase { .. }
            | GitError::BadPath(_) => Self::usage(error.to_string()),
            _ => Self::infrastructure(error.to_string()),
        };
        Self { help: error.hint().map(str::to_owned), ..failure }
    }
}

/// The command line client is not there.
const NO_CLIENT: &str = "install docker's command line client; it is looked for in PATH";

impl From<DockerError> for Failure {
    fn from(error: DockerError) -> Self {
        Self::infrastructure(error.to_string()).help(match error {
            DockerError::Query(QueryError::Start { .. }) => NO_CLIENT,
            _ => "is a docker engine running, and may this user use it? `docker info` tells",
        })
    }
}

impl From<ContextError> for Failure {
    fn from(error: ContextError) -> Self {
        Self::infrastructure(error.to_string()).help(match error {
            ContextError::Query(QueryError::Start { .. }) => NO_CLIENT,
            _ => "set DOCKER_HOST to a unix socket, or `docker context use` one that has one",
        })
    }
}

impl From<NetworkError> for Failure {
    fn from(error: NetworkError) -> Self {
        let help = match &error {
            NetworkError::Docker(_) => return Self::infrastructure(error.to_string()),
            NetworkError::Absent(_) => {
                "make it: `kew sandbox network up`; or do without: `sandbox.network = \"none\"`".to_owned()
            }
            NetworkError::Old => {
                "`kew sandbox network up` replaces it when no container is on it any more".to_owned()
            }
            NetworkError::Foreign { name, .. } => format!(
                "see what uses it, remove it with `docker network rm {name}`, then make kew's: `kew sandbox network up`"
            ),
        };
        Self::infrastructure(error.to_string()).help(help)
    }
}

impl From<GatewayError> for Failure {
    fn from(error: GatewayError) -> Self {
        let help = match error {
            GatewayError::Network(error) => return error.into(),
            GatewayError::Docker(error) => return error.into(),
            GatewayError::Unsupported(_) => {
                "use an engine on Linux that runs as root, or `sandbox.network` = `none`, or in your own settings `open`"
            }
            GatewayError::NoImage => "build it: `kew sandbox build gateway`",
            GatewayError::Absent => "make it: `kew sandbox network up`",
            GatewayError::Down(_) | GatewayError::Said(_) => {
                "`kew sandbox network up` starts it, `kew sandbox network reload` makes it anew; `docker logs kew-gateway` tells what it says"
            }
            GatewayError::Foreign(_) => {
                "see what it is, remove it with `docker rm -f kew-gateway`, then make kew's: `kew sandbox network up`"
            }
            GatewayError::Ports(_) => "take them up: `kew sandbox network reload`",
            GatewayError::InUse(_) => "wait until no run is under way; `kew sandbox network status` tells",
            GatewayError::Firewall(_) | GatewayError::Unreached(_) => {
                "set the firewall rules: `kew sandbox network up`; a reboot, or another firewall's reload, removes them"
            }
            GatewayError::Resolver(_) => {
                "see that this machine itself can look it up; the gateway asks the engine's resolver: `docker exec kew-gateway getent hosts NAME`"
            }
        };
        Self::infrastructure(error.to_string()).help(help)
    }
}

impl From<BuildError> for Failure {
    fn from(error: BuildError) -> Self {
        let help = match &error {
            BuildError::Docker(_) | BuildError::Query(_) | BuildError::Folder(_) => None,
            BuildError::ExtraCa(..) => return Self::usage(error.to_string()),
            BuildError::Pull { .. } => {
                Some("where no registry answers give `--base-image` a Debian image that the engine has")
            }
            BuildError::Build { .. } => Some(
                "where no registry answers give `--base-image`; behind a proxy with its own certificate give `--extra-ca`",
            ),
            BuildError::Unfit { .. } => {
                return Self::usage(error.to_string()).help(
                    "give a Debian or Ubuntu image; on others install what docker/README.md asks for in an image of your own",
                );
            }
        };
        Self { help: help.map(str::to_owned), ..Self::infrastructure(error.to_string()) }
    }
}

impl From<WorkspaceError> for Failure {
    fn from(error: WorkspaceError) -> Self {
        Self::infrastructure(error.to_string())
            .help("set `sandbox.checkout_dir` in your own settings file to a folder on a local disk")
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match &error {
            // What was asked for is not there; nothing is wrong with the state.
            StoreError::NoRun { .. } | StoreError::Ambiguous { .. } => {
                Self::usage(error.to_string()).help("`kew runs` lists them")
            }
            _ => Self::infrastructure(error.to_string()),
        }
    }
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::infrastructure(error.to_string())
    }
}
