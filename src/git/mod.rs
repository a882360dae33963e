//! Host git, and what may touch a checkout without git.
//!
//! Host git runs only in repositories that kew made (mirror, quarantine, a checkout before its agent starts) and in the
//! user's own, always by [`argv`]'s clean prefix. It never runs in a checkout that an agent has had: there, only
//! [`beneath`] reads, and a sealed container packs ([`collect`]). Invariant: no object reaches the user's repository that
//! did not come in the collected pack or with the input. Reading order: `base`, `mirror`, `merge`, `checkout`, `collect`, `land`, `publish`.

pub mod access;
pub mod argv;
pub mod artifacts;
pub mod base;
pub mod beneath;
pub mod checkout;
mod closure;
pub mod collect;
pub mod context;
pub mod cover;
pub mod error;
pub mod findings;
pub mod gitname;
pub mod header;
pub mod heads;
pub mod keep;
pub mod land;
pub mod merge;
pub mod mirror;
pub mod policy;
pub mod prompt;
pub mod publish;
mod quarantine;
pub mod recover;
pub mod refs;
pub mod reserved;
pub mod tree;
