//! `[publish]`: where published branches go, what they are called, and how their pull requests are opened.
//!
//! Whether a node is published is for its plan. A repository's file may set all of this but `remote`.

use serde::{Deserialize, Serialize};

use super::SettingsError;
use crate::publish::branch::{self, Template};

/// Which forge opens the pull requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ForgeName {
    /// GitHub and GitHub Enterprise, by the `gh` program.
    Github,
    /// GitLab, by push options.
    Gitlab,
}

/// `[publish]`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Publish {
    /// A remote of the repository by its name, or an address. Default: the remote of the base's upstream branch, else
    /// `origin`. Not from a repository's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// Leaves publishing to `kew publish`: runs publish nothing, whatever their plans say. `--no-publish` sets it for one run,
    /// and that run keeps it when it goes on.
    pub later: bool,
    /// What branches are called, with `{epic}`, `{node}` and `{run}`; default `kew/{epic}/{node}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The branch that pull requests are meant for; default: the branch that the epic is based on, else the remote's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// Open pull requests as drafts.
    pub draft: bool,
    /// Labels of new pull requests.
    pub labels: Vec<String>,
    /// Whom new pull requests ask for a review: users, or teams as `organisation/team`.
    pub reviewers: Vec<String>,
    /// Who opens pull requests: `github` (the `gh` program) or `gitlab` (push options). Default: by the remote's host, which
    /// is taken for GitLab if it has `gitlab` in its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forge: Option<ForgeName>,
}

impl Publish {
    /// The names of branches.
    pub fn template(&self) -> Template {
        let set = self.branch.as_deref().and_then(|text| Template::new(text).ok());
        set.unwrap_or_default()
    }

    pub(super) fn check(&self) -> Result<(), SettingsError> {
        if let Some(text) = &self.branch
            && let Err(wrong) = Template::new(text)
        {
            let message = format!("`publish.branch` = `{}` {wrong}", text.escape_default());
            return Err(SettingsError::new(message, format!("the default is `{}`", branch::DEFAULT)));
        }
        if let Some(base) = self.base.as_ref().filter(|base| !branch::good(base)) {
            let message = format!("`publish.base` = `{}` is no name of a branch", base.escape_default());
            return Err(SettingsError::new(message, "write it without `refs/heads/`, as in `main`"));
        }
        if let Some(remote) = self.remote.as_ref().filter(|remote| !plain(remote)) {
            // It may hold a credential, so it is not repeated.
            let message = "`publish.remote` is neither the name of a remote nor an address";
            let at = if remote.starts_with('-') { "it begins with `-`" } else { "write it as git takes it" };
            return Err(SettingsError::new(message, at));
        }
        // It would be kept with the run.
        let secret =
            self.remote.as_deref().and_then(|remote| remote.strip_prefix("http")).is_some_and(|rest| {
                let host = rest
                    .trim_start_matches("s://")
                    .trim_start_matches("://")
                    .split('/')
                    .next()
                    .unwrap_or_default();
                host.rsplit_once('@').is_some_and(|(user, _)| user.contains(':') || user.len() >= 20)
            });
        if secret {
            let message = "`publish.remote` holds a credential";
            return Err(SettingsError::new(
                message,
                "give it to git by a credential helper, and write the address without it",
            ));
        }
        let words = self.labels.iter().chain(&self.reviewers);
        if let Some(word) = words.into_iter().find(|word| !plain(word) || word.len() > 100) {
            return Err(SettingsError::new(
                format!("`publish`: `{}` is no label or reviewer", word.escape_default()),
                "a label or a reviewer is one line and does not begin with `-` or `@`",
            ));
        }
        Ok(())
    }
}

/// One line that no program takes for an option.
fn plain(text: &str) -> bool {
    !text.trim().is_empty() && !text.starts_with(['-', '@']) && !text.contains(char::is_control)
}
