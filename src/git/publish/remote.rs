//! Which remote, where it is, and which of its branches the epic started from: read from the user's repository, once per run.
//!
//! The address goes through the user's own `insteadOf` rules, as their own `git push` would. Invariant: what was resolved
//! here is what is pushed to; an address that the rules would change once more is refused.

use std::ffi::OsString;

use camino::Utf8Path;

use super::{
    address::{Address, Protocol},
    push::Scratch,
    setting::{self, Pairs},
};
use crate::{
    git::{
        base::UserRepo,
        context::{Git, done},
        error::GitError,
    },
    process::query::Query,
    text,
};

/// The remote that kew gives itself in its own bare repository.
pub(super) const NAME: &str = "kew.publish";

/// A remote, ready to be pushed to.
pub struct Remote {
    /// Its name in the user's repository; `None` if the settings have an address.
    pub name: Option<String>,
    /// Where it is.
    pub address: Address,
    /// The branch that the epic starts from, as the remote calls it; `None` for a tag, a commit or a detached HEAD.
    pub base: Option<String>,
    /// What of the repository's settings a push needs.
    pub(super) pairs: Pairs,
    /// The environment that git gets, without `pairs`.
    pub(super) vars: Vec<(OsString, OsString)>,
    pub(super) dropped: Vec<String>,
}

/// Why there is no remote to publish to.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// No remote, or none of that name.
    #[error("{message}")]
    None {
        /// What is missing.
        message: String,
        /// What to do.
        hint: String,
    },
    /// git itself failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

fn none(message: impl Into<String>, hint: impl Into<String>) -> RemoteError {
    RemoteError::None { message: message.into(), hint: hint.into() }
}

/// What decides.
pub struct Asked<'a> {
    /// `publish.remote`.
    pub remote: Option<&'a str>,
    /// The epic's base as the plan names it.
    pub base: Option<&'a str>,
    /// The user's environment.
    pub vars: Vec<(OsString, OsString)>,
    /// Names of variables that are for agents.
    pub dropped: Vec<String>,
    /// A folder for short-lived files.
    pub folder: &'a Utf8Path,
}

impl Remote {
    /// Finds it. No network is used.
    pub fn find(repo: &UserRepo, asked: Asked<'_>) -> Result<Self, RemoteError> {
        let settings = repo.settings();
        let all = |key: &str| -> Vec<&str> {
            settings.iter().filter(|(known, _)| known == key).map(|(_, value)| value.as_str()).collect()
        };
        let base = base_branch(repo, asked.base.unwrap_or("HEAD"))?;
        let of_branch = base.local.as_ref().and_then(|branch| all(&format!("branch.{branch}.remote")).pop());
        let wanted = asked.remote.or(base.remote.as_deref()).or(of_branch.filter(|remote| *remote != "."));
        let wanted = wanted.unwrap_or("origin");
        let push = all(&format!("remote.{wanted}.pushurl"));
        // Rules for pushing alone do not touch an address that is for pushing alone.
        let own = if push.is_empty() { Rules::Push } else { Rules::Any };
        let urls = if push.is_empty() { all(&format!("remote.{wanted}.url")) } else { push };
        let (name, raw) = match urls[..] {
            [url] => (Some(wanted.to_owned()), url.to_owned()),
            [] if asked.remote.is_some() && wanted.contains(['/', ':']) => (None, wanted.to_owned()),
            [] => return Err(no_remote(wanted, settings)),
            _ => {
                let message =
                    format!("the remote `{}` has several addresses to push to", wanted.escape_default());
                return Err(none(message, "set `publish.remote` in your own settings file to one of them"));
            }
        };
        let upstream = base.local.as_ref().and_then(|branch| {
            let same = all(&format!("branch.{branch}.remote")).pop() == name.as_deref();
            let merge = all(&format!("branch.{branch}.merge")).pop()?;
            merge.strip_prefix("refs/heads/").filter(|_| same).map(str::to_owned)
        });
        let trusted = !rustix::process::geteuid().is_root() || repo.owner().uid == 0;
        let mut remote = Self {
            name,
            address: address(repo, &raw)?,
            base: upstream.or(base.local).or(base.tracked),
            pairs: setting::needed(settings, trusted),
            vars: asked.vars,
            dropped: asked.dropped,
        };
        let scratch = Scratch::new(asked.folder, repo)?;
        let listed = done(scratch.git(&remote).args(["config", "--list", "-z"]), "config")?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let rules: Vec<(&str, &str)> =
            listed.split_terminator('\0').filter_map(|entry| entry.split_once('\n')).collect();
        remote.address = address(repo, &rewritten(&rules, &raw, own))?;
        let again = remote.address.raw();
        if rewritten(&rules, again, Rules::Any) != again {
            let message = "your `url.….insteadOf` rules change the remote's address more than once";
            return Err(none(message, "set `publish.remote` in your own settings file to the final address"));
        }
        Ok(remote)
    }

    /// What must never be shown.
    pub(super) fn secrets(&self) -> Vec<String> {
        let mut secrets = self.address.secrets();
        for (key, value) in &self.pairs {
            if key.ends_with("extraheader") {
                secrets.push(value.clone());
                secrets.extend(value.split([' ', ':']).filter(|word| word.len() >= 8).map(str::to_owned));
            }
        }
        secrets
    }
}

/// A folder's address is made absolute, as from the top of the work tree.
fn address(repo: &UserRepo, raw: &str) -> Result<Address, RemoteError> {
    let hint = "set `publish.remote` in your own settings file to an address by https, ssh or file";
    let address = Address::new(raw).map_err(|why| none(why, hint))?;
    if address.protocol == Protocol::File && !raw.starts_with('/') && !raw.starts_with("file://") {
        return Address::new(repo.root().join(raw).as_str()).map_err(|why| none(why, hint));
    }
    Ok(address)
}

fn no_remote(wanted: &str, settings: &[(String, String)]) -> RemoteError {
    let mut known: Vec<&str> =
        settings.iter().filter_map(|(key, _)| key.strip_prefix("remote.")?.strip_suffix(".url")).collect();
    known.dedup();
    let message = format!("there is no remote `{}` to publish to", wanted.escape_default());
    let hint = match known.is_empty() {
        true => "add one: `git remote add origin ADDRESS`; or run with `--no-publish`".to_owned(),
        false => format!(
            "set `publish.remote` in your own settings file to one of {}; or run with `--no-publish`",
            text::list(known, "and")
        ),
    };
    none(message, hint)
}

/// The branch that an epic starts from, as far as its base names one.
#[derive(Debug, Default)]
struct Base {
    /// A branch of the repository.
    local: Option<String>,
    /// The remote of a remote-tracking branch.
    remote: Option<String>,
    /// What that branch is called there.
    tracked: Option<String>,
}

fn base_branch(repo: &UserRepo, base: &str) -> Result<Base, GitError> {
    let query = repo.git().args(["rev-parse", "--symbolic-full-name", "--verify", "--quiet", base]);
    let full = query.run()?.text();
    if let Some(branch) = full.strip_prefix("refs/heads/") {
        return Ok(Base { local: Some(branch.to_owned()), ..Base::default() });
    }
    let tracking = match full.strip_prefix("refs/remotes/") {
        Some(tracking) => Some(tracking.to_owned()),
        // A name that only remotes have; where several have it, they have it at the same commit.
        None if full.is_empty() && !base.contains(['*', '?', '[', '\\']) => {
            let pattern = format!("refs/remotes/*/{base}");
            let query = repo.git().args(["for-each-ref", "--format=%(refname)", "--", &pattern]);
            let refs = done(query, "for-each-ref")?.text();
            refs.lines().next().and_then(|name| name.strip_prefix("refs/remotes/")).map(str::to_owned)
        }
        None => None,
    };
    let parts = tracking.as_deref().and_then(|tracking| tracking.split_once('/'));
    Ok(match parts {
        Some((_, "HEAD")) | None => Base::default(),
        Some((remote, branch)) => {
            Base { local: None, remote: Some(remote.to_owned()), tracked: Some(branch.to_owned()) }
        }
    })
}

/// Which of the user's rules change an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rules {
    /// `pushInsteadOf`, else `insteadOf`.
    Push,
    /// `insteadOf` alone.
    Any,
}

/// What the rules make of an address, as git does it: the longest beginning that one has is replaced; those for pushing
/// alone come first.
fn rewritten(settings: &[(&str, &str)], raw: &str, rules: Rules) -> String {
    let by = |suffix: &str| {
        let rules = settings.iter().filter_map(|(key, start)| {
            let new = key.strip_prefix("url.")?.strip_suffix(suffix)?;
            Some((new, *start)).filter(|(_, start)| raw.starts_with(start))
        });
        let (new, start) = rules.max_by_key(|(_, start)| start.len())?;
        Some(format!("{new}{}", &raw[start.len()..]))
    };
    let push = (rules == Rules::Push).then(|| by(".pushinsteadof")).flatten();
    push.or_else(|| by(".insteadof")).unwrap_or_else(|| raw.to_owned())
}

impl Scratch {
    /// A git command in the bare repository, with the user's credentials and this address as its only remote.
    pub(super) fn git(&self, remote: &Remote) -> Query {
        let mut pairs = remote.pairs.clone();
        // No rule for pushing alone changes an address that is for pushing alone.
        for key in ["url", "pushurl"] {
            pairs.push((format!("remote.{NAME}.{key}"), remote.address.raw().to_owned()));
        }
        let env = setting::env(&remote.vars, &remote.dropped, &pairs);
        let query = Git::bare_handed().at(self.path());
        let query = env.into_iter().fold(query.env_clear(), |query, (name, value)| query.env(name, value));
        query.env("GIT_ALLOW_PROTOCOL", remote.address.protocol.allowed())
    }
}
