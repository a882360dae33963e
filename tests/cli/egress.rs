//! What agents may reach, by settings and plans: lists are checked word by word, a repository is measured against the
//! policy, a node only narrows.

use serde_json::Value;

use super::rig::{IMAGES, Rig};

const PLAN: &str = "version = 1\n[epic]\nname = \"net\"\n[defaults]\nrunner = \"claude-code\"\nmodel = \"claude-sonnet-4-5\"\n";

/// A rig with this in the user's file, and this in the repository's.
fn rig(user: &str, repository: &str) -> Rig {
    let rig = Rig::new();
    rig.user(user);
    rig.write("kew.toml", format!("{repository}\n{IMAGES}"));
    rig
}

/// Network and hosts of each node in a dry run.
fn reached(rig: &Rig, nodes: &str) -> Vec<(String, Vec<String>)> {
    rig.write("net.toml", format!("{PLAN}{nodes}"));
    let done = rig.kew(&["run", "--dry-run", "--format", "json", "net.toml"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let shown: Value = serde_json::from_str(&done.out).unwrap();
    let words = |list: &Value| {
        list.as_array().unwrap().iter().map(|host| host.as_str().unwrap().to_owned()).collect()
    };
    let node = |node: &Value| (node["network"].as_str().unwrap().to_owned(), words(&node["allow"]));
    shown["nodes"].as_array().unwrap().iter().map(node).collect()
}

fn hosts(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_list_is_the_settings_and_the_runners_own_hosts_and_a_node_narrows_it() {
    let rig = rig("[sandbox]\nallow = [\"go\", \"npm.acme.example:8443\"]\n", "");
    let found = reached(
        &rig,
        "[nodes.a]\nprompt = \"x\"\n[nodes.b]\nallow = [\"sum.golang.org\"]\nprompt = \"x\"\n[nodes.c]\nrunner = \"shell\"\nallow = []\nprompt = \"x\"\n[nodes.d]\nnetwork = \"none\"\nprompt = \"x\"\n",
    );
    let all = hosts(&["api.anthropic.com", "npm.acme.example:8443", "proxy.golang.org", "sum.golang.org"]);
    assert_eq!(found[0], ("allowlist".into(), all));
    assert_eq!(found[1], ("allowlist".into(), hosts(&["api.anthropic.com", "sum.golang.org"])));
    assert_eq!(found[2], ("allowlist".into(), hosts(&[])));
    assert_eq!(found[3], ("none".into(), hosts(&[])));
}

#[test]
fn a_node_narrows_an_open_network_to_a_list() {
    let rig = rig("[sandbox]\nnetwork = \"open\"\n", "");
    let found = reached(&rig, "[nodes.a]\nallow = [\"rust\"]\nprompt = \"x\"\n[nodes.b]\nprompt = \"x\"\n");
    assert_eq!(found[0].0, "allowlist");
    assert!(found[0].1.contains(&"index.crates.io".to_owned()));
    assert_eq!(found[1], ("open".into(), hosts(&[])));
}

#[test]
fn a_slip_in_a_list_says_what_there_is() {
    for (word, says) in [
        ("rsut", "did you mean `rust`?"),
        ("*.acme.example", "wildcard"),
        ("https://acme.example", "host alone"),
        ("10.0.0.1", "an address"),
    ] {
        rig(&format!("[sandbox]\nallow = [\"crates.io\", \"{word}\"]\n"), "")
            .refused(&["check", "plan.toml"], &["`sandbox.allow`", says, "git-hosting"]);
    }
}

#[test]
fn the_policy_closes_what_a_repository_asks_for() {
    let user = "[policy]\nallow_max = [\"rust\"]\nimages_max = [\"kew-*\"]\n";
    let asks = |allow: &str| rig(user, &format!("[sandbox]\nallow = [{allow}]"));
    assert_eq!(asks("\"crates.io\"").kew(&["check", "plan.toml"]).code, 0);
    asks("\"crates.io\", \"npm.acme.example\"")
        .refused(&["check", "plan.toml"], &["`npm.acme.example`", "`policy.allow_max`"]);
    let rig = rig(user, "[sandbox.toolchains.x.images]\nshell = \"acme/evil\"");
    rig.refused(&["check", "plan.toml"], &["acme/evil", "`policy.images_max`"]);
}

#[test]
fn an_open_network_can_be_forbidden() {
    let rig = rig("[policy]\nnetwork_open = \"forbidden\"\n", "");
    assert_eq!(rig.kew(&["check", "plan.toml"]).code, 0);
    let rig = rig.env("KEW_SANDBOX__NETWORK", "open");
    rig.refused(&["check", "plan.toml"], &["`policy.network_open`", "forbidden"]);
}
