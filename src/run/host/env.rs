//! The environment of an agent on the host: a few names that programs need to work, and its runner's credentials.
//!
//! Pure but for the lookup that is passed in. Invariant: no other variable of kew's own environment gets through; above all
//! no other runner's credential and no token of a code host.

use std::ffi::OsString;

use crate::name::EnvName;

/// What is passed on, if it is set: where programs and homes are, how text is written, which authorities are trusted.
const PASSED: [&str; 18] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "TZ",
    "TERM",
    "COLORTERM",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "XDG_RUNTIME_DIR",
];

/// Who commits: the same as in a container, and never the person whose machine it is. Nobody is there to unlock a signing
/// key or to answer a question.
const OWN: [(&str, &str); 8] = [
    ("GIT_AUTHOR_NAME", "kew-agent"),
    ("GIT_AUTHOR_EMAIL", "agent@kew.local"),
    ("GIT_COMMITTER_NAME", "kew-agent"),
    ("GIT_COMMITTER_EMAIL", "agent@kew.local"),
    ("GIT_CONFIG_COUNT", "1"),
    ("GIT_CONFIG_KEY_0", "commit.gpgSign"),
    ("GIT_CONFIG_VALUE_0", "false"),
    ("GIT_TERMINAL_PROMPT", "0"),
];

/// The whole environment of an agent with these credentials. `lookup` looks variables of kew's own up.
pub fn agent_env(
    lookup: impl Fn(&str) -> Option<OsString>,
    credentials: impl IntoIterator<Item = (EnvName, OsString)>,
) -> Vec<(OsString, OsString)> {
    let passed = PASSED.iter().filter_map(|name| Some((OsString::from(name), lookup(name)?)));
    let own = OWN.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
    let credentials = credentials.into_iter().map(|(name, value)| (OsString::from(name.as_str()), value));
    passed.chain(own).chain(credentials).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_gets_through() {
        let all = |name: &str| Some(OsString::from(format!("value of {name}")));
        let key = EnvName::new("MY_KEY").unwrap();
        let env = agent_env(all, [(key, OsString::from("secret"))]);
        let names: Vec<&str> = env.iter().map(|(name, _)| name.to_str().unwrap()).collect();
        for wanted in ["PATH", "HOME", "TERM", "MY_KEY", "GIT_AUTHOR_NAME"] {
            assert!(names.contains(&wanted), "{wanted}: {names:?}");
        }
        for refused in ["GITHUB_TOKEN", "GH_TOKEN", "ANTHROPIC_API_KEY", "SSH_AUTH_SOCK", "DOCKER_HOST"] {
            assert!(!names.contains(&refused), "{refused}: {names:?}");
        }
        assert!(agent_env(|_| None, []).iter().all(|(name, _)| name.to_str().unwrap().starts_with("GIT_")));
    }
}
