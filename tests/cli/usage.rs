//! Arguments: what is wrong with them, and help for all of them.

use super::rig::Rig;

#[test]
fn wrong_arguments_are_refused() {
    let rig = Rig::new();
    rig.refused(&[], &["Usage: kew"]);
    rig.refused(&["rum"], &["rum", "run"]);
    rig.refused(&["run"], &["<PLAN>"]);
    rig.refused(&["check"], &["<PLANS>"]);
    rig.refused(&["run", "--jobs", "0", "plan.toml"], &["0", "--jobs"]);
    rig.refused(&["run", "--jobs", "many", "plan.toml"], &["many", "--jobs"]);
    rig.refused(&["run", "--format", "xml", "plan.toml"], &["xml", "human", "json"]);
    rig.refused(&["run", "--resolve", "plan.toml"], &["--dry-run"]);
    rig.refused(&["schema", "plans"], &["plans", "plan"]);
    rig.refused(&["run", "--only", "b", "plan.toml"], &["`--only b`", "no such node"]);
}

#[test]
fn an_unknown_node_is_guessed_at() {
    let rig = Rig::new();
    let plan = "version = 1\nepic.name = \"e\"\ndefaults.runner = \"shell\"\n[nodes.parser]\nprompt = \"x\"\n[nodes.docs]\nprompt = \"x\"\n";
    rig.write("plan.toml", plan);
    for args in [
        &["run", "--only", "parsr", "plan.toml"][..],
        &["run", "--dry-run", "--only", "docs,parsr", "plan.toml"],
    ] {
        rig.refused(args, &["`--only parsr`", "did you mean `parser`?"]);
    }
}

#[test]
fn help_of_everything() {
    let rig = Rig::new();
    let mut all = String::new();
    for args in [
        &["--help"][..],
        &["run", "--help"],
        &["check", "--help"],
        &["runs", "--help"],
        &["show", "--help"],
        &["logs", "--help"],
        &["sandbox", "--help"],
        &["sandbox", "build", "--help"],
        &["sandbox", "smoke", "--help"],
        &["schema", "--help"],
    ] {
        let done = rig.kew(args);
        assert_eq!((done.code, done.err.as_str()), (0, ""), "{args:?}");
        all.push_str(&format!("$ kew {}\n{}\n", args.join(" "), done.out));
    }
    assert!(!all.contains("watchdog"), "what is kew's own business is hidden");
    insta::assert_snapshot!(all);
}

#[test]
fn its_version() {
    let done = Rig::new().kew(&["--version"]);
    assert_eq!((done.code, done.out), (0, format!("kew {}\n", env!("CARGO_PKG_VERSION"))));
}
