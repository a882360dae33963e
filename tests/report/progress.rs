//! The drawing on a terminal, read back from a terminal in memory: wide, narrow, low, with many nodes, and hostile text.

use std::sync::{
    Arc,
    atomic::{AtomicU16, Ordering},
};

use crate::support::{
    HOSTILE, START, Script, assert_harmless, ended, node, progress, run_started, started, tokens, whole_run,
};
use indicatif::{InMemoryTerm, ProgressDrawTarget};
use kew::{
    event::RunEvent,
    name::NodeId,
    record::NodeState,
    report::{Progress, Reporter, progress::Size},
};
use unicode_width::UnicodeWidthStr as _;

struct Screen {
    term: InMemoryTerm,
    progress: Progress,
    script: Script,
}

fn screen(rows: u16, columns: u16) -> Screen {
    let term = InMemoryTerm::new(rows, columns);
    let target = ProgressDrawTarget::term_like(Box::new(term.clone()));
    Screen { term, progress: Progress::on(target, move || Size { columns, rows }), script: Script::default() }
}

impl Screen {
    fn event(&mut self, seconds: i64, event: RunEvent) {
        self.progress.event(&self.script.at(seconds, event));
    }

    fn at(&mut self, seconds: i64) -> String {
        self.progress.tick(START + seconds * 1000);
        self.term.contents()
    }
}

fn busy(rows: u16, columns: u16) -> Screen {
    let mut screen = screen(rows, columns);
    screen.event(
        0,
        run_started(&["parser", "test", "review", "docs", "a-node-with-quite-a-long-name-indeed"].map(node)),
    );
    screen.event(0, started("parser", 1));
    screen.event(0, ended("parser", NodeState::Passed, "passed", None, Some(1.239)));
    screen.event(5, started("review", 1));
    screen.event(
        6,
        progress("review", tokens(2_345, 77), Some(0.0123), "Bash: cargo test --locked 日本語日本語"),
    );
    screen.event(
        10,
        RunEvent::NodeStarted {
            node: node("test"),
            attempt: 1,
            runner: "shell".into(),
            model: None,
            image: "rust".into(),
        },
    );
    screen.event(11, started("a-node-with-quite-a-long-name-indeed", 2));
    screen
}

#[test]
fn a_wide_terminal_shows_everything() {
    insta::assert_snapshot!(busy(24, 140).at(75));
}

#[test]
fn a_usual_terminal_shows_most() {
    insta::assert_snapshot!(busy(24, 80).at(75));
}

#[test]
fn a_narrow_terminal_shows_what_fits() {
    insta::assert_snapshot!(busy(24, 36).at(75));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for columns in [1, 2, 5, 10, 20, 36, 59, 61, 80, 91, 200] {
        let text = busy(40, columns).at(75);
        let drawn = text.lines().filter(|line| !line.contains("passed"));
        for line in drawn {
            assert!(line.width() <= usize::from(columns), "{columns}: {line:?}");
        }
    }
}

#[test]
fn two_hundred_nodes_fit_on_any_terminal() {
    let nodes: Vec<NodeId> = (0..200).map(|ix| node(&format!("node-{ix}"))).collect();
    for rows in [3_u16, 4, 10, 24] {
        let mut screen = screen(rows, 100);
        screen.event(0, run_started(&nodes));
        nodes.iter().for_each(|node| screen.event(1, started(node.as_str(), 1)));
        for second in 2..8 {
            screen.at(second);
        }
        let text = screen.at(9);
        let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with("run ")).collect();
        assert!(lines.len() < usize::from(rows), "{rows}: {text}");
        assert_eq!(lines.iter().filter(|line| line.contains("0/200")).count(), 1, "one plan line: {text}");
        let shown = lines.iter().filter(|line| line.contains("claude-code")).count();
        let more = lines.iter().find_map(|line| line.trim().strip_prefix("… and ")?.strip_suffix(" more"));
        assert_eq!(more.expect("not all fit").parse::<usize>().expect("a number") + shown, 200, "{text}");
    }
}

#[test]
fn two_hundred_nodes_come_and_go() {
    let nodes: Vec<NodeId> = (0..200).map(|ix| node(&format!("node-{ix}"))).collect();
    let mut screen = screen(30, 100);
    screen.event(0, run_started(&nodes));
    for (second, node) in (1..).zip(&nodes) {
        screen.event(second, started(node.as_str(), 1));
        screen.at(second);
        screen.event(second, ended(node.as_str(), NodeState::Passed, "passed", None, Some(0.01)));
    }
    let text = screen.at(300);
    assert!(text.contains("200/200: 200 passed, $2.00, 5m 00s"), "{text}");
    assert!(text.contains("node-199: passed, 3m 05s"), "{text}");
    assert_eq!(text.matches("passed, 3m 05s").count(), 29, "one line each, none drawn over: {text}");
}

#[test]
fn unknown_costs_make_the_sum_at_least() {
    let mut screen = screen(24, 100);
    screen.event(0, run_started(&["a", "b"].map(node)));
    screen.event(0, started("a", 1));
    screen.event(1, progress("a", None, Some(0.5), "x"));
    assert!(screen.at(2).contains(" $0.50, 2s"), "{}", screen.term.contents());
    screen.event(3, started("b", 1));
    assert!(screen.at(4).contains("≥ $0.50, 4s"), "{}", screen.term.contents());
    screen.event(5, ended("b", NodeState::Failed, "failed", None, None));
    screen.event(5, ended("a", NodeState::Passed, "passed", None, Some(0.7)));
    assert!(screen.at(6).contains("1 passed, 1 failed, ≥ $0.70, 6s"), "{}", screen.term.contents());
}

#[test]
fn the_terminal_may_change_its_size() {
    let term = InMemoryTerm::new(24, 120);
    let columns = Arc::new(AtomicU16::new(120));
    let seen = Arc::clone(&columns);
    let mut progress = Progress::on(ProgressDrawTarget::term_like(Box::new(term.clone())), move || Size {
        columns: seen.load(Ordering::SeqCst),
        rows: 24,
    });
    let mut script = Script::default();
    progress.event(&script.at(0, run_started(&[node("a")])));
    progress.event(&script.at(0, started("a", 1)));
    progress.tick(START + 1000);
    assert!(term.contents().contains("claude-code"));
    columns.store(50, Ordering::SeqCst);
    progress.tick(START + 2000);
    assert!(!term.contents().contains("claude-code"), "{}", term.contents());
}

#[test]
fn hostile_text_is_only_shown() {
    let mut screen = screen(40, 200);
    for event in whole_run() {
        screen.progress.event(&event);
        screen.progress.tick(event.time + 300);
        assert_harmless(&screen.term.contents());
    }
    screen.event(4000, started("docs", 1));
    screen.event(4000, progress("docs", None, None, HOSTILE));
    let text = screen.at(4001);
    assert_harmless(&text);
    assert!(text.contains(r"\:"), "{text}");
    assert!(text.contains(r"\x1b[2J\x1b]0;title\x07\u{9b}31m \u{202e}evil"), "{text}");
}

#[test]
fn the_end_leaves_only_lines() {
    let mut screen = busy(24, 140);
    screen.at(75);
    screen.progress.finish();
    let text = screen.term.contents();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.ends_with("\nparser: passed, 3m 05s, 12.3k in, 4.5k out, $1.24, 2 commits"), "{text}");
    screen.event(80, ended("review", NodeState::Passed, "passed", None, None));
    screen.at(81);
    assert_eq!(screen.term.contents().lines().count(), 2, "nothing is drawn after the end");
}

#[test]
fn ticks_redraw_a_few_times_a_second() {
    let mut screen = busy(24, 140);
    let redrawn = |screen: &mut Screen, ms: i64| {
        screen.term.moves_since_last_check();
        screen.progress.tick(START + ms);
        !screen.term.moves_since_last_check().is_empty()
    };
    assert!(redrawn(&mut screen, 80_000));
    assert!(!redrawn(&mut screen, 80_100));
    assert!(redrawn(&mut screen, 80_300));
    assert!(redrawn(&mut screen, 10_000), "a clock that was set back");
}
