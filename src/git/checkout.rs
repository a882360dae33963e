//! A fresh standalone clone of an input: the one thing that a container sees.
//!
//! It holds exactly what the input reaches, as packs of its own (see `closure`), so it shares no inode with the mirror or the
//! user's repository, and nothing else of theirs can leak. (A fetch would do the same, but hash every object anew.) It has
//! no remote, no tag and no hook. Invariant: git runs here only before the agent has had it.

use std::{fs, io::Write as _, num::NonZeroU32};

use camino::Utf8Path;

use super::{
    access::{self, Access},
    closure,
    context::done,
    error::GitError,
    mirror::Mirror,
    refs::{self, RefName},
};
use crate::name::CommitId;

/// Writing a large tree may take this long.
const WRITE: std::time::Duration = std::time::Duration::from_secs(1800);

/// Makes a checkout of `input`, which the mirror has, at `dest`: an empty or missing folder whose parent is kew's own and
/// closed to others. HEAD is the branch `branch`. After an error, what was made is removed.
pub fn checkout(
    mirror: &Mirror,
    input: &CommitId,
    dest: &Utf8Path,
    branch: &RefName,
    access: Access,
) -> Result<(), GitError> {
    checkout_to_depth(mirror, input, dest, branch, access, None)
}

/// The same with only the newest `depth` commits of the history, if given: the input is the first of them.
pub fn checkout_to_depth(
    mirror: &Mirror,
    input: &CommitId,
    dest: &Utf8Path,
    branch: &RefName,
    access: Access,
    depth: Option<NonZeroU32>,
) -> Result<(), GitError> {
    fs::create_dir_all(dest).map_err(GitError::io(dest))?;
    if fs::read_dir(dest).map_err(GitError::io(dest))?.next().is_some() {
        return Err(GitError::Exists(dest.to_owned()));
    }
    let made = fill(mirror, input, dest, branch, depth).and_then(|()| access::grant(dest, access));
    if made.is_err() {
        // The error of the checkout tells more than one of its removal would.
        let _ = fs::remove_dir_all(dest);
    }
    made
}

fn fill(
    mirror: &Mirror,
    input: &CommitId,
    dest: &Utf8Path,
    branch: &RefName,
    depth: Option<NonZeroU32>,
) -> Result<(), GitError> {
    let git_dir = dest.join(".git");
    let git = || mirror.context().at(&git_dir).dir(dest);
    let short = branch.as_str().strip_prefix("refs/heads/").unwrap_or(branch.as_str());
    let format = format!("--object-format={}", mirror.format());
    done(git().args(["init", "--quiet", "--template=", &format, "--initial-branch", short]), "init")?;

    match depth {
        None => copy_all(mirror, input, &git_dir)?,
        Some(depth) => copy_newest(mirror, input, &git_dir, depth)?,
    }

    // A change of owner must not make git read every file again.
    let config = git_dir.join("config");
    fs::File::options()
        .append(true)
        .open(&config)
        .and_then(|mut file| file.write_all(b"[core]\n\tcheckStat = minimal\n\ttrustctime = false\n"))
        .map_err(GitError::io(&config))?;
    let info = git_dir.join("info");
    fs::create_dir_all(&info).map_err(GitError::io(&info))?;
    fs::write(info.join("exclude"), "/.kew-*\n").map_err(GitError::io(&info))?;

    let query = git().arg(format!("--work-tree={dest}")).args([
        "-c",
        "checkout.workers=0",
        "-c",
        "submodule.recurse=false",
    ]);
    done(query.args(["reset", "--hard", "--quiet", input.as_str()]).deadline(WRITE), "reset").map(|_| ())
}

fn copy_all(mirror: &Mirror, input: &CommitId, git_dir: &Utf8Path) -> Result<(), GitError> {
    closure::bring(mirror, input, &git_dir.join("objects/pack"))?;
    copy_shallow(mirror, input, git_dir)
}

/// By a fetch: only git's own server knows where a history of many branches is cut off, and it writes that down. There is
/// little to hash. The mirror keeps every input under a ref, so the server gives it out; whose the mirror is now, after a
/// run as root gave the state back, is of no interest to it.
fn copy_newest(
    mirror: &Mirror,
    input: &CommitId,
    git_dir: &Utf8Path,
    depth: NonZeroU32,
) -> Result<(), GitError> {
    let query = mirror.context().at(git_dir).args([
        "-c",
        "fetch.unpackLimit=1",
        "-c",
        "fetch.writeCommitGraph=false",
    ]);
    let query =
        query.args(["-c", "protocol.version=2", "fetch", "--quiet", "--no-tags", "--no-write-fetch-head"]);
    let query = query.args(["--no-auto-maintenance", "--no-recurse-submodules", "--update-shallow"]);
    let query = query.arg("--upload-pack=git -c safe.directory='*' upload-pack");
    let query = query.arg(format!("--depth={depth}")).arg("--").arg(mirror.path().as_str());
    done(query.arg(refs::keep(input).as_str()).deadline(WRITE), "fetch").map(|_| ())
}

/// Of the commits at which the mirror's history is cut off, those that the input reaches.
fn copy_shallow(mirror: &Mirror, input: &CommitId, git_dir: &Utf8Path) -> Result<(), GitError> {
    let source = mirror.shallow_file();
    if !source.exists() {
        return Ok(());
    }
    let cut = fs::read_to_string(&source).map_err(GitError::io(&source))?;
    let reached = done(mirror.git().args(["rev-list", input.as_str()]), "rev-list")?.text();
    let reached: std::collections::HashSet<&str> = reached.lines().collect();
    let kept: String = cut.lines().filter(|id| reached.contains(id)).map(|id| format!("{id}\n")).collect();
    let path = git_dir.join("shallow");
    match kept.is_empty() {
        true => Ok(()),
        false => fs::write(&path, kept).map_err(GitError::io(&path)),
    }
}
