//! The clean prefix of every host git: its whole environment and its leading options. Pure.
//!
//! Nothing of the caller's environment or configuration gets through but PATH. What a repository's own configuration could
//! still start (hooks, a file system monitor, attribute files, automatic maintenance) is switched off by options, which win
//! over it. Invariant: no process is started and no file is read here.

use std::ffi::{OsStr, OsString};

use camino::Utf8Path;

/// Where git finds its home and its only configuration file outside the repository.
#[derive(Debug, Clone, Copy)]
pub struct Roots<'a> {
    /// An empty or missing folder.
    pub home: &'a Utf8Path,
    /// A file that kew wrote, or `/dev/null`.
    pub global: &'a Utf8Path,
    /// Where programs are found; see [`absolute_path`].
    pub path: &'a OsStr,
}

/// The whole environment of a host git.
pub fn env(roots: Roots<'_>) -> Vec<(&'static str, OsString)> {
    vec![
        ("PATH", roots.path.to_owned()),
        ("HOME", roots.home.as_str().into()),
        ("LC_ALL", "C".into()),
        ("GIT_CONFIG_NOSYSTEM", "1".into()),
        ("GIT_CONFIG_GLOBAL", roots.global.as_str().into()),
        ("GIT_ATTR_NOSYSTEM", "1".into()),
        ("GIT_TERMINAL_PROMPT", "0".into()),
        ("GIT_ASKPASS", "/bin/false".into()),
        ("GIT_NO_REPLACE_OBJECTS", "1".into()),
        ("GIT_NO_LAZY_FETCH", "1".into()),
        ("GIT_ALLOW_PROTOCOL", "file".into()),
    ]
}

/// The options before the command's name.
pub fn prefix(git_dir: &Utf8Path) -> Vec<String> {
    let mut args = vec![format!("--git-dir={git_dir}"), "--no-pager".to_owned()];
    for setting in SETTINGS {
        args.extend(["-c".to_owned(), (*setting).to_owned()]);
    }
    args
}

/// What no repository may say otherwise. The two timeouts let several kews write refs to one repository.
const SETTINGS: &[&str] = &[
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.attributesFile=/dev/null",
    "gc.auto=0",
    "maintenance.auto=false",
    "core.filesRefLockTimeout=5000",
    "core.packedRefsTimeout=10000",
];

/// Keeps only the absolute folders of a PATH: a relative one would find programs in a repository.
pub fn absolute_path(path: &OsStr) -> OsString {
    let kept = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    std::env::join_paths(kept).unwrap_or_else(|_| "/usr/local/bin:/usr/bin:/bin".into())
}

/// The text of the global configuration: who kew is in commits and reflogs, and whose repositories it may enter.
///
/// Paths are absolute and hold no control characters (the caller has checked).
pub fn global_config(safe: &[&Utf8Path]) -> String {
    let mut text = String::from("[user]\n\tname = kew\n\temail = kew@kew.local\n[safe]\n");
    for path in safe {
        let quoted = path.as_str().replace('\\', "\\\\").replace('"', "\\\"");
        text.push_str(&format!("\tdirectory = \"{quoted}\"\n"));
    }
    text
}
