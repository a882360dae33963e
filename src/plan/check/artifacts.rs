//! `artifacts`: each pattern checked at its own place; a bad default is told once, at its own line.

use super::Checker;
use crate::plan::{
    error::{Code, Problem},
    pattern::Pattern,
    raw::{
        RawNode,
        read::{At, List},
    },
};

/// How many patterns one node may have.
const MOST: usize = 50;

impl Checker<'_> {
    /// The node's patterns, else the defaults'.
    pub(super) fn artifacts(&mut self, raw: &RawNode) -> Vec<Pattern> {
        match &raw.artifacts {
            Some(own) => self.patterns(Some(own)),
            None => {
                let texts = self.defaults.artifacts.iter().flat_map(|list| &list.value.0);
                texts.filter_map(|(text, _)| Pattern::new(text.as_str()).ok()).collect()
            }
        }
    }

    pub(super) fn patterns(&mut self, list: Option<&At<List>>) -> Vec<Pattern> {
        let Some(list) = list else { return Vec::new() };
        if list.value.0.len() > MOST {
            let message =
                format!("`artifacts` has {} patterns, at most {MOST} are taken", list.value.0.len());
            self.findings.push(
                Problem::new(Code::BadPattern, list.span, message).help("one pattern can match many files"),
            );
        }
        let mut patterns: Vec<Pattern> = Vec::new();
        for (text, span) in &list.value.0 {
            match Pattern::new(text.as_str()) {
                // A second time it asks for nothing more.
                Ok(pattern) if patterns.contains(&pattern) => {}
                Ok(pattern) => patterns.push(pattern),
                Err(bad) => {
                    let message = format!("pattern `{}` of `artifacts` {}", text.escape_debug(), bad.fault);
                    self.findings.push(Problem::new(Code::BadPattern, *span, message).help(bad.help));
                }
            }
        }
        patterns
    }
}
