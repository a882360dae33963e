//! Publications of a run: written down, handed to a thread of their own, written down again.
//!
//! It decides nothing. Invariant: what is not on record is not handed over.

use std::{
    collections::BTreeMap,
    panic::{self, AssertUnwindSafe},
    sync::{Arc, mpsc as queue},
    thread,
};

use tokio::sync::mpsc::Sender;

use super::Driver;
use crate::{
    event::RunEvent,
    git::publish::PublishFault,
    name::CommitId,
    plan::spec::NodeIx,
    record::{Publication, PublicationState},
    run::{
        ledger::LedgerError,
        node::Told,
        publisher::{self, Answered, Going, Of, PublishJob, Publisher, StandsOn},
        unix_ms,
    },
};

/// The thread, and what it has brought out so far.
pub(super) struct Outbox {
    publisher: Arc<dyn Publisher>,
    jobs: queue::Sender<PublishJob>,
    out: BTreeMap<NodeIx, StandsOn>,
}

impl Outbox {
    /// The thread waits until the outbox is gone; it is never joined.
    pub fn new(going: &Going, tell: Sender<Told>) -> Self {
        let publisher = Arc::clone(&going.publisher);
        let (jobs, waiting) = queue::channel::<PublishJob>();
        let worker = Arc::clone(&publisher);
        let life = move || {
            while let Ok(job) = waiting.recv() {
                let sent = panic::catch_unwind(AssertUnwindSafe(|| worker.publish(&job)));
                let broke = || {
                    let sentence = "kew itself failed while publishing; its message is above";
                    PublishFault::unreachable("kew", sentence, "`kew publish` tries again")
                };
                let sent = sent.unwrap_or_else(|_| Err(broke()));
                if tell.blocking_send(Told::Published(Box::new(Answered { job, sent }))).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new()
            .name("kew-publish".to_owned())
            .spawn(life)
            .expect("the system can make one thread for all publications");
        Self { publisher, jobs, out: going.out.clone() }
    }

    /// Ends what is under way.
    pub fn abandon(&self) {
        self.publisher.abandon();
    }
}

impl Driver<'_> {
    pub(super) fn publish(&mut self, node: NodeIx, commit: CommitId) -> Result<(), LedgerError> {
        let Some(outbox) = &self.outbox else { return Ok(()) };
        let attempt = self.dispatcher.standing(node).map_or(0, |standing| standing.attempt);
        let key = self.key(node, attempt);
        let (branch, remote) = (outbox.publisher.branch(&key), outbox.publisher.remote());
        let (plan, dag) = (self.run.plan, self.run.dag);
        let run = Of { plan, dag, run: &self.run.id, base: &self.run.base };
        let job = publisher::job(
            &run,
            node,
            commit.clone(),
            branch.clone(),
            &|node| self.dispatcher.standing(node),
            &|node| outbox.out.get(&node).cloned(),
        );
        let state = if job.is_some() { PublicationState::Pushing } else { PublicationState::Nothing };
        let (url, reason, time) = (None, None, unix_ms());
        let row = Publication { key, commit, branch: branch.clone(), remote, state, url, reason, time };
        if self.broken.is_some() {
            self.dispatcher.unpublish();
            return Ok(());
        }
        if let Err(error) = self.ledger.publication(&row) {
            self.dispatcher.unpublish();
            return Err(error);
        }
        match job {
            Some(job) => outbox.jobs.send(job).expect("the thread lives as long as the outbox"),
            None => {
                self.tell(RunEvent::NothingToPublish { node: row.key.node, branch });
                let next = self.dispatcher.went();
                self.perform(next);
            }
        }
        Ok(())
    }

    pub(super) fn record_published(&mut self, answered: &Answered) -> Result<(), LedgerError> {
        let Some(outbox) = &mut self.outbox else { return Ok(()) };
        let Answered { job, sent } = answered;
        let remote = outbox.publisher.remote();
        if let Ok(sent) = sent {
            let (branch, commit, url) = (job.branch.clone(), job.commit.clone(), sent.url.clone());
            outbox.out.insert(job.node, StandsOn { branch, commit, url });
        }
        let row = publisher::row(job, remote.clone(), sent, unix_ms());
        let recorded = self.ledger.publication(&row);
        self.tell(publisher::event(job, remote, sent));
        for warning in sent.iter().flat_map(|sent| &sent.warnings) {
            self.tell(RunEvent::Warning { message: format!("`{}`: {warning}", job.key.node) });
        }
        recorded
    }

    /// The run was stopped before the node was handed over.
    pub(super) fn tell_unpublished(&mut self, node: NodeIx) {
        let Some(outbox) = &self.outbox else { return };
        let key = self.key(node, 0);
        let (branch, remote) = (outbox.publisher.branch(&key), outbox.publisher.remote());
        let fault = PublishFault::stopped();
        self.tell(RunEvent::PublishFailed {
            node: key.node,
            branch,
            remote,
            state: PublicationState::Stopped,
            reason: fault.to_string(),
            help: fault.hint.to_owned(),
        });
    }
}
