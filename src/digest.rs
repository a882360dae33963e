//! SHA-256 as lower-case hex: the digest of everything that kew binds a record to.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The digest of some bytes.
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    Sha256::digest(bytes.as_ref()).iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
