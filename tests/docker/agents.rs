//! Every agent's real CLI in its own image, by the argv of a real run, against a scripted provider on the docker bridge:
//! the same job done by all, and the same troubles. An image differs from the real one only in where the provider is, and in
//! how patiently requests are repeated.

use camino::Utf8PathBuf;

use super::agent::{
    bridge,
    mock_llm::{MockLlm, OPENROUTER_COST, Reply, Request, two_steps},
};
use crate::{
    contain::docker_build,
    rig::{Ran, Rig, containers, docker, git, until},
};

pub const KEY: &str = "sk-or-test-0123456789abcdef";
const COMMIT: &str = "echo hello > out.txt && git add -A && git commit -qm 'Write out.txt'";

/// One agent, as these tests need it.
pub struct Cli {
    pub runner: &'static str,
    pub image: &'static str,
    pub model: &'static str,
    /// What is added to its image so that the provider at this address is asked.
    at: fn(&str) -> String,
}

pub const CLAUDE: Cli = Cli {
    runner: "claude-code",
    image: "kew-agent",
    model: "claude-sonnet-4-5",
    at: |url| format!("ENV ANTHROPIC_BASE_URL={url} CLAUDE_CODE_MAX_RETRIES=1\n"),
};

pub const OPENCODE: Cli = Cli {
    runner: "opencode",
    image: "kew-opencode",
    model: "openrouter/anthropic/claude-sonnet-4.5",
    at: |url| opencode(url, ""),
};

pub const PI: Cli = Cli {
    runner: "pi",
    image: "kew-pi",
    model: "openrouter/anthropic/claude-sonnet-4.5",
    // Claude models go through OpenRouter's Anthropic API here, whose path it adds itself.
    at: |url| pi(url, ""),
};

pub const HERMES: Cli = Cli {
    runner: "hermes",
    image: "kew-hermes",
    model: "anthropic/claude-sonnet-4.5",
    // Its list of prices is at an address of its own.
    at: |url| {
        let lib = "/usr/local/lib/hermes/lib/python3.11/site-packages/hermes_constants.py";
        let prices =
            format!("USER root\nRUN sed -i 's|https://openrouter.ai/api/v1|{url}/v1|' {lib}\nUSER agent\n");
        let config = home(".hermes/config.yaml", "agent:\\n  api_max_retries: 1\\n", "hermes");
        format!("ENV OPENROUTER_BASE_URL={url}/v1\n{prices}{config}")
    },
};

fn opencode(url: &str, more: &str) -> String {
    let config = format!(r#"{{"provider":{{"openrouter":{{"options":{{"baseURL":"{url}/v1"}}}}}}{more}}}"#);
    format!("ENV OPENCODE_CONFIG_CONTENT='{config}'\n")
}

fn pi(url: &str, more: &str) -> String {
    let models = format!(r#"{{"providers":{{"openrouter":{{"baseUrl":"{url}"}}}}}}"#);
    let settings = r#"{"retry":{"maxRetries":1,"baseDelayMs":100}}"#;
    format!(
        "{}{more}{}",
        file("models.json", &models) + &file("settings.json", settings),
        entry("mkdir -p ~/.pi/agent && cp -r /opt/test/. ~/.pi/agent/", "pi")
    )
}

/// A file of the test's in the image; the text holds no `'`.
fn file(name: &str, text: &str) -> String {
    format!(
        "USER root\nRUN mkdir -p $(dirname /opt/test/{name}) && printf '%b' '{text}' > /opt/test/{name}\nUSER agent\n"
    )
}

/// A file in the home, which is empty in every run: what the test's entrypoint puts there.
fn home(path: &str, text: &str, agent: &str) -> String {
    let put = format!("mkdir -p ~/$(dirname {path}) && cp /opt/test/file ~/{path}");
    format!("{}{}", file("file", text), entry(&put, agent))
}

/// An entrypoint that does something first.
fn entry(first: &str, agent: &str) -> String {
    format!(
        "ENTRYPOINT [\"/bin/sh\", \"-c\", \"{first} && exec kew-{agent}-entrypoint \\\"$@\\\"\", \"test\"]\n"
    )
}

/// A user with a plan of one node, and the provider that it will ask.
struct Stage {
    rig: Rig,
    plan: Utf8PathBuf,
    mock: MockLlm,
    image: String,
}

/// What became of it.
struct Told {
    rig: Rig,
    ran: Ran,
    requests: Vec<Request>,
}

/// What differs from the plain case.
#[derive(Default)]
struct More {
    /// Instructions of the image.
    dockerfile: String,
    /// Lines under `[sandbox]`.
    settings: String,
}

impl Cli {
    fn stage(&self, script: Vec<Reply>, more: &More) -> Stage {
        let mut rig = Rig::new();
        let mock = MockLlm::start(bridge(), script).unwrap();
        let image = format!("kew-test-{}-{}", self.runner, mock.port());
        let url = format!("http://{}:{}", bridge(), mock.port());
        docker_build(&image, &format!("FROM {}\n{}{}", self.image, (self.at)(&url), more.dockerfile));
        rig.settings(&format!(
            "[sandbox]\nnetwork = \"open\"\ncheckout_dir = \"{}\"\nstop_grace = 4\n{}\n[sandbox.images]\n{} = \"{image}\"\n",
            rig.checkouts, more.settings, self.runner
        ));
        rig.env.insert("ANTHROPIC_API_KEY".into(), KEY.into());
        rig.env.insert("OPENROUTER_API_KEY".into(), KEY.into());
        let plan = rig.root.join("real.toml");
        let prompt = "Write hello to out.txt and commit it; \\\"quoted\\\" $HOME.";
        let node = format!(
            "runner = \"{}\"\nmodel = \"{}\"\ntimeout = \"3m\"\nprompt = \"{prompt}\"\n",
            self.runner, self.model
        );
        std::fs::write(&plan, format!("version = 1\n[epic]\nname = \"real\"\n[nodes.a]\n{node}")).unwrap();
        Stage { rig, plan, mock, image }
    }

    fn run(&self, script: Vec<Reply>, more: &More) -> Told {
        let stage = self.stage(script, more);
        // A rate limit is not waited for: the run ends at the first one.
        let ran = stage.rig.run_in(&stage.rig.repo, &stage.plan, &["--max-wait", "1s"]);
        stage.told(ran)
    }

    fn fails(&self, script: Vec<Reply>, more: &More, outcome: &str) -> Told {
        let told = self.run(script, more);
        told.fails(self.runner, outcome, 1);
        told
    }
}

impl Stage {
    fn told(self, ran: Ran) -> Told {
        docker(&["rmi", &self.image]);
        Told { rig: self.rig, ran, requests: self.mock.requests() }
    }
}

impl Told {
    fn show(&self) -> String {
        String::from_utf8(self.rig.kew(&["show"]).stdout).unwrap()
    }

    fn fails(&self, runner: &str, outcome: &str, code: i32) {
        self.ran.expect(code);
        let found = self.ran.outcome("a");
        assert!(found.starts_with(outcome), "{runner}: {found}");
        assert_eq!(self.ran.ended("a")["commits"], 0, "{runner}");
        self.rig.no_checkouts();
    }

    fn ended(&self, key: &str) -> &serde_json::Value {
        &self.ran.ended("a")[key]
    }

    fn asked(&self) -> Vec<&Request> {
        self.requests.iter().filter(|request| request.scripted()).collect()
    }
}

/// The job is done, collected and accounted for.
fn does_the_job(cli: &Cli, source: &str) -> Told {
    let told = cli.run(two_steps(COMMIT, "Done."), &More::default());
    told.ran.expect(0);
    assert_eq!(told.ended("commits"), 1);
    let git_ref = told.ended("git_ref").as_str().unwrap();
    assert_eq!(git(&told.rig.repo, &["show", &format!("{git_ref}:out.txt")]), "hello");
    let tokens = serde_json::json!({ "input": 33, "output": 77, "cache_read": 1000, "cache_write": 1050 });
    assert_eq!(told.ended("tokens"), &tokens);
    let cost = told.ended("cost_usd").as_f64().unwrap();
    assert!((cost - 0.005_491_5).abs() < 1e-9, "{cost}");
    assert_eq!(told.ended("cost_source"), source);

    let asked = told.asked();
    let paths: Vec<_> = told.requests.iter().map(|request| &request.path).collect();
    assert_eq!(asked.len(), 2, "{paths:?}");
    let bearer = asked[0].header("authorization").or(asked[0].header("x-api-key")).unwrap_or_default();
    assert!(bearer.ends_with(KEY), "{bearer}");
    // The prompt as it was written: what a shell would do to it was not done.
    let prompt = asked[0].body.to_string();
    assert!(prompt.contains(r#"commit it; \"quoted\" $HOME."#), "{prompt}");
    told
}

#[test]
fn docker_claude_does_the_job() {
    let told = does_the_job(&CLAUDE, "list-price");
    assert!(told.show().contains("claude-sonnet-4-5"), "{}", told.show());
}

#[test]
fn docker_opencode_does_the_job() {
    let told = does_the_job(&OPENCODE, "list-price");
    assert_eq!(told.asked()[0].body["model"], "anthropic/claude-sonnet-4.5");
    // A title would be asked of another model, and not told.
    let posts = told.requests.iter().filter(|request| request.method == "POST").count();
    assert_eq!(posts, 2);
    assert!(told.show().contains("session  ses_") && told.show().contains(OPENCODE.model), "{}", told.show());
}

#[test]
fn docker_pi_does_the_job() {
    let told = does_the_job(&PI, "list-price");
    let show = told.show();
    assert!(show.contains("session  ") && show.contains("model    anthropic/claude-sonnet-4.5"), "{show}");
    assert!(show.contains("$0.0055 (list price)"), "{show}");
}

#[test]
fn docker_hermes_does_the_job() {
    let told = does_the_job(&HERMES, "estimate");
    let show = told.show();
    assert!(show.contains("session  ") && show.contains("model    anthropic/claude-sonnet-4.5"), "{show}");
}

#[test]
fn docker_pi_tells_what_the_provider_charged() {
    let cli = Cli { model: "openrouter/openai/gpt-5-mini", at: |url| pi(&format!("{url}/v1"), ""), ..PI };
    let told = cli.run(two_steps(COMMIT, "Done."), &More::default());
    told.ran.expect(0);
    let cost = told.ended("cost_usd").as_f64().unwrap();
    assert!((cost - 2.0 * OPENROUTER_COST).abs() < 1e-9, "{cost}");
    assert_eq!(told.ended("cost_source"), "provider");
}

fn error(status: u16) -> Vec<Reply> {
    vec![Reply::Error { status, message: "scripted trouble".into(), retry_after: Some(1) }]
}

/// The provider's own troubles: each has its outcome, and none is taken for success.
fn fails_by_status(cli: &Cli) {
    for (status, outcome) in
        [(401, "credential-refused: HTTP 401"), (404, "failed: "), (429, "rate-limited: "), (500, "failed: ")]
    {
        let told = cli.run(error(status), &More::default());
        // A limit that is used up is no failure: the node waits, and the run ends at its cap.
        let limited = status == 429;
        told.fails(cli.runner, outcome, if limited { 5 } else { 1 });
        assert_eq!(told.ended("state"), if limited { "waiting" } else { "failed" });
        // Claude Code is stopped at its first retry with a refused key, and has words of its own for other troubles.
        let words = match (cli.runner, status) {
            ("claude-code", 401) => "authentication",
            ("claude-code", 404) => "selected model",
            ("claude-code", 429) => "used up",
            _ => "scripted trouble",
        };
        let reason = told.ran.outcome("a");
        assert!(reason.contains(words), "{}: {reason}", cli.runner);
    }
}

#[test]
fn docker_claude_fails_by_status() {
    fails_by_status(&CLAUDE);
}

#[test]
fn docker_opencode_fails_by_status() {
    fails_by_status(&OPENCODE);
}

#[test]
fn docker_pi_fails_by_status() {
    fails_by_status(&PI);
}

#[test]
fn docker_hermes_fails_by_status() {
    fails_by_status(&HERMES);
}

/// A provider that never answers: stalled, and stopped.
fn stalls(cli: &Cli, seconds: u32) {
    let more = More { settings: format!("idle_timeout = {seconds}"), ..More::default() };
    let told = cli.fails(vec![Reply::Silence], &more, "stalled: it said nothing for ");
    assert!(told.asked().len() <= 1, "{}: it retried", cli.runner);
}

#[test]
fn docker_claude_stalls() {
    stalls(&CLAUDE, 8);
}

#[test]
fn docker_opencode_stalls() {
    stalls(&OPENCODE, 20);
}

#[test]
fn docker_pi_stalls() {
    stalls(&PI, 8);
}

#[test]
fn docker_hermes_stalls() {
    stalls(&HERMES, 15);
}

/// An answer that is cut off in the middle, again and again.
fn fails_when_cut(cli: &Cli, outcome: &str) -> Told {
    let more = More { settings: "step_cap = 4".into(), ..More::default() };
    cli.fails(vec![Reply::Cut { text: "I will not come to an end of this. ".into() }], &more, outcome)
}

#[test]
fn docker_claude_fails_when_cut() {
    fails_when_cut(&CLAUDE, "failed: ");
}

#[test]
fn docker_opencode_is_a_runaway_when_cut() {
    // Without a cap it goes on for ever, in steps that use no token.
    let told = fails_when_cut(&OPENCODE, "runaway: it took more than 4 steps");
    assert!(told.asked().len() >= 5);
}

#[test]
fn docker_pi_fails_when_cut() {
    fails_when_cut(&PI, "failed: ");
}

#[test]
fn docker_hermes_fails_when_cut() {
    fails_when_cut(&HERMES, "failed: ");
}

/// A tool call that the agent's own rules refuse; the agent goes on and says that it is done.
fn fails_when_refused(cli: &Cli, command: &str, dockerfile: &str, outcome: &str) {
    let more = More { dockerfile: dockerfile.into(), ..More::default() };
    let told = cli.fails(two_steps(command, "Done."), &more, outcome);
    let answer = told.asked()[1].body["messages"].to_string();
    let refused = ["denied", "prevents you", "refused by a rule", "BLOCKED"];
    assert!(refused.iter().any(|word| answer.contains(word)), "{}: {answer}", cli.runner);
}

#[test]
fn docker_claude_fails_when_a_tool_is_refused() {
    let rules = r#"{"permissions":{"deny":["Bash(echo:*)"]}}"#;
    let settings = format!(
        "USER root\nRUN mkdir -p /etc/claude-code && echo '{rules}' >/etc/claude-code/managed-settings.json\nUSER agent\n"
    );
    fails_when_refused(&CLAUDE, COMMIT, &settings, "failed: 1 tool calls were refused");
}

#[test]
fn docker_opencode_fails_when_a_tool_is_refused() {
    let at = |url: &str| opencode(url, r#","permission":{"bash":{"*":"allow","git commit*":"deny"}}"#);
    let cli = Cli { at, ..OPENCODE };
    fails_when_refused(&cli, COMMIT, "", "failed: 1 tool calls were refused");
}

/// pi and hermes do not tell a refusal; what was refused is not done.
#[test]
fn docker_pi_fails_when_a_tool_is_refused() {
    let extension =
        r#"export default (pi) => pi.on("tool_call", () => ({ block: true, reason: "refused by a rule" }));"#;
    fails_when_refused(&PI, COMMIT, &file("extensions/block.js", extension), "nothing-done: ");
}

#[test]
fn docker_hermes_fails_when_a_tool_is_refused() {
    fails_when_refused(&HERMES, "shutdown -h now", "", "nothing-done: ");
}

/// A signal from outside, while a tool runs.
fn fails_by_sigterm(cli: &Cli, outcome: &str) -> Told {
    let command = "echo begun > begun.txt; timeout 90 tail -f /dev/null";
    let stage = cli.stage(two_steps(command, "Done."), &More::default());
    let running = stage.rig.start(&stage.plan);
    let run = running.wait_for_container("a");
    let container = containers(&format!("kew.run={run}"));
    until("the tool", || {
        let mut look = std::process::Command::new("docker");
        let found = look.args(["exec", &container, "test", "-e", "/work/begun.txt"]).output().unwrap();
        found.status.success().then_some(())
    });
    docker(&["kill", "-s", "TERM", &container]);
    let ran = running.end();
    stage.rig.nothing_left(&ran);
    let told = stage.told(ran);
    told.fails(cli.runner, outcome, 1);
    told
}

#[test]
fn docker_claude_fails_by_sigterm() {
    fails_by_sigterm(&CLAUDE, "failed: ");
}

#[test]
fn docker_opencode_fails_by_sigterm() {
    fails_by_sigterm(&OPENCODE, "failed: ended too early: ");
}

#[test]
fn docker_pi_fails_by_sigterm() {
    fails_by_sigterm(&PI, "failed: ended too early: ");
}

#[test]
fn docker_hermes_fails_by_sigterm() {
    // Its image tells what was spent so far.
    let told = fails_by_sigterm(&HERMES, "failed: failed: ");
    let tokens = serde_json::json!({ "input": 11, "output": 33, "cache_read": 0, "cache_write": 1000 });
    assert_eq!(told.ended("tokens"), &tokens, "{}", told.ran.outcome("a"));
}
