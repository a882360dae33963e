//! One attempt over its checkout: prompt, container, collection, sidecar. It decides nothing.
//!
//! Invariants: nothing in the checkout is read before its container is known to be gone; the prompt's file is gone on every
//! way out.

use std::{
    fs,
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};

use super::{Contained, Control, disk, lock, of_collect, of_docker, of_git};
use crate::{
    contract::SIDECAR_FILENAME,
    docker::{
        argv::{Network, RunArgv, build_run_argv},
        events::Seen,
        gateway::lease,
        sealed::{Access as SealedAccess, Sealed, run_sealed},
    },
    egress::Dealings,
    git::{
        beneath::{ReadFault, read_beneath},
        collect::{self, CollectFault, Held},
        cover::Cover,
        heads::{Heads, untouched},
        land::{land, land_held},
        prompt::{PromptError, remove_prompt, write_prompt},
        recover::{RecoverFault, recover},
        refs,
    },
    lines::Line,
    name::CommitId,
    outcome::{EngineEnd, Work},
    plan::spec::Commits,
    process::child::{Child, Exit, Spawn},
    run::{
        executor::{Artifacts, Attempt, Collected, LeftBehind, NodeSpec, Sink, Trouble},
        ledger::AttemptShelf,
    },
    verdict::{FoundAt, MAX_BYTES, SidecarFault},
};

/// How long the pipes may stay open after the client's exit.
const DRAIN: Duration = Duration::from_secs(10);
/// How long the engine's word on an end is awaited.
const WORD: Duration = Duration::from_secs(2);
/// How long packing a checkout may take.
const COLLECT: Duration = Duration::from_secs(900);

/// One attempt over its checkout.
pub(super) struct Contest {
    pub shared: Arc<Contained>,
    pub spec: NodeSpec,
    pub input: CommitId,
    pub folder: Utf8PathBuf,
    /// What HEAD and its branch were before the agent came.
    pub before: Option<Heads>,
    /// The head that came home.
    pub landed: Option<CommitId>,
    pub control: Arc<Control>,
    /// What it asked the gateway for, once it is over.
    pub egress: Dealings,
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

    fn host_path(&self) -> Option<&str> {
        self.shared.host.as_ref().map(|_| self.folder.as_str())
    }

    fn run(&mut self, prompt: &str, sink: Arc<dyn Sink>) -> Result<EngineEnd, Trouble> {
        let written = write_prompt(&self.folder, prompt);
        written
            .map_err(|error| Trouble::Infrastructure(format!("the prompt could not be written: {error}")))?;
        let end = match &self.shared.host {
            None => self.on_its_network(sink),
            Some(host) => host.run(&self.shared, &self.spec, &self.folder, &self.control, sink),
        };
        // Whatever happened: the file is kew's and must not stay. The agent may have removed it, or put something in its place.
        let removed = remove_prompt(&self.folder);
        let end = end?;
        match removed {
            // The agent's doing, and no reason to distrust the machine.
            Err(PromptError::Folder) => {
                let sentence = "a folder is in the place of the prompt's file".to_owned();
                return Err(Trouble::Held { word: Held::Spoilt.word(), sentence });
            }
            removed => removed.map_err(|error| {
                Trouble::Infrastructure(format!("the prompt could not be removed: {error}"))
            })?,
        }
        Ok(end)
    }

    fn egress(&mut self) -> Dealings {
        std::mem::take(&mut self.egress)
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
        let shared = Arc::clone(&self.shared);
        let quarantine = shared.workspace.quarantine(&self.spec.container);
        let answer = shared.workspace.quarantine(&format!("{}.answer", self.spec.container));
        let taken = self.pack(&answer).and_then(|()| {
            collect::accept(&answer, &shared.mirror, &quarantine, &self.input, &shared.limits)
                .map_err(|fault| self.keep_held(&quarantine, fault))
        });
        let _ = fs::remove_file(&answer);
        let taken = taken?;
        let mut git_ref = None;
        if let Some(head) = &taken.head {
            let name = refs::node(&self.spec.key);
            land(&shared.repo, &shared.mirror, &quarantine, &self.input, head, &name).map_err(of_git)?;
            git_ref = Some(name.to_string());
            self.landed = Some(head.clone());
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

    fn artifacts(&mut self, into: &mut dyn AttemptShelf) -> Result<Artifacts, Trouble> {
        self.bring_artifacts(into)
    }

    fn keep(&mut self) -> Result<LeftBehind, Trouble> {
        self.keep_left()
    }

    fn sidecar(&mut self) -> Result<(Vec<u8>, FoundAt), SidecarFault> {
        match read_beneath(&self.folder, SIDECAR_FILENAME, MAX_BYTES as u64) {
            Ok(bytes) => Ok((bytes, FoundAt::Root)),
            // The nonce of the brief is required then, and the reviewed commit has no file of that name: such an input is held.
            Err(ReadFault::Missing) => recover(&self.folder, SIDECAR_FILENAME, MAX_BYTES as u64)
                .map(|bytes| (bytes, FoundAt::Below))
                .map_err(|fault| match fault {
                    RecoverFault::None => SidecarFault::Missing,
                    RecoverFault::Several => SidecarFault::Ambiguous,
                    RecoverFault::TooMany => SidecarFault::Unsearched,
                    RecoverFault::Disguised(path) => SidecarFault::Disguised(path),
                    RecoverFault::Read(fault) => of_read(fault),
                }),
            Err(fault) => Err(of_read(fault)),
        }
    }
}

fn of_read(fault: ReadFault) -> SidecarFault {
    match fault {
        ReadFault::Missing => SidecarFault::Missing,
        ReadFault::Symlink | ReadFault::Outside => SidecarFault::Symlink,
        ReadFault::HardLinked => SidecarFault::HardLink,
        ReadFault::NotARegularFile => SidecarFault::NotAFile,
        ReadFault::TooLarge { .. } => SidecarFault::TooLarge,
        ReadFault::Unreadable(error) => SidecarFault::Unreadable(error.to_string()),
    }
}

impl Contest {
    /// On the allowlist network a container has an address of its own, and what it may reach belongs to that: the gateway
    /// confirms it before the start, and it ends when the container is gone.
    fn on_its_network(&mut self, sink: Arc<dyn Sink>) -> Result<EngineEnd, Trouble> {
        if self.spec.network != Network::Allowlist {
            return self.contain(sink, None);
        }
        let docker = &self.shared.docker;
        self.shared.go_on(&self.control)?;
        let lease = lease::take(docker, &self.spec.container, &self.spec.allow).map_err(|error| {
            Trouble::Infrastructure(format!("{error}; `kew sandbox network status` says more"))
        })?;
        let end = self.contain(sink, Some(&lease.address));
        self.egress = lease::give_back(docker, &lease);
        end
    }

    /// Of what is held, brings home what can be looked at, and says where it is.
    fn keep_held(&mut self, quarantine: &Utf8Path, fault: CollectFault) -> Trouble {
        let CollectFault::Held { keep: Some(head), .. } = &fault else { return of_collect(fault) };
        let shared = Arc::clone(&self.shared);
        let name = refs::held(&self.spec.key);
        let kept = land_held(&shared.repo, &shared.mirror, quarantine, &self.input, head, &name);
        let more = match kept {
            Ok(()) => {
                self.landed = Some(head.clone());
                format!("look: git diff {}..{name}", self.input.short())
            }
            Err(error) => format!("its commits could not be kept: {error}"),
        };
        match of_collect(fault) {
            Trouble::Held { word, sentence } => {
                Trouble::Held { word, sentence: format!("{sentence}; {more}") }
            }
            other => other,
        }
    }

    /// Starts the container, streams it, and returns when it is known to be gone.
    fn contain(&self, sink: Arc<dyn Sink>, address: Option<&str>) -> Result<EngineEnd, Trouble> {
        let (shared, name) = (&self.shared, &self.spec.container);
        shared.go_on(&self.control)?;
        let argv = build_run_argv(&RunArgv {
            name,
            labels: &shared.labels_of(&self.spec.key),
            limits: &self.spec.limits,
            network: self.spec.network,
            address,
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
        let (out, err, words) = (Arc::clone(&sink), Arc::clone(&sink), Arc::clone(&last_words));
        let started = Child::start(
            spawn,
            Box::new(move |line| {
                if let Some(line) = line {
                    out.stdout(line);
                }
            }),
            Box::new(move |line: Option<Line<'_>>| {
                if let Some(line) = line {
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
        disk::watch(self.folder.clone(), shared.checkout_max, Arc::clone(&self.control), sink);
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
        if shared.host.is_some() {
            return self.cover(answer);
        }
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

    /// The same on the host, where there is no container to read it.
    fn cover(&self, answer: &Utf8Path) -> Result<(), Trouble> {
        let shared = &self.shared;
        let cover = Cover {
            mirror: &shared.mirror,
            checkout: &self.folder,
            input: &self.input,
            branch: &refs::branch(&self.spec.epic, &self.spec.key.node),
            limits: &shared.limits,
            folder: &shared.workspace.quarantine(&format!("{}.cover", self.spec.container)),
        };
        cover.pack(answer).map_err(of_collect)
    }

    fn tag(&self) -> String {
        self.spec.key.node.as_str().chars().take(8).collect()
    }
}
