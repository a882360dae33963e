//! The push over HTTP with a password, to a real `git http-backend`: whose credentials are used, and that none is shown.

use std::{
    ffi::OsString,
    fs,
    io::Write as _,
    process::{Command, Stdio},
    sync::{Arc, atomic::AtomicBool},
};

use base64::Engine as _;
use camino::Utf8PathBuf;
use kew::{
    git::publish::{Kind, Outlet, PublishFault, Pushed, Remote, remote::Asked},
    name::CommitId,
};

use super::{
    http::{Request, Response, serve},
    support::{World, commit, git, rev},
};

const PASSWORD: &str = "pa55w0rd-of-the-user";

/// A user whose `origin` wants a password.
struct Http {
    world: World,
    address: String,
    work: CommitId,
    env: Vec<(OsString, OsString)>,
}

impl Http {
    fn new() -> Self {
        let world = World::new();
        for folder in ["home", "tmp"] {
            fs::create_dir(world.root.join(folder)).unwrap();
        }
        git(&world.root, &["init", "-q", "--bare", "-b", "main", "--template=", "o/r.git"]);
        git(&world.root.join("o/r.git"), &["config", "http.receivepack", "true"]);
        let root = world.root.clone();
        let address = serve(None, move |request| backend(&root, &request));
        git(&world.user(), &["remote", "add", "origin", &format!("http://{address}/o/r.git")]);
        let work = commit(&world.user(), "work", "one");
        Self { world, address, work, env: Vec::new() }
    }

    fn outlet(&self) -> Outlet {
        let home = self.world.root.join("home");
        let mut vars: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("HOME".into(), home.as_str().into()),
            ("GIT_CONFIG_NOSYSTEM".into(), "1".into()),
        ];
        vars.extend(self.env.iter().cloned());
        let folder = self.world.root.join("tmp");
        let repo = self.world.open().user;
        let asked = Asked { remote: None, base: None, vars, dropped: Vec::new(), folder: &folder };
        let remote = Remote::find(&repo, asked).unwrap();
        Outlet { repo, remote, folder, stop: Arc::new(AtomicBool::new(false)) }
    }

    fn push(&self) -> Result<Pushed, PublishFault> {
        let outlet = self.outlet();
        outlet.tips(&["kew/e/n"])?;
        outlet.push("kew/e/n", &self.work, None, &|_| false, &[]).map(|(pushed, _)| pushed)
    }

    #[track_caller]
    fn pushed(&self) {
        assert_eq!(self.push().unwrap(), Pushed::Created);
        assert_eq!(rev(&self.world.root.join("o/r.git"), "kew/e/n"), self.work);
    }
}

fn authorization() -> String {
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("user:{PASSWORD}")))
}

/// `git http-backend` as a CGI program, behind a password.
fn backend(root: &Utf8PathBuf, request: &Request) -> Response {
    if request.header("authorization") != Some(&authorization()) {
        let challenge = "WWW-Authenticate: Basic realm=\"here\"".to_owned();
        return ("401 Unauthorized".to_owned(), vec![challenge], Vec::new());
    }
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let mut backend = Command::new("git")
        .arg("http-backend")
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .envs([("GIT_PROJECT_ROOT", root.as_str()), ("GIT_HTTP_EXPORT_ALL", "1"), ("REMOTE_USER", "user")])
        .envs([
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "safe.directory"),
            ("GIT_CONFIG_VALUE_0", "*"),
        ])
        .envs([("REQUEST_METHOD", request.method.as_str()), ("PATH_INFO", path), ("QUERY_STRING", query)])
        .env("CONTENT_TYPE", request.header("content-type").unwrap_or_default())
        .env("CONTENT_LENGTH", request.body.len().to_string())
        .env("HTTP_CONTENT_ENCODING", request.header("content-encoding").unwrap_or_default())
        .env("GIT_PROTOCOL", request.header("git-protocol").unwrap_or_default())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    backend.stdin.take().unwrap().write_all(&request.body).unwrap();
    let answer = backend.wait_with_output().unwrap().stdout;
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let (status, headers): (Vec<&str>, Vec<&str>) =
        head.lines().partition(|line| line.starts_with("Status: "));
    let status = status.first().map_or("200 OK", |line| line.trim_start_matches("Status: "));
    (status.to_owned(), headers.into_iter().map(str::to_owned).collect(), answer[end + 4..].to_vec())
}

#[test]
fn the_user_s_credential_helper_is_asked() {
    let mut http = Http::new();
    let helper = "!f() { test \"$1\" = get && echo username=user && echo \"password=$MY_TOKEN\"; }; f";
    fs::write(http.world.root.join("home/.gitconfig"), format!("[credential]\n\thelper = {helper:?}\n"))
        .unwrap();
    http.env.push(("MY_TOKEN".into(), PASSWORD.into()));
    http.pushed();
}

#[test]
fn a_header_of_the_repository_s_configuration_is_used() {
    let http = Http::new();
    let key = format!("http.http://{}/.extraheader", http.address);
    git(&http.world.user(), &["config", &key, &format!("Authorization: {}", authorization())]);
    http.pushed();
}

#[test]
fn a_password_in_the_address_works_and_is_not_shown() {
    let http = Http::new();
    let with = |password: &str| format!("http://user:{password}@{}/o/r.git", http.address);
    git(&http.world.user(), &["remote", "set-url", "origin", &with("wr0ng-password")]);
    let fault = http.push().unwrap_err();
    assert_eq!((fault.word, fault.kind), ("no-access", Kind::Unreachable), "{fault}");
    assert!(!fault.to_string().contains("wr0ng"), "{fault}");
    git(&http.world.user(), &["remote", "set-url", "origin", &with(PASSWORD)]);
    let shown = format!("{} {:?}", http.outlet().remote.address, http.outlet().remote.address);
    assert!(!shown.contains(PASSWORD) && shown.contains(&http.address), "{shown}");
    http.pushed();
}

#[test]
fn nobody_is_asked_where_nobody_knows() {
    let http = Http::new();
    let fault = http.push().unwrap_err();
    assert_eq!((fault.word, fault.kind), ("no-access", Kind::Unreachable), "{fault}");
    assert!(fault.hint.contains("credential helper"));
}

#[test]
fn a_host_that_is_down_is_no_refusal() {
    let http = Http::new();
    git(&http.world.user(), &["remote", "set-url", "origin", "http://127.0.0.1:1/o/r.git"]);
    let fault = http.push().unwrap_err();
    assert_eq!((fault.word, fault.kind), ("no-connection", Kind::Unreachable), "{fault}");
}
