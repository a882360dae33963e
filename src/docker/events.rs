//! What the engine says of a run's containers: started, out of memory, died, destroyed. One `docker events` per run.
//!
//! Started before the first container, taken up again from the last event after a break. Nodes ask for the facts of
//! their container by name and may wait a bounded time for them. What was not seen is unknown, never false.

use std::{
    collections::HashMap,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use serde::Deserialize;

use super::client::Docker;
use crate::process::child::{Child, Killer, Spawn};

/// What was seen of one container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// It started.
    pub started: bool,
    /// The engine marked it out of memory.
    pub oom: bool,
    /// Exit status of its first process.
    pub died: Option<i32>,
    /// It is removed.
    pub destroyed: bool,
    /// The stream broke while it lived: an out-of-memory mark may have been missed.
    pub gap: bool,
}

/// The event stream of one run.
#[derive(Debug)]
pub struct Events {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    seen: HashMap<String, Seen>,
    since: String,
    client: Option<Killer>,
    closed: bool,
}

#[derive(Deserialize)]
struct Told {
    #[serde(rename = "Type", default)]
    kind: String,
    #[serde(rename = "Action", default)]
    action: String,
    #[serde(rename = "Actor")]
    actor: Actor,
    #[serde(rename = "timeNano", default)]
    time_nano: u64,
}

#[derive(Deserialize)]
struct Actor {
    #[serde(rename = "Attributes", default)]
    attributes: HashMap<String, String>,
}

impl Shared {
    /// A panic elsewhere cannot leave the map half-written: every change is one assignment.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Events {
    /// Listens to containers with the label `kew.owner=<owner>`, from `since` (the engine's own time) on.
    pub fn listen(
        docker: &Docker,
        owner: &str,
        since: &str,
        register: Arc<dyn Fn(u32) + Send + Sync>,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.lock().since = since.to_owned();
        let (thread_shared, docker, owner) = (Arc::clone(&shared), docker.clone(), owner.to_owned());
        let mut child = start(&docker, &owner, &thread_shared, &*register)?;
        thread::Builder::new().name("kew-events".into()).spawn(move || {
            loop {
                // The stream ends only with the engine, the client or this run.
                let _ = child.wait(Duration::from_secs(1));
                loop {
                    if thread_shared.lock().closed {
                        return;
                    }
                    thread::sleep(Duration::from_millis(300));
                    for seen in thread_shared.lock().seen.values_mut().filter(|seen| !seen.destroyed) {
                        seen.gap = true;
                    }
                    if let Ok(next) = start(&docker, &owner, &thread_shared, &*register) {
                        child = next;
                        break;
                    }
                }
            }
        })?;
        Ok(Self { shared })
    }

    /// Where there is no engine: nothing is ever told.
    pub fn none() -> Self {
        Self { shared: Arc::default() }
    }

    /// What is known of a container now.
    pub fn seen(&self, container: &str) -> Seen {
        self.shared.lock().seen.get(container).copied().unwrap_or_default()
    }

    /// Waits until `enough` holds for a container, at most `limit`; gives what is known then.
    pub fn wait(&self, container: &str, limit: Duration, enough: impl Fn(&Seen) -> bool) -> Seen {
        let deadline = Instant::now() + limit;
        let mut state = self.shared.lock();
        loop {
            let seen = state.seen.get(container).copied().unwrap_or_default();
            let left = deadline.saturating_duration_since(Instant::now());
            if enough(&seen) || left.is_zero() {
                return seen;
            }
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(std::sync::PoisonError::into_inner)
                .0;
        }
    }

    /// Forgets a container that is over.
    pub fn forget(&self, container: &str) {
        self.shared.lock().seen.remove(container);
    }

    /// Ends the stream.
    pub fn close(&self) {
        let mut state = self.shared.lock();
        state.closed = true;
        if let Some(client) = &state.client {
            client.kill();
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.close();
    }
}

fn start(
    docker: &Docker,
    owner: &str,
    shared: &Arc<Shared>,
    register: &(dyn Fn(u32) + Send + Sync),
) -> std::io::Result<Child> {
    let since = shared.lock().since.clone();
    let filter = format!("label=kew.owner={owner}");
    let args = [
        "events",
        "--since",
        &since,
        "--filter",
        "type=container",
        "--filter",
        &filter,
        "--format",
        "{{json .}}",
    ];
    let spawn = Spawn {
        program: "docker".into(),
        args: args.map(Into::into).to_vec(),
        env: docker.env(),
        tag: "events".into(),
    };
    let taker = Arc::clone(shared);
    let take = move |line: Option<crate::lines::Line<'_>>| {
        if let Some(told) = line.and_then(|line| serde_json::from_slice::<Told>(line.bytes).ok()) {
            let mut state = taker.lock();
            note(&mut state, &told);
            taker.changed.notify_all();
        }
    };
    let child = Child::start(spawn, Box::new(take), Box::new(|_| {}))?;
    if let Some(pid) = child.pid() {
        register(pid);
    }
    let mut state = shared.lock();
    state.client = Some(child.killer());
    if state.closed {
        child.killer().kill();
    }
    drop(state);
    Ok(child)
}

fn note(state: &mut State, told: &Told) {
    if told.kind != "container" {
        return;
    }
    if told.time_nano > 0 {
        state.since = format!("{}.{:09}", told.time_nano / 1_000_000_000, told.time_nano % 1_000_000_000);
    }
    let Some(name) = told.actor.attributes.get("name") else { return };
    let seen = state.seen.entry(name.clone()).or_default();
    match told.action.as_str() {
        "start" => seen.started = true,
        "oom" => seen.oom = true,
        "die" => seen.died = told.actor.attributes.get("exitCode").and_then(|code| code.parse().ok()),
        "destroy" => seen.destroyed = true,
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_noted_by_container_name() {
        let mut state = State::default();
        for (action, extra) in
            [("create", ""), ("start", ""), ("oom", ""), ("die", r#","exitCode":"137""#), ("destroy", "")]
        {
            let line = format!(
                r#"{{"Type":"container","Action":"{action}","Actor":{{"ID":"x","Attributes":{{"name":"kew-a"{extra}}}}},"timeNano":1796102810763000001}}"#
            );
            note(&mut state, &serde_json::from_str(&line).unwrap());
        }
        let expected = Seen { started: true, oom: true, died: Some(137), destroyed: true, gap: false };
        assert_eq!(state.seen.get("kew-a"), Some(&expected));
        assert_eq!(state.since, "1796102810.763000001");
    }
}
