//! The threads that nodes live on: made as they are needed, used again, never joined.
//!
//! Invariant: never more threads than nodes that ran at once, and a job never waits while a thread has nothing to do.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc as queue,
    },
    thread,
};

use tokio::sync::mpsc::Sender;

use super::{
    executor::Executor,
    ledger::Shelf,
    node::{self, Job, Told},
};

/// Threads that nodes live on, made as they are needed and used again.
pub(super) struct Pool {
    executor: Arc<dyn Executor>,
    shelf: Arc<dyn Shelf>,
    tell: Sender<Told>,
    jobs: queue::Sender<Job>,
    queue: Arc<Mutex<queue::Receiver<Job>>>,
    idle: Arc<AtomicUsize>,
    made: usize,
}

impl Pool {
    /// No thread yet.
    pub fn new(executor: Arc<dyn Executor>, shelf: Arc<dyn Shelf>, tell: Sender<Told>) -> Self {
        let (jobs, waiting) = queue::channel();
        Self {
            executor,
            shelf,
            tell,
            jobs,
            queue: Arc::new(Mutex::new(waiting)),
            idle: Arc::default(),
            made: 0,
        }
    }

    /// Hands a job to a thread that has nothing to do, or to a new one: never more than run at once.
    pub fn run(&mut self, job: Job) {
        let taken =
            self.idle.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |idle| idle.checked_sub(1)).is_ok();
        if !taken {
            self.made += 1;
            let (executor, shelf) = (Arc::clone(&self.executor), Arc::clone(&self.shelf));
            let (tell, queue, idle) = (self.tell.clone(), Arc::clone(&self.queue), Arc::clone(&self.idle));
            let life = move || {
                loop {
                    let job = queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    let freed = Arc::clone(&idle);
                    node::live(&*executor, &*shelf, job, &tell, move || {
                        freed.fetch_add(1, Ordering::SeqCst);
                    });
                }
            };
            thread::Builder::new()
                .name(format!("kew-node-{}", self.made))
                .spawn(life)
                .expect("the system can make a thread for each node that runs at once");
        }
        self.jobs.send(job).expect("the queue lives as long as the pool");
    }
}
