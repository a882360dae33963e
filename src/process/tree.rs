//! The processes below this one, and those of a session: found in `/proc`, ended by SIGKILL. For the guard of a host process.
//!
//! A process that reaps orphans (a subreaper) keeps all its descendants below it, whatever they do about groups and sessions.
//! Invariant: only descendants of the asking process, or members of a session that it names, are signalled.

use std::{
    collections::HashMap,
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, WaitOptions};

/// One process, as its stat line says.
#[derive(Debug, Clone, Copy)]
struct Seen {
    parent: i32,
    session: i32,
    dead: bool,
}

/// Makes orphans below this process its own children.
pub fn adopt_orphans() -> std::io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Ends everything below this process; true once nothing of it lives. Children that died are reaped: call it only when
/// nobody waits for one of them any more, or `reap` is false.
pub fn end_descendants(reap: bool, patience: Duration) -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    until_none(patience, || {
        let found = descendants(own);
        // Stopped first: what forks faster than it is found cannot while it is stopped.
        for signal in [Signal::STOP, Signal::KILL] {
            found.iter().for_each(|pid| send(*pid, signal));
        }
        while reap && matches!(rustix::process::wait(WaitOptions::NOHANG), Ok(Some(_))) {}
        found.len()
    })
}

/// Ends every process of a session; true once none lives.
pub fn end_session(session: u32, patience: Duration) -> bool {
    let Ok(session) = i32::try_from(session) else { return true };
    until_none(patience, || {
        let members = processes().into_iter().filter(|(_, seen)| seen.session == session && !seen.dead);
        let members: Vec<i32> = members.map(|(pid, _)| pid).collect();
        members.iter().for_each(|pid| send(*pid, Signal::KILL));
        members.len()
    })
}

fn until_none(patience: Duration, mut end: impl FnMut() -> usize) -> bool {
    let begun = Instant::now();
    while end() > 0 {
        if begun.elapsed() >= patience {
            return false;
        }
        thread::sleep(Duration::from_millis(5));
    }
    true
}

fn descendants(root: i32) -> Vec<i32> {
    let all = processes();
    let mut below = vec![root];
    let mut at = 0;
    while at < below.len() {
        let parent = below[at];
        let children = all.iter().filter(|(_, seen)| seen.parent == parent && !seen.dead);
        below.extend(children.map(|(pid, _)| *pid));
        at += 1;
    }
    below.split_off(1)
}

fn processes() -> HashMap<i32, Seen> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| Some((pid, seen(pid)?))).collect()
}

fn seen(pid: i32) -> Option<Seen> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in brackets, may hold anything: the fields are counted after its last bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let dead = matches!(fields.next()?, "Z" | "X" | "x");
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Seen { parent, session, dead })
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}
