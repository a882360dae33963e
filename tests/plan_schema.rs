//! The schema for editors and the plans that come with kew. (That the committed schema is this one is tested with the
//! program's own `kew schema`.)

mod plan_world;

use std::{collections::BTreeSet, fs, path::PathBuf};

use camino::{Utf8Path, Utf8PathBuf};
use kew::plan::{
    parse_and_check,
    raw::{RawDefaults, RawEpic, RawNode, RawPlan},
    schema,
    spec::{Commits, VerdictBy},
    world::{ImageGap, PromptFault, RunnerFacts, World},
};
use plan_world::TestWorld;
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The test world, with prompt files read from `plans/`.
struct Repository;

impl World for Repository {
    fn runners(&self) -> Vec<String> {
        TestWorld.runners()
    }
    fn runner(&self, name: &str) -> Option<RunnerFacts> {
        TestWorld.runner(name)
    }
    fn route(&self, runner: &str, model: &str) -> Result<(), String> {
        TestWorld.route(runner, model)
    }
    fn image(&self, runner: &str, toolchain: Option<&str>) -> Result<(), ImageGap> {
        TestWorld.image(runner, toolchain)
    }
    fn prompt_file(&self, path: &Utf8Path) -> Result<(String, Utf8PathBuf), PromptFault> {
        let path = Utf8Path::new("plans").join(path);
        let text = fs::read_to_string(root().join(&path));
        text.map(|text| (text, path.clone()))
            .map_err(|_| PromptFault::Missing { looked: vec![path.into_string()] })
    }
}

fn plans() -> Vec<(String, String)> {
    let files =
        fs::read_dir(root().join("plans")).expect("plans/ is there").map(|file| file.expect("a file").path());
    let plans: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| {
            (path.file_name().unwrap().to_str().unwrap().to_string(), fs::read_to_string(&path).unwrap())
        })
        .collect();
    assert!(plans.len() >= 2, "{plans:?}");
    plans
}

/// The object schemas of the four tables.
fn tables() -> Vec<(&'static [&'static str], Value)> {
    let schema = schema();
    let definition = |name: &str| schema["definitions"][name].clone();
    vec![
        (RawPlan::KEYS, schema.clone()),
        (RawEpic::KEYS, schema["properties"]["epic"].clone()),
        (RawDefaults::KEYS, definition("RawDefaults")),
        (RawNode::KEYS, definition("RawNode")),
    ]
}

#[test]
fn reader_and_schema_know_the_same_keys() {
    for (keys, schema) in tables() {
        let known: BTreeSet<&str> = keys.iter().copied().collect();
        let described = schema["properties"].as_object().expect("properties");
        assert_eq!(described.keys().map(String::as_str).collect::<BTreeSet<_>>(), known);
        assert_eq!(schema["additionalProperties"], Value::Bool(false));
        for (key, property) in described {
            assert!(
                property["description"].as_str().is_some_and(|text| text.len() > 10),
                "{key}: {property}"
            );
            assert!(!property.to_string().contains("null"), "{key}: {property}");
        }
    }
}

#[test]
fn defaults_have_every_key_of_a_node_but_its_own() {
    let own: BTreeSet<_> =
        RawNode::KEYS.iter().filter(|key| !RawDefaults::KEYS.contains(key)).copied().collect();
    assert_eq!(own, BTreeSet::from(["needs", "reviews", "prompt", "prompt_file", "from"]));
    assert!(RawDefaults::KEYS.iter().all(|key| RawNode::KEYS.contains(key)));
}

#[test]
fn required_keys_are_those_that_the_check_asks_for() {
    let required: Vec<Value> = tables().into_iter().map(|(_, schema)| schema["required"].clone()).collect();
    let names = |names: &[&str]| Value::from(names.iter().map(|name| Value::from(*name)).collect::<Vec<_>>());
    assert_eq!(required, [names(&["version", "epic", "nodes"]), names(&["name"]), Value::Null, Value::Null]);
}

#[test]
fn words_are_in_the_schema() {
    let node = &schema()["definitions"]["RawNode"]["properties"];
    assert_eq!(node["verdict"]["enum"], serde_json::json!(["file", "exit"]));
    assert_eq!(node["commits"]["enum"], serde_json::json!(["required", "optional", "forbidden"]));
    assert_eq!(node["network"]["enum"], serde_json::json!(["none"]));
    assert_eq!(node["publish"]["enum"], serde_json::json!(["none", "branch", "pull-request"]));
}

#[test]
fn the_plans_that_come_with_kew_are_good() {
    for (name, text) in plans() {
        assert!(text.starts_with("#:schema ../schemas/plan.schema.json\n"), "{name}");
        let (plan, dag) = parse_and_check(&format!("plans/{name}"), &text, &Repository)
            .unwrap_or_else(|all| panic!("{all}"));
        assert_eq!(plan.nodes.len(), dag.len());
    }
}

#[test]
fn the_demo_shows_what_kew_does() {
    let text = fs::read_to_string(root().join("plans/demo.toml")).expect("the demo is there");
    let (plan, dag) =
        parse_and_check("plans/demo.toml", &text, &Repository).unwrap_or_else(|all| panic!("{all}"));
    assert!(plan.nodes.len() >= 6);
    assert!(plan.nodes.iter().all(|node| node.runner == "shell" && node.network_none), "no key, no network");
    assert!((0..dag.len()).any(|node| dag.dependents(node).len() > 1), "a fan-out");
    assert!(plan.nodes.iter().any(|node| node.needs.len() > 1), "a merge");
    let verdicts: BTreeSet<_> = plan
        .nodes
        .iter()
        .filter(|node| node.reviews.is_some())
        .map(|node| node.verdict == VerdictBy::Exit)
        .collect();
    assert_eq!(verdicts.len(), 2, "a reviewer by file and one by exit status");
    assert!((0..dag.len()).any(|node| dag.gates(node).len() >= 2), "a node gated on both");
}

#[test]
fn defaults_are_applied_by_kind_of_node() {
    let text = r#"
        version = 1
        epic = { name = "demo", base = "main", max_parallel = 3 }
        defaults = { runner = "claude-code", model = "claude-sonnet-4-5", timeout = "45m", verdict = "file", commits = "required" }
        [nodes]
        code = { prompt_file = "prompts/good.md", brief = false }
        job = { runner = "shell", prompt = "true", commits = "optional", network = "none", timeout = "90s" }
        test = { runner = "shell", toolchain = "rust", reviews = "code", verdict = "exit", prompt = "cargo test" }
    "#;
    let (plan, _) = parse_and_check("x.toml", text, &TestWorld).unwrap_or_else(|all| panic!("{all}"));
    assert_eq!((plan.epic.base.as_deref(), plan.epic.max_parallel), (Some("main"), Some(3)));
    let [code, job, test] = plan.nodes.as_slice() else { panic!("three nodes") };
    assert_eq!(code.prompt, "Do it well.\n");
    assert_eq!(code.prompt_file.as_deref(), Some(Utf8Path::new("plans/prompts/good.md")));
    assert_eq!((code.model.as_deref(), job.model.as_deref()), (Some("claude-sonnet-4-5"), None));
    assert_eq!(
        [code.commits, job.commits, test.commits],
        [Commits::Required, Commits::Optional, Commits::Forbidden]
    );
    assert_eq!(
        [code, job, test].map(|node| node.timeout.map(|time| time.as_secs())),
        [Some(2700), Some(90), Some(2700)]
    );
    assert_eq!(
        [code, job, test].map(|node| (node.brief, node.network_none)),
        [(false, false), (true, true), (true, false)]
    );
    assert_eq!(
        (test.reviews, test.verdict, test.toolchain.as_deref()),
        (Some(0), VerdictBy::Exit, Some("rust"))
    );
}

#[test]
fn commits_depend_on_who_works() {
    let text = r#"
        version = 1
        epic.name = "demo"
        [nodes]
        agent = { runner = "claude-code", model = "m", prompt = "x" }
        job = { runner = "shell", prompt = "x" }
    "#;
    let (plan, _) = parse_and_check("x.toml", text, &TestWorld).unwrap_or_else(|all| panic!("{all}"));
    assert_eq!((plan.nodes[0].commits, plan.nodes[1].commits), (Commits::Required, Commits::Optional));
}
