//! Budgets and the time of the whole run: numbers in their range, caps that can be met, and no node that could spend past
//! the run's budget without being heard.

use super::{Checker, Setting, setting};
use crate::plan::{
    error::{Code, Problem},
    raw::{
        RawEntry, RawEpic,
        read::{At, Int, Num},
    },
    spec::Caps,
    world::Metering,
};

impl<'p> Checker<'p> {
    pub(super) fn epic_caps(&mut self, epic: &RawEpic) -> Caps {
        Caps {
            usd: self.dollars(epic.max_cost_usd.as_ref(), "epic.max_cost_usd"),
            tokens: self.tokens(epic.max_tokens.as_ref(), "epic.max_tokens"),
        }
    }

    pub(super) fn default_caps(&mut self) -> Caps {
        Caps {
            usd: self.dollars(self.defaults.max_cost_usd.as_ref(), "max_cost_usd"),
            tokens: self.tokens(self.defaults.max_tokens.as_ref(), "max_tokens"),
        }
    }

    pub(super) fn caps(&mut self, entry: &'p RawEntry, metering: Option<Metering>) -> Caps {
        let (raw, defaults) = (&entry.node.value, self.defaults);
        self.dollars(raw.max_cost_usd.as_ref(), "max_cost_usd");
        self.tokens(raw.max_tokens.as_ref(), "max_tokens");
        let usd = setting(&raw.max_cost_usd, &defaults.max_cost_usd);
        let tokens = setting(&raw.max_tokens, &defaults.max_tokens);
        let caps = Caps {
            usd: usd.as_ref().and_then(|usd| dollars(usd.at)),
            tokens: tokens.as_ref().and_then(|tokens| count(tokens.at)),
        };
        self.fits(entry, usd.as_ref(), caps.usd);
        let epic = self.raw.epic.as_ref().map(|epic| &epic.value);
        let Some(run_wide) = epic.and_then(|epic| epic.max_cost_usd.as_ref()) else { return caps };
        let unread = |key| raw.unread.contains(&key) || defaults.unread.contains(&key);
        let unmetered = epic.and_then(|epic| epic.allow_unmetered.as_ref()).is_some_and(|at| at.value);
        match metering {
            Some(Metering::AtEnd) if usd.is_none() && !unread("max_cost_usd") => {
                self.findings.share(&entry.id, &run_wide.span.start.to_string(), "", || {
                    let message = "under `epic.max_cost_usd` a cap of its own is missing on";
                    Problem::new(Code::CapMissing, run_wide.span, message)
                        .note("its runner tells its cost only at the end, so this cap is reserved before it starts")
                        .help("set `max_cost_usd` in the node or in `[defaults]`")
                });
            }
            Some(Metering::Unknown) if !unmetered => {
                self.findings.share(&entry.id, &run_wide.key.start.to_string(), "", || {
                    let message = "`epic.max_cost_usd` cannot hold, since nobody knows the cost of";
                    Problem::new(Code::Unmetered, run_wide.span, message)
                        .help("add `allow_unmetered = true` to `[epic]` if what it costs need not count")
                });
            }
            _ => {}
        }
        caps
    }

    /// A node whose cap is above the run's could never start, as its cap is reserved.
    fn fits(&mut self, entry: &RawEntry, own: Option<&Setting<'p, Num>>, usd: Option<f64>) {
        let epic = self.raw.epic.as_ref().and_then(|epic| epic.value.max_cost_usd.as_ref());
        let (Some(own), Some(usd), Some(run)) = (own, usd, epic.and_then(dollars)) else { return };
        if usd > run {
            self.findings.share(&entry.id, &own.at.span.start.to_string(), "", || {
                let message = format!("`max_cost_usd = {usd}` is more than the epic's {run}, on");
                Problem::new(Code::CapTooLarge, own.at.span, message)
                    .help("a node's cap is reserved before it starts, so such a node never could")
            });
        }
    }

    fn dollars(&mut self, number: Option<&At<Num>>, key: &str) -> Option<f64> {
        let number = number?;
        if dollars(number).is_none() {
            let message = format!("`{key}` is {}, not more than zero", number.value.0);
            self.findings.push(Problem::new(Code::BadNumber, number.span, message));
        }
        dollars(number)
    }

    fn tokens(&mut self, number: Option<&At<Int>>, key: &str) -> Option<u64> {
        let number = number?;
        if count(number).is_none() {
            let message = format!("`{key}` is {}, not at least 1", number.value.0);
            self.findings.push(Problem::new(Code::BadNumber, number.span, message));
        }
        count(number)
    }
}

fn dollars(number: &At<Num>) -> Option<f64> {
    Some(number.value.0).filter(|usd| *usd > 0.0)
}

fn count(number: &At<Int>) -> Option<u64> {
    u64::try_from(number.value.0).ok().filter(|tokens| *tokens > 0)
}
