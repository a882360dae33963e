//! The text that the collecting script prints before the pack. Pure.
//!
//! It comes out of a sealed container that worked on hostile data, so every line is bounded and must be in its place; what
//! it claims about commits is checked elsewhere. Invariant: the ids have the length of the input's.

use crate::name::CommitId;

/// The parsed header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// What HEAD names.
    pub head: CommitId,
    /// The branch that HEAD names, if it is not detached. The agent's own words.
    pub symbolic: Option<String>,
    /// What the node's branch names, if it exists.
    pub branch: Option<CommitId>,
    /// How many paths are uncommitted; unknown where git could not say. Counted up to 10000.
    pub dirty: Option<u32>,
    /// At most 20 of them, quoted as git does. The agent's own words.
    pub dirty_paths: Vec<String>,
    /// Where the pack begins, in bytes.
    pub length: usize,
}

/// The header is not one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the collector's header is malformed: {0}")]
pub struct BadHeader(&'static str);

/// No header is longer, in bytes.
pub const MAX_HEADER: usize = 64 * 1024;

const MAX_PATHS: usize = 20;

/// Parses the header at the beginning of `bytes`; ids must be as long as `input`'s.
pub fn parse(bytes: &[u8], input: &CommitId) -> Result<Header, BadHeader> {
    let bytes = &bytes[..bytes.len().min(MAX_HEADER)];
    let end = memchr::memmem::find(bytes, b"\n\n").ok_or(BadHeader("it has no end"))?;
    let text = std::str::from_utf8(&bytes[..end]).map_err(|_| BadHeader("it is not text"))?;
    let mut lines = text.split('\n');
    let mut line = |name: &str| lines.next().and_then(|line| line.strip_prefix(name)?.strip_prefix(' '));

    let id = |text: &str| match CommitId::new(text) {
        Ok(id) if text.len() == input.as_str().len() => Ok(id),
        _ => Err(BadHeader("an id is not one")),
    };
    if line("kew-collect") != Some("1") {
        return Err(BadHeader("its first line is unknown"));
    }
    let head = id(line("head").ok_or(BadHeader("`head` is missing"))?)?;
    let symbolic = line("symbolic").ok_or(BadHeader("`symbolic` is missing"))?;
    let branch = match line("branch").ok_or(BadHeader("`branch` is missing"))? {
        "-" => None,
        text => Some(id(text)?),
    };
    let mut dirty_paths = Vec::new();
    let dirty = loop {
        let line = lines.next().ok_or(BadHeader("`dirty` is missing"))?;
        match line.split_once(' ') {
            Some(("path", path)) if dirty_paths.len() < MAX_PATHS => dirty_paths.push(path.to_owned()),
            Some(("dirty", "?")) => break None,
            Some(("dirty", count)) => {
                break Some(count.parse().map_err(|_| BadHeader("`dirty` is no number"))?);
            }
            _ => return Err(BadHeader("a line is unknown")),
        }
    };
    if lines.next().is_some() {
        return Err(BadHeader("it goes on after `dirty`"));
    }
    let symbolic = (symbolic != "-").then(|| symbolic.to_owned());
    Ok(Header { head, symbolic, branch, dirty, dirty_paths, length: end + 2 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input() -> CommitId {
        CommitId::new("0123456789".repeat(4)).unwrap()
    }

    fn good() -> String {
        let head = "abcdefabcd".repeat(4);
        format!(
            "kew-collect 1\nhead {head}\nsymbolic refs/heads/x\nbranch -\npath a\npath \"b\\n\"\ndirty 2\n\nPACKrest\n\n"
        )
    }

    #[test]
    fn reads_every_field_and_finds_the_pack() {
        let header = parse(good().as_bytes(), &input()).unwrap();
        assert_eq!(header.symbolic.as_deref(), Some("refs/heads/x"));
        assert_eq!(header.branch, None);
        assert_eq!(header.dirty, Some(2));
        assert_eq!(header.dirty_paths, ["a", "\"b\\n\""]);
        assert!(good()[header.length..].starts_with("PACK"));
    }

    #[test]
    fn anything_out_of_place_is_refused() {
        let refused = |text: String| assert!(parse(text.as_bytes(), &input()).is_err(), "{text}");
        refused(good().replace("collect 1", "collect 2"));
        refused(good().replace("head ", "head  "));
        refused(good().replace("abcdefabcd", "abcdefabc"));
        refused(good().replace("abcdefabcd", "ABCDEFABCD"));
        refused(good().replace("symbolic refs/heads/x\n", ""));
        refused(good().replace("dirty 2", "dirty two"));
        refused(good().replace("dirty 2", "dirty -2"));
        refused(good().replace("dirty 2\n", "dirty 2\nmore x\n"));
        refused(good().replace("path a\n", &"path a\n".repeat(20)));
        refused(good().replace("path a\n", &format!("path {}\n", "a".repeat(MAX_HEADER))));
        refused(String::new());
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes, &input());
            let mut near = good().into_bytes();
            near.truncate(bytes.len());
            near.extend(bytes);
            let _ = parse(&near, &input());
        }
    }
}
