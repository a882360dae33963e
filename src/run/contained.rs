//! The engine that kew has: docker containers over checkouts on this machine's disk.
//!
//! It joins git and docker for one attempt after the other and decides nothing. Invariants: a container is stopped and
//! removed by its name, never by killing its client; nothing in a checkout is read before its container is known to be
//! gone; the prompt's file is gone on every way out.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use camino::{Utf8Path, Utf8PathBuf};

use super::executor::{
    Attempt, Caps, Collected, Executor, Hardening, NodeSpec, Sink, Source, StopHow, Trouble,
};
use crate::{
    contract::SIDECAR_FILENAME,
    docker::{
        argv::{Labels, RunArgv, build_run_argv},
        client::{Docker, DockerError},
        events::{Events, Seen},
        sealed::{Access as SealedAccess, Sealed, run_sealed},
    },
    git::{
        access::Access,
        base::UserRepo,
        beneath::{ReadFault, read_beneath},
        checkout::checkout,
        collect::{self, CollectFault, CollectLimits},
        error::GitError,
        heads::{Heads, heads, untouched},
        land::{land, land_merge},
        merge::{MergeError, merge_inputs},
        mirror::Mirror,
        prompt::{remove_prompt, write_prompt},
        refs,
    },
    lines::Line,
    name::{AttemptKey, CommitId, EnvName},
    outcome::{EngineEnd, Work},
    plan::spec::Commits,
    process::child::{Child, Exit, Killer, Spawn},
    verdict::{FoundAt, MAX_BYTES, SidecarFault},
    workspace::Workspace,
};

/// How long the pipes may stay open after the client's exit.
const DRAIN: Duration = Duration::from_secs(10);
/// How long the engine's word on an end is awaited.
const WORD: Duration = Duration::from_secs(2);
/// How long packing a checkout may take.
const COLLECT: Duration = Duration::from_secs(900);

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
    /// Attempts under way, and stop requests for those that are about to be.
    pub controls: Mutex<HashMap<AttemptKey, Arc<Control>>>,
}

/// How an attempt is reached from outside.
#[derive(Debug, Default)]
pub struct Control {
    stop: Mutex<Option<StopHow>>,
    /// The attempt's container and the client that runs it, while it does.
    container: Mutex<Option<(String, Killer)>>,
    /// The sealed container that collects, while it does.
    collecting: Mutex<Option<String>>,
    over: AtomicBool,
    stopping: AtomicBool,
}

/// Shared by handing out; a clone is cheap and the same engine.
#[derive(Clone)]
pub struct Engine(pub Arc<Contained>);

impl Executor for Engine {
    fn caps(&self) -> Caps {
        let fields = [
            "read-only root",
            "capabilities",
            "no-new-privileges",
            "pids",
            "memory",
            "cpus",
            "network",
            "single mount",
        ];
        Caps { fields: fields.into_iter().map(|field| (field, Hardening::Enforced)).collect() }
    }

    fn prepare(&self, spec: &NodeSpec, source: &Source) -> Result<Box<dyn Attempt>, Trouble> {
        let control = self.0.control(&spec.key);
        let input = self.0.input(spec, source)?;
        self.0.go_on(&control)?;
        self.0.refuse_reserved(&input)?;
        let folder = self.0.workspace.checkout(&spec.container);
        let branch = refs::branch(&spec.epic, &spec.key.node);
        checkout(&self.0.mirror, &input, &folder, &branch, self.0.access).map_err(of_git)?;
        self.0.go_on(&control)?;
        let before = heads(&folder);
        Ok(Box::new(Contest {
            shared: Arc::clone(&self.0),
            spec: spec.clone(),
            input,
            folder,
            before,
            control,
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
    fn control(&self, key: &AttemptKey) -> Arc<Control> {
        Arc::clone(lock(&self.controls).entry(key.clone()).or_default())
    }

    fn go_on(&self, control: &Control) -> Result<(), Trouble> {
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

    /// A tree with a name that only kew may use would be read as kew's own file.
    fn refuse_reserved(&self, input: &CommitId) -> Result<(), Trouble> {
        let names = self.mirror.reserved_names(input).map_err(of_git)?;
        if names.is_empty() {
            return Ok(());
        }
        let sentence = format!(
            "the input {} has names that only kew may use: {}",
            input.short(),
            crate::text::short_list(&names, 5)
        );
        Err(Trouble::Held { word: "planted", sentence })
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

/// One attempt over its checkout.
struct Contest {
    shared: Arc<Contained>,
    spec: NodeSpec,
    input: CommitId,
    folder: Utf8PathBuf,
    before: Option<Heads>,
    control: Arc<Control>,
}

impl Drop for Contest {
    fn drop(&mut self) {
        lock(&self.shared.controls).remove(&self.spec.key);
        let _ = fs::remove_dir_all(self.shared.workspace.quarantine(&self.spec.container));
    }
}

impl Attempt for Contest {
    fn input(&self) -> &CommitId {
        &self.input
    }

    fn run(&mut self, prompt: &str, sink: Arc<dyn Sink>) -> Result<EngineEnd, Trouble> {
        let written = write_prompt(&self.folder, prompt);
        written
            .map_err(|error| Trouble::Infrastructure(format!("the prompt could not be written: {error}")))?;
        let end = self.contain(sink);
        // Whatever happened: the file is kew's and must not stay. The agent may have removed it, or put something in its place.
        let removed = remove_prompt(&self.folder);
        let end = end?;
        removed
            .map_err(|error| Trouble::Infrastructure(format!("the prompt could not be removed: {error}")))?;
        Ok(end)
    }

    fn collect(&mut self) -> Result<Collected, Trouble> {
        // Where commits are required, a container must also say what is uncommitted.
        let spare = match self.spec.commits {
            Commits::Required => false,
            Commits::Optional => self.spec.job,
            Commits::Forbidden => true,
        };
        if spare && self.before.as_ref().is_some_and(|before| untouched(&self.folder, before)) {
            return Ok(Collected::default());
        }
        let shared = &self.shared;
        let quarantine = shared.workspace.quarantine(&self.spec.container);
        let answer = shared.workspace.quarantine(&format!("{}.answer", self.spec.container));
        let taken = self.pack(&answer).and_then(|()| {
            collect::accept(&answer, &shared.mirror, &quarantine, &self.input, &shared.limits)
                .map_err(of_collect)
        });
        let _ = fs::remove_file(&answer);
        let taken = taken?;
        let mut git_ref = None;
        if let Some(head) = &taken.head {
            let name = refs::node(&self.spec.key);
            land(&shared.repo, &shared.mirror, &quarantine, &self.input, head, &name).map_err(of_git)?;
            git_ref = Some(name.to_string());
        }
        // What git cannot say is not nothing: one unknown path stands for it.
        let unknown = || vec!["(git could not say what changed)".to_owned()];
        let work = Work {
            commits: taken.commits,
            dirty: taken.dirty.unwrap_or(1),
            dirty_paths: if taken.dirty.is_none() { unknown() } else { taken.dirty_paths },
        };
        Ok(Collected { head: taken.head, work, git_ref })
    }

    fn sidecar(&mut self) -> Result<(Vec<u8>, FoundAt), SidecarFault> {
        match read_beneath(&self.folder, SIDECAR_FILENAME, MAX_BYTES as u64) {
            Ok(bytes) => Ok((bytes, FoundAt::Root)),
            Err(fault) => Err(match fault {
                ReadFault::Missing => SidecarFault::Missing,
                ReadFault::Symlink | ReadFault::Outside => SidecarFault::Symlink,
                ReadFault::HardLinked => SidecarFault::HardLink,
                ReadFault::NotARegularFile => SidecarFault::NotAFile,
                ReadFault::TooLarge { .. } => SidecarFault::TooLarge,
                ReadFault::Unreadable(error) => SidecarFault::Unreadable(error.to_string()),
            }),
        }
    }
}

impl Contest {
    /// Starts the container, streams it, and returns when it is known to be gone.
    fn contain(&self, sink: Arc<dyn Sink>) -> Result<EngineEnd, Trouble> {
        let (shared, name) = (&self.shared, &self.spec.container);
        shared.go_on(&self.control)?;
        let argv = build_run_argv(&RunArgv {
            name,
            labels: &shared.labels_of(&self.spec.key),
            limits: &self.spec.limits,
            network: self.spec.network,
            checkout: self.folder.as_str(),
            credentials: &self.spec.credentials,
            image: &self.spec.image_id,
            container_args: &self.spec.container_args,
        });
        let mut env = shared.docker.env();
        for name in &self.spec.credentials {
            if let Some(value) = shared.credentials.get(name) {
                env.push((name.as_str().into(), value.clone()));
            }
        }
        let spawn = Spawn {
            program: "docker".into(),
            args: argv.into_iter().map(Into::into).collect(),
            env,
            tag: self.tag(),
        };
        sink.started();
        let last_words: Arc<Mutex<String>> = Arc::default();
        let (out, err, words) = (Arc::clone(&sink), sink, Arc::clone(&last_words));
        let started = Child::start(
            spawn,
            Box::new(move |line| {
                if let Some(line) = line {
                    out.stdout(line);
                }
            }),
            Box::new(move |line: Option<Line<'_>>| {
                // What the client says of kew's own `--dns` is no word of the agent's.
                if let Some(line) = line.filter(|line| !line.bytes.starts_with(b"WARNING: Localhost DNS")) {
                    err.stderr(line);
                    let text = String::from_utf8_lossy(line.bytes);
                    // The client's own words come last and are short; the image's are in the log, masked.
                    if text.starts_with("docker: ") {
                        *lock(&words) = text.chars().take(400).collect();
                    }
                }
            }),
        );
        let mut child = started
            .map_err(|error| Trouble::Infrastructure(format!("docker could not be started: {error}")))?;
        if let Some(pid) = child.pid() {
            (shared.register)(pid);
        }
        *lock(&self.control.container) = Some((name.clone(), child.killer()));
        let exit = child.wait(DRAIN);
        let end = self.end(exit, lock(&last_words).clone());
        *lock(&self.control.container) = None;
        self.control.over.store(true, Ordering::SeqCst);
        end
    }

    /// Puts together what the client and the engine say, and makes sure that the container is gone.
    fn end(&self, exit: std::io::Result<Exit>, client_words: String) -> Result<EngineEnd, Trouble> {
        let (shared, name) = (&self.shared, &self.spec.container);
        let exit = exit.ok();
        let code = exit.and_then(|exit| exit.code);
        let stopped = lock(&self.control.stop).is_some();
        // A client that never started a container says 125 at once, and no event will come.
        let refused = code == Some(125) && !client_words.is_empty() && !shared.events.seen(name).started;
        let patience = if refused { Duration::from_millis(100) } else { WORD };
        let seen = shared.events.wait(name, patience, |seen| seen.died.is_some() && seen.destroyed);
        if !seen.destroyed {
            let alive = shared.docker.exists(name).unwrap_or(true);
            shared.make_gone(name)?;
            // It outlived its client: nobody heard its end.
            if alive && seen.died.is_none() && !stopped && !refused {
                return Ok(EngineEnd {
                    started: true,
                    lost: true,
                    stderr_tail: client_words,
                    ..EngineEnd::default()
                });
            }
        }
        shared.events.forget(name);
        // A client that was ended, or that lost the engine, knows no exit status of the container.
        let unheard = seen.died.is_none() && matches!(code, None | Some(125)) && !stopped && !refused;
        let undrained = exit.is_some_and(|exit| !exit.drained);
        Ok(EngineEnd {
            started: seen.started || seen.died.is_some() || !refused,
            exit: seen.died.or(code),
            oom: match seen {
                Seen { oom: true, .. } => Some(true),
                Seen { gap: true, .. } | Seen { died: None, .. } => None,
                _ => Some(false),
            },
            lost: unheard || undrained,
            stderr_tail: client_words,
        })
    }

    /// Has a sealed container write what HEAD names, and what is uncommitted, to `answer`.
    fn pack(&self, answer: &Utf8Path) -> Result<(), Trouble> {
        let shared = &self.shared;
        let file = fs::File::create(answer)
            .map_err(|error| Trouble::Infrastructure(format!("`{answer}` could not be written: {error}")))?;
        let branch = refs::branch(&self.spec.epic, &self.spec.key.node);
        let args = [self.input.as_str(), branch.as_str(), &shared.limits.pack_bytes.to_string()];
        let name = format!("{}-collect", self.spec.container);
        let sealed = Sealed {
            name: &name,
            labels: &shared.labels_of(&self.spec.key),
            image: &shared.collector,
            folder: self.folder.as_str(),
            access: SealedAccess::Read,
            script: collect::SCRIPT,
            args: &args,
        };
        *lock(&self.control.collecting) = Some(name.clone());
        let done = run_sealed(&shared.docker, &sealed, Some(file), COLLECT).map_err(of_docker);
        *lock(&self.control.collecting) = None;
        let done = done?;
        match done.code {
            Some(0) => Ok(()),
            Some(code) => match collect::script_fault(code, &done.stderr) {
                Some(fault) => Err(of_collect(fault)),
                None => Err(Trouble::Infrastructure(format!(
                    "collecting failed with exit status {code}: {}",
                    done.stderr
                ))),
            },
            None => Err(Trouble::Infrastructure("collecting was ended by a signal".to_owned())),
        }
    }

    fn tag(&self) -> String {
        self.spec.key.node.as_str().chars().take(8).collect()
    }
}

/// Asks, then insists, until the attempt says that it is over.
fn stop_container(docker: &Docker, control: &Control, how: StopHow) {
    let begun = Instant::now();
    let over = || control.over.load(Ordering::SeqCst);
    let current = || lock(&control.container).clone();
    if let StopHow::Grace { int_first, grace } = how {
        // A container that is not there yet cannot hear: ask again until one of the two has happened.
        while !over() && begun.elapsed() < grace {
            let Some((name, _)) = current() else {
                thread::sleep(Duration::from_millis(50));
                if begun.elapsed() > Duration::from_secs(2) && current().is_none() {
                    return;
                }
                continue;
            };
            if int_first && docker.signal(&name, "INT").unwrap_or(false) {
                wait(grace / 2, over);
            }
            let left = grace.saturating_sub(begun.elapsed()).max(Duration::from_secs(1));
            if over() || docker.stop(&name, left).unwrap_or(false) {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        wait(Duration::from_secs(3), over);
    }
    if how == StopHow::Now
        && let Some(name) = lock(&control.collecting).clone()
    {
        let _ = docker.remove(&name);
    }
    let insisted = Instant::now();
    while !over() && insisted.elapsed() < Duration::from_secs(120) {
        let Some((name, killer)) = current() else { return };
        let gone = docker.remove(&name).unwrap_or(false);
        if gone && insisted.elapsed() > Duration::from_secs(20) {
            // The container is gone for long and the client does not notice: only now is it ended itself.
            killer.kill();
        }
        wait(Duration::from_millis(300), over);
    }
}

fn wait(limit: Duration, over: impl Fn() -> bool) {
    let begun = Instant::now();
    while !over() && begun.elapsed() < limit {
        thread::sleep(Duration::from_millis(20));
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
        CollectFault::Held { reason, sentence } => Trouble::Held { word: reason.word(), sentence },
        CollectFault::Failed(reason) => Trouble::Failed(reason),
        CollectFault::Infrastructure(error) => of_git(error),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
