//! The ports to what a run writes down: rows in one store, files on a shelf, events to whoever shows them.
//!
//! The store's trouble stops a run, since nothing may be lost; a reporter's trouble never does, so it returns nothing.

use std::{borrow::Cow, io, sync::Arc};

use crate::{
    event::Stamped,
    lines::Line,
    name::AttemptKey,
    record::{AttemptEnd, AttemptStart, Kept, NodeState, Publication, RunEnd, RunStart, VerdictRow},
};

/// The store refused a row.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the state could not be written: {0}")]
pub struct LedgerError(pub String);

/// Takes rows, one transaction per call.
pub trait Ledger {
    /// The run begins.
    fn run_started(&mut self, row: &RunStart) -> Result<(), LedgerError>;
    /// An attempt begins; its node is running.
    fn attempt_started(&mut self, row: &AttemptStart) -> Result<(), LedgerError>;
    /// What is kept of an attempt that is about to end.
    fn attempt_kept(&mut self, key: &AttemptKey, kept: &Kept) -> Result<(), LedgerError> {
        let _ = (key, kept);
        Ok(())
    }
    /// An attempt is over; its node stands at `state`.
    fn attempt_ended(
        &mut self,
        row: &AttemptEnd,
        state: NodeState,
        verdict: Option<&VerdictRow>,
    ) -> Result<(), LedgerError>;
    /// A node changed without an attempt.
    fn node(&mut self, key: &AttemptKey, state: NodeState, reason: Option<&str>) -> Result<(), LedgerError>;
    /// A publication begins or ends.
    fn publication(&mut self, row: &Publication) -> Result<(), LedgerError>;
    /// An event, for the record.
    fn event(&mut self, event: &Stamped) -> Result<(), LedgerError>;
    /// The run is over.
    fn run_ended(&mut self, row: &RunEnd) -> Result<(), LedgerError>;
}

/// Gives a text back with known secrets masked.
pub type Mask = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Gives each attempt its files.
pub trait Shelf: Send + Sync {
    /// Masks texts that go into no file of an attempt.
    fn mask(&self) -> Mask;
    /// Makes the folder of an attempt.
    fn attempt(&self, key: &AttemptKey) -> io::Result<Box<dyn AttemptShelf>>;
}

/// The files of one attempt. Every line that goes through here has known secrets masked.
pub trait AttemptShelf: Send {
    /// The folder, for people.
    fn path(&self) -> String;
    /// Keeps the prompt as it was given to the agent.
    fn prompt(&mut self, text: &str) -> io::Result<()>;
    /// The log of stdout. Taken once.
    fn stdout(&mut self) -> io::Result<Box<dyn LineLog>>;
    /// The log of stderr. Taken once.
    fn stderr(&mut self) -> io::Result<Box<dyn LineLog>>;
    /// Keeps kew's own copy of the sidecar.
    ///
    /// Gives the copy back: it is what is judged, shown and digested, and it has known secrets masked.
    fn verdict(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>>;
    /// Stores an artifact under its checked path. Its bytes are not masked: nobody knows what kind they are. A kind of error
    /// that is about the name (`AlreadyExists`, `NotADirectory`, `InvalidFilename`, `InvalidInput`) leaves it out.
    fn artifact(&mut self, path: &str, executable: bool, content: &mut dyn io::Read) -> io::Result<()> {
        let _ = (path, executable, content);
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A log of lines.
pub trait LineLog: Send {
    /// Writes a line and gives it back masked.
    fn line<'a>(&mut self, line: Line<'a>) -> io::Result<Cow<'a, [u8]>>;
    /// Writes out what is buffered.
    fn flush(&mut self) -> io::Result<()>;
    /// Bytes so far.
    fn size(&self) -> u64;
}

/// Shows events; cannot fail.
pub trait Observer {
    /// Something happened.
    fn event(&mut self, event: &Stamped);
    /// Time passed; redraw.
    fn tick(&mut self, unix_ms: i64);
}
