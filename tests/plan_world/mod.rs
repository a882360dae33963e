//! A world of plain values for tests of the check: five runners, one toolchain, a few prompt files. No file is read.

use std::collections::BTreeSet;

use camino::{Utf8Path, Utf8PathBuf};
use kew::egress::{self, Host};
use kew::plan::world::{ImageGap, Metering, PromptFault, RunnerFacts, World};

/// `hermes` has no image and an unknown cost, `lemonade` is refused, `rust` is the only toolchain and has images for `shell` and `claude-code`.
pub struct TestWorld;

fn facts(agent: bool, refused: Option<String>, metering: Metering) -> Option<RunnerFacts> {
    Some(RunnerFacts { agent, refused, metering })
}

impl World for TestWorld {
    fn runners(&self) -> Vec<String> {
        ["claude-code", "opencode", "hermes", "lemonade", "shell"].map(String::from).to_vec()
    }

    fn runner(&self, name: &str) -> Option<RunnerFacts> {
        match name {
            "claude-code" => facts(true, None, Metering::AtEnd),
            "opencode" => facts(true, None, Metering::Steps),
            "hermes" => facts(true, None, Metering::Unknown),
            "lemonade" => {
                let why = "it is a local model server and declares no credential for a container".to_string();
                facts(true, Some(why), Metering::Steps)
            }
            "shell" => facts(false, None, Metering::Free),
            _ => None,
        }
    }

    fn route(&self, runner: &str, model: &str) -> Result<(), String> {
        match (runner, model.contains('/')) {
            ("claude-code", true) => Err("it takes Anthropic's own names, as in `claude-sonnet-4-5`".into()),
            ("opencode", false) => {
                Err("it takes `provider/model`, as in `openrouter/anthropic/claude-sonnet-4.5`".into())
            }
            _ => Ok(()),
        }
    }

    fn image(&self, runner: &str, toolchain: Option<&str>) -> Result<(), ImageGap> {
        let settings = || "kew.toml".to_string();
        match (runner, toolchain) {
            ("hermes", None) => {
                Err(ImageGap::Unset { key: "sandbox.images.hermes".into(), settings: settings() })
            }
            (_, None) | ("shell" | "claude-code", Some("rust")) => Ok(()),
            (_, Some("rust")) => Err(ImageGap::Unset {
                key: format!("sandbox.toolchains.rust.images.{runner}"),
                settings: settings(),
            }),
            (_, Some(_)) => {
                Err(ImageGap::UnknownToolchain { known: vec!["rust".into()], settings: settings() })
            }
        }
    }

    fn allowed(&self, runner: &str) -> Option<BTreeSet<Host>> {
        let own = if runner == "claude-code" { "api.anthropic.com" } else { "openrouter.ai" };
        Some(egress::hosts([own, "rust", "npm.acme.example:8443"]).unwrap())
    }

    fn prompt_file(&self, path: &Utf8Path) -> Result<(String, Utf8PathBuf), PromptFault> {
        match path.as_str() {
            "prompts/good.md" => Ok(("Do it well.\n".into(), "plans/prompts/good.md".into())),
            "prompts/empty.md" => Ok((" \n".into(), "plans/prompts/empty.md".into())),
            "../../etc/passwd" => Err(PromptFault::OutsideRepository),
            "prompts/link.md" => Err(PromptFault::Link),
            "prompts" => Err(PromptFault::NotAFile),
            "prompts/picture.png" => Err(PromptFault::NotText),
            "prompts/huge.md" => Err(PromptFault::TooLarge { limit: 1024 * 1024 }),
            "prompts/locked.md" => Err(PromptFault::Unreadable { reason: "permission denied".into() }),
            other => Err(PromptFault::Missing { looked: vec![format!("plans/{other}"), other.to_string()] }),
        }
    }
}
