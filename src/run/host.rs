//! The second engine: agents as processes of this host, in the same checkouts, by the same steps, contained by nothing.
//!
//! Only an explicit setting of the user's asks for it; it is never what happens because something else does not work.
//! Input, checkout, prompt, judgement of what came home and the reviewer's sidecar are those of `contained`. Invariants: no
//! git runs with the configuration of a folder that an agent has had; nothing of an attempt runs when its step returns.

mod env;
pub mod guard;

use std::{
    collections::HashMap,
    ffi::OsString,
    fs,
    sync::{Arc, Mutex, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::process::Signal;

pub use self::env::agent_env;
use self::guard::Guarded;
use super::{
    contained::{Contained, Control, Engine, disk, lock},
    executor::{Attempt, Caps, Executor, HARDENING, Hardening, NodeSpec, Sink, Source, StopHow, Trouble},
    fresh,
};
use crate::{
    contract::PROMPT_FILENAME,
    lines::Line,
    name::{AttemptKey, NodeId},
    outcome::EngineEnd,
    process::{
        child::{Child, Spawn},
        tree,
    },
    runners::host::{Handoff, HostCommand},
};

/// What a node's image is called where there is none.
pub const IMAGE: &str = "(host)";
/// What its network is called.
pub const NETWORK: &str = "host";

/// How long the pipes may stay open after the guard's exit.
const DRAIN: Duration = Duration::from_secs(10);

/// Turns what a script prints into events, as in its image.
const EVENTS: &str = include_str!("../../docker/shell-events.pl");

/// What host mode needs beside what all attempts share.
pub struct Ground {
    /// kew's own program, which guards each agent.
    pub kew: String,
    /// The command of each node that runs, its program by its whole path.
    pub commands: HashMap<NodeId, HostCommand>,
    /// The environment without any credential.
    pub env: Vec<(OsString, OsString)>,
    /// A folder of kew's own for scripts.
    pub folder: Utf8PathBuf,
    /// Registers guards with the watchdog.
    pub register: Arc<dyn Fn(u32) + Send + Sync>,
}

/// Shared by handing out; a clone is cheap and the same engine.
#[derive(Clone)]
pub struct Host(pub Engine);

impl Executor for Host {
    fn caps(&self) -> Caps {
        Caps { fields: HARDENING.into_iter().map(|field| (field, Hardening::Absent)).collect() }
    }

    fn prepare(&self, spec: &NodeSpec, source: &Source) -> Result<Box<dyn Attempt>, Trouble> {
        self.0.prepare(spec, source)
    }

    fn stop(&self, key: &AttemptKey, how: StopHow) {
        let control = self.0.0.control(key);
        *lock(&control.stop) = Some(how);
        if how == StopHow::Now || !control.stopping.swap(true, Ordering::SeqCst) {
            let made = thread::Builder::new().name("kew-stop".into()).spawn(move || stop(&control, how));
            // Without a thread the request stays noted: the attempt sees it at its next step, and the watchdog at the end.
            drop(made);
        }
    }
}

/// Asks the agent, then ends all that is below its guard; the guard itself is ended only when it does not do its work.
fn stop(control: &Control, how: StopHow) {
    let begun = Instant::now();
    let over = || control.over.load(Ordering::SeqCst);
    let guard = || lock(&control.container).clone().map(|(_, killer)| killer);
    // An agent that is not there yet cannot hear. It starts within a moment or, with the request noted, never.
    while guard().is_none() && !over() && begun.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(20));
    }
    let Some(guard) = guard() else { return };
    if let StopHow::Grace { int_first, grace } = how {
        if int_first {
            guard.signal(Signal::INT);
            wait(grace / 2, over);
        }
        if !over() {
            guard.signal(Signal::TERM);
        }
        wait(grace.saturating_sub(begun.elapsed()), over);
    }
    let insisted = Instant::now();
    while !over() && insisted.elapsed() < Duration::from_secs(60) {
        guard.signal(Signal::USR1);
        if insisted.elapsed() > Duration::from_secs(30) {
            guard.kill();
        }
        wait(Duration::from_millis(500), over);
    }
}

fn wait(limit: Duration, over: impl Fn() -> bool) {
    let begun = Instant::now();
    while !over() && begun.elapsed() < limit {
        thread::sleep(Duration::from_millis(20));
    }
}

impl Ground {
    /// Runs a node's agent in its checkout, and returns when nothing of it runs any more.
    pub(super) fn run(
        &self,
        shared: &Contained,
        spec: &NodeSpec,
        checkout: &Utf8Path,
        control: &Arc<Control>,
        sink: Arc<dyn Sink>,
    ) -> Result<EngineEnd, Trouble> {
        shared.go_on(control)?;
        let command = self.commands.get(&spec.key.node).ok_or_else(|| {
            Trouble::Infrastructure(format!("kew itself failed: no command for `{}`", spec.key.node))
        })?;
        let mut env = self.env.clone();
        let set = spec.credentials.iter().filter_map(|name| Some((name, shared.credentials.get(name)?)));
        env.extend(set.map(|(name, value)| (OsString::from(name.as_str()), value.clone())));
        if command.prompt == Handoff::Script {
            // What kew adds to a script writes there, and not in somebody's home.
            env.push(("KEW_SCRATCH".into(), self.folder.as_str().into()));
        }
        let guarded = self.guarded(command, spec, checkout)?;
        let spawn = Spawn {
            program: self.kew.clone(),
            args: guarded.args(),
            env,
            tag: spec.key.node.as_str().chars().take(8).collect(),
        };
        sink.started();
        let last_words: Arc<Mutex<String>> = Arc::default();
        let (out, err, words) = (Arc::clone(&sink), Arc::clone(&sink), Arc::clone(&last_words));
        let stdout = move |line: Option<Line<'_>>| line.into_iter().for_each(|line| out.stdout(line));
        let stderr = move |line: Option<Line<'_>>| {
            let Some(line) = line else { return };
            err.stderr(line);
            // The guard's own words come last and are short; the agent's are in the log, masked.
            let text = String::from_utf8_lossy(line.bytes);
            if text.starts_with("kew: ") {
                *lock(&words) = text.chars().take(400).collect();
            }
        };
        let mut child = Child::start_session(spawn, Box::new(stdout), Box::new(stderr)).map_err(|error| {
            Trouble::Infrastructure(format!("the guard of the agent could not be started: {error}"))
        })?;
        let pid = child.pid();
        if let Some(pid) = pid {
            (self.register)(pid);
        }
        *lock(&control.container) = Some((spec.container.clone(), child.killer()));
        disk::watch(checkout.to_owned(), shared.checkout_max, Arc::clone(control), sink);
        let exit = child.wait(DRAIN).ok();
        let code = exit.and_then(|exit| exit.code);
        // A guard that was killed has ended nothing: what is left of its session is ended here.
        let gone = code.is_some() || pid.is_none_or(|pid| tree::end_session(pid, Duration::from_secs(20)));
        *lock(&control.container) = None;
        control.over.store(true, Ordering::SeqCst);
        let words = lock(&last_words).clone();
        if !gone || words.contains("does not end") {
            let what = "something that the agent started does not end, so its work cannot be read";
            return Err(Trouble::Infrastructure(what.to_owned()));
        }
        Ok(EngineEnd {
            started: code != Some(125) || words.is_empty(),
            exit: code,
            oom: None,
            lost: code.is_none() || exit.is_some_and(|exit| !exit.drained),
            stderr_tail: words,
        })
    }

    fn guarded(
        &self,
        command: &HostCommand,
        spec: &NodeSpec,
        checkout: &Utf8Path,
    ) -> Result<Guarded, Trouble> {
        let disk = |path: &Utf8Path, error: std::io::Error| {
            Trouble::Infrastructure(format!("`{path}` could not be written: {error}"))
        };
        let prompt = checkout.join(PROMPT_FILENAME);
        let argv = command.argv(&uuid()).into_iter().map(OsString::from);
        let kew = std::process::id();
        let dir = checkout.to_owned();
        match command.prompt {
            Handoff::Stdin => Ok(Guarded {
                kew,
                dir,
                stdin: prompt,
                program: command.program.clone(),
                args: argv.collect(),
            }),
            Handoff::Script => {
                // For this attempt alone: another that begins just now must not find it half written.
                let events = self.folder.join(format!("{}.pl", spec.container));
                fs::write(&events, EVENTS).map_err(|error| disk(&events, error))?;
                // bash reads a script piece by piece: a copy keeps it whole while the job changes the original.
                let script = self.folder.join(format!("{}.sh", spec.container));
                fs::copy(&prompt, &script).map_err(|error| disk(&script, error))?;
                let first = [events.as_str(), &command.program].map(OsString::from);
                let args = first.into_iter().chain(argv).chain([OsString::from(&script)]).collect();
                Ok(Guarded { kew, dir, stdin: "/dev/null".into(), program: "perl".to_owned(), args })
            }
        }
    }
}

/// A random UUID (version 4).
fn uuid() -> String {
    let mut hex = fresh(16).into_bytes();
    hex[12] = b'4';
    hex[16] = b"89ab"[usize::from(hex[16]) % 4];
    let hex = String::from_utf8_lossy(&hex);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_a_random_uuid() {
        let (one, two) = (uuid(), uuid());
        assert_ne!(one, two);
        assert_eq!((one.len(), &one[14..15]), (36, "4"), "{one}");
        assert!("89ab".contains(&one[19..20]), "{one}");
        assert!(one.bytes().enumerate().all(|(at, b)| if [8, 13, 18, 23].contains(&at) {
            b == b'-'
        } else {
            b.is_ascii_hexdigit()
        }));
    }
}
