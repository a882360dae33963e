//! A repository, a home and a PATH with git alone; what the program printed and how it ended.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
};

use camino::{Utf8Path, Utf8PathBuf};

/// A plan of one plain job.
pub const ONE: &str = "version = 1\nepic.name = \"e\"\n[nodes.a]\nrunner = \"shell\"\nprompt = \"true\"\n";
/// A plan of one agent.
pub const AGENT: &str = "version = 1\nepic.name = \"e\"\n[nodes.a]\nrunner = \"claude-code\"\nmodel = \"claude-sonnet-4-5\"\nprompt = \"work\"\n";
/// Images for all runners.
pub const IMAGES: &str =
    "[sandbox.images]\nshell = \"kew-shell:latest\"\nclaude-code = \"kew-agent:latest\"\n";

/// The repository of the project itself.
pub fn project() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub struct Rig {
    _tmp: tempfile::TempDir,
    pub root: Utf8PathBuf,
    pub repo: Utf8PathBuf,
    env: BTreeMap<String, String>,
}

/// How a call ended.
#[derive(Debug)]
pub struct Done {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Rig {
    /// A repository with one commit, settings with images, and `plan.toml`.
    pub fn new() -> Self {
        let rig = Self::empty();
        rig.write("kew.toml", IMAGES);
        rig.write("plan.toml", ONE);
        rig.commit();
        rig
    }

    /// A repository without a commit.
    pub fn empty() -> Self {
        let rig = Self::bare();
        rig.git(&["init", "-q", "-b", "main", "--template="]);
        rig
    }

    /// A folder that is no repository.
    pub fn bare() -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let root = Utf8Path::from_path(tmp.path()).unwrap().canonicalize_utf8().unwrap();
        let repo = root.join("repo");
        for dir in ["repo", "home", "bin"] {
            fs::create_dir(root.join(dir)).unwrap();
        }
        let path = std::env::var_os("PATH").unwrap();
        let git = std::env::split_paths(&path).map(|dir| dir.join("git")).find(|git| git.is_file());
        std::os::unix::fs::symlink(git.expect("git is installed"), root.join("bin/git")).unwrap();
        let env = [
            ("PATH", root.join("bin").into_string()),
            ("HOME", root.join("home").into_string()),
            ("LC_ALL", "C".to_owned()),
            ("DOCKER_HOST", format!("unix://{root}/nowhere.sock")),
            ("RUST_BACKTRACE", "1".to_owned()),
        ];
        let env = env.map(|(name, value)| (name.to_owned(), value)).into();
        Self { _tmp: tmp, root, repo, env }
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.env.remove(name);
        self
    }

    /// Writes a file of the repository.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.repo.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes the user's own settings.
    pub fn user(&self, text: &str) {
        let dir = self.root.join("home/.config/kew");
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("config.toml"), text).unwrap();
    }

    pub fn commit(&self) {
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", "all"]);
    }

    pub fn git(&self, args: &[&str]) -> String {
        let mut git = Command::new(self.root.join("bin/git"));
        git.current_dir(&self.repo).env_clear().env("PATH", self.root.join("bin"));
        git.env("HOME", self.root.join("nobody")).env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{role}_NAME"), "t").env(format!("GIT_{role}_EMAIL"), "t@example.org");
        }
        let output = git.args(args).output().unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut kew = Command::new(env!("CARGO_BIN_EXE_kew"));
        kew.current_dir(&self.repo).env_clear().envs(&self.env).args(args).stdin(Stdio::null());
        kew
    }

    pub fn kew(&self, args: &[&str]) -> Done {
        let output = self.command(args).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("kew prints UTF-8");
        let code = output.status.code().unwrap_or_else(|| panic!("{args:?}: {:?}", output.status));
        let done = Done { code, out: text(output.stdout), err: text(output.stderr) };
        for stream in [&done.out, &done.err] {
            for bad in ["panicked", "backtrace", "RUST_BACKTRACE", ".cargo/", "src/cli", "unwrap()", "Err("] {
                assert!(!stream.contains(bad), "{args:?}: `{bad}` in\n{stream}");
            }
        }
        done
    }

    /// A call that must be refused as wrong use, with all of these words in what it says.
    pub fn refused(&self, args: &[&str], words: &[&str]) -> String {
        let done = self.kew(args);
        assert_eq!((done.code, done.out.as_str()), (2, ""), "{args:?}: {}", done.err);
        for word in words {
            assert!(done.err.contains(word), "{args:?}: `{word}` is not in\n{}", done.err);
        }
        done.err
    }

    /// Every file under the repository, `.git` included, with its size, time and link count.
    pub fn listing(&self) -> Vec<String> {
        use std::os::unix::fs::MetadataExt as _;
        let (mut found, mut open) = (Vec::new(), vec![self.root.clone()]);
        while let Some(dir) = open.pop() {
            for entry in dir.read_dir_utf8().unwrap().map(Result::unwrap) {
                let meta = fs::symlink_metadata(entry.path()).unwrap();
                let (kind, mtime) = (meta.file_type(), (meta.mtime(), meta.mtime_nsec()));
                found.push(format!("{} {kind:?} {} {mtime:?} {}", entry.path(), meta.len(), meta.ino()));
                if meta.is_dir() {
                    open.push(entry.path().to_owned());
                }
            }
        }
        found.sort();
        found
    }

    /// The text with what differs from one machine and run to the next replaced.
    pub fn filtered(&self, text: &str) -> String {
        let head = self.git(&["rev-parse", "HEAD"]);
        text.replace(&head, "<base>").replace(&head[..10], "<base>").replace(self.root.as_str(), "<root>")
    }
}
