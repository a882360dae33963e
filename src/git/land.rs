//! Bringing good commits home: their objects and one ref into the user's repository, and into the mirror.
//!
//! Only what was validated, or merged by kew, comes here. The pack is written anew from exactly the wanted objects, so that
//! whatever else came with them stays behind. Safe to repeat: after a crash the same call completes it. Invariant: the ref
//! is made last, after git has walked all that it needs.

use std::{
    fs::File,
    io::{Seek as _, SeekFrom},
};

use camino::Utf8Path;

use super::{
    base::UserRepo,
    context::{done, failed},
    error::GitError,
    mirror::Mirror,
    quarantine::{Quarantine, object_count},
    refs::RefName,
};
use crate::{name::CommitId, process::query::Query};

/// Up to this many objects become loose ones: a pack for each attempt would slow the user's git down.
const LOOSE: u32 = 100;

/// The pack of a few large objects is kept as it is.
const LOOSE_BYTES: u64 = 8 << 20;

const COPY: std::time::Duration = std::time::Duration::from_secs(600);

/// Lands the head that [`super::collect::accept`] has taken into `quarantine_dir`.
pub fn land(
    user: &UserRepo,
    mirror: &Mirror,
    quarantine_dir: &Utf8Path,
    input: &CommitId,
    head: &CommitId,
    name: &RefName,
) -> Result<(), GitError> {
    let quarantine = Quarantine::open(mirror, quarantine_dir);
    let mut pack = pack(&|| quarantine.git(), quarantine_dir, head, std::slice::from_ref(input))?;
    {
        let _lock = mirror.lock()?;
        pack.insert(&|| mirror.git())?;
        mirror.keep(head)?;
    }
    bring_home(user, &mut pack, head, std::slice::from_ref(input), name)
}

/// Brings home a head that is held, for a person to look at: into the user's repository alone, so that nothing starts from
/// it.
pub fn land_held(
    user: &UserRepo,
    mirror: &Mirror,
    quarantine_dir: &Utf8Path,
    input: &CommitId,
    head: &CommitId,
    name: &RefName,
) -> Result<(), GitError> {
    let quarantine = Quarantine::open(mirror, quarantine_dir);
    let mut pack = pack(&|| quarantine.git(), quarantine_dir, head, std::slice::from_ref(input))?;
    bring_home(user, &mut pack, head, std::slice::from_ref(input), name)
}

/// Lands a merge that [`super::merge::merge_inputs`] has made of `parents`, which the user's repository has.
pub fn land_merge(
    user: &UserRepo,
    mirror: &Mirror,
    merge: &CommitId,
    parents: &[CommitId],
    name: &RefName,
) -> Result<(), GitError> {
    let mut pack = pack(&|| mirror.git(), mirror.path(), merge, parents)?;
    bring_home(user, &mut pack, merge, parents, name)
}

fn bring_home(
    user: &UserRepo,
    pack: &mut Pack,
    head: &CommitId,
    not: &[CommitId],
    name: &RefName,
) -> Result<(), GitError> {
    pack.insert(&|| user.git())?;
    user.check_connected(head, not)?;
    user.create_ref(name, head)
}

/// An open pack without a name.
struct Pack {
    file: File,
    objects: u32,
    bytes: u64,
}

/// Its bytes lie in `folder`: they may be too many for a temporary folder in memory.
fn pack(
    git: &dyn Fn() -> Query,
    folder: &Utf8Path,
    head: &CommitId,
    not: &[CommitId],
) -> Result<Pack, GitError> {
    let mut file = tempfile::tempfile_in(folder).map_err(GitError::io(folder))?;
    let out = file.try_clone().map_err(GitError::io(folder))?;
    let mut revs = format!("{head}\n");
    for id in not {
        revs.push_str(&format!("^{id}\n"));
    }
    let query = git().args(["-c", "pack.useBitmaps=false", "pack-objects", "--revs", "--stdout", "--quiet"]);
    let query = query.args(["--no-sparse", "--delta-base-offset", "--window=0"]);
    done(query.stdin_bytes(revs).stdout_file(out).deadline(COPY), "pack-objects")?;
    let facts = (|| {
        let bytes = file.metadata()?.len();
        file.seek(SeekFrom::Start(0))?;
        Ok((object_count(&mut file)?, bytes))
    })();
    let (objects, bytes) = facts.map_err(GitError::io(folder))?;
    let objects =
        objects.ok_or_else(|| GitError::Answer { what: "pack-objects", answer: "not a pack".into() })?;
    Ok(Pack { file, objects, bytes })
}

impl Pack {
    /// Adds the objects to a repository. Objects that are there already stay as they are.
    fn insert(&mut self, git: &dyn Fn() -> Query) -> Result<(), GitError> {
        if self.objects == 0 {
            return Ok(());
        }
        let temporary = GitError::io(Utf8Path::new("the pack"));
        let input =
            self.file.seek(SeekFrom::Start(0)).and_then(|_| self.file.try_clone()).map_err(temporary)?;
        let (what, query) = match self.objects <= LOOSE && self.bytes <= LOOSE_BYTES {
            true => ("unpack-objects", git().args(["unpack-objects", "-q"])),
            false => ("index-pack", git().args(["index-pack", "--stdin"])),
        };
        let answer = query.stdin_file(input).deadline(COPY).run()?;
        if answer.ok() { Ok(()) } else { Err(failed(&answer, what)) }
    }
}
