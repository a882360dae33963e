//! Removing what runs left: folders of which an agent's user owns a part, and all of a dead run.
//!
//! Invariant: only what the free lock of a run of this very state folder proves to be dead is touched.

use std::time::Duration;

use camino::{Utf8Path, Utf8PathBuf};

use crate::{
    cli::say,
    docker::{
        argv::Labels,
        client::{Docker, DockerError},
        sealed::{Access as SealedAccess, Sealed, run_sealed},
    },
    error::Failure,
    name::RunId,
    run::fresh,
    store::lock::{RunLock, lock_path, locks_dir},
    text, workspace,
};

/// Removes what it can, without following a link. On an engine with user namespaces, root in the container has no say over
/// what this user made and an agent moved into a closed or sticky folder of its own: so folders that are still there are
/// opened, and what remains then is this user's to remove.
const EMPTY: &str = "find /work -mindepth 1 -depth -delete 2>/dev/null || \
    { find /work -mindepth 1 -type d -execdir chmod 0777 {} + 2>/dev/null; find /work -mindepth 1 -depth -delete; }";

/// Empties folders of which an agent's user owns a part, by a container that may.
pub(super) struct Cleaner {
    pub docker: Docker,
    pub labels: Labels,
    pub collector: String,
}

impl Cleaner {
    /// Removes all that is in `folder`.
    pub fn empty(&self, folder: &Utf8Path) {
        let name = format!("kew-{}-clean-{}", self.labels.run, fresh(4));
        let labels = Labels { node: "clean".to_owned(), ..self.labels.clone() };
        let sealed = Sealed {
            name: &name,
            labels: &labels,
            image: &self.collector,
            folder: folder.as_str(),
            access: SealedAccess::Clean,
            script: EMPTY,
            args: &[],
        };
        // What remains is found by the removal that follows, which is reported.
        let _ = run_sealed(&self.docker, &sealed, None, Duration::from_secs(600));
    }
}

/// Removes what runs of this state folder left whose kew is dead: their lock is free.
pub(super) fn reap(checkout_dir: Option<&Utf8Path>, state: &Utf8Path, clean: &Cleaner) {
    let folder = checkout_dir.map(Utf8Path::to_owned);
    let folder = folder.or_else(|| Utf8PathBuf::from_path_buf(std::env::temp_dir()).ok());
    let ours = locks_dir(state);
    let free =
        |lock: &Utf8Path| lock.parent() == Some(&*ours) && crate::store::lock::is_free(lock).unwrap_or(false);
    let dead = folder.map(|folder| workspace::dead(&folder, free)).unwrap_or_default();
    for (workspace, lock) in dead {
        let Ok(Some(lock)) = RunLock::try_take(&lock) else { continue };
        let run = lock.path().file_name().unwrap_or_default().to_owned();
        let label = format!("kew.run={run}");
        let Ok(containers) = of_this_state(&clean.docker, &clean.labels.state, &label) else { continue };
        let gone = containers.iter().all(|container| clean.docker.remove(container).unwrap_or(false));
        if gone && workspace::remove_dead(&workspace, |folder| clean.empty(folder)).is_ok() {
            say(&format!(
                "removed what the dead run {run} left: `{workspace}` and {}",
                text::plural(containers.len(), "container")
            ));
            let _ = lock.remove();
        }
    }
}

/// Removes what the kew that carried this very run out before left. This one holds the run's lock, so that one is dead.
pub(super) fn leftovers_of(
    run: &RunId,
    checkout_dir: Option<&Utf8Path>,
    state: &Utf8Path,
    own: &Utf8Path,
    clean: &Cleaner,
) -> Result<(), Failure> {
    let own_containers = clean.docker.containers(&format!("kew.owner={}", clean.labels.owner))?;
    for container in of_this_state(&clean.docker, &clean.labels.state, &format!("kew.run={run}"))? {
        if !own_containers.contains(&container) && !clean.docker.remove(&container)? {
            return Err(Failure::infrastructure(format!(
                "the container `{container}`, which the run left before, could not be removed"
            )));
        }
    }
    let folder = checkout_dir.map(Utf8Path::to_owned);
    let folder = folder.or_else(|| Utf8PathBuf::from_path_buf(std::env::temp_dir()).ok());
    let lock = lock_path(state, run);
    let dead = folder.map(|folder| workspace::dead(&folder, |found| found == lock)).unwrap_or_default();
    for (workspace, _) in dead.into_iter().filter(|(workspace, _)| workspace != own) {
        if workspace::remove_dead(&workspace, |folder| clean.empty(folder)).is_err() {
            say(&format!(
                "warning: the folder `{workspace}`, which the run left before, could not be removed"
            ));
        }
    }
    Ok(())
}

/// Containers of this very state folder with a label: another's may carry the same one.
fn of_this_state(docker: &Docker, state: &str, label: &str) -> Result<Vec<String>, DockerError> {
    let of_state = docker.containers(&format!("kew.state={state}"))?;
    Ok(docker.containers(label)?.into_iter().filter(|id| of_state.contains(id)).collect())
}
