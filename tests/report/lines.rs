//! The reporters that write lines: what they say, how they keep agent text down, and what a closed pipe does.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

use crate::support::{HOSTILE, START, Script, assert_harmless, node, run_started, started, whole_run};
use kew::{
    event::Stamped,
    report::{Jsonl, Plain, Reporter},
};

/// A stream that keeps what it takes and fails from the n-th write on.
#[derive(Clone)]
struct Pipe {
    taken: Arc<Mutex<Vec<u8>>>,
    writes: Arc<Mutex<usize>>,
    good: usize,
}

impl Pipe {
    fn new(good: usize) -> Self {
        Self { taken: Arc::default(), writes: Arc::default(), good }
    }

    fn text(&self) -> String {
        String::from_utf8(self.taken.lock().expect("no panic").clone()).expect("UTF-8")
    }
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut writes = self.writes.lock().expect("no panic");
        *writes += 1;
        if *writes > self.good {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.taken.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn plain(events: &[Stamped]) -> String {
    let pipe = Pipe::new(usize::MAX);
    let mut plain = Plain::new(pipe.clone());
    events.iter().for_each(|event| plain.event(event));
    plain.finish();
    pipe.text()
}

#[test]
fn plain_tells_a_whole_run() {
    let text = plain(&whole_run());
    assert_harmless(&text);
    insta::assert_snapshot!(text);
}

#[test]
fn every_plain_line_begins_with_kew() {
    for line in plain(&whole_run()).lines() {
        assert!(line.starts_with("[kew "), "{line}");
    }
}

#[test]
fn plain_lives_each_quiet_minute() {
    let pipe = Pipe::new(usize::MAX);
    let mut plain = Plain::new(pipe.clone());
    let mut script = Script::default();
    plain.tick(START);
    plain.event(&script.at(0, run_started(&[node("a")])));
    plain.event(&script.at(0, started("a", 1)));
    // Ticks four times a second and heartbeats every ten: one line a minute.
    for quarter in 0..4 * 150 {
        plain.tick(START + quarter * 250);
        if quarter % 40 == 0 {
            let heartbeat = kew::event::RunEvent::Heartbeat { running: vec![node("a")] };
            plain.event(&script.at(quarter / 4, heartbeat));
        }
    }
    let alive: Vec<String> =
        pipe.text().lines().filter(|line| line.contains("still running: a")).map(str::to_owned).collect();
    assert_eq!(alive, ["[kew 00:01:00] still running: a", "[kew 00:02:00] still running: a"]);
}

#[test]
fn plain_is_quiet_before_and_after_a_run() {
    let pipe = Pipe::new(usize::MAX);
    let mut plain = Plain::new(pipe.clone());
    for event in whole_run() {
        plain.event(&event);
    }
    let before = pipe.text();
    plain.tick(START + 100_000_000);
    plain.finish();
    plain.event(&whole_run()[0]);
    assert_eq!(pipe.text(), before);
}

#[test]
fn a_closed_pipe_ends_the_reporting_and_nothing_else() {
    for good in [0, 1, 3] {
        let (first, second) = (Pipe::new(good), Pipe::new(good));
        let mut both: Vec<Box<dyn Reporter>> =
            vec![Box::new(Plain::new(first.clone())), Box::new(Jsonl::new(second.clone()))];
        for event in whole_run() {
            both.event(&event);
            both.tick(event.time);
        }
        both.finish();
        for pipe in [first, second] {
            assert_eq!(pipe.text().lines().count(), good);
            assert_eq!(*pipe.writes.lock().expect("no panic"), good + 1, "not tried again");
        }
    }
}

#[test]
fn jsonl_gives_every_event_back() {
    let pipe = Pipe::new(usize::MAX);
    let mut jsonl = Jsonl::new(pipe.clone());
    whole_run().iter().for_each(|event| jsonl.event(event));
    let text = pipe.text();
    assert_harmless(&text);
    let read: Vec<Stamped> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(read, whole_run(), "escapes change no value");
    assert!(text.lines().all(|line| line.starts_with(r#"{"v":1,"seq":"#)));
    assert!(text.contains(r"\u202e") && text.contains(r"\u0023\u0023[error]"));
    assert!(read.iter().any(|event| format!("{event:?}").contains(&format!("{HOSTILE:?}")[1..20])));
}

#[test]
fn jsonl_words_are_stable() {
    let pipe = Pipe::new(usize::MAX);
    let mut jsonl = Jsonl::new(pipe.clone());
    let mut script = Script::default();
    jsonl.event(&script.at(1, started("a", 1)));
    insta::assert_snapshot!(pipe.text());
}

#[test]
fn a_subscriptions_list_price_is_no_money_spent() {
    use kew::{event::RunEvent, stream::CostSource};
    let line = |event| {
        let pipe = Pipe::new(100);
        Plain::new(pipe.clone()).event(&Script::default().at(1, event));
        pipe.text()
    };
    let end = |billed, list, at_least| {
        line(RunEvent::RunEnded {
            status: "passed".into(),
            exit_code: 0,
            duration_ms: 1000,
            tokens: None,
            cost_usd: billed,
            not_billed_usd: list,
            cost_at_least: at_least,
        })
    };
    assert!(end(Some(0.0), Some(0.42), false).contains(", $0.42 (list price, not billed) ("));
    assert!(end(Some(1.2), Some(0.42), false).contains(", $1.20 + $0.42 (list price, not billed) ("));
    assert!(end(Some(1.2), Some(0.42), true).contains(", ≥ $1.20 + $0.42 (list price, not billed) ("));
    assert!(end(Some(1.2), None, false).contains(", $1.20 ("));
    assert!(end(None, None, true).contains(", cost unknown ("));
    let words: Vec<&str> = CostSource::ALL.iter().map(|source| source.word()).collect();
    for (source, word) in CostSource::ALL.into_iter().zip(words) {
        assert_eq!(serde_json::to_value(source).unwrap(), word);
        assert_eq!(CostSource::of_word(word), source);
    }
}
