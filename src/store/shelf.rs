//! The ports of a run onto this store: rows into the database, an attempt's lines masked into its files.

use std::{borrow::Cow, io, sync::Arc};

use camino::Utf8PathBuf;

use super::{
    FileError, Store,
    log::{AttemptFiles, LogWriter},
    mask::Masker,
};
use crate::{
    event::Stamped,
    lines::Line,
    name::AttemptKey,
    record::{AttemptEnd, AttemptStart, Kept, NodeState, Publication, RunEnd, RunStart, VerdictRow},
    run::ledger::{AttemptShelf, Ledger, LedgerError, LineLog, Mask, Shelf},
};

impl From<super::StoreError> for LedgerError {
    fn from(error: super::StoreError) -> Self {
        Self(error.to_string())
    }
}

impl Ledger for Store {
    fn run_started(&mut self, row: &RunStart) -> Result<(), LedgerError> {
        Ok(self.start_run(row)?)
    }

    fn attempt_started(&mut self, row: &AttemptStart) -> Result<(), LedgerError> {
        Ok(self.start_attempt(row)?)
    }

    fn attempt_kept(&mut self, key: &AttemptKey, kept: &Kept) -> Result<(), LedgerError> {
        Ok(self.keep(key, kept)?)
    }

    fn attempt_ended(
        &mut self,
        row: &AttemptEnd,
        state: NodeState,
        verdict: Option<&VerdictRow>,
    ) -> Result<(), LedgerError> {
        Ok(self.end_attempt(row, state, verdict)?)
    }

    fn node(&mut self, key: &AttemptKey, state: NodeState, reason: Option<&str>) -> Result<(), LedgerError> {
        Ok(self.set_node(&key.run, &key.node, state, reason)?)
    }

    fn publication(&mut self, row: &Publication) -> Result<(), LedgerError> {
        Ok(self.add_publication(row)?)
    }

    fn event(&mut self, event: &Stamped) -> Result<(), LedgerError> {
        Ok(self.append_event(event)?)
    }

    fn run_ended(&mut self, row: &RunEnd) -> Result<(), LedgerError> {
        Ok(self.end_run(row)?)
    }
}

/// Attempts' files in a state folder.
#[derive(Debug)]
pub struct Files {
    /// The state folder.
    pub state: Utf8PathBuf,
    /// Knows the secrets of the run.
    pub masker: Arc<Masker>,
}

impl Shelf for Files {
    fn mask(&self) -> Mask {
        let masker = Arc::clone(&self.masker);
        Arc::new(move |text| String::from_utf8_lossy(&masker.mask(text.as_bytes())).into_owned())
    }

    fn attempt(&self, key: &AttemptKey) -> io::Result<Box<dyn AttemptShelf>> {
        let files = AttemptFiles::new(&self.state, key);
        files.create().map_err(io_error)?;
        Ok(Box::new(Shelved { files, masker: Arc::clone(&self.masker) }))
    }
}

struct Shelved {
    files: AttemptFiles,
    masker: Arc<Masker>,
}

impl AttemptShelf for Shelved {
    fn path(&self) -> String {
        self.files.dir().to_string()
    }

    fn prompt(&mut self, text: &str) -> io::Result<()> {
        self.files.write_prompt(text).map_err(io_error)
    }

    fn stdout(&mut self) -> io::Result<Box<dyn LineLog>> {
        let log = self.files.open_stdout().map_err(io_error)?;
        Ok(Box::new(Masked { log, masker: Arc::clone(&self.masker) }))
    }

    fn stderr(&mut self) -> io::Result<Box<dyn LineLog>> {
        let log = self.files.open_stderr().map_err(io_error)?;
        Ok(Box::new(Masked { log, masker: Arc::clone(&self.masker) }))
    }

    fn verdict(&mut self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        let masked = self.masker.mask(bytes).into_owned();
        self.files.write_verdict(&masked).map_err(io_error)?;
        Ok(masked)
    }

    fn artifact(&mut self, path: &str, executable: bool, content: &mut dyn io::Read) -> io::Result<()> {
        // A path is written down and must stay what it is, so one that holds a secret is not taken at all.
        if self.masker.mask(path.as_bytes()).as_ref() != path.as_bytes() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name holds a credential"));
        }
        // Its kind says what is in the place of the file.
        self.files.write_artifact(path, executable, content).map_err(|error| {
            let kind = error.source.kind();
            io::Error::new(kind, error)
        })
    }
}

struct Masked {
    log: LogWriter,
    masker: Arc<Masker>,
}

/// What a cut line ends with in the log.
const CUT: &str = " [kew: the rest of this line was cut]";

impl LineLog for Masked {
    fn line<'a>(&mut self, line: Line<'a>) -> io::Result<Cow<'a, [u8]>> {
        let masked = self.masker.mask(line.bytes);
        if line.cut {
            let mut marked = masked.to_vec();
            marked.extend_from_slice(CUT.as_bytes());
            self.log.line(&marked).map_err(io_error)?;
        } else {
            self.log.line(&masked).map_err(io_error)?;
        }
        Ok(masked)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.log.flush().map_err(io_error)
    }

    fn size(&self) -> u64 {
        self.log.written()
    }
}

fn io_error(error: FileError) -> io::Error {
    io::Error::other(error)
}
