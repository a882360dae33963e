//! Makes text from an agent harmless for a terminal: what is not plainly visible is shown as an escape.
//!
//! It does not know about CI commands (see `ci`), and it gives one line: line breaks and tabs become spaces.

use std::borrow::Cow;

/// The text as one line without control characters, bidi controls, zero-width characters and tag characters.
pub fn inert(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| matches!(c, '\n' | '\r' | '\t') || hidden(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if hidden(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal or an editor acts on the character rather than showing it.
pub fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
