//! What the check must ask of the world outside: which runners, images and prompt files there are.
//!
//! A port, so that the check itself stays pure: it is the same in a dry run, in a test and in a browser. Answers must not
//! change during one check; each question is asked at most once.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};

use crate::egress::Host;

/// Answers for the check of one plan.
pub trait World {
    /// Names of all runners, in the order in which they are shown.
    fn runners(&self) -> Vec<String>;

    /// What is known of a runner; `None` = there is no such runner.
    fn runner(&self, name: &str) -> Option<RunnerFacts>;

    /// Whether the runner can route the model, else why not. Only asked about agents.
    fn route(&self, runner: &str, model: &str) -> Result<(), String>;

    /// Whether the settings have an image for the runner, in the toolchain if one is named.
    fn image(&self, runner: &str, toolchain: Option<&str>) -> Result<(), ImageGap>;

    /// The hosts that a runner's containers may reach; `None` = the settings hold no list against which one could be measured.
    fn allowed(&self, _runner: &str) -> Option<BTreeSet<Host>> {
        None
    }

    /// Whether nodes run in containers; else they are processes of the host.
    fn contained(&self) -> bool {
        true
    }

    /// The text of a prompt file as the plan names it, and its path relative to the repository.
    fn prompt_file(&self, path: &Utf8Path) -> Result<(String, Utf8PathBuf), PromptFault>;
}

/// What the check must know of a runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunnerFacts {
    /// An agent (takes a model and a task), not a plain job (takes a script).
    pub agent: bool,
    /// Why it cannot run in a container (on the host, if nodes run there), if it cannot.
    pub refused: Option<String>,
    /// When it tells what it costs.
    pub metering: Metering,
}

/// When a runner tells what it costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metering {
    /// It costs nothing.
    Free,
    /// As it goes, step by step.
    Steps,
    /// Only when it is over.
    AtEnd,
    /// Nobody knows whether it does.
    Unknown,
}

/// Why a runner has no image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImageGap {
    /// A key of the settings is not set.
    Unset {
        /// `sandbox.images.<runner>` or `sandbox.toolchains.<name>.images.<runner>`.
        key: String,
        /// The settings file to set it in.
        settings: String,
    },
    /// The settings have no such toolchain.
    UnknownToolchain {
        /// Those that they have.
        known: Vec<String>,
        /// The settings file to add it to.
        settings: String,
    },
}

/// Why a prompt file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptFault {
    /// It is in none of these places.
    Missing {
        /// Paths that were tried, relative to the repository, in order.
        looked: Vec<String>,
    },
    /// Its path leaves the repository.
    OutsideRepository,
    /// It, or a folder on its path, is a symbolic link.
    Link,
    /// It is a folder, a pipe or a device.
    NotAFile,
    /// It is not UTF-8.
    NotText,
    /// It is longer than allowed.
    TooLarge {
        /// The most bytes allowed.
        limit: u64,
    },
    /// The system refused to read it.
    Unreadable {
        /// The system's words.
        reason: String,
    },
}
