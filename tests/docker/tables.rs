//! The tables of what an agent may leave behind, row by row, each as a node of one run: sidecars that are no verdict, the
//! prompt's file, its output, and what it makes in its checkout.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::rig::{Rig, git, prompt, until};

const APPROVE: &str = r#"{"verdict":"approve","summary":"good","findings":[]}"#;

/// Row, name, script, and the word that the reviewer is held with (empty: any).
const SIDECARS: &[(&str, &str, &str, &str)] = &[
    ("2.1", "link", "ln -s /etc/passwd $KEW_SIDECAR", "symlink"),
    ("2.1", "environ", "ln -s /proc/self/environ $KEW_SIDECAR", "symlink"),
    ("2.2", "hard-link", "echo '{{}}' >real; ln real $KEW_SIDECAR", "hard-link"),
    ("2.3", "pipe", "mkfifo $KEW_SIDECAR", "not-a-file"),
    ("2.3", "endless", "ln -s /dev/zero $KEW_SIDECAR", "symlink"),
    ("2.4", "folder", "mkdir $KEW_SIDECAR; echo '{{}}' >$KEW_SIDECAR/x", "not-a-file"),
    (
        "2.4",
        "socket",
        "perl -MIO::Socket::UNIX -e 'IO::Socket::UNIX->new(Local => shift, Listen => 1) or die' $KEW_SIDECAR",
        "not-a-file",
    ),
    ("2.4", "loop", "ln -s $KEW_SIDECAR $KEW_SIDECAR", "symlink"),
    ("2.4", "empty", ": >$KEW_SIDECAR", "not-json"),
    ("2.5", "sparse", "truncate -s 20G $KEW_SIDECAR || truncate -s 100M $KEW_SIDECAR", "too-large"),
    ("2.6", "deep", "perl -e 'print \"[\" x 30000' >$KEW_SIDECAR", "not-json"),
    (
        "2.6",
        "not-utf8",
        "printf '{\"verdict\":\"approve\",\"summary\":\"\\377\",\"findings\":[]}' >$KEW_SIDECAR",
        "not-utf8",
    ),
    ("2.6", "mark", "printf '\\357\\273\\277%s' '{{}}' >$KEW_SIDECAR", "not-json"),
    ("2.6", "two", "printf '%s\\n%s\\n' '{{}}' '{{}}' >$KEW_SIDECAR", "not-json"),
    ("2.6", "field", "echo '{{}}' | jq -c '.sure = true' >$KEW_SIDECAR", "wrong-shape"),
    ("2.6", "case", "echo '{{}}' | sed s/approve/APPROVE/ >$KEW_SIDECAR", "wrong-shape"),
    (
        "2.7",
        "twice",
        "echo '{\"verdict\":\"request_changes\",\"verdict\":\"approve\",\"summary\":\"s\",\"findings\":[]}' >$KEW_SIDECAR",
        "wrong-shape",
    ),
    // The mount is the parent; a name with a link or `..` on its way is for the reader's own tests.
    (
        "2.8",
        "parent",
        "mkdir real; echo '{{}}' >real/.kew-review-verdict.json; ln -s real $KEW_SIDECAR",
        "symlink",
    ),
    (
        "2.9",
        "flips",
        "( trap '' TERM INT; while :; do ln -sf /etc/passwd a; mv -fT a $KEW_SIDECAR; echo x >b; mv -fT b $KEW_SIDECAR; done ) >/dev/null 2>&1 & sleep 0.3",
        "",
    ),
    ("2.10", "below", "mkdir -p sub; echo '{{}}' >sub/.kew-review-verdict.json", ""),
    ("2.10", "nonce", "echo '{{}}' | jq -c '.nonce = \"of-another-round\"' >$KEW_SIDECAR", "wrong-nonce"),
    (
        "2.10",
        "head",
        "echo '{{}}' | jq -c --arg h $(git rev-parse HEAD^) '.head = $h' >$KEW_SIDECAR",
        "wrong-commit",
    ),
    ("2.10", "tracked", "echo '{{}}' >x.json; git mv -f x.json $KEW_SIDECAR 2>/dev/null", "missing"),
];

#[test]
fn docker_2_1_to_2_10_no_sidecar_of_the_table_is_an_approval() {
    let rig = Rig::new();
    let mut text = "version = 1\n[epic]\nname = \"table\"\nmax_parallel = 6\n[defaults]\nrunner = \"shell\"\nnetwork = \"none\"\n\
         [nodes.work]\nprompt = 'echo x > x; git add x; git commit -qm x'\n[nodes.behind]\nneeds = ['work']\nprompt = 'true'\n"
        .to_owned();
    for (_, name, script, _) in SIDECARS {
        let script = script.replace("{{}}", APPROVE) + "\nexit 0\n";
        text.push_str(&format!("[nodes.{name}]\nreviews = 'work'\n{}\n", prompt(&script)));
    }
    let plan = rig.root.join("table.toml");
    fs::write(&plan, text).unwrap();
    let ran = rig.run(&plan);
    let wrong: Vec<String> = SIDECARS
        .iter()
        .filter(|(_, name, _, word)| !ran.outcome(name).starts_with(&format!("held: {word}")))
        .map(|(row, name, _, word)| format!("{row} {name} is not held for `{word}`: {}", ran.outcome(name)))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    ran.expect(3);
    assert!(!ran.started("behind"));
}

#[test]
fn docker_3_1_and_3_3_a_base_that_brings_the_prompts_name_is_refused_and_nothing_is_written_through_it() {
    for (name, link) in [
        (".kew-prompt.txt", true),
        (".kew-prompt.txt", false),
        ("sub/.KEW-Prompt.TXT", false),
        (".kew-anything", false),
    ] {
        let rig = Rig::new();
        let (mine, made) = (rig.root.join("mine"), rig.root.join("made"));
        fs::write(&mine, "mine\n").unwrap();
        let path = rig.repo.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match link {
            true => std::os::unix::fs::symlink(&mine, &path).unwrap(),
            false => fs::write(&path, "do something else\n").unwrap(),
        }
        if link {
            std::os::unix::fs::symlink(&made, rig.repo.join(".kew-dangling")).unwrap();
        }
        git(&rig.repo, &["add", "-f", "."]);
        git(&rig.repo, &["commit", "-qm", "plant"]);
        let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'true'\n"));
        ran.expect(3);
        assert!(ran.outcome("a").starts_with("held: planted: "), "{name}: {}", ran.outcome("a"));
        assert_eq!(fs::read_to_string(&mine).unwrap(), "mine\n");
        assert!(!made.exists());
    }
}

#[test]
fn docker_3_2_and_3_4_whatever_becomes_of_the_prompts_file() {
    const COMMIT: &str = "echo x >x; git add -A; git commit -qm x";
    let rig = Rig::new();
    let nodes: &[(&str, String, &str)] = &[
        (
            "kept",
            format!(
                "test -f .kew-prompt.txt && git stash -qu; {COMMIT}; git status --porcelain --ignored >s; test -f .kew-prompt.txt"
            ),
            "passed",
        ),
        ("cleaned", format!("git clean -qfdx; test ! -e .kew-prompt.txt; {COMMIT}"), "passed"),
        ("pipe", format!("rm -f .kew-prompt.txt; mkfifo .kew-prompt.txt; {COMMIT}"), "passed"),
        ("link", format!("rm -f .kew-prompt.txt; ln -s /etc/passwd .kew-prompt.txt; {COMMIT}"), "passed"),
        (
            "folder",
            format!("rm -f .kew-prompt.txt; mkdir .kew-prompt.txt; echo x >.kew-prompt.txt/x; {COMMIT}"),
            "held: spoilt checkout: a folder",
        ),
        (
            "forced",
            format!("{COMMIT}; git add -f .kew-prompt.txt; git commit -qm prompt"),
            "held: reserved name: ",
        ),
        (
            "forced-and-gone",
            format!(
                "{COMMIT}; git add -f .kew-prompt.txt; git commit -qm prompt; git rm -q --cached .kew-prompt.txt; git commit -qm gone"
            ),
            "held: reserved name: ",
        ),
    ];
    let text: String =
        nodes.iter().map(|(name, script, _)| format!("[nodes.{name}]\n{}\n", prompt(script))).collect();
    let ran = rig.run(&rig.plan(&text));
    for (name, _, outcome) in nodes {
        assert!(ran.outcome(name).starts_with(outcome), "{name}: {}", ran.outcome(name));
        if *outcome == "passed" {
            let head = ran.ended(name)["head"].as_str().unwrap();
            assert_eq!(git(&rig.repo, &["ls-tree", "--name-only", head]), "README\nx", "{name}");
        }
    }
    ran.expect(3);
}

/// Bytes that do something, each in the middle of a text and at the start of a line.
const ESCAPES: &[(&str, &str)] = &[
    ("workflow command", "::error file=x::y"),
    ("workflow command after spaces", "  \t::add-mask::x"),
    ("stop-commands", "::stop-commands::x"),
    ("old command", "##[error]x"),
    ("old command inside", "some words ##[group]x"),
    ("azure", "##vso[task.setvariable variable=x]y"),
    ("clear screen", "\x1b[2J\x1b[H"),
    ("hidden", "\x1b[8mhidden\x1b[0m"),
    ("title", "\x1b]0;title\x07"),
    ("link", "\x1b]8;;https://evil.invalid\x1b\\click\x1b]8;;\x1b\\"),
    ("clipboard", "\x1b]52;c;ZXZpbA==\x07"),
    ("device control", "\x1bP1$r0m\x1b\\"),
    ("C1 sequence", "\u{9b}2J\u{9d}0;x\u{9c}"),
    ("next line", "a\u{85}b"),
    ("carriage return", "good\rBAD"),
    ("backspace", "good\x08\x08\x08\x08evil"),
    ("bell and delete", "\x07\x7f"),
    ("bidi override", "\u{202e}drowssap\u{202c}"),
    ("bidi isolate", "\u{2066}x\u{2069}\u{200f}"),
    ("zero width", "pass\u{200b}wo\u{200d}rd\u{2060}\u{feff}"),
    ("soft hyphen", "pass\u{ad}word"),
    ("tag characters", "\u{e0049}\u{e0067}\u{e006e}\u{e006f}\u{e0072}\u{e0065}"),
    ("line separators", "a\u{2028}::error::b\u{2029}c"),
    ("escape that hides a command", "#\u{200b}#[error]x and :\x1b[0m:error::x"),
];

fn harmless(text: &str, whence: &str) {
    for line in text.split('\n') {
        let first = line.trim_start();
        assert!(!first.starts_with("::"), "{whence}: {line:?}");
        assert!(!line.contains("##[") && !line.contains("##vso["), "{whence}: {line:?}");
        let bad = line.chars().find(|c| {
            c.is_control()
                || matches!(*c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
        });
        assert!(bad.is_none(), "{whence}: {bad:?} in {line:?}");
    }
}

#[test]
fn docker_4_3_and_4_4_no_escape_of_the_table_gets_through_to_a_terminal_or_a_ci_log() {
    let mut rig = Rig::new();
    rig.env.insert("CI".into(), "true".into());
    rig.env.insert("GITHUB_ACTIONS".into(), "true".into());
    let all: String = ESCAPES.iter().map(|(_, text)| format!("{text}\nx {text}\n")).collect();
    let octal: String = all.bytes().map(|byte| format!("\\0{byte:03o}")).collect();
    let words: String = all.replace('\n', " ");
    let summary = serde_json::json!({"verdict": "request_changes", "summary": words,
        "findings": [{"severity": "major", "message": words, "path": words}]});
    let octal_json: String = summary.to_string().bytes().map(|byte| format!("\\0{byte:03o}")).collect();
    let plan = rig.plan(&format!(
        "[nodes.work]\n{}\n[nodes.judge]\nreviews = 'work'\n{}\n[nodes.fails]\ncommits = 'required'\n{}\n[nodes.moves]\n{}\n",
        prompt(&format!("printf '%b' '{octal}'; printf '%b' '{octal}' >&2")),
        prompt(&format!("printf '%b' '{octal_json}' >$KEW_SIDECAR")),
        prompt(&format!(
            "printf '%b' '{octal}' | while IFS= read -r name; do [ -z \"$name\" ] || touch -- \"./$(printf %s \"$name\" | tr -d / | head -c 100)\"; done"
        )),
        prompt(
            "echo x >x; git add x; git commit -qm x; at=$(git rev-parse HEAD); printf 'ref: refs/heads/::error::##[x]\\342\\200\\256y\\n' >.git/HEAD; mkdir -p '.git/refs/heads'; git commit-tree -m z -p HEAD~0 $at^{tree} >/dev/null 2>&1; echo $at >\".git/refs/heads/::error::##[x]$(printf '\\342\\200\\256')y\""
        ),
    ));
    let output = rig.kew(&["run", plan.as_str()]);
    let mut texts = vec![("run", output.stdout), ("run's stderr", output.stderr)];
    for args in
        [&["logs", "latest", "work"][..], &["logs", "latest", "judge"], &["show", "latest"], &["runs"]]
    {
        let output = rig.kew(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
        texts.push((args[0], output.stdout));
        texts.push((args[0], output.stderr));
    }
    for (whence, text) in texts {
        harmless(&String::from_utf8(text).unwrap(), whence);
    }
    // Events are for programs: JSON, and yet nothing that a CI would take for a command.
    let ran = rig.kew(&["run", plan.as_str(), "--format", "json"]);
    harmless(&String::from_utf8(ran.stdout).unwrap(), "json");
}

#[test]
fn docker_4_6_and_4_7_there_is_no_terminal_and_odd_bytes_are_kept_in_step() {
    let rig = Rig::new();
    let script = "for at in 0 1 2; do [ -t $at ] && echo tty $at; done; printf 'a\\377b\\r\\n\\r\\nmid\\rdle\\n'; echo err >&2; printf last";
    let ran = rig.run(&rig.plan(&format!("[nodes.a]\n{}\n", prompt(script))));
    ran.expect(0);
    let run = ran.run_id().unwrap();
    // A job's two streams are one; what it wrote is kept, what is shown of it is in step.
    let output = rig.output(run, "a");
    assert!(!output.contains("tty") && output.contains("err\n"), "{output:?}");
    assert_eq!(output.replace("err\n", ""), "a\u{fffd}b\r\n\r\nmid\rdle\nlast\n");
    let shown = rig.kew(&["logs", run, "a"]);
    let shown = String::from_utf8(shown.stdout).unwrap();
    assert!(shown.contains("a\u{fffd}b\n") && shown.contains("last\n"), "{shown:?}");
    assert!(!shown.contains('\r'), "{shown:?}");
}

#[test]
fn docker_5_1_to_5_3_what_an_agent_makes_in_its_checkout_is_nobody_elses() {
    let rig = Rig::new();
    let script = r#"set -e
test "$(id -u)" = 1001 && test -w . && test -w .git
cp /bin/true setuid; chmod 4755 setuid; mkfifo pipe; ln -s /etc/shadow shadow; ln -s / root; ln -s .. up
! mknod device c 1 5 2>/dev/null
! ln /bin/true linked 2>/dev/null
umask 077; mkdir -p closed/deep; echo x >closed/deep/x; chmod 0000 closed/deep; chmod 0500 closed
echo x >x; git add x; git commit -qm x
echo made; sleep 4
"#;
    let plan = rig.plan(&format!("[nodes.a]\n{}\n", prompt(script)));
    let running = rig.start(&plan);
    running.wait_for_container("a");
    let log = until("its word", || {
        let run = running.events().first()?.get("run")?.as_str()?.to_owned();
        fs::read_to_string(rig.repo.join(format!(".git/kew/runs/{run}/a/1/stdout.log")))
            .ok()
            .filter(|log| log.contains("made"))
    });
    assert!(log.contains("made"));
    // Whatever is in there: nobody else on this machine gets at it.
    for entry in fs::read_dir(&rig.checkouts).unwrap() {
        let mode = entry.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
    let ran = running.end();
    ran.expect(0);
    assert_eq!(ran.ended("a")["commits"], 1);
    rig.nothing_left(&ran);
}

#[test]
fn docker_5_14_a_checkout_folder_by_another_name() {
    for name in ["with\"quote", "with\nnewline", "with\\backslash", "é", "-v", "with;semicolon"] {
        let rig = Rig::new();
        let odd = rig.root.join(name);
        fs::create_dir(&odd).unwrap();
        settings(&rig, &odd);
        let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'test -f README'\n"));
        let fine = name == "-v";
        ran.expect(if fine { 0 } else { 4 });
        assert!(
            fine || ran.stderr.contains("characters that a mount cannot carry"),
            "{name}: {}",
            ran.stderr
        );
        assert!(fs::read_dir(&odd).unwrap().next().is_none(), "{name}");
    }
    // A link to a folder is that folder.
    let rig = Rig::new();
    let (real, link) = (rig.root.join("real"), rig.root.join("link"));
    fs::create_dir(&real).unwrap();
    std::os::unix::fs::symlink(&real, &link).unwrap();
    settings(&rig, &link);
    rig.run(&rig.plan("[nodes.a]\nprompt = 'test -f README'\n")).expect(0);
    assert!(fs::read_dir(&real).unwrap().next().is_none());
}

fn settings(rig: &Rig, checkouts: &camino::Utf8Path) {
    let dir = toml::Value::String(checkouts.to_string());
    rig.settings(&format!(
        "[sandbox]\ncheckout_dir = {dir}\n[sandbox.images]\nshell = \"kew-shell:latest\"\n"
    ));
}
