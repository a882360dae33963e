//! `kew artifacts`: lists what attempts left for people, or copies it out. Changes nothing in the state.
//!
//! Names and contents are an agent's; what is copied is what was stored, by its digest. Invariant: no file that is there is
//! written to, and nothing is copied if one is in the way.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
};

use camino::{Utf8Path, Utf8PathBuf};

use super::{
    ArtifactsArgs, Format,
    history::{existing, find_node, state_dir},
    put, say,
};
use crate::{
    digest::Growing,
    error::Failure,
    name::AttemptKey,
    record::Artifact,
    report::artifacts as listing,
    store::{AttemptFiles, RunDetail},
    text::{plural, short_list},
};

/// One artifact, where it is, and where it goes.
struct Copy<'r> {
    key: &'r AttemptKey,
    artifact: &'r Artifact,
    from: Utf8PathBuf,
    to: Utf8PathBuf,
}

/// Lists or copies.
pub fn artifacts(args: &ArtifactsArgs) -> Result<u8, Failure> {
    let state = state_dir(args.repo.repo.as_deref())?;
    let detail = existing(&state)?.run(&args.run)?;
    if let Some(name) = &args.node {
        find_node(&detail, name)?;
    }
    let found = chosen(&detail, args);
    let Some(dir) = &args.output else {
        put(&match args.format {
            Format::Human if found.is_empty() => "no artifacts\n".to_owned(),
            Format::Human => listing::table(&found),
            Format::Json => listing::json(&found),
        });
        return Ok(0);
    };
    let copies: Vec<Copy<'_>> = found
        .into_iter()
        .map(|(key, artifact)| {
            let folder = if args.all {
                dir.join(key.node.as_str()).join(key.attempt.to_string())
            } else {
                dir.join(key.node.as_str())
            };
            let from = AttemptFiles::new(&state, key).artifacts().join(&artifact.path);
            Copy { key, artifact, from, to: folder.join(&artifact.path) }
        })
        .collect();
    refuse_odd(&copies)?;
    refuse_taken(&copies)?;
    for copy in &copies {
        copy_out(copy)?;
    }
    say(&format!("{} copied to {dir}", plural(copies.len(), "artifact")));
    Ok(0)
}

fn chosen<'r>(detail: &'r RunDetail, args: &ArtifactsArgs) -> Vec<(&'r AttemptKey, &'r Artifact)> {
    let nodes =
        detail.nodes.iter().filter(|node| args.node.as_ref().is_none_or(|name| name == node.node.as_str()));
    let attempts = nodes.flat_map(|node| {
        let skip = if args.all { 0 } else { node.attempts.len().saturating_sub(1) };
        &node.attempts[skip..]
    });
    attempts
        .flat_map(|attempt| attempt.kept.artifacts.iter().map(|artifact| (&attempt.start.key, artifact)))
        .collect()
}

/// The state is kew's own, but a path from it is about to be joined to a folder of the user's.
fn refuse_odd(copies: &[Copy<'_>]) -> Result<(), Failure> {
    let odd =
        copies.iter().find(|copy| copy.artifact.path.split('/').any(|part| matches!(part, "" | "." | "..")));
    odd.map_or(Ok(()), |copy| {
        let path = copy.artifact.path.escape_debug();
        Err(Failure::infrastructure(format!("the state is damaged: `{path}` is no path of an artifact")))
    })
}

fn refuse_taken(copies: &[Copy<'_>]) -> Result<(), Failure> {
    let taken: Vec<String> = copies
        .iter()
        .filter(|copy| fs::symlink_metadata(&copy.to).is_ok())
        .map(|copy| copy.to.as_str().escape_debug().to_string())
        .collect();
    if taken.is_empty() {
        return Ok(());
    }
    let message = format!("nothing was copied: there is already {}", short_list(&taken, 5));
    Err(Failure::usage(message).help("choose an empty folder; nothing is overwritten"))
}

fn copy_out(copy: &Copy<'_>) -> Result<(), Failure> {
    let shown = copy.to.as_str().escape_debug().to_string();
    let cannot = |what: &str, error: &io::Error| {
        Failure::infrastructure(format!("`{shown}` could not be {what}: {error}"))
    };
    let mut source = open(&copy.from).map_err(|error| cannot("read from the state", &error))?;
    let mode = source.metadata().map_err(|error| cannot("read from the state", &error))?.mode() & 0o755;
    if let Some(parent) = copy.to.parent() {
        fs::create_dir_all(parent).map_err(|error| cannot("made", &error))?;
    }
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(mode | 0o600).open(&copy.to);
    let mut target = made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Failure::usage(format!("there is already `{shown}`")).help("nothing is overwritten")
        }
        _ => cannot("made", &error),
    })?;
    let copied = pour(&mut source, &mut target);
    let digest =
        copied.inspect_err(|_| drop(fs::remove_file(&copy.to))).map_err(|e| cannot("written", &e))?;
    if digest == copy.artifact.sha256 {
        return Ok(());
    }
    drop(fs::remove_file(&copy.to));
    Err(Failure::infrastructure(format!(
        "an artifact of `{}` is not what was stored: `{shown}` is left out",
        copy.key
    ))
    .help("something else changed the state's folder"))
}

fn open(path: &Utf8Path) -> io::Result<fs::File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    fs::OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Copies everything; the digest of it.
fn pour(source: &mut fs::File, target: &mut fs::File) -> io::Result<String> {
    let mut digest = Growing::default();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            return Ok(digest.hex());
        }
        digest.update(&buffer[..read]);
        target.write_all(&buffer[..read])?;
    }
}
