//! The push, by real git to real bare repositories over `file://`: leases, refusals, addresses, and whose configuration counts.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt as _,
    sync::{Arc, atomic::AtomicBool},
};

use camino::{Utf8Path, Utf8PathBuf};
use kew::{
    git::publish::{
        Address, Kind, Outlet, PublishFault, Pushed, Remote,
        remote::{Asked, RemoteError},
    },
    name::CommitId,
};

use super::support::{World, commit, git, head, rev, write};

/// A user with a bare remote `origin`, which has their `main`.
struct Publishing {
    world: World,
    home: Utf8PathBuf,
}

impl Publishing {
    fn new() -> Self {
        let world = World::new();
        let home = world.root.join("home");
        fs::create_dir(&home).unwrap();
        fs::create_dir(world.root.join("tmp")).unwrap();
        git(&world.root, &["init", "-q", "--bare", "-b", "main", "--template=", "remote.git"]);
        let rig = Self { world, home };
        git(&rig.user(), &["remote", "add", "origin", &rig.url()]);
        git(&rig.user(), &["push", "-q", "-u", "origin", "main"]);
        rig
    }

    fn user(&self) -> Utf8PathBuf {
        self.world.user()
    }

    fn bare(&self) -> Utf8PathBuf {
        self.world.root.join("remote.git")
    }

    fn url(&self) -> String {
        format!("file://{}", self.bare())
    }

    fn find(&self, remote: Option<&str>, base: Option<&str>) -> Result<Remote, RemoteError> {
        let path = std::env::var_os("PATH").unwrap();
        let vars: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), path),
            ("HOME".into(), self.home.as_str().into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
            ("GIT_DIR".into(), "/nonexistent".into()),
        ];
        let folder = self.world.root.join("tmp");
        let asked = Asked { remote, base, vars, dropped: Vec::new(), folder: &folder };
        Remote::find(&self.world.open().user, asked)
    }

    fn outlet(&self) -> Outlet {
        Outlet {
            repo: self.world.open().user,
            remote: self.find(None, None).unwrap(),
            folder: self.world.root.join("tmp"),
            stop: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Pushes what the remote has not, as a run would; `own` are commits that kew pushed before.
    fn push(&self, commit: &CommitId, own: &[&CommitId]) -> Result<Pushed, PublishFault> {
        let outlet = self.outlet();
        let tips = outlet.tips(&[BRANCH, "main"])?;
        let own = |tip: &CommitId| own.contains(&tip);
        outlet.push(BRANCH, commit, tips.branches.get(BRANCH), &own, &[]).map(|(pushed, _)| pushed)
    }

    fn remote_branches(&self) -> String {
        git(&self.bare(), &["for-each-ref", "--format=%(refname) %(objectname)"])
    }

    /// A commit that no branch of the user's has, as a node brings it.
    fn work(&self, text: &str) -> CommitId {
        let user = self.user();
        git(&user, &["checkout", "-q", "--detach", "main"]);
        let id = commit(&user, "work", text);
        git(&user, &["update-ref", &format!("refs/kew/r/nodes/n/{text}"), id.as_str()]);
        git(&user, &["checkout", "-q", "main"]);
        id
    }
}

const BRANCH: &str = "kew/e/n";

fn hook(dir: &Utf8Path, name: &str, script: &str) {
    write(dir, &format!("hooks/{name}"), &format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(dir.join("hooks").join(name), fs::Permissions::from_mode(0o755)).unwrap();
}

#[track_caller]
fn refused(result: Result<Pushed, PublishFault>, word: &str, kind: Kind) -> PublishFault {
    let fault = result.unwrap_err();
    assert_eq!((fault.word, fault.kind), (word, kind), "{fault}");
    assert!(!fault.hint.is_empty());
    fault
}

#[test]
fn a_branch_is_made_found_and_moved_by_kew_alone() {
    let rig = Publishing::new();
    let (one, two) = (rig.work("one"), rig.work("two"));
    assert_eq!(rig.push(&one, &[]).unwrap(), Pushed::Created);
    let main = head(&rig.user());
    assert_eq!(rig.remote_branches(), format!("refs/heads/kew/e/n {one}\nrefs/heads/main {main}"));
    assert_eq!(rig.push(&one, &[]).unwrap(), Pushed::There);
    // Another run of the same epic: its commit is no descendant, but what is there is kew's own.
    assert_eq!(rig.push(&two, &[&one]).unwrap(), Pushed::Moved);
    assert_eq!(rev(&rig.bare(), BRANCH), two);
    assert!(fs::read_dir(rig.world.root.join("tmp")).unwrap().next().is_none(), "nothing is left");
    assert_eq!(git(&rig.user(), &["branch", "--list"]), "* main", "the user's branches are untouched");
}

#[test]
fn what_kew_did_not_push_is_never_overwritten() {
    let rig = Publishing::new();
    let (one, theirs) = (rig.work("one"), rig.work("theirs"));
    git(&rig.user(), &["push", "-q", "origin", &format!("{theirs}:refs/heads/{BRANCH}")]);
    let fault = refused(rig.push(&one, &[]), "moved", Kind::Refused);
    assert!(fault.sentence.contains(theirs.short()), "{fault}");
    assert_eq!(rev(&rig.bare(), BRANCH), theirs);
}

#[test]
fn a_remote_that_moves_meanwhile_keeps_what_it_has() {
    let rig = Publishing::new();
    let (one, theirs) = (rig.work("one"), rig.work("theirs"));
    let outlet = rig.outlet();
    assert!(!outlet.tips(&[BRANCH]).unwrap().branches.contains_key(BRANCH));
    git(&rig.user(), &["push", "-q", "origin", &format!("{theirs}:refs/heads/{BRANCH}")]);
    let pushed = outlet.push(BRANCH, &one, None, &|_| true, &[]).map(|(pushed, _)| pushed);
    refused(pushed, "moved", Kind::Refused);
    let pushed =
        outlet.push(BRANCH, &one, Some(&head(&rig.user())), &|_| true, &[]).map(|(pushed, _)| pushed);
    refused(pushed, "moved", Kind::Refused);
    assert_eq!(rev(&rig.bare(), BRANCH), theirs);
}

#[test]
fn a_protected_branch_says_so_in_the_remote_s_words() {
    let rig = Publishing::new();
    let one = rig.work("one");
    hook(&rig.bare(), "pre-receive", "echo 'this branch is protected' >&2; exit 1");
    let fault = refused(rig.push(&one, &[]), "refused", Kind::Refused);
    assert!(fault.sentence.contains("this branch is protected"), "{fault}");
    assert!(fault.sentence.contains("pre-receive hook declined"), "{fault}");
}

#[test]
fn a_remote_that_is_not_there_is_no_refusal() {
    let rig = Publishing::new();
    let one = rig.work("one");
    fs::rename(rig.bare(), rig.world.root.join("gone")).unwrap();
    refused(rig.push(&one, &[]), "no-remote", Kind::Unreachable);
}

#[test]
fn a_commit_without_what_was_approved_stays_here() {
    let rig = Publishing::new();
    let (one, two) = (rig.work("one"), rig.work("two"));
    let outlet = rig.outlet();
    let base = head(&rig.user());
    outlet.check_history(&one, &[base, one.clone()]).unwrap();
    let fault = outlet.check_history(&one, &[two]).unwrap_err();
    assert_eq!((fault.word, fault.kind), ("other-history", Kind::Refused));
    let missing = CommitId::new("1".repeat(40)).unwrap();
    assert!(outlet.check_history(&missing, &[one]).is_err());
}

#[test]
fn the_user_s_hooks_and_push_settings_do_not_act() {
    let rig = Publishing::new();
    let one = rig.work("one");
    let ran = rig.world.root.join("ran");
    hook(&rig.user().join(".git"), "pre-push", &format!("touch {ran}"));
    for (key, value) in [
        ("push.followTags", "true"),
        ("push.gpgSign", "true"),
        ("push.pushOption", "ci.skip"),
        ("remote.origin.mirror", "true"),
        ("remote.origin.push", "+refs/heads/*:refs/heads/*"),
        ("remote.origin.receivepack", &format!("touch {ran}; git-receive-pack")),
        ("push.recurseSubmodules", "check"),
    ] {
        git(&rig.user(), &["config", key, value]);
    }
    git(&rig.user(), &["tag", "-a", "-m", "t", "secret-tag", one.as_str()]);
    git(&rig.user(), &["branch", "private", one.as_str()]);
    assert_eq!(rig.push(&one, &[]).unwrap(), Pushed::Created);
    assert!(!ran.exists());
    assert_eq!(rig.remote_branches().lines().count(), 2, "{}", rig.remote_branches());
}

#[test]
fn the_user_s_own_rules_lead_to_the_remote() {
    let rig = Publishing::new();
    git(&rig.user(), &["remote", "set-url", "origin", "https://forge.example/o/r.git"]);
    let rule = format!("[url \"{}\"]\n\tpushInsteadOf = https://forge.example/o/r.git\n", rig.url());
    fs::write(rig.home.join(".gitconfig"), rule).unwrap();
    let remote = rig.find(None, None).unwrap();
    assert_eq!(remote.address.to_string(), rig.bare().to_string());
    assert_eq!(rig.push(&rig.work("one"), &[]).unwrap(), Pushed::Created);
    // Rules that would change the address once more are no rules to follow.
    let twice = format!("[url \"/elsewhere\"]\n\tinsteadOf = {}\n", rig.url());
    fs::write(rig.home.join(".gitconfig"), fs::read_to_string(rig.home.join(".gitconfig")).unwrap() + &twice)
        .unwrap();
    let error = rig.find(None, None).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("more than once"), "{error}");
}

#[test]
fn the_remote_is_that_of_the_base() {
    let rig = Publishing::new();
    let user = rig.user();
    git(&rig.world.root, &["init", "-q", "--bare", "--template=", "fork.git"]);
    git(&user, &["remote", "add", "fork", "../fork.git"]);
    git(&user, &["branch", "dev"]);
    git(&user, &["config", "branch.dev.remote", "fork"]);
    git(&user, &["config", "branch.dev.merge", "refs/heads/develop"]);
    git(&user, &["update-ref", "refs/remotes/fork/only", "HEAD"]);
    git(&user, &["tag", "v1"]);
    for (asked, base, name, branch) in [
        (None, None, "origin", Some("main")),
        (None, Some("dev"), "fork", Some("develop")),
        (None, Some("fork/only"), "fork", Some("only")),
        (None, Some("only"), "fork", Some("only")),
        (None, Some("v1"), "origin", None),
        (None, Some(head(&user).as_str()), "origin", None),
        (Some("fork"), None, "fork", Some("main")),
    ] {
        let remote = rig.find(asked, base).unwrap();
        assert_eq!((remote.name.as_deref(), remote.base.as_deref()), (Some(name), branch), "{base:?}");
    }
    let fork = rig.find(Some("fork"), None).unwrap();
    assert_eq!(fork.address.to_string(), rig.world.root.join("user/../fork.git").to_string());
    let error = rig.find(Some("frok"), None).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("no remote `frok`"), "{error}");
}

#[test]
fn a_shallow_repository_publishes_too() {
    let rig = Publishing::new();
    let shallow = rig.world.root.join("shallow");
    git(&rig.world.root, &["clone", "-q", "--depth=1", &rig.url(), "shallow"]);
    let one = commit(&shallow, "x", "x");
    let repo = rig.world.open_at(&shallow).user;
    let outlet = Outlet { repo, ..rig.outlet() };
    let (pushed, _) = outlet.push(BRANCH, &one, None, &|_| false, &[]).unwrap();
    assert_eq!((pushed, rev(&rig.bare(), BRANCH)), (Pushed::Created, one));
}

#[test]
fn options_reach_a_remote_that_takes_them() {
    let rig = Publishing::new();
    git(&rig.bare(), &["config", "receive.advertisePushOptions", "true"]);
    hook(
        &rig.bare(),
        "post-receive",
        "env | grep ^GIT_PUSH_OPTION | sort > options; echo 'https://g/x/-/merge_requests/3' >&2",
    );
    let one = rig.work("one");
    let options = ["merge_request.create".to_owned(), "merge_request.title=a b; $(c)".to_owned()];
    let (_, said) = rig.outlet().push(BRANCH, &one, None, &|_| false, &options).unwrap();
    assert_eq!(kew::forge::gitlab::url(&said).as_deref(), Some("https://g/x/-/merge_requests/3"));
    let got = fs::read_to_string(rig.bare().join("options")).unwrap();
    assert_eq!(
        got,
        "GIT_PUSH_OPTION_0=merge_request.create\nGIT_PUSH_OPTION_1=merge_request.title=a b; $(c)\nGIT_PUSH_OPTION_COUNT=2\n"
    );
}

#[test]
fn addresses_are_shown_without_secrets_and_odd_ones_refused() {
    for (raw, shown, slug) in [
        ("https://user:s3cret@forge.example/o/r.git", "https://forge.example/o/r.git", Some("o/r")),
        ("https://ghp_0123456789@forge.example:8443/o/r", "https://forge.example:8443/o/r", Some("o/r")),
        ("git@forge.example:o/r.git", "ssh://forge.example/o/r.git", Some("o/r")),
        ("ssh://git@forge.example:22/g/s/r.git", "ssh://forge.example:22/g/s/r.git", Some("g/s/r")),
        ("/srv/r.git", "/srv/r.git", None),
    ] {
        let address = Address::new(raw).unwrap();
        assert_eq!((address.to_string().as_str(), address.slug()), (shown, slug));
        assert!(!format!("{address:?}").contains("s3cret"));
    }
    for bad in [
        "ext::sh -c evil",
        "-u",
        "git://x/y",
        "persistent-https://x/y",
        "",
        "https:///x",
        "ssh://-oProxyCommand=x/y",
    ] {
        assert!(Address::new(bad).is_err(), "{bad}");
    }
}
