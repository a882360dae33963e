//! All that one commit reaches, as packs: what the object store of a checkout is made of.
//!
//! Git can write such a pack from the mirror at any time, but walks the history and hashes all of it again for that. So the
//! mirror's folder keeps a few finished ones, each under the name of its commit. A checkout of that commit copies the files;
//! one of a descendant copies them too and gets what is new as a second pack. Only a cache: whatever is odd about one, the
//! pack is written anew. Invariants: what lies under a commit's name is exactly what that commit reaches; a checkout has
//! copies, never links.

use std::{
    fs, io,
    time::{Duration, SystemTime},
};

use camino::{Utf8Path, Utf8PathBuf};

use super::{context::done, error::GitError, mirror::Mirror};
use crate::name::CommitId;

/// Where they are, in the mirror's folder.
const FOLDER: &str = "closures";
/// One that is being made.
const DRAFT: &str = "new";
/// At most so many are kept.
const KEPT: usize = 2;
/// One that was used so lately is not displaced by another: runs of several bases would copy for each other's bin.
const IN_USE: Duration = Duration::from_secs(600);
/// Bytes; a smaller pack is written as fast as it is looked up and copied.
const WORTH: u64 = 1 << 20;
/// Writing a large history may take this long.
const WRITE: Duration = Duration::from_secs(1800);

/// Puts all that `input` reaches, and nothing else, into `packs`: the empty `objects/pack` of a new repository.
pub(super) fn bring(mirror: &Mirror, input: &CommitId, packs: &Utf8Path) -> Result<(), GitError> {
    // Where history is cut off, what a commit reaches changes with the cut.
    if mirror.shallow_file().exists() {
        return write(mirror, input, None, packs).map(drop);
    }
    if let Some((ancestor, kept)) = nearest(mirror, input)? {
        match copy(&kept, packs, copy_file) {
            Ok(_) if ancestor == *input => return Ok(()),
            Ok(size) => {
                let grown = write(mirror, input, Some(&ancestor), packs)?;
                // Too much is written again and again by now: the next checkout finds none and leaves a new one.
                if grown > size / 4 {
                    let _ = discard(mirror, &kept);
                }
                return Ok(());
            }
            Err(_) => {
                fs::remove_dir_all(packs)
                    .and_then(|()| fs::create_dir(packs))
                    .map_err(GitError::io(packs))?;
                let _ = discard(mirror, &kept);
            }
        }
    }
    if write(mirror, input, None, packs)? >= WORTH {
        // Without it the next checkout takes longer, no more.
        let _ = mirror.lock().map(|_lock| keep(mirror, input, packs, copy_file));
    }
    Ok(())
}

/// Keeps what a fetch into an empty mirror has brought: as one pack, it is exactly what `id` reaches. The caller holds
/// the mirror's lock. Links suffice here, for git replaces its packs and never changes one.
pub(super) fn adopt(mirror: &Mirror, id: &CommitId) {
    if mirror.shallow_file().exists() || !loose(mirror).is_ok_and(|loose| !loose) {
        return;
    }
    let packs = mirror.path().join("objects/pack");
    if pack_in(&packs).is_ok_and(|(_, size)| size >= WORTH) {
        let _ = keep(mirror, id, &packs, |from, to| fs::hard_link(from, to));
    }
}

/// Whether the mirror has no object at all.
pub(super) fn is_empty(mirror: &Mirror) -> bool {
    let none = |dir: Utf8PathBuf| fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_none());
    none(mirror.path().join("objects/pack")) && loose(mirror).is_ok_and(|loose| !loose)
}

/// Whether the mirror has objects outside of packs.
fn loose(mirror: &Mirror) -> io::Result<bool> {
    for entry in mirror.path().join("objects").read_dir_utf8()? {
        if !matches!(entry?.file_name(), "info" | "pack") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Writes a pack of what `input` reaches, but not what `known` does; gives its size in bytes.
fn write(
    mirror: &Mirror,
    input: &CommitId,
    known: Option<&CommitId>,
    packs: &Utf8Path,
) -> Result<u64, GitError> {
    let known = known.map(|known| format!("^{known}\n")).unwrap_or_default();
    // A checkout does not outlive its run, so it need not outlive a loss of power. No search for deltas: what the mirror has
    // as deltas is copied as it is.
    let query = mirror.git().args(["-c", "core.fsync=none", "pack-objects", "--revs", "--quiet"]);
    let query = query.args(["--delta-base-offset", "--window=0"]).arg(packs.join("pack").as_str());
    let answer = done(query.stdin_bytes(format!("{input}\n{known}")).deadline(WRITE), "pack-objects")?;
    let pack = packs.join(format!("pack-{}.pack", answer.text()));
    fs::metadata(&pack).map(|meta| meta.len()).map_err(GitError::io(&pack))
}

/// The kept one of `input`, else of one of its ancestors.
fn nearest(mirror: &Mirror, input: &CommitId) -> Result<Option<(CommitId, Utf8PathBuf)>, GitError> {
    let mut kept = all(&mirror.path().join(FOLDER));
    kept.sort_by_key(|(id, _, used)| (id == input, *used));
    for (id, path, _) in kept.into_iter().rev() {
        let query = mirror.git().args(["merge-base", "--is-ancestor", id.as_str(), input.as_str()]);
        if id == *input || query.run()?.ok() {
            // Told to `make_room` only.
            let _ = fs::File::open(&path).and_then(|dir| dir.set_modified(SystemTime::now()));
            return Ok(Some((id, path)));
        }
    }
    Ok(None)
}

/// All that are kept, and when each was used last.
fn all(folder: &Utf8Path) -> Vec<(CommitId, Utf8PathBuf, SystemTime)> {
    let Ok(entries) = folder.read_dir_utf8() else { return Vec::new() };
    let of = |entry: camino::Utf8DirEntry| {
        let id = CommitId::new(entry.file_name()).ok()?;
        let used = entry.metadata().and_then(|meta| meta.modified()).ok()?;
        Some((id, entry.path().to_owned(), used))
    };
    entries.flatten().filter_map(of).collect()
}

/// Keeps the pack of `from` under the name of `id`, unless there is one or no room for it. The caller holds the lock.
fn keep(
    mirror: &Mirror,
    id: &CommitId,
    from: &Utf8Path,
    by: fn(&Utf8Path, &Utf8Path) -> io::Result<()>,
) -> io::Result<()> {
    let folder = mirror.path().join(FOLDER);
    let (place, draft) = (folder.join(id.as_str()), folder.join(DRAFT));
    fs::create_dir_all(&folder)?;
    // Of a kew that was killed in between.
    let _ = fs::remove_dir_all(&draft);
    if place.exists() || !make_room(&folder)? {
        return Ok(());
    }
    fs::create_dir(&draft)?;
    let made = copy(from, &draft, by).and_then(|_| fs::rename(&draft, &place));
    if made.is_err() {
        let _ = fs::remove_dir_all(&draft);
    }
    made
}

/// Removes the least used, unless it is in use.
fn make_room(folder: &Utf8Path) -> io::Result<bool> {
    let mut kept = all(folder);
    kept.sort_by_key(|(_, _, used)| *used);
    while kept.len() >= KEPT {
        let (_, path, used) = kept.remove(0);
        if used.elapsed().is_ok_and(|idle| idle < IN_USE) {
            return Ok(false);
        }
        fs::remove_dir_all(&path)?;
    }
    Ok(true)
}

fn discard(mirror: &Mirror, kept: &Utf8Path) -> Result<(), GitError> {
    let _lock = mirror.lock()?;
    fs::remove_dir_all(kept).map_err(GitError::io(kept))
}

/// Copies the one pack of `from` with its index; gives its size in bytes. Fails where there is not exactly one, or where it
/// vanishes meanwhile.
fn copy(from: &Utf8Path, to: &Utf8Path, by: fn(&Utf8Path, &Utf8Path) -> io::Result<()>) -> io::Result<u64> {
    let (stem, size) = pack_in(from)?;
    // The index makes the pack count, so it comes last.
    for (end, required) in [("rev", false), ("pack", true), ("idx", true)] {
        let name = format!("{stem}.{end}");
        match by(&from.join(&name), &to.join(&name)) {
            Err(error) if required || error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(size)
}

/// The only pack of a folder: its name without an ending, and its size in bytes.
fn pack_in(folder: &Utf8Path) -> io::Result<(String, u64)> {
    let mut found = None;
    for entry in folder.read_dir_utf8()? {
        let entry = entry?;
        let Some(stem) = entry.file_name().strip_suffix(".pack") else { continue };
        if found.is_some() {
            return Err(io::Error::other("more than one pack"));
        }
        found = Some((stem.to_owned(), entry.metadata()?.len()));
    }
    found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// The system shares blocks where its file system can; the inode is a new one in any case.
fn copy_file(from: &Utf8Path, to: &Utf8Path) -> io::Result<()> {
    fs::copy(from, to).map(drop)
}
