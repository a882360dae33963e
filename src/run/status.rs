//! How a whole run ended: one word for the record, one exit code. Values only.
//!
//! Worst first: interrupted, infrastructure, failed, held, capped, passed. Who decides which is the dispatcher.

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Everything passed.
    Passed,
    /// A node failed.
    Failed,
    /// A person must decide.
    Held,
    /// Stopped at a cap or a deadline of the whole run; nothing failed.
    Capped,
    /// Stopped by a person.
    Interrupted,
    /// Docker, git, disk or the state failed.
    Infrastructure,
}

impl Status {
    /// The word in state and events.
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Held => "held",
            Self::Capped => "capped",
            Self::Interrupted => "interrupted",
            Self::Infrastructure => "infrastructure",
        }
    }

    /// The status of a run whose end could not be written down.
    pub fn max_with_broken(self) -> Self {
        if self == Self::Interrupted { self } else { Self::Infrastructure }
    }

    /// kew's exit code.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Passed => 0,
            Self::Failed => 1,
            Self::Held => 3,
            Self::Infrastructure => 4,
            Self::Capped => 5,
            Self::Interrupted => 130,
        }
    }
}
