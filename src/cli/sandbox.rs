//! `kew sandbox smoke`: tries images without starting an agent; and what all of `kew sandbox` begins with.

use camino::{Utf8Path, Utf8PathBuf};

use super::{SmokeArgs, put, say, setting};
use crate::{
    config::Settings,
    contract::PROMPT_MOUNT_PATH,
    docker::{
        argv::Network,
        client::Docker,
        context,
        network::check_allowlist,
        trial::{Start, Trial, complaint},
    },
    error::Failure,
    run::fresh,
    text::{self, inert},
};

/// Tries images: start under the full hardening, mount, prompt hand-over. The agent itself is not started.
pub fn smoke(args: &SmokeArgs) -> Result<u8, Failure> {
    let settings = settings(args.repo.repo.as_deref())?;
    let mut images: Vec<(String, String)> =
        settings.sandbox.images.iter().map(|(runner, image)| (runner.clone(), image.clone())).collect();
    if let Some(runner) = &args.runner {
        images.retain(|(name, _)| name == runner);
        if images.is_empty() {
            return Err(Failure::usage(format!(
                "the settings map `{}` to no image",
                runner.escape_default()
            ))
            .help(format!("set `sandbox.images.{runner}`")));
        }
    }
    if images.is_empty() {
        return Err(Failure::usage("the settings map no runner to an image")
            .help("set `sandbox.images.<runner>` in `kew.toml`"));
    }
    let (docker, _config) = engine()?;
    let cpus = docker.engine()?.cpus;
    if settings.sandbox.network == Network::Allowlist {
        check_allowlist(&docker)?;
    }
    let mut bad = 0;
    for (runner, image) in images {
        match smoke_one(&docker, cpus, &settings, &image) {
            Ok(()) => put(&format!("{runner}: ok ({image})\n")),
            Err(failure) => {
                bad += 1;
                put(&format!("{runner}: FAILED ({image}): {}\n", failure.message));
                if let Some(help) = failure.help {
                    say(&format!("  help: {help}"));
                }
            }
        }
    }
    if bad > 0 {
        return Err(Failure::infrastructure(format!("{} failed", text::plural(bad, "image"))));
    }
    Ok(0)
}

/// The script that stands in for the agent: the prompt back, and that the agent's user may work where it must.
const TRIAL: &str = r#"
fail() { echo "$1" >&2; exit 1; }
cat "$KEW_SMOKE_PROMPT" || fail "the prompt file cannot be read"
[ "$(id -u)" = 1001 ] || fail "the user is $(id -u), not 1001"
[ "$HOME" = /home/agent ] || fail "HOME is $HOME, not /home/agent"
[ "$(stat -c %a /home/agent)" = 700 ] || fail "the home folder is $(stat -c %a /home/agent), not 0700: make it so in the image"
for place in /work "$HOME" /tmp; do
    touch "$place/.kew-smoke" 2>/dev/null && rm "$place/.kew-smoke" || fail "$place cannot be written"
done
! touch /kew-smoke 2>/dev/null || fail "the root file system can be written"
command -v git >/dev/null || fail "there is no git"
"#;

/// Starts an image under the full hardening, without its agent.
pub fn smoke_one(docker: &Docker, cpus: u32, settings: &Settings, image: &str) -> Result<(), Failure> {
    let id = docker.image_id(image)?.ok_or_else(|| {
        Failure::infrastructure(format!("no such image on the engine: `{image}`"))
            .help("`kew sandbox build`, or build your own")
    })?;
    let nonce = format!("kew smoke {}", fresh(16));
    let trial = Trial {
        docker,
        limits: &settings.sandbox.limits(Some(cpus).filter(|cpus| *cpus > 0)),
        network: settings.sandbox.network,
        address: None,
        image: &id,
        parent: &trial_parent(settings),
    };
    let script = TRIAL.replace("$KEW_SMOKE_PROMPT", PROMPT_MOUNT_PATH);
    let answer = trial
        .run(&format!("kew-smoke-{}", fresh(6)), Some(&nonce), Start::Script(&script, ""))
        .map_err(|error| Failure::infrastructure(error.to_string()))?;
    if !answer.ok() {
        return Err(Failure::infrastructure(format!(
            "exit status {}: {}",
            answer.code.unwrap_or(-1),
            inert(&complaint(&answer))
        ))
        .help("an image must have /bin/sh, git and the user 1001 with its home /home/agent, 0700"));
    }
    if answer.text() != nonce {
        return Err(Failure::infrastructure("the prompt that came back is not the one that was written")
            .help("the engine may see another file system: set `sandbox.checkout_dir`"));
    }
    Ok(())
}

/// Where the folders of trials are made: where checkouts would be.
pub fn trial_parent(settings: &Settings) -> Utf8PathBuf {
    settings.sandbox.checkout_dir.clone().unwrap_or_else(|| Utf8PathBuf::from("/tmp"))
}

/// The settings that hold in this repository.
pub fn settings(repo: Option<&Utf8Path>) -> Result<Settings, Failure> {
    setting::settings(setting::work_tree(repo)?.as_deref())
}

/// The user's engine; the folder must live as long as the client is used.
pub fn engine() -> Result<(Docker, tempfile::TempDir), Failure> {
    let config = temporary()?;
    let docker = Docker::new(context::endpoint(|name| std::env::var_os(name))?, config.path());
    docker.engine()?;
    Ok((docker, config))
}

/// A folder of this process's own, gone when it is dropped.
pub fn temporary() -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new()
        .prefix("kew-build-")
        .tempdir()
        .map_err(|error| Failure::infrastructure(format!("a temporary folder could not be made: {error}")))
}
