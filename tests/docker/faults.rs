//! Faults of the machine: a docker that lies or is not there, a disk that is full, an image that is gone.

use std::{fs, os::unix::fs::PermissionsExt as _};

use crate::rig::Rig;

/// Puts a program named `docker` before the real one; `body` sees the real one as `$REAL`.
fn instead_of_docker(rig: &mut Rig, body: &str) {
    let bin = rig.root.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let real = std::env::split_paths(&std::env::var_os("PATH").unwrap())
        .map(|dir| dir.join("docker"))
        .find(|path| path.exists())
        .unwrap();
    let path = bin.join("docker");
    fs::write(&path, format!("#!/bin/bash\nREAL={}\n{body}\nexec $REAL \"$@\"\n", real.display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    rig.env.insert("PATH".into(), format!("{bin}:{}", std::env::var("PATH").unwrap()));
}

/// A plan whose node would join the allowlist network.
fn allowlisted(rig: &Rig) -> camino::Utf8PathBuf {
    let plan = rig.root.join("allow.toml");
    fs::write(&plan, "version = 1\n[epic]\nname = \"x\"\n[nodes.a]\nrunner = \"shell\"\nprompt = \"true\"\n")
        .unwrap();
    plan
}

#[test]
fn docker_a_network_that_kew_did_not_make_stops_the_run() {
    for (answer, says) in [
        (r#"echo '{"Internal":false,"Driver":"bridge","Labels":{"kew.net":"1"}}'; exit 0"#, "not internal"),
        (r#"echo '{"Internal":true,"Driver":"bridge","Labels":{}}'; exit 0"#, "no label"),
        ("echo 'Error: No such network: kew-allowlist' >&2; exit 1", "does not exist"),
    ] {
        let mut rig = Rig::new();
        instead_of_docker(&mut rig, &format!("if [ \"$1 $2\" = 'network inspect' ]; then {answer}; fi"));
        let ran = rig.run(&allowlisted(&rig));
        ran.expect(4);
        assert!(ran.stderr.contains(says), "{}", ran.stderr);
        assert!(ran.events.is_empty(), "nothing ran");
    }
}

#[test]
fn docker_a_mount_of_another_file_system_stops_the_run() {
    let mut rig = Rig::new();
    // As with docker in docker: the path means another folder to the engine.
    let other = rig.root.join("other");
    fs::create_dir(&other).unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o777)).unwrap();
    instead_of_docker(
        &mut rig,
        &format!(
            "if [ \"$1\" = run ]; then exec $REAL \"${{@/{}*:\\/work/{other}:\\/work}}\"; fi",
            "\\/tmp\\/kewtest-"
        ),
    );
    let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'true'\n"));
    ran.expect(4);
    assert!(ran.stderr.contains("does not mount") && ran.stderr.contains("checkout_dir"), "{}", ran.stderr);
    assert!(ran.events.is_empty(), "nothing ran");
}

#[test]
fn docker_an_engine_that_does_not_answer_stops_the_run() {
    let mut rig = Rig::new();
    rig.env.insert("DOCKER_HOST".into(), "unix:///nonexistent/docker.sock".into());
    let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'true'\n"));
    ran.expect(4);
    assert!(ran.stderr.contains("docker"), "{}", ran.stderr);
    rig.env.insert("DOCKER_HOST".into(), "tcp://127.0.0.1:2375".into());
    let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'true'\n"));
    ran.expect(4);
    assert!(ran.stderr.contains("not a unix socket"), "{}", ran.stderr);
}

#[test]
fn docker_an_image_that_is_gone_is_infrastructure() {
    let rig = Rig::new();
    rig.settings(&format!(
        "[sandbox]\ncheckout_dir = \"{}\"\n[sandbox.images]\nshell = \"kew-no-such-image:latest\"\n",
        rig.checkouts
    ));
    let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'true'\n"));
    ran.expect(4);
    assert!(
        ran.stderr.contains("kew-no-such-image") && ran.stderr.contains("kew sandbox build shell"),
        "{}",
        ran.stderr
    );
}

#[test]
fn docker_a_client_that_cannot_start_a_container_is_infrastructure() {
    let mut rig = Rig::new();
    instead_of_docker(
        &mut rig,
        "case \"$*\" in *'--name kew-'*'-a-1-'*) echo 'docker: Error response from daemon: no space left on device.' >&2; exit 125;; esac",
    );
    let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'true'\n"));
    ran.expect(4);
    assert!(ran.outcome("a").contains("no space left on device"), "{}", ran.outcome("a"));
}

#[test]
fn docker_an_exit_status_of_125_from_inside_is_the_jobs_own() {
    let rig = Rig::new();
    let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'exit 125'\n"));
    ran.expect(1);
    assert!(ran.outcome("a").starts_with("failed: "), "{}", ran.outcome("a"));
}

#[test]
fn docker_a_full_disk_stops_the_run_and_says_so() {
    let rig = Rig::new();
    let state = rig.root.join("state");
    fs::create_dir(&state).unwrap();
    // A file system of this test's own, with room for the state but not for a log.
    let mount = std::process::Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=2m", "tmpfs", state.as_str()])
        .status()
        .unwrap();
    assert!(mount.success());
    rig.settings(&format!(
        "[state]\ndir = \"{state}\"\n[sandbox]\ncheckout_dir = \"{}\"\nstop_grace = 1\n[sandbox.images]\nshell = \"kew-shell:latest\"\n",
        rig.checkouts
    ));
    let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'head -c 30000000 /dev/urandom | base64; sleep 60'\n"));
    let unmounted = std::process::Command::new("umount").args(["-l", state.as_str()]).status().unwrap();
    assert!(unmounted.success());
    ran.expect(4);
    assert!(ran.outcome("a").starts_with("infrastructure: "), "{}", ran.outcome("a"));
}

#[test]
fn docker_two_runs_at_once_do_not_disturb_each_other() {
    let rig = Rig::new();
    let plan = rig.plan("[nodes.a]\nprompt = 'echo a > a; git add a; git commit -qm a; sleep 1'\n[nodes.b]\nneeds = ['a']\nprompt = 'test -f a'\n");
    let first = rig.start(&plan);
    first.wait_for_container("a");
    let output = rig.kew(&["run", plan.as_str(), "--format", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    first.end().expect(0);
    rig.no_checkouts();
}

#[test]
fn docker_a_folder_that_a_mount_cannot_carry_stops_the_run() {
    for name in ["with:colon", "with space", "with,comma"] {
        let rig = Rig::new();
        let odd = rig.root.join(name);
        fs::create_dir(&odd).unwrap();
        rig.settings(&format!(
            "[sandbox]\ncheckout_dir = \"{odd}\"\n[sandbox.images]\nshell = \"kew-shell:latest\"\n"
        ));
        let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'true'\n"));
        ran.expect(4);
        assert!(ran.stderr.contains("characters that a mount cannot carry"), "{}", ran.stderr);
        assert!(fs::read_dir(&odd).unwrap().next().is_none());
    }
}
