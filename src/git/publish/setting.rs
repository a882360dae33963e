//! The environment of a git that may use the user's credentials: theirs, without what would lead git elsewhere.
//!
//! Pure. Kept is what helpers need, which nobody can list; dropped is each `GIT_` variable that names a repository, a trace
//! or a protocol, what opens a window, and the credentials of agents.

use std::ffi::OsString;

/// `GIT_` variables that may stay: who asks for passwords, how ssh and TLS work, and whose configuration is read.
const KEPT: [&str; 9] = [
    "GIT_ASKPASS",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_COUNT",
    "GIT_EXEC_PATH",
];
const KEPT_PREFIXES: [&str; 5] =
    ["GIT_SSL_", "GIT_PROXY_SSL_", "GIT_HTTP_", "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"];

/// Settings that are passed by environment, since a value may be a secret.
pub(super) type Pairs = Vec<(String, String)>;

/// The environment: `vars` is the user's, `dropped` names what agents use, `pairs` are settings that win over files.
pub(super) fn env(
    vars: &[(OsString, OsString)],
    dropped: &[String],
    pairs: &Pairs,
) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = Vec::new();
    let mut count = 0;
    for (name, value) in vars {
        let Some(text) = name.to_str() else { continue };
        if dropped.iter().any(|drop| drop == text) || !kept(text) {
            continue;
        }
        match text {
            "GIT_CONFIG_COUNT" => {
                count = value.to_str().and_then(|value| value.parse::<usize>().ok()).unwrap_or(0);
            }
            "PATH" => env.push((name.clone(), crate::git::argv::absolute_path(value))),
            _ => env.push((name.clone(), value.clone())),
        }
    }
    for (key, value) in pairs {
        env.push((format!("GIT_CONFIG_KEY_{count}").into(), key.into()));
        env.push((format!("GIT_CONFIG_VALUE_{count}").into(), value.into()));
        count += 1;
    }
    env.push(("GIT_CONFIG_COUNT".into(), count.to_string().into()));
    for (name, value) in [
        ("LC_ALL", "C"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_ATTR_NOSYSTEM", "1"),
        ("GIT_NO_REPLACE_OBJECTS", "1"),
        ("GIT_NO_LAZY_FETCH", "1"),
    ] {
        env.push((name.into(), value.into()));
    }
    env
}

fn kept(name: &str) -> bool {
    if name.starts_with("GIT_") {
        return KEPT.contains(&name) || KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    }
    !matches!(name, "SSH_ASKPASS" | "SSH_ASKPASS_REQUIRE" | "LC_ALL" | "LANG" | "LANGUAGE")
        && !name.starts_with("LC_")
        && !name.starts_with("KEW_")
}

/// Which of the repository's own settings a push needs: who gives credentials, how hosts are reached, other addresses.
///
/// `trusted`: they may start programs. Where kew is root and the repository somebody else's, they may not.
pub(super) fn needed(settings: &[(String, String)], trusted: bool) -> Pairs {
    let needs = |key: &str| {
        let data = key.starts_with("http.") && key.ends_with(".extraheader")
            || key == "http.extraheader"
            || key.starts_with("url.") && (key.ends_with(".insteadof") || key.ends_with(".pushinsteadof"));
        let programs = key.starts_with("credential.")
            || key.starts_with("http.")
            || matches!(key, "core.sshcommand" | "core.askpass" | "ssh.variant");
        data || trusted && programs
    };
    settings.iter().filter(|(key, _)| needs(key)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_git_elsewhere_is_dropped() {
        let vars = [
            ("PATH", "bin:/usr/bin"),
            ("HOME", "/h"),
            ("MY_TOKEN", "t"),
            ("GIT_DIR", "/x"),
            ("GIT_TRACE_CURL", "1"),
            ("GIT_ALLOW_PROTOCOL", "ext"),
            ("GIT_OBJECT_DIRECTORY", "/x"),
            ("GIT_SSH_COMMAND", "ssh -i k"),
            ("SSH_ASKPASS", "w"),
            ("ANTHROPIC_API_KEY", "k"),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "a.b"),
            ("GIT_CONFIG_VALUE_0", "c"),
        ];
        let vars: Vec<(OsString, OsString)> =
            vars.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let pairs = vec![("d.e".to_owned(), "f".to_owned())];
        let env = env(&vars, &["ANTHROPIC_API_KEY".to_owned()], &pairs);
        let of = |name: &str| {
            let found = env.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.to_str().expect("text"))
        };
        assert_eq!((of("HOME"), of("MY_TOKEN"), of("PATH")), (Some("/h"), Some("t"), Some("/usr/bin")));
        assert_eq!(of("GIT_SSH_COMMAND"), Some("ssh -i k"));
        for gone in [
            "GIT_DIR",
            "GIT_TRACE_CURL",
            "GIT_ALLOW_PROTOCOL",
            "GIT_OBJECT_DIRECTORY",
            "SSH_ASKPASS",
            "ANTHROPIC_API_KEY",
        ] {
            assert_eq!(of(gone), None, "{gone}");
        }
        assert_eq!(
            (of("GIT_CONFIG_COUNT"), of("GIT_CONFIG_KEY_0"), of("GIT_CONFIG_KEY_1")),
            (Some("2"), Some("a.b"), Some("d.e"))
        );
    }

    #[test]
    fn a_stranger_s_settings_start_nothing() {
        let settings: Pairs = [
            ("credential.helper", "!evil"),
            ("core.sshcommand", "evil"),
            ("http.https://x/.extraheader", "A: b"),
            ("url.https://x/.insteadof", "x:"),
            ("core.fsmonitor", "evil"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let keys = |trusted| needed(&settings, trusted).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
        assert_eq!(keys(false), ["http.https://x/.extraheader", "url.https://x/.insteadof"]);
        assert_eq!(keys(true).len(), 4);
    }
}
