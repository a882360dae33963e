//! `kew resume`: a run that ended, or whose kew died, goes on with the plan, prompts, settings and images of its start.
//!
//! Invariant: what is on record of a run is read only while its lock is held, so that no other kew changes it.

use std::{
    collections::BTreeSet,
    fs,
    time::{Duration, Instant},
};

use camino::Utf8Path;

use super::{DEFAULT_JOBS, Options, Ready};
use crate::{
    cli::{
        ResumeArgs,
        outgoing::{self, Outgoing},
        preflight::{self, Resolved},
        setting::{self, Checked},
        world::Files,
    },
    config::Settings,
    error::Failure,
    event::RunEvent,
    git::base::UserRepo,
    name::RunId,
    outcome::Kind,
    plan::{
        self,
        spec::{Plan, Publish},
    },
    record::{AttemptEnd, NodeState},
    run::{
        past::{Past, PastAttempt, PastNode},
        unix_ms,
    },
    store::{AttemptDetail, NodeDetail, RunDetail, Store, lock::RunLock},
    stream::CostSource,
    text,
    verdict::{Finding, Opinion},
};

/// How long the lock of a run may still be held by a watchdog that cleans up.
const CLEANING: Duration = Duration::from_secs(15);

/// Takes a run up again.
pub fn resume(args: &ResumeArgs) -> Result<u8, Failure> {
    let work_tree = setting::work_tree(args.repo.repo.as_deref())?;
    let now = setting::settings(work_tree.as_deref())?;
    let repo = UserRepo::open(args.repo.repo.as_deref())?;
    let state = now.state.dir.clone().unwrap_or_else(|| repo.state_dir());
    let store = Store::open_existing(&state)?
        .ok_or_else(|| Failure::usage("this repository has no runs yet").help("`kew run PLAN` starts one"))?;
    let detail = store.run(&args.run)?;
    drop(store);
    let start = &detail.start;

    let mut settings = Settings::thaw(&start.settings_json)?;
    // Where the state lies is how this run was found.
    settings.state.clone_from(&now.state);
    let world = Files::frozen(&settings, start.prompts.clone());
    let (plan, dag) =
        plan::parse_and_check(&start.plan_path, &start.plan_text, &world).map_err(|problems| {
            Failure::report(problems.render(crate::cli::paint()))
                .help("the plan on record was checked by another version of kew")
        })?;
    let prompts = world.prompts();
    let active: Vec<bool> = plan.nodes.iter().map(|node| detail.node(&node.id).is_some()).collect();
    let again = again(&args.retry, &plan, &detail)?;
    let mut resolved = preflight::resolve(&plan, &settings, |name| std::env::var_os(name))?;
    freeze_images(&plan, &mut resolved, &detail);

    let (tree, said) = super::base::check_tree(&repo, &start.base, &settings.checkout)?;
    let mut warnings = super::warnings(&repo, &settings, &resolved, &active)?;
    warnings.extend(said);
    warnings.extend(differences(&detail, &now, &settings));
    settings.publish.later |= args.no_publish;
    let wanted = if settings.publish.later { Publish::None } else { outgoing::wanted(&plan, &active) };
    let outgoing = (wanted != Publish::None)
        .then(|| Outgoing::find(&repo, &settings, plan.epic.base.as_deref(), wanted))
        .transpose()?;
    let jobs = args.jobs.map(usize::from).or(plan.epic.max_parallel).unwrap_or(DEFAULT_JOBS);
    let ready = Ready {
        options: Options {
            plan: start.plan_path.clone().into(),
            format: args.format,
            fail_fast: args.fail_fast,
            max_wait: args.max_wait,
        },
        checked: Checked {
            text: start.plan_text.clone(),
            plan,
            dag,
            prompts,
            contained: settings.sandbox.enabled,
        },
        settings,
        active,
        jobs,
        resolved,
        repo,
        base: start.base.clone(),
        tree,
        warnings,
        outgoing,
        goes_on: Some(GoesOn { run: start.run.clone(), again, past: Past::default(), open: Vec::new() }),
    };
    ready.real()
}

/// The lock of a run. One whose kew has just died is held by its watchdog until all that it left is gone.
pub(super) fn lock(path: &Utf8Path, run: &RunId) -> Result<RunLock, Failure> {
    let begun = Instant::now();
    let mut said = false;
    loop {
        if let Some(lock) = RunLock::try_take(path)? {
            return Ok(lock);
        }
        if begun.elapsed() > CLEANING {
            return Err(Failure::usage(format!("the run `{run}` is being carried out by another kew"))
                .help("wait for its end, or stop that one first"));
        }
        if !said && begun.elapsed() > Duration::from_secs(1) {
            said = true;
            crate::cli::say(&format!(
                "waiting: another kew carries the run {run} out, or what it left is being removed"
            ));
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A run that goes on.
pub(super) struct GoesOn {
    /// Its id.
    pub run: RunId,
    /// Nodes that somebody asked to have done again.
    again: BTreeSet<String>,
    /// What is on record; empty before [`GoesOn::read`].
    pub past: Past,
    /// Attempts that nobody lives to end.
    open: Vec<AttemptEnd>,
}

impl GoesOn {
    /// Reads the record. The run's lock must be held.
    pub fn read(&mut self, state: &Utf8Path, plan: &Plan, repo: &UserRepo) -> Result<(), Failure> {
        let store = Store::open(state)?;
        let detail = store.run(self.run.as_str())?;
        let events = store.events(&self.run, 0)?;
        let mut past = Past { nodes: Vec::new(), seq: store.next_seq(&self.run)? - 1 };
        for node in &plan.nodes {
            let Some(known) = detail.node(&node.id) else {
                past.nodes.push(PastNode::new());
                continue;
            };
            let rounds = events.iter().filter(|event| {
                matches!(&event.event, RunEvent::RoundStarted { node: subject, .. } if *subject == node.id)
            });
            let mut known = past_node(known, 1 + rounds.count() as u32)?;
            known.again = self.again.contains(node.id.as_str());
            if known.state == NodeState::Passed && !known.again && node.reviews.is_none() {
                known.again = match known.result() {
                    Some(commit) => !repo.has_commit(commit)?,
                    None => true,
                };
            }
            past.nodes.push(known);
        }
        self.open = detail.nodes.iter().flat_map(|node| &node.attempts).filter_map(interrupted).collect();
        self.past = past;
        Ok(())
    }

    /// Ends what nobody lives to end, and writes down that the run goes on.
    pub fn reopen(&self, store: &mut Store, owner: &str) -> Result<(), Failure> {
        store.reopen_run(&self.run, owner)?;
        for end in &self.open {
            store.end_attempt(end, NodeState::Waiting, None)?;
        }
        Ok(())
    }
}

/// The nodes that are asked for by `--retry`: by name, or `failed` for all that failed.
fn again(asked: &[String], plan: &Plan, detail: &RunDetail) -> Result<BTreeSet<String>, Failure> {
    let mut again = BTreeSet::new();
    for name in asked {
        let known = plan.nodes.iter().any(|node| node.id.as_str() == name);
        if name == "failed" && !known {
            let failed = detail.nodes.iter().filter(|node| node.state == NodeState::Failed);
            again.extend(failed.map(|node| node.node.to_string()));
        } else if known {
            again.insert(name.clone());
        } else {
            let guess = text::did_you_mean(name, plan.nodes.iter().map(|node| node.id.as_str()));
            let guess = guess.map(|id| format!("; did you mean `{id}`?")).unwrap_or_default();
            return Err(Failure::usage(format!(
                "`--retry {}`: the run has no such node{guess}",
                name.escape_default()
            ))
            .help("name nodes, or write `failed` for all that failed"));
        }
    }
    Ok(again)
}

fn freeze_images(plan: &Plan, resolved: &mut [Resolved], detail: &RunDetail) {
    for (node, resolved) in plan.nodes.iter().zip(resolved) {
        let start = detail.start.nodes.iter().find(|start| start.node == node.id);
        resolved.image_id = start.map(|start| start.image_id.clone()).filter(|id| !id.is_empty());
    }
}

/// What is not as it was, for people: the run goes on with what is on record.
fn differences(detail: &RunDetail, now: &Settings, then: &Settings) -> Vec<String> {
    let mut differ = Vec::new();
    let start = &detail.start;
    match fs::read_to_string(&start.plan_path) {
        Ok(text) if text == start.plan_text => {}
        Ok(_) => differ.push(format!("the plan `{}` has changed", start.plan_path)),
        Err(_) => differ.push(format!("the plan `{}` is not there", start.plan_path)),
    }
    let json = |settings: &Settings| serde_json::to_value(settings).unwrap_or_default();
    // What a flag of the run's start set is no change.
    let mut then = then.clone();
    then.publish.later = now.publish.later;
    if json(now) != json(&then) {
        differ.push("the settings have changed".to_owned());
    }
    if differ.is_empty() {
        return Vec::new();
    }
    vec![format!("{}; the run goes on as it was started", differ.join(" and "))]
}

fn past_node(known: &NodeDetail, round: u32) -> Result<PastNode, Failure> {
    let attempts = known.attempts.iter().map(past_attempt).collect::<Result<_, _>>()?;
    Ok(PastNode { state: known.state, reason: known.reason.clone(), round, attempts, again: false })
}

fn past_attempt(known: &AttemptDetail) -> Result<PastAttempt, Failure> {
    let end = known.end.as_ref();
    let asks = known.verdict.as_ref().filter(|verdict| verdict.verdict == "request_changes");
    let asks = asks.map(|verdict| {
        let findings: Vec<Finding> = serde_json::from_str(&verdict.findings_json).map_err(|error| {
            Failure::infrastructure(format!(
                "the findings of {} on record cannot be read: {error}",
                known.start.key
            ))
        })?;
        Ok::<_, Failure>((
            verdict.commit.clone(),
            Opinion { summary: verdict.summary.clone(), findings, pick: None },
        ))
    });
    Ok(PastAttempt {
        attempt: known.start.key.attempt,
        round: known.start.round,
        input: end.and_then(|end| end.input.clone()),
        head: end.and_then(|end| end.head.clone()),
        voted: known
            .verdict
            .as_ref()
            .filter(|verdict| matches!(verdict.verdict.as_str(), "approve" | "request_changes"))
            .map(|verdict| verdict.commit.clone()),
        asks: asks.transpose()?,
        tokens: end.and_then(|end| end.tokens),
        cost_usd: end.and_then(|end| end.cost_source.split(end.cost_usd).0),
        not_billed_usd: end.and_then(|end| end.cost_source.split(end.cost_usd).1),
        // What never ran spent nothing; one whose kew died may have spent anything.
        unknown_cost: end.is_none_or(|end| {
            let may_have_run = end.exit.is_some() || end.outcome == Kind::Cancelled.word();
            end.cost_source == CostSource::Unknown && may_have_run
        }),
    })
}

/// The end of an attempt whose kew died.
fn interrupted(known: &AttemptDetail) -> Option<AttemptEnd> {
    let free = crate::runners::find(&known.start.runner).is_some_and(|runner| runner.free());
    known.end.is_none().then(|| AttemptEnd {
        key: known.start.key.clone(),
        ended: unix_ms().max(known.start.started),
        input: None,
        head: None,
        commits: 0,
        outcome: Kind::Cancelled.word().to_owned(),
        reason: Some("kew ended while it ran".to_owned()),
        exit: None,
        session: None,
        model_reported: None,
        tokens: None,
        cost_usd: free.then_some(0.0),
        cost_source: if free { CostSource::Free } else { CostSource::Unknown },
        summary: None,
    })
}
