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

/// Every image that kew knows how to build.
pub const RECIPES: [Recipe; 3] = [
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
    Recipe {
        runner: "claude-code",
        dockerfile: "agent.Dockerfile",
        files: &[
            file!("agent.Dockerfile"),
            file!("image.sh"),
            file!("entrypoint-lib.sh"),
            file!("agent-entrypoint.sh"),
            file!("agent-package.json"),
            file!("agent-package-lock.json"),
            file!("agent-requirements.txt"),
        ],
    },
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
