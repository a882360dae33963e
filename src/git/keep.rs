//! Keeping what an attempt leaves that did not pass: its commits and its uncommitted work, as one commit for a person to see.
//!
//! Nothing starts from it, so it is no result. Whoever starts the sealed container gives it [`script_args`] and writes its
//! stdout to a file; [`accept`] judges that by the rules of [`super::collect`]: everything in the pack, descent from the input, limits.
//! Invariant: `accept` believes nothing of the file that it has not checked by itself.

use camino::Utf8Path;

use super::{
    collect::{self, CollectFault, CollectLimits},
    mirror::Mirror,
    refs::RefName,
};
use crate::name::{AttemptKey, CommitId};

/// The script, for `/bin/sh -c`. It needs git, find, sed, and timeout, head and mktemp of coreutils.
pub const SCRIPT: &str = include_str!("keep.sh");

/// The most that is kept of one attempt, packed, in bytes. The sealed container has more room than that in its `/tmp`.
pub const PACK_BYTES: u64 = 256 << 20;

/// What an attempt left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The commit, which descends from the input; `None` if there was nothing but the input. Its objects are in the
    /// quarantine, to be landed.
    pub head: Option<CommitId>,
    /// How many files were too large, each by itself.
    pub large: u32,
    /// At most 20 of them. The agent's own words.
    pub large_paths: Vec<String>,
}

/// What is taken at most: as of any attempt, but a smaller pack.
pub fn limits(limits: &CollectLimits) -> CollectLimits {
    CollectLimits { pack_bytes: limits.pack_bytes.min(PACK_BYTES), ..limits.clone() }
}

/// The arguments of the script after its name: `$1`, `$2`, …
pub fn script_args(
    input: &CommitId,
    branch: &RefName,
    key: &AttemptKey,
    limits: &CollectLimits,
) -> [String; 5] {
    let message = format!(
        "kew: what {} left, attempt {}\n\nRun {}. It did not pass; nothing starts from this commit.",
        key.node, key.attempt, key.run
    );
    [
        input.to_string(),
        branch.to_string(),
        message,
        limits.pack_bytes.to_string(),
        limits.object_bytes.to_string(),
    ]
}

/// Judges what the script wrote to `answer`. The commit's objects are in `quarantine_dir` (missing or empty before) afterwards,
/// ready for [`super::land::land`]; the caller removes it.
pub fn accept(
    answer: &Utf8Path,
    mirror: &Mirror,
    quarantine_dir: &Utf8Path,
    input: &CommitId,
    limits: &CollectLimits,
) -> Result<Left, CollectFault> {
    let taken = collect::accept(answer, mirror, quarantine_dir, input, limits)?;
    Ok(Left { head: taken.head, large: taken.dirty.unwrap_or_default(), large_paths: taken.dirty_paths })
}
