//! One push: what the remote has, then the commit to its branch by a lease on exactly that.
//!
//! Invariant: a lease always names what is expected, so a push can overwrite nothing that was not seen and known to be
//! kew's own.

use std::{
    collections::BTreeMap,
    fs, io,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    fault::{self, MOVED, PublishFault},
    remote::{NAME, Remote},
};
use crate::{
    git::{
        base::UserRepo,
        context::{Git, done},
        error::GitError,
    },
    name::CommitId,
    process::query::{Answer, Query, QueryError},
};

/// A large pack over a slow line.
const PUSH: Duration = Duration::from_secs(900);
const LOOK: Duration = Duration::from_secs(120);

/// Of ssh, where the user has not chosen a command: it fails rather than asks.
const SSH: &str = "ssh -o BatchMode=yes -o ConnectTimeout=30";

/// What no configuration may say otherwise.
const SETTINGS: [&str; 9] = [
    "push.pushOption=",
    "push.gpgSign=false",
    "push.followTags=false",
    "push.recurseSubmodules=no",
    "push.negotiate=false",
    "credential.interactive=false",
    "protocol.version=2",
    // A remote that says nothing for a minute is gone.
    "http.lowSpeedLimit=1",
    "http.lowSpeedTime=60",
];

/// A bare repository without anything in it, over the user's objects; gone when dropped.
pub(super) struct Scratch {
    dir: tempfile::TempDir,
    path: Utf8PathBuf,
}

impl Scratch {
    /// Makes one below `folder`.
    pub(super) fn new(folder: &Utf8Path, repo: &UserRepo) -> Result<Self, GitError> {
        let dir =
            tempfile::Builder::new().prefix("push-").tempdir_in(folder).map_err(GitError::io(folder))?;
        let path = Utf8PathBuf::from_path_buf(dir.path().to_owned())
            .map_err(|path| GitError::BadPath(path.to_string_lossy().into_owned()))?
            .join("from.git");
        let query = Git::bare_handed().at(&path).args(["init", "--quiet", "--bare", "--template="]);
        done(query.arg(format!("--object-format={}", repo.format())), "init")?;
        let write = || -> io::Result<()> {
            fs::create_dir_all(path.join("objects/info"))?;
            let objects = repo.common_dir().join("objects");
            fs::write(path.join("objects/info/alternates"), format!("{objects}\n"))?;
            if repo.is_shallow() {
                fs::copy(repo.common_dir().join("shallow"), path.join("shallow"))?;
            }
            Ok(())
        };
        write().map_err(GitError::io(&path))?;
        Ok(Self { dir, path })
    }

    pub(super) fn path(&self) -> &Utf8Path {
        debug_assert!(self.dir.path().exists());
        &self.path
    }
}

/// The way out of a repository.
pub struct Outlet {
    /// The user's repository.
    pub repo: UserRepo,
    /// Where to.
    pub remote: Remote,
    /// A folder for short-lived files.
    pub folder: Utf8PathBuf,
    /// Once true, what runs is ended.
    pub stop: Arc<AtomicBool>,
}

/// What a remote has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tips {
    /// Its default branch.
    pub default: Option<String>,
    /// The tips of the branches that were asked for and exist.
    pub branches: BTreeMap<String, CommitId>,
}

/// What became of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pushed {
    /// The branch is new.
    Created,
    /// The branch was kew's and is at the new commit.
    Moved,
    /// The branch was at that commit already.
    There,
}

impl Outlet {
    /// Fails unless the commit is here, with all of these in its history.
    pub fn check_history(&self, commit: &CommitId, contains: &[CommitId]) -> Result<(), PublishFault> {
        for other in contains.iter().filter(|other| *other != commit) {
            let query =
                self.repo.git().args(["merge-base", "--is-ancestor", other.as_str(), commit.as_str()]);
            let answer = query.run().map_err(|error| self.broke(&error))?;
            if !answer.ok() {
                let sentence = format!(
                    "{} is not there, or has not {} in its history, which it was approved with",
                    commit.short(),
                    other.short()
                );
                let hint = "nothing was pushed; `kew show` tells what each node brought";
                return Err(PublishFault::refused("other-history", sentence, hint));
            }
        }
        Ok(())
    }

    /// Asks the remote for its default branch and the tips of these branches.
    pub fn tips(&self, branches: &[&str]) -> Result<Tips, PublishFault> {
        let scratch = self.scratch()?;
        let query = self.git(&scratch)?.args(["ls-remote", "--symref", "--", NAME, "HEAD"]);
        let query = query.args(branches.iter().map(|branch| format!("refs/heads/{branch}")));
        let answer = self.run(query.deadline(LOOK))?;
        if !answer.ok() {
            return Err(fault::of_stderr(&self.clean(&answer.stderr)));
        }
        let mut tips = Tips::default();
        for line in answer.text().lines() {
            let Some((value, name)) = line.split_once('\t') else { continue };
            if let Some(target) = value.strip_prefix("ref: refs/heads/").filter(|_| name == "HEAD") {
                tips.default = Some(target.to_owned());
            } else if let (Some(branch), Ok(id)) = (name.strip_prefix("refs/heads/"), CommitId::new(value)) {
                // The remote matches by the end of a name: others may come along.
                if branches.contains(&branch) {
                    tips.branches.insert(branch.to_owned(), id);
                }
            }
        }
        Ok(tips)
    }

    /// Brings a branch to a commit. `tip` is what the remote has now, `own` says whether kew had pushed a commit there;
    /// `options` are for the remote. Gives also what the remote said.
    pub fn push(
        &self,
        branch: &str,
        commit: &CommitId,
        tip: Option<&CommitId>,
        own: &dyn Fn(&CommitId) -> bool,
        options: &[String],
    ) -> Result<(Pushed, String), PublishFault> {
        match tip {
            Some(tip) if tip == commit => return Ok((Pushed::There, String::new())),
            Some(tip) if !own(tip) => {
                let sentence = format!(
                    "the branch `{branch}` is there at {}, which kew did not push: it was moved by someone else",
                    tip.short()
                );
                return Err(PublishFault::refused("moved", sentence, MOVED));
            }
            _ => {}
        }
        let scratch = self.scratch()?;
        let expected = tip.map(CommitId::as_str).unwrap_or_default();
        let mut query = self.git(&scratch)?;
        query = query.args(["push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed"]);
        query = query.args(["--recurse-submodules=no", "--no-progress"]);
        query = query.arg(format!("--force-with-lease=refs/heads/{branch}:{expected}"));
        query = query.args(options.iter().map(|option| format!("--push-option={option}")));
        query = query.args(["--".to_owned(), NAME.to_owned(), format!("{commit}:refs/heads/{branch}")]);
        let answer = self.run(query.deadline(PUSH))?;
        let stderr = self.clean(&answer.stderr);
        let out = answer.text();
        let status = out.lines().find(|line| line.contains(&format!(":refs/heads/{branch}\t")));
        match status.and_then(|line| Some((line.chars().next()?, line.rsplit('\t').next()?))) {
            Some(('!', said)) => {
                let remote = said.starts_with("[remote");
                let reason = said.rsplit_once('(').map_or(said, |(_, reason)| reason.trim_end_matches(')'));
                Err(fault::of_status(&self.clean(reason), remote, &stderr))
            }
            Some((' ' | '+' | '*' | '=', _)) if answer.ok() => {
                Ok((if tip.is_some() { Pushed::Moved } else { Pushed::Created }, stderr))
            }
            _ => Err(fault::of_stderr(&stderr)),
        }
    }

    fn scratch(&self) -> Result<Scratch, PublishFault> {
        Scratch::new(&self.folder, &self.repo).map_err(|error| self.broke(&error))
    }

    fn git(&self, scratch: &Scratch) -> Result<Query, PublishFault> {
        let has = |name: &str| self.remote.vars.iter().any(|(known, _)| known == name);
        let mut query = scratch.git(&self.remote);
        if !has("GIT_SSH") && !has("GIT_SSH_COMMAND") {
            let asked = scratch.git(&self.remote).args(["config", "--get", "core.sshcommand"]);
            let chosen = asked.run().map_err(|error| self.broke(&error))?.ok();
            if !chosen {
                query = query.env("GIT_SSH_COMMAND", SSH);
            }
        }
        Ok(SETTINGS.iter().fold(query, |query, setting| query.args(["-c", setting])))
    }

    fn run(&self, query: Query) -> Result<Answer, PublishFault> {
        query.stop_on(Arc::clone(&self.stop)).run().map_err(|error| match error {
            QueryError::Stopped(_) => PublishFault::stopped(),
            QueryError::Deadline { deadline, .. } => {
                let sentence = format!("the remote gave no answer within {} s", deadline.as_secs());
                let hint = "is the network up, and the remote? does something wait for a password? then `kew publish`";
                PublishFault::unreachable("no-answer", sentence, hint)
            }
            other => self.broke(&other),
        })
    }

    fn broke(&self, error: &dyn std::error::Error) -> PublishFault {
        let sentence = fault::text(&self.clean(&error.to_string()), 300);
        PublishFault::unreachable("git", sentence, "mend that, then `kew publish`")
    }

    /// Without the secrets of the address and of the settings that were passed.
    fn clean(&self, text: &str) -> String {
        let shown = text.replace(self.remote.address.raw(), &self.remote.address.to_string());
        self.remote.secrets().iter().fold(shown, |text, secret| text.replace(secret.as_str(), "***"))
    }
}
