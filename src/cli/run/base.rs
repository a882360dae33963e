//! The base commit before anything runs: can agents work in its tree, and is there room for their checkouts.
//!
//! An estimate, not a promise: agents write too. Invariant: nothing is written, and the engine is not asked.

use std::os::unix::fs::MetadataExt as _;

use camino::{Utf8Path, Utf8PathBuf};

use crate::{
    config::{Checkout, Settings},
    error::Failure,
    git::{base::UserRepo, tree::Tree},
    name::CommitId,
    text, units,
};

/// Stops where the settings do not take the base's tree. Gives the tree, and what is said of it.
pub(super) fn check_tree(
    repo: &UserRepo,
    base: &CommitId,
    settings: &Checkout,
) -> Result<(Tree, Vec<String>), Failure> {
    let tree = Tree::of_user(repo, base)?;
    let unfit = tree.unfit(settings.shape());
    // What kew alone may use is each node's own matter: it is held.
    let stops: Vec<_> = unfit.iter().filter_map(|unfit| Some((&unfit.what, unfit.remedy?))).collect();
    if !stops.is_empty() {
        let what: Vec<String> =
            stops.iter().map(|(what, _)| format!("the base {} {what}", base.short())).collect();
        let remedies: Vec<&str> = stops.iter().map(|(_, remedy)| *remedy).collect();
        return Err(Failure::usage(what.join("\n       ")).help(remedies.join("\n        ")));
    }
    let mut warnings = Vec::new();
    if !tree.submodules.is_empty() {
        let list = text::short_list(&tree.submodules, 5);
        warnings.push(format!("submodules are empty folders in checkouts: {list}"));
    }
    if !tree.lfs.is_empty() {
        let list = text::short_list(&tree.lfs, 5);
        warnings.push(format!(
            "files of Git LFS are pointers in checkouts, and what an agent writes there is committed as it is ({list})"
        ));
    }
    Ok((tree, warnings))
}

/// What a run writes before its agents do.
pub(super) struct Need<'a> {
    pub repo: &'a UserRepo,
    pub base: &'a CommitId,
    pub tree: &'a Tree,
    pub settings: &'a Settings,
    pub state: &'a Utf8Path,
    /// Nodes of the run.
    pub nodes: usize,
    /// Nodes at once.
    pub jobs: usize,
}

impl Need<'_> {
    /// Stops where so many checkouts as nodes run at once have no room. Checkouts stay until the end of the run: a warning
    /// where there is room for those, but not for one of every node.
    pub(super) fn check_room(&self) -> Result<Option<String>, Failure> {
        let checkouts = match &self.settings.sandbox.checkout_dir {
            Some(dir) => dir.clone(),
            None => Utf8PathBuf::from_path_buf(std::env::temp_dir()).unwrap_or_else(|_| "/tmp".into()),
        };
        // Who cannot say how much is free is told by the first write.
        let (Some(free), Some(state_free)) = (free(&checkouts), free(self.state)) else { return Ok(None) };
        let mut objects = self.repo.object_bytes()?;
        if self.short(objects, free, state_free, &checkouts) {
            // The bound may count what the base does not reach.
            objects = objects.min(self.repo.reached_bytes(self.base)?);
        }
        let (mirror, at_once) = (self.mirror(objects), self.jobs.min(self.nodes).max(1));
        let each = self.each(objects);
        let together = same_disk(&checkouts, self.state);
        if !together && mirror > state_free {
            return Err(Failure::infrastructure(format!(
                "there is no room for the state: the repository's objects need about {} in `{}`, where {} are free",
                units::show_size(mirror),
                self.state,
                units::show_size(state_free)
            ))
            .help("make room there, or set `state.dir` in your own settings file to a folder on a larger disk"));
        }
        let room = free.saturating_sub(if together { mirror } else { 0 });
        let need = |count: usize| each.saturating_mul(count as u64);
        if need(at_once) > room {
            return Err(Failure::infrastructure(format!(
                "there is no room for {}: they need about {}, {} each, and in `{checkouts}` {} are free",
                text::plural(at_once, "checkout"),
                units::show_size(need(at_once)),
                units::show_size(each),
                units::show_size(room)
            ))
            .help(
                "make room there, set `sandbox.checkout_dir` in your own settings file to a folder on a larger disk, or run \
                 fewer nodes at once: `--jobs 1`",
            ));
        }
        Ok((need(self.nodes) > room).then(|| {
            format!(
                "checkouts stay until the end of the run: {} need about {}, and in `{checkouts}` {} are free",
                text::plural(self.nodes, "node"),
                units::show_size(need(self.nodes)),
                units::show_size(room)
            )
        }))
    }

    fn short(&self, objects: u64, free: u64, state_free: u64, checkouts: &Utf8Path) -> bool {
        let mirror = self.mirror(objects);
        let all = self.each(objects).saturating_mul(self.nodes as u64);
        let together = if same_disk(checkouts, self.state) { mirror } else { 0 };
        all.saturating_add(together) > free || mirror > state_free
    }

    /// One checkout: its files and its objects. A cut history has hardly more objects than files.
    fn each(&self, objects: u64) -> u64 {
        let objects =
            if self.settings.checkout.depth.is_some() { objects.min(self.tree.bytes) } else { objects };
        self.tree.bytes.saturating_add(objects)
    }

    /// The mirror is made once.
    fn mirror(&self, objects: u64) -> u64 {
        if self.state.join("mirror.git").exists() { 0 } else { objects }
    }
}

/// What this user may still write where `dir` is or will be.
fn free(dir: &Utf8Path) -> Option<u64> {
    let there = dir.ancestors().find(|dir| dir.exists())?;
    let stat = rustix::fs::statvfs(there.as_std_path()).ok()?;
    Some(stat.f_bavail.saturating_mul(stat.f_frsize))
}

fn same_disk(one: &Utf8Path, other: &Utf8Path) -> bool {
    let disk = |dir: &Utf8Path| {
        let there = dir.ancestors().find(|dir| dir.exists())?;
        std::fs::metadata(there).ok().map(|meta| meta.dev())
    };
    disk(one).is_some() && disk(one) == disk(other)
}
