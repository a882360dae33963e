//! The run as it goes on, drawn on a terminal: one bar for the plan, one line for each running node, ended nodes as lines
//! above.
//!
//! Redrawn a few times per second, on ticks. Every line is cut by display width, and there are never more lines than the
//! terminal has, for else a terminal cannot redraw. Time comes with events and ticks; there is no clock here.

mod board;

use crate::text::cut;
use std::{fmt, io, time::Duration};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use self::board::Board;
use super::{Reporter, ci::defanged, told::told};
use crate::{
    event::{RunEvent, Stamped},
    record::Millis,
};

/// Milliseconds between two drawings.
const REDRAW: Millis = 250;
/// How often a loop should tick so that the drawing is smooth.
pub const TICK: Duration = Duration::from_millis(REDRAW.unsigned_abs());
/// Draws that indicatif makes by itself; ours are forced.
const HERTZ: u8 = 4;
/// Columns below which the plan's bar is left out.
const ROOM_FOR_BAR: usize = 60;

/// Columns and rows of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    /// Columns.
    pub columns: u16,
    /// Rows.
    pub rows: u16,
}

/// Draws a run on a terminal.
pub struct Progress {
    drawing: Option<Drawing>,
    board: Board,
    size: Box<dyn Fn() -> Size + Send>,
    drawn: Millis,
}

struct Drawing {
    multi: MultiProgress,
    plan: ProgressBar,
    lines: Vec<ProgressBar>,
}

impl Progress {
    /// Draws on stderr.
    pub fn on_stderr() -> Self {
        Self::on(ProgressDrawTarget::stderr_with_hz(HERTZ), || {
            let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
            size.filter(|size| size.ws_col > 0 && size.ws_row > 0).map_or(
                Size { columns: 80, rows: 24 },
                |size| Size { columns: size.ws_col, rows: size.ws_row },
            )
        })
    }

    /// Draws on this target; `size` is asked before each drawing.
    pub fn on(target: ProgressDrawTarget, size: impl Fn() -> Size + Send + 'static) -> Self {
        let multi = MultiProgress::with_draw_target(target);
        let plan = multi.add(ProgressBar::new(0));
        let drawing = Drawing { multi, plan, lines: Vec::new() };
        Self { drawing: Some(drawing), board: Board::default(), size: Box::new(size), drawn: Millis::MIN }
    }

    fn draw(&mut self, now: Millis) {
        let Some(drawing) = &mut self.drawing else { return };
        self.drawn = now;
        let Size { columns, rows } = (self.size)();
        // One column and one row stay free: a terminal may wrap or scroll when its last one is written.
        let columns = usize::from(columns).saturating_sub(1);
        let rows = usize::from(rows).saturating_sub(2);
        drawing.set_lines(self.board.lines(now, columns, rows));
        drawing.set_plan(&self.board, now, columns);
        drawing.plan.force_draw();
    }

    fn print(&mut self, line: &str) {
        let Some(drawing) = &self.drawing else { return };
        if drawing.multi.println(defanged(line)).is_err() {
            drawing.multi.set_draw_target(ProgressDrawTarget::hidden());
            self.drawing = None;
        }
    }
}

impl Reporter for Progress {
    fn event(&mut self, event: &Stamped) {
        self.board.apply(event);
        if matches!(event.event, RunEvent::NodeProgress { .. } | RunEvent::Heartbeat { .. }) {
            return;
        }
        self.draw(event.time);
        // What starts is on the board; a line for it as well would only scroll.
        if !matches!(event.event, RunEvent::NodeStarted { .. })
            && let Some(line) = told(event)
        {
            self.print(&line);
        }
    }

    fn tick(&mut self, now: Millis) {
        // A clock that was set back must not stop the drawing.
        if now < self.drawn || now.saturating_sub(self.drawn) >= REDRAW {
            self.draw(now);
        }
    }

    fn finish(&mut self) {
        if let Some(drawing) = self.drawing.take() {
            drawing.lines.iter().for_each(ProgressBar::finish_and_clear);
            drawing.plan.finish_and_clear();
            // A terminal that is gone needs no clearing.
            let _ = drawing.multi.clear();
        }
    }
}

impl Drawing {
    fn set_lines(&mut self, texts: Vec<String>) {
        while self.lines.len() > texts.len() {
            if let Some(line) = self.lines.pop() {
                line.finish_and_clear();
                self.multi.remove(&line);
            }
        }
        while self.lines.len() < texts.len() {
            let line = ProgressBar::new_spinner();
            line.set_style(style("{msg}"));
            self.lines.push(self.multi.add(line));
        }
        for (line, text) in self.lines.iter().zip(texts) {
            line.set_message(text);
        }
    }

    fn set_plan(&self, board: &Board, now: Millis, columns: usize) {
        let (done, all) = board.done();
        let figures = format!("{done}/{all}: ");
        let bar = if columns < ROOM_FOR_BAR { 0 } else { (columns / 5).min(24) };
        let template = match bar {
            0 => "{pos}/{len}: {msg}".to_owned(),
            bar => format!("[{{bar:{bar}}}] {{pos}}/{{len}}: {{msg}}"),
        };
        let before = figures.len() + if bar == 0 { 0 } else { bar + 3 };
        self.plan.set_style(style(&template).progress_chars("=> "));
        self.plan.set_length(all as u64);
        self.plan.set_position(done as u64);
        self.plan.set_message(cut(&board.headline(now), columns.saturating_sub(before)).into_owned());
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Progress").field("board", &self.board).finish_non_exhaustive()
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("our templates are well formed")
}
