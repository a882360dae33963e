//! An engine without containers: every attempt does what a script says. For tests of the dispatcher and for trying a plan.
//!
//! It honours the port as docker's does: an attempt that is stopped ends, one that is not runs as long as its script says.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use super::{
    executor::{
        Artifacts, Attempt, Caps, Collected, Executor, Hardening, LeftBehind, NodeSpec, Sink, Source,
        StopHow, Trouble,
    },
    ledger::AttemptShelf,
};
use crate::{
    lines::Line,
    name::{AttemptKey, CommitId, NodeId},
    outcome::{EngineEnd, Work},
    plan::pattern::{Pattern, Patterns},
    record::Artifact,
    verdict::{FoundAt, SidecarFault},
};

/// What one node does.
#[derive(Debug, Clone)]
pub struct Script {
    /// How long it runs.
    pub runs: Duration,
    /// Lines of stdout, which come before that time begins.
    pub stdout: Vec<String>,
    /// Time before each of them.
    pub pause: Duration,
    /// Exit status.
    pub exit: i32,
    /// Commits that it brings.
    pub commits: u32,
    /// Its sidecar; `{head}`, `{node}` are filled in.
    pub sidecar: Option<String>,
    /// Paths of the files that it leaves; each holds its own path.
    pub files: Vec<String>,
    /// It leaves uncommitted work.
    pub dirty: bool,
    /// The checkout cannot be made.
    pub trouble: Option<Trouble>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            runs: Duration::ZERO,
            stdout: vec![r#"{"type":"result","exit_code":0}"#.to_owned()],
            pause: Duration::ZERO,
            exit: 0,
            commits: 0,
            sidecar: None,
            files: Vec::new(),
            dirty: false,
            trouble: None,
        }
    }
}

/// What happened, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Happened {
    /// An attempt's container began.
    Started(NodeId),
    /// An attempt's container ended.
    Ended(NodeId),
}

/// The engine.
#[derive(Debug, Default)]
pub struct Scripted {
    scripts: HashMap<NodeId, Vec<Script>>,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Stage>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Stage {
    stopped: HashSet<AttemptKey>,
    happened: Vec<Happened>,
    sources: HashMap<AttemptKey, Source>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Stage> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Scripted {
    /// One script for each attempt of a node, the last one for all that follow. Nodes without any pass and bring nothing.
    pub fn new(scripts: HashMap<NodeId, Vec<Script>>) -> Self {
        Self { scripts, shared: Arc::default() }
    }

    /// What happened so far.
    pub fn happened(&self) -> Vec<Happened> {
        self.shared.lock().happened.clone()
    }

    /// What an attempt of a node was given to start from.
    pub fn source(&self, node: &NodeId, attempt: u32) -> Option<Source> {
        let stage = self.shared.lock();
        let found = stage.sources.iter().find(|(key, _)| key.node == *node && key.attempt == attempt);
        found.map(|(_, source)| source.clone())
    }
}

impl Executor for Scripted {
    fn caps(&self) -> Caps {
        Caps { fields: vec![("container", Hardening::Enforced)] }
    }

    fn prepare(&self, spec: &NodeSpec, source: &Source) -> Result<Box<dyn Attempt>, Trouble> {
        let scripts = self.scripts.get(&spec.key.node).map_or(&[][..], Vec::as_slice);
        let attempt = (spec.key.attempt as usize).min(scripts.len());
        let script = attempt.checked_sub(1).map(|at| scripts[at].clone()).unwrap_or_default();
        self.shared.lock().sources.insert(spec.key.clone(), source.clone());
        if let Some(trouble) = script.trouble {
            return Err(trouble);
        }
        let input = match source {
            Source::One(id) => id.clone(),
            Source::Merge(parents) => {
                let text: String = parents.iter().map(|(_, id)| id.as_str()).collect();
                made_up(&text)
            }
        };
        let (key, wanted) = (spec.key.clone(), spec.artifacts.clone());
        Ok(Box::new(Played { key, wanted, script, input, shared: Arc::clone(&self.shared) }))
    }

    fn stop(&self, key: &AttemptKey, _how: StopHow) {
        self.shared.lock().stopped.insert(key.clone());
        self.shared.changed.notify_all();
    }
}

struct Played {
    key: AttemptKey,
    wanted: Vec<Pattern>,
    script: Script,
    input: CommitId,
    shared: Arc<Shared>,
}

impl Attempt for Played {
    fn input(&self) -> &CommitId {
        &self.input
    }

    fn run(&mut self, _prompt: &str, sink: Arc<dyn Sink>) -> Result<EngineEnd, Trouble> {
        let mut stage = self.shared.lock();
        if stage.stopped.contains(&self.key) {
            return Err(Trouble::Stopped);
        }
        stage.happened.push(Happened::Started(self.key.node.clone()));
        drop(stage);
        sink.started();
        for line in &self.script.stdout {
            thread::sleep(self.script.pause);
            sink.stdout(Line { bytes: line.as_bytes(), cut: false });
        }
        let until = Instant::now() + self.script.runs;
        let mut stage = self.shared.lock();
        while !stage.stopped.contains(&self.key) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            stage = self
                .shared
                .changed
                .wait_timeout(stage, left)
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .0;
        }
        let exit = if stage.stopped.contains(&self.key) { 143 } else { self.script.exit };
        stage.happened.push(Happened::Ended(self.key.node.clone()));
        Ok(EngineEnd { started: true, exit: Some(exit), oom: Some(false), ..EngineEnd::default() })
    }

    fn collect(&mut self) -> Result<Collected, Trouble> {
        let commits = self.script.commits;
        let head = (commits > 0).then(|| made_up(&self.key.to_string()));
        Ok(Collected {
            git_ref: head.as_ref().map(|_| format!("refs/kew/{}", self.key)),
            head,
            work: Work { commits, ..Work::default() },
        })
    }

    fn artifacts(&mut self, into: &mut dyn AttemptShelf) -> Result<Artifacts, Trouble> {
        let patterns = Patterns::new(&self.wanted);
        let mut unmatched = self.wanted.clone();
        let mut files = Vec::new();
        for path in &self.script.files {
            let matching = patterns.matching(path);
            if matching.is_empty() {
                continue;
            }
            unmatched.retain(|pattern| !matching.iter().any(|at| self.wanted[*at] == *pattern));
            into.artifact(path, false, &mut path.as_bytes())
                .map_err(|error| Trouble::Infrastructure(error.to_string()))?;
            let sha256 = crate::digest::sha256_hex(path);
            files.push(Artifact { path: path.clone(), size: path.len() as u64, sha256 });
        }
        Ok(Artifacts { files, unmatched, left_out: Vec::new() })
    }

    fn keep(&mut self) -> Result<LeftBehind, Trouble> {
        let left = self.script.dirty.then(|| made_up(&format!("{}-wip", self.key)));
        let git_ref = left.as_ref().map(|_| format!("refs/kew/{}-wip", self.key));
        Ok(LeftBehind { head: left, git_ref, notes: Vec::new() })
    }

    fn sidecar(&mut self) -> Result<(Vec<u8>, FoundAt), SidecarFault> {
        let text = self.script.sidecar.as_ref();
        let text = text.map(|text| {
            text.replace("{head}", self.input.as_str()).replace("{node}", self.key.node.as_str())
        });
        text.map(|text| (text.into_bytes(), FoundAt::Root)).ok_or(SidecarFault::Missing)
    }
}

/// A commit id that no repository has: the same text gives the same id.
fn made_up(text: &str) -> CommitId {
    CommitId::new(&crate::digest::sha256_hex(text)[..40]).expect("40 hex digits of a SHA-256 are a commit id")
}
