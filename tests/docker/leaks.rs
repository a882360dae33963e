//! A credential that an agent gives away, by every way out: nothing that kew keeps, tells or shows holds it.

use std::process::Command;

use crate::{
    contain::docker_build,
    rig::{Rig, docker, prompt},
};

/// Odd enough that each encoding is another text.
const SECRET: &str = "sk-ant-oat01-~q/Zx+9?é\"w8 vB2\\nM5:kT";

/// Prints `$1` in the forms in which it leaks by accident.
const FORMS: &str = r#"
k=$ANTHROPIC_API_KEY
echo "literal $k"
for before in '' x xy; do echo "base64 $(printf '%s%s' "$before" "$k" | base64 -w0)"; done
for before in '' x xy; do echo "twice $(printf '%s' "$before$k" | base64 -w0 | base64 -w0)"; done
echo "hex $(printf %s "$k" | od -An -tx1 -v | tr -d ' \n')"
echo "HEX $(printf %s "$k" | od -An -tx1 -v | tr -d ' \n' | tr a-f A-F)"
echo "url $(printf %s "$k" | jq -sRr @uri)"
echo "json $(printf %s "$k" | jq -sR .)"
echo "json twice $(printf %s "$k" | jq -sR . | jq -sR .)"
"#;

/// Parts of what the forms would print: long enough that no accident makes them.
fn tells() -> Vec<String> {
    let script = format!("ANTHROPIC_API_KEY=\"$1\"\n{FORMS}");
    let printed = Command::new("bash").args(["-c", &script, "forms", SECRET]).output().unwrap();
    let printed = String::from_utf8(printed.stdout).unwrap();
    let mut tells: Vec<String> = Vec::new();
    for line in printed.lines() {
        let (kind, form) = line.split_once(' ').unwrap();
        let form = form.strip_prefix("twice ").unwrap_or(form);
        // What stands around the value shares its first and last characters with it.
        let inner: String = match kind {
            "base64" | "twice" => {
                let all: Vec<char> = form.trim_end_matches('=').chars().collect();
                all[6..all.len() - 6].iter().collect()
            }
            _ => form.trim_matches('"').to_owned(),
        };
        tells.push(inner);
    }
    assert_eq!(tells.len(), 12, "{printed}");
    tells
}

#[test]
fn docker_a_credential_that_is_given_away_is_kept_and_shown_nowhere() {
    let mut rig = Rig::new();
    rig.env.insert("ANTHROPIC_API_KEY".into(), SECRET.into());
    let image = format!("kew-test-obedient-{}", std::process::id());
    // The agent does what its prompt says, and its last words are a file's.
    docker_build(
        &image,
        "FROM kew-agent\nUSER root\nRUN printf '#!/bin/bash\\ncat >/dev/null\\nbash /work/.kew-prompt.txt >&2\\ncat ~/lines 2>/dev/null\\n\
         [ -e ~/last ] || echo fine >~/last\\n\
         jq -cn --rawfile t ~/last \"{type:\\\\\"result\\\\\",is_error:false,subtype:\\\\\"success\\\\\",result:\\\\$t,session_id:\\\\\"s\\\\\"}\" | { [ -e ~/escaped ] && cat ~/escaped || cat; }\\n' > /usr/local/bin/claude\nUSER agent\n",
    );
    rig.settings(&format!(
        "[sandbox]\ncheckout_dir = \"{}\"\n[sandbox.images]\nclaude-code = \"{image}\"\n",
        rig.checkouts
    ));
    let said = r#"jq -nc --arg t "$(cat ~/said)" '{type:"assistant",message:{role:"assistant",content:[{type:"text",text:$t}]}}' >~/lines"#;
    let escaped = r#"u=$(printf %s "$ANTHROPIC_API_KEY" | iconv -f UTF-8 -t UTF-16BE | od -An -tx1 -v | tr -d ' \n' | sed 's/..../\\u&/g')
printf '{"type":"result","is_error":false,"subtype":"success","result":"my key: %s","session_id":"%s"}\n' "$u" "$u" >~/escaped"#;
    let nodes = [
        // Its logs, its last text and its activity.
        ("forms", "optional", format!("{{ {FORMS} }} | tee ~/said ~/last; {said}")),
        // A JSON line that hides it from a search by bytes.
        ("escaped", "optional", escaped.to_owned()),
        // A path that kew names: uncommitted, and one that is refused.
        ("path", "required", "echo x >\"key $(printf %s \"$ANTHROPIC_API_KEY\" | base64 -w0 | tr / _)\"".to_owned()),
        (
            "reserved",
            "required",
            "f=.kew-$(printf %s \"$ANTHROPIC_API_KEY\" | od -An -tx1 -v | tr -d ' \\n'); echo x >$f; git add -f $f; git commit -qm x".to_owned(),
        ),
        // Git's own words, which quote the agent's.
        (
            "refused",
            "required",
            "printf '[submodule \"x\"]\\n\\tpath = x\\n\\turl = https://x.invalid/x\\n\\tupdate = !%s\\n' $(printf %s \"$ANTHROPIC_API_KEY\" | od -An -tx1 -v | tr -d ' \\n') >.gitmodules; git add .gitmodules; git commit -qm x".to_owned(),
        ),
        ("branch", "required", "git checkout -qb $(printf %s \"$ANTHROPIC_API_KEY\" | od -An -tx1 -v | tr -d ' \\n'); echo x >x; git add x; git commit -qm x; git branch -f kew/leaks/branch $(git commit-tree -p HEAD^ -m y HEAD^{tree})".to_owned()),
    ];
    let mut text = "version = 1\n[epic]\nname = \"leaks\"\n[defaults]\nrunner = \"claude-code\"\nmodel = \"sonnet\"\nnetwork = \"none\"\nbrief = false\n".to_owned();
    for (name, commits, script) in &nodes {
        text.push_str(&format!("[nodes.{name}]\ncommits = \"{commits}\"\n{}\n", prompt(script)));
    }
    let plan = rig.root.join("leaks.toml");
    std::fs::write(&plan, text).unwrap();
    let ran = rig.run(&plan);
    docker(&["rmi", &image]);
    let run = ran.run_id().unwrap();
    assert!(ran.outcome("path").starts_with("uncommitted-work: "), "{}", ran.outcome("path"));
    for (node, word) in [
        ("reserved", "reserved name"),
        ("refused", "broken objects"),
        ("branch", "branch and HEAD moved apart"),
    ] {
        let outcome = ran.outcome(node);
        assert!(outcome.starts_with(&format!("held: {word}: ")), "{outcome}");
        assert!(outcome.contains("***ANTHROPIC_API_KEY***"), "nothing was masked: {outcome}");
    }
    assert_eq!((ran.outcome("forms").as_str(), ran.outcome("escaped").as_str()), ("passed", "passed"));

    let mut shown = vec![format!("{:#?}\n{}", ran.events, ran.stderr)];
    for args in [&["show", run][..], &["logs", run, "forms"], &["runs"]] {
        let output = rig.kew(args);
        shown.push(
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        );
    }
    for tell in tells() {
        for text in &shown {
            assert!(!text.contains(&tell), "`{tell}` is shown: {text}");
        }
        let state = rig.repo.join(".git/kew");
        let kept = Command::new("grep").args(["-rlaF", "--", &tell, state.as_str()]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&kept.stdout), "", "`{tell}` is kept");
    }
    // Written in escapes throughout it stays in the log, which nobody decodes for the record.
    let escaped = std::fs::read_to_string(state_log(&rig, run, "escaped/1/stdout.log")).unwrap();
    assert!(escaped.contains("\\u0073\\u006b"), "{escaped}");
    // That it would be found: the forms were printed.
    let log = std::fs::read_to_string(state_log(&rig, run, "forms/1/stderr.log")).unwrap();
    assert!(log.matches("***ANTHROPIC_API_KEY***").count() >= 12, "{log}");
}

fn state_log(rig: &Rig, run: &str, name: &str) -> camino::Utf8PathBuf {
    rig.repo.join(format!(".git/kew/runs/{run}/{name}"))
}
