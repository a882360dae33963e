//! A bare repository of kew's own that holds every input of a run: a cache, from which checkouts are made and in which
//! inputs are merged.
//!
//! Not where results are validated, for it holds more than any one input reaches (see `quarantine`). Everything in it
//! was fetched from the user's repository or validated. Safe for several threads and kews: whoever writes holds the lock.
//! Invariant: a commit with a `refs/kew/keep/` ref is here with all that it reaches.

use std::fs::{self, File};

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    base::UserRepo,
    closure,
    context::{Git, ObjectFormat, done},
    error::GitError,
    refs,
};
use crate::{name::CommitId, process::query::Query};

/// An opened mirror.
#[derive(Debug, Clone)]
pub struct Mirror {
    git: Git,
    path: Utf8PathBuf,
    format: ObjectFormat,
}

/// Fetching a large history for the first time may take this long.
const FETCH: std::time::Duration = std::time::Duration::from_secs(3600);

impl Mirror {
    /// Opens the mirror at `path`, made first if it is not there; its parent must exist. The lock lies beside it, as `<path>.lock`.
    pub fn open_or_create(git: &Git, path: &Utf8Path, format: ObjectFormat) -> Result<Self, GitError> {
        let mirror = Self { git: git.clone(), path: path.to_owned(), format };
        let _lock = mirror.lock()?;
        if !path.join("HEAD").exists() {
            mirror.create()?;
        }
        let answer = mirror.git().args(["rev-parse", "--show-object-format"]).run()?;
        let unusable = |why: String| GitError::Mirror { path: path.to_owned(), why };
        if !answer.ok() {
            return Err(unusable(answer.stderr));
        }
        if answer.text() != format.word() {
            return Err(unusable(format!("its objects are {}, not {format}", answer.text())));
        }
        Ok(mirror)
    }

    /// Its folder.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// The hash of its objects.
    pub fn format(&self) -> ObjectFormat {
        self.format
    }

    /// Fetches a commit of the user's repository with all that it reaches, unless it is here already.
    pub fn ensure(&self, user: &UserRepo, id: &CommitId) -> Result<(), GitError> {
        if self.has(id)? && !self.became_whole(user) {
            return Ok(());
        }
        let _lock = self.lock()?;
        let first = closure::is_empty(self);
        let depth = if self.became_whole(user) { "--unshallow" } else { "--update-shallow" };
        let query = self.git().args(["-c", "protocol.version=2", "-c", "fetch.writeCommitGraph=false"]);
        let query =
            query.args(["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"]);
        let query = query.args(["--no-recurse-submodules", depth, "--"]).arg(user.common_dir().as_str());
        let query = query.arg(format!("+{id}:{}", refs::keep(id))).deadline(FETCH);
        done(query, "fetch")?;
        if first {
            closure::adopt(self, id);
        }
        Ok(())
    }

    /// The user's repository was shallow once and is not any more; the mirror still is.
    fn became_whole(&self, user: &UserRepo) -> bool {
        !user.is_shallow() && self.shallow_file().exists()
    }

    /// Whether a commit is here with all that it reaches.
    pub fn has(&self, id: &CommitId) -> Result<bool, GitError> {
        let keep = format!("{}^{{commit}}", refs::keep(id));
        Ok(self.git().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &keep]).run()?.ok())
    }

    /// A git command in the mirror.
    pub(super) fn git(&self) -> Query {
        self.git.at(&self.path)
    }

    /// The context that it was opened with.
    pub(super) fn context(&self) -> &Git {
        &self.git
    }

    /// Keeps a commit that is here with all that it reaches.
    pub(super) fn keep(&self, id: &CommitId) -> Result<(), GitError> {
        done(self.git().args(["update-ref", refs::keep(id).as_str(), id.as_str()]), "update-ref").map(|_| ())
    }

    /// Where git writes down at which commits its history is cut off.
    pub(super) fn shallow_file(&self) -> Utf8PathBuf {
        self.path.join("shallow")
    }

    /// Held while the returned file lives.
    pub(super) fn lock(&self) -> Result<File, GitError> {
        let path = Utf8PathBuf::from(format!("{}.lock", self.path));
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(GitError::io(&path))?;
        file.lock().map_err(GitError::io(&path))?;
        Ok(file)
    }

    /// Under another name first: a kew that is killed in between leaves no half mirror.
    fn create(&self) -> Result<(), GitError> {
        let draft = Utf8PathBuf::from(format!("{}.new", self.path));
        if draft.exists() {
            fs::remove_dir_all(&draft).map_err(GitError::io(&draft))?;
        }
        let query = self.git.at(&draft).args(["init", "--quiet", "--bare", "--template="]);
        done(query.arg(format!("--object-format={}", self.format)), "init")?;
        if self.path.exists() {
            fs::remove_dir(&self.path).map_err(GitError::io(&self.path))?;
        }
        fs::rename(&draft, &self.path).map_err(GitError::io(&self.path))
    }
}
