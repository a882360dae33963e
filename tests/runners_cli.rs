//! `kew runners` and `kew runners parse`, through the program: what it lists, and what it makes of recorded streams.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

/// Runners whose recordings have their results written down here.
const RECORDED: &[&str] = &["claude-code", "opencode", "pi", "hermes"];

fn fixtures(runner: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(runner)
}

/// The program, with `home` as the only place of settings and `home` as the current folder.
fn kew(home: &Path, args: &[&str], stdin: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kew"))
        .args(args)
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(runner: &str, exit: &str, stdin: &[u8]) -> Value {
    let home = tempfile::tempdir().unwrap();
    let args = ["runners", "parse", runner, "--format", "json", "--exit", exit];
    serde_json::from_str(&text(&kew(home.path(), &args, stdin))).unwrap()
}

/// Recordings of a runner: name, file, exit status.
fn recordings(runner: &str) -> Vec<(String, PathBuf, String)> {
    let mut found = Vec::new();
    for sub in ["", "docker"] {
        let Ok(folder) = fs::read_dir(fixtures(runner).join(sub)) else { continue };
        for entry in folder {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap().to_owned();
            let Some(stem) = file.strip_suffix(".stdout.jsonl") else { continue };
            let exit = fs::read_to_string(path.with_file_name(format!("{stem}.exit"))).unwrap();
            let name = if sub.is_empty() { stem.to_owned() } else { format!("{sub}/{stem}") };
            found.push((name, path, exit.trim().to_owned()));
        }
    }
    found.sort();
    assert!(!found.is_empty(), "{runner} has no recordings");
    found
}

#[test]
fn recordings_come_to_the_outcome_of_a_run() {
    let home = tempfile::tempdir().unwrap();
    for runner in RECORDED {
        let mut table = String::new();
        for (name, path, exit) in recordings(runner) {
            let path = path.to_str().unwrap();
            let args = ["runners", "parse", runner, path, "--exit", &exit, "--format", "json"];
            let found: Value = serde_json::from_str(&text(&kew(home.path(), &args, b""))).unwrap();
            let short = |key: &str| match &found[key] {
                Value::Null => "–".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let tokens = &found["tokens"];
            let tokens = if tokens.is_null() {
                "–".to_owned()
            } else {
                ["input", "output", "cache_read", "cache_write"]
                    .map(|kind| tokens[kind].to_string())
                    .join("/")
            };
            let lines = &found["lines"];
            let parts =
                ["understood", "silent", "no_json", "cut", "blank"].map(|key| lines[key].as_u64().unwrap());
            assert_eq!(parts.iter().sum::<u64>(), lines["total"].as_u64().unwrap(), "{name}");
            let silent: u64 =
                found["silent"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
            assert_eq!(silent, parts[1], "{name}");
            let session = short("session");
            table.push_str(&format!(
                "{name}: {} {} {tokens} {} {} {}\n    {}\n",
                &session[..session.len().min(8)],
                short("model"),
                short("cost_usd"),
                parts.map(|part| part.to_string()).join("+"),
                short("outcome"),
                short("reason"),
            ));
        }
        insta::assert_snapshot!(format!("parse-{runner}"), table);
    }
}

#[test]
fn text_from_stdin_and_from_a_file_is_the_same() {
    let home = tempfile::tempdir().unwrap();
    let path = fixtures("claude-code").join("ok.stdout.jsonl");
    let from_file =
        text(&kew(home.path(), &["runners", "parse", "claude-code", path.to_str().unwrap()], b""));
    let from_stdin = text(&kew(home.path(), &["runners", "parse", "claude-code"], &fs::read(&path).unwrap()));
    assert_eq!(from_file, from_stdin);
    insta::assert_snapshot!(from_file, @r"
    runner    claude-code
    session   3b7d2022-e91e-458b-962d-3665408266e4
    model     claude-sonnet-4-5
    tokens    33 in, 1000 cache read, 1050 cache write, 77 out
    cost      $0.0054915 (list-price)
    exit      0
    outcome   passed
    lines     6: 5 understood, 1 JSON without a meaning here
      silent  1 × user
    ");
}

#[test]
fn what_is_not_understood_is_counted_and_shown() {
    let stream = b"starting up\n{\"type\":\"output\",\"text\":\"hi\"}\n\n{\"type\":\"progress\"}\n{\"type\":\"progress\"}\n{\"kind\":1}\n[1]\n{\"type\":\"result\",\"exit_code\":0}";
    let found = json("shell", "0", stream);
    assert_eq!(
        found["lines"],
        serde_json::json!({"total": 8, "understood": 2, "silent": 3, "no_json": 2, "cut": 0, "blank": 1})
    );
    assert_eq!(found["silent"], serde_json::json!({"progress": 2, "without a type": 1}));
    assert_eq!(
        found["not_understood"][0],
        serde_json::json!({"line": 1, "cut": false, "text": "starting up"})
    );
    assert_eq!((&found["outcome"], &found["cost_usd"]), (&"passed".into(), &0.0.into()));
    let silent: Vec<u8> = (0..1000).flat_map(|n| format!("{{\"type\":\"t{n}\"}}\n").into_bytes()).collect();
    let kinds = json("shell", "0", &silent)["silent"].as_object().unwrap().len();
    assert!(kinds < 50, "{kinds} kinds are kept");
}

#[test]
fn a_line_too_long_is_told_and_the_next_is_read() {
    let mut stream = vec![b'x'; 3 << 20];
    stream.extend(b"\n{\"type\":\"result\",\"exit_code\":0}\n");
    let found = json("shell", "0", &stream);
    assert_eq!((found["lines"]["cut"].as_u64(), found["lines"]["understood"].as_u64()), (Some(1), Some(1)));
    assert!(found["not_understood"][0]["text"].as_str().unwrap().len() < 1000);
    assert_eq!(found["outcome"], "passed");
}

#[test]
fn the_exit_status_counts_and_success_needs_its_marker() {
    let good = b"{\"type\":\"result\",\"exit_code\":0}\n";
    assert_eq!(json("shell", "0", good)["outcome"], "passed");
    assert_eq!(json("shell", "3", good)["outcome"], "failed");
    assert_eq!(json("shell", "0", b"")["outcome"], "failed");
    assert_eq!(json("claude-code", "0", b"")["cost_usd"], Value::Null);
}

#[test]
fn text_of_an_agent_starts_no_line_and_no_command() {
    let home = tempfile::tempdir().unwrap();
    let evil = "::error::x\u{1b}[2J\u{202e}##vso[task.x]\u{9b}";
    let lines = [
        serde_json::json!({"type": "session", "id": evil}).to_string(),
        serde_json::json!({"type": "model", "name": format!("\n{evil}")}).to_string(),
        serde_json::json!({"type": format!("\r\n{evil}")}).to_string(),
        serde_json::json!({"type": "result", "exit_code": 1, "error": evil}).to_string(),
        evil.to_owned(),
    ];
    for format in ["human", "json"] {
        let args = ["runners", "parse", "shell", "--format", format];
        let shown = text(&kew(home.path(), &args, lines.join("\n").as_bytes()));
        assert!(shown.contains("error::x"), "{shown}");
        assert!(!shown.contains(['\u{1b}', '\u{202e}', '\u{9b}', '\r']), "{shown:?}");
        assert!(!shown.contains("##vso["), "{shown}");
        assert!(shown.lines().all(|line| !line.trim_start().starts_with("::")), "{shown}");
        assert_eq!(shown.lines().count(), if format == "json" { 1 } else { 11 }, "{shown}");
    }
}

#[test]
fn the_list_has_every_runner_with_what_the_settings_say() {
    let home = tempfile::tempdir().unwrap();
    fs::create_dir_all(home.path().join(".config/kew")).unwrap();
    let settings =
        "[sandbox.images]\nshell = \"my-shell:1\"\n[sandbox.toolchains.rust.images]\nshell = \"rusty:2\"\n";
    fs::write(home.path().join(".config/kew/config.toml"), settings).unwrap();
    let human = text(&kew(home.path(), &["runners"], b""));
    assert!(
        human.contains(
            "shell: job\n  credentials needs none\n  contained   yes\n  models      none\n  hosts       none\n  image       my-shell:1\n              rusty:2 (toolchain rust)\n"
        ),
        "{human}"
    );
    assert!(human.contains("lemonade: agent\n  contained   refused: it declares no credential"), "{human}");
    let lines = text(&kew(home.path(), &["runners", "--format", "json"], b""));
    let listed: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |name: &str| listed.iter().find(|runner| runner["runner"] == name).unwrap();
    assert_eq!(
        of("claude-code")["credentials"],
        serde_json::json!(["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"])
    );
    assert_eq!(of("claude-code")["image"], Value::Null);
    assert_eq!(of("shell")["toolchains"], serde_json::json!([{"toolchain": "rust", "image": "rusty:2"}]));
    assert_eq!(of("claude-code")["hosts"], serde_json::json!(["api.anthropic.com"]));
    assert_eq!(of("hermes")["host_command"], Value::Null);
    assert_eq!(of("pi")["host_command"][0], "pi");
    assert!(human.contains("  hosts       openrouter.ai\n"), "{human}");
    assert!(of("claude-code")["models"].as_str().unwrap().contains("sonnet"));
}

#[test]
fn wrong_arguments_are_exit_2_with_a_way_out() {
    let home = tempfile::tempdir().unwrap();
    for (args, says) in [
        (&["runners", "parse", "claud-code"][..], "did you mean `claude-code`?"),
        (&["runners", "parse", "lemonade"], "no vocabulary"),
        (&["runners", "parse", "shell", "/no/such/file"], "could not be read"),
        (&["runners", "parse", "shell", "."], "could not be read"),
    ] {
        let output = kew(home.path(), args, b"");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{said}");
    }
}
