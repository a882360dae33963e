//! `kew sandbox`: builds the images from the recipes in this binary, and tries images without starting an agent.

use std::{fs, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};

use super::{BuildArgs, SmokeArgs, put, say, setting};
use crate::{
    config::Settings,
    contract::PROMPT_MOUNT_PATH,
    docker::{
        argv::Network,
        client::Docker,
        context,
        network::check_allowlist,
        recipes::{self, Recipe},
        trial::{Start, Trial, complaint},
    },
    error::Failure,
    run::fresh,
    text::{self, inert},
};

/// A build may download some hundred MB.
const BUILD: Duration = Duration::from_secs(3600);

/// Builds images under the names that the settings give them.
pub fn build(args: &BuildArgs) -> Result<u8, Failure> {
    let settings = settings(args.repo.repo.as_deref())?;
    let wanted = wanted(&args.runners, &settings)?;
    let (docker, _config) = engine()?;
    for (recipe, image) in wanted {
        let context = temporary()?;
        let folder = Utf8Path::from_path(context.path()).expect("kew's own temporary folder is plain text");
        let io = |error: std::io::Error| {
            Failure::infrastructure(format!("the build context could not be written: {error}"))
        };
        recipe.write(folder).map_err(io)?;
        if let Some(extra_ca) = args.extra_ca.as_ref().filter(|path| !path.as_str().is_empty()) {
            let copied = fs::copy(extra_ca, folder.join("extra-ca.pem"));
            copied.map_err(|error| Failure::usage(format!("`--extra-ca {extra_ca}`: {error}")))?;
        }
        say(&format!("building `{image}` for `{}`", recipe.runner));
        let dockerfile = folder.join(recipe.dockerfile);
        let base = args.base_image.as_ref().map(|base| format!("BASE_IMAGE={base}"));
        let base = base.iter().flat_map(|base| ["--build-arg", base]);
        // The classic builder is on every engine; the host's network lets downloads take the way that this machine takes.
        let query = docker.query(["build", "--network", "host"]).env("DOCKER_BUILDKIT", "0");
        let query = query.args(base).args(["--tag", &image, "--file", dockerfile.as_str(), folder.as_str()]);
        let answer =
            query.deadline(BUILD).run().map_err(|error| Failure::infrastructure(error.to_string()))?;
        if !answer.ok() {
            let log = format!("{}\n{}", answer.text(), answer.stderr);
            let lines: Vec<&str> = log.trim().lines().collect();
            let end = lines[lines.len().saturating_sub(30)..].join("\n");
            return Err(Failure::infrastructure(format!("building `{image}` failed; the end of its log:\n{end}"))
                .help("where no registry answers give `--base-image`; behind a proxy with its own certificate give `--extra-ca`"));
        }
        put(&format!("built {image}\n"));
    }
    Ok(0)
}

fn wanted(runners: &[String], settings: &Settings) -> Result<Vec<(&'static Recipe, String)>, Failure> {
    let image = |recipe: &Recipe| match recipe.runner {
        "collector" => Some(settings.sandbox.collector.clone()),
        runner => settings.sandbox.image(runner, None).map(str::to_owned),
    };
    if runners.is_empty() {
        return Ok(recipes::RECIPES.iter().filter_map(|recipe| Some((recipe, image(recipe)?))).collect());
    }
    let of = |runner: &String| {
        let known = recipes::RECIPES.iter().map(|recipe| recipe.runner);
        let recipe = recipes::find(runner).ok_or_else(|| {
            let names = text::list(known.clone(), "and");
            Failure::usage(format!("there is no recipe for `{}`; there are {names}", runner.escape_default()))
        })?;
        let image = image(recipe).ok_or_else(|| {
            Failure::usage(format!("the settings map `{runner}` to no image"))
                .help(format!("set `sandbox.images.{runner}`, e.g. to \"kew-{runner}:latest\""))
        })?;
        Ok((recipe, image))
    };
    runners.iter().map(of).collect()
}

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

fn temporary() -> Result<tempfile::TempDir, Failure> {
    tempfile::Builder::new()
        .prefix("kew-build-")
        .tempdir()
        .map_err(|error| Failure::infrastructure(format!("a temporary folder could not be made: {error}")))
}
