//! Words for people: plurals, lists, nearest names, and text of others made harmless.
//!
//! [`inert`] is the only way in which text that an agent, a repository or a plan wrote may reach a terminal or a CI log.
//! Its result is one line, starts no terminal sequence, hides nothing and starts no workflow command.

use std::{borrow::Cow, fmt};

use unicode_width::UnicodeWidthChar;

/// The candidate that `word` was most likely meant to be; `None` if none is near. Case is ignored; the first of equals wins.
pub fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    // Longer words are no typing mistakes, and the distance is quadratic.
    const LONGEST: usize = 64;
    if word.is_empty() || word.len() > LONGEST {
        return None;
    }
    let lower = word.to_lowercase();
    let furthest = (lower.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| {
            candidate.len() <= LONGEST && candidate.len().abs_diff(word.len()) <= furthest * 4
        })
        .map(|candidate| (strsim::damerau_levenshtein(&lower, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= furthest)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `1 node`, `2 nodes`. Only words that take a plain `s`.
pub fn plural(count: usize, word: &str) -> String {
    if count == 1 { format!("1 {word}") } else { format!("{count} {word}s") }
}

/// `` `a` ``, `` `a` and `b` ``, `` `a`, `b` and `c` ``; with another last word, `or` lists. Empty gives an empty text.
pub fn list<T: fmt::Display>(items: impl IntoIterator<Item = T>, last_word: &str) -> String {
    let quoted: Vec<String> = items.into_iter().map(|item| format!("`{item}`")).collect();
    match quoted.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} {last_word} {last}", others.join(", ")),
    }
}

/// Like [`list`] with `and`, but names at most `most` and counts the rest: `` `a`, `b` and 7 more ``.
pub fn short_list<T: fmt::Display>(items: &[T], most: usize) -> String {
    // Naming one more is as short as counting it.
    if items.len() <= most + 1 {
        return list(items, "and");
    }
    let named: Vec<String> = items[..most].iter().map(|item| format!("`{item}`")).collect();
    format!("{} and {} more", named.join(", "), items.len() - most)
}

/// Makes text of others harmless on a terminal and in a CI log; borrowed when nothing had to change. Idempotent.
///
/// Line breaks and tabs become spaces; every other control, invisible or direction-changing character becomes visible
/// (`\x1b`, `\u{202e}`). `##[` becomes `##\[` anywhere, and a `::` that would begin the line gets a `\` before it: both
/// start workflow commands.
pub fn inert(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|b| matches!(b, b' '..=b'~' if b != b'[' && b != b':')) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut begun = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' | '\n' | '\t' => out.push(' '),
            // The runner trims any white space before it looks for `::`.
            ':' if !begun && chars.peek() == Some(&':') => out.push_str("\\:"),
            '[' if out.ends_with("##") => out.push_str("\\["),
            '\0'..='\x1f' | '\x7f' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            _ if hidden(c) => out.extend(c.escape_unicode()),
            _ => out.push(c),
        }
        begun |= !c.is_whitespace();
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// Characters that are not seen, or that change how others are seen.
fn hidden(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}'          // C1: some terminals take U+009B as ESC [
        | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'    // zero width, direction marks
        | '\u{2028}'..='\u{202e}'    // line and paragraph separators, bidi embeddings
        | '\u{2060}'..='\u{206f}'    // word joiner, invisible operators, bidi isolates, deprecated formats
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}'  // tags and variation selectors: whole texts hide there
    )
}

/// Columns that `text` takes on a terminal. An over-estimate where terminals differ.
pub fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

/// `text` if it fits into `columns` columns, else its beginning and `…`, together at most `columns` columns.
pub fn cut(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let Some(room) = columns.checked_sub(1) else {
        return Cow::Borrowed("");
    };
    let mut used = 0;
    let over = text.char_indices().find(|(_, c)| {
        used += columns_of(*c);
        used > room
    });
    let end = over.map_or(text.len(), |(at, _)| at);
    Cow::Owned(format!("{}…", &text[..end]))
}

fn columns_of(c: char) -> usize {
    // VS16 asks for the wide, coloured form of the character before it.
    if c == '\u{fe0f}' { 1 } else { c.width().unwrap_or(0) }
}
