//! Problems as people read them: code and message, the line with carets, other places, notes and help.
//!
//! Pure text to text. Every word of the plan passes [`inert`], since a plan may come from a stranger's branch and the
//! result goes to a terminal or a CI log.

use std::fmt::Write;

use super::{Lines, Problem, Problems, Span};
use crate::text::{inert, width};

/// Whether to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Paint {
    /// Plain text.
    Plain,
    /// With ANSI colours.
    Colour,
}

const RED: &str = "\x1b[1;31m";
const BLUE: &str = "\x1b[1;34m";
const BOLD: &str = "\x1b[1m";
const RESET: &str = "\x1b[0m";

/// A longer line is shown from a little before the place.
const WIDEST_LINE: usize = 120;
const BEFORE_PLACE: usize = 40;

impl Paint {
    fn wrap(self, colour: &str, text: &str) -> String {
        match self {
            Self::Plain => text.to_string(),
            Self::Colour => format!("{colour}{text}{RESET}"),
        }
    }
}

/// One line under a line of the plan.
struct Mark<'p> {
    line: usize,
    span: Span,
    sign: &'static str,
    label: &'p str,
}

impl Problems {
    /// All problems, an empty line between two; ends with a line break.
    pub fn render(&self, paint: Paint) -> String {
        let lines = Lines::new(&self.text);
        let blocks: Vec<String> =
            self.list.iter().map(|problem| block(self, &lines, problem, paint)).collect();
        blocks.join("\n")
    }
}

fn block(problems: &Problems, lines: &Lines<'_>, problem: &Problem, paint: Paint) -> String {
    let (line, column) = lines.place(problem.span.start);
    let mut marks =
        vec![Mark { line, span: problem.span, sign: "^", label: problem.label.as_deref().unwrap_or("") }];
    let others = problem.also.iter().map(|(span, label)| {
        let (line, _) = lines.place(span.start);
        Mark { line, span: *span, sign: "-", label }
    });
    marks.extend(others);
    // The problem's own place is the first of its line, so it decides which part of a long line is shown.
    marks.sort_by_key(|mark| (mark.line, mark.sign == "-"));

    let gutter = marks.last().map_or(line, |mark| mark.line).to_string().len();
    let pad = " ".repeat(gutter);
    let bar = paint.wrap(BLUE, "|");
    let mut out = String::new();
    let head = paint.wrap(RED, &format!("error[{}]", problem.code.as_str()));
    let message = paint.wrap(BOLD, &inert(&problem.message));
    let arrow = paint.wrap(BLUE, "-->");
    put(&mut out, format_args!("{head}: {message}"));
    put(&mut out, format_args!("{pad}{arrow} {}:{line}:{column}", inert(&problems.file)));
    put(&mut out, format_args!("{pad} {bar}"));

    let mut last: Option<usize> = None;
    for same_line in marks.chunk_by(|one, next| one.line == next.line) {
        let line = same_line[0].line;
        let (start, text) = lines.line(line);
        let window = Window::new(text, same_line[0].span.start.saturating_sub(start));
        if last.is_some_and(|last| last + 1 < line) {
            put(&mut out, format_args!("{}", paint.wrap(BLUE, "...")));
        }
        last = Some(line);
        let number = paint.wrap(BLUE, &format!("{line:gutter$}"));
        put(&mut out, format_args!("{number} {bar} {}", window.show(text)));
        for mark in same_line.iter().filter(|mark| window.has(mark.span.start.saturating_sub(start))) {
            let (before, long) = window.columns(text, mark.span, start);
            let colour = if mark.sign == "^" { RED } else { BLUE };
            let signs = format!("{} {}", mark.sign.repeat(long), inert(mark.label));
            let signs = paint.wrap(colour, signs.trim_end());
            put(&mut out, format_args!("{pad} {bar} {}{signs}", " ".repeat(before)));
        }
    }
    for note in &problem.notes {
        put(&mut out, format_args!("{pad} {} {}", paint.wrap(BLUE, "= note:"), inert(note)));
    }
    if let Some(help) = &problem.help {
        put(&mut out, format_args!("{pad} {} {}", paint.wrap(BLUE, "= help:"), inert(help)));
    }
    out
}

fn put(out: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(out, "{line}").expect("writing into a String cannot fail");
}

/// The part of a line that is shown.
struct Window {
    from: usize,
    to: usize,
}

impl Window {
    fn new(line: &str, place: usize) -> Self {
        if width(line) <= WIDEST_LINE {
            return Self { from: 0, to: line.len() };
        }
        let place = boundary(line, place.min(line.len()));
        let back = line[..place].char_indices().rev().nth(BEFORE_PLACE - 1).map_or(0, |(at, _)| at);
        let to = line[back..].char_indices().nth(WIDEST_LINE).map_or(line.len(), |(at, _)| back + at);
        Self { from: back, to }
    }

    fn has(&self, byte: usize) -> bool {
        (self.from..=self.to).contains(&byte)
    }

    fn show(&self, line: &str) -> String {
        let cut_before = if self.from > 0 { "..." } else { "" };
        let cut_after = if self.to < line.len() { "..." } else { "" };
        format!("{cut_before}{}{cut_after}", drawn(&line[self.from..self.to]))
    }

    /// Columns before the place, and how many it takes (at least one), within the shown part.
    fn columns(&self, line: &str, span: Span, line_start: usize) -> (usize, usize) {
        let clamp = |byte: usize| boundary(line, byte.saturating_sub(line_start).clamp(self.from, self.to));
        let (from, to) = (clamp(span.start), clamp(span.end));
        let cut_before = if self.from > 0 { 3 } else { 0 };
        let before = width(&drawn(&line[self.from..from]));
        let both = width(&drawn(&line[self.from..to.max(from)]));
        (cut_before + before, both.saturating_sub(before).max(1))
    }
}

fn drawn(text: &str) -> String {
    inert(text).into_owned()
}

fn boundary(text: &str, mut byte: usize) -> usize {
    while !text.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}
