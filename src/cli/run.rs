//! `kew run`: check, pre-flight, freeze, drive, tell, clean up; in this order, each step only if the one before held.
//!
//! Invariants: the lock comes before anything that another kew could take for a leftover; the watchdog before the first
//! container; what was made for the run is gone at its end, whatever the end was.

mod base;
mod footing;
mod frozen;
pub(super) mod host;
mod leftovers;
mod resume;
mod warnings;

use std::{
    collections::HashMap,
    ffi::OsString,
    sync::{Arc, Mutex},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};

pub use self::resume::resume;
use self::{leftovers::Cleaner, resume::GoesOn, warnings::warnings};
use super::{
    Format, RunArgs,
    check::implied,
    dry_run, network,
    outgoing::{self, Outgoing},
    paint,
    preflight::{self, Resolved},
    publish::frozen as frozen_run,
    put, say, setting,
};
use crate::{
    config::{REPOSITORY_FILE, Settings},
    docker::{argv::Labels, client::Docker, context},
    error::Failure,
    git::{
        access::{Access, grant},
        base::UserRepo,
        mirror::Mirror,
        refs,
        tree::Tree,
    },
    name::{CommitId, EnvName, RunId},
    plan::spec::Publish,
    report,
    run::{
        self, Ended, Run,
        contained::{Contained, Engine},
        executor::Executor,
        fresh,
        host::Host,
        ledger::{Ledger as _, Observer},
        publisher::{Going, Publisher},
        watchdog::{Watchdog, Watched},
    },
    store::{
        Store,
        lock::{RunLock, lock_path},
        mask::Masker,
        shelf::Files,
        state_id,
    },
    text,
    workspace::Workspace,
};

/// Nodes at once, where neither the flag nor the plan says.
const DEFAULT_JOBS: usize = 4;

/// How long the first retry of a node waits.
const BACKOFF: Duration = Duration::from_secs(5);

/// How long a run may wait for a rate limit where `CI` is set and nobody says.
const CI_WAIT: Duration = Duration::from_secs(15 * 60);

/// Carries a plan out, or shows what that would do.
pub fn run(args: &RunArgs) -> Result<u8, Failure> {
    let work_tree = setting::work_tree(args.repo.repo.as_deref())?;
    let mut settings = setting::settings(work_tree.as_deref())?;
    let checked = match setting::check(&args.plan, work_tree.as_deref(), &settings)? {
        Ok(checked) => checked,
        Err(refused) => return Err(Failure::report(refused.problems.render(paint()))),
    };
    let active = active(&checked, &args.only)?;
    let jobs = args.jobs.map(usize::from).or(checked.plan.epic.max_parallel).unwrap_or(DEFAULT_JOBS);
    let resolved = preflight::resolve(&checked.plan, &settings, |name| std::env::var_os(name))?;
    let repo = UserRepo::open(args.repo.repo.as_deref())?;
    let base = repo.resolve(checked.plan.epic.base.as_deref())?;
    let (tree, said) = base::check_tree(&repo, &base, &settings.checkout)?;
    let mut warnings = warnings(&repo, &settings, &resolved, &active)?;
    warnings.extend(said);
    settings.publish.later |= args.no_publish;
    let wanted =
        if settings.publish.later { Publish::None } else { outgoing::wanted(&checked.plan, &active) };
    let outgoing = (wanted != Publish::None)
        .then(|| Outgoing::find(&repo, &settings, checked.plan.epic.base.as_deref(), wanted))
        .transpose()?;
    let options = Options {
        plan: args.plan.clone(),
        format: args.format,
        fail_fast: args.fail_fast,
        max_wait: args.max_wait,
    };
    let ready = Ready {
        options,
        settings,
        checked,
        active,
        jobs,
        resolved,
        repo,
        base,
        tree,
        warnings,
        outgoing,
        goes_on: None,
    };
    if args.dry_run { ready.dry(args.resolve) } else { ready.real() }
}

/// What the command line says of how a run is carried out.
struct Options {
    plan: Utf8PathBuf,
    format: Format,
    fail_fast: bool,
    max_wait: Option<Duration>,
}

/// A run whose plan, settings and base are known.
struct Ready {
    options: Options,
    settings: Settings,
    checked: setting::Checked,
    active: Vec<bool>,
    jobs: usize,
    resolved: Vec<Resolved>,
    repo: UserRepo,
    base: CommitId,
    tree: Tree,
    warnings: Vec<String>,
    outgoing: Option<Outgoing>,
    /// The run that goes on, if it is not a new one.
    goes_on: Option<GoesOn>,
}

impl Ready {
    fn dry(mut self, resolve: bool) -> Result<u8, Failure> {
        let mut engine_cpus = None;
        if resolve {
            // A folder of this process's own, gone at its end: nothing of the user's is written.
            let config = tempfile::tempdir().map_err(|error| Failure::infrastructure(error.to_string()))?;
            let docker = Docker::new(context::endpoint(|name| std::env::var_os(name))?, config.path());
            let engine = docker.engine()?;
            preflight::check_engine(&engine, &self.settings)?;
            engine_cpus = Some(engine.cpus).filter(|cpus| *cpus > 0);
            preflight::resolve_images(&docker, &mut self.resolved, &self.active)?;
            preflight::collector_id(&docker, &self.settings)?;
            self.warnings.extend(network::ready(&docker, &self.resolved, &self.active)?);
        }
        let shown = dry_run::dry_run(dry_run::Given {
            path: &self.options.plan,
            plan: &self.checked.plan,
            dag: &self.checked.dag,
            active: &self.active,
            base: &self.base,
            settings: &self.settings,
            nodes: &self.resolved,
            engine_cpus,
            jobs: self.jobs,
            warnings: self.warnings,
            outgoing: self.outgoing.as_ref(),
        });
        put(&shown.render(self.options.format));
        Ok(0)
    }

    fn real(mut self) -> Result<u8, Failure> {
        preflight::check_credentials(&self.checked.plan, &self.resolved, &self.active)?;
        let host = match self.on_host() {
            true => host::NOWHERE.to_owned(),
            false => context::endpoint(|name| std::env::var_os(name))?,
        };
        let state = self.settings.state.dir.clone().unwrap_or_else(|| self.repo.state_dir());
        let need = base::Need {
            repo: &self.repo,
            base: &self.base,
            tree: &self.tree,
            settings: &self.settings,
            state: &state,
            nodes: self.active.iter().filter(|active| **active).count(),
            jobs: self.jobs,
        };
        self.warnings.extend(need.check_room()?);
        let id = match &self.goes_on {
            Some(goes_on) => goes_on.run.clone(),
            None => run_id()?,
        };

        let lock = match &self.goes_on {
            Some(_) => resume::lock(&lock_path(&state, &id), &id)?,
            None => RunLock::try_take(&lock_path(&state, &id))?
                .ok_or_else(|| Failure::infrastructure(format!("the lock of the new run `{id}` is taken")))?,
        };
        if let Some(goes_on) = &mut self.goes_on {
            goes_on.read(&state, &self.checked.plan, &self.repo)?;
        }
        let workspace =
            match Workspace::create(self.settings.sandbox.checkout_dir.as_deref(), &id, lock.path()) {
                Ok(workspace) => workspace,
                Err(error) => {
                    let _ = lock.remove();
                    return Err(error.into());
                }
            };
        let docker = Docker::new(host, workspace.docker_config().as_std_path());
        let done = self.in_workspace(&id, &state, &lock, &Arc::new(workspace), &docker);
        let _ = lock.remove();
        self.give_state_back(&state);
        done
    }

    /// From the lock to the summary. The workspace is removed on every way out; so is the watchdog, unless the run was left.
    fn in_workspace(
        &mut self,
        id: &RunId,
        state: &Utf8Path,
        lock: &RunLock,
        workspace: &Arc<Workspace>,
        docker: &Docker,
    ) -> Result<u8, Failure> {
        let labels = Labels {
            state: state_id(state)?,
            owner: fresh(8),
            run: id.to_string(),
            node: String::new(),
            attempt: 0,
        };
        let watched = Watched {
            host: if self.on_host() { String::new() } else { docker.host().to_owned() },
            config: workspace.docker_config(),
            owner: labels.owner.clone(),
            workspace: workspace.root().to_owned(),
            lock: lock.path().to_owned(),
        };
        let watchdog = Watchdog::start(&watched, lock.duplicate()?).map_err(|error| {
            Failure::infrastructure(format!("the watchdog could not be started: {error}"))
        })?;
        let mut clean = None;
        let done = self.watched(id, state, workspace, docker, &labels, &watchdog, &mut clean);
        if let Ok((code, true)) = done {
            let by_hand = match self.on_host() {
                true => String::new(),
                false => {
                    format!(", or: docker rm -f $(docker ps -aq --filter label=kew.owner={})", labels.owner)
                }
            };
            say(&format!("left at once; the watchdog removes what still runs{by_hand}"));
            // Neither dismissed nor waited for: the watchdog sees the end of this process and cleans up. Destructors would
            // remove folders under containers that still run.
            std::process::exit(i32::from(code));
        }
        let removed = workspace.empty(|folder| clean.iter().for_each(|clean: &Cleaner| clean.empty(folder)));
        if let Err(error) = removed {
            say(&format!("warning: the folder `{}` could not be removed: {error}", workspace.root()));
        }
        if let Err(error) = watchdog.dismiss() {
            say(&format!("warning: the watchdog did not go: {error}"));
        }
        done.map(|(code, _)| code)
    }

    /// The run under its watchdog: the exit code, and whether it was left with nodes still running. `clean` is filled once
    /// the helper image is known.
    #[expect(clippy::too_many_arguments, reason = "each is one thing that the steps before have made")]
    fn watched(
        &mut self,
        id: &RunId,
        state: &Utf8Path,
        workspace: &Arc<Workspace>,
        docker: &Docker,
        labels: &Labels,
        watchdog: &Watchdog,
        clean: &mut Option<Cleaner>,
    ) -> Result<(u8, bool), Failure> {
        let footing = match self.on_host() {
            true => self.host_footing(workspace, watchdog)?,
            false => self.footing(id, state, workspace, docker, labels, watchdog, clean)?,
        };
        let on_host = footing.host.is_some();

        let publisher = match self.outgoing.take() {
            None => None,
            Some(outgoing) => {
                let folder = workspace.root().join("publish");
                let broker =
                    outgoing.broker(&self.repo, &self.settings, &self.checked.plan, state, &folder)?;
                Some(Arc::new(broker) as Arc<dyn Publisher>)
            }
        };
        self.repo.create_ref(&refs::base(id), &self.base)?;
        let git = self.repo.context(&workspace.git())?;
        let mirror = Mirror::open_or_create(&git, &state.join("mirror.git"), self.repo.format())?;
        let mut store = Store::open(state)?;
        match &self.goes_on {
            None => store
                .run_started(&self.start_row(id, labels))
                .map_err(|error| Failure::infrastructure(error.to_string()))?,
            Some(goes_on) => goes_on.reopen(&mut store, &labels.owner)?,
        }

        let credentials: HashMap<EnvName, OsString> = self
            .resolved
            .iter()
            .flat_map(|node| node.credentials.iter())
            .filter_map(|(name, _)| Some((name.clone(), std::env::var_os(name.as_str())?)))
            .collect();
        let masker =
            Masker::new(credentials.iter().map(|(name, value)| (name.to_string(), value.as_encoded_bytes())));
        let engine = Engine(Arc::new(Contained {
            docker: docker.clone(),
            events: footing.events,
            labels: labels.clone(),
            collector: footing.collector,
            repo: self.repo.clone(),
            mirror,
            workspace: Arc::clone(workspace),
            access: footing.access,
            credentials,
            register: footing.register,
            artifact_limits: self.settings.sandbox.artifact_limits(),
            checkout_max: self.settings.sandbox.checkout_max.bytes(),
            limits: self.settings.policy.limits(),
            shape: self.settings.checkout.shape(),
            depth: self.settings.checkout.depth,
            host: footing.host,
            controls: Mutex::default(),
        }));
        let executor: Arc<dyn Executor> = match on_host {
            true => Arc::new(Host(engine.clone())),
            false => Arc::new(engine.clone()),
        };
        // On the host every field is a gap, and that is what the user asked for in so many words.
        if let Some(gap) = executor.caps().gaps().next().filter(|_| !on_host) {
            return Err(Failure::infrastructure(format!("the engine cannot enforce `{gap}`")));
        }
        let shelf = Files { state: state.to_owned(), masker: Arc::new(masker) };
        let run = Run {
            id: id.clone(),
            plan: &self.checked.plan,
            dag: &self.checked.dag,
            base: self.base.clone(),
            nodes: preflight::setups(&self.resolved, &self.settings.sandbox),
            active: self.active.clone(),
            jobs: self.jobs,
            fail_fast: self.options.fail_fast,
            limits: self.settings.sandbox.limits(footing.cpus),
            log_max: self.settings.sandbox.log_max.bytes(),
            grace: Duration::from_secs(self.settings.sandbox.stop_grace),
            backoff: BACKOFF,
            max_wait: self.options.max_wait.or(in_ci().then_some(CI_WAIT)),
            network: self.network(),
            warnings: self.warnings.clone(),
            publisher: publisher.map(|publisher| self.going(publisher, &store)).transpose()?,
            past: self.goes_on.as_ref().map(|goes_on| goes_on.past.clone()),
        };
        if self.options.format == Format::Human {
            if !self.settings.from_repository.is_empty() {
                let images = self.settings.from_repository.join(", ");
                say(&format!("this repository's {REPOSITORY_FILE} chooses images: {images}"));
            }
            if !self.settings.allow_from_repository.is_empty() {
                let hosts = self.settings.allow_from_repository.join(", ");
                say(&format!("this repository's {REPOSITORY_FILE} lets agents reach: {hosts}"));
            }
            let gates = implied(&self.checked.plan, &self.checked.dag, &self.active);
            if !gates.is_empty() {
                say(&format!("implied gates:\n{gates}"));
            }
        }
        let mut reporter = Reporting(match self.options.format {
            Format::Json => Box::new(report::Jsonl::new(std::io::stdout())),
            Format::Human => report::for_people(in_ci()),
        });
        let ended = run::drive(&run, executor, Arc::new(shelf), &mut store, &mut reporter)
            .map_err(|error| Failure::infrastructure(format!("the run could not go on: {error}")))?;
        engine.0.events.close();
        reporter.0.finish();
        if let Some(error) = &ended.broken {
            say(&format!(
                "error: {error}\n  help: is the disk full? what ran is stopped; commits so far are in refs/kew/{id}/"
            ));
        }
        if self.options.format == Format::Human {
            self.summary(&store, id, state, &ended);
        }
        Ok((ended.status.exit_code(), ended.left))
    }

    /// Publishing, with what a run that goes on has done of it.
    fn going(&self, publisher: Arc<dyn Publisher>, store: &Store) -> Result<Going, Failure> {
        let Some(goes_on) = &self.goes_on else { return Ok(Going::new(publisher)) };
        let detail = store.run(goes_on.run.as_str())?;
        let before = frozen_run::standings(&self.checked.plan, &detail);
        let out = frozen_run::out(&self.checked.plan, &detail, &publisher.remote());
        Ok(Going { publisher, before, out })
    }

    fn summary(&self, store: &Store, id: &RunId, state: &Utf8Path, ended: &Ended) {
        match store.run(id.as_str()) {
            Ok(detail) => {
                let (head, rows) = report::summary::of(&detail, state);
                put(&report::summary::summary(&head, &rows));
            }
            Err(error) => say(&format!(
                "warning: the summary could not be read: {error}; the run is `{}`",
                ended.status.word()
            )),
        }
    }

    /// Files that root made in somebody else's repository become that person's again.
    fn give_state_back(&self, state: &Utf8Path) {
        let owner = self.repo.owner();
        let root = rustix::process::geteuid().is_root();
        if root && owner.uid != 0 && state.starts_with(self.repo.common_dir()) {
            let _ = grant(state, Access::Owner(owner));
        }
    }
}

/// Events of a run to whoever shows them.
struct Reporting(Box<dyn report::Reporter>);

impl Observer for Reporting {
    fn event(&mut self, event: &crate::event::Stamped) {
        self.0.event(event);
    }

    fn tick(&mut self, unix_ms: i64) {
        self.0.tick(unix_ms);
    }
}

/// Which nodes run: all, or the named ones with all that they need and all that gates them.
fn active(checked: &setting::Checked, only: &[String]) -> Result<Vec<bool>, Failure> {
    let nodes = &checked.plan.nodes;
    if only.is_empty() {
        return Ok(vec![true; nodes.len()]);
    }
    let mut wanted = Vec::new();
    for name in only {
        match nodes.iter().position(|node| node.id.as_str() == name) {
            Some(node) => wanted.push(node),
            None => {
                let guess = text::did_you_mean(name, nodes.iter().map(|node| node.id.as_str()));
                let guess = guess.map(|id| format!("; did you mean `{id}`?")).unwrap_or_default();
                return Err(Failure::usage(format!("`--only {name}`: the plan has no such node{guess}")));
            }
        }
    }
    let mut active = vec![false; nodes.len()];
    for node in checked.dag.closure_for_only(&wanted) {
        active[node] = true;
    }
    Ok(active)
}

fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty())
}

/// UTC start time and a random tail: sorts by time.
fn run_id() -> Result<RunId, Failure> {
    let now = jiff::Timestamp::now().strftime("%Y%m%d-%H%M%S");
    RunId::new(format!("{now}-{}", fresh(3)))
        .map_err(|error| Failure::infrastructure(format!("the run's id {error}")))
}
