//! The recipes of kew's own images, carried in the binary, so that an installed kew can build what it needs.
//!
//! The same files as in `docker/`; a build context holds one image's files and nothing of the user's.

use std::{fs, io};

use camino::Utf8Path;

use crate::digest::sha256_hex;

/// The label that says what an image was made of.
pub const INPUTS_LABEL: &str = "kew.inputs";

/// One image that kew knows how to build.
#[derive(Debug)]
pub struct Recipe {
    /// The runner that it is for, or `collector`.
    pub runner: &'static str,
    /// The Dockerfile's name.
    pub dockerfile: &'static str,
    files: &'static [(&'static str, &'static str)],
}

/// A file of `docker/` with its name.
macro_rules! file {
    ($name:literal) => {
        ($name, include_str!(concat!("../../docker/", $name)))
    };
}

/// The files of an agent's image: its own, and those that all of them share.
macro_rules! agent {
    ($runner:literal, $short:literal, [$($own:literal),*]) => {
        Recipe {
            runner: $runner,
            dockerfile: concat!($short, ".Dockerfile"),
            files: &[
                file!("image.sh"),
                file!("fetch.sh"),
                file!("tools-requirements.txt"),
                file!("entrypoint-lib.sh"),
                (concat!($short, ".Dockerfile"), include_str!(concat!("../../docker/", $short, ".Dockerfile"))),
                (
                    concat!($short, "-entrypoint.sh"),
                    include_str!(concat!("../../docker/", $short, "-entrypoint.sh")),
                ),
                $(file!($own)),*
            ],
        }
    };
}

/// Every image that kew knows how to build.
pub const RECIPES: [Recipe; 7] = [
    Recipe {
        runner: "gateway",
        dockerfile: "gateway.Dockerfile",
        files: &[
            file!("gateway.Dockerfile"),
            file!("gateway-install.sh"),
            file!("gateway-entrypoint.sh"),
            file!("gateway-control.pl"),
            file!("gateway-firewall.sh"),
            file!("image.sh"),
            file!("entrypoint-lib.sh"),
        ],
    },
    Recipe {
        runner: "collector",
        dockerfile: "collector.Dockerfile",
        files: &[file!("collector.Dockerfile"), file!("image.sh"), file!("entrypoint-lib.sh")],
    },
    Recipe {
        runner: "shell",
        dockerfile: "shell.Dockerfile",
        files: &[
            file!("shell.Dockerfile"),
            file!("image.sh"),
            file!("entrypoint-lib.sh"),
            file!("shell-entrypoint.sh"),
            file!("shell-events.pl"),
        ],
    },
    agent!("claude-code", "agent", ["agent-package.json", "agent-package-lock.json"]),
    agent!("opencode", "opencode", ["opencode-package.json", "opencode-package-lock.json"]),
    agent!("pi", "pi", ["pi-package.json", "pi-package-lock.json"]),
    agent!("hermes", "hermes", ["hermes-requirements.txt", "hermes-oneshot.py"]),
];

/// The recipe for a runner.
pub fn find(runner: &str) -> Option<&'static Recipe> {
    RECIPES.iter().find(|recipe| recipe.runner == runner)
}

impl Recipe {
    /// The name that the image gets where the settings give none.
    pub fn image(&self) -> String {
        format!("kew-{}:latest", self.short())
    }

    /// The image's name without `kew-`.
    pub fn short(&self) -> &'static str {
        self.dockerfile.trim_end_matches(".Dockerfile")
    }

    /// The base image that the Dockerfile pins.
    pub fn pinned_base(&self) -> &'static str {
        let (_, text) = self
            .files
            .iter()
            .find(|(name, _)| *name == self.dockerfile)
            .expect("a recipe has its Dockerfile");
        let line = text.lines().find_map(|line| line.strip_prefix("ARG BASE_IMAGE="));
        line.expect("each Dockerfile pins its base").trim()
    }

    /// What the image is made of, as the label [`INPUTS_LABEL`] says it: SHA-256 over the base image's id and the digests of
    /// the files, in the form and order of `sha256sum *`. `docker/setup.sh` computes the same.
    pub fn inputs(&self, base_id: &str) -> String {
        let mut files = self.files.to_vec();
        files.sort_unstable();
        let mut text = format!("{base_id}\n");
        for (name, content) in files {
            text.push_str(&format!("{}  {name}\n", sha256_hex(content)));
        }
        sha256_hex(text)
    }

    /// Writes the build context into a folder.
    pub fn write(&self, folder: &Utf8Path) -> io::Result<()> {
        self.files.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_pins_its_base_and_has_a_name_of_its_own() {
        let pinned = RECIPES[0].pinned_base();
        assert!(pinned.starts_with("debian:") && pinned.contains("@sha256:"), "{pinned}");
        for recipe in &RECIPES {
            assert_eq!(recipe.pinned_base(), pinned, "{}", recipe.runner);
            assert_eq!(RECIPES.iter().filter(|other| other.image() == recipe.image()).count(), 1);
        }
        assert_eq!(find("claude-code").map(Recipe::image).as_deref(), Some("kew-agent:latest"));
        assert_eq!(find("collector").map(Recipe::image).as_deref(), Some("kew-collector:latest"));
    }

    #[test]
    fn inputs_change_with_the_base_and_with_the_recipe() {
        let [a, b, ..] = &RECIPES;
        assert_eq!(a.inputs("x"), a.inputs("x"));
        assert_ne!(a.inputs("x"), a.inputs("y"));
        assert_ne!(a.inputs("x"), b.inputs("x"));
    }
}
