//! `kew publish RUN [NODE]`: what a run did not publish, or could not; the same question, the same push, the same answer.
//!
//! The plan is the frozen one; remote, forge and labels are those of now. It asks nothing.

pub(super) mod frozen;

use std::collections::BTreeMap;

use camino::Utf8Path;

use self::frozen::{Frozen, standings};
use super::{Format, PublishArgs, outgoing::Outgoing, put, say, setting};
use crate::{
    error::Failure,
    event::{EVENT_VERSION, RunEvent, Stamped},
    git::base::UserRepo,
    name::AttemptKey,
    plan::{
        dag::Dag,
        parse_and_check,
        spec::{NodeIx, Plan, Publish},
    },
    publish::{Not, Standing, may_publish},
    record::{Publication, PublicationState},
    report,
    run::{
        broker::Broker,
        dispatcher::Status,
        publisher::{self, Of, Publisher as _, StandsOn},
        unix_ms,
    },
    store::{
        RunDetail, Store,
        lock::{RunLock, lock_path},
    },
    text,
};

/// Publishes nodes of a run that is over.
pub fn publish(args: &PublishArgs) -> Result<u8, Failure> {
    let dir = args.repo.repo.as_deref();
    let settings = setting::settings(setting::work_tree(dir)?.as_deref())?;
    let repo = UserRepo::open(dir)?;
    let state = settings.state.dir.clone().unwrap_or_else(|| repo.state_dir());
    let store = Store::open_existing(&state)?
        .ok_or_else(|| Failure::usage("this repository has no runs yet").help("`kew run PLAN` starts one"))?;
    let id = store.find_run(&args.run)?;
    let lock = RunLock::try_take(&lock_path(&state, &id))?.ok_or_else(|| {
        Failure::usage(format!("the run `{id}` goes on"))
            .help("it publishes what it may by itself; wait for its end")
    })?;
    let done = (|| {
        let detail = store.run(id.as_str())?;
        let world = Frozen { settings: &settings, run: &detail };
        let (mut plan, dag) = parse_and_check(&detail.start.plan_path, &detail.start.plan_text, &world)
            .map_err(|problems| {
                let text = format!("the plan of the run `{id}` is none that this kew reads:\n{problems}");
                Failure::usage(text)
            })?;
        let nodes = chosen(&mut plan, args)?;
        let standings = standings(&plan, &detail);
        let wanted = super::outgoing::wanted(&plan, &nodes);
        let outgoing = Outgoing::find(&repo, &settings, plan.epic.base.as_deref(), wanted)?;
        let folder = tempfile::tempdir().map_err(|error| Failure::infrastructure(error.to_string()))?;
        let folder = Utf8Path::from_path(folder.path())
            .ok_or_else(|| Failure::infrastructure("the folder for temporary files is no text"))?;
        let broker = outgoing.broker(&repo, &settings, &plan, &state, &folder.join("publish"))?;
        let mut later =
            Later { args, store, detail, plan, dag, standings, broker, out: BTreeMap::new(), seq: 0 };
        later.all(&nodes)
    })();
    let _ = lock.remove();
    done
}

/// The nodes that are asked for: the named one, or all that the plan publishes.
fn chosen(plan: &mut Plan, args: &PublishArgs) -> Result<Vec<bool>, Failure> {
    let Some(name) = &args.node else {
        let nodes: Vec<bool> = plan.nodes.iter().map(|node| node.publish != Publish::None).collect();
        if nodes.contains(&true) {
            return Ok(nodes);
        }
        return Err(Failure::usage("no node of this plan is published")
            .help("name one, and how: `kew publish RUN NODE --as branch`"));
    };
    let Some(node) = plan.nodes.iter().position(|node| node.id.as_str() == name) else {
        let guess = text::did_you_mean(name, plan.nodes.iter().map(|node| node.id.as_str()));
        let guess = guess.map(|id| format!("; did you mean `{id}`?")).unwrap_or_default();
        return Err(Failure::usage(format!("the run has no node `{}`{guess}", name.escape_default())));
    };
    match args.how {
        Some(how) => plan.nodes[node].publish = how.into(),
        None if plan.nodes[node].publish == Publish::None => {
            return Err(Failure::usage(format!("the plan does not publish `{name}`"))
                .help(format!("say how: `kew publish {} {name} --as branch`", args.run)));
        }
        None => {}
    }
    Ok((0..plan.nodes.len()).map(|ix| ix == node).collect())
}

/// Publishing after a run.
struct Later<'a> {
    args: &'a PublishArgs,
    store: Store,
    detail: RunDetail,
    plan: Plan,
    dag: Dag,
    standings: Vec<Option<Standing>>,
    broker: Broker,
    out: BTreeMap<NodeIx, StandsOn>,
    seq: u64,
}

impl Later<'_> {
    fn all(&mut self, nodes: &[bool]) -> Result<u8, Failure> {
        self.seq = self.store.next_seq(&self.detail.start.run)?;
        self.out = frozen::out(&self.plan, &self.detail, &self.broker.remote());
        let mut worst = Status::Passed;
        for node in self.dag.order().to_vec() {
            if nodes[node] {
                let status = self.one(node)?.unwrap_or(Status::Passed);
                worst = if rank(status) > rank(worst) { status } else { worst };
            }
        }
        Ok(worst.exit_code())
    }

    fn one(&mut self, node: NodeIx) -> Result<Option<Status>, Failure> {
        let id = self.plan.nodes[node].id.clone();
        let of = |node: NodeIx| self.standings[node].as_ref();
        let commit = match may_publish(&self.plan, &self.dag, node, &of) {
            Ok(commit) => commit,
            Err(not) => {
                say(&format!("{id}: may not be published: {}", not.reason()));
                return Ok(Some(match not {
                    Not::Yet(_) | Not::Held(_) => Status::Held,
                    Not::Never(_) => Status::Failed,
                }));
            }
        };
        let start = &self.detail.start;
        let attempt = of(node).map_or(0, |standing| standing.attempt);
        let key = AttemptKey { run: start.run.clone(), node: id.clone(), attempt };
        let (branch, remote) = (self.broker.branch(&key), self.broker.remote());
        let run = Of { plan: &self.plan, dag: &self.dag, run: &start.run, base: &start.base };
        // A node does not stand on its own earlier publication.
        let out = |other: NodeIx| self.out.get(&other).filter(|_| other != node).cloned();
        let job = publisher::job(&run, node, commit.clone(), branch.clone(), &of, &out);
        let before = self.out.get(&node).and_then(|out| out.url.clone());
        let state = if job.is_some() { PublicationState::Pushing } else { PublicationState::Nothing };
        let (url, reason, time) = (None, None, unix_ms());
        let row = Publication {
            key,
            commit,
            branch: branch.clone(),
            remote: remote.clone(),
            state,
            url,
            reason,
            time,
        };
        self.store.add_publication(&row)?;
        let Some(job) = job else {
            self.tell(RunEvent::NothingToPublish { node: id, branch })?;
            return Ok(None);
        };
        let mut sent = self.broker.publish(&job);
        if let Ok(sent) = &mut sent {
            // GitLab names a merge request only when it is made.
            sent.url = sent.url.take().or(before);
            let (branch, commit, url) = (job.branch.clone(), job.commit.clone(), sent.url.clone());
            self.out.insert(node, StandsOn { branch, commit, url });
        }
        self.store.add_publication(&publisher::row(&job, remote.clone(), &sent, unix_ms()))?;
        self.tell(publisher::event(&job, remote, &sent))?;
        for warning in sent.iter().flat_map(|sent| &sent.warnings) {
            self.tell(RunEvent::Warning { message: format!("`{id}`: {warning}") })?;
        }
        Ok(sent.err().map(|fault| match fault.kind {
            crate::git::publish::Kind::Refused => Status::Held,
            _ => Status::Infrastructure,
        }))
    }

    fn tell(&mut self, event: RunEvent) -> Result<(), Failure> {
        let run = self.detail.start.run.clone();
        let stamped = Stamped { v: EVENT_VERSION, seq: self.seq, time: unix_ms(), run, event };
        self.seq += 1;
        self.store.append_event(&stamped)?;
        match self.args.format {
            Format::Json => {
                let json = serde_json::to_string(&stamped)
                    .expect("an event is text and numbers, which JSON can hold");
                put(&format!("{}\n", report::jsonl::escaped(&json)));
            }
            Format::Human => put(&report::line(&stamped).map(|line| format!("{line}\n")).unwrap_or_default()),
        }
        Ok(())
    }
}

/// Worst last.
fn rank(status: Status) -> u8 {
    match status {
        Status::Passed => 0,
        Status::Capped => 1,
        Status::Held => 2,
        Status::Failed => 3,
        Status::Infrastructure => 4,
        Status::Interrupted => 5,
    }
}
