//! The layers of settings and their merge: which file says what, what a repository may not say, and errors that name the
//! layer. What the merged values must be is for the parent.

use std::ffi::OsString;

use camino::{Utf8Path, Utf8PathBuf};
use figment::{
    Figment,
    providers::{Env, Serialized},
};

use super::{REPOSITORY_FILE, Settings, SettingsError, caps, check, map, registry};
use crate::{docker::argv::Network, text};

/// Where settings come from, beside the defaults and the process's `KEW_…` variables.
#[derive(Debug, Default)]
pub struct Layers {
    /// The user's file, if there is one.
    pub user: Option<Utf8PathBuf>,
    /// The repository's file, if there is one.
    pub repository: Option<Utf8PathBuf>,
}

impl Layers {
    /// The usual places. `env` looks variables up.
    pub fn usual(work_tree: Option<&Utf8Path>, env: impl Fn(&str) -> Option<OsString>) -> Self {
        let user = map::user_file(env).filter(|path| path.exists());
        let repository = work_tree.map(|dir| dir.join(REPOSITORY_FILE)).filter(|path| path.exists());
        Self { user, repository }
    }

    /// Merges and checks.
    pub fn load(&self) -> Result<Settings, SettingsError> {
        let mut figment = Figment::from(Serialized::defaults(Settings::default()));
        let (mut from_repository, mut allow_from_repository) = (Vec::new(), Vec::new());
        if let Some(path) = &self.user {
            figment = figment.merge(File { path, table: parsed(path)? });
        }
        if let Some(path) = &self.repository {
            let table = parsed(path)?;
            refuse_openings(path, &table)?;
            from_repository = images_of(&table);
            allow_from_repository = allow_of(&table);
            let before = network(&figment);
            figment = figment.merge(File { path, table });
            // What the user closed stays closed, whatever is usual.
            if let Some(before) = before
                && network(&figment).is_some_and(|after| width(after) > width(before))
            {
                figment = figment.merge(("sandbox.network", before));
            }
        }
        // Every setting lives in a table, so a name without `__` is not one of ours (KEW_PROMPT_FILE is the image's).
        let env = Env::prefixed("KEW_").filter(|name| name.as_str().contains("__")).split("__").map(named);
        figment = figment.merge(env);
        let mut settings: Settings = figment.extract().map_err(|error| reword(&error))?;
        settings.registry = registry(&settings.runners)?;
        settings.from_repository = from_repository;
        settings.allow_from_repository = allow_from_repository;
        check(&settings)?;
        caps::measure(&settings.policy, &settings.allow_from_repository, &settings.from_repository)?;
        Ok(settings)
    }
}

/// The network so far; a value that is none is told of when all layers are there.
fn network(figment: &Figment) -> Option<Network> {
    figment.extract_inner("sandbox.network").ok()
}

/// Which network reaches further.
fn width(network: Network) -> u8 {
    match network {
        Network::None => 0,
        Network::Allowlist => 1,
        Network::Open => 2,
    }
}

/// A settings file that was read once: what is checked is what is merged.
struct File<'a> {
    path: &'a Utf8Path,
    table: toml::Table,
}

impl figment::Provider for File<'_> {
    fn metadata(&self) -> figment::Metadata {
        figment::Metadata::from("settings file", self.path.as_std_path())
    }

    fn data(&self) -> Result<figment::value::Map<figment::Profile, figment::value::Dict>, figment::Error> {
        Serialized::defaults(&self.table).data()
    }
}

/// Names of runners have a dash where a variable's name can only have an underscore.
fn named(key: &figment::value::UncasedStr) -> figment::value::Uncased<'_> {
    let key = key.as_str().to_ascii_lowercase();
    for map in ["credentials.", "sandbox.images."] {
        if let Some(runner) = key.strip_prefix(map) {
            return format!("{map}{}", runner.replace('_', "-")).into();
        }
    }
    key.into()
}

/// A settings file as a table; its syntax errors keep toml's line and caret.
fn parsed(path: &Utf8Path) -> Result<toml::Table, SettingsError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        SettingsError::new(format!("`{path}` could not be read: {error}"), "make it readable, or remove it")
    })?;
    text.parse().map_err(|error: toml::de::Error| SettingsError {
        message: format!("`{path}` is not valid TOML: {}", error.to_string().trim_end()),
        help: None,
    })
}

/// Keys that only the user may set, and what the refusal says.
fn refuse_openings(path: &Utf8Path, table: &toml::Table) -> Result<(), SettingsError> {
    let sandbox = |key: &str| table.get("sandbox").and_then(|sandbox| sandbox.get(key));
    let refuse = |key: &str, why: &str| {
        Err(SettingsError::new(
            format!("`{path}` sets `{key}`, which a repository may not: {why}"),
            "if you want it for yourself, set it in your own settings file, `~/.config/kew/config.toml`, and remove it from the repository's",
        ))
    };
    if sandbox("enabled").is_some_and(|value| value.as_bool() != Some(true)) {
        return refuse("sandbox.enabled", "it would run agents outside a container");
    }
    if sandbox("network").is_some_and(|value| value.as_str() == Some("open")) {
        return refuse("sandbox.network = \"open\"", "it would give agents full network access");
    }
    if sandbox("checkout_dir").is_some() {
        return refuse("sandbox.checkout_dir", "it would choose where kew writes on your machine");
    }
    if sandbox("collector").is_some() {
        return refuse("sandbox.collector", "it would choose the image that reads what agents bring");
    }
    if table.get("state").is_some() {
        return refuse("state", "it would choose where kew writes on your machine");
    }
    for (key, why) in [
        ("notify", "it would run or call something of its choice"),
        ("runners", "it would define what receives your credentials"),
        ("credentials", "it would choose which of your credentials is used"),
        ("policy", "the policy is what a repository is measured against"),
    ] {
        if table.get(key).is_some() {
            return refuse(key, why);
        }
    }
    if table.get("publish").and_then(|publish| publish.get("remote")).is_some() {
        return refuse("publish.remote", "it would choose where your commits go");
    }
    Ok(())
}

/// figment's error in kew's words: the key without its profile, the layer, the remedy.
fn reword(error: &figment::Error) -> SettingsError {
    let layer = error.metadata.as_ref().map_or_else(
        || "the settings".to_owned(),
        |metadata| match metadata.source.as_ref().and_then(|source| source.file_path()) {
            Some(path) => format!("`{}`", path.display()),
            None if metadata.name.contains("environment") => {
                "the environment (a `KEW_…` variable)".to_owned()
            }
            None => metadata.name.to_string(),
        },
    );
    let at = error.path.join(".");
    let at = if at.is_empty() { String::new() } else { format!(", key `{at}`") };
    use figment::error::Kind;
    let what = match &error.kind {
        Kind::UnknownField(field, known) => {
            let guess = text::did_you_mean(field, known.iter().copied());
            let guess = guess.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
            format!("unknown key `{field}`{guess}")
        }
        Kind::InvalidType(found, wanted) => format!("found {found}, but {wanted} is wanted"),
        Kind::InvalidValue(found, wanted) => format!("found {found}, but {wanted} is wanted"),
        other => other.to_string(),
    };
    SettingsError {
        message: format!("{layer}{at}: {what}"),
        help: Some("`kew schema settings` prints every key with its meaning".into()),
    }
}

/// The image maps of a settings file, one `key = image` each.
fn images_of(table: &toml::Table) -> Vec<String> {
    let sandbox = table.get("sandbox");
    let lines = |prefix: String, images: Option<&toml::Value>| {
        let images = images.and_then(toml::Value::as_table).into_iter().flatten();
        let line = |(runner, image)| text::inert(&format!("{prefix}{runner} = {image}")).into_owned();
        images.map(line).collect::<Vec<_>>()
    };
    let mut found = lines("images.".to_owned(), sandbox.and_then(|sandbox| sandbox.get("images")));
    let toolchains = sandbox.and_then(|sandbox| sandbox.get("toolchains")).and_then(toml::Value::as_table);
    for (name, toolchain) in toolchains.into_iter().flatten() {
        found.extend(lines(format!("toolchains.{name}.images."), toolchain.get("images")));
    }
    found
}

/// The hosts and groups of a settings file.
fn allow_of(table: &toml::Table) -> Vec<String> {
    let list = table.get("sandbox").and_then(|sandbox| sandbox.get("allow")).and_then(toml::Value::as_array);
    let words = list.into_iter().flatten().filter_map(toml::Value::as_str);
    words.map(|word| text::inert(word).into_owned()).collect()
}
