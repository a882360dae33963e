//! What a range of commits does to paths, commit by commit, measured against the policy.
//!
//! Every commit counts, not only the last: what is deleted later is in the history that would be published all the same.
//! What comes in only because a commit merges an older state of the input is no change, if the input has it just so.
//! Invariant: lists go through files of a bounded size, and git, which gathers a commit's changes in memory, has a bound
//! on that too: a few small trees can name the same tree a million times.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::{BufRead as _, BufReader, Read as _},
    time::Duration,
};

use super::{Kind, Kinds, LIST, Quarantine, too_many_paths};
use crate::{
    git::{
        collect::{CollectFault, CollectLimits, Held},
        error::GitError,
        findings::{self, Findings},
        policy::{ABSENT, Change, Policy, SYMLINK},
    },
    name::CommitId,
    process::query::QueryError,
};

/// Beyond so many commits only their number is told.
const LOOKED_AT: u32 = 10_000;

/// How long git may compare trees.
const PATIENCE: Duration = Duration::from_secs(300);

/// The longest target of a link that is one, in bytes.
const LONGEST_TARGET: u64 = 4096;

/// A path with mode and object.
type At = (Box<[u8]>, u32, Box<str>);

/// Mode and object by path.
type Known = HashMap<Box<[u8]>, (u32, Box<str>)>;

/// What was found, before it is known what the input has.
struct Suspect {
    kind: findings::Kind,
    path: Box<[u8]>,
    after: u32,
    id: Box<str>,
    target: Option<Vec<u8>>,
}

impl Quarantine {
    /// All that the policy has against the `count` commits that `head` adds to `input`. Their objects are known to be sound.
    pub(super) fn findings(
        &self,
        policy: &Policy,
        kinds: &Kinds,
        count: u32,
        input: &CommitId,
        head: &CommitId,
        limits: &CollectLimits,
    ) -> Result<Findings, CollectFault> {
        let mut findings = Findings::default();
        if count > limits.commits {
            findings.commits(count, limits.commits);
            if count > LOOKED_AT {
                return Ok(findings);
            }
        }
        let (mut suspects, links) = self.look(policy, kinds, input, head, limits)?;
        suspects.extend(self.look_at_links(policy, links)?);
        let known = self.known(input, &suspects)?;
        for Suspect { kind, path, after, id, target } in suspects {
            let same = match known.get(&path) {
                Some((mode, there)) => *mode == after && *there == id,
                None => after == ABSENT,
            };
            if !same {
                findings.add(kind, &path, target.as_deref());
            }
        }
        Ok(findings)
    }

    /// Goes through the changes of every commit to each of its parents; gives also every link that is new somewhere.
    fn look(
        &self,
        policy: &Policy,
        kinds: &Kinds,
        input: &CommitId,
        head: &CommitId,
        limits: &CollectLimits,
    ) -> Result<(Vec<Suspect>, HashSet<At>), CollectFault> {
        let commits = self.list("commits", &["rev-list", head.as_str(), "--not", input.as_str()])?;
        let memory = (512 << 20) + u64::from(limits.paths) * 512;
        let out = self.dir.join("changes");
        let file = File::create(&out).map_err(GitError::io(&out))?;
        let query = self.git.at_bounded(&self.dir, LIST, memory);
        let query = query.args(["-c", "core.packedGitWindowSize=16m", "-c", "core.packedGitLimit=256m"]);
        let query = query.args(["diff-tree", "--stdin", "-r", "-m", "--root", "--raw", "-z", "--no-renames"]);
        let query = query.args(["--no-commit-id", "--no-abbrev"]).stdin_file(commits).stdout_file(file);
        let answer = match query.deadline(PATIENCE).run() {
            // Small trees by their deltas can be large ones to read, again in each commit.
            Err(QueryError::Deadline { .. }) => {
                return Err(Held::TooMuch.because("the commits take too long to look through".to_owned()));
            }
            answer => answer.map_err(GitError::from)?,
        };
        if answer.code != Some(0) {
            return Err(too_many_paths(&answer));
        }
        let (mut suspects, mut links, mut seen) = (Vec::new(), HashSet::new(), HashSet::new());
        let mut fields = BufReader::new(File::open(&out).map_err(GitError::io(&out))?).split(0);
        let at = || GitError::io(&self.dir);
        while let Some(facts) = fields.next() {
            let facts = facts.map_err(at())?;
            let path = fields.next().transpose().map_err(at())?;
            let path =
                path.ok_or_else(|| Held::Broken.because("git lists a change without a path".to_owned()))?;
            let (before, after, id) = parse(&facts)?;
            let mut found = policy.change(&Change { before, after, path: &path });
            if kinds.get(&*id) == Some(&Kind::Large) {
                found.push(findings::Kind::Large);
            }
            if after == SYMLINK {
                links.insert((path.clone().into(), after, id.clone()));
            }
            for kind in found {
                // The same path in a thousand commits is one finding for each thing that it was.
                if seen.insert((kind, path.clone(), after, id.clone())) {
                    let (path, id) = (path.clone().into(), id.clone());
                    suspects.push(Suspect { kind, path, after, id, target: None });
                }
            }
        }
        Ok((suspects, links))
    }

    /// Which of the links lead where none may.
    fn look_at_links(&self, policy: &Policy, links: HashSet<At>) -> Result<Vec<Suspect>, CollectFault> {
        if links.is_empty() {
            return Ok(Vec::new());
        }
        let targets = self.targets(&links)?;
        let mut suspects = Vec::new();
        for (path, after, id) in links {
            // One that is too long to be a path is judged as one that leads nowhere.
            let target = targets.get(&id).map(Vec::as_slice).unwrap_or_default();
            if let Some(kind) = policy.link(&path, target) {
                suspects.push(Suspect { kind, path, after, id, target: Some(target.to_owned()) });
            }
        }
        Ok(suspects)
    }

    /// The texts of links, by object.
    fn targets(&self, links: &HashSet<At>) -> Result<HashMap<Box<str>, Vec<u8>>, CollectFault> {
        let ids: HashSet<&str> = links.iter().map(|(_, _, id)| &**id).collect();
        let asked: String = ids.iter().map(|id| format!("{id}\n")).collect();
        let sizes = self.ask("--batch-check=%(objectname) %(objectsize)", asked)?;
        let mut short = String::new();
        for line in BufReader::new(sizes).lines() {
            let line = line.map_err(GitError::io(&self.dir))?;
            let size = line.split_once(' ').and_then(|(id, size)| Some((id, size.parse::<u64>().ok()?)));
            match size {
                Some((id, size)) if size <= LONGEST_TARGET => short.push_str(&format!("{id}\n")),
                Some(_) => {}
                None => return Err(Held::Broken.because(format!("git does not know the link {line}"))),
            }
        }
        let mut texts = HashMap::new();
        let mut answer = BufReader::new(self.ask("--batch=%(objectname) %(objectsize)", short)?);
        let mut line = String::new();
        while answer.read_line(&mut line).map_err(GitError::io(&self.dir))? > 0 {
            let size = line.trim_end().split_once(' ').and_then(|(id, size)| Some((id, size.parse().ok()?)));
            let Some((id, size)) = size.filter(|(_, size): &(_, usize)| *size as u64 <= LONGEST_TARGET)
            else {
                return Err(Held::Broken.because(format!("git does not know the link {line}")));
            };
            let mut text = vec![0; size + 1];
            answer.read_exact(&mut text).map_err(GitError::io(&self.dir))?;
            text.truncate(size);
            texts.insert(id.into(), text);
            line.clear();
        }
        Ok(texts)
    }

    fn ask(&self, format: &str, ids: String) -> Result<File, CollectFault> {
        let path = self.dir.join("links");
        let out = File::create(&path).map_err(GitError::io(&path))?;
        let query = self.git.at_capped(&self.dir, LIST).args(["cat-file", format]);
        let answer = query.stdin_bytes(ids).stdout_file(out).run().map_err(GitError::from)?;
        if answer.code != Some(0) {
            return Err(too_many_paths(&answer));
        }
        Ok(File::open(&path).map_err(GitError::io(&path))?)
    }

    /// What the input has at the paths of these.
    fn known(&self, input: &CommitId, suspects: &[Suspect]) -> Result<Known, CollectFault> {
        let mut known = Known::new();
        if suspects.is_empty() {
            return Ok(known);
        }
        let wanted: HashSet<&[u8]> = suspects.iter().map(|suspect| &*suspect.path).collect();
        let listed = self.list("list", &["ls-tree", "-r", "-z", "--full-tree", input.as_str()])?;
        for entry in BufReader::new(listed).split(0) {
            let entry = entry.map_err(GitError::io(&self.dir))?;
            let Some(tab) = entry.iter().position(|byte| *byte == b'\t') else { continue };
            let (facts, path) = (String::from_utf8_lossy(&entry[..tab]).into_owned(), &entry[tab + 1..]);
            let mut facts = facts.split(' ');
            if wanted.contains(path)
                && let (Some(mode), Some(_), Some(id)) = (facts.next(), facts.next(), facts.next())
            {
                known.insert(path.into(), (octal(mode), id.into()));
            }
        }
        Ok(known)
    }
}

/// `:100644 120000 <id before> <id after> T`
fn parse(facts: &[u8]) -> Result<(u32, u32, Box<str>), CollectFault> {
    let text = String::from_utf8_lossy(facts);
    let fields: Vec<&str> = text.trim_start_matches(':').split(' ').collect();
    match fields[..] {
        [before, after, _, id, _] => Ok((octal(before), octal(after), id.into())),
        _ => Err(GitError::Answer { what: "diff-tree", answer: text.chars().take(200).collect() }.into()),
    }
}

/// A mode that is none counts as a kind of its own, which no rule allows for anything.
fn octal(text: &str) -> u32 {
    u32::from_str_radix(text, 8).unwrap_or(u32::MAX)
}
