//! Reading a file of a hostile folder: never through a link, never a device, never more than a cap.
//!
//! An agent owns its checkout and may put anything under any name, while kew looks. So a name is opened once, relative to
//! the folder, without following a link in any part of it, and all that is asked afterwards is asked of the open file.
//! Not for folders of kew's own. Invariant: no byte from outside the folder is returned, and no read can block.

use std::{fs::File, io, io::Read as _, os::fd::OwnedFd};

use camino::Utf8Path;
use rustix::{
    fs::{FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

/// Why a file was not read.
#[derive(Debug, thiserror::Error)]
pub enum ReadFault {
    /// There is nothing by that name.
    #[error("does not exist")]
    Missing,
    /// The name, or a folder on the way to it, is a symbolic link.
    #[error("is a symbolic link, or lies behind one")]
    Symlink,
    /// The name leads out of the folder or to another file system.
    #[error("lies outside of the folder")]
    Outside,
    /// The file has other names too.
    #[error("is a hard link")]
    HardLinked,
    /// A folder, pipe, socket or device.
    #[error("is not a regular file")]
    NotARegularFile,
    /// More bytes than allowed.
    #[error("is {size} bytes long, at most {cap} are allowed")]
    TooLarge {
        /// Its size in bytes; a lower bound where it grew during the read.
        size: u64,
        /// The most that was allowed.
        cap: u64,
    },
    /// The system said no.
    #[error("cannot be read: {0}")]
    Unreadable(#[from] io::Error),
}

/// Reads the regular file `name`, a relative path, in `dir`; at most `cap` bytes.
pub fn read_beneath(dir: &Utf8Path, name: &str, cap: u64) -> Result<Vec<u8>, ReadFault> {
    read_open(open_beneath(&open_dir(dir)?, name)?, cap)
}

/// Opens a folder that is kew's own by its path.
pub(super) fn open_dir(dir: &Utf8Path) -> Result<OwnedFd, ReadFault> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(dir.as_std_path(), flags, Mode::empty()).map_err(fault)
}

/// `NONBLOCK` keeps an open of a pipe from waiting for its other end.
const FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

pub(super) fn open_beneath(dir: &OwnedFd, name: &str) -> Result<OwnedFd, ReadFault> {
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(ReadFault::Outside);
    }
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let mut races = 0;
    loop {
        match rustix::fs::openat2(dir, name, FILE, Mode::empty(), resolve) {
            Ok(file) => return Ok(file),
            // A rename elsewhere in the folder; the kernel asks to try again.
            Err(Errno::AGAIN) if races < 16 => races += 1,
            // Kernels before 5.6, and sandboxes that know no openat2.
            Err(Errno::NOSYS | Errno::PERM) => return open_stepwise(dir, name),
            Err(error) => return Err(fault(error)),
        }
    }
}

/// The same by one `openat` per part.
fn open_stepwise(dir: &OwnedFd, name: &str) -> Result<OwnedFd, ReadFault> {
    let device = rustix::fs::fstat(dir).map_err(fault)?.st_dev;
    let mut parts: Vec<&str> = name.split('/').collect();
    let last = parts.pop().unwrap_or_default();
    let mut at = dir.try_clone()?;
    for part in parts {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let next = rustix::fs::openat(&at, part, flags, Mode::empty()).map_err(fault)?;
        let stat = rustix::fs::fstat(&next).map_err(fault)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory if stat.st_dev == device => at = next,
            FileType::Directory => return Err(ReadFault::Outside),
            FileType::Symlink => return Err(ReadFault::Symlink),
            _ => return Err(ReadFault::NotARegularFile),
        }
    }
    let file = rustix::fs::openat(&at, last, FILE, Mode::empty()).map_err(fault)?;
    if rustix::fs::fstat(&file).map_err(fault)?.st_dev != device {
        return Err(ReadFault::Outside);
    }
    Ok(file)
}

pub(super) fn read_open(file: OwnedFd, cap: u64) -> Result<Vec<u8>, ReadFault> {
    let stat = rustix::fs::fstat(&file).map_err(fault)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(ReadFault::NotARegularFile);
    }
    if stat.st_nlink != 1 {
        return Err(ReadFault::HardLinked);
    }
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if size > cap {
        return Err(ReadFault::TooLarge { size, cap });
    }
    let mut bytes = Vec::new();
    File::from(file).take(cap.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        size if size > cap => Err(ReadFault::TooLarge { size, cap }),
        _ => Ok(bytes),
    }
}

pub(super) fn fault(error: Errno) -> ReadFault {
    match error {
        Errno::NOENT => ReadFault::Missing,
        Errno::LOOP => ReadFault::Symlink,
        Errno::XDEV => ReadFault::Outside,
        // A file where a folder should be; a socket.
        Errno::NOTDIR | Errno::NXIO | Errno::NODEV => ReadFault::NotARegularFile,
        error => ReadFault::Unreadable(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    #[test]
    fn stepwise_opening_follows_no_link_in_any_part() {
        let tmp = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(tmp.path()).unwrap();
        fs::create_dir_all(root.join("in/deep")).unwrap();
        fs::create_dir(root.join("out")).unwrap();
        fs::write(root.join("in/deep/file"), "inside").unwrap();
        fs::write(root.join("out/file"), "outside").unwrap();
        symlink("../out", root.join("in/dir-link")).unwrap();
        symlink("../out/file", root.join("in/file-link")).unwrap();
        let dir = open_dir(&root.join("in")).unwrap();
        let read = |name| open_stepwise(&dir, name).and_then(|file| read_open(file, 100));
        assert_eq!(read("deep/file").unwrap(), b"inside");
        assert!(matches!(read("dir-link/file"), Err(ReadFault::Symlink)));
        assert!(matches!(read("file-link"), Err(ReadFault::Symlink)));
        assert!(matches!(read("deep/none"), Err(ReadFault::Missing)));
        assert!(matches!(read("deep/file/x"), Err(ReadFault::NotARegularFile)));
        assert!(matches!(read("deep"), Err(ReadFault::NotARegularFile)));
    }
}
