//! Every schema: what the program prints is what is committed, it is a schema, and it knows good from bad.
//!
//! `KEW_REFRESH=1 cargo nextest run schemas` writes the committed ones anew.

use std::{fs, sync::LazyLock};

use jsonschema::Validator;
use kew::units;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::rig::{Rig, project};

const ALL: [&str; 5] = ["plan", "settings", "verdict", "event", "agent-event"];

fn printed(name: &str) -> String {
    let done = Rig::bare().kew(&["schema", name]);
    assert_eq!((done.code, done.err.as_str()), (0, ""));
    done.out
}

fn validator(name: &str) -> Validator {
    let schema: Value = serde_json::from_str(&printed(name)).unwrap();
    jsonschema::validator_for(&schema).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn toml_as_json(text: &str) -> Option<Value> {
    serde_json::to_value(text.parse::<toml::Table>().ok()?).ok()
}

#[track_caller]
fn valid(validator: &Validator, value: &Value) {
    let errors: Vec<String> =
        validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{value}\n{}", errors.join("\n"));
}

#[test]
fn the_committed_schemas_are_those_that_are_printed() {
    let mut known: Vec<String> = Vec::new();
    for name in ALL {
        let file = format!("{name}.schema.json");
        let path = project().join("schemas").join(&file);
        let wanted = printed(name);
        if std::env::var_os("KEW_REFRESH").is_some() {
            fs::write(&path, &wanted).unwrap();
        }
        let committed = fs::read_to_string(&path).unwrap_or_default();
        assert!(committed == wanted, "schemas/{file} is out of date: run this test with KEW_REFRESH=1");
        known.push(file);
    }
    for entry in project().join("schemas").read_dir_utf8().unwrap().map(Result::unwrap) {
        assert!(known.contains(&entry.file_name().to_owned()), "nobody prints {}", entry.path());
    }
}

#[test]
fn plan_is_the_default() {
    let done = Rig::bare().kew(&["schema"]);
    assert_eq!(done.out, printed("plan"));
}

#[test]
fn each_is_a_schema_with_a_title_and_says_which_draft() {
    for name in ALL {
        let schema: Value = serde_json::from_str(&printed(name)).unwrap();
        assert!(jsonschema::meta::is_valid(&schema), "{name}");
        assert!(schema["$schema"].as_str().is_some_and(|uri| uri.contains("json-schema.org")), "{name}");
        let title = schema["title"].as_str().unwrap_or_default();
        assert!(title.starts_with("kew "), "{name}: `{title}` says nothing to whoever reads it in an editor");
        validator(name);
    }
}

#[test]
fn plans_of_the_project_are_valid() {
    let validator = validator("plan");
    let mut seen = 0;
    for entry in project().join("plans").read_dir_utf8().unwrap().map(Result::unwrap) {
        if entry.path().extension() == Some("toml") {
            valid(&validator, &toml_as_json(&fs::read_to_string(entry.path()).unwrap()).unwrap());
            seen += 1;
        }
    }
    assert!(seen >= 2);
}

/// Codes of problems whose plans a schema can tell: keys, shapes, words, ranges and names, all within one table.
const SHAPES: [&str; 12] = [
    "E0103", "E0104", "E0105", "E0106", "E0107", "E0108", "E0201", "E0202", "E0203", "E0204", "E0205",
    "E0308",
];

/// Plans of those codes that are bad only for what a schema cannot see, with why.
const BEYOND: [(&str, &str); 0] = [];

#[test]
fn bad_plans_are_refused_where_a_schema_can_know() {
    let validator = validator("plan");
    let (mut refused, mut wrong) = (0, Vec::new());
    for entry in project().join("tests/fixtures/plans").read_dir_utf8().unwrap().map(Result::unwrap) {
        let name = entry.file_name();
        let Some(plan) = toml_as_json(&fs::read_to_string(entry.path()).unwrap()) else { continue };
        if !SHAPES.contains(&&name[..5]) || BEYOND.iter().any(|(beyond, _)| *beyond == name) {
            continue;
        }
        refused += 1;
        if validator.is_valid(&plan) {
            wrong.push(name.to_owned());
        }
    }
    assert!(wrong.is_empty(), "the schema takes them: {wrong:?}");
    assert!(refused >= 10, "{refused}");
}

#[test]
fn settings_of_the_project_are_valid_and_wrong_ones_are_not() {
    let validator = validator("settings");
    let text = fs::read_to_string(project().join("kew.toml")).unwrap();
    assert!(text.starts_with("#:schema schemas/settings.schema.json\n"));
    valid(&validator, &toml_as_json(&text).unwrap());
    valid(&validator, &json!({}));
    valid(&validator, &json!({ "sandbox": { "memory": "8GiB", "cpus": 1.5, "network": "none" } }));
    valid(&validator, &json!({ "sandbox": { "toolchains": { "rust": { "images": { "shell": "x" } } } } }));
    for wrong in [
        json!({ "sandbax": {} }),
        json!({ "sandbox": { "network": "closed" } }),
        json!({ "sandbox": { "memory": 4 } }),
        json!({ "sandbox": { "memory": "much" } }),
        json!({ "sandbox": { "memory": "4GB" } }),
        json!({ "sandbox": { "pids_limit": -1 } }),
        json!({ "sandbox": { "images": { "shell": 3 } } }),
        json!({ "sandbox": { "netwrok": "none" } }),
        json!({ "state": { "dirr": "x" } }),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong}");
    }
}

proptest! {
    #[test]
    fn a_size_is_one_for_the_schema_if_it_is_one_for_the_reader(
        text in prop_oneof!["[0-9]{0,4} ?[bkmgtpiBKMGTPI]{0,3}", "[0-9]{1,3}[kmgtpKMGTP][iI]?[bB]?", "\\PC{0,5}"],
    ) {
        let schema = SIZE.is_valid(&json!({ "sandbox": { "memory": text } }));
        prop_assert_eq!(schema, units::parse_size(&text).is_ok(), "`{}`", text);
    }

    #[test]
    fn a_length_of_time_is_one_for_the_schema_if_it_is_one_for_the_reader(
        text in prop_oneof!["([0-9]{0,3}[dhmsDHMS ]?){0,4}", "\\PC{0,5}"],
    ) {
        let plan = json!({
            "version": 1, "epic": { "name": "e" }, "nodes": { "a": { "prompt": "x", "timeout": text } },
        });
        // Zero is a length, but no timeout; a pattern cannot tell.
        let length = units::parse_duration(&text);
        if length != Ok(std::time::Duration::ZERO) {
            prop_assert_eq!(PLAN.is_valid(&plan), length.is_ok(), "`{}`", text);
        }
    }
}

static SIZE: LazyLock<Validator> = LazyLock::new(|| validator("settings"));
static PLAN: LazyLock<Validator> = LazyLock::new(|| validator("plan"));

#[test]
fn verdicts() {
    let validator = validator("verdict");
    valid(&validator, &json!({ "verdict": "approve", "summary": "good", "findings": [] }));
    let finding = json!({ "severity": "major", "message": "m", "path": "a.rs", "line": 3 });
    valid(&validator, &json!({ "verdict": "request_changes", "summary": "s", "findings": [finding] }));
    for wrong in [
        json!({ "verdict": "approved", "summary": "good", "findings": [] }),
        json!({ "verdict": "approve", "findings": [] }),
        json!({ "verdict": "approve", "summary": "good", "findings": [], "more": 1 }),
        json!({ "verdict": "approve", "summary": "good", "findings": [{ "severity": "bad", "message": "m" }] }),
        json!([]),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong}");
    }
}

#[test]
fn lines_of_images() {
    let validator = validator("agent-event");
    for line in [
        json!({ "type": "output", "text": "x" }),
        json!({ "type": "usage", "input": 1, "output": 2, "cache_read": 0, "cache_write": 0 }),
        json!({ "type": "result", "exit_code": 0 }),
    ] {
        valid(&validator, &line);
    }
    for wrong in
        [json!({ "type": "result" }), json!({ "type": "shout", "text": "x" }), json!({ "text": "x" })]
    {
        assert!(!validator.is_valid(&wrong), "{wrong}");
    }
}

#[test]
fn events() {
    // Events of whole runs are validated where runs are played; here is that the schema refuses anything.
    let validator = validator("event");
    let head = json!({ "v": 1, "seq": 1, "time": 1_796_122_007_876_i64, "run": "20261201-093000-k3f9" });
    let with = |rest: Value| {
        let mut event = head.clone();
        event.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        event
    };
    valid(&validator, &with(json!({ "type": "warning", "message": "m" })));
    for wrong in [
        with(json!({})),
        with(json!({ "type": "warning" })),
        with(json!({ "type": "warned", "message": "m" })),
        with(json!({ "type": "warning", "message": "m", "seq": "one" })),
        json!({ "type": "warning", "message": "m" }),
    ] {
        assert!(!validator.is_valid(&wrong), "{wrong}");
    }
}
