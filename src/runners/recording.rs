//! A recorded stream, read as a run reads it: the same lines, the same parser, the same account, the same judgement.
//!
//! Not a run: there is no container, so what only the engine knows (out of memory, who stopped it) is taken as good.
//! Memory does not grow with the stream: of what was not understood only counts and the first few lines are kept.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Runner, lenient::Scalar};
use crate::{
    lines::{Line, Lines},
    outcome::{EngineEnd, Outcome, StopCause, judge_end},
    stream::{Account, StreamEvent},
};

/// How many of the lines that were not understood are kept.
const ODD_KEPT: usize = 5;

/// The longest piece of such a line, in characters.
const ODD_LENGTH: usize = 160;

/// How many kinds of silent lines are told apart.
const KINDS_KEPT: usize = 40;

/// The longest name of a kind, in characters.
const KIND_LENGTH: usize = 60;

/// Lines by what they gave. `total` is the sum of the others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize)]
pub struct LineCounts {
    /// All.
    pub total: u64,
    /// Gave at least one event.
    pub understood: u64,
    /// A JSON object that means nothing to this runner.
    pub silent: u64,
    /// No JSON object.
    pub no_json: u64,
    /// Too long to be read; see [`crate::lines::LINE_CAP`].
    pub cut: u64,
    /// Nothing but white space.
    pub blank: u64,
}

/// A line that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct OddLine {
    /// Its number, from 1.
    pub line: u64,
    /// It was cut; else it is no JSON object.
    pub cut: bool,
    /// Its beginning, as it was written.
    pub text: String,
}

/// What a stream came to, so far.
#[derive(Debug, Default)]
pub struct Reading {
    /// The account.
    pub account: Account,
    /// The lines.
    pub counts: LineCounts,
    /// Kinds of the silent lines, `type` or `type/subtype`, with how many there were.
    pub silent: BTreeMap<String, u64>,
    /// The first lines that were not understood.
    pub odd: Vec<OddLine>,
    /// The first refusal of the credential that the agent meant to retry: where a run stops it.
    pub refused: Option<u16>,
    events: Vec<StreamEvent>,
}

/// A stream on its way through a runner's parser.
pub struct Recording {
    runner: &'static dyn Runner,
    lines: Lines,
    reading: Reading,
}

impl Recording {
    /// Nothing read yet.
    pub fn new(runner: &'static dyn Runner) -> Self {
        Self { runner, lines: Lines::default(), reading: Reading::default() }
    }

    /// The next bytes.
    pub fn feed(&mut self, chunk: &[u8]) {
        self.lines.feed(chunk, |line| self.reading.take(self.runner, line));
    }

    /// The end of the stream.
    pub fn finish(mut self) -> Reading {
        self.lines.finish(|line| self.reading.take(self.runner, line));
        self.reading
    }
}

impl Reading {
    /// How a run would have ended with this stream and this exit status.
    pub fn outcome(&self, exit: i32) -> Outcome {
        let stop = self.refused.map(StopCause::CredentialRefused);
        let end = EngineEnd { started: true, exit: Some(exit), oom: Some(false), ..EngineEnd::default() };
        judge_end(stop.as_ref(), &end, &self.account).err().unwrap_or_else(Outcome::passed)
    }

    fn take(&mut self, runner: &dyn Runner, line: Line<'_>) {
        self.counts.total += 1;
        runner.parse_line(line.bytes, &mut self.events);
        if !self.events.is_empty() {
            self.counts.understood += 1;
            for event in self.events.drain(..) {
                if let StreamEvent::Retry { status: Some(status @ (401 | 403)), .. } = event {
                    self.refused.get_or_insert(status);
                }
                self.account.apply(&event);
            }
        } else if line.cut {
            self.counts.cut += 1;
            self.keep(line);
        } else if line.bytes.trim_ascii().is_empty() {
            self.counts.blank += 1;
        } else if let Some(kind) = kind_of(line.bytes) {
            self.counts.silent += 1;
            let known = self.silent.len() < KINDS_KEPT || self.silent.contains_key(&kind);
            *self.silent.entry(if known { kind } else { "others".to_owned() }).or_default() += 1;
        } else {
            self.counts.no_json += 1;
            self.keep(line);
        }
    }

    fn keep(&mut self, line: Line<'_>) {
        if self.odd.len() < ODD_KEPT {
            // A character has at most four bytes.
            let start = &line.bytes[..line.bytes.len().min(ODD_LENGTH * 4)];
            let text = String::from_utf8_lossy(start).chars().take(ODD_LENGTH).collect();
            self.odd.push(OddLine { line: self.counts.total, cut: line.cut, text });
        }
    }
}

#[derive(Deserialize)]
struct Head<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Scalar<'a>,
    #[serde(borrow, default)]
    subtype: Scalar<'a>,
}

/// What a line calls itself; `None` if it is no JSON object.
fn kind_of(line: &[u8]) -> Option<String> {
    let line = line.trim_ascii();
    if line.first() != Some(&b'{') {
        return None;
    }
    let head: Head<'_> = serde_json::from_slice(line).ok()?;
    let name = match (head.kind.text(), head.subtype.text()) {
        (Some(kind), Some(subtype)) => format!("{kind}/{subtype}"),
        (Some(kind), None) => kind.to_owned(),
        (None, _) => "without a type".to_owned(),
    };
    Some(name.chars().take(KIND_LENGTH).collect())
}
