//! How a run is shown: while it goes on (`progress`, `plain`, `jsonl`), when it is over (`summary`), and afterwards
//! (`runs`, `show`, `logs`).
//!
//! Only this module and the command line print. Agent text is made inert here, by every reporter, and never starts a line.
//! Invariant: trouble with reporting (a closed pipe, a lost terminal) ends the reporting, never changes an outcome.

pub mod artifacts;
pub mod ci;
pub mod figures;
pub mod jsonl;
pub mod logs;
mod outlet;
pub mod plain;
pub mod progress;
pub mod runs;
pub mod show;
pub mod summary;
mod table;
mod told;

use std::io::{self, IsTerminal as _};

pub use self::told::told as line;
pub use self::{jsonl::Jsonl, plain::Plain, progress::Progress};
use crate::{event::Stamped, record::Millis};

/// Somebody who is told what happens in a run.
pub trait Reporter {
    /// Something happened.
    fn event(&mut self, event: &Stamped);

    /// Time went by; called a few times per second, with unix milliseconds.
    fn tick(&mut self, now: Millis);

    /// Nothing more will be told; leaves the terminal clean. Later calls are ignored.
    fn finish(&mut self);
}

/// Each of them is told.
impl Reporter for Vec<Box<dyn Reporter>> {
    fn event(&mut self, event: &Stamped) {
        self.iter_mut().for_each(|reporter| reporter.event(event));
    }

    fn tick(&mut self, now: Millis) {
        self.iter_mut().for_each(|reporter| reporter.tick(now));
    }

    fn finish(&mut self) {
        self.iter_mut().for_each(|reporter| reporter.finish());
    }
}

/// The reporter for people, on stderr: drawn on a terminal, else line by line. `plain` asks for lines in any case, as a CI
/// or a dumb terminal needs them.
pub fn for_people(plain: bool) -> Box<dyn Reporter> {
    if plain || !io::stderr().is_terminal() {
        return Box::new(Plain::new(io::stderr()));
    }
    Box::new(Progress::on_stderr())
}
