//! What a commit's tree is made of, as far as it decides whether agents can work in it: names of kew's, submodules, files
//! that Git LFS keeps elsewhere, and how much room it takes.
//!
//! By plumbing, in the user's repository or in the mirror; nothing is written. Invariant: kew fetches neither submodules nor
//! files of LFS, so a tree that has them is said to have them.

use super::{
    base::UserRepo,
    context::done,
    error::GitError,
    mirror::Mirror,
    policy::{SUBMODULE, SYMLINK},
    reserved::is_reserved,
};
use crate::{name::CommitId, process::query::Query, text};

/// A tree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tree {
    /// Paths that only kew may use.
    pub reserved: Vec<String>,
    /// Where submodules are.
    pub submodules: Vec<String>,
    /// The `.gitattributes` that give files to LFS.
    pub lfs: Vec<String>,
    /// What its files take on a disk, in bytes; zero where sizes were not asked for.
    pub bytes: u64,
}

/// What becomes of submodules.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Submodules {
    /// Nothing runs.
    #[default]
    Refuse,
    /// Their folders are there and empty.
    Empty,
}

/// What becomes of files of Git LFS.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Lfs {
    /// Nothing runs.
    #[default]
    Refuse,
    /// Their pointers are there.
    Pointers,
}

/// Which trees are taken, and as what.
#[derive(Debug, Clone, Copy, Default)]
pub struct Shape {
    /// Those with submodules.
    pub submodules: Submodules,
    /// Those with files of LFS.
    pub lfs: Lfs,
}

/// What is wrong with a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// One word.
    pub word: &'static str,
    /// What the tree has; goes on after its name.
    pub what: String,
    /// What to set, and what one gets.
    pub remedy: Option<&'static str>,
}

/// Blocks that file systems give to files.
const BLOCK: u64 = 4096;
/// How many paths are named.
const NAMED: usize = 5;

impl Tree {
    /// Of a commit in the user's repository, with sizes.
    pub fn of_user(user: &UserRepo, commit: &CommitId) -> Result<Self, GitError> {
        Self::of(&|| user.git(), commit, true)
    }

    /// Of a commit in the mirror, without sizes.
    pub fn of_mirror(mirror: &Mirror, commit: &CommitId) -> Result<Self, GitError> {
        Self::of(&|| mirror.git(), commit, false)
    }

    fn of(git: &dyn Fn() -> Query, commit: &CommitId, sizes: bool) -> Result<Self, GitError> {
        let query = git().args(["ls-tree", "-r", "-z", "--full-tree"]).args(sizes.then_some("-l"));
        let answer = done(query.arg(commit.as_str()), "ls-tree")?;
        let mut tree = Self::default();
        let mut attributes: Vec<(String, String)> = Vec::new();
        for entry in answer.stdout.split(|byte| *byte == 0).filter(|entry| !entry.is_empty()) {
            let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
            let (facts, path) = (String::from_utf8_lossy(&entry[..tab]), &entry[tab + 1..]);
            let mut facts = facts.split_ascii_whitespace();
            let mode = facts.next().and_then(|mode| u32::from_str_radix(mode, 8).ok());
            let (_, id, size) = (facts.next(), facts.next(), facts.next());
            let shown = || String::from_utf8_lossy(path).escape_debug().to_string();
            if is_reserved(path) {
                tree.reserved.push(shown());
            }
            match mode {
                Some(SUBMODULE) => tree.submodules.push(shown()),
                Some(SYMLINK) => tree.bytes += BLOCK,
                _ => {
                    let size: u64 = size.and_then(|size| size.parse().ok()).unwrap_or(0);
                    tree.bytes += size.div_ceil(BLOCK) * BLOCK;
                    if path.rsplit(|byte| *byte == b'/').next() == Some(b".gitattributes") {
                        attributes.push((id.unwrap_or_default().to_owned(), shown()));
                    }
                }
            }
        }
        if !sizes {
            tree.bytes = 0;
        }
        tree.lfs = lfs(git, attributes)?;
        Ok(tree)
    }

    /// What is wrong with it, if agents are to work in it.
    pub fn unfit(&self, shape: Shape) -> Vec<Unfit> {
        let mut unfit = Vec::new();
        if !self.reserved.is_empty() {
            let what =
                format!("has names that only kew may use: {}", text::short_list(&self.reserved, NAMED));
            unfit.push(Unfit { word: "planted", what, remedy: None });
        }
        if shape.submodules == Submodules::Refuse && !self.submodules.is_empty() {
            let what = format!(
                "has submodules, which kew does not fetch: {}",
                text::short_list(&self.submodules, NAMED)
            );
            let remedy = "`checkout.submodules = \"empty\"` in the settings leaves their folders empty";
            unfit.push(Unfit { word: "submodules", what, remedy: Some(remedy) });
        }
        if shape.lfs == Lfs::Refuse && !self.lfs.is_empty() {
            let what = format!(
                "gives files to Git LFS, which kew does not fetch, by {}",
                text::short_list(&self.lfs, NAMED)
            );
            let remedy = "`checkout.lfs = \"pointers\"` in the settings leaves their pointer files";
            unfit.push(Unfit { word: "lfs", what, remedy: Some(remedy) });
        }
        unfit
    }
}

/// Those of the attribute files (id, path) that name the filter of LFS.
fn lfs(git: &dyn Fn() -> Query, files: Vec<(String, String)>) -> Result<Vec<String>, GitError> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let ids: String = files.iter().map(|(id, _)| format!("{id}\n")).collect();
    let answer = done(git().args(["cat-file", "--batch=%(objectsize)"]).stdin_bytes(ids), "cat-file")?;
    let mut rest = answer.stdout.as_slice();
    let mut found = Vec::new();
    for (id, path) in files {
        let end = rest.iter().position(|byte| *byte == b'\n');
        let head = end.and_then(|end| std::str::from_utf8(&rest[..end]).ok());
        let size = head.and_then(|head| head.parse::<usize>().ok());
        let text = end.zip(size).and_then(|(end, size)| rest.get(end + 1..end + 1 + size));
        let Some(text) = text else {
            let answer = format!("no text of the object {id}");
            return Err(GitError::Answer { what: "cat-file", answer });
        };
        let names = |line: &[u8]| line.split(u8::is_ascii_whitespace).any(|word| word == b"filter=lfs");
        if text.split(|byte| *byte == b'\n').any(|line| !line.starts_with(b"#") && names(line)) {
            found.push(path);
        }
        let used = end.unwrap_or(0) + 1 + text.len() + 1;
        rest = rest.get(used..).unwrap_or_default();
    }
    Ok(found)
}

impl UserRepo {
    /// What all objects of the repository take on the disk, in bytes: a bound for any checkout's, and cheap.
    pub fn object_bytes(&self) -> Result<u64, GitError> {
        let answer = done(self.git().args(["count-objects", "-v"]), "count-objects")?.text();
        let kib = |key: &str| {
            let value = answer.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(": "));
            value.and_then(|value| value.parse::<u64>().ok()).unwrap_or(0)
        };
        Ok((kib("size") + kib("size-pack")) << 10)
    }

    /// What the objects that a commit reaches take on the disk, in bytes; dear in a long history.
    pub fn reached_bytes(&self, commit: &CommitId) -> Result<u64, GitError> {
        let query = self.git().args(["rev-list", "--disk-usage", "--objects", "--use-bitmap-index"]);
        let answer = done(query.arg(commit.as_str()), "rev-list")?.text();
        answer.parse().map_err(|_| GitError::Answer { what: "rev-list", answer })
    }
}
