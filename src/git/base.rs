//! The user's own repository: where it is, what the base of a run is, and the few refs that kew makes in it.
//!
//! kew reads it by plumbing and fetches from it; it changes neither its branches, index nor work tree. Where kew is root
//! and the repository is somebody else's, git runs there as its owner, so that no root-owned file appears and nothing of
//! its configuration acts with root's rights. Invariant: a ref is made once and never moved.

use std::{fs, os::unix::fs::MetadataExt as _};

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    context::{self, Git, ObjectFormat, canonical, done, excerpt, failed},
    error::{Extent, GitError},
    refs::RefName,
};
use crate::{
    name::CommitId,
    process::query::{Query, RunAs},
};

/// The user's repository.
#[derive(Debug, Clone)]
pub struct UserRepo {
    git: Git,
    git_dir: Utf8PathBuf,
    common_dir: Utf8PathBuf,
    work_tree: Option<Utf8PathBuf>,
    owner: RunAs,
    shallow: bool,
    format: ObjectFormat,
    settings: Vec<(String, String)>,
}

impl UserRepo {
    /// Opens the repository at `dir`, or the one that the current folder is in. Partial clones are refused.
    pub fn open(dir: Option<&Utf8Path>) -> Result<Self, GitError> {
        let start = canonical(dir.unwrap_or(Utf8Path::new(".")))?;
        let found = find(&start).ok_or_else(|| GitError::NoRepository(start.clone()))?;
        let git = Git::bare_handed();
        let facts = git.at(&found.git_dir).args([
            "rev-parse",
            "--path-format=absolute",
            "--git-common-dir",
            "--absolute-git-dir",
            "--is-shallow-repository",
            "--is-bare-repository",
            "--show-object-format",
        ]);
        let facts = done(facts, "rev-parse")?.text();
        let unexpected = || GitError::Answer { what: "rev-parse", answer: excerpt(&facts) };
        let [common_dir, git_dir, shallow, bare, format] = facts.lines().collect::<Vec<_>>()[..] else {
            return Err(unexpected());
        };
        let common_dir = canonical(Utf8Path::new(common_dir))?;
        let meta = fs::metadata(&common_dir).map_err(GitError::io(&common_dir))?;
        let mut repo = Self {
            git,
            git_dir: canonical(Utf8Path::new(git_dir))?,
            common_dir,
            work_tree: found.work_tree.filter(|_| bare == "false"),
            owner: RunAs { uid: meta.uid(), gid: meta.gid() },
            shallow: shallow == "true",
            format: ObjectFormat::parse(format).ok_or_else(unexpected)?,
            settings: Vec::new(),
        };
        repo.settings = repo.read_settings()?;
        let partial = repo.settings.iter().any(|(key, value)| {
            key == "extensions.partialclone"
                || (key.starts_with("remote.") && key.ends_with(".promisor") && value != "false")
        });
        if partial {
            return Err(GitError::PartialClone(repo.root().to_owned()));
        }
        Ok(repo)
    }

    /// The top of the work tree; of a bare repository, the repository.
    pub fn root(&self) -> &Utf8Path {
        self.work_tree.as_deref().unwrap_or(&self.common_dir)
    }

    /// The top of the work tree, where there is one.
    pub fn work_tree(&self) -> Option<&Utf8Path> {
        self.work_tree.as_deref()
    }

    /// The folder that all work trees share (`.git`, or the bare repository).
    pub fn common_dir(&self) -> &Utf8Path {
        &self.common_dir
    }

    /// Where kew keeps its state unless told otherwise. Not made here.
    pub fn state_dir(&self) -> Utf8PathBuf {
        self.common_dir.join("kew")
    }

    /// Whose the repository is.
    pub fn owner(&self) -> RunAs {
        self.owner
    }

    /// Whether history is cut off.
    pub fn is_shallow(&self) -> bool {
        self.shallow
    }

    /// The hash of its objects.
    pub fn format(&self) -> ObjectFormat {
        self.format
    }

    /// What [`Git::prepare`] must let git enter, to fetch from here.
    pub fn safe_directories(&self) -> Vec<&Utf8Path> {
        let mut dirs: Vec<&Utf8Path> = vec![&self.common_dir, &self.git_dir];
        dirs.extend(self.work_tree.as_deref());
        dirs.dedup();
        dirs
    }

    /// The commit that `base` names: a branch, a tag, a remote's branch (`origin/main`, or `main` where only a remote has
    /// it), a commit or any other expression of git for one. Without `base`, what HEAD names.
    pub fn resolve(&self, base: Option<&str>) -> Result<CommitId, GitError> {
        let name = base.unwrap_or("HEAD");
        if name.is_empty() || name.contains(char::is_control) {
            return Err(self.unknown(name));
        }
        if let Some(id) = self.commit(name)? {
            return Ok(id);
        }
        if name == "HEAD" || name == "@" {
            return Err(GitError::NoCommits);
        }
        self.remote_branch(name)?.ok_or_else(|| self.unknown(name))
    }

    /// Whether a commit is here.
    pub fn has_commit(&self, id: &CommitId) -> Result<bool, GitError> {
        self.commit(id.as_str()).map(|found| found.is_some())
    }

    /// How many paths of the work tree differ from HEAD: changed, staged, untracked. Zero for a bare repository.
    ///
    /// Writes nothing, starts no filter of the repository's configuration, and does not look into submodules.
    pub fn uncommitted_count(&self) -> Result<usize, GitError> {
        let Some(work_tree) = &self.work_tree else {
            return Ok(0);
        };
        let mut query = self.git().env("GIT_OPTIONAL_LOCKS", "0");
        let overrides = self.filter_overrides();
        query = query.env("GIT_CONFIG_COUNT", overrides.len().to_string());
        for (at, (key, value)) in overrides.into_iter().enumerate() {
            query =
                query.env(format!("GIT_CONFIG_KEY_{at}"), key).env(format!("GIT_CONFIG_VALUE_{at}"), value);
        }
        let query = query.arg(format!("--work-tree={work_tree}")).args([
            "status",
            "--porcelain=v1",
            "-z",
            "--no-renames",
            "--untracked-files=normal",
            "--ignore-submodules=all",
        ]);
        let answer = done(query, "status")?;
        Ok(answer.stdout.iter().filter(|byte| **byte == 0).count())
    }

    /// Makes a ref. That it is there already with the same id is success; with another, an error.
    pub fn create_ref(&self, name: &RefName, id: &CommitId) -> Result<(), GitError> {
        let query =
            self.git().args(["update-ref", "--no-deref", name.as_str(), id.as_str(), self.format.zero()]);
        let answer = query.run()?;
        if answer.ok() {
            return Ok(());
        }
        match self.read_ref(name)? {
            Some(have) if have == *id => Ok(()),
            Some(have) => Err(GitError::RefTaken { name: name.to_string(), have, want: id.clone() }),
            None => Err(failed(&answer, "update-ref")),
        }
    }

    /// What a ref of kew's names, if it exists.
    pub fn read_ref(&self, name: &RefName) -> Result<Option<CommitId>, GitError> {
        self.commit(name.as_str())
    }

    /// Its own settings, without the user's and the system's files: keys in git's spelling, values.
    pub(super) fn settings(&self) -> &[(String, String)] {
        &self.settings
    }

    /// A git command in this repository, as its owner where kew is root and the owner is not.
    pub(super) fn git(&self) -> Query {
        let somebody_else = rustix::process::geteuid().is_root() && self.owner.uid != 0;
        self.git.at(&self.git_dir).run_as(somebody_else.then_some(self.owner))
    }

    fn commit(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        let rev = format!("{name}^{{commit}}");
        let answer = self.git().args(["rev-parse", "--verify", "--quiet", "--end-of-options", &rev]).run()?;
        if !answer.ok() {
            return Ok(None);
        }
        // `^name` is a valid revision, but no commit.
        Ok(CommitId::new(answer.text()).ok())
    }

    /// `name` as the branch of exactly one remote, or of several at the same commit.
    fn remote_branch(&self, name: &str) -> Result<Option<CommitId>, GitError> {
        if name.contains(['*', '?', '[', '\\']) {
            return Ok(None);
        }
        let pattern = format!("refs/remotes/*/{name}");
        let query = self.git().args(["for-each-ref", "--format=%(objectname) %(refname)", "--", &pattern]);
        let text = done(query, "for-each-ref")?.text();
        let found: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(' ')).collect();
        let Some((id, _)) = found.first() else {
            return Ok(None);
        };
        if found.iter().any(|(other, _)| other != id) {
            let refs = found.iter().map(|(_, name)| (*name).to_owned()).collect();
            return Err(GitError::AmbiguousBase { name: name.to_owned(), refs });
        }
        Ok(CommitId::new(*id).ok())
    }

    fn unknown(&self, name: &str) -> GitError {
        let extent = if self.shallow {
            Extent::Shallow
        } else if self.has_one_ref() {
            Extent::OneRef
        } else {
            Extent::Full
        };
        GitError::UnknownBase { name: name.escape_debug().to_string(), extent }
    }

    /// A clone whose remotes fetch no pattern, or that has at most one branch name in all. Only for advice: trouble is "no".
    fn has_one_ref(&self) -> bool {
        let mut fetches =
            self.settings.iter().filter(|(key, _)| key.starts_with("remote.") && key.ends_with(".fetch"));
        if fetches.clone().next().is_some() && !fetches.any(|(_, refspec)| refspec.contains('*')) {
            return true;
        }
        let query = self.git().args(["for-each-ref", "--format=%(refname:lstrip=3)", "refs/remotes"]);
        let Ok(answer) = query.run() else {
            return false;
        };
        let mut names: Vec<String> =
            answer.text().lines().filter(|name| *name != "HEAD").map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names.len() == 1
    }

    /// Every setting in force for this repository (the user's and the system's files are not read).
    fn read_settings(&self) -> Result<Vec<(String, String)>, GitError> {
        let answer = done(self.git().args(["config", "--list", "-z"]), "config")?;
        let text = String::from_utf8_lossy(&answer.stdout).into_owned();
        let entry = |entry: &str| {
            let (key, value) = entry.split_once('\n').unwrap_or((entry, "true"));
            (key.to_owned(), value.to_owned())
        };
        Ok(text.split_terminator('\0').map(entry).collect())
    }

    /// Settings that switch off each filter that the repository's configuration defines.
    fn filter_overrides(&self) -> Vec<(String, &'static str)> {
        let mut overrides = Vec::new();
        for (key, _) in &self.settings {
            let Some((driver, variable)) = key.strip_prefix("filter.").and_then(|rest| rest.rsplit_once('.'))
            else {
                continue;
            };
            match variable {
                "clean" | "smudge" | "process" => overrides.push((format!("filter.{driver}.{variable}"), "")),
                "required" => overrides.push((format!("filter.{driver}.required"), "false")),
                _ => {}
            }
        }
        overrides
    }
}

struct Found {
    git_dir: Utf8PathBuf,
    work_tree: Option<Utf8PathBuf>,
}

/// The first folder upwards that is a work tree or a repository. By hand, since git itself enters only what
/// `safe.directory` names, and that can be written only once this is known.
fn find(start: &Utf8Path) -> Option<Found> {
    start.ancestors().find_map(|dir| {
        let dot_git = dir.join(".git");
        if dot_git.is_file() || is_repository(&dot_git) {
            return Some(Found { git_dir: dot_git, work_tree: Some(dir.to_owned()) });
        }
        is_repository(dir).then(|| Found { git_dir: dir.to_owned(), work_tree: None })
    })
}

fn is_repository(dir: &Utf8Path) -> bool {
    dir.join("HEAD").exists() && dir.join("objects").is_dir() && dir.join("refs").is_dir()
        || dir.join("commondir").is_file() && dir.join("HEAD").exists()
}

impl UserRepo {
    /// Fails unless every object of `head` that `not` does not reach is here.
    pub(super) fn check_connected(&self, head: &CommitId, not: &[CommitId]) -> Result<(), GitError> {
        let query = self.git().args(["rev-list", "--objects", "--quiet", head.as_str(), "--not"]);
        done(query.args(not.iter().map(CommitId::as_str)), "rev-list").map(|_| ())
    }

    /// A git context for fetching from here, with its files in `folder`.
    pub fn context(&self, folder: &Utf8Path) -> Result<Git, GitError> {
        context::Git::prepare(folder, &self.safe_directories())
    }
}
