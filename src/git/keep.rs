//! Keeping what an attempt leaves that did not pass: its commits and its uncommitted work, as one commit for a person to see.
//!
//! Nothing starts from it, so it is no result. Whoever starts the sealed container gives it [`script_args`] and writes its
//! stdout to a file; [`accept`] judges that by the rules of [`super::collect`]: everything in the pack, descent from the input, limits.
//! Invariant: `accept` believes nothing of the file that it has not checked by itself.

use std::{fs::File, io::Read as _};

use camino::Utf8Path;

use super::{
    collect::{self, CollectFault, CollectLimits},
    error::GitError,
    header::{self, Header},
    mirror::Mirror,
    refs::RefName,
};
use crate::name::{AttemptKey, CommitId};

/// The script, for `/bin/sh -c`. It needs git, find, sed, and timeout, head and mktemp of coreutils.
pub const SCRIPT: &str = concat!(include_str!("calm.sh"), include_str!("keep.sh"));

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
    // Nothing starts from kept work and nothing publishes it: what only a person may change is worth a look, too.
    CollectLimits { pack_bytes: limits.pack_bytes.min(PACK_BYTES), policy: None, ..limits.clone() }
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
    let (head, dirty, paths) = match collect::accept(answer, mirror, quarantine_dir, input, limits) {
        Ok(taken) => (taken.head, taken.dirty, taken.dirty_paths),
        // What policy has against it is no matter: a person looks at it, and nothing starts from it.
        Err(CollectFault::Held { keep: Some(head), .. }) => {
            let header = header_of(answer, input).map_err(GitError::io(answer))?;
            (
                Some(head),
                header.as_ref().and_then(|header| header.dirty),
                header.map(|header| header.dirty_paths).unwrap_or_default(),
            )
        }
        Err(fault) => return Err(fault),
    };
    Ok(Left { head, large: dirty.unwrap_or_default(), large_paths: paths })
}

fn header_of(answer: &Utf8Path, input: &CommitId) -> std::io::Result<Option<Header>> {
    let mut start = Vec::new();
    File::open(answer)?.take(header::MAX_HEADER as u64).read_to_end(&mut start)?;
    Ok(header::parse(&start, input).ok())
}
