//! The environment and the first arguments of every host git, exactly.

use std::ffi::OsStr;

use camino::Utf8Path;
use kew::git::argv;

#[test]
fn the_environment_is_exactly_this() {
    let roots = argv::Roots {
        home: Utf8Path::new("/k/home"),
        global: Utf8Path::new("/k/gitconfig"),
        path: OsStr::new("/bin"),
    };
    let lines: Vec<String> =
        argv::env(roots).iter().map(|(name, value)| format!("{name}={}", value.to_string_lossy())).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    PATH=/bin
    HOME=/k/home
    LC_ALL=C
    GIT_CONFIG_NOSYSTEM=1
    GIT_CONFIG_GLOBAL=/k/gitconfig
    GIT_ATTR_NOSYSTEM=1
    GIT_TERMINAL_PROMPT=0
    GIT_ASKPASS=/bin/false
    GIT_NO_REPLACE_OBJECTS=1
    GIT_NO_LAZY_FETCH=1
    GIT_ALLOW_PROTOCOL=file
    ");
}

#[test]
fn the_prefix_is_exactly_this() {
    insta::assert_snapshot!(argv::prefix(Utf8Path::new("/r/.git")).join("\n"), @r"
    --git-dir=/r/.git
    --no-pager
    -c
    core.hooksPath=/dev/null
    -c
    core.fsmonitor=false
    -c
    core.attributesFile=/dev/null
    -c
    gc.auto=0
    -c
    maintenance.auto=false
    -c
    core.filesRefLockTimeout=5000
    -c
    core.packedRefsTimeout=10000
    ");
}

#[test]
fn paths_are_quoted_in_the_global_configuration() {
    let text = argv::global_config(&[Utf8Path::new("/a b/\"c\"\\d"), Utf8Path::new("/e#f;g")]);
    insta::assert_snapshot!(text, @r#"
    [user]
    	name = kew
    	email = kew@kew.local
    [safe]
    	directory = "/a b/\"c\"\\d"
    	directory = "/e#f;g"
    "#);
}

#[test]
fn programs_are_found_in_absolute_folders_only() {
    assert_eq!(argv::absolute_path(OsStr::new("/a:.:b:/c:")), "/a:/c");
}
