//! A user with a repository, a settings file and the real binary; and what must be true after every run.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use camino::{Utf8Path, Utf8PathBuf};
use serde_json::Value;

use crate::untouched::Untouched;

/// A user of kew with a repository of one commit.
pub struct Rig {
    _tmp: tempfile::TempDir,
    /// Everything of this test.
    pub root: Utf8PathBuf,
    /// The repository.
    pub repo: Utf8PathBuf,
    /// The folder that checkouts are made in.
    pub checkouts: Utf8PathBuf,
    /// Variables beside the usual ones.
    pub env: BTreeMap<String, String>,
}

/// A run that ended.
pub struct Ran {
    /// Exit code.
    pub code: i32,
    /// Events of `--format json`.
    pub events: Vec<Value>,
    /// People's text.
    pub stderr: String,
}

/// `(wall clock)` ceiling of anything that should be over by then; far above the usual.
pub const CEILING: Duration = Duration::from_secs(60);

impl Rig {
    /// With the images of this project.
    pub fn new() -> Self {
        Self::with_settings("")
    }

    /// With more lines under `[sandbox]` of the user's settings.
    pub fn with_settings(sandbox: &str) -> Self {
        let tmp = tempfile::Builder::new().prefix("kewtest-").tempdir().unwrap();
        let root = Utf8PathBuf::from_path_buf(tmp.path().canonicalize().unwrap()).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o755)).unwrap();
        let rig = Self {
            repo: root.join("repo"),
            checkouts: root.join("checkouts"),
            root,
            env: BTreeMap::new(),
            _tmp: tmp,
        };
        fs::create_dir(&rig.repo).unwrap();
        fs::create_dir(&rig.checkouts).unwrap();
        rig.settings(&format!(
            "[sandbox]\ncheckout_dir = \"{}\"\n{sandbox}\n[sandbox.images]\nshell = \"kew-shell:latest\"\nclaude-code = \"kew-agent:latest\"\n",
            rig.checkouts
        ));
        git(&rig.repo, &["init", "-q", "-b", "main"]);
        fs::write(rig.repo.join("README"), "a repository\n").unwrap();
        git(&rig.repo, &["add", "."]);
        git(&rig.repo, &["commit", "-qm", "Begin"]);
        rig
    }

    /// Writes the user's settings file.
    pub fn settings(&self, text: &str) {
        fs::create_dir_all(self.root.join("config/kew")).unwrap();
        fs::write(self.root.join("config/kew/config.toml"), text).unwrap();
    }

    /// Writes a plan outside of the repository; nodes are `(id, keys and prompt)`.
    pub fn plan(&self, text: &str) -> Utf8PathBuf {
        let path = self.root.join("plan.toml");
        let head = "version = 1\n[epic]\nname = \"test\"\n[defaults]\nrunner = \"shell\"\nnetwork = \"none\"\ntimeout = \"2m\"\n";
        fs::write(&path, format!("{head}{text}")).unwrap();
        path
    }

    /// The program with a cleared environment.
    pub fn command(&self, binary: &str, args: &[&str]) -> Command {
        let mut command = Command::new(binary);
        command.env_clear().current_dir(&self.repo).stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", &self.root);
        command.env("XDG_CONFIG_HOME", self.root.join("config"));
        // The tests' own docker commands ask this engine too.
        command.envs(std::env::var_os("DOCKER_HOST").map(|host| ("DOCKER_HOST", host))).envs(&self.env);
        command.args(args);
        command
    }

    /// Runs the program to its end.
    pub fn kew(&self, args: &[&str]) -> Output {
        self.command(env!("CARGO_BIN_EXE_kew"), args).output().unwrap()
    }

    /// Runs a plan to its end, checks that nothing is left, and gives what was told.
    pub fn run(&self, plan: &Utf8Path) -> Ran {
        self.run_in(&self.repo, plan, &[])
    }

    /// The same from another folder, with more arguments.
    pub fn run_in(&self, dir: &Utf8Path, plan: &Utf8Path, more: &[&str]) -> Ran {
        let args = [&["run", plan.as_str(), "--format", "json"], more].concat();
        let before = Untouched::now(dir);
        let output = self.command(env!("CARGO_BIN_EXE_kew"), &args).current_dir(dir).output().unwrap();
        before.still();
        let ran = Ran::of(&output);
        self.nothing_left(&ran);
        ran
    }

    /// Starts a plan and leaves it running.
    pub fn start(&self, plan: &Utf8Path) -> Running {
        let out = fs::File::create(self.root.join("out")).unwrap();
        let err = fs::File::create(self.root.join("err")).unwrap();
        let mut command =
            self.command(env!("CARGO_BIN_EXE_kew"), &["run", plan.as_str(), "--format", "json"]);
        let before = Untouched::now(&self.repo);
        let child = command.stdout(out).stderr(err).spawn().unwrap();
        Running { child, root: self.root.clone(), before }
    }

    /// No container of the run in any state, no checkout, no lock.
    pub fn nothing_left(&self, ran: &Ran) {
        if let Some(run) = ran.run_id() {
            assert_eq!(containers(&format!("kew.run={run}")), "", "containers are left");
        }
        self.no_checkouts();
    }

    /// No folder of a run.
    pub fn no_checkouts(&self) {
        let left: Vec<_> =
            fs::read_dir(&self.checkouts).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(left.is_empty(), "folders are left: {left:?}");
        let locks = self.repo.join(".git/kew/locks");
        if locks.exists() {
            let left: Vec<_> =
                fs::read_dir(&locks).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert!(left.is_empty(), "locks are left: {left:?}");
        }
    }

    /// What a node wrote to stdout: the text of its output lines.
    pub fn output(&self, run: &str, node: &str) -> String {
        let log = self.repo.join(format!(".git/kew/runs/{run}/{node}/1/stdout.log"));
        let text = fs::read_to_string(&log).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter_map(|event| Some(format!("{}\n", event.get("text")?.as_str()?))).collect()
    }
}

/// A run that goes on.
pub struct Running {
    /// The process.
    pub child: Child,
    root: Utf8PathBuf,
    before: Untouched,
}

impl Running {
    /// Events so far.
    pub fn events(&self) -> Vec<Value> {
        parse(&fs::read_to_string(self.root.join("out")).unwrap())
    }

    /// Waits until a node's container runs; gives the run's id.
    pub fn wait_for_container(&self, node: &str) -> String {
        until(&format!("a container of `{node}`"), || {
            let run = self.events().first()?.get("run")?.as_str()?.to_owned();
            let filter = format!("label=kew.node={node}");
            let names =
                docker(&["ps", "-q", "--filter", &filter, "--filter", &format!("label=kew.run={run}")]);
            (!names.is_empty()).then_some(run)
        })
    }

    /// Sends a signal.
    pub fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &pid]).status().unwrap().success());
    }

    /// Waits for the end.
    pub fn end(mut self) -> Ran {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(begun.elapsed() < CEILING, "kew does not end");
            std::thread::sleep(Duration::from_millis(50));
        };
        self.before.still();
        let stderr = fs::read_to_string(self.root.join("err")).unwrap();
        Ran { code: status.code().unwrap_or(-1), events: self.events(), stderr }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ran {
    fn of(output: &Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            events: parse(&String::from_utf8_lossy(&output.stdout)),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The run's id.
    pub fn run_id(&self) -> Option<&str> {
        self.events.first()?.get("run")?.as_str()
    }

    /// Events of a type about a node.
    pub fn of_node(&self, kind: &str, node: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["type"] == kind && event["node"] == node).collect()
    }

    /// Whether a node ever started.
    pub fn started(&self, node: &str) -> bool {
        !self.of_node("node-started", node).is_empty()
    }

    /// How a node's attempt ended.
    pub fn ended(&self, node: &str) -> &Value {
        match self.of_node("node-ended", node).as_slice() {
            [one] => one,
            other => panic!("`{node}` ended {} times\n{}\n{:#?}", other.len(), self.stderr, self.events),
        }
    }

    /// A node's outcome and reason in one text.
    pub fn outcome(&self, node: &str) -> String {
        let ended = self.ended(node);
        match ended["reason"].as_str() {
            Some(reason) => format!("{}: {reason}", ended["outcome"].as_str().unwrap()),
            None => ended["outcome"].as_str().unwrap().to_owned(),
        }
    }

    /// Fails unless the exit code is this one.
    pub fn expect(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{}\n{:#?}", self.stderr, self.events);
        self
    }
}

fn parse(text: &str) -> Vec<Value> {
    // The last line may be half-written while kew runs.
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Waits for something that must come.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < CEILING, "{what} did not come");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A docker command that must succeed; its stdout.
pub fn docker(args: &[&str]) -> String {
    let output = Command::new("docker").args(args).output().unwrap();
    assert!(
        output.status.success(),
        "docker {args:?}: {}\n  help: these tests need an engine with kew's images; `docker/setup.sh` makes them",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// Containers in any state with a label.
pub fn containers(label: &str) -> String {
    docker(&["ps", "-aq", "--filter", &format!("label={label}")])
}

/// A git command with an identity and without configuration; it must succeed.
pub fn git(dir: &Utf8Path, args: &[&str]) -> String {
    let output = git_command(dir).args(args).output().unwrap();
    assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// The same, not yet run.
pub fn git_command(dir: &Utf8Path) -> Command {
    let mut git = Command::new("git");
    git.current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/nonexistent");
    git.envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("GIT_CONFIG_COUNT", "1")]);
    git.envs([("GIT_CONFIG_KEY_0", "safe.directory"), ("GIT_CONFIG_VALUE_0", "*")]);
    for role in ["AUTHOR", "COMMITTER"] {
        git.env(format!("GIT_{role}_NAME"), "tester").env(format!("GIT_{role}_EMAIL"), "tester@example.org");
    }
    git
}

/// A bash prompt as a TOML value.
pub fn prompt(script: &str) -> String {
    format!("prompt = {}", toml::Value::String(script.to_owned()))
}
