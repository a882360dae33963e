//! Real signals at this very process, sent by an engine when the time has come.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kew::{
    name::{AttemptKey, CommitId},
    outcome::EngineEnd,
    record::NodeState,
    run::{
        dispatcher::Status,
        executor::{Attempt, Caps, Collected, Executor, NodeSpec, Sink, Source, StopHow, Trouble},
    },
    verdict::{FoundAt, SidecarFault},
};
use rustix::process::{Signal, getpid, kill_process};

use super::rig::{BASE, Played, commit, jobs};

/// Containers that end only when they are stopped for the `deaf`th time or later. Each that starts, and each stop that is
/// not heard, sends the next signal.
struct Loud {
    signal: Signal,
    deaf: usize,
    stops: AtomicUsize,
    how: Mutex<Vec<StopHow>>,
    over: Arc<(Mutex<bool>, Condvar)>,
}

impl Loud {
    fn new(signal: Signal, deaf: usize) -> Arc<Self> {
        let (stops, how, over) = (AtomicUsize::new(0), Mutex::default(), Arc::default());
        Arc::new(Self { signal, deaf, stops, how, over })
    }

    fn send(&self) {
        kill_process(getpid(), self.signal).unwrap();
    }

    fn heard(&self) -> Vec<StopHow> {
        self.how.lock().unwrap().clone()
    }
}

/// The engine as the loop wants it.
struct Port(Arc<Loud>);

impl Executor for Port {
    fn caps(&self) -> Caps {
        Caps { fields: Vec::new() }
    }
    fn prepare(&self, _: &NodeSpec, _: &Source) -> Result<Box<dyn Attempt>, Trouble> {
        Ok(Box::new(Waits(Arc::clone(&self.0), commit(BASE))))
    }
    fn stop(&self, _: &AttemptKey, how: StopHow) {
        self.0.how.lock().unwrap().push(how);
        if self.0.stops.fetch_add(1, Ordering::SeqCst) < self.0.deaf {
            return self.0.send();
        }
        *self.0.over.0.lock().unwrap() = true;
        self.0.over.1.notify_all();
    }
}

struct Waits(Arc<Loud>, CommitId);

impl Attempt for Waits {
    fn input(&self) -> &CommitId {
        &self.1
    }
    fn run(&mut self, _: &str, sink: Arc<dyn Sink>) -> Result<EngineEnd, Trouble> {
        sink.started();
        self.0.send();
        let over = self.0.over.0.lock().unwrap();
        let _over = self.0.over.1.wait_while(over, |over| !*over).unwrap();
        Ok(EngineEnd { started: true, exit: Some(143), ..EngineEnd::default() })
    }
    fn collect(&mut self) -> Result<Collected, Trouble> {
        Ok(Collected::default())
    }
    fn sidecar(&mut self) -> Result<(Vec<u8>, FoundAt), SidecarFault> {
        Err(SidecarFault::Missing)
    }
}

fn interrupted(signal: Signal, deaf: usize) -> (Played, Vec<StopHow>) {
    let loud = Loud::new(signal, deaf);
    let played = jobs(&["a", "b < a"]).play_loud(Arc::new(Port(Arc::clone(&loud))));
    (played, loud.heard())
}

const GENTLY: StopHow = StopHow::Grace { int_first: false, grace: Duration::from_secs(5) };

#[test]
fn the_first_signal_stops_with_a_grace() {
    for signal in [Signal::INT, Signal::TERM] {
        let (played, heard) = interrupted(signal, 0);
        assert_eq!(heard, [GENTLY], "{signal:?}");
        assert_eq!((played.status(), played.ended.left), (Status::Interrupted, false));
        assert_eq!(played.states(), "a=cancelled b=skipped");
        assert_eq!(played.reason("a"), "asked to stop");
        let end = played.state.ended.expect("the end is on record");
        assert_eq!((end.status.as_str(), end.exit_code), ("interrupted", 130));
    }
}

#[test]
fn the_second_signal_removes_at_once() {
    let (played, heard) = interrupted(Signal::INT, 1);
    assert_eq!(heard, [GENTLY, StopHow::Now]);
    assert_eq!((played.status(), played.ended.left), (Status::Interrupted, false));
}

#[test]
fn the_third_signal_leaves_what_does_not_go() {
    let (played, heard) = interrupted(Signal::TERM, 9);
    assert_eq!(heard, [GENTLY, StopHow::Now]);
    assert_eq!((played.status(), played.ended.left), (Status::Interrupted, true));
    let a = &played.ended.nodes[0];
    assert_eq!((a.0, a.1), (0, NodeState::Running), "nobody knows how it ended");
    assert_eq!(played.state.ended.expect("the end is on record").exit_code, 130);
}
