//! What outlives a process: the state folder with its database, its logs and its locks.
//!
//! The database is the one truth about runs; logs are bytes for people; a lock says that somebody alive owns a run. A
//! broken store ends a run, because nothing may be lost. Nothing here prints, and nothing here knows docker or git.

pub mod db;
pub mod lock;
pub mod log;
pub mod mask;
pub mod rows;
pub mod shelf;

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::DirBuilderExt as _,
};

use camino::{Utf8Path, Utf8PathBuf};

pub use self::{
    db::{Store, StoreError},
    lock::RunLock,
    log::{AttemptFiles, LogWriter},
    mask::Masker,
    rows::{AttemptDetail, NodeDetail, RunDetail, RunSummary, StateCounts},
};

/// A file or folder of the state could not be used.
#[derive(Debug, thiserror::Error)]
#[error("{doing} `{path}`: {source}")]
pub struct FileError {
    /// `cannot create`, `cannot write`, …
    pub doing: &'static str,
    /// The file or folder.
    pub path: Utf8PathBuf,
    /// Why.
    pub source: io::Error,
}

impl FileError {
    /// For `map_err`: what was tried, and on which path.
    pub(crate) fn at(doing: &'static str, path: &Utf8Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { doing, path: path.to_owned(), source }
    }
}

/// Makes a folder and its missing parents; what it makes is for the owner alone (0700). An existing one is left as it is.
pub fn create_private_dir(dir: &Utf8Path) -> Result<(), FileError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(FileError::at("cannot create the folder", dir))
}

/// The id of a state folder: 32 hex digits, random, made once and kept in `<dir>/id`.
///
/// Two processes that ask at the same time get the same answer. The folder is created if it is missing.
pub fn state_id(dir: &Utf8Path) -> Result<String, FileError> {
    create_private_dir(dir)?;
    let path = dir.join("id");
    if let Some(id) = read_id(&path)? {
        return Ok(id);
    }
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        FileError::at("cannot make an id for", &path)(io::Error::other(error.to_string()))
    })?;
    let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let cannot = || FileError::at("cannot write", &path);
    // The name appears with its content in one step, so nobody ever reads half an id.
    let mut file = tempfile::Builder::new().prefix(".id-").tempfile_in(dir).map_err(cannot())?;
    file.write_all(id.as_bytes()).map_err(cannot())?;
    file.as_file().sync_all().map_err(cannot())?;
    match file.persist_noclobber(&path) {
        Ok(_) => Ok(id),
        Err(lost) if lost.error.kind() == io::ErrorKind::AlreadyExists => {
            read_id(&path)?.ok_or_else(|| cannot()(io::ErrorKind::NotFound.into()))
        }
        Err(other) => Err(cannot()(other.error)),
    }
}

/// The id in the file; `None` if there is no file.
fn read_id(path: &Utf8Path) -> Result<Option<String>, FileError> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FileError::at("cannot read", path)(error)),
    };
    let id = text.trim();
    if id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
        return Ok(Some(id.to_owned()));
    }
    Err(FileError::at("cannot use", path)(io::Error::new(io::ErrorKind::InvalidData, "is not a state id")))
}
