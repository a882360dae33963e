//! However kew is ended, its containers go with it, and another kew is not harmed.

use std::time::{Duration, Instant};

use crate::rig::{CEILING, Ran, Rig, containers, prompt, until};

const LONG: &str = "[nodes.obeys]\nprompt = 'sleep 300'\n[nodes.ignores]\nprompt = \"trap '' TERM INT; sleep 300 & sleep 300; sleep 300\"\n\
                    [nodes.after]\nneeds = ['obeys']\nprompt = 'true'\n";

/// Ends a run in its middle; gives how long its containers lived on.
fn ended_by(signal: &str) -> (Rig, Ran, Duration) {
    let rig = Rig::with_settings("stop_grace = 2");
    let plan = rig.plan(LONG);
    let running = rig.start(&plan);
    let run = running.wait_for_container("ignores");
    running.wait_for_container("obeys");
    let begun = Instant::now();
    running.signal(signal);
    until("the end of the containers", || containers(&format!("kew.run={run}")).is_empty().then_some(()));
    let took = begun.elapsed();
    let ran = running.end();
    (rig, ran, took)
}

#[test]
fn docker_an_interrupt_stops_everything_with_a_grace() {
    for signal in ["INT", "TERM"] {
        let (rig, ran, _) = ended_by(signal);
        ran.expect(130);
        rig.nothing_left(&ran);
        assert!(ran.outcome("obeys").starts_with("cancelled"), "{}", ran.outcome("obeys"));
        assert!(!ran.started("after"));
        assert_eq!(ran.events.last().unwrap()["status"], "interrupted");
    }
}

#[test]
fn docker_the_watchdog_outlives_a_killed_kew() {
    let (rig, ran, took) = ended_by("KILL");
    assert!(took < CEILING);
    let run = ran.run_id().unwrap().to_owned();
    until("the end of the watchdog", || (!rig.repo.join(".git/kew/locks").join(&run).exists()).then_some(()));
    rig.no_checkouts();
    let shown = rig.kew(&["runs"]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let line = shown.lines().find(|line| line.contains(&run)).unwrap();
    assert!(!line.contains("running"), "a dead run is not shown as running: {line}");
}

#[test]
fn docker_a_second_kew_is_not_harmed_by_the_firsts_watchdog() {
    let rig = Rig::with_settings("stop_grace = 2");
    let plan = rig.plan(LONG);
    let first = rig.start(&plan);
    let killed = first.wait_for_container("obeys");
    first.signal("KILL");
    let second = rig.root.join("second.toml");
    let text = format!(
        "version = 1\n[epic]\nname = \"second\"\n[defaults]\nrunner = \"shell\"\nnetwork = \"none\"\n[nodes.a]\n{}\n",
        prompt("sleep 4; echo done")
    );
    std::fs::write(&second, text).unwrap();
    let output = rig
        .command(env!("CARGO_BIN_EXE_kew"), &["run", second.as_str(), "--format", "json"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    until("the end of the first", || containers(&format!("kew.run={killed}")).is_empty().then_some(()));
    until("the end of its folder", || {
        std::fs::read_dir(&rig.checkouts).unwrap().next().is_none().then_some(())
    });
}

#[test]
fn docker_a_second_interrupt_removes_at_once() {
    let rig = Rig::with_settings("stop_grace = 50");
    let plan = rig.plan("[nodes.a]\nprompt = \"trap '' TERM INT; while :; do sleep 1; done\"\n");
    let running = rig.start(&plan);
    running.wait_for_container("a");
    running.signal("INT");
    std::thread::sleep(Duration::from_millis(500));
    running.signal("INT");
    let ran = running.end();
    ran.expect(130);
    rig.nothing_left(&ran);
}

#[test]
fn docker_a_lost_client_is_infrastructure_and_its_container_is_removed() {
    let rig = Rig::new();
    let plan = rig.plan("[nodes.a]\nprompt = 'sleep 300'\n");
    let running = rig.start(&plan);
    let run = running.wait_for_container("a");
    let pattern = format!("docker run --rm --name kew-{run}-a-1");
    let killed = std::process::Command::new("pkill").args(["-KILL", "-f", &pattern]).status().unwrap();
    assert!(killed.success());
    let ran = running.end();
    ran.expect(4);
    assert!(ran.outcome("a").starts_with("infrastructure: "), "{}", ran.outcome("a"));
    rig.nothing_left(&ran);
}

#[test]
fn docker_a_container_removed_from_outside_fails_its_node() {
    let rig = Rig::new();
    let plan = rig.plan("[nodes.a]\nprompt = 'sleep 300'\n");
    let running = rig.start(&plan);
    let run = running.wait_for_container("a");
    crate::rig::docker(&["rm", "-f", &containers(&format!("kew.run={run}"))]);
    let ran = running.end();
    ran.expect(1);
    rig.nothing_left(&ran);
}

#[test]
fn docker_what_a_kew_left_without_its_watchdog_is_reaped_by_the_next() {
    let rig = Rig::new();
    let plan = rig.plan("[nodes.a]\nprompt = 'sleep 300'\n");
    let running = rig.start(&plan);
    let run = running.wait_for_container("a");
    // The machine's power goes: nobody is left to clean up.
    let watchdog = format!("__watchdog .*{}", rig.checkouts);
    assert!(std::process::Command::new("pkill").args(["-KILL", "-f", &watchdog]).status().unwrap().success());
    running.signal("KILL");
    let _ = running.end();
    assert!(!containers(&format!("kew.run={run}")).is_empty(), "this test kills the watchdog too");
    let output = rig.kew(&["run", rig.plan("[nodes.b]\nprompt = 'true'\n").as_str()]);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains(&format!("removed what the dead run {run} left")), "{stderr}");
    assert_eq!(containers(&format!("kew.run={run}")), "");
    rig.no_checkouts();
}

#[test]
fn docker_no_process_of_a_run_is_left() {
    let rig = Rig::new();
    let ran = rig.run(&rig.plan("[nodes.a]\nprompt = 'echo a > a; git add a; git commit -qm a'\n"));
    ran.expect(0);
    // Its docker clients, its `docker events` and its watchdog all name the workspace or the run.
    for pattern in [rig.checkouts.as_str(), ran.run_id().unwrap()] {
        let left = std::process::Command::new("pgrep").args(["-af", pattern]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&left.stdout), "", "processes are left");
    }
    let mut bad = Rig::new();
    bad.env.insert("KEW_SANDBOX__COLLECTOR".into(), "kew-no-such-collector".into());
    bad.run(&bad.plan("[nodes.a]\nprompt = 'true'\n")).expect(4);
    let left = std::process::Command::new("pgrep").args(["-af", bad.checkouts.as_str()]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "", "processes are left");
}
