//! The command line: arguments in, one command called, an exit code out. Each command has a file of its own.
//!
//! stdout carries results, stderr people's text. No prompt ever asks.

mod artifacts;
mod build;
mod check;
mod doctor;
mod dry_run;
mod history;
mod network;
mod outgoing;
mod preflight;
mod publish;
mod run;
mod runners;
mod sandbox;
mod schema;
mod setting;
mod up;
mod world;

use std::io::{self, Write as _};

use camino::Utf8PathBuf;
use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::{
    plan::{error::render::Paint, spec::Publish},
    run::{host::guard, watchdog},
};

/// Runs epics of coding-agent jobs: a plan's nodes, each one agent in one hardened container, in dependency order.
#[derive(Debug, Parser)]
#[command(name = "kew", version, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Carry out an epic plan.
    Run(RunArgs),
    /// Go on with a run that ended early, was stopped, or whose kew died: what passed is kept.
    Resume(ResumeArgs),
    /// Check plans; reads files only.
    Check(CheckArgs),
    /// List the runs of this repository.
    Runs(RepoArgs),
    /// Show a run: its nodes, attempts, verdicts and spend.
    Show(ShowArgs),
    /// Print what a node's agent wrote.
    Logs(LogsArgs),
    /// Push branches and open pull requests that a run did not publish, or could not.
    Publish(PublishArgs),
    /// List what nodes left as artifacts, or copy it out.
    Artifacts(ArtifactsArgs),
    /// Build and try the images that agents run in.
    #[command(subcommand)]
    Sandbox(SandboxCommand),
    /// List the runners, or read a recorded stream as one of them would.
    Runners(RunnersArgs),
    /// Print a JSON schema.
    Schema(SchemaArgs),
    /// The parent of an agent on the host.
    #[command(name = guard::SUBCOMMAND, hide = true)]
    Guard {
        kew: u32,
        dir: Utf8PathBuf,
        stdin: Utf8PathBuf,
        #[arg(last = true, required = true)]
        command: Vec<std::ffi::OsString>,
    },
    /// Kept by a run, to clean up behind it should it be killed.
    #[command(name = watchdog::SUBCOMMAND, hide = true)]
    Watchdog { host: String, config: Utf8PathBuf, owner: String, workspace: Utf8PathBuf, lock: Utf8PathBuf },
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Human,
    /// One JSON object per line.
    Json,
}

#[derive(Debug, Args)]
struct RepoArgs {
    /// The repository; default: the one that the current folder is in.
    #[arg(long, value_name = "DIR")]
    repo: Option<Utf8PathBuf>,
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The plan, a TOML file.
    plan: Utf8PathBuf,
    #[command(flatten)]
    repo: RepoArgs,
    /// Validate everything and print what would happen; starts no container and writes nothing.
    #[arg(long)]
    dry_run: bool,
    /// In a dry run: ask the engine for image ids and the network.
    #[arg(long, requires = "dry_run")]
    resolve: bool,
    /// How many nodes run at once; default: the plan's `max_parallel`, else 4.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Only these nodes, with all that they need and every reviewer that gates them.
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    only: Vec<String>,
    /// Publish nothing; `kew publish RUN` does it later.
    #[arg(long)]
    no_publish: bool,
    /// Start nothing more after the first failure; what runs is let finish.
    #[arg(long)]
    fail_fast: bool,
    /// The longest pause for a provider's rate limit, as in `90s`, `15m` or `2h`; a longer one ends the run with exit code 5.
    /// Default: any, and 15m where `CI` is set.
    #[arg(long, value_name = "TIME", value_parser = |text: &str| crate::units::parse_duration(text))]
    max_wait: Option<std::time::Duration>,
    /// `json`: one versioned event per line on stdout.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Debug, Args)]
struct ResumeArgs {
    /// A run's id, the beginning of one, or `latest`.
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    repo: RepoArgs,
    /// Publish nothing; `kew publish RUN` does it later.
    #[arg(long)]
    no_publish: bool,
    /// Nodes to do again, with all that is behind them; `failed` = all that failed. Without it failed nodes stay so.
    #[arg(long, value_name = "NODE", value_delimiter = ',')]
    retry: Vec<String>,
    /// How many nodes run at once; default: the plan's `max_parallel`, else 4.
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Start nothing more after the first failure; what runs is let finish.
    #[arg(long)]
    fail_fast: bool,
    /// The longest pause for a provider's rate limit; a longer one ends the run with exit code 5.
    #[arg(long, value_name = "TIME", value_parser = |text: &str| crate::units::parse_duration(text))]
    max_wait: Option<std::time::Duration>,
    /// `json`: one versioned event per line on stdout.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Debug, Args)]
struct CheckArgs {
    /// Plans, TOML files.
    #[arg(required = true)]
    plans: Vec<Utf8PathBuf>,
    #[command(flatten)]
    repo: RepoArgs,
    /// `json`: one object per problem on stdout.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// A run's id, the beginning of one, or `latest`.
    #[arg(default_value = "latest")]
    run: String,
    #[command(flatten)]
    repo: RepoArgs,
}

#[derive(Debug, Args)]
struct LogsArgs {
    /// A run's id, the beginning of one, or `latest`.
    run: String,
    /// The node.
    node: String,
    #[command(flatten)]
    repo: RepoArgs,
    /// Which attempt; default: the last.
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    /// The log as it was written.
    #[arg(long)]
    raw: bool,
    /// The log of stderr.
    #[arg(long)]
    stderr: bool,
}

#[derive(Debug, Args)]
struct PublishArgs {
    /// A run's id, the beginning of one, or `latest`.
    run: String,
    /// Only this node; default: all that the plan publishes.
    node: Option<String>,
    /// How, whatever the plan says of the node.
    #[arg(long = "as", value_enum, value_name = "HOW", requires = "node")]
    how: Option<PublishHow>,
    #[command(flatten)]
    repo: RepoArgs,
    /// `json`: one versioned event per line on stdout.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Debug, Args)]
struct ArtifactsArgs {
    /// A run's id, the beginning of one, or `latest`.
    #[arg(default_value = "latest")]
    run: String,
    /// Only this node's.
    node: Option<String>,
    #[command(flatten)]
    repo: RepoArgs,
    /// Copy them to DIR/NODE/PATH. Nothing that is there is overwritten.
    #[arg(long, short, value_name = "DIR")]
    output: Option<Utf8PathBuf>,
    /// Those of every attempt, below DIR/NODE/ATTEMPT; default: of each node's last one.
    #[arg(long)]
    all: bool,
    /// `json`: one object per artifact on stdout.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

/// How a node is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PublishHow {
    /// Push its branch.
    Branch,
    /// Push its branch and open a pull request.
    PullRequest,
}

impl From<PublishHow> for Publish {
    fn from(how: PublishHow) -> Self {
        match how {
            PublishHow::Branch => Self::Branch,
            PublishHow::PullRequest => Self::PullRequest,
        }
    }
}

#[derive(Debug, Subcommand)]
enum SandboxCommand {
    /// Make all that runs need: make the network, build images that are missing or out of date, try and examine everything,
    /// and add the image map to your settings file.
    Up(UpArgs),
    /// Build images from the recipes in this binary, under the names in the settings.
    Build(BuildArgs),
    /// Try images: launch, mount and prompt hand-over, without starting an agent.
    Smoke(SmokeArgs),
    /// Look at the engine and at every image that the settings map, in the very box that a node gets; spends nothing.
    Doctor(DoctorArgs),
    /// The allowlist network and its gateway, by which alone allowed hosts are reached.
    #[command(subcommand)]
    Network(NetworkCommand),
}

#[derive(Debug, Subcommand)]
enum NetworkCommand {
    /// Make the networks, the gateway and the firewall rules, as far as they are missing.
    Up(NetworkArgs),
    /// Remove them; refused while a container uses them.
    Down,
    /// Tell what is there and whether it works.
    Status(NetworkArgs),
    /// Start the gateway anew, with its image and ports as they are now; refused while a container uses it.
    Reload(NetworkArgs),
    /// Prove it from inside an agent's container: what must work, and everything that must not.
    Check(NetworkArgs),
}

#[derive(Debug, Args)]
struct NetworkArgs {
    #[command(flatten)]
    repo: RepoArgs,
}

#[derive(Debug, Args)]
struct UpArgs {
    /// Runners; default: all that the settings map, else `claude-code` and `shell`.
    runners: Vec<String>,
    #[command(flatten)]
    repo: RepoArgs,
    /// Show the image map; write no settings file.
    #[arg(long)]
    print: bool,
    #[command(flatten)]
    recipe: RecipeArgs,
}

#[derive(Debug, Args)]
struct BuildArgs {
    /// Runners whose images are built; default: all that the settings map, and the collector.
    runners: Vec<String>,
    #[command(flatten)]
    repo: RepoArgs,
    /// A project's own image (Debian or Ubuntu) that agents are put on, as a toolchain.
    #[arg(long, value_name = "IMAGE", requires = "toolchain")]
    base: Option<String>,
    /// The toolchain's name, which plans use.
    #[arg(long, value_name = "NAME", requires = "base")]
    toolchain: Option<String>,
    #[command(flatten)]
    recipe: RecipeArgs,
}

#[derive(Debug, Args)]
struct RecipeArgs {
    /// The base image, where the pinned one cannot be pulled.
    #[arg(long, env = "KEW_BASE_IMAGE", value_name = "IMAGE")]
    base_image: Option<String>,
    /// Certificates that downloads during a build need besides the public ones; they do not get into an image. Default: the
    /// file that SSL_CERT_FILE or NODE_EXTRA_CA_CERTS names; empty: none.
    #[arg(long, env = "KEW_EXTRA_CA", value_name = "FILE")]
    extra_ca: Option<Utf8PathBuf>,
}

#[derive(Debug, Args)]
struct SmokeArgs {
    /// Only this runner's image.
    #[arg(long, value_name = "RUNNER")]
    runner: Option<String>,
    #[command(flatten)]
    repo: RepoArgs,
}

#[derive(Debug, Args)]
struct DoctorArgs {
    /// Only this runner's images.
    #[arg(long, value_name = "RUNNER")]
    runner: Option<String>,
    #[command(flatten)]
    repo: RepoArgs,
    /// `json`: one object per check on stdout.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
struct RunnersArgs {
    #[command(subcommand)]
    command: Option<RunnersCommand>,
    #[command(flatten)]
    repo: RepoArgs,
    /// `json`: one object per runner on stdout.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Debug, Subcommand)]
enum RunnersCommand {
    /// Print what kew makes of a recorded stream: session, model, tokens, cost, outcome, lines not understood.
    Parse(ParseArgs),
}

#[derive(Debug, Args)]
struct ParseArgs {
    /// Whose vocabulary it is.
    runner: String,
    /// The recorded stdout of the agent; default: stdin.
    file: Option<Utf8PathBuf>,
    /// The exit status that the container had.
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    exit: i32,
    /// `json`: one object on stdout.
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Debug, Args)]
struct SchemaArgs {
    /// Which.
    #[arg(value_enum, default_value = "plan")]
    schema: schema::Which,
}

/// Runs the command line of this process; gives its exit code.
pub fn main() -> u8 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap's own: 0 for help and version, 2 for wrong arguments.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(crate::error::exit::USAGE);
        }
    };
    let done = match cli.command {
        Command::Run(args) => run::run(&args),
        Command::Resume(args) => run::resume(&args),
        Command::Check(args) => check::check(&args),
        Command::Runs(args) => history::runs(&args),
        Command::Show(args) => history::show(&args),
        Command::Logs(args) => history::logs(&args),
        Command::Publish(args) => publish::publish(&args),
        Command::Artifacts(args) => artifacts::artifacts(&args),
        Command::Sandbox(SandboxCommand::Up(args)) => up::up(&args),
        Command::Sandbox(SandboxCommand::Build(args)) => build::build(&args),
        Command::Sandbox(SandboxCommand::Smoke(args)) => sandbox::smoke(&args),
        Command::Sandbox(SandboxCommand::Doctor(args)) => doctor::doctor(&args),
        Command::Sandbox(SandboxCommand::Network(command)) => network::network(&command),
        Command::Runners(RunnersArgs { command: Some(RunnersCommand::Parse(args)), .. }) => {
            runners::parse(&args)
        }
        Command::Runners(args) => runners::list(&args),
        Command::Schema(args) => schema::print(args.schema),
        Command::Guard { kew, dir, stdin, command } => {
            let (program, args) = command.split_first().expect("clap requires one");
            let (program, args) = (program.to_string_lossy().into_owned(), args.to_vec());
            return guard::keep(&guard::Guarded { kew, dir, stdin, program, args });
        }
        Command::Watchdog { host, config, owner, workspace, lock } => {
            return watchdog::keep_watch(&watchdog::Watched { host, config, owner, workspace, lock });
        }
    };
    done.unwrap_or_else(|failure| {
        say(&failure.to_string());
        failure.code
    })
}

/// A result, on stdout. A reader that went away is no error of ours.
fn put(text: &str) {
    let mut stdout = io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// People's text, on stderr.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{}", text.trim_end());
}

/// Whether people's text may have colour.
fn paint() -> Paint {
    use std::io::IsTerminal as _;
    let wanted =
        io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    if wanted { Paint::Colour } else { Paint::Plain }
}
