//! `kew check` against `ninja -n` over the same random graph, in one run. Prints medians and their ratio; judges nothing.
//!
//! usage: cargo bench --bench check [-- NODES]     (default 10000; needs `ninja`)

use std::{
    fmt::Write as _,
    fs, io,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Runs of each side.
const RUNS: usize = 11;

fn main() -> io::Result<()> {
    let nodes = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(10_000);
    let dir = tempfile::tempdir()?;
    write(dir.path(), nodes)?;
    let kew = || run(dir.path(), env!("CARGO_BIN_EXE_kew"), &["check", "plan.toml"]);
    let ninja = || run(dir.path(), "ninja", &["-n"]);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        ours.push(kew()?);
        theirs.push(ninja()?);
    }
    let (ours, theirs) = (median(ours), median(theirs));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    writeln!(io::stdout(), "{nodes} nodes: kew check {ours:.1?}, ninja -n {theirs:.1?}, ratio {ratio:.2}")
}

/// The same graph for both: each node needs one to three earlier ones.
fn write(dir: &Path, nodes: usize) -> io::Result<()> {
    let mut seed = 42_u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    let mut plan = String::from("version = 1\n[epic]\nname = \"bench\"\n[defaults]\nrunner = \"shell\"\n");
    let mut ninja = String::from("rule r\n  command = true $out\n");
    for node in 0..nodes {
        let mut needs: Vec<usize> =
            (0..1 + random() % 3).filter(|_| node > 0).map(|_| random() % node.max(1)).collect();
        needs.sort_unstable();
        needs.dedup();
        let quoted: Vec<String> = needs.iter().map(|need| format!("\"n{need}\"")).collect();
        let _ = writeln!(plan, "[nodes.n{node}]\nprompt = \"do {node}\"\nneeds = [{}]", quoted.join(", "));
        let inputs: String = needs.iter().map(|need| format!(" n{need}")).collect();
        let _ = writeln!(ninja, "build n{node}: r{inputs}");
    }
    fs::write(dir.join("plan.toml"), plan)?;
    fs::write(dir.join("build.ninja"), ninja)?;
    fs::write(dir.join("kew.toml"), "[sandbox.images]\nshell = \"kew-shell\"\n")?;
    fs::create_dir(dir.join(".git"))
}

fn run(dir: &Path, program: &str, args: &[&str]) -> io::Result<Duration> {
    let begun = Instant::now();
    let output = Command::new(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()?;
    let took = begun.elapsed();
    if !output.status.success() {
        return Err(io::Error::other(format!("{program}: {}", String::from_utf8_lossy(&output.stderr))));
    }
    Ok(took)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
