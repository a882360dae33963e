//! Values that need no other node and no world: names, numbers, texts, times, and the words of reviewers.

use std::time::Duration;

use super::{Checker, is_reviewer, links::Links, setting};
use crate::{
    name::EpicName,
    plan::{
        error::{Code, Problem},
        raw::{
            RawEntry, RawEpic, RawNode,
            read::{At, Int},
        },
        spec::{Commits, NodeIx, VerdictBy},
    },
    units::parse_duration,
};

const MAX_PARALLEL: i64 = 1024;
/// How often something is done again at most.
const MAX_AGAIN: i64 = 10;

fn in_bounds(number: &At<Int>) -> Option<u32> {
    u32::try_from(number.value.0).ok().filter(|number| i64::from(*number) <= MAX_AGAIN)
}

impl Checker<'_> {
    pub(super) fn epic_name(&mut self, epic: &At<RawEpic>) -> Option<EpicName> {
        let Some(name) = &epic.value.name else {
            if !epic.value.unread.contains(&"name") {
                let problem = Problem::new(Code::MissingKey, epic.key, "the epic has no `name`");
                self.findings
                    .push(problem.help("add `name = \"…\"`: a-z, 0-9 and -, it is part of branch names"));
            }
            return None;
        };
        match EpicName::new(name.value.as_str()) {
            Ok(name) => Some(name),
            Err(bad) => {
                let problem =
                    Problem::new(Code::BadEpicName, name.span, format!("epic name `{}` {bad}", name.value));
                self.findings.push(problem.help("it is part of branch names, as in `parser-rewrite`"));
                None
            }
        }
    }

    pub(super) fn max_parallel(&mut self, number: Option<&At<Int>>) -> Option<usize> {
        let number = number?;
        if (1..=MAX_PARALLEL).contains(&number.value.0) {
            return usize::try_from(number.value.0).ok();
        }
        let message = format!("`epic.max_parallel` is {}, not between 1 and {MAX_PARALLEL}", number.value.0);
        self.findings.push(Problem::new(Code::BadNumber, number.span, message));
        None
    }

    /// A text that becomes one argument of a command: not empty, no dash in front, no control character.
    pub(super) fn clean_text(&mut self, text: Option<&At<String>>, key: &str) -> Option<String> {
        let text = text?;
        let value = text.value.as_str();
        let fault = if value.trim().is_empty() {
            "is empty"
        } else if value.starts_with('-') {
            "begins with `-`"
        } else if value.contains(char::is_control) {
            "has a control character"
        } else if value.trim() != value {
            "has white space around it"
        } else {
            return Some(value.to_string());
        };
        self.findings.push(Problem::new(Code::BadText, text.span, format!("`{key}` {fault}")));
        None
    }

    /// What is wrong with a default is told even if no node takes it.
    pub(super) fn check_defaults(&mut self) {
        self.time(self.defaults.timeout.as_ref(), "timeout");
        self.patterns(self.defaults.artifacts.as_ref());
        self.default_caps();
        self.few(self.defaults.retries.as_ref(), "retries");
        self.few(self.defaults.rework.as_ref(), "rework");
        self.clean_text(self.defaults.model.as_ref(), "model");
        self.clean_text(self.defaults.toolchain.as_ref(), "toolchain");
    }

    pub(super) fn timeout(&mut self, raw: &RawNode) -> Option<Duration> {
        match &raw.timeout {
            Some(own) => self.time(Some(own), "timeout"),
            None => self.defaults.timeout.as_ref().and_then(|at| parse_duration(&at.value).ok()),
        }
    }

    pub(super) fn retries(&mut self, raw: &RawNode) -> u32 {
        let own = self.few(raw.retries.as_ref(), "retries");
        own.or(self.defaults.retries.as_ref().and_then(in_bounds)).unwrap_or_default()
    }

    /// A default is for the nodes that have reviewers; on a node of its own without any it is a mistake.
    pub(super) fn rework(&mut self, ix: NodeIx, entry: &RawEntry, links: &Links) -> u32 {
        let raw = &entry.node.value;
        let reviewed = links.reviewed[ix];
        if let Some(own) = raw.rework.as_ref().filter(|own| own.value.0 > 0 && !reviewed)
            // What could not be read may be the review of this node.
            && !self.entries.iter().any(|entry| entry.node.value.unread.contains(&"reviews"))
        {
            let message = format!("`rework` on node `{}`, which nobody reviews", entry.id);
            let problem = Problem::new(Code::ReworkWithoutReviewer, own.key, message);
            self.findings.push(problem.help("add a node with `reviews` of it, or remove `rework`"));
        }
        let own = self.few(raw.rework.as_ref(), "rework");
        let rework = own.or(self.defaults.rework.as_ref().and_then(in_bounds)).unwrap_or_default();
        if reviewed { rework } else { 0 }
    }

    fn few(&mut self, number: Option<&At<Int>>, key: &str) -> Option<u32> {
        let number = number?;
        if let Some(few) = in_bounds(number) {
            return Some(few);
        }
        let message = format!("`{key}` is {}, not between 0 and {MAX_AGAIN}", number.value.0);
        self.findings.push(Problem::new(Code::BadNumber, number.span, message));
        None
    }

    pub(super) fn time(&mut self, text: Option<&At<String>>, key: &str) -> Option<Duration> {
        let text = text?;
        let message = match parse_duration(&text.value) {
            Ok(time) if time.is_zero() => {
                format!("`{key}` is zero: leave it out for no limit")
            }
            Ok(time) => return Some(time),
            Err(bad) => format!("`{key}` cannot be read: `{}` {bad}", text.value),
        };
        self.findings.push(Problem::new(Code::BadDuration, text.span, message));
        None
    }

    /// `agent`: the runner's kind, if that is known.
    pub(super) fn verdict(&mut self, entry: &RawEntry, agent: Option<bool>) -> VerdictBy {
        let raw = &entry.node.value;
        if !is_reviewer(raw) {
            if let Some(verdict) = &raw.verdict {
                let message = format!("`verdict` on node `{}`, which reviews nothing", entry.id);
                let problem = Problem::new(Code::VerdictWithoutReviews, verdict.key, message);
                self.findings.push(problem.help("add `reviews = \"<node>\"`, or remove it"));
            }
            return VerdictBy::default();
        }
        let Some(verdict) = setting(&raw.verdict, &self.defaults.verdict) else {
            return VerdictBy::default();
        };
        if verdict.at.value.0 == VerdictBy::Exit && agent == Some(true) {
            let at = verdict.at;
            self.findings.share(&entry.id, &at.span.start.to_string(), ", which runs an agent", || {
                let message = "the exit status cannot be the verdict of";
                Problem::new(Code::ExitVerdictOnAgent, at.span, message)
                    .help("only a plain job's exit status says something: use `runner = \"shell\"`, or drop `verdict`")
            });
        }
        verdict.at.value.0
    }

    /// `None` only if the runner's kind would decide and is not known.
    pub(super) fn commits(&mut self, raw: &RawNode, reviewer: bool, agent: Option<bool>) -> Option<Commits> {
        if reviewer {
            if let Some(commits) =
                raw.commits.as_ref().filter(|commits| commits.value.0 != Commits::Forbidden)
            {
                let message = "a reviewer's commits are always dropped";
                let problem = Problem::new(Code::ReviewerCommits, commits.span, message);
                self.findings
                    .push(problem.help("remove `commits`; a node that is to commit cannot be a reviewer"));
            }
            return Some(Commits::Forbidden);
        }
        if let Some(commits) = setting(&raw.commits, &self.defaults.commits) {
            return Some(commits.at.value.0);
        }
        agent.map(|agent| if agent { Commits::Required } else { Commits::Optional })
    }
}
