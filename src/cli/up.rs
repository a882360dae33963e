//! `kew sandbox up`: from the binary alone to a machine that is ready: network, images, trial, doctor, image map.
//!
//! Safe to run again: what is up to date stays. It never changes a network, an image of somebody else's or a mapping that is
//! there.

use std::fs;

use super::{
    Format, UpArgs,
    build::{self, COLLECTOR, GATEWAY},
    doctor::{self, Target},
    network, put, sandbox, say,
};
use crate::{
    config::{
        Settings,
        map::{self, Mapped},
    },
    docker::{
        argv::Network,
        build::{Base, inputs_of},
        client::Docker,
        gateway::{self, GATEWAY_IMAGE, Renew},
        network::{NetworkError, check_allowlist},
        recipes::{self, Recipe},
    },
    error::Failure,
    text,
};

/// What is made where neither the arguments nor the settings say.
const USUAL: [&str; 2] = ["claude-code", "shell"];

/// The first lines of a settings file that kew makes.
const HEAD: &str = "# Your settings of kew. `kew schema settings` prints every key with its meaning.\n\n";

/// Makes everything; exit code 4 if something does not work.
pub fn up(args: &UpArgs) -> Result<u8, Failure> {
    let settings = sandbox::settings(args.repo.repo.as_deref())?;
    let wanted = wanted(&args.runners, &settings)?;
    let (docker, _config) = sandbox::engine()?;
    let joins = settings.sandbox.network == Network::Allowlist;
    if joins {
        // Before the builds, which take longer than anybody wants to wait for an error.
        gateway::supported(&docker.engine()?)?;
        if let Err(error @ NetworkError::Foreign { .. }) = check_allowlist(&docker) {
            return Err(error.into());
        }
    }
    build_all(&docker, args, &settings, &wanted)?;
    if joins {
        say(&network::bring_up(&docker, &settings, Renew::IfNeeded)?);
    }
    try_all(&docker, &settings, &wanted)?;
    let map = wanted.iter().map(|(recipe, image)| (recipe.runner.to_owned(), image.clone()));
    tell_map(&map.collect::<Vec<_>>(), args.print)?;
    Ok(0)
}

/// Recipes with the names of their images, the collector not among them.
fn wanted(runners: &[String], settings: &Settings) -> Result<Vec<(&'static Recipe, String)>, Failure> {
    let mapped = || settings.sandbox.images.keys().filter(|name| recipes::find(name).is_some());
    let names: Vec<&str> = if !runners.is_empty() {
        runners.iter().map(String::as_str).filter(|name| ![COLLECTOR, GATEWAY].contains(name)).collect()
    } else if mapped().next().is_some() {
        mapped().map(String::as_str).collect()
    } else {
        USUAL.to_vec()
    };
    let mut wanted: Vec<(&'static Recipe, String)> = Vec::new();
    for name in names {
        let recipe = build::recipe(name)?;
        if wanted.iter().all(|(other, _)| other.runner != recipe.runner) {
            let image = settings.sandbox.image(name, None).map_or_else(|| recipe.image(), str::to_owned);
            wanted.push((recipe, image));
        }
    }
    Ok(wanted)
}

fn build_all(
    docker: &Docker,
    args: &UpArgs,
    settings: &Settings,
    wanted: &[(&'static Recipe, String)],
) -> Result<(), Failure> {
    let own = [
        (build::recipe(COLLECTOR)?, settings.sandbox.collector.clone()),
        (build::recipe(GATEWAY)?, GATEWAY_IMAGE.to_owned()),
    ];
    let mut base: Option<Base> = None;
    for (recipe, image) in own.iter().chain(wanted) {
        let there = docker.image_id(image)?;
        let inputs = there.as_deref().map(|id| inputs_of(docker, id)).transpose()?;
        if let Some(None) = inputs {
            say(&format!("image {image}: not built by kew, left as it is"));
            continue;
        }
        let found = match &base {
            Some(base) => Ok(base.clone()),
            None => args.recipe.base(docker, recipe),
        };
        let found = match found {
            Ok(found) => base.insert(found).clone(),
            // Carried over from another machine, say: it is tried below like any other.
            Err(failure) if there.is_some() => {
                say(&format!("image {image}: kept as it is; {}", failure.message));
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if inputs.flatten().as_deref() == Some(&recipe.inputs(&found.id)) {
            say(&format!("image {image}: up to date"));
            continue;
        }
        build::build_one(docker, recipe, &found, image, &args.recipe)?;
        say(&format!("image {image}: built"));
    }
    Ok(())
}

/// Smoke, then the doctor.
fn try_all(
    docker: &Docker,
    settings: &Settings,
    wanted: &[(&'static Recipe, String)],
) -> Result<(), Failure> {
    let engine = docker.engine()?;
    for (recipe, image) in wanted {
        sandbox::smoke_one(docker, engine.cpus, settings, image).map_err(|failure| Failure {
            message: format!("{}: {image} does not work: {}", recipe.runner, failure.message),
            ..failure
        })?;
        say(&format!("smoke {}: ok", recipe.runner));
    }
    let target = |(recipe, image): &(&Recipe, String)| Target {
        runner: recipe.runner.to_owned(),
        toolchain: None,
        image: image.clone(),
    };
    let targets: Vec<Target> = wanted.iter().map(target).collect();
    let mut findings = doctor::of_engine(docker, &engine, settings);
    findings.extend(doctor::of_images(docker, &engine, settings, &targets));
    for finding in &findings {
        say(&finding.line(Format::Human));
    }
    if doctor::failed(&findings) {
        return Err(Failure::infrastructure("the doctor found what would fail a run; see above"));
    }
    Ok(())
}

/// Shows the image map and, unless it is only to be shown, adds it to the user's settings file.
fn tell_map(images: &[(String, String)], print: bool) -> Result<(), Failure> {
    let lines: String = images.iter().map(|(runner, image)| format!("{runner} = \"{image}\"\n")).collect();
    put(&format!("[sandbox.images]\n{lines}"));
    if print {
        return Ok(());
    }
    let Some(path) = map::user_file(|name| std::env::var_os(name)) else {
        say("neither HOME nor XDG_CONFIG_HOME is set: put these lines into `kew.toml`");
        return Ok(());
    };
    let io = |error: std::io::Error| {
        Failure::infrastructure(format!("`{path}` could not be written: {error}"))
            .help("put the lines above into it, or into `kew.toml`")
    };
    let (head, before) = match fs::read_to_string(&path) {
        Ok(text) => ("", text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => (HEAD, String::new()),
        Err(error) => return Err(io(error)),
    };
    let (after, became) = map::add_images(&before, images)?;
    let of = |wanted: &Mapped| {
        let names = images.iter().zip(&became).filter(|(_, became)| *became == wanted);
        names.map(|((runner, _), _)| runner.clone()).collect::<Vec<_>>()
    };
    for ((runner, image), became) in images.iter().zip(&became) {
        if let Mapped::Differs(other) = became {
            say(&format!(
                "warning: `{path}` maps `{runner}` to `{}`, not to `{image}`: left as it is",
                text::inert(other)
            ));
        }
    }
    let added = of(&Mapped::Added);
    if added.is_empty() {
        say(&format!("`{path}` is left as it is"));
        return Ok(());
    }
    map::write(&path, &format!("{head}{after}")).map_err(io)?;
    say(&format!("added to `{path}`: {}", text::list(added, "and")));
    Ok(())
}
