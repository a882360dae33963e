//! `kew runs`, `show` and `logs` where there is nothing to tell of yet.

use super::rig::Rig;

#[test]
fn no_runs_is_no_error_for_a_list() {
    let rig = Rig::new();
    let before = rig.listing();
    let done = rig.kew(&["runs"]);
    assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (0, "no runs yet\n", ""));
    assert_eq!(rig.listing(), before, "looking makes nothing");
}

#[test]
fn what_asks_for_a_run_says_how_to_get_one() {
    let rig = Rig::new();
    for args in [
        &["show"][..],
        &["show", "latest"],
        &["show", "x"],
        &["logs", "latest", "a"],
        &["artifacts"],
        &["artifacts", "x", "-o", "out"],
    ] {
        rig.refused(args, &["this repository has no runs yet", "`kew run PLAN` starts one"]);
    }
}
