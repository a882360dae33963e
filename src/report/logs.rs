//! An attempt's stdout for people, for `kew logs`: text, tools and results of every agent's JSON lines as short lines.
//!
//! It reads by shape, not by runner, so a log of an unknown agent shows as well. What it does not know it shows as it is,
//! but inert; what only repeats or pieces together another line (streaming deltas) is left out. `raw` is the way to the
//! bytes.

mod shapes;

use std::io::{self, BufRead, Write};

use super::ci::defanged;
use crate::text::{cut, inert};
use shapes::{Shape, shapes};

/// Columns of a tool's argument or result, and of a JSON line that means nothing here.
const SHORT: usize = 200;

/// How a log is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogForm {
    /// For people.
    Readable,
    /// Byte for byte.
    Raw,
}

/// Copies a log to `out`. Errors are those of reading and writing.
pub fn logs(input: &mut dyn BufRead, out: &mut dyn Write, form: LogForm) -> io::Result<()> {
    if form == LogForm::Raw {
        io::copy(input, out)?;
        return out.flush();
    }
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return out.flush();
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let text = String::from_utf8_lossy(&line);
        for line in readable(&text) {
            writeln!(out, "{}", defanged(&line))?;
        }
    }
}

/// The lines that one line of a log is shown as: none, one or more; each is inert.
pub fn readable(line: &str) -> Vec<String> {
    let Some(shapes) = shapes(line) else {
        return vec![inert(line).into_owned()];
    };
    let mut lines = Vec::new();
    for shape in shapes {
        match shape {
            Shape::Text(text) => lines.extend(
                text.trim_end().split('\n').map(|line| inert(line.trim_end_matches('\r')).into_owned()),
            ),
            Shape::Tool { name, detail } => {
                lines.push(format!("> {} {}", inert(&name), short(&detail)).trim_end().into())
            }
            Shape::Output { text, failed } => {
                let mark = if failed { "! " } else { "< " };
                let mut rest = text.trim_end().lines();
                lines.extend(rest.by_ref().take(5).map(|line| format!("{mark}{}", short(line))));
                match rest.count() {
                    0 => {}
                    more => lines.push(format!("{mark}… and {more} more lines")),
                }
            }
            Shape::Note(text) => lines.push(format!("= {}", short(&text))),
            Shape::Unknown => lines.push(cut(&inert(line), SHORT).into_owned()),
        }
    }
    lines
}

fn short(text: &str) -> String {
    cut(&inert(text.trim()), SHORT).into_owned()
}
