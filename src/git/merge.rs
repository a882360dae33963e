//! The merge of several results into the input of a node, made in the mirror without a work tree.
//!
//! A function of its inputs: commits that another one contains are dropped, the rest is merged two by two in the order
//! given, author and committer are kew, the date is that of the newest parent. So every kew on every machine gets the same
//! id from the same inputs. Not a rebase, and never a partial result: a conflict yields the list of files.

use super::{
    context::{done, excerpt, failed, id},
    error::GitError,
    mirror::Mirror,
};
use crate::{
    name::{CommitId, NodeId},
    process::query::QueryError,
};

/// Why there is no merge.
#[derive(Debug, thiserror::Error)]
pub enum MergeError {
    /// Two results change the same thing.
    #[error("`{theirs}` conflicts with {} in {}", quoted(ours), quoted(files))]
    Conflict {
        /// The paths, lossily decoded, in tree order.
        files: Vec<String>,
        /// The nodes merged so far.
        ours: Vec<NodeId>,
        /// The node that does not fit.
        theirs: NodeId,
    },
    /// There was nothing to merge.
    #[error("there is nothing to merge")]
    Nothing,
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl From<QueryError> for MergeError {
    fn from(error: QueryError) -> Self {
        Self::Git(error.into())
    }
}

/// Merges results that [`Mirror::ensure`] has brought; the merge is kept in the mirror. A sole or all-containing result is
/// its own merge.
pub fn merge_inputs(mirror: &Mirror, inputs: &[(NodeId, CommitId)]) -> Result<CommitId, MergeError> {
    let independent = independent(mirror, inputs)?;
    let Some(((first, start), rest)) = independent.split_first() else {
        return Err(MergeError::Nothing);
    };
    let mut merged = start.clone();
    let mut names = vec![first.clone()];
    if rest.is_empty() {
        return Ok(merged);
    }
    // Merging writes objects only; the lock keeps it apart from a fetch that may rewrite the shallow file.
    let _lock = mirror.lock()?;
    for (node, commit) in rest {
        let tree = match merge_trees(mirror, &merged, commit)? {
            Merged::Clean(tree) => tree,
            Merged::Conflict(files) => {
                return Err(MergeError::Conflict { files, ours: names, theirs: node.clone() });
            }
        };
        names.push(node.clone());
        merged = commit_merge(mirror, &tree, [&merged, commit], &names)?;
    }
    mirror.keep(&merged)?;
    Ok(merged)
}

/// The inputs that no other one contains, without duplicates, in the order given.
fn independent(
    mirror: &Mirror,
    inputs: &[(NodeId, CommitId)],
) -> Result<Vec<(NodeId, CommitId)>, MergeError> {
    let mut distinct: Vec<(NodeId, CommitId)> = Vec::new();
    for (node, commit) in inputs {
        if !distinct.iter().any(|(_, seen)| seen == commit) {
            distinct.push((node.clone(), commit.clone()));
        }
    }
    if distinct.len() < 2 {
        return Ok(distinct);
    }
    let query = mirror.git().args(["merge-base", "--independent"]);
    let answer = done(query.args(distinct.iter().map(|(_, commit)| commit.as_str())), "merge-base")?;
    let text = answer.text();
    let kept: Vec<&str> = text.lines().collect();
    distinct.retain(|(_, commit)| kept.contains(&commit.as_str()));
    Ok(distinct)
}

enum Merged {
    Clean(CommitId),
    Conflict(Vec<String>),
}

fn merge_trees(mirror: &Mirror, ours: &CommitId, theirs: &CommitId) -> Result<Merged, MergeError> {
    // Spelled out, for the result must not hang on a default that git changes one day.
    let query = mirror.git().args(["-c", "merge.renames=true", "-c", "merge.directoryRenames=conflict"]);
    let query = query.args(["-c", "merge.conflictStyle=merge", "-c", "merge.renameLimit=7000"]);
    let query = query.args(["merge-tree", "--write-tree", "-z", "--name-only", "--no-messages"]);
    let answer = query.args([ours.as_str(), theirs.as_str()]).run()?;
    let mut fields = answer.stdout.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let tree = fields.next().unwrap_or_default();
    match answer.code {
        Some(0) => {
            let unexpected = |_| GitError::Answer { what: "merge-tree", answer: excerpt(&tree) };
            Ok(Merged::Clean(CommitId::new(tree.trim_end()).map_err(unexpected)?))
        }
        Some(1) => Ok(Merged::Conflict(fields.filter(|path| !path.is_empty()).map(Into::into).collect())),
        _ => Err(failed(&answer, "merge-tree").into()),
    }
}

fn commit_merge(
    mirror: &Mirror,
    tree: &CommitId,
    parents: [&CommitId; 2],
    names: &[NodeId],
) -> Result<CommitId, MergeError> {
    let date = format!("@{} +0000", newest(mirror, parents)?);
    let mut query = mirror.git();
    for role in ["AUTHOR", "COMMITTER"] {
        query =
            query.env(format!("GIT_{role}_NAME"), "kew").env(format!("GIT_{role}_EMAIL"), "kew@kew.local");
        query = query.env(format!("GIT_{role}_DATE"), &date);
    }
    let names: Vec<&str> = names.iter().map(NodeId::as_str).collect();
    let message = format!("kew: merge {}\n", names.join(", "));
    let query = query.args(["-c", "i18n.commitEncoding=UTF-8", "commit-tree", tree.as_str()]);
    let query = query.args(["-p", parents[0].as_str(), "-p", parents[1].as_str()]).stdin_bytes(message);
    Ok(id(&done(query, "commit-tree")?, "commit-tree")?)
}

/// The newest committer date, in unix seconds.
fn newest(mirror: &Mirror, commits: [&CommitId; 2]) -> Result<u64, MergeError> {
    let query = mirror.git().args(["log", "--no-walk", "--no-show-signature", "-s", "--format=%ct"]);
    let text = done(query.args(commits.map(CommitId::as_str)), "log")?.text();
    let dates: Option<Vec<u64>> = text.lines().map(|line| line.parse().ok()).collect();
    let newest = dates.and_then(|dates| dates.into_iter().max());
    Ok(newest.ok_or_else(|| GitError::Answer { what: "log", answer: excerpt(&text) })?)
}

fn quoted<T: std::fmt::Display>(items: &[T]) -> String {
    let items: Vec<String> = items.iter().map(|item| format!("`{item}`")).collect();
    items.join(", ")
}
