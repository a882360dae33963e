//! The list of artifacts, for people and for programs. Pure; names are an agent's and inert for people.

use serde::Serialize;

use super::{
    ci::defanged,
    table::{Align, Table},
};
use crate::{name::AttemptKey, record::Artifact, text::inert, units::show_size};

/// One artifact for programs; `v` is its version.
#[derive(Serialize)]
struct Line<'a> {
    v: u32,
    run: &'a str,
    node: &'a str,
    attempt: u32,
    path: &'a str,
    size: u64,
    sha256: &'a str,
}

/// A table with its head.
pub fn table(artifacts: &[(&AttemptKey, &Artifact)]) -> String {
    let mut table = Table::new([
        ("node", Align::Left),
        ("attempt", Align::Right),
        ("size", Align::Right),
        ("path", Align::Left),
    ]);
    for (key, artifact) in artifacts {
        table.row([
            key.node.to_string(),
            key.attempt.to_string(),
            show_size(artifact.size),
            inert(&artifact.path).into_owned(),
        ]);
    }
    table.lines().iter().map(|line| format!("{}\n", defanged(line))).collect()
}

/// One object per line.
pub fn json(artifacts: &[(&AttemptKey, &Artifact)]) -> String {
    let line = |(key, artifact): &(&AttemptKey, &Artifact)| {
        let line = Line {
            v: 1,
            run: key.run.as_str(),
            node: key.node.as_str(),
            attempt: key.attempt,
            path: &artifact.path,
            size: artifact.size,
            sha256: &artifact.sha256,
        };
        format!("{}\n", serde_json::to_string(&line).expect("texts and numbers are JSON"))
    };
    artifacts.iter().map(line).collect()
}
