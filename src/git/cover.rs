//! Collecting without a container: the same script as in the sealed one, over a git folder of kew's own that only borrows the
//! checkout's objects.
//!
//! For host mode, where there may be no engine. The checkout's git folder is read by careful reads: HEAD, the two refs that
//! count, the index, where history is cut off; they are copied, its objects are borrowed. Invariant: no git runs with the
//! configuration, the hooks, the filters or the attributes file of a folder that an agent has had.

use std::{collections::BTreeMap, fs, path::Path, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    beneath::{ReadFault, read_beneath},
    collect::{CollectFault, CollectLimits, Held, SCRIPT, script_fault},
    context::done,
    error::GitError,
    mirror::Mirror,
    refs::RefName,
};
use crate::name::CommitId;

/// How long packing may take.
const COLLECT: Duration = Duration::from_secs(900);
/// The largest index that is read, in bytes: some two million paths.
const INDEX_MAX: u64 = 512 << 20;
/// The largest list of refs, or of commits where history is cut off.
const LIST_MAX: u64 = 16 << 20;

/// One checkout to be collected.
#[derive(Debug, Clone, Copy)]
pub struct Cover<'a> {
    /// The cache that the checkout was made from; lends its git.
    pub mirror: &'a Mirror,
    /// The checkout; nothing works in it any more.
    pub checkout: &'a Utf8Path,
    /// What it started from.
    pub input: &'a CommitId,
    /// The node's branch.
    pub branch: &'a RefName,
    /// What is taken at most.
    pub limits: &'a CollectLimits,
    /// A folder of kew's own for the git folder; missing before and gone afterwards.
    pub folder: &'a Utf8Path,
}

impl Cover<'_> {
    /// Writes what the script says to `answer`, ready for [`super::collect::accept`].
    pub fn pack(&self, answer: &Utf8Path) -> Result<(), CollectFault> {
        let packed = self.make().and_then(|git_dir| self.run(&git_dir, answer));
        let _ = fs::remove_dir_all(self.folder);
        packed
    }

    fn run(&self, git_dir: &Utf8Path, answer: &Utf8Path) -> Result<(), CollectFault> {
        let file = fs::File::create(answer).map_err(GitError::io(answer))?;
        let max = self.limits.pack_bytes.to_string();
        let args =
            [self.input.as_str(), self.branch.as_str(), &max, self.checkout.as_str(), git_dir.as_str()];
        let query = self.mirror.context().shell(SCRIPT, &args).stdout_file(file).deadline(COLLECT);
        let done = query.run().map_err(GitError::from)?;
        match done.code {
            Some(0) => Ok(()),
            code => Err(code
                .and_then(|code| script_fault(code, &done.stderr))
                .unwrap_or_else(|| super::context::failed(&done, "collect").into())),
        }
    }

    /// The git folder.
    fn make(&self) -> Result<Utf8PathBuf, CollectFault> {
        let git_dir = self.folder.join(".git");
        fs::create_dir_all(self.folder).map_err(GitError::io(self.folder))?;
        let format = format!("--object-format={}", self.mirror.format());
        let git = self.mirror.context().at(&git_dir).dir(self.folder.as_std_path());
        done(git.args(["init", "--quiet", "--template=", &format]), "init")?;

        let head = String::from_utf8(self.read("HEAD", 4096)?)
            .map_err(|_| no_repository("`.git/HEAD` is no text"))?;
        let head = head.trim_end().to_owned();
        let symbolic = head.strip_prefix("ref: ").map(str::trim);
        let mut refs = BTreeMap::new();
        for name in symbolic.into_iter().chain([self.branch.as_str()]) {
            if let Some(id) = self.resolve(name)? {
                refs.insert(name, id);
            }
        }
        let packed: String = refs.iter().map(|(name, id)| format!("{id} {name}\n")).collect();
        write(&git_dir.join("HEAD"), format!("{head}\n").as_bytes())?;
        write(&git_dir.join("packed-refs"), packed.as_bytes())?;
        if let Some(index) = self.optional("index", INDEX_MAX)? {
            write(&git_dir.join("index"), &index)?;
        }
        if let Some(cut) = self.optional("shallow", LIST_MAX)? {
            let cut = String::from_utf8_lossy(&cut);
            let ids = cut.split_ascii_whitespace().filter(|id| CommitId::new(*id).is_ok());
            write(&git_dir.join("shallow"), ids.map(|id| format!("{id}\n")).collect::<String>().as_bytes())?;
        }
        // HEAD was read without following a link, so `.git` is none.
        let objects = self.checkout.join(".git/objects");
        if !fs::symlink_metadata(&objects).is_ok_and(|meta| meta.is_dir()) {
            return Err(no_repository("`.git/objects` is not a folder"));
        }
        let info = git_dir.join("objects/info");
        fs::create_dir_all(&info).map_err(GitError::io(&info))?;
        write(&info.join("alternates"), format!("{objects}\n").as_bytes())?;
        let info = git_dir.join("info");
        fs::create_dir_all(&info).map_err(GitError::io(&info))?;
        write(&info.join("exclude"), b"/.kew-*\n")?;
        Ok(git_dir)
    }

    /// The commit that a ref names: its own file, else the list; a ref that names another one is none.
    fn resolve(&self, name: &str) -> Result<Option<CommitId>, CollectFault> {
        let plain = name.starts_with("refs/") && !name.contains(|c: char| c.is_control() || c == ' ');
        if !plain {
            return Ok(None);
        }
        if let Some(loose) = self.optional(name, 4096)? {
            return Ok(CommitId::new(String::from_utf8_lossy(&loose).trim_end()).ok());
        }
        let packed = self.optional("packed-refs", LIST_MAX)?.unwrap_or_default();
        let packed = String::from_utf8_lossy(&packed);
        let mut ids = packed.split('\n').filter_map(|line| line.split_once(' '));
        Ok(ids.find(|(_, found)| *found == name).and_then(|(id, _)| CommitId::new(id).ok()))
    }

    fn read(&self, name: &str, cap: u64) -> Result<Vec<u8>, CollectFault> {
        let path = format!(".git/{name}");
        read_beneath(self.checkout, &path, cap).map_err(|fault| no_repository(&format!("`{path}` {fault}")))
    }

    fn optional(&self, name: &str, cap: u64) -> Result<Option<Vec<u8>>, CollectFault> {
        let path = format!(".git/{name}");
        match read_beneath(self.checkout, &path, cap) {
            Ok(bytes) => Ok(Some(bytes)),
            // A folder by the name of a ref is a ref's parent, not a ref.
            Err(ReadFault::Missing | ReadFault::Outside) => Ok(None),
            Err(fault) => Err(no_repository(&format!("`{path}` {fault}"))),
        }
    }
}

fn no_repository(why: &str) -> CollectFault {
    Held::Spoilt.because(format!("it cannot be collected: {why}"))
}

fn write(path: &Utf8Path, bytes: &[u8]) -> Result<(), GitError> {
    let path: &Path = path.as_std_path();
    fs::write(path, bytes)
        .map_err(|source| GitError::Io { path: path.to_string_lossy().into_owned().into(), source })
}
