//! An environment as it may be shown: the names alone, since a value may be a credential.

use std::{ffi::OsString, fmt};

/// For `Debug` of what holds an environment.
pub(super) struct Names<'e>(pub &'e [(OsString, OsString)]);

impl fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
