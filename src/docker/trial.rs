//! Short containers that try an image in the very box that a node gets: the same argv, a folder of their own as the mount.
//!
//! No credential is ever given to one, so that an image that misbehaves costs nothing. The folder and the container are gone
//! when a trial is over.

use std::{fs, io, os::unix::fs::PermissionsExt as _, time::Duration};

use camino::Utf8Path;

use super::{
    argv::{Labels, Limits, Network, RunArgv, build_run_argv},
    client::Docker,
};
use crate::{
    contract::PROMPT_FILENAME,
    process::query::{Answer, QueryError},
};

/// A trial that lasts longer is ended.
const DEADLINE: Duration = Duration::from_secs(120);

/// What trials of one image have in common.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The engine.
    pub docker: &'a Docker,
    /// The bounds of a node.
    pub limits: &'a Limits,
    /// The network of a node.
    pub network: Network,
    /// The address that was leased on the allowlist network, if one was.
    pub address: Option<&'a str>,
    /// The image's id.
    pub image: &'a str,
    /// Where the folder is made; the engine must see it under the same path.
    pub parent: &'a Utf8Path,
}

/// What the container runs.
#[derive(Debug, Clone, Copy)]
pub enum Start<'a> {
    /// The image's own entrypoint, with these arguments.
    Own(&'a [String]),
    /// This script, by the image's `/bin/sh`, with one argument.
    Script(&'a str, &'a str),
}

/// Why there was no trial.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// No folder.
    #[error("`{0}` could not be written: {1}")]
    Folder(String, io::Error),
    /// No answer, or not in time.
    #[error(transparent)]
    Query(#[from] QueryError),
}

impl Trial<'_> {
    /// Runs one container, named `name`, to its end. `prompt`: what the prompt's file holds; `None` = there is no such file.
    pub fn run(&self, name: &str, prompt: Option<&str>, start: Start<'_>) -> Result<Answer, TrialError> {
        let io = |error| TrialError::Folder(self.parent.to_string(), error);
        let folder = tempfile::Builder::new().prefix("kew-trial-").tempdir_in(self.parent).map_err(io)?;
        let root = Utf8Path::from_path(folder.path()).expect("kew's own temporary folder is plain text");
        let work = root.join("work");
        fs::create_dir(&work).map_err(io)?;
        fs::set_permissions(&work, fs::Permissions::from_mode(0o777)).map_err(io)?;
        if let Some(prompt) = prompt {
            let file = work.join(PROMPT_FILENAME);
            fs::write(&file, prompt).map_err(io)?;
            fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).map_err(io)?;
        }
        let answer = self.docker.query(self.argv(name, &work, start)).deadline(DEADLINE).run();
        if answer.is_err() {
            // It ran past its deadline; the container must not.
            let _ = self.docker.remove(name);
        }
        Ok(answer?)
    }

    fn argv(&self, name: &str, work: &Utf8Path, start: Start<'_>) -> Vec<String> {
        let labels = Labels {
            state: "trial".into(),
            owner: name.into(),
            run: name.into(),
            node: "trial".into(),
            attempt: 1,
        };
        let args = match start {
            Start::Own(args) => args.to_vec(),
            Start::Script(script, arg) => ["-c", script, "sh", arg].map(str::to_owned).into(),
        };
        let mut argv = build_run_argv(&RunArgv {
            name,
            labels: &labels,
            limits: self.limits,
            network: self.network,
            address: self.address,
            checkout: work.as_str(),
            credentials: &[],
            image: self.image,
            container_args: &args,
        });
        if let Start::Script(..) = start {
            let image = argv.len() - args.len() - 1;
            argv.splice(image..image, ["--entrypoint".to_owned(), "/bin/sh".to_owned()]);
        }
        argv
    }
}

/// What a container said on stderr, in one line.
pub fn complaint(answer: &Answer) -> String {
    answer.stderr.lines().collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argv_is_a_nodes_but_for_the_entrypoint_and_credentials() {
        let docker = Docker::new("unix:///x", "/x");
        let limits = Limits { pids: 1, memory: 2, cpus: 1.0, tmp_size: 3, home_size: 4, file_size: 5 };
        let trial = Trial {
            docker: &docker,
            limits: &limits,
            network: Network::None,
            address: None,
            image: "sha256:1",
            parent: Utf8Path::new("/tmp"),
        };
        let own = trial.argv("kew-t", Utf8Path::new("/tmp/w"), Start::Own(&["--model".into(), "m".into()]));
        assert!(own.join(" ").ends_with("-v /tmp/w:/work -w /work sha256:1 --model m"));
        assert!(own.join(" ").contains("--read-only") && !own.contains(&"-e".to_owned()));
        let script = trial.argv("kew-t", Utf8Path::new("/tmp/w"), Start::Script("id", "claude"));
        assert!(script.join(" ").ends_with("-w /work --entrypoint /bin/sh sha256:1 -c id sh claude"));
    }
}
