//! Reads Rust sources just well enough: comments and texts blanked, tests cut out, every path spelt out.
//!
//! No parser: a path is words joined by `::`, and the trees of `use` are expanded. What a macro makes is not seen.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

/// A file of the repository.
pub struct Source {
    /// Relative to the repository.
    pub path: Utf8PathBuf,
    /// As it is.
    pub text: String,
    /// Without comments, texts and tests.
    pub code: String,
}

pub fn root() -> &'static Utf8Path {
    Utf8Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below a folder of the repository.
pub fn sources(folder: &str) -> Vec<Source> {
    let (mut found, mut open) = (Vec::new(), vec![root().join(folder)]);
    while let Some(dir) = open.pop() {
        for entry in dir.read_dir_utf8().unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                open.push(path.to_owned());
            } else if path.extension() == Some("rs") {
                let text = fs::read_to_string(path).unwrap();
                let code = without_tests(&code(&text));
                found.push(Source { path: path.strip_prefix(root()).unwrap().to_owned(), text, code });
            }
        }
    }
    assert!(found.len() > 5, "{folder}");
    found.sort_by(|one, two| one.path.cmp(&two.path));
    found
}

impl Source {
    /// The top-level module that it belongs to.
    pub fn module(&self) -> &str {
        let name = self.path.components().nth(1).unwrap().as_str();
        name.strip_suffix(".rs").unwrap_or(name)
    }

    /// Every path of its code, as `std::fs::File`; those of `use` trees one by one.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        let mut rest = self.code.as_str();
        while let Some(at) = rest.find("use ") {
            let starts = rest[..at].chars().next_back().is_none_or(|before| !word(before));
            let after = &rest[at + 4..];
            if starts && let Some(end) = after.find(';') {
                expand("", &after[..end], &mut paths);
            }
            rest = after;
        }
        let mut start = None;
        for (at, c) in self.code.char_indices() {
            if word(c) || c == ':' {
                start.get_or_insert(at);
            } else if let Some(start) = start.take() {
                let path = self.code[start..at].trim_matches(':');
                if path.contains("::") {
                    paths.push(path.to_owned());
                }
            }
        }
        paths
    }
}

fn word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// `a::{b, c::d as e}` below `prefix`.
fn expand(prefix: &str, tree: &str, paths: &mut Vec<String>) {
    let mut depth = 0;
    let mut from = 0;
    let mut items = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(&tree[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    items.push(&tree[from..]);
    for item in items.iter().map(|item| item.trim()).filter(|item| !item.is_empty()) {
        match item.split_once('{') {
            Some((head, inner)) => {
                let head = head.trim().trim_end_matches("::");
                let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
                expand(&join(prefix, head), inner, paths);
            }
            None => paths.push(join(prefix, item.split(" as ").next().unwrap_or(item).trim())),
        }
    }
}

fn join(prefix: &str, path: &str) -> String {
    if prefix.is_empty() { path.to_owned() } else { format!("{prefix}::{path}") }
}

/// The code without what only tests have: `#[cfg(test)]` and the braces that follow.
fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some((before, after)) = rest.split_once("#[cfg(test)]") {
        kept.push_str(before);
        let mut depth = 0;
        let end = after.char_indices().find(|(_, c)| {
            depth += i32::from(*c == '{') - i32::from(*c == '}');
            *c == '}' && depth == 0
        });
        rest = end.map_or("", |(at, _)| &after[at + 1..]);
    }
    kept + rest
}

/// The text with every comment, string and character literal blanked.
fn code(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(hashes) = raw_string(rest, bytes[..at].last().copied()) {
            let close = format!("\"{}", "#".repeat(hashes));
            let open = rest.find('"').unwrap() + 1;
            rest[open..].find(&close).map_or(rest.len(), |end| open + end + close.len())
        } else if rest.starts_with('"') {
            quoted(rest, '"')
        } else if rest.starts_with('\'') && is_char(rest) {
            quoted(rest, '\'')
        } else {
            0
        };
        if skip == 0 {
            let c = rest.chars().next().unwrap();
            out.push(c);
            at += c.len_utf8();
        } else {
            out.extend(rest[..skip].chars().filter(|c| *c == '\n'));
            out.push(' ');
            at += skip;
        }
    }
    out
}

/// `r"`, `r#"`, `br#"`: how many hashes.
fn raw_string(rest: &str, before: Option<u8>) -> Option<usize> {
    if before.is_some_and(|before| word(before as char)) {
        return None;
    }
    let rest = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r')?;
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    rest[hashes..].starts_with('"').then_some(hashes)
}

fn quoted(rest: &str, end: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == end => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// A character, not a lifetime.
fn is_char(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

#[test]
fn it_sees_code_and_nothing_else() {
    let text = r##"//! std::fs
use std::{collections::{BTreeMap, HashMap as Map}, io};
use crate::name;
fn f<'a>(x: &'a str) -> char { /* tokio::x */ let _ = r#"std::env"#; let _ = "duct::cmd \" std::net"; '"' }
fn g() { crate::units::parse(std::iter::once(':')); } // std::thread
#[cfg(test)]
mod tests { fn f() { std::process::exit(1) } }
fn h() { std::mem::drop(1) }
"##;
    let code = without_tests(&code(text));
    let source = Source { path: "src/x/y.rs".into(), text: text.to_owned(), code };
    let mut paths = source.paths();
    paths.sort();
    paths.dedup();
    // The trees of `use` also give their pieces, which name no crate.
    paths.retain(|path| path.starts_with("std::") || path.starts_with("crate::") || path.contains("duct"));
    let expected = [
        "crate::name",
        "crate::units::parse",
        "std::collections::BTreeMap",
        "std::collections::HashMap",
        "std::io",
        "std::iter::once",
        "std::mem::drop",
    ];
    assert_eq!(paths, expected);
    assert_eq!(source.module(), "x");
}
