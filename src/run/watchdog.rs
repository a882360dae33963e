//! What remains when kew is killed: a child that ends this kew's docker clients and containers, and then gives up the lock.
//!
//! It holds a duplicate of the run's lock as its stdout and the reading end of a pipe as its stdin. As long as kew lives
//! the pipe is open; `done` on it means a clean end. Invariant: once the lock is free, nothing of that owner runs. It
//! removes by the owner label of one process, so another kew is never touched.

use std::{
    ffi::OsString,
    fs, io,
    io::{BufRead as _, Write as _},
    sync::{Arc, Mutex, atomic::AtomicBool},
    time::{Duration, Instant},
};

use camino::{Utf8Path, Utf8PathBuf};

use crate::{
    docker::client::Docker,
    process::child::{Keeper, Spawn},
};

/// The hidden subcommand that runs [`keep_watch`].
pub const SUBCOMMAND: &str = "__watchdog";

/// How long two listings without a container are apart before the watchdog believes them.
const QUIET: Duration = Duration::from_secs(1);
/// How long it tries.
const PATIENCE: Duration = Duration::from_secs(120);

/// kew's side.
#[derive(Debug)]
pub struct Watchdog {
    pipe: Arc<Mutex<io::PipeWriter>>,
    keeper: Keeper,
}

/// What a watchdog must know; travels as its arguments.
#[derive(Debug, Clone)]
pub struct Watched {
    /// The engine's endpoint; empty in host mode, where there is none.
    pub host: String,
    /// An empty docker configuration folder.
    pub config: Utf8PathBuf,
    /// The owner label of this kew.
    pub owner: String,
    /// The folder with the run's checkouts, removed after the containers.
    pub workspace: Utf8PathBuf,
    /// The lock's file, removed last.
    pub lock: Utf8PathBuf,
}

impl Watchdog {
    /// Starts it and waits for its word.
    pub fn start(watched: &Watched, lock: fs::File) -> io::Result<Self> {
        let (read, write) = io::pipe()?;
        let args = [
            SUBCOMMAND,
            &watched.host,
            watched.config.as_str(),
            &watched.owner,
            watched.workspace.as_str(),
            watched.lock.as_str(),
        ];
        let spawn = Spawn {
            program: std::env::current_exe()?.to_string_lossy().into_owned(),
            args: args.map(OsString::from).to_vec(),
            env: std::env::var_os("PATH").map(|path| ("PATH".into(), path)).into_iter().collect(),
            tag: "watchdog".into(),
        };
        let mut keeper = Keeper::start(spawn, read.into(), lock)?;
        let word = keeper.first_word()?;
        if word != "ready" {
            return Err(io::Error::other(format!("the watchdog did not start: {word}")));
        }
        Ok(Self { pipe: Arc::new(Mutex::new(write)), keeper })
    }

    /// Registers docker clients: they are ended first, so that none makes a container late.
    pub fn register(&self) -> Arc<dyn Fn(u32) + Send + Sync> {
        self.register_as("client")
    }

    /// Registers guards of host processes: they see kew's end by themselves, and are waited for.
    pub fn register_guards(&self) -> Arc<dyn Fn(u32) + Send + Sync> {
        self.register_as("guard")
    }

    fn register_as(&self, what: &'static str) -> Arc<dyn Fn(u32) + Send + Sync> {
        let pipe = Arc::clone(&self.pipe);
        Arc::new(move |pid| {
            let Some(born) = born(pid) else { return };
            let mut pipe = pipe.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // A watchdog that is gone is found out at the end; a run does not fail by it in the middle.
            let _ = writeln!(pipe, "{what} {pid} {born}");
        })
    }

    /// A clean end: the watchdog goes without doing anything.
    pub fn dismiss(self) -> io::Result<()> {
        let mut pipe = self.pipe.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        writeln!(pipe, "done")?;
        drop(pipe);
        self.keeper.wait(Duration::from_secs(5)).map(|_| ())
    }
}

/// The watchdog's side: the whole life of the child process. Gives its exit code.
pub fn keep_watch(watched: &Watched) -> u8 {
    // Away from kew's terminal and group; whatever ends kew must not end this.
    let _ = rustix::process::setsid();
    let ignored = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT, signal_hook::consts::SIGHUP] {
        let _ = signal_hook::flag::register(signal, Arc::clone(&ignored));
    }
    if writeln!(io::stderr(), "ready").is_err() {
        return 1;
    }
    let mut clients: Vec<(u32, u64)> = Vec::new();
    let mut guards: Vec<(u32, u64)> = Vec::new();
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        let mut words = line.split(' ');
        match (words.next(), words.next(), words.next()) {
            (Some("done"), ..) => return 0,
            (Some(what @ ("client" | "guard")), Some(pid), Some(born)) => {
                if let (Ok(pid), Ok(born)) = (pid.parse(), born.parse()) {
                    if what == "guard" { &mut guards } else { &mut clients }.push((pid, born));
                }
            }
            _ => {}
        }
    }
    guards.iter().for_each(|guard| outlive(*guard));
    if watched.host.is_empty() {
        return forget(watched);
    }
    clean_up(watched, &clients)
}

/// Waits for a guard, which ends all that is below it and then itself; one that does not is ended with its session.
fn outlive((pid, born_at): (u32, u64)) {
    let begun = Instant::now();
    while born(pid) == Some(born_at) {
        if begun.elapsed() > PATIENCE / 4 {
            crate::process::tree::end_session(pid, PATIENCE / 4);
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Removes the run's folder and then its lock. A folder that this user may not remove is left with its lock, by which the next
/// kew finds it.
fn forget(watched: &Watched) -> u8 {
    if fs::remove_dir_all(&watched.workspace).is_ok() || !watched.workspace.exists() {
        let _ = fs::remove_file(&watched.lock);
        return 0;
    }
    1
}

fn clean_up(watched: &Watched, clients: &[(u32, u64)]) -> u8 {
    for &(pid, born_at) in clients {
        // The same number may be another process by now; its birth time tells.
        if born(pid) == Some(born_at) {
            crate::process::kill_group(&[pid]);
        }
    }
    let docker = Docker::new(watched.host.clone(), watched.config.as_std_path());
    let label = format!("kew.owner={}", watched.owner);
    let started = Instant::now();
    let mut quiet_since: Option<Instant> = None;
    while started.elapsed() < PATIENCE {
        match docker.containers(&label) {
            Ok(containers) if containers.is_empty() => {
                if quiet_since.get_or_insert_with(Instant::now).elapsed() >= QUIET {
                    return forget(watched);
                }
            }
            Ok(containers) => {
                quiet_since = None;
                for container in containers {
                    let _ = docker.remove(&container);
                }
            }
            Err(_) => quiet_since = None,
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    1
}

/// A process's start time in clock ticks since boot, from its stat line.
fn born(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(Utf8Path::new("/proc").join(pid.to_string()).join("stat")).ok()?;
    // The name, in brackets, may hold anything: the fields are counted after its last bracket.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}
