//! The part of `[policy]` about networks and images: what the person who owns the machine rules out, for themselves and for
//! every repository.
//!
//! It only ever closes. What a repository's file asks for is measured against it word by word, before anything runs.

use serde::{Deserialize, Serialize};

use super::{Policy, Settings, SettingsError};
use crate::{
    docker::argv::Network,
    egress::{self, BadHost},
    text,
};

/// Whether something may be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Choice {
    /// It may.
    #[default]
    Allowed,
    /// It may not.
    Forbidden,
}

/// The values of all layers together.
pub(super) fn check(settings: &Settings) -> Result<(), SettingsError> {
    let policy = &settings.policy;
    if settings.sandbox.network == Network::Open && policy.network_open == Choice::Forbidden {
        return Err(SettingsError::new(
            "`sandbox.network = \"open\"` is set, but `policy.network_open` is `forbidden`",
            "use `allowlist` and name the hosts in `sandbox.allow`",
        ));
    }
    words("sandbox.allow", &settings.sandbox.allow)?;
    words("policy.allow_max", policy.allow_max.as_deref().unwrap_or_default())
}

fn words(key: &str, list: &[String]) -> Result<(), SettingsError> {
    let Err(bad) = egress::hosts(list.iter().map(String::as_str)) else { return Ok(()) };
    let line = |(word, why): &(String, BadHost)| format!("`{}` {why}", word.escape_default());
    let lines = bad.iter().map(line).collect::<Vec<_>>().join("; ");
    Err(SettingsError::new(
        format!("`{key}`: {lines}"),
        format!(
            "write hosts like `npm.acme.example:8443`, or one of the groups {}",
            text::list(egress::GROUPS.map(|(name, _)| name), "and")
        ),
    ))
}

/// What a repository's file asks for: its `sandbox.allow`, and its images as `key = image`.
pub(super) fn measure(policy: &Policy, allow: &[String], images: &[String]) -> Result<(), SettingsError> {
    let all = |list: &[String]| egress::hosts(list.iter().map(String::as_str)).unwrap_or_default();
    if let Some(max) = &policy.allow_max {
        let max = all(max);
        let over: Vec<String> =
            all(allow).into_iter().filter(|host| !max.contains(host)).map(|host| host.to_string()).collect();
        if !over.is_empty() {
            return Err(SettingsError::new(
                format!(
                    "this repository's file lets agents reach {}, which `policy.allow_max` does not have",
                    text::list(over, "and")
                ),
                "add them to `policy.allow_max` in your own settings file, or take them out of the repository's `sandbox.allow`",
            ));
        }
    }
    if let Some(max) = &policy.images_max {
        let fits = |image: &str| {
            max.iter().any(|pattern| match pattern.strip_suffix('*') {
                Some(start) => image.starts_with(start),
                None => image == pattern,
            })
        };
        // As the file has it, quotes and all.
        let image =
            |line: &&String| line.split_once(" = ").is_none_or(|(_, image)| !fits(image.trim_matches('"')));
        let over: Vec<&String> = images.iter().filter(image).collect();
        if !over.is_empty() {
            return Err(SettingsError::new(
                format!(
                    "this repository's file maps {}, which `policy.images_max` does not have",
                    text::list(over, "and")
                ),
                "add the image to `policy.images_max` in your own settings file, or take it out of the repository's",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn a_repository_is_measured_word_by_word() {
        let policy = Policy {
            allow_max: Some(strings(&["rust", "npm.acme.example:8443"])),
            images_max: Some(strings(&["kew-*", "acme/agent:1"])),
            ..Policy::default()
        };
        let measured = |allow: &[&str], images: &[&str]| {
            measure(&policy, &strings(allow), &strings(images)).map_err(|error| error.to_string())
        };
        assert_eq!(
            measured(
                &["crates.io", "rust"],
                &["images.shell = \"kew-shell:2\"", "images.pi = \"acme/agent:1\""]
            ),
            Ok(())
        );
        assert!(measured(&["npm.acme.example"], &[]).unwrap_err().contains("`npm.acme.example`"));
        assert!(measured(&["node"], &[]).unwrap_err().contains("nodejs.org"));
        assert!(measured(&[], &["images.pi = \"acme/agent:12\""]).unwrap_err().contains("acme/agent:12"));
        let nothing = Policy { allow_max: Some(vec![]), images_max: Some(vec![]), ..Policy::default() };
        assert!(measure(&nothing, &strings(&["a.example"]), &[]).is_err());
        assert!(measure(&nothing, &[], &strings(&["images.a = b"])).is_err());
        assert!(measure(&Policy::default(), &strings(&["a.example"]), &strings(&["images.a = b"])).is_ok());
    }
}
