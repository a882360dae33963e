//! Finds the engine's endpoint: `DOCKER_HOST`, else the user's docker context; only unix sockets are taken.
//!
//! Resolved once per run, since every later client runs with an empty configuration and must reach the same engine.

use std::{ffi::OsString, time::Duration};

use crate::process::query::{Query, QueryError};

/// Why there is no endpoint.
#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    /// The docker client could not be asked.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The user's context could not be read.
    #[error("the docker context could not be resolved: {0}")]
    Context(String),
    /// Not a unix socket.
    #[error(
        "the docker endpoint `{0}` is not a unix socket; tcp and ssh engines are not supported, as the checkout must be on the engine's own disk"
    )]
    NotLocal(String),
}

/// The endpoint, `unix://…`. `env` looks variables up in the user's environment.
pub fn endpoint(env: impl Fn(&str) -> Option<OsString>) -> Result<String, ContextError> {
    let host = match env("DOCKER_HOST").filter(|host| !host.is_empty()) {
        Some(host) => host.to_string_lossy().into_owned(),
        None => from_context(&env)?,
    };
    if host.starts_with("unix:///") { Ok(host) } else { Err(ContextError::NotLocal(host)) }
}

fn from_context(env: impl Fn(&str) -> Option<OsString>) -> Result<String, ContextError> {
    let mut query = Query::new("docker").deadline(Duration::from_secs(30));
    for name in ["PATH", "HOME", "DOCKER_CONTEXT", "DOCKER_CONFIG", "XDG_RUNTIME_DIR"] {
        if let Some(value) = env(name) {
            query = query.env(name, value);
        }
    }
    let answer = query.args(["context", "inspect", "--format", "{{.Endpoints.docker.Host}}"]).run()?;
    if answer.ok() { Ok(answer.text()) } else { Err(ContextError::Context(answer.stderr)) }
}
