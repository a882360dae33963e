//! What a published branch is called: a template of the settings, filled in, and checked as git would.
//!
//! Invariant: two nodes of an epic never get the same name, and a name is good for a ref, an argument and a URL.

use crate::name::{EpicName, NodeId, RunId};

/// The name where the settings say nothing.
pub const DEFAULT: &str = "kew/{epic}/{node}";

/// A checked template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(String);

impl Template {
    /// Checks a template; the error is a fragment that reads well after it.
    pub fn new(text: &str) -> Result<Self, String> {
        if !text.contains("{node}") {
            return Err("has no `{node}`, so all nodes would have one branch".to_owned());
        }
        let sample = text.replace("{epic}", "e").replace("{node}", "n").replace("{run}", "r");
        if sample.contains(['{', '}']) {
            return Err("has braces other than `{epic}`, `{node}` and `{run}`".to_owned());
        }
        match good(&sample) {
            true => Ok(Self(text.to_owned())),
            false => Err(
                "is no name of a branch: letters, digits and -_./ in parts that begin with a letter or digit"
                    .to_owned(),
            ),
        }
    }

    /// The branch of a node, without `refs/heads/`.
    pub fn fill(&self, epic: &EpicName, node: &NodeId, run: &RunId) -> String {
        let text = self.0.replace("{epic}", epic.as_str()).replace("{node}", node.as_str());
        text.replace("{run}", run.as_str())
    }

    /// As far as it can be filled in before a run.
    pub fn show(&self, epic: &EpicName, node: &NodeId) -> String {
        self.0.replace("{epic}", epic.as_str()).replace("{node}", node.as_str())
    }
}

impl Default for Template {
    fn default() -> Self {
        Self(DEFAULT.to_owned())
    }
}

/// A stricter rule than git's own.
pub fn good(name: &str) -> bool {
    let part = |part: &str| {
        part.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            && !part.contains("..")
            && !part.ends_with('.')
            && !part.ends_with(".lock")
    };
    name.len() <= 200 && name.split('/').all(part) && name != "HEAD"
}
