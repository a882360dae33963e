//! Lets the container's user work in a checkout that kew has just made.
//!
//! Only for a fresh checkout under a folder that nobody else can enter: nothing hostile moves in it yet. Invariant: no
//! symbolic link is followed, so nothing outside of the folder changes.

use std::{
    fs, io,
    os::unix::fs::{PermissionsExt as _, lchown},
    path::{Path, PathBuf},
};

use camino::{Utf8Path, Utf8PathBuf};

use super::error::GitError;
use crate::process::query::RunAs;

/// Who may work in a checkout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// It becomes this user's; only root can do that.
    Owner(RunAs),
    /// Everybody may read and write; the parent folder keeps them out.
    Everyone,
}

/// Gives `dir` and all that is in it.
pub(super) fn grant(dir: &Utf8Path, access: Access) -> Result<(), GitError> {
    let mut waiting = vec![dir.as_std_path().to_owned()];
    while let Some(path) = waiting.pop() {
        let entered = give(&path, access).and_then(|kind| list(&path, kind));
        let at =
            |source| GitError::Io { path: Utf8PathBuf::from(path.to_string_lossy().into_owned()), source };
        waiting.extend(entered.map_err(at)?);
    }
    Ok(())
}

fn list(path: &Path, kind: fs::FileType) -> io::Result<Vec<PathBuf>> {
    if !kind.is_dir() {
        return Ok(Vec::new());
    }
    fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect()
}

fn give(path: &Path, access: Access) -> io::Result<fs::FileType> {
    let meta = fs::symlink_metadata(path)?;
    match access {
        Access::Owner(RunAs { uid, gid }) => lchown(path, Some(uid), Some(gid))?,
        Access::Everyone if meta.is_symlink() => {}
        Access::Everyone => {
            let mode = meta.permissions().mode();
            let run = if meta.is_dir() || mode & 0o111 != 0 { 0o111 } else { 0 };
            fs::set_permissions(path, fs::Permissions::from_mode(mode | 0o666 | run))?;
        }
    }
    Ok(meta.file_type())
}
