//! Takes the lines of a running container: each to its log, then to its meaning, then into the sum.
//!
//! It stops nothing by itself: what must be stopped (a log or steps past their cap, a refused credential) is told once.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::mpsc::Sender;

use super::{Job, Progress, Told, disk, lock};
use crate::{
    lines::Line,
    outcome::{Outcome, StopCause},
    plan::spec::NodeIx,
    run::{
        executor::{Outgrown, Sink},
        ledger::{AttemptShelf, LineLog, Mask},
    },
    runners::Runner,
    stream::{Account, StreamEvent},
};

/// How often a running node tells where it stands.
const TELL_EVERY: Duration = Duration::from_millis(250);
/// How often it tells that it said something.
const HEARD_EVERY: Duration = Duration::from_secs(1);
/// How many steps in a row an agent with a [cap](crate::runners::Runner::step_cap) may take that use no token at all: one
/// whose connection is cut again and again goes on like that for ever, at no visible cost.
const EMPTY_STEPS: u32 = 25;

/// A node's two streams: each line to its log, then to its meaning.
pub(super) struct Listener {
    node: NodeIx,
    runner: &'static dyn Runner,
    mask: Mask,
    tell: Sender<Told>,
    log_max: u64,
    step_cap: Option<u32>,
    heard: Mutex<Instant>,
    out: Mutex<Out>,
    err: Mutex<Err>,
    alarmed: AtomicBool,
    began: AtomicBool,
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

/// What a container said, in sum.
pub(super) struct Heard {
    pub(super) account: Account,
    /// Its last text.
    pub(super) summary: Option<String>,
    /// The last line of stderr.
    pub(super) tail: String,
    /// Lines of stdout that are not empty.
    pub(super) lines: u64,
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

impl Listener {
    /// Takes the lines of a job's attempt into its files.
    pub(super) fn new(
        job: &Job,
        tell: &Sender<Told>,
        files: &mut dyn AttemptShelf,
        mask: Mask,
    ) -> Result<Self, Outcome> {
        let out = Out {
            log: files.stdout().map_err(|error| disk("the log", &error))?,
            account: Account::default(),
            events: Vec::new(),
            texts: Texts::default(),
            activity: None,
            told: Instant::now(),
            lines: 0,
            broken: None,
        };
        let err = Err {
            log: files.stderr().map_err(|error| disk("the log", &error))?,
            tail: String::new(),
            broken: None,
        };
        Ok(Self {
            node: job.node,
            runner: job.runner,
            mask,
            tell: tell.clone(),
            log_max: job.log_max,
            step_cap: job.step_cap,
            heard: Mutex::new(Instant::now()),
            out: Mutex::new(out),
            err: Mutex::new(err),
            alarmed: AtomicBool::new(false),
            began: AtomicBool::new(false),
        })
    }

    /// Its container was about to start.
    pub(super) fn began(&self) -> bool {
        self.began.load(Ordering::SeqCst)
    }

    /// Flushes the logs; a log that could not be written is the node's end.
    pub(super) fn close(&self) -> Result<Heard, Outcome> {
        let (mut out, mut err) = (lock(&self.out), lock(&self.err));
        let broken = out.broken.take().or(err.broken.take());
        let broken = broken.or(out.log.flush().err()).or(err.log.flush().err());
        if let Some(error) = broken {
            return Err(disk("the log", &error));
        }
        let text = out.account.result.as_ref().and_then(|result| result.text.as_deref());
        let summary = out.texts.summary(self.runner.kind(), text);
        Ok(Heard { account: out.account.clone(), summary, tail: err.tail.clone(), lines: out.lines })
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
                cost_usd: if self.runner.free() { Some(0.0) } else { out.account.cost_usd() },
                activity: out.activity.as_ref().map(|text| (self.mask)(text).chars().take(200).collect()),
            });
            // The loop may be busy; a lost progress line is no loss.
            let _ = self.tell.try_send(told);
        }
    }
}

impl Sink for Listener {
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

    fn outgrew(&self, what: Outgrown) {
        self.alarm(match what {
            Outgrown::Checkout(what) => StopCause::CheckoutCap(what),
            Outgrown::Disk(what) => StopCause::DiskFull(what),
        });
    }

    fn started(&self) {
        self.began.store(true, Ordering::SeqCst);
        let _ = self.tell.blocking_send(Told::Started(self.node));
        let cost_usd = self.runner.free().then_some(0.0);
        let running = Progress { node: self.node, phase: "running", tokens: None, cost_usd, activity: None };
        let _ = self.tell.blocking_send(Told::Progress(running));
    }
}
