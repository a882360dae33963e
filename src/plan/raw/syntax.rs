//! The TOML parser's own errors as problems: in file order, without echoes, a second key with its first.
//!
//! It knows nothing of plans, only of text and tables.

use toml::de::DeTable;

use super::read::Reader;
use crate::plan::error::{Code, Problem, Span};

impl Reader {
    /// Takes in the TOML parser's errors. False if they may have hidden a part of the text.
    pub(super) fn syntax(&mut self, text: &str, root: &DeTable<'_>, errors: &[toml::de::Error]) -> bool {
        let mut whole = true;
        let mut echo = Echo::default();
        let place = |error: &toml::de::Error| {
            let span = error.span().unwrap_or_default();
            let end = span.end.min(text.len());
            Span { start: span.start.min(end), end }
        };
        // The parser tells errors of structure first, those within a value later.
        let mut errors: Vec<_> = errors.iter().map(|error| (place(error), error)).collect();
        errors.sort_by_key(|(span, _)| *span);
        for (span, error) in errors {
            if error.message() == "duplicate key" {
                // The search reads the whole text, so it is made for as many as a person reads.
                let first = if self.problems.len() < 20 { first_of(text, root, span) } else { None };
                self.problems.push(duplicate(text, span, first));
                continue;
            }
            whole = false;
            self.syntax.push(span);
            if !echo.repeats(text, span, error.message()) {
                self.problems.push(Problem::new(Code::Syntax, span, in_our_words(error.message(), span)));
            }
        }
        whole
    }
}

fn duplicate(text: &str, span: Span, first: Option<Span>) -> Problem {
    let (what, span) = match header_line(text, span) {
        Some(line_start) => ("table", header_span(text, line_start)),
        None => ("key", span),
    };
    let message = format!("{what} `{}` is given twice", key_name(text, span));
    let problem = Problem::new(Code::DuplicateKey, span, message).label("again here");
    match first {
        Some(first) => problem.also(first, "first here"),
        None => problem,
    }
}

/// The parser tells where the second key stands; the first is found again if it can be.
fn first_of(text: &str, root: &DeTable<'_>, second: Span) -> Option<Span> {
    match header_line(text, second) {
        Some(line_start) => first_header(text, line_start),
        None => first_key(root, key_name(text, second), second),
    }
}

fn key_name(text: &str, span: Span) -> &str {
    text.get(span.start..span.end).unwrap_or_default().trim_matches(['"', '\''])
}

/// Where the line of a key begins, if it is a table's header.
fn header_line(text: &str, key: Span) -> Option<usize> {
    let before = text.get(..key.start)?;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    before[line_start..].trim_start().starts_with('[').then_some(line_start)
}

/// `[nodes.a]` without what stands around it.
fn header_span(text: &str, line_start: usize) -> Span {
    let line = text[line_start..].lines().next().unwrap_or_default();
    let start = line_start + (line.len() - line.trim_start().len());
    let length = line.trim_start().rfind(']').map_or(line.trim().len(), |at| at + 1);
    Span { start, end: start + length }
}

/// The last key of that name before `span`, in any table: the table's own, since tables do not interleave.
fn first_key(table: &DeTable<'_>, name: &str, span: Span) -> Option<Span> {
    let mut best = None;
    for (key, value) in table {
        if key.span().start >= span.start {
            continue;
        }
        let here = (key.get_ref().as_ref() == name).then(|| Span::from(key.span()));
        let deeper = value.get_ref().as_table().and_then(|table| first_key(table, name, span));
        best = best.max(here).max(deeper);
    }
    best
}

/// The first line that is this header too.
fn first_header(text: &str, line_start: usize) -> Option<Span> {
    let header = |line: &str| line.split(']').next().map(|head| head.replace([' ', '\t'], ""));
    let wanted = header(text[line_start..].lines().next()?)?;
    let mut start = 0;
    for line in text[..line_start].split_inclusive('\n') {
        if line.trim_start().starts_with('[') && header(line).as_deref() == Some(&wanted) {
            return Some(header_span(text, start));
        }
        start += line.len();
    }
    None
}

/// Tells errors that only follow from the one before: later ones of its line, and while a list is not closed, of the lines after it.
#[derive(Default)]
struct Echo {
    line_end: Option<usize>,
    in_list: bool,
}

impl Echo {
    fn repeats(&mut self, text: &str, span: Span, message: &str) -> bool {
        let bytes = text.as_bytes();
        let line_end = |from: usize| memchr::memchr(b'\n', &bytes[from..]).map_or(text.len(), |at| from + at);
        let repeats = match self.line_end {
            Some(end) if self.in_list => {
                bytes[end.min(span.start)..span.start].windows(2).all(|two| two != b"\n\n")
            }
            Some(end) => span.start <= end,
            None => false,
        };
        self.in_list = (repeats && self.in_list) || message.contains("array");
        self.line_end = Some(line_end(span.start));
        repeats
    }
}

fn in_our_words(message: &str, span: Span) -> String {
    if message.starts_with("string values must be quoted") && span.start == span.end {
        return "a value is missing".to_string();
    }
    message.lines().map(str::trim).collect::<Vec<_>>().join(", ")
}
