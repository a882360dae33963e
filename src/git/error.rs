//! Why something with git did not work, and what a person can do about it.
//!
//! One enum for the whole boundary; a merge conflict and a refused collection are results with enums of their own.
//! Messages are fragments; advice is apart, in [`GitError::hint`].

use std::io;

use camino::{Utf8Path, Utf8PathBuf};

use crate::{name::CommitId, process::query::QueryError};

/// Why something with git did not work.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// Git could not be started or took too long.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Git said no.
    #[error("`git {what}` failed: {stderr}")]
    Failed {
        /// The command, without its prefix.
        what: &'static str,
        /// What it wrote to stderr.
        stderr: String,
    },
    /// Git gave an answer that is not one.
    #[error("`git {what}` gave an unexpected answer: `{answer}`")]
    Answer {
        /// The command, without its prefix.
        what: &'static str,
        /// The beginning of the answer.
        answer: String,
    },
    /// A file or folder.
    #[error("`{path}`: {source}")]
    Io {
        /// Which.
        path: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A path that cannot be written into a configuration file or an argument.
    #[error("the path `{0}` is not plain UTF-8 text")]
    BadPath(String),
    /// The program is older than what kew needs.
    #[error("`{found}` is too old")]
    TooOld {
        /// What `git --version` said.
        found: String,
    },
    /// No repository there, nor above it.
    #[error("`{0}` is not inside a git repository")]
    NoRepository(Utf8PathBuf),
    /// A repository without some of its objects.
    #[error("`{0}` is a partial clone: some of its objects are only on its remote")]
    PartialClone(Utf8PathBuf),
    /// HEAD names a branch that has no commit.
    #[error("the repository has no commits yet")]
    NoCommits,
    /// The base names nothing.
    #[error("the base `{name}` is neither a branch, a tag nor a commit of this repository")]
    UnknownBase {
        /// As given.
        name: String,
        /// How much of the remote's history is here.
        extent: Extent,
    },
    /// The base is the name of a branch of several remotes, at different commits.
    #[error("the base `{name}` is ambiguous: {}", refs.join(", "))]
    AmbiguousBase {
        /// As given.
        name: String,
        /// The full names.
        refs: Vec<String>,
    },
    /// A ref that is made once is there already, with another commit.
    #[error("the ref `{name}` exists and names {have}, not {want}")]
    RefTaken {
        /// Its name.
        name: String,
        /// What it names.
        have: CommitId,
        /// What it was to name.
        want: CommitId,
    },
    /// The mirror is damaged or another kind of repository.
    #[error("the mirror `{path}` cannot be used: {why}")]
    Mirror {
        /// Where.
        path: Utf8PathBuf,
        /// Why.
        why: String,
    },
    /// A folder that kew wanted to make exists and is not empty.
    #[error("`{0}` exists already")]
    Exists(Utf8PathBuf),
}

/// How much of its remote's history a repository has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// History is cut off.
    Shallow,
    /// At most one branch was fetched.
    OneRef,
    /// Nothing speaks against all of it.
    Full,
}

impl GitError {
    /// What a person can do, as a sentence without a full stop.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::TooOld { .. } => Some("install git 2.38 or newer"),
            Self::NoRepository(_) => Some("start kew inside a repository, or name one by --repo"),
            Self::PartialClone(_) => Some(
                "clone again without --filter, or run: git config --unset remote.origin.partialclonefilter; git fetch --refetch; \
                 git config --unset remote.origin.promisor; git config --unset extensions.partialclone",
            ),
            Self::NoCommits => Some("make a first commit"),
            Self::UnknownBase { extent: Extent::Shallow, .. } => {
                Some("this clone is shallow: in CI set fetch-depth: 0, else run git fetch --unshallow")
            }
            Self::UnknownBase { extent: Extent::OneRef, .. } => Some(
                "this clone has only one branch: in CI set fetch-depth: 0, else fetch the branch that you mean",
            ),
            Self::UnknownBase { extent: Extent::Full, .. } => {
                Some("git branch --all and git tag list what there is; fetch it first if it is not there")
            }
            Self::Mirror { .. } => Some("it is only a cache: delete it when no kew is running"),
            _ => None,
        }
    }

    /// Ties an I/O error to its path; for `map_err`.
    pub(crate) fn io(path: &Utf8Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
