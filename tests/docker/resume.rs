//! Going on: a kew that is killed again and again, a run that was stopped, and what makes a resume refuse.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::Value;

use crate::rig::{Rig, containers, git, prompt};

/// Three rounds of `work`, then `behind`, and `other` beside them.
fn epic(rig: &Rig) -> camino::Utf8PathBuf {
    let work =
        "echo \"round ${KEW_ROUND:-1}\" >> log\ngit add log && git commit -qm \"round ${KEW_ROUND:-1}\"";
    rig.plan(&format!(
        "[nodes.work]\nrework = 2\n{}\n[nodes.judge]\nreviews = 'work'\nverdict = 'exit'\n{}\n\
         [nodes.behind]\nneeds = ['work']\n{}\n[nodes.other]\n{}\n",
        prompt(work),
        prompt("echo $(grep -c ^round log) rounds; test $(grep -c ^round log) -ge 3"),
        prompt("cp log behind; git add behind; git commit -qm behind"),
        prompt("echo other > other; git add other; git commit -qm other"),
    ))
}

/// The files of the last attempt of a node that brought commits.
fn tree(rig: &Rig, run: &str, node: &str) -> String {
    let refs = git(
        &rig.repo,
        &[
            "for-each-ref",
            "--format=%(refname)",
            "--sort=-version:refname",
            &format!("refs/kew/{run}/nodes/{node}/"),
        ],
    );
    git(&rig.repo, &["rev-parse", &format!("{}^{{tree}}", refs.lines().next().unwrap())])
}

#[test]
fn docker_a_kew_that_dies_after_every_few_steps_ends_where_an_undisturbed_one_does() {
    let rig = Rig::new();
    let plan = epic(&rig);
    let whole = rig.run(&plan);
    whole.expect(0);
    let whole_run = whole.run_id().unwrap().to_owned();

    let mut args: Vec<String> = ["run", plan.as_str(), "--format", "json"].map(str::to_owned).into();
    let mut run = String::new();
    let mut kills = 0;
    let mut told: Vec<Value> = Vec::new();
    // Each life is longer than the one before, so that the run comes to its end.
    let code = loop {
        let list: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut kew = rig.command(env!("CARGO_BIN_EXE_kew"), &list);
        let mut kew = kew.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut steps = 0;
        for line in BufReader::new(kew.stdout.take().unwrap()).lines() {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            run = event["run"].as_str().unwrap().to_owned();
            let kept = !matches!(event["type"].as_str().unwrap(), "node-progress" | "heartbeat" | "warning");
            steps += usize::from(kept);
            told.push(event);
            if steps == 2 + 2 * kills {
                kew.kill().unwrap();
                break;
            }
        }
        let status = kew.wait().unwrap();
        if let Some(code) = status.code() {
            break code;
        }
        kills += 1;
        assert!(kills < 30, "the run never ends");
        args = ["resume", &run, "--format", "json"].map(str::to_owned).into();
    };
    assert_eq!(code, 0, "{:?}", told.last());
    assert!(kills >= 3, "it was killed {kills} times");
    for node in ["work", "behind", "other"] {
        assert_eq!(tree(&rig, &run, node), tree(&rig, &whole_run, node), "{node}");
    }
    let passed = |node: &str| {
        told.iter()
            .filter(|event| {
                event["type"] == "node-ended" && event["node"] == node && event["outcome"] == "passed"
            })
            .count()
    };
    // An end may be on record and its telling lost with the process, but nothing that was told is done again.
    assert!(
        passed("work") <= 3 && passed("behind") <= 1 && passed("other") <= 1,
        "nothing that passed is done again"
    );
    let seqs: Vec<u64> = told
        .iter()
        .filter(|event| event["type"] != "node-progress")
        .map(|event| event["seq"].as_u64().unwrap())
        .collect();
    assert!(seqs.windows(2).all(|pair| pair[0] < pair[1]), "sequence numbers go on: {seqs:?}");
    assert_eq!(containers(&format!("kew.run={run}")), "");
    rig.no_checkouts();
}

#[test]
fn docker_a_plan_that_was_edited_changes_nothing_and_a_failed_node_is_done_again_only_when_asked() {
    let rig = Rig::new();
    std::fs::create_dir(rig.repo.join("prompts")).unwrap();
    std::fs::write(rig.repo.join("prompts/a.sh"), "test -e /work/mended && git commit --allow-empty -qm a")
        .unwrap();
    let plan = rig.plan("[nodes.a]\nprompt_file = 'prompts/a.sh'\n[nodes.b]\nneeds = ['a']\nprompt = 'true'\n[nodes.c]\nprompt = 'true'\n");
    let first = rig.run(&plan);
    first.expect(1);
    let run = first.run_id().unwrap();
    std::fs::write(&plan, "nonsense").unwrap();
    std::fs::write(rig.repo.join("prompts/a.sh"), "true").unwrap();
    let resumed = rig.kew(&["resume", run]);
    assert_eq!(resumed.status.code(), Some(1));
    let said = String::from_utf8(resumed.stderr).unwrap();
    assert!(said.contains("has changed; the run goes on as it was started"), "{said}");
    assert!(!said.contains("a: started"), "failed stays failed: {said}");
    let resumed = rig.kew(&["resume", run, "--retry", "failed", "--format", "json"]);
    assert_eq!(resumed.status.code(), Some(1), "the prompt on record is still the one that fails");
    let events = String::from_utf8(resumed.stdout).unwrap();
    assert!(events.contains(r#""type":"node-started","node":"a","attempt":2"#), "{events}");
    assert!(!events.contains(r#""type":"node-started","node":"c""#), "{events}");
    for (args, says) in [
        (["resume", run, "--retry", "aa"], "did you mean `a`?"),
        (["resume", "2020", "--retry", "a"], "no run"),
    ] {
        let refused = rig.kew(&args);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            String::from_utf8_lossy(&refused.stderr).contains(says),
            "{}",
            String::from_utf8_lossy(&refused.stderr)
        );
    }
}

#[test]
fn docker_a_run_that_another_kew_carries_out_is_left_alone() {
    let rig = Rig::new();
    let plan = rig.plan("[nodes.a]\nprompt = 'sleep 30'\n");
    let running = rig.start(&plan);
    running.wait_for_container("a");
    let refused = rig.kew(&["resume"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is being carried out by another kew"));
    running.signal("INT");
    let ended = running.end();
    assert_eq!(ended.code, 130);
    let resumed = rig.kew(&["resume", "--retry", "nothing"]);
    assert_eq!(resumed.status.code(), Some(2));
}
