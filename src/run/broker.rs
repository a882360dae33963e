//! The broker: the push, then the pull request, in this order, each found if it was there before.
//!
//! Nothing here decides whether a node may leave. Invariant: a pull request is opened only for a branch that is at the
//! commit, and against a branch that the remote has.

use crate::{
    forge::{Opened, Wanted, github::Github, gitlab},
    git::publish::{Outlet, PublishFault, Pushed, Tips},
    name::{AttemptKey, CommitId, EpicName},
    plan::spec::Publish,
    publish::branch::Template,
    run::publisher::{PublishJob, Publisher, Sent},
};

/// Who opens pull requests.
pub enum Forge {
    /// GitHub, by `gh`.
    Github(Github),
    /// GitLab, by push options.
    Gitlab,
    /// Nobody: no node of the run wants one, or the remote is no forge.
    None,
}

/// The commits that kew had pushed to a branch of a remote, in any run.
pub type Memory = Box<dyn Fn(&str, &str) -> Result<Vec<CommitId>, String> + Send + Sync>;

/// The user's remote, and how to publish there.
pub struct Broker {
    /// The epic.
    pub epic: EpicName,
    /// Names of branches.
    pub template: Template,
    /// The way out.
    pub outlet: Outlet,
    /// Who opens pull requests.
    pub forge: Forge,
    /// Where pull requests go, by the settings.
    pub base: Option<String>,
    /// As drafts.
    pub draft: bool,
    /// Labels of new ones.
    pub labels: Vec<String>,
    /// Who is asked to look at new ones.
    pub reviewers: Vec<String>,
    /// What kew pushed before.
    pub memory: Memory,
}

impl Publisher for Broker {
    fn remote(&self) -> String {
        self.outlet.remote.address.to_string()
    }

    fn branch(&self, key: &AttemptKey) -> String {
        self.template.fill(&self.epic, &key.node, &key.run)
    }

    fn publish(&self, job: &PublishJob) -> Result<Sent, PublishFault> {
        self.outlet.check_history(&job.commit, &job.contains)?;
        let below = match &job.stands_on[..] {
            [one] => Some(one.branch.as_str()),
            _ => None,
        };
        let base = self.base.as_deref().or(self.outlet.remote.base.as_deref());
        let asked: Vec<&str> = [Some(job.branch.as_str()), base, below].into_iter().flatten().collect();
        let tips = self.outlet.tips(&asked)?;
        let wanted = match job.want {
            Publish::PullRequest => Some(self.wanted(job, self.target(job, base, &tips)?)),
            _ => None,
        };
        let remote = self.remote();
        let known = (self.memory)(&remote, &job.branch)
            .map_err(|why| PublishFault::unreachable("state", why, "mend that, then `kew publish`"))?;
        let options = match (&self.forge, &wanted) {
            (Forge::Gitlab, Some(wanted)) => gitlab::options(wanted),
            _ => Vec::new(),
        };
        let own = |tip: &CommitId| known.contains(tip);
        let tip = tips.branches.get(&job.branch);
        let (pushed, said) = self.outlet.push(&job.branch, &job.commit, tip, &own, &options)?;
        let there = pushed == Pushed::There;
        let Some(wanted) = wanted else {
            return Ok(Sent { url: None, already: there, warnings: Vec::new() });
        };
        match &self.forge {
            Forge::Github(github) => {
                let Opened { url, found, warnings } =
                    github.open(&wanted, &job.commit).map_err(pushed_only)?;
                Ok(Sent { url: Some(url), already: there && found, warnings })
            }
            Forge::Gitlab => {
                let url = gitlab::url(&said);
                let quiet = url.is_none() && !there;
                let warning = "the remote named no merge request; look whether there is one";
                let warnings = quiet.then(|| warning.to_owned()).into_iter().collect();
                Ok(Sent { url, already: there, warnings })
            }
            Forge::None => Err(pushed_only(no_forge())),
        }
    }

    fn abandon(&self) {
        self.outlet.stop.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Broker {
    /// The branch that a pull request is for: the one below if it is there as it was published, else the epic's.
    fn target(&self, job: &PublishJob, base: Option<&str>, tips: &Tips) -> Result<String, PublishFault> {
        if let [one] = &job.stands_on[..]
            && tips.branches.get(&one.branch) == Some(&one.commit)
        {
            return Ok(one.branch.clone());
        }
        match base {
            Some(base) if tips.branches.contains_key(base) => Ok(base.to_owned()),
            Some(base) => Err(PublishFault::refused(
                "no-base",
                format!("the remote has no branch `{base}`, which the pull request would be for"),
                "push it first, or set `publish.base`; then `kew publish`",
            )),
            None => tips.default.clone().ok_or_else(|| {
                let sentence = "the remote has no default branch, and the epic's base is no branch";
                PublishFault::refused("no-base", sentence, "set `publish.base`; then `kew publish`")
            }),
        }
    }

    fn wanted(&self, job: &PublishJob, base: String) -> Wanted {
        Wanted {
            head: job.branch.clone(),
            base,
            title: job.story.title(),
            body: job.story.body(),
            line: job.story.line(),
            draft: self.draft,
            labels: self.labels.clone(),
            reviewers: self.reviewers.clone(),
        }
    }
}

/// No forge is known for the remote.
pub fn no_forge() -> PublishFault {
    PublishFault::refused(
        "no-forge",
        "the remote is no forge that kew knows, so nobody can open a pull request there",
        "set `publish.forge`, or let the node publish a `branch`; then `kew publish`",
    )
}

fn pushed_only(fault: PublishFault) -> PublishFault {
    PublishFault { sentence: format!("the branch is pushed, but {}", fault.sentence), ..fault }
}
