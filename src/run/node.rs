//! One attempt of one node from its input to its report: the steps in their order, on one thread.
//!
//! It decides nothing about other nodes and writes no rows; the report says all that the dispatcher must know. Invariant:
//! whatever happens, exactly one report is sent.

mod home;
mod listener;
mod masked;

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Arc, Mutex, MutexGuard},
};

use tokio::sync::mpsc::Sender;

use self::{listener::Listener, masked::mask_report};
use super::{
    executor::{Attempt, Collected, Executor, NodeSpec, Sink, Source, Trouble},
    ledger::{AttemptShelf, Shelf},
    publisher::Answered,
};
use crate::{
    contract::SIDECAR_FILENAME,
    docker::argv::Network,
    egress::{self, Dealings, Host},
    name::{CommitId, NodeId},
    outcome::{EngineEnd, Kind, Outcome, StopCause, judge_end, judge_work},
    plan::spec::{Commits, NodeIx, VerdictBy},
    record::Kept,
    rounds::Asked,
    runners::{
        Runner,
        brief::{self, BriefFacts, Egress, ReviewerFacts},
    },
    stream::{Account, CostSource, Tokens},
    verdict::{self, Expected, FoundAt, Judged, SidecarFault},
};

/// A node with everything that its attempt needs.
#[derive(Clone)]
pub struct Job {
    /// Index in the plan.
    pub node: NodeIx,
    /// For the engine.
    pub spec: NodeSpec,
    /// What it starts from.
    pub source: Source,
    /// The runner.
    pub runner: &'static dyn Runner,
    /// The prompt without its brief.
    pub prompt: String,
    /// Whether the coder's brief is added.
    pub brief: bool,
    /// From the second round on: its number, and who asked for what.
    pub rework: Option<(u32, Vec<Asked>)>,
    /// What a reviewer must know.
    pub review: Option<Review>,
    /// The largest log, in bytes.
    pub log_max: u64,
    /// It passes without artifacts too.
    pub artifacts_optional: bool,
    /// How many steps it may take.
    pub step_cap: Option<u32>,
    /// A subscription pays for it.
    pub subscription: bool,
    /// Why kew stops it, once it does.
    pub stop: Arc<Mutex<Option<StopCause>>>,
}

/// What a reviewer must know.
#[derive(Debug, Clone)]
pub struct Review {
    /// The subject.
    pub subject: NodeId,
    /// The reviewed commit.
    pub head: CommitId,
    /// A fresh random word that the verdict may echo.
    pub nonce: String,
    /// Sidecar or exit status.
    pub by: VerdictBy,
}

/// What a node tells while it runs.
#[derive(Debug)]
pub enum Told {
    /// Where it stands.
    Progress(Progress),
    /// Its container starts; the deadline counts from here.
    Started(NodeIx),
    /// It said something; told at most once a second.
    Heard(NodeIx),
    /// Its container is over: it may be silent now.
    Ran(NodeIx),
    /// Something that kew must stop it for.
    MustStop(NodeIx, StopCause),
    /// It is over.
    Ended(Box<Report>),
    /// Its publication is over; not told by a node, but on the same channel.
    Published(Box<Answered>),
}

/// Where an attempt stands.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The node.
    pub node: NodeIx,
    /// `checkout`, `running`, `collecting`.
    pub phase: &'static str,
    /// Tokens so far.
    pub tokens: Option<Tokens>,
    /// US dollars so far.
    pub cost_usd: Option<f64>,
    /// What it does now (agent text).
    pub activity: Option<String>,
}

/// How an attempt went.
#[derive(Debug)]
pub struct Report {
    /// The node.
    pub node: NodeIx,
    /// The attempt.
    pub attempt: u32,
    /// Outcome of the node.
    pub outcome: Outcome,
    /// What it started from, if it came so far.
    pub input: Option<CommitId>,
    /// What it brought.
    pub collected: Collected,
    /// Exit status of the container.
    pub exit: Option<i32>,
    /// The container ran, or may have: it can have spent something.
    pub ran: bool,
    /// What its stream added up to.
    pub account: Account,
    /// Zero cost by definition.
    pub free: bool,
    /// A subscription pays: its cost is nobody's bill.
    pub subscription: bool,
    /// The reviewer's word and the digest of kew's copy of the sidecar.
    pub verdict: Option<(Judged, Option<String>)>,
    /// Last text.
    pub summary: Option<String>,
    /// What is kept of it beside that.
    pub kept: Kept,
    /// The ref that keeps its unfinished work.
    pub kept_ref: Option<String>,
    /// Things worth a warning.
    pub warnings: Vec<String>,
    /// The folder with its files.
    pub files: Option<String>,
    /// What it asked its network's gateway for.
    pub egress: Dealings,
}

impl Report {
    /// US dollars, zero where the runner is free.
    pub fn cost_usd(&self) -> Option<f64> {
        if self.free { Some(0.0) } else { self.account.cost_usd() }
    }

    /// A failed node whose last request was refused says that first; so does one that the gateway left alone.
    fn tell_egress(&mut self, network: Network, allow: &[Host]) {
        let unreached =
            network == Network::Allowlist && self.ran && !self.egress.reached && !allow.is_empty();
        let trouble = self.egress.trouble.take().or_else(|| {
            unreached.then(|| {
                "the gateway never heard of it; `kew sandbox network status` tells whether it can be reached".to_owned()
            })
        });
        let refused = egress::first_words(&self.egress.refused);
        let told: Vec<String> = [trouble.clone(), refused].into_iter().flatten().collect();
        if told.is_empty() {
            return;
        }
        // Of a node that passed, or that was stopped, it explains nothing.
        if matches!(self.outcome.kind, Kind::Passed | Kind::Cancelled | Kind::Held) {
            self.warnings.extend(trouble.filter(|_| self.outcome.kind == Kind::Passed && !unreached));
            return;
        }
        let reason = self.outcome.reason.take();
        self.outcome.reason = Some(told.into_iter().chain(reason).collect::<Vec<_>>().join("; "));
    }

    /// Who says so. What a stopped agent had told so far is at least what it spent.
    pub fn cost_source(&self) -> CostSource {
        let cut = matches!(
            self.outcome.kind,
            Kind::Cancelled | Kind::TimedOut | Kind::Stalled | Kind::Runaway | Kind::Infrastructure
        );
        match self.account.totals() {
            _ if self.free => CostSource::Free,
            None if cut => CostSource::Unknown,
            _ => match self.account.cost_source() {
                CostSource::ListPrice if self.subscription => CostSource::NotBilled,
                source => source,
            },
        }
    }
}

/// Lives an attempt and sends its report; `freed` is called just before, when this thread is about to be free.
pub fn live(executor: &dyn Executor, shelf: &dyn Shelf, job: Job, tell: &Sender<Told>, freed: impl FnOnce()) {
    let mut report = Report {
        node: job.node,
        attempt: job.spec.key.attempt,
        outcome: Outcome::passed(),
        input: None,
        collected: Collected::default(),
        exit: None,
        ran: false,
        account: Account::default(),
        free: job.runner.free(),
        subscription: job.subscription,
        verdict: None,
        summary: None,
        kept: Kept::default(),
        kept_ref: None,
        warnings: Vec::new(),
        files: None,
        egress: Dealings::default(),
    };
    // A bug in one node must not hang the run: whatever happens, a report is sent.
    let lived = panic::catch_unwind(AssertUnwindSafe(|| steps(executor, shelf, &job, tell, &mut report)));
    match lived {
        Ok(Ok(())) => {}
        Ok(Err(outcome)) => report.outcome = outcome,
        Err(_) => {
            let reason = "kew itself failed in this node; its message is above";
            report.outcome = Outcome::new(Kind::Infrastructure, reason);
        }
    }
    if let Some(StopCause::Asked) = &*lock(&job.stop)
        && report.outcome.kind != Kind::Passed
    {
        report.outcome = Outcome::new(Kind::Cancelled, "asked to stop");
    }
    report.tell_egress(job.spec.network, &job.spec.allow);
    mask_report(&mut report, &shelf.mask());
    freed();
    // The loop ends only after every report: if it is gone, so is the run.
    let _ = tell.blocking_send(Told::Ended(Box::new(report)));
}

fn steps(
    executor: &dyn Executor,
    shelf: &dyn Shelf,
    job: &Job,
    tell: &Sender<Told>,
    report: &mut Report,
) -> Result<(), Outcome> {
    let _ = tell.blocking_send(progress(job, "checkout"));
    let mut files = shelf.attempt(&job.spec.key).map_err(|error| disk("the log folder", &error))?;
    report.files = Some(files.path());
    let mut attempt = executor.prepare(&job.spec, &job.source).map_err(of_trouble)?;
    let input = attempt.input().clone();
    report.input = Some(input.clone());

    let prompt = render_prompt(job, &input, attempt.host_path());
    files.prompt(&prompt).map_err(|error| disk("the prompt's copy", &error))?;

    let listener = Arc::new(Listener::new(job, tell, &mut *files, shelf.mask())?);
    let sink: Arc<dyn Sink> = listener.clone();
    let end = attempt.run(&prompt, sink);
    report.egress = attempt.egress();
    let _ = tell.blocking_send(Told::Ran(job.node));
    report.ran =
        listener.began() && end.as_ref().map_or(true, |end| end.started || end.lost || end.exit != Some(125));

    let heard = listener.close()?;
    report.account = heard.account;
    report.summary = heard.summary;
    let mut end = end.map_err(of_trouble)?;
    report.exit = end.exit;
    if end.stderr_tail.is_empty() {
        end.stderr_tail = heard.tail;
    }
    if heard.lines > 0 && report.account.untold() {
        report.warnings.push(format!(
            "no line that it wrote means anything to the runner `{}`, so neither its end nor its cost is known; is it the image of another runner?",
            job.runner.name()
        ));
    }
    if end.oom == Some(true) {
        report.warnings.push("something in the container ran out of memory".to_owned());
    }

    // From here on the container is gone, and what it left can be brought home however it ended.
    if let Err(outcome) = results(job, tell, &mut *attempt, &mut *files, &end, report) {
        report.outcome = outcome;
    }
    home::bring_home(job, &mut *attempt, &mut *files, report);
    Ok(())
}

/// What the attempt came to: its end, its commits, its verdict.
fn results(
    job: &Job,
    tell: &Sender<Told>,
    attempt: &mut dyn Attempt,
    files: &mut dyn AttemptShelf,
    end: &EngineEnd,
    report: &mut Report,
) -> Result<(), Outcome> {
    let stop = lock(&job.stop).clone();
    if let Err(outcome) = judge_end(stop.as_ref(), end, &report.account) {
        return Err(exit_is_no_verdict(job, report, outcome));
    }
    if job.spec.commits != Commits::Forbidden {
        let _ = tell.blocking_send(progress(job, "collecting"));
        report.collected = attempt.collect().map_err(of_trouble)?;
        report.outcome = judge_work(job.spec.commits, &report.collected.work);
    }
    if let Some(review) = &job.review {
        let (read, found) = match attempt.sidecar() {
            Ok((bytes, found)) => {
                let copy = files.verdict(&bytes).map_err(|error| disk("the verdict's copy", &error))?;
                (Ok(copy), found)
            }
            Err(fault) => (Err(fault), FoundAt::Root),
        };
        // kew's own copy counts from here on: what is left in the checkout can still be rewritten.
        let digest = read.as_ref().ok().map(crate::digest::sha256_hex);
        let judged = judge(job, review, read.as_deref().map_err(Clone::clone), found);
        if matches!(judged, Judged::Held(_)) {
            report.outcome = Outcome::new(Kind::Held, judged.summary());
        }
        report.verdict = Some((judged, digest));
    }
    Ok(())
}

fn progress(job: &Job, phase: &'static str) -> Told {
    let cost_usd = job.runner.free().then_some(0.0);
    Told::Progress(Progress { node: job.node, phase, tokens: None, cost_usd, activity: None })
}

/// A job whose exit status is its verdict, with a status that is none: held, since 124 and above say how it ended, not
/// what it found.
fn exit_is_no_verdict(job: &Job, report: &mut Report, outcome: Outcome) -> Outcome {
    let by_exit = job.review.as_ref().is_some_and(|review| review.by == VerdictBy::Exit);
    let code = report.account.result.as_ref().and_then(|result| result.exit_code);
    match (code, &job.review) {
        (Some(code), Some(review)) if by_exit && outcome.kind == Kind::Failed && code >= 124 => {
            let judged = judge(job, review, Err(SidecarFault::ExitStatus(code)), FoundAt::Root);
            let reason = judged.summary();
            report.verdict = Some((judged, None));
            Outcome::new(Kind::Held, reason)
        }
        _ => outcome,
    }
}

fn judge(job: &Job, review: &Review, read: Result<&[u8], SidecarFault>, found: FoundAt) -> Judged {
    let expected =
        Expected { node: &job.spec.key.node, head: &review.head, nonce: &review.nonce, found, pick: None };
    verdict::decide(read, &expected)
}

fn render_prompt(job: &Job, input: &CommitId, host: Option<&str>) -> String {
    let reviewer = job.review.as_ref().map(|review| {
        let (subject, head) = (review.subject.clone(), review.head.clone());
        let facts = ReviewerFacts::new(subject, head, review.nonce.clone(), review.by);
        match host {
            None => facts,
            Some(checkout) => ReviewerFacts { sidecar: format!("{checkout}/{SIDECAR_FILENAME}"), ..facts },
        }
    });
    let facts = BriefFacts {
        epic: job.spec.epic.clone(),
        node: job.spec.key.node.clone(),
        run: job.spec.key.run.clone(),
        branch: job.spec.branch(),
        input: input.clone(),
        host: host.map(str::to_owned),
        network: match job.spec.network {
            Network::Allowlist => Egress::Allowlist,
            Network::Open => Egress::Open,
            Network::None => Egress::None,
        },
        reviewer,
        commits: job.spec.commits,
        rework: job
            .rework
            .as_ref()
            .map(|(round, asked)| brief::Rework { round: *round, findings: brief::findings(asked) }),
    };
    brief::render(job.runner.kind(), &facts, &job.prompt, job.brief)
}

fn of_trouble(trouble: Trouble) -> Outcome {
    match trouble {
        Trouble::Held { word, sentence } => Outcome::new(Kind::Held, format!("{word}: {sentence}")),
        Trouble::Failed(reason) => Outcome::new(Kind::Failed, reason),
        Trouble::Infrastructure(reason) => Outcome::new(Kind::Infrastructure, reason),
        Trouble::Stopped => Outcome::new(Kind::Cancelled, "asked to stop"),
    }
}

fn disk(what: &str, error: &std::io::Error) -> Outcome {
    Outcome::new(Kind::Infrastructure, format!("{what} could not be written: {error}"))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
