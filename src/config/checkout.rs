//! `[checkout]`: what an agent's clone holds of a repository that is more than its own objects.
//!
//! Closed by default: submodules and files of Git LFS are elsewhere, where kew does not fetch from, and an agent that finds
//! an empty folder in place of a library draws its own conclusions. A repository's file may choose, for it opens nothing.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::git::tree::{Lfs, Shape, Submodules};

/// `[checkout]`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Checkout {
    /// A tree with submodules: `refuse` (default) stops before anything runs, `empty` leaves their folders empty.
    pub submodules: Submodules,
    /// A tree whose `.gitattributes` give files to Git LFS: `refuse` (default), or `pointers`, which leaves the pointer files.
    pub lfs: Lfs,
    /// How many commits deep the history in a checkout is; unset = all of it. Reviewers see no more than that either.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<NonZeroU32>,
}

impl Checkout {
    /// Which trees are taken.
    pub fn shape(&self) -> Shape {
        Shape { submodules: self.submodules, lfs: self.lfs }
    }
}
