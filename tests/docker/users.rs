//! Who runs kew and whose the files in a checkout are: a user that is not root, an engine that makes the agent yet another
//! user, and what cleaning up must never touch.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    process::{Command, Output, Stdio},
};

use camino::{Utf8Path, Utf8PathBuf};

use crate::{
    remapped::{FIRST, Remapped},
    rig::{Rig, containers, docker, git, until},
};

/// The user that these tests make kew run as.
const USER: u32 = 4343;

/// Coders, a merge, a reviewer and one that fails, each leaving what is hard to remove: closed folders and files, a sticky
/// folder with a file of kew's in it, a link out, names that are no text.
const EPIC: &str = r#"
[nodes.a]
commits = "required"
prompt = "umask 077; mkdir -p new/dir; echo a > new/dir/a; git add new; git commit -qm a; chmod 0500 new/dir; mkdir -m 0000 shut"
[nodes.b]
commits = "required"
prompt = "echo b > b; git add b; git commit -qm b; mkdir -m 01700 sticky; mv README sticky/ || exit 9; ln -s / root; ln -s /etc/passwd link; : > $'odd\\xff\\n name'; chmod 04711 b"
[nodes.both]
needs = ["a", "b"]
commits = "required"
prompt = "cat new/dir/a b > c; git add c; git commit -qm c; umask 077; git gc -q; chmod -R go= .git || true"
[nodes.check]
reviews = "both"
verdict = "exit"
prompt = "grep -q a c && mkdir -p -m 0700 mine/too"
[nodes.bad]
prompt = "umask 077; mkdir -p left/behind; echo x > left/behind/x; chmod 0 left/behind; mkdir -p $(printf 'd/%.0s' $(seq 1100)); exit 7"
"#;

/// kew as the unprivileged user, who is in the group `group`.
fn as_user(rig: &Rig, group: u32, args: &[&str]) -> Command {
    let user = USER.to_string();
    let groups = group.to_string();
    let kew = rig.root.join("kew");
    let words = ["--reuid", &user, "--regid", &user, "--groups", &groups, "--", kew.as_str()];
    rig.command("setpriv", &[&words[..], args].concat())
}

/// Gives all of the test's folder to the user, with a copy of the program: it may lie where only root can go.
fn give(rig: &Rig) {
    let kew = rig.root.join("kew");
    fs::copy(env!("CARGO_BIN_EXE_kew"), &kew).unwrap();
    fs::set_permissions(&kew, fs::Permissions::from_mode(0o755)).unwrap();
    for path in walk(&rig.root) {
        std::os::unix::fs::lchown(&path, Some(USER), Some(USER)).unwrap();
    }
}

fn walk(dir: &Utf8Path) -> Vec<Utf8PathBuf> {
    let output = Command::new("find").arg(dir).output().unwrap();
    String::from_utf8_lossy(&output.stdout).lines().map(Utf8PathBuf::from).collect()
}

fn socket_group() -> u32 {
    fs::metadata("/var/run/docker.sock").unwrap().gid()
}

/// The commits came home, the failure was told, nothing is left, and all in the repository is its owner's.
fn came_home(rig: &Rig, output: &Output, owner: u32) {
    let said =
        format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!said.contains("could not be removed"), "{said}");
    let refs = git(&rig.repo, &["for-each-ref", "--format=%(refname)", "refs/kew/"]);
    let both = refs.lines().find(|name| name.ends_with("/nodes/both/1")).expect(&said);
    assert_eq!(git(&rig.repo, &["show", &format!("{both}:c")]), "a\nb");
    let events = String::from_utf8_lossy(&output.stdout).into_owned();
    let events: Vec<serde_json::Value> =
        events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let outcome = |node: &str| {
        let ended = events.iter().find(|event| event["type"] == "node-ended" && event["node"] == node);
        ended.expect(&said)["outcome"].as_str().unwrap().to_owned()
    };
    for (node, expected) in [("both", "passed"), ("check", "passed"), ("bad", "failed")] {
        assert_eq!(outcome(node), expected, "{node}: {said}");
    }
    rig.no_checkouts();
    let foreign: Vec<Utf8PathBuf> = walk(&rig.repo)
        .into_iter()
        .filter(|path| fs::symlink_metadata(path).unwrap().uid() != owner)
        .collect();
    assert!(foreign.is_empty(), "not the owner's: {foreign:?}");
    assert_eq!(git(&rig.repo, &["status", "--porcelain"]), "");
    assert_eq!(git(&rig.repo, &["branch", "--format=%(refname)"]), "refs/heads/main");
    git(&rig.repo, &["fsck", "--strict"]);
}

#[test]
fn docker_the_whole_cycle_as_a_user_that_is_not_root() {
    let rig = Rig::new();
    let plan = rig.plan(EPIC);
    give(&rig);
    let output = as_user(&rig, socket_group(), &["run", plan.as_str(), "--format", "json"]).output().unwrap();
    came_home(&rig, &output, USER);
    let run = run_of(&output.stdout);
    assert_eq!(containers(&format!("kew.run={run}")), "");
}

#[test]
fn docker_a_killed_kew_of_a_user_is_cleaned_up_by_the_users_next_and_nothing_else_is() {
    let rig = Rig::new();
    let precious = rig.root.join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("file"), "mine\n").unwrap();
    let long = format!(
        "[nodes.a]\nprompt = 'umask 077; mkdir -p deep/er; echo x > deep/er/x; chmod 0 deep/er; ln -s {precious} out; ln -s {precious}/file f; touch ready; sleep 300'\n"
    );
    let plan = rig.plan(&long);
    give(&rig);
    let mut first = as_user(&rig, socket_group(), &["run", plan.as_str(), "--format", "json"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let ready = until("the agent's work", || {
        walk(&rig.checkouts).into_iter().find(|path| path.file_name() == Some("ready"))
    });
    // The machine's power goes: nobody is left to clean up.
    let watchdog = format!("__watchdog .*{}", rig.checkouts);
    let found = Command::new("pgrep").args(["-f", &watchdog]).output().unwrap();
    for pid in String::from_utf8(found.stdout).unwrap().lines() {
        assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let workspace = ready.ancestors().find(|path| path.parent() == Some(&rig.checkouts)).unwrap().to_owned();
    let lock = fs::read_to_string(workspace.join("kew-lock-path")).unwrap();
    let run = Utf8Path::new(&lock).file_name().unwrap().to_owned();
    assert_ne!(containers(&format!("kew.run={run}")), "", "this test kills the watchdog too");

    // What is not this kew's, however much it looks like it.
    let lie = |name: &str, mark: Option<&str>, owner: u32| {
        let dir = rig.checkouts.join(name);
        fs::create_dir(&dir).unwrap();
        fs::create_dir(dir.join("checkouts")).unwrap();
        fs::write(dir.join("checkouts/file"), "keep\n").unwrap();
        if let Some(mark) = mark {
            fs::write(dir.join("kew-lock-path"), mark).unwrap();
        }
        for path in walk(&dir) {
            std::os::unix::fs::lchown(path, Some(owner), Some(owner)).unwrap();
        }
        dir
    };
    let other_lock = rig.root.join("other-state/locks").join(&run);
    fs::create_dir_all(other_lock.parent().unwrap()).unwrap();
    fs::write(&other_lock, "").unwrap();
    std::os::unix::fs::chown(&other_lock, Some(USER), Some(USER)).unwrap();
    let missing = Utf8Path::new(&lock).with_file_name("20200101-000000-gone");
    let kept = [
        lie("somebody", None, USER),
        lie("kew-without-a-mark", None, USER),
        lie("kew-of-a-missing-lock", Some(missing.as_str()), USER),
        lie("kew-of-another-state", Some(other_lock.as_str()), USER),
        lie("kew-by-another-user", Some(&lock), 4344),
    ];
    let link = rig.checkouts.join("kew-link");
    symlink(&precious, &link).unwrap();
    // It carries the dead run's label, but not this state's.
    let folder = format!("{precious}:/work");
    let words = ["run", "-d", "--network", "none", "--label", &format!("kew.run={run}"), "-v", &folder];
    let stranger = docker(&[&words[..], &["--entrypoint", "sleep", "kew-collector:latest", "300"]].concat());

    let next = rig.plan("[nodes.b]\nprompt = 'true'\n");
    let output = as_user(&rig, socket_group(), &["run", next.as_str()]).output().unwrap();
    let left = docker(&["ps", "-aq", "--no-trunc", "--filter", &format!("label=kew.run={run}")]);
    docker(&["rm", "-f", &stranger]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains(&format!("removed what the dead run {run} left")), "{stderr}");
    assert_eq!(left, stranger, "only the stranger's is left");
    assert!(!workspace.exists());
    for dir in kept {
        assert_eq!(fs::read_to_string(dir.join("checkouts/file")).unwrap(), "keep\n");
    }
    assert!(fs::symlink_metadata(&link).is_ok());
    assert_eq!(fs::read_to_string(precious.join("file")).unwrap(), "mine\n");
    assert_eq!(fs::metadata(&precious).unwrap().mode() & 0o777, 0o755);
}

#[test]
fn docker_an_engine_that_remaps_users() {
    let bridge = || fs::read_to_string("/sys/class/net/docker0/ifindex").ok();
    let before = bridge();
    let engine_root = Rig::new();
    let engine = Remapped::start(&engine_root.root, USER);
    // kew as root: the checkout becomes the very user that the container's is; and as somebody else: everybody may write.
    for owner in [0, USER] {
        let mut rig = Rig::new();
        rig.env.insert("DOCKER_HOST".into(), engine.host());
        let plan = rig.plan(&format!(
            "{EPIC}[nodes.seen]\nprompt = 'touch made; for i in $(seq 300); do [ -e /work/.git/go ] && exit; sleep 0.2; done; exit 1'\n"
        ));
        let args = ["run", plan.as_str(), "--format", "json"];
        let mut command = if owner == 0 {
            rig.command(env!("CARGO_BIN_EXE_kew"), &args)
        } else {
            give(&rig);
            as_user(&rig, USER, &args)
        };
        let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let waiting = std::thread::spawn(move || running.wait_with_output().unwrap());
        let made = until("the agent's file", || {
            assert!(!waiting.is_finished(), "kew ended early");
            walk(&rig.checkouts).into_iter().find(|path| path.file_name() == Some("made"))
        });
        let uid = |path: &Utf8Path| fs::symlink_metadata(path).unwrap().uid();
        assert_eq!(uid(&made), FIRST + 1001);
        assert_eq!(uid(&made.with_file_name("README")), if owner == 0 { FIRST + 1001 } else { USER });
        fs::write(made.with_file_name(".git").join("go"), "").unwrap();
        let output = waiting.join().unwrap();
        came_home(&rig, &output, owner);
        assert_eq!(engine.docker(&["ps", "-aq"]), "", "containers are left");
    }
    drop(engine);
    assert!(!engine_root.root.join("engine").exists());
    assert_eq!(bridge(), before, "docker's bridge of this host");
}

fn run_of(stdout: &[u8]) -> String {
    let text = String::from_utf8_lossy(stdout).into_owned();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    first["run"].as_str().unwrap().to_owned()
}
