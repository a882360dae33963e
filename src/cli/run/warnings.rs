//! What a run says before it begins: nothing here stops it.

use crate::{
    cli::preflight::{self, Resolved},
    config::Settings,
    docker::argv::Network,
    error::Failure,
    git::base::UserRepo,
    text,
};

pub(super) fn warnings(
    repo: &UserRepo,
    settings: &Settings,
    resolved: &[Resolved],
    active: &[bool],
) -> Result<Vec<String>, Failure> {
    let mut warnings = Vec::new();
    let run = resolved.iter().zip(active).filter(|(_, active)| **active);
    let runners: Vec<&str> = run.map(|(node, _)| node.runner.name()).collect();
    warnings.extend(super::host::warnings(settings, &runners));
    let uncommitted = repo.uncommitted_count()?;
    if uncommitted > 0 {
        let what = text::plural(uncommitted, "uncommitted change");
        warnings.push(format!("{what} in the work tree: agents see the base commit only"));
    }
    let mut choices: Vec<String> = resolved
        .iter()
        .zip(active)
        .filter(|(_, active)| **active)
        .filter_map(|(node, _)| preflight::credential_choice(node.runner, &node.credentials))
        .collect();
    choices.sort();
    choices.dedup();
    warnings.extend(choices);
    if settings.sandbox.enabled && settings.sandbox.network == Network::Open {
        let mut exposed: Vec<String> = resolved
            .iter()
            .zip(active)
            .filter(|(node, active)| **active && node.network == Network::Open)
            .flat_map(|(node, _)| node.credentials.iter())
            .filter(|(_, state)| *state == preflight::CredentialState::Set)
            .map(|(name, _)| name.to_string())
            .collect();
        exposed.sort();
        exposed.dedup();
        warnings.push(if exposed.is_empty() {
            "`sandbox.network = \"open\"`: containers have full network access".to_owned()
        } else {
            let names = text::list(exposed, "and");
            format!("`sandbox.network = \"open\"` with {names} inside: a prompt-injected agent can send the credential anywhere")
        });
    }
    Ok(warnings)
}
