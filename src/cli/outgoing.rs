//! Where a run's published nodes go: remote and forge, found before anything runs, so that a run that could not publish
//! does not begin. No network is used.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::DirBuilderExt as _,
    sync::{Arc, atomic::AtomicBool},
};

use camino::{Utf8Path, Utf8PathBuf};

use crate::{
    config::{Settings, publish::ForgeName},
    error::Failure,
    forge::github::Github,
    git::{
        base::UserRepo,
        publish::{
            Outlet, Remote,
            address::Protocol,
            remote::{Asked, RemoteError},
        },
    },
    plan::spec::{Plan, Publish},
    run::broker::{Broker, Forge},
    store::Store,
};

/// A remote and who opens pull requests there.
pub struct Outgoing {
    /// The remote.
    pub remote: Remote,
    /// The forge, if pull requests are wanted.
    forge: Option<ForgeName>,
    vars: Vec<(OsString, OsString)>,
}

/// How the most demanding of these nodes is published.
pub fn wanted(plan: &Plan, active: &[bool]) -> Publish {
    let nodes = plan.nodes.iter().zip(active).filter(|(_, active)| **active).map(|(node, _)| node.publish);
    nodes.fold(Publish::None, |most, one| match (most, one) {
        (Publish::PullRequest, _) | (_, Publish::PullRequest) => Publish::PullRequest,
        (Publish::Branch, _) | (_, Publish::Branch) => Publish::Branch,
        _ => Publish::None,
    })
}

impl Outgoing {
    /// Finds remote and forge. `base` is the epic's, as the plan names it.
    pub fn find(
        repo: &UserRepo,
        settings: &Settings,
        base: Option<&str>,
        wanted: Publish,
    ) -> Result<Self, Failure> {
        let folder = tempfile::tempdir().map_err(|error| Failure::infrastructure(error.to_string()))?;
        let folder = Utf8Path::from_path(folder.path())
            .ok_or_else(|| Failure::infrastructure("the folder for temporary files is no text"))?;
        let vars: Vec<(OsString, OsString)> = std::env::vars_os().collect();
        let dropped = settings.registry.all().iter().flat_map(|runner| runner.required_credentials());
        let dropped = dropped.map(|name| (*name).to_owned()).collect();
        let asked =
            Asked { remote: settings.publish.remote.as_deref(), base, vars: vars.clone(), dropped, folder };
        let remote = Remote::find(repo, asked).map_err(|error| match error {
            RemoteError::None { message, hint } => Failure::usage(message).help(hint),
            RemoteError::Git(error) => error.into(),
        })?;
        let forge = (wanted == Publish::PullRequest).then(|| forge(&remote, settings)).transpose()?;
        Ok(Self { remote, forge, vars })
    }

    /// For people: the address, and who opens pull requests.
    pub fn shown(&self, want: Publish) -> String {
        match (want, self.forge) {
            (Publish::PullRequest, Some(ForgeName::Github)) => format!("{}, by `gh`", self.remote.address),
            (Publish::PullRequest, Some(ForgeName::Gitlab)) => {
                format!("{}, by push options of GitLab", self.remote.address)
            }
            _ => self.remote.address.to_string(),
        }
    }

    /// Ready to publish. Short-lived files lie below `folder`, which is made.
    pub fn broker(
        self,
        repo: &UserRepo,
        settings: &Settings,
        plan: &Plan,
        state: &Utf8Path,
        folder: &Utf8Path,
    ) -> Result<Broker, Failure> {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
            Failure::infrastructure(format!("the folder `{folder}` could not be made: {error}"))
        })?;
        let stop = Arc::new(AtomicBool::new(false));
        let address = &self.remote.address;
        let forge = match self.forge {
            None => Forge::None,
            Some(ForgeName::Gitlab) => Forge::Gitlab,
            Some(ForgeName::Github) => {
                let host =
                    if address.protocol == Protocol::Ssh { address.host_name() } else { &address.host };
                let slug = address.slug().unwrap_or_default();
                let github = Github::new(host, slug, &self.vars, folder, Arc::clone(&stop));
                let github = github.ok_or_else(|| no_forge(&self.remote))?;
                github.check().map_err(|fault| {
                    Failure::usage(fault.to_string()).help(format!("{}; or use `--no-publish`", fault.hint))
                })?;
                Forge::Github(github)
            }
        };
        let state: Utf8PathBuf = state.to_owned();
        let memory = move |remote: &str, branch: &str| {
            let store = Store::open_existing(&state).map_err(|error| error.to_string())?;
            let pushed = store.map(|store| store.pushed(remote, branch)).transpose();
            Ok(pushed.map_err(|error| error.to_string())?.unwrap_or_default())
        };
        let publish = &settings.publish;
        Ok(Broker {
            epic: plan.epic.name.clone(),
            template: publish.template(),
            outlet: Outlet { repo: repo.clone(), remote: self.remote, folder: folder.to_owned(), stop },
            forge,
            base: publish.base.clone(),
            draft: publish.draft,
            labels: publish.labels.clone(),
            reviewers: publish.reviewers.clone(),
            memory: Box::new(memory),
        })
    }
}

fn forge(remote: &Remote, settings: &Settings) -> Result<ForgeName, Failure> {
    let address = &remote.address;
    let guessed = match address.host_name() {
        "" => None,
        host if host.contains("gitlab") => Some(ForgeName::Gitlab),
        _ => Some(ForgeName::Github),
    };
    let forge = settings.publish.forge.or(guessed).ok_or_else(|| no_forge(remote))?;
    // GitHub has owners without groups; a folder has neither.
    let two = address.slug().is_some_and(|slug| slug.split('/').count() == 2);
    if forge == ForgeName::Github && !two { Err(no_forge(remote)) } else { Ok(forge) }
}

fn no_forge(remote: &Remote) -> Failure {
    let message =
        format!("no pull request can be opened on `{}`: it is no forge that kew knows", remote.address);
    Failure::usage(message).help(
        "set `publish.forge` to `gitlab` if it is one, let the nodes publish a `branch`, or use `--no-publish`",
    )
}
