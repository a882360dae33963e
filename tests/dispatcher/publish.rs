//! What goes out of a run, when, and in which order; by a publisher that only writes down.

use std::sync::{Arc, Mutex};

use kew::{
    event::RunEvent,
    git::publish::PublishFault,
    name::AttemptKey,
    record::PublicationState,
    run::{
        dispatcher::Status,
        publisher::{PublishJob, Publisher, Sent},
        scripted::Script,
    },
};

use super::rig::{Played, Rig, exits, rig, votes};

/// Keeps what it was given; refuses the nodes that it is told to.
#[derive(Default)]
struct Outbox {
    jobs: Mutex<Vec<PublishJob>>,
    refuses: Vec<(&'static str, PublishFault)>,
}

impl Publisher for Outbox {
    fn remote(&self) -> String {
        "https://forge.example/o/r.git".to_owned()
    }
    fn branch(&self, key: &AttemptKey) -> String {
        format!("kew/e/{}", key.node)
    }
    fn publish(&self, job: &PublishJob) -> Result<Sent, PublishFault> {
        self.jobs.lock().unwrap().push(job.clone());
        match self.refuses.iter().find(|(node, _)| *node == job.key.node.as_str()) {
            Some((_, fault)) => Err(fault.clone()),
            None => {
                let url = Some(format!("https://forge.example/{}", job.key.node));
                Ok(Sent { url, already: false, warnings: Vec::new() })
            }
        }
    }
    fn abandon(&self) {}
}

fn play(rig: Rig, refuses: Vec<(&'static str, PublishFault)>) -> (Played, Vec<PublishJob>) {
    let outbox = Arc::new(Outbox { refuses, ..Outbox::default() });
    let played = Rig { publisher: Some(Arc::clone(&outbox) as Arc<dyn Publisher>), ..rig }.play();
    let jobs = outbox.jobs.lock().unwrap().clone();
    (played, jobs)
}

fn names(jobs: &[PublishJob]) -> Vec<&str> {
    jobs.iter().map(|job| job.key.node.as_str()).collect()
}

const REVIEWED: &str = "[nodes.a]\nprompt = 'true'\npublish = 'branch'\n[nodes.r]\nreviews = 'a'\nprompt = 'true'\n[nodes.b]\nneeds = ['a']\nprompt = 'true'\npublish = 'pull-request'\n";

fn states(played: &Played) -> Vec<(String, PublicationState)> {
    played.state.publications.iter().map(|row| (row.key.node.to_string(), row.state)).collect()
}

#[test]
fn what_was_approved_goes_out_and_stands_on_what_is_below() {
    let (played, jobs) = play(rig(REVIEWED).commits(&["a", "b"]).script("r", votes("approve")), Vec::new());
    assert_eq!((played.status(), names(&jobs)), (Status::Passed, vec!["a", "b"]));
    let (a, b) = (&jobs[0], &jobs[1]);
    assert_eq!(Some(&a.commit), played.end("a").head.as_ref());
    assert_eq!(a.story.own[0].1.summary, "r says approve");
    assert_eq!((b.stands_on.len(), b.stands_on[0].branch.as_str()), (1, "kew/e/a"));
    assert!(b.contains.contains(&a.commit) && b.story.own.is_empty() && b.story.gates.len() == 1);
    use PublicationState::{Published, Pushing};
    let of = |node: &str, state| (node.to_owned(), state);
    assert_eq!(states(&played), [of("a", Pushing), of("a", Published), of("b", Pushing), of("b", Published)]);
}

#[test]
fn what_was_not_approved_stays() {
    for (reviewer, status) in [
        (votes("request_changes"), Status::Held),
        (Script { sidecar: None, ..Script::default() }, Status::Held),
        (exits(1), Status::Failed),
    ] {
        let (played, jobs) = play(rig(REVIEWED).commits(&["a", "b"]).script("r", reviewer), Vec::new());
        assert_eq!((played.status(), names(&jobs)), (status, vec![]));
        assert!(played.state.publications.is_empty());
    }
}

#[test]
fn a_failed_node_and_one_whose_reviewer_is_not_in_the_run_stay() {
    let (played, jobs) = play(rig(REVIEWED).script("a", exits(1)), Vec::new());
    assert_eq!((played.status(), names(&jobs)), (Status::Failed, vec![]));
    let mut only = rig(REVIEWED).commits(&["a"]);
    only.active = vec![true, false, false];
    let (played, jobs) = play(only, Vec::new());
    assert_eq!((played.status(), names(&jobs)), (Status::Passed, vec![]));
}

#[test]
fn a_later_round_is_what_goes_out() {
    let text = "[nodes.a]\nprompt = 'true'\nrework = 1\npublish = 'branch'\n[nodes.r]\nreviews = 'a'\nprompt = 'true'\n";
    // Both rounds are rejected: nothing goes out.
    let (played, jobs) = play(rig(text).commits(&["a"]).script("r", votes("request_changes")), Vec::new());
    assert_eq!((played.status(), names(&jobs)), (Status::Held, vec![]));
}

#[test]
fn nothing_new_is_nothing_to_publish() {
    let text = "[nodes.a]\nprompt = 'true'\npublish = 'branch'\n[nodes.b]\nneeds = ['a']\nprompt = 'true'\npublish = 'branch'\n";
    let (played, jobs) = play(rig(text), Vec::new());
    assert_eq!((played.status(), names(&jobs)), (Status::Passed, vec![]));
    assert_eq!(states(&played).iter().filter(|(_, state)| *state == PublicationState::Nothing).count(), 2);
    // What stands where the branch below is has nothing of its own either.
    let (_, jobs) = play(rig(text).commits(&["a"]), Vec::new());
    assert_eq!(names(&jobs), ["a"]);
}

#[test]
fn trouble_leaves_the_node_passed_and_says_what_to_do() {
    let unreachable = PublishFault::unreachable("no-connection", "down", "mend it");
    let refused = PublishFault::refused("moved", "theirs", "look");
    for (fault, status) in [(unreachable, Status::Infrastructure), (refused, Status::Held)] {
        let rig = rig(REVIEWED).commits(&["a", "b"]).script("r", votes("approve"));
        let (played, jobs) = play(rig, vec![("a", fault.clone())]);
        assert_eq!((played.status(), names(&jobs)), (status, vec!["a", "b"]));
        assert_eq!(played.states(), "a=passed r=passed b=passed");
        assert!(jobs[1].stands_on.is_empty(), "what is not out is stood on by nothing");
        let told = played.events.iter().find_map(|event| match &event.event {
            RunEvent::PublishFailed { node, reason, help, .. } => {
                Some((node.to_string(), reason.clone(), help.clone()))
            }
            _ => None,
        });
        assert_eq!(told, Some(("a".to_owned(), fault.to_string(), fault.hint.to_owned())));
    }
}

#[test]
fn without_a_publisher_nothing_goes_out() {
    let played = rig(REVIEWED).commits(&["a", "b"]).script("r", votes("approve")).play();
    assert_eq!(played.status(), Status::Passed);
    assert!(played.state.publications.is_empty());
}
