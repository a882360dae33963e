//! The parent of an agent on the host: a small process of kew's own that lets nothing of the agent outlive it.
//!
//! It has a session of its own and adopts every orphan below it. kew asks it by signals: SIGINT and SIGTERM go on to the
//! agent, SIGUSR1 ends everything. Invariant: when it ends, by the agent's end, by SIGUSR1 or because kew is gone, nothing
//! that the agent started runs, whatever that did about groups and sessions.

use std::{
    ffi::OsString,
    fs, io,
    io::Write as _,
    os::unix::process::parent_id,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use camino::Utf8PathBuf;
use rustix::process::{Pid, Signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};

use crate::process::{child::Heir, tree};

/// The hidden subcommand that runs [`keep`].
pub const SUBCOMMAND: &str = "__guard";

/// How often it looks for signals and for kew.
const LOOK: Duration = Duration::from_millis(50);
/// How long it tries to end what is below it.
const PATIENCE: Duration = Duration::from_secs(20);

/// What it is told, as arguments.
#[derive(Debug, Clone)]
pub struct Guarded {
    /// kew's process id.
    pub kew: u32,
    /// The folder that the program runs in.
    pub dir: Utf8PathBuf,
    /// What it reads.
    pub stdin: Utf8PathBuf,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub args: Vec<OsString>,
}

impl Guarded {
    /// As arguments of kew.
    pub fn args(&self) -> Vec<OsString> {
        let first = [SUBCOMMAND, &self.kew.to_string(), self.dir.as_str(), self.stdin.as_str(), "--"];
        let first = first.map(OsString::from).into_iter().chain([OsString::from(&self.program)]);
        first.chain(self.args.iter().cloned()).collect()
    }
}

/// The whole life of the guard. Gives the agent's exit status, as a container's: 126 and 127 where it could not be started,
/// 128 and the number of a signal.
pub fn keep(guarded: &Guarded) -> u8 {
    let _ = rustix::process::setsid();
    let [int, term, now, hang_up] = [SIGINT, SIGTERM, SIGUSR1, SIGHUP].map(noted);
    drop(hang_up);
    if let Err(error) = tree::adopt_orphans() {
        return fault(125, "the system does not let kew adopt orphans", &error);
    }
    let stdin = match fs::File::open(&guarded.stdin) {
        Ok(stdin) => stdin,
        Err(error) => return fault(125, "the prompt could not be read", &error),
    };
    let heir = match Heir::start(&guarded.program, &guarded.args, &guarded.dir, stdin) {
        Ok(heir) => heir,
        Err(error) => {
            let code = if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 };
            return fault(code, &format!("`{}` could not be started", guarded.program), &error);
        }
    };
    let code = loop {
        match heir.wait(LOOK) {
            Ok(Some(code)) => break code,
            Ok(None) => {}
            Err(error) => {
                tree::end_descendants(false, PATIENCE);
                return fault(125, "the agent's end could not be waited for", &error);
            }
        }
        // Only the agent itself is asked, as in a container; it knows what to do with its tools.
        for (asked, signal) in [(&int, Signal::INT), (&term, Signal::TERM)] {
            let pid = heir.pid().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
            if asked.swap(false, Ordering::SeqCst)
                && let Some(pid) = pid
            {
                let _ = rustix::process::kill_process(pid, signal);
            }
        }
        if now.load(Ordering::SeqCst) || parent_id() != guarded.kew {
            tree::end_descendants(false, PATIENCE);
        }
    };
    if !tree::end_descendants(true, PATIENCE) {
        let _ = writeln!(io::stderr(), "kew: something that the agent started does not end");
    }
    u8::try_from(code).unwrap_or(u8::MAX)
}

fn noted(signal: i32) -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    let _ = signal_hook::flag::register(signal, Arc::clone(&flag));
    flag
}

fn fault(code: u8, what: &str, error: &io::Error) -> u8 {
    let _ = writeln!(io::stderr(), "kew: {what}: {error}");
    code
}
