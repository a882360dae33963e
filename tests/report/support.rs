//! A run to report on, and agent text that tries everything.
use kew::{
    event::{EVENT_VERSION, RunEvent, Stamped},
    name::{NodeId, RunId},
    record::NodeState,
    stream::{CostSource, Tokens},
};

/// Escapes, OSC, C1, bidi, zero width, tags, line breaks, and commands of CI systems.
pub const HOSTILE: &str = "::error::pwned\n::add-mask::x\r\x1b[2J\x1b]0;title\x07\u{9b}31m \u{202e}evil\u{2066}\u{200b}\u{e0041} ##[error]bad ##vso[task.setvariable]x";

/// What no line for people may hold, whatever an agent says.
pub fn assert_harmless(text: &str) {
    for line in text.lines() {
        assert!(!line.trim_start().starts_with("::"), "a command begins: {line:?}");
        assert!(!line.contains("##[") && !line.contains("##vso["), "a command: {line:?}");
        let bad = line.chars().find(|c| {
            c.is_control() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{202e}' | '\u{2066}' | '\u{e0041}')
        });
        assert_eq!(bad, None, "{line:?}");
    }
}

pub fn node(id: &str) -> NodeId {
    NodeId::new(id).expect("good")
}

pub fn tokens(input: u64, output: u64) -> Option<Tokens> {
    Some(Tokens { input, output, cache_read: 10_000, cache_write: 0 })
}

/// Events with numbers, `seconds` after the start.
#[derive(Default)]
pub struct Script {
    seq: u64,
}

pub const START: i64 = 1_796_117_400_000;

impl Script {
    pub fn at(&mut self, seconds: i64, event: RunEvent) -> Stamped {
        self.seq += 1;
        let run = RunId::new("20261201-093000-k3f9").expect("good");
        Stamped { v: EVENT_VERSION, seq: self.seq, time: START + seconds * 1000, run, event }
    }
}

pub fn run_started(nodes: &[NodeId]) -> RunEvent {
    RunEvent::RunStarted {
        epic: "parser-rewrite".into(),
        base: "a".repeat(40),
        nodes: nodes.to_vec(),
        max_parallel: 4,
        network: "allowlist".into(),
    }
}

pub fn started(id: &str, attempt: u32) -> RunEvent {
    RunEvent::NodeStarted {
        node: node(id),
        attempt,
        runner: "claude-code".into(),
        model: Some("claude-sonnet-4-5".into()),
        image: "kew-claude".into(),
    }
}

pub fn progress(id: &str, tokens: Option<Tokens>, cost_usd: Option<f64>, activity: &str) -> RunEvent {
    RunEvent::NodeProgress {
        node: node(id),
        attempt: 1,
        phase: "running".into(),
        tokens,
        cost_usd,
        activity: Some(activity.into()),
    }
}

pub fn ended(
    id: &str,
    state: NodeState,
    outcome: &str,
    reason: Option<&str>,
    cost_usd: Option<f64>,
) -> RunEvent {
    RunEvent::NodeEnded {
        node: node(id),
        attempt: 1,
        state,
        outcome: outcome.into(),
        reason: reason.map(Into::into),
        duration_ms: 185_000,
        tokens: cost_usd.and_then(|_| tokens(2_345, 4_500)),
        cost_usd,
        cost_source: source(cost_usd),
        head: None,
        commits: u32::from(state == NodeState::Passed) * 2,
        git_ref: None,
        kept: None,
        artifacts: 0,
        logs: None,
    }
}

/// A whole run with everything that can happen in it.
pub fn whole_run() -> Vec<Stamped> {
    let nodes = ["parser", "test", "review", "docs", "extra"].map(node);
    let mut script = Script::default();
    let verdict = |subject: &str, verdict: &str, summary: &str| RunEvent::Verdict {
        node: node("review"),
        subject: node(subject),
        verdict: verdict.into(),
        summary: summary.into(),
    };
    vec![
        script.at(0, run_started(&nodes)),
        script.at(0, RunEvent::Warning { message: format!("3 files are not in the base {HOSTILE}") }),
        script.at(1, started("parser", 1)),
        script.at(2, progress("parser", tokens(12, 7), Some(0.01), HOSTILE)),
        script.at(90, ended("parser", NodeState::Waiting, "rate limited", Some(HOSTILE), None)),
        script.at(100, started("parser", 2)),
        script.at(285, ended("parser", NodeState::Passed, "passed", None, Some(1.239))),
        script.at(
            286,
            RunEvent::NodeStarted {
                node: node("test"),
                attempt: 1,
                runner: "shell".into(),
                model: None,
                image: "rust".into(),
            },
        ),
        script.at(300, RunEvent::Heartbeat { running: vec![node("test")] }),
        script.at(
            471,
            ended("test", NodeState::Failed, "timed out", Some("no end after 3 minutes"), Some(0.0)),
        ),
        script.at(472, verdict("parser", "approve", "fine")),
        script.at(473, verdict("parser", "request_changes", HOSTILE)),
        script.at(474, verdict("parser", "held", "missing: no verdict was written")),
        script.at(475, RunEvent::NodeHeld { node: node("docs"), reason: HOSTILE.into() }),
        script.at(476, RunEvent::NodeSkipped { node: node("extra"), reason: "`test` failed".into() }),
        script.at(
            3720,
            RunEvent::RunEnded {
                status: "failed".into(),
                exit_code: 1,
                duration_ms: 3_720_000,
                tokens: tokens(2_345, 4_500),
                cost_usd: Some(1.239),
                not_billed_usd: None,
                cost_at_least: true,
            },
        ),
    ]
}

/// Who would say such a cost.
pub fn source(cost_usd: Option<f64>) -> CostSource {
    match cost_usd {
        Some(0.0) => CostSource::Free,
        Some(_) => CostSource::ListPrice,
        None => CostSource::Unknown,
    }
}
