//! The reasons of the policy to hold a node, gathered over all of its commits, and the sentence that tells them. Pure.
//!
//! A person decides by it, so it names paths of every kind at once. They are an agent's words: what is not printable is
//! escaped. Invariant: the same findings give the same sentence, in whatever order they came.

use std::collections::{BTreeMap, BTreeSet};

use crate::{text, units};

/// A reason to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A path that only a person changes.
    Protected,
    /// A submodule.
    Submodule,
    /// A link that leads out of the tree.
    Symlink,
    /// A name that some system takes for `.git`, or a link into it.
    GitName,
    /// A name that only kew may use.
    Reserved,
    /// A file that is too large.
    Large,
    /// Too many commits.
    Commits,
}

/// The words for too many commits.
pub fn too_many(count: u32, most: u32) -> String {
    format!("{count} commits, at most {most} are taken")
}

/// How many paths of a kind are remembered.
const REMEMBERED: usize = 10_000;
/// How many bytes of a path are shown.
const SHOWN: usize = 200;
/// How many are named.
const NAMED: usize = 5;

/// All that speaks against a range of commits.
#[derive(Debug, Default)]
pub struct Findings(BTreeMap<Kind, BTreeSet<String>>);

impl Findings {
    /// Adds one. `path` is shown with what is not printable escaped; of a link, with its target.
    pub fn add(&mut self, kind: Kind, path: &[u8], target: Option<&[u8]>) {
        let shown = |bytes: &[u8]| match bytes.get(..SHOWN) {
            None => String::from_utf8_lossy(bytes).escape_debug().to_string(),
            Some(start) => format!("{}…", String::from_utf8_lossy(start).escape_debug()),
        };
        let paths = self.0.entry(kind).or_default();
        if paths.len() < REMEMBERED {
            paths.insert(match target {
                None => shown(path),
                Some(target) => format!("{} -> {}", shown(path), shown(target)),
            });
        }
    }

    /// Adds that there are too many commits.
    pub fn commits(&mut self, count: u32, most: u32) {
        self.0.entry(Kind::Commits).or_default().insert(too_many(count, most));
    }

    /// The only kind that there is; `None` for none and for several.
    pub fn only(&self) -> Option<Kind> {
        self.0.keys().next().copied().filter(|_| self.0.len() == 1)
    }

    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What was found, as the end of a sentence. `blob_max` in bytes.
    pub fn sentence(&self, blob_max: u64) -> String {
        let clause = |(kind, paths): (&Kind, &BTreeSet<String>)| {
            let paths: Vec<&String> = paths.iter().collect();
            let list = text::short_list(&paths, NAMED);
            match kind {
                Kind::Protected => format!("the commits change {list}, which only a person may change"),
                Kind::Submodule => format!("the commits change the submodules of {list}"),
                Kind::Symlink => format!("the commits bring links that lead out of the tree: {list}"),
                Kind::GitName => {
                    format!("the commits bring what some systems take for git's own folder: {list}")
                }
                Kind::Reserved => {
                    format!("the commits bring {list}; names that begin with .kew- are reserved")
                }
                Kind::Large => {
                    format!("the commits bring files larger than {}: {list}", units::show_size(blob_max))
                }
                Kind::Commits => paths.first().map(|text| (*text).clone()).unwrap_or_default(),
            }
        };
        self.0.iter().map(clause).collect::<Vec<_>>().join("; ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_kinds_are_told_at_once_and_long_lists_are_counted() {
        let mut findings = Findings::default();
        assert!(findings.is_empty());
        for at in 0..9 {
            findings.add(Kind::Protected, format!(".github/workflows/{at}.yml").as_bytes(), None);
        }
        assert_eq!(findings.only(), Some(Kind::Protected));
        findings.add(Kind::Symlink, b"l\n", Some(b"/etc"));
        findings.add(Kind::Large, b"big", None);
        findings.commits(7, 3);
        assert_eq!(findings.only(), None);
        assert_eq!(
            findings.sentence(1 << 20),
            "the commits change `.github/workflows/0.yml`, `.github/workflows/1.yml`, `.github/workflows/2.yml`, \
             `.github/workflows/3.yml`, `.github/workflows/4.yml` and 4 more, which only a person may change; \
             the commits bring links that lead out of the tree: `l\\n -> /etc`; \
             the commits bring files larger than 1 MiB: `big`; 7 commits, at most 3 are taken"
        );
    }
}
