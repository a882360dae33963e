//! The loop of a run: messages, signals, deadlines and redraws come in, the dispatcher's actions are performed in their order.
//!
//! It decides nothing. Invariant: it never joins a node's thread, so that a node that hangs cannot hang kew's exit.

mod outbox;

use std::{
    collections::HashMap,
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use tokio::sync::mpsc;

use self::outbox::Outbox;
use super::{
    Ended, Run,
    dispatcher::{Action, Dispatcher, Launch, Now, Setup, Status},
    executor::{Executor, NodeSpec, StopHow},
    fresh,
    ledger::{Ledger, LedgerError, Observer, Shelf},
    node::{Job, Report, Review, Told},
    past::PastNode,
    pool::Pool,
    signals::Signals,
    unix_ms,
};
use crate::{
    event::{EVENT_VERSION, RunEvent, Stamped},
    name::AttemptKey,
    outcome::StopCause,
    plan::spec::NodeIx,
    record::{AttemptEnd, AttemptStart, NodeState, RunEnd, VerdictRow},
    runners::StopSignal,
    verdict::Judged,
};

/// Nothing happened for this long: say that the run is alive.
const HEARTBEAT: Duration = Duration::from_secs(60);
/// How often a terminal is redrawn.
const REDRAW: Duration = Duration::from_millis(250);

/// Messages between nodes and the loop; a full channel slows the nodes.
const CHANNEL: usize = 1024;

/// Carries a run out.
pub fn drive(
    run: &Run<'_>,
    executor: Arc<dyn Executor>,
    shelf: Arc<dyn Shelf>,
    ledger: &mut dyn Ledger,
    observer: &mut dyn Observer,
) -> io::Result<Ended> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (tell, mut told) = mpsc::channel(CHANNEL);
    let mut dispatcher = Dispatcher::new(Setup {
        plan: run.plan,
        dag: run.dag,
        base: run.base.clone(),
        active: run.active.clone(),
        jobs: run.jobs,
        fail_fast: run.fail_fast,
        grace: run.grace,
        int_first: run.nodes.iter().map(|node| node.runner.stop_signal() == StopSignal::Int).collect(),
        idle: run.nodes.iter().map(|node| node.idle).collect(),
        credentials: run.nodes.iter().map(|node| node.bills.clone()).collect(),
        free: run.nodes.iter().map(|node| node.runner.free()).collect(),
        max_wait: run.max_wait,
        backoff: run.backoff,
        publish: run.publisher.is_some(),
    });
    run.publisher.iter().for_each(|going| dispatcher.remember_published(going));
    let mut driver = Driver {
        run,
        dispatcher,
        outbox: run.publisher.as_ref().map(|going| Outbox::new(going, tell.clone())),
        pool: Pool::new(Arc::clone(&executor), shelf, tell),
        executor,
        ledger,
        observer,
        stops: HashMap::new(),
        begun: Instant::now(),
        seq: run.past.as_ref().map_or(0, |past| past.seq),
        last_told: Instant::now(),
        broken: None,
    };
    runtime.block_on(driver.go(&mut told))
}

/// Why kew stops an attempt, once it does; shared with the attempt's thread.
type StopMark = Arc<Mutex<Option<StopCause>>>;

struct Driver<'a> {
    run: &'a Run<'a>,
    dispatcher: Dispatcher<'a>,
    pool: Pool,
    outbox: Option<Outbox>,
    executor: Arc<dyn Executor>,
    ledger: &'a mut dyn Ledger,
    observer: &'a mut dyn Observer,
    stops: HashMap<NodeIx, (AttemptKey, StopMark)>,
    begun: Instant,
    seq: u64,
    last_told: Instant,
    broken: Option<LedgerError>,
}

impl Driver<'_> {
    async fn go(&mut self, told: &mut mpsc::Receiver<Told>) -> io::Result<Ended> {
        let mut signals = Signals::listen()?;
        let mut redraw = tokio::time::interval(REDRAW);
        redraw.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
        self.tell(self.run_began());
        for message in &self.run.warnings {
            self.tell(RunEvent::Warning { message: message.clone() });
        }
        let first = match &self.run.past {
            None => self.dispatcher.start(self.now()),
            Some(past) => self.dispatcher.resume(past, self.now()),
        };
        self.perform(first);
        let mut requests = 0;
        while !self.dispatcher.done() {
            let deadline =
                self.dispatcher.next_deadline().map(|at| tokio::time::Instant::from_std(self.begun + at));
            let actions = tokio::select! {
                Some(message) = told.recv() => self.dispatcher.told(message, self.now()),
                () = signals.stop_requested() => {
                    requests += 1;
                    if requests == 3 {
                        return Ok(self.ended(true));
                    }
                    self.dispatcher.interrupt()
                }
                () = sleep_until(deadline) => self.dispatcher.tick(self.now()),
                _ = redraw.tick() => {
                    if self.last_told.elapsed() >= HEARTBEAT {
                        self.tell(RunEvent::Heartbeat { running: self.dispatcher.running() });
                    }
                    self.observer.tick(unix_ms());
                    Vec::new()
                }
            };
            self.perform(actions);
        }
        Ok(self.ended(false))
    }

    fn run_began(&self) -> RunEvent {
        let (epic, base) = (self.run.plan.epic.name.to_string(), self.run.base.to_string());
        let (nodes, max_parallel) = (self.ids(), self.run.jobs);
        let network = self.run.network.to_owned();
        let Some(past) = &self.run.past else {
            return RunEvent::RunStarted { epic, base, nodes, max_parallel, network };
        };
        let passed = |(_, known): &(&crate::plan::spec::Node, &PastNode)| {
            known.state == NodeState::Passed && !known.again
        };
        let kept = self.run.plan.nodes.iter().zip(&past.nodes).filter(passed);
        let kept = kept.map(|(node, _)| node.id.clone()).collect();
        RunEvent::RunResumed { epic, base, nodes, max_parallel, network, kept }
    }

    fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            let done = match action {
                Action::Launch(launch) => {
                    self.launch(launch);
                    Ok(())
                }
                Action::Ended { report, state, started } => self.record_end(&report, state, started),
                Action::Node { node, state, reason } => {
                    let key = self.key(node, 0);
                    self.ledger.node(&key, state, Some(&reason))
                }
                Action::Stop { node, cause, how } => {
                    self.stop(node, cause, how);
                    Ok(())
                }
                Action::Publish { node, commit } => self.publish(node, commit),
                Action::Published(answered) => self.record_published(&answered),
                Action::NotPublished { node } => {
                    self.tell_unpublished(node);
                    Ok(())
                }
                Action::AbandonPublishing => {
                    self.outbox.iter().for_each(Outbox::abandon);
                    Ok(())
                }
                Action::Tell(event) => {
                    self.tell(event);
                    Ok(())
                }
            };
            if let Err(error) = done {
                self.store_broke(error);
            }
        }
    }

    /// Nothing may be lost: a state that cannot be written stops the run.
    fn store_broke(&mut self, error: LedgerError) {
        if self.broken.is_some() {
            return;
        }
        self.broken = Some(error);
        for action in self.dispatcher.broken() {
            if let Action::Stop { node, cause, how } = action {
                self.stop(node, cause, how);
            }
        }
    }

    fn launch(&mut self, launch: Launch) {
        let (node, setup) = (&self.run.plan.nodes[launch.node], &self.run.nodes[launch.node]);
        let key = self.key(launch.node, launch.attempt);
        let container = format!("kew-{}-{}-{}-{}", self.run.id, node.id, launch.attempt, fresh(4));
        let stop = StopMark::default();
        self.stops.insert(launch.node, (key.clone(), Arc::clone(&stop)));
        if self.broken.is_none() {
            let recorded = self.ledger.attempt_started(&AttemptStart {
                key: key.clone(),
                round: launch.round,
                tries: launch.tries,
                runner: setup.runner.name().to_owned(),
                model: node.model.clone(),
                image_id: setup.image_id.clone(),
                container: container.clone(),
                prompt_digest: crate::digest::sha256_hex(&node.prompt),
                started: unix_ms(),
            });
            if let Err(error) = recorded {
                self.store_broke(error);
            }
        }
        if self.broken.is_some() {
            // The attempt is not on record, so it must not run: it is launched stopped, and its report ends it.
            self.stop(launch.node, StopCause::Asked, StopHow::Now);
        }
        self.tell(RunEvent::NodeStarted {
            node: node.id.clone(),
            attempt: launch.attempt,
            runner: setup.runner.name().to_owned(),
            model: node.model.clone(),
            image: setup.image.clone(),
        });
        let review = node.reviews.zip(launch.reviewed).map(|(subject, head)| Review {
            subject: self.run.plan.nodes[subject].id.clone(),
            head,
            nonce: fresh(16),
            by: node.verdict,
        });
        let job = Job {
            node: launch.node,
            spec: NodeSpec {
                key: key.clone(),
                container,
                image_id: setup.image_id.clone(),
                container_args: setup.runner.container_args(node.model.as_deref()),
                credentials: setup.credentials.clone(),
                network: setup.network,
                allow: setup.allow.clone(),
                limits: self.run.limits.clone(),
                epic: self.run.plan.epic.name.clone(),
                commits: node.commits,
                artifacts: node.artifacts.clone(),
                job: setup.runner.kind() == crate::runners::Kind::Job,
            },
            source: launch.source,
            runner: setup.runner,
            prompt: node.prompt.clone(),
            brief: node.brief,
            rework: (!launch.changes.is_empty()).then_some((launch.round, launch.changes)),
            review,
            log_max: self.run.log_max,
            artifacts_optional: node.artifacts_optional,
            step_cap: setup.step_cap,
            subscription: setup.runner.subscription(&setup.bills),
            stop,
        };
        self.pool.run(job);
    }

    fn stop(&mut self, node: NodeIx, cause: StopCause, how: StopHow) {
        let Some((key, stop)) = self.stops.get(&node) else { return };
        stop.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(cause);
        self.executor.stop(key, how);
    }

    fn record_end(&mut self, report: &Report, state: NodeState, started: i64) -> Result<(), LedgerError> {
        self.stops.remove(&report.node);
        let key = self.key(report.node, report.attempt);
        if !report.kept.is_empty() {
            self.ledger.attempt_kept(&key, &report.kept)?;
        }
        let ended = unix_ms().max(started);
        let row = AttemptEnd {
            key: key.clone(),
            ended,
            input: report.input.clone(),
            head: report.collected.head.clone(),
            commits: report.collected.work.commits,
            outcome: report.outcome.kind.word().to_owned(),
            reason: report.outcome.reason.clone(),
            exit: report.exit,
            session: report.account.session.clone(),
            model_reported: report.account.model.clone(),
            tokens: report.account.tokens(),
            cost_usd: report.cost_usd(),
            cost_source: report.cost_source(),
            summary: report.summary.clone(),
        };
        let subject = self.run.plan.nodes[report.node].reviews;
        let verdict = report.verdict.as_ref().zip(subject).zip(report.input.clone()).map(
            |(((judged, digest), subject), commit)| VerdictRow {
                key,
                subject: self.run.plan.nodes[subject].id.clone(),
                commit,
                verdict: judged.word().to_owned(),
                summary: judged.summary(),
                findings_json: findings(judged),
                digest: digest.clone(),
                time: ended,
            },
        );
        self.ledger.attempt_ended(&row, state, verdict.as_ref())
    }

    fn ended(&mut self, left: bool) -> Ended {
        for (node, state, reason) in self.dispatcher.leftovers() {
            let key = self.key(node, 0);
            if let Err(error) = self.ledger.node(&key, state, Some(&reason)) {
                self.store_broke(error);
            }
            let id = self.run.plan.nodes[node].id.clone();
            self.tell(match state {
                NodeState::Waiting => RunEvent::NodeWaiting { node: id, reason },
                _ => RunEvent::NodeSkipped { node: id, reason },
            });
        }
        let status = self.conclude(if left { Status::Interrupted } else { self.dispatcher.status() });
        let leftovers: HashMap<NodeIx, (NodeState, String)> = self
            .dispatcher
            .leftovers()
            .into_iter()
            .map(|(node, state, reason)| (node, (state, reason)))
            .collect();
        let active = (0..self.run.plan.nodes.len()).filter(|node| self.run.active[*node]);
        let nodes = active
            .map(|node| match leftovers.get(&node) {
                Some((state, reason)) => (node, *state, Some(reason.clone())),
                None => (node, self.dispatcher.state(node), self.dispatcher.reason(node).map(str::to_owned)),
            })
            .collect();
        Ended { status, nodes, left, broken: self.broken.clone() }
    }

    /// Writes the end down, then tells it. Each of the two writes may still turn a good end into a bad one; the row is the
    /// last thing written, so a state that broke before it holds a run without an end.
    fn conclude(&mut self, mut status: Status) -> Status {
        let mut last = self.stamp(self.run_ended(status));
        if let Err(error) = self.ledger.event(&last) {
            self.broken.get_or_insert(error);
            status = status.max_with_broken();
            last.event = self.run_ended(status);
        }
        let row = RunEnd {
            run: self.run.id.clone(),
            status: status.word().to_owned(),
            exit_code: i32::from(status.exit_code()),
            ended: last.time,
        };
        if let Err(error) = self.ledger.run_ended(&row) {
            self.broken.get_or_insert(error);
            status = status.max_with_broken();
            last.event = self.run_ended(status);
        }
        self.observer.event(&last);
        status
    }

    fn run_ended(&self, status: Status) -> RunEvent {
        let (tokens, cost_usd, cost_at_least) = self.dispatcher.spent();
        RunEvent::RunEnded {
            status: status.word().to_owned(),
            exit_code: i32::from(status.exit_code()),
            duration_ms: i64::try_from(self.begun.elapsed().as_millis()).unwrap_or(i64::MAX),
            tokens,
            cost_usd,
            not_billed_usd: self.dispatcher.not_billed(),
            cost_at_least,
        }
    }

    fn stamp(&mut self, event: RunEvent) -> Stamped {
        self.seq += 1;
        Stamped { v: EVENT_VERSION, seq: self.seq, time: unix_ms(), run: self.run.id.clone(), event }
    }

    fn tell(&mut self, event: RunEvent) {
        self.last_told = Instant::now();
        let stamped = self.stamp(event);
        if !matches!(stamped.event, RunEvent::NodeProgress { .. } | RunEvent::Heartbeat { .. })
            && let Err(error) = self.ledger.event(&stamped)
        {
            self.store_broke(error);
        }
        self.observer.event(&stamped);
    }

    fn key(&self, node: NodeIx, attempt: u32) -> AttemptKey {
        AttemptKey { run: self.run.id.clone(), node: self.run.plan.nodes[node].id.clone(), attempt }
    }

    fn ids(&self) -> Vec<crate::name::NodeId> {
        let nodes = self.run.plan.nodes.iter().zip(&self.run.active);
        nodes.filter(|(_, active)| **active).map(|(node, _)| node.id.clone()).collect()
    }

    fn now(&self) -> Now {
        Now { since: self.begun.elapsed(), unix_ms: unix_ms() }
    }
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn findings(judged: &Judged) -> String {
    let findings = match judged {
        Judged::Approve(opinion) | Judged::RequestChanges(opinion) => {
            serde_json::to_string(&opinion.findings)
        }
        Judged::Held(_) => Ok("[]".to_owned()),
    };
    findings.expect("findings are plain text and numbers, which JSON can hold")
}
