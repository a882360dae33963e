//! Artifacts of an attempt: the script that packs them in a sealed container, and the judgement of what comes out.
//!
//! A kept crate reads the header of a tar entry; which entries there may be is decided here: regular files alone, each name
//! plain, wanted and new, none above its size, not too many. Not an unpacker: files go to whoever stores them. Invariant:
//! nothing of the stream is believed, and no part of it is held in memory but one header and one name.

use std::{
    collections::HashSet,
    io::{self, BufRead, Read},
};

use crate::{
    digest::Growing,
    plan::pattern::{Pattern, Patterns},
    record::Artifact,
    text::inert,
    units::show_size,
};

/// The script, for `/bin/sh -c`. It needs find, tar, grep, sort, tr, and timeout, head, mktemp and wc of coreutils.
pub const SCRIPT: &str = include_str!("artifacts.sh");

/// The first field of a stream.
const MAGIC: &[u8] = b"kew-artifacts 1";
/// The longest name, in bytes, and with that the longest field.
const LONGEST: usize = 4096;
/// The longest path that is stored, in bytes: it must fit behind the state's folder and the user's.
const LONGEST_PATH: usize = 1024;
/// How many files that are left out are named.
const NAMED: usize = 20;
const BLOCK: usize = 512;

/// What is taken of one attempt at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArtifactLimits {
    /// Files.
    pub files: u32,
    /// One file, in bytes.
    pub file_bytes: u64,
    /// All files, in bytes.
    pub bytes: u64,
}

/// What came out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Packed {
    /// The files, in the order of the stream.
    pub files: Vec<Artifact>,
    /// Whether each pattern matched one of them.
    pub matched: Vec<bool>,
    /// Files that were left out, each with its reason; at most 20 and a last line for the rest. Names are inert.
    pub left_out: Vec<String>,
}

/// Why artifacts were not taken. Files that were stored before that are no artifacts.
#[derive(Debug, thiserror::Error)]
pub enum ArtifactFault {
    /// The stream is not what the script writes.
    #[error("the packed artifacts are malformed: {0}")]
    Broken(&'static str),
    /// The script gave up.
    #[error("{0}")]
    Refused(String),
    /// The disk or the storing.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The arguments of the script after its name: `$1`, `$2`, …; `checkout` is where the container has it.
pub fn script_args(patterns: &[Pattern], limits: &ArtifactLimits, checkout: &str) -> Vec<String> {
    let mut args = vec![
        limits.files.to_string(),
        limits.file_bytes.to_string(),
        stream_bytes(limits).to_string(),
        checkout.to_owned(),
    ];
    args.extend(patterns.iter().map(Pattern::posix_regex));
    args
}

/// What a non-zero exit status of the script means; `None` for one that is not the script's own.
pub fn script_fault(code: i32, stderr: &str) -> Option<ArtifactFault> {
    let said = stderr.lines().rev().find_map(|line| line.strip_prefix("kew-artifacts: "));
    matches!(code, 12..=15).then(|| ArtifactFault::Refused(said.unwrap_or("no reason given").to_owned()))
}

/// The longest tar of so many files: a header and padding each, and as much again for a long name.
fn stream_bytes(limits: &ArtifactLimits) -> u64 {
    let each = (4 * BLOCK + LONGEST) as u64;
    limits.bytes.saturating_add(u64::from(limits.files).saturating_mul(each)).saturating_add(1 << 16)
}

/// Stores one file: its checked path, whether it is executable, its bytes. What is not read to its end is not stored.
pub type Store<'a> = dyn FnMut(&str, bool, &mut dyn Read) -> io::Result<()> + 'a;

/// Reads what the script wrote and gives each file to `store`.
pub fn unpack(
    stream: &mut dyn BufRead,
    patterns: &[Pattern],
    limits: &ArtifactLimits,
    store: &mut Store<'_>,
) -> Result<Packed, ArtifactFault> {
    if field(stream)?.as_deref() != Some(MAGIC) {
        return Err(ArtifactFault::Broken("it has no beginning"));
    }
    let count = field(stream)?.and_then(|text| String::from_utf8(text).ok()?.trim().parse::<u64>().ok());
    let count = count.ok_or(ArtifactFault::Broken("it has no count"))?;
    let mut unpacking = Unpacking {
        patterns: Patterns::new(patterns),
        limits,
        packed: Packed { matched: vec![false; patterns.len()], ..Packed::default() },
        names: HashSet::new(),
        bytes: 0,
        unnamed: 0,
    };
    let mut others = 0;
    loop {
        let entry = field(stream)?.ok_or(ArtifactFault::Broken("its list has no end"))?;
        if entry.is_empty() {
            break;
        }
        others += 1;
        if others > NAMED {
            return Err(ArtifactFault::Broken("its list is too long"));
        }
        unpacking.other(&entry);
    }
    let mut seen: u64 = 0;
    let whole = loop {
        match unpacking.entry(stream, store)? {
            Entry::File => seen += 1,
            Entry::End => break true,
            Entry::Cut => break false,
        }
        if seen > u64::from(limits.files) {
            return Err(ArtifactFault::Broken("it has more files than were asked for"));
        }
    };
    let rest = count.saturating_sub(seen);
    if rest > 0 || (!whole && count > 0) {
        let (files, bytes) = (limits.files, show_size(limits.bytes));
        unpacking
            .packed
            .left_out
            .push(format!("{} more: not readable, or above {files} files or {bytes} in all", rest.max(1)));
    }
    Ok(unpacking.finish())
}

enum Entry {
    File,
    End,
    /// The stream ends in the middle: it was cut off at the limit.
    Cut,
}

struct Unpacking<'l> {
    patterns: Patterns,
    limits: &'l ArtifactLimits,
    packed: Packed,
    names: HashSet<String>,
    bytes: u64,
    unnamed: usize,
}

impl Unpacking<'_> {
    /// One entry, with the long name before it if it has one.
    fn entry(&mut self, stream: &mut dyn BufRead, store: &mut Store<'_>) -> Result<Entry, ArtifactFault> {
        let mut long = None;
        loop {
            let mut header = tar::Header::new_old();
            if !fill(stream, header.as_mut_bytes())? {
                return Ok(Entry::Cut);
            }
            if header.as_bytes().iter().all(|byte| *byte == 0) {
                return Ok(Entry::End);
            }
            let size = checked_size(&header)?;
            match header.entry_type() {
                tar::EntryType::GNULongName if long.is_none() => {
                    if size > LONGEST as u64 {
                        return Err(ArtifactFault::Broken("a name is too long"));
                    }
                    let mut name = Vec::new();
                    stream.take(size).read_to_end(&mut name)?;
                    if name.len() as u64 != size || !skip(stream, padding(size))? {
                        return Ok(Entry::Cut);
                    }
                    while name.last() == Some(&0) {
                        name.pop();
                    }
                    long = Some(name);
                }
                tar::EntryType::Regular => {
                    let name = long.unwrap_or_else(|| header.path_bytes().into_owned());
                    let executable = header.mode().is_ok_and(|mode| mode & 0o100 != 0);
                    return self.file(stream, &name, size, executable, store);
                }
                _ => return Err(ArtifactFault::Broken("an entry is not a regular file")),
            }
        }
    }

    fn file(
        &mut self,
        stream: &mut dyn BufRead,
        name: &[u8],
        size: u64,
        executable: bool,
        store: &mut Store<'_>,
    ) -> Result<Entry, ArtifactFault> {
        let judged = self.judge(name, size);
        let whole = match judged {
            Err(why) => {
                self.leave_out(name, &why);
                skip(stream, size)?
            }
            Ok((path, matching)) => {
                let mut content = Content { stream, left: size, digest: Growing::default(), cut: false };
                let stored = store(&path, executable, &mut content);
                let Content { left, digest, cut, .. } = content;
                if cut {
                    // Its storing has failed for that reason alone; the limit on the whole is told at the end.
                    return Ok(Entry::Cut);
                }
                match stored {
                    Err(error) if of_name(error.kind()) => {
                        self.leave_out(name, "it cannot be stored under its name");
                        let whole = skip(stream, left)? && skip(stream, padding(size))?;
                        return Ok(if whole { Entry::File } else { Entry::Cut });
                    }
                    Err(error) => return Err(error.into()),
                    Ok(()) if left > 0 => {
                        return Err(io::Error::other("an artifact was not stored to its end").into());
                    }
                    Ok(()) => {}
                }
                self.bytes += size;
                for at in matching {
                    self.packed.matched[at] = true;
                }
                self.packed.files.push(Artifact { path, size, sha256: digest.hex() });
                true
            }
        };
        Ok(if whole && skip(stream, padding(size))? { Entry::File } else { Entry::Cut })
    }

    /// The path, and which patterns want it; or why it is not taken.
    fn judge(&mut self, name: &[u8], size: u64) -> Result<(String, Vec<usize>), String> {
        let path = plain_path(name)?;
        let matching = self.patterns.matching(path);
        if matching.is_empty() {
            return Err("no pattern asks for it".to_owned());
        }
        if size > self.limits.file_bytes {
            return Err(self.too_large(size));
        }
        if size > self.limits.bytes.saturating_sub(self.bytes) {
            return Err(format!("more than {} in all", show_size(self.limits.bytes)));
        }
        if !self.names.insert(path.to_owned()) {
            return Err("its name came twice".to_owned());
        }
        Ok((path.to_owned(), matching))
    }

    /// `TYPE SIZE PATH`: something that the container left out.
    fn other(&mut self, entry: &[u8]) {
        let mut fields = entry.splitn(3, |byte| *byte == b' ');
        let (kind, size, name) = (fields.next(), fields.next(), fields.next().unwrap_or_default());
        let size = size.and_then(|size| std::str::from_utf8(size).ok()?.parse().ok());
        let why = match kind {
            Some(b"l") => "a symbolic link".to_owned(),
            Some(b"p") => "a pipe".to_owned(),
            Some(b"s") => "a socket".to_owned(),
            Some(b"b" | b"c") => "a device".to_owned(),
            Some(b"f") => self.too_large(size.unwrap_or(u64::MAX)),
            _ => "not a regular file".to_owned(),
        };
        self.leave_out(name, &why);
    }

    fn too_large(&self, size: u64) -> String {
        format!("{} large, at most {} are taken", show_size(size), show_size(self.limits.file_bytes))
    }

    fn leave_out(&mut self, name: &[u8], why: &str) {
        if self.packed.left_out.len() >= NAMED {
            self.unnamed += 1;
            return;
        }
        let name: String = inert(&String::from_utf8_lossy(name)).chars().take(200).collect();
        self.packed.left_out.push(format!("`{name}`: {why}"));
    }

    fn finish(mut self) -> Packed {
        if self.unnamed > 0 {
            self.packed.left_out.push(format!("and {} more", self.unnamed));
        }
        self.packed
    }
}

/// A file's bytes, counted and digested as they are read.
struct Content<'a> {
    stream: &'a mut dyn BufRead,
    left: u64,
    digest: Growing,
    cut: bool,
}

impl Read for Content<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        if most == 0 {
            return Ok(0);
        }
        let read = self.stream.read(&mut buffer[..most])?;
        if read == 0 {
            self.cut = true;
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.digest.update(&buffer[..read]);
        self.left -= read as u64;
        Ok(read)
    }
}

/// A name that is a plain relative path on every system, and no name of git's or kew's.
fn plain_path(name: &[u8]) -> Result<&str, String> {
    let bad = |why: &str| Err(why.to_owned());
    let Ok(path) = std::str::from_utf8(name) else { return bad("its name is not UTF-8") };
    if path.len() > LONGEST_PATH {
        return bad("its name is too long");
    }
    if path.contains(char::is_control) {
        return bad("its name has a control character");
    }
    for part in path.split('/') {
        let own = part.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(".kew-"));
        if matches!(part, "" | "." | "..") || part.len() > 255 || part.eq_ignore_ascii_case(".git") || own {
            return bad("its name is not taken");
        }
    }
    Ok(path)
}

/// The size of an entry whose header is sound.
fn checked_size(header: &tar::Header) -> Result<u64, ArtifactFault> {
    const SUM: std::ops::Range<usize> = 148..156;
    let sum = |(at, byte): (usize, &u8)| u32::from(if SUM.contains(&at) { b' ' } else { *byte });
    let sum: u32 = header.as_bytes().iter().enumerate().map(sum).sum();
    if header.cksum().ok() != Some(sum) {
        return Err(ArtifactFault::Broken("a header's sum is wrong"));
    }
    header.entry_size().map_err(|_| ArtifactFault::Broken("a header has no size"))
}

/// Whether a file was not stored for its name alone: a file is in the place of its folder or the other way round, it is too
/// long for this system, or it is not to be written down.
fn of_name(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{AlreadyExists, InvalidFilename, InvalidInput, IsADirectory, NotADirectory};
    matches!(kind, AlreadyExists | InvalidFilename | InvalidInput | IsADirectory | NotADirectory)
}

fn padding(size: u64) -> u64 {
    size.wrapping_neg() % BLOCK as u64
}

/// Fills the buffer; false if the stream ends before that.
fn fill(stream: &mut dyn BufRead, buffer: &mut [u8]) -> io::Result<bool> {
    match stream.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// Leaves out so many bytes; false if the stream ends before that.
fn skip(stream: &mut dyn BufRead, bytes: u64) -> io::Result<bool> {
    Ok(io::copy(&mut stream.take(bytes), &mut io::sink())? == bytes)
}

/// The bytes before the next NUL; `None` at the end of the stream.
fn field(stream: &mut dyn BufRead) -> Result<Option<Vec<u8>>, ArtifactFault> {
    let mut bytes = Vec::new();
    stream.take(2 * LONGEST as u64).read_until(0, &mut bytes)?;
    match bytes.pop() {
        Some(0) => Ok(Some(bytes)),
        _ => Ok(None),
    }
}
