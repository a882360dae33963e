//! Builds images from the recipes in this binary: on the pinned base, or on a project's own image.
//!
//! The only place where anything is pulled, and only a base. Nothing of the user's gets into a build context but the
//! certificates that they name; these stay in a stage that is thrown away.

use std::{fs, io, time::Duration};

use camino::Utf8Path;

use super::{
    client::{Docker, DockerError},
    recipes::{INPUTS_LABEL, Recipe},
};
use crate::{
    contract::{AGENT_GID, AGENT_UID},
    process::query::{Answer, QueryError},
};

/// A build may download some hundred MB.
const BUILD: Duration = Duration::from_secs(3600);

/// What a machine without a registry may have instead of the pinned base; `docker/setup.sh` makes it there.
const LOCAL_BASE: &str = "debian:bookworm-slim";

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The engine said no.
    #[error(transparent)]
    Docker(#[from] DockerError),
    /// No answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// No context.
    #[error("the build context could not be written: {0}")]
    Folder(#[from] io::Error),
    /// No certificates.
    #[error("`--extra-ca {0}`: {1}")]
    ExtraCa(String, io::Error),
    /// The base is not on the engine and could not be pulled.
    #[error("the base image `{image}` is not on the engine and could not be pulled: {said}")]
    Pull {
        /// The image.
        image: String,
        /// The client's last word.
        said: String,
    },
    /// The build failed.
    #[error("building `{image}` failed; the end of its log:\n{log}")]
    Build {
        /// The image.
        image: String,
        /// Its last lines.
        log: String,
    },
    /// An image that no agent can be put on.
    #[error("`{image}` cannot be a base: {why}")]
    Unfit {
        /// The image.
        image: String,
        /// Why.
        why: String,
    },
}

/// An image to build on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Base {
    /// As `FROM` takes it.
    pub reference: String,
    /// Its id.
    pub id: String,
}

/// The base for kew's own images: the one that is asked for, else the pinned one, else what this engine has instead.
/// Pulled if it is not there.
pub fn find_base(docker: &Docker, asked: Option<&str>, pinned: &str) -> Result<Base, BuildError> {
    let wanted = asked.unwrap_or(pinned);
    let here = |reference: &str| -> Result<Option<Base>, BuildError> {
        let id = docker.image_id(reference)?;
        Ok(id.map(|id| Base { reference: reference.to_owned(), id }))
    };
    if let Some(base) = here(wanted)? {
        return Ok(base);
    }
    if asked.is_none()
        && let Some(base) = here(LOCAL_BASE)?
    {
        return Ok(base);
    }
    let answer = docker.query(["pull", "--quiet", wanted]).deadline(Duration::from_secs(600)).run()?;
    let pulled = if answer.ok() { here(wanted)? } else { None };
    pulled.ok_or_else(|| BuildError::Pull {
        image: wanted.to_owned(),
        said: answer.stderr.lines().last().unwrap_or_default().to_owned(),
    })
}

/// What an image was made of, if kew or `docker/setup.sh` built it.
pub fn inputs_of(docker: &Docker, image_id: &str) -> Result<Option<String>, DockerError> {
    let format = format!("{{{{index .Config.Labels \"{INPUTS_LABEL}\"}}}}");
    let text = docker.ask(&["image", "inspect", "--format", &format, "--", image_id])?;
    Ok(Some(text).filter(|text| text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())))
}

/// Builds a recipe's image and names it `tag`. `context`: an empty folder. `extra_ca`: certificates for downloads.
pub fn build(
    docker: &Docker,
    recipe: &Recipe,
    base: &Base,
    tag: &str,
    extra_ca: Option<&Utf8Path>,
    context: &Utf8Path,
) -> Result<(), BuildError> {
    recipe.write(context)?;
    if let Some(file) = extra_ca {
        fs::copy(file, context.join("extra-ca.pem"))
            .map_err(|error| BuildError::ExtraCa(file.to_string(), error))?;
    }
    let dockerfile = context.join(recipe.dockerfile);
    let args = [
        "--network".to_owned(),
        "host".to_owned(),
        "--label".to_owned(),
        format!("{INPUTS_LABEL}={}", recipe.inputs(&base.id)),
        "--build-arg".to_owned(),
        format!("BASE_IMAGE={}", base.reference),
        "--tag".to_owned(),
        tag.to_owned(),
        "--file".to_owned(),
        dockerfile.to_string(),
        context.to_string(),
    ];
    // The classic builder is on every engine; the host's network lets downloads take the way that this machine takes.
    let answer = docker.query(["build"]).args(args).env("DOCKER_BUILDKIT", "0").deadline(BUILD).run()?;
    if answer.ok() { Ok(()) } else { Err(failed(tag, &answer)) }
}

/// The last lines of a build.
fn failed(image: &str, answer: &Answer) -> BuildError {
    let log = format!("{}\n{}", answer.text(), answer.stderr);
    let lines: Vec<&str> = log.trim().lines().collect();
    let log = lines[lines.len().saturating_sub(30)..].join("\n");
    BuildError::Build { image: image.to_owned(), log }
}

/// A project's own image as a base: pulled if it is not there, looked at from inside, and given back to root. `name`: of the
/// container that looks. Also gives what it calls itself.
pub fn project_base(docker: &Docker, image: &str, name: &str) -> Result<(Base, String), BuildError> {
    let found = find_base(docker, Some(image), image)?;
    let answer = docker
        .query(["run", "--rm", "--name", name, "--pull", "never", "--network", "none", "--read-only"])
        .args(["--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--user", "0:0"])
        .args(["--entrypoint", "/bin/sh", &found.id, "-c", LOOK])
        .run();
    if answer.is_err() {
        let _ = docker.remove(name);
    }
    let answer = answer?;
    let unfit = |why: String| BuildError::Unfit { image: image.to_owned(), why };
    if !answer.ok() {
        return Err(unfit(format!("no shell starts in it: {}", answer.stderr)));
    }
    let system = judge(&answer.text()).map_err(unfit)?;
    // A recipe's first instructions need root, whatever user the image ends with.
    let dockerfile = format!("FROM {}\nUSER root\n", found.id);
    let query = docker.query(["build", "--quiet", "-"]).env("DOCKER_BUILDKIT", "0");
    let answer = query.stdin_bytes(dockerfile).deadline(BUILD).run()?;
    let id = answer.text();
    if !answer.ok() || !id.starts_with("sha256:") {
        return Err(failed(image, &answer));
    }
    Ok((Base { reference: id.clone(), id }, system))
}

/// What a base must tell of itself.
const LOOK: &str = r#"
cat /etc/os-release 2>/dev/null
echo
command -v apt-get >/dev/null && echo "kew-apt"
while IFS=: read -r name _ id _; do echo "kew-user $name $id"; done </etc/passwd
while IFS=: read -r name _ id _; do echo "kew-group $name $id"; done </etc/group
exit 0
"#;

/// What the base calls itself, if kew's recipes fit on it; else why not.
fn judge(text: &str) -> Result<String, String> {
    let field = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
        Some(line.trim().trim_matches(['"', '\'']).to_owned())
    };
    let id = field("ID").ok_or("it has no /etc/os-release that says what it is")?;
    let name = field("PRETTY_NAME").unwrap_or_else(|| id.clone());
    if !matches!(id.as_str(), "debian" | "ubuntu") {
        return Err(format!("it is `{name}`, neither Debian nor Ubuntu, whose packages the recipes install"));
    }
    if !text.lines().any(|line| line == "kew-apt") {
        return Err("it has no apt-get".to_owned());
    }
    for (kind, number) in [("user", AGENT_UID), ("group", AGENT_GID)] {
        let taken = text.lines().filter_map(|line| line.strip_prefix(&format!("kew-{kind} "))).find(|line| {
            let (name, id) = line.rsplit_once(' ').unwrap_or((line, ""));
            name == "agent" || id == number.to_string()
        });
        if let Some(taken) = taken {
            return Err(format!("it has already a {kind} `{taken}`, but the agent's is `agent {number}`"));
        }
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debian_and_ubuntu_without_a_user_1001_are_bases() {
        let apt = "\nkew-apt\nkew-user root 0\nkew-user node 1000\nkew-group root 0\n";
        let good =
            format!("PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nVERSION_ID=\"12\"\nID=debian\n{apt}");
        assert_eq!(judge(&good).as_deref(), Ok("Debian GNU/Linux 12 (bookworm)"));
        assert!(judge(&format!("ID=\"ubuntu\"\nID_LIKE=debian\n{apt}")).is_ok());
        for (text, says) in [
            (
                format!("ID=alpine\nPRETTY_NAME=\"Alpine Linux v3.22\"\n{apt}"),
                "`Alpine Linux v3.22`, neither",
            ),
            (format!("ID=fedora\nID_LIKE=debian\n{apt}"), "neither Debian nor Ubuntu"),
            (apt.to_owned(), "no /etc/os-release"),
            ("ID=debian\n".to_owned(), "no apt-get"),
            (format!("ID=debian\n{apt}kew-user dev 1001\n"), "already a user `dev 1001`"),
            (format!("ID=debian\n{apt}kew-user agent 999\n"), "already a user `agent 999`"),
            (format!("ID=debian\n{apt}kew-group staff 1001\n"), "already a group `staff 1001`"),
        ] {
            let why = judge(&text).unwrap_err();
            assert!(why.contains(says), "{why}");
        }
    }
}
