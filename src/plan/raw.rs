//! The plan as it is written: tables of optional keys, each value with its place in the text. Nothing is resolved yet.
//!
//! One list of keys makes everything that knows them: the struct, its reader, the names offered for a typing mistake,
//! and the JSON schema with these doc comments as descriptions. Reading goes on after a problem, so all are found at once.

pub mod read;
mod syntax;

use schemars::JsonSchema;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use self::read::{At, Choice, Int, List, Num, Path, Read, Reader, Word};
use super::{
    error::Problem,
    spec::{Commits, Publish, VerdictBy},
};

/// Ids of nodes, as [`crate::name::NodeId`] checks them.
pub const ID_PATTERN: &str = "^[a-z0-9][a-z0-9-]{0,39}$";
/// Lengths of time, as [`crate::units::parse_duration`] reads them, without its rules on nothing and overflow.
const DURATION_PATTERN: &str = "^([0-9]+[dD])?([0-9]+[hH])?([0-9]+[mM])?([0-9]+[sS])?$";

macro_rules! table {
    ($(#[$doc:meta])* $name:ident { $($(#[$attr:meta])* $key:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, JsonSchema)]
        #[schemars(deny_unknown_fields)]
        pub struct $name {
            $($(#[$attr])* pub $key: Option<At<$type>>,)*
            /// Keys that are absent only because of a problem that was told.
            #[schemars(skip)]
            pub unread: Vec<&'static str>,
        }

        impl $name {
            /// Every key that this table takes, in the order of the reference.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($key)),*];
        }

        impl Read for $name {
            fn read(value: &Spanned<DeValue<'_>>, path: &Path<'_>, reader: &mut Reader) -> Option<Self> {
                let mut read = Self::default();
                for (key, value) in reader.table(value, path)? {
                    let name = key.get_ref().as_ref();
                    match name {
                        $(stringify!($key) => {
                            read.$key = At::read(key, value, &path.join(name), reader);
                            read.unread.extend(read.$key.is_none().then_some(stringify!($key)));
                        })*
                        _ => read.unread.extend(reader.unknown_key(key, path, Self::KEYS)),
                    }
                }
                Some(read)
            }
        }
    };
}

/// The keys of a node: `both` may also stand in `[defaults]`, `own` may not.
macro_rules! node_tables {
    (both { $($both:tt)* } own { $($own:tt)* }) => {
        table! {
            /// Values for every node that does not set its own.
            RawDefaults { $($both)* }
        }
        table! {
            /// One step of the epic: one prompt for one runner, in one container, over its own clone.
            RawNode { $($own)* $($both)* }
        }
    };
}

table! {
    /// A kew plan: an epic as a graph of nodes.
    RawPlan {
        /// Version of the plan's format. This kew reads version 1.
        #[schemars(required, extend("const" = 1))]
        version: Int,
        /// What all nodes work on.
        #[schemars(required)]
        epic: RawEpic,
        /// Values for every node that does not set its own.
        defaults: RawDefaults,
        /// The nodes, by id.
        #[schemars(required)]
        nodes: RawNodes,
    }
}

table! {
    /// What all nodes work on.
    RawEpic {
        /// The epic's name: a-z, 0-9 and -, at most 60 characters. It is part of branch names.
        #[schemars(required, regex(pattern = "^[a-z0-9][a-z0-9-]{0,59}$"))]
        name: String,
        /// Branch, tag or commit to start from. Default: the repository's HEAD.
        #[schemars(length(min = 1))]
        base: String,
        /// How many nodes run at once. Default: the settings' value.
        #[schemars(range(min = 1, max = 1024))]
        max_parallel: Int,
        /// How long the whole run may take, as in `6h`. Then nothing more starts and what runs is stopped.
        #[schemars(length(min = 2), regex(pattern = DURATION_PATTERN))]
        timeout: String,
        /// US dollars that all nodes together may spend. Nodes whose runner tells its cost only at its end need a cap of their own.
        max_cost_usd: Num,
        /// Tokens that all nodes together may use, cached ones included.
        #[schemars(range(min = 1))]
        max_tokens: Int,
        /// Allows runners whose cost nobody knows beside `max_cost_usd`. Default: false.
        allow_unmetered: bool,
    }
}

node_tables! {
    both {
        /// Who does the work: `claude-code`, `opencode`, `pi`, `hermes`, or `shell` for a plain job whose prompt is a bash script.
        #[schemars(length(min = 1))]
        runner: String,
        /// The model, in the runner's own spelling. Agents need one, plain jobs take none.
        #[schemars(length(min = 1))]
        model: String,
        /// A named second image map of the settings (`sandbox.toolchains.<name>`), for work that needs a project's own tools.
        #[schemars(length(min = 1))]
        toolchain: String,
        /// How a reviewer's verdict is read: `file` (default) is the file that it writes, `exit` the exit status of a plain job.
        verdict: Choice<VerdictBy>,
        /// Whether commits are expected. Default: `required` for agents, `optional` for plain jobs; a reviewer's are always dropped.
        commits: Choice<Commits>,
        /// How long the container may take, as in `90s`, `45m`, `1h30m` or `2d`.
        #[schemars(length(min = 2), regex(pattern = DURATION_PATTERN))]
        timeout: String,
        /// US dollars that the node may spend, in all of its attempts. Over it, it is stopped.
        max_cost_usd: Num,
        /// Tokens that the node may use, in all of its attempts, cached ones included.
        #[schemars(range(min = 1))]
        max_tokens: Int,
        /// How often the node is tried again when the machine, the provider or a crash ended it. Default: 0. A refused
        /// credential, an unknown model, a verdict or failed work is never tried again.
        #[schemars(range(min = 0, max = 10))]
        retries: Int,
        /// How many more rounds the node gets when its reviewers ask for changes: it goes on from the rejected commit with
        /// their findings, and all of its reviewers look again. Default: 0.
        #[schemars(range(min = 0, max = 10))]
        rework: Int,
        /// `none` cuts the node off from every network. A node may only narrow what the settings allow.
        network: Choice<Network>,
        /// Hosts (and groups of them) that the node narrows its network to, as in `sandbox.allow` of the settings; what its
        /// runner cannot do without is added by itself. A node may only name what the settings allow.
        allow: List,
        /// Whether kew adds to the prompt what a coder must know about its checkout. Default: true.
        brief: bool,
        /// Which files of the checkout are kept beside the log, whether the node passes or fails, as in `coverage/**`: patterns
        /// relative to the checkout, `*` within one name, `**` across folders. Each must match a file, or the node fails.
        artifacts: List,
        /// Lets the node pass although one of its `artifacts` matched nothing. Default: false.
        artifacts_optional: bool,
        /// What is published once the node passed and every reviewer that it waits for, its own included, approved: `none`
        /// (default), `branch`, or `pull-request`, which pushes the branch and opens one.
        publish: Choice<Publish>,
    }
    own {
        /// The task, or for `shell` the script. Exactly one of `prompt` and `prompt_file` is required.
        #[schemars(length(min = 1))]
        prompt: String,
        /// A file with the task: looked for beside the plan first, then from the repository's root.
        #[schemars(length(min = 1))]
        prompt_file: String,
        /// Nodes that must pass first. Their commits, merged, are what this node starts from.
        #[schemars(inner(regex(pattern = ID_PATTERN)), extend("uniqueItems" = true))]
        needs: List,
        /// What the node starts from: `needs` (default), `base`, or the id of one upstream node; `needs` is then order alone.
        #[schemars(regex(pattern = ID_PATTERN))]
        from: String,
        /// Makes the node a reviewer of another: whatever needs that one waits until this one approves.
        #[schemars(regex(pattern = ID_PATTERN))]
        reviews: String,
    }
}

/// `network` of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// No network at all.
    None,
}

impl Word for Network {
    const WORDS: &'static [(&'static str, Self)] = &[("none", Self::None)];
    const REFUSED: &'static [(&'static str, &'static str)] = &[
        ("open", "a node may only narrow its network; what is open is for the settings to say"),
        ("allowlist", "a node may only narrow its network; leave the key out to get what the settings allow"),
    ];
}

impl Word for VerdictBy {
    const WORDS: &'static [(&'static str, Self)] = &[("file", Self::File), ("exit", Self::Exit)];
}

impl Word for Commits {
    const WORDS: &'static [(&'static str, Self)] =
        &[("required", Self::Required), ("optional", Self::Optional), ("forbidden", Self::Forbidden)];
}

impl Word for Publish {
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("branch", Self::Branch), ("pull-request", Self::PullRequest)];
}

/// `[nodes]`: ids and nodes in file order.
#[derive(Debug, Clone, Default)]
pub struct RawNodes(pub Vec<RawEntry>);

/// One node under its id.
#[derive(Debug, Clone)]
pub struct RawEntry {
    /// The id as written.
    pub id: String,
    /// The node; its key is the id's place.
    pub node: At<RawNode>,
}

impl Read for RawNodes {
    fn read(value: &Spanned<DeValue<'_>>, path: &Path<'_>, reader: &mut Reader) -> Option<Self> {
        let table = reader.table(value, path)?;
        let mut nodes = Vec::with_capacity(table.len());
        for (id, node) in table {
            let name = id.get_ref();
            let read = RawNode::read(node, &path.join(name), reader);
            // Still a node that others may name, but nothing more is asked of it.
            let value =
                read.unwrap_or_else(|| RawNode { unread: RawNode::KEYS.to_vec(), ..RawNode::default() });
            let node = At { value, key: id.span().into(), span: node.span().into() };
            nodes.push(RawEntry { id: name.to_string(), node });
        }
        // A table that was opened twice has moved; places have not.
        nodes.sort_by_key(|entry: &RawEntry| entry.node.key.start);
        Some(Self(nodes))
    }
}

impl JsonSchema for RawNodes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RawNodes".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "minProperties": 1,
            "patternProperties": { (ID_PATTERN): generator.subschema_for::<RawNode>() },
            "additionalProperties": false,
        })
    }
}

/// Reads a plan's text. Problems of syntax hide parts of the text, so [`Parsed::whole`] tells whether the rest can be judged.
pub fn parse(text: &str) -> Parsed {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader::default();
    let whole = reader.syntax(text, table.get_ref(), &errors);
    let root = Spanned::new(table.span(), DeValue::Table(table.into_inner()));
    let plan = RawPlan::read(&root, &Path::ROOT, &mut reader).unwrap_or_default();
    let problems = reader.finish(text);
    Parsed { plan, problems, whole }
}

/// What [`parse`] found.
#[derive(Debug)]
pub struct Parsed {
    /// What could be read.
    pub plan: RawPlan,
    /// What could not.
    pub problems: Vec<Problem>,
    /// Nothing of the text was lost to an error of syntax.
    pub whole: bool,
}
