//! `kew sandbox doctor` over real images, good and bad; and which credentials are inside.

use serde_json::Value;

use crate::{
    contain::docker_build,
    rig::{Rig, docker},
};

/// Checks of the doctor, with its exit code.
fn doctor(rig: &Rig, args: &[&str]) -> (i32, Vec<Value>) {
    let output = rig.kew(&[&["sandbox", "doctor", "--format", "json"], args].concat());
    rig.no_checkouts();
    let text = String::from_utf8(output.stdout).unwrap();
    let checks: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!checks.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    (output.status.code().unwrap(), checks)
}

/// `level: says` of one check.
fn of(checks: &[Value], subject: &str, check: &str) -> String {
    let found = checks.iter().find(|c| c["subject"] == subject && c["check"] == check);
    let found = found.unwrap_or_else(|| panic!("no check `{check}` of `{subject}` in {checks:#?}"));
    if found["level"] != "ok" {
        assert!(found["remedy"].is_string(), "no remedy: {found}");
    }
    format!("{}: {}", found["level"].as_str().unwrap(), found["says"].as_str().unwrap())
}

#[test]
fn docker_the_doctor_finds_nothing_wrong_with_a_good_image() {
    let rig = Rig::new();
    let (code, checks) = doctor(&rig, &["--runner", "shell"]);
    assert_eq!(code, 0, "{checks:#?}");
    for (check, says) in [
        ("user", "ok: uid 1001"),
        ("home", "ok: /home/agent, 0700"),
        ("no prompt", "ok: refused with exit status 64"),
        ("empty prompt", "ok: refused with exit status 64"),
    ] {
        assert_eq!(of(&checks, "shell", check), says);
    }
    assert!(of(&checks, "shell", "commit").starts_with("ok: git version 2."));
    assert!(of(&checks, "shell", "image").contains("sha256:"));
    assert!(of(&checks, "engine", "network").starts_with("ok: "));
    assert!(of(&checks, "engine", "runc").contains(": "));
    let human = rig.kew(&["sandbox", "doctor", "--runner", "shell"]);
    let human = String::from_utf8(human.stdout).unwrap();
    assert_eq!(human.lines().count(), checks.len(), "one line for each check: {human}");
    assert!(human.contains("\nok   shell: no prompt: refused with exit status 64\n"), "{human}");
}

#[test]
fn docker_the_doctor_says_what_a_bad_image_lacks() {
    let mut rig = Rig::new();
    rig.env.insert("ANTHROPIC_API_KEY".into(), "secret-value".into());
    let tag = |name: &str| format!("kew-test-doctor-{name}-{}", std::process::id());
    let bad = "FROM kew-shell\nLABEL kew.test=doctor\nUSER root\nRUN rm /usr/bin/git && chmod 0755 /home/agent\nENTRYPOINT [\"/bin/true\"]\n";
    docker_build(&tag("bad"), bad);
    // It starts its agent, which answers nothing, with whatever it is given.
    docker_build(&tag("eager"), "FROM kew-shell\nLABEL kew.test=doctor\nENTRYPOINT [\"/bin/false\"]\n");
    rig.settings(&format!(
        "[sandbox]\nnetwork = \"none\"\ncheckout_dir = \"{}\"\n[sandbox.images]\nclaude-code = \"{}\"\nshell = \"{}\"\n\
         [sandbox.toolchains.none.images]\nshell = \"kew-test-no-such-image\"\n",
        rig.checkouts,
        tag("eager"),
        tag("bad"),
    ));
    let (code, checks) = doctor(&rig, &[]);
    assert_eq!(code, 4, "{checks:#?}");
    assert_eq!(of(&checks, "shell", "user"), "fail: the user is 0, not 1001");
    assert_eq!(of(&checks, "shell", "home"), "fail: /home/agent has the mode 755, not 0700");
    assert_eq!(of(&checks, "shell", "commit"), "fail: there is no git");
    assert_eq!(of(&checks, "shell", "no prompt"), "fail: taken: the entrypoint ended with 0");
    assert!(of(&checks, "claude-code", "program").starts_with("fail: claude --version: exit status 127"));
    assert!(of(&checks, "claude-code", "empty prompt").starts_with("warn: exit status 1, not 64"));
    assert!(of(&checks, "shell (toolchain none)", "image").starts_with("fail: no such image"));
    assert_eq!(
        of(&checks, "claude-code", "credentials"),
        "ok: ANTHROPIC_API_KEY set, CLAUDE_CODE_OAUTH_TOKEN unset"
    );
    assert!(!format!("{checks:?}").contains("secret-value"));
    for name in ["bad", "eager"] {
        docker(&["rmi", &tag(name)]);
    }
}

#[test]
fn docker_only_the_chosen_credential_is_inside() {
    let mut rig = Rig::new();
    rig.env.insert("ANTHROPIC_API_KEY".into(), "secret-one".into());
    rig.env.insert("CLAUDE_CODE_OAUTH_TOKEN".into(), "secret-two".into());
    let tag = format!("kew-test-chosen-{}", std::process::id());
    docker_build(
        &tag,
        "FROM kew-shell\nLABEL kew.test=chosen\nUSER root\nRUN printf '#!/bin/bash\\n\
         names=\"$(env | cut -d= -f1 | grep -E \"ANTHROPIC|CLAUDE|OPENROUTER\" | sort | tr \"\\\\n\" \" \")\"\\n\
         jq -cn --arg t \"$names\" \"{type:\\\\\"result\\\\\",is_error:false,subtype:\\\\\"success\\\\\",result:\\\\$t}\"\\n' \
         > /entry && chmod 0755 /entry\nUSER agent\nENTRYPOINT [\"/entry\"]\n",
    );
    let plan = rig.plan(
        "[nodes.a]\nrunner = 'claude-code'\nmodel = 'sonnet'\ncommits = 'optional'\nprompt = 'hello'\n",
    );
    for (choice, inside) in [
        ("", "ANTHROPIC_API_KEY CLAUDE_CODE_OAUTH_TOKEN "),
        ("[credentials]\nclaude-code = \"CLAUDE_CODE_OAUTH_TOKEN\"\n", "CLAUDE_CODE_OAUTH_TOKEN "),
    ] {
        rig.settings(&format!(
            "[sandbox]\ncheckout_dir = \"{}\"\n[sandbox.images]\nclaude-code = \"{tag}\"\n{choice}",
            rig.checkouts
        ));
        let ran = rig.run(&plan);
        ran.expect(0);
        let log = format!(".git/kew/runs/{}/a/1/stdout.log", ran.run_id().unwrap());
        let log = std::fs::read_to_string(rig.repo.join(log)).unwrap();
        let result: Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        assert_eq!(result["result"], inside, "{choice}");
        let warned = format!("{:?}", ran.events).contains("uses and bills `ANTHROPIC_API_KEY`");
        assert_eq!(warned, choice.is_empty(), "{:#?}", ran.events);
    }
    docker(&["rmi", &tag]);
}
