//! Takes credentials out of lines before they are kept or shown.
//!
//! A secret is sought as it is and in the forms in which it leaks by accident: base64 (inside other data too, wrapped, or
//! encoded twice), hex, URL-encoded, JSON-escaped; each is replaced by `***NAME***`. This is best effort, not a boundary:
//! who wants to can always find a form that is not here. Values shorter than four bytes are not masked, for they would be
//! found everywhere. `Debug` shows no value.

mod forms;

use std::{borrow::Cow, fmt, ops::Range};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use self::forms::Form;

/// Fewer bytes of a value are no secret.
const SHORTEST: usize = 4;
/// So many bytes of a form give it away where a cut line ends or begins.
const CUT: usize = 8;
/// Bytes of a seed inside a form.
const SEED: usize = 12;
/// Most seeds inside one form, to bound the automaton for a huge value.
const MOST_SEEDS: usize = 64;
/// Most seeds for which memory is traded for speed.
const MOST_IN_DFA: usize = 4000;

/// The secrets of a run, ready to be sought.
pub struct Masker {
    names: Vec<String>,
    forms: Vec<Form>,
    seeds: Vec<Seed>,
    finder: Option<AhoCorasick>,
}

/// A piece of a form that the automaton seeks; what was found is then compared with the form to both sides.
struct Seed {
    form: usize,
    offset: usize,
}

/// What is replaced: bytes of the line, and whose they are.
struct Hit {
    range: Range<usize>,
    form: usize,
}

impl Masker {
    /// Masks these values; a name is what stands in the line instead.
    pub fn new<N: Into<String>, V: AsRef<[u8]>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut names = Vec::new();
        let mut forms: Vec<Form> = Vec::new();
        for (name, value) in secrets {
            let value = value.as_ref().trim_ascii();
            if value.len() < SHORTEST {
                continue;
            }
            for form in forms::of(value, names.len()) {
                if !forms.iter().any(|known| known.bytes == form.bytes) {
                    forms.push(form);
                }
            }
            names.push(name.into());
        }
        let mut seeds = Vec::new();
        let mut patterns = Vec::new();
        for (form, Form { bytes, enough, .. }) in forms.iter().enumerate() {
            let edge = CUT.min(*enough);
            let mut add = |range: Range<usize>| {
                seeds.push(Seed { form, offset: range.start });
                patterns.push(&bytes[range]);
            };
            add(0..edge);
            if bytes.len() > edge {
                add(bytes.len() - edge..bytes.len());
            }
            if let Some(stride) = forms::stride(bytes.len(), *enough) {
                (stride..=bytes.len() - SEED).step_by(stride).for_each(|at| add(at..at + SEED));
            }
        }
        let finder = (!patterns.is_empty()).then(|| {
            // A DFA reads 1.7 times as fast as what is chosen by default, for some megabytes.
            let kind = (patterns.len() <= MOST_IN_DFA).then_some(AhoCorasickKind::DFA);
            let built = AhoCorasick::builder().kind(kind).build(&patterns);
            built.expect("seeds are few and short, far below the automaton's limits")
        });
        Self { names, forms, seeds, finder }
    }

    /// The line with every secret replaced; borrowed if there was none.
    ///
    /// The line may have been cut: at its very end a secret's first bytes (eight or more) are masked too, and at its very
    /// beginning a secret's last ones.
    pub fn mask<'a>(&self, line: &'a [u8]) -> Cow<'a, [u8]> {
        let Some(finder) = &self.finder else { return Cow::Borrowed(line) };
        let mut hits: Vec<Hit> = Vec::new();
        for found in finder.find_overlapping_iter(line) {
            let seed = &self.seeds[found.pattern().as_usize()];
            // The next seed of the same find.
            if hits.last().is_some_and(|last| last.form == seed.form && found.end() <= last.range.end) {
                continue;
            }
            if let Some(range) = self.forms[seed.form].run(line, found.range(), seed.offset) {
                hits.push(Hit { range, form: seed.form });
            }
        }
        if hits.is_empty() {
            return Cow::Borrowed(line);
        }
        Cow::Owned(self.replace(line, hits))
    }

    fn replace(&self, line: &[u8], mut hits: Vec<Hit>) -> Vec<u8> {
        hits.sort_by_key(|hit| (hit.range.start, usize::MAX - hit.range.end));
        let mut out = Vec::with_capacity(line.len());
        let mut at = 0;
        let mut hits = hits.into_iter().peekable();
        while let Some(first) = hits.next() {
            let mut end = first.range.end;
            let mut longest = (first.range.len(), first.form);
            while let Some(next) = hits.next_if(|next| next.range.start < end) {
                end = end.max(next.range.end);
                if next.range.len() > longest.0 {
                    longest = (next.range.len(), next.form);
                }
            }
            out.extend_from_slice(&line[at..first.range.start]);
            out.extend_from_slice(b"***");
            out.extend_from_slice(self.names[self.forms[longest.1].secret].as_bytes());
            out.extend_from_slice(b"***");
            at = end;
        }
        out.extend_from_slice(&line[at..]);
        out
    }
}

impl fmt::Debug for Masker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Masker").field("names", &self.names).finish_non_exhaustive()
    }
}
