//! The recipes of kew's own images, carried in the binary, so that an installed kew can build what it needs.
//!
//! The same files as in `docker/`; a build context holds one image's files and nothing of the user's.

use std::{fs, io};

use camino::Utf8Path;

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
pub const RECIPES: [Recipe; 6] = [
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
    /// Writes the build context into a folder.
    pub fn write(&self, folder: &Utf8Path) -> io::Result<()> {
        self.files.iter().try_for_each(|(name, text)| fs::write(folder.join(name), text))
    }
}
