//! Rework: when reviewers ask for changes, what their subject's next round is, or why there is none.
//!
//! Pure; it knows no node's state. A round is one pass of a subject and all of its reviewers. Invariant: a subject never
//! has more rounds than its plan grants, and never one that the findings of the last one show to be idle.

use std::collections::BTreeSet;

use crate::{name::NodeId, text, verdict::Opinion};

/// A reviewer that asks for changes, and what it says (agent text).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The reviewer.
    pub reviewer: NodeId,
    /// Its summary and findings.
    pub opinion: Opinion,
}

/// The rounds of one subject so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rounds {
    number: u32,
    before: Option<Said>,
}

/// What was said in a round, without order, white space and letter case.
type Said = BTreeSet<(NodeId, Option<String>, String)>;

impl Default for Rounds {
    fn default() -> Self {
        Self { number: 1, before: None }
    }
}

impl Rounds {
    /// The rounds of a subject that is in round `number`, of which the one before ended with `asked`.
    pub fn resumed(number: u32, asked: &[Asked]) -> Self {
        Self { number, before: (number > 1).then(|| said(asked)) }
    }

    /// The round that is under way, from 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Closes a round in which `asked` (plan order, not empty) asks for changes, with `rework` more rounds granted by the
    /// plan in all. `Ok` = the next round begins; else why a person must decide.
    pub fn next(&mut self, rework: u32, asked: &[Asked]) -> Result<u32, String> {
        let said = said(asked);
        if self.number > rework {
            let end = if rework == 0 {
                String::new()
            } else {
                format!("; {} of rework did not help", text::plural(rework as usize, "round"))
            };
            return Err(format!("{}{end}", wishes(asked)));
        }
        if self.before.as_ref() == Some(&said) {
            return Err(format!(
                "{}; round {} changed nothing about that, it is what was found before",
                wishes(asked),
                self.number
            ));
        }
        self.before = Some(said);
        self.number += 1;
        Ok(self.number)
    }
}

/// "`r` asks for changes: its summary", for each.
pub fn wishes(asked: &[Asked]) -> String {
    let one = |asked: &Asked| format!("`{}` asks for changes: {}", asked.reviewer, asked.opinion.summary);
    asked.iter().map(one).collect::<Vec<_>>().join("; ")
}

fn said(asked: &[Asked]) -> Said {
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    let of = |asked: &Asked| -> Vec<(NodeId, Option<String>, String)> {
        let findings = &asked.opinion.findings;
        if findings.is_empty() {
            return vec![(asked.reviewer.clone(), None, plain(&asked.opinion.summary))];
        }
        // Lines move when a file changes; what is wrong with it does not.
        let one = |f: &crate::verdict::Finding| (asked.reviewer.clone(), f.path.clone(), plain(&f.message));
        findings.iter().map(one).collect()
    };
    asked.iter().flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Finding, Severity};

    fn asked(reviewer: &str, messages: &[&str]) -> Asked {
        let finding = |message: &&str| Finding {
            severity: Severity::Major,
            message: (*message).to_owned(),
            path: Some("a.rs".into()),
            line: None,
        };
        Asked {
            reviewer: NodeId::new(reviewer).unwrap(),
            opinion: Opinion {
                summary: "no".into(),
                findings: messages.iter().map(finding).collect(),
                pick: None,
            },
        }
    }

    #[test]
    fn there_are_as_many_rounds_as_the_plan_grants() {
        let mut rounds = Rounds::default();
        assert_eq!(rounds.next(2, &[asked("r", &["one"])]), Ok(2));
        assert_eq!(rounds.next(2, &[asked("r", &["two"])]), Ok(3));
        let held = rounds.next(2, &[asked("r", &["three"])]).unwrap_err();
        assert_eq!(held, "`r` asks for changes: no; 2 rounds of rework did not help");
        assert_eq!(rounds.number(), 3);
        let none = Rounds::default().next(0, &[asked("r", &["x"]), asked("q", &[])]).unwrap_err();
        assert_eq!(none, "`r` asks for changes: no; `q` asks for changes: no");
    }

    #[test]
    fn findings_that_repeat_end_it_early() {
        let mut rounds = Rounds::default();
        rounds.next(9, &[asked("r", &["The  name is wrong", "b"])]).unwrap();
        let held = rounds.next(9, &[asked("r", &["b", "the name\nis wrong"])]).unwrap_err();
        assert!(held.contains("what was found before"), "{held}");
        let mut rounds = Rounds::default();
        rounds.next(9, &[asked("r", &["a", "b"])]).unwrap();
        assert_eq!(rounds.next(9, &[asked("r", &["b"])]), Ok(3), "one of two was mended");
        assert_eq!(rounds.next(9, &[asked("q", &["b"])]), Ok(4), "another reviewer, another finding");
    }
}
