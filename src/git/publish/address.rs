//! Where a remote is: git's forms of an address, taken apart. Pure.
//!
//! Invariant: whatever is shown of an address has no user and no password in it.

use std::fmt;

/// How a remote is reached. Others (`git:`, `ext:`, remote helpers) are refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// Encrypted.
    Https,
    /// Not encrypted; only where the user's own configuration says so.
    Http,
    /// By ssh.
    Ssh,
    /// A folder of this machine.
    File,
}

impl Protocol {
    /// For `GIT_ALLOW_PROTOCOL`. A redirect may only lead to what is safer.
    pub fn allowed(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http:https",
            Self::Ssh => "ssh",
            Self::File => "file",
        }
    }
}

/// An address.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    raw: String,
    /// How it is reached.
    pub protocol: Protocol,
    /// Host, with the port if there is one; empty for a folder.
    pub host: String,
    path: String,
}

impl Address {
    /// Takes an address apart; the error says why it cannot be used, and does not repeat it.
    pub fn new(raw: &str) -> Result<Self, String> {
        let refused = |why: &str| Err(format!("the address of the remote {why}"));
        if raw.is_empty() || raw.starts_with('-') || raw.contains(char::is_control) {
            return refused("is empty, begins with `-` or has a control character");
        }
        if raw.contains("::") && !raw.contains("://") {
            return refused("is for a remote helper, which kew does not start");
        }
        let (protocol, rest) = match raw.split_once("://") {
            Some(("https", rest)) => (Protocol::Https, rest),
            Some(("http", rest)) => (Protocol::Http, rest),
            Some(("ssh" | "git+ssh" | "ssh+git", rest)) => (Protocol::Ssh, rest),
            Some(("file", rest)) => return Ok(Self::folder(raw, rest)),
            Some(_) => return refused("has a protocol other than https, http, ssh and file"),
            None if raw.starts_with(['/', '.', '~']) => return Ok(Self::folder(raw, raw)),
            None => match raw.split_once(':') {
                // `host:path`, unless there is a slash before the colon.
                Some((host, path)) if !host.contains('/') && !host.is_empty() => {
                    return Self::at(raw, Protocol::Ssh, host, path);
                }
                _ => return Ok(Self::folder(raw, raw)),
            },
        };
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        Self::at(raw, protocol, host, path)
    }

    fn at(raw: &str, protocol: Protocol, host: &str, path: &str) -> Result<Self, String> {
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        if host.is_empty() || host.starts_with('-') {
            return Err("the address of the remote has no host".to_owned());
        }
        let path = path.trim_matches('/').to_owned();
        Ok(Self { raw: raw.to_owned(), protocol, host: host.to_ascii_lowercase(), path })
    }

    fn folder(raw: &str, path: &str) -> Self {
        Self { raw: raw.to_owned(), protocol: Protocol::File, host: String::new(), path: path.to_owned() }
    }

    /// As git takes it. May hold a password.
    pub(super) fn raw(&self) -> &str {
        &self.raw
    }

    /// The host's name without a port.
    pub fn host_name(&self) -> &str {
        self.host.split(':').next().unwrap_or_default()
    }

    /// `owner/name` on a forge; with more slashes on one that has groups.
    pub fn slug(&self) -> Option<&str> {
        let path = self.path.strip_suffix(".git").unwrap_or(&self.path);
        let parts: Vec<&str> = path.split('/').collect();
        let good = |part: &&str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b))
        };
        (self.protocol != Protocol::File && parts.len() >= 2 && parts.iter().all(good)).then_some(path)
    }

    /// What must not be shown: the password, and a user that may be one.
    pub(super) fn secrets(&self) -> Vec<String> {
        let userinfo = self.raw.split_once("://").and_then(|(_, rest)| {
            let host = rest.split('/').next()?;
            Some(host.rsplit_once('@')?.0.to_owned())
        });
        let Some(userinfo) = userinfo.filter(|_| self.protocol != Protocol::Ssh) else { return Vec::new() };
        let parts = userinfo.split(':').map(str::to_owned).collect::<Vec<_>>();
        std::iter::once(userinfo).chain(parts).filter(|part| part.len() >= 4).collect()
    }
}

/// Without user and password.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.protocol {
            Protocol::Https => write!(f, "https://{}/{}", self.host, self.path),
            Protocol::Http => write!(f, "http://{}/{}", self.host, self.path),
            Protocol::Ssh => write!(f, "ssh://{}/{}", self.host, self.path),
            Protocol::File => f.write_str(&self.path),
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({self})")
    }
}
