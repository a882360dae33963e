//! The database: what goes in comes out, attempts are fenced; `opening` has what is refused or brought up to date.

mod kept;
mod opening;

use std::thread;

use camino::{Utf8Path, Utf8PathBuf};
use kew::{
    event::{EVENT_VERSION, RunEvent, Stamped},
    name::{AttemptKey, CommitId, EpicName, NodeId, RunId},
    plan::spec::Commits,
    record::{AttemptEnd, AttemptStart, NodeStart, NodeState, RunEnd, RunStart, VerdictRow},
    store::{Store, StoreError},
    stream::{CostSource, Tokens},
};

struct Folder {
    _dir: tempfile::TempDir,
    path: Utf8PathBuf,
}

fn folder() -> Folder {
    let dir = tempfile::tempdir().expect("a folder");
    let path = Utf8PathBuf::from_path_buf(dir.path().join("kew")).expect("UTF-8");
    Folder { _dir: dir, path }
}

fn open(folder: &Folder) -> Store {
    Store::open(&folder.path).expect("it opens")
}

fn run(id: &str) -> RunId {
    RunId::new(id).expect("good")
}

fn node(id: &str) -> NodeId {
    NodeId::new(id).expect("good")
}

fn commit(digit: char) -> CommitId {
    CommitId::new(digit.to_string().repeat(40)).expect("good")
}

fn node_start(id: &str) -> NodeStart {
    NodeStart {
        node: node(id),
        runner: "claude-code".into(),
        model: Some("claude-sonnet-4-5".into()),
        image: "kew-claude".into(),
        image_id: "sha256:abc".into(),
        reviews: None,
        commits: Commits::Required,
        needs: vec![],
    }
}

fn run_start(id: &str, started: i64) -> RunStart {
    let review = NodeStart {
        model: None,
        reviews: Some(node("parser")),
        commits: Commits::Forbidden,
        needs: vec![node("parser")],
        ..node_start("review")
    };
    RunStart {
        run: run(id),
        epic: EpicName::new("parser-rewrite").expect("good"),
        plan_path: "plans/epic.toml".into(),
        plan_text: "version = 1\n# ü".into(),
        settings_json: "{\"a\":1}".into(),
        digest: "d1".into(),
        base: commit('a'),
        network: "allowlist".into(),
        owner: "o1".into(),
        started,
        prompts: Vec::new(),
        nodes: vec![node_start("parser"), review],
    }
}

fn key(id: &str, of: &str, attempt: u32) -> AttemptKey {
    AttemptKey { run: run(id), node: node(of), attempt }
}

fn attempt_start(key: AttemptKey) -> AttemptStart {
    AttemptStart {
        container: format!("kew-{}-{}", key.node, key.attempt),
        key,
        round: 2,
        tries: 3,
        runner: "claude-code".into(),
        model: Some("m".into()),
        image_id: "sha256:abc".into(),
        prompt_digest: "p1".into(),
        started: 1_000,
    }
}

fn attempt_end(key: AttemptKey) -> AttemptEnd {
    AttemptEnd {
        key,
        ended: 5_000,
        input: Some(commit('a')),
        head: Some(commit('b')),
        commits: 2,
        outcome: "passed".into(),
        reason: Some("it went well".into()),
        exit: Some(0),
        session: Some("s1".into()),
        model_reported: Some("m-1".into()),
        tokens: Some(Tokens { input: 33, output: 77, cache_read: 1000, cache_write: 1050 }),
        cost_usd: Some(0.0054915),
        cost_source: CostSource::ListPrice,
        summary: Some("done".into()),
    }
}

fn bare_end(key: AttemptKey) -> AttemptEnd {
    AttemptEnd {
        input: None,
        head: None,
        commits: 0,
        outcome: "infrastructure".into(),
        reason: None,
        exit: None,
        session: None,
        model_reported: None,
        tokens: None,
        cost_usd: None,
        cost_source: CostSource::Unknown,
        summary: None,
        ..attempt_end(key)
    }
}

fn verdict(key: AttemptKey) -> VerdictRow {
    VerdictRow {
        key,
        subject: node("parser"),
        commit: commit('b'),
        verdict: "request_changes".into(),
        summary: "not yet".into(),
        findings_json: "[{\"severity\":\"high\",\"message\":\"no\"}]".into(),
        digest: Some("v1".into()),
        time: 4_999,
    }
}

fn stamped(id: &str, seq: u64, event: RunEvent) -> Stamped {
    Stamped { v: EVENT_VERSION, seq, time: 7, run: run(id), event }
}

#[test]
fn a_run_reads_back_as_it_was_written() {
    let folder = folder();
    let mut store = open(&folder);
    let (start, parser, review) = (run_start("r1", 500), key("r1", "parser", 1), key("r1", "review", 1));
    store.start_run(&start).expect("no error");
    store.start_attempt(&attempt_start(parser.clone())).expect("no error");
    store.end_attempt(&attempt_end(parser.clone()), NodeState::Passed, None).expect("no error");
    store.start_attempt(&attempt_start(review.clone())).expect("no error");
    store
        .end_attempt(&bare_end(review.clone()), NodeState::Held, Some(&verdict(review.clone())))
        .expect("no error");
    let end = RunEnd { run: run("r1"), status: "held".into(), exit_code: 3, ended: 9_000 };
    store.end_run(&end).expect("no error");

    let read = open(&folder).run("r1").expect("there");
    assert_eq!(format!("{:?}", read.start), format!("{start:?}"));
    assert_eq!(format!("{:?}", read.end), format!("{:?}", Some(end)));
    let [first, second] = &read.nodes[..] else { panic!("two nodes") };
    assert_eq!((first.state, first.attempt, first.round, first.tries), (NodeState::Passed, 1, 2, 3));
    assert_eq!(first.reason.as_deref(), Some("it went well"));
    assert_eq!(format!("{:?}", first.attempts[0].start), format!("{:?}", attempt_start(parser.clone())));
    assert_eq!(format!("{:?}", first.attempts[0].end), format!("{:?}", Some(attempt_end(parser))));
    assert!(first.attempts[0].verdict.is_none());
    assert_eq!((second.state, second.reason.as_deref()), (NodeState::Held, None));
    assert_eq!(format!("{:?}", second.attempts[0].end), format!("{:?}", Some(bare_end(review.clone()))));
    assert_eq!(format!("{:?}", second.attempts[0].verdict), format!("{:?}", Some(verdict(review))));
    assert_eq!(second.tokens(), None);
    assert_eq!(second.cost_usd(), (None, true));
}

#[test]
fn a_fresh_node_waits_and_a_started_one_runs() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    let standing = |store: &Store| {
        let read = store.run("r1").expect("there");
        let node = read.node(&node("parser")).expect("there").clone();
        (node.state, node.attempt, node.round, node.tries)
    };
    assert_eq!(standing(&store), (NodeState::Waiting, 0, 1, 0));
    store.start_attempt(&attempt_start(key("r1", "parser", 1))).expect("no error");
    assert_eq!(standing(&store), (NodeState::Running, 1, 2, 3));
    let read = store.run("r1").expect("there");
    assert_eq!(read.open_attempts().collect::<Vec<_>>(), [&key("r1", "parser", 1)]);
}

#[test]
fn an_attempt_ends_once() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    let first = key("r1", "parser", 1);
    let error =
        store.end_attempt(&bare_end(first.clone()), NodeState::Failed, None).expect_err("never started");
    assert!(matches!(error, StoreError::NoAttempt { .. }), "{error}");
    store.start_attempt(&attempt_start(first.clone())).expect("no error");
    store.end_attempt(&bare_end(first.clone()), NodeState::Waiting, None).expect("no error");
    let error = store.end_attempt(&attempt_end(first.clone()), NodeState::Passed, None).expect_err("again");
    assert_eq!(error.to_string(), "attempt `r1/parser/1` has ended already");
    store.start_attempt(&attempt_start(key("r1", "parser", 2))).expect("no error");
    let error = store.end_attempt(&attempt_end(first), NodeState::Passed, None).expect_err("overtaken");
    assert!(matches!(error, StoreError::AttemptEnded { .. }), "{error}");
    let read = store.run("r1").expect("there");
    assert_eq!(read.nodes[0].state, NodeState::Running, "a refused end changes nothing");
    assert_eq!(read.nodes[0].attempts[0].end.as_ref().expect("ended").outcome, "infrastructure");
}

#[test]
fn attempts_are_numbered_without_gaps_and_one_at_a_time() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    let next = |store: &Store| store.next_attempt(&run("r1"), &node("parser")).expect("there");
    assert_eq!(next(&store), 1);
    let error = store.start_attempt(&attempt_start(key("r1", "parser", 2))).expect_err("not the next");
    assert_eq!(error.to_string(), "attempt `r1/parser/2` is out of order, the next one is 1");
    store.start_attempt(&attempt_start(key("r1", "parser", 1))).expect("no error");
    assert_eq!(next(&store), 2);
    let error = store.start_attempt(&attempt_start(key("r1", "parser", 2))).expect_err("one is open");
    assert_eq!(error.to_string(), "attempt `r1/parser/1` has not ended yet");
    let error = store.start_attempt(&attempt_start(key("r1", "parser", 1))).expect_err("given already");
    assert!(matches!(error, StoreError::AttemptOrder { next: 2, .. }), "{error}");
    let error = store.start_attempt(&attempt_start(key("r1", "nobody", 1))).expect_err("no such node");
    assert_eq!(error.to_string(), "run `r1` has no node `nobody`");
    assert_eq!(
        store.next_attempt(&run("r1"), &node("review")).expect("there"),
        1,
        "each node counts by itself"
    );
}

#[test]
fn a_verdict_belongs_to_the_attempt_that_ends() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    let review = key("r1", "review", 1);
    store.start_attempt(&attempt_start(review.clone())).expect("no error");
    let foreign = verdict(key("r1", "review", 2));
    let error = store
        .end_attempt(&attempt_end(review.clone()), NodeState::Passed, Some(&foreign))
        .expect_err("foreign");
    assert!(matches!(error, StoreError::ForeignVerdict { .. }), "{error}");
    let unknown = VerdictRow { subject: node("nobody"), ..verdict(review.clone()) };
    store
        .end_attempt(&attempt_end(review.clone()), NodeState::Passed, Some(&unknown))
        .expect_err("no such subject");
    let read = store.run("r1").expect("there");
    assert!(read.nodes[1].attempts[0].end.is_none(), "end and verdict come together or not at all");
    store
        .end_attempt(&attempt_end(review.clone()), NodeState::Passed, Some(&verdict(review)))
        .expect("no error");
}

#[test]
fn a_run_starts_once_ends_once_and_may_be_reopened() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    let error = store.start_run(&run_start("r1", 1)).expect_err("again");
    assert_eq!(error.to_string(), "run `r1` exists already");
    let end = RunEnd { run: run("r1"), status: "interrupted".into(), exit_code: 130, ended: 9 };
    store.end_run(&end).expect("no error");
    assert!(matches!(store.end_run(&end), Err(StoreError::RunEnded { .. })));
    let start = attempt_start(key("r1", "parser", 1));
    assert!(matches!(store.start_attempt(&start), Err(StoreError::RunEnded { .. })));
    store.reopen_run(&run("r1"), "o2").expect("no error");
    let read = store.run("r1").expect("there");
    assert!(read.end.is_none());
    assert_eq!(read.start.owner, "o2");
    store.start_attempt(&start).expect("no error");
    store.end_run(&end).expect("no error");
    assert!(matches!(store.reopen_run(&run("r2"), "o2"), Err(StoreError::NoRun { .. })));
}

#[test]
fn nodes_move_without_an_attempt() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    store
        .set_node(&run("r1"), &node("review"), NodeState::Skipped, Some("`parser` failed"))
        .expect("no error");
    let read = store.run("r1").expect("there");
    assert_eq!(read.nodes[1].state, NodeState::Skipped);
    assert_eq!(read.nodes[1].reason.as_deref(), Some("`parser` failed"));
    let error = store.set_node(&run("r1"), &node("x"), NodeState::Held, None).expect_err("no such node");
    assert!(matches!(error, StoreError::NoNode { .. }));
}

#[test]
fn runs_are_found_by_id_by_a_unique_start_and_as_latest() {
    let folder = folder();
    let mut store = open(&folder);
    assert_eq!(store.run("latest").expect_err("none").to_string(), "no run `latest`");
    for (id, started) in
        [("20261201-093000-k3f9", 1), ("20261201-093000-k3f", 3), ("20261202-080000-aaaa", 2)]
    {
        store.start_run(&run_start(id, started)).expect("no error");
    }
    let found = |asked: &str| store.find_run(asked).map(|run| run.to_string());
    assert_eq!(found("20261202").expect("one"), "20261202-080000-aaaa");
    assert_eq!(found("20261201-093000-k3f").expect("whole id"), "20261201-093000-k3f");
    assert_eq!(found("latest").expect("some"), "20261201-093000-k3f");
    assert_eq!(
        found("20261201").expect_err("two").to_string(),
        "`20261201` is the start of 2 runs: `20261201-093000-k3f`, `20261201-093000-k3f9`"
    );
    for asked in ["", "%", "2026120_", "x", "20261202-080000-aaaaa"] {
        assert!(matches!(found(asked), Err(StoreError::NoRun { .. })), "{asked}");
    }
}

#[test]
fn the_list_of_runs_sums_up() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r2", 20)).expect("no error");
    store.start_run(&run_start("r1", 10)).expect("no error");
    let parser = key("r1", "parser", 1);
    store.start_attempt(&attempt_start(parser.clone())).expect("no error");
    store.end_attempt(&attempt_end(parser), NodeState::Passed, None).expect("no error");
    let [first, second] = &store.runs().expect("no error")[..] else { panic!("two runs") };
    assert_eq!((first.run.as_str(), first.epic.as_str(), first.started), ("r1", "parser-rewrite", 10));
    assert_eq!((first.counts.get(NodeState::Passed), first.counts.get(NodeState::Waiting)), (1, 1));
    assert_eq!(first.tokens.expect("known").output, 77);
    assert_eq!((first.cost_usd, first.at_least, first.status.as_deref()), (Some(0.0054915), false, None));
    assert_eq!(
        (second.tokens, second.cost_usd, second.at_least),
        (None, None, false),
        "nothing ran: nothing unknown"
    );

    let review = key("r1", "review", 1);
    store.start_attempt(&attempt_start(review.clone())).expect("no error");
    store.end_attempt(&bare_end(review), NodeState::Failed, None).expect("no error");
    store
        .end_run(&RunEnd { run: run("r1"), status: "failed".into(), exit_code: 1, ended: 99 })
        .expect("no error");
    let first = store.runs().expect("no error").remove(0);
    assert_eq!((first.cost_usd, first.at_least), (Some(0.0054915), true));
    assert_eq!((first.status.as_deref(), first.ended), (Some("failed"), Some(99)));
}

#[test]
fn absurd_numbers_of_an_agent_break_nothing() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    let parser = key("r1", "parser", 1);
    store.start_attempt(&attempt_start(parser.clone())).expect("no error");
    let tokens = Some(Tokens { input: u64::MAX, output: u64::MAX, cache_read: 1, cache_write: 0 });
    let end = AttemptEnd { tokens, cost_usd: Some(f64::NAN), ..attempt_end(parser) };
    store.end_attempt(&end, NodeState::Passed, None).expect("no error");
    let read = store.run("r1").expect("there").nodes[0].attempts[0].end.clone().expect("ended");
    assert_eq!(read.tokens.expect("known").input, i64::MAX.unsigned_abs());
    assert_eq!(read.cost_usd, None);
}

#[test]
fn events_are_kept_but_not_progress() {
    let folder = folder();
    let mut store = open(&folder);
    store.start_run(&run_start("r1", 0)).expect("no error");
    assert_eq!(store.next_seq(&run("r1")).expect("no error"), 1);
    let warning = stamped("r1", 1, RunEvent::Warning { message: "careful".into() });
    let held = stamped("r1", 4, RunEvent::NodeHeld { node: node("parser"), reason: "conflict".into() });
    let progress = RunEvent::NodeProgress {
        node: node("parser"),
        attempt: 1,
        phase: "running".into(),
        tokens: None,
        cost_usd: None,
        activity: None,
    };
    store.append_event(&warning).expect("no error");
    store.append_event(&stamped("r1", 2, progress)).expect("no error");
    store.append_event(&stamped("r1", 3, RunEvent::Heartbeat { running: vec![] })).expect("no error");
    store.append_event(&held).expect("no error");
    assert_eq!(store.events(&run("r1"), 0).expect("no error"), [warning.clone(), held.clone()]);
    assert_eq!(store.events(&run("r1"), 1).expect("no error"), std::slice::from_ref(&held));
    assert_eq!(store.next_seq(&run("r1")).expect("no error"), 5);
    store.append_event(&held).expect_err("the same number twice");
    store.append_event(&stamped("r9", 1, RunEvent::Heartbeat { running: vec![] })).expect("never stored");
    store.append_event(&Stamped { run: run("r9"), ..warning }).expect_err("no such run");
}

#[test]
fn several_processes_write_at_once() {
    let folder = folder();
    thread::scope(|scope| {
        for worker in 0..4 {
            let path: &Utf8Path = &folder.path;
            scope.spawn(move || {
                let mut store = Store::open(path).expect("it opens, even all at once");
                let id = format!("r{worker}");
                store.start_run(&run_start(&id, worker)).expect("no error");
                for seq in 1..=20 {
                    let warning = RunEvent::Warning { message: "x".into() };
                    store.append_event(&stamped(&id, seq, warning)).expect("no error");
                }
            });
        }
    });
    let store = open(&folder);
    assert_eq!(store.runs().expect("no error").len(), 4);
    for worker in 0..4 {
        assert_eq!(store.events(&run(&format!("r{worker}")), 0).expect("no error").len(), 20);
    }
}

#[test]
fn a_reader_sees_one_moment_while_a_writer_works() {
    let folder = folder();
    let mut writer = open(&folder);
    writer.start_run(&run_start("r1", 0)).expect("no error");
    let reader = open(&folder);
    assert_eq!(reader.run("r1").expect("there").nodes[0].state, NodeState::Waiting);
    writer.start_attempt(&attempt_start(key("r1", "parser", 1))).expect("no error");
    assert_eq!(reader.run("r1").expect("there").nodes[0].state, NodeState::Running);
}
