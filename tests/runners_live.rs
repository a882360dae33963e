//! The runner and the scripted API against a real claude CLI, where one is installed (`KEW_TEST_CLAUDE` names the program).
//!
//! Without it only the stand-in's own checks run here; the containers of the end-to-end tests cover the same ground.

#[path = "support/mock_llm.rs"]
mod mock_llm;

use std::{
    fs,
    net::Ipv4Addr,
    process::{Command, Stdio},
};

use kew::{
    runners::{Runner, claude_code::ClaudeCode},
    stream::{Account, Tokens},
};
use mock_llm::{MockLlm, Reply, two_steps};

/// Runs the CLI against the script in a fresh repository; `None` where there is no CLI.
fn run(script: Vec<Reply>, prompt: &str) -> Option<(i32, Account, MockLlm, tempfile::TempDir)> {
    let program = std::env::var_os("KEW_TEST_CLAUDE")?;
    let place = tempfile::tempdir().unwrap();
    let (home, work) = (place.path().join("home"), place.path().join("work"));
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join(".gitconfig"), "[user]\nname = a\nemail = a@b.c\n").unwrap();
    let git = Command::new("git").args(["init", "-q"]).arg(&work).status().unwrap();
    assert!(git.success());
    let prompt_file = place.path().join("prompt");
    fs::write(&prompt_file, prompt).unwrap();
    let server = MockLlm::start(Ipv4Addr::LOCALHOST.into(), script).unwrap();
    let done = Command::new(program)
        .arg("--print")
        .args(ClaudeCode.container_args(Some("claude-sonnet-4-5")))
        .current_dir(&work)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", &home)
        .env("ANTHROPIC_API_KEY", "x")
        .env("ANTHROPIC_BASE_URL", format!("http://127.0.0.1:{}", server.port()))
        .env("CLAUDE_CODE_MAX_RETRIES", "1")
        .env("IS_SANDBOX", "1")
        .stdin(fs::File::open(prompt_file).unwrap())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    let mut account = Account::default();
    let mut events = Vec::new();
    done.stdout.split(|b| *b == b'\n').for_each(|line| ClaudeCode.parse_line(line, &mut events));
    events.iter().for_each(|event| account.apply(event));
    Some((done.status.code().unwrap_or(-1), account, server, place))
}

#[test]
fn the_real_cli_does_the_two_steps_and_is_accounted_for() {
    let command = "echo hello > out.txt && git add -A && git commit -qm 'add out'";
    let Some((code, account, server, place)) = run(two_steps(command, "Done."), "Write out.txt") else {
        return;
    };
    let result = account.result.as_ref().expect("an end marker");
    assert!(code == 0 && result.ok, "{code} {result:?}");
    assert_eq!(result.text.as_deref(), Some("Done."));
    let tokens = Tokens { input: 33, output: 77, cache_read: 1000, cache_write: 1050 };
    assert_eq!((account.tokens(), account.cost_usd()), (Some(tokens), Some(0.0054915)));
    assert_eq!(account.model.as_deref(), Some("claude-sonnet-4-5"));
    assert_eq!(fs::read_to_string(place.path().join("work/out.txt")).unwrap(), "hello\n");
    let requests = server.requests();
    let scripted: Vec<_> = requests.iter().filter(|request| request.scripted()).collect();
    assert_eq!(scripted.len(), 2);
    assert_eq!(scripted[0].header("x-api-key"), Some("x"));
    assert!(scripted[0].body["messages"].to_string().contains("Write out.txt"));
}

#[test]
fn the_real_clis_failures_are_told_apart() {
    for (status, retry_after, limited) in
        [(401, None, false), (403, None, false), (429, Some(3600), true), (500, None, false)]
    {
        let error = Reply::Error { status, message: "scripted".into(), retry_after };
        let Some((code, account, _, _)) = run(vec![error], "hi") else { return };
        let result = account.result.as_ref().expect("an end marker");
        assert!(code != 0 && !result.ok, "{status}: {code} {result:?}");
        assert_eq!(result.api_status, Some(status));
        assert_eq!(account.rate_limited.is_some(), limited, "{status}");
    }
}
