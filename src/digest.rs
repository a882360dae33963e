//! SHA-256 as lower-case hex: the digest of everything that kew binds a record to.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// A digest that grows with what comes.
#[derive(Debug, Clone, Default)]
pub struct Growing(Sha256);

impl Growing {
    /// More bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all of them.
    pub fn hex(self) -> String {
        hex(&self.0.finalize())
    }
}

/// The digest of some bytes.
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes.as_ref()))
}

fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
