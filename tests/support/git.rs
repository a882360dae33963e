//! Builds repositories for tests by real git, hermetic: no configuration of the machine or the user is read.

use std::{fs, os::unix::fs::PermissionsExt as _, process::Command};

use camino::{Utf8Path, Utf8PathBuf};
use kew::{
    git::{
        access::Access,
        base::UserRepo,
        checkout::{checkout, checkout_to_depth},
        collect::{self, CollectFault, CollectLimits, Collected},
        land,
        mirror::Mirror,
        refs::{self, RefName},
    },
    name::{AttemptKey, CommitId, EpicName, NodeId, RunId},
};

/// A temporary folder with a repository `user` in it.
pub struct World {
    _tmp: tempfile::TempDir,
    pub root: Utf8PathBuf,
}

/// The user's repository as kew sees it, and kew's mirror of it.
pub struct Kew {
    pub root: Utf8PathBuf,
    pub user: UserRepo,
    pub mirror: Mirror,
}

/// A git command with an identity and without configuration.
pub fn command(dir: &Utf8Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent");
    git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null").env("LC_ALL", "C");
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "tester").env(format!("GIT_{role}_EMAIL"), "tester@example.org");
    }
    let pairs = [("safe.directory", "*"), ("protocol.file.allow", "always")];
    git.env("GIT_CONFIG_COUNT", pairs.len().to_string());
    for (at, (key, value)) in pairs.iter().enumerate() {
        git.env(format!("GIT_CONFIG_KEY_{at}"), key).env(format!("GIT_CONFIG_VALUE_{at}"), value);
    }
    git
}

/// Runs git; it must succeed. Returns its stdout, trimmed.
pub fn git(dir: &Utf8Path, args: &[&str]) -> String {
    let output = command(dir).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Writes a file, folders first.
pub fn write(dir: &Utf8Path, path: &str, text: &str) {
    let path = dir.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes a file and commits it on what HEAD names.
pub fn commit(dir: &Utf8Path, path: &str, text: &str) -> CommitId {
    write(dir, path, text);
    git(dir, &["add", "-f", "--", path]);
    git(dir, &["commit", "-q", "-m", &format!("write {path}")]);
    head(dir)
}

pub fn head(dir: &Utf8Path) -> CommitId {
    rev(dir, "HEAD")
}

pub fn rev(dir: &Utf8Path, name: &str) -> CommitId {
    CommitId::new(git(dir, &["rev-parse", "--verify", name])).unwrap()
}

pub fn node(id: &str) -> NodeId {
    NodeId::new(id).unwrap()
}

pub fn key(id: &str, attempt: u32) -> AttemptKey {
    AttemptKey { run: RunId::new("20261201-093000-k3f9").unwrap(), node: node(id), attempt }
}

/// The branch of node `n` of epic `e`.
pub fn branch() -> RefName {
    refs::branch(&EpicName::new("e").unwrap(), &node("n"))
}

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

impl World {
    /// `user` has a branch `main` of two commits.
    pub fn new() -> Self {
        Self::with_format("sha1")
    }

    pub fn with_format(format: &str) -> Self {
        let world = Self::empty(format);
        commit(&world.user(), "README", "one\n");
        commit(&world.user(), "src/lib.rs", "fn lib() {}\n");
        world
    }

    /// `user` has no commit.
    pub fn empty(format: &str) -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(tmp.path()).unwrap().canonicalize_utf8().unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        git(
            &root,
            &["init", "-q", "-b", "main", "--template=", &format!("--object-format={format}"), "user"],
        );
        Self { _tmp: tmp, root }
    }

    pub fn user(&self) -> Utf8PathBuf {
        self.root.join("user")
    }

    pub fn open(&self) -> Kew {
        self.open_at(&self.user())
    }

    pub fn open_at(&self, dir: &Utf8Path) -> Kew {
        let user = UserRepo::open(Some(dir)).unwrap();
        fs::create_dir_all(self.root.join("kew")).unwrap();
        let context = user.context(&self.root.join("kew/git")).unwrap();
        let mirror = Mirror::open_or_create(&context, &self.root.join("kew/mirror"), user.format()).unwrap();
        Kew { root: self.root.join("kew"), user, mirror }
    }
}

impl Kew {
    /// The commit that HEAD of the user's repository names, brought into the mirror.
    pub fn base(&self) -> CommitId {
        let base = self.user.resolve(None).unwrap();
        self.mirror.ensure(&self.user, &base).unwrap();
        base
    }

    /// A checkout named `name`.
    pub fn checkout(&self, input: &CommitId, name: &str) -> Utf8PathBuf {
        let dest = self.root.join(name);
        checkout(&self.mirror, input, &dest, &branch(), Access::Everyone).unwrap();
        dest
    }

    /// A checkout with only the newest commits.
    pub fn checkout_to_depth(&self, input: &CommitId, name: &str, depth: u32) -> Utf8PathBuf {
        let (dest, depth) = (self.root.join(name), std::num::NonZeroU32::new(depth));
        checkout_to_depth(&self.mirror, input, &dest, &branch(), Access::Everyone, depth).unwrap();
        dest
    }

    /// Runs the script over a checkout and judges its answer.
    pub fn collect(&self, checkout: &Utf8Path, input: &CommitId) -> Result<Collected, CollectFault> {
        self.collect_within(checkout, input, &CollectLimits::default())
    }

    pub fn collect_within(
        &self,
        checkout: &Utf8Path,
        input: &CommitId,
        limits: &CollectLimits,
    ) -> Result<Collected, CollectFault> {
        let answer = self.root.join("answer");
        let output = Command::new("/bin/sh")
            .args(collect::script_args(input, &branch(), limits))
            .arg(checkout)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("HOME", "/nonexistent")
            .current_dir("/")
            .stdout(fs::File::create(&answer).unwrap())
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        if !output.status.success() {
            let code = output.status.code().unwrap();
            return Err(
                collect::script_fault(code, &stderr).unwrap_or_else(|| panic!("exit {code}: {stderr}"))
            );
        }
        self.accept(&answer, input, limits)
    }

    pub fn accept(
        &self,
        answer: &Utf8Path,
        input: &CommitId,
        limits: &CollectLimits,
    ) -> Result<Collected, CollectFault> {
        let quarantine = self.quarantine();
        if quarantine.exists() {
            fs::remove_dir_all(&quarantine).unwrap();
        }
        collect::accept(answer, &self.mirror, &quarantine, input, limits)
    }

    pub fn quarantine(&self) -> Utf8PathBuf {
        self.root.join("quarantine")
    }

    pub fn land(&self, input: &CommitId, head: &CommitId, name: &RefName) {
        land::land(&self.user, &self.mirror, &self.quarantine(), input, head, name).unwrap();
    }
}
