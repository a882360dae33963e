//! Is `kew-allowlist` there, and is it the network that kew made? Anything else stops a run before its first container.

use serde::Deserialize;

use super::{
    argv::ALLOWLIST_NETWORK,
    client::{Docker, DockerError},
};

/// The label of networks that kew made.
pub const NETWORK_LABEL: &str = "kew.net";

/// Why the network cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// Docker gave no answer.
    #[error(transparent)]
    Docker(#[from] DockerError),
    /// No such network.
    #[error("the network `{ALLOWLIST_NETWORK}` does not exist")]
    Absent,
    /// Somebody else's network of that name, or one that lets traffic out.
    #[error("the network `{ALLOWLIST_NETWORK}` is not the one that kew makes: {0}")]
    Foreign(String),
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Inspected {
    internal: bool,
    driver: String,
    #[serde(default)]
    labels: Option<std::collections::BTreeMap<String, String>>,
}

/// Checks the allowlist network.
pub fn check_allowlist(docker: &Docker) -> Result<(), NetworkError> {
    let args = ["network", "inspect", "--format", "{{json .}}", ALLOWLIST_NETWORK];
    let text = match docker.ask(&args) {
        Ok(text) => text,
        Err(DockerError::Refused { stderr, .. })
            if stderr.to_lowercase().contains("no such network") || stderr.contains("not found") =>
        {
            return Err(NetworkError::Absent);
        }
        Err(error) => return Err(error.into()),
    };
    judge(&text)
}

/// Makes the allowlist network if there is none of that name; true if it did. Another network of that name is left alone.
pub fn ensure_allowlist(docker: &Docker) -> Result<bool, NetworkError> {
    match check_allowlist(docker) {
        Err(NetworkError::Absent) => {}
        other => return other.map(|()| false),
    }
    let label = format!("{NETWORK_LABEL}=1");
    let made = docker.ask(&["network", "create", "--internal", "--label", &label, ALLOWLIST_NETWORK]);
    // Another kew may have been faster: what counts is what is there now.
    match (check_allowlist(docker), made) {
        (Err(NetworkError::Absent), Err(error)) => Err(error.into()),
        (checked, made) => checked.map(|()| made.is_ok()),
    }
}

fn judge(text: &str) -> Result<(), NetworkError> {
    let foreign = |what: &str| Err(NetworkError::Foreign(what.to_owned()));
    let Ok(network) = serde_json::from_str::<Inspected>(text) else {
        return foreign("docker's description of it cannot be read");
    };
    if !network.internal {
        return foreign("it is not internal, so it would let traffic out");
    }
    if network.driver != "bridge" {
        return foreign("it is not a bridge");
    }
    if !network.labels.unwrap_or_default().contains_key(NETWORK_LABEL) {
        return foreign("it has no label `kew.net`");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_internal_bridge_with_the_label_is_taken() {
        let text = |internal: bool, driver: &str, labels: &str| {
            format!(
                r#"{{"Name":"kew-allowlist","Internal":{internal},"Driver":"{driver}","Labels":{labels}}}"#
            )
        };
        assert!(judge(&text(true, "bridge", r#"{"kew.net":"1"}"#)).is_ok());
        for (bad, says) in [
            (text(false, "bridge", r#"{"kew.net":"1"}"#), "not internal"),
            (text(true, "macvlan", r#"{"kew.net":"1"}"#), "not a bridge"),
            (text(true, "bridge", "{}"), "no label"),
            (text(true, "bridge", "null"), "no label"),
            ("[]".to_owned(), "cannot be read"),
        ] {
            let error = judge(&bad).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
