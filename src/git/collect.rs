//! Taking an agent's commits out of its checkout: the script that packs them in a sealed container, and the judgement of
//! what comes out.
//!
//! Whoever starts that container gives it [`script_args`] and writes its stdout to a file; [`script_fault`] reads its exit
//! status, [`accept`] the file. Invariant: `accept` believes nothing of the file that it has not checked by itself.

use std::{fs::File, io::Read as _};

use camino::Utf8Path;

use super::{
    error::GitError,
    header::{self, Header},
    mirror::Mirror,
    policy::Policy,
    quarantine::Quarantine,
    refs::RefName,
};
use crate::name::CommitId;

/// The script, for `/bin/sh -c`. It needs git, and timeout and head of coreutils or busybox.
pub const SCRIPT: &str = concat!(include_str!("calm.sh"), include_str!("collect.sh"));

/// What is taken at most.
#[derive(Debug, Clone)]
pub struct CollectLimits {
    /// The pack, in bytes.
    pub pack_bytes: u64,
    /// One object, unpacked, in bytes. A file that is larger is held, but kept.
    pub object_bytes: u64,
    /// Objects.
    pub objects: u32,
    /// Commits. More are held, but kept.
    pub commits: u32,
    /// Paths in the tree of the new head.
    pub paths: u32,
    /// What must not happen to certain paths, links and sizes; `None` where the commits are to be looked at only, and nothing
    /// will start from them. Then a file or a number above the limits is simply too much.
    pub policy: Option<Policy>,
}

impl Default for CollectLimits {
    fn default() -> Self {
        Self {
            pack_bytes: 512 << 20,
            object_bytes: 100 << 20,
            objects: 500_000,
            commits: 1000,
            paths: 2_000_000,
            policy: Some(Policy::default()),
        }
    }
}

/// What an attempt left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// The new head; `None` if HEAD names the input. Its objects are in the quarantine, to be landed.
    pub head: Option<CommitId>,
    /// How many commits it adds to the input.
    pub commits: u32,
    /// How many paths are uncommitted (counted up to 10000); `None` where git could not say.
    pub dirty: Option<u32>,
    /// At most 20 of them, quoted as git does. The agent's own words.
    pub dirty_paths: Vec<String>,
}

/// Why a person must look at what an attempt left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The head does not descend from the input.
    HistoryRewritten,
    /// The node's branch and HEAD name different work.
    MovedApart,
    /// More than a limit allows.
    TooMuch,
    /// A name that only kew may use.
    ReservedName,
    /// Objects that the agent cannot have made or been given.
    ForeignObjects,
    /// Objects that git refuses.
    Broken,
    /// The repository itself was taken apart: not to be read, or only at a risk.
    Spoilt,
    /// A path that only a person changes.
    ProtectedPath,
    /// A submodule.
    Submodule,
    /// A link that leads out of the tree.
    Symlink,
    /// A name that some system takes for `.git`.
    GitName,
    /// Several reasons of the policy at once.
    Policy,
}

/// Why an attempt could not be collected.
#[derive(Debug, thiserror::Error)]
pub enum CollectFault {
    /// A person must look.
    #[error("{}: {sentence}", reason.word())]
    Held {
        /// The kind of reason.
        reason: Held,
        /// What exactly; may quote the agent.
        sentence: String,
        /// The head, if only what its commits do is in question and not where they come from: its objects are in the
        /// quarantine, for a person to look at.
        keep: Option<CommitId>,
    },
    /// The machine or kew, not the agent.
    #[error(transparent)]
    Infrastructure(#[from] GitError),
}

impl Held {
    /// The reason in a word or two, for people and for the state.
    pub fn word(self) -> &'static str {
        match self {
            Self::HistoryRewritten => "history rewritten",
            Self::MovedApart => "branch and HEAD moved apart",
            Self::TooMuch => "too much",
            Self::ReservedName => "reserved name",
            Self::ForeignObjects => "foreign objects",
            Self::Broken => "broken objects",
            Self::Spoilt => "spoilt checkout",
            Self::ProtectedPath => "protected path",
            Self::Submodule => "submodule",
            Self::Symlink => "symbolic link",
            Self::GitName => "name of git",
            Self::Policy => "policy",
        }
    }

    pub(super) fn because(self, sentence: String) -> CollectFault {
        CollectFault::Held { reason: self, sentence, keep: None }
    }

    pub(super) fn keeping(self, head: &CommitId, sentence: String) -> CollectFault {
        CollectFault::Held { reason: self, sentence, keep: Some(head.clone()) }
    }
}

/// The arguments of `/bin/sh` in the collecting container, which has the checkout at `/work`.
pub fn script_args(input: &CommitId, branch: &RefName, limits: &CollectLimits) -> Vec<String> {
    ["-c", SCRIPT, "kew-collect", input.as_str(), branch.as_str(), &limits.pack_bytes.to_string()]
        .map(str::to_owned)
        .to_vec()
}

/// What a non-zero exit status of the script means; `None` for one that is not the script's own (125 of docker, 137, …).
pub fn script_fault(code: i32, stderr: &str) -> Option<CollectFault> {
    let said = stderr
        .lines()
        .rfind(|line| line.starts_with("kew-collect: "))
        .unwrap_or("kew-collect: no reason given");
    let said = said.trim_start_matches("kew-collect: ").to_owned();
    match code {
        10..=13 => Some(Held::Spoilt.because(format!("it cannot be collected: {said}"))),
        14 => Some(Held::TooMuch.because(said)),
        _ => None,
    }
}

/// Judges what the script wrote to `answer`. Good commits are in `quarantine_dir` (missing or empty before) afterwards, ready
/// for [`super::land::land`]; the caller removes it.
pub fn accept(
    answer: &Utf8Path,
    mirror: &Mirror,
    quarantine_dir: &Utf8Path,
    input: &CommitId,
    limits: &CollectLimits,
) -> Result<Collected, CollectFault> {
    let file = File::open(answer).map_err(GitError::io(answer))?;
    let size = file.metadata().map_err(GitError::io(answer))?.len();
    let mut start = Vec::new();
    (&file).take(header::MAX_HEADER as u64).read_to_end(&mut start).map_err(GitError::io(answer))?;
    let header = header::parse(&start, input).map_err(|error| Held::Broken.because(error.to_string()))?;
    let pack_bytes = size - header.length as u64;
    if pack_bytes > limits.pack_bytes {
        return Err(Held::TooMuch.because(format!("the pack is larger than {} bytes", limits.pack_bytes)));
    }
    let quarantine = Quarantine::create(mirror, quarantine_dir)?;
    let mut commits = 0;
    if header.head != *input {
        commits = quarantine.validate(file, header.length as u64, input, &header.head, limits)?;
    } else if pack_bytes > 0 {
        return Err(Held::Broken.because("a pack came although HEAD did not move".to_owned()));
    }
    check_branch(&quarantine, &header, input)?;
    let Header { head, dirty, dirty_paths, .. } = header;
    Ok(Collected { head: (head != *input).then_some(head), commits, dirty, dirty_paths })
}

/// HEAD counts, unless the node's branch holds work that HEAD does not contain.
fn check_branch(quarantine: &Quarantine, header: &Header, input: &CommitId) -> Result<(), CollectFault> {
    let Some(branch) = header.branch.as_ref().filter(|branch| **branch != header.head && *branch != input)
    else {
        return Ok(());
    };
    if quarantine.is_ancestor(branch, &header.head)? {
        return Ok(());
    }
    let at = header.symbolic.as_deref().unwrap_or("a detached commit");
    let (head, branch) = (header.head.short(), branch.short());
    let sentence =
        format!("HEAD is at {head} ({at}), but the node's branch is at {branch}, which HEAD lacks");
    Err(if header.head == *input {
        Held::MovedApart.because(sentence)
    } else {
        Held::MovedApart.keeping(&header.head, sentence)
    })
}
