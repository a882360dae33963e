//! A state and a shelf in memory, either of which can be told to refuse.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    io,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kew::{
    event::Stamped,
    lines::Line,
    name::{AttemptKey, NodeId},
    record::{AttemptEnd, AttemptStart, Kept, NodeState, Publication, RunEnd, RunStart, VerdictRow},
    run::ledger::{AttemptShelf, Ledger, LedgerError, LineLog, Mask, Shelf},
};

/// When the state refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fails {
    /// At this call, from 1, and no other.
    Once(usize),
    /// From this call on.
    From(usize),
}

/// The state, in memory.
#[derive(Default)]
pub struct State {
    pub fails: Option<Fails>,
    pub calls: usize,
    pub starts: Vec<AttemptStart>,
    pub kept: Vec<(AttemptKey, Kept)>,
    pub ends: Vec<(AttemptEnd, NodeState, Option<VerdictRow>)>,
    pub nodes: BTreeMap<NodeId, (NodeState, Option<String>)>,
    pub events: Vec<Stamped>,
    pub publications: Vec<Publication>,
    pub ended: Option<RunEnd>,
    /// Every call that was not refused, in order.
    pub steps: Vec<Step>,
}

/// A call.
#[derive(Clone)]
pub enum Step {
    Started(AttemptStart),
    Ended(Box<AttemptEnd>, NodeState, Option<VerdictRow>),
    Node(AttemptKey, NodeState, Option<String>),
    Event(Stamped),
    Over(RunEnd),
}

impl State {
    /// What would be on record if kew had died after so many calls.
    pub fn after(&self, calls: usize) -> Self {
        let mut state = Self::default();
        for step in &self.steps[..calls] {
            let taken = match step {
                Step::Started(row) => state.attempt_started(row),
                Step::Ended(row, at, verdict) => state.attempt_ended(row, *at, verdict.as_ref()),
                Step::Node(key, at, reason) => state.node(key, *at, reason.as_deref()),
                Step::Event(event) => state.event(event),
                Step::Over(row) => state.run_ended(row),
            };
            taken.unwrap();
        }
        state
    }
}

impl State {
    fn call(&mut self) -> Result<(), LedgerError> {
        self.calls += 1;
        assert!(self.ended.is_none() || self.fails.is_some(), "the end of the run is the last thing written");
        let refused = match self.fails {
            Some(Fails::Once(at)) => self.calls == at,
            Some(Fails::From(at)) => self.calls >= at,
            None => false,
        };
        if refused { Err(LedgerError(format!("call {}", self.calls))) } else { Ok(()) }
    }
}

impl Ledger for State {
    fn run_started(&mut self, _: &RunStart) -> Result<(), LedgerError> {
        unreachable!("the run is on record before it is driven")
    }
    fn attempt_started(&mut self, row: &AttemptStart) -> Result<(), LedgerError> {
        self.call()?;
        self.nodes.insert(row.key.node.clone(), (NodeState::Running, None));
        self.starts.push(row.clone());
        self.steps.push(Step::Started(row.clone()));
        Ok(())
    }
    fn attempt_kept(&mut self, key: &AttemptKey, kept: &Kept) -> Result<(), LedgerError> {
        self.call()?;
        assert!(
            !self.ends.iter().any(|(row, _, _)| row.key == *key),
            "what is kept is written before the end"
        );
        self.kept.push((key.clone(), kept.clone()));
        Ok(())
    }
    fn attempt_ended(
        &mut self,
        row: &AttemptEnd,
        state: NodeState,
        verdict: Option<&VerdictRow>,
    ) -> Result<(), LedgerError> {
        self.call()?;
        self.nodes.insert(row.key.node.clone(), (state, row.reason.clone()));
        self.ends.push((row.clone(), state, verdict.cloned()));
        self.steps.push(Step::Ended(Box::new(row.clone()), state, verdict.cloned()));
        Ok(())
    }
    fn node(&mut self, key: &AttemptKey, state: NodeState, reason: Option<&str>) -> Result<(), LedgerError> {
        self.call()?;
        self.nodes.insert(key.node.clone(), (state, reason.map(str::to_owned)));
        self.steps.push(Step::Node(key.clone(), state, reason.map(str::to_owned)));
        Ok(())
    }
    fn publication(&mut self, row: &Publication) -> Result<(), LedgerError> {
        self.call()?;
        self.publications.push(row.clone());
        Ok(())
    }
    fn event(&mut self, event: &Stamped) -> Result<(), LedgerError> {
        self.call()?;
        self.events.push(event.clone());
        self.steps.push(Step::Event(event.clone()));
        Ok(())
    }
    fn run_ended(&mut self, row: &RunEnd) -> Result<(), LedgerError> {
        self.call()?;
        assert!(self.ended.is_none(), "a run ends once");
        self.ended = Some(row.clone());
        self.steps.push(Step::Over(row.clone()));
        Ok(())
    }
}

/// The files of attempts, in memory.
#[derive(Default, Clone)]
pub struct Memory(Arc<Mutex<Files>>);

/// By node.
#[derive(Default)]
pub struct Files {
    pub prompts: HashMap<String, String>,
    pub verdicts: HashMap<String, Vec<u8>>,
    pub stdout: HashMap<String, Vec<u8>>,
    /// What fails: `folder`, `prompt`, `log`, `line`, `flush`, `verdict`, `artifact`.
    pub broken: Option<&'static str>,
}

impl Memory {
    pub fn lock(&self) -> MutexGuard<'_, Files> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tries(&self, what: &str) -> io::Result<()> {
        if self.lock().broken == Some(what) { Err(io::Error::other("no space left")) } else { Ok(()) }
    }
}

impl Shelf for Memory {
    fn mask(&self) -> Mask {
        Arc::new(|text| text.replace("the-secret", "***SECRET***"))
    }

    fn attempt(&self, key: &AttemptKey) -> io::Result<Box<dyn AttemptShelf>> {
        self.tries("folder")?;
        Ok(Box::new(Folder { memory: self.clone(), node: key.node.to_string() }))
    }
}

struct Folder {
    memory: Memory,
    node: String,
}

impl AttemptShelf for Folder {
    fn path(&self) -> String {
        format!("runs/{}", self.node)
    }
    fn prompt(&mut self, text: &str) -> io::Result<()> {
        self.memory.tries("prompt")?;
        self.memory.lock().prompts.insert(self.node.clone(), text.to_owned());
        Ok(())
    }
    fn stdout(&mut self) -> io::Result<Box<dyn LineLog>> {
        self.memory.tries("log")?;
        Ok(Box::new(Log { memory: self.memory.clone(), node: Some(self.node.clone()), size: 0 }))
    }
    fn stderr(&mut self) -> io::Result<Box<dyn LineLog>> {
        Ok(Box::new(Log { memory: self.memory.clone(), node: None, size: 0 }))
    }
    fn verdict(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        self.memory.tries("verdict")?;
        self.memory.lock().verdicts.insert(self.node.clone(), bytes.to_vec());
        Ok(bytes.to_vec())
    }
    fn artifact(&mut self, path: &str, _: bool, content: &mut dyn io::Read) -> io::Result<()> {
        self.memory.tries("artifact")?;
        let mut bytes = Vec::new();
        content.read_to_end(&mut bytes)?;
        assert_eq!(bytes, path.as_bytes());
        Ok(())
    }
}

struct Log {
    memory: Memory,
    node: Option<String>,
    size: u64,
}

impl LineLog for Log {
    fn line<'a>(&mut self, line: Line<'a>) -> io::Result<Cow<'a, [u8]>> {
        self.memory.tries("line")?;
        self.size += line.bytes.len() as u64 + 1;
        if let Some(node) = &self.node {
            let mut files = self.memory.lock();
            let log = files.stdout.entry(node.clone()).or_default();
            log.extend_from_slice(line.bytes);
            log.push(b'\n');
        }
        Ok(Cow::Borrowed(line.bytes))
    }
    fn flush(&mut self) -> io::Result<()> {
        self.memory.tries("flush")
    }
    fn size(&self) -> u64 {
        self.size
    }
}
