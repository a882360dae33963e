//! What holds for every agent's image without asking a provider: nothing runs without a prompt; an image that no runner
//! understands runs, is logged, and is called cost-blind; and no container sees another runner's credential.

use crate::{
    agents::{CLAUDE, HERMES, KEY, OPENCODE, PI},
    contain::docker_build,
    rig::{Rig, docker},
};

#[test]
fn docker_no_agent_starts_without_a_prompt() {
    let rig = Rig::new();
    let folder = rig.root.join("work");
    std::fs::create_dir(&folder).unwrap();
    let try_sh = concat!(env!("CARGO_MANIFEST_DIR"), "/docker/try.sh");
    for prompt in [None, Some("")] {
        if let Some(text) = prompt {
            std::fs::write(folder.join(".kew-prompt.txt"), text).unwrap();
        }
        for cli in [&CLAUDE, &OPENCODE, &PI, &HERMES] {
            let args = ["--network", "none", folder.as_str(), cli.image, "--model", cli.model];
            let ended = std::process::Command::new(try_sh).args(args).output().unwrap();
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert_eq!(ended.status.code(), Some(64), "{}: {said}", cli.image);
            assert!(ended.stdout.is_empty() && said.contains("kew: "), "{}: {said}", cli.image);
        }
    }
}

/// An image that speaks no runner's vocabulary and says on stderr which variables it has.
#[test]
fn docker_an_image_that_nobody_understands_is_cost_blind_and_sees_only_its_own_credential() {
    let mut rig = Rig::new();
    let image = format!("kew-test-stranger-{}", std::process::id());
    docker_build(
        &image,
        r#"FROM kew-shell
ENTRYPOINT ["/bin/sh", "-c", "env | cut -d= -f1 >&2; echo '{\"kind\":\"hello\"}'; echo prose"]
"#,
    );
    let (mut images, mut nodes) = (String::new(), String::new());
    let agents = [&CLAUDE, &OPENCODE, &PI, &HERMES];
    for cli in agents {
        images.push_str(&format!("{} = \"{image}\"\n", cli.runner));
        nodes.push_str(&format!(
            "[nodes.{0}]\nrunner = \"{0}\"\nmodel = \"{1}\"\nnetwork = \"none\"\nprompt = \"x\"\n",
            cli.runner, cli.model
        ));
    }
    rig.settings(&format!("[sandbox]\ncheckout_dir = \"{}\"\n[sandbox.images]\n{images}", rig.checkouts));
    let names = ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "OPENROUTER_API_KEY"];
    for name in names {
        rig.env.insert(name.into(), KEY.into());
    }
    let plan = rig.root.join("strangers.toml");
    std::fs::write(&plan, format!("version = 1\n[epic]\nname = \"strangers\"\n{nodes}")).unwrap();
    let ran = rig.run(&plan);
    docker(&["rmi", &image]);
    ran.expect(1);
    for cli in agents {
        let runner = cli.runner;
        assert!(ran.outcome(runner).starts_with("failed: no end marker from the agent (exit status 0)"));
        let ended = ran.ended(runner);
        assert_eq!(
            (&ended["cost_usd"], &ended["cost_source"]),
            (&serde_json::Value::Null, &"unknown".into())
        );
        let blind = format!("`{runner}`: no line that it wrote means anything to the runner `{runner}`");
        let warned = ran.events.iter().any(|event| {
            event["type"] == "warning" && event["message"].as_str().unwrap().starts_with(&blind)
        });
        assert!(warned, "{runner}: {:#?}", ran.events);
        let log = |name: &str| {
            std::fs::read_to_string(format!("{}/{name}", ended["logs"].as_str().unwrap())).unwrap()
        };
        assert_eq!(log("stdout.log"), "{\"kind\":\"hello\"}\nprose\n");
        let inside = log("stderr.log");
        let seen: Vec<&str> =
            names.into_iter().filter(|name| inside.lines().any(|line| line == *name)).collect();
        let own: &[&str] = if runner == "claude-code" { &names[..2] } else { &names[2..] };
        assert_eq!(seen, own, "{runner}");
    }
    assert_eq!(ran.events.last().unwrap()["cost_at_least"], true);
}
