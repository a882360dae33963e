//! What a run has cost: known sums, "at least" where something is unknown, nothing where nothing is known.

use std::sync::Arc;

use kew::{
    event::RunEvent,
    name::{AttemptKey, CommitId},
    outcome::{EngineEnd, Kind, Outcome},
    run::{
        executor::{Attempt, Caps, Collected, Executor, NodeSpec, Sink, Source, StopHow, Trouble},
        node::Told,
        scripted::Script,
    },
    stream::{CostSource, Tokens},
    verdict::{FoundAt, SidecarFault},
};

use super::rig::{BASE, Played, commit, endless, exits, rig};

const AGENTS: &str = r#"
    [defaults]
    runner = "claude-code"
    model = "claude-sonnet-4-5"
    commits = "optional"
    [nodes.a]
    prompt = "x"
    [nodes.b]
    prompt = "x"
"#;

fn agents() -> super::rig::Rig {
    super::rig::whole(&format!("version = 1\nepic.name = \"e\"\n{AGENTS}"))
}

/// An agent that ends well. Its cost is known where its model has a list price.
fn costs(usd: Option<f64>, session: bool) -> Script {
    let mut stdout = Vec::new();
    if session {
        stdout.push(r#"{"type":"system","subtype":"init","session_id":"s","model":"m"}"#.to_owned());
    }
    let (basis, usd) = usd.map_or(("unknown", 0.0), |usd| ("list", usd));
    let marker = serde_json::json!({
        "type": "result", "subtype": "success", "is_error": false, "result": "ok", "total_cost_usd": usd,
        "modelUsage": { "m": {
            "inputTokens": 10, "outputTokens": 2, "cacheReadInputTokens": 3, "cacheCreationInputTokens": 4,
            "costUSD": usd, "costBasis": basis,
        } },
    });
    stdout.push(marker.to_string());
    Script { stdout, ..Script::default() }
}

fn spent(played: &Played) -> (Option<Tokens>, Option<f64>, bool) {
    let RunEvent::RunEnded { tokens, cost_usd, cost_at_least, .. } = &played.events.last().unwrap().event
    else {
        panic!()
    };
    (*tokens, *cost_usd, *cost_at_least)
}

#[test]
fn known_costs_are_added_up() {
    let cost = |usd| costs(Some(usd), true);
    let played = agents().script("a", cost(0.25)).script("b", cost(0.5)).play();
    let tokens = Tokens { input: 20, output: 4, cache_read: 6, cache_write: 8 };
    assert_eq!(spent(&played), (Some(tokens), Some(0.75), false));
    assert_eq!(played.end("a").cost_usd, Some(0.25));
}

#[test]
fn an_unknown_cost_makes_the_sum_at_least() {
    let played = agents().script("a", costs(Some(0.25), true)).script("b", costs(None, true)).play();
    let (_, usd, at_least) = spent(&played);
    assert_eq!((usd, at_least), (Some(0.25), true));
    let played = agents().script("a", costs(None, false)).script("b", costs(None, false)).play();
    let (_, usd, at_least) = spent(&played);
    assert_eq!((usd, at_least), (None, true), "unmeasured is absent, never zero");
}

#[test]
fn what_a_subscription_pays_is_no_money_spent() {
    let cost = |usd| costs(Some(usd), true);
    let both = || agents().script("a", cost(0.25)).script("b", cost(0.5));
    let split = |played: &Played| {
        let RunEvent::RunEnded { cost_usd, not_billed_usd, cost_at_least, .. } =
            &played.events.last().unwrap().event
        else {
            panic!()
        };
        (*cost_usd, *not_billed_usd, *cost_at_least)
    };
    let played = both().bills("a", "CLAUDE_CODE_OAUTH_TOKEN").bills("b", "ANTHROPIC_API_KEY").play();
    assert_eq!(split(&played), (Some(0.5), Some(0.25), false));
    assert_eq!(played.end("a").cost_source, CostSource::NotBilled);
    assert_eq!(played.end("a").cost_usd, Some(0.25), "what was used stays known");
    assert_eq!(played.end("b").cost_source, CostSource::ListPrice);
    let played = both().bills("a", "CLAUDE_CODE_OAUTH_TOKEN").bills("b", "CLAUDE_CODE_OAUTH_TOKEN").play();
    assert_eq!(split(&played), (Some(0.0), Some(0.75), false));
    // What nobody knows is not made known by who would pay.
    let unknown = agents().script("a", costs(None, true)).bills("a", "CLAUDE_CODE_OAUTH_TOKEN").play();
    assert_eq!(unknown.end("a").cost_source, CostSource::Unknown);
    assert_eq!(split(&unknown).1, None);
    assert!(split(&unknown).2);
}

#[test]
fn a_cap_bounds_what_is_used_whoever_pays() {
    let text = AGENTS.replace("commits =", "max_cost_usd = 1\n    commits =");
    let rig = super::rig::whole(&format!(
        "version = 1\nepic.name = \"e\"\nepic.max_cost_usd = 1\nepic.max_parallel = 1\n{text}"
    ));
    let rig = rig.script("a", costs(Some(1.5), true)).script("b", costs(Some(0.1), true));
    let played = rig.bills("a", "CLAUDE_CODE_OAUTH_TOKEN").bills("b", "CLAUDE_CODE_OAUTH_TOKEN").play();
    assert_eq!(played.status(), kew::run::dispatcher::Status::Capped);
}

#[test]
fn plain_jobs_cost_nothing_and_that_is_known() {
    let played = rig("[nodes.a]\nprompt = \"x\"\n[nodes.b]\nprompt = \"x\"").script("b", exits(1)).play();
    assert_eq!(spent(&played), (None, Some(0.0), false));
}

#[test]
fn what_never_ran_spent_nothing() {
    let trouble = kew::run::executor::Trouble::Infrastructure("no disk".into());
    let never = Script { trouble: Some(trouble), ..Script::default() };
    let played = agents().script("a", costs(Some(0.25), true)).script("b", never).play();
    let (_, usd, at_least) = spent(&played);
    assert_eq!((usd, at_least), (Some(0.25), false));
}

#[test]
fn a_container_that_may_have_run_may_have_spent() {
    let rig = agents();
    let sum = |ran| {
        let mut it = super::decide::dispatcher(&rig);
        it.start(super::decide::at(0));
        let mut report =
            super::decide::report(0, Outcome::new(Kind::Infrastructure, "the connection was lost"));
        (report.free, report.exit, report.ran) = (false, None, ran);
        it.told(Told::Ended(report), super::decide::at(1));
        it.spent()
    };
    assert_eq!(sum(true), (None, None, true));
    assert_eq!(sum(false), (None, None, false));
}

#[test]
fn an_engine_that_could_not_start_it_spent_nothing() {
    // 125 is docker's own, and the container was never seen to start.
    let refused = |started| EngineEnd { started, exit: Some(125), ..EngineEnd::default() };
    for (started, at_least) in [(false, false), (true, true)] {
        let played = agents().jobs(1).play_over(Arc::new(Ends(refused(started))));
        assert_eq!(spent(&played), (None, None, at_least), "started: {started}");
    }
}

/// Every container ends like this.
struct Ends(EngineEnd);

impl Executor for Ends {
    fn caps(&self) -> Caps {
        Caps { fields: Vec::new() }
    }
    fn prepare(&self, _: &NodeSpec, _: &Source) -> Result<Box<dyn Attempt>, Trouble> {
        Ok(Box::new(Ended(self.0.clone(), commit(BASE))))
    }
    fn stop(&self, _: &AttemptKey, _: StopHow) {}
}

struct Ended(EngineEnd, CommitId);

impl Attempt for Ended {
    fn input(&self) -> &CommitId {
        &self.1
    }
    fn run(&mut self, _: &str, sink: Arc<dyn Sink>) -> Result<EngineEnd, Trouble> {
        sink.started();
        Ok(self.0.clone())
    }
    fn collect(&mut self) -> Result<Collected, Trouble> {
        Ok(Collected::default())
    }
    fn sidecar(&mut self) -> Result<(Vec<u8>, FoundAt), SidecarFault> {
        Err(SidecarFault::Missing)
    }
}

#[test]
fn a_stopped_agent_spent_at_least_what_was_seen() {
    let text = format!(
        "version = 1\nepic.name = \"e\"\n{}",
        AGENTS.replace("[nodes.a]", "timeout = \"1s\"\n[nodes.a]")
    );
    let silent = Script { stdout: Vec::new(), ..endless() };
    let played = super::rig::whole(&text).script("a", silent).play();
    assert_eq!(played.end("a").outcome, "timed-out");
    assert!(spent(&played).2);
}
