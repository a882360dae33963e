//! What a plan is checked against: the runners of this binary, the images of the settings, the files of the repository.

use std::{
    cell::RefCell,
    collections::BTreeSet,
    fs,
    io::{self, Read as _},
};

use camino::{Utf8Component, Utf8Path, Utf8PathBuf};

use crate::{
    config::{REPOSITORY_FILE, Settings},
    docker::argv::Network,
    egress::Host,
    plan::world::{ImageGap, PromptFault, RunnerFacts, World},
    record::FrozenPrompt,
    runners::Kind,
};

/// The longest prompt file.
const PROMPT_CAP: u64 = 1 << 20;

/// The world of one plan.
pub struct Files<'a> {
    /// The settings.
    pub settings: &'a Settings,
    /// The repository's work tree; where there is none, the plan's folder.
    pub root: Utf8PathBuf,
    /// The plan's folder, relative to the root.
    pub plan_dir: Utf8PathBuf,
    /// Where the prompt files come from.
    prompts: Prompts,
}

/// Where prompt files come from.
enum Prompts {
    /// The repository; what was read is kept here.
    Read(RefCell<Vec<FrozenPrompt>>),
    /// The record of a run.
    Frozen(Vec<FrozenPrompt>),
}

impl<'a> Files<'a> {
    /// The world of the plan at `plan`, in the repository at `work_tree`.
    pub fn new(settings: &'a Settings, work_tree: Option<&Utf8Path>, plan: &Utf8Path) -> io::Result<Self> {
        let dir = match plan.parent() {
            Some(dir) if !dir.as_str().is_empty() => dir.to_owned(),
            _ => Utf8PathBuf::from("."),
        };
        let dir = dir.canonicalize_utf8()?;
        let root = match work_tree {
            Some(root) => root.canonicalize_utf8()?,
            None => dir.clone(),
        };
        let plan_dir = dir.strip_prefix(&root).map(Utf8Path::to_owned).unwrap_or_default();
        Ok(Self { settings, root, plan_dir, prompts: Prompts::Read(RefCell::default()) })
    }
}

impl<'a> Files<'a> {
    /// The world of a run that goes on: its prompt files as they were.
    pub fn frozen(settings: &'a Settings, prompts: Vec<FrozenPrompt>) -> Self {
        Self {
            settings,
            root: Utf8PathBuf::new(),
            plan_dir: Utf8PathBuf::new(),
            prompts: Prompts::Frozen(prompts),
        }
    }

    /// The prompt files that the check asked for and got.
    pub fn prompts(self) -> Vec<FrozenPrompt> {
        match self.prompts {
            Prompts::Read(read) => read.into_inner(),
            Prompts::Frozen(prompts) => prompts,
        }
    }
}

impl World for Files<'_> {
    fn runners(&self) -> Vec<String> {
        self.settings.registry.all().iter().map(|runner| runner.name().to_owned()).collect()
    }

    fn runner(&self, name: &str) -> Option<RunnerFacts> {
        let runner = self.settings.registry.find(name)?;
        let refused = match self.contained() {
            true => runner.refusal().map(str::to_owned),
            // A model changes nothing about whether there is a command.
            false => runner.build_command(None).err().map(|why| format!("it {why}")),
        };
        Some(RunnerFacts { agent: runner.kind() == Kind::Agent, refused, metering: runner.metering() })
    }

    fn route(&self, runner: &str, model: &str) -> Result<(), String> {
        self.settings.registry.find(runner).map_or(Ok(()), |runner| runner.route(model))
    }

    fn image(&self, runner: &str, toolchain: Option<&str>) -> Result<(), ImageGap> {
        let sandbox = &self.settings.sandbox;
        if sandbox.image(runner, toolchain).is_some() {
            return Ok(());
        }
        let settings = REPOSITORY_FILE.to_owned();
        match toolchain {
            None => Err(ImageGap::Unset { key: format!("sandbox.images.{runner}"), settings }),
            Some(name) if sandbox.toolchains.contains_key(name) => {
                Err(ImageGap::Unset { key: format!("sandbox.toolchains.{name}.images.{runner}"), settings })
            }
            Some(_) => Err(ImageGap::UnknownToolchain {
                known: sandbox.toolchains.keys().cloned().collect(),
                settings,
            }),
        }
    }

    fn allowed(&self, runner: &str) -> Option<BTreeSet<Host>> {
        let sandbox = &self.settings.sandbox;
        let runner = self.settings.registry.find(runner)?;
        (sandbox.enabled && sandbox.network == Network::Allowlist).then(|| sandbox.hosts(runner))
    }

    fn contained(&self) -> bool {
        self.settings.sandbox.enabled
    }

    fn prompt_file(&self, path: &Utf8Path) -> Result<(String, Utf8PathBuf), PromptFault> {
        let read_before = match &self.prompts {
            Prompts::Frozen(prompts) => {
                let found = prompts.iter().find(|prompt| prompt.asked == path.as_str());
                let found = found.map(|prompt| (prompt.text.clone(), prompt.path.clone().into()));
                return found
                    .ok_or(PromptFault::Missing { looked: vec!["the record of the run".to_owned()] });
            }
            Prompts::Read(read) => read,
        };
        if path.is_absolute() {
            return Err(PromptFault::OutsideRepository);
        }
        let mut looked = Vec::new();
        for candidate in [self.plan_dir.join(path), path.to_owned()] {
            let relative = plain(&candidate)?;
            if looked.contains(&relative.to_string()) {
                continue;
            }
            match read(&self.root, &relative) {
                Ok(text) => {
                    let (asked, path) = (path.to_string(), relative.to_string());
                    read_before.borrow_mut().push(FrozenPrompt { asked, path, text: text.clone() });
                    return Ok((text, relative));
                }
                Err(None) => looked.push(relative.into_string()),
                Err(Some(fault)) => return Err(fault),
            }
        }
        Err(PromptFault::Missing { looked })
    }
}

/// The path without `.` and `..`; one that leaves the repository is refused before anything is opened.
fn plain(path: &Utf8Path) -> Result<Utf8PathBuf, PromptFault> {
    let mut plain = Utf8PathBuf::new();
    for part in path.components() {
        match part {
            Utf8Component::CurDir => {}
            Utf8Component::Normal(name) => plain.push(name),
            Utf8Component::ParentDir if plain.pop() => {}
            _ => return Err(PromptFault::OutsideRepository),
        }
    }
    Ok(plain)
}

/// Reads a file below the root without following a link anywhere. `Err(None)` = it is not there.
fn read(root: &Utf8Path, relative: &Utf8Path) -> Result<String, Option<PromptFault>> {
    use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
    let unreadable = |error: io::Error| Some(PromptFault::Unreadable { reason: error.to_string() });
    let dir = fs::File::open(root).map_err(unreadable)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let file = match openat2(&dir, relative.as_str(), flags, Mode::empty(), resolve) {
        Ok(file) => fs::File::from(file),
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => return Err(None),
        Err(rustix::io::Errno::LOOP) => return Err(Some(PromptFault::Link)),
        Err(rustix::io::Errno::XDEV) => return Err(Some(PromptFault::OutsideRepository)),
        Err(error) => return Err(unreadable(error.into())),
    };
    let meta = file.metadata().map_err(unreadable)?;
    if !meta.is_file() {
        return Err(Some(PromptFault::NotAFile));
    }
    let mut bytes = Vec::new();
    file.take(PROMPT_CAP + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > PROMPT_CAP {
        return Err(Some(PromptFault::TooLarge { limit: PROMPT_CAP }));
    }
    String::from_utf8(bytes).map_err(|_| Some(PromptFault::NotText))
}
