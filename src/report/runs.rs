//! The list of runs, for `kew runs`. Pure: rows in, text out.

use super::{
    ci::defanged,
    figures::{NOT_BILLED, UNKNOWN, count, duration, time, tokens_in, usd_split},
    table::{Align, Table},
};
use crate::{
    name::RunId,
    record::{Millis, NodeState},
    store::RunSummary,
    text::inert,
};

/// A table, newest run last, with a newline at its end. `alive` says whether somebody holds the lock of a run that has not
/// ended; `now` in unix milliseconds.
pub fn runs(runs: &[RunSummary], now: Millis, alive: &dyn Fn(&RunId) -> bool) -> String {
    if runs.is_empty() {
        return "no runs yet\n".into();
    }
    let mut table = Table::new([
        ("run", Align::Left),
        ("epic", Align::Left),
        ("status", Align::Left),
        ("started (UTC)", Align::Left),
        ("took", Align::Right),
        ("in", Align::Right),
        ("out", Align::Right),
        ("cost", Align::Right),
        ("nodes", Align::Left),
    ]);
    for run in runs {
        let alive = run.status.is_none() && alive(&run.run);
        let status = match &run.status {
            Some(status) => inert(status).into_owned(),
            None if alive => "running".into(),
            None => "died".into(),
        };
        let took = match run.ended {
            Some(ended) => duration(ended - run.started),
            None if alive => duration(now - run.started),
            None => UNKNOWN.into(),
        };
        let died = run.status.is_none() && !alive;
        let word = |state: NodeState| match state {
            // Nobody runs it any more, and nobody has written down how it ended.
            NodeState::Running if died => "interrupted",
            state => state.word(),
        };
        let counts: Vec<String> =
            run.counts.present().map(|(state, nodes)| format!("{nodes} {}", word(state))).collect();
        table.row([
            run.run.to_string(),
            inert(&run.epic).into_owned(),
            status,
            time(run.started),
            took,
            run.tokens.map_or(UNKNOWN.into(), |tokens| count(tokens_in(tokens))),
            run.tokens.map_or(UNKNOWN.into(), |tokens| count(tokens.output)),
            usd_split(run.cost_usd, run.at_least, run.not_billed_usd, NOT_BILLED),
            counts.join(", "),
        ]);
    }
    table.lines().iter().map(|line| format!("{}\n", defanged(line))).collect()
}
