//! `kew sandbox build`: images from the recipes in this binary, on the pinned base or, as a toolchain, on a project's own.

use camino::{Utf8Path, Utf8PathBuf};

use super::{BuildArgs, RecipeArgs, put, sandbox, say};
use crate::{
    config::Settings,
    docker::{
        build::{self, Base},
        client::Docker,
        gateway::GATEWAY_IMAGE,
        recipes::{self, Recipe},
    },
    error::Failure,
    name::NodeId,
    run::fresh,
    text::{self, inert},
};

/// A recipe that is for no runner.
pub const COLLECTOR: &str = "collector";
/// The other one.
pub const GATEWAY: &str = "gateway";

/// Builds images under the names that the settings give them.
pub fn build(args: &BuildArgs) -> Result<u8, Failure> {
    let settings = sandbox::settings(args.repo.repo.as_deref())?;
    if let (Some(base), Some(toolchain)) = (&args.base, &args.toolchain) {
        return build_toolchain(args, &settings, base, toolchain);
    }
    let wanted = wanted(&args.runners, &settings)?;
    let (docker, _config) = sandbox::engine()?;
    let Some((first, _)) = wanted.first() else { return Ok(0) };
    let base = args.recipe.base(&docker, first)?;
    for (recipe, image) in wanted {
        build_one(&docker, recipe, &base, &image, &args.recipe)?;
        put(&format!("built {image}\n"));
    }
    Ok(0)
}

/// Builds one image.
pub fn build_one(
    docker: &Docker,
    recipe: &Recipe,
    base: &Base,
    image: &str,
    args: &RecipeArgs,
) -> Result<(), Failure> {
    let context = sandbox::temporary()?;
    let folder = Utf8Path::from_path(context.path()).expect("kew's own temporary folder is plain text");
    say(&format!("building `{image}` for `{}`", recipe.runner));
    Ok(build::build(docker, recipe, base, image, args.extra_ca().as_deref(), folder)?)
}

impl RecipeArgs {
    /// The base of kew's own images.
    pub fn base(&self, docker: &Docker, recipe: &Recipe) -> Result<Base, Failure> {
        let asked = self.base_image.as_deref().filter(|image| !image.is_empty());
        Ok(build::find_base(docker, asked, recipe.pinned_base())?)
    }

    /// The file of further certificates.
    fn extra_ca(&self) -> Option<Utf8PathBuf> {
        if let Some(file) = &self.extra_ca {
            return Some(file.clone()).filter(|file| !file.as_str().is_empty());
        }
        let named = ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|file| !file.is_empty()));
        named.map(Utf8PathBuf::from).filter(|file| file.is_file())
    }
}

/// The recipe for a runner, or what there is instead.
pub fn recipe(runner: &str) -> Result<&'static Recipe, Failure> {
    recipes::find(runner).ok_or_else(|| {
        let known = recipes::RECIPES.iter().map(|recipe| recipe.runner);
        let guess = text::did_you_mean(runner, known.clone());
        let guess = guess.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        Failure::usage(format!("there is no recipe for `{}`{guess}", runner.escape_default()))
            .help(format!("there are {}", text::list(known, "and")))
    })
}

fn wanted(runners: &[String], settings: &Settings) -> Result<Vec<(&'static Recipe, String)>, Failure> {
    let image = |recipe: &Recipe| match recipe.runner {
        COLLECTOR => Some(settings.sandbox.collector.clone()),
        GATEWAY => Some(GATEWAY_IMAGE.to_owned()),
        runner => settings.sandbox.image(runner, None).map(str::to_owned),
    };
    if runners.is_empty() {
        return Ok(recipes::RECIPES.iter().filter_map(|recipe| Some((recipe, image(recipe)?))).collect());
    }
    let of = |runner: &String| {
        let recipe = recipe(runner)?;
        let image = image(recipe).ok_or_else(|| {
            Failure::usage(format!("the settings map `{runner}` to no image"))
                .help(format!("set `sandbox.images.{runner}`, e.g. to \"{}\"", recipe.image()))
        })?;
        Ok((recipe, image))
    };
    runners.iter().map(of).collect()
}

/// Puts agents on a project's own image, and says how plans get at them.
fn build_toolchain(
    args: &BuildArgs,
    settings: &Settings,
    base: &str,
    toolchain: &str,
) -> Result<u8, Failure> {
    NodeId::new(toolchain).map_err(|error| {
        Failure::usage(format!("`--toolchain {}` {error}", toolchain.escape_default()))
            .help("a name such as `rust`: small letters, digits and dashes")
    })?;
    let runners: Vec<String> = if args.runners.is_empty() {
        settings.sandbox.images.keys().filter(|name| recipes::find(name).is_some()).cloned().collect()
    } else {
        args.runners.clone()
    };
    if runners.is_empty() {
        return Err(Failure::usage("the settings map no runner to an image")
            .help("name the runners to put on it, e.g. `shell`"));
    }
    let recipes = runners.iter().map(|runner| recipe(runner)).collect::<Result<Vec<_>, _>>()?;
    if let Some(own) = recipes.iter().find(|recipe| [COLLECTOR, GATEWAY].contains(&recipe.runner)) {
        return Err(Failure::usage(format!("the {} is kew's own and in no toolchain", own.runner)));
    }
    let (docker, _config) = sandbox::engine()?;
    let (base, system) = build::project_base(&docker, base, &format!("kew-look-{}", fresh(6)))?;
    say(&format!("the base is {}", inert(&system)));
    let mut lines = format!("[sandbox.toolchains.{toolchain}.images]\n");
    for recipe in recipes {
        let mapped = settings.sandbox.image(recipe.runner, Some(toolchain));
        let image =
            mapped.map_or_else(|| format!("kew-{}-{toolchain}:latest", recipe.short()), str::to_owned);
        build_one(&docker, recipe, &base, &image, &args.recipe)?;
        put(&format!("built {image}\n"));
        lines.push_str(&format!("{} = \"{image}\"\n", recipe.runner));
    }
    put(&format!(
        "\nthese lines in `kew.toml` or in your own settings file map it:\n\n{lines}\n\
         a node of a plan asks for it with `toolchain = \"{toolchain}\"`; `kew sandbox doctor` examines it\n"
    ));
    Ok(0)
}
