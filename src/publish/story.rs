//! Title and description of a pull request: what the node did, who approved it, what it cost, where it came from.
//!
//! Texts of agents are tamed and fenced. The last line holds the digest of all before it, so that a later run can tell
//! whether a person has changed the description since; then it is theirs. Invariant: within a forge's limits.

use std::fmt::Write as _;

use super::{Ballot, tame};
use crate::{
    digest::sha256_hex,
    name::{CommitId, EpicName, NodeId, RunId},
};

/// GitHub takes 65,536 characters, of up to four bytes.
const MOST: usize = 60_000;
const SUMMARY: usize = 4096;
const REASONS: usize = 1000;
const TITLE: usize = 100;

/// What is told of a node on a forge.
#[derive(Debug, Clone)]
pub struct Story {
    /// The epic.
    pub epic: EpicName,
    /// The node.
    pub node: NodeId,
    /// The run.
    pub run: RunId,
    /// The attempt.
    pub attempt: u32,
    /// The commit that is published.
    pub commit: CommitId,
    /// Its last text (agent text).
    pub summary: Option<String>,
    /// Who reviewed it.
    pub own: Vec<(NodeId, Ballot)>,
    /// Who reviewed what it builds on: reviewer, subject.
    pub gates: Vec<(NodeId, NodeId, Ballot)>,
    /// What it cost: dollars, and whether that is only "at least".
    pub cost: (Option<f64>, bool),
    /// Published branches that it stands on, each with its pull request if there is one.
    pub stands_on: Vec<(String, Option<String>)>,
}

impl Story {
    /// One line.
    pub fn title(&self) -> String {
        let head = format!("{}: {}", self.epic, self.node);
        match self.summary.as_deref().map(|text| tame::line(text, TITLE)).filter(|line| !line.is_empty()) {
            Some(line) => format!("{head}: {line}"),
            None => head,
        }
    }

    /// In Markdown.
    pub fn body(&self) -> String {
        let mut text = format!("Node `{}` of the epic `{}`, by kew.\n", self.node, self.epic);
        for (branch, url) in &self.stands_on {
            let url = url.as_deref().map(|url| format!(" ({url})")).unwrap_or_default();
            let _ = writeln!(text, "\nStacked on `{branch}`{url}: merge that first.");
        }
        if let Some(summary) = self.summary.as_deref().filter(|summary| !summary.trim().is_empty()) {
            let _ = write!(text, "\n### Summary\n\n{}", tame::block(summary, SUMMARY));
        }
        text.push_str("\n### Reviews\n\n");
        for (at, (reviewer, vote)) in self.own.iter().enumerate() {
            if text.len() > MOST - 4 * REASONS {
                let _ = writeln!(text, "* and {} more", self.own.len() - at);
                break;
            }
            let _ = write!(text, "* `{reviewer}` {}", voted(vote));
            let _ = write!(text, "\n{}\n", tame::block(&vote.summary, REASONS));
        }
        for (reviewer, subject, vote) in self.gates.iter().take(100) {
            let _ = writeln!(
                text,
                "* `{reviewer}` {} of `{subject}`, which this builds on",
                voted(vote).trim_end()
            );
        }
        if self.own.is_empty() {
            text.push_str(match self.gates.is_empty() {
                true => "No node of the epic reviewed this.\n",
                false => "\nNo node of the epic reviewed what this adds to that.\n",
            });
        }
        let _ = write!(
            text,
            "\n### Facts\n\n* run `{}`, attempt {}\n* commit `{}`\n* cost {}\n",
            self.run,
            self.attempt,
            self.commit,
            cost(self.cost)
        );
        let digest = sha256_hex(&text);
        let _ = write!(text, "\n<!-- kew:{digest} -->\n");
        text
    }

    /// One line of kew's own words alone, where a forge takes no more.
    pub fn line(&self) -> String {
        let reviews = self.own.len() + self.gates.len();
        let on: String = self.stands_on.iter().map(|(branch, _)| format!("; stacked on {branch}")).collect();
        format!(
            "Node {} of the epic {}, by kew: run {}, commit {}, {}, cost {}{on}",
            self.node,
            self.epic,
            self.run,
            self.commit,
            crate::text::plural(reviews, "approval"),
            cost(self.cost)
        )
    }
}

fn voted(vote: &Ballot) -> String {
    let verb = if vote.approves { "approved" } else { "did not approve" };
    format!("{verb} {} ({})\n", vote.commit.short(), crate::text::plural(vote.findings, "finding"))
}

fn cost((usd, at_least): (Option<f64>, bool)) -> String {
    match usd.filter(|usd| usd.is_finite()) {
        None => "unknown".to_owned(),
        Some(usd) if at_least => format!("at least ${usd:.4}"),
        Some(0.0) => "$0".to_owned(),
        Some(usd) => format!("${usd:.4}"),
    }
}

/// Whether a description is one of kew's that nobody has changed since.
pub fn untouched(body: &str) -> bool {
    // Forges may turn the ends of lines into those of HTTP.
    let body = body.replace("\r\n", "\n");
    let Some((text, rest)) = body.trim_end().rsplit_once("\n<!-- kew:") else { return false };
    rest.strip_suffix(" -->").is_some_and(|digest| digest == sha256_hex(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn story() -> Story {
        let commit = CommitId::new("a".repeat(40)).unwrap();
        let vote = |text: &str| Ballot {
            approves: true,
            commit: commit.clone(),
            summary: text.to_owned(),
            findings: 2,
        };
        let id = |text: &str| NodeId::new(text).unwrap();
        Story {
            epic: EpicName::new("epic").unwrap(),
            node: id("docs"),
            run: RunId::new("20261201-093000-k3f9").unwrap(),
            attempt: 2,
            commit: commit.clone(),
            summary: Some("Wrote @team docs, fixes #1\n<!-- hidden".to_owned()),
            own: vec![(id("judge"), vote("fine, closes #2"))],
            gates: vec![(id("test"), id("parser"), vote(""))],
            cost: (Some(0.5), true),
            stands_on: vec![("kew/epic/parser".to_owned(), Some("https://forge/1".to_owned()))],
        }
    }

    #[test]
    fn a_description_tells_all_and_calls_nobody() {
        let body = story().body();
        for part in [
            "Stacked on `kew/epic/parser` (https://forge/1)",
            "* `judge` approved aaaaaaaaaa (2 findings)",
            "* `test` approved aaaaaaaaaa (2 findings) of `parser`, which this builds on",
            "run `20261201-093000-k3f9`, attempt 2",
            "cost at least $0.5000",
            "```text\nWrote @ team docs, fixes # 1\n<!-- hidden\n```",
        ] {
            assert!(body.contains(part), "{part}\n{body}");
        }
        assert_eq!(story().title(), "epic: docs: Wrote @ team docs, fixes # 1");
    }

    #[test]
    fn a_change_by_a_person_is_seen() {
        let body = story().body();
        assert!(untouched(&body) && untouched(&body.replace('\n', "\r\n")));
        assert!(!untouched(&body.replace("docs", "dogs")) && !untouched("mine") && !untouched(""));
    }

    #[test]
    fn a_long_story_fits() {
        let mut long = story();
        long.own =
            vec![(long.node.clone(), Ballot { summary: "x".repeat(9000), ..long.own[0].1.clone() }); 200];
        let body = long.body();
        assert!(body.chars().count() < 65_536 && body.contains("### Facts") && untouched(&body));
    }
}
