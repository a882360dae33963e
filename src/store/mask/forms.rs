//! The forms in which one secret may appear in a line, and how much of each gives it away.
//!
//! A form is plain bytes. Base64 inside other data starts at one of three alignments, so it has three forms; characters
//! that depend on what stands before the secret are left out of them.

use std::ops::Range;

use base64::{
    Engine as _,
    engine::general_purpose::{GeneralPurpose, STANDARD, URL_SAFE},
};

use super::{CUT, MOST_SEEDS, SEED, SHORTEST};

/// Lines of a many-line value that are sought by themselves have at least so many bytes.
const LONG_LINE: usize = 16;
/// A value of letters and digits of at least this length is given away by a long piece of it.
const LONG_TOKEN: usize = 32;

/// One form of one secret.
pub(super) struct Form {
    /// The bytes that are sought.
    pub bytes: Vec<u8>,
    /// A run of so many bytes of it is masked, wherever it starts.
    pub enough: usize,
    /// Index of the secret.
    pub secret: usize,
}

impl Form {
    /// The range of `line` to mask around a piece that equals this form from `offset` on, if it is enough.
    pub fn run(&self, line: &[u8], found: Range<usize>, offset: usize) -> Option<Range<usize>> {
        let before = line[..found.start].iter().rev().zip(self.bytes[..offset].iter().rev());
        let left = before.take_while(|(line, form)| line == form).count();
        let after = line[found.end..].iter().zip(&self.bytes[offset + found.len()..]);
        let right = after.take_while(|(line, form)| line == form).count();
        let run = found.start - left..found.end + right;
        let from = offset - left;
        let to = from + run.len();
        let cut_at_end = from == 0 && run.end == line.len() && run.len() >= CUT;
        let cut_at_start = to == self.bytes.len() && run.start == 0 && run.len() >= CUT;
        (run.len() >= self.enough || cut_at_end || cut_at_start).then_some(run)
    }
}

/// How far apart seeds inside a form lie so that every run of `enough` bytes holds a whole one; `None` if only the whole
/// form counts.
pub(super) fn stride(len: usize, enough: usize) -> Option<usize> {
    (enough < len && len > 2 * SEED).then(|| SEED.max(len.div_ceil(MOST_SEEDS)))
}

/// How much of an encoded form of this length is enough: sure to hold a seed.
fn enough(len: usize) -> usize {
    len.min(SEED + SEED.max(len.div_ceil(MOST_SEEDS)))
}

/// All forms of a value.
pub(super) fn of(value: &[u8], secret: usize) -> Vec<Form> {
    let mut forms = Vec::new();
    let mut whole = |bytes: Vec<u8>| forms.push(Form { enough: bytes.len(), bytes, secret });
    for line in value.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        if line.len() >= LONG_LINE && line.len() < value.len() {
            whole(line.to_vec());
        }
    }
    if let Ok(text) = str::from_utf8(value) {
        json_escaped(text).into_iter().for_each(&mut whole);
    }
    for kept in [b"-_.~".as_slice(), b"-_.~/", b"-_.!~*'()"] {
        whole(percent_encoded(value, kept, b"0123456789ABCDEF"));
        whole(percent_encoded(value, kept, b"0123456789abcdef"));
    }
    let token = value.len() >= LONG_TOKEN
        && value.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    let literal = if token { enough(value.len()) } else { value.len() };
    // First, so that the form with the lowest bar stays where two forms are equal.
    forms.insert(0, Form { bytes: value.to_vec(), enough: literal, secret });
    for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
        let bytes: Vec<u8> = value.iter().flat_map(|byte| hex(*byte, digits)).collect();
        forms.push(Form { enough: enough(bytes.len()), bytes, secret });
    }
    for engine in [&STANDARD, &URL_SAFE] {
        for (bytes, sure) in aligned(value, engine) {
            for engine in [&STANDARD, &URL_SAFE] {
                let sure_twice = aligned(&bytes[..sure], engine).into_iter().map(|(_, sure)| sure);
                for ((twice, _), sure) in aligned(&bytes, engine).into_iter().zip(sure_twice) {
                    forms.push(Form { bytes: twice, enough: enough(sure), secret });
                }
            }
            forms.push(Form { enough: enough(sure), bytes, secret });
        }
    }
    forms.retain(|form| form.enough >= SHORTEST);
    forms
}

/// Base64 at the three alignments, up to and with the padding, and how many of its characters depend on the value alone.
fn aligned(value: &[u8], engine: &GeneralPurpose) -> Vec<(Vec<u8>, usize)> {
    (0..3)
        .map(|shift| {
            let mut shifted = vec![0; shift];
            shifted.extend_from_slice(value);
            let start = (shift * 8).div_ceil(6);
            let end = shifted.len() * 8 / 6;
            let text = engine.encode(&shifted).into_bytes();
            (text[start..].to_vec(), end.saturating_sub(start))
        })
        .collect()
}

/// As JSON strings hold it: plainly, with escaped slashes, in ASCII alone, and inside a string of a string: what a tool
/// prints as JSON is escaped once more in the agent's own stream, and again where that tool printed another's answer.
fn json_escaped(text: &str) -> Vec<Vec<u8>> {
    let once = json_inside(text);
    let slashes = once.replace('/', "\\/");
    let mut ascii = String::new();
    for unit in once.encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => ascii.push(byte.into()),
            _ => ascii.push_str(&format!("\\u{unit:04x}")),
        }
    }
    let twice = json_inside(&once);
    let thrice = json_inside(&twice);
    [once, slashes, ascii, twice, thrice].map(String::into_bytes).into()
}

/// What stands between the quotes of the JSON string.
fn json_inside(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn percent_encoded(value: &[u8], kept: &[u8], digits: &[u8; 16]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    for byte in value {
        if byte.is_ascii_alphanumeric() || kept.contains(byte) {
            out.push(*byte);
            continue;
        }
        out.push(b'%');
        out.extend(hex(*byte, digits));
    }
    out
}

fn hex(byte: u8, digits: &[u8; 16]) -> [u8; 2] {
    [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]
}
