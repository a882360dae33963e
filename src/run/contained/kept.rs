//! Two steps after an attempt's end, each in a sealed container of its own and only where it is needed: what matches the
//! node's patterns is stored, and what did not pass is kept under a ref of its own.
//!
//! It decides nothing. Invariant: both read the checkout, neither writes in it, and neither runs beside the agent.

use std::{fs, io::BufReader, time::Duration};

use camino::{Utf8Path, Utf8PathBuf};

use super::{contest::Contest, lock, of_collect, of_docker, of_git};
use crate::{
    contract::MOUNT_POINT,
    docker::sealed::{Access, Sealed, run_sealed},
    git::{
        artifacts::{self, ArtifactFault},
        collect::script_fault,
        keep,
        land::land,
        refs,
    },
    process::query::Answer,
    run::{
        executor::{Artifacts, LeftBehind, StopHow, Trouble},
        ledger::AttemptShelf,
    },
    text::plural,
    units::show_size,
};

/// How long packing may take.
const PACK: Duration = Duration::from_secs(900);

impl Contest {
    /// Stores the artifacts.
    pub(super) fn bring_artifacts(&self, into: &mut dyn AttemptShelf) -> Result<Artifacts, Trouble> {
        let (patterns, limits) = (&self.spec.artifacts, &self.shared.artifact_limits);
        let answer = Scratch::new(self, "artifacts");
        let args = artifacts::script_args(patterns, limits, MOUNT_POINT);
        let done = self.read_sealed("artifacts", Access::Read, artifacts::SCRIPT, &args, &answer.0)?;
        of_status(&done, |code| artifacts::script_fault(code, &done.stderr).map(of_artifacts))?;
        let file = fs::File::open(&answer.0).map_err(|error| unwritten(&answer.0, &error))?;
        let mut store = |path: &str, executable: bool, content: &mut dyn std::io::Read| {
            into.artifact(path, executable, content)
        };
        let packed = artifacts::unpack(&mut BufReader::new(file), patterns, limits, &mut store);
        let packed = packed.map_err(of_artifacts)?;
        let unmatched = patterns.iter().zip(&packed.matched).filter(|(_, matched)| !**matched);
        Ok(Artifacts {
            unmatched: unmatched.map(|(pattern, _)| pattern.clone()).collect(),
            files: packed.files,
            left_out: packed.left_out,
        })
    }

    /// Keeps what is there as a commit, unless it is what came home anyway, or somebody cannot wait.
    pub(super) fn keep_left(&self) -> Result<LeftBehind, Trouble> {
        if *lock(&self.control.stop) == Some(StopHow::Now) {
            return Err(Trouble::Stopped);
        }
        let shared = &self.shared;
        let limits = keep::limits(&shared.limits);
        let branch = refs::branch(&self.spec.epic, &self.spec.key.node);
        let answer = Scratch::new(self, "keep");
        let quarantine = Scratch::new(self, "kept");
        let args = keep::script_args(&self.input, &branch, &self.spec.key, &limits);
        let done = self.read_sealed("keep", Access::Keep, keep::SCRIPT, &args, &answer.0)?;
        of_status(&done, |code| script_fault(code, &done.stderr).map(of_collect))?;
        let left = keep::accept(&answer.0, &shared.mirror, &quarantine.0, &self.input, &limits);
        let left = left.map_err(of_collect)?;
        let mut notes = Vec::new();
        if left.large > 0 {
            notes.push(format!(
                "its unfinished work is kept without {} larger than {}: {}",
                plural(left.large as usize, "file"),
                show_size(limits.object_bytes),
                crate::text::short_list(&left.large_paths, 5),
            ));
        }
        let Some(head) = left.head.filter(|head| self.landed.as_ref() != Some(head)) else {
            return Ok(LeftBehind { notes, ..LeftBehind::default() });
        };
        let name = refs::wip(&self.spec.key);
        land(&shared.repo, &shared.mirror, &quarantine.0, &self.input, &head, &name).map_err(of_git)?;
        Ok(LeftBehind { head: Some(head), git_ref: Some(name.to_string()), notes })
    }

    /// Runs a script in a sealed container over the checkout; its stdout goes to `answer`.
    fn read_sealed(
        &self,
        what: &str,
        access: Access,
        script: &str,
        args: &[String],
        answer: &Utf8Path,
    ) -> Result<Answer, Trouble> {
        let shared = &self.shared;
        let file = fs::File::create(answer).map_err(|error| unwritten(answer, &error))?;
        let name = format!("{}-{what}", self.spec.container);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let sealed = Sealed {
            name: &name,
            labels: &shared.labels_of(&self.spec.key),
            image: &shared.collector,
            folder: self.folder.as_str(),
            access,
            script,
            args: &args,
        };
        *lock(&self.control.collecting) = Some(name.clone());
        let done = run_sealed(&shared.docker, &sealed, Some(file), PACK).map_err(of_docker);
        *lock(&self.control.collecting) = None;
        done
    }
}

/// A file or folder beside the attempt's quarantine, gone when it is dropped.
struct Scratch(Utf8PathBuf);

impl Scratch {
    fn new(contest: &Contest, what: &str) -> Self {
        Self(contest.shared.workspace.quarantine(&format!("{}.{what}", contest.spec.container)))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Nothing, if the script ended well; else what its status means.
fn of_status(done: &Answer, meaning: impl FnOnce(i32) -> Option<Trouble>) -> Result<(), Trouble> {
    match done.code {
        Some(0) => Ok(()),
        Some(code) => Err(meaning(code).unwrap_or_else(|| {
            Trouble::Infrastructure(format!("packing failed with exit status {code}: {}", done.stderr))
        })),
        None => Err(Trouble::Infrastructure("packing was ended by a signal".to_owned())),
    }
}

fn of_artifacts(fault: ArtifactFault) -> Trouble {
    match fault {
        ArtifactFault::Io(error) => Trouble::Infrastructure(error.to_string()),
        fault => Trouble::Failed(fault.to_string()),
    }
}

fn unwritten(path: &Utf8Path, error: &std::io::Error) -> Trouble {
    Trouble::Infrastructure(format!("`{path}` could not be used: {error}"))
}
