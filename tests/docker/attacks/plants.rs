//! What a hostile agent plants in its checkout, one row each: the script, whether a careless git on the host would run it,
//! and how kew's node must end.
//!
//! A script runs in the root of a clone, in a container or (to prove that the plant is a real one) on the host, after
//! [`PRELUDE`]. It does no harm beyond its clone: all that it would have the host do is to touch `$trap/$name`.

mod programs;
mod shapes;

/// How kew's node ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// Passed: exactly the honest commit came home.
    Home,
    /// Passed with the honest commit, and one of the plant's own on top of it.
    HomeToo,
    /// Held, with this word and this in the sentence.
    Held(&'static str, &'static str),
    /// Whatever the policy says of such a commit: passed with it, or held.
    Either,
}

/// One attack.
pub struct Plant {
    /// Unique; the node's id.
    pub name: &'static str,
    /// The row of the table of threats.
    pub row: &'static str,
    /// A careless `git status`, `add`, `diff`, `log`, `commit`, `fetch` or `push` on the host would run it.
    pub runs: bool,
    /// The end.
    pub ends: Ends,
    /// What is planted.
    pub script: &'static str,
}

const fn runs(name: &'static str, row: &'static str, ends: Ends, script: &'static str) -> Plant {
    Plant { name, row, runs: true, ends, script }
}

const fn lies(name: &'static str, row: &'static str, ends: Ends, script: &'static str) -> Plant {
    Plant { name, row, runs: false, ends, script }
}

/// Before every script; `$trap`, `$name`, `$host_repo`, `$host_commit`, `$user_repo`, `$unpushed`, `$unpushed_tree` and
/// `$unpushed_blob` are set.
pub const PRELUDE: &str = r#"
run="touch $trap/$name;:"
base=$(git rev-parse HEAD)
raw_tree() { # mode name id, as git itself would never write it
    { printf '%s %s\0' "$1" "$2"; printf "$(printf %s "$3" | sed 's/../\\x&/g')"; } | git hash-object -t tree -w --literally --stdin
}
forge() { # tree parent...
    tree=$1; shift
    { echo "tree $tree"; for parent; do echo "parent $parent"; done
      printf 'author a <a@b> 1700000000 +0000\ncommitter a <a@b> 1700000000 +0000\n\nforged\n'; } |
        git hash-object -t commit -w --literally --stdin
}
head_to() { # as `update-ref` would, which wants to know the object
    printf '%s\n' "$1" >".git/$(git symbolic-ref HEAD)"
}
honest() {
    echo honest >honest.txt && git add honest.txt && git -c commit.gpgSign=false commit -qm honest
}
"#;

const SPOILT: &str = "spoilt checkout";

/// All of them.
pub fn plants() -> Vec<&'static Plant> {
    programs::PLANTS.iter().chain(shapes::PLANTS).collect()
}
