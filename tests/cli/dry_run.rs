//! `kew run --dry-run`: everything that a run would do, without doing any of it.

use serde_json::Value;

use super::rig::{AGENT, IMAGES, ONE, Rig, project};

/// The repository with the project's own plans in it.
fn with_plans() -> Rig {
    let rig = Rig::empty();
    rig.write("kew.toml", IMAGES);
    for file in ["plans/demo.toml", "plans/epic.toml", "plans/prompts/csv-writer.md"] {
        rig.write(file, std::fs::read_to_string(project().join(file)).unwrap());
    }
    rig.commit();
    rig
}

fn shown(rig: &Rig, args: &[&str]) -> String {
    let done = rig.kew(args);
    assert_eq!((done.code, done.err.as_str()), (0, ""), "{args:?}");
    rig.filtered(&done.out)
}

#[test]
fn the_demo_for_people() {
    insta::assert_snapshot!(shown(&with_plans(), &["run", "--dry-run", "plans/demo.toml"]));
}

#[test]
fn the_epic_for_people() {
    let rig = with_plans().env("ANTHROPIC_API_KEY", "sk-ant-secret");
    let text = shown(&rig, &["run", "--dry-run", "plans/epic.toml"]);
    assert!(!text.contains("sk-ant-secret"));
    insta::assert_snapshot!(text);
}

#[test]
fn both_for_machines() {
    let rig = with_plans();
    for name in ["demo", "epic"] {
        let plan = format!("plans/{name}.toml");
        let text = shown(&rig, &["run", "--dry-run", "--format", "json", &plan]);
        assert_eq!(text.lines().count(), 1, "one object on one line");
        let json: Value = serde_json::from_str(&text).unwrap();
        insta::assert_json_snapshot!(format!("{name}_for_machines"), json);
    }
}

#[test]
fn artifacts_are_told_with_what_they_are_inherited_from() {
    let rig = with_plans();
    let plan = "version = 1\n[epic]\nname = 'e'\n[defaults]\nrunner = 'shell'\nartifacts = ['coverage/**']\n[nodes.a]\nprompt = 'x'\n[nodes.b]\nprompt = 'x'\nartifacts = []\n[nodes.c]\nprompt = 'x'\nartifacts = ['*.xml', '*.xml', 'log']\nartifacts_optional = true\n";
    rig.write("plans/kept.toml", plan);
    let text = shown(&rig, &["run", "--dry-run", "plans/kept.toml"]);
    let told: Vec<&str> = text.lines().filter(|line| line.trim_start().starts_with("artifacts")).collect();
    assert_eq!(told, ["  artifacts   coverage/**", "  artifacts   *.xml, log (optional)"]);
}

#[test]
fn it_writes_nothing_and_needs_neither_engine_nor_key() {
    let rig = with_plans().without("DOCKER_HOST");
    let before = rig.listing();
    for format in ["human", "json"] {
        shown(&rig, &["run", "--dry-run", "--format", format, "plans/epic.toml"]);
    }
    assert_eq!(rig.listing(), before);
}

#[test]
fn resolving_asks_the_engine_which_is_not_there() {
    let rig = Rig::new();
    let before = rig.listing();
    let done = rig.kew(&["run", "--dry-run", "--resolve", "plan.toml"]);
    assert_eq!((done.code, done.out.as_str()), (4, ""), "{}", done.err);
    assert_eq!(rig.listing(), before);
}

#[test]
fn a_part_is_what_the_named_nodes_need_with_its_gates() {
    let rig = with_plans();
    let order = |only: &str| {
        let text = shown(&rig, &["run", "--dry-run", "--only", only, "plans/demo.toml"]);
        let order = text.lines().find_map(|line| line.strip_prefix("order: ")).unwrap().to_owned();
        (order, text)
    };
    let (alone, text) = order("chapter-one");
    assert_eq!(alone, "outline chapter-one");
    assert!(
        !text.contains("notes") && !text.contains("implied"),
        "nodes that do not run are not told of:\n{text}"
    );
    assert_eq!(order("chapter-one,chapter-two").0, "outline chapter-one chapter-two");
    assert!(order("notes").0.contains("spelling editor notes"), "a part keeps its gates");
}

#[test]
fn uncommitted_changes_are_counted() {
    let rig = Rig::new();
    rig.write("new.txt", "x");
    rig.write("plan.toml", format!("{ONE}# changed\n"));
    let text = shown(&rig, &["run", "--dry-run", "plan.toml"]);
    assert!(text.contains("warning: 2 uncommitted changes in the work tree"), "{text}");
}

#[test]
fn jobs_come_from_the_flag_then_the_plan_then_four() {
    let rig = Rig::new();
    let jobs = |args: &[&str]| {
        let mut all = vec!["run", "--dry-run", "--format", "json", "plan.toml"];
        all.extend(args);
        serde_json::from_str::<Value>(&shown(&rig, &all)).unwrap()["max_parallel"].clone()
    };
    assert_eq!(jobs(&[]), 4);
    rig.write("plan.toml", ONE.replace("epic.name = \"e\"", "epic = { name = \"e\", max_parallel = 7 }"));
    rig.commit();
    assert_eq!((jobs(&[]), jobs(&["--jobs", "2"]), jobs(&["-j", "3"])), (7.into(), 2.into(), 3.into()));
}

#[test]
fn the_base_is_the_plans_or_head() {
    let rig = Rig::new();
    let first = rig.git(&["rev-parse", "HEAD"]);
    rig.git(&["branch", "old"]);
    rig.write("more", "x");
    rig.commit();
    let base = |base: &str| {
        rig.write("plan.toml", ONE.replace("epic.name = \"e\"", base));
        let json = rig.kew(&["run", "--dry-run", "--format", "json", "plan.toml"]).out;
        serde_json::from_str::<Value>(&json).unwrap()["base"].as_str().unwrap().to_owned()
    };
    let head = rig.git(&["rev-parse", "HEAD"]);
    assert_eq!(base("epic.name = \"e\""), head);
    for name in ["old", "HEAD^", &first, &first[..8]] {
        assert_eq!(base(&format!("epic = {{ name = \"e\", base = \"{name}\" }}")), first, "{name}");
    }
}

#[test]
fn full_network_access_is_warned_of_and_names_what_it_exposes() {
    let rig = Rig::new().env("ANTHROPIC_API_KEY", "sk-ant-secret");
    rig.user("[sandbox]\nnetwork = \"open\"\n");
    let text = shown(&rig, &["run", "--dry-run", "plan.toml"]);
    assert!(
        text.contains("warning: `sandbox.network = \"open\"`: containers have full network access"),
        "{text}"
    );
    rig.write("plan.toml", AGENT);
    rig.commit();
    let text = shown(&rig, &["run", "--dry-run", "plan.toml"]);
    assert!(text.contains("`ANTHROPIC_API_KEY` inside: a prompt-injected agent can send"), "{text}");
    assert!(!text.contains("sk-ant-secret"));
}
