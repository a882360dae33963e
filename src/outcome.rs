//! What the end of an attempt means: facts in, one outcome out; the first rule that matches wins. Pure.
//!
//! Exit 0 alone is never success: the runner's positive end marker must be there too. What is not known is said to be
//! unknown and never taken for good.

use crate::{
    plan::spec::Commits,
    record::NodeState,
    stream::{Account, RunResult},
};

/// Why kew itself ended a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopCause {
    /// A person or a signal asked for it.
    Asked,
    /// The node's `timeout` ran out; its length for people.
    Deadline(String),
    /// A log grew past its cap; which, and the cap for people.
    LogCap(String),
    /// Its checkout grew past its cap; the cap for people.
    CheckoutCap(String),
    /// The disk of the checkouts is nearly full, whoever filled it; how far, for people.
    DiskFull(String),
    /// It took more steps than it may, or none that used anything; which, for people.
    StepCap(String),
    /// It said nothing for too long; the cap for people.
    Idle(String),
    /// A budget is used up; which and how far, for people.
    Budget(String),
    /// The time of the whole run is over; its length for people.
    RunDeadline(String),
    /// The agent was retrying with a credential that the provider refuses.
    CredentialRefused(u16),
}

/// What is known of a container's end, from the engine and from the client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineEnd {
    /// Whether the engine said that it started.
    pub started: bool,
    /// Exit status; `None` if nobody knows it.
    pub exit: Option<i32>,
    /// The engine's out-of-memory mark; `None` = unknown.
    pub oom: Option<bool>,
    /// The docker client was lost, or the engine went away, while the container ran.
    pub lost: bool,
    /// Last words of the client or the image on stderr, for people.
    pub stderr_tail: String,
}

/// What a node brought home.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Work {
    /// Commits above the input.
    pub commits: u32,
    /// Changed or untracked paths that no commit holds.
    pub dirty: u32,
    /// A few of these paths.
    pub dirty_paths: Vec<String>,
}

/// The kinds of outcome; [`Kind::word`] is what the state and the events say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// All good.
    Passed,
    /// Stopped because somebody asked.
    Cancelled,
    /// Its deadline ran out.
    TimedOut,
    /// It said nothing for too long.
    Stalled,
    /// It wrote, or went on, more than it may.
    Runaway,
    /// It, or all nodes together, spent more than it may.
    OverBudget,
    /// The provider's limit is used up.
    RateLimited,
    /// The provider refuses the credential.
    CredentialRefused,
    /// Docker, disk or kew; never the agent.
    Infrastructure,
    /// The agent or the job failed.
    Failed,
    /// Failed, and the engine saw it run out of memory.
    OutOfMemory,
    /// Commits are required, nothing was done.
    NothingDone,
    /// Commits are required, the work was not committed.
    UncommittedWork,
    /// A person must look.
    Held,
}

/// An outcome with its reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Which.
    pub kind: Kind,
    /// Why, for people; may quote agent text.
    pub reason: Option<String>,
    /// Another try may end otherwise: the trouble was the provider's, the machine's, or a crash.
    pub curable: bool,
}

impl Kind {
    /// The outcome in one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Cancelled => "cancelled",
            Self::TimedOut => "timed-out",
            Self::Stalled => "stalled",
            Self::Runaway => "runaway",
            Self::OverBudget => "over-budget",
            Self::RateLimited => "rate-limited",
            Self::CredentialRefused => "credential-refused",
            Self::Infrastructure => "infrastructure",
            Self::Failed => "failed",
            Self::OutOfMemory => "out-of-memory",
            Self::NothingDone => "nothing-done",
            Self::UncommittedWork => "uncommitted-work",
            Self::Held => "held",
        }
    }

    /// Where a node with this outcome stands.
    pub fn state(self) -> NodeState {
        match self {
            Self::Passed => NodeState::Passed,
            // Nothing of these is a fault in the work: a resumed run takes them up again.
            Self::Cancelled | Self::OverBudget => NodeState::Cancelled,
            Self::Held => NodeState::Held,
            _ => NodeState::Failed,
        }
    }
}

impl Outcome {
    /// An outcome with a reason. What the machine or the engine did is curable, all else is not.
    pub fn new(kind: Kind, reason: impl Into<String>) -> Self {
        Self { kind, reason: Some(reason.into()), curable: kind == Kind::Infrastructure }
    }

    /// The same, if `curable` where another try may end otherwise.
    fn curable_if(self, curable: bool) -> Self {
        Self { curable: self.curable || curable, ..self }
    }

    /// The good one.
    pub fn passed() -> Self {
        Self { kind: Kind::Passed, reason: None, curable: false }
    }
}

/// Judges the end of the container. `Ok` = nothing speaks against it so far; its work is judged next.
pub fn judge_end(stop: Option<&StopCause>, end: &EngineEnd, account: &Account) -> Result<(), Outcome> {
    if let Some(outcome) = stop.and_then(of_stop) {
        return Err(outcome);
    }
    let result = account.result.as_ref();
    let status = result.and_then(|result| result.api_status);
    if account.rate_limited.is_some() && !result.is_some_and(|result| result.ok) {
        return Err(Outcome::new(Kind::RateLimited, rate_limit_reason(account)));
    }
    if status == Some(429) {
        return Err(Outcome::new(Kind::RateLimited, said(result, "the provider's rate limit is used up")));
    }
    let refused = status.filter(|status| matches!(status, 401 | 403)).or(match stop {
        Some(StopCause::CredentialRefused(status)) => Some(*status),
        _ => None,
    });
    if let Some(status) = refused {
        // An agent that was stopped while it retried says only that it was stopped.
        let retried =
            account.last_retry.as_ref().filter(|_| result.and_then(|result| result.api_status).is_none());
        let reason = match retried {
            Some((_, message)) => message.clone(),
            None => said(result, "the provider refused the credential"),
        };
        let status = format!("HTTP {status}");
        let reason = if reason.starts_with(&status) { reason } else { format!("{status}: {reason}") };
        return Err(Outcome::new(Kind::CredentialRefused, reason));
    }
    if end.exit == Some(125) && !end.started {
        let reason = format!("docker could not start the container: {}", tail(&end.stderr_tail));
        return Err(Outcome::new(Kind::Infrastructure, reason));
    }
    if end.lost {
        let reason =
            "the connection to the container was lost while it ran; what it spent is at least what was seen";
        return Err(Outcome::new(Kind::Infrastructure, reason));
    }
    of_marker(end, account, result)
}

/// Judges what a node with a good end brought home, against what its plan asks for.
pub fn judge_work(commits: Commits, work: &Work) -> Outcome {
    if commits != Commits::Required || work.commits > 0 {
        return Outcome::passed();
    }
    if work.dirty > 0 {
        let listed = work.dirty_paths.join("`, `");
        let more = (work.dirty as usize).saturating_sub(work.dirty_paths.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        return Outcome::new(
            Kind::UncommittedWork,
            format!("uncommitted work: nothing was committed, but `{listed}`{more} changed"),
        );
    }
    Outcome::new(Kind::NothingDone, "nothing done: no commit and no change, and this node must bring commits")
}

fn of_stop(stop: &StopCause) -> Option<Outcome> {
    match stop {
        StopCause::Asked => Some(Outcome::new(Kind::Cancelled, "asked to stop")),
        StopCause::Deadline(length) => {
            Some(Outcome::new(Kind::TimedOut, format!("its timeout of {length} ran out")))
        }
        StopCause::Idle(length) => Some(Outcome::new(Kind::Stalled, format!("it said nothing for {length}"))),
        StopCause::LogCap(what) | StopCause::StepCap(what) | StopCause::CheckoutCap(what) => {
            Some(Outcome::new(Kind::Runaway, what.clone()))
        }
        StopCause::DiskFull(what) => Some(Outcome::new(Kind::Infrastructure, what.clone())),
        StopCause::Budget(what) => Some(Outcome::new(Kind::OverBudget, what.clone())),
        StopCause::RunDeadline(length) => {
            Some(Outcome::new(Kind::Cancelled, format!("the run's timeout of {length} ran out")))
        }
        StopCause::CredentialRefused(_) => None,
    }
}

fn of_marker(end: &EngineEnd, account: &Account, result: Option<&RunResult>) -> Result<(), Outcome> {
    let oom = end.oom == Some(true);
    let failed = |reason: String| {
        if oom {
            Outcome::new(Kind::OutOfMemory, format!("out of memory: {reason}"))
        } else {
            Outcome::new(Kind::Failed, reason)
        }
    };
    let exit = match end.exit {
        Some(0) => None,
        Some(126) => Some("exit status 126: the image's agent could not be executed".to_owned()),
        Some(127) => Some("exit status 127: the image, or a command of the agent, was not found".to_owned()),
        Some(137) if end.oom.is_none() => {
            Some("exit status 137: killed, perhaps out of memory (the engine did not say)".into())
        }
        Some(code) => Some(format!("exit status {code}")),
        None => Some("its exit status is not known".to_owned()),
    };
    let Some(result) = result.filter(|result| !(result.ok && result.provisional)) else {
        let exit = exit.unwrap_or_else(|| "exit status 0".to_owned());
        let tail = tail(&end.stderr_tail);
        let tail = if tail.is_empty() { String::new() } else { format!("; it said: {tail}") };
        // It ended before it was done. Not being executable or not being found is no accident, nor is a lack of memory.
        let crashed = !oom && !matches!(end.exit, Some(126 | 127));
        return Err(failed(format!("no end marker from the agent ({exit}){tail}")).curable_if(crashed));
    };
    if !result.ok {
        let reason = said(Some(result), "the agent reports an error");
        // An agent that was killed had no say in it.
        let killed = end.exit.filter(|code| *code > 128);
        // The provider's own trouble: 5xx, 529 among them for "overloaded".
        let theirs = result.api_status.is_some_and(|status| (500..600).contains(&status));
        return Err(failed(
            killed.map_or_else(|| reason.clone(), |code| format!("{reason} (exit status {code})")),
        )
        .curable_if(theirs));
    }
    let denials = account.denials.max(result.denials);
    if denials > 0 {
        return Err(failed(format!("{denials} tool calls were refused by the agent's permission mode")));
    }
    match exit {
        Some(exit) => Err(failed(format!("{exit}, although the agent reported success"))),
        None => Ok(()),
    }
}

fn rate_limit_reason(account: &Account) -> String {
    match account.rate_limited.flatten() {
        Some(at) => format!(
            "the provider's limit is used up until {}",
            jiff::Timestamp::from_second(at).map_or_else(|_| at.to_string(), |t| t.to_string())
        ),
        None => "the provider's limit is used up".to_owned(),
    }
}

fn said(result: Option<&RunResult>, otherwise: &str) -> String {
    result.and_then(|result| result.error.clone()).unwrap_or_else(|| otherwise.to_owned())
}

/// The last line or so of stderr, at most 300 characters.
fn tail(stderr: &str) -> String {
    let text = stderr.trim();
    let skip = text.chars().count().saturating_sub(300);
    text.chars().skip(skip).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::StreamEvent;

    fn good() -> (EngineEnd, Account) {
        let end = EngineEnd { started: true, exit: Some(0), oom: Some(false), ..EngineEnd::default() };
        (end, told(RunResult { ok: true, ..RunResult::default() }))
    }

    fn told(result: RunResult) -> Account {
        with(Account::default(), StreamEvent::Result(result))
    }

    fn with(mut account: Account, event: StreamEvent) -> Account {
        account.apply(&event);
        account
    }

    fn kind(stop: Option<StopCause>, end: &EngineEnd, account: &Account) -> Kind {
        match judge_end(stop.as_ref(), end, account) {
            Ok(()) => Kind::Passed,
            Err(outcome) => outcome.kind,
        }
    }

    #[test]
    fn the_first_rule_that_matches_wins() {
        let (end, account) = good();
        assert_eq!(kind(None, &end, &account), Kind::Passed);
        assert_eq!(kind(Some(StopCause::Asked), &end, &account), Kind::Cancelled);
        assert_eq!(kind(Some(StopCause::Deadline("5m".into())), &end, &account), Kind::TimedOut);
        assert_eq!(kind(Some(StopCause::LogCap("stdout".into())), &end, &account), Kind::Runaway);
        assert_eq!(kind(Some(StopCause::CheckoutCap("16 GiB".into())), &end, &account), Kind::Runaway);
        assert_eq!(
            kind(Some(StopCause::DiskFull("1 MiB left".into())), &end, &account),
            Kind::Infrastructure
        );

        let limited = with(told(RunResult::default()), StreamEvent::RateLimited { resets_at: None });
        assert_eq!(kind(None, &end, &limited), Kind::RateLimited);
        let recovered = with(account.clone(), StreamEvent::RateLimited { resets_at: None });
        assert_eq!(kind(None, &end, &recovered), Kind::Passed);
        for (status, expected) in [
            (429, Kind::RateLimited),
            (401, Kind::CredentialRefused),
            (403, Kind::CredentialRefused),
            (500, Kind::Failed),
        ] {
            let account = told(RunResult { api_status: Some(status), ..RunResult::default() });
            assert_eq!(kind(None, &end, &account), expected, "{status}");
        }
        assert_eq!(
            kind(Some(StopCause::CredentialRefused(401)), &end, &Account::default()),
            Kind::CredentialRefused
        );
    }

    #[test]
    fn trouble_with_the_engine_is_never_the_agents() {
        let (end, account) = good();
        let not_started = EngineEnd { started: false, exit: Some(125), ..end.clone() };
        assert_eq!(kind(None, &not_started, &Account::default()), Kind::Infrastructure);
        let inside = EngineEnd { exit: Some(125), ..end.clone() };
        assert_eq!(
            kind(None, &inside, &Account::default()),
            Kind::Failed,
            "the agent itself may exit with 125"
        );
        assert_eq!(kind(None, &EngineEnd { lost: true, ..end }, &account), Kind::Infrastructure);
    }

    #[test]
    fn exit_zero_without_a_good_marker_is_a_failure() {
        let (end, account) = good();
        assert_eq!(kind(None, &end, &Account::default()), Kind::Failed);
        let denied = with(account.clone(), StreamEvent::PermissionDenied { tool: "Bash".into() });
        assert_eq!(kind(None, &end, &denied), Kind::Failed);
        let nonzero = EngineEnd { exit: Some(1), ..end.clone() };
        assert_eq!(kind(None, &nonzero, &account), Kind::Failed);
        let unknown = EngineEnd { exit: None, ..end.clone() };
        assert_eq!(kind(None, &unknown, &account), Kind::Failed);
        let killed = EngineEnd { exit: Some(137), oom: Some(true), ..end.clone() };
        assert_eq!(kind(None, &killed, &Account::default()), Kind::OutOfMemory);
        let survived = EngineEnd { oom: Some(true), ..end };
        assert_eq!(kind(None, &survived, &account), Kind::Passed, "an oom on the way is no failure");
    }

    #[test]
    fn work_is_asked_for_only_where_commits_are_required() {
        let none = Work::default();
        let dirty = Work { dirty: 2, dirty_paths: vec!["a.txt".into()], ..Work::default() };
        let done = Work { commits: 1, dirty: 2, ..Work::default() };
        assert_eq!(judge_work(Commits::Required, &none).kind, Kind::NothingDone);
        let uncommitted = judge_work(Commits::Required, &dirty);
        assert_eq!(uncommitted.kind, Kind::UncommittedWork);
        assert_eq!(
            uncommitted.reason.as_deref(),
            Some("uncommitted work: nothing was committed, but `a.txt` and 1 more changed")
        );
        assert_eq!(judge_work(Commits::Required, &done).kind, Kind::Passed);
        assert_eq!(judge_work(Commits::Optional, &dirty).kind, Kind::Passed);
        assert_eq!(judge_work(Commits::Forbidden, &done).kind, Kind::Passed);
    }
}
