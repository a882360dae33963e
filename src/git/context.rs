//! A prepared host git: the folders of its clean prefix, and the short forms that run it.
//!
//! Plain data, cheap to clone, shared by all threads. Invariant: every host git command of kew is built by
//! [`Git::at`], so that none runs with the caller's environment.

use std::{ffi::OsString, fmt, fs, io};

use camino::{Utf8Path, Utf8PathBuf};

use super::{argv, error::GitError};
use crate::{
    name::CommitId,
    process::query::{Answer, Query},
};

/// The hash that names a repository's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectFormat {
    /// 40 hex digits.
    Sha1,
    /// 64 hex digits.
    Sha256,
}

impl ObjectFormat {
    /// As git writes it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sha1 => "sha1",
            Self::Sha256 => "sha256",
        }
    }

    /// Parses git's word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "sha1" => Some(Self::Sha1),
            "sha256" => Some(Self::Sha256),
            _ => None,
        }
    }

    /// The id that stands for "no object".
    pub fn zero(self) -> &'static str {
        match self {
            Self::Sha1 => "0000000000000000000000000000000000000000",
            Self::Sha256 => "0000000000000000000000000000000000000000000000000000000000000000",
        }
    }
}

impl fmt::Display for ObjectFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A prepared host git.
#[derive(Debug, Clone)]
pub struct Git {
    home: Utf8PathBuf,
    global: Utf8PathBuf,
    path: OsString,
}

impl Git {
    /// Without a folder and without any repository of other owners: for the user's repository by its path.
    pub(crate) fn bare_handed() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self { home: "/nonexistent".into(), global: "/dev/null".into(), path: argv::absolute_path(&path) }
    }

    /// Makes `folder` with an empty home and a global configuration that lets git enter the repositories of `safe`,
    /// whoever owns them; checks the version.
    pub fn prepare(folder: &Utf8Path, safe: &[&Utf8Path]) -> Result<Self, GitError> {
        if let Some(bad) =
            safe.iter().find(|path| !path.is_absolute() || path.as_str().contains(char::is_control))
        {
            return Err(GitError::BadPath(bad.as_str().escape_debug().to_string()));
        }
        let git = Self { home: folder.join("home"), global: folder.join("gitconfig"), ..Self::bare_handed() };
        fs::create_dir_all(&git.home).map_err(GitError::io(&git.home))?;
        // Renamed into place: another thread or kew may be reading the old one, which says the same.
        let draft = tempfile::NamedTempFile::new_in(folder).map_err(GitError::io(folder))?;
        fs::write(draft.path(), argv::global_config(safe)).map_err(GitError::io(folder))?;
        draft.persist(&git.global).map_err(|error| GitError::io(&git.global)(error.error))?;
        git.check_version()?;
        Ok(git)
    }

    /// A git command in the repository at `git_dir`, to be completed with its name and arguments.
    pub(crate) fn at(&self, git_dir: &Utf8Path) -> Query {
        self.program("git").args(argv::prefix(git_dir))
    }

    /// Like [`Git::at`], but it may write no file larger than `max` bytes: git is ended by a signal at that point.
    pub(crate) fn at_capped(&self, git_dir: &Utf8Path, max: u64) -> Query {
        // `ulimit -f` counts blocks of 512 bytes in a POSIX shell.
        let script = format!("ulimit -c 0; ulimit -f {} && exec git \"$@\"", max.div_ceil(512));
        self.program("/bin/sh").args(["-c", &script, "git"]).args(argv::prefix(git_dir))
    }

    /// A script of kew's own for `/bin/sh`, with git's clean environment: `$1`, `$2`, … are `args`.
    pub(crate) fn shell(&self, script: &str, args: &[&str]) -> Query {
        self.program("/bin/sh").args(["-c", script, "kew"]).args(args.iter().copied())
    }

    /// Like [`Git::at_capped`], with at most `memory` bytes of address space: git ends by itself at that point.
    pub(crate) fn at_bounded(&self, git_dir: &Utf8Path, max: u64, memory: u64) -> Query {
        let limits = format!("ulimit -c 0; ulimit -f {} && ulimit -v {}", max.div_ceil(512), memory >> 10);
        let script = format!("{limits} && exec git \"$@\"");
        self.program("/bin/sh").args(["-c", &script, "git"]).args(argv::prefix(git_dir))
    }

    fn program(&self, program: &str) -> Query {
        let roots = argv::Roots { home: &self.home, global: &self.global, path: &self.path };
        argv::env(roots)
            .into_iter()
            .fold(Query::new(program), |query, (name, value)| query.env(name, value))
            .dir("/")
    }

    /// `merge-tree --write-tree` came with 2.38.
    fn check_version(&self) -> Result<(), GitError> {
        let answer = done(self.program("git").arg("--version"), "--version")?;
        let found = answer.text();
        let mut numbers = found
            .split_ascii_whitespace()
            .nth(2)
            .into_iter()
            .flat_map(|version| version.split('.'))
            .map_while(|part| part.parse::<u32>().ok());
        match (numbers.next(), numbers.next()) {
            (Some(major), Some(minor)) if (major, minor) < (2, 38) => Err(GitError::TooOld { found }),
            (Some(_), Some(_)) => Ok(()),
            _ => Err(GitError::Answer { what: "--version", answer: excerpt(&found) }),
        }
    }
}

/// Runs a command that must succeed.
pub(crate) fn done(query: Query, what: &'static str) -> Result<Answer, GitError> {
    let answer = query.run()?;
    if answer.ok() {
        return Ok(answer);
    }
    Err(failed(&answer, what))
}

/// The error of a command that did not succeed.
pub(crate) fn failed(answer: &Answer, what: &'static str) -> GitError {
    let stderr = match (answer.stderr.as_str(), answer.code) {
        ("", Some(code)) => format!("exit {code}"),
        ("", None) => "ended by a signal".to_owned(),
        (stderr, _) => stderr.to_owned(),
    };
    GitError::Failed { what, stderr }
}

/// Reads an answer that must be one object id.
pub(crate) fn id(answer: &Answer, what: &'static str) -> Result<CommitId, GitError> {
    CommitId::new(answer.text()).map_err(|_| GitError::Answer { what, answer: excerpt(&answer.text()) })
}

/// The first 200 characters, for a message.
pub(crate) fn excerpt(text: &str) -> String {
    text.chars().take(200).collect()
}

/// An absolute path without symbolic links, as UTF-8.
pub(crate) fn canonical(path: &Utf8Path) -> Result<Utf8PathBuf, GitError> {
    path.canonicalize_utf8().map_err(|source| match source.kind() {
        io::ErrorKind::InvalidData => GitError::BadPath(path.to_string()),
        _ => GitError::Io { path: path.to_owned(), source },
    })
}
