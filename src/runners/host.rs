//! An agent as a process of the host: its program, its arguments, and how the prompt reaches it.
//!
//! Not how it is started or ended (see `run::host`), and not a fallback for a container: only an explicit setting asks for
//! it. Invariant: the prompt is never an argument, and `container_args()` are part of the arguments, unchanged.

/// How the prompt reaches the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Handoff {
    /// It is the program's stdin.
    Stdin,
    /// It is a script: its file is the last argument, stdin is empty, and what it prints is told as events.
    Script,
}

/// A runner's command on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommand {
    /// The program, looked up in `PATH`.
    pub program: String,
    /// Its arguments: those of a container, and before them what the image adds.
    pub args: Vec<String>,
    /// How the prompt reaches it.
    pub prompt: Handoff,
    /// The option that takes a session id of the caller's, so that a person can take the session up again on this host. A
    /// container has no use for it: its sessions end with it.
    pub session: Option<&'static str>,
}

impl HostCommand {
    /// A program that reads its prompt from stdin: `first`, then the arguments of a container.
    pub fn stdin(program: &str, first: &[&str], container_args: Vec<String>) -> Self {
        let args = first.iter().map(|arg| (*arg).to_owned()).chain(container_args).collect();
        Self { program: program.to_owned(), args, prompt: Handoff::Stdin, session: None }
    }

    /// All arguments, with the session's id where the program takes one.
    pub fn argv(&self, session: &str) -> Vec<String> {
        let id = self.session.map(|option| [option.to_owned(), session.to_owned()]);
        self.args.iter().cloned().chain(id.into_iter().flatten()).collect()
    }
}
