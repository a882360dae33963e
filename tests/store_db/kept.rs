//! What is kept of attempts: it comes back as it went in, and no attempt that is over gets more.

use kew::{
    name::AttemptKey,
    record::{Artifact, Kept, NodeState},
    store::StoreError,
};

use super::{attempt_end, attempt_start, commit, folder, key, open, run_start};

fn kept(paths: &[&str]) -> Kept {
    let artifact = |path: &&str| Artifact { path: (*path).into(), size: 1 << 40, sha256: "d".repeat(64) };
    Kept { work: Some(commit('c')), artifacts: paths.iter().map(artifact).collect() }
}

fn of(store: &kew::store::Store, key: &AttemptKey) -> Kept {
    let detail = store.run(key.run.as_str()).expect("there");
    let node = detail.node(&key.node).expect("there");
    node.attempts[key.attempt as usize - 1].kept.clone()
}

#[test]
fn what_is_kept_comes_back_in_the_order_of_paths() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    let parser = key("r1", "parser", 1);
    store.start_attempt(&attempt_start(parser.clone())).expect("no error");
    assert!(of(&store, &parser).is_empty());
    store.keep(&parser, &kept(&["b", "a/é", "a"])).expect("no error");
    store.end_attempt(&attempt_end(parser.clone()), NodeState::Failed, None).expect("no error");
    assert_eq!(of(&store, &parser), kept(&["a", "a/é", "b"]));
}

#[test]
fn an_attempt_that_ended_or_never_was_gets_nothing() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    let parser = key("r1", "parser", 1);
    assert!(matches!(store.keep(&parser, &kept(&["a"])), Err(StoreError::NoAttempt { .. })));
    store.start_attempt(&attempt_start(parser.clone())).expect("no error");
    store.end_attempt(&attempt_end(parser.clone()), NodeState::Failed, None).expect("no error");
    assert!(matches!(store.keep(&parser, &kept(&["a"])), Err(StoreError::AttemptEnded { .. })));
    assert!(of(&store, &parser).is_empty());
}

#[test]
fn a_path_that_comes_twice_is_refused_as_a_whole() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    let parser = key("r1", "parser", 1);
    store.start_attempt(&attempt_start(parser.clone())).expect("no error");
    assert!(store.keep(&parser, &kept(&["a", "a"])).is_err());
    assert!(of(&store, &parser).is_empty());
}
