//! Rework over real containers: the subject goes on from its own rejected commit with the findings, on one branch.

use crate::rig::{Rig, git, prompt};

#[test]
fn docker_a_rejected_subject_mends_its_work_and_what_is_behind_it_gets_the_mended_commit() {
    let rig = Rig::new();
    let work = "echo \"round ${KEW_ROUND:-1}: $KEW_FINDINGS\" >> log\n\
                git add log && git commit -qm \"round ${KEW_ROUND:-1}\"\n\
                test \"$(git branch --show-current)\" = \"$KEW_BRANCH\"";
    let judge = "echo looked at $(grep -c ^round log)\ntest $(grep -c ^round log) -ge 3";
    let plan = rig.plan(&format!(
        "[nodes.work]\nrework = 2\n{}\n[nodes.judge]\nreviews = 'work'\nverdict = 'exit'\n{}\n\
         [nodes.behind]\nneeds = ['work']\n{}\n",
        prompt(work),
        prompt(judge),
        prompt("grep -c ^round log; test $(grep -c ^round log) = 3"),
    ));
    let ran = rig.run(&plan);
    ran.expect(0);
    assert_eq!(ran.of_node("round-started", "work").len(), 2);
    let run = ran.run_id().unwrap();
    let last = format!("refs/kew/{run}/nodes/work/3");
    assert_eq!(
        git(&rig.repo, &["log", "--format=%s", "--reverse", &last]).trim(),
        "Begin\nround 1\nround 2\nround 3"
    );
    let log = git(&rig.repo, &["show", &format!("{last}:log")]);
    assert!(log.contains("round 2: judge: the script ended with status 1\n- major: looked at 1"), "{log}");
    let shown = String::from_utf8(rig.kew(&["show", run]).stdout).unwrap();
    assert!(shown.contains("attempt 3 (round 3, try 1)"), "{shown}");
}
