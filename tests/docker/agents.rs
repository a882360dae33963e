//! Every agent's real CLI in its own image, by the argv of a real run, against a scripted provider on the docker bridge:
//! the same job done by all, and the same troubles. An image differs from the real one only in where the provider is, and in
//! how patiently requests are repeated.

use std::time::Duration;

use super::agent::{
    bridge,
    mock_llm::{MockLlm, OPENROUTER_COST, Reply, Request, two_steps},
};
use crate::{
    contain::docker_build,
    rig::{Ran, Rig, docker, git},
};

const KEY: &str = "sk-or-test-0123456789abcdef";
const COMMIT: &str = "echo hello > out.txt && git add -A && git commit -qm 'Write out.txt'";

/// One agent, as these tests need it.
struct Cli {
    runner: &'static str,
    image: &'static str,
    model: &'static str,
    credential: &'static str,
    /// What is added to the image so that the provider at this address is asked.
    at: fn(&str) -> String,
}

const CLAUDE: Cli = Cli {
    runner: "claude-code",
    image: "kew-agent",
    model: "claude-sonnet-4-5",
    credential: "ANTHROPIC_API_KEY",
    at: |url| format!("ENV ANTHROPIC_BASE_URL={url} CLAUDE_CODE_MAX_RETRIES=1\n"),
};

const OPENCODE: Cli = Cli {
    runner: "opencode",
    image: "kew-opencode",
    model: "openrouter/anthropic/claude-sonnet-4.5",
    credential: "OPENROUTER_API_KEY",
    at: |url| opencode(url, ""),
};

const PI: Cli = Cli {
    runner: "pi",
    image: "kew-pi",
    model: "openrouter/anthropic/claude-sonnet-4.5",
    credential: "OPENROUTER_API_KEY",
    // Claude models go through OpenRouter's Anthropic API here, whose path it adds itself.
    at: |url| pi(url, ""),
};

const HERMES: Cli = Cli {
    runner: "hermes",
    image: "kew-hermes",
    model: "anthropic/claude-sonnet-4.5",
    credential: "OPENROUTER_API_KEY",
    at: |url| format!("ENV OPENROUTER_BASE_URL={url}/v1\n{}", home(".hermes/config.yaml", "agent:\\n  api_max_retries: 1\\n", "hermes")),
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
    format!("USER root\nRUN mkdir -p $(dirname /opt/test/{name}) && printf '%b' '{text}' > /opt/test/{name}\nUSER agent\n")
}

/// A file in the home, which is empty in every run: what the test's entrypoint puts there.
fn home(path: &str, text: &str, agent: &str) -> String {
    let put = format!("mkdir -p ~/$(dirname {path}) && cp /opt/test/file ~/{path}");
    format!("{}{}", file("file", text), entry(&put, agent))
}

/// An entrypoint that does something first.
fn entry(first: &str, agent: &str) -> String {
    format!("ENTRYPOINT [\"/bin/sh\", \"-c\", \"{first} && exec kew-{agent}-entrypoint \\\"$@\\\"\", \"test\"]\n")
}

/// A run of one node and what was asked of the provider.
struct Told {
    rig: Rig,
    ran: Ran,
    requests: Vec<Request>,
}

impl Cli {
    fn run(&self, script: Vec<Reply>) -> Told {
        self.run_with(script, "", "", "")
    }

    /// With more instructions in the image, more settings and more keys of the node.
    fn run_with(&self, script: Vec<Reply>, dockerfile: &str, settings: &str, node: &str) -> Told {
        let mut rig = Rig::new();
        let mock = MockLlm::start(bridge(), script).unwrap();
        let image = format!("kew-test-{}-{}", self.runner, mock.port());
        let url = format!("http://{}:{}", bridge(), mock.port());
        docker_build(&image, &format!("FROM {}\n{}{dockerfile}", self.image, (self.at)(&url)));
        rig.settings(&format!(
            "[sandbox]\nnetwork = \"open\"\ncheckout_dir = \"{}\"\nstop_grace = 4\n{settings}\n[sandbox.images]\n{} = \"{image}\"\n",
            rig.checkouts, self.runner
        ));
        for name in ["ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN", "OPENROUTER_API_KEY"] {
            rig.env.insert(name.into(), KEY.into());
        }
        if self.runner == "claude-code" {
            rig.env.remove("CLAUDE_CODE_OAUTH_TOKEN");
        }
        let prompt = "Write hello to out.txt and commit it. It's \\\"quoted\\\" $HOME";
        let plan = rig.root.join("real.toml");
        std::fs::write(
            &plan,
            format!(
                "version = 1\n[epic]\nname = \"real\"\n[nodes.a]\nrunner = \"{}\"\nmodel = \"{}\"\ntimeout = \"3m\"\nprompt = \"{prompt}\"\n{node}\n",
                self.runner, self.model
            ),
        )
        .unwrap();
        let ran = rig.run(&plan);
        docker(&["rmi", &image]);
        Told { rig, ran, requests: mock.requests() }
    }
}

impl Told {
    fn show(&self) -> String {
        String::from_utf8(self.rig.kew(&["show"]).stdout).unwrap()
    }
}

/// The job is done, collected and accounted for.
fn does_the_job(cli: &Cli) -> Told {
    let told = cli.run(two_steps(COMMIT, "Done."));
    println!("{:#?}\n{}", told.ran.events, told.ran.stderr);
    told.ran.expect(0);
    let ended = told.ran.ended("a");
    assert_eq!(ended["commits"], 1);
    let git_ref = ended["git_ref"].as_str().unwrap();
    assert_eq!(git(&told.rig.repo, &["show", &format!("{git_ref}:out.txt")]), "hello");
    let asked: Vec<_> = told.requests.iter().filter(|request| request.scripted()).collect();
    assert_eq!(asked.len(), 2, "{:?}", told.requests.iter().map(|request| &request.path).collect::<Vec<_>>());
    let bearer = asked[0].header("authorization").or(asked[0].header("x-api-key")).unwrap_or_default();
    assert!(bearer.ends_with(KEY), "{bearer}");
    let prompt = asked[0].body.to_string();
    assert!(prompt.contains("Write hello to out.txt") && prompt.contains("$HOME"), "{prompt}");
    told
}

fn tokens(told: &Told) -> serde_json::Value {
    told.ran.ended("a")["tokens"].clone()
}

fn cost(told: &Told) -> (f64, String) {
    let ended = told.ran.ended("a");
    (ended["cost_usd"].as_f64().unwrap(), ended["cost_source"].as_str().unwrap().to_owned())
}

#[test]
fn docker_opencode_does_the_job() {
    does_the_job(&OPENCODE);
}
#[test]
fn docker_pi_does_the_job() {
    does_the_job(&PI);
}
#[test]
fn docker_hermes_does_the_job() {
    does_the_job(&HERMES);
}
