//! How a TOML value becomes a raw one: types, words and tables, with a problem for each that does not fit.
//!
//! A value that does not fit is absent afterwards. Whoever comes later can tell that from a key that was never written
//! only by the problem, so nothing is judged once there are problems of the kind that hides values.

use std::{borrow::Cow, collections::HashSet};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use toml::{
    Spanned,
    de::{DeString, DeTable, DeValue},
};

use super::{RawDefaults, RawEpic, RawNode, RawPlan};
use crate::{
    plan::error::{Code, Problem, Span},
    text::{did_you_mean, list},
};

/// A value, and where it and its key stand.
#[derive(Debug, Clone)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// The key's place.
    pub key: Span,
    /// The value's place.
    pub span: Span,
}

impl<T: Read> At<T> {
    pub(super) fn read(
        key: &Spanned<DeString<'_>>,
        value: &Spanned<DeValue<'_>>,
        path: &Path<'_>,
        reader: &mut Reader,
    ) -> Option<Self> {
        let read = T::read(value, path, reader)?;
        Some(Self { value: read, key: key.span().into(), span: value.span().into() })
    }
}

/// A raw type that can be read from TOML.
pub trait Read: Sized {
    /// Reads it, or says what is wrong.
    fn read(value: &Spanned<DeValue<'_>>, path: &Path<'_>, reader: &mut Reader) -> Option<Self>;
}

/// A whole number; anything outside of 64 bits is a problem.
#[derive(Debug, Clone, Copy)]
pub struct Int(pub i64);

/// A list of texts, each with its place.
#[derive(Debug, Clone)]
pub struct List(pub Vec<(String, Span)>);

/// One of a fixed set of words.
#[derive(Debug, Clone, Copy)]
pub struct Choice<T>(pub T);

/// The words of a [`Choice`].
pub trait Word: Copy + 'static {
    /// The words that are taken, and their values.
    const WORDS: &'static [(&'static str, Self)];
    /// Words that others would expect here, and why they are not taken.
    const REFUSED: &'static [(&'static str, &'static str)] = &[];
}

/// Where a value stands: `nodes.parser.timeout`. Text is made only for a message.
#[derive(Debug, Clone, Copy)]
pub struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    key: &'p str,
}

impl Path<'_> {
    /// The file itself.
    pub const ROOT: Path<'static> = Path { parent: None, key: "" };

    /// A key in this table.
    pub fn join<'p>(&'p self, key: &'p str) -> Path<'p> {
        Path { parent: Some(self), key }
    }

    fn text(&self) -> String {
        match self.parent {
            None => String::new(),
            Some(parent) if parent.parent.is_none() => self.key.to_string(),
            Some(parent) => format!("{}.{}", parent.text(), self.key),
        }
    }
}

/// Collects problems while a plan is read.
#[derive(Debug, Default)]
pub struct Reader {
    problems: Vec<Problem>,
    /// Problems of syntax: whatever else is found on their lines is a consequence.
    syntax: Vec<Span>,
}

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

    /// The problems, without those that a problem of syntax on the same line explains.
    pub(super) fn finish(self, text: &str) -> Vec<Problem> {
        let line_of = |byte: usize| text.as_bytes()[..byte.min(text.len())].iter().rposition(|&b| b == b'\n');
        let broken: HashSet<_> = self.syntax.iter().map(|span| line_of(span.start)).collect();
        let mut problems = self.problems;
        if !broken.is_empty() {
            problems.retain(|problem| {
                problem.code == Code::Syntax
                    || (problem.code != Code::MissingKey && !broken.contains(&line_of(problem.span.start)))
            });
        }
        problems
    }

    /// The value as a table.
    pub(super) fn table<'v, 'i>(
        &mut self,
        value: &'v Spanned<DeValue<'i>>,
        path: &Path<'_>,
    ) -> Option<&'v DeTable<'i>> {
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                let text = path.text();
                let help = format!("write it as a table: `[{text}]`");
                let problem = wrong_type(value, path, "a table", other.type_str()).help(help);
                self.problems.push(problem);
                None
            }
        }
    }

    /// Tells it, and which key was meant if that is clear.
    pub(super) fn unknown_key(
        &mut self,
        key: &Spanned<DeString<'_>>,
        path: &Path<'_>,
        known: &'static [&'static str],
    ) -> Option<&'static str> {
        let name = key.get_ref().as_ref();
        let table = path.text();
        let place =
            if table.is_empty() { "at the top of the plan".to_string() } else { format!("in `[{table}]`") };
        let near = did_you_mean(name, known.iter().copied());
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => belongs(name, &table).unwrap_or_else(|| format!("known here: {}", list(known, "and"))),
        };
        let message = format!("unknown key `{name}` {place}");
        self.problems.push(Problem::new(Code::UnknownKey, key.span().into(), message).help(help));
        near
    }

    fn wrong_type(&mut self, value: &Spanned<DeValue<'_>>, path: &Path<'_>, wanted: &str) {
        self.problems.push(wrong_type(value, path, wanted, value.get_ref().type_str()));
    }
}

/// Where a key that is unknown in `table` would be known.
fn belongs(name: &str, table: &str) -> Option<String> {
    if table == "defaults" && RawNode::KEYS.contains(&name) {
        return Some(format!("`{name}` has no default, each node sets its own"));
    }
    if RawEpic::KEYS.contains(&name) {
        return Some(format!("`{name}` belongs to `[epic]`"));
    }
    if RawDefaults::KEYS.contains(&name) {
        return Some(format!("`{name}` belongs to `[nodes.<id>]` or to `[defaults]`"));
    }
    if RawNode::KEYS.contains(&name) {
        return Some(format!("`{name}` belongs to `[nodes.<id>]`"));
    }
    RawPlan::KEYS.contains(&name).then(|| format!("`{name}` belongs to the top of the plan"))
}

fn wrong_type(value: &Spanned<DeValue<'_>>, path: &Path<'_>, wanted: &str, found: &str) -> Problem {
    let article = if found.starts_with(['a', 'i']) { "an" } else { "a" };
    let message = format!("`{}` takes {wanted}, not {article} {found}", path.text());
    Problem::new(Code::WrongType, value.span().into(), message)
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

impl Read for String {
    fn read(value: &Spanned<DeValue<'_>>, path: &Path<'_>, reader: &mut Reader) -> Option<Self> {
        let text = value.get_ref().as_str().map(str::to_string);
        if text.is_none() {
            reader.wrong_type(value, path, "a string");
        }
        text
    }
}

impl Read for bool {
    fn read(value: &Spanned<DeValue<'_>>, path: &Path<'_>, reader: &mut Reader) -> Option<Self> {
        let truth = value.get_ref().as_bool();
        if truth.is_none() {
            reader.wrong_type(value, path, "true or false");
        }
        truth
    }
}

impl Read for Int {
    fn read(value: &Spanned<DeValue<'_>>, path: &Path<'_>, reader: &mut Reader) -> Option<Self> {
        let Some(integer) = value.get_ref().as_integer() else {
            reader.wrong_type(value, path, "a whole number");
            return None;
        };
        let number = i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(Self);
        if number.is_none() {
            let message = format!("`{}` is out of range", path.text());
            reader.problems.push(Problem::new(Code::BadNumber, value.span().into(), message));
        }
        number
    }
}

impl Read for List {
    fn read(value: &Spanned<DeValue<'_>>, path: &Path<'_>, reader: &mut Reader) -> Option<Self> {
        let Some(array) = value.get_ref().as_array() else {
            reader.wrong_type(value, path, "a list of strings");
            if let (Some(text), Some(problem)) = (value.get_ref().as_str(), reader.problems.last_mut()) {
                problem.help = Some(format!("write `[{text:?}]`"));
            }
            return None;
        };
        let mut texts = Vec::with_capacity(array.len());
        for item in array {
            match item.get_ref().as_str() {
                Some(text) => texts.push((text.to_string(), item.span().into())),
                None => reader.wrong_type(item, path, "a list of strings"),
            }
        }
        Some(Self(texts))
    }
}

impl<T: Word> Read for Choice<T> {
    fn read(value: &Spanned<DeValue<'_>>, path: &Path<'_>, reader: &mut Reader) -> Option<Self> {
        let words = || T::WORDS.iter().map(|(word, _)| *word);
        let Some(text) = value.get_ref().as_str() else {
            reader.wrong_type(value, path, &list(words(), "or"));
            return None;
        };
        if let Some((_, choice)) = T::WORDS.iter().find(|(word, _)| *word == text) {
            return Some(Self(*choice));
        }
        let key = path.text();
        let problem = if let Some((_, why)) = T::REFUSED.iter().find(|(word, _)| *word == text) {
            let message = format!("`{key}` cannot be `{text}`");
            Problem::new(Code::RefusedWord, value.span().into(), message).help(*why)
        } else {
            let message = format!("`{key}` takes {}, not `{text}`", list(words(), "or"));
            let near = did_you_mean(text, words()).map(|near| format!("did you mean `{near}`?"));
            Problem::new(Code::UnknownWord, value.span().into(), message).maybe_help(near)
        };
        reader.problems.push(problem);
        None
    }
}

impl<T: JsonSchema> JsonSchema for At<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl JsonSchema for Int {
    fn schema_name() -> Cow<'static, str> {
        "Int".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer" })
    }
}

impl JsonSchema for List {
    fn schema_name() -> Cow<'static, str> {
        "List".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": { "type": "string" } })
    }
}

impl<T: Word> JsonSchema for Choice<T> {
    fn schema_name() -> Cow<'static, str> {
        "Choice".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
        json_schema!({ "type": "string", "enum": words })
    }
}
