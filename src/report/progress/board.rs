//! What is drawn, as text: where each node stands, and the lines that say so. Knows no terminal but its size.

use super::super::{
    ci::defanged,
    figures::{NOT_BILLED, UNKNOWN, count, duration, tokens_in, usd, usd_split},
};
use crate::{
    event::{RunEvent, Stamped},
    name::NodeId,
    record::{Millis, NodeState},
    store::StateCounts,
    stream::{CostSource, Tokens},
    text::{cut, inert, width},
};

/// Columns below which runner and model are left out.
const ROOM_FOR_RUNNER: usize = 90;
/// Most columns that ids, runners and models take where there is room, and where there is none.
const NAME: usize = 40;
const SHORT_NAME: usize = 24;

/// Where everything stands.
#[derive(Debug, Default)]
pub struct Board {
    started: Option<Millis>,
    nodes: Vec<(NodeId, NodeState)>,
    running: Vec<Running>,
    cost_usd: Option<f64>,
    not_billed_usd: Option<f64>,
    at_least: bool,
    /// Credentials that wait for the reset of their limit, and until when.
    paused: Vec<(String, Millis)>,
}

#[derive(Debug)]
struct Running {
    node: NodeId,
    started: Millis,
    runner: String,
    model: String,
    tokens: Option<Tokens>,
    cost_usd: Option<f64>,
    doing: String,
}

impl Board {
    /// Takes an event in.
    pub fn apply(&mut self, event: &Stamped) {
        match &event.event {
            RunEvent::RunStarted { nodes, .. } => {
                self.started = Some(event.time);
                self.nodes = nodes.iter().map(|node| (node.clone(), NodeState::Waiting)).collect();
            }
            RunEvent::RunResumed { nodes, kept, .. } => {
                self.started = Some(event.time);
                let state = |node| if kept.contains(node) { NodeState::Passed } else { NodeState::Waiting };
                self.nodes = nodes.iter().map(|node| (node.clone(), state(node))).collect();
            }
            RunEvent::NodeStarted { node, runner, model, .. } => {
                self.set(node, NodeState::Running);
                self.running.retain(|running| running.node != *node);
                self.running.push(Running {
                    node: node.clone(),
                    started: event.time,
                    runner: inert(runner).into_owned(),
                    model: model.as_deref().map(|model| inert(model).into_owned()).unwrap_or_default(),
                    tokens: None,
                    cost_usd: None,
                    doing: String::new(),
                });
            }
            RunEvent::NodeProgress { node, phase, tokens, cost_usd, activity, .. } => {
                if let Some(running) = self.running.iter_mut().find(|running| running.node == *node) {
                    running.tokens = tokens.or(running.tokens);
                    running.cost_usd = cost_usd.or(running.cost_usd);
                    let doing = match (phase.as_str(), activity) {
                        ("running", Some(activity)) => activity,
                        _ => phase,
                    };
                    running.doing = defanged(&inert(doing)).into_owned();
                }
            }
            RunEvent::NodeEnded { node, state, cost_usd, cost_source, .. } => {
                self.set(node, *state);
                self.running.retain(|running| running.node != *node);
                let (billed, not_billed) = cost_source.split(*cost_usd);
                for (sum, usd) in [(&mut self.cost_usd, billed), (&mut self.not_billed_usd, not_billed)] {
                    if let Some(usd) = usd {
                        *sum.get_or_insert(0.0) += usd;
                    }
                }
                self.at_least |= *cost_source == CostSource::Unknown;
            }
            RunEvent::NodeHeld { node, .. } => self.set(node, NodeState::Held),
            RunEvent::Paused { credential, until, .. } => {
                let credential = inert(credential).into_owned();
                self.paused.retain(|(known, _)| *known != credential);
                self.paused.push((credential, *until));
            }
            RunEvent::RoundStarted { again, .. } => {
                again.iter().for_each(|node| self.set(node, NodeState::Waiting));
            }
            RunEvent::NodeSkipped { node, .. } => self.set(node, NodeState::Skipped),
            _ => {}
        }
    }

    /// How many nodes need nothing more, and how many there are.
    pub fn done(&self) -> (usize, usize) {
        (self.nodes.iter().filter(|(_, state)| state.terminal()).count(), self.nodes.len())
    }

    /// What stands beside the plan's bar.
    pub fn headline(&self, now: Millis) -> String {
        let counts: StateCounts = self.nodes.iter().map(|(_, state)| *state).collect();
        let mut parts: Vec<String> =
            counts.present().map(|(state, nodes)| format!("{nodes} {}", state.word())).collect();
        let known = self.running.iter().filter_map(|running| running.cost_usd).chain(self.cost_usd);
        let sum = known.fold(None, |sum, usd| Some(sum.unwrap_or(0.0) + usd));
        let unknown = self.at_least || self.running.iter().any(|running| running.cost_usd.is_none());
        match sum {
            None if unknown => parts.push("cost unknown".into()),
            None => {}
            sum => parts.push(usd_split(sum, unknown, self.not_billed_usd, NOT_BILLED)),
        }
        parts.extend(self.started.map(|started| duration(now - started)));
        let paused = self.paused.iter().filter(|(_, until)| *until > now);
        parts.extend(paused.map(|(name, until)| format!("{name} paused for {}", duration(until - now))));
        parts.join(", ")
    }

    /// At most `rows` lines of at most `columns`, one per running node, longest running first.
    pub fn lines(&self, now: Millis, columns: usize, rows: usize) -> Vec<String> {
        let shown = if self.running.len() <= rows { self.running.len() } else { rows.saturating_sub(1) };
        let most = if columns >= ROOM_FOR_RUNNER { NAME } else { SHORT_NAME };
        let widest = |of: fn(&Running) -> &str| {
            self.running[..shown].iter().map(|running| width(of(running))).max().unwrap_or(0).min(most)
        };
        let (ids, runners, models) = (
            widest(|running| running.node.as_str()),
            widest(|running| &running.runner),
            widest(|running| &running.model),
        );
        let mut lines: Vec<String> = self.running[..shown]
            .iter()
            .map(|running| {
                let mut line = format!("  {}", fit(running.node.as_str(), ids));
                if columns >= ROOM_FOR_RUNNER {
                    line.push_str(&format!("  {}", fit(&running.runner, runners)));
                    if models > 0 {
                        line.push_str(&format!("  {}", fit(&running.model, models)));
                    }
                }
                let (input, output) = match running.tokens {
                    None => (UNKNOWN.to_owned(), UNKNOWN.to_owned()),
                    Some(tokens) => (count(tokens_in(tokens)), count(tokens.output)),
                };
                let cost = running.cost_usd.map_or(UNKNOWN.to_owned(), usd);
                let elapsed = duration(now - running.started);
                line.push_str(&format!(
                    "  {elapsed:>7}  {input:>6}/{output:<6}  {cost:>7}  {}",
                    running.doing
                ));
                cut(line.trim_end(), columns).into_owned()
            })
            .collect();
        let more = self.running.len() - shown;
        if more > 0 && rows > 0 {
            lines.push(cut(&format!("  … and {more} more"), columns).into_owned());
        }
        lines
    }

    fn set(&mut self, node: &NodeId, state: NodeState) {
        if let Some((_, now)) = self.nodes.iter_mut().find(|(known, _)| known == node) {
            *now = state;
        }
    }
}

/// The text in exactly so many columns.
fn fit(text: &str, columns: usize) -> String {
    let mut text = cut(text, columns).into_owned();
    text.extend(std::iter::repeat_n(' ', columns.saturating_sub(width(&text))));
    text
}
