//! `allow`: the hosts that a node narrows its network to.
//!
//! A node never adds a host: one that the settings and its runner do not allow already is a problem of the plan.

use super::{Checker, setting};
use crate::{
    egress::{self, Host},
    plan::{
        error::{Code, Problem},
        raw::RawEntry,
    },
};

impl<'p> Checker<'p> {
    /// `None` = the node takes what the settings allow. `runner`: a known one.
    pub(super) fn allow(&mut self, entry: &'p RawEntry, runner: Option<&str>) -> Option<Vec<Host>> {
        let list = setting(&entry.node.value.allow, &self.defaults.allow)?;
        let allowed = runner.and_then(|runner| self.asked.world.allowed(runner));
        let mut hosts = Vec::new();
        for (word, span) in &list.at.value.0 {
            let found = match egress::hosts_of(word) {
                Ok(found) => found,
                Err(why) => {
                    self.findings.share(&entry.id, &span.start.to_string(), "", || {
                        Problem::new(
                            Code::BadHost,
                            *span,
                            format!("`{}` {why}, in `allow` of", word.escape_default()),
                        )
                    });
                    continue;
                }
            };
            let over = |host: &&Host| allowed.as_ref().is_some_and(|allowed| !allowed.contains(*host));
            let over: Vec<&Host> = found.iter().filter(over).collect();
            if !over.is_empty() {
                let over = egress::shown(over);
                self.findings.share(&entry.id, &span.start.to_string(), "", || {
                    Problem::new(
                        Code::HostNotAllowed,
                        *span,
                        format!("the settings do not allow {over}, in `allow` of"),
                    )
                    .note("a node may only narrow what the settings allow")
                    .help(format!("add \"{word}\" to `sandbox.allow` in the settings, or take it out here"))
                });
            }
            hosts.extend(found);
        }
        Some(hosts)
    }
}
