//! What most commands begin with: the repository's root, the settings, the plan checked against both. Reads files only.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use super::world::Files;
use crate::{
    config::{Layers, Settings},
    error::Failure,
    plan::{self, dag::Dag, error::Problems, spec::Plan},
    record::FrozenPrompt,
};

/// The root of the work tree that `start` (default: the current folder) is in, found without git.
pub fn work_tree(start: Option<&Utf8Path>) -> Result<Option<Utf8PathBuf>, Failure> {
    let start = start.unwrap_or(Utf8Path::new("."));
    let start = start
        .canonicalize_utf8()
        .map_err(|error| Failure::usage(format!("the folder `{start}` cannot be used: {error}")))?;
    Ok(start.ancestors().find(|dir| dir.join(".git").exists()).map(Utf8Path::to_owned))
}

/// The settings that hold in this work tree.
pub fn settings(work_tree: Option<&Utf8Path>) -> Result<Settings, Failure> {
    Ok(Layers::usual(work_tree, |name| std::env::var_os(name)).load()?)
}

/// A plan that was read and checked.
pub struct Checked {
    /// Its text.
    pub text: String,
    /// The plan.
    pub plan: Plan,
    /// Its graph.
    pub dag: Dag,
    /// The settings run its nodes in containers.
    pub contained: bool,
    /// The prompt files that it names.
    pub prompts: Vec<FrozenPrompt>,
}

/// A plan that is not one: its problems, with the text that they point into.
pub struct Refused {
    /// The problems.
    pub problems: Problems,
}

/// Reads and checks one plan.
pub fn check(
    path: &Utf8Path,
    work_tree: Option<&Utf8Path>,
    settings: &Settings,
) -> Result<Result<Checked, Refused>, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::usage(format!("the plan `{path}` could not be read: {error}"));
    let bytes = fs::read(path).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Failure::usage(format!("the plan `{path}` is not UTF-8 text")).help("save it as UTF-8")
    })?;
    let world = Files::new(settings, work_tree, path).map_err(unreadable)?;
    Ok(match plan::parse_and_check(path.as_str(), &text, &world) {
        Ok((plan, dag)) => {
            let contained = settings.sandbox.enabled;
            Ok(Checked { text, plan, dag, prompts: world.prompts(), contained })
        }
        Err(problems) => Err(Refused { problems }),
    })
}
