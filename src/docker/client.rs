//! Short docker commands against one engine: inspect, list, stop, remove.
//!
//! The client runs with a cleared environment: PATH, HOME, the endpoint, an empty configuration folder, and what a
//! caller adds by name. So neither the user's proxies nor other credentials ride along.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use crate::process::query::{Answer, Query, QueryError};

/// One engine, reached through the docker CLI.
#[derive(Debug, Clone)]
pub struct Docker {
    host: String,
    config: PathBuf,
    path: OsString,
}

/// Why a docker command did not do its work.
#[derive(Debug, thiserror::Error)]
pub enum DockerError {
    /// The client gave no answer.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The client or the engine refused.
    #[error("`docker {what}` failed: {stderr}")]
    Refused {
        /// The command's first words.
        what: String,
        /// What it said.
        stderr: String,
    },
    /// The answer could not be read.
    #[error("`docker {what}` gave an answer that kew cannot read: {detail}")]
    Answer {
        /// The command's first words.
        what: String,
        /// What was wrong with it.
        detail: String,
    },
}

impl Docker {
    /// `host`: a `unix://` endpoint. `config`: an empty folder.
    pub fn new(host: impl Into<String>, config: impl Into<PathBuf>) -> Self {
        Self { host: host.into(), config: config.into(), path: std::env::var_os("PATH").unwrap_or_default() }
    }

    /// The endpoint.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The folder that stands in for the user's docker configuration.
    pub fn config(&self) -> &std::path::Path {
        &self.config
    }

    /// The whole environment of every docker client.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        vec![
            ("PATH".into(), self.path.clone()),
            ("HOME".into(), self.config.clone().into()),
            ("DOCKER_HOST".into(), self.host.clone().into()),
            ("DOCKER_CONFIG".into(), self.config.clone().into()),
        ]
    }

    /// A short command, not yet run.
    pub fn query<A: Into<OsString>>(&self, args: impl IntoIterator<Item = A>) -> Query {
        self.env()
            .into_iter()
            .fold(Query::new("docker"), |query, (name, value)| query.env(name, value))
            .args(args)
    }

    /// Runs a short command that must succeed; gives its stdout.
    pub fn ask(&self, args: &[&str]) -> Result<String, DockerError> {
        let answer = self.query(args.iter().copied()).deadline(Duration::from_secs(60)).run()?;
        if answer.ok() {
            return Ok(answer.text());
        }
        Err(refused(args, &answer))
    }

    /// The id of a local image, or `None` if there is none of that name.
    pub fn image_id(&self, image: &str) -> Result<Option<String>, DockerError> {
        let args = ["image", "inspect", "--format", "{{.Id}}", "--", image];
        let answer = self.query(args).deadline(Duration::from_secs(60)).run()?;
        if answer.ok() {
            return Ok(Some(answer.text()));
        }
        if answer.stderr.to_lowercase().contains("no such image") {
            return Ok(None);
        }
        Err(refused(&args, &answer))
    }

    /// The engine's own time, in unix seconds with fraction, as `docker events --since` takes it.
    pub fn engine(&self) -> Result<Engine, DockerError> {
        let text = self.ask(&["info", "--format", "{{json .}}"])?;
        let bad = |detail: String| DockerError::Answer { what: "info".into(), detail };
        let info: Info = serde_json::from_str(&text).map_err(|error| bad(error.to_string()))?;
        if info.server_version.is_empty() {
            return Err(bad(info.server_errors.join("; ")));
        }
        Ok(Engine {
            version: info.server_version,
            cpus: info.ncpu,
            time: info.system_time,
            rootless: info.security_options.iter().flatten().any(|option| option.contains("name=rootless")),
            desktop: info.operating_system == "Docker Desktop",
        })
    }

    /// Ids of all containers, running or not, that carry this label.
    pub fn containers(&self, label: &str) -> Result<Vec<String>, DockerError> {
        let filter = format!("label={label}");
        let text = self.ask(&["ps", "--all", "--quiet", "--no-trunc", "--filter", &filter])?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Removes a container, running or not. True if it is known to be gone.
    pub fn remove(&self, container: &str) -> Result<bool, DockerError> {
        let answer =
            self.query(["rm", "--force", "--volumes", container]).deadline(Duration::from_secs(60)).run()?;
        Ok(answer.ok() || answer.stderr.to_lowercase().contains("no such container"))
    }

    /// Sends a signal to a container's first process. True if the engine took it.
    pub fn signal(&self, container: &str, signal: &str) -> Result<bool, DockerError> {
        Ok(self.query(["kill", "--signal", signal, container]).deadline(Duration::from_secs(30)).run()?.ok())
    }

    /// SIGTERM, then SIGKILL after `grace`. True if the engine took it.
    pub fn stop(&self, container: &str, grace: Duration) -> Result<bool, DockerError> {
        let seconds = grace.as_secs().to_string();
        let deadline = grace + Duration::from_secs(60);
        Ok(self.query(["stop", "--time", seconds.as_str(), container]).deadline(deadline).run()?.ok())
    }

    /// Whether a container of that name or id exists, in any state.
    pub fn exists(&self, container: &str) -> Result<bool, DockerError> {
        let args = ["container", "inspect", "--format", "{{.Id}}", container];
        let answer = self.query(args).deadline(Duration::from_secs(60)).run()?;
        if answer.ok() {
            return Ok(true);
        }
        if answer.stderr.to_lowercase().contains("no such container") {
            return Ok(false);
        }
        Err(refused(&args, &answer))
    }
}

/// What is known of the engine.
#[derive(Debug, Clone)]
pub struct Engine {
    /// Its version.
    pub version: String,
    /// CPUs that it may use.
    pub cpus: u32,
    /// Its clock, RFC 3339.
    pub time: String,
    /// It runs without root's rights.
    pub rootless: bool,
    /// It runs in a virtual machine of Docker Desktop.
    pub desktop: bool,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Info {
    #[serde(default)]
    server_version: String,
    #[serde(default)]
    server_errors: Vec<String>,
    #[serde(default, rename = "NCPU")]
    ncpu: u32,
    #[serde(default)]
    system_time: String,
    #[serde(default)]
    security_options: Option<Vec<String>>,
    #[serde(default)]
    operating_system: String,
}

fn refused(args: &[&str], answer: &Answer) -> DockerError {
    let what = args.iter().take(2).copied().collect::<Vec<_>>().join(" ");
    DockerError::Refused { what, stderr: answer.stderr.clone() }
}
