//! Keeps lines from being taken for commands by a CI that reads the log: `::error::…` at the start of a line, and
//! `##[group]` or `##vso[…]` anywhere in it.
//!
//! Works on whole lines, after control characters are gone: else an escape in the middle could hide a command.

use std::borrow::Cow;

/// The line with a backslash where a command would begin.
pub fn defanged(line: &str) -> Cow<'_, str> {
    let trimmed = line.trim_start();
    let starts = trimmed.starts_with("::");
    if !starts && !line.contains("##") {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len() + 8);
    let mut rest = line;
    if starts {
        out.push_str(&line[..line.len() - trimmed.len()]);
        out.push('\\');
        rest = trimmed;
    }
    while let Some(at) = rest.find("##") {
        let word = rest[at..].trim_start_matches('#');
        let bracket =
            word.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_'));
        let upto = rest.len() - bracket.len();
        out.push_str(&rest[..upto]);
        if bracket.starts_with('[') {
            out.push('\\');
        }
        rest = bracket;
    }
    out.push_str(rest);
    Cow::Owned(out)
}
