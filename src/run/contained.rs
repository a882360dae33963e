//! The engine that kew has: docker containers over checkouts on this machine's disk.
//!
//! It joins git and docker for one attempt after the other and decides nothing; `contest` has an attempt's steps, `stop` how
//! one is ended. Invariant: a container is stopped and removed by its name, never by killing its client.

mod contest;
pub(super) mod disk;
mod kept;
mod stop;

use std::{
    collections::HashMap,
    ffi::OsString,
    num::NonZeroU32,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use self::{contest::Contest, stop::stop_container};
use super::{
    executor::{Attempt, Caps, Executor, HARDENING, Hardening, NodeSpec, Source, StopHow, Trouble},
    host::Ground,
};
use crate::{
    docker::{
        argv::Labels,
        client::{Docker, DockerError},
        events::Events,
    },
    egress::Dealings,
    git::{
        access::Access,
        artifacts::ArtifactLimits,
        base::UserRepo,
        checkout::checkout_to_depth,
        collect::{CollectFault, CollectLimits},
        error::GitError,
        heads::heads,
        land::land_merge,
        merge::{MergeError, merge_inputs},
        mirror::Mirror,
        refs,
        tree::{Shape, Tree},
    },
    name::{AttemptKey, CommitId, EnvName},
    process::child::Killer,
    workspace::Workspace,
};

/// Everything that all attempts of a run share.
pub struct Contained {
    /// The engine.
    pub docker: Docker,
    /// What it tells.
    pub events: Events,
    /// State, owner and run of every label.
    pub labels: Labels,
    /// kew's helper image.
    pub collector: String,
    /// The user's repository.
    pub repo: UserRepo,
    /// The cache of its objects.
    pub mirror: Mirror,
    /// Where checkouts are.
    pub workspace: Arc<Workspace>,
    /// How the agent's user gets at a checkout.
    pub access: Access,
    /// Values of credentials, handed to the docker client's environment by name.
    pub credentials: HashMap<EnvName, OsString>,
    /// Registers docker clients with the watchdog.
    pub register: Arc<dyn Fn(u32) + Send + Sync>,
    /// What is taken from an attempt at most.
    pub limits: CollectLimits,
    /// What is stored of an attempt's artifacts at most.
    pub artifact_limits: ArtifactLimits,
    /// The most disk that a checkout may take while its agent runs, in bytes.
    pub checkout_max: u64,
    /// In host mode: how agents are started. The engine and its helper image then stand for nothing and are never asked.
    pub host: Option<Ground>,
    /// Which trees agents may work in.
    pub shape: Shape,
    /// How many commits deep a checkout's history is, if not all of it.
    pub depth: Option<NonZeroU32>,
    /// Attempts under way, and stop requests for those that are about to be.
    pub controls: Mutex<HashMap<AttemptKey, Arc<Control>>>,
}

/// How an attempt is reached from outside.
#[derive(Debug, Default)]
pub struct Control {
    pub(super) stop: Mutex<Option<StopHow>>,
    /// The attempt's container and the client that runs it, while it does.
    pub(super) container: Mutex<Option<(String, Killer)>>,
    /// The sealed container that collects, while it does.
    collecting: Mutex<Option<String>>,
    pub(super) over: AtomicBool,
    pub(super) stopping: AtomicBool,
}

/// Shared by handing out; a clone is cheap and the same engine.
#[derive(Clone)]
pub struct Engine(pub Arc<Contained>);

impl Executor for Engine {
    fn caps(&self) -> Caps {
        Caps { fields: HARDENING.into_iter().map(|field| (field, Hardening::Enforced)).collect() }
    }

    fn prepare(&self, spec: &NodeSpec, source: &Source) -> Result<Box<dyn Attempt>, Trouble> {
        let control = self.0.control(&spec.key);
        let input = self.0.input(spec, source)?;
        self.0.go_on(&control)?;
        self.0.refuse_unfit(&input)?;
        let folder = self.0.workspace.checkout(&spec.container);
        let branch = refs::branch(&spec.epic, &spec.key.node);
        let (mirror, access) = (&self.0.mirror, self.0.access);
        checkout_to_depth(mirror, &input, &folder, &branch, access, self.0.depth).map_err(of_git)?;
        self.0.go_on(&control)?;
        let before = heads(&folder);
        Ok(Box::new(Contest {
            shared: Arc::clone(&self.0),
            spec: spec.clone(),
            input,
            folder,
            before,
            landed: None,
            control,
            egress: Dealings::default(),
        }))
    }

    fn stop(&self, key: &AttemptKey, how: StopHow) {
        let control = self.0.control(key);
        *lock(&control.stop) = Some(how);
        if how == StopHow::Now || !control.stopping.swap(true, Ordering::SeqCst) {
            let docker = self.0.docker.clone();
            let made = thread::Builder::new()
                .name("kew-stop".into())
                .spawn(move || stop_container(&docker, &control, how));
            // Without a thread the request stays noted: the attempt sees it at its next step, and the watchdog at the end.
            drop(made);
        }
    }
}

impl Contained {
    pub(super) fn control(&self, key: &AttemptKey) -> Arc<Control> {
        Arc::clone(lock(&self.controls).entry(key.clone()).or_default())
    }

    pub(super) fn go_on(&self, control: &Control) -> Result<(), Trouble> {
        if lock(&control.stop).is_some() { Err(Trouble::Stopped) } else { Ok(()) }
    }

    /// The commit that the attempt starts from, brought into the mirror; a merge is also kept in the user's repository.
    fn input(&self, spec: &NodeSpec, source: &Source) -> Result<CommitId, Trouble> {
        match source {
            Source::One(id) => {
                self.mirror.ensure(&self.repo, id).map_err(of_git)?;
                Ok(id.clone())
            }
            Source::Merge(parents) => {
                for (_, id) in parents {
                    self.mirror.ensure(&self.repo, id).map_err(of_git)?;
                }
                let merge = merge_inputs(&self.mirror, parents).map_err(|error| match error {
                    MergeError::Git(error) => of_git(error),
                    other => Trouble::Held { word: "conflict", sentence: other.to_string() },
                })?;
                let ids: Vec<CommitId> = parents.iter().map(|(_, id)| id.clone()).collect();
                if !ids.contains(&merge) {
                    land_merge(&self.repo, &self.mirror, &merge, &ids, &refs::input(&spec.key))
                        .map_err(of_git)?;
                }
                Ok(merge)
            }
        }
    }

    /// A tree with a name that only kew may use would be read as kew's own file; one with submodules or files of LFS is not
    /// what it seems.
    fn refuse_unfit(&self, input: &CommitId) -> Result<(), Trouble> {
        let unfit = Tree::of_mirror(&self.mirror, input).map_err(of_git)?.unfit(self.shape);
        let Some(first) = unfit.first() else { return Ok(()) };
        let what: Vec<String> = unfit
            .iter()
            .map(|unfit| match unfit.remedy {
                Some(remedy) => format!("{} ({remedy})", unfit.what),
                None => unfit.what.clone(),
            })
            .collect();
        let sentence = format!("the input {} {}", input.short(), what.join("; and "));
        Err(Trouble::Held { word: first.word, sentence })
    }

    fn labels_of(&self, key: &AttemptKey) -> Labels {
        Labels { node: key.node.to_string(), attempt: key.attempt, ..self.labels.clone() }
    }

    /// Makes sure that a container is gone, by its name. The engine may need several askings.
    fn make_gone(&self, container: &str) -> Result<(), Trouble> {
        let begun = Instant::now();
        let mut last = String::new();
        while begun.elapsed() < Duration::from_secs(60) {
            match self.docker.exists(container) {
                Ok(false) => return Ok(()),
                Ok(true) => {
                    let _ = self.docker.remove(container);
                }
                Err(error) => last = error.to_string(),
            }
            thread::sleep(Duration::from_millis(200));
        }
        Err(Trouble::Infrastructure(format!("the container `{container}` could not be made gone: {last}")))
    }
}

fn of_git(error: GitError) -> Trouble {
    Trouble::Infrastructure(error.to_string())
}

fn of_docker(error: DockerError) -> Trouble {
    Trouble::Infrastructure(error.to_string())
}

fn of_collect(fault: CollectFault) -> Trouble {
    match fault {
        CollectFault::Held { reason, sentence, .. } => Trouble::Held { word: reason.word(), sentence },
        CollectFault::Infrastructure(error) => of_git(error),
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
