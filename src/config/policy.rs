//! `[policy]`: which commits that agents bring are held for a person, and how much is taken at most.
//!
//! The person's own: a repository's file may not say anything here, for it is what is measured. Invariant: what makes a
//! file kew's or git's own is no setting.

use serde::{Deserialize, Serialize};

use super::{SettingsError, caps::Choice};
use crate::{
    git::{
        collect::CollectLimits,
        policy::{self, LARGEST, PROTECTED, Rule},
    },
    units::Size,
};

/// `[policy]`.
#[derive(Debug, Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Paths that agents may not change unseen: a node whose commits add, change or remove one is held. `*` stays within a
    /// name, `**` does not; case is ignored. The default names what pipelines run, and `kew.toml`; a list replaces it.
    pub protected_paths: Vec<String>,
    /// Commits that change submodules or `.gitmodules`: `hold` (default) or `allow`.
    pub submodules: Rule,
    /// Commits that bring symbolic links out of the tree: `hold` (default) or `allow`.
    pub symlinks: Rule,
    /// The largest file that commits may bring, at most 4 GiB; larger ones hold the node.
    pub blob_max: Size,
    /// How many commits a node may bring; more hold it.
    pub commits_max: u32,
    /// How many paths the tree of a node's head may have.
    pub paths_max: u32,
    /// The largest pack that is taken out of a checkout.
    pub pack_max: Size,
    /// Whether `sandbox.network = "open"` may be chosen at all: `allowed` (default) or `forbidden`.
    pub network_open: Choice,
    /// The hosts and groups that a repository's `sandbox.allow` may name; unset = any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_max: Option<Vec<String>>,
    /// The images that a repository's file may map; `*` at the end stands for any rest; unset = any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub images_max: Option<Vec<String>>,
}

impl Default for Policy {
    fn default() -> Self {
        let usual = CollectLimits::default();
        Self {
            protected_paths: PROTECTED.iter().map(|pattern| (*pattern).to_owned()).collect(),
            submodules: Rule::Hold,
            symlinks: Rule::Hold,
            blob_max: Size::from_bytes(usual.object_bytes),
            commits_max: usual.commits,
            paths_max: usual.paths,
            pack_max: Size::from_bytes(usual.pack_bytes),
            network_open: Choice::Allowed,
            allow_max: None,
            images_max: None,
        }
    }
}

impl Policy {
    /// What collecting needs.
    pub fn limits(&self) -> CollectLimits {
        CollectLimits {
            pack_bytes: self.pack_max.bytes(),
            object_bytes: self.blob_max.bytes(),
            commits: self.commits_max,
            paths: self.paths_max,
            policy: Some(self.rules().expect("the settings were checked")),
            ..CollectLimits::default()
        }
    }

    fn rules(&self) -> Result<policy::Policy, String> {
        policy::Policy::new(&self.protected_paths, self.submodules, self.symlinks)
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        if let Err(error) = self.rules() {
            return Err(SettingsError::new(
                format!("`policy.protected_paths`: {}", error.escape_debug()),
                "write patterns like `.github/workflows/**` or `deploy/*.yml`",
            ));
        }
        // A slash at either end would match nothing, and what was meant to be protected is not.
        let dead = |pattern: &&String| {
            pattern.is_empty()
                || pattern.starts_with('/')
                || pattern.starts_with("./")
                || pattern.ends_with('/')
        };
        if let Some(pattern) = self.protected_paths.iter().find(dead) {
            return Err(SettingsError::new(
                format!("`policy.protected_paths`: `{}` can match no path", pattern.escape_debug()),
                "write it from the repository's root, without `/` or `./` before it; a folder with all that is in it is `name/**`",
            ));
        }
        if self.blob_max.bytes() > LARGEST {
            return Err(SettingsError::new(
                format!("`policy.blob_max` = {} is more than 4 GiB", self.blob_max),
                "lower it",
            ));
        }
        let zero = [
            ("blob_max", self.blob_max.bytes()),
            ("commits_max", self.commits_max.into()),
            ("paths_max", self.paths_max.into()),
            ("pack_max", self.pack_max.bytes()),
        ];
        match zero.iter().find(|(_, value)| *value == 0) {
            Some((key, _)) => Err(SettingsError::new(
                format!("`policy.{key}` must be at least 1"),
                "remove it: the default serves most repositories",
            )),
            None => Ok(()),
        }
    }
}
