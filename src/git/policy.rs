//! The rules by which commits that are sound are held all the same: what they do to certain paths, links and sizes. Pure.
//!
//! Not about where objects come from: `quarantine` refuses foreign and broken ones before anybody asks here. Paths are
//! bytes as git stores them. Invariant: whatever is not plainly inside the tree leads out of it, and two kinds of names,
//! kew's own and those that some system takes for `.git`, are never allowed.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::{
    findings::Kind,
    gitname::{is_dot_git, is_gitmodules},
    reserved::is_reserved,
};

/// What a rule does.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The node is held for a person.
    #[default]
    Hold,
    /// Nothing.
    Allow,
}

/// The rules of a run.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Paths that only a person changes.
    protected: GlobSet,
    /// The folders that such paths lie in. A link or submodule in place of one would bring them from elsewhere.
    above: GlobSet,
    /// Changes of submodules and of `.gitmodules`.
    pub submodules: Rule,
    /// Symbolic links that lead out of the tree.
    pub symlinks: Rule,
}

/// What pipelines run, and what says how agents are contained. Who changes these changes what is done with secrets.
pub const PROTECTED: &[&str] = &[
    ".github/workflows/**",
    ".github/actions/**",
    ".gitea/workflows/**",
    ".forgejo/workflows/**",
    ".gitlab-ci.yml",
    ".circleci/**",
    ".buildkite/**",
    ".woodpecker/**",
    ".woodpecker.yml",
    ".drone.yml",
    ".travis.yml",
    "appveyor.yml",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
    "Jenkinsfile",
    "kew.toml",
];

/// The largest file that is looked at at all, in bytes; one that is smaller and still too large is held, but kept.
pub const LARGEST: u64 = 4 << 30;

impl Policy {
    /// With these patterns of protected paths: `*` stays within a name, `**` does not, case is ignored. An error names the
    /// pattern that is none.
    pub fn new<P: AsRef<str>>(protected: &[P], submodules: Rule, symlinks: Rule) -> Result<Self, String> {
        let (mut within, mut above) = (GlobSetBuilder::new(), GlobSetBuilder::new());
        let glob =
            |pattern: &str| GlobBuilder::new(pattern).literal_separator(true).case_insensitive(true).build();
        for pattern in protected.iter().map(AsRef::as_ref) {
            within.add(glob(pattern).map_err(|error| error.to_string())?);
            let folders = pattern.match_indices('/').map(|(at, _)| &pattern[..at]);
            // The part of a pattern need not be one (`{a/b,c}`), and any folder at all is no sign.
            for folder in
                folders.filter(|folder| !folder.ends_with("**")).filter_map(|folder| glob(folder).ok())
            {
                above.add(folder);
            }
        }
        let built = |set: GlobSetBuilder| set.build().map_err(|error| error.to_string());
        Ok(Self { protected: built(within)?, above: built(above)?, submodules, symlinks })
    }

    /// What speaks against a change, but for links, whose targets are asked about by [`Policy::link`].
    pub fn change(&self, change: &Change<'_>) -> Vec<Kind> {
        let Change { before, after, path } = *change;
        let mut kinds = Vec::new();
        let name = Path::new(OsStr::from_bytes(path));
        let elsewhere = matches!(after, SYMLINK | SUBMODULE);
        if self.protected.is_match(name) || elsewhere && self.above.is_match(name) {
            kinds.push(Kind::Protected);
        }
        let submodule = before == SUBMODULE || after == SUBMODULE || is_gitmodules(path);
        if submodule && self.submodules == Rule::Hold {
            kinds.push(Kind::Submodule);
        }
        if after != ABSENT && path.split(|byte| *byte == b'/').any(is_dot_git) {
            kinds.push(Kind::GitName);
        }
        if after != ABSENT && is_reserved(path) {
            kinds.push(Kind::Reserved);
        }
        kinds
    }

    /// What speaks against a symbolic link at `path` to `target`.
    pub fn link(&self, path: &[u8], target: &[u8]) -> Option<Kind> {
        match leads(path, target) {
            Leads::Inside => None,
            Leads::IntoGit => Some(Kind::GitName),
            Leads::Out => (self.symlinks == Rule::Hold).then_some(Kind::Symlink),
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self::new(PROTECTED, Rule::Hold, Rule::Hold).expect("the usual patterns are tested")
    }
}

/// One path that a commit changes. Modes as git writes them, in octal; absent is zero.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    /// The mode before.
    pub before: u32,
    /// The mode after.
    pub after: u32,
    /// The path.
    pub path: &'a [u8],
}

/// The mode of what is not there.
pub const ABSENT: u32 = 0;
/// The mode of a symbolic link.
pub const SYMLINK: u32 = 0o120_000;
/// The mode of a submodule's commit.
pub const SUBMODULE: u32 = 0o160_000;

enum Leads {
    Inside,
    IntoGit,
    Out,
}

/// Where a link leads. After a leading run of `..`, which is exact because a link's own folders are real ones, no other
/// `..` is taken: the names before it may be links themselves, so that nobody can tell where it ends.
fn leads(path: &[u8], target: &[u8]) -> Leads {
    let mut at: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    at.pop();
    // A backslash separates on some systems, a drive or a NUL leads who knows where.
    if target.is_empty() || target.starts_with(b"/") || target.contains(&0) || drive(target) {
        return Leads::Out;
    }
    let mut named = false;
    for part in target.split(|byte| matches!(byte, b'/' | b'\\')) {
        match part {
            b"" | b"." => {}
            b".." if named || at.pop().is_none() => return Leads::Out,
            b".." => {}
            part if is_dot_git(part) => return Leads::IntoGit,
            part => {
                named = true;
                at.push(part);
            }
        }
    }
    Leads::Inside
}

fn drive(target: &[u8]) -> bool {
    target.first() == Some(&b'\\') || matches!(target, [letter, b':', ..] if letter.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(path: &str, target: &str) -> Option<Kind> {
        Policy::default().link(path.as_bytes(), target.as_bytes())
    }

    #[test]
    fn links_inside_of_the_tree_pass() {
        for (path, target) in [
            ("a", "b"),
            ("a", "./b//c/"),
            ("a", ".github/x"),
            ("a", ".gitignore"),
            ("d/a", "../b"),
            ("d/e/a", "../../b/c"),
            ("d/e/a", ".././.."),
            ("a", "..."),
            ("a", "..b"),
            ("a", "."),
        ] {
            assert_eq!(link(path, target), None, "{path} -> {target}");
        }
    }

    #[test]
    fn links_that_lead_out_or_nobody_knows_where_are_held() {
        for (path, target) in [
            ("a", ""),
            ("a", "/etc/passwd"),
            ("a", ".."),
            ("a", "../b"),
            ("d/a", "../../b"),
            ("d/a", ".././../b"),
            ("d/e/a", "x/../../../.."),
            // `x` may be a link to a folder that lies higher up.
            ("d/e/f/a", "x/../../b"),
            ("a", "b/.."),
            ("a", "..\\b"),
            ("a", "\\\\server\\share"),
            ("a", "C:\\x"),
            ("a", "c:x"),
            ("a", "x\0y"),
        ] {
            assert_eq!(link(path, target), Some(Kind::Symlink), "{path} -> {target}");
        }
        let lax = Policy::new(PROTECTED, Rule::Hold, Rule::Allow).unwrap();
        assert_eq!(lax.link(b"a", b"/etc/passwd"), None);
        for target in [".git", ".GIT/config", "../.git/hooks", "git~1/x", "x/.git "] {
            assert_eq!(lax.link(b"d/a", target.as_bytes()), Some(Kind::GitName), "{target}");
        }
    }

    fn kinds(before: u32, after: u32, path: &str) -> Vec<Kind> {
        Policy::default().change(&Change { before, after, path: path.as_bytes() })
    }

    const FILE: u32 = 0o100_644;

    #[test]
    fn what_pipelines_run_is_protected_in_every_case_and_also_from_removal() {
        for path in [
            ".github/workflows/ci.yml",
            ".github/workflows/deep/er.yml",
            ".GitHub/Workflows/ci.yml",
            ".github/actions/own/action.yml",
            ".gitlab-ci.yml",
            ".circleci/config.yml",
            "Jenkinsfile",
            "kew.toml",
        ] {
            assert_eq!(kinds(ABSENT, FILE, path), [Kind::Protected], "{path}");
            assert_eq!(kinds(FILE, FILE, path), [Kind::Protected], "{path}");
            assert_eq!(kinds(FILE, ABSENT, path), [Kind::Protected], "{path}");
        }
        for path in [".github", ".github/workflows", ".GitHub", ".circleci"] {
            assert_eq!(kinds(ABSENT, SYMLINK, path), [Kind::Protected], "{path}");
            assert_eq!(kinds(ABSENT, SUBMODULE, path), [Kind::Protected, Kind::Submodule], "{path}");
            assert_eq!(kinds(ABSENT, FILE, path), [], "{path}");
        }
        let anywhere = Policy::new(&["**/secrets/*", "{a/b,c}/x"], Rule::Hold, Rule::Hold).unwrap();
        let link =
            |path: &str| anywhere.change(&Change { before: ABSENT, after: SYMLINK, path: path.as_bytes() });
        assert_eq!((link("d/secrets"), link("d/e")), (vec![Kind::Protected], vec![]));
        for path in [".github/CODEOWNERS", "workflows/ci.yml", "docs/.github/workflows/x", "Jenkinsfile.md"] {
            assert_eq!(kinds(ABSENT, FILE, path), [], "{path}");
        }
        let none: [&str; 0] = [];
        let own = Policy::new(&none, Rule::Hold, Rule::Hold).unwrap();
        assert_eq!(own.change(&Change { before: ABSENT, after: FILE, path: b".gitlab-ci.yml" }), []);
        assert!(Policy::new(&["a[b"], Rule::Hold, Rule::Hold).unwrap_err().contains("a[b"));
    }

    #[test]
    fn submodules_are_held_unless_allowed() {
        assert_eq!(kinds(ABSENT, SUBMODULE, "sub"), [Kind::Submodule]);
        assert_eq!(kinds(SUBMODULE, ABSENT, "sub"), [Kind::Submodule]);
        assert_eq!(kinds(ABSENT, FILE, ".gitmodules"), [Kind::Submodule]);
        assert_eq!(kinds(ABSENT, FILE, ".GitModules"), [Kind::Submodule]);
        assert_eq!(kinds(ABSENT, FILE, "docs/gitmodules"), []);
        let lax = Policy::new(PROTECTED, Rule::Allow, Rule::Hold).unwrap();
        assert_eq!(lax.change(&Change { before: ABSENT, after: SUBMODULE, path: b"sub" }), []);
    }

    #[test]
    fn names_of_kew_and_git_are_never_allowed_but_may_go() {
        let lax = Policy::new(PROTECTED, Rule::Allow, Rule::Allow).unwrap();
        for (path, kind) in [("a/.KEW-x/b", Kind::Reserved), ("a/.Git/b", Kind::GitName)] {
            let change = |before, after| lax.change(&Change { before, after, path: path.as_bytes() });
            assert_eq!(change(ABSENT, FILE), [kind], "{path}");
            assert_eq!(change(FILE, ABSENT), [], "{path}");
        }
        assert_eq!(
            kinds(ABSENT, SUBMODULE, ".kew-x/git~1"),
            [Kind::Submodule, Kind::GitName, Kind::Reserved]
        );
    }
}
