//! The real claude CLI in the real image, against a scripted provider on the docker bridge.

#[path = "../support/mock_llm.rs"]
pub mod mock_llm;

use std::net::IpAddr;

use self::mock_llm::{MockLlm, Reply, two_steps};
use crate::{
    contain::docker_build,
    rig::{Ran, Rig, docker, git},
};

/// The host's address on docker's default bridge.
pub fn bridge() -> IpAddr {
    let config = docker(&["network", "inspect", "bridge", "--format", "{{json (index .IPAM.Config 0)}}"]);
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    // Some engines name the gateway, others leave it at the first address of the subnet.
    if let Some(gateway) = config["Gateway"].as_str() {
        return gateway.parse().unwrap();
    }
    let subnet = config["Subnet"].as_str().unwrap().split_once('/').unwrap().0;
    let network: std::net::Ipv4Addr = subnet.parse().unwrap();
    IpAddr::V4(std::net::Ipv4Addr::from_bits(network.to_bits() + 1))
}

/// A run of one claude node against this script; the image differs from the real one only in where the provider is.
fn claude(script: Vec<Reply>, keys: &str) -> (Rig, Ran, Vec<mock_llm::Request>) {
    let mut rig = Rig::new();
    let mock = MockLlm::start(bridge(), script).unwrap();
    let image = format!("kew-test-claude-{}", mock.port());
    docker_build(
        &image,
        &format!("FROM kew-agent\nENV ANTHROPIC_BASE_URL=http://{}:{}\n", bridge(), mock.port()),
    );
    rig.settings(&format!(
        "[sandbox]\nnetwork = \"open\"\ncheckout_dir = \"{}\"\n[sandbox.images]\nclaude-code = \"{image}\"\n",
        rig.checkouts
    ));
    rig.env.insert("ANTHROPIC_API_KEY".into(), "sk-ant-test-key-0123456789".into());
    let text = format!(
        "version = 1\n[epic]\nname = \"real\"\n[nodes.a]\nrunner = \"claude-code\"\nmodel = \"claude-sonnet-4-5\"\ntimeout = \"2m\"\nprompt = \"Write out.txt and commit it.\"\n{keys}\n"
    );
    let plan = rig.root.join("real.toml");
    std::fs::write(&plan, text).unwrap();
    let ran = rig.run(&plan);
    docker(&["rmi", &image]);
    let requests = mock.requests();
    (rig, ran, requests)
}

#[test]
fn docker_claude_does_a_node_and_its_spend_is_right() {
    let (rig, ran, requests) = claude(
        two_steps("echo hello > out.txt && git add -A && git commit -qm 'Write out.txt'", "Done."),
        "",
    );
    ran.expect(0);
    let ended = ran.ended("a");
    assert_eq!(
        ended["tokens"],
        serde_json::json!({ "input": 33, "output": 77, "cache_read": 1000, "cache_write": 1050 })
    );
    assert!((ended["cost_usd"].as_f64().unwrap() - 0.005_491_5).abs() < 1e-9, "{ended}");
    assert_eq!(ended["commits"], 1);
    let git_ref = ended["git_ref"].as_str().unwrap();
    assert_eq!(git(&rig.repo, &["show", &format!("{git_ref}:out.txt")]), "hello");
    let author = git(&rig.repo, &["log", "-1", "--format=%an <%ae>", git_ref]);
    assert_eq!(author, "kew-agent <agent@kew.local>");
    let asked: Vec<_> = requests.iter().filter(|request| request.scripted()).collect();
    assert_eq!(asked[0].header("x-api-key"), Some("sk-ant-test-key-0123456789"));
    let shown = rig.kew(&["show"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("claude-sonnet-4-5"), "{shown}");
    assert!(ran.events.iter().any(|event| event["type"] == "warning"
        && event["message"].as_str().unwrap().contains("ANTHROPIC_API_KEY")));
}

#[test]
fn docker_claude_that_commits_nothing_fails() {
    let (_, ran, _) = claude(two_steps("echo hello > out.txt", "Done."), "");
    ran.expect(1);
    assert!(ran.outcome("a").starts_with("uncommitted-work: "), "{}", ran.outcome("a"));
}

#[test]
fn docker_claude_with_a_refused_key_is_stopped_early() {
    let refused = Reply::Error { status: 401, message: "invalid x-api-key".into(), retry_after: None };
    let (_, ran, _) = claude(vec![refused], "");
    ran.expect(1);
    assert!(ran.outcome("a").starts_with("credential-refused: HTTP 401"), "{}", ran.outcome("a"));
}

#[test]
fn docker_claude_reviews_by_its_sidecar() {
    let verdict =
        r#"printf '{"verdict":"approve","summary":"fine","findings":[]}' > /work/.kew-review-verdict.json"#;
    let reviewer = "[nodes.r]\nrunner = \"claude-code\"\nmodel = \"claude-sonnet-4-5\"\nreviews = \"a\"\nprompt = \"Review it.\"";
    let mut script = two_steps("echo hello > out.txt && git add -A && git commit -qm x", "Done.");
    script.extend(two_steps(verdict, "Approved."));
    let (_, ran, requests) = claude(script, reviewer);
    ran.expect(0);
    let told = ran.of_node("verdict", "r");
    assert_eq!((&told[0]["verdict"], &told[0]["summary"]), (&"approve".into(), &"fine".into()));
    let brief = requests.iter().rfind(|request| request.scripted()).unwrap().body.to_string();
    assert!(brief.contains("/work/.kew-review-verdict.json"), "{brief}");
}
