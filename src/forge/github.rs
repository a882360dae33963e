//! Pull requests of GitHub by the user's `gh`, which knows their login.
//!
//! `gh api` and not `gh pr create`: it runs no git and reads no repository, says each status as it is, and a label that does
//! not exist costs no pull request. It runs in an empty folder, for one repository named in full. Invariant: a description
//! that a person changed is theirs; an open pull request of the branch is found, never opened twice.

use std::{
    ffi::OsString,
    fs,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use camino::{Utf8Path, Utf8PathBuf};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Opened, Wanted};
use crate::{
    git::publish::PublishFault,
    name::CommitId,
    process::query::{Query, QueryError},
    publish::story,
    text::{cut, inert},
};

/// Variables that `gh` gets: who logged in, how hosts are reached, where it keeps what it knows.
const KEPT: [&str; 22] = [
    "HOME",
    "USER",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GH_CONFIG_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
];

const DEADLINE: Duration = Duration::from_secs(120);

/// A repository on GitHub.
pub struct Github {
    host: String,
    owner: String,
    name: String,
    env: Vec<(OsString, OsString)>,
    folder: Utf8PathBuf,
    stop: Arc<AtomicBool>,
}

/// What GitHub says of a pull request, as far as it is needed.
#[derive(Debug, Deserialize)]
struct Pull {
    number: u64,
    html_url: String,
    body: Option<String>,
    head: End,
}

#[derive(Debug, Deserialize)]
struct End {
    #[serde(rename = "ref")]
    branch: String,
    sha: String,
    repo: Option<Repo>,
}

#[derive(Debug, Deserialize)]
struct Repo {
    full_name: String,
}

/// An answer that is no success.
struct Refusal {
    status: Option<u16>,
    text: String,
}

impl Github {
    /// For `owner/name` on a host. `vars` is the user's environment.
    pub fn new(
        host: &str,
        slug: &str,
        vars: &[(OsString, OsString)],
        folder: &Utf8Path,
        stop: Arc<AtomicBool>,
    ) -> Option<Self> {
        let (owner, name) = slug.split_once('/').filter(|(_, name)| !name.contains('/'))?;
        // The address for ssh over the port of https is another name of the same host.
        let host = if host == "ssh.github.com" { "github.com" } else { host };
        let mut env: Vec<(OsString, OsString)> =
            vars.iter().filter(|(name, _)| KEPT.iter().any(|kept| name == *kept)).cloned().collect();
        let path =
            vars.iter().find(|(name, _)| name == "PATH").map(|(_, path)| path.clone()).unwrap_or_default();
        env.push(("PATH".into(), crate::git::argv::absolute_path(&path)));
        for (name, value) in [
            ("GH_HOST", host),
            ("GH_PROMPT_DISABLED", "1"),
            ("GH_NO_UPDATE_NOTIFIER", "1"),
            ("GH_PAGER", "cat"),
            ("NO_COLOR", "1"),
            ("LC_ALL", "C"),
        ] {
            env.push((name.into(), value.into()));
        }
        let folder = folder.to_owned();
        Some(Self {
            host: host.to_owned(),
            owner: owner.to_owned(),
            name: name.to_owned(),
            env,
            folder,
            stop,
        })
    }

    /// Fails if there is no `gh`, or if it has no login for the host. No network is used.
    pub fn check(&self) -> Result<(), PublishFault> {
        let query = self.gh(&self.folder).args(["auth", "token", "--hostname", &self.host]);
        // Before 2.17 it has no such command; then the first call will tell.
        let answer = query.run().map_err(|error| self.broke(&error))?;
        let no_command = answer.stderr.contains("unknown command");
        if answer.ok() || no_command { Ok(()) } else { Err(self.no_login("it has no token for it")) }
    }

    /// Finds the open pull request of the branch, or opens one. `commit` is what the branch is at.
    pub fn open(&self, wanted: &Wanted, commit: &CommitId) -> Result<Opened, PublishFault> {
        if let Some(pull) = self.find(&wanted.head)? {
            return self.found(pull, wanted, commit);
        }
        let body = json!({
            "title": wanted.title, "head": wanted.head, "base": wanted.base, "body": wanted.body,
            "draft": wanted.draft, "maintainer_can_modify": true,
        });
        let pull: Pull = match self.call("POST", &self.path("pulls"), Some(&body)) {
            Ok(answer) => self.read(answer)?,
            Err(Refusal { status: Some(422), text }) if text.contains("already exists") => {
                let found = self.find(&wanted.head)?;
                let pull = found.ok_or_else(|| self.fault(Refusal { status: Some(422), text }))?;
                return self.found(pull, wanted, commit);
            }
            Err(refusal) => return Err(self.fault(refusal)),
        };
        let mut warnings = self.same_commit(&pull, commit);
        warnings.extend(self.label(&pull, wanted));
        warnings.extend(self.request(&pull, wanted));
        Ok(Opened { url: self.page(&pull), found: false, warnings })
    }

    fn find(&self, branch: &str) -> Result<Option<Pull>, PublishFault> {
        let query =
            format!("{}?state=open&per_page=100&head={}:{}", self.path("pulls"), self.owner, escaped(branch));
        let answer = self.call("GET", &query, None).map_err(|refusal| self.fault(refusal))?;
        let pulls: Vec<Pull> = self.read(answer)?;
        let own = format!("{}/{}", self.owner, self.name);
        let ours = |pull: &Pull| {
            let repo = pull.head.repo.as_ref().is_some_and(|repo| repo.full_name.eq_ignore_ascii_case(&own));
            repo && pull.head.branch == branch
        };
        Ok(pulls.into_iter().find(ours))
    }

    /// The description follows the commit unless a person changed it; all else stays as it is.
    fn found(&self, pull: Pull, wanted: &Wanted, commit: &CommitId) -> Result<Opened, PublishFault> {
        let mut warnings = self.same_commit(&pull, commit);
        let body = pull.body.clone().unwrap_or_default();
        if story::untouched(&body) && body.replace("\r\n", "\n").trim_end() != wanted.body.trim_end() {
            let path = self.path(&format!("pulls/{}", pull.number));
            let change = json!({ "title": wanted.title, "body": wanted.body });
            if let Err(refusal) = self.call("PATCH", &path, Some(&change)) {
                warnings.push(format!("its description could not be brought up to date: {}", refusal.text));
            }
        }
        Ok(Opened { url: self.page(&pull), found: true, warnings })
    }

    fn same_commit(&self, pull: &Pull, commit: &CommitId) -> Vec<String> {
        // GitHub needs a moment to see a push, so this is no error.
        let differs = pull.head.sha != commit.as_str();
        differs.then(|| format!("it does not show {} yet", commit.short())).into_iter().collect()
    }

    fn label(&self, pull: &Pull, wanted: &Wanted) -> Option<String> {
        let path = self.path(&format!("issues/{}/labels", pull.number));
        let body = json!({ "labels": wanted.labels });
        let refused = (!wanted.labels.is_empty()).then(|| self.call("POST", &path, Some(&body)).err())??;
        Some(format!("its labels could not be set: {}", refused.text))
    }

    fn request(&self, pull: &Pull, wanted: &Wanted) -> Option<String> {
        let (teams, users): (Vec<&String>, Vec<&String>) =
            wanted.reviewers.iter().partition(|reviewer| reviewer.contains('/'));
        let teams: Vec<&str> = teams.iter().filter_map(|team| Some(team.split_once('/')?.1)).collect();
        let path = self.path(&format!("pulls/{}/requested_reviewers", pull.number));
        let body = json!({ "reviewers": users, "team_reviewers": teams });
        let refused =
            (!wanted.reviewers.is_empty()).then(|| self.call("POST", &path, Some(&body)).err())??;
        Some(format!("its reviewers could not be asked: {}", refused.text))
    }

    fn path(&self, rest: &str) -> String {
        format!("repos/{}/{}/{rest}", self.owner, self.name)
    }

    fn page(&self, pull: &Pull) -> String {
        let good = pull.html_url.starts_with("https://") && !pull.html_url.contains(char::is_whitespace);
        let own = format!("https://{}/{}/{}/pull/{}", self.host, self.owner, self.name, pull.number);
        if good { inert(&pull.html_url).into_owned() } else { own }
    }

    fn gh(&self, dir: &Utf8Path) -> Query {
        let query = self.env.iter().fold(Query::new("gh"), |query, (name, value)| query.env(name, value));
        query.dir(dir.as_std_path()).deadline(DEADLINE).stop_on(Arc::clone(&self.stop))
    }

    /// One call. What is sent lies in a file beside the empty folder: it may be longer than an argument.
    fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, Refusal> {
        let broke = |text: String| Refusal { status: None, text };
        let dir = tempfile::Builder::new().prefix("gh-").tempdir_in(&self.folder);
        let dir = dir.map_err(|error| broke(format!("a folder could not be made: {error}")))?;
        let empty =
            Utf8Path::from_path(dir.path()).ok_or_else(|| broke("the folder is no text".to_owned()))?;
        let cwd = empty.join("empty");
        let mut query = self.gh(&cwd).args(["api", "--method", method]);
        query = query.args([
            "-H",
            "Accept: application/vnd.github+json",
            "-H",
            "X-GitHub-Api-Version: 2022-11-28",
        ]);
        let file = empty.join("body.json");
        let write = || {
            fs::create_dir(&cwd)?;
            body.map_or(Ok(()), |body| fs::write(&file, body.to_string()))
        };
        write().map_err(|error| broke(format!("`{empty}` could not be written: {error}")))?;
        if body.is_some() {
            query = query.args(["--input", file.as_str()]);
        }
        let answer = query.arg(path).run().map_err(|error| match error {
            QueryError::Stopped(_) => broke(STOPPED.to_owned()),
            QueryError::Start { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                broke(NO_GH.to_owned())
            }
            other => broke(other.to_string()),
        })?;
        if answer.ok() {
            return serde_json::from_slice(&answer.stdout)
                .map_err(|_| broke("its answer is no JSON".to_owned()));
        }
        let status =
            answer.stderr.rsplit_once("(HTTP ").and_then(|(_, rest)| rest.split(')').next()?.parse().ok());
        let detail = serde_json::from_slice(&answer.stdout).ok().map(|value: Value| detail(&value));
        let text = detail.filter(|text| !text.is_empty()).unwrap_or(answer.stderr);
        let text = if answer.code == Some(4) && status.is_none() { NO_LOGIN.to_owned() } else { text };
        Err(Refusal { status, text: cut(&inert(&text), 300).into_owned() })
    }

    fn read<T: serde::de::DeserializeOwned>(&self, answer: Value) -> Result<T, PublishFault> {
        serde_json::from_value(answer).map_err(|_| {
            let sentence = format!("{} gave an answer that kew does not understand", self.host);
            PublishFault::unreachable(
                "forge",
                sentence,
                "is that host a GitHub? set `publish.forge` if it is none",
            )
        })
    }

    fn fault(&self, refusal: Refusal) -> PublishFault {
        let Refusal { status, text } = refusal;
        let host = &self.host;
        match status {
            None if text == STOPPED => PublishFault::stopped(),
            None if text == NO_GH => no_gh(),
            None if text == NO_LOGIN => self.no_login("it has no login"),
            Some(401) => self.no_login(&text),
            Some(403) => PublishFault::unreachable(
                "no-permission",
                format!("{host} does not let you open it: {text}"),
                "the token needs to write pull requests; then `kew publish`",
            ),
            Some(404) => PublishFault::unreachable(
                "no-repository",
                format!("{host} knows no `{}/{}` for this login: {text}", self.owner, self.name),
                "is the remote right, and may the token see it? then `kew publish`",
            ),
            Some(422) => {
                let hint = match text.contains("raft") {
                    true => "set `publish.draft = false`, then `kew publish`",
                    false => "mend what it names, then `kew publish`",
                };
                PublishFault::refused(
                    "refused",
                    format!("{host} did not take the pull request: {text}"),
                    hint,
                )
            }
            Some(429) => PublishFault::unreachable("rate-limited", text, "wait, then `kew publish`"),
            _ => PublishFault::unreachable(
                "no-connection",
                format!("{host} could not be asked: {text}"),
                "is the network up? then `kew publish`",
            ),
        }
    }

    fn no_login(&self, why: &str) -> PublishFault {
        PublishFault::unreachable(
            "no-login",
            format!("`gh` is not logged in to {}: {why}", self.host),
            "`gh auth login`, or set GH_TOKEN (GH_ENTERPRISE_TOKEN for a host of your own); then `kew publish`",
        )
    }

    fn broke(&self, error: &QueryError) -> PublishFault {
        match error {
            QueryError::Start { .. } => no_gh(),
            QueryError::Stopped(_) => PublishFault::stopped(),
            other => PublishFault::unreachable("gh", other.to_string(), "mend that, then `kew publish`"),
        }
    }
}

const STOPPED: &str = "stopped";
const NO_GH: &str = "no gh";
const NO_LOGIN: &str = "no login";

fn no_gh() -> PublishFault {
    PublishFault::unreachable(
        "no-gh",
        "the program `gh` opens pull requests on GitHub, and it is not in PATH",
        "install it (cli.github.com), or let the node publish a `branch`; then `kew publish`",
    )
}

/// What an error of GitHub says, with its parts.
fn detail(value: &Value) -> String {
    let mut parts: Vec<String> = value["message"].as_str().map(str::to_owned).into_iter().collect();
    for error in value["errors"].as_array().into_iter().flatten() {
        let text = error.as_str().or(error["message"].as_str()).map(str::to_owned);
        let field = || Some(format!("{} {}", error["field"].as_str()?, error["code"].as_str()?));
        parts.extend(text.or_else(field));
    }
    parts.join("; ")
}

/// A branch in a query: what a name of ours may hold needs no more.
fn escaped(branch: &str) -> String {
    branch.replace('/', "%2F")
}
