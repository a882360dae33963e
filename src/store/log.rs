//! The files of one attempt: prompt, output, verdict and artifacts under `<state>/runs/<run>/<node>/<attempt>/`.
//!
//! Bytes come in already masked, but for artifacts. Files are for the owner alone (0600 in folders of 0700). Every error reaches the caller: a
//! full disk is never swallowed, so a writer ends by [`LogWriter::finish`], not by being dropped.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufWriter, Write as _},
    os::unix::fs::OpenOptionsExt as _,
};

use camino::{Utf8Path, Utf8PathBuf};

use super::{FileError, create_private_dir};
use crate::name::AttemptKey;

/// Bytes kept before they are written. The owner flushes now and then, so that `kew logs` sees a live node.
const BUFFER: usize = 64 * 1024;

/// Where the files of one attempt lie. A value; [`AttemptFiles::create`] makes the folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptFiles {
    dir: Utf8PathBuf,
}

impl AttemptFiles {
    /// The files of this attempt in that state folder.
    pub fn new(state_dir: &Utf8Path, key: &AttemptKey) -> Self {
        let dir = state_dir
            .join("runs")
            .join(key.run.as_str())
            .join(key.node.as_str())
            .join(key.attempt.to_string());
        Self { dir }
    }

    /// Makes the folder.
    pub fn create(&self) -> Result<(), FileError> {
        create_private_dir(&self.dir)
    }

    /// The folder.
    pub fn dir(&self) -> &Utf8Path {
        &self.dir
    }

    /// The prompt with its brief.
    pub fn prompt(&self) -> Utf8PathBuf {
        self.dir.join("prompt.md")
    }

    /// What the agent wrote to its stdout, masked.
    pub fn stdout(&self) -> Utf8PathBuf {
        self.dir.join("stdout.log")
    }

    /// What the agent wrote to its stderr, masked.
    pub fn stderr(&self) -> Utf8PathBuf {
        self.dir.join("stderr.log")
    }

    /// kew's own copy of the reviewer's sidecar.
    pub fn verdict(&self) -> Utf8PathBuf {
        self.dir.join("verdict.json")
    }

    /// Where artifacts are, by their paths in the checkout.
    pub fn artifacts(&self) -> Utf8PathBuf {
        self.dir.join("artifacts")
    }

    /// Writes an artifact under a relative path without `..`; what is there already stays and is an error.
    pub fn write_artifact(
        &self,
        path: &str,
        executable: bool,
        content: &mut dyn io::Read,
    ) -> Result<(), FileError> {
        let path = self.artifacts().join(path);
        if let Some(parent) = path.parent() {
            create_private_dir(parent)?;
        }
        let mode = if executable { 0o755 } else { 0o644 };
        let cannot = || FileError::at("cannot write", &path);
        let mut file =
            OpenOptions::new().write(true).create_new(true).mode(mode).open(&path).map_err(cannot())?;
        let written = io::copy(content, &mut file);
        if written.is_err() {
            let _ = std::fs::remove_file(&path);
        }
        written.map(drop).map_err(cannot())
    }

    /// Writes the prompt, replacing what was there.
    pub fn write_prompt(&self, text: &str) -> Result<(), FileError> {
        write_whole(&self.prompt(), text.as_bytes())
    }

    /// Writes the copy of the sidecar, replacing what was there.
    pub fn write_verdict(&self, bytes: &[u8]) -> Result<(), FileError> {
        write_whole(&self.verdict(), bytes)
    }

    /// Opens `stdout.log` for appending.
    pub fn open_stdout(&self) -> Result<LogWriter, FileError> {
        LogWriter::open(&self.stdout())
    }

    /// Opens `stderr.log` for appending.
    pub fn open_stderr(&self) -> Result<LogWriter, FileError> {
        LogWriter::open(&self.stderr())
    }
}

/// A log that grows line by line.
#[derive(Debug)]
pub struct LogWriter {
    file: BufWriter<File>,
    path: Utf8PathBuf,
    written: u64,
}

impl LogWriter {
    /// Opens a file for appending; creates it if need be.
    pub fn open(path: &Utf8Path) -> Result<Self, FileError> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(path)
            .map_err(FileError::at("cannot open the log", path))?;
        Ok(Self { file: BufWriter::with_capacity(BUFFER, file), path: path.to_owned(), written: 0 })
    }

    /// Appends one line; the newline is added here. It may stay in memory until the next flush.
    pub fn line(&mut self, line: &[u8]) -> Result<(), FileError> {
        self.put(line)?;
        self.put(b"\n")
    }

    /// Hands everything to the kernel.
    pub fn flush(&mut self) -> Result<(), FileError> {
        self.file.flush().map_err(FileError::at("cannot write", &self.path))
    }

    /// Bytes taken so far by this writer, newlines included.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Flushes and closes. Only after this is the log known to be whole.
    pub fn finish(mut self) -> Result<(), FileError> {
        self.flush()
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.file.write_all(bytes).map_err(FileError::at("cannot write", &self.path))?;
        self.written = self.written.saturating_add(bytes.len() as u64);
        Ok(())
    }
}

fn write_whole(path: &Utf8Path, bytes: &[u8]) -> Result<(), FileError> {
    let write = || -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(bytes)
    };
    write().map_err(FileError::at("cannot write", path))
}
