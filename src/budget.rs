//! Budgets: what a run and its nodes have spent, what running nodes may still spend, and whether another may start.
//!
//! Pure. US dollars and tokens (all that the provider counts, cached ones too). What nobody reports is not here, so a sum
//! is "at least". Invariant: nodes that run have their own caps reserved, so that starting one more never exceeds the
//! run's cap by design, only by what an agent spends before it is heard.

use std::collections::BTreeMap;

use crate::plan::spec::{Caps, NodeIx};

/// An amount.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Spent {
    /// US dollars.
    pub usd: f64,
    /// Tokens.
    pub tokens: u64,
}

/// Whether a node may start.
#[derive(Debug, Clone, PartialEq)]
pub enum Room {
    /// It may.
    Yes,
    /// Not while the others run, who may spend it.
    Later,
    /// Never: why.
    Never(String),
}

/// Something that spent more than it may.
#[derive(Debug, Clone, PartialEq)]
pub enum Over {
    /// A node its own budget.
    Node(String),
    /// All nodes together that of the run.
    Run(String),
}

/// The budgets of a run.
#[derive(Debug)]
pub struct Budget {
    run: Caps,
    nodes: Vec<Caps>,
    /// By ended attempts, for all and for each node.
    ended: Spent,
    by_node: BTreeMap<NodeIx, Spent>,
    /// By attempts under way.
    live: BTreeMap<NodeIx, Spent>,
    warned: bool,
}

/// From this part of the run's cap on people are warned.
const NEAR: f64 = 0.8;

impl Budget {
    /// Nothing is spent yet.
    pub fn new(run: Caps, nodes: Vec<Caps>) -> Self {
        Self {
            run,
            nodes,
            ended: Spent::default(),
            by_node: BTreeMap::new(),
            live: BTreeMap::new(),
            warned: false,
        }
    }

    /// Whether a node may start now.
    pub fn room(&self, node: NodeIx) -> Room {
        let (caps, before) = (self.nodes[node], self.before(node));
        if let Some(over) = over(caps, before, true) {
            return Room::Never(format!("its own budget is used up: {over}"));
        }
        for unit in [Unit::Usd, Unit::Tokens] {
            let Some(cap) = unit.cap(self.run) else { continue };
            let reserved: f64 = self.live.iter().map(|(node, live)| self.may_spend(*node, *live, unit)).sum();
            let committed = unit.of(self.ended) + reserved;
            let need = unit.cap(caps).map_or(0.0, |own| own - unit.of(before));
            let fits = if need > 0.0 { committed + need <= cap * (1.0 + 1e-9) } else { committed < cap };
            if fits {
                continue;
            }
            if !self.live.is_empty() {
                return Room::Later;
            }
            let left = unit.show((cap - committed).max(0.0));
            let need = if need > 0.0 { format!("; it reserves {}", unit.show(need)) } else { String::new() };
            return Room::Never(format!("the run's budget of {} has {left} left{need}", unit.show(cap)));
        }
        Room::Yes
    }

    /// A node's attempt begins.
    pub fn begin(&mut self, node: NodeIx) {
        self.live.insert(node, Spent::default());
    }

    /// What a running attempt has spent so far.
    pub fn progress(&mut self, node: NodeIx, spent: Spent) -> Option<Over> {
        let live = self.live.get_mut(&node)?;
        // Reports may come late: what was spent stays spent.
        *live = Spent { usd: live.usd.max(spent.usd), tokens: live.tokens.max(spent.tokens) };
        let own = sum(self.before(node), self.live[&node]);
        if let Some(over) = over(self.nodes[node], own, false) {
            return Some(Over::Node(format!("it spent {over}")));
        }
        over(self.run, self.total(), false).map(|over| Over::Run(format!("the run spent {over}")))
    }

    /// An attempt is over.
    pub fn end(&mut self, node: NodeIx, spent: Spent) -> Option<Over> {
        let live = self.live.remove(&node).unwrap_or_default();
        let spent = Spent { usd: live.usd.max(spent.usd), tokens: live.tokens.max(spent.tokens) };
        self.ended = sum(self.ended, spent);
        let own = self.by_node.entry(node).or_default();
        *own = sum(*own, spent);
        over(self.run, self.total(), false).map(|over| Over::Run(format!("the run spent {over}")))
    }

    /// Once, when the run comes near its cap: what to say.
    pub fn warning(&mut self) -> Option<String> {
        let total = self.total();
        let near = |unit: &Unit| unit.cap(self.run).is_some_and(|cap| unit.of(total) >= cap * NEAR);
        let unit = [Unit::Usd, Unit::Tokens].into_iter().find(near).filter(|_| !self.warned)?;
        self.warned = true;
        let cap = unit.show(unit.cap(self.run)?);
        Some(format!("the run has spent {} of its budget of {cap}", unit.show(unit.of(total))))
    }

    /// What a running node spends at most, as far as that is known.
    fn may_spend(&self, node: NodeIx, live: Spent, unit: Unit) -> f64 {
        let own = unit.cap(self.nodes[node]).map_or(0.0, |own| own - unit.of(self.before(node)));
        own.max(unit.of(live))
    }

    fn before(&self, node: NodeIx) -> Spent {
        self.by_node.get(&node).copied().unwrap_or_default()
    }

    fn total(&self) -> Spent {
        self.live.values().fold(self.ended, |total, live| sum(total, *live))
    }
}

fn sum(one: Spent, two: Spent) -> Spent {
    Spent { usd: one.usd + two.usd, tokens: one.tokens.saturating_add(two.tokens) }
}

/// "$1.20 of $1.00"; `full` = reaching the cap is over it.
fn over(caps: Caps, spent: Spent, full: bool) -> Option<String> {
    [Unit::Usd, Unit::Tokens].into_iter().find_map(|unit| {
        let (cap, spent) = (unit.cap(caps)?, unit.of(spent));
        let is_over = if full { spent >= cap } else { spent > cap };
        is_over.then(|| format!("{} of {}", unit.show(spent), unit.show(cap)))
    })
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Usd,
    Tokens,
}

impl Unit {
    fn cap(self, caps: Caps) -> Option<f64> {
        match self {
            Self::Usd => caps.usd,
            // Exact up to 2^53 tokens.
            Self::Tokens => caps.tokens.map(|tokens| tokens as f64),
        }
    }

    fn of(self, spent: Spent) -> f64 {
        match self {
            Self::Usd => spent.usd,
            Self::Tokens => spent.tokens as f64,
        }
    }

    fn show(self, amount: f64) -> String {
        match self {
            Self::Usd => format!("${amount:.2}"),
            Self::Tokens => format!("{amount:.0} tokens"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(usd: f64) -> Caps {
        Caps { usd: Some(usd), tokens: None }
    }

    fn spent(usd: f64) -> Spent {
        Spent { usd, tokens: 0 }
    }

    #[test]
    fn what_runs_has_its_own_cap_reserved() {
        let mut budget = Budget::new(usd(5.0), vec![usd(2.0); 4]);
        assert_eq!(budget.room(0), Room::Yes);
        budget.begin(0);
        budget.begin(1);
        assert_eq!(budget.room(2), Room::Later, "2 + 2 + 2 is more than 5");
        assert_eq!(budget.end(0, spent(0.5)), None);
        assert_eq!(budget.room(2), Room::Yes, "0.5 + 2 + 2");
        budget.begin(2);
        assert_eq!(budget.progress(2, spent(2.1)), Some(Over::Node("it spent $2.10 of $2.00".into())));
        budget.end(1, spent(1.9));
        budget.end(2, spent(2.1));
        let never = Room::Never("the run's budget of $5.00 has $0.50 left; it reserves $2.00".into());
        assert_eq!(budget.room(3), never);
        assert_eq!(budget.room(2), Room::Never("its own budget is used up: $2.10 of $2.00".into()));
    }

    #[test]
    fn without_a_cap_of_its_own_a_node_may_start_while_anything_is_left() {
        let mut budget = Budget::new(usd(1.0), vec![Caps::default(); 2]);
        budget.begin(0);
        assert_eq!(budget.room(1), Room::Yes);
        assert_eq!(budget.progress(0, spent(0.7)), None);
        assert_eq!(budget.progress(0, spent(0.6)), None, "a late report takes nothing back");
        assert!(budget.warning().is_none());
        assert_eq!(budget.progress(0, spent(0.8)), None);
        assert_eq!(budget.warning().as_deref(), Some("the run has spent $0.80 of its budget of $1.00"));
        assert!(budget.warning().is_none(), "once");
        assert_eq!(budget.progress(0, spent(1.1)), Some(Over::Run("the run spent $1.10 of $1.00".into())));
        assert_eq!(budget.room(1), Room::Later);
    }

    #[test]
    fn tokens_are_a_budget_of_their_own() {
        let caps = Caps { usd: None, tokens: Some(100) };
        let mut budget = Budget::new(caps, vec![Caps::default()]);
        budget.begin(0);
        let over = budget.progress(0, Spent { usd: 99.0, tokens: 101 });
        assert_eq!(over, Some(Over::Run("the run spent 101 tokens of 100 tokens".into())));
        assert_eq!(Budget::new(Caps::default(), vec![Caps::default()]).room(0), Room::Yes);
    }
}
