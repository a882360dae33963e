//! kew's own small containers: they read or clean a checkout for the host, without network, without capabilities, and
//! with a script that kew passes in. What they print is as untrusted as the checkout that they read.

use std::{fs, time::Duration};

use super::{
    argv::Labels,
    client::{Docker, DockerError},
};
use crate::{
    contract::{AGENT_GID, AGENT_UID, MOUNT_POINT},
    process::query::Answer,
};

/// What a sealed container may do with the folder it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Read it, as the agent's user.
    Read,
    /// Read it, as the agent's user, with room in `/tmp` for as much as is kept of it.
    Keep,
    /// Write in it, as the agent's user.
    Write,
    /// Delete what the agent's user made, as the container's root with the two capabilities that this takes.
    Clean,
}

/// One sealed container.
#[derive(Debug)]
pub struct Sealed<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a Labels,
    /// The collector image's id.
    pub image: &'a str,
    /// The folder on the host.
    pub folder: &'a str,
    /// What it may do there.
    pub access: Access,
    /// The script for `/bin/sh -c`.
    pub script: &'a str,
    /// `$1`, `$2`, …
    pub args: &'a [&'a str],
}

/// The items after `docker`. Pure.
pub fn sealed_argv(sealed: &Sealed<'_>) -> Vec<String> {
    let mut argv: Vec<String> =
        vec!["run".into(), "--rm".into(), "--name".into(), sealed.name.into(), "--init".into()];
    argv.extend(sealed.labels.argv());
    let tmp = if sealed.access == Access::Keep { "/tmp:size=512m" } else { "/tmp:size=64m" };
    argv.extend(["--pull", "never", "--read-only", "--tmpfs", tmp, "--cap-drop", "ALL"].map(String::from));
    if sealed.access == Access::Clean {
        argv.extend(["--cap-add", "DAC_OVERRIDE", "--cap-add", "FOWNER"].map(String::from));
    }
    argv.extend(["--security-opt", "no-new-privileges", "--pids-limit", "64"].map(String::from));
    argv.extend(
        ["--memory", "1g", "--memory-swap", "1g", "--log-driver", "none", "--network", "none"]
            .map(String::from),
    );
    let (user, mode) = match sealed.access {
        Access::Read | Access::Keep => (format!("{AGENT_UID}:{AGENT_GID}"), ":ro"),
        Access::Write => (format!("{AGENT_UID}:{AGENT_GID}"), ""),
        Access::Clean => ("0:0".to_owned(), ""),
    };
    argv.extend(["--user".into(), user, "-v".into(), format!("{}:{MOUNT_POINT}{mode}", sealed.folder)]);
    argv.extend(["-w", "/", "--entrypoint", "/bin/sh"].map(String::from));
    argv.extend([sealed.image, "-c", sealed.script, "kew"].map(String::from));
    argv.extend(sealed.args.iter().map(|arg| (*arg).to_owned()));
    argv
}

/// Runs one to its end; its stdout goes to `stdout` if given. It is removed by name if it does not end by `deadline`.
pub fn run_sealed(
    docker: &Docker,
    sealed: &Sealed<'_>,
    stdout: Option<fs::File>,
    deadline: Duration,
) -> Result<Answer, DockerError> {
    let mut query = docker.query(sealed_argv(sealed)).deadline(deadline);
    if let Some(file) = stdout {
        query = query.stdout_file(file);
    }
    let answer = query.run();
    if answer.is_err() {
        docker.remove(sealed.name)?;
    }
    Ok(answer?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sealed_containers_have_no_network_and_read_only_by_default() {
        let labels =
            Labels { state: "s".into(), owner: "o".into(), run: "r".into(), node: "n".into(), attempt: 1 };
        let argv = |access| {
            sealed_argv(&Sealed {
                name: "kew-x",
                labels: &labels,
                image: "sha256:1",
                folder: "/tmp/k/c",
                access,
                script: "echo",
                args: &["a"],
            })
            .join(" ")
        };
        insta::assert_snapshot!(argv(Access::Read), @"run --rm --name kew-x --init --label kew.state=s --label kew.owner=o --label kew.run=r --label kew.node=n --label kew.attempt=1 --pull never --read-only --tmpfs /tmp:size=64m --cap-drop ALL --security-opt no-new-privileges --pids-limit 64 --memory 1g --memory-swap 1g --log-driver none --network none --user 1001:1001 -v /tmp/k/c:/work:ro -w / --entrypoint /bin/sh sha256:1 -c echo kew a");
        assert!(argv(Access::Write).contains("--user 1001:1001 -v /tmp/k/c:/work -w /"));
        assert_eq!(argv(Access::Keep), argv(Access::Read).replace("size=64m", "size=512m"));
        let clean = argv(Access::Clean);
        assert!(clean.contains(
            "--cap-drop ALL --cap-add DAC_OVERRIDE --cap-add FOWNER --security-opt no-new-privileges"
        ));
        assert!(clean.contains("--user 0:0"));
    }
}
