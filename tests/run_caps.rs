//! Caps on silence and on steps, through the whole loop of a run, with scripted containers and the real state.

mod plan_world;

use std::{collections::HashMap, sync::Arc, time::Duration};

use camino::Utf8PathBuf;
use kew::{
    docker::argv::{Limits, Network},
    event::{RunEvent, Stamped},
    name::{CommitId, NodeId, RunId},
    plan::parse_and_check,
    run::{
        self, NodeSetup, Run,
        ledger::{Ledger, Observer},
        scripted::{Script, Scripted},
    },
    runners,
    store::{Masker, Store, shelf::Files},
    stream::CostSource,
};
use plan_world::TestWorld;

const PLAN: &str = r#"
version = 1
epic.name = "caps"
[nodes.a]
runner = "opencode"
model = "openrouter/a/b"
commits = "optional"
prompt = "x"
"#;

#[derive(Default)]
struct Seen(Vec<RunEvent>);

impl Observer for Seen {
    fn event(&mut self, event: &Stamped) {
        self.0.push(event.event.clone());
    }

    fn tick(&mut self, _: i64) {}
}

/// How the node `a` ended: outcome, reason, and where its cost comes from.
fn run(script: Script, idle: Option<Duration>, step_cap: Option<u32>) -> (String, String, CostSource) {
    let (plan, dag) =
        parse_and_check("x.toml", PLAN, &TestWorld).unwrap_or_else(|problems| panic!("{problems}"));
    let folder = tempfile::tempdir().unwrap();
    let state = Utf8PathBuf::from_path_buf(folder.path().to_owned()).unwrap().join("kew");
    let mut store = Store::open(&state).unwrap();
    let limits = Limits { pids: 1, memory: 1 << 30, cpus: 1.0, tmp_size: 1, home_size: 1, file_size: 1 };
    let setup = NodeSetup {
        runner: runners::find("opencode").unwrap(),
        image: "x".into(),
        image_id: "sha256:x".into(),
        credentials: Vec::new(),
        bills: "shell".to_owned(),
        network: Network::None,
        allow: Vec::new(),
        idle,
        step_cap,
    };
    let run = Run {
        publisher: None,
        id: RunId::new("20260101-000000-abcdef").unwrap(),
        plan: &plan,
        dag: &dag,
        base: CommitId::new("a".repeat(40)).unwrap(),
        nodes: vec![setup],
        active: vec![true],
        jobs: 1,
        fail_fast: false,
        limits,
        log_max: 1 << 20,
        grace: Duration::from_secs(1),
        max_wait: None,
        backoff: Duration::from_millis(1),
        network: "none",
        warnings: Vec::new(),
        past: None,
    };
    store
        .run_started(&kew::record::RunStart {
            run: run.id.clone(),
            epic: plan.epic.name.clone(),
            plan_path: "x.toml".into(),
            plan_text: PLAN.into(),
            settings_json: "{}".into(),
            digest: "d".into(),
            base: run.base.clone(),
            network: "none".into(),
            owner: "me".into(),
            started: 1,
            prompts: Vec::new(),
            nodes: vec![kew::record::NodeStart {
                node: NodeId::new("a").unwrap(),
                runner: "opencode".into(),
                model: None,
                image: "x".into(),
                image_id: "sha256:x".into(),
                reviews: None,
                commits: plan.nodes[0].commits,
                needs: Vec::new(),
            }],
        })
        .unwrap();
    let executor = Scripted::new(HashMap::from([(NodeId::new("a").unwrap(), vec![script])]));
    let none: [(String, &[u8]); 0] = [];
    let shelf = Files { state, masker: Arc::new(Masker::new(none)) };
    let mut seen = Seen::default();
    run::drive(&run, Arc::new(executor), Arc::new(shelf), &mut store, &mut seen).unwrap();
    let ended = seen.0.iter().find_map(|event| match event {
        RunEvent::NodeEnded { outcome, reason, cost_source, .. } => {
            Some((outcome.clone(), reason.clone().unwrap_or_default(), *cost_source))
        }
        _ => None,
    });
    ended.expect("the node ended")
}

/// A step of opencode's.
fn step(id: usize, reason: &str, tokens: u32) -> String {
    format!(
        r#"{{"type":"step_finish","sessionID":"s","part":{{"id":"p{id}","reason":"{reason}","tokens":{{"input":{tokens}}},"cost":0.5}}}}"#
    )
}

fn steps(many: usize, tokens: u32) -> Vec<String> {
    (1..=many).map(|id| step(id, if id == many { "stop" } else { "tool-calls" }, tokens)).collect()
}

/// Longer than any of these tests may take.
const LONG: Duration = Duration::from_secs(60);

#[test]
fn silence_is_stopped_as_stalled() {
    let script = Script { runs: LONG, stdout: steps(1, 1), ..Script::default() };
    let (outcome, reason, source) = run(script, Some(Duration::from_secs(1)), None);
    assert_eq!((outcome.as_str(), reason.as_str()), ("stalled", "it said nothing for 1s"));
    assert_eq!(source, CostSource::Unknown, "what it told is at least what it spent");
}

#[test]
fn an_agent_that_goes_on_talking_is_not_stalled() {
    let stdout = steps(14, 1);
    let script = Script { stdout, pause: Duration::from_millis(400), ..Script::default() };
    let (outcome, _, source) = run(script, Some(Duration::from_secs(3)), None);
    assert_eq!((outcome.as_str(), source), ("passed", CostSource::ListPrice));
}

#[test]
fn too_many_steps_are_a_runaway() {
    let script = |many| Script { runs: Duration::from_secs(1), stdout: steps(many, 1), ..Script::default() };
    let (outcome, reason, _) = run(Script { runs: LONG, ..script(6) }, None, Some(5));
    assert_eq!((outcome.as_str(), reason.as_str()), ("runaway", "it took more than 5 steps"));
    assert_eq!(run(script(5), None, Some(5)).0, "passed");
    assert_eq!(run(script(6), None, None).0, "passed");
}

#[test]
fn steps_without_a_token_are_a_runaway_long_before() {
    let script = |many| Script { runs: Duration::from_secs(1), stdout: steps(many, 0), ..Script::default() };
    let (outcome, reason, _) = run(Script { runs: LONG, ..script(25) }, None, Some(1000));
    assert!(
        outcome == "runaway" && reason.starts_with("its last 25 steps used no token"),
        "{outcome} {reason}"
    );
    assert_eq!(run(script(24), None, Some(1000)).0, "passed");
    assert_eq!(run(script(25), None, None).0, "passed", "a job may do what it likes");
}
