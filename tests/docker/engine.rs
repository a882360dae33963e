//! What a run does where a part of the way out is missing or wrong: it stops before its first container, and says what
//! mends it. On an engine of this test's own, in a network namespace of its own, so that nobody else's is broken.

use std::{
    fs,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use camino::Utf8PathBuf;

use crate::rig::{Ran, Rig, docker, prompt, until};

/// An engine of its own; gone, with its data and its namespace, with this value.
struct Own {
    root: tempfile::TempDir,
    netns: String,
    daemon: Option<Child>,
}

impl Own {
    fn start() -> Self {
        let root = tempfile::Builder::new().prefix("kewtest-engine-").tempdir_in("/var/tmp").unwrap();
        let netns = format!("kewtest-{}", std::process::id());
        ip(&["netns", "add", &netns]);
        ip(&["-n", &netns, "link", "set", "lo", "up"]);
        let mut own = Self { root, netns, daemon: None };
        own.daemon_up();
        let tar = own.path("images.tar");
        docker(&["save", "-o", tar.as_str(), "kew-shell", "kew-collector", "kew-gateway"]);
        own.docker(&["load", "-q", "-i", tar.as_str()]);
        fs::remove_file(tar).unwrap();
        own
    }

    fn path(&self, name: &str) -> Utf8PathBuf {
        Utf8PathBuf::from_path_buf(self.root.path().join(name)).unwrap()
    }

    fn host(&self) -> String {
        format!("unix://{}", self.path("sock"))
    }

    fn daemon_up(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut daemon = Command::new("nsenter");
        daemon.arg(format!("--net=/run/netns/{}", self.netns)).arg("dockerd");
        for (flag, name) in [("--data-root", "data"), ("--exec-root", "exec"), ("--pidfile", "pid")] {
            daemon.args([flag, self.path(name).as_str()]);
        }
        daemon
            .args(["--shutdown-timeout", "2", "--host", &self.host()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.daemon = Some(daemon.spawn().unwrap());
        until("the engine", || self.try_docker(&["version"]).then_some(()));
    }

    fn daemon_down(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = Command::new("kill").args(["-s", "TERM", &daemon.id().to_string()]).status();
            let _ = daemon.wait();
        }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("docker");
        command.args(args).env("DOCKER_HOST", self.host());
        command
    }

    fn docker(&self, args: &[&str]) -> String {
        let output = self.command(args).output().unwrap();
        assert!(output.status.success(), "docker {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn try_docker(&self, args: &[&str]) -> bool {
        self.command(args).output().unwrap().status.success()
    }

    /// The host's firewall, which here is the namespace's.
    fn iptables(&self, args: &[&str]) {
        let ns = format!("--net=/run/netns/{}", self.netns);
        assert!(Command::new("nsenter").arg(ns).arg("iptables").args(args).status().unwrap().success());
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        if let Ok(ids) = self.command(&["ps", "-aq"]).output() {
            let ids = String::from_utf8_lossy(&ids.stdout).into_owned();
            let _ = self.command(&["rm", "-f"]).args(ids.split_whitespace()).output();
        }
        self.daemon_down();
        let _ = Command::new("ip").args(["netns", "del", &self.netns]).status();
        // What the engine had mounted below.
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let below = self.root.path().to_str().unwrap_or("/nonexistent").to_owned();
        for mount in
            mounts.lines().rev().filter_map(|line| line.split(' ').nth(1)).filter(|at| at.starts_with(&below))
        {
            let _ = Command::new("umount").args(["-l", mount]).status();
        }
    }
}

fn ip(args: &[&str]) {
    assert!(Command::new("ip").args(args).status().unwrap().success(), "ip {args:?}");
}

/// A user of that engine, who allows one host.
struct User<'a> {
    own: &'a Own,
    rig: Rig,
    plan: Utf8PathBuf,
}

impl<'a> User<'a> {
    fn new(own: &'a Own, script: &str) -> Self {
        let mut rig = Rig::with_settings("allow = [\"good.example\"]");
        rig.env.insert("DOCKER_HOST".into(), own.host());
        let plan = rig.root.join("net.toml");
        let head = "version = 1\n[epic]\nname = \"net\"\n[defaults]\nrunner = \"shell\"\ntimeout = \"1m\"\n";
        fs::write(&plan, format!("{head}[nodes.a]\n{}\n", prompt(script))).unwrap();
        Self { own, rig, plan }
    }

    fn network(&self, what: &str) -> (i32, String) {
        let done = self.rig.kew(&["sandbox", "network", what]);
        let text = [done.stdout, done.stderr].concat();
        (done.status.code().unwrap(), String::from_utf8_lossy(&text).into_owned())
    }

    fn up(&self) {
        let (code, text) = self.network("up");
        assert_eq!(code, 0, "{text}");
    }

    fn run(&self) -> Ran {
        self.rig.run(&self.plan)
    }

    /// The run begins nothing, says this, and names the command.
    #[track_caller]
    fn refused(&self, says: &str) {
        let ran = self.run();
        assert_eq!(ran.code, 4, "{says}: {}", ran.stderr);
        assert!(
            ran.stderr.contains(says) && ran.stderr.contains("kew sandbox network"),
            "{says}: {}",
            ran.stderr
        );
        assert!(ran.events.is_empty(), "{says}: {:?}", ran.events);
        assert_eq!(self.own.docker(&["ps", "-aq", "--filter", "label=kew.run"]), "");
    }
}

/// A server outside under the allowed name, so that a resolver answers for it.
fn outside(own: &Own) {
    let double = "use IO::Socket::INET; $s = IO::Socket::INET->new(LocalPort => 443, Listen => 9) or die; while ($c = $s->accept) { sysread $c, $x, 4096; print $c \"outside\\n\"; close $c }";
    let mut args =
        vec!["run", "-d", "--name", "outside", "--network", "kew-egress", "--network-alias", "good.example"];
    args.extend([
        "--sysctl",
        "net.ipv4.ip_unprivileged_port_start=0",
        "--entrypoint",
        "perl",
        "kew-gateway",
        "-e",
        double,
    ]);
    own.docker(&args);
}

/// Asks by TLS, tells what a handshake that got somewhere looks like: the server outside speaks none.
const ASK: &str = "curl -skm 4 https://good.example/; case $? in 35) echo answered;; *) echo nothing;; esac";

#[test]
fn docker_nothing_runs_where_a_part_of_the_way_is_missing_or_wrong() {
    let mut own = Own::start();
    {
        let user = User::new(&own, "true");
        user.refused("the network `kew-allowlist` does not exist");
        let (code, text) = user.network("status");
        assert!(code == 4 && text.contains("FAIL kew-allowlist"), "{text}");

        // Somebody else's networks of that name are neither used nor replaced.
        for (args, says) in [
            (&["--label", "kew.net=2"][..], "it is not internal"),
            (&["--internal"], "it has no label"),
            (&["--internal", "--label", "kew.net=2"], "its option"),
        ] {
            own.docker(&[&["network", "create"], args, &["kew-allowlist"]].concat());
            user.refused(says);
            let (code, text) = user.network("up");
            assert!(code == 4 && text.contains(says) && text.contains("docker network rm"), "{text}");
            own.docker(&["network", "rm", "kew-allowlist"]);
        }

        // An earlier kew's is replaced, unless somebody is on it.
        own.docker(&["network", "create", "--internal", "--label", "kew.net=1", "kew-allowlist"]);
        user.refused("made by an earlier kew");
        own.docker(&[
            "run",
            "-d",
            "--name",
            "old",
            "--network",
            "kew-allowlist",
            "--entrypoint",
            "sleep",
            "kew-shell",
            "60",
        ]);
        assert_eq!(user.network("up").0, 4);
        own.docker(&["rm", "-f", "old"]);
        user.up();
        let again = user.network("up");
        assert!(again.1.contains("up to date"), "{}", again.1);

        // A name that nobody answers for: here is no resolver at all.
        user.refused_by_resolver();
        outside(&own);
        user.run().expect(0);

        own.docker(&["stop", "-t", "1", "kew-gateway"]);
        user.refused("does not run");
        user.up();
        // A server of it that dies takes it along; it comes back with nothing allowed. The shell dies with it, too.
        own.try_docker(&[
            "exec",
            "kew-gateway",
            "sh",
            "-c",
            "kill $(grep -l ^haproxy /proc/[0-9]*/comm | cut -d/ -f3)",
        ]);
        user.up();
        user.run().expect(0);

        own.docker(&["rm", "-f", "kew-gateway"]);
        user.refused("`kew-gateway` does not exist");
        own.docker(&[
            "run",
            "-d",
            "--name",
            "kew-gateway",
            "--network",
            "kew-allowlist",
            "--entrypoint",
            "sleep",
            "kew-shell",
            "60",
        ]);
        user.refused("is not the one that kew makes");
        assert_eq!(user.network("up").0, 4);
        own.docker(&["rm", "-f", "kew-gateway"]);
        user.up();
    }
    lost_on_the_way(&own);
    restarted(&mut own);
}

impl User<'_> {
    fn refused_by_resolver(&self) {
        let ran = self.run();
        assert_eq!(ran.code, 4, "{}", ran.stderr);
        assert!(ran.stderr.contains("resolver gives no answer for `good.example`"), "{}", ran.stderr);
        assert!(ran.events.is_empty(), "{:?}", ran.events);
    }
}

/// While a node runs: rules that are lost, and a gateway that starts again. Both close, and the node says so.
fn lost_on_the_way(own: &Own) {
    let user = User::new(
        own,
        &format!("{ASK}; touch first; while [ ! -e /work/go ]; do sleep 0.1; done; {ASK}; exit 1"),
    );
    for what in ["rules", "gateway"] {
        let running = user.rig.start(&user.plan);
        let work = until("the first answer", || {
            let found = own.docker(&["ps", "-q", "--filter", "label=kew.node=a"]);
            let id = found.lines().next()?.to_owned();
            let mounts = own.docker(&["inspect", "-f", "{{range .Mounts}}{{.Source}}{{end}}", &id]);
            fs::metadata(format!("{mounts}/first")).ok().map(|_| mounts)
        });
        match what {
            "rules" => own.iptables(&["-F", "KEW-EGRESS"]),
            _ => {
                own.docker(&["restart", "-t", "1", "kew-gateway"]);
                thread::sleep(Duration::from_secs(1));
            }
        }
        fs::write(format!("{work}/go"), "").unwrap();
        let ran = running.end();
        ran.expect(1);
        let seen = user.rig.output(ran.run_id().unwrap(), "a");
        assert_eq!(
            seen,
            if what == "rules" { "answered\nnothing\n" } else { "answered\nanswered\n" },
            "{what}"
        );
        if what == "rules" {
            user.refused("does not reach it");
        } else {
            // Closed by the gateway, which knows nobody now.
            assert!(
                ran.outcome("a").contains("the gateway was started again while it ran"),
                "{}",
                ran.outcome("a")
            );
            let log = own.docker(&["logs", "outside"]);
            assert_eq!(log, "");
        }
        user.up();
    }
}

/// The engine starts again: the gateway comes back with it, and allows nothing but what is leased anew. Without the rules,
/// as after a reboot, nobody reaches it.
fn restarted(own: &mut Own) {
    own.daemon_down();
    own.iptables(&["-F"]);
    own.daemon_up();
    let own = &*own;
    own.docker(&["start", "outside"]);
    let user = User::new(own, ASK);
    user.refused("does not reach it");
    user.up();
    let ran = user.run();
    ran.expect(0);
    assert_eq!(user.rig.output(ran.run_id().unwrap(), "a"), "answered\n");
    let (code, text) = user.network("down");
    assert!(code == 4, "somebody is on it: {text}");
    own.docker(&["rm", "-f", "outside"]);
    assert_eq!(user.network("down").0, 0);
    assert_eq!(own.docker(&["network", "ls", "-q", "--filter", "label=kew.net"]), "");
}
