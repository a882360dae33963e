//! Looking for a file that an agent wrote below the folder where it should be: a bounded walk that follows no link.
//!
//! For a reviewer that was told an absolute path and took a relative one. Each folder is opened beneath the one before by
//! its name and never by a path, so an agent's rename cannot lead out; repositories' own folders are left out. Invariant:
//! one candidate or none; whatever cannot be looked at all through gives no file.

use std::os::fd::OwnedFd;

use camino::Utf8Path;
use rustix::{
    fs::{Dir, FileType, Mode, OFlags},
    io::Errno,
};

use super::beneath::{ReadFault, fault, open_beneath, open_dir, read_open};

/// How many folders deep a file may lie.
pub const DEPTH: usize = 4;
/// How many names are looked at, in all folders together.
pub const ENTRIES: usize = 20_000;

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum RecoverFault {
    /// There is none by that name.
    #[error("does not exist")]
    None,
    /// There is more than one.
    #[error("exists more than once")]
    Several,
    /// There are too many names to look at.
    #[error("may lie among more names than are looked at")]
    TooMany,
    /// There is one whose name differs in case only; its path, lossily decoded.
    #[error("has a double in another case, `{0}`")]
    Disguised(String),
    /// It, or a folder on the way, cannot be read.
    #[error(transparent)]
    Read(#[from] ReadFault),
}

/// Reads the only regular file that is named `name`, at most [`DEPTH`] folders below `dir`; at most `cap` bytes.
pub fn recover(dir: &Utf8Path, name: &str, cap: u64) -> Result<Vec<u8>, RecoverFault> {
    let root = open_dir(dir)?;
    let device = rustix::fs::fstat(&root).map_err(fault)?.st_dev;
    let mut walk = Walk { name, device, entries: 0, found: None, several: false };
    walk.enter(root, "", 0)?;
    match walk.found {
        _ if walk.several => Err(RecoverFault::Several),
        None => Err(RecoverFault::None),
        Some(folder) => Ok(read_open(open_beneath(&folder, name)?, cap)?),
    }
}

struct Walk<'a> {
    name: &'a str,
    device: u64,
    entries: usize,
    /// The folder that the candidate is in, open: no path is walked twice.
    found: Option<OwnedFd>,
    several: bool,
}

impl Walk<'_> {
    fn enter(&mut self, folder: OwnedFd, path: &str, depth: usize) -> Result<(), RecoverFault> {
        let mut below = Vec::new();
        let mut here = false;
        for entry in Dir::read_from(&folder).map_err(fault)? {
            let entry = entry.map_err(fault)?;
            let bytes = entry.file_name().to_bytes();
            if matches!(bytes, b"." | b"..") {
                continue;
            }
            self.entries += 1;
            if self.entries > ENTRIES {
                return Err(RecoverFault::TooMany);
            }
            if bytes == self.name.as_bytes() {
                here = true;
            } else if bytes.eq_ignore_ascii_case(self.name.as_bytes()) {
                return Err(RecoverFault::Disguised(format!("{path}{}", String::from_utf8_lossy(bytes))));
            } else if depth < DEPTH
                && bytes != b".git"
                // Some file systems do not say.
                && matches!(entry.file_type(), FileType::Directory | FileType::Unknown)
            {
                below.push(entry.file_name().to_owned());
            }
        }
        for name in below {
            let flags = OFlags::RDONLY
                | OFlags::DIRECTORY
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK
                | OFlags::NOCTTY
                | OFlags::CLOEXEC;
            let next = match rustix::fs::openat(&folder, &name, flags, Mode::empty()) {
                Ok(next) => next,
                // No folder, or not any more.
                Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT | Errno::NXIO) => continue,
                Err(error) => return Err(fault(error).into()),
            };
            if rustix::fs::fstat(&next).map_err(fault)?.st_dev == self.device {
                self.enter(next, &format!("{path}{}/", name.to_string_lossy()), depth + 1)?;
            }
        }
        if here {
            self.several |= self.found.is_some();
            self.found = Some(folder);
        }
        Ok(())
    }
}
