//! `kew sandbox doctor`: the checks of `docker::doctor` on what the settings map, one line for each.
//!
//! It starts containers, but no agent, and gives none of them a credential. Of credentials it tells names only.

use std::thread;

use serde::Serialize;

use super::{
    DoctorArgs, Format,
    preflight::{self, CredentialState},
    put,
    runners::json_line,
    sandbox::{self, trial_parent},
};
use crate::{
    config::Settings,
    docker::{
        client::{Docker, Engine},
        doctor::{self, Check, Level},
        trial::Trial,
    },
    error::{Failure, exit},
    report::ci::defanged,
    run::fresh,
    runners,
    text::inert,
};

/// How many images are looked at at once.
const AT_ONCE: usize = 3;

/// An image that the settings map a runner to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The runner.
    pub runner: String,
    /// In which toolchain.
    pub toolchain: Option<String>,
    /// The image.
    pub image: String,
}

/// A check with what it is about; `v` is the version of this object.
#[derive(Debug, Serialize)]
pub struct Finding {
    v: u32,
    subject: String,
    #[serde(flatten)]
    check: Check,
}

/// Looks at everything; exit code 4 if a run would fail.
pub fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    let settings = sandbox::settings(args.repo.repo.as_deref())?;
    let mut targets = targets(&settings);
    if let Some(runner) = &args.runner {
        let known = super::runners::find(&settings.registry, runner)?;
        targets.retain(|target| target.runner == known.name());
    }
    if targets.is_empty() {
        let which = args.runner.as_deref().unwrap_or("<runner>");
        return Err(Failure::usage(match &args.runner {
            Some(runner) => format!("the settings map `{runner}` to no image"),
            None => "the settings map no runner to an image".to_owned(),
        })
        .help(format!(
            "`kew sandbox up {}`, or set `sandbox.images.{which}`",
            args.runner.as_deref().unwrap_or("")
        )));
    }
    let (docker, _config) = sandbox::engine()?;
    let engine = docker.engine()?;
    let mut findings = of_engine(&docker, &engine, &settings);
    findings.extend(of_images(&docker, &engine, &settings, &targets));
    for finding in &findings {
        put(&finding.line(args.format));
    }
    Ok(if failed(&findings) { exit::INFRASTRUCTURE } else { exit::PASSED })
}

/// Every image of the settings.
pub fn targets(settings: &Settings) -> Vec<Target> {
    let target = |runner: &String, toolchain: Option<&String>, image: &String| Target {
        runner: runner.clone(),
        toolchain: toolchain.cloned(),
        image: image.clone(),
    };
    let plain = settings.sandbox.images.iter().map(|(runner, image)| target(runner, None, image));
    let of = |(name, toolchain): (&String, &crate::config::Toolchain)| {
        let images = toolchain.images.iter();
        images.map(|(runner, image)| target(runner, Some(name), image)).collect::<Vec<_>>()
    };
    plain.chain(settings.sandbox.toolchains.iter().flat_map(of)).collect()
}

/// Whether a run would fail.
pub fn failed(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.check.level == Level::Fail)
}

/// What all runners share.
pub fn of_engine(docker: &Docker, engine: &Engine, settings: &Settings) -> Vec<Finding> {
    let runc = doctor::runc(docker).unwrap_or_else(|error| {
        Check::warn("runc", error.to_string(), "see that it is at least 1.2.8, 1.3.3 or 1.4.0")
    });
    let checks = vec![
        Check::ok("version", engine.version.clone()),
        doctor::cpus(engine, settings.sandbox.cpus),
        runc,
        doctor::network(docker, settings.sandbox.network),
        image_id(docker, "collector", &settings.sandbox.collector, "kew sandbox build collector").0,
    ];
    about("engine", checks)
}

/// Each image, in the box; some at once.
pub fn of_images(docker: &Docker, engine: &Engine, settings: &Settings, targets: &[Target]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for some in targets.chunks(AT_ONCE) {
        thread::scope(|scope| {
            let looking: Vec<_> = some
                .iter()
                .map(|target| scope.spawn(|| of_image(docker, engine, settings, target)))
                .collect();
            for (looking, target) in looking.into_iter().zip(some) {
                let checks = looking.join().unwrap_or_else(|_| {
                    vec![Check::fail("box", "kew itself failed; its message is above", "report it")]
                });
                findings.extend(about(&target.subject(), checks));
            }
        });
    }
    findings
}

fn of_image(docker: &Docker, engine: &Engine, settings: &Settings, target: &Target) -> Vec<Check> {
    let Some(runner) = settings.registry.find(&target.runner) else {
        return vec![Check::warn("runner", "there is no such runner", "`kew runners` lists them")];
    };
    if let Some(refused) = runner.refusal() {
        return vec![Check::warn("runner", format!("refused: it {refused}"), "choose another runner")];
    }
    let remedy = format!("kew sandbox build {}", target.runner);
    let (check, id) = image_id(docker, "image", &target.image, &remedy);
    let mut checks = vec![check];
    if let Some(id) = id {
        let trial = Trial {
            docker,
            limits: &settings.sandbox.limits(Some(engine.cpus).filter(|cpus| *cpus > 0)),
            network: settings.sandbox.network,
            address: None,
            image: &id,
            parent: &trial_parent(settings),
        };
        let name = || format!("kew-doctor-{}", fresh(6));
        checks.extend(doctor::image(&trial, name, runner.program(), &runner.container_args(None)));
    }
    checks.extend(credentials(runner, settings));
    checks
}

/// Names and whether they are set; a run asks again, so nothing here is fatal.
fn credentials(runner: &dyn runners::Runner, settings: &Settings) -> Option<Check> {
    let states = preflight::credential_states(runner, settings, |name| std::env::var_os(name));
    if states.is_empty() {
        return None;
    }
    let told = states.iter().map(|(name, state)| {
        let state = match state {
            CredentialState::Set => "set",
            CredentialState::Empty => "set but empty",
            CredentialState::Unset => "unset",
        };
        format!("{name} {state}")
    });
    let told = told.collect::<Vec<_>>().join(", ");
    let advice = runner.credential_advice().unwrap_or("export one of the names with its value");
    Some(if preflight::credential_gap(&states).is_some() {
        Check::warn("credentials", told, advice)
    } else if let Some(choice) = preflight::credential_choice(runner, &states) {
        Check::warn("credentials", told, choice)
    } else {
        Check::ok("credentials", told)
    })
}

fn image_id(docker: &Docker, check: &'static str, image: &str, build: &str) -> (Check, Option<String>) {
    match docker.image_id(image) {
        Ok(Some(id)) => (Check::ok(check, format!("{image} is {id}")), Some(id)),
        Ok(None) => {
            let says = format!("no such image on the engine: `{image}`");
            (Check::fail(check, says, format!("`{build}`; kew never pulls")), None)
        }
        Err(error) => (Check::fail(check, error.to_string(), "see `docker images`"), None),
    }
}

fn about(subject: &str, checks: Vec<Check>) -> Vec<Finding> {
    checks.into_iter().map(|check| Finding { v: 1, subject: subject.to_owned(), check }).collect()
}

impl Target {
    fn subject(&self) -> String {
        match &self.toolchain {
            None => self.runner.clone(),
            Some(toolchain) => format!("{} (toolchain {toolchain})", self.runner),
        }
    }
}

impl Finding {
    /// One line, with its newline.
    pub fn line(&self, format: Format) -> String {
        if format == Format::Json {
            return json_line(self);
        }
        let Check { check, level, says, remedy } = &self.check;
        let level = match level {
            Level::Ok => "ok",
            Level::Warn => "warn",
            Level::Fail => "FAIL",
        };
        let mut line = format!("{level:<5}{}: {check}: {}", inert(&self.subject), inert(says));
        if let Some(remedy) = remedy {
            line.push_str(&format!("; {}", inert(remedy)));
        }
        format!("{}\n", defanged(&line))
    }
}
