//! Hosts that a container may reach: how they are written, the named groups, and lists of them. Pure.
//!
//! A host is an exact name with a port; there are no wildcards, no addresses and no schemes, since the gateway compares the
//! server name that a client asks for, letter by letter. Invariant: a list never holds a host that nobody wrote.

mod groups;
mod refused;

use std::{collections::BTreeSet, fmt};

pub use self::groups::GROUPS;
pub use self::refused::{Dealings, Refused, Why, advice, first_words, told};

use crate::text;

/// The port of a host that names none.
pub const TLS_PORT: u16 = 443;

/// A host and a port of it; TLS only.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Host {
    name: String,
    port: u16,
}

/// Why a word of a list was refused: a fragment that reads well after the word.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadHost(pub String);

impl Host {
    /// Reads `name` or `name:port`.
    pub fn new(text: &str) -> Result<Self, BadHost> {
        let bad = |why: &str| Err(BadHost(why.to_owned()));
        if text.contains("://") || text.contains('/') {
            return bad("is an address of the web: write the host alone, as in `npm.acme.example:8443`");
        }
        if text.contains('*') {
            return bad("has a wildcard: every host is written out, or a group is named");
        }
        if text.chars().any(|c| c.is_ascii_uppercase()) {
            return bad("has capital letters: write it in lower case");
        }
        let (name, port) = match text.split_once(':') {
            None => (text, TLS_PORT),
            Some((name, port)) => match port.parse::<u16>() {
                Ok(0) | Err(_) => return bad("has no port between 1 and 65535 after the colon"),
                // Other servers of the gateway's are there.
                Ok(53 | 80) => {
                    return bad("has a port that cannot be let through: only TLS is, and not on 53 or 80");
                }
                Ok(port) => (name, port),
            },
        };
        if name.ends_with('.') {
            return bad("ends with a dot: leave it out");
        }
        if !name.contains('.') {
            return bad("is no full host name: it has no dot");
        }
        if name.len() > 253 {
            return bad("is longer than a host name can be");
        }
        for label in name.split('.') {
            let plain = label.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
            if label.is_empty()
                || label.len() > 63
                || !plain
                || label.starts_with('-')
                || label.ends_with('-')
            {
                return bad("is no host name: labels of a-z, 0-9 and -, with dots between them");
            }
        }
        // No top-level name is a number, every written address ends with one.
        if name.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit())) {
            return bad("is an address: the gateway knows hosts by their names");
        }
        Ok(Self { name: name.to_owned(), port })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Name and port, always both.
    pub fn full(&self) -> String {
        format!("{}:{}", self.name, self.port)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.port == TLS_PORT { f.pad(&self.name) } else { f.pad(&self.full()) }
    }
}

impl serde::Serialize for Host {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Host {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::new(&text).map_err(serde::de::Error::custom)
    }
}

/// The hosts of one word of a list: a group's, or the one that it is.
pub fn hosts_of(word: &str) -> Result<Vec<Host>, BadHost> {
    if let Some((_, hosts)) = GROUPS.iter().find(|(name, _)| *name == word) {
        return Ok(hosts.iter().map(|host| Host { name: (*host).to_owned(), port: TLS_PORT }).collect());
    }
    let groupish = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
    if !word.is_empty() && groupish {
        let names = GROUPS.map(|(name, _)| name);
        let guess = text::did_you_mean(word, names).map(|name| format!("; did you mean `{name}`?"));
        return Err(BadHost(format!(
            "is no group and, without a dot, no host{}; groups: {}",
            guess.unwrap_or_default(),
            text::list(names, "and")
        )));
    }
    Host::new(word).map(|host| vec![host])
}

/// The hosts of a whole list, or every word that is none with why.
pub fn hosts<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<BTreeSet<Host>, Vec<(String, BadHost)>> {
    let (mut hosts, mut bad) = (BTreeSet::new(), Vec::new());
    for word in words {
        match hosts_of(word) {
            Ok(more) => hosts.extend(more),
            Err(why) => bad.push((word.to_owned(), why)),
        }
    }
    if bad.is_empty() { Ok(hosts) } else { Err(bad) }
}

/// A list for people: `a.example, b.example:8443`.
pub fn shown<'a>(hosts: impl IntoIterator<Item = &'a Host>) -> String {
    hosts.into_iter().map(Host::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_an_exact_name_with_a_port() {
        for (text, name, port) in [
            ("api.anthropic.com", "api.anthropic.com", 443),
            ("npm.acme.example:8443", "npm.acme.example", 8443),
            ("a-1.b2.example:443", "a-1.b2.example", 443),
            ("xn--bcher-kva.example", "xn--bcher-kva.example", 443),
        ] {
            let host = Host::new(text).unwrap();
            assert_eq!((host.name(), host.port()), (name, port));
        }
        assert_eq!(Host::new("a.example:443").unwrap().to_string(), "a.example");
        assert_eq!(Host::new("a.example:8443").unwrap().to_string(), "a.example:8443");
    }

    #[test]
    fn what_is_no_host_is_refused_with_why() {
        for (text, says) in [
            ("*.example.org", "wildcard"),
            ("https://a.example", "host alone"),
            ("a.example/path", "host alone"),
            ("A.example", "lower case"),
            ("a.example.", "ends with a dot"),
            ("localhost", "no group"),
            ("localhost:8443", "no dot"),
            ("10.0.0.1", "an address"),
            ("[::1]:443", "no port"),
            ("a..example", "no host name"),
            ("-a.example", "no host name"),
            ("a_b.example", "no host name"),
            ("a.example:0", "no port"),
            ("a.example:x", "no port"),
            ("a.example:80", "cannot be let through"),
            ("a.example:99999", "no port"),
            ("ä.example", "no host name"),
            ("a.example\n", "no host name"),
            ("", "no dot"),
        ] {
            let why = hosts_of(text).unwrap_err().to_string();
            assert!(why.contains(says), "{text:?}: {why}");
        }
    }

    #[test]
    fn groups_are_named_and_a_slip_says_which_there_are() {
        let hosts = hosts(["rust", "a.example:8443"]).unwrap();
        assert!(hosts.contains(&Host::new("index.crates.io").unwrap()));
        assert_eq!(shown(hosts.iter().take(1)), "a.example:8443");
        let why = hosts_of("rsut").unwrap_err().to_string();
        assert!(why.contains("did you mean `rust`?") && why.contains("git-hosting"), "{why}");
        for (_, members) in GROUPS {
            assert!(members.iter().all(|member| Host::new(member).is_ok()));
        }
        let bad = super::hosts(["rust", "*.x.example", "10.0.0.1"]).unwrap_err();
        assert_eq!(bad.len(), 2, "all at once");
    }
}
