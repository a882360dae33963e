//! A plan in TOML, a script for each node, and everything that a run over them wrote down or told.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use kew::{
    docker::argv::{Limits, Network},
    event::{RunEvent, Stamped},
    name::{CommitId, NodeId, RunId},
    plan::{
        dag::Dag,
        parse_and_check,
        spec::{NodeIx, Plan},
        world::{ImageGap, PromptFault, RunnerFacts, World},
    },
    record::{AttemptEnd, AttemptStart, NodeState, VerdictRow},
    run::{
        self, Ended, NodeSetup, Run,
        dispatcher::Status,
        executor::Executor,
        ledger::Observer,
        past::Past,
        publisher::{Going, Publisher},
        scripted::{Happened, Script, Scripted},
    },
    runners::{self, Kind},
};

use super::memory::{Memory, State};

/// The base of every run here.
pub const BASE: &str = "ba5eba5eba5eba5eba5eba5eba5eba5eba5eba5e";

/// Real runners, an image for each, no prompt files.
struct AllImages;

impl World for AllImages {
    fn runners(&self) -> Vec<String> {
        runners::built_in().iter().map(|runner| runner.name().to_owned()).collect()
    }
    fn runner(&self, name: &str) -> Option<RunnerFacts> {
        runners::find(name).map(|runner| RunnerFacts {
            agent: runner.kind() == Kind::Agent,
            refused: None,
            metering: runner.metering(),
        })
    }
    fn route(&self, runner: &str, model: &str) -> Result<(), String> {
        runners::find(runner).map_or(Ok(()), |runner| runner.route(model))
    }
    fn image(&self, _: &str, _: Option<&str>) -> Result<(), ImageGap> {
        Ok(())
    }
    fn prompt_file(&self, _: &camino::Utf8Path) -> Result<(String, camino::Utf8PathBuf), PromptFault> {
        Err(PromptFault::Missing { looked: Vec::new() })
    }
}

/// A run to be played.
pub struct Rig {
    pub plan: Plan,
    pub dag: Dag,
    pub scripts: HashMap<NodeId, Vec<Script>>,
    pub bills: HashMap<NodeId, String>,
    pub jobs: usize,
    pub fail_fast: bool,
    pub active: Vec<bool>,
    pub log_max: u64,
    pub max_wait: Option<Duration>,
    pub warnings: Vec<String>,
    pub past: Option<Past>,
    pub state: State,
    pub shelf: Memory,
    pub publisher: Option<Arc<dyn Publisher>>,
}

pub fn id(name: &str) -> NodeId {
    NodeId::new(name).unwrap()
}

pub fn commit(text: &str) -> CommitId {
    CommitId::new(text).unwrap()
}

/// `[nodes.x]` tables; the rest of the plan is the same for all. Nodes without a runner are plain jobs.
pub fn rig(nodes: &str) -> Rig {
    whole(&format!("version = 1\nepic.name = \"e\"\ndefaults.runner = \"shell\"\n{nodes}"))
}

/// A whole plan.
pub fn whole(text: &str) -> Rig {
    let (plan, dag) = parse_and_check("plan.toml", text, &AllImages).unwrap_or_else(|all| panic!("{all}"));
    let active = vec![true; plan.nodes.len()];
    Rig {
        plan,
        dag,
        scripts: HashMap::new(),
        bills: HashMap::new(),
        jobs: 8,
        fail_fast: false,
        active,
        log_max: 1 << 20,
        max_wait: None,
        warnings: Vec::new(),
        past: None,
        state: State::default(),
        shelf: Memory::default(),
        publisher: None,
    }
}

/// Plain jobs: `"a"`, `"b < a"` (b needs a), `"c < a, b"`, `"r ? a"` (r reviews a), `"r ? a < b"`.
pub fn jobs(nodes: &[&str]) -> Rig {
    let mut text = String::new();
    for node in nodes {
        let (head, needs) = node.split_once(" < ").unwrap_or((node, ""));
        let (name, subject) =
            head.split_once(" ? ").map_or((head, None), |(name, subject)| (name, Some(subject)));
        text.push_str(&format!("[nodes.{name}]\nprompt = \"true\"\n"));
        if !needs.is_empty() {
            text.push_str(&format!("needs = {:?}\n", needs.split(", ").collect::<Vec<_>>()));
        }
        if let Some(subject) = subject {
            text.push_str(&format!("reviews = \"{subject}\"\n"));
        }
    }
    rig(&text)
}

/// A container that ends with this status, as a plain job's image says it.
pub fn exits(code: i32) -> Script {
    Script {
        stdout: vec![format!(r#"{{"type":"result","exit_code":{code}}}"#)],
        exit: code,
        ..Script::default()
    }
}

/// A reviewer's vote on what it was given.
pub fn votes(verdict: &str) -> Script {
    let sidecar = format!(
        r#"{{"verdict":"{verdict}","summary":"{{node}} says {verdict}","findings":[],"head":"{{head}}"}}"#
    );
    Script { sidecar: Some(sidecar), ..Script::default() }
}

/// Runs until it is stopped.
pub fn endless() -> Script {
    Script { runs: Duration::from_secs(600), ..Script::default() }
}

impl Rig {
    pub fn script(self, node: &str, script: Script) -> Self {
        self.scripts(node, vec![script])
    }

    /// One for each attempt; the last one also for all that follow.
    pub fn scripts(mut self, node: &str, scripts: Vec<Script>) -> Self {
        assert!(self.plan.nodes.iter().any(|known| known.id.as_str() == node), "no node {node}");
        self.scripts.insert(id(node), scripts);
        self
    }

    /// The credential that a node's agent uses.
    pub fn bills(mut self, node: &str, credential: &str) -> Self {
        self.bills.insert(id(node), credential.to_owned());
        self
    }

    pub fn commits(self, nodes: &[&str]) -> Self {
        nodes.iter().fold(self, |rig, node| rig.script(node, Script { commits: 1, ..Script::default() }))
    }

    pub fn jobs(mut self, jobs: usize) -> Self {
        self.jobs = jobs;
        self
    }

    pub fn ix(&self, node: &str) -> NodeIx {
        self.plan.nodes.iter().position(|known| known.id.as_str() == node).unwrap()
    }

    /// Plays the run over the scripts.
    pub fn play(self) -> Played {
        let engine = Scripted::new(self.scripts.clone());
        let engine = Arc::new(engine);
        let played = self.play_over(Arc::clone(&engine) as Arc<dyn Executor>);
        Played { engine: Some(engine), ..played }.check()
    }

    /// Plays on from what is on record. What holds of every run is not checked: a part of it was told before.
    pub fn resume(self) -> Played {
        let engine = Arc::new(Scripted::new(self.scripts.clone()));
        let played = self.play_over(Arc::clone(&engine) as Arc<dyn Executor>);
        Played { engine: Some(engine), ..played }
    }

    /// Plays the run over another engine. Nothing is checked.
    pub fn play_over(mut self, engine: Arc<dyn Executor>) -> Played {
        // A signal is heard by every loop of the process.
        let _quiet = SIGNALS.read().unwrap_or_else(PoisonError::into_inner);
        self.drive(engine)
    }

    /// Plays the run over an engine that sends signals to this process.
    pub fn play_loud(mut self, engine: Arc<dyn Executor>) -> Played {
        let _alone = SIGNALS.write().unwrap_or_else(PoisonError::into_inner);
        self.drive(engine)
    }

    fn drive(&mut self, engine: Arc<dyn Executor>) -> Played {
        let setup = |node: &kew::plan::spec::Node| NodeSetup {
            runner: runners::find(&node.runner).unwrap(),
            image: format!("kew-{}:latest", node.runner),
            image_id: format!("sha256:{}", node.runner),
            credentials: Vec::new(),
            bills: self.bills.get(&node.id).unwrap_or(&node.runner).clone(),
            network: if node.network_none { Network::None } else { Network::Allowlist },
            allow: Vec::new(),
            idle: None,
            step_cap: None,
        };
        let run = Run {
            publisher: self.publisher.clone().map(Going::new),
            id: RunId::new("20261201-093000-k3f9").unwrap(),
            plan: &self.plan,
            dag: &self.dag,
            base: commit(BASE),
            nodes: self.plan.nodes.iter().map(setup).collect(),
            active: self.active.clone(),
            jobs: self.jobs,
            fail_fast: self.fail_fast,
            limits: Limits { pids: 64, memory: 1, cpus: 1.0, tmp_size: 1, home_size: 1, file_size: 1 },
            log_max: self.log_max,
            grace: Duration::from_secs(5),
            max_wait: self.max_wait,
            backoff: Duration::from_millis(2),
            network: "allowlist",
            warnings: self.warnings.clone(),
            past: self.past.clone(),
        };
        let mut events = Events::default();
        let shelf = Arc::new(self.shelf.clone());
        let ended = run::drive(&run, engine, shelf, &mut self.state, &mut events).unwrap();
        Played {
            ended,
            events: events.0,
            state: std::mem::take(&mut self.state),
            shelf: self.shelf.clone(),
            engine: None,
            plan: self.plan.clone(),
        }
    }
}

static SIGNALS: RwLock<()> = RwLock::new(());

/// A run that is over.
pub struct Played {
    pub ended: Ended,
    pub events: Vec<Stamped>,
    pub state: State,
    pub shelf: Memory,
    pub engine: Option<Arc<Scripted>>,
    pub plan: Plan,
}

impl Played {
    pub fn status(&self) -> Status {
        self.ended.status
    }

    /// `a=passed b=skipped`, in plan order.
    pub fn states(&self) -> String {
        let of = |(node, state, _): &(NodeIx, NodeState, Option<String>)| {
            format!("{}={}", self.plan.nodes[*node].id, state.word())
        };
        self.ended.nodes.iter().map(of).collect::<Vec<_>>().join(" ")
    }

    pub fn reason(&self, node: &str) -> &str {
        let found = self.ended.nodes.iter().find(|(ix, _, _)| self.plan.nodes[*ix].id.as_str() == node);
        found.and_then(|(_, _, reason)| reason.as_deref()).unwrap_or_default()
    }

    pub fn engine(&self) -> &Scripted {
        self.engine.as_deref().unwrap()
    }

    /// Nodes whose containers ran, in the order of their starts.
    pub fn ran(&self) -> Vec<String> {
        let happened = self.engine().happened();
        let starts = happened.iter().filter_map(|happened| match happened {
            Happened::Started(node) => Some(node.to_string()),
            Happened::Ended(_) => None,
        });
        starts.collect()
    }

    pub fn start(&self, node: &str) -> &AttemptStart {
        self.state.starts.iter().find(|row| row.key.node.as_str() == node).unwrap()
    }

    pub fn end(&self, node: &str) -> &AttemptEnd {
        &self.state.ends.iter().find(|(row, _, _)| row.key.node.as_str() == node).unwrap().0
    }

    pub fn verdict(&self, node: &str) -> Option<&VerdictRow> {
        self.state.ends.iter().find(|(row, _, _)| row.key.node.as_str() == node).unwrap().2.as_ref()
    }

    pub fn prompt(&self, node: &str) -> String {
        self.shelf.lock().prompts[node].clone()
    }

    /// What holds of every run whose state could be written.
    fn check(self) -> Self {
        self.check_events();
        self.check_engine();
        if self.state.fails.is_some() {
            return self;
        }
        assert!(self.ended.broken.is_none());
        let stored: Vec<&Stamped> = self.events.iter().filter(|event| kept(event)).collect();
        assert_eq!(stored, self.state.events.iter().collect::<Vec<_>>(), "what is told is what is stored");
        let started: Vec<_> = self.state.starts.iter().map(|row| row.key.clone()).collect();
        let mut ended: Vec<_> = self.state.ends.iter().map(|(row, _, _)| row.key.clone()).collect();
        assert_eq!(started.iter().collect::<BTreeSet<_>>().len(), started.len(), "no attempt starts twice");
        ended.sort();
        let mut sorted = started;
        sorted.sort();
        assert_eq!(sorted, ended, "each attempt ends once");
        for (node, state, reason) in &self.ended.nodes {
            let id = &self.plan.nodes[*node].id;
            let known = self.state.nodes.get(id).cloned().unwrap_or((NodeState::Waiting, None));
            assert_eq!(known.0, *state, "the record knows where `{id}` stands");
            if *state != NodeState::Passed && !known.1.as_deref().unwrap_or_default().is_empty() {
                assert_eq!(&known.1, reason, "`{id}`");
            }
        }
        let end = self.state.ended.as_ref().expect("the end is on record");
        assert_eq!(end.status, self.ended.status.word());
        assert_eq!(end.exit_code, i32::from(self.ended.status.exit_code()));
        self
    }

    fn check_events(&self) {
        let validator = schema();
        let mut open = BTreeMap::new();
        for (at, event) in self.events.iter().enumerate() {
            assert_eq!((event.v, event.seq), (1, at as u64 + 1), "events are in sequence");
            let json = serde_json::to_value(event).unwrap();
            if let Err(error) = validator.validate(&json) {
                panic!("{json} is not as the schema says: {error}");
            }
            assert_eq!(&serde_json::from_value::<Stamped>(json).unwrap(), event, "and reads back");
            match &event.event {
                RunEvent::NodeStarted { node, attempt, .. } => {
                    assert!(open.insert(node.clone(), *attempt).is_none(), "{node} started twice")
                }
                RunEvent::NodeEnded { node, attempt, .. } => {
                    assert_eq!(open.remove(node), Some(*attempt), "{node} ended without a start")
                }
                RunEvent::NodeProgress { node, .. } => {
                    assert!(open.contains_key(node), "{node} tells only while it runs")
                }
                _ => {}
            }
        }
        assert!(open.is_empty(), "every start is followed by an end: {open:?}");
        assert!(matches!(self.events.first().unwrap().event, RunEvent::RunStarted { .. }));
        let RunEvent::RunEnded { status, exit_code, .. } = &self.events.last().unwrap().event else {
            panic!("the last event is the run's end");
        };
        assert_eq!(status, self.ended.status.word());
        assert_eq!(*exit_code, i32::from(self.ended.status.exit_code()));
    }

    /// What ran was on record before, and all of it ended.
    fn check_engine(&self) {
        let recorded: BTreeSet<&NodeId> = self.state.starts.iter().map(|row| &row.key.node).collect();
        let mut open = BTreeSet::new();
        for happened in self.engine().happened() {
            match happened {
                Happened::Started(node) => {
                    assert!(recorded.contains(&node), "`{node}` ran and is not on record");
                    assert!(open.insert(node));
                }
                Happened::Ended(node) => assert!(open.remove(&node)),
            }
        }
        assert!(open.is_empty(), "nothing runs on: {open:?}");
    }
}

fn schema() -> jsonschema::Validator {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schemas/event.schema.json");
    let text = std::fs::read_to_string(path).unwrap();
    jsonschema::validator_for(&serde_json::from_str(&text).unwrap()).unwrap()
}

fn kept(event: &Stamped) -> bool {
    !matches!(event.event, RunEvent::NodeProgress { .. } | RunEvent::Heartbeat { .. })
}

#[derive(Default)]
struct Events(Vec<Stamped>);

impl Observer for Events {
    fn event(&mut self, event: &Stamped) {
        self.0.push(event.clone());
    }
    fn tick(&mut self, _: i64) {}
}
