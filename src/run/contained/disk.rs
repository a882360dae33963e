//! Looks at the disk while an agent runs: how much its checkout takes, and whether the disk of all checkouts fills up.
//!
//! It tells, and stops nothing. The agent owns the folder and may change it under this walk, so names are opened beneath the
//! folder without following links, and what is gone meanwhile counts nothing. What counts are allocated blocks: a sparse
//! file takes what it takes. Invariant: the walk is bounded, holds two folders open at most, and reads no file.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{Arc, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use camino::{Utf8Path, Utf8PathBuf};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags},
    io::Errno,
};

use super::Control;
use crate::{
    run::executor::{Outgrown, Sink},
    units::show_size,
};

/// The shortest time between two looks.
const EVERY: Duration = Duration::from_secs(2);
/// A walk takes at most this part of the time.
const SHARE: u32 = 10;
/// More entries than that are not counted in one walk.
const ENTRIES: u64 = 4_000_000;
/// More folders than that do not wait in memory for their turn.
const FOLDERS: usize = 200_000;
/// The disk counts as nearly full below the smaller of this and 2 % of it: other nodes, the state and the user's own
/// repository need what is left.
const FLOOR: u64 = 1 << 30;

/// Looks until the attempt's container is over, and tells `sink` at most once.
pub(super) fn watch(folder: Utf8PathBuf, max: u64, control: Arc<Control>, sink: Arc<dyn Sink>) {
    let watching = move || {
        let over = || control.over.load(Ordering::SeqCst);
        let mut pause = EVERY;
        loop {
            let begun = Instant::now();
            while begun.elapsed() < pause {
                if over() {
                    return;
                }
                thread::sleep(Duration::from_millis(100));
            }
            let begun = Instant::now();
            let outgrown = look(&folder, max, &over);
            if over() {
                return;
            }
            if let Some(outgrown) = outgrown {
                sink.outgrew(outgrown);
                return;
            }
            pause = EVERY.max(begun.elapsed() * SHARE);
        }
    };
    // Without a thread nobody looks; the size of a file and of a log are bounded all the same.
    drop(thread::Builder::new().name("kew-disk".into()).spawn(watching));
}

fn look(folder: &Utf8Path, max: u64, over: &dyn Fn() -> bool) -> Option<Outgrown> {
    if let Ok(disk) = rustix::fs::statvfs(folder.as_std_path()) {
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        if nearly_full(free, disk.f_blocks.saturating_mul(disk.f_frsize)) {
            return Some(Outgrown::Disk(format!(
                "the disk of the checkouts has only {} left",
                show_size(free)
            )));
        }
    }
    match used(folder, max, over) {
        // The disk's own trouble is told where something must be written.
        Err(_) | Ok(Some(0)) => None,
        Ok(Some(bytes)) if bytes <= max => None,
        Ok(_) => Some(Outgrown::Checkout(format!("its checkout grew past {}", show_size(max)))),
    }
}

fn nearly_full(free: u64, size: u64) -> bool {
    free < FLOOR.min(size / 50)
}

/// Bytes on disk below a folder, at least: counting ends above `max`, or when `over` says so. `None`: there is more than can be counted.
fn used(folder: &Utf8Path, max: u64, over: &dyn Fn() -> bool) -> io::Result<Option<u64>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let root = rustix::fs::open(folder.as_std_path(), flags, Mode::empty())?;
    let mut waiting: Vec<Vec<u8>> = vec![b".".to_vec()];
    let (mut bytes, mut entries) = (0_u64, 0_u64);
    while let Some(path) = waiting.pop() {
        let Some(dir) = open_beneath(root.as_fd(), &path, flags) else { continue };
        let Ok(mut listing) = Dir::read_from(&dir) else { continue };
        while let Some(Ok(entry)) = listing.read() {
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            entries += 1;
            if entries > ENTRIES {
                return Ok(None);
            }
            if entries.is_multiple_of(1024) && over() {
                return Ok(Some(bytes));
            }
            let Ok(stat) = rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            // Each name of a file has its share of it.
            let blocks = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
            let kind = FileType::from_raw_mode(stat.st_mode);
            // The number's width depends on the platform.
            let names = if kind == FileType::Directory { 1 } else { u128::from(stat.st_nlink.max(1)) };
            let share = u128::from(blocks) / names;
            bytes = bytes.saturating_add(u64::try_from(share).unwrap_or(u64::MAX));
            if bytes > max {
                return Ok(Some(bytes));
            }
            if kind == FileType::Directory {
                if waiting.len() >= FOLDERS {
                    return Ok(None);
                }
                waiting.push([&path[..], b"/", name.to_bytes()].concat());
            }
        }
    }
    Ok(Some(bytes))
}

/// A folder of the checkout. What is gone, a link by now, on another file system, or too deep for a path counts nothing.
fn open_beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Option<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
        Ok(dir) => Some(dir),
        // Kernels before 5.6, and sandboxes that know no openat2.
        Err(Errno::NOSYS | Errno::PERM) => stepwise(root, path, flags),
        Err(_) => None,
    }
}

fn stepwise(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Option<OwnedFd> {
    let mut at = root.try_clone_to_owned().ok()?;
    for part in path.split(|byte| *byte == b'/') {
        at = rustix::fs::openat(&at, part, flags, Mode::empty()).ok()?;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    fn folder() -> (tempfile::TempDir, Utf8PathBuf) {
        let tmp = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(tmp.path()).unwrap().to_owned();
        (tmp, root)
    }

    fn bytes(root: &Utf8Path, max: u64) -> u64 {
        used(root, max, &|| false).unwrap().unwrap()
    }

    #[test]
    fn counts_blocks_once_and_follows_no_link() {
        let (_tmp, root) = folder();
        fs::create_dir_all(root.join("in/a/b")).unwrap();
        fs::create_dir(root.join("out")).unwrap();
        fs::write(root.join("out/large"), vec![1; 8 << 20]).unwrap();
        let inside = root.join("in");
        let empty = bytes(&inside, u64::MAX);
        fs::write(inside.join("a/b/file"), vec![1; 1 << 20]).unwrap();
        for name in ["one", "two", "three"] {
            fs::hard_link(inside.join("a/b/file"), inside.join(name)).unwrap();
        }
        symlink(root.join("out"), inside.join("link")).unwrap();
        symlink("..", inside.join("a/up")).unwrap();
        fs::File::create(inside.join("sparse")).unwrap().set_len(10 << 30).unwrap();
        let full = bytes(&inside, u64::MAX);
        assert!((1 << 20..2 << 20).contains(&(full - empty)), "{empty} {full}");
        assert!(bytes(&inside, 1000) > 1000);
    }

    #[test]
    fn opening_step_by_step_follows_no_link_either() {
        let (_tmp, root) = folder();
        fs::create_dir_all(root.join("a/b")).unwrap();
        symlink("b", root.join("a/link")).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(root.as_std_path(), flags, Mode::empty()).unwrap();
        assert!(stepwise(dir.as_fd(), b"./a/b", flags).is_some());
        assert!(stepwise(dir.as_fd(), b"./a/link", flags).is_none());
    }

    #[test]
    fn nearly_full_is_two_percent_or_a_gigabyte() {
        assert!(!nearly_full(2 << 30, 1 << 40));
        assert!(nearly_full(1 << 29, 1 << 40));
        assert!(!nearly_full(500 << 20, 10 << 30));
        assert!(nearly_full(100 << 20, 10 << 30));
    }
}
