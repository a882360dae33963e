//! A runner of one's own: an image that speaks the published vocabulary, defined in the user's settings alone.

use crate::{
    contain::docker_build,
    rig::{Rig, git},
};

/// A made-up agent: reads its prompt, commits, and tells what it used.
const AGENT: &str = r#"FROM kew-shell
USER root
RUN printf '%s\n' '#!/bin/bash' '. /usr/local/lib/kew/entrypoint-lib.sh' \
    'echo "{\"type\":\"session\",\"id\":\"s-1\"}"' \
    'echo "{\"type\":\"model\",\"name\":\"real-$2\"}"' \
    'cat "${KEW_PROMPT_FILE:-/work/.kew-prompt.txt}" > answer.txt; git add answer.txt; git commit -qm answer' \
    'echo "{\"type\":\"usage\",\"input\":5,\"output\":7,\"cache_read\":0,\"cache_write\":0}"' \
    'echo "{\"type\":\"usage\",\"input\":5,\"output\":7,\"cache_read\":3,\"cache_write\":0}"' \
    'echo "{\"type\":\"cost\",\"usd\":0.25}"' \
    'echo "{\"type\":\"output\",\"text\":\"args: $*, key: ${MY_AGENT_KEY:+set}, other: ${ANTHROPIC_API_KEY:-none}\"}"' \
    'echo "{\"type\":\"result\",\"exit_code\":0,\"text\":\"done\"}"' > /usr/local/bin/mine && chmod 0755 /usr/local/bin/mine
USER agent
ENTRYPOINT ["/usr/local/bin/mine"]
"#;

#[test]
fn docker_a_made_up_agent_runs_by_its_definition() {
    let mut rig = Rig::new();
    docker_build("kew-test-mine", AGENT);
    rig.env.insert("MY_AGENT_KEY".into(), "key-0123456789".into());
    rig.env.insert("ANTHROPIC_API_KEY".into(), "sk-not-for-mine".into());
    rig.settings(&format!(
        "[sandbox]\ncheckout_dir = \"{}\"\n[sandbox.images]\nmine = \"kew-test-mine\"\n\
         [runners.mine]\nargs = [\"--model\", \"{{model}}\"]\ncredentials = [\"MY_AGENT_KEY\"]\nmodels = [\"small-*\"]\n",
        rig.checkouts
    ));
    let node = |model: &str| {
        rig.plan(&format!("[nodes.a]\nrunner = 'mine'\nmodel = '{model}'\nprompt = 'Answer this.'\n"))
    };
    let ran = rig.run(&node("small-1"));
    ran.expect(0);
    let ended = ran.ended("a");
    let tokens = serde_json::json!({ "input": 10, "output": 14, "cache_read": 3, "cache_write": 0 });
    assert_eq!(ended["tokens"], tokens);
    assert_eq!((&ended["cost_usd"], &ended["cost_source"]), (&0.25.into(), &"estimate".into()));
    let answer = git(&rig.repo, &["show", &format!("{}:answer.txt", ended["git_ref"].as_str().unwrap())]);
    assert!(answer.contains("Answer this.") && answer.contains("kew/test/a"), "the brief is there: {answer}");
    let seen = rig.output(ran.run_id().unwrap(), "a");
    assert!(seen.starts_with("args: --model small-1, key: set, other: none\n"), "{seen}");
    let shown = rig.kew(&["show"]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("real-small-1"));

    let refused = rig.kew(&["check", node("large").as_str(), "--repo", rig.repo.as_str()]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("runners.mine.models"));
}
