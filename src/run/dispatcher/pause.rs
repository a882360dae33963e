//! Rate limits: with a credential whose limit is used up nothing starts until it may be used again; the others go on.
//!
//! Invariant: a rate limit spends no try, and a run that may not wait so long ends instead, with nothing failed.

use std::time::Duration;

use super::{Action, Dispatcher, Now, Stopping};
use crate::{event::RunEvent, outcome::Kind, plan::spec::NodeIx, run::node::Report, units::show_duration};

/// The first pause where the provider does not say when its limit is reset; each further one is twice as long.
const UNSAID: Duration = Duration::from_secs(60);
/// The longest of these.
const UNSAID_MAX: Duration = Duration::from_secs(15 * 60);
/// How often in a row a provider may refuse without saying until when.
const PATIENCE: u32 = 12;

/// What is known of one credential.
#[derive(Debug, Default)]
pub(super) struct Purse {
    /// The name of its variable, or its runner's where it has none.
    name: String,
    /// Until when nothing starts with it.
    until: Option<Duration>,
    /// Refusals in a row, without a word on the time.
    refusals: u32,
}

impl Purse {
    /// Nothing starts with it.
    pub(super) fn paused(&self) -> bool {
        self.until.is_some()
    }
}

/// The purses of all nodes, by name.
pub(super) fn purses(names: &[String]) -> (Vec<Purse>, Vec<usize>) {
    let mut purses: Vec<Purse> = Vec::new();
    let of = |name: &String| {
        purses.iter().position(|purse| purse.name == *name).unwrap_or_else(|| {
            purses.push(Purse { name: name.clone(), ..Purse::default() });
            purses.len() - 1
        })
    };
    let paid_by = names.iter().map(of).collect();
    (purses, paid_by)
}

impl Dispatcher<'_> {
    /// When each pause ends.
    pub(super) fn pauses(&self) -> impl Iterator<Item = Duration> + '_ {
        self.purses.iter().filter_map(|purse| purse.until)
    }

    /// Ends the pauses whose time has come.
    pub(super) fn end_pauses(&mut self, now: Now) {
        for purse in &mut self.purses {
            purse.until = purse.until.filter(|until| *until > now.since);
        }
    }

    /// Takes in what an end says of its credential's limit. `true` = the node waits for the limit's reset.
    pub(super) fn rate_limited(
        &mut self,
        node: NodeIx,
        report: &Report,
        now: Now,
        tell: &mut Vec<Action>,
    ) -> bool {
        let purse = &mut self.purses[self.paid_by[node]];
        if report.outcome.kind != Kind::RateLimited {
            if report.outcome.kind == Kind::Passed {
                purse.refusals = 0;
            }
            return false;
        }
        if self.stopping != Stopping::No || self.live[node].stopping {
            return false;
        }
        let reset = report.account.rate_limited.flatten();
        let wait = match reset {
            // A little later than said: clocks differ.
            Some(reset) => {
                let left = reset.saturating_mul(1000).saturating_sub(now.unix_ms).max(0).unsigned_abs();
                Duration::from_millis(left) + self.backoff / 5
            }
            None => {
                purse.refusals += 1;
                UNSAID.saturating_mul(1 << (purse.refusals - 1).min(8)).min(UNSAID_MAX)
            }
        };
        let until = (now.since + wait).max(purse.until.unwrap_or_default());
        purse.until = Some(until);
        self.live[node].tries = self.live[node].tries.saturating_sub(1);
        let wait = until - now.since;
        let (name, tired) = (purse.name.clone(), purse.refusals > PATIENCE);
        tell.push(Action::Tell(RunEvent::Paused {
            credential: name.clone(),
            until: now.unix_ms.saturating_add(i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)),
            given: reset.is_some(),
            reason: report.outcome.reason.clone(),
        }));
        if self.max_wait.is_some_and(|most| wait > most) {
            let most = self.max_wait.map(show_duration).unwrap_or_default();
            self.cap(format!(
                "the rate limit of `{name}` lasts {} more, and the run may wait {most}",
                show_duration(wait)
            ));
        } else if tired {
            self.cap(format!(
                "the provider refused `{name}` {PATIENCE} times in a row and did not say until when"
            ));
        }
        true
    }

    /// Nothing more starts, since something of the whole run is used up; what runs goes on.
    pub(super) fn cap(&mut self, why: String) {
        if self.stopping == Stopping::No {
            self.stopping = Stopping::Capped;
            self.capped = Some(why);
            self.sched.stop();
        }
    }
}
