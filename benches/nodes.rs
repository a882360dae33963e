//! A run of no-op nodes against the same argvs started one after the other (chain) or two at a time (wide), in one process
//! each. Prints seconds and their ratio; judges nothing. Needs docker and kew's images.
//!
//! usage: cargo bench --bench nodes [-- NODES]     (default 20)

use std::{
    fmt::Write as _,
    fs, io,
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

fn main() -> io::Result<()> {
    let nodes: usize = std::env::args().skip(1).find_map(|arg| arg.parse().ok()).unwrap_or(20);
    let dir = tempfile::tempdir()?;
    git(dir.path(), &["init", "-q"])?;
    git(dir.path(), &["commit", "-q", "--allow-empty", "-m", "Begin"])?;
    fs::create_dir(dir.path().join("config"))?;
    fs::create_dir(dir.path().join("config/kew"))?;
    fs::write(dir.path().join("config/kew/config.toml"), "[sandbox.images]\nshell = \"kew-shell:latest\"\n")?;
    for (shape, jobs, chain) in [("chain", 1, true), ("wide", 2, false)] {
        fs::write(dir.path().join("plan.toml"), plan(nodes, chain))?;
        let argvs = argvs(dir.path())?;
        // Once each before, so that both find the same warm caches.
        let (mut ours, mut floor) = (Duration::MAX, Duration::MAX);
        for _ in 0..3 {
            floor = floor.min(containers(&argvs, jobs)?);
            ours = ours.min(run(dir.path(), jobs)?);
        }
        let ratio = ours.as_secs_f64() / floor.as_secs_f64();
        writeln!(
            io::stdout(),
            "{nodes} {shape}, {jobs} at once: kew {ours:.2?}, containers alone {floor:.2?}, ratio {ratio:.2}"
        )?;
    }
    Ok(())
}

fn plan(nodes: usize, chain: bool) -> String {
    let mut text = String::from(
        "version = 1\n[epic]\nname = \"bench\"\n[defaults]\nrunner = \"shell\"\nnetwork = \"none\"\n",
    );
    for node in 0..nodes {
        let _ = writeln!(text, "[nodes.n{node}]\nprompt = \"true\"");
        if chain && node > 0 {
            let _ = writeln!(text, "needs = [\"n{}\"]", node - 1);
        }
    }
    text
}

/// The argv of every node, over a checkout of this bench's own.
fn argvs(dir: &Path) -> io::Result<Vec<Vec<String>>> {
    let work = dir.join("work");
    fs::create_dir_all(&work)?;
    fs::set_permissions(&work, fs::Permissions::from_mode(0o777))?;
    fs::write(work.join(".kew-prompt.txt"), "true\n")?;
    let output = kew(dir, &["run", "plan.toml", "--dry-run", "--resolve", "--format", "json"]).output()?;
    let dry: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let fill = |item: &serde_json::Value| {
        let text = item.as_str().unwrap_or_default();
        let text = text.replace("{checkout}", &work.to_string_lossy());
        text.replace("{run}", "bench").replace("{state}", "bench").replace("{owner}", "bench")
    };
    let nodes = dry["nodes"].as_array().cloned().unwrap_or_default();
    Ok(nodes.iter().map(|node| node["argv"].as_array().into_iter().flatten().map(fill).collect()).collect())
}

fn containers(argvs: &[Vec<String>], jobs: usize) -> io::Result<Duration> {
    let begun = Instant::now();
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None));
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(argv) = argvs.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let ended = Command::new(&argv[0]).args(&argv[1..]).stdin(Stdio::null()).output();
                    if !ended.as_ref().is_ok_and(|output| output.status.success())
                        && let Ok(mut failed) = failed.lock()
                    {
                        *failed = Some(format!("{ended:?}"));
                    }
                }
            });
        }
    });
    match failed.into_inner() {
        Ok(None) => Ok(begun.elapsed()),
        other => Err(io::Error::other(format!("{other:?}"))),
    }
}

fn run(dir: &Path, jobs: usize) -> io::Result<Duration> {
    let begun = Instant::now();
    let output = kew(dir, &["run", "plan.toml", "--jobs", &jobs.to_string()]).output()?;
    if output.status.success() {
        return Ok(begun.elapsed());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn kew(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kew"));
    command.args(args).current_dir(dir).stdin(Stdio::null()).env("XDG_CONFIG_HOME", dir.join("config"));
    command
}

fn git(dir: &Path, args: &[&str]) -> io::Result<()> {
    let identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"];
    let status = Command::new("git").current_dir(dir).args(identity).args(args).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other("git failed")) }
}
