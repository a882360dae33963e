//! What the gateway wrote of one address while it was leased: which hosts it was asked for and did not let through.
//!
//! Names there are an agent's text: what does not look like a host is not repeated. Lines of a former owner of the address
//! are told apart by the time at which their connection began.

use std::{collections::BTreeMap, time::Duration};

use super::{GATEWAY, lease::Lease};
use crate::{
    docker::client::{Docker, DockerError},
    egress::{Dealings, Refused, Why},
};

/// Lines that are read at most; an agent that asks more often is told "at least".
const LINES: &str = "50000";
/// Hosts that are told at most.
const HOSTS: usize = 50;

/// Reads the log of a lease that was given back.
pub fn of(docker: &Docker, lease: &Lease) -> Result<Dealings, DockerError> {
    let args = ["logs", "--since", &lease.since, "--tail", LINES, GATEWAY];
    let answer = docker.query(args).deadline(Duration::from_secs(60)).run()?;
    if !answer.ok() {
        return Ok(Dealings {
            trouble: Some(format!("the gateway's log could not be read: {}", answer.stderr)),
            ..Dealings::default()
        });
    }
    // One server writes to stdout, the other to stderr; the engine keeps them apart.
    Ok(judge(&answer.text(), &answer.stderr, lease))
}

/// One line of the gateway about a connection.
struct Connection<'a> {
    begun: f64,
    port: u16,
    verdict: &'a str,
    name: &'a str,
}

fn connection<'a>(line: &'a str, address: &str) -> Option<Connection<'a>> {
    let words: Vec<&str> = line.strip_prefix("kew ")?.split(' ').collect();
    let [begun, source, port, verdict, name] = words.as_slice() else { return None };
    let found = Connection { begun: begun.parse().ok()?, port: port.parse().ok()?, verdict, name };
    (*source == address).then_some(found)
}

/// The name that a line of the name server's is about.
fn lookup<'a>(line: &'a str, address: &str) -> Option<(&'a str, String)> {
    let (_, rest) = line.split_once("query[")?;
    let (kind, rest) = rest.split_once("] ")?;
    let (name, source) = rest.split_once(" from ")?;
    (source.trim() == address).then(|| (kind, name.to_ascii_lowercase()))
}

fn judge(connections: &str, lookups: &str, lease: &Lease) -> Dealings {
    // Times in the log are in milliseconds, cut.
    let since = lease.since.parse::<f64>().unwrap_or(0.0) - 0.002;
    let mut refused: BTreeMap<(String, Option<u16>, Why), u32> = BTreeMap::new();
    let (mut reached, mut last, mut latest) = (false, None, f64::MIN);
    for line in connections.lines() {
        let Some(Connection { begun, port, verdict, name }) = connection(line, &lease.address) else {
            continue;
        };
        if begun < since {
            continue;
        }
        reached = true;
        let key = match verdict {
            "allowed" => None,
            "refused" => Some((plain(name), Some(port), Why::NotAllowed)),
            "plain" => Some((plain(name), Some(port), Why::NotTls)),
            "unresolved" => Some((plain(name), Some(port), Why::Unresolved)),
            _ => Some((String::new(), Some(port), Why::NoName)),
        };
        if begun >= latest {
            latest = begun;
            last.clone_from(&key);
        }
        if let Some(key) = key {
            *refused.entry(key).or_default() += 1;
        }
    }
    let mut asked: BTreeMap<String, BTreeMap<&str, u32>> = BTreeMap::new();
    for (kind, name) in lookups.lines().filter_map(|line| lookup(line, &lease.address)) {
        reached = true;
        *asked.entry(name).or_default().entry(kind).or_default() += 1;
    }
    for (name, kinds) in asked {
        let allowed = lease.hosts.iter().any(|host| host.name() == name);
        let told = refused.keys().any(|(host, ..)| *host == name);
        // Names without a dot are of this network itself, and `arpa` asks for names of addresses.
        if allowed || told || !name.contains('.') || name.ends_with(".arpa") || plain(&name).is_empty() {
            continue;
        }
        let times = kinds.into_values().max().unwrap_or(1);
        refused.insert((name, None, Why::NotAllowed), times);
    }
    let mut hosts: Vec<Refused> = refused
        .into_iter()
        .map(|((host, port, why), times)| Refused {
            last: last.as_ref().is_some_and(|(h, p, w)| *h == host && *p == port && *w == why),
            host,
            port,
            times,
            why,
        })
        .collect();
    hosts.sort_by_key(|host| std::cmp::Reverse((host.last, host.times)));
    hosts.truncate(HOSTS);
    Dealings { refused: hosts, reached, trouble: None }
}

/// The name if it looks like one; else nothing.
fn plain(name: &str) -> String {
    let good = name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_'));
    if good && name != "-" && name.len() <= 253 { name.to_owned() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::Host;

    fn lease() -> Lease {
        Lease {
            id: "l".into(),
            address: "172.31.249.7".into(),
            since: "1000.500000000".into(),
            hosts: vec![Host::new("a.example").unwrap()],
        }
    }

    #[test]
    fn refusals_are_counted_by_host_and_port() {
        let connections = "kew gateway at 172.31.248.2, ports 443\n\
            kew 1000.600 172.31.249.7 443 allowed a.example\n\
            kew 1000.700 172.31.249.7 443 refused b.example\n\
            kew 1000.800 172.31.249.7 443 refused b.example\n\
            kew 1000.900 172.31.249.8 443 refused other-node.example\n\
            kew 1000.100 172.31.249.7 443 refused former-owner.example\n\
            kew 1001.000 172.31.249.7 80 plain c.example\n\
            kew 1000.900 172.31.249.7 443 no-hello -\n";
        let lookups = "dnsmasq[7]: query[A] a.example from 172.31.249.7\n\
            dnsmasq[7]: query[AAAA] A.example from 172.31.249.7\n\
            dnsmasq[7]: query[A] b.example from 172.31.249.7\n\
            dnsmasq[7]: query[A] ssh.example from 172.31.249.7\n\
            dnsmasq[7]: query[A] ssh.example from 172.31.249.7\n\
            dnsmasq[7]: query[AAAA] ssh.example from 172.31.249.7\n\
            dnsmasq[7]: query[PTR] 2.248.31.172.in-addr.arpa from 172.31.249.7\n\
            dnsmasq[7]: query[A] bare from 172.31.249.7\n\
            dnsmasq[7]: query[A] evil\u{1b}[31m.example from 172.31.249.7\n\
            dnsmasq[7]: query[A] other-node.example from 172.31.249.8\n\
            dnsmasq[7]: config a.example is 172.31.248.2\n";
        let egress = judge(connections, lookups, &lease());
        assert!(egress.reached && egress.trouble.is_none());
        let told: Vec<String> =
            egress.refused.iter().map(|r| format!("{} {} {}", r.shown(), r.times, r.last)).collect();
        assert_eq!(
            told,
            [
                "c.example:80 (not TLS) 1 true",
                "b.example 2 false",
                "ssh.example 2 false",
                "(no host name) 1 false",
            ]
        );
    }

    #[test]
    fn an_allowed_host_as_the_last_act_is_no_refused_one() {
        let connections = "kew 1000.700 172.31.249.7 443 refused b.example\nkew 1000.900 172.31.249.7 443 allowed a.example\n";
        let egress = judge(connections, "", &lease());
        assert!(egress.refused.iter().all(|refused| !refused.last));
        assert!(!judge("", "", &lease()).reached);
    }

    #[test]
    fn hostile_lines_are_no_hosts() {
        let connections = "kew 1000.700 172.31.249.7 443 refused b.example c.example\nkew x 172.31.249.7 443 refused y\nkew 1001.000 172.31.249.7 443 refused <b>\n";
        let egress = judge(connections, "query[ from 172.31.249.7\nquery[A] from 172.31.249.7\n", &lease());
        assert_eq!(egress.refused.len(), 1);
        assert_eq!(egress.refused[0].host, "");
    }
}
