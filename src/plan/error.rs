//! What is wrong with a plan: every problem at once, each with a stable code and a place in the text.
//!
//! Values and their JSON form; [`render`] draws them for people. Messages are lower-case fragments; what the author can
//! do is in `help`. A [`Problems`] is never empty and is in file order.

pub mod render;

use std::{fmt, ops::Range, sync::Arc};

use serde::Serialize;

/// A byte range of the plan's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
}

impl From<Range<usize>> for Span {
    fn from(range: Range<usize>) -> Self {
        Self { start: range.start, end: range.end }
    }
}

macro_rules! codes {
    ($($code:ident $name:ident $meaning:literal)*) => {
        /// The kind of a problem. Codes are stable: a number is never used for another kind.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// Every code, in order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The code as it is printed: `E0101`.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($code),)* }
            }

            /// What it stands for, in one sentence.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

codes! {
    E0101 Syntax "The file is not TOML."
    E0102 DuplicateKey "A key or table is given twice."
    E0103 UnknownKey "A key does not exist where it stands."
    E0104 WrongType "A value has the wrong type."
    E0105 MissingKey "A required key is absent."
    E0106 BadVersion "The plan's version is not one that this kew reads."
    E0107 UnknownWord "A value is not one of the words that its key takes."
    E0108 RefusedWord "A value is a word that its key does not take here, or not yet."
    E0201 BadNodeId "A node's id breaks the rule for ids."
    E0202 BadEpicName "The epic's name breaks the rule for names."
    E0203 BadDuration "A length of time cannot be read, or is zero."
    E0204 BadNumber "A number is out of its range."
    E0205 BadText "A text is empty, begins with a dash or holds a control character where that cannot be meant."
    E0206 BadPattern "A pattern of artifacts is empty, leads out of the checkout, or can be read in two ways."
    E0301 UnknownNeed "A need names no node."
    E0302 DuplicateNeed "A need is listed twice."
    E0303 SelfNeed "A node needs itself."
    E0304 Cycle "Nodes need each other in a circle."
    E0305 GateCycle "Nodes wait for each other in a circle, once the reviews that each waits for are counted."
    E0306 FromNotUpstream "`from` names a node that is not upstream."
    E0307 FromOnReviewer "`from` is set on a reviewer, which always starts from the commit that it reviews."
    E0308 NoNodes "The plan has no nodes."
    E0309 AmbiguousFrom "`from` is one of its own words and a node's id at once."
    E0401 ReviewsUnknown "`reviews` names no node."
    E0402 ReviewsSelf "A node reviews itself."
    E0403 ReviewsReviewer "A reviewer is reviewed."
    E0404 ReviewsNothing "A node is reviewed whose commits are forbidden, so there is never anything to review."
    E0405 VerdictWithoutReviews "`verdict` is set on a node that reviews nothing."
    E0406 ExitVerdictOnAgent "`verdict = \"exit\"` is set on a reviewer that is an agent."
    E0407 ReviewerCommits "A reviewer is to commit, but its commits are always dropped."
    E0408 ReworkWithoutReviewer "`rework` is set on a node that nobody reviews."
    E0409 PublishReviewer "A reviewer is to publish, but it brings no commits."
    E0410 PublishEvidence "A node is to publish that runs on work which is not yet reviewed."
    E0501 MissingPrompt "A node has no prompt."
    E0502 TwoPrompts "A node has both `prompt` and `prompt_file`."
    E0503 EmptyPrompt "A prompt is empty."
    E0504 PromptFileMissing "A prompt file does not exist."
    E0505 PromptFileOutside "A prompt file is outside of the repository, or behind a link."
    E0506 PromptFileUnreadable "A prompt file cannot be read as text."
    E0601 MissingRunner "A node has no runner."
    E0602 UnknownRunner "A runner does not exist."
    E0603 RefusedRunner "A runner cannot run where nodes run: in a container, or on the host if the settings say so."
    E0604 NoImage "A runner has no image."
    E0605 UnknownToolchain "A toolchain does not exist."
    E0606 MissingModel "An agent has no model."
    E0607 ModelOnJob "A model is set on a runner that takes none."
    E0608 UnroutableModel "A runner cannot route its model."
    E0609 OnlyContained "A node asks for what only a container gives, and the settings run agents as host processes."
    E0611 BadHost "A list of hosts holds what is none."
    E0612 HostNotAllowed "A node asks for a host that the settings do not allow."
    E0701 CapMissing "A node has no budget of its own, but its runner tells its cost only at its end."
    E0702 CapTooLarge "A node's budget is larger than that of the whole run."
    E0703 Unmetered "A run has a budget, but nobody knows what one of its runners costs."
}

/// One problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Its kind.
    pub code: Code,
    /// What is wrong.
    pub message: String,
    /// Where.
    pub span: Span,
    /// What to say at that place, if more than the message.
    pub label: Option<String>,
    /// Other places that play a part.
    pub also: Vec<(Span, String)>,
    /// Facts that belong to it.
    pub notes: Vec<String>,
    /// What the author can do.
    pub help: Option<String>,
}

impl Problem {
    /// A problem with only its message and place.
    pub fn new(code: Code, span: Span, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { code, message, span, label: None, also: Vec::new(), notes: Vec::new(), help: None }
    }

    /// Says something at the place.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// Points at another place.
    pub fn also(mut self, span: Span, label: impl Into<String>) -> Self {
        self.also.push((span, label.into()));
        self
    }

    /// Adds a fact.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Says what to do.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Says what to do, if anything is known.
    pub fn maybe_help(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }
}

/// Everything that is wrong with one plan; at least one problem, in file order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problems {
    file: Arc<str>,
    text: Arc<str>,
    list: Vec<Problem>,
}

impl Problems {
    /// Sorts `list` into file order; `None` if it is empty, since then nothing is wrong.
    pub fn new(file: &str, text: &str, mut list: Vec<Problem>) -> Option<Self> {
        list.sort_by_key(|problem| (problem.span, problem.code));
        list.dedup();
        (!list.is_empty()).then(|| Self { file: file.into(), text: text.into(), list })
    }

    /// The plan's name as given.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The problems.
    pub fn list(&self) -> &[Problem] {
        &self.list
    }

    /// The problems with lines and columns instead of bytes: the JSON form, one object each.
    pub fn located(&self) -> Vec<Located<'_>> {
        let lines = Lines::new(&self.text);
        self.list.iter().map(|problem| Located::new(&self.file, &lines, problem)).collect()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(render::Paint::Plain))
    }
}

impl std::error::Error for Problems {}

/// A problem for programs. Lines and columns count from 1, columns in characters; the end is after the last character.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Located<'p> {
    /// `E0101`.
    pub code: &'static str,
    /// What is wrong.
    pub message: &'p str,
    /// The plan as named.
    pub file: &'p str,
    /// First line.
    pub line: usize,
    /// First column.
    pub column: usize,
    /// Last line.
    pub end_line: usize,
    /// Column after the last.
    pub end_column: usize,
    /// What is said at the place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub label: Option<&'p str>,
    /// Other places.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<LocatedLabel<'p>>,
    /// Facts.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub notes: &'p [String],
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<&'p str>,
}

/// Another place of a [`Located`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LocatedLabel<'p> {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
    /// What is said there.
    pub label: &'p str,
}

impl<'p> Located<'p> {
    fn new(file: &'p str, lines: &Lines<'_>, problem: &'p Problem) -> Self {
        let (line, column) = lines.place(problem.span.start);
        let (end_line, end_column) = lines.place(problem.span.end.max(problem.span.start));
        let also = problem.also.iter().map(|(span, label)| {
            let (line, column) = lines.place(span.start);
            LocatedLabel { line, column, label }
        });
        Self {
            code: problem.code.as_str(),
            message: &problem.message,
            file,
            line,
            column,
            end_line,
            end_column,
            label: problem.label.as_deref(),
            also: also.collect(),
            notes: &problem.notes,
            help: problem.help.as_deref(),
        }
    }
}

/// Where the lines of a text begin.
struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    fn new(text: &'t str) -> Self {
        let starts = std::iter::once(0).chain(memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1));
        Self { text, starts: starts.collect() }
    }

    /// Line and column of a byte, from 1. A byte within a character counts as its first.
    fn place(&self, byte: usize) -> (usize, usize) {
        let byte = self.floor(byte);
        let line = self.starts.partition_point(|&start| start <= byte);
        (line, self.text[self.starts[line - 1]..byte].chars().count() + 1)
    }

    /// A line, from 1, without its end; and the byte at which it begins.
    fn line(&self, line: usize) -> (usize, &'t str) {
        let start = self.starts[line - 1];
        let end = self.starts.get(line).copied().unwrap_or(self.text.len());
        (start, self.text[start..end].trim_end_matches(['\n', '\r']))
    }

    fn floor(&self, byte: usize) -> usize {
        let mut byte = byte.min(self.text.len());
        while !self.text.is_char_boundary(byte) {
            byte -= 1;
        }
        byte
    }
}
