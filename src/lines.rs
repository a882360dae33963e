//! Splits a byte stream into lines of bounded length. Pure: bytes in, lines out.
//!
//! A line longer than the cap is given once, cut at the cap and marked; the rest of it is thrown away up to the next
//! newline, where reading is in step again. Memory never exceeds the cap, whatever the stream holds.

/// The longest line that is kept, in bytes: 1 MiB.
pub const LINE_CAP: usize = 1024 * 1024;

/// One line without its newline (and without a carriage return before it).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line<'a> {
    /// Its bytes, at most the cap.
    pub bytes: &'a [u8],
    /// Whether the end was cut off.
    pub cut: bool,
}

/// The state between two chunks of a stream.
#[derive(Debug)]
pub struct Lines {
    cap: usize,
    partial: Vec<u8>,
    skipping: bool,
}

impl Default for Lines {
    fn default() -> Self {
        Self::new(LINE_CAP)
    }
}

impl Lines {
    /// A splitter that keeps at most `cap` bytes of a line.
    pub fn new(cap: usize) -> Self {
        Self { cap, partial: Vec::new(), skipping: false }
    }

    /// Takes the next chunk and gives every line that ends in it.
    pub fn feed(&mut self, mut chunk: &[u8], mut give: impl FnMut(Line<'_>)) {
        while let Some(at) = memchr::memchr(b'\n', chunk) {
            let (head, rest) = (&chunk[..at], &chunk[at + 1..]);
            chunk = rest;
            if self.skipping {
                self.skipping = false;
                continue;
            }
            if self.partial.is_empty() {
                give(cut_to(head, self.cap));
                continue;
            }
            if self.keep(head) {
                give(Line { bytes: &self.partial, cut: true });
            } else {
                give(cut_to(&self.partial, self.cap));
            }
            self.clear();
        }
        if self.skipping || chunk.is_empty() {
            return;
        }
        if self.keep(chunk) {
            give(Line { bytes: &self.partial, cut: true });
            self.clear();
            self.skipping = true;
        }
    }

    /// Ends the stream: gives the last line if it had no newline.
    pub fn finish(&mut self, mut give: impl FnMut(Line<'_>)) {
        if !self.partial.is_empty() && !self.skipping {
            give(cut_to(&self.partial, self.cap));
        }
        self.clear();
        self.skipping = false;
    }

    /// Appends up to the cap; true if something did not fit.
    fn keep(&mut self, bytes: &[u8]) -> bool {
        let room = self.cap.saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&bytes[..bytes.len().min(room)]);
        bytes.len() > room
    }

    /// Forgets the partial line and gives a big buffer back.
    fn clear(&mut self) {
        self.partial.clear();
        self.partial.shrink_to(64 * 1024);
    }
}

fn cut_to(bytes: &[u8], cap: usize) -> Line<'_> {
    if bytes.len() > cap {
        return Line { bytes: &bytes[..cap], cut: true };
    }
    Line { bytes: bytes.strip_suffix(b"\r").unwrap_or(bytes), cut: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn split(cap: usize, chunks: &[&[u8]]) -> Vec<(Vec<u8>, bool)> {
        let mut lines = Lines::new(cap);
        let mut got = Vec::new();
        for chunk in chunks {
            lines.feed(chunk, |line| got.push((line.bytes.to_vec(), line.cut)));
        }
        lines.finish(|line| got.push((line.bytes.to_vec(), line.cut)));
        got
    }

    #[test]
    fn a_long_line_is_cut_marked_and_the_next_is_whole() {
        let got = split(4, &[b"abc\r\nabcdef", b"ghi\nok\nlast"]);
        assert_eq!(
            got,
            [
                (b"abc".to_vec(), false),
                (b"abcd".to_vec(), true),
                (b"ok".to_vec(), false),
                (b"last".to_vec(), false)
            ]
        );
    }

    proptest! {
        #[test]
        fn chunking_never_changes_the_lines(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(b'\r'), any::<u8>()], 0..200),
            cuts in proptest::collection::vec(0usize..200, 0..8),
            cap in 1usize..40,
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().filter(|c| *c < text.len()).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts { chunks.push(&text[from..cut]); from = cut; }
            chunks.push(&text[from..]);
            let pieces = split(cap, &chunks);
            prop_assert!(pieces.iter().all(|(bytes, _)| bytes.len() <= cap));
            prop_assert_eq!(pieces, split(cap, &[&text]));
        }
    }
}
