//! The lock of a run: a flock'ed file that says "somebody alive owns this run".
//!
//! It is taken before anything else of the run exists. The kernel drops it when the last duplicate of its open file is
//! closed, however the process ended; a process id is never trusted. Invariant: who holds a [`RunLock`] holds the lock of
//! the file that the path names now, not of one that was unlinked meanwhile.

use std::{
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    thread,
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::fs::{FlockOperation, OFlags, flock};

use super::{FileError, create_private_dir};
use crate::name::RunId;

/// How often a held lock is looked at before somebody alive is believed in: [`free_locks`] holds one for microseconds.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// A held lock. Dropping it frees the lock (unless a duplicate lives) and keeps the file.
#[derive(Debug)]
pub struct RunLock {
    file: File,
    path: Utf8PathBuf,
}

/// Where the lock of a run lies.
pub fn lock_path(state_dir: &Utf8Path, run: &RunId) -> Utf8PathBuf {
    locks_dir(state_dir).join(run.as_str())
}

/// Where all locks of a state folder lie.
pub fn locks_dir(state_dir: &Utf8Path) -> Utf8PathBuf {
    state_dir.join("locks")
}

impl RunLock {
    /// Creates the file if need be and takes its lock; `None` if somebody alive holds it. Never waits longer than some
    /// tens of milliseconds.
    pub fn try_take(path: &Utf8Path) -> Result<Option<Self>, FileError> {
        if let Some(dir) = path.parent() {
            create_private_dir(dir)?;
        }
        let mut looks = 0;
        loop {
            let file = open(path, true).map_err(FileError::at("cannot open the lock", path))?;
            if !lock(&file).map_err(FileError::at("cannot lock", path))? {
                looks += 1;
                if looks == LOOKS {
                    return Ok(None);
                }
                thread::sleep(BETWEEN_LOOKS);
                continue;
            }
            // Between our open and our lock its owner may have removed the file: then we hold the lock of a name that is gone.
            if still_named(&file, path).map_err(FileError::at("cannot look at the lock", path))? {
                return Ok(Some(Self { file, path: path.to_owned() }));
            }
        }
    }

    /// A duplicate of the same open file, for a child to keep as one of its standard streams: the lock is held until the
    /// last duplicate is closed.
    pub fn duplicate(&self) -> Result<File, FileError> {
        self.file.try_clone().map_err(FileError::at("cannot duplicate the lock", &self.path))
    }

    /// The file.
    pub fn path(&self) -> &Utf8Path {
        &self.path
    }

    /// Removes the file on a clean end, while the lock is still held, then frees the lock. A file that somebody else put
    /// there in its place is left alone.
    pub fn remove(self) -> Result<(), FileError> {
        if !still_named(&self.file, &self.path)
            .map_err(FileError::at("cannot look at the lock", &self.path))?
        {
            return Ok(());
        }
        fs::remove_file(&self.path).map_err(FileError::at("cannot remove the lock", &self.path))
    }
}

/// Runs whose lock file is there and free: their owner ended without cleaning up. Sorted. Asking changes nothing; take the
/// lock before acting on an answer.
pub fn free_locks(dir: &Utf8Path) -> Result<Vec<RunId>, FileError> {
    let cannot = || FileError::at("cannot list", dir);
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot()(error)),
    };
    let mut free = Vec::new();
    for entry in entries {
        let name = entry.map_err(cannot())?.file_name();
        let Some(run) = name.to_str().and_then(|name| RunId::new(name).ok()) else { continue };
        if is_free(&dir.join(run.as_str()))? {
            free.push(run);
        }
    }
    free.sort();
    Ok(free)
}

/// Whether the lock file is there and nobody holds it.
pub fn is_free(path: &Utf8Path) -> Result<bool, FileError> {
    let file = match open(path, false) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(FileError::at("cannot open the lock", path)(error)),
    };
    let free = lock(&file).map_err(FileError::at("cannot lock", path))?;
    Ok(free && still_named(&file, path).map_err(FileError::at("cannot look at the lock", path))?)
}

fn open(path: &Utf8Path, create: bool) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .mode(0o600)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
}

/// Tries to lock without waiting; `false` if it is held elsewhere.
fn lock(file: &File) -> io::Result<bool> {
    loop {
        return match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(false),
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => Err(error.into()),
        };
    }
}

/// Whether `path` still names this very file.
fn still_named(file: &File, path: &Utf8Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::symlink_metadata(path) {
        Ok(named) => Ok(named.dev() == held.dev() && named.ino() == held.ino()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
