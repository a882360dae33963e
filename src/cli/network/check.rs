//! `kew sandbox network check`: from inside a real agent's container, what must work and everything that must not.
//!
//! A server outside, another agent and a port of this host stand in for the world; each counts who came. Nothing is left
//! behind. It decides nothing: a line is a pass or a failure.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    thread,
    time::{Duration, Instant},
};

use super::{NetworkArgs, put, sandbox, say};
use crate::{
    cli::sandbox::trial_parent,
    config::Settings,
    docker::{
        argv::{GATEWAY_ADDRESS, Limits, Network},
        client::Docker,
        gateway::{self, GATEWAY_IMAGE, lease},
        network::OUTER_NETWORK,
        trial::{Start, Trial},
    },
    egress::Host,
    error::{Failure, exit},
    process::query::Answer,
    run::fresh,
    text::inert,
};

/// Runs in the agent's container.
const INSIDE: &str = include_str!("inside.pl");
/// Runs outside, and as the other agent.
const DOUBLE: &str = include_str!("double.pl");
/// The one host that may be reached.
const ALLOWED: &str = "allowed.kew-check.example";
/// Names of the server outside.
const ALIASES: [&str; 2] = [ALLOWED, "other.kew-check.example"];

/// A container that is removed with this value.
struct Removed<'a>(&'a Docker, String);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        let _ = self.0.remove(&self.1);
    }
}

/// A lease that is given back with this value; its container is gone by then.
struct Leased<'a>(&'a Docker, lease::Lease);

impl Drop for Leased<'_> {
    fn drop(&mut self) {
        let _ = lease::give_back(self.0, &self.1);
    }
}

/// Prints each line; exit code 4 if one failed.
pub fn check(args: &NetworkArgs) -> Result<u8, Failure> {
    let settings = sandbox::settings(args.repo.repo.as_deref())?;
    let (docker, _config) = sandbox::engine()?;
    gateway::ready(&docker, &Default::default())?;
    let ports = gateway::find(&docker)?.ports;
    let image = image(&docker, &settings)?;
    let limits = settings.sandbox.limits(Some(docker.engine()?.cpus).filter(|cpus| *cpus > 0));
    let tag = fresh(4);

    let outside = Removed(&docker, format!("kew-check-{tag}-outside"));
    let address = start_outside(&docker, &outside.1)?;
    let allowed = Host::new(ALLOWED).expect("the name of the check is a host");
    let peer =
        Leased(&docker, lease::take(&docker, &format!("check-{tag}-peer"), std::slice::from_ref(&allowed))?);
    let own = Leased(&docker, lease::take(&docker, &format!("check-{tag}"), &[allowed])?);
    let other = Removed(&docker, format!("kew-check-{tag}-peer"));
    start_peer(&docker, &other.1, &peer.1.address)?;

    let here = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))
        .map_err(|error| Failure::infrastructure(format!("no port of this host could be opened: {error}")))?;
    let port = here.local_addr().map_or(0, |address| address.port());
    let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
    let mut words =
        vec![GATEWAY_ADDRESS.to_owned(), address, peer.1.address.clone(), port.to_string(), ports.join(",")];
    words.extend(host_addresses());
    let answer = look(&docker, &settings, &limits, &image, &own.1.address, &words, &tag)?;
    let mut failed = 0;
    let mut lines: Vec<String> = answer.text().lines().map(str::to_owned).collect();
    if lines.is_empty() {
        return Err(Failure::infrastructure(format!(
            "nothing could be tried in the container: {}",
            inert(&answer.stderr)
        ))
        .help("the image needs perl, as every Debian image has it"));
    }
    lines.extend(strays(&docker, &outside.1, &here)?);
    if !matches!(answer.code, Some(0 | 1)) {
        lines.push(format!(
            "FAIL the check itself: exit status {}: {}",
            answer.code.unwrap_or(-1),
            answer.stderr
        ));
    }
    for line in &lines {
        failed += usize::from(!line.starts_with("pass "));
        put(&format!("{}\n", inert(line)));
    }
    drop((other, own, peer, outside));
    say(&format!("{} checks, {failed} failed", lines.len()));
    Ok(if failed > 0 { exit::INFRASTRUCTURE } else { exit::PASSED })
}

/// An agent's image of the settings, the usual one if they have none.
fn image(docker: &Docker, settings: &Settings) -> Result<String, Failure> {
    let mapped = ["claude-code", "shell"].into_iter().find_map(|runner| settings.sandbox.image(runner, None));
    let name =
        mapped.or(settings.sandbox.images.values().next().map(String::as_str)).unwrap_or("kew-shell:latest");
    docker.image_id(name)?.ok_or_else(|| {
        Failure::infrastructure(format!("no such image on the engine: `{name}`")).help("`kew sandbox build`")
    })
}

/// The server outside; gives its address.
fn start_outside(docker: &Docker, name: &str) -> Result<String, Failure> {
    let aliases = ALIASES.iter().flat_map(|alias| ["--network-alias", alias]);
    let mut args = vec!["run", "--detach", "--name", name, "--pull", "never", "--network", OUTER_NETWORK];
    args.extend(aliases);
    args.extend(["--read-only", "--cap-drop", "ALL", "--sysctl", "net.ipv4.ip_unprivileged_port_start=0"]);
    args.extend(["--entrypoint", "perl", GATEWAY_IMAGE, "-e", DOUBLE]);
    args.extend(["tcp/443", "tcp/80", "tcp/53", "tcp/8443", "udp/443", "udp/53"]);
    docker.ask(&args)?;
    let format = format!("{{{{(index .NetworkSettings.Networks \"{OUTER_NETWORK}\").IPAddress}}}}");
    until_ready(docker, name)?;
    Ok(docker.ask(&["container", "inspect", "--format", &format, name])?)
}

/// Another agent, which listens.
fn start_peer(docker: &Docker, name: &str, address: &str) -> Result<(), Failure> {
    let mut args =
        vec!["run", "--detach", "--name", name, "--pull", "never", "--read-only", "--cap-drop", "ALL"];
    args.extend([
        "--network",
        "kew-allowlist",
        "--ip",
        address,
        "--sysctl",
        "net.ipv4.ip_unprivileged_port_start=0",
    ]);
    args.extend(["--entrypoint", "perl", GATEWAY_IMAGE, "-e", DOUBLE, "tcp/443", "tcp/8000", "udp/8000"]);
    docker.ask(&args)?;
    until_ready(docker, name)
}

fn until_ready(docker: &Docker, name: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        if docker.ask(&["logs", name])?.contains("ready") {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Err(Failure::infrastructure(format!("the container `{name}` does not come up")))
}

/// The container of an agent, by a node's argv, with the script instead of the agent.
fn look(
    docker: &Docker,
    settings: &Settings,
    limits: &Limits,
    image: &str,
    address: &str,
    words: &[String],
    tag: &str,
) -> Result<Answer, Failure> {
    let trial = Trial {
        docker,
        limits,
        network: Network::Allowlist,
        address: Some(address),
        image,
        parent: &trial_parent(settings),
    };
    // All of them are addresses and numbers.
    let script = format!("exec perl -e \"$1\" {}", words.join(" "));
    trial
        .run(&format!("kew-check-{tag}"), None, Start::Script(&script, INSIDE))
        .map_err(|error| Failure::infrastructure(error.to_string()))
}

/// Who came to the server outside and to this host's port, apart from the one that may.
fn strays(docker: &Docker, outside: &str, here: &TcpListener) -> Result<Vec<String>, Failure> {
    let log = docker.ask(&["logs", outside])?;
    let good = format!("asked tcp/443 {ALLOWED}");
    let asked: Vec<&str> = log.lines().filter(|line| line.starts_with("asked ")).collect();
    let stray: Vec<&str> = asked.iter().copied().filter(|line| *line != good).collect();
    let line = |what: &str, why: String| {
        if why.is_empty() { format!("pass {what}") } else { format!("FAIL {what}: {why}") }
    };
    let once = if asked.len() - stray.len() == 1 { String::new() } else { format!("{asked:?}") };
    let _ = here.set_nonblocking(true);
    let came = std::iter::from_fn(|| here.accept().ok()).count();
    let came = if came == 0 { String::new() } else { format!("{came} came") };
    Ok(vec![
        line("the server outside saw no stray request", stray.join("; ")),
        line("… and the allowed one once", once),
        line("nothing came to this host's port", came),
    ])
}

/// Every address of this host but its loopback, the address that would be the inner network's among them.
fn host_addresses() -> Vec<String> {
    let text = fs::read_to_string("/proc/net/fib_trie").unwrap_or_default();
    let mut found = vec!["172.31.248.1".to_owned()];
    let mut last = "";
    for line in text.lines() {
        if let Some((_, address)) = line.split_once("-- ") {
            last = address.trim();
        } else if line.contains("/32 host LOCAL")
            && !last.starts_with("127.")
            && !found.iter().any(|known| known == last)
        {
            found.push(last.to_owned());
        }
    }
    found
}
