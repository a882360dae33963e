//! An empty object store for one collection, with the mirror behind it, read-only.
//!
//! The mirror holds more than the input reaches, so that an object is *somewhere* proves nothing: a commit may name one of
//! the user's private commits as its parent, and hide that from its own git. Hence the rule that this file exists for:
//! every object that the new head reaches and the input does not must have come in this very pack. Nothing that is
//! here counts before [`Quarantine::validate`] has returned.

mod changes;

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
};

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    collect::{CollectFault, CollectLimits, Held},
    context::{Git, ObjectFormat, done, failed},
    error::GitError,
    findings,
    mirror::Mirror,
    policy::LARGEST,
};
use crate::{
    name::CommitId,
    process::query::{Answer, Query},
};

/// The store.
#[derive(Debug, Clone)]
pub(super) struct Quarantine {
    git: Git,
    dir: Utf8PathBuf,
    format: ObjectFormat,
}

/// What the objects of a pack are.
type Kinds = HashMap<Box<str>, Kind>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Commit,
    Other,
    /// A file that is larger than the policy takes.
    Large,
}

/// The most that git may write as a list, in bytes.
const LIST: u64 = 256 << 20;

const INDEX: std::time::Duration = std::time::Duration::from_secs(600);

impl Quarantine {
    /// Makes it at `dir`, which must be missing or empty.
    pub fn create(mirror: &Mirror, dir: &Utf8Path) -> Result<Self, GitError> {
        fs::create_dir_all(dir).map_err(GitError::io(dir))?;
        if fs::read_dir(dir).map_err(GitError::io(dir))?.next().is_some() {
            return Err(GitError::Exists(dir.to_owned()));
        }
        let store = Self::open(mirror, dir);
        let format = format!("--object-format={}", store.format);
        done(store.git().args(["init", "--quiet", "--bare", "--template=", &format]), "init")?;
        let info = dir.join("objects/info");
        fs::create_dir_all(&info).map_err(GitError::io(&info))?;
        fs::write(info.join("alternates"), format!("{}\n", mirror.path().join("objects")))
            .map_err(GitError::io(&info))?;
        match fs::copy(mirror.shallow_file(), dir.join("shallow")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(GitError::io(dir)(error)),
            _ => Ok(store),
        }
    }

    /// The one that is at `dir`.
    pub fn open(mirror: &Mirror, dir: &Utf8Path) -> Self {
        Self { git: mirror.context().clone(), dir: dir.to_owned(), format: mirror.format() }
    }

    /// A git command in it.
    pub fn git(&self) -> Query {
        self.git.at(&self.dir)
    }

    /// Takes in the pack that `file` holds from byte `start` on and checks what `head` adds to `input`. Returns the number
    /// of commits.
    pub fn validate(
        &self,
        mut file: File,
        start: u64,
        input: &CommitId,
        head: &CommitId,
        limits: &CollectLimits,
    ) -> Result<u32, CollectFault> {
        let at = GitError::io(&self.dir);
        let count = (|| {
            file.seek(SeekFrom::Start(start))?;
            let count = object_count(&mut file)?;
            file.seek(SeekFrom::Start(start))?;
            Ok(count)
        })()
        .map_err(at)?;
        if count.is_some_and(|count| count > limits.objects) {
            return Err(
                Held::TooMuch.because(format!("the commits bring more than {} objects", limits.objects))
            );
        }
        let kinds = self.kinds(&self.index(file, limits)?, limits)?;
        let commits = self.check_origin(&kinds, input, head)?;
        self.check_paths(head, limits)?;
        if !self.is_ancestor(input, head)? {
            let sentence = format!("{} does not descend from the input", head.short());
            return Err(Held::HistoryRewritten.keeping(head, sentence));
        }
        let Some(policy) = &limits.policy else {
            return match commits > limits.commits {
                true => Err(Held::TooMuch.because(findings::too_many(commits, limits.commits))),
                false => Ok(commits),
            };
        };
        let findings = self.findings(policy, &kinds, commits, input, head, limits)?;
        if !findings.is_empty() {
            let reason = findings.only().map_or(Held::Policy, of_kind);
            return Err(reason.keeping(head, findings.sentence(limits.object_bytes)));
        }
        Ok(commits)
    }

    /// Whether `older` is `newer` or one of its ancestors. An unknown commit is none.
    pub fn is_ancestor(&self, older: &CommitId, newer: &CommitId) -> Result<bool, GitError> {
        let known = self.git().args(["cat-file", "-e", &format!("{older}^{{commit}}")]).run()?;
        if !known.ok() {
            return Ok(false);
        }
        let answer =
            self.git().args(["merge-base", "--is-ancestor", older.as_str(), newer.as_str()]).run()?;
        match answer.code {
            Some(0) => Ok(true),
            Some(1) => Ok(false),
            _ => Err(failed(&answer, "merge-base")),
        }
    }

    /// Checks every object of the pack, and that all it links to exists somewhere. Returns the sorted ids, one a line.
    fn index(&self, pack: File, limits: &CollectLimits) -> Result<Vec<u8>, CollectFault> {
        // A blob above the threshold is not held in memory; a delta that makes a giant is stopped by the allocation limit.
        let memory = limits.object_bytes.saturating_mul(2).saturating_add(128 << 20);
        let query =
            self.git().env("GIT_ALLOC_LIMIT", memory.to_string()).args(["-c", "core.bigFileThreshold=16m"]);
        let query = query
            .args(["index-pack", "--stdin", "--strict"])
            .arg(format!("--max-input-size={}", limits.pack_bytes));
        let answer = query.stdin_file(pack).deadline(INDEX).run().map_err(GitError::from)?;
        if !answer.ok() {
            return Err(refused_pack(&answer.stderr));
        }
        let text = answer.text();
        let hash = text.rsplit(['\t', '\n']).next().unwrap_or_default();
        let index = self.dir.join(format!("objects/pack/pack-{hash}.idx"));
        let index = File::open(&index).map_err(GitError::io(&index))?;
        let query =
            self.git().args(["show-index", &format!("--object-format={}", self.format)]).stdin_file(index);
        let mut ids = Vec::new();
        for line in done(query, "show-index")?.stdout.split(|byte| *byte == b'\n') {
            if let Some(id) = line.split(|byte| *byte == b' ').nth(1) {
                ids.extend_from_slice(id);
                ids.push(b'\n');
            }
        }
        Ok(ids)
    }

    /// What each object of the pack is; none but a file may be larger than allowed.
    fn kinds(&self, ids: &[u8], limits: &CollectLimits) -> Result<Kinds, CollectFault> {
        let query = self.git().args(["cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)"]);
        let answer = done(query.stdin_bytes(ids).deadline(INDEX), "cat-file")?;
        let mut kinds = Kinds::new();
        for line in answer.text().lines() {
            let mut fields = line.split(' ');
            let (Some(id), Some(kind), Some(size)) = (fields.next(), fields.next(), fields.next()) else {
                return Err(Held::Broken.because(format!("git does not know the pack's object {line}")));
            };
            let size = size.parse::<u64>().unwrap_or(u64::MAX);
            let large = size > limits.object_bytes;
            if large && (kind != "blob" || size > LARGEST || limits.policy.is_none()) {
                return Err(Held::TooMuch.because(format!(
                    "the {kind} {} is {size} bytes long, at most {} are taken",
                    &id[..id.len().min(10)],
                    limits.object_bytes
                )));
            }
            let kind = match kind {
                "commit" => Kind::Commit,
                _ if large => Kind::Large,
                _ => Kind::Other,
            };
            kinds.insert(id.into(), kind);
        }
        Ok(kinds)
    }

    /// The rule of this file. Returns how many commits there are.
    fn check_origin(&self, kinds: &Kinds, input: &CommitId, head: &CommitId) -> Result<u32, CollectFault> {
        let mut commits = 0;
        let args = ["rev-list", "--objects", "--no-object-names", head.as_str(), "--not", input.as_str()];
        for line in BufReader::new(self.list("list", &args)?).split(b'\n') {
            let line = line.map_err(GitError::io(&self.dir))?;
            let id = String::from_utf8_lossy(&line);
            match kinds.get(&*id) {
                Some(Kind::Commit) => commits += 1,
                Some(Kind::Other | Kind::Large) => {}
                None => {
                    let short: String = id.chars().take(10).collect();
                    return Err(Held::ForeignObjects.because(format!(
                        "the commits need the object {short}, which came neither with them nor with the input"
                    )));
                }
            }
        }
        Ok(commits)
    }

    /// Counts the paths of the new tree. As a bounded stream, because a few small trees can name the same tree a million
    /// times; a diff would gather all of that in memory.
    fn check_paths(&self, head: &CommitId, limits: &CollectLimits) -> Result<(), CollectFault> {
        let args = ["ls-tree", "-r", "-z", "--name-only", "--full-tree", head.as_str()];
        let mut paths: u32 = 0;
        for path in BufReader::new(self.list("list", &args)?).split(0) {
            path.map_err(GitError::io(&self.dir))?;
            paths = paths.saturating_add(1);
        }
        if paths > limits.paths {
            return Err(Held::TooMuch
                .because(format!("the tree has {paths} paths, at most {} are taken", limits.paths)));
        }
        Ok(())
    }

    /// The output of a git command that lists something, as a file rather than in memory.
    fn list(&self, name: &str, args: &[&str]) -> Result<File, CollectFault> {
        let path = self.dir.join(name);
        let out = File::create(&path).map_err(GitError::io(&path))?;
        let answer =
            self.git.at_capped(&self.dir, LIST).args(args).stdout_file(out).run().map_err(GitError::from)?;
        match answer.code {
            Some(0) => Ok(File::open(&path).map_err(GitError::io(&path))?),
            _ => Err(too_many_paths(&answer)),
        }
    }
}

/// What it means that a bounded command came to no end.
fn too_many_paths(answer: &Answer) -> CollectFault {
    if let Some(fault) = of_disk("listing", &answer.stderr) {
        return fault;
    }
    let bound = ["File too large", "ut of memory", "annot allocate memory", "mmap failed"];
    // No exit status is the signal of a file that grew too large; git sees an error where that is ignored.
    if answer.code.is_none() || bound.iter().any(|words| answer.stderr.contains(words)) {
        return Held::TooMuch.because("the commits name more paths than can be listed".to_owned());
    }
    Held::Broken.because(format!("git cannot walk the commits: {}", answer.stderr))
}

/// The word of a hold for one reason.
fn of_kind(kind: findings::Kind) -> Held {
    match kind {
        findings::Kind::Protected => Held::ProtectedPath,
        findings::Kind::Submodule => Held::Submodule,
        findings::Kind::Symlink => Held::Symlink,
        findings::Kind::GitName => Held::GitName,
        findings::Kind::Reserved => Held::ReservedName,
        findings::Kind::Large | findings::Kind::Commits => Held::TooMuch,
    }
}

/// How many objects a pack says it has; `None` if it does not begin like one.
pub(super) fn object_count(file: &mut File) -> std::io::Result<Option<u32>> {
    let mut header = Vec::new();
    file.take(12).read_to_end(&mut header)?;
    Ok(match header.as_slice() {
        [b'P', b'A', b'C', b'K', _, _, _, _, count @ ..] => count.try_into().ok().map(u32::from_be_bytes),
        _ => None,
    })
}

/// The words of a disk that is full or broken, which is nobody's doing.
const DISK: [&str; 5] = [
    "No space left on device",
    "Out of diskspace",
    "Disk quota exceeded",
    "unable to create temporary file",
    "Input/output error",
];

fn of_disk(what: &'static str, stderr: &str) -> Option<CollectFault> {
    let failed = || GitError::Failed { what, stderr: stderr.to_owned() }.into();
    DISK.iter().any(|words| stderr.contains(words)).then(failed)
}

fn refused_pack(stderr: &str) -> CollectFault {
    if let Some(fault) = of_disk("index-pack", stderr) {
        return fault;
    }
    if stderr.contains("attempting to allocate") || stderr.contains("maximum allowed size") {
        return Held::TooMuch.because(format!("an object or the whole is too large: {stderr}"));
    }
    Held::Broken.because(format!("git refuses the objects: {stderr}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_never_the_agents_fault() {
        for said in [
            "fatal: write error: No space left on device",
            "fatal: sha1 file '/q/objects/pack/tmp_rev_x' write error. Out of diskspace",
            "error: unable to create temporary file: Disk quota exceeded",
        ] {
            assert!(matches!(refused_pack(said), CollectFault::Infrastructure(_)), "{said}");
        }
        for said in ["fatal: object abc: missingEmail: invalid author/committer line", "fatal: bad pack"] {
            assert!(matches!(refused_pack(said), CollectFault::Held { .. }), "{said}");
        }
    }
}
