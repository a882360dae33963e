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

/// A number, whole or not; never infinite.
#[derive(Debug, Clone, Copy)]
pub struct Num(pub f64);

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
    pub(super) problems: Vec<Problem>,
    /// Problems of syntax: whatever else is found on their lines is a consequence.
    pub(super) syntax: Vec<Span>,
}

impl Reader {
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

impl Read for Num {
    fn read(value: &Spanned<DeValue<'_>>, path: &Path<'_>, reader: &mut Reader) -> Option<Self> {
        let text = match value.get_ref() {
            DeValue::Integer(whole) if whole.radix() == 10 => whole.as_str(),
            DeValue::Float(float) => float.as_str(),
            _ => {
                reader.wrong_type(value, path, "a number");
                return None;
            }
        };
        let number = text.parse().ok().filter(|number: &f64| number.is_finite()).map(Self);
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

impl JsonSchema for Num {
    fn schema_name() -> Cow<'static, str> {
        "Num".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number", "exclusiveMinimum": 0 })
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
