//! `kew runners`: what each runner is, by this binary and these settings; and what its parser makes of a recorded stream.
//!
//! No engine, no keys, no writing. Text of a recording is agent text: it never starts a line and is made inert.

use std::{
    fmt::Write as _,
    fs::File,
    io::{self, Read},
};

use serde::Serialize;

use super::{Format, ParseArgs, RunnersArgs, put, say, setting};
use crate::{
    config::Settings,
    error::Failure,
    report::{ci::defanged, figures, jsonl::escaped},
    runners::{
        Kind, Registry, Runner,
        recording::{LineCounts, OddLine, Reading, Recording},
    },
    stream::{Account, CostSource, Tokens},
    text::{self, inert},
};

/// Lists all runners.
pub fn list(args: &RunnersArgs) -> Result<u8, Failure> {
    let settings = setting::settings(setting::work_tree(args.repo.repo.as_deref())?.as_deref())?;
    let known: Vec<Known> =
        settings.registry.all().iter().map(|runner| Known::of(*runner, &settings)).collect();
    match args.format {
        Format::Json => known.iter().for_each(|known| put(&json_line(known))),
        Format::Human => {
            if !settings.sandbox.enabled {
                say(&format!("warning: {}", super::run::host::LOUD));
            }
            put(&known.iter().map(Known::human).collect::<Vec<_>>().join("\n"));
        }
    }
    Ok(0)
}

/// One runner; `v` is the version of this object.
#[derive(Serialize)]
struct Known {
    v: u32,
    runner: &'static str,
    kind: &'static str,
    credentials: Vec<&'static str>,
    /// The one that the settings choose.
    chosen: Option<String>,
    refused: Option<&'static str>,
    models: &'static str,
    /// Hosts that its agent cannot do without.
    hosts: Vec<&'static str>,
    /// Program and arguments in host mode.
    host_command: Option<Vec<String>>,
    image: Option<String>,
    toolchains: Vec<Mapped>,
}

/// An image in a toolchain.
#[derive(Serialize)]
struct Mapped {
    toolchain: String,
    image: String,
}

impl Known {
    fn of(runner: &dyn Runner, settings: &Settings) -> Self {
        let sandbox = &settings.sandbox;
        let toolchains = sandbox.toolchains.keys().filter_map(|toolchain| {
            let image = sandbox.image(runner.name(), Some(toolchain))?;
            Some(Mapped { toolchain: toolchain.clone(), image: image.to_owned() })
        });
        Self {
            v: 1,
            runner: runner.name(),
            kind: match runner.kind() {
                Kind::Agent => "agent",
                Kind::Job => "job",
            },
            credentials: runner.required_credentials().to_vec(),
            chosen: settings.credentials.get(runner.name()).cloned(),
            refused: runner.refusal(),
            models: runner.model_shape(),
            hosts: runner.hosts().to_vec(),
            host_command: runner.build_command(Some("{model}")).ok().map(|command| {
                let args = command.argv("{session}");
                std::iter::once(command.program).chain(args).collect()
            }),
            image: sandbox.image(runner.name(), None).map(str::to_owned),
            toolchains: toolchains.collect(),
        }
    }

    fn human(&self) -> String {
        let mut out = format!("{}: {}\n", self.runner, self.kind);
        if let Some(refused) = self.refused {
            let _ = writeln!(out, "  {:<12}refused: it {refused}", "contained");
            return out;
        }
        let credentials = match (self.credentials.as_slice(), &self.chosen) {
            ([], _) => "needs none".to_owned(),
            (_, Some(chosen)) => format!("{chosen} (chosen in the settings)"),
            ([only], None) => (*only).to_owned(),
            (names, None) => format!("one of {}; the first that is set is used", names.join(", ")),
        };
        let _ = writeln!(out, "  {:<12}{credentials}", "credentials");
        let _ = writeln!(out, "  {:<12}yes", "contained");
        let _ = writeln!(out, "  {:<12}{}", "models", self.models);
        let hosts = if self.hosts.is_empty() { "none".to_owned() } else { self.hosts.join(", ") };
        let _ = writeln!(out, "  {:<12}{hosts}", "hosts");
        let _ = writeln!(out, "  {:<12}{}", "image", inert(self.image.as_deref().unwrap_or("no image")));
        for mapped in &self.toolchains {
            let _ = writeln!(
                out,
                "  {:<12}{} (toolchain {})",
                "",
                inert(&mapped.image),
                inert(&mapped.toolchain)
            );
        }
        out
    }
}

/// The runner of that name, or what is there instead.
pub fn find(registry: &Registry, name: &str) -> Result<&'static dyn Runner, Failure> {
    registry.find(name).ok_or_else(|| {
        let names = registry.all().iter().map(|runner| runner.name());
        let guess = text::did_you_mean(name, names.clone());
        let guess = guess.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default();
        Failure::usage(format!("unknown runner `{}`{guess}", name.escape_default()))
            .help(format!("there are {}", text::list(names, "and")))
    })
}

/// Reads a recorded stream.
pub fn parse(args: &ParseArgs) -> Result<u8, Failure> {
    let settings = setting::settings(setting::work_tree(None)?.as_deref())?;
    let runner = find(&settings.registry, &args.runner)?;
    if let Some(refused) = runner.refusal() {
        return Err(Failure::usage(format!(
            "runner `{}` has no vocabulary here: it {refused}",
            runner.name()
        )));
    }
    let name = args.file.as_ref().filter(|file| file.as_str() != "-");
    let input: Result<Box<dyn Read>, io::Error> = match name {
        Some(file) => File::open(file).map(|file| Box::new(file) as Box<dyn Read>),
        None => Ok(Box::new(io::stdin().lock())),
    };
    let reading = input.and_then(|input| read(runner, input)).map_err(|error| {
        let name = name.map_or("stdin".to_owned(), |file| format!("`{file}`"));
        Failure::usage(format!("{name} could not be read: {error}"))
    })?;
    let found = Found::of(runner, args.exit, reading);
    put(&match args.format {
        Format::Human => found.human(),
        Format::Json => json_line(&found),
    });
    Ok(0)
}

fn read(runner: &'static dyn Runner, mut input: impl Read) -> io::Result<Reading> {
    let mut recording = Recording::new(runner);
    let mut chunk = vec![0; 64 * 1024];
    loop {
        match input.read(&mut chunk) {
            Ok(0) => return Ok(recording.finish()),
            Ok(length) => recording.feed(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// What a recording came to; `v` is the version of this object. Null is unknown.
#[derive(Serialize)]
struct Found {
    v: u32,
    runner: &'static str,
    session: Option<String>,
    model: Option<String>,
    tokens: Option<Tokens>,
    cost_usd: Option<f64>,
    cost_source: &'static str,
    outcome: &'static str,
    reason: Option<String>,
    exit: i32,
    lines: LineCounts,
    silent: std::collections::BTreeMap<String, u64>,
    not_understood: Vec<OddLine>,
}

/// What it cost, and who says so.
fn cost(runner: &dyn Runner, account: &Account) -> (Option<f64>, &'static str) {
    if runner.free() {
        return (Some(0.0), CostSource::Free.word());
    }
    (account.cost_usd(), account.cost_source().word())
}

impl Found {
    fn of(runner: &dyn Runner, exit: i32, reading: Reading) -> Self {
        let outcome = reading.outcome(exit);
        let (cost_usd, cost_source) = cost(runner, &reading.account);
        Self {
            v: 1,
            runner: runner.name(),
            tokens: reading.account.tokens(),
            cost_usd,
            cost_source,
            session: reading.account.session,
            model: reading.account.model,
            outcome: outcome.kind.word(),
            reason: outcome.reason,
            exit,
            lines: reading.counts,
            silent: reading.silent,
            not_understood: reading.odd,
        }
    }

    fn human(&self) -> String {
        let or_unknown = |value: &Option<String>| {
            value.as_deref().map_or(figures::UNKNOWN.to_owned(), |v| inert(v).into())
        };
        let tokens = self.tokens.map_or(figures::UNKNOWN.to_owned(), |t| {
            format!(
                "{} in, {} cache read, {} cache write, {} out",
                t.input, t.cache_read, t.cache_write, t.output
            )
        });
        let cost = match self.cost_usd {
            Some(0.0) => "$0".to_owned(),
            Some(usd) => format!("${usd} ({})", self.cost_source),
            None => figures::UNKNOWN.to_owned(),
        };
        let mut rows = vec![
            ("runner", self.runner.to_owned()),
            ("session", or_unknown(&self.session)),
            ("model", or_unknown(&self.model)),
            ("tokens", tokens),
            ("cost", cost),
            ("exit", self.exit.to_string()),
            ("outcome", self.outcome.to_owned()),
        ];
        rows.extend(self.reason.as_deref().map(|reason| ("reason", inert(reason).into_owned())));
        rows.push(("lines", self.lines_told()));
        rows.extend(
            self.silent.iter().map(|(kind, count)| ("  silent", format!("{count} × {}", inert(kind)))),
        );
        rows.extend(self.not_understood.iter().map(|odd| {
            let what = if odd.cut { "too long" } else { "no JSON" };
            ("  not", format!("line {}, {what}: {}", odd.line, inert(&odd.text)))
        }));
        let line = |(name, value): (&str, String)| format!("{}\n", defanged(&format!("{name:<10}{value}")));
        rows.into_iter().map(line).collect()
    }

    fn lines_told(&self) -> String {
        let LineCounts { total, understood, silent, no_json, cut, blank } = self.lines;
        let mut told = format!("{total}: {understood} understood");
        for (count, what) in [
            (silent, "JSON without a meaning here"),
            (no_json, "no JSON"),
            (cut, "too long to be read"),
            (blank, "blank"),
        ] {
            if count > 0 {
                let _ = write!(told, ", {count} {what}");
            }
        }
        told
    }
}

/// One object on one line, harmless in a log.
pub fn json_line(value: &impl Serialize) -> String {
    let json = serde_json::to_string(value).expect("texts, numbers and lists are JSON");
    format!("{}\n", escaped(&json))
}
