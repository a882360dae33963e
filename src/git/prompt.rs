//! The prompt's file in a checkout: made before the container starts, removed after it is gone.
//!
//! The repository may have put anything under that name, and after a run so may the agent. Invariant: no link is followed;
//! nothing outside of the checkout is written or removed.

use std::{fs::File, io, io::Write as _};

use camino::Utf8Path;
use rustix::{
    fs::{AtFlags, Mode, OFlags},
    io::Errno,
};

use super::{
    beneath::{ReadFault, open_dir},
    reserved::PROMPT_FILENAME,
};

/// Why the prompt was not written or removed.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The checkout could not be entered.
    #[error("the checkout {0}")]
    Checkout(#[from] ReadFault),
    /// There is a folder by that name.
    #[error("`{PROMPT_FILENAME}` is a folder")]
    Folder,
    /// The system said no.
    #[error("`{PROMPT_FILENAME}`: {0}")]
    Io(#[from] io::Error),
}

/// Writes `text` as a new file with mode 0444, in place of any file, link or pipe by that name.
pub fn write_prompt(checkout: &Utf8Path, text: &str) -> Result<(), PromptError> {
    let dir = open_dir(checkout)?;
    unlink(&dir)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file =
        File::from(rustix::fs::openat(&dir, PROMPT_FILENAME, flags, Mode::from_raw_mode(0o444)).map_err(io)?);
    file.write_all(text.as_bytes())?;
    // The mode above went through the umask.
    rustix::fs::fchmod(&file, Mode::from_raw_mode(0o444)).map_err(io)?;
    Ok(())
}

/// Removes the file; that it is gone already is success.
pub fn remove_prompt(checkout: &Utf8Path) -> Result<(), PromptError> {
    unlink(&open_dir(checkout)?)
}

fn unlink(dir: &impl std::os::fd::AsFd) -> Result<(), PromptError> {
    match rustix::fs::unlinkat(dir, PROMPT_FILENAME, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR) => Err(PromptError::Folder),
        Err(error) => Err(io(error)),
    }
}

fn io(error: Errno) -> PromptError {
    PromptError::Io(error.into())
}
