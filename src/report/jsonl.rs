//! The run as JSON lines for programs: every event, one versioned object per line.
//!
//! Values are as they are, but characters that a terminal or a CI log acts on are written as JSON escapes, so a log of the
//! stream is as harmless as the other reporters.

use std::{borrow::Cow, io::Write};

use super::{Reporter, outlet::Outlet};
use crate::{event::Stamped, record::Millis};

/// One JSON object per event.
#[derive(Debug)]
pub struct Jsonl<W> {
    outlet: Outlet<W>,
}

impl<W: Write> Jsonl<W> {
    /// Lines go here.
    pub fn new(out: W) -> Self {
        Self { outlet: Outlet::new(out) }
    }
}

impl<W: Write> Reporter for Jsonl<W> {
    fn event(&mut self, event: &Stamped) {
        // An event that cannot be written is trouble of reporting, like a closed pipe.
        match serde_json::to_string(event) {
            Ok(json) => self.outlet.line(&escaped(&json)),
            Err(_) => self.outlet.close(),
        }
    }

    fn tick(&mut self, _now: Millis) {}

    fn finish(&mut self) {
        self.outlet.close();
    }
}

/// The same JSON in other letters. Hidden characters and `##` stand inside strings only, where an escape means the same.
pub fn escaped(json: &str) -> Cow<'_, str> {
    if !json.contains("##") && !json.chars().any(hidden) {
        return Cow::Borrowed(json);
    }
    let mut out = String::with_capacity(json.len() + 16);
    let mut units = [0_u16; 2];
    for c in json.replace("##", "\\u0023\\u0023").chars() {
        if !hidden(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut units) {
            out.push_str(&format!("\\u{unit:04x}"));
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal may act on the character rather than show it. JSON itself escapes only those below U+0020.
fn hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
