//! A stream that reporting goes to. The first failed write closes it for good: whoever ran `kew … | head` got what they
//! wanted, and the run goes on.

use std::io::Write;

/// Where lines go, as long as somebody takes them.
#[derive(Debug)]
pub struct Outlet<W> {
    out: Option<W>,
}

impl<W: Write> Outlet<W> {
    /// Writes to this stream.
    pub fn new(out: W) -> Self {
        Self { out: Some(out) }
    }

    /// Writes the line and a newline in one piece, and flushes.
    pub fn line(&mut self, line: &str) {
        let Some(out) = &mut self.out else { return };
        let whole = format!("{line}\n");
        if out.write_all(whole.as_bytes()).and_then(|()| out.flush()).is_err() {
            self.out = None;
        }
    }

    /// Writes nothing from now on.
    pub fn close(&mut self) {
        self.out = None;
    }
}
