//! Child processes, by duct: `query` for short answers, `child` for streams. No other file names duct. `tree` finds and ends what
//! is below a process.

pub mod child;
mod env;
pub mod query;
pub mod tree;

/// Ends whole process groups; each child leads its own group, so a pid is a group id as long as a member lives.
pub(crate) fn kill_group(pids: &[u32]) {
    for pid in pids {
        if let Some(pid) = i32::try_from(*pid).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}
