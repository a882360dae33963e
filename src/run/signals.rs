//! The signals that a run answers to. SIGINT and SIGTERM ask it to stop; SIGHUP is heard and means nothing: a run goes on
//! without its terminal.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from its creation on.
pub struct Signals {
    int: Signal,
    term: Signal,
    hup: Signal,
}

impl Signals {
    /// Takes the signals over from their default actions.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a request to stop. Safe to drop and call again.
    pub async fn stop_requested(&mut self) {
        loop {
            tokio::select! {
                Some(()) = self.int.recv() => return,
                Some(()) = self.term.recv() => return,
                Some(()) = self.hup.recv() => {}
                else => std::future::pending().await,
            }
        }
    }
}
