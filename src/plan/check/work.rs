//! Who does a node's work: runner, model, toolchain, image.
//!
//! An inherited value that does not fit is a problem of the defaults' line, told once for all nodes that inherit it; but
//! a default model that a plain job has no use for is simply not taken.

use std::collections::HashMap;

use super::{Checker, Setting, setting};
use crate::{
    plan::{
        error::{Code, Problem, Span},
        raw::RawEntry,
        world::{ImageGap, Metering, RunnerFacts, World},
    },
    text::list,
};

/// The world's answers so far: each question is asked once.
pub(super) struct Asked<'p> {
    pub world: &'p dyn World,
    runners: HashMap<&'p str, Option<RunnerFacts>>,
    routes: HashMap<(&'p str, &'p str), Result<(), String>>,
    images: HashMap<(&'p str, Option<&'p str>), Result<(), ImageGap>>,
}

impl<'p> Asked<'p> {
    pub fn new(world: &'p dyn World) -> Self {
        Self { world, runners: HashMap::new(), routes: HashMap::new(), images: HashMap::new() }
    }
}

/// A node's runner and what it takes.
pub(super) struct Work {
    pub runner: String,
    pub agent: bool,
    pub model: Option<String>,
    pub toolchain: Option<String>,
    pub metering: Metering,
}

impl<'p> Checker<'p> {
    /// `None` if the runner is not known. Other problems leave the rest usable for further checks.
    pub(super) fn work(&mut self, entry: &'p RawEntry) -> Option<Work> {
        let raw = &entry.node.value;
        let defaults = self.defaults;
        let Some(runner) = setting(&raw.runner, &defaults.runner) else {
            if !raw.unread.contains(&"runner") && !defaults.unread.contains(&"runner") {
                let known = list(self.asked.world.runners(), "or");
                self.findings.share(&entry.id, "", "", || {
                    Problem::new(Code::MissingRunner, entry.node.key, "no runner for")
                        .help(format!("set `runner` in the node or in `[defaults]`: {known}"))
                });
            }
            return None;
        };
        let facts = self.facts(entry, &runner)?;
        let model = self.model(entry, &runner, &facts);
        let toolchain = setting(&raw.toolchain, &defaults.toolchain);
        if !self.asked.world.contained() {
            let network = setting(&raw.network, &defaults.network).map(|network| network.at.span);
            let toolchain = toolchain.as_ref().map(|toolchain| toolchain.at.span);
            self.only_contained(entry, "`network = \"none\"`", network);
            self.only_contained(entry, "`toolchain`", toolchain);
            let allow = setting(&raw.allow, &defaults.allow).map(|allow| allow.at.span);
            self.only_contained(entry, "`allow`", allow);
        } else if facts.refused.is_none() {
            self.image(entry, &runner, toolchain.as_ref());
        }
        Some(Work {
            runner: runner.at.value.clone(),
            agent: facts.agent,
            metering: facts.metering,
            model,
            toolchain: toolchain.map(|toolchain| toolchain.at.value.clone()),
        })
    }

    fn facts(&mut self, entry: &RawEntry, runner: &Setting<'p, String>) -> Option<RunnerFacts> {
        let name = runner.at.value.as_str();
        let world = self.asked.world;
        let facts = self.asked.runners.entry(name).or_insert_with(|| world.runner(name)).clone();
        let cause = runner.at.span.start.to_string();
        let Some(facts) = facts else {
            let known = world.runners();
            let near = self.findings.near(name, known.iter().map(String::as_str));
            self.findings.share(&entry.id, &cause, "", || {
                Problem::new(Code::UnknownRunner, runner.at.span, format!("unknown runner `{name}` for"))
                    .help(near.unwrap_or_else(|| format!("known runners: {}", list(known, "and"))))
            });
            return None;
        };
        if let Some(why) = &facts.refused {
            let place = if world.contained() { "in a container" } else { "as a host process" };
            self.findings.share(&entry.id, &cause, "", || {
                Problem::new(
                    Code::RefusedRunner,
                    runner.at.span,
                    format!("runner `{name}` cannot run {place}, for"),
                )
                .note(why.clone())
                .help("choose another runner")
            });
        }
        Some(facts)
    }

    fn model(
        &mut self,
        entry: &'p RawEntry,
        runner: &Setting<'p, String>,
        facts: &RunnerFacts,
    ) -> Option<String> {
        let raw = &entry.node.value;
        let name = runner.at.value.as_str();
        if !facts.agent {
            if let Some(model) = &raw.model {
                let message =
                    format!("runner `{name}` takes no model, but one is set on node `{}`", entry.id);
                self.findings.push(Problem::new(Code::ModelOnJob, model.key, message).help("remove `model`"));
            }
            return None;
        }
        let Some(model) = setting(&raw.model, &self.defaults.model) else {
            if !raw.unread.contains(&"model") && !self.defaults.unread.contains(&"model") {
                let cause = runner.at.span.start.to_string();
                self.findings.share(&entry.id, &cause, "", || {
                    Problem::new(
                        Code::MissingModel,
                        runner.at.span,
                        format!("runner `{name}` needs a model for"),
                    )
                    .label("an agent")
                    .help("set `model` in the node or in `[defaults]`")
                });
            }
            return None;
        };
        if !model.inherited {
            self.clean_text(Some(model.at), "model")?;
        }
        let text = model.at.value.as_str();
        let world = self.asked.world;
        let route = self.asked.routes.entry((name, text)).or_insert_with(|| world.route(name, text)).clone();
        if let Err(why) = route {
            let cause = format!("{} {name}", model.at.span.start);
            let own_runner = (model.inherited && !runner.inherited).then_some(runner.at.span);
            self.findings.share(&entry.id, &cause, "", || {
                let message = format!("runner `{name}` cannot route model `{text}` for");
                let problem = Problem::new(Code::UnroutableModel, model.at.span, message).note(why);
                match own_runner {
                    Some(span) => problem
                        .also(span, "this runner inherits it")
                        .help("set a `model` of its own where the runner is set"),
                    None => problem,
                }
            });
        }
        Some(text.to_string())
    }

    fn image(
        &mut self,
        entry: &RawEntry,
        runner: &Setting<'p, String>,
        toolchain: Option<&Setting<'p, String>>,
    ) {
        let name = runner.at.value.as_str();
        let tools = toolchain.map(|toolchain| toolchain.at.value.as_str());
        let world = self.asked.world;
        let image =
            self.asked.images.entry((name, tools)).or_insert_with(|| world.image(name, tools)).clone();
        let tools_span = toolchain.map_or(runner.at.span, |toolchain| toolchain.at.span);
        match image {
            Ok(()) => {}
            Err(ImageGap::Unset { key, settings }) => {
                let tools = tools.map(|tools| format!(" in toolchain `{tools}`")).unwrap_or_default();
                self.findings.share(&entry.id, &key, "", || {
                    let message = format!("runner `{name}` has no image{tools}, needed for");
                    Problem::new(Code::NoImage, runner.at.span, message)
                        .note("kew takes no default image, no other runner's and never the host")
                        .help(format!("set `{key}` in {settings}"))
                });
            }
            Err(ImageGap::UnknownToolchain { known, settings }) => {
                let tools = tools.unwrap_or_default();
                self.unknown_toolchain(entry, tools, tools_span, &known, &settings);
            }
        }
    }

    /// A plan that narrows is not opened: what a host process cannot be given is refused.
    fn only_contained(&mut self, entry: &RawEntry, what: &str, span: Option<Span>) {
        let Some(span) = span else { return };
        self.findings.share(&entry.id, &span.start.to_string(), "", || {
            Problem::new(
                Code::OnlyContained,
                span,
                format!("{what} needs a container, but agents run on the host, in"),
            )
            .note("the settings have `sandbox.enabled = false`")
            .help("remove `sandbox.enabled = false` from your settings, or take the key out of the plan")
        });
    }

    fn unknown_toolchain(
        &mut self,
        entry: &RawEntry,
        name: &str,
        span: Span,
        known: &[String],
        settings: &str,
    ) {
        let near = self.findings.near(name, known.iter().map(String::as_str));
        let known = match known {
            [] => "the settings have none".to_string(),
            known => format!("known toolchains: {}", list(known, "and")),
        };
        let add = format!("{known}; add `sandbox.toolchains.{name}.images.<runner>` in {settings}");
        self.findings.share(&entry.id, &span.start.to_string(), "", || {
            let message = format!("unknown toolchain `{name}` for");
            Problem::new(Code::UnknownToolchain, span, message).help(near.unwrap_or(add))
        });
    }
}
