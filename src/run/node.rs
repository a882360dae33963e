//! One attempt of one node from its input to its report: the steps in their order, on one thread.
//!
//! It decides nothing about other nodes and writes no rows; the report says all that the dispatcher must know. Invariant:
//! whatever happens, exactly one report is sent.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::mpsc::Sender;

use super::{
    executor::{Collected, Executor, NodeSpec, Sink, Source, Trouble},
    ledger::{LineLog, Shelf},
};
use crate::{
    docker::argv::Network,
    lines::Line,
    name::{CommitId, NodeId},
    outcome::{Kind, Outcome, StopCause, judge_end, judge_work},
    plan::spec::{Commits, NodeIx, VerdictBy},
    runners::{
        Runner,
        brief::{self, BriefFacts, Egress, ReviewerFacts},
    },
    stream::{Account, CostSource, StreamEvent, Tokens},
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
    /// What a reviewer must know.
    pub review: Option<Review>,
    /// The largest log, in bytes.
    pub log_max: u64,
    /// How many steps it may take.
    pub step_cap: Option<u32>,
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
    /// It said something; told at most once per [`HEARD_EVERY`].
    Heard(NodeIx),
    /// Its container is over: it may be silent now.
    Ran(NodeIx),
    /// Something that kew must stop it for.
    MustStop(NodeIx, StopCause),
    /// It is over.
    Ended(Box<Report>),
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
    /// What its stream added up to.
    pub account: Account,
    /// Zero cost by definition.
    pub free: bool,
    /// The reviewer's word and the digest of kew's copy of the sidecar.
    pub verdict: Option<(Judged, Option<String>)>,
    /// Last text.
    pub summary: Option<String>,
    /// Things worth a warning.
    pub warnings: Vec<String>,
    /// The folder with its files.
    pub files: Option<String>,
}

impl Report {
    /// US dollars, zero where the runner is free.
    pub fn cost_usd(&self) -> Option<f64> {
        if self.free { Some(0.0) } else { self.account.cost_usd() }
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
            _ => self.account.cost_source(),
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
        account: Account::default(),
        free: job.runner.free(),
        verdict: None,
        summary: None,
        warnings: Vec::new(),
        files: None,
    };
    if let Err(outcome) = steps(executor, shelf, &job, tell, &mut report) {
        report.outcome = outcome;
    }
    if let Some(StopCause::Asked) = &*lock(&job.stop)
        && report.outcome.kind != Kind::Passed
    {
        report.outcome = Outcome::new(Kind::Cancelled, "asked to stop");
    }
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
    let progress = |phase| {
        Told::Progress(Progress { node: job.node, phase, tokens: None, cost_usd: None, activity: None })
    };
    let _ = tell.blocking_send(progress("checkout"));
    let mut files = shelf.attempt(&job.spec.key).map_err(|error| disk("the log folder", &error))?;
    report.files = Some(files.path());
    let mut attempt = executor.prepare(&job.spec, &job.source).map_err(of_trouble)?;
    let input = attempt.input().clone();
    report.input = Some(input.clone());

    let prompt = render_prompt(job, &input);
    files.prompt(&prompt).map_err(|error| disk("the prompt's copy", &error))?;

    let stream = Arc::new(Stream {
        node: job.node,
        runner: job.runner,
        tell: tell.clone(),
        log_max: job.log_max,
        step_cap: job.step_cap,
        heard: Mutex::new(Instant::now()),
        out: Mutex::new(Out {
            log: files.stdout().map_err(|error| disk("the log", &error))?,
            account: Account::default(),
            events: Vec::new(),
            texts: Texts::default(),
            activity: None,
            told: Instant::now(),
            lines: 0,
            broken: None,
        }),
        err: Mutex::new(Err {
            log: files.stderr().map_err(|error| disk("the log", &error))?,
            tail: String::new(),
            broken: None,
        }),
        alarmed: AtomicBool::new(false),
    });
    let sink: Arc<dyn Sink> = stream.clone();
    let end = attempt.run(&prompt, sink);
    let _ = tell.blocking_send(Told::Ran(job.node));

    let (account, summary, tail, lines) = stream.close()?;
    report.account = account;
    report.summary = summary;
    let mut end = end.map_err(of_trouble)?;
    report.exit = end.exit;
    if end.stderr_tail.is_empty() {
        end.stderr_tail = tail;
    }
    if blind(&report.account, lines) {
        report.warnings.push(format!(
            "no line that it wrote means anything to the runner `{}`, so neither its end nor its cost is known; is it the image of another runner?",
            job.runner.name()
        ));
    }
    if end.oom == Some(true) {
        report.warnings.push("something in the container ran out of memory".to_owned());
    }

    let stop = lock(&job.stop).clone();
    if let Err(outcome) = judge_end(stop.as_ref(), &end, &report.account) {
        return Err(exit_is_no_verdict(job, report, outcome));
    }
    if job.spec.commits != Commits::Forbidden {
        let _ = tell.blocking_send(progress("collecting"));
        report.collected = attempt.collect().map_err(of_trouble)?;
        report.outcome = judge_work(job.spec.commits, &report.collected.work);
    }
    if let Some(review) = &job.review {
        let read = attempt.sidecar();
        let digest = match &read {
            Ok((bytes, _)) => {
                files.verdict(bytes).map_err(|error| disk("the verdict's copy", &error))?;
                Some(crate::digest::sha256_hex(bytes))
            }
            Err(_) => None,
        };
        let (read, found) = match read {
            Ok((bytes, found)) => (Ok(bytes), found),
            Err(fault) => (Err(fault), FoundAt::Root),
        };
        let judged = judge(job, review, read.as_deref().map_err(Clone::clone), found);
        if matches!(judged, Judged::Held(_)) {
            report.outcome = Outcome::new(Kind::Held, judged.summary());
        }
        report.verdict = Some((judged, digest));
    }
    Ok(())
}

/// It wrote to stdout, and nothing of it told anything.
fn blind(account: &Account, lines: u64) -> bool {
    lines > 0 && account.untold()
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

fn render_prompt(job: &Job, input: &CommitId) -> String {
    let reviewer = job.review.as_ref().map(|review| {
        ReviewerFacts::new(review.subject.clone(), review.head.clone(), review.nonce.clone(), review.by)
    });
    let facts = BriefFacts {
        epic: job.spec.epic.clone(),
        node: job.spec.key.node.clone(),
        run: job.spec.key.run.clone(),
        branch: job.spec.branch(),
        input: input.clone(),
        network: match job.spec.network {
            Network::Allowlist => Egress::Allowlist,
            Network::Open => Egress::Open,
            Network::None => Egress::None,
        },
        reviewer,
        commits: job.spec.commits,
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

/// How often a running node tells where it stands.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// How often it tells that it said something.
pub const HEARD_EVERY: Duration = Duration::from_secs(1);
/// How many steps in a row an agent with a [cap](crate::runners::Runner::step_cap) may take that use no token at all: one
/// whose connection is cut again and again goes on like that for ever, at no visible cost.
pub const EMPTY_STEPS: u32 = 25;

/// A node's two streams: each line to its log, then to its meaning.
struct Stream {
    node: NodeIx,
    runner: &'static dyn Runner,
    tell: Sender<Told>,
    log_max: u64,
    step_cap: Option<u32>,
    heard: Mutex<Instant>,
    out: Mutex<Out>,
    err: Mutex<Err>,
    alarmed: AtomicBool,
}

struct Out {
    log: Box<dyn LineLog>,
    account: Account,
    events: Vec<StreamEvent>,
    texts: Texts,
    activity: Option<String>,
    told: Instant,
    /// Lines that say something.
    lines: u64,
    broken: Option<std::io::Error>,
}

struct Err {
    log: Box<dyn LineLog>,
    tail: String,
    broken: Option<std::io::Error>,
}

/// The last words: the last text of an agent, the last lines of a job.
#[derive(Default)]
struct Texts {
    last: std::collections::VecDeque<String>,
}

impl Texts {
    /// Lines of a job, or texts of an agent, that are remembered.
    const KEEP: usize = 20;
    /// The longest summary, in bytes.
    const CAP: usize = 4096;

    fn push(&mut self, text: &str) {
        if self.last.len() == Self::KEEP {
            self.last.pop_front();
        }
        self.last.push_back(text.chars().take(Self::CAP).collect());
    }

    fn summary(&self, kind: crate::runners::Kind, result: Option<&str>) -> Option<String> {
        let text = match (result, kind) {
            (Some(text), _) => text.to_owned(),
            (None, crate::runners::Kind::Job) => {
                self.last.iter().map(String::as_str).collect::<Vec<_>>().join("\n")
            }
            (None, crate::runners::Kind::Agent) => self.last.back()?.clone(),
        };
        let start = text.len().saturating_sub(Self::CAP);
        let start = (start..=text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let text = text[start..].trim();
        (!text.is_empty()).then(|| text.to_owned())
    }
}

impl Stream {
    /// Flushes the logs; a log that could not be written is the node's end.
    fn close(&self) -> Result<(Account, Option<String>, String, u64), Outcome> {
        let (mut out, mut err) = (lock(&self.out), lock(&self.err));
        let broken = out.broken.take().or(err.broken.take());
        let broken = broken.or(out.log.flush().err()).or(err.log.flush().err());
        if let Some(error) = broken {
            return Err(disk("the log", &error));
        }
        let text = out.account.result.as_ref().and_then(|result| result.text.as_deref());
        let summary = out.texts.summary(self.runner.kind(), text);
        Ok((out.account.clone(), summary, err.tail.clone(), out.lines))
    }

    fn alarm(&self, cause: StopCause) {
        if !self.alarmed.swap(true, Ordering::Relaxed) {
            let _ = self.tell.blocking_send(Told::MustStop(self.node, cause));
        }
    }

    fn heard(&self) {
        let mut heard = lock(&self.heard);
        if heard.elapsed() >= HEARD_EVERY {
            *heard = Instant::now();
            // A full channel has news of this node, or will soon be asked again.
            let _ = self.tell.try_send(Told::Heard(self.node));
        }
    }

    fn cap_steps(&self, account: &Account) {
        let Some(cap) = self.step_cap else { return };
        let why = if account.empty_steps() >= EMPTY_STEPS {
            format!("its last {EMPTY_STEPS} steps used no token: it goes on without an answer of the model")
        } else if account.steps() > cap {
            format!("it took more than {cap} steps")
        } else {
            return;
        };
        self.alarm(StopCause::StepCap(why));
    }

    fn meaning(&self, out: &mut Out, line: &[u8]) {
        out.lines += u64::from(!line.trim_ascii().is_empty());
        let mut events = std::mem::take(&mut out.events);
        self.runner.parse_line(line, &mut events);
        let mut news = false;
        for event in events.drain(..) {
            match &event {
                StreamEvent::Text { text } => {
                    out.texts.push(text);
                    out.activity = Some(text.clone());
                }
                StreamEvent::Tool { name, detail } => out.activity = Some(format!("{name} {detail}")),
                StreamEvent::Retry { status: Some(status @ (401 | 403)), .. } => {
                    self.alarm(StopCause::CredentialRefused(*status))
                }
                _ => {}
            }
            out.account.apply(&event);
            news = true;
        }
        out.events = events;
        if news {
            self.cap_steps(&out.account);
        }
        if news && out.told.elapsed() >= TELL_EVERY {
            out.told = Instant::now();
            let told = Told::Progress(Progress {
                node: self.node,
                phase: "running",
                tokens: out.account.tokens(),
                cost_usd: out.account.cost_usd(),
                activity: out.activity.as_ref().map(|text| text.chars().take(200).collect()),
            });
            // The loop may be busy; a lost progress line is no loss.
            let _ = self.tell.try_send(told);
        }
    }
}

impl Sink for Stream {
    fn stdout(&self, line: Line<'_>) {
        self.heard();
        let mut out = lock(&self.out);
        if out.broken.is_some() || out.log.size() > self.log_max {
            return;
        }
        match out.log.line(line) {
            Ok(masked) => self.meaning(&mut out, &masked),
            Err(error) => {
                let cause = StopCause::LogCap(format!("the log could not be written: {error}"));
                out.broken = Some(error);
                return self.alarm(cause);
            }
        }
        if out.log.size() > self.log_max {
            self.alarm(StopCause::LogCap(format!("it wrote more than {} bytes to stdout", self.log_max)));
        }
    }

    fn stderr(&self, line: Line<'_>) {
        self.heard();
        let mut err = lock(&self.err);
        if err.broken.is_some() || err.log.size() > self.log_max {
            return;
        }
        match err.log.line(line) {
            Ok(masked) => {
                let text = String::from_utf8_lossy(&masked);
                let text = text.trim();
                if !text.is_empty() {
                    err.tail = text.chars().take(300).collect();
                }
            }
            Err(error) => {
                let cause = StopCause::LogCap(format!("the log could not be written: {error}"));
                err.broken = Some(error);
                return self.alarm(cause);
            }
        }
        if err.log.size() > self.log_max {
            self.alarm(StopCause::LogCap(format!("it wrote more than {} bytes to stderr", self.log_max)));
        }
    }

    fn started(&self) {
        let _ = self.tell.blocking_send(Told::Started(self.node));
    }
}
