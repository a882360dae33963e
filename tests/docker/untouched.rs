//! What no run may change of the user's repository: branches, HEAD, index, stash, configuration, hooks and work tree stay byte
//! for byte, every object is still there, and git finds nothing to complain about. New are `refs/kew/` and `kew/` alone.

use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt as _};

use camino::{Utf8Path, Utf8PathBuf};

use crate::rig::{git, git_command};

/// A repository before a run.
pub struct Untouched {
    dir: Utf8PathBuf,
    /// Its git directory, the shared one, and the work tree where there is one.
    roots: Vec<Utf8PathBuf>,
    files: BTreeMap<Utf8PathBuf, Facts>,
}

/// A file: mode, owner and content; of an object that it is there. Of a folder mode and owner.
type Facts = (u32, u32, Vec<u8>);

impl Untouched {
    /// As it is now.
    pub fn now(dir: &Utf8Path) -> Self {
        let ask = |what: &str| {
            let output =
                git_command(dir).args(["rev-parse", "--path-format=absolute", what]).output().unwrap();
            output
                .status
                .success()
                .then(|| Utf8PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()))
        };
        let roots: Vec<Utf8PathBuf> = ["--absolute-git-dir", "--git-common-dir", "--show-toplevel"]
            .into_iter()
            .filter_map(ask)
            .collect();
        let files = facts(&roots);
        Self { dir: dir.to_owned(), roots, files }
    }

    /// Fails unless it still is as it was.
    pub fn still(&self) {
        // A test may have taken the whole repository away.
        if self.roots.is_empty() || !self.dir.exists() {
            return;
        }
        let after = facts(&self.roots);
        for (path, before) in &self.files {
            let now = after.get(path).unwrap_or_else(|| panic!("`{path}` is gone"));
            assert!(now == before, "`{path}` is not as it was: {}", String::from_utf8_lossy(&now.2));
        }
        let new: Vec<_> =
            after.keys().filter(|path| !self.files.contains_key(*path) && !is_object(path)).collect();
        assert!(new.is_empty(), "these are new: {new:?}");
        git(&self.dir, &["fsck", "--strict", "--no-dangling"]);
    }
}

fn is_object(path: &Utf8Path) -> bool {
    path.as_str().contains("/objects/") && !path.file_name().is_some_and(|name| name.starts_with("tmp_"))
}

fn facts(roots: &[Utf8PathBuf]) -> BTreeMap<Utf8PathBuf, Facts> {
    let mut files = BTreeMap::new();
    let mut left: Vec<Utf8PathBuf> = roots.to_vec();
    while let Some(dir) = left.pop() {
        for entry in dir.read_dir_utf8().unwrap() {
            let path = entry.unwrap().into_path();
            let meta = fs::symlink_metadata(&path).unwrap();
            let kews = path.ends_with(".git/kew") || path.ends_with("refs/kew");
            // The bare ones of a test have no `.git`.
            if kews || roots.iter().any(|root| path == root.join("kew") && root.join("HEAD").exists()) {
                continue;
            }
            let content = match meta.file_type() {
                kind if kind.is_dir() => {
                    left.push(path.clone());
                    Vec::new()
                }
                kind if kind.is_symlink() => {
                    fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes()
                }
                kind if kind.is_file() && !is_object(&path) => fs::read(&path).unwrap(),
                _ => Vec::new(),
            };
            files.insert(path, (meta.mode(), meta.uid(), content));
        }
    }
    files
}

#[test]
fn docker_the_rig_sees_what_a_run_must_not_do() {
    let rig = crate::rig::Rig::new();
    let seen = |change: &dyn Fn()| {
        let before = Untouched::now(&rig.repo);
        before.still();
        change();
        std::panic::catch_unwind(|| before.still()).is_err()
    };
    assert!(seen(&|| drop(git(&rig.repo, &["config", "user.name", "x"]))));
    assert!(seen(&|| drop(git(&rig.repo, &["branch", "new"]))));
    assert!(seen(&|| drop(git(&rig.repo, &["update-ref", "refs/other", "HEAD"]))));
    assert!(seen(&|| fs::write(rig.repo.join("README"), "changed").unwrap()));
    assert!(seen(&|| drop(git(&rig.repo, &["add", "README"]))));
    assert!(seen(&|| drop(git(&rig.repo, &["stash"]))));
    assert!(!seen(&|| drop(git(&rig.repo, &["update-ref", "refs/kew/run/base", "HEAD"]))));
}
