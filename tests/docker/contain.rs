//! What a node sees from inside, and what the host shows of it from outside.

use std::process::Command;

use crate::rig::{Rig, docker, git, prompt, until};

#[test]
fn docker_from_inside_a_node_everything_is_closed() {
    let mut rig = Rig::new();
    rig.env.insert("GITHUB_TOKEN".into(), "ghp_not_for_agents".into());
    rig.env.insert("ANTHROPIC_API_KEY".into(), "sk-not-for-shell".into());
    // The docker client would hand these to every container.
    std::fs::create_dir(rig.root.join(".docker")).unwrap();
    let proxies = r#"{"proxies":{"default":{"httpProxy":"http://user:password@proxy.example:3128"}}}"#;
    std::fs::write(rig.root.join(".docker/config.json"), proxies).unwrap();
    let script = r#"
env | grep -ci proxy | sed 's/^/proxies: /'
echo "uid $(id -u) gid $(id -g)"
grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status | tr '\t' ' '
touch /x 2>/dev/null && echo "root writable" || echo "root read-only"
printf '#!/bin/sh\necho ran\n' > /tmp/x; chmod +x /tmp/x; /tmp/x 2>/dev/null || echo "tmp noexec"
printf '#!/bin/sh\necho home exec\n' > ~/x; chmod +x ~/x; ~/x
stat -c 'home %a %u' ~
echo "binds: $(awk '$4 !~ /^\/$/ || 1 {print $5}' /proc/self/mountinfo | grep -vE '^/(proc|sys|dev|etc/(hosts|hostname|resolv.conf)|tmp|home/agent|sbin/docker-init|usr/sbin/docker-init)?(/|$)' | tr '\n' ' ')"
env | grep -cE 'TOKEN|API_KEY' | sed 's/^/credentials: /'
test -e /work/.kew-prompt.txt && stat -c 'prompt %a' /work/.kew-prompt.txt
git status --porcelain | wc -l | sed 's/^/dirty: /'
git remote | wc -l | sed 's/^/remotes: /'
ls -d /var/run/docker.sock 2>/dev/null || echo "no socket"
timeout 3 bash -c 'exec 3<>/dev/tcp/172.17.0.1/22' 2>/dev/null && echo "host reachable" || echo "host unreachable"
"#;
    let plan = rig.plan(&format!("[nodes.inside]\n{}\n", prompt(script)));
    let ran = rig.run(&plan);
    ran.expect(0);
    let seen = rig.output(ran.run_id().unwrap(), "inside");
    insta::assert_snapshot!(seen, @r"
    proxies: 0
    uid 1001 gid 1001
    CapEff: 0000000000000000
    CapBnd: 0000000000000000
    NoNewPrivs: 1
    Seccomp: 2
    root read-only
    tmp noexec
    home exec
    home 700 1001
    binds: /work 
    credentials: 0
    prompt 444
    dirty: 0
    remotes: 0
    no socket
    host unreachable
    ");
}

#[test]
fn docker_ps_shows_no_credential_and_the_log_neither() {
    let mut rig = Rig::new();
    let secret = "sk-ant-oat01-abcdefghijklmnop";
    rig.env.insert("ANTHROPIC_API_KEY".into(), secret.into());
    // The runner's own program is replaced: what counts is how the credential gets in, not what claude does with it.
    docker_build(
        "kew-test-echo",
        "FROM kew-agent\nUSER root\nRUN printf '#!/bin/bash\\ncat >/dev/null\\nsleep 3\\nenv | grep ANTHROPIC >&2\\n\
         jq -cn --arg t \"$ANTHROPIC_API_KEY\" \"{type:\\\\\"result\\\\\",is_error:false,subtype:\\\\\"success\\\\\",result:\\\\$t,session_id:\\\\\"s\\\\\"}\"\\n' > /usr/local/bin/claude\nUSER agent\n",
    );
    rig.settings(&format!(
        "[sandbox]\ncheckout_dir = \"{}\"\n[sandbox.images]\nclaude-code = \"kew-test-echo\"\n",
        rig.checkouts
    ));
    let plan = rig.plan("[nodes.a]\nrunner = 'claude-code'\nmodel = 'claude-sonnet-4-5'\ncommits = 'optional'\nprompt = 'hello'\n");
    let running = rig.start(&plan);
    running.wait_for_container("a");
    let listing = Command::new("ps").args(["axww", "-o", "args"]).output().unwrap();
    let listing = String::from_utf8_lossy(&listing.stdout).into_owned();
    assert!(listing.contains("-e ANTHROPIC_API_KEY -e CLAUDE_CODE_OAUTH_TOKEN"), "{listing}");
    assert!(!listing.contains(secret), "the credential is in an argv");
    let ran = running.end();
    ran.expect(0);
    let run = ran.run_id().unwrap();
    for log in ["stdout.log", "stderr.log"] {
        let text = std::fs::read_to_string(rig.repo.join(format!(".git/kew/runs/{run}/a/1/{log}"))).unwrap();
        assert!(text.contains("ANTHROPIC_API_KEY") && !text.contains(secret), "{log}: {text}");
    }
    let everything = Command::new("grep").args(["-rl", secret, rig.repo.as_str()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&everything.stdout), "", "the credential is on disk");
}

#[test]
fn docker_a_credential_in_a_verdict_is_masked_everywhere() {
    let mut rig = Rig::new();
    let secret = "sk-ant-oat01-abcdefghijklmnop";
    rig.env.insert("ANTHROPIC_API_KEY".into(), secret.into());
    let tag = "kew-test-telltale";
    docker_build(
        tag,
        "FROM kew-agent\nUSER root\nRUN printf '#!/bin/bash\\ncat >/dev/null\\n\
         jq -n --arg t \"my key is $ANTHROPIC_API_KEY\" \"{verdict:\\\\\"approve\\\\\",summary:\\\\$t,findings:[]}\" > /work/.kew-review-verdict.json\\n\
         jq -cn \"{type:\\\\\"result\\\\\",is_error:false,subtype:\\\\\"success\\\\\",session_id:\\\\\"s\\\\\"}\"\\n' > /usr/local/bin/claude\nUSER agent\n",
    );
    rig.settings(&format!(
        "[sandbox]\ncheckout_dir = \"{}\"\n[sandbox.images]\nshell = \"kew-shell\"\nclaude-code = \"{tag}\"\n",
        rig.checkouts
    ));
    let plan = rig.plan(
        "[nodes.work]\nprompt = 'true'\n[nodes.judge]\nreviews = 'work'\nrunner = 'claude-code'\nmodel = 'sonnet'\nprompt = 'x'\n",
    );
    let ran = rig.run(&plan);
    ran.expect(0);
    let summary = ran.of_node("verdict", "judge")[0]["summary"].as_str().unwrap().to_owned();
    assert!(summary.starts_with("my key is ") && summary.contains("ANTHROPIC_API_KEY"), "{summary}");
    let left = Command::new("grep").args(["-rl", secret, rig.repo.as_str()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "the credential is on disk");
}

#[test]
fn docker_the_allowlist_network_lets_nothing_out() {
    let rig = Rig::new();
    let text = format!(
        "version = 1\n[epic]\nname = \"net\"\n[defaults]\nrunner = \"shell\"\n[nodes.a]\n{}\n",
        prompt(
            "getent hosts example.org | cut -d' ' -f1; curl -skm 5 https://example.org && echo out || echo in; timeout 3 bash -c 'exec 3<>/dev/tcp/192.0.2.1/443' 2>/dev/null && echo out || echo in"
        )
    );
    let path = rig.root.join("net.toml");
    std::fs::write(&path, text).unwrap();
    let ran = rig.run(&path);
    ran.expect(0);
    // Every name is the gateway's, which lets nobody through without a list.
    assert_eq!(rig.output(ran.run_id().unwrap(), "a"), "172.31.248.2\nin\nin\n");
}

#[test]
fn docker_an_out_of_memory_kill_is_told() {
    let rig = Rig::with_settings("memory = \"64MiB\"\ntmp_size = \"16MiB\"\nhome_size = \"16MiB\"");
    let plan = rig.plan(&format!(
        "[nodes.a]\n{}\n",
        prompt("exec perl -e '$x = \"a\" x 900_000_000; print length $x'")
    ));
    let ran = rig.run(&plan);
    ran.expect(1);
    assert!(ran.outcome("a").starts_with("out-of-memory: "), "{}", ran.outcome("a"));
}

#[test]
fn docker_the_users_objects_are_never_shared_with_a_checkout() {
    let rig = Rig::new();
    let before = git(&rig.repo, &["rev-parse", "HEAD"]);
    let plan = rig.plan(&format!(
        "[nodes.a]\n{}\n",
        prompt("find .git/objects -type f | while read -r f; do stat -c %h $f; done | sort -u; chmod -R u+w .git/objects; find .git/objects -type f -exec sh -c ': > $1' _ {} \\;")
    ));
    let ran = rig.run(&plan);
    assert_eq!(rig.output(ran.run_id().unwrap(), "a"), "1\n");
    git(&rig.repo, &["fsck", "--strict"]);
    assert_eq!(git(&rig.repo, &["rev-parse", "HEAD"]), before);
}

#[test]
fn docker_a_tag_that_moves_during_a_run_changes_nothing() {
    let rig = Rig::new();
    let tag = format!("kew-test-moving-{}", std::process::id());
    docker(&["tag", "kew-shell", &tag]);
    rig.settings(&format!(
        "[sandbox]\ncheckout_dir = \"{}\"\n[sandbox.images]\nshell = \"{tag}\"\n",
        rig.checkouts
    ));
    let plan = rig.plan("[nodes.a]\nprompt = 'sleep 3'\n[nodes.b]\nneeds = ['a']\nprompt = 'jq --version'\n");
    let running = rig.start(&plan);
    running.wait_for_container("a");
    docker(&["tag", "kew-collector", &tag]);
    let ran = running.end();
    docker(&["rmi", &tag]);
    ran.expect(0);
}

/// Builds a small image on top of one of kew's.
pub fn docker_build(tag: &str, dockerfile: &str) {
    use std::io::Write as _;
    let mut build = Command::new("docker")
        .args(["build", "-q", "-t", tag, "-"])
        .env("DOCKER_BUILDKIT", "0")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    build.stdin.take().unwrap().write_all(dockerfile.as_bytes()).unwrap();
    let output = build.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    until("the image", || docker(&["images", "-q", tag]).lines().next().map(|_| ()));
}
