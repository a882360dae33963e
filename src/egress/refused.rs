//! What a container asked for and did not get, as the gateway counted it; and how to say so.
//!
//! Names were checked to look like hosts when they were read; they are still an agent's choice, and no advice follows from
//! them but to look. Invariant: nothing here decides an outcome.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Host, TLS_PORT};
use crate::text;

/// Why the gateway did not let a connection through.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// The host, at that port, is not on the container's list.
    NotAllowed,
    /// It was plain HTTP; only TLS is let through.
    NotTls,
    /// The host is on the list, but has no address that may be used.
    Unresolved,
    /// It named no host, or none that could be one.
    NoName,
}

/// One host that was asked for in vain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Refused {
    /// The host; empty if none was named.
    pub host: String,
    /// The port; `None` = it was looked up and no connection was seen.
    pub port: Option<u16>,
    /// How often.
    pub times: u32,
    /// Why.
    pub why: Why,
    /// It was the container's last request of all.
    #[serde(default)]
    pub last: bool,
}

/// A container's dealings with the gateway.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dealings {
    /// What was refused: the last request first, then by how often.
    pub refused: Vec<Refused>,
    /// The container was heard of at all.
    pub reached: bool,
    /// What was wrong with the gateway itself, as a sentence.
    pub trouble: Option<String>,
}

impl Refused {
    /// The host for people.
    pub fn shown(&self) -> String {
        let port =
            self.port.filter(|port| *port != TLS_PORT).map(|port| format!(":{port}")).unwrap_or_default();
        match self.why {
            _ if self.host.is_empty() => "(no host name)".to_owned(),
            Why::NotTls => format!("{}{port} (not TLS)", self.host),
            Why::Unresolved => format!("{}{port} (allowed, but without an address)", self.host),
            Why::NotAllowed | Why::NoName => format!("{}{port}", self.host),
        }
    }

    /// What a list would have to hold to let it through, if anything could.
    pub fn entry(&self) -> Option<Host> {
        if !matches!(self.why, Why::NotAllowed | Why::NotTls) {
            return None;
        }
        let port = self.port.filter(|port| self.why == Why::NotAllowed && *port != TLS_PORT);
        Host::new(&port.map_or(self.host.clone(), |port| format!("{}:{port}", self.host))).ok()
    }
}

/// `b.example (2 times), c.example:80 (not TLS) (once)`.
pub fn told(refused: &[Refused]) -> String {
    let one = |refused: &Refused| match refused.times {
        1 => format!("{} (once)", refused.shown()),
        times => format!("{} ({times} times)", refused.shown()),
    };
    refused.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// The line that a settings file would need; `None` if nothing could let any of it through.
pub fn advice(refused: &[Refused]) -> Option<String> {
    let hosts: BTreeSet<String> =
        refused.iter().filter_map(|refused| Some(format!("\"{}\"", refused.entry()?))).collect();
    let hosts: Vec<String> = hosts.into_iter().collect();
    (!hosts.is_empty()).then(|| format!("allow = [{}]", hosts.join(", ")))
}

/// What a failed node says first if its last request was refused.
pub fn first_words(refused: &[Refused]) -> Option<String> {
    let last = refused.iter().find(|refused| refused.last)?;
    Some(format!(
        "the last thing that it asked for was refused: {}, {}",
        last.shown(),
        if last.times == 1 { "once".to_owned() } else { text::plural(last.times as usize, "time") }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(host: &str, port: Option<u16>, why: Why) -> Refused {
        Refused { host: host.into(), port, times: 2, why, last: false }
    }

    #[test]
    fn the_advice_is_what_a_list_would_need() {
        let all = [
            refused("b.example", Some(443), Why::NotAllowed),
            refused("b.example", Some(8443), Why::NotAllowed),
            refused("c.example", Some(80), Why::NotTls),
            refused("d.example", None, Why::NotAllowed),
            refused("a.example", Some(443), Why::Unresolved),
            refused("", Some(443), Why::NoName),
            refused("e_f.example", Some(443), Why::NotAllowed),
        ];
        assert_eq!(
            advice(&all).as_deref(),
            Some(r#"allow = ["b.example", "b.example:8443", "c.example", "d.example"]"#)
        );
        assert_eq!(advice(&all[4..]), None);
        assert_eq!(told(&all[1..3]), "b.example:8443 (2 times), c.example:80 (not TLS) (2 times)");
        assert_eq!(first_words(&all), None);
        let last = Refused { last: true, times: 1, ..all[0].clone() };
        assert_eq!(
            first_words(&[last]).as_deref(),
            Some("the last thing that it asked for was refused: b.example, once")
        );
    }
}
