//! A docker engine of the test's own whose containers' users are other users of the host (`--userns-remap`).
//!
//! It lives in namespaces of its own for network, mounts and processes: it cannot touch docker's bridge of the host, leaves
//! no mount behind, and all of it ends with its first process. The entries in `/etc/subuid` and `/etc/subgid` that the
//! remapping takes are mounted over the host's files in there; the host's do not change. Takes root.

use std::{
    fs,
    os::unix::fs::chown,
    process::{Child, Command, Stdio},
};

use camino::{Utf8Path, Utf8PathBuf};

use crate::rig::until;

/// Host uid of the containers' root.
pub const FIRST: u32 = 400_000;

/// A running engine with kew's `shell` and `collector` images.
pub struct Remapped {
    engine: Child,
    dir: Utf8PathBuf,
}

/// Starts the engine in its namespaces; `$1` is its folder. A system containerd must not be found: it would run the containers
/// in the host's namespaces.
const START: &str = r#"set -e
mount -t tmpfs tmpfs /run/containerd 2>/dev/null || { mkdir -p /run/containerd; mount -t tmpfs tmpfs /run/containerd; }
for file in subuid subgid; do
    echo "daemon:400000:65536" >"$1/$file"
    [ -e /etc/$file ] || : >/etc/$file
    mount --bind "$1/$file" /etc/$file
done
echo "{}" >"$1/daemon.json"
ip link set lo up
exec dockerd --userns-remap=daemon:daemon --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" \
    -H "unix://$1/docker.sock" --iptables=false --bridge=none --config-file "$1/daemon.json"
"#;

impl Remapped {
    /// Starts one below `root`; members of the host's group `group` may talk to it.
    pub fn start(root: &Utf8Path, group: u32) -> Self {
        let dir = root.join("engine");
        fs::create_dir(&dir).unwrap();
        let log = fs::File::create(dir.join("log")).unwrap();
        // The kernel ends `unshare` when this thread ends, however that is; `unshare` ends the engine; and with the engine, the
        // first process of its namespace, ends every container.
        let engine = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "unshare", "--net", "--mount", "--propagation", "private"])
            .args(["--pid", "--mount-proc", "--fork", "--kill-child=SIGKILL", "--", "/bin/sh", "-c", START])
            .args(["engine", dir.as_str()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut started = Self { engine, dir };
        until("an engine of the test's own", || {
            let ended = started.engine.try_wait().unwrap();
            assert!(ended.is_none(), "{}", fs::read_to_string(started.dir.join("log")).unwrap());
            started.command(&["info"]).output().unwrap().status.success().then_some(())
        });
        chown(started.dir.join("docker.sock"), None, Some(group)).unwrap();
        started.load(&["kew-shell:latest", "kew-collector:latest"]);
        started
    }

    /// Its endpoint, for `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}/docker.sock", self.dir)
    }

    /// A docker command on it that must succeed; its stdout.
    pub fn docker(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.args(["--host", &self.host()]).args(args).stdin(Stdio::null());
        command
    }

    fn load(&self, images: &[&str]) {
        let mut save =
            Command::new("docker").arg("save").args(images).stdout(Stdio::piped()).spawn().unwrap();
        let images = save.stdout.take().unwrap();
        let loaded = self.command(&["load", "--quiet"]).stdin(images).output().unwrap();
        assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
        assert!(save.wait().unwrap().success());
    }
}

impl Drop for Remapped {
    fn drop(&mut self) {
        let _ = self.engine.kill();
        let _ = self.engine.wait();
        // Its mounts go with its last process, which may take a moment longer.
        for _ in 0..50 {
            if fs::remove_dir_all(&self.dir).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
    }
}
