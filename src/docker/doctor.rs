//! Checks of an engine and of an image, before a run depends on them. Each says what it saw and what to do; none spends.
//!
//! What an image prints is text of others: whoever shows a check makes it inert.

use std::collections::BTreeSet;

use super::{
    argv::{ALLOWLIST_NETWORK, Network},
    client::{Docker, DockerError, Engine},
    gateway::{self, GatewayError},
    network::NetworkError,
    trial::{Start, Trial, TrialError, complaint},
};
use crate::contract::{AGENT_HOME, AGENT_UID, PROMPT_MOUNT_PATH};

/// The exit status of an entrypoint that refuses its prompt.
const REFUSED: i32 = 64;

/// How good it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it must be.
    Ok,
    /// It works, but somebody should look.
    Warn,
    /// A run would fail.
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// What, in a word or two.
    pub check: &'static str,
    /// How good it is.
    pub level: Level,
    /// What was seen.
    pub says: String,
    /// What to do, if it is not good.
    pub remedy: Option<String>,
}

impl Check {
    /// All good.
    pub fn ok(check: &'static str, says: impl Into<String>) -> Self {
        Self { check, level: Level::Ok, says: says.into(), remedy: None }
    }

    /// Works, but.
    pub fn warn(check: &'static str, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Warn, says: says.into(), remedy: Some(remedy.into()) }
    }

    /// Would fail.
    pub fn fail(check: &'static str, says: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { check, level: Level::Fail, says: says.into(), remedy: Some(remedy.into()) }
    }
}

/// The engine's CPUs against what the settings give a container, if they do.
pub fn cpus(engine: &Engine, asked: Option<f64>) -> Check {
    let has = engine.cpus;
    match asked {
        Some(cpus) if has > 0 && cpus > f64::from(has) => Check::fail(
            "cpus",
            format!("`sandbox.cpus` = {cpus}, but the engine has {has}"),
            format!("set `sandbox.cpus` to at most {has}"),
        ),
        Some(cpus) => Check::ok("cpus", format!("{cpus} of {has} for each container")),
        None => Check::ok("cpus", format!("the engine has {has}")),
    }
}

/// The network that containers join.
pub fn network(docker: &Docker, network: Network) -> Check {
    match network {
        Network::None => Check::ok("network", "none: nothing can be reached"),
        Network::Open => Check::warn(
            "network",
            "open: containers have full network access",
            "set `sandbox.network` to `allowlist` unless an agent must get out",
        ),
        Network::Allowlist => match gateway::ready(docker, &BTreeSet::new()) {
            Ok(_) => {
                Check::ok("network", format!("{ALLOWLIST_NETWORK} is kew's own, and its gateway answers"))
            }
            Err(GatewayError::Docker(error) | GatewayError::Network(NetworkError::Docker(error))) => {
                Check::fail("network", error.to_string(), "see `docker network ls`")
            }
            Err(error) => Check::fail(
                "network",
                error.to_string(),
                "`kew sandbox network up` makes it, `kew sandbox network status` says more",
            ),
        },
    }
}

/// Asks which runc the engine uses.
pub fn runc(docker: &Docker) -> Result<Check, DockerError> {
    let text = docker.ask(&["version", "--format", "{{json .Server.Components}}"])?;
    Ok(judge_runc(&text))
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Component {
    name: String,
    version: String,
}

/// Whether the runc among these components is older than the escapes that are known.
fn judge_runc(components: &str) -> Check {
    let components: Vec<Component> = serde_json::from_str(components).unwrap_or_default();
    let Some(runc) = components.into_iter().find(|component| component.name == "runc") else {
        return Check::warn(
            "runc",
            "the engine does not say which runc it uses",
            "see that it is at least 1.2.8, 1.3.3 or 1.4.0",
        );
    };
    let version = runc.version;
    match escapable(&version) {
        Some(false) => Check::ok("runc", version),
        Some(true) => Check::warn(
            "runc",
            format!(
                "{version} is older than 1.2.8 and 1.3.3: containers can break out of it (CVE-2025-31133, -52565, -52881)"
            ),
            "update runc, unless your distribution has patched this version (its security tracker says so)",
        ),
        None => Check::warn(
            "runc",
            format!("`{version}` is a version that kew cannot read"),
            "see that it is at least 1.2.8, 1.3.3 or 1.4.0",
        ),
    }
}

/// Whether a runc of this version lacks the mends of November 2025; `None` = it cannot be told.
fn escapable(version: &str) -> Option<bool> {
    let end = |text: &str| text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let mut parts = version.trim_start_matches('v').splitn(3, '.');
    let (major, minor, rest) = (parts.next()?, parts.next()?, parts.next()?);
    let (patch, tail) = rest.split_at(end(rest));
    let release: (u32, u32, u32) = (major.parse().ok()?, minor.parse().ok()?, patch.parse().ok()?);
    let candidate = tail.strip_prefix("-rc.").map(|rc| rc[..end(rc)].parse::<u32>().unwrap_or(0));
    Some(match release {
        (1, 3, patch) => patch < 3,
        (1, 4, 0) => candidate.is_some_and(|rc| rc < 3),
        release => release < (1, 2, 8),
    })
}

/// Looks at the user, the home, the mount, git and the agent's program, from inside. Ends with an empty mount.
const PROBE: &str = r#"
say() { printf 'kew-doctor\t%s\t%s\t%s\n' "$1" "$2" "$3"; }
program="$1"
if [ "$(id -u)" = @UID ]; then say user ok "uid @UID"; else say user fail "the user is $(id -u), not @UID"; fi
mode="$(stat -c %a @HOME 2>/dev/null)"
if [ "$HOME" != @HOME ]; then say home fail "HOME is $HOME, not @HOME"
elif [ "$mode" != 700 ]; then say home fail "@HOME has the mode ${mode:-?}, not 0700"
elif ! touch @HOME/.kew-doctor 2>/dev/null; then say home fail "@HOME cannot be written"
else say home ok "@HOME, 0700"; fi
if touch /work/.kew-doctor 2>/dev/null && [ -s "@PROMPT" ]; then say mount ok "/work can be written, and the prompt is there"
else say mount fail "/work cannot be written, or the prompt is not there"; fi
g() { git -C /work -c safe.directory=/work -c user.name=kew-doctor -c user.email=doctor@kew.local -c commit.gpgsign=false "$@"; }
if ! command -v git >/dev/null; then say commit fail "there is no git"
elif why="$( { g init -q && : >/work/.kew-doctor && g add .kew-doctor && g commit -qm Probe; } 2>&1)"; then
    say commit ok "$(git --version 2>/dev/null | head -n 1)"
else say commit fail "$(printf %s "$why" | tail -n 1)"; fi
if [ -n "$program" ]; then
    if said="$("$program" --version 2>&1 </dev/null)"; then say program ok "$(printf %s "$said" | head -n 1)"
    else say program fail "$program --version: exit status $?: $(printf %s "$said" | tail -n 1)"; fi
fi
find /work -mindepth 1 -delete 2>/dev/null
exit 0
"#;

/// What the probe looks at, and how to mend it. The last one only where the runner has a program.
const PROBED: &[(&str, &str)] = &[
    ("user", "end the Dockerfile with `USER 1001`"),
    (
        "home",
        "in the image: `ENV HOME=/home/agent`, and that folder, if it is there, with mode 0700 and owner 1001",
    ),
    ("mount", "the engine may see another file system than kew: set `sandbox.checkout_dir`"),
    ("commit", "install git in the image"),
    ("program", "install the runner's agent in the image, executable by everyone, in PATH"),
];

/// Tries an image: three short containers. `name` gives each a name of its own; `program` answers `--version`;
/// `args` are a runner's `container_args()`.
pub fn image(
    trial: &Trial<'_>,
    name: impl Fn() -> String,
    program: Option<&str>,
    args: &[String],
) -> Vec<Check> {
    let probe = PROBE
        .replace("@UID", &AGENT_UID.to_string())
        .replace("@HOME", AGENT_HOME)
        .replace("@PROMPT", PROMPT_MOUNT_PATH);
    let script = Start::Script(&probe, program.unwrap_or_default());
    let mut checks = match trial.run(&name(), Some("kew doctor\n"), script) {
        Ok(answer) if answer.ok() => probed(&answer.text(), program.is_some()),
        Ok(answer) => {
            let code = answer.code.unwrap_or(-1);
            vec![Check::fail(
                "box",
                format!("exit status {code}: {}", complaint(&answer)),
                "an image must have /bin/sh and start as its user under the flags of docker/README.md",
            )]
        }
        Err(error) => vec![not_tried("box", &error)],
    };
    if checks.iter().any(|check| check.check == "box") {
        return checks;
    }
    for (check, prompt) in [("no prompt", None), ("empty prompt", Some(""))] {
        checks.push(match trial.run(&name(), prompt, Start::Own(args)) {
            Ok(answer) => refusal(check, answer.code, &complaint(&answer)),
            Err(error) => not_tried(check, &error),
        });
    }
    checks
}

fn not_tried(check: &'static str, error: &TrialError) -> Check {
    match error {
        TrialError::Query(_) => Check::fail(check, error.to_string(), "the image must end by itself"),
        _ => {
            Check::fail(check, error.to_string(), "set `sandbox.checkout_dir` to a folder that you may write")
        }
    }
}

/// Reads the probe's lines; what it did not say is a failure.
fn probed(text: &str, program: bool) -> Vec<Check> {
    let said: Vec<[&str; 3]> = text
        .lines()
        .filter_map(|line| {
            let mut parts = line.strip_prefix("kew-doctor\t")?.splitn(3, '\t');
            Some([parts.next()?, parts.next()?, parts.next()?])
        })
        .collect();
    let of = |(check, remedy): &(&'static str, &'static str)| {
        let line = said.iter().find(|[what, ..]| what == check);
        match line {
            Some([_, "ok", says]) => Check::ok(check, *says),
            Some([_, _, says]) => Check::fail(check, *says, *remedy),
            None => Check::fail(check, "the image's shell did not say", *remedy),
        }
    };
    PROBED.iter().filter(|(check, _)| program || *check != "program").map(of).collect()
}

/// Judges how an entrypoint ended that must refuse its prompt.
fn refusal(check: &'static str, code: Option<i32>, said: &str) -> Check {
    let remedy = format!(
        "an entrypoint must end with {REFUSED} before it starts its agent if {PROMPT_MOUNT_PATH} is missing or empty"
    );
    match code {
        Some(REFUSED) => Check::ok(check, format!("refused with exit status {REFUSED}")),
        Some(0) => Check::fail(check, "taken: the entrypoint ended with 0", remedy),
        Some(code @ 125..=127) => {
            Check::fail(check, format!("the entrypoint could not be started ({code}): {said}"), remedy)
        }
        Some(code) => Check::warn(check, format!("exit status {code}, not {REFUSED}: {said}"), remedy),
        None => Check::fail(check, "the docker client was killed", remedy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runc_with_known_escapes_is_told() {
        for (version, old) in [
            ("1.1.5+ds1", Some(true)),
            ("1.2.7", Some(true)),
            ("1.2.8", Some(false)),
            ("1.2.10", Some(false)),
            ("1.3.0", Some(true)),
            ("1.3.2-0ubuntu1", Some(true)),
            ("1.3.3", Some(false)),
            ("1.4.0-rc.1", Some(true)),
            ("1.4.0-rc.3", Some(false)),
            ("1.4.0", Some(false)),
            ("v2.0.0", Some(false)),
            ("1.0.0-rc93", Some(true)),
            ("", None),
            ("1.2", None),
            ("new", None),
        ] {
            assert_eq!(escapable(version), old, "{version}");
        }
        let level = |text: &str| judge_runc(text).level;
        assert_eq!(
            level(r#"[{"Name":"Engine","Version":"9"},{"Name":"runc","Version":"1.3.4"}]"#),
            Level::Ok
        );
        assert_eq!(level(r#"[{"Name":"runc","Version":"1.1.0"}]"#), Level::Warn);
        assert_eq!((level("[]"), level("null"), level("x")), (Level::Warn, Level::Warn, Level::Warn));
    }

    #[test]
    fn what_the_probe_does_not_say_is_a_failure() {
        let text =
            "noise\nkew-doctor\tuser\tok\tuid 1001\nkew-doctor\thome\tfail\tHOME is /\nkew-doctor\tmount\n";
        let levels: Vec<_> = probed(text, true).into_iter().map(|check| (check.check, check.level)).collect();
        assert_eq!(
            levels,
            [
                ("user", Level::Ok),
                ("home", Level::Fail),
                ("mount", Level::Fail),
                ("commit", Level::Fail),
                ("program", Level::Fail)
            ]
        );
        assert_eq!(probed(text, false).len(), 4);
    }

    #[test]
    fn only_64_is_a_refusal_and_0_is_none() {
        let level = |code| refusal("no prompt", code, "").level;
        assert_eq!(level(Some(64)), Level::Ok);
        assert_eq!(level(Some(1)), Level::Warn);
        for bad in [Some(0), Some(125), Some(126), Some(127), None] {
            assert_eq!(level(bad), Level::Fail, "{bad:?}");
        }
    }
}
