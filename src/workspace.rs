//! The folder that one run works in: checkouts, quarantines, an empty docker configuration. Gone when the run is over.
//!
//! It is kew's own, 0700, of plain characters, and marked with the lock of its run: a later kew removes it once that
//! lock is free. Nothing in it is ever the user's.

use std::{fs, io, os::unix::fs::PermissionsExt as _};

use camino::{Utf8Path, Utf8PathBuf};

use crate::{docker::argv::mountable, name::RunId};

/// The file that names the lock of the run that a workspace belongs to.
const MARK: &str = "kew-lock-path";
/// How every workspace's name begins.
const PREFIX: &str = "kew-";

/// A run's folder.
#[derive(Debug)]
pub struct Workspace {
    root: Utf8PathBuf,
    /// Removes the folder even if a run ends early by an error.
    _guard: tempfile::TempDir,
}

/// Why there is no workspace.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The disk said no.
    #[error("a folder for checkouts could not be made in `{dir}`: {source}")]
    Io {
        /// The parent folder.
        dir: Utf8PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The path cannot be mounted safely.
    #[error(
        "the folder for checkouts `{0}` has characters that a mount cannot carry safely; only letters, digits, `.`, `_`, `-` and `/` are taken"
    )]
    NotMountable(String),
}

impl Workspace {
    /// Makes the folder of a run in `dir` (default: the system's temporary folder).
    pub fn create(dir: Option<&Utf8Path>, run: &RunId, lock: &Utf8Path) -> Result<Self, WorkspaceError> {
        let dir = match dir {
            Some(dir) => dir.to_owned(),
            None => Utf8PathBuf::from_path_buf(std::env::temp_dir())
                .map_err(|dir| WorkspaceError::NotMountable(dir.display().to_string()))?,
        };
        let at = |source| WorkspaceError::Io { dir: dir.clone(), source };
        let dir = dir.canonicalize_utf8().map_err(at)?;
        if !mountable(dir.as_str()) {
            return Err(WorkspaceError::NotMountable(dir.into_string()));
        }
        let at = |source| WorkspaceError::Io { dir: dir.clone(), source };
        let guard = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{run}-"))
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(&dir)
            .map_err(at)?;
        let root = Utf8PathBuf::from_path_buf(guard.path().to_owned())
            .map_err(|path| WorkspaceError::NotMountable(path.display().to_string()))?;
        fs::write(root.join(MARK), lock.as_str()).map_err(at)?;
        for sub in ["docker", "git", "checkouts", "quarantine"] {
            fs::create_dir(root.join(sub)).map_err(at)?;
        }
        Ok(Self { root, _guard: guard })
    }

    /// The folder.
    pub fn root(&self) -> &Utf8Path {
        &self.root
    }

    /// An empty docker configuration folder.
    pub fn docker_config(&self) -> Utf8PathBuf {
        self.root.join("docker")
    }

    /// Where git's home and configuration go.
    pub fn git(&self) -> Utf8PathBuf {
        self.root.join("git")
    }

    /// Where an attempt's checkout goes.
    pub fn checkout(&self, container: &str) -> Utf8PathBuf {
        self.root.join("checkouts").join(container)
    }

    /// Where an attempt's pack is validated.
    pub fn quarantine(&self, container: &str) -> Utf8PathBuf {
        self.root.join("quarantine").join(container)
    }

    /// Empties the folder and removes it. `clean` is asked to empty the checkouts if this user may not, since agents own
    /// files there.
    pub fn empty(&self, clean: impl FnOnce(&Utf8Path)) -> io::Result<()> {
        remove_dead(&self.root, clean)
    }
}

/// Removes a workspace by its path.
pub fn remove_dead(root: &Utf8Path, clean: impl FnOnce(&Utf8Path)) -> io::Result<()> {
    if fs::remove_dir_all(root).is_ok() {
        return Ok(());
    }
    clean(&root.join("checkouts"));
    match fs::remove_dir_all(root) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Workspaces in `dir` whose run is dead: its lock file is there and `free` says that nobody holds it. A lock that is
/// missing proves nothing, so such a folder is left alone.
pub fn dead(dir: &Utf8Path, free: impl Fn(&Utf8Path) -> bool) -> Vec<(Utf8PathBuf, Utf8PathBuf)> {
    let Ok(entries) = dir.read_dir_utf8() else { return Vec::new() };
    let mut dead = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.file_name().starts_with(PREFIX)) {
        let mark = entry.path().join(MARK);
        let own = fs::symlink_metadata(entry.path()).is_ok_and(|meta| {
            meta.is_dir() && std::os::unix::fs::MetadataExt::uid(&meta) == rustix::process::geteuid().as_raw()
        });
        let Ok(lock) = fs::read_to_string(&mark) else { continue };
        let lock = Utf8PathBuf::from(lock);
        if own && lock.exists() && free(&lock) {
            dead.push((entry.path().to_owned(), lock));
        }
    }
    dead
}
