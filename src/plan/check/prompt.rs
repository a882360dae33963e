//! A node's prompt: written in the plan or in a file, exactly one of both, and not empty.

use std::collections::HashMap;

use camino::{Utf8Path, Utf8PathBuf};

use super::Checker;
use crate::{
    plan::{
        error::{Code, Problem},
        raw::{RawEntry, read::At},
        world::PromptFault,
    },
    text::list,
    units::show_size,
};

/// What the world said about prompt files, by path as written.
pub(super) type PromptFiles<'p> = HashMap<&'p str, Result<(String, Utf8PathBuf), PromptFault>>;

impl<'p> Checker<'p> {
    /// The text, and the file that it came from.
    pub(super) fn prompt(&mut self, entry: &'p RawEntry) -> Option<(String, Option<Utf8PathBuf>)> {
        let raw = &entry.node.value;
        match (&raw.prompt, &raw.prompt_file) {
            (Some(prompt), Some(file)) => {
                let message = format!("node `{}` has both `prompt` and `prompt_file`", entry.id);
                let problem =
                    Problem::new(Code::TwoPrompts, file.key, message).also(prompt.key, "the other prompt");
                self.findings.push(problem.help("keep one of them"));
                None
            }
            (Some(prompt), None) if prompt.value.trim().is_empty() => {
                let message = format!("the prompt of node `{}` is empty", entry.id);
                self.findings.push(Problem::new(Code::EmptyPrompt, prompt.span, message));
                None
            }
            (Some(prompt), None) => Some((prompt.value.clone(), None)),
            (None, Some(file)) => self.prompt_file(entry, file),
            (None, None) => {
                if !raw.unread.iter().any(|key| matches!(*key, "prompt" | "prompt_file")) {
                    let message = format!("node `{}` has no prompt", entry.id);
                    let problem = Problem::new(Code::MissingPrompt, entry.node.key, message);
                    self.findings.push(problem.help("add `prompt = \"…\"` or `prompt_file = \"…\"`"));
                }
                None
            }
        }
    }

    fn prompt_file(
        &mut self,
        entry: &RawEntry,
        file: &'p At<String>,
    ) -> Option<(String, Option<Utf8PathBuf>)> {
        let path = file.value.as_str();
        let world = self.asked.world;
        let answer = self.prompt_files.entry(path).or_insert_with(|| world.prompt_file(Utf8Path::new(path)));
        let problem = match answer {
            Ok((text, _)) if text.trim().is_empty() => Problem::new(
                Code::EmptyPrompt,
                file.span,
                format!("prompt file `{path}` of node `{}` is empty", entry.id),
            ),
            Ok((text, path)) => return Some((text.clone(), Some(path.clone()))),
            Err(fault) => explain(fault, path, &entry.id, file),
        };
        self.findings.push(problem);
        None
    }
}

fn explain(fault: &PromptFault, path: &str, node: &str, file: &At<String>) -> Problem {
    let (code, what, help) = match fault {
        PromptFault::Missing { looked } => {
            let help = match looked.as_slice() {
                [] => None,
                looked => Some(format!("looked for {}", list(looked, "and"))),
            };
            (Code::PromptFileMissing, "does not exist".to_string(), help)
        }
        PromptFault::OutsideRepository => {
            let help = "a prompt is part of the run's record, so it must be in the repository";
            (Code::PromptFileOutside, "is outside of the repository".to_string(), Some(help.to_string()))
        }
        PromptFault::Link => {
            let help = "links are not followed, since they could lead anywhere; name the file itself";
            (Code::PromptFileOutside, "is behind a symbolic link".to_string(), Some(help.to_string()))
        }
        PromptFault::NotAFile => (Code::PromptFileUnreadable, "is not a file".to_string(), None),
        PromptFault::NotText => (Code::PromptFileUnreadable, "is not UTF-8 text".to_string(), None),
        PromptFault::TooLarge { limit } => {
            let what = format!("is larger than {}", show_size(*limit));
            (Code::PromptFileUnreadable, what, None)
        }
        PromptFault::Unreadable { reason } => {
            (Code::PromptFileUnreadable, format!("cannot be read: {reason}"), None)
        }
    };
    Problem::new(code, file.span, format!("prompt file `{path}` of node `{node}` {what}")).maybe_help(help)
}
