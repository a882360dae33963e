//! The run as lines, one per change, for CI logs and pipes. Each line begins with kew's own prefix, so agent text never
//! starts one.

use std::io::Write;

use super::{
    Reporter,
    ci::defanged,
    outlet::Outlet,
    told::{still_running, told},
};
use crate::{
    event::{RunEvent, Stamped},
    name::NodeId,
    record::Millis,
};

/// A log that says nothing for so long makes people, and CI systems, think that nothing lives.
const QUIET: Millis = 60_000;

/// One line per change, and one each quiet minute.
#[derive(Debug)]
pub struct Plain<W> {
    outlet: Outlet<W>,
    started: Option<Millis>,
    last_line: Millis,
    running: Vec<NodeId>,
}

impl<W: Write> Plain<W> {
    /// Lines go here.
    pub fn new(out: W) -> Self {
        Self { outlet: Outlet::new(out), started: None, last_line: 0, running: Vec::new() }
    }

    fn say(&mut self, now: Millis, text: &str) {
        let seconds = (now - self.started.unwrap_or(now)).max(0) / 1000;
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let line = format!("[kew {hours:02}:{minutes:02}:{seconds:02}] {text}");
        self.outlet.line(&defanged(&line));
        self.last_line = now;
    }

    fn alive(&mut self, now: Millis) {
        if self.started.is_some() && now - self.last_line >= QUIET {
            let line = still_running(self.running.iter());
            self.say(now, &line);
        }
    }
}

impl<W: Write> Reporter for Plain<W> {
    fn event(&mut self, event: &Stamped) {
        let now = event.time;
        if self.started.is_none() {
            self.started = Some(now);
        }
        match &event.event {
            RunEvent::NodeStarted { node, .. } => self.running.push(node.clone()),
            RunEvent::NodeEnded { node, .. } => self.running.retain(|running| running != node),
            RunEvent::Heartbeat { running } => {
                self.running.clone_from(running);
                return self.alive(now);
            }
            _ => {}
        }
        if let Some(line) = told(event) {
            self.say(now, &line);
        }
        if matches!(event.event, RunEvent::RunEnded { .. }) {
            self.started = None;
        }
    }

    fn tick(&mut self, now: Millis) {
        self.alive(now);
    }

    fn finish(&mut self) {
        self.outlet.close();
    }
}
