//! Pull requests by the real `gh` against a double of GitHub's API behind TLS: opened once, found again, and each refusal.

use std::{
    ffi::OsString,
    fs,
    sync::{Arc, Mutex, atomic::AtomicBool},
};

use camino::Utf8PathBuf;
use kew::{
    forge::{Opened, Wanted, github::Github},
    git::publish::{Kind, PublishFault},
    name::{CommitId, EpicName, NodeId, RunId},
    publish::story::{Story, untouched},
};
use serde_json::{Value, json};

use super::http::{Request, Response, certificate, serve};

const TOKEN: &str = "ghp_t0kenOfTheUser";

/// What the double knows.
#[derive(Default)]
struct Hub {
    pulls: Vec<Value>,
    asked: Vec<String>,
    /// Status and answer of the next POST of a pull request.
    refuse: Option<(&'static str, Value)>,
}

struct Double {
    _tmp: tempfile::TempDir,
    folder: Utf8PathBuf,
    hub: Arc<Mutex<Hub>>,
    host: String,
    vars: Vec<(OsString, OsString)>,
}

fn commit() -> CommitId {
    CommitId::new("a".repeat(40)).unwrap()
}

fn answer(hub: &mut Hub, request: &Request) -> (&'static str, Value) {
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    hub.asked.push(format!("{} {}", request.method, request.target));
    if request.header("authorization") != Some(&format!("token {TOKEN}")) {
        return ("401 Unauthorized", json!({ "message": "Bad credentials" }));
    }
    let path = request.target.strip_prefix("/api/v3/repos/own/repo/").unwrap_or_default();
    match (request.method.as_str(), path) {
        ("GET", path) if path.starts_with("pulls?") => {
            assert!(path.contains("state=open") && path.contains("head=own:kew%2Fe%2Fn"), "{path}");
            ("200 OK", Value::Array(hub.pulls.clone()))
        }
        ("POST", "pulls") => {
            if let Some((status, value)) = hub.refuse.take() {
                return (status, value);
            }
            let mut pull = body;
            pull["number"] = json!(7);
            pull["html_url"] = json!("https://hub.example/own/repo/pull/7");
            pull["head"] = json!({ "ref": "kew/e/n", "sha": commit(), "repo": { "full_name": "Own/Repo" } });
            hub.pulls.push(pull.clone());
            ("201 Created", pull)
        }
        ("PATCH", "pulls/7") => {
            for key in ["title", "body"] {
                hub.pulls[0][key] = body[key].clone();
            }
            ("200 OK", hub.pulls[0].clone())
        }
        ("POST", "issues/7/labels") => {
            hub.pulls[0]["labels"] = body["labels"].clone();
            ("200 OK", json!([]))
        }
        ("POST", "pulls/7/requested_reviewers") => {
            hub.pulls[0]["asked"] = body.clone();
            match body["reviewers"][0] == "nobody" {
                true => (
                    "422 Unprocessable Entity",
                    json!({ "message": "Reviews may only be requested from collaborators" }),
                ),
                false => ("201 Created", hub.pulls[0].clone()),
            }
        }
        _ => ("404 Not Found", json!({ "message": "Not Found" })),
    }
}

impl Double {
    fn new() -> Self {
        let tmp = tempfile::tempdir().unwrap();
        let folder = Utf8PathBuf::from_path_buf(tmp.path().canonicalize().unwrap()).unwrap();
        let hub = Arc::new(Mutex::new(Hub::default()));
        let (config, pem) = certificate();
        fs::write(folder.join("ca.pem"), pem).unwrap();
        let shared = Arc::clone(&hub);
        let host = serve(Some(config), move |request| -> Response {
            let (status, value) = answer(&mut shared.lock().unwrap(), &request);
            (status.to_owned(), vec!["Content-Type: application/json".to_owned()], value.to_string().into())
        });
        let vars = [
            ("PATH", std::env::var_os("PATH").unwrap()),
            ("HOME", folder.join("home").as_str().into()),
            ("SSL_CERT_FILE", folder.join("ca.pem").as_str().into()),
            ("GH_ENTERPRISE_TOKEN", TOKEN.into()),
        ];
        let vars = vars.map(|(name, value)| (name.into(), value)).into();
        Self { _tmp: tmp, folder, hub, host, vars }
    }

    fn github(&self) -> Github {
        let stop = Arc::new(AtomicBool::new(false));
        Github::new(&self.host, "own/repo", &self.vars, &self.folder, stop).unwrap()
    }

    fn open(&self, wanted: &Wanted) -> Result<Opened, PublishFault> {
        self.github().open(wanted, &commit())
    }

    fn pull(&self) -> Value {
        self.hub.lock().unwrap().pulls[0].clone()
    }
}

fn wanted(run: &str) -> Wanted {
    let story = Story {
        epic: EpicName::new("e").unwrap(),
        node: NodeId::new("n").unwrap(),
        run: RunId::new(run).unwrap(),
        attempt: 1,
        commit: commit(),
        summary: Some("did it, fixes #1".to_owned()),
        own: Vec::new(),
        gates: Vec::new(),
        cost: (None, true),
        stands_on: Vec::new(),
    };
    Wanted {
        head: "kew/e/n".to_owned(),
        base: "main".to_owned(),
        title: story.title(),
        body: story.body(),
        line: story.line(),
        draft: true,
        labels: vec!["by kew".to_owned()],
        reviewers: vec!["someone".to_owned(), "own/team".to_owned()],
    }
}

#[test]
fn a_pull_request_is_opened_once_and_found_again() {
    let double = Double::new();
    double.github().check().unwrap();
    let url = "https://hub.example/own/repo/pull/7".to_owned();
    let first = double.open(&wanted("run-1")).unwrap();
    assert_eq!(first, Opened { url: url.clone(), found: false, warnings: Vec::new() });
    let pull = double.pull();
    assert_eq!((&pull["base"], &pull["draft"]), (&json!("main"), &json!(true)));
    assert_eq!(pull["title"], "e: n: did it, fixes # 1");
    assert_eq!(pull["labels"], json!(["by kew"]));
    assert_eq!(pull["asked"], json!({ "reviewers": ["someone"], "team_reviewers": ["team"] }));
    assert!(untouched(pull["body"].as_str().unwrap()));

    let again = double.open(&wanted("run-1")).unwrap();
    assert_eq!(again, Opened { url: url.clone(), found: true, warnings: Vec::new() });
    let asked = double.hub.lock().unwrap().asked.join("\n");
    assert_eq!(asked.matches("POST /api/v3/repos/own/repo/pulls\n").count(), 1, "{asked}");
    assert!(!asked.contains("PATCH"), "{asked}");
    let left: Vec<_> =
        fs::read_dir(&double.folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().starts_with("gh-")), "{left:?}");
}

#[test]
fn a_description_follows_until_a_person_changes_it() {
    let double = Double::new();
    double.open(&wanted("run-1")).unwrap();
    double.open(&wanted("run-2")).unwrap();
    assert!(double.pull()["body"].as_str().unwrap().contains("run-2"));
    double.hub.lock().unwrap().pulls[0]["body"] = json!("mine now");
    assert!(double.open(&wanted("run-3")).unwrap().found);
    assert_eq!(double.pull()["body"], "mine now");
}

#[test]
fn a_stranger_s_pull_request_of_the_same_branch_is_not_ours() {
    let double = Double::new();
    let head = json!({ "ref": "kew/e/n", "sha": "b", "repo": { "full_name": "fork/repo" } });
    let stranger = json!({ "number": 3, "html_url": "https://x/3", "body": null, "head": head });
    double.hub.lock().unwrap().pulls.push(stranger);
    assert!(!double.open(&wanted("run-1")).unwrap().found);
}

#[test]
fn reviewers_that_cannot_be_asked_cost_no_pull_request() {
    let double = Double::new();
    let opened = double.open(&Wanted { reviewers: vec!["nobody".to_owned()], ..wanted("run-1") }).unwrap();
    assert!(opened.warnings[0].contains("may only be requested from collaborators"), "{opened:?}");
}

#[test]
fn each_refusal_says_what_to_do() {
    for (status, message, word, kind, hint) in [
        (
            "422 Unprocessable Entity",
            "Draft pull requests are not supported",
            "refused",
            Kind::Refused,
            "publish.draft",
        ),
        (
            "422 Unprocessable Entity",
            "No commits between main and kew/e/n",
            "refused",
            Kind::Refused,
            "kew publish",
        ),
        ("403 Forbidden", "Resource not accessible", "no-permission", Kind::Unreachable, "token"),
        ("502 Bad Gateway", "later", "no-connection", Kind::Unreachable, "kew publish"),
    ] {
        let double = Double::new();
        let value = json!({ "message": "Validation Failed", "errors": [{ "message": message }] });
        double.hub.lock().unwrap().refuse = Some((status, value));
        let fault = double.open(&wanted("run-1")).unwrap_err();
        assert_eq!((fault.word, fault.kind), (word, kind), "{fault}");
        assert!(fault.sentence.contains(message) && fault.hint.contains(hint), "{fault} {}", fault.hint);
    }
}

#[test]
fn no_login_no_program_and_no_host_are_told_apart() {
    let mut double = Double::new();
    double.vars.retain(|(name, _)| name != "GH_ENTERPRISE_TOKEN");
    assert_eq!(double.github().check().unwrap_err().word, "no-login");
    double.vars.push(("GH_ENTERPRISE_TOKEN".into(), "ghp_wrongToken123".into()));
    let fault = double.open(&wanted("run-1")).unwrap_err();
    assert_eq!((fault.word, fault.kind), ("no-login", Kind::Unreachable), "{fault}");
    assert!(!fault.to_string().contains("ghp_wrong"), "{fault}");
    double.host = "127.0.0.1:1".to_owned();
    assert_eq!(double.open(&wanted("run-1")).unwrap_err().word, "no-connection");
    double.vars.retain(|(name, _)| name != "PATH");
    assert_eq!(double.open(&wanted("run-1")).unwrap_err().word, "no-gh");
}
