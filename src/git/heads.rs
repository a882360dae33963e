//! What the refs of a checkout say, by careful reads and without git.
//!
//! Only answers "has the node's branch moved?", to spare the collecting container where nothing was to be committed. Not a
//! ref parser. Invariant: any doubt (a link, a pipe, a large file) is `None`, which never equals what was seen before.

use camino::Utf8Path;

use super::beneath::{ReadFault, read_beneath};

/// The files that decide what HEAD names, byte for byte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heads {
    head: Vec<u8>,
    loose: Option<Vec<u8>>,
    packed: Option<Vec<u8>>,
}

/// Reads them; `None` where one is missing that must exist, or is not a plain small file.
pub fn heads(checkout: &Utf8Path) -> Option<Heads> {
    let head = read_beneath(checkout, ".git/HEAD", 4096).ok()?;
    let branch = std::str::from_utf8(&head).ok()?.strip_prefix("ref: ").map(str::trim_end);
    let loose = match branch {
        Some(branch) => optional(checkout, &format!(".git/{branch}"), 4096)?,
        None => None,
    };
    let packed = optional(checkout, ".git/packed-refs", 1 << 20)?;
    Some(Heads { head, loose, packed })
}

/// Whether they still say what they said.
pub fn untouched(checkout: &Utf8Path, before: &Heads) -> bool {
    heads(checkout).is_some_and(|now| now == *before)
}

fn optional(checkout: &Utf8Path, name: &str, cap: u64) -> Option<Option<Vec<u8>>> {
    match read_beneath(checkout, name, cap) {
        Ok(bytes) => Some(Some(bytes)),
        Err(ReadFault::Missing) => Some(None),
        Err(_) => None,
    }
}
