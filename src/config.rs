//! Settings: defaults, the user's file, the repository's `kew.toml`, `KEW_…` variables, flags; the last one wins.
//!
//! This file says which keys exist and what their values must be; `layers` merges by figment, says what a repository may not
//! set, and words the errors; `map` adds to a person's file. Invariant: a repository can narrow, never open.

pub mod caps;
mod checkout;
mod layers;
pub mod map;
mod policy;
pub mod publish;

pub use self::{checkout::Checkout, layers::Layers, policy::Policy};

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use camino::Utf8PathBuf;
use serde::{Deserialize, Serialize};

use crate::{
    docker::argv::{Limits, Network},
    egress::{self, Host},
    git::artifacts::ArtifactLimits,
    name::EnvName,
    runners::{
        Kind, Registry, Runner,
        custom::{Custom, OwnRunner},
    },
    text,
    units::{self, Size},
};

/// The repository's settings file.
pub const REPOSITORY_FILE: &str = "kew.toml";

/// CPUs of a container where nobody says.
const CPUS: f64 = 2.0;

/// All settings, merged and checked.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
#[derive(Default)]
pub struct Settings {
    /// How agents are contained.
    #[serde(default)]
    pub sandbox: Sandbox,
    /// Which of a runner's credentials is forwarded, by the name of its variable, where the runner knows several; the others
    /// stay unset inside. Not from a repository's file.
    #[serde(default)]
    pub credentials: BTreeMap<String, String>,
    /// Runners of one's own: images that speak kew's vocabulary. Not from a repository's file.
    #[serde(default)]
    pub runners: BTreeMap<String, OwnRunner>,
    /// Where kew keeps what it knows.
    #[serde(default)]
    pub state: State,
    /// What a checkout holds.
    #[serde(default)]
    pub checkout: Checkout,
    /// Which commits are held for a person, and what nobody may choose, whatever else is set. Not from a repository's file.
    #[serde(default)]
    pub policy: Policy,
    /// Where and how branches and pull requests are published.
    #[serde(default)]
    pub publish: publish::Publish,
    /// Kew's own runners and those above.
    #[serde(skip)]
    pub registry: Registry,
    /// The images that the repository's file maps, as `key = image`: whoever runs a plan is told of them.
    #[serde(skip)]
    pub from_repository: Vec<String>,
    /// The hosts and groups that the repository's file lets agents reach: whoever runs a plan is told of them.
    #[serde(skip)]
    pub allow_from_repository: Vec<String>,
}

/// `[sandbox]`.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sandbox {
    /// Default true: agents run in containers. `false` runs them as processes of this host, with all that you may do and see;
    /// never from a repository's file.
    pub enabled: bool,
    /// Where containers may connect to: `allowlist` (default), `open` (full egress; not from a repository's file) or `none`.
    pub network: Network,
    /// On the allowlist network: hosts that agents may reach by TLS, as `host` or `host:port`, and groups of them: `rust`,
    /// `node`, `python`, `go`, `debian`, `git-hosting`. What a runner cannot do without is added by itself.
    pub allow: Vec<String>,
    /// The image of each runner. A runner that is not here does not run.
    pub images: BTreeMap<String, String>,
    /// Named second image maps, chosen by a node's `toolchain`.
    pub toolchains: BTreeMap<String, Toolchain>,
    /// kew's own helper image: it reads checkouts for the host.
    pub collector: String,
    /// Processes and threads in one container.
    pub pids_limit: u32,
    /// Memory of one container, tmpfs included, e.g. `4GiB`.
    pub memory: Size,
    /// CPUs of one container; default 2, or all that the engine has if these are fewer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// Size of `/tmp`.
    pub tmp_size: Size,
    /// Size of the agent's home.
    pub home_size: Size,
    /// The largest file that an agent may write.
    pub file_size: Size,
    /// The largest log of one stream of one attempt.
    pub log_max: Size,
    /// The most disk that one checkout may take while its agent runs. More stops the agent as a runaway.
    pub checkout_max: Size,
    /// How many artifacts one attempt may leave; more are left out.
    pub artifacts_files: u32,
    /// The largest artifact; larger ones are left out.
    pub artifacts_file_size: Size,
    /// The size of all artifacts of one attempt; what is above it is left out.
    pub artifacts_size: Size,
    /// The folder that checkouts are made in; must be on a disk that the docker engine sees under the same path. Not from
    /// a repository's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub checkout_dir: Option<Utf8PathBuf>,
    /// Seconds between asking an agent to stop and killing it.
    pub stop_grace: u64,
    /// Seconds that an agent may say nothing before it is stopped as stalled; unset = as long as its runner has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_timeout: Option<u64>,
    /// Steps (answers of the model) that an agent may take before it is stopped as a runaway; unset = as its runner has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_cap: Option<u32>,
}

/// One toolchain: agents on top of a project's own tools.
#[derive(Debug, Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// The image of each runner in this toolchain.
    #[serde(default)]
    pub images: BTreeMap<String, String>,
}

/// `[state]`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The folder of the state; default `kew` in the repository's common git folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub dir: Option<Utf8PathBuf>,
}

impl Default for Sandbox {
    fn default() -> Self {
        let size = |bytes| Size::from_bytes(bytes);
        Self {
            enabled: true,
            network: Network::Allowlist,
            allow: Vec::new(),
            images: BTreeMap::new(),
            toolchains: BTreeMap::new(),
            collector: "kew-collector:latest".to_owned(),
            pids_limit: 512,
            memory: size(4 << 30),
            cpus: None,
            tmp_size: size(512 << 20),
            home_size: size(1 << 30),
            file_size: size(2 << 30),
            log_max: size(256 << 20),
            checkout_max: size(16 << 30),
            artifacts_files: 10_000,
            artifacts_file_size: size(256 << 20),
            artifacts_size: size(1 << 30),
            checkout_dir: None,
            stop_grace: 10,
            idle_timeout: None,
            step_cap: None,
        }
    }
}

/// Something wrong with a setting, for people.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct SettingsError {
    /// Layer, key and what is wrong.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

impl SettingsError {
    fn new(message: impl Into<String>, help: impl Into<String>) -> Self {
        Self { message: message.into(), help: Some(help.into()) }
    }
}

/// Kew's own runners and these.
fn registry(runners: &BTreeMap<String, OwnRunner>) -> Result<Registry, SettingsError> {
    let own = runners.iter().map(|(name, own)| {
        Custom::new(name, own).map_err(|wrong| {
            SettingsError::new(
                format!("`runners.{}` {wrong}", name.escape_default()),
                "give it another name, or leave that part out; `docker/README.md` shows a whole definition",
            )
        })
    });
    Ok(Registry::new(own.collect::<Result<_, _>>()?))
}

fn check(settings: &Settings) -> Result<(), SettingsError> {
    let sandbox = &settings.sandbox;
    if !sandbox.enabled && sandbox.network == Network::None {
        return Err(SettingsError::new(
            "`sandbox.network = \"none\"` needs containers, but `sandbox.enabled = false` runs agents on the host",
            "remove one of the two",
        ));
    }
    caps::check(settings)?;
    let tmpfs = sandbox.tmp_size.bytes().saturating_add(sandbox.home_size.bytes());
    if tmpfs > sandbox.memory.bytes() / 2 {
        return Err(SettingsError::new(
            format!(
                "`sandbox.tmp_size` + `sandbox.home_size` = {} is more than half of `sandbox.memory` = {}; both count as memory",
                units::show_size(tmpfs),
                sandbox.memory
            ),
            "raise `sandbox.memory`, or lower the two sizes",
        ));
    }
    if let Some(cpus) = sandbox.cpus.filter(|cpus| !(cpus.is_finite() && *cpus > 0.0)) {
        return Err(SettingsError::new(
            format!("`sandbox.cpus` = {cpus} is not a positive number"),
            "set it to e.g. 2",
        ));
    }
    if sandbox.idle_timeout == Some(0) || sandbox.step_cap == Some(0) {
        return Err(SettingsError::new(
            "`sandbox.idle_timeout` and `sandbox.step_cap` must be at least 1",
            "remove them: every runner has sane caps of its own",
        ));
    }
    if sandbox.pids_limit == 0 || sandbox.memory.bytes() < 16 << 20 {
        return Err(SettingsError::new(
            "`sandbox.pids_limit` must be at least 1 and `sandbox.memory` at least 16MiB",
            "raise them: an agent needs some hundred processes and some GiB",
        ));
    }
    settings.policy.check()?;
    for (runner, name) in &settings.credentials {
        check_credential(&settings.registry, runner, name)?;
    }
    for (key, dir) in [("sandbox.checkout_dir", &sandbox.checkout_dir), ("state.dir", &settings.state.dir)] {
        if let Some(dir) = dir.as_ref().filter(|dir| !dir.is_absolute()) {
            return Err(SettingsError::new(
                format!("`{key}` = `{dir}` is not an absolute path"),
                "write the whole path",
            ));
        }
    }
    settings.publish.check()?;
    let toolchains = sandbox.toolchains.iter().flat_map(|(name, toolchain)| {
        toolchain
            .images
            .iter()
            .map(move |(runner, image)| (format!("sandbox.toolchains.{name}.images.{runner}"), image))
    });
    let images = sandbox.images.iter().map(|(runner, image)| (format!("sandbox.images.{runner}"), image));
    for (key, image) in images.chain(toolchains).chain([("sandbox.collector".to_owned(), &sandbox.collector)])
    {
        if !image_name(image) {
            return Err(SettingsError::new(
                format!("`{key}` = `{}` is not an image name", image.escape_default()),
                "write it like `kew-shell:latest` or `name@sha256:…`; it starts with a-z or 0-9",
            ));
        }
    }
    Ok(())
}

/// A choice of a credential names a runner of ours and one of its own names: nothing else is ever forwarded.
fn check_credential(registry: &Registry, runner: &str, name: &str) -> Result<(), SettingsError> {
    let guess = |word: &str, known: &[&str]| {
        let guess = text::did_you_mean(word, known.iter().copied());
        guess.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
    };
    let Some(known) = registry.find(runner) else {
        let all: Vec<&str> = registry.all().iter().map(|runner| runner.name()).collect();
        return Err(SettingsError::new(
            format!(
                "`credentials.{0}`: unknown runner `{0}`{1}",
                runner.escape_default(),
                guess(runner, &all)
            ),
            format!("there are {}", text::list(all, "and")),
        ));
    };
    let names = known.required_credentials();
    if names.contains(&name) {
        return Ok(());
    }
    let help = if names.is_empty() {
        format!("remove it: `{runner}` is given no credential")
    } else {
        format!("it is the name of a variable, one of {}; never its value", text::list(names, "and"))
    };
    // What is no name may be a credential that somebody wrote here by mistake: it is not repeated.
    let given = match EnvName::new(name) {
        Ok(name) => format!("`{name}`"),
        Err(_) => "what is set".to_owned(),
    };
    let guess = guess(name, names);
    Err(SettingsError::new(
        format!("`credentials.{runner}`: {given} is no credential of that runner{guess}"),
        help,
    ))
}

/// What docker takes as an image, and nothing that could be read as an option.
fn image_name(image: &str) -> bool {
    let first = image.bytes().next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    first && image.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-/:@".contains(&b))
}

impl Settings {
    /// The settings that a run was started with, from their record.
    pub fn thaw(json: &str) -> Result<Self, SettingsError> {
        let unreadable = |why: String| {
            SettingsError::new(
                format!("the settings on record cannot be read: {why}"),
                "the run was recorded by another version of kew; start a new one",
            )
        };
        let mut settings: Self = serde_json::from_str(json).map_err(|error| unreadable(error.to_string()))?;
        settings.registry = registry(&settings.runners)?;
        check(&settings)?;
        Ok(settings)
    }

    /// The names of the credentials that a runner is given: the chosen one, else all that it knows.
    pub fn credentials(&self, runner: &dyn Runner) -> Vec<EnvName> {
        let chosen = self.credentials.get(runner.name()).map(String::as_str);
        let names = runner.required_credentials().iter().filter(|name| chosen.is_none_or(|c| c == **name));
        let name = |name: &&str| {
            EnvName::new(*name).expect("a runner's credential names are written in its file and tested")
        };
        names.map(name).collect()
    }
}

impl Sandbox {
    /// The image that a runner gets, in a toolchain or without; `None` = it does not run.
    pub fn image(&self, runner: &str, toolchain: Option<&str>) -> Option<&str> {
        let images = match toolchain {
            None => &self.images,
            Some(name) => &self.toolchains.get(name)?.images,
        };
        images.get(runner).map(String::as_str)
    }

    /// The hosts that a runner's containers may reach on the allowlist network.
    pub fn hosts(&self, runner: &dyn Runner) -> BTreeSet<Host> {
        let own = runner.hosts().iter().filter_map(|host| Host::new(host).ok());
        // The words were checked when the settings were read.
        let words = egress::hosts(self.allow.iter().map(String::as_str)).unwrap_or_default();
        words.into_iter().chain(own).collect()
    }

    /// How long a runner's agent may say nothing.
    pub fn idle(&self, runner: &dyn Runner) -> Option<Duration> {
        let own = self.idle_timeout.filter(|_| runner.kind() == Kind::Agent).map(Duration::from_secs);
        own.or(runner.idle_timeout())
    }

    /// How many steps a runner's agent may take.
    pub fn steps(&self, runner: &dyn Runner) -> Option<u32> {
        self.step_cap.filter(|_| runner.kind() == Kind::Agent).or(runner.step_cap())
    }

    /// What is stored of an attempt's artifacts at most.
    pub fn artifact_limits(&self) -> ArtifactLimits {
        ArtifactLimits {
            files: self.artifacts_files,
            file_bytes: self.artifacts_file_size.bytes(),
            bytes: self.artifacts_size.bytes(),
        }
    }

    /// The bounds of a container on an engine with so many CPUs, if that is known.
    pub fn limits(&self, engine_cpus: Option<u32>) -> Limits {
        Limits {
            pids: self.pids_limit,
            memory: self.memory.bytes(),
            cpus: self.cpus.unwrap_or_else(|| engine_cpus.map_or(CPUS, |cpus| f64::from(cpus).min(CPUS))),
            tmp_size: self.tmp_size.bytes(),
            home_size: self.home_size.bytes(),
            file_size: self.file_size.bytes(),
        }
    }
}
