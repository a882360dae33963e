//! Short commands whose whole answer fits in memory: `docker inspect`, `git rev-parse`, and git plumbing fed from a file.
//!
//! Not for nodes: those stream (see `child`). Every command has an explicit environment, no terminal, its own process
//! group and a deadline; the argv never holds a secret, so it may be shown. Invariant: never a checked duct expression.

use std::{
    ffi::OsString,
    fmt, fs, io,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::env::Names;

/// The user and group that a command runs as; only root may choose another than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunAs {
    /// Numeric user.
    pub uid: u32,
    /// Numeric group.
    pub gid: u32,
}

/// How often a command that can be stopped is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a command reads.
#[derive(Debug)]
enum Stdin {
    Null,
    Bytes(Vec<u8>),
    File(fs::File),
}

/// A command to be run to its end.
pub struct Query {
    program: String,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    dir: Option<PathBuf>,
    stdin: Stdin,
    stdout: Option<fs::File>,
    run_as: Option<RunAs>,
    stop: Option<Arc<AtomicBool>>,
    deadline: Duration,
}

impl fmt::Debug for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Query");
        shown.field("program", &self.program).field("args", &self.args).field("env", &Names(&self.env));
        shown.field("dir", &self.dir).field("run_as", &self.run_as).field("deadline", &self.deadline);
        shown.finish_non_exhaustive()
    }
}

/// How a command ended.
#[derive(Debug)]
pub struct Answer {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// All of stdout (empty where it went to a file).
    pub stdout: Vec<u8>,
    /// All of stderr, lossily decoded, trimmed.
    pub stderr: String,
}

/// Why a command gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryError {
    /// It could not be started.
    #[error("`{program}` could not be started: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It ran past its deadline and was ended.
    #[error("`{command}` gave no answer within {} s", deadline.as_secs())]
    Deadline {
        /// Program and arguments.
        command: String,
        /// The deadline.
        deadline: Duration,
    },
    /// It was asked to stop and was ended.
    #[error("`{0}` was asked to stop")]
    Stopped(String),
}

impl Answer {
    /// Exit code zero.
    pub fn ok(&self) -> bool {
        self.code == Some(0)
    }

    /// Stdout as text, without trailing white space.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim_end().to_owned()
    }
}

impl Query {
    /// A command with an empty environment, no stdin and a deadline of two minutes.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            env: Vec::new(),
            dir: None,
            stdin: Stdin::Null,
            stdout: None,
            run_as: None,
            stop: None,
            deadline: Duration::from_secs(120),
        }
    }

    /// Adds one argument.
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args<A: Into<OsString>>(mut self, args: impl IntoIterator<Item = A>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets one variable of the environment, which is otherwise empty.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Empties the environment again, for one that is not a host git's usual.
    pub fn env_clear(mut self) -> Self {
        self.env.clear();
        self
    }

    /// The folder that it runs in.
    pub fn dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.dir = Some(dir.into());
        self
    }

    /// Feeds these bytes to it.
    pub fn stdin_bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Stdin::Bytes(bytes.into());
        self
    }

    /// Lets it read this open file from where it stands.
    pub fn stdin_file(mut self, file: fs::File) -> Self {
        self.stdin = Stdin::File(file);
        self
    }

    /// Sends stdout to this open file rather than to [`Answer::stdout`].
    pub fn stdout_file(mut self, file: fs::File) -> Self {
        self.stdout = Some(file);
        self
    }

    /// Runs it as another user (root only).
    pub fn run_as(mut self, run_as: Option<RunAs>) -> Self {
        self.run_as = run_as;
        self
    }

    /// Another deadline than two minutes.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Ends it once this becomes true; looked at a few times per second.
    pub fn stop_on(mut self, stop: Arc<AtomicBool>) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Runs it to its end. A non-zero exit is an [`Answer`], not an error.
    pub fn run(self) -> Result<Answer, QueryError> {
        let command = self.to_string();
        let start = |source| QueryError::Start { program: self.program.clone(), source };
        let run_as = self.run_as;
        let mut expression = duct::cmd(&self.program, &self.args)
            .full_env(self.env.iter().cloned())
            .stderr_capture()
            .unchecked()
            .before_spawn(move |command| {
                command.process_group(0);
                if let Some(RunAs { uid, gid }) = run_as {
                    command.gid(gid).uid(uid);
                }
                Ok(())
            });
        expression = match self.stdin {
            Stdin::Null => expression.stdin_null(),
            Stdin::Bytes(bytes) => expression.stdin_bytes(bytes),
            Stdin::File(file) => expression.stdin_file(file),
        };
        expression = match self.stdout {
            None => expression.stdout_capture(),
            Some(file) => expression.stdout_file(file),
        };
        if let Some(dir) = &self.dir {
            expression = expression.dir(dir);
        }
        let handle = expression.start().map_err(start)?;
        drop(expression);
        let begun = Instant::now();
        loop {
            let left = self.deadline.saturating_sub(begun.elapsed());
            let look = if self.stop.is_some() { left.min(LOOK) } else { left };
            if handle.wait_timeout(look).map_err(start)?.is_some() {
                break;
            }
            let stopped = self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::SeqCst));
            if stopped || begun.elapsed() >= self.deadline {
                super::kill_group(&handle.pids());
                let _ = handle.wait_timeout(Duration::from_secs(2));
                return Err(match stopped {
                    true => QueryError::Stopped(command),
                    false => QueryError::Deadline { command, deadline: self.deadline },
                });
            }
        }
        let output = handle.into_output().map_err(start)?;
        Ok(Answer {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        })
    }
}

/// Program and arguments, for error messages; the environment is never shown.
impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.program)?;
        for arg in &self.args {
            write!(f, " {}", arg.to_string_lossy())?;
        }
        Ok(())
    }
}
