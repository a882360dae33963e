//! `[credentials]`: which of a runner's credentials a container is given. Through the program, without an engine.

use std::{fs, process::Command};

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;

const KEY: &str = "ANTHROPIC_API_KEY";
const TOKEN: &str = "CLAUDE_CODE_OAUTH_TOKEN";
const PLAN: &str = "version = 1\n[epic]\nname = \"e\"\n[nodes.a]\nrunner = \"claude-code\"\nmodel = \"sonnet\"\nprompt = \"hi\"\n";

/// A user with a repository.
struct User {
    _tmp: tempfile::TempDir,
    root: Utf8PathBuf,
}

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl User {
    fn new(settings: &str) -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(tmp.path()).unwrap().to_owned();
        fs::create_dir_all(root.join(".config/kew")).unwrap();
        let images = "[sandbox.images]\nclaude-code = \"some-image\"\n";
        fs::write(root.join(".config/kew/config.toml"), format!("{settings}\n{images}")).unwrap();
        fs::create_dir(root.join("repo")).unwrap();
        let user = Self { _tmp: tmp, root };
        for args in [&["init", "-q"][..], &["commit", "-q", "--allow-empty", "-m", "Begin"]] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(args);
            assert!(git.current_dir(user.root.join("repo")).status().unwrap().success());
        }
        fs::write(user.root.join("plan.toml"), PLAN).unwrap();
        user
    }

    fn kew(&self, args: &[&str], env: &[(&str, &str)]) -> Said {
        let output = Command::new(env!("CARGO_BIN_EXE_kew"))
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", &self.root)
            .envs(env.iter().copied())
            .current_dir(self.root.join("repo"))
            .output()
            .unwrap();
        Said {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// A dry run of the plan.
    fn dry(&self, env: &[(&str, &str)]) -> Value {
        let said = self.kew(&["run", "../plan.toml", "--dry-run", "--format", "json"], env);
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        for (_, value) in env.iter().filter(|(_, value)| value.starts_with("secret")) {
            assert!(!said.stdout.contains(value) && !said.stderr.contains(value), "{}", said.stdout);
        }
        serde_json::from_str(&said.stdout).unwrap()
    }
}

/// Names that follow `-e` in a node's argv.
fn forwarded(dry: &Value) -> Vec<String> {
    let argv: Vec<&str> =
        dry["nodes"][0]["argv"].as_array().unwrap().iter().map(|a| a.as_str().unwrap()).collect();
    argv.windows(2).filter(|pair| pair[0] == "-e").map(|pair| pair[1].to_owned()).collect()
}

fn warnings(dry: &Value) -> String {
    dry["warnings"].to_string()
}

#[test]
fn without_a_choice_both_names_are_forwarded_and_two_set_are_a_warning() {
    let user = User::new("");
    assert_eq!(forwarded(&user.dry(&[])), [KEY, TOKEN]);
    for one in [KEY, TOKEN] {
        assert_eq!(warnings(&user.dry(&[(one, "secret-1")])), "[]", "{one}");
    }
    let both = warnings(&user.dry(&[(KEY, "secret-1"), (TOKEN, "secret-2")]));
    assert!(both.contains("uses and bills `ANTHROPIC_API_KEY`, not `CLAUDE_CODE_OAUTH_TOKEN`"), "{both}");
    assert!(both.contains("[credentials]"), "{both}");
}

#[test]
fn the_chosen_name_alone_is_forwarded() {
    let user = User::new("[credentials]\nclaude-code = \"CLAUDE_CODE_OAUTH_TOKEN\"");
    let dry = user.dry(&[(KEY, "secret-1"), (TOKEN, "secret-2")]);
    assert_eq!(forwarded(&dry), [TOKEN]);
    assert_eq!(dry["nodes"][0]["credentials"], serde_json::json!([{"name": TOKEN, "set": true}]));
    assert_eq!(warnings(&dry), "[]");
    // The environment comes after the file.
    let env = [("KEW_CREDENTIALS__CLAUDE_CODE", KEY), (KEY, "secret-1")];
    assert_eq!(forwarded(&user.dry(&env)), [KEY]);
    let listed = user.kew(&["runners"], &[]).stdout;
    assert!(listed.contains("CLAUDE_CODE_OAUTH_TOKEN (chosen in the settings)"), "{listed}");
}

#[test]
fn the_other_name_does_not_stand_in_for_the_chosen_one() {
    let user = User::new("[credentials]\nclaude-code = \"CLAUDE_CODE_OAUTH_TOKEN\"");
    // No engine answers there: the credential is asked for first.
    let env = [(KEY, "secret-1"), ("DOCKER_HOST", "unix:///nonexistent")];
    let said = user.kew(&["run", "../plan.toml"], &env);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    assert!(said.stderr.contains("its credential `CLAUDE_CODE_OAUTH_TOKEN` is not set"), "{}", said.stderr);
    // One that is set but empty stops a run only if it would be used.
    let env = [(KEY, ""), (TOKEN, "secret-2"), ("DOCKER_HOST", "unix:///nonexistent")];
    assert_eq!(user.kew(&["run", "../plan.toml"], &env).code, Some(4));
    let open = User::new("");
    let said = open.kew(&["run", "../plan.toml"], &env);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("`ANTHROPIC_API_KEY` is set but empty"), "{}", said.stderr);
}

#[test]
fn an_unset_credential_says_how_to_get_one() {
    let said = User::new("").kew(&["run", "../plan.toml"], &[]);
    assert_eq!(said.code, Some(2), "{}", said.stderr);
    for words in ["none of its credentials is set", KEY, "claude setup-token", "console"] {
        assert!(said.stderr.contains(words), "{words}: {}", said.stderr);
    }
}

#[test]
fn wrong_choices_are_errors_that_name_what_was_meant() {
    for (line, says) in [
        ("claud-code = \"ANTHROPIC_API_KEY\"", "unknown runner `claud-code`; did you mean `claude-code`?"),
        ("claude-code = \"CLAUDE_CODE_OAUTH_TOKN\"", "did you mean `CLAUDE_CODE_OAUTH_TOKEN`?"),
        ("claude-code = \"GITHUB_TOKEN\"", "`GITHUB_TOKEN` is no credential of that runner"),
        ("shell = \"ANTHROPIC_API_KEY\"", "is given no credential"),
        ("claude-code = 3", "credentials.claude-code"),
        ("claude-code = \"sk-ant-secret\"", "what is set is no credential"),
    ] {
        let said = User::new(&format!("[credentials]\n{line}")).kew(&["check", "../plan.toml"], &[]);
        assert_eq!(said.code, Some(2), "{line}: {}", said.stderr);
        assert!(said.stderr.contains(says), "{line}: {}", said.stderr);
        assert!(!said.stderr.contains("sk-ant"), "{}", said.stderr);
    }
}

#[test]
fn a_repository_does_not_choose() {
    let user = User::new("");
    fs::write(user.root.join("repo/kew.toml"), "[credentials]\nclaude-code = \"ANTHROPIC_API_KEY\"\n")
        .unwrap();
    let said = user.kew(&["check", "--repo", ".", "../plan.toml"], &[]);
    assert_eq!(said.code, Some(2));
    assert!(said.stderr.contains("which a repository may not"), "{}", said.stderr);
}
