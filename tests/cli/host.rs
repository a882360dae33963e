//! Host mode: the same runs as processes of this machine, with no engine anywhere, said loudly, and nothing left behind.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use super::rig::{AGENT, Done, ONE, Rig};

/// A repository of one commit with this plan, whose user runs agents on the host; all of this machine's programs, no engine.
fn host(plan: &str) -> Rig {
    let rig = Rig::empty();
    rig.write("plan.toml", plan);
    rig.write("old", "old\n");
    rig.commit();
    rig.user("[sandbox]\nenabled = false\nstop_grace = 4\n");
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", rig.root.join("bin"));
    let temp = rig.root.join("temp");
    fs::create_dir(&temp).unwrap();
    rig.env("PATH", &path).env("TMPDIR", temp.as_str())
}

fn plan(nodes: &str) -> String {
    format!("version = 1\nepic.name = \"e\"\n[defaults]\nrunner = \"shell\"\n{nodes}")
}

fn script(text: &str) -> String {
    format!("prompt = {}\n", toml::Value::String(text.to_owned()))
}

fn program(rig: &Rig, name: &str, text: &str) {
    let path = rig.root.join("bin").join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn events(done: &Done) -> Vec<Value> {
    done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ended<'e>(events: &'e [Value], node: &str) -> &'e Value {
    let mut ends = events.iter().filter(|event| event["type"] == "node-ended" && event["node"] == node);
    ends.next_back().unwrap_or_else(|| panic!("`{node}` ended: {events:?}"))
}

/// Processes whose environment or working folder names this rig's folder.
fn left(rig: &Rig) -> Vec<String> {
    let root = rig.root.as_str();
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if pid == own || !pid.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let in_it =
            fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd.to_string_lossy().starts_with(root));
        let of_it = fs::read(entry.path().join("environ"))
            .is_ok_and(|bytes| String::from_utf8_lossy(&bytes).contains(root));
        if in_it || of_it {
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            found.push(format!("{pid}: {}", String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    found
}

#[track_caller]
fn nothing_left(rig: &Rig) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        let folders = fs::read_dir(rig.root.join("temp")).unwrap().flatten();
        let folders: Vec<_> = folders.map(|entry| entry.file_name()).collect();
        if left(rig).is_empty() && folders.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let folders: Vec<_> = fs::read_dir(rig.root.join("temp")).unwrap().flatten().collect();
    panic!("left: {:?} {folders:?}", left(rig));
}

/// kew until a line of stdout says `word`; then `act` on its process id, then its end.
fn interrupted(rig: &Rig, word: &Path, act: impl FnOnce(u32)) -> (Option<i32>, Vec<Value>) {
    let mut kew = rig.command(&["run", "--format", "json", "plan.toml"]);
    let mut kew = kew.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while !word.exists() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the agent began");
        std::thread::sleep(Duration::from_millis(20));
    }
    act(kew.id());
    let lines = BufReader::new(kew.stdout.take().unwrap()).lines();
    let events = lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok()).collect();
    (kew.wait().unwrap().code(), events)
}

fn signal(pid: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

#[test]
fn a_coder_and_its_reviewers_run_without_an_engine() {
    let code = "pwd; echo new > new; git add new; git commit -qm new; sleep 500 & setsid sleep 501 &\n";
    let review = "test -f new && printf '{\"verdict\":\"approve\",\"summary\":\"seen\",\"findings\":[],\"nonce\":\"%s\"}' \"$KEW_NONCE\" > \"$KEW_SIDECAR\"";
    let rig = host(&plan(&format!(
        "[nodes.a]\ncommits = \"required\"\n{}[nodes.r]\nreviews = \"a\"\n{}[nodes.x]\nreviews = \"a\"\nverdict = \"exit\"\n{}[nodes.b]\nneeds = [\"a\"]\n{}",
        script(code),
        script(review),
        script("test -f new"),
        script("cat new old; echo more >> old; git commit -qam more")
    )));
    let before = rig.git(&["status", "--porcelain", "--branch"]);
    let done = rig.kew(&["run", "--format", "json", "plan.toml"]);
    assert_eq!(done.code, 0, "{}\n{}", done.out, done.err);
    let events = events(&done);
    assert_eq!(events[0]["network"], "host");
    assert!(
        events.iter().any(|event| event["type"] == "warning"
            && event["message"].as_str().unwrap().contains("NOT CONTAINED"))
    );
    for (node, commits) in [("a", 1), ("b", 1), ("r", 0), ("x", 0)] {
        assert_eq!(
            (&ended(&events, node)["outcome"], &ended(&events, node)["commits"]),
            (&"passed".into(), &commits.into())
        );
    }
    let head = ended(&events, "b")["git_ref"].as_str().unwrap().to_owned();
    assert_eq!(rig.git(&["show", &format!("{head}:old")]), "old\nmore");
    assert_eq!(rig.git(&["log", "-1", "--format=%an", &head]), "kew-agent");
    assert_eq!(rig.git(&["status", "--porcelain", "--branch"]), before, "the user's own tree is untouched");
    assert_eq!(fs::read_dir(rig.root.join("home")).unwrap().count(), 1, "only the settings are in the home");
    nothing_left(&rig);
    let shown = rig.kew(&["show"]);
    assert!(shown.out.contains("network  host (agents were not contained)\n"), "{}", shown.out);
    assert!(shown.out.contains("shell, (host)\n"), "{}", shown.out);
}

#[test]
fn jobs_that_begin_at_once_do_not_disturb_each_other() {
    let nodes: String = (0..24).map(|n| format!("[nodes.n{n}]\n{}", script("echo done"))).collect();
    let rig = host(&plan(&nodes));
    let done = rig.kew(&["run", "--format", "json", "--jobs", "24", "plan.toml"]);
    assert_eq!(done.code, 0, "{}\n{}", done.out, done.err);
}

#[test]
fn it_is_said_loudly_everywhere() {
    let rig = host(ONE);
    let loud = "agents are processes of this host, NOT CONTAINED";
    let checked = rig.kew(&["check", "plan.toml"]);
    assert!(checked.code == 0 && checked.err.contains(loud), "{}", checked.err);
    let dry = rig.kew(&["run", "--dry-run", "plan.toml"]);
    assert!(dry.out.contains("network host, none contained\n") && dry.out.contains(loud), "{}", dry.out);
    let dry = rig.kew(&["run", "--dry-run", "--format", "json", "plan.toml"]);
    let dry: Value = serde_json::from_str(&dry.out).unwrap();
    assert_eq!((&dry["network"], &dry["nodes"][0]["argv"]), (&"host".into(), &vec!["bash"].into()));
    let ran = rig.kew(&["run", "plan.toml"]);
    assert!(ran.code == 0 && ran.err.contains(loud), "{}", ran.err);
    let listed = rig.kew(&["runners"]);
    assert!(listed.out.contains(loud) || listed.err.contains(loud), "{}{}", listed.out, listed.err);
}

#[test]
fn it_is_never_what_happens_because_there_is_no_engine() {
    let rig = host(ONE);
    rig.user("[sandbox.images]\nshell = \"kew-shell:latest\"\n");
    let done = rig.kew(&["run", "plan.toml"]);
    assert_eq!(done.code, 4, "{}{}", done.out, done.err);
    assert!(!done.err.contains("NOT CONTAINED"), "{}", done.err);
}

#[test]
fn the_environment_turns_it_on_and_a_repository_never() {
    let rig = host(ONE);
    rig.user("");
    rig.write("kew.toml", "[sandbox]\nenabled = false\n");
    rig.refused(&["run", "plan.toml"], &["`sandbox.enabled`", "a repository may not"]);
    fs::remove_file(rig.repo.join("kew.toml")).unwrap();
    rig.refused(&["run", "plan.toml"], &["`shell` has no image"]);
    let rig = rig.env("KEW_SANDBOX__ENABLED", "false");
    let done = rig.kew(&["run", "plan.toml"]);
    assert_eq!(done.code, 0, "{}", done.err);
}

#[test]
fn what_only_a_container_gives_is_refused() {
    let rig = host(&plan(
        "[nodes.a]\nnetwork = \"none\"\nprompt = \"true\"\n[nodes.b]\ntoolchain = \"rust\"\nprompt = \"true\"\n",
    ));
    for args in [&["check", "plan.toml"][..], &["run", "plan.toml"], &["run", "--dry-run", "plan.toml"]] {
        let said =
            rig.refused(args, &["`network = \"none\"` needs a container", "`toolchain` needs a container"]);
        assert!(said.contains("error[E0609]"), "{said}");
    }
    rig.user("[sandbox]\nenabled = false\nnetwork = \"none\"\n");
    rig.refused(&["check", "plan.toml"], &["`sandbox.network = \"none\"` needs containers"]);
}

#[test]
fn runners_without_a_form_for_the_host_are_refused_with_the_reason() {
    let node = |id: &str, runner: &str, model: &str| {
        format!("[nodes.{id}]\nrunner = \"{runner}\"\nmodel = \"{model}\"\nprompt = \"x\"\n")
    };
    let nodes = node("h", "hermes", "a/b") + &node("l", "lemonade", "m") + &node("m", "mine", "m");
    let rig = host(&format!("version = 1\nepic.name = \"e\"\n{nodes}"));
    rig.user("[sandbox]\nenabled = false\n[runners.mine]\n");
    rig.refused(
        &["check", "plan.toml"],
        &[
            "runner `hermes` cannot run as a host process",
            "takes its prompt as an argument",
            "runner `lemonade` cannot run as a host process",
            "is a model server",
            "runner `mine` cannot run as a host process",
            "`runners.mine.command`",
        ],
    );
}

#[test]
fn a_program_that_is_not_there_stops_the_run_before_it_begins() {
    let rig = host(AGENT).env("ANTHROPIC_API_KEY", "k");
    let path = rig.root.join("bin");
    let rig = rig.env("PATH", path.as_str());
    let done = rig.kew(&["run", "plan.toml"]);
    assert_eq!(done.code, 4, "{}", done.err);
    assert!(done.err.contains("no such program in PATH: `claude` of runner `claude-code`"), "{}", done.err);
    nothing_left(&rig);
}

/// A claude that notes what it was given, commits, and says what the real one said.
fn claude(rig: &Rig, then: &str) {
    let stream = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/claude-code/");
    let root = &rig.root;
    program(
        rig,
        "claude",
        &format!(
            "#!/bin/bash\nprintf '%s\\n' \"$@\" >{root}/args\nenv >{root}/env\ncat >{root}/prompt\nstream={stream}\n{then}\n"
        ),
    );
}

const OK: &str = "echo made > made; git add made; git commit -qm made; cat $stream/ok.stdout.jsonl";

#[test]
fn an_agents_program_is_driven_and_read_as_in_its_image() {
    let rig = host(AGENT)
        .env("ANTHROPIC_API_KEY", "the-key")
        .env("OPENROUTER_API_KEY", "another")
        .env("GITHUB_TOKEN", "never");
    claude(&rig, OK);
    let done = rig.kew(&["run", "--format", "json", "plan.toml"]);
    assert_eq!(done.code, 0, "{}\n{}", done.out, done.err);
    let events = events(&done);
    let end = ended(&events, "a");
    assert_eq!(
        (&end["tokens"]["output"], &end["cost_usd"], &end["commits"]),
        (&77.into(), &0.0054915.into(), &1.into())
    );
    let read = |name: &str| fs::read_to_string(rig.root.join(name)).unwrap();
    let args = read("args");
    let args: Vec<&str> = args.lines().collect();
    let contained = [
        "--dangerously-skip-permissions",
        "--verbose",
        "--output-format",
        "stream-json",
        "--model",
        "claude-sonnet-4-5",
    ];
    assert_eq!((args[0], &args[1..7], args[7]), ("--print", &contained[..], "--session-id"));
    assert_eq!((args.len(), args[8].len()), (9, 36), "{args:?}");
    let prompt = read("prompt");
    assert!(prompt.starts_with("work\n") && prompt.contains("as a process of this machine"), "{prompt}");
    assert!(!prompt.contains("container") && !prompt.contains("/work"), "{prompt}");
    let env = read("env");
    assert!(env.contains("ANTHROPIC_API_KEY=the-key\n"), "{env}");
    for none in ["another", "never", "OPENROUTER", "GITHUB", "DOCKER_HOST", "KEW_"] {
        assert!(!env.contains(none), "`{none}` in {env}");
    }
    assert!(!done.out.contains("the-key") && !done.err.contains("the-key"));
}

#[test]
fn a_runner_of_ones_own_runs_by_its_command() {
    let rig = host(&AGENT.replace("claude-code", "mine")).env("MY_KEY", "k");
    rig.user("[sandbox]\nenabled = false\n[runners.mine]\ncommand = [\"my-agent\", \"go\"]\nargs = [\"--model={model}\"]\ncredentials = [\"MY_KEY\"]\n");
    let say = r#"#!/bin/bash
cat >/dev/null; echo x > x; git add x; git commit -qm "$* $MY_KEY"
echo '{"type":"result","exit_code":0,"text":"done"}'
"#;
    program(&rig, "my-agent", say);
    let done = rig.kew(&["run", "--format", "json", "plan.toml"]);
    assert_eq!(done.code, 0, "{}\n{}", done.out, done.err);
    let head = ended(&events(&done), "a")["git_ref"].as_str().unwrap().to_owned();
    assert_eq!(rig.git(&["log", "-1", "--format=%s", &head]), "go --model=claude-sonnet-4-5 k");
}

#[test]
fn an_agent_that_is_asked_to_stop_still_tells_what_it_spent() {
    let rig = host(AGENT).env("ANTHROPIC_API_KEY", "k");
    // It answers SIGINT as the real one does, and leaves a tool behind.
    claude(
        &rig,
        &format!(
            "trap 'cat $stream/killed-int.stdout.jsonl; exit 0' INT\nsetsid sleep 502 & touch {}/began\nwhile :; do sleep 0.1; done",
            rig.root
        ),
    );
    let (code, events) = interrupted(&rig, rig.root.join("began").as_std_path(), |pid| signal(pid, "-INT"));
    assert_eq!(code, Some(130));
    let end = ended(&events, "a");
    assert_eq!(end["outcome"], "cancelled", "{end}");
    assert!(end["cost_usd"].as_f64().is_some_and(|usd| usd > 0.0), "{end}");
    nothing_left(&rig);
}

#[test]
fn a_killed_kew_leaves_no_process_and_no_folder() {
    let rig = host(&plan(&format!(
        "[nodes.a]\n{}",
        script(
            "trap '' TERM INT HUP; sleep 503 & setsid bash -c 'trap \"\" TERM; sleep 504' & touch \"$HOME/began\"; wait"
        )
    )));
    let (code, _) = interrupted(&rig, rig.root.join("home/began").as_std_path(), |pid| signal(pid, "-KILL"));
    assert_eq!(code, None);
    nothing_left(&rig);
    let locks = rig.repo.join(".git/kew/locks");
    assert_eq!(fs::read_dir(locks).unwrap().count(), 0, "the lock is free and gone");
}

#[test]
fn a_deadline_ends_even_what_hears_no_signal() {
    let rig = host(&plan(&format!(
        "[nodes.a]\ntimeout = \"1s\"\n{}",
        script("trap '' TERM INT; setsid sleep 505 & while :; do sleep 1; done")
    )));
    let done = rig.kew(&["run", "--format", "json", "plan.toml"]);
    assert_eq!(done.code, 1, "{}\n{}", done.out, done.err);
    assert_eq!(ended(&events(&done), "a")["outcome"], "timed-out", "{}", done.out);
    nothing_left(&rig);
}

#[test]
fn collecting_runs_nothing_that_the_agent_configured() {
    let rig = host(&plan(&format!(
        "[nodes.a]\ncommits = \"required\"\n{}",
        script(
            r#"echo '* filter=evil diff=evil' > .gitattributes; git add .; git commit -qm one; echo more >> old
cat > evil <<END
#!/bin/sh
touch "$HOME/pwned"
cat
END
chmod +x evil; mkdir -p .git/hooks; for hook in post-index-change reference-transaction pre-auto-gc; do cp evil .git/hooks/$hook; done
cat >> .git/config <<END
[core]
    fsmonitor = $PWD/evil
    hooksPath = $PWD/.git/hooks
    sshCommand = $PWD/evil
[filter "evil"]
    clean = $PWD/evil
    process = $PWD/evil
    required = true
[diff "evil"]
    textconv = $PWD/evil
[include]
    path = $PWD/evil
END
"#
        )
    )));
    let done = rig.kew(&["run", "--format", "json", "plan.toml"]);
    assert_eq!(done.code, 0, "{}\n{}", done.out, done.err);
    let end = events(&done);
    let head = ended(&end, "a")["git_ref"].as_str().unwrap().to_owned();
    assert_eq!(rig.git(&["log", "-1", "--format=%s", &head]), "one");
    assert!(!rig.root.join("home/pwned").exists(), "something of the agent's ran after it");
}

#[test]
fn commits_come_home_or_are_held_as_from_a_container() {
    for (script_text, code, words) in [
        ("git checkout -q --detach; echo n > n; git add n; git commit -qm n", 0, ""),
        ("git checkout -qb other; echo n > n; git add n; git commit -qm n; git pack-refs --all", 0, ""),
        ("git commit -q --amend -m other", 3, "history rewritten"),
        ("echo n > n", 1, "uncommitted work"),
        ("true", 1, "nothing"),
        ("rm -rf .git", 3, "cannot be collected"),
        ("mv .git moved; ln -s moved .git", 3, "cannot be collected"),
        ("rm .git/HEAD; mkfifo .git/HEAD", 3, "cannot be collected"),
        ("mv .git/objects o; ln -s ../o .git/objects", 3, "cannot be collected"),
        ("git symbolic-ref HEAD refs/heads/nothing", 3, "HEAD names no commit"),
    ] {
        let rig = host(&plan(&format!("[nodes.a]\ncommits = \"required\"\n{}", script(script_text))));
        let done = rig.kew(&["run", "--format", "json", "plan.toml"]);
        assert_eq!(done.code, code, "{script_text}: {}\n{}", done.out, done.err);
        let events = events(&done);
        let reason = ended(&events, "a")["reason"].as_str().unwrap_or_default();
        assert!(reason.contains(words), "{script_text}: {reason}");
    }
}

#[test]
fn what_did_not_pass_is_kept_and_artifacts_are_stored() {
    let rig = host(&plan(&format!(
        "[nodes.a]\nartifacts = [\"report/*.txt\"]\n{}[nodes.b]\n{}",
        script("mkdir report; echo good > report/a.txt; echo other > report/a.log"),
        script(
            "echo one > one; git add one; git commit -qm one; echo two > two; git config core.fsmonitor \"touch $HOME/pwned\"; exit 7"
        )
    )));
    let done = rig.kew(&["run", "--format", "json", "plan.toml"]);
    assert_eq!(done.code, 1, "{}\n{}", done.out, done.err);
    let events = events(&done);
    let run = events[0]["run"].as_str().unwrap();
    let stored = rig.repo.join(format!(".git/kew/runs/{run}/a/1/artifacts/report/a.txt"));
    assert_eq!(fs::read_to_string(stored).unwrap(), "good\n", "{}", done.out);
    let kept = format!("refs/kew/{run}/nodes/b/1-wip");
    assert_eq!(rig.git(&["show", &format!("{kept}:two")]), "two", "{}", done.out);
    assert_eq!(rig.git(&["show", &format!("{kept}:one")]), "one");
    assert!(!rig.root.join("home/pwned").exists(), "something of the agent's ran after it");
}
