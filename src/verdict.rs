//! A reviewer's verdict: its strict form, and what the bytes of a sidecar are worth.
//!
//! Pure: whoever reads the file says what it found ([`SidecarFault`] or bytes), this decides. Invariant: nothing but a
//! well-formed `approve` that matches what was reviewed approves; every doubt is [`Judged::Held`] for a person.

mod strict;

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use crate::name::{CommitId, NodeId};

/// Largest sidecar, in bytes.
pub const MAX_BYTES: usize = 64 * 1024;

/// The JSON document that a reviewer writes to its sidecar file. One document, UTF-8, at most 64 KiB.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    /// The vote.
    #[serde(deserialize_with = "strict::word")]
    pub verdict: Vote,
    /// The reasons in short; not empty.
    pub summary: String,
    /// What was found; may be empty.
    #[serde(deserialize_with = "strict::objects")]
    pub findings: Vec<Finding>,
    /// The id of the reviewer's own node (not of its subject). If given, it must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The full id of the commit that was reviewed. If given, it must match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// The nonce of the brief. If given, it must match; required where the file is not at the root of the checkout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
    /// The id of the chosen node; only where the brief asks to choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pick: Option<String>,
}

/// The vote.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Vote {
    /// The commit is good as it is.
    Approve,
    /// The commit must change.
    RequestChanges,
}

/// One thing that a reviewer found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    /// How bad it is.
    #[serde(deserialize_with = "strict::word")]
    pub severity: Severity,
    /// What is wrong (agent text).
    pub message: String,
    /// The file, relative to the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The line in that file, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<NonZeroU32>,
}

/// How bad a finding is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// A blemish.
    Minor,
    /// A mistake that must be mended.
    Major,
    /// A mistake that does harm.
    Critical,
}

impl Severity {
    /// The word of the verdict file.
    pub fn word(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Minor => "minor",
            Self::Major => "major",
            Self::Critical => "critical",
        }
    }
}

/// The JSON Schema of a sidecar.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Verdict)
}

/// Why there are no bytes to judge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SidecarFault {
    /// No sidecar.
    Missing,
    /// A symbolic link, or below one.
    Symlink,
    /// A folder, pipe, socket or device.
    NotAFile,
    /// A file with more than one name.
    HardLink,
    /// Larger than [`MAX_BYTES`].
    TooLarge,
    /// It was in the reviewed commit already.
    Planted,
    /// More than one candidate.
    Ambiguous,
    /// None where it should be, and too much below to look at all of it.
    Unsearched,
    /// Where it should be is none, but a file whose name differs in case only.
    Disguised(String),
    /// It could not be read; why.
    Unreadable(String),
    /// The script whose exit status is the verdict ended with a status that is none.
    ExitStatus(i32),
}

/// Where the sidecar was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundAt {
    /// At the root of the checkout, as the brief says.
    Root,
    /// Somewhere below; then the nonce is required.
    Below,
}

/// What a verdict must match.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The reviewer's own node.
    pub node: &'a NodeId,
    /// The reviewed commit.
    pub head: &'a CommitId,
    /// The nonce of this attempt's brief.
    pub nonce: &'a str,
    /// Where the sidecar was.
    pub found: FoundAt,
    /// The nodes to choose from, if the brief asked to choose; an approval must then pick one.
    pub pick: Option<&'a [NodeId]>,
}

/// What a reviewer thinks (agent text).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// The reasons in short.
    pub summary: String,
    /// What was found.
    pub findings: Vec<Finding>,
    /// What was chosen, if there was a choice.
    pub pick: Option<NodeId>,
}

/// What a sidecar is worth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// The reviewer approves.
    Approve(Opinion),
    /// The reviewer asks for changes.
    RequestChanges(Opinion),
    /// A person must look.
    Held(Held),
}

impl Judged {
    /// The verdict in one word, as state and events say it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Approve(_) => "approve",
            Self::RequestChanges(_) => "request_changes",
            Self::Held(_) => "held",
        }
    }

    /// The reviewer's summary, or why a person must look (agent text).
    pub fn summary(&self) -> String {
        match self {
            Self::Approve(opinion) | Self::RequestChanges(opinion) => opinion.summary.clone(),
            Self::Held(held) => format!("{}: {}", held.word, held.sentence),
        }
    }
}

/// Why a person must look: a word for machines and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// One kebab-case word.
    pub word: &'static str,
    /// One sentence; may quote agent text.
    pub sentence: String,
}

impl Held {
    fn new(word: &'static str, sentence: impl Into<String>) -> Self {
        Self { word, sentence: sentence.into() }
    }
}

impl From<SidecarFault> for Held {
    fn from(fault: SidecarFault) -> Self {
        match fault {
            SidecarFault::Missing => Self::new("missing", "the reviewer wrote no verdict"),
            SidecarFault::Symlink => Self::new("symlink", "the verdict file is a symbolic link"),
            SidecarFault::NotAFile => Self::new("not-a-file", "the verdict is not a regular file"),
            SidecarFault::HardLink => Self::new("hard-link", "the verdict file has more than one name"),
            SidecarFault::TooLarge => {
                Self::new("too-large", format!("the verdict file has more than {} KiB", MAX_BYTES / 1024))
            }
            SidecarFault::Planted => {
                Self::new("planted", "the reviewed commit has a verdict file in it already")
            }
            SidecarFault::Ambiguous => Self::new("ambiguous", "there is more than one verdict file"),
            SidecarFault::Unsearched => Self::new(
                "unsearched",
                "the reviewer wrote no verdict where it should be, and the checkout has too much in it to look elsewhere",
            ),
            SidecarFault::Disguised(path) => Self::new(
                "planted",
                format!("`{}` is named like a verdict file, but for its case", quote(&path)),
            ),
            SidecarFault::Unreadable(why) => {
                Self::new("unreadable", format!("the verdict file could not be read: {why}"))
            }
            SidecarFault::ExitStatus(status) => Self::new(
                "exit-status",
                format!("the script ended with status {status}, which is no verdict"),
            ),
        }
    }
}

/// Judges what was found where the verdict should be.
pub fn decide(found: Result<&[u8], SidecarFault>, expected: &Expected<'_>) -> Judged {
    match found.map_err(Held::from).and_then(parse).and_then(|verdict| compare(verdict, expected)) {
        Ok((Vote::Approve, opinion)) => Judged::Approve(opinion),
        Ok((Vote::RequestChanges, opinion)) => Judged::RequestChanges(opinion),
        Err(held) => Judged::Held(held),
    }
}

/// The bytes as one well-formed document.
fn parse(bytes: &[u8]) -> Result<Verdict, Held> {
    if bytes.len() > MAX_BYTES {
        return Err(SidecarFault::TooLarge.into());
    }
    let text =
        std::str::from_utf8(bytes).map_err(|_| Held::new("not-utf8", "the verdict file is not UTF-8"))?;
    if text.starts_with('\u{feff}') {
        return Err(Held::new("not-json", "the verdict file starts with a byte order mark"));
    }
    if !text.trim_start().starts_with('{') {
        return Err(Held::new("not-json", "the verdict file is not a JSON object"));
    }
    // A typed parse: a field given twice is an error here, where a generic one would silently take the last.
    let verdict: Verdict = serde_json::from_str(text).map_err(|error| {
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        let word = if is_json { "wrong-shape" } else { "not-json" };
        Held::new(word, format!("the verdict file is not a verdict: {}", quote(&error.to_string())))
    })?;
    if verdict.summary.trim().is_empty() {
        return Err(Held::new("wrong-shape", "the verdict's summary is empty"));
    }
    Ok(verdict)
}

/// The verdict, if it is about what was reviewed.
fn compare(verdict: Verdict, expected: &Expected<'_>) -> Result<(Vote, Opinion), Held> {
    if let Some(node) = verdict.node.filter(|node| node != expected.node.as_str()) {
        return Err(Held::new(
            "wrong-node",
            format!("the verdict is from `{}`, not from `{}`", quote(&node), expected.node),
        ));
    }
    if let Some(head) = verdict.head.filter(|head| head != expected.head.as_str()) {
        return Err(Held::new(
            "wrong-commit",
            format!("the verdict is about `{}`, not about `{}`", quote(&head), expected.head),
        ));
    }
    match verdict.nonce {
        Some(nonce) if nonce != expected.nonce => {
            return Err(Held::new("wrong-nonce", "the verdict has not the nonce of this attempt's brief"));
        }
        None if expected.found == FoundAt::Below => {
            return Err(Held::new(
                "wrong-nonce",
                "the verdict file is not where it should be and has no nonce",
            ));
        }
        _ => {}
    }
    let pick = match (verdict.pick, expected.pick) {
        (None, None) => None,
        (None, Some(_)) if verdict.verdict == Vote::RequestChanges => None,
        (None, Some(_)) => return Err(Held::new("wrong-shape", "the verdict approves and picks no node")),
        (Some(_), None) => {
            return Err(Held::new("wrong-shape", "the verdict picks a node, but there was no choice"));
        }
        (Some(pick), Some(choice)) => {
            let node = choice.iter().find(|node| node.as_str() == pick).cloned();
            let unknown = || format!("the verdict picks `{}`, which was no choice", quote(&pick));
            Some(node.ok_or_else(|| Held::new("wrong-shape", unknown()))?)
        }
    };
    Ok((verdict.verdict, Opinion { summary: verdict.summary, findings: verdict.findings, pick }))
}

/// At most 200 bytes of agent text, for a sentence.
fn quote(text: &str) -> String {
    const MAX: usize = 200;
    if text.len() <= MAX {
        return text.to_owned();
    }
    format!("{}…", &text[..text.floor_char_boundary(MAX)])
}
