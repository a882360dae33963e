//! Makes text from an agent harmless for a terminal and a CI log: one line, on which everything is plainly visible.

use std::borrow::Cow;

/// The text as one line: line breaks and tabs are spaces, other invisible or acting characters are shown as escapes, and
/// what would begin a CI command (`::` at its start, `##[`) has a backslash in it.
pub fn inert(text: &str) -> Cow<'_, str> {
    let mut out = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            ':' if text[at..].starts_with("::") && text[..at].trim().is_empty() => out.push_str("\\:"),
            '[' if out.ends_with("##") => out.push_str("\\["),
            '\0'..=' ' | '\x7f' if c != ' ' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if hidden(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

fn hidden(c: char) -> bool {
    matches!(c,
        '\u{80}'..='\u{9f}' | '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
