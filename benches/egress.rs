//! From the start of a container to the first byte of a server outside: through the gateway against an open network, the
//! same argv but for that. Prints seconds and their ratio; judges nothing. Needs docker, kew's images and the network up.
//!
//! usage: cargo bench --bench egress [-- ROUNDS]     (default 10)

use std::{
    io::{self, Write as _},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use kew::{
    docker::{client::Docker, gateway::lease},
    egress::Host,
};

const NAME: &str = "bench.kew-check.example";
const SERVER: &str = "kew-bench-outside";

fn main() -> io::Result<()> {
    let rounds: u32 = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(10);
    let config = tempfile::tempdir()?;
    let host = std::env::var("DOCKER_HOST").unwrap_or_else(|_| "unix:///var/run/docker.sock".to_owned());
    let engine = Docker::new(host, config.path());
    serve()?;
    let measured = measure(&engine, rounds);
    docker(&["rm", "-f", SERVER])?;
    let (open, allowlist) = measured?;
    let ratio = allowlist.as_secs_f64() / open.as_secs_f64();
    writeln!(
        io::stdout(),
        "first byte, best of {rounds}: open {open:.3?}, by the gateway {allowlist:.3?}, ratio {ratio:.2}"
    )
}

/// A TLS server on the outer network.
fn serve() -> io::Result<()> {
    let script = "cd /tmp && openssl req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 2 -subj /CN=x 2>/dev/null && \
                  exec openssl s_server -accept 443 -cert c -key k -www -quiet";
    let mut args = vec!["run", "-d", "--rm", "--name", SERVER, "--user", "0", "--network", "kew-egress"];
    args.extend(["--network-alias", NAME, "--entrypoint", "sh", "kew-shell", "-c", script]);
    docker(&args)?;
    std::thread::sleep(Duration::from_secs(3));
    Ok(())
}

/// In turns, so that both find the same machine.
fn measure(engine: &Docker, rounds: u32) -> io::Result<(Duration, Duration)> {
    let (mut open, mut allowlist) = (Duration::MAX, Duration::MAX);
    let hosts = [Host::new(NAME).map_err(io::Error::other)?];
    for round in 0..=rounds {
        let one = first_byte(&["--network", "kew-egress"])?;
        let lease = lease::take(engine, &format!("bench-{round}"), &hosts).map_err(io::Error::other)?;
        let two =
            first_byte(&["--network", "kew-allowlist", "--ip", &lease.address, "--dns", "172.31.248.2"]);
        lease::give_back(engine, &lease);
        // The first round warms the caches.
        if round > 0 {
            open = open.min(one);
            allowlist = allowlist.min(two?);
        }
    }
    Ok((open, allowlist))
}

/// Wall time of a container that gets one byte.
fn first_byte(network: &[&str]) -> io::Result<Duration> {
    let script = format!("curl -sk -o /dev/null -r 0-0 https://{NAME}/");
    let mut args = vec!["run", "--rm", "--init", "--pull", "never", "--read-only", "--cap-drop", "ALL"];
    args.extend(["--security-opt", "no-new-privileges", "--log-driver", "none"]);
    args.extend(network);
    args.extend(["--entrypoint", "sh", "kew-shell", "-c", &script]);
    let begun = Instant::now();
    docker(&args)?;
    Ok(begun.elapsed())
}

fn docker(args: &[&str]) -> io::Result<()> {
    let status = Command::new("docker").args(args).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("docker {args:?}: {status}"))) }
}
