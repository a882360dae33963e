//! Pull requests: what a forge is asked for, and the two ways of asking.
//!
//! `github` calls the user's `gh` program; `gitlab` makes push options, which the push carries. Neither runs git, and no
//! repository is near. Invariant: texts of agents come here tamed; no token is in an argument or a message.

pub mod github;
pub mod gitlab;

/// A pull request to be opened.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The branch with the work, on the forge.
    pub head: String,
    /// The branch that it is for.
    pub base: String,
    /// One line.
    pub title: String,
    /// In Markdown.
    pub body: String,
    /// One line, where a forge takes no more.
    pub line: String,
    /// As a draft.
    pub draft: bool,
    /// Its labels.
    pub labels: Vec<String>,
    /// Who is asked to look: users, `organisation/team`.
    pub reviewers: Vec<String>,
}

/// A pull request that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// Its page.
    pub url: String,
    /// It was there before.
    pub found: bool,
    /// What did not work, but changes nothing.
    pub warnings: Vec<String>,
}
