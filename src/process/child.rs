//! Long-running children whose output streams: the docker clients of nodes, `docker events`, the watchdog.
//!
//! Each has its own pipes and its own process group. Two named threads read stdout and stderr to their end; whoever
//! waits decides how long the pipes may stay open after the exit. Invariant: no captured output, no checked expression,
//! and a child that was started is always waited for.

use std::{
    ffi::OsString,
    fmt, fs, io,
    io::Read as _,
    os::{
        fd::OwnedFd,
        unix::process::{CommandExt as _, ExitStatusExt as _},
    },
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use camino::Utf8Path;

use super::env::Names;
use crate::lines::{Line, Lines};

/// What is started. The environment is exactly `env`.
#[derive(Default)]
pub struct Spawn {
    /// Program, looked up in this process's `PATH` if it has no slash.
    pub program: String,
    /// Arguments; never a secret.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub env: Vec<(OsString, OsString)>,
    /// A short name for the threads.
    pub tag: String,
}

impl fmt::Debug for Spawn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, args, env, tag } = self;
        let mut shown = f.debug_struct("Spawn");
        shown
            .field("program", program)
            .field("args", args)
            .field("env", &Names(env))
            .field("tag", tag)
            .finish()
    }
}

/// A running child.
#[derive(Debug)]
pub struct Child {
    handle: Arc<duct::Handle>,
    readers: mpsc::Receiver<()>,
    open: usize,
}

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// Whether both pipes were read to their end.
    pub drained: bool,
}

/// Takes the lines of one pipe, on that pipe's thread. Called with `None` at the end of the stream.
pub type TakeLine = Box<dyn FnMut(Option<Line<'_>>) + Send>;

impl Child {
    /// Starts it and reads both pipes.
    pub fn start(spawn: Spawn, stdout: TakeLine, stderr: TakeLine) -> io::Result<Self> {
        Self::start_as(spawn, true, stdout, stderr)
    }

    /// The same for a program that makes a session of its own, which a leader of a group cannot.
    pub fn start_session(spawn: Spawn, stdout: TakeLine, stderr: TakeLine) -> io::Result<Self> {
        Self::start_as(spawn, false, stdout, stderr)
    }

    fn start_as(spawn: Spawn, leads: bool, stdout: TakeLine, stderr: TakeLine) -> io::Result<Self> {
        let (out_read, out_write) = io::pipe()?;
        let (err_read, err_write) = io::pipe()?;
        let handle = {
            // The expression holds the writing ends: it must be gone before anybody waits for the end of the streams.
            let expression = duct::cmd(&spawn.program, &spawn.args)
                .full_env(spawn.env)
                .stdin_null()
                .stdout_file(out_write)
                .stderr_file(err_write)
                .unchecked()
                .before_spawn(move |command| {
                    if leads {
                        command.process_group(0);
                    }
                    Ok(())
                });
            Arc::new(expression.start()?)
        };
        let (done, readers) = mpsc::channel();
        read(format!("{}-out", spawn.tag), out_read, stdout, done.clone())?;
        read(format!("{}-err", spawn.tag), err_read, stderr, done)?;
        Ok(Self { handle, readers, open: 2 })
    }

    /// Its process id, which is also its process group's.
    pub fn pid(&self) -> Option<u32> {
        self.handle.pids().first().copied()
    }

    /// Waits for the exit, then at most `drain` for the pipes; after that the group is ended, which closes them.
    pub fn wait(&mut self, drain: Duration) -> io::Result<Exit> {
        let code = self.handle.wait()?.status.code();
        let deadline = std::time::Instant::now() + drain;
        while self.open > 0 {
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if self.readers.recv_timeout(left).is_err() {
                super::kill_group(&self.handle.pids());
                break;
            }
            self.open -= 1;
        }
        while self.open > 0 && self.readers.recv_timeout(Duration::from_millis(500)).is_ok() {
            self.open -= 1;
        }
        Ok(Exit { code, drained: self.open == 0 })
    }

    /// Ends the client at once. Its container, if it has one, goes on: that is stopped by name.
    pub fn kill(&self) -> io::Result<()> {
        self.handle.kill()
    }

    /// A handle for ending it from another thread.
    pub fn killer(&self) -> Killer {
        Killer(Arc::clone(&self.handle))
    }
}

/// Ends a child from another thread.
#[derive(Debug, Clone)]
pub struct Killer(Arc<duct::Handle>);

impl Killer {
    /// Ends the child at once; fine if it ended by itself.
    pub fn kill(&self) {
        let _ = self.0.kill();
    }

    /// Sends it a signal, unless it has ended.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = self.0.pids().first().and_then(|pid| i32::try_from(*pid).ok());
        if let (Ok(None), Some(pid)) = (self.0.try_wait(), pid.and_then(rustix::process::Pid::from_raw)) {
            let _ = rustix::process::kill_process(pid, signal);
        }
    }
}

/// A child that writes to this process's own stdout and stderr, in a process group of its own.
#[derive(Debug)]
pub struct Heir(duct::Handle);

impl Heir {
    /// Starts a program in `dir`, with this process's environment and `stdin` to read.
    pub fn start(program: &str, args: &[OsString], dir: &Utf8Path, stdin: fs::File) -> io::Result<Self> {
        let expression = duct::cmd(program, args)
            .full_env(std::env::vars_os())
            .dir(dir)
            .stdin_file(stdin)
            .unchecked()
            .before_spawn(|command| {
                command.process_group(0);
                Ok(())
            });
        Ok(Self(expression.start()?))
    }

    /// Its process id, which is also its process group's.
    pub fn pid(&self) -> Option<u32> {
        self.0.pids().first().copied()
    }

    /// Waits so long for its end; its exit code, or 128 and the signal's number.
    pub fn wait(&self, limit: Duration) -> io::Result<Option<i32>> {
        let ended = self.0.wait_timeout(limit)?;
        Ok(ended.map(|output| {
            let status = output.status;
            status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
        }))
    }
}

/// A child that outlives this process and keeps a lock: stdin is a pipe from here, stdout the lock's file.
#[derive(Debug)]
pub struct Keeper {
    handle: duct::Handle,
    stderr: io::BufReader<io::PipeReader>,
}

impl Keeper {
    /// Starts it. `stdin` should be the reading end of a pipe whose writing end this process keeps.
    pub fn start(spawn: Spawn, stdin: OwnedFd, stdout: fs::File) -> io::Result<Self> {
        let (err_read, err_write) = io::pipe()?;
        let expression = duct::cmd(&spawn.program, &spawn.args)
            .full_env(spawn.env)
            .stdin_file(stdin)
            .stdout_file(stdout)
            .stderr_file(err_write)
            .unchecked();
        let handle = expression.start()?;
        Ok(Self { handle, stderr: io::BufReader::new(err_read) })
    }

    /// The first line that it writes on stderr: its word that it is ready.
    pub fn first_word(&mut self) -> io::Result<String> {
        let mut line = String::new();
        io::BufRead::read_line(&mut self.stderr, &mut line)?;
        Ok(line.trim().to_owned())
    }

    /// Waits for its end.
    pub fn wait(&self, deadline: Duration) -> io::Result<bool> {
        Ok(self.handle.wait_timeout(deadline)?.is_some())
    }
}

fn read(
    name: String,
    mut pipe: io::PipeReader,
    mut take: TakeLine,
    done: mpsc::Sender<()>,
) -> io::Result<()> {
    thread::Builder::new().name(name).spawn(move || {
        let mut lines = Lines::default();
        let mut chunk = vec![0; 128 * 1024];
        loop {
            match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => lines.feed(&chunk[..count], |line| take(Some(line))),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        lines.finish(|line| take(Some(line)));
        take(None);
        // Nobody may be waiting any more: the drain deadline passed.
        let _ = done.send(());
    })?;
    Ok(())
}
