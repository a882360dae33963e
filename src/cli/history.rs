//! `kew runs`, `kew show`, `kew logs`: what the state says of past and present runs. Reads only.

use std::fs;

use camino::{Utf8Path, Utf8PathBuf};

use super::{LogsArgs, RepoArgs, ShowArgs, put, setting};
use crate::{
    error::Failure,
    git::base::UserRepo,
    name::{AttemptKey, NodeId, RunId},
    report::{
        logs::{self, LogForm},
        runs as table, show as story,
    },
    run::unix_ms,
    store::{
        AttemptFiles, NodeDetail, RunDetail, Store,
        lock::{is_free, lock_path},
    },
    text,
};

/// Lists the runs.
pub fn runs(args: &RepoArgs) -> Result<u8, Failure> {
    let state = state_dir(args.repo.as_deref())?;
    match Store::open_existing(&state)? {
        Some(store) => put(&table::runs(&store.runs()?, unix_ms(), &|run| alive(&state, run))),
        None => put("no runs yet\n"),
    }
    Ok(0)
}

/// Shows one run.
pub fn show(args: &ShowArgs) -> Result<u8, Failure> {
    let state = state_dir(args.repo.repo.as_deref())?;
    let detail = existing(&state)?.run(&args.run)?;
    put(&story::show(&detail, &state, alive(&state, &detail.start.run)));
    Ok(0)
}

/// Prints the log of one attempt.
pub fn logs(args: &LogsArgs) -> Result<u8, Failure> {
    let state = state_dir(args.repo.repo.as_deref())?;
    let detail = existing(&state)?.run(&args.run)?;
    let node = find_node(&detail, &args.node)?;
    let attempt = args.attempt.unwrap_or(node.attempt);
    if attempt == 0 || attempt > node.attempt {
        return Err(Failure::usage(match node.attempt {
            0 => format!("the node `{}` never ran", node.node),
            last => format!("the node `{}` has no attempt {attempt}; its last is {last}", node.node),
        }));
    }
    let key = AttemptKey { run: detail.start.run.clone(), node: node.node.clone(), attempt };
    let files = AttemptFiles::new(&state, &key);
    let path = if args.stderr { files.stderr() } else { files.stdout() };
    let file = fs::File::open(&path)
        .map_err(|error| Failure::infrastructure(format!("the log `{path}` could not be read: {error}")))?;
    // A reader that went away is no error.
    let form = if args.raw { LogForm::Raw } else { LogForm::Readable };
    let _ = logs::logs(&mut std::io::BufReader::new(file), &mut std::io::stdout().lock(), form);
    Ok(0)
}

/// The node of that name.
pub(super) fn find_node<'r>(detail: &'r RunDetail, name: &str) -> Result<&'r NodeDetail, Failure> {
    let node = NodeId::new(name).ok().and_then(|id| detail.node(&id));
    node.ok_or_else(|| {
        let guess = text::did_you_mean(name, detail.nodes.iter().map(|node| node.node.as_str()));
        let guess = guess.map(|id| format!("; did you mean `{id}`?")).unwrap_or_default();
        let (run, name) = (&detail.start.run, name.escape_default());
        Failure::usage(format!("the run `{run}` has no node `{name}`{guess}"))
    })
}

/// Whether somebody carries the run out right now: its lock is there and not free.
fn alive(state: &Utf8Path, run: &RunId) -> bool {
    let path = lock_path(state, run);
    path.exists() && !is_free(&path).unwrap_or(false)
}

pub(super) fn existing(state: &Utf8Path) -> Result<Store, Failure> {
    Store::open_existing(state)?
        .ok_or_else(|| Failure::usage("this repository has no runs yet").help("`kew run PLAN` starts one"))
}

pub(super) fn state_dir(repo: Option<&Utf8Path>) -> Result<Utf8PathBuf, Failure> {
    let settings = setting::settings(setting::work_tree(repo)?.as_deref())?;
    match settings.state.dir {
        Some(dir) => Ok(dir),
        None => Ok(UserRepo::open(repo)?.state_dir()),
    }
}
