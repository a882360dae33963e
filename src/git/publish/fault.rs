//! Why a commit did not get to the remote: git's words, sorted, with what a person can do.
//!
//! Pure. Two kinds matter: the remote said no (a person decides), or was not reached or did not know us (try again).

use std::fmt;

use crate::text::{cut, inert};

/// Which exit code it comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The remote refused: a person decides.
    Refused,
    /// The remote was not reached, or did not let us in: once that is mended, the same again.
    Unreachable,
    /// kew was asked to stop.
    Stopped,
}

/// What went wrong, for people. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishFault {
    /// Which kind.
    pub kind: Kind,
    /// One kebab word.
    pub word: &'static str,
    /// One sentence (may quote the remote).
    pub sentence: String,
    /// What to do.
    pub hint: &'static str,
}

impl fmt::Display for PublishFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.word, self.sentence)
    }
}

impl std::error::Error for PublishFault {}

impl PublishFault {
    /// The remote refused.
    pub fn refused(word: &'static str, sentence: impl Into<String>, hint: &'static str) -> Self {
        Self { kind: Kind::Refused, word, sentence: sentence.into(), hint }
    }

    /// The remote was not reached.
    pub fn unreachable(word: &'static str, sentence: impl Into<String>, hint: &'static str) -> Self {
        Self { kind: Kind::Unreachable, word, sentence: sentence.into(), hint }
    }

    /// kew was asked to stop.
    pub fn stopped() -> Self {
        let sentence = "the run was stopped before it was published".to_owned();
        Self { kind: Kind::Stopped, word: "stopped", sentence, hint: "`kew publish` takes it up again" }
    }
}

/// The hint where somebody else has the branch.
pub const MOVED: &str = "look at what is there; delete that branch on the remote, or set `publish.branch` to other names, then `kew publish`";

/// What the end of a git command over the network means. `stderr` is free of secrets already.
pub(super) fn of_stderr(stderr: &str) -> PublishFault {
    let has = |words: &[&str]| words.iter().any(|word| stderr.contains(word));
    let said = said(stderr);
    if has(&["dubious ownership"]) {
        let hint =
            "make the remote's folder yours, or name it in `safe.directory` of your own git configuration";
        return PublishFault::unreachable("ownership", said, hint);
    }
    if has(&[
        "Authentication failed",
        "could not read Username",
        "could not read Password",
        "unable to get password",
        "Permission denied",
        "terminal prompts disabled",
        "returned error: 401",
        "returned error: 403",
        "Host key verification failed",
        "Invalid username or",
    ]) {
        let hint = "push once by hand to see whether your credential helper or ssh key is taken without a question, then `kew publish`";
        return PublishFault::unreachable("no-access", said, hint);
    }
    if has(&[
        "does not appear to be a git repository",
        "not found",
        "returned error: 404",
        "does not exist",
        "No such file or directory",
    ]) && !has(&["Could not resolve", "Name or service not known"])
    {
        let hint = "is the address of the remote right, and may you see it? `git remote -v` shows it";
        return PublishFault::unreachable("no-remote", said, hint);
    }
    if has(&["transport '", "not allowed"]) && has(&["transport"]) {
        let hint = "the remote sent git elsewhere, by a protocol that kew does not follow";
        return PublishFault::unreachable("protocol", said, hint);
    }
    let hint = "is the network up, and the remote? then `kew publish`";
    PublishFault::unreachable("no-connection", said, hint)
}

/// What the status line of a pushed ref means, if it was not taken. `stderr` is free of secrets already.
pub(super) fn of_status(reason: &str, remote: bool, stderr: &str) -> PublishFault {
    if !remote {
        // A lease that does not hold is "stale info"; all others mean the same.
        let sentence = format!("the branch was moved by someone else meanwhile ({})", text(reason, 80));
        return PublishFault::refused("moved", sentence, MOVED);
    }
    let lines: Vec<&str> =
        stderr.lines().filter_map(|line| line.strip_prefix("remote:")).map(str::trim).collect();
    let lines = lines.join(" ");
    let said = if lines.is_empty() { String::new() } else { format!(": {}", text(&lines, 300)) };
    let sentence = format!("the remote refused the branch ({}){said}", text(reason, 120));
    let hint = "the remote protects such branches or refuses what is in them; ask who keeps it, or set `publish.branch`, then `kew publish`";
    PublishFault::refused("refused", sentence, hint)
}

/// The lines that say something, as one.
fn said(stderr: &str) -> String {
    let lines: Vec<&str> = stderr.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    match lines.is_empty() {
        true => "git gave no reason".to_owned(),
        false => text(&lines.join("; "), 400),
    }
}

/// Text of others, inert and short.
pub(crate) fn text(text: &str, most: usize) -> String {
    cut(&inert(text), most).into_owned()
}
